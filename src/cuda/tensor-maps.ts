/** Tensor maps by the driver's calls. */
import { explained } from '../foundation/base/errors.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import {
  callOf,
  TENSOR_MAP_BYTES,
  TENSOR_TYPES,
  type TensorMapSpec,
  whyMapIsRefused,
} from '../foundation/driver/tensor-maps.js'
import { ThreadMemory } from '../foundation/native/thread-memory.js'
import type { Library } from './libcuda/libcuda.js'

const MAP_ALIGNMENT = 64
/** The offsets of the lists that the calls take, behind a map that may begin at any multiple of 16. */
const LISTS = TENSOR_MAP_BYTES + MAP_ALIGNMENT
const DIMS = LISTS
const STRIDES = DIMS + 8 * 5
const STEPS = STRIDES + 8 * 5
const BOX = STEPS + 4 * 6
const UPPER = BOX + 4 * 6
const BYTES = UPPER + 4 * 6

/** The bytes of a tensor map. Throws CUDA_ERROR_INVALID_VALUE, with the reason if it is known. */
export function encodeTensorMap(library: Library, spec: TensorMapSpec): Uint8Array {
  const memory = new ThreadMemory(BYTES)
  try {
    const result = encodeInto(library, spec, memory)
    if (result !== 0) throw refusal(spec, result)
    const at = mapIn(memory) - memory.address
    return memory.bytes.slice(at, at + TENSOR_MAP_BYTES)
  } finally {
    memory.free()
  }
}

const mapIn = ({ address }: ThreadMemory): number => Math.ceil(address / MAP_ALIGNMENT) * MAP_ALIGNMENT

function encodeInto(library: Library, spec: TensorMapSpec, memory: ThreadMemory): number {
  const { pointer, type, dims, strides, elementStrides, interleave, swizzle, l2, fill, box = [], im2col } = spec
  const { address } = memory
  for (const [index, dim] of dims.entries()) memory.uint64[DIMS / 8 + index] = BigInt(dim)
  for (const [index, stride] of strides.entries())
    memory.uint64[STRIDES / 8 + index] = BigInt.asUintN(64, BigInt(stride))
  memory.uint32.set(elementStrides, STEPS / 4)
  memory.uint32.set(im2col === undefined ? box : im2col.lower, BOX / 4)
  if (im2col !== undefined) memory.uint32.set(im2col.upper, UPPER / 4)
  const kind = Object.keys(TENSOR_TYPES).indexOf(type)
  const [map, rank, steps] = [mapIn(memory), dims.length, address + STEPS]
  const lists = [address + DIMS, address + STRIDES, address + BOX] as const
  return im2col === undefined
    ? library.cuTensorMapEncodeTiled(map, kind, rank, pointer, ...lists, steps, interleave, swizzle, l2, fill)
    : library.cuTensorMapEncodeIm2col(
        ...([map, kind, rank, pointer, ...lists, address + UPPER] as const),
        ...([im2col.channels, im2col.pixels, steps, interleave, swizzle, l2, fill] as const),
      )
}

function refusal(spec: TensorMapSpec, result: number): Error {
  const error = cudaError(callOf(spec), result)
  const why = result === CUresult.INVALID_VALUE ? whyMapIsRefused(spec) : undefined
  return why === undefined ? error : explained(error, why)
}
