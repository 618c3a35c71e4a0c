/** Arrays by __cuda_array_interface__, version 3, for libraries without DLPack, such as Numba. */

import { Device } from '../../core/device.js'
import { bufferImplOf } from '../../core/memory/buffer.js'
import type { DeviceBuffer } from '../../core/memory/device-buffer.js'
import type { Stream } from '../../core/stream.js'
import { currentStreamImpl, type StreamImpl, streamImplOf } from '../../core/streams/stream-impl.js'
import {
  checkArray,
  checkBoolean,
  checkIntegers,
  checkOwner,
  checkPointer,
  isObject,
  readOptions,
} from '../../foundation/base/arguments.js'
import { invalidType, invalidValue, stateError } from '../../foundation/base/errors.js'
import type { ElementOptions, Tensor } from './tensor.js'
import {
  importTensor,
  layoutIn,
  numberOf,
  openOn,
  parseType,
  rowMajor,
  streamOfNumber,
  typeOfTypestr,
} from './tensor.js'

/** The dict of the protocol, as JSON carries it. */
export interface CudaArrayInterface {
  /** Elements in each direction. */
  readonly shape: readonly number[]
  /** The type of the elements, such as '<f4'. */
  readonly typestr: string
  /** The address of the first element, and whether it may only be read. */
  readonly data: readonly [pointer: bigint | number, readOnly: boolean]
  /** The version of the protocol: 3, and this library accepts 2 too. */
  readonly version: number
  /** Bytes from one element to the next in each direction; null: without gaps, the last direction the densest. */
  readonly strides?: readonly number[] | null | undefined
  /** The stream to wait for: 1 is the null stream, 2 the per-thread one, others are handles; null: none. */
  readonly stream?: bigint | number | null | undefined
  /** The elements that are valid; such arrays are refused. */
  readonly mask?: unknown
}

/** An object with the protocol. */
export interface CudaArray {
  /** The dict. */
  readonly __cuda_array_interface__: CudaArrayInterface
}

/** How a buffer is described. */
export interface ToCudaArrayInterfaceOptions extends ElementOptions {
  /** The consumer is asked not to write it. Default: false. */
  readonly readOnly?: boolean | undefined
  /**
   * The stream that the consumer waits for: it is ordered after all work with the buffer. null: none. Default: the current
   * stream of the device.
   */
  readonly stream?: Stream | null | undefined
}

/** How an array is imported. */
export interface FromCudaArrayInterfaceOptions {
  /** The stream that will use it first: it waits for the array's. null: nothing waits. Default: the current stream of the device. */
  readonly stream?: Stream | null | undefined
  /** The object that is kept reachable until the buffer is closed and all work with it is done. Default: the source. */
  readonly owner?: object | undefined
}

/** A dict whose values are not checked yet. */
type Unchecked = { readonly [K in keyof CudaArrayInterface]?: unknown }

const TO_OPTIONS = ['dtype', 'shape', 'strides', 'readOnly', 'stream'] as const

/**
 * Describes a buffer as `__cuda_array_interface__` does: for libraries that do not support DLPack. Keep the buffer as long as
 * they use it: the protocol has no call by which they release it.
 * @param buffer Memory of a device.
 * @param options `dtype` and `shape` of its elements, `strides` in elements; `readOnly`; the `stream` to wait for
 * @returns the dict, with strides in bytes
 * @throws {Error} as `toDLPack()`: ERR_OUT_OF_RANGE, ERR_INVALID_ARG_VALUE, ERR_INVALID_ARG_TYPE, ERR_CLOSED,
 * ERR_DEVICE_MISMATCH, ERR_UNSUPPORTED; ERR_UNSUPPORTED for a type that NumPy does not have
 * @example
 * ```ts
 * import { toCudaArrayInterface } from 'cuda-streams/dlpack'
 *
 * const dict = toCudaArrayInterface(buffer, { dtype: 'i32', shape: [1024], stream })
 * console.log(dict.typestr, dict.stream) // '<i4', the handle of the stream
 * ```
 */
