/**
 * Arithmetic that WebAssembly does not have, in JavaScript: rounding in a given direction, exact fused multiply-add, small
 * formats of floating point, and instructions that are rare.
 */

/** The ways to round a result: to the nearest (ties to even), to zero, down, up, or to the nearest with ties away from zero. */
export const ROUNDINGS = { rn: 0, rz: 1, rm: 2, rp: 3, rna: 4 } as const

interface Format {
  /** The bits of the significand, with the hidden bit. */
  readonly precision: number
  readonly leastExponent: number
  readonly greatestExponent: number
}

const F32: Format = { precision: 24, leastExponent: -149, greatestExponent: 127 }
/** An f32 with exponents without end: a GPU decides by such a result whether `.ftz` makes it zero. */
const ENDLESS_F32: Format = { precision: 24, leastExponent: -900, greatestExponent: 127 }
const F64: Format = { precision: 53, leastExponent: -1074, greatestExponent: 1023 }
const HALF: Format = { precision: 11, leastExponent: -24, greatestExponent: 15 }
const BF16: Format = { precision: 8, leastExponent: -133, greatestExponent: 127 }
const TF32: Format = { precision: 11, leastExponent: -136, greatestExponent: 127 }

/** A number as integer times a power of two; `sticky` says that it is a little further from zero. */
interface Exact {
  readonly negative: boolean
  readonly magnitude: bigint
  readonly exponent: number
  readonly sticky?: boolean
}

const scratch = new DataView(new ArrayBuffer(8))

function exact(value: number): Exact {
  scratch.setFloat64(0, value)
  const high = scratch.getUint32(0)
  const exponent = (high >>> 20) & 0x7ff
  const fraction = (BigInt(high & 0xfffff) << 32n) | BigInt(scratch.getUint32(4))
  const magnitude = exponent === 0 ? fraction : fraction | (1n << 52n)
  return { negative: high >>> 31 === 1, magnitude, exponent: Math.max(exponent, 1) - 1075 }
}

function bitLength(value: bigint): number {
  return value === 0n ? 0 : value.toString(16).length * 4 - Math.clz32(Number(`0x${value.toString(16)[0]}`)) + 28
}

function rounded({ negative, magnitude, exponent, sticky = false }: Exact, format: Format, mode: number): number {
  const sign = negative ? -1 : 1
  if (magnitude === 0n && !sticky) return negative ? -0 : 0
  const length = bitLength(magnitude)
  const unit = Math.max(exponent + length - format.precision, format.leastExponent)
  const drop = unit - exponent
  let [kept, rest, half] = [magnitude, sticky ? 1 : 0, 2]
  if (drop <= 0) kept = magnitude << BigInt(-drop)
  else {
    const step = BigInt(drop)
    kept = magnitude >> step
    const cut = magnitude - (kept << step)
    const middle = 1n << (step - 1n)
    half = 2
    rest = cut > middle || (cut === middle && sticky) ? 3 : cut === middle ? 2 : cut > 0n || sticky ? 1 : 0
  }
  const up =
    rest !== 0 &&
    (mode === ROUNDINGS.rn
      ? rest > half || (rest === half && (kept & 1n) === 1n)
      : mode === ROUNDINGS.rna
        ? rest >= half
        : mode === ROUNDINGS.rm
          ? negative
          : mode === ROUNDINGS.rp
            ? !negative
            : false)
  if (up) kept += 1n
  if (bitLength(kept) + unit - 1 > format.greatestExponent) {
    const infinite =
      mode === ROUNDINGS.rn || mode === ROUNDINGS.rna || mode === (negative ? ROUNDINGS.rm : ROUNDINGS.rp)
    if (infinite) return sign * Number.POSITIVE_INFINITY
    return sign * scaled((1n << BigInt(format.precision)) - 1n, format.greatestExponent - format.precision + 1)
  }
  return sign * scaled(kept, unit)
}

/** The value of an integer of up to 53 bits times a power of two, exactly. */
function scaled(magnitude: bigint, exponent: number): number {
  const value = Number(magnitude)
  if (exponent < -1022) return value * 2 ** -1022 * 2 ** (exponent + 1022)
  return exponent > 900 ? value * 2 ** 900 * 2 ** (exponent - 900) : value * 2 ** exponent
}

