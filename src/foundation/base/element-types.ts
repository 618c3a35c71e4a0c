/**
 * The types of elements in memory: signed, unsigned, floating and complex types, by their number of bits. All tables of types
 * are derived from this one, so that a new type is one row here.
 */

interface ElementType {
  readonly bytes: number
  /** The typed array that holds such elements in JavaScript. */
  readonly array?: ArrayConstructor
  /** How many of them CUDA C++ has as a vector, such as float2 and float4. Kernels have parameters of types with an array or with vectors. */
  readonly lanes?: readonly number[]
  /** The least and the greatest integer. */
  readonly range?: readonly [least: number | bigint, most: number | bigint]
  /** DLDataTypeCode */
  readonly dlpack: number
  /** NumPy's typestr */
  readonly numpy?: string
  /** ncclDataType_t */
  readonly nccl?: number
  /** ONNXTensorElementDataType */
  readonly onnx?: number
  /** cudaDataType_t, and the cublasComputeType_t in which sums are kept */
  readonly cublas?: { readonly data: number; readonly compute: number }
}

type ArrayConstructor = new (buffer: ArrayBuffer, byteOffset: number, length: number) => ArrayBufferView

const INT = 0
const UINT = 1
const FLOAT = 2
const BFLOAT = 4
const COMPLEX = 5
const BOOL = 6
const FLOAT8_E4M3FN = 10
const FLOAT8_E5M2 = 12
const COMPUTE_32F = 68
const COMPUTE_64F = 70

const LANES = [2, 3, 4] as const
/** `half` and `__nv_bfloat16` come in pairs only. */
const PAIRS = [2] as const

const [I64_LEAST, I64_MOST, U64_MOST] = [-(2n ** 63n), 2n ** 63n - 1n, 2n ** 64n - 1n]

export const ELEMENT_TYPES = {
  bool: { bytes: 1, array: Uint8Array, dlpack: BOOL, onnx: 9, numpy: '|b1' },
  i8: {
    bytes: 1,
    array: Int8Array,
    lanes: LANES,
    range: [-(2 ** 7), 2 ** 7 - 1],
    dlpack: INT,
    onnx: 3,
    numpy: '|i1',
    nccl: 0,
  },
  i16: {
    bytes: 2,
    array: Int16Array,
    lanes: LANES,
    range: [-(2 ** 15), 2 ** 15 - 1],
    dlpack: INT,
    onnx: 5,
    numpy: '<i2',
  },
  i32: {
    bytes: 4,
    array: Int32Array,
    lanes: LANES,
    range: [-(2 ** 31), 2 ** 31 - 1],
    dlpack: INT,
    onnx: 6,
    numpy: '<i4',
    nccl: 2,
  },
  i64: {
    bytes: 8,
    array: BigInt64Array,
    lanes: LANES,
    range: [I64_LEAST, I64_MOST],
    dlpack: INT,
    onnx: 7,
    numpy: '<i8',
    nccl: 4,
  },
  u8: {
    bytes: 1,
    array: Uint8Array,
    lanes: LANES,
    range: [0, 2 ** 8 - 1],
    dlpack: UINT,
    onnx: 2,
    numpy: '|u1',
    nccl: 1,
  },
  u16: { bytes: 2, array: Uint16Array, lanes: LANES, range: [0, 2 ** 16 - 1], dlpack: UINT, onnx: 4, numpy: '<u2' },
  u32: {
    bytes: 4,
    array: Uint32Array,
    lanes: LANES,
    range: [0, 2 ** 32 - 1],
    dlpack: UINT,
    onnx: 12,
    numpy: '<u4',
    nccl: 3,
  },
  u64: {
    bytes: 8,
    array: BigUint64Array,
    lanes: LANES,
    range: [0n, U64_MOST],
    dlpack: UINT,
    onnx: 13,
    numpy: '<u8',
    nccl: 5,
  },
  f16: {
    bytes: 2,
    lanes: PAIRS,
    dlpack: FLOAT,
    onnx: 10,
    numpy: '<f2',
    nccl: 6,
    cublas: { data: 2, compute: COMPUTE_32F },
  },
  f32: {
    bytes: 4,
    array: Float32Array,
    lanes: LANES,
    dlpack: FLOAT,
    onnx: 1,
    numpy: '<f4',
    nccl: 7,
    cublas: { data: 0, compute: COMPUTE_32F },
  },
  f64: {
    bytes: 8,
    array: Float64Array,
    lanes: LANES,
    dlpack: FLOAT,
    onnx: 11,
    numpy: '<f8',
    nccl: 8,
    cublas: { data: 1, compute: COMPUTE_64F },
  },
  bf16: { bytes: 2, lanes: PAIRS, dlpack: BFLOAT, onnx: 16, nccl: 9, cublas: { data: 14, compute: COMPUTE_32F } },
  c64: { bytes: 8, dlpack: COMPLEX, onnx: 14, numpy: '<c8' },
  c128: { bytes: 16, dlpack: COMPLEX, onnx: 15, numpy: '<c16' },
  f8e4m3fn: { bytes: 1, dlpack: FLOAT8_E4M3FN, onnx: 17 },
  f8e5m2: { bytes: 1, dlpack: FLOAT8_E5M2, onnx: 19 },
} as const satisfies Readonly<Record<string, ElementType>>

export type ElementTypeName = keyof typeof ELEMENT_TYPES

/** The types for which a library has a number, or JavaScript an array. */
export type ElementTypeWith<K extends keyof ElementType> = {
  [T in ElementTypeName]: (typeof ELEMENT_TYPES)[T] extends Readonly<Record<K, unknown>> ? T : never
}[ElementTypeName]

