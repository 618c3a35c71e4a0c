/**
 * Exact arithmetic on the bits of floats, by fractions of integers. Nothing here is shared with the code under test: a
 * result is the fraction itself, and it is rounded by comparing it with the numbers of the format next to it.
 */

export interface FloatFormat {
  readonly name: string
  readonly exponentBits: bigint
  readonly fractionBits: bigint
  /** The bits of the NaN that arithmetic gives. */
  readonly nan: bigint
}

export const FORMATS = {
  f16: { name: 'f16', exponentBits: 5n, fractionBits: 10n, nan: 0x7fffn },
  bf16: { name: 'bf16', exponentBits: 8n, fractionBits: 7n, nan: 0x7fffn },
  f32: { name: 'f32', exponentBits: 8n, fractionBits: 23n, nan: 0x7fffffffn },
  f64: { name: 'f64', exponentBits: 11n, fractionBits: 52n, nan: 0x7ff8000000000000n },
} as const satisfies Record<string, FloatFormat>

export type FormatName = keyof typeof FORMATS
export type Rounding = 'rn' | 'rz' | 'rm' | 'rp' | 'rna'

/** A float: NaN, or infinity, or numerator / denominator, with the sign of zero. */
export type Value =
  | { readonly kind: 'nan' }
  | { readonly kind: 'infinite'; readonly negative: boolean }
  | { readonly kind: 'finite'; readonly negative: boolean; readonly top: bigint; readonly bottom: bigint }

export const NAN: Value = { kind: 'nan' }
const infinite = (negative: boolean): Value => ({ kind: 'infinite', negative })
/** A fraction; `negative` matters for zero alone. */
export function fraction(top: bigint, bottom: bigint, negativeZero = false): Value {
  return { kind: 'finite', negative: top === 0n ? negativeZero : top < 0n, top, bottom }
}

export const isZero = (value: Value): boolean => value.kind === 'finite' && value.top === 0n

const bias = ({ exponentBits }: FloatFormat): bigint => (1n << (exponentBits - 1n)) - 1n

export function decodeFloat(bits: bigint, format: FloatFormat): Value {
  const { exponentBits, fractionBits } = format
  const part = bits & ((1n << fractionBits) - 1n)
  const exponent = (bits >> fractionBits) & ((1n << exponentBits) - 1n)
  const negative = ((bits >> (fractionBits + exponentBits)) & 1n) === 1n
  if (exponent === (1n << exponentBits) - 1n) return part === 0n ? infinite(negative) : NAN
  const whole = exponent === 0n ? part : part | (1n << fractionBits)
  const power = (exponent === 0n ? 1n : exponent) - bias(format) - fractionBits
  const signed = negative ? -whole : whole
  return power >= 0n ? fraction(signed << power, 1n, negative) : fraction(signed, 1n << -power, negative)
}

/** The bits of the number next to a value in the direction that `rounding` asks for. */
export function encodeFloat(value: Value, format: FloatFormat, rounding: Rounding = 'rn'): bigint {
  const { exponentBits, fractionBits, nan } = format
  if (value.kind === 'nan') return nan
  const signBit = value.negative ? 1n << (exponentBits + fractionBits) : 0n
  const infinity = ((1n << exponentBits) - 1n) << fractionBits
  if (value.kind === 'infinite') return signBit | infinity
  const top = value.top < 0n ? -value.top : value.top
  const { bottom } = value
  if (top === 0n) return signBit
  // Positive floats ascend as their bits do: the largest one that is not above the value is found by halving.
  const compare = (bits: bigint): bigint => {
    const candidate = bits === infinity ? beyond(format) : decodeFloat(bits, format)
    if (candidate.kind !== 'finite') throw new Error('A candidate is finite')
    return candidate.top * bottom - top * candidate.bottom
  }
  let [low, high] = [0n, infinity]
  while (high - low > 1n) {
    const middle = (low + high) >> 1n
    if (compare(middle) <= 0n) low = middle
    else high = middle
  }
  const below = -compare(low)
  if (below === 0n) return signBit | low
  const nearest = (): bigint => {
    const [down, up] = [decodeFloat(low, format), high === infinity ? beyond(format) : decodeFloat(high, format)]
    if (down.kind !== 'finite' || up.kind !== 'finite') return low
    // value - down against up - value, over a common denominator.
    const left = (top * down.bottom - down.top * bottom) * up.bottom
    const right = (up.top * bottom - top * up.bottom) * down.bottom
    if (left === right) return rounding === 'rna' || (low & 1n) === 1n ? high : low
    return left < right ? low : high
  }
  // Above the largest number lies infinity for the nearest only from the middle on.
  if (compare(infinity) <= 0n) {
    const outward = rounding === 'rn' || rounding === 'rna' || rounding === (value.negative ? 'rm' : 'rp')
    return signBit | (outward ? infinity : infinity - 1n)
  }
  if (rounding === 'rn' || rounding === 'rna') return signBit | nearest()
  const outward = rounding === 'rm' ? value.negative : rounding === 'rp' ? !value.negative : false
  return signBit | (outward ? high : low)
}

