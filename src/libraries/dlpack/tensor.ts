/** Memory of another library that was taken in, and the layout of its elements. */
import { invalidValue, outOfRange, stateError } from '../../base/errors.js'
import { type Device, deviceOf, driverOf, elsewhere } from '../../device.js'
import type { Pointer } from '../../driver/driver.js'
import type { BufferCore } from '../../memory/buffer-core.js'
import { type DeviceBuffer, makeBuffer, placeOf } from '../../memory/device-buffer.js'
import { recordedEvent } from '../../memory/stream-uses.js'
import type { StreamCore } from '../../streams/stream-core.js'
import { openOn } from './consumer-stream.js'
import type { DType, ParsedType } from './dtype.js'
import { checkLayout, type Layout, spanOf } from './layout.js'
import { LentAllocation } from './lent-allocation.js'

/** Memory of another library, and how its elements lie there. */
export interface Tensor {
  /** From the first byte to the last that belongs to an element. Close it when you are done. */
  readonly buffer: DeviceBuffer
  /** The type of the elements. */
  readonly dtype: DType
  /** Elements in each direction. */
  readonly shape: readonly number[]
  /** Elements from one to the next in each direction; may be negative. */
  readonly strides: readonly number[]
  /** Where the element is whose indices are all zero, in bytes from the beginning of the buffer; 0 unless a stride is negative. */
  readonly byteOffset: number
  /** Its owner does not want it written. Nothing keeps you from it. */
  readonly readOnly: boolean
}

/** What another library says of its memory. */
export interface LentMemory extends Layout {
  /** Of the element whose indices are all zero. */
  readonly pointer: number
  readonly type: ParsedType
  readonly readOnly: boolean
}

/** The elements of a buffer that is handed out. */
export interface ElementOptions {
  /** The type of the elements: 'f32', 'i64', 'bf16' … */
  readonly dtype: DType
  /** Elements in each direction. */
  readonly shape: readonly number[]
  /** Elements from one to the next in each direction. Default: without gaps, the last direction the densest. */
  readonly strides?: readonly number[] | undefined
}

/**
 * The layout of elements that lie in a buffer.
 * @throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_OUT_OF_RANGE
 */
export function layoutIn(core: BufferCore, type: ParsedType, shape: unknown, strides: unknown): Layout {
  const layout = checkLayout(shape, strides)
  const byteLength = spanOf(layout).end * type.byteLength
  if (!(byteLength <= core.byteLength)) {
    const what = `shape (${layout.shape.join(', ')}) with strides (${layout.strides.join(', ')}) of ${type.name}`
    throw outOfRange(`The end of ${what}`, `at most ${core.byteLength}, where ${core} ends`, byteLength)
  }
  const alignment = type.byteLength / type.lanes
  if (core.pointer % alignment === 0) return layout
  throw invalidValue(`${core} begins in the middle of an element of ${alignment} bytes`)
}

/**
 * A buffer of memory that another library lent, on the device `near` unless it is the host's. Its contents are there for
 * `use`, behind the work of `behind`, and other streams wait for that. `handBack` is called once all work is done with it.
 * @throws ERR_INVALID_HANDLE, ERR_INVALID_ARG_VALUE, ERR_DEVICE_MISMATCH, ERR_CLOSED, ERR_UNSUPPORTED
 */
export function takeIn(
  lent: LentMemory,
  near: Device,
  use: StreamCore | undefined,
  behind: StreamCore | undefined,
  handBack: () => void,
): Tensor {
  const { least, end } = spanOf(lent)
  const { type, shape, strides, readOnly } = lent
  if (end === least) throw invalidValue(`A tensor of shape (${shape.join(', ')}) has no elements, and no memory`)
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
    openOn(isOfHost ? use.device : device, use, 'To take memory in')
    if (behind !== undefined) use.driver.streamWaitStream(use.handle, behind.handle, behind.context)
  }
  const there = use && {
    ...recordedEvent(use, (event) => use.driver.eventRecordOwn(event, use.handle)),
    serial: use.serial,
  }
  const allocation = new LentAllocation(device, driver, pointer, byteLength, isOfHost, there, handBack)
  return {
    buffer: makeBuffer(allocation),
    dtype: type.name,
    shape,
    strides,
    byteOffset: (0 - least) * type.byteLength,
    readOnly,
  }
}