export const elementTypesWith = <K extends keyof ElementType>(key: K): readonly ElementTypeWith<K>[] =>
  (Object.keys(ELEMENT_TYPES) as ElementTypeName[]).filter(
    (name): name is ElementTypeWith<K> => key in ELEMENT_TYPES[name],
  )

/** The row of a type, for properties that not all types have. */
export const elementType = (name: ElementTypeName): ElementType => ELEMENT_TYPES[name]

// Public types spell the mapping out: editors would show the name of a helper type in place of the union.
/** A number, or a bool: the types of a kernel's parameters, and of the memory that its pointers point to. */
export type ScalarType = {
  [T in ElementTypeName]: (typeof ELEMENT_TYPES)[T] extends { readonly array: unknown } | { readonly lanes: unknown }
    ? T
    : never
}[ElementTypeName]

/** Vectors of CUDA C++, by what they are made of: `float4` is 'f32x4', `uchar4` is 'u8x4', and `__half2` is 'f16x2'. */
export type VectorType = {
  [T in ElementTypeName]: (typeof ELEMENT_TYPES)[T] extends { readonly lanes: readonly (infer N extends number)[] }
    ? `${T}x${N}`
    : never
}[ElementTypeName]

export const SCALAR_TYPES: readonly ScalarType[] = (Object.keys(ELEMENT_TYPES) as ElementTypeName[]).filter(
  (name): name is ScalarType => 'array' in ELEMENT_TYPES[name] || 'lanes' in ELEMENT_TYPES[name],
)

/** Reads and writes elements of one type, by the byte at which they begin. */
export interface ElementAccess<Value> {
  get(view: DataView, at: number): Value
  set(view: DataView, at: number, value: Value): void
}

/** JavaScript has no arrays of the floating types of 16 bits: IEEE half precision (f16) and bfloat16 (bf16). */
export const FLOAT_ACCESS: Readonly<Record<'f16' | 'bf16' | 'f32' | 'f64', ElementAccess<number>>> = {
  f16: {
    get: (view, at) => fromF16(view.getUint16(at, true)),
    set: (view, at, value) => view.setUint16(at, toF16(value), true),
  },
  bf16: {
    get: (view, at) => fromBf16(view.getUint16(at, true)),
    set: (view, at, value) => view.setUint16(at, toBf16(value), true),
  },
  f32: {
    get: (view, at) => view.getFloat32(at, true),
    set: (view, at, value) => view.setFloat32(at, value, true),
  },
  f64: {
    get: (view, at) => view.getFloat64(at, true),
    set: (view, at, value) => view.setFloat64(at, value, true),
  },
}

/** The values of kernels: an integer of 64 bits is a bigint, and a bool is 0 or 1. A float is rounded to the nearest, ties to even. */
export const SCALAR_ACCESS: { readonly [T in ScalarType]: ElementAccess<number | bigint> } = {
  ...accessByNumber(),
  i64: {
    get: (view, at) => view.getBigInt64(at, true),
    set: (view, at, value) => view.setBigInt64(at, BigInt(value), true),
  },
  u64: {
    get: (view, at) => view.getBigUint64(at, true),
    set: (view, at, value) => view.setBigUint64(at, BigInt(value), true),
  },
}

function accessByNumber() {
  const by = ({ get, set }: ElementAccess<number>): ElementAccess<number | bigint> => ({
    get,
    set: (view, at, value) => set(view, at, Number(value)),
  })
  const u8 = by({ get: (view, at) => view.getUint8(at), set: (view, at, value) => view.setUint8(at, value) })
  return {
    bool: u8,
    u8,
    i8: by({ get: (view, at) => view.getInt8(at), set: (view, at, value) => view.setInt8(at, value) }),
    i16: by({ get: (view, at) => view.getInt16(at, true), set: (view, at, value) => view.setInt16(at, value, true) }),
    u16: by({ get: (view, at) => view.getUint16(at, true), set: (view, at, value) => view.setUint16(at, value, true) }),
    i32: by({ get: (view, at) => view.getInt32(at, true), set: (view, at, value) => view.setInt32(at, value, true) }),
    u32: by({ get: (view, at) => view.getUint32(at, true), set: (view, at, value) => view.setUint32(at, value, true) }),
    f16: by(FLOAT_ACCESS.f16),
    bf16: by(FLOAT_ACCESS.bf16),
    f32: by(FLOAT_ACCESS.f32),
    f64: by(FLOAT_ACCESS.f64),
  }
}

/** Integers as bigints, which neither round nor overflow before they are written. */
export function integerAccess(type: ElementTypeWith<'range'>): ElementAccess<bigint> {
  const { bytes } = ELEMENT_TYPES[type]
  const wrap = ELEMENT_TYPES[type].dlpack === INT ? BigInt.asIntN : BigInt.asUintN
  return {
    get(view, at) {
      let value = 0n
      for (let byte = bytes - 1; byte >= 0; byte -= 1) value = (value << 8n) | BigInt(view.getUint8(at + byte))
      return wrap(8 * bytes, value)
    },
    set(view, at, value) {
      for (let byte = 0; byte < bytes; byte += 1) {
        view.setUint8(at + byte, Number((value >> BigInt(8 * byte)) & 0xffn))
      }
    },
  }
}

export const dataViewOf = ({ buffer, byteOffset, byteLength }: Uint8Array): DataView =>
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
  // Below 2^-14 numbers are 2^-24 apart; above, there are 1024 between two powers of two.
  const exponent = size < 2 ** -14 ? -14 : Math.floor(Math.log2(size))
  const steps = size / 2 ** (exponent - 10)
  const floor = Math.floor(steps)
  const rounded = steps - floor === 0.5 ? floor + (floor % 2) : Math.round(steps)
  return sign | (rounded + ((exponent + 14) << 10))
}