/** The sum of two exact numbers; `zero` is the sign of a zero that comes from different signs. */
function sum(a: Exact, b: Exact, mode: number): Exact {
  const exponent = Math.min(a.exponent, b.exponent)
  const value = ({ negative, magnitude, exponent: own }: Exact): bigint => {
    const moved = magnitude << BigInt(own - exponent)
    return negative ? -moved : moved
  }
  const total = value(a) + value(b)
  if (total === 0n) {
    const negative = a.negative === b.negative ? a.negative : mode === ROUNDINGS.rm
    return { negative, magnitude: 0n, exponent }
  }
  return { negative: total < 0n, magnitude: total < 0n ? -total : total, exponent }
}

function product(a: Exact, b: Exact): Exact {
  return {
    negative: a.negative !== b.negative,
    magnitude: a.magnitude * b.magnitude,
    exponent: a.exponent + b.exponent,
  }
}

const finite = Number.isFinite

function flushed(value: number): number {
  return Math.abs(value) < 2 ** -126 ? value * 0 : value
}

function fma(a: number, b: number, c: number, format: Format, mode: number): number {
  if (!finite(a) || !finite(b) || !finite(c)) return finite(a) && finite(b) ? c + c : a * b + c
  return rounded(sum(product(exact(a), exact(b)), exact(c), mode), format, mode)
}

/** Computes a * b + c, rounded once to the nearest f32. */
export function fma32(a: number, b: number, c: number): number {
  return fma(a, b, c, F32, ROUNDINGS.rn)
}

/** Computes a * b + c in f64, rounded once: by exact sums where they are exact, otherwise by integers. */
export function fma64(a: number, b: number, c: number, mode: number = ROUNDINGS.rn): number {
  if (mode !== ROUNDINGS.rn) return fma(a, b, c, F64, mode)
  const p = a * b
  const large = 1e298
  if (
    !(Math.abs(a) < large && Math.abs(b) < large && Math.abs(c) < large && Math.abs(p) < large && Math.abs(p) > 1e-280)
  ) {
    return a === 0 || b === 0 ? p + c : fma(a, b, c, F64, ROUNDINGS.rn)
  }
  const e = productError(a, b, p)
  const s = p + c
  const back = s - p
  const t = p - (s - back) + (c - back)
  const w = t + e
  if (t === 0 || e === 0 || s + w * 1.0000000000000009 === s + w * 0.9999999999999991) return s + w
  return fma(a, b, c, F64, ROUNDINGS.rn)
}

function high(value: number): number {
  const big = value * 134217729
  return big - (big - value)
}

function add(a: number, b: number, format: Format, mode: number): number {
  if (!finite(a) || !finite(b)) return a + b
  return rounded(sum(exact(a), exact(b), mode), format, mode)
}

function multiply(a: number, b: number, format: Format, mode: number): number {
  if (!finite(a) || !finite(b)) return a * b
  return rounded(product(exact(a), exact(b)), format, mode)
}

function divide(a: number, b: number, format: Format, mode: number): number {
  if (!finite(a) || !finite(b) || a === 0 || b === 0) return a / b
  const [x, y] = [exact(a), exact(b)]
  const shift = BigInt(format.precision + 64)
  const dividend = x.magnitude << shift
  const magnitude = dividend / y.magnitude
  const sticky = magnitude * y.magnitude !== dividend
  const exponent = x.exponent - y.exponent - Number(shift)
  return rounded({ negative: x.negative !== y.negative, magnitude, exponent, sticky }, format, mode)
}

function squareRoot(a: number, format: Format, mode: number): number {
  if (!finite(a) || a <= 0) return Math.sqrt(a)
  const x = exact(a)
  const even = x.exponent % 2 === 0 ? 0 : 1
  const value = x.magnitude << BigInt(even + 128)
  const magnitude = integerRoot(value)
  const sticky = magnitude * magnitude !== value
  return rounded({ negative: false, magnitude, exponent: (x.exponent - even - 128) / 2, sticky }, format, mode)
}

function integerRoot(value: bigint): bigint {
  let root = 1n << BigInt((bitLength(value) + 1) >> 1)
  for (;;) {
    const next = (root + value / root) >> 1n
    if (next >= root) return root
    root = next
  }
}