/** What would come after the largest number. */
function beyond(format: FloatFormat): Value {
  return fraction(1n << (1n << (format.exponentBits - 1n)), 1n)
}

export function add(a: Value, b: Value, rounding: Rounding = 'rn'): Value {
  if (a.kind === 'nan' || b.kind === 'nan') return NAN
  if (a.kind === 'infinite') return b.kind === 'infinite' && a.negative !== b.negative ? NAN : a
  if (b.kind === 'infinite') return b
  const top = a.top * b.bottom + b.top * a.bottom
  return fraction(top, a.bottom * b.bottom, a.negative === b.negative ? a.negative : rounding === 'rm')
}

export function negate(value: Value): Value {
  if (value.kind === 'nan') return NAN
  if (value.kind === 'infinite') return infinite(!value.negative)
  return fraction(-value.top, value.bottom, !value.negative)
}

export function multiply(a: Value, b: Value): Value {
  if (a.kind === 'nan' || b.kind === 'nan') return NAN
  const negative = a.negative !== b.negative
  if (a.kind === 'infinite' || b.kind === 'infinite') return isZero(a) || isZero(b) ? NAN : infinite(negative)
  return fraction(a.top * b.top, a.bottom * b.bottom, negative)
}

export function divide(a: Value, b: Value): Value {
  if (a.kind === 'nan' || b.kind === 'nan') return NAN
  const negative = a.negative !== b.negative
  if (a.kind === 'infinite') return b.kind === 'infinite' ? NAN : infinite(negative)
  if (b.kind === 'infinite') return fraction(0n, 1n, negative)
  if (b.top === 0n) return a.top === 0n ? NAN : infinite(negative)
  const sign = b.top < 0n ? -1n : 1n
  return fraction(a.top * b.bottom * sign, a.bottom * b.top * sign, negative)
}

/** The root to so many bits that no rounding can tell it from the exact one: it is exact, or cut off and a little more. */
export function squareRoot(a: Value): Value {
  if (a.kind === 'nan') return NAN
  if (isZero(a)) return a
  if (a.negative) return NAN
  if (a.kind === 'infinite') return a
  const scale = 1n << 2400n
  const square = (a.top * scale * scale) / a.bottom
  let root = 1n << BigInt((square.toString(2).length + 1) >> 1)
  for (;;) {
    const next = (root + square / root) >> 1n
    if (next >= root) break
    root = next
  }
  const exact = root * root === square && (a.top * scale * scale) % a.bottom === 0n
  return exact ? fraction(root, scale) : fraction(2n * root + 1n, 2n * scale)
}

/** -1, 0 or 1; undefined where one is NaN. */
export function compareValues(a: Value, b: Value): number | undefined {
  if (a.kind === 'nan' || b.kind === 'nan') return undefined
  const rank = (value: Exclude<Value, { kind: 'nan' }>): number =>
    value.kind === 'finite' ? 0 : value.negative ? -1 : 1
  if (a.kind === 'infinite' || b.kind === 'infinite') return Math.sign(rank(a) - rank(b))
  const difference = a.top * b.bottom - b.top * a.bottom
  return difference < 0n ? -1 : difference > 0n ? 1 : 0
}

/** Rounded to an integer. */
export function toInteger(value: Extract<Value, { kind: 'finite' }>, rounding: 'rni' | 'rzi' | 'rmi' | 'rpi'): bigint {
  const { top, bottom } = value
  let floor = top / bottom
  if (top < 0n && floor * bottom !== top) floor -= 1n
  const rest = top - floor * bottom
  if (rest === 0n || rounding === 'rmi') return floor
  if (rounding === 'rpi') return floor + 1n
  if (rounding === 'rzi') return top < 0n ? floor + 1n : floor
  if (2n * rest === bottom) return floor % 2n === 0n ? floor : floor + 1n
  return 2n * rest < bottom ? floor : floor + 1n
}

export function toNumber(value: Value): number {
  if (value.kind === 'nan') return Number.NaN
  if (value.kind === 'infinite') return value.negative ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
  const bits = encodeFloat(value, FORMATS.f64)
  const view = new DataView(new ArrayBuffer(8))
  view.setBigUint64(0, bits)
  return view.getFloat64(0)
}
