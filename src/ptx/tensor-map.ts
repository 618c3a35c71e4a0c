/**
 * Tensor maps (CUtensorMap) as the bytes that the driver's calls make: 128 of them, in the layout of an H200 with the driver of CUDA 13.0, so that
 * kernels that change or copy a map do here what they do there.
 */

export const TENSOR_MAP_BYTES = 128

/** The types of elements, in the order of CUtensorMapDataType. */
export const TENSOR_ELEMENTS = [
  'u8',
  'u16',
  'u32',
  's32',
  'u64',
  's64',
  'f16',
  'f32',
  'f64',
  'bf16',
  'f32.ftz',
  'tf32',
  'tf32.ftz',
] as const
export type TensorElement = (typeof TENSOR_ELEMENTS)[number]

/** The number of each type in a map, which differs from that of the enumeration. */
const CODES: Readonly<Record<TensorElement, number>> = {
  u8: 0,
  u16: 1,
  u32: 2,
  s32: 3,
  u64: 4,
  s64: 5,
  f16: 6,
  f32: 7,
  'f32.ftz': 8,
  f64: 9,
  bf16: 10,
  tf32: 7,
  'tf32.ftz': 8,
}
/** The types by their numbers in a map, without and with the bit for tf32. */
const ELEMENTS: readonly (readonly [plain: TensorElement, rounded: TensorElement])[] = [
  ['u8', 'u8'],
  ['u16', 'u16'],
  ['u32', 'u32'],
  ['s32', 's32'],
  ['u64', 'u64'],
  ['s64', 's64'],
  ['f16', 'f16'],
  ['f32', 'tf32'],
  ['f32.ftz', 'tf32.ftz'],
  ['f64', 'f64'],
  ['bf16', 'bf16'],
]

export function elementBytes(element: TensorElement): number {
  return /^[us]8$/.test(element) ? 1 : /16/.test(element) ? 2 : /64/.test(element) ? 8 : 4
}

/** The parts of a map; all lists begin with the innermost dimension. */
export interface TensorMapFields {
  readonly address: number
  readonly element: TensorElement
  readonly dims: readonly number[]
  /** The bytes from an element to the next of each dimension but the innermost. */
  readonly strides: readonly number[]
  readonly elementStrides: readonly number[]
  /** 0 for none, 1 for 16 bytes, 2 for 32. */
  readonly interleave: number
  /** 0 for none, 1 to 3 for 32, 64 and 128 bytes. */
  readonly swizzle: number
  readonly l2: number
  /** 1 if elements outside of the tensor are NaN in place of 0. */
  readonly fill: number
  readonly box: readonly number[] | undefined
  readonly im2col: Im2col | undefined
}

/** The box of pixels of a map for im2col: the corners are of the dimensions between the channels and the images. */
export interface Im2col {
  readonly lower: readonly number[]
  readonly upper: readonly number[]
  readonly channels: number
  readonly pixels: number
}

/** The bits of a corner of im2col for each rank. */
const CORNER_BITS: Readonly<Record<number, number>> = { 3: 16, 4: 8, 5: 5 }

/** Writes the bytes of a map. */
export function encodeTensorMap(map: TensorMapFields): Uint8Array {
  const bytes = new Uint8Array(TENSOR_MAP_BYTES)
  const view = new DataView(bytes.buffer)
  const { element, dims, strides, elementStrides, interleave, swizzle, l2, fill, box, im2col } = map
  const rank = dims.length
  const tf32 = element.startsWith('tf32') ? 1 : 0
  view.setBigUint64(0, BigInt(map.address), true)
  const flags = (im2col === undefined ? 0 : 1) | ((rank - 1) << 4) | (CODES[element] << 7)
  view.setUint32(8, flags | (interleave << 11) | (swizzle << 13) | (fill << 15) | (tf32 << 16) | (l2 << 17), true)
  let high = 0
  for (const [index, stride] of strides.entries()) {
    const units = Math.floor(stride / 16)
    view.setUint32(12 + 4 * index, units % 2 ** 32, true)
    high |= Math.floor(units / 2 ** 32) << (4 * index)
  }
  view.setUint32(28, high, true)
  for (const [index, dim] of dims.entries()) view.setUint32(32 + 4 * index, dim - 1, true)
  let steps = 0
  for (const [index, stride] of elementStrides.entries()) steps |= (stride - 1) << (3 * index)
  view.setUint32(52, steps, true)
  bytes[55] = (im2col?.channels ?? box?.[0] ?? 1) - 1
  if (im2col !== undefined) writeCorners(view, rank, im2col)
  else for (const [index, size] of (box ?? []).entries()) if (index > 0) bytes[55 + index] = size - 1
  const counts = im2col === undefined ? (box ?? []) : [im2col.channels, im2col.pixels]
  const whole = counts.map((count, index) =>
    Math.floor(count / (im2col === undefined ? (elementStrides[index] ?? 1) : 1)),
  )
  view.setUint32(
    64,
    whole.reduce((product, each) => product * each, elementBytes(element)),
    true,
  )
  view.setUint32(72, swizzle === 0 ? 16 : 128 << swizzle, true)
  return bytes
}

function writeCorners(view: DataView, rank: number, { lower, upper, pixels }: Im2col): void {
  const bits = CORNER_BITS[rank] ?? 8
  let word = 0
  for (const [index, corner] of lower.entries()) word |= (corner & (2 ** bits - 1)) << (bits * index)
  for (const [index, corner] of upper.entries()) word |= (corner & (2 ** bits - 1)) << (16 + bits * index)
  view.setUint32(56, word, true)
  view.setUint32(60, pixels - 1, true)
}

/** Reads the bytes of a map; undefined if they are none. */
export function decodeTensorMap(bytes: Uint8Array): TensorMapFields | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, TENSOR_MAP_BYTES)
  const flags = view.getUint32(8, true)
  const rank = ((flags >> 4) & 7) + 1
  const element = ELEMENTS[(flags >> 7) & 15]?.[(flags >> 16) & 1]
  if (element === undefined || rank > 5 || (flags & 0xfff8000e) !== 0) return undefined
  const many = <T>(count: number, read: (index: number) => T): T[] =>
    Array.from({ length: count }, (_, index) => read(index))
  const high = view.getUint32(28, true)
  const isIm2col = (flags & 1) !== 0
  return {
    address: Number(view.getBigUint64(0, true)),
    element,
    dims: many(rank, (index) => view.getUint32(32 + 4 * index, true) + 1),
    strides: many(
      rank - 1,
      (index) => 16 * (view.getUint32(12 + 4 * index, true) + ((high >> (4 * index)) & 15) * 2 ** 32),
    ),
    elementStrides: many(rank, (index) => ((view.getUint32(52, true) >> (3 * index)) & 7) + 1),
    interleave: (flags >> 11) & 3,
    swizzle: (flags >> 13) & 3,
    l2: (flags >> 17) & 3,
    fill: (flags >> 15) & 1,
    box: isIm2col ? undefined : many(rank, (index) => (bytes[55 + index] ?? 0) + 1),
    im2col: isIm2col ? readCorners(view, rank) : undefined,
  }
}

function readCorners(view: DataView, rank: number): Im2col {
  const bits = CORNER_BITS[rank] ?? 8
  const word = view.getUint32(56, true)
  const corner = (at: number): number => ((word >>> at) << (32 - bits)) >> (32 - bits)
  const all = (begin: number): number[] => Array.from({ length: rank - 2 }, (_, index) => corner(begin + bits * index))
  return { lower: all(0), upper: all(16), channels: view.getUint8(55) + 1, pixels: view.getUint32(60, true) + 1 }
}