function ofInteger(low: number, high: number, signed: number, format: Format, mode: number): number {
  const value = (BigInt(signed !== 0 ? high | 0 : high >>> 0) << 32n) | BigInt(low >>> 0)
  return rounded({ negative: value < 0n, magnitude: value < 0n ? -value : value, exponent: 0 }, format, mode)
}

/** Rounds a value to a format. */
function toFormat(value: number, format: Format, mode: number): number {
  return finite(value) ? rounded(exact(value), format, mode) : value
}

/** Computes 1 / √value of a positive finite number, rounded to the nearest, by a step with the exact error. */
function reciprocalRoot(value: number): number {
  const scale = value < 2 ** -500 ? 2 ** 300 : value > 2 ** 500 ? 2 ** -300 : 1
  const x = value * scale * scale
  const root = 1 / Math.sqrt(x)
  const square = root * root
  const one = x * square
  const error = 1 - one - productError(x, square, one) - x * productError(root, root, square)
  return (root + root * error * (0.5 + 0.375 * error)) * scale
}

/** The error of the product p of a and b, by Dekker's algorithm. */
function productError(a: number, b: number, p: number): number {
  const [ah, bh] = [high(a), high(b)]
  const [al, bl] = [a - ah, b - bh]
  return ah * bh - p + ah * bl + al * bh + al * bl
}

/** The bits of a value that a half represents exactly. */
export function halfBits(value: number): number {
  if (Number.isNaN(value)) return 0x7fff
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0
  const size = Math.abs(value)
  if (size === Number.POSITIVE_INFINITY) return sign | 0x7c00
  if (size < 2 ** -14) return sign | (size * 2 ** 24)
  scratch.setFloat32(0, size)
  return sign | ((scratch.getUint32(0) - 0x38000000) >>> 13)
}

export function halfValue(bits: number): number {
  const sign = (bits & 0x8000) === 0 ? 1 : -1
  const exponent = (bits >>> 10) & 31
  const fraction = bits & 0x3ff
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25))
}

export function bf16Value(bits: number): number {
  scratch.setUint32(0, bits << 16)
  return scratch.getFloat32(0)
}

/** The bits of a value that a bf16 represents exactly. */
function bf16Bits(value: number): number {
  if (Number.isNaN(value)) return 0x7fff
  scratch.setFloat32(0, value)
  return scratch.getUint16(0)
}

export function roundToHalf(value: number, mode: number = ROUNDINGS.rn): number {
  return toFormat(value, HALF, mode)
}

/** The tf32 that tensor cores read from an f32: the 13 lowest bits are cut off. */
export function tf32Value(bits: number): number {
  scratch.setUint32(0, bits & 0xffffe000)
  return scratch.getFloat32(0)
}

interface SmallFormat {
  readonly mantissa: number
  readonly bias: number
  readonly largest: number
  readonly nan: number
  /** The bit of the sign, the highest one. */
  readonly sign: number
}

/** Formats of eight bits: e4m3, which has no infinity, and e5m2. */
export const E4M3: SmallFormat = { mantissa: 3, bias: 7, largest: 0x7e, nan: 0x7f, sign: 0x80 }
export const E5M2: SmallFormat = { mantissa: 2, bias: 15, largest: 0x7b, nan: 0x7f, sign: 0x80 }
/** Formats of four and six bits, which have numbers alone: a NaN becomes the largest. */
const E2M1: SmallFormat = { mantissa: 1, bias: 1, largest: 7, nan: 7, sign: 8 }
const E2M3: SmallFormat = { mantissa: 3, bias: 1, largest: 0x1f, nan: 0x1f, sign: 0x20 }
const E3M2: SmallFormat = { mantissa: 2, bias: 3, largest: 0x1f, nan: 0x1f, sign: 0x20 }
/** The formats in the order of their numbers in formulas. */
const SMALL_FORMATS: readonly SmallFormat[] = [E4M3, E5M2, E2M1, E2M3, E3M2]
const smallFormat = (index: number): SmallFormat => SMALL_FORMATS[index] ?? E4M3

