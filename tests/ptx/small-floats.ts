/** Small formats of floating point, by their definition: slowly, and without the code under test. */

interface Format {
  readonly exponentBits: number
  readonly fractionBits: number
}

const HALF: Format = { exponentBits: 5, fractionBits: 10 }
const BF16: Format = { exponentBits: 8, fractionBits: 7 }

function numberOf(bits: number, { exponentBits, fractionBits }: Format): number {
  const fraction = bits % 2 ** fractionBits
  const exponent = Math.floor(bits / 2 ** fractionBits) % 2 ** exponentBits
  const sign = Math.floor(bits / 2 ** (fractionBits + exponentBits)) % 2 === 1 ? -1 : 1
  const bias = 2 ** (exponentBits - 1) - 1
  if (exponent === 2 ** exponentBits - 1) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias - fractionBits)
  return sign * (1 + fraction / 2 ** fractionBits) * 2 ** (exponent - bias)
}

/** All values of the format that are not negative, ascending, with infinity. */
const ladders = new Map<Format, readonly number[]>()
function ladder(format: Format): readonly number[] {
  let known = ladders.get(format)
  if (known === undefined) {
    const last = (2 ** format.exponentBits - 1) * 2 ** format.fractionBits
    known = Array.from({ length: last + 1 }, (_, bits) => numberOf(bits, format))
    ladders.set(format, known)
  }
  return known
}

/** The bits next to a value: ties go to even bits, and half a step above the largest value lies infinity. */
function bitsNearest(value: number, format: Format): number {
  const sign = value < 0 || Object.is(value, -0) ? 2 ** (format.exponentBits + format.fractionBits) : 0
  if (Number.isNaN(value)) return 2 ** (format.exponentBits + format.fractionBits) - 1
  const size = Math.abs(value)
  const steps = ladder(format)
  let [low, high] = [0, steps.length - 1]
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if ((steps[middle] ?? 0) <= size) low = middle
    else high = middle
  }
  const below = steps[low] ?? 0
  // What would come after the largest value, if exponents went on.
  const above = high === steps.length - 1 ? below + (below - (steps[low - 1] ?? 0)) : (steps[high] ?? 0)
  if (size === Number.POSITIVE_INFINITY) return sign + steps.length - 1
  const [down, up] = [size - below, above - size]
  return sign + (down < up ? low : down > up ? high : low % 2 === 0 ? low : high)
}

export const halfValue = (bits: number): number => numberOf(bits, HALF)
export const halfBitsOf = (value: number): number => bitsNearest(value, HALF)
export const roundedHalf = (value: number): number => halfValue(halfBitsOf(value))
export const bf16Value = (bits: number): number => numberOf(bits, BF16)
export const bf16BitsOf = (value: number): number => bitsNearest(value, BF16)