export function toCudaArrayInterface(buffer: DeviceBuffer, options: ToCudaArrayInterfaceOptions): CudaArrayInterface {
  const given = readOptions(options, TO_OPTIONS)
  const impl = bufferImplOf(buffer)
  if (impl === undefined || impl.isPinned) throw invalidType('buffer', 'a DeviceBuffer', buffer)
  const type = parseType(given.dtype)
  const { typestr } = type
  if (typestr === undefined)
    throw stateError('ERR_UNSUPPORTED', `NumPy has no typestr for ${type.name}: use toDLPack()`)
  const readOnly = checkBoolean(given.readOnly, 'options.readOnly', false)
  const use = given.stream === null ? undefined : streamGiven(given.stream, impl.device)
  impl.checkOpen()
  const { shape, strides } = layoutIn(impl, type, given.shape, given.strides)
  if (use !== undefined) {
    openOn(impl.device, use, 'To export memory')
    impl.openFor(use.driver).allocation.orderAfterAll(use)
  }
  return {
    shape,
    typestr,
    data: [impl.pointer, readOnly],
    strides: strides.map((stride) => stride * type.byteLength),
    version: 3,
    stream: use === undefined ? null : numberOf(use),
  }
}

/**
 * Imports an array of another library by `__cuda_array_interface__`.
 * @param source The dict, or an object that has it.
 * @param options `stream`: the stream that will use it first; `owner`: kept reachable as long as the memory is in use
 * @returns the buffer, with the type, the shape and the strides of its elements
 * @throws {Error} ERR_UNSUPPORTED for a mask, other types, and while the stream captures; ERR_INVALID_ARG_VALUE for an array
 * without elements, strides that are no whole elements, stream 0, and other versions than 2 and 3; ERR_INVALID_HANDLE for memory
 * that the driver does not know, and a stream that is none; ERR_DEVICE_MISMATCH, ERR_INVALID_ARG_TYPE, ERR_CLOSED
 * @example
 * ```ts
 * import { fromCudaArrayInterface, toCudaArrayInterface } from 'cuda-streams/dlpack'
 *
 * const dict = toCudaArrayInterface(buffer, { dtype: 'i32', shape: [1024], stream }) // or an array of Python's
 * const { buffer: theirs, shape } = fromCudaArrayInterface(dict, { stream, owner: buffer })
 * stream.fill(theirs, 0)
 * ```
 */
export function fromCudaArrayInterface(
  source: CudaArray | CudaArrayInterface,
  options?: FromCudaArrayInterfaceOptions,
): Tensor {
  const given = readOptions(options, ['stream', 'owner'])
  const owner = checkOwner(given.owner) ?? source
  if (!isObject(source)) {
    throw invalidType('source', 'an object with __cuda_array_interface__, or that dict', source)
  }
  const dict: Unchecked = (source as Partial<CudaArray>).__cuda_array_interface__ ?? (source as Unchecked)
  const { version, stream = null, strides: bytes = null, mask = null } = dict
  if (version !== 2 && version !== 3) throw invalidValue(`The array's version must be 2 or 3, not ${String(version)}`)
  if (mask !== null)
    throw stateError(
      'ERR_UNSUPPORTED',
      'The array has a mask, which marks elements as invalid: pass an array without one',
    )
  const type = typeOfTypestr(dict.typestr)
  const shape = integers(dict.shape, 'shape', 0)
  const strides =
    bytes === null ? rowMajor(shape) : inElements(integers(bytes, 'strides'), type.byteLength, shape.length)
  const [address, readOnly] = checkArray(dict.data, "The array's data", '[pointer, readOnly]')
  const pointer = checkPointer(address, "The array's pointer", 'a bigint or a safe integer')
  const use = given.stream === null ? undefined : streamGiven(given.stream, Device.current())
  const near = use?.device ?? Device.current()
  const behind = stream === null ? undefined : streamOfNumber(stream, near, "The array's stream")
  const lent = { pointer, type, shape, strides, readOnly: checkBoolean(readOnly, "The array's readOnly", false) }
  const kept = new Set([owner])
  return importTensor(lent, near, use, behind, () => kept.clear())
}

function streamGiven(given: unknown, device: Device): StreamImpl {
  const use = given === undefined ? currentStreamImpl(device) : streamImplOf(given)
  if (use === undefined) throw invalidType('options.stream', 'a Stream or null', given)
  return use.checkOpen()
}

const integers = (value: unknown, name: string, least?: number): readonly number[] =>
  checkIntegers(value, `The array's ${name}`, 'an array of integers', least)

function inElements(strides: readonly number[], byteLength: number, dimensions: number): readonly number[] {
  if (strides.length !== dimensions)
    throw invalidValue(`The array has ${strides.length} strides for ${dimensions} directions`)
  return strides.map((stride) => {
    if (stride % byteLength === 0) return stride / byteLength
    throw invalidValue(`A stride of ${stride} bytes is no whole number of elements, which have ${byteLength}`)
  })
}
