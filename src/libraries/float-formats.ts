/**
 * Floating-point elements in the bytes of a buffer. For those of 16 bits JavaScript has no arrays: IEEE half precision (f16)
 * and bfloat16 (bf16), to f32 and back.
 */

export type FloatType = 'f16' | 'bf16' | 'f32' | 'f64'

/** Elements of one type, by the byte at which they begin. */
export interface Elements<Value> {
  get(view: DataView, at: number): Value
  set(view: DataView, at: number, value: Value): void
}

const of16Bits = (from: (bits: number) => number, to: (value: number) => number): Elements<number> => ({
  get: (view, at) => from(view.getUint16(at, true)),
  set: (view, at, value) => view.setUint16(at, to(value), true),
})

export const FLOAT_ELEMENTS: Readonly<Record<FloatType, Elements<number>>> = {
  f16: of16Bits(fromF16, toF16),
  bf16: of16Bits(fromBf16, toBf16),
  f32: {
    get: (view, at) => view.getFloat32(at, true),
    set: (view, at, value) => view.setFloat32(at, value, true),
  },
  f64: {
    get: (view, at) => view.getFloat64(at, true),
    set: (view, at, value) => view.setFloat64(at, value, true),
  },
}

export const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array): DataView =>
  new DataView(buffer, byteOffset, byteLength)

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
