/** Tensor maps as the driver's calls take them, and why a driver refuses one. All lists begin with the innermost dimension. */

/** The types of elements, in the order of CUtensorMapDataType, with the bytes of each. */
export const TENSOR_TYPES = {
  u8: 1,
  u16: 2,
  u32: 4,
  i32: 4,
  u64: 8,
  i64: 8,
  f16: 2,
  f32: 4,
  f64: 8,
  bf16: 2,
  'f32.ftz': 4,
  tf32: 4,
  'tf32.ftz': 4,
} as const
/** The type of the elements of a tensor map (`CUtensorMapDataType`). */
export type TensorType = keyof typeof TENSOR_TYPES

/** The arguments of `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col`, with the numbers of the driver's enumerations. */
export interface TensorMapSpec {
  readonly pointer: number
  readonly type: TensorType
  readonly dims: readonly number[]
  /** The bytes from an element to the next in each dimension but the innermost. */
  readonly strides: readonly number[]
  readonly elementStrides: readonly number[]
  readonly interleave: number
  readonly swizzle: number
  readonly l2: number
  readonly fill: number
  /** The box of tiles; undefined for im2col. */
  readonly box: readonly number[] | undefined
  readonly im2col: Im2colSpec | undefined
}

/** The bounding box of im2col: the corners are offsets in the dimensions between channels and images. */
export interface Im2colSpec {
  readonly lower: readonly number[]
  readonly upper: readonly number[]
  readonly channels: number
  readonly pixels: number
}

/** The bytes of a tensor map, and the alignment that a kernel's parameter has for it. */
export const TENSOR_MAP_BYTES = 128

const MOST_STRIDE = 2 ** 40
const MOST_DIM = 2 ** 32
const MOST_BOX = 256
/** A box of 131 072 bytes was taken, and one of so many was not. */
const MOST_BOX_BYTES = 2 ** 18
const MOST_PIXELS = 1024
const MOST_ELEMENT_STRIDE = 8
/** The range of the corners of im2col: bits of each, by the number of dimensions. */
const CORNER_BITS: Readonly<Record<number, number>> = { 3: 16, 4: 8, 5: 5 }

export const callOf = ({
  im2col,
}: Pick<TensorMapSpec, 'im2col'>): 'cuTensorMapEncodeIm2col' | 'cuTensorMapEncodeTiled' =>
  im2col === undefined ? 'cuTensorMapEncodeTiled' : 'cuTensorMapEncodeIm2col'

/** The reason why a driver refuses a map with CUDA_ERROR_INVALID_VALUE, as far as it was measured; undefined if it does not. */
export function whyMapIsRefused(spec: TensorMapSpec): string | undefined {
  const { pointer, type, dims, strides, elementStrides, interleave, fill, im2col } = spec
  const rank = dims.length
  const alignment = interleave === 2 ? 32 : 16
  if (rank < 1 || rank > 5) return `A tensor map has 1 to 5 dimensions, not ${rank}`
  if (im2col !== undefined && rank < 3) return `A map for im2col has 3 to 5 dimensions, not ${rank}`
  if (interleave !== 0 && rank < 3) return `An interleaved tensor has 3 to 5 dimensions, not ${rank}`
  if (pointer % alignment !== 0) return `The tensor begins at no multiple of ${alignment} bytes`
  if (fill === 1 && !/f/.test(type)) return `Elements of ${type} outside of the tensor cannot be NaN`
  const dim = dims.find((each) => each < 1 || each > MOST_DIM)
  if (dim !== undefined) return `A dimension has 1 to 2^32 elements, not ${dim}`
  const stride = strides.find((each) => each % alignment !== 0 || each < 0 || each >= MOST_STRIDE)
  if (stride !== undefined) return `A stride is a multiple of ${alignment} bytes and less than 2^40, not ${stride}`
  const step = elementStrides.find((each) => each < 1 || each > MOST_ELEMENT_STRIDE)
  if (step !== undefined) return `An element stride is 1 to ${MOST_ELEMENT_STRIDE}, not ${step}`
  return im2col === undefined ? whyBoxIsRefused(spec) : whyIm2colIsRefused(spec, im2col)
}

function whyBoxIsRefused({ type, box = [], interleave, swizzle }: TensorMapSpec): string | undefined {
  const wrong = box.find((each) => each < 1 || each > MOST_BOX)
  if (wrong !== undefined) return `A box has 1 to ${MOST_BOX} elements in each dimension, not ${wrong}`
  const bytes = box.reduce((product, each) => product * each, TENSOR_TYPES[type])
  if (bytes >= MOST_BOX_BYTES) return `A box has fewer than ${MOST_BOX_BYTES} bytes, not ${bytes}`
  return whyRowIsRefused((box[0] ?? 1) * TENSOR_TYPES[type], interleave, swizzle)
}

function whyRowIsRefused(bytes: number, interleave: number, swizzle: number): string | undefined {
  if (bytes % 16 !== 0) return `A row of a box is a multiple of 16 bytes, not ${bytes}`
  const most = 16 << swizzle
  if (interleave !== 0 || swizzle === 0 || bytes <= most) return undefined
  return `A row of a box that is swizzled by ${most} bytes has no more, not ${bytes}`
}

function whyIm2colIsRefused(spec: TensorMapSpec, { lower, upper, channels, pixels }: Im2colSpec): string | undefined {
  const { type, dims, interleave, swizzle } = spec
  const half = 2 ** ((CORNER_BITS[dims.length] ?? 8) - 1)
  const corner = [...lower, ...upper].find((each) => each < -half || each >= half)
  if (corner !== undefined)
    return `A corner of the bounding box is ${-half} to ${half - 1} in ${dims.length} dimensions, not ${corner}`
  const empty = lower.findIndex((each, index) => (dims[index + 1] ?? 1) + (upper[index] ?? 0) - each <= 0)
  if (empty >= 0) return `The bounding box has no pixel in dimension ${empty + 1}, counted from the innermost`
  if (channels < 1 || channels > MOST_BOX) return `A pixel has 1 to ${MOST_BOX} channels, not ${channels}`
  if (pixels < 1 || pixels > MOST_PIXELS) return `A column has 1 to ${MOST_PIXELS} pixels, not ${pixels}`
  return whyRowIsRefused(channels * TENSOR_TYPES[type], interleave, swizzle)
}

/** The bytes that a tensor spans from its address on: up to the end of its last element. */
export function spanOf({ type, dims, strides }: Pick<TensorMapSpec, 'type' | 'dims' | 'strides'>): number {
  const row = (dims[0] ?? 1) * TENSOR_TYPES[type]
  return strides.reduce((sum, stride, index) => sum + stride * ((dims[index + 1] ?? 1) - 1), row)
}
