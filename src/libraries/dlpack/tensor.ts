/**
 * Tensors of DLPack and __cuda_array_interface__: the types of their elements, their layout in memory, the streams that the
 * protocols name, and how lent memory becomes a buffer.
 */

import { type Device, deviceOf, driverOf, elsewhere } from '../../core/device.js'
import type { BufferImpl } from '../../core/memory/buffer.js'
import { type DeviceBuffer, makeBuffer, placeOf } from '../../core/memory/device-buffer.js'
import { recordedEvent } from '../../core/memory/stream-uses.js'
import type { Stream } from '../../core/stream.js'
import { StreamImpl, streamImplOf } from '../../core/streams/stream-impl.js'
import { checkIntegers } from '../../foundation/base/arguments.js'
import {
  ELEMENT_TYPES,
  type ElementTypeName,
  elementType,
  elementTypesWith,
} from '../../foundation/base/element-types.js'
import { describe, invalidType, invalidValue, outOfRange, stateError } from '../../foundation/base/errors.js'
import { cudaHandleOf, isNullStream, type Pointer } from '../../foundation/driver/handle-types.js'
import { LentAllocation } from './lent-memory.js'

/** The type of one number: integers, floating and complex numbers by their bits. */
export type ScalarDType = ElementTypeName

/** The type of an element: a number, or a vector of some, such as 'f32x4'. */
export type DType = ScalarDType | `${ScalarDType}x${number}`

export interface ParsedType {
  readonly name: DType
  readonly code: number
  readonly bits: number
  readonly lanes: number
  /** The bytes of an element. */
  readonly byteLength: number
  readonly typestr: string | undefined
}

const NAMES = elementTypesWith('dlpack')
const NUMPY_NAMES = elementTypesWith('numpy')
const MOST_LANES = 2 ** 16 - 1

/** Throws ERR_INVALID_ARG_VALUE for a type that does not exist. */
export function parseType(given: unknown): ParsedType {
  const [, scalar, lanes = '1'] = /^([a-z]+\d*(?:e\dm\d(?:fn)?)?)(?:x(\d+))?$/.exec(String(given)) ?? []
  const name = NAMES.find((each) => each === scalar)
  const count = Number(lanes)
  if (typeof given === 'string' && name !== undefined && count >= 1 && count <= MOST_LANES) return parsed(name, count)
  const expected = `one of '${NAMES.join("', '")}', or a vector of them such as 'f32x4'`
  throw invalidValue(`options.dtype must be ${expected}, not ${describe(given)}`)
}

/** The type of a DLDataType. Throws ERR_UNSUPPORTED. */
export function typeOfCode(code: number, bits: number, lanes: number): ParsedType {
  const name = NAMES.find((each) => ELEMENT_TYPES[each].dlpack === code && 8 * ELEMENT_TYPES[each].bytes === bits)
  if (name !== undefined && lanes >= 1) return parsed(name, lanes)
  const what = `The tensor's elements have type code ${code}, ${bits} bits and ${lanes} lanes in DLPack`
  throw stateError('ERR_UNSUPPORTED', `${what}; known are ${NAMES.join(', ')} and vectors of them`)
}

/** The type of a NumPy typestr. Throws ERR_UNSUPPORTED. */
export function typeOfTypestr(typestr: unknown): ParsedType {
  // One byte has no order, and '=' is the order of this machine, which is little-endian.
  const wanted = String(typestr)
    .replace(/^=/, '<')
    .replace(/^[<>](?=[a-z]1$)/, '|')
  const name = NUMPY_NAMES.find((each) => ELEMENT_TYPES[each].numpy === wanted)
  if (typeof typestr === 'string' && name !== undefined) return parsed(name, 1)
  const known = NUMPY_NAMES.map((each) => ELEMENT_TYPES[each].numpy)
  throw stateError('ERR_UNSUPPORTED', `The array's typestr is ${describe(typestr)}; known are ${known.join(', ')}`)
}