export function smallValue(bits: number, { mantissa, bias, sign: signBit }: SmallFormat): number {
  const sign = (bits & signBit) === 0 ? 1 : -1
  const field = bits & (signBit - 1)
  const exponent = field >>> mantissa
  const fraction = field & ((1 << mantissa) - 1)
  if (mantissa === 3 && field === 0x7f) return Number.NaN
  if (mantissa === 2 && exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  const unit = 2 ** (Math.max(exponent, 1) - bias - mantissa)
  return sign * unit * (exponent === 0 ? fraction : fraction + (1 << mantissa))
}

/** The bits of the small format's number nearest to a value; one that is too large becomes the largest finite value (`.satfinite`). */
function smallBits(value: number, format: SmallFormat): number {
  if (Number.isNaN(value)) return format.nan
  const sign = value < 0 || Object.is(value, -0) ? format.sign : 0
  const size = Math.abs(value)
  const largest = smallValue(format.largest, format)
  if (size >= largest) return sign | format.largest
  const exponent = Math.max(size === 0 ? -1000 : Math.floor(Math.log2(size)), 1 - format.bias)
  const unit = 2 ** (exponent - format.mantissa)
  const scaledSize = size / unit
  const floor = Math.floor(scaledSize)
  const rest = scaledSize - floor
  const count = floor + (rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? 1 : 0)
  const hidden = 1 << format.mantissa
  // A carry out of the fraction increases the exponent, which is right.
  const bits = ((exponent + format.bias - 1) << format.mantissa) + count
  return sign | Math.min(count < hidden && exponent === 1 - format.bias ? count : bits, format.largest)
}

const PRMT_MODES: readonly ((selector: number) => number)[] = [
  (s) => 0x3210 + 0x1111 * s,
  (s) => [0x5670, 0x6701, 0x7012, 0x0123][s] ?? 0,
  (s) => 0x1111 * s,
  (s) => [0x3210, 0x3211, 0x3222, 0x3333][s] ?? 0,
  (s) => [0x0000, 0x1110, 0x2210, 0x3210][s] ?? 0,
  (s) => [0x1010, 0x3232, 0x1010, 0x3232][s] ?? 0,
]

function permute(a: number, b: number, selector: number): number {
  const bytes = [a, a >>> 8, a >>> 16, a >>> 24, b, b >>> 8, b >>> 16, b >>> 24]
  let result = 0
  for (let index = 0; index < 4; index++) result |= ((bytes[(selector >>> (4 * index)) & 7] ?? 0) & 255) << (8 * index)
  return result
}

function findSet(mask: number, base: number, offset: number): number {
  if (offset === 0) return base >>> 0 < 32 && (mask >>> base) & 1 ? base : -1
  // A GPU negates the least integer to itself, which then counts no step and finds position 0.
  if (offset === -(2 ** 31)) return 0
  const step = Math.sign(offset)
  let left = Math.abs(offset)
  for (let at = base; at >= 0 && at < 32; at += step) if ((mask >>> at) & 1 && --left === 0) return at
  return -1
}

/** Half of a sum, rounded away from zero. */
const average = (total: number): number => (total < 0 ? Math.floor(total / 2) : Math.floor((total + 1) / 2))

/**
 * Computes an operation on the parts of a word (vadd2, vabsdiff4, …). `code` has the operation (bits 0 to 2: add, sub, avrg, absdiff, min, max),
 * whether parts have 8 bits (3), whether a, b and the result are signed (4 to 6), saturation (7), and accumulation (8).
 */
function video(code: number, a: number, b: number, c: number): number {
  const bits = code & 8 ? 8 : 16
  const part = (word: number, at: number, signed: boolean): number => {
    const value = (word >>> at) & ((1 << bits) - 1)
    return signed && value >> (bits - 1) ? value - (1 << bits) : value
  }
  const signedResult = (code & 64) !== 0
  const [least, most] = signedResult ? [-(1 << (bits - 1)), (1 << (bits - 1)) - 1] : [0, (1 << bits) - 1]
  let total = c | 0
  let packed = 0
  for (let at = 0; at < 32; at += bits) {
    const [x, y] = [part(a, at, (code & 16) !== 0), part(b, at, (code & 32) !== 0)]
    const results = [x + y, x - y, average(x + y), Math.abs(x - y), Math.min(x, y), Math.max(x, y)]
    let result = results[code & 7] ?? 0
    if (code & 128) result = Math.max(least, Math.min(most, result))
    total = (total + result) | 0
    packed |= (result & ((1 << bits) - 1)) << at
  }
  if (code & 256) return total
  // Parts that are not selected would come from c; here all parts are selected.
  return packed
}

/** The functions of HELPERS that are not formulas. */
export const NUMBERS: Readonly<Record<string, (...args: number[]) => number>> = {
  fns: (mask = 0, base = 0, offset = 0) => findSet(mask, base, offset),
  video: (code = 0, a = 0, b = 0, c = 0) => video(code, a, b, c),
  prmt_mode: (a = 0, b = 0, s = 0, mode = 0) => {
    const selector = s & 3
    // The mode of forward extract wraps around all eight bytes; that of backward extract runs down from the selector.
    if (mode === 0) return permute(a, b, [0x3210, 0x4321, 0x5432, 0x6543][selector] ?? 0)
    if (mode === 1) return permute(a, b, [0x5670, 0x6701, 0x7012, 0x0123][selector] ?? 0)
    return permute(a, b, PRMT_MODES[mode]?.(selector) ?? 0)
  },
  fma64_exact: (a = 0, b = 0, c = 0) => fma(a, b, c, F64, 0),
  fma32_ftz: (a = 0, b = 0, c = 0, mode = 0) => flushed(fma(a, b, c, ENDLESS_F32, mode)),
  mul32_ftz: (a = 0, b = 0, mode = 0) => flushed(multiply(a, b, ENDLESS_F32, mode)),
  div32_ftz: (a = 0, b = 0, mode = 0) => flushed(divide(a, b, ENDLESS_F32, mode)),
  f64_to_f32_ftz: (a = 0, mode = 0) => flushed(toFormat(a, ENDLESS_F32, mode)),
  fma32_mode: (a = 0, b = 0, c = 0, mode = 0) => fma(a, b, c, F32, mode),
  add32_mode: (a = 0, b = 0, mode = 0) => add(a, b, F32, mode),
  mul32_mode: (a = 0, b = 0, mode = 0) => multiply(a, b, F32, mode),
  div32_mode: (a = 0, b = 0, mode = 0) => divide(a, b, F32, mode),
  sqrt32_mode: (a = 0, mode = 0) => squareRoot(a, F32, mode),
  fma64_mode: (a = 0, b = 0, c = 0, mode = 0) => fma(a, b, c, F64, mode),
  add64_mode: (a = 0, b = 0, mode = 0) => add(a, b, F64, mode),
  // The sign of a NaN is left unchanged.
  sub64_mode: (a = 0, b = 0, mode = 0) => (Number.isNaN(b) ? a + b : add(a, -b, F64, mode)),
  mul64_mode: (a = 0, b = 0, mode = 0) => multiply(a, b, F64, mode),
  div64_mode: (a = 0, b = 0, mode = 0) => divide(a, b, F64, mode),
  sqrt64_mode: (a = 0, mode = 0) => squareRoot(a, F64, mode),
  f64_to_f32_mode: (a = 0, mode = 0) => toFormat(a, F32, mode),
  f64_to_half_mode: (a = 0, mode = 0) => halfBits(toFormat(a, HALF, mode)),
  f64_to_bf16_mode: (a = 0, mode = 0) => bf16Bits(toFormat(a, BF16, mode)),
  f32_to_tf32_mode: (a = 0, mode = 0) => toFormat(a, TF32, mode),
  int64_to_f32_mode: (low = 0, high = 0, signed = 0, mode = 0) => ofInteger(low, high, signed, F32, mode),
  int64_to_f64_mode: (low = 0, high = 0, signed = 0, mode = 0) => ofInteger(low, high, signed, F64, mode),
  int64_to_bf16_mode: (low = 0, high = 0, signed = 0, mode = 0) => bf16Bits(ofInteger(low, high, signed, BF16, mode)),
  f32_to_small: (a = 0, format = 0, relu = 0) => smallBits(relu !== 0 && a <= 0 ? 0 : a, smallFormat(format)),
  small_to_half: (a = 0, format = 0) => halfBits(smallValue(a & 255, smallFormat(format))),
  rsqrt64: (a = 1) => reciprocalRoot(a),
}
