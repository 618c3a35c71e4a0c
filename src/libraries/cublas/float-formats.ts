/** Numbers of 16 bits, which JavaScript has no arrays for: IEEE half precision (f16) and bfloat16 (bf16), to f32 and back. */

const bits = new Uint32Array(1)
const float = new Float32Array(bits.buffer)

export function fromBf16(value: number): number {
  bits[0] = value << 16
  return float[0] ?? 0
}

/** Rounds to the nearest, ties to even, as GPUs do. */
export function toBf16(value: number): number {
  float[0] = value
  const word = bits[0] ?? 0
  if ((word & 0x7fffffff) > 0x7f800000) return (word >>> 16) | 0x40
  return ((word + 0x7fff + ((word >>> 16) & 1)) >>> 16) & 0xffff
}

export function fromF16(value: number): number {
  const sign = value & 0x8000 ? -1 : 1
  const exponent = (value >> 10) & 0x1f
  const fraction = value & 0x3ff
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return sign * (1024 + fraction) * 2 ** (exponent - 25)
}

/** Rounds to the nearest, ties to even, as GPUs do. */
export function toF16(value: number): number {
  if (Number.isNaN(value)) return 0x7e00
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0
  const size = Math.abs(value)
  if (size >= 65520) return sign | 0x7c00
  // Below 2^-14 numbers are 2^-24 apart; above, 1024 of them lie between powers of two.
  const exponent = size < 2 ** -14 ? -14 : Math.floor(Math.log2(size))
  const step = 2 ** (exponent - 10)
  const steps = roundHalfEven(size / step)
  return sign | (steps + ((exponent + 14) << 10))
}

function roundHalfEven(value: number): number {
  const floor = Math.floor(value)
  const rest = value - floor
  if (rest !== 0.5) return Math.round(value)
  return floor % 2 === 0 ? floor : floor + 1
}