function parsed(scalar: ScalarDType, lanes: number): ParsedType {
  const { dlpack: code, bytes, numpy } = elementType(scalar)
  const name: DType = lanes === 1 ? scalar : `${scalar}x${lanes}`
  return { name, code, bits: 8 * bytes, lanes, byteLength: bytes * lanes, typestr: lanes === 1 ? numpy : undefined }
}

/** The most dimensions in NumPy, and other libraries have the same limit. */
export const MOST_DIMENSIONS = 64

export interface Layout {
  readonly shape: readonly number[]
  readonly strides: readonly number[]
}

/** The touched elements, relative to the one whose indices are all zero. */
interface Span {
  /** The least offset of an element, which is zero or less. */
  readonly least: number
  /** The one behind the last; `least` if there are no elements. */
  readonly end: number
}

function checkLayout(shape: unknown, strides: unknown): Layout {
  const extents = checkIntegers(shape, 'options.shape', 'an array of extents', 0)
  if (extents.length > MOST_DIMENSIONS) {
    throw outOfRange('options.shape', `at most ${MOST_DIMENSIONS} extents long`, extents.length)
  }
  if (strides === undefined) return { shape: extents, strides: rowMajor(extents) }
  const given = checkIntegers(strides, 'options.strides', 'an array of strides, in elements', 0)
  if (given.length === extents.length) return { shape: extents, strides: given }
  throw invalidValue(
    `options.strides must be as many as options.shape, which is ${extents.length}, not ${given.length}`,
  )
}

/** Strides without gaps, in which the last axis is the densest. */
export function rowMajor(shape: readonly number[]): readonly number[] {
  const strides = shape.map(() => 1)
  for (let axis = shape.length - 2; axis >= 0; axis -= 1) {
    strides[axis] = (strides[axis + 1] ?? 1) * Math.max(1, shape[axis + 1] ?? 1)
  }
  return strides
}

function spanOf({ shape, strides }: Layout): Span {
  if (shape.includes(0)) return { least: 0, end: 0 }
  let least = 0
  let last = 0
  for (const [axis, extent] of shape.entries()) {
    const reach = (extent - 1) * (strides[axis] ?? 0)
    if (reach < 0) least += reach
    else last += reach
  }
  return { least, end: last + 1 }
}

/** A stream, or its number in the protocols: 1 is the null stream, 2 the per-thread one, other numbers are handles. */
export type ProtocolStream = Stream | bigint | number

/** The number of a stream in the protocols. 0, the handle of the null stream, is not allowed: it means "none" in C. */
export function numberOf(stream: StreamImpl): number {
  stream.escape()
  return isNullStream(stream.handle) ? 1 : cudaHandleOf(stream.handle)
}

/** Throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for 0, and as `new ExternalStream(handle)`. */
export function streamOfNumber(given: unknown, device: Device, name: string): StreamImpl {
  const known = streamImplOf(given)
  if (known !== undefined) return known
  if (typeof given !== 'number' && typeof given !== 'bigint') {
    throw invalidType(name, 'a Stream, or the number of one as the protocol has it', given)
  }
  if (Number(given) === 0) throw invalidValue(`${name} must not be 0: the null stream is 1, and no stream is null`)
  return StreamImpl.wrap(given, { device })
}

/**
 * Opens a stream of the memory's device that is to be ordered after work of others, which cannot be captured. Throws
 * ERR_CLOSED, ERR_DEVICE_MISMATCH, ERR_UNSUPPORTED.
 */
export function openOn(device: Device, stream: StreamImpl, what: string): StreamImpl {
  stream.reserve(0)
  if (stream.device !== device) {
    const where = elsewhere(stream.device, device)
    throw stateError('ERR_DEVICE_MISMATCH', `${stream} is on ${where}, and the memory on ${device}`)
  }
  if (!stream.isCapturing) return stream
  throw stateError('ERR_UNSUPPORTED', `${what} cannot be captured: ${stream} captures. Do it before the capture begins`)
}

/** Memory of another library, and the layout of its elements. */
export interface Tensor {
  /** The memory from the first to the last byte of an element. Close it when you are done. */
  readonly buffer: DeviceBuffer
  /** The type of the elements. */
  readonly dtype: DType
  /** Elements in each direction. */
  readonly shape: readonly number[]
  /** Elements from one to the next in each direction; may be negative. */
  readonly strides: readonly number[]
  /** The byte of the buffer at which the element begins whose indices are all zero: 0 unless a stride is negative. */
  readonly byteOffset: number
  /** Whether the tensor's owner asks that it is not written. Nothing enforces that. */
  readonly readOnly: boolean
}

/** Memory as another library describes it. */
export interface LentMemory extends Layout {
  /** The address of the element whose indices are all zero. */
  readonly pointer: number
  readonly type: ParsedType
  readonly readOnly: boolean
}

/** The elements of a buffer that is exported. */
export interface ElementOptions {
  /** The type of the elements: 'f32', 'i64', 'bf16' … */
  readonly dtype: DType
  /** Elements in each direction. */
  readonly shape: readonly number[]
  /** Elements from one to the next in each direction. Default: without gaps, the last direction the densest. */
  readonly strides?: readonly number[] | undefined
}

/** The layout of elements in a buffer. Throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_OUT_OF_RANGE. */
export function layoutIn(impl: BufferImpl, type: ParsedType, shape: unknown, strides: unknown): Layout {
  const layout = checkLayout(shape, strides)
  const byteLength = spanOf(layout).end * type.byteLength
  if (!(byteLength <= impl.byteLength)) {
    const what = `shape (${layout.shape.join(', ')}) with strides (${layout.strides.join(', ')}) of ${type.name}`
    throw outOfRange(`The end of ${what}`, `at most ${impl.byteLength}, where ${impl} ends`, byteLength)
  }
  const alignment = type.byteLength / type.lanes
  if (byteLength === 0 || impl.pointer % alignment === 0) return layout
  throw invalidValue(`${impl} begins in the middle of an element of ${alignment} bytes`)
}

/**
 * Makes a buffer of memory that another library lent, on the device `near` unless it is memory of the host. Its contents are
 * ready for `use` after the work of `behind`, and other streams wait for that. `handBack` is called once all work with it is
 * done. Throws ERR_INVALID_HANDLE, ERR_INVALID_ARG_VALUE, ERR_DEVICE_MISMATCH, ERR_CLOSED, ERR_UNSUPPORTED.
 */
export function importTensor(
  lent: LentMemory,
  near: Device,
  use: StreamImpl | undefined,
  behind: StreamImpl | undefined,
  handBack: () => void,
): Tensor {
  const { least, end } = spanOf(lent)
  const { type, shape, strides, readOnly } = lent
  const pointer = (lent.pointer + least * type.byteLength) as Pointer
  const byteLength = (end - least) * type.byteLength
  const driver = driverOf(near)
  const { device: ordinal, isOfHost } = placeOf(driver, pointer, byteLength, near.ordinal)
  const device = deviceOf(driver, ordinal)
  if (device !== near && !isOfHost) {
    throw stateError(
      'ERR_DEVICE_MISMATCH',
      `The memory is on ${device}, not on ${elsewhere(near, device)} as its owner says`,
    )
  }
  if (use !== undefined) {
    openOn(isOfHost ? use.device : device, use, 'To import memory')
    if (behind !== undefined) use.driver.streams.waitStream(use.handle, behind.handle, behind.context)
  }
  const filled = use && {
    ...recordedEvent(use, (event) => use.driver.events.recordInternal(event, use.handle)),
    serial: use.serial,
  }
  const allocation = new LentAllocation(device, driver, { pointer, byteLength, isOfHost }, filled, handBack)
  return {
    buffer: makeBuffer(allocation),
    dtype: type.name,
    shape,
    strides,
    byteOffset: (0 - least) * type.byteLength,
    readOnly,
  }
}
