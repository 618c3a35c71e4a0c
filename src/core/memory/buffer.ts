/**
 * The common base of DeviceBuffer and PinnedBuffer: an address, a length, slices, and an end. The rest of the library works
 * with their implementation, which refers to a whole allocation or to a slice of one.
 */

import { checkInteger } from '../../foundation/base/arguments.js'
import type { OwnBytes } from '../../foundation/base/bytes.js'
import { LONGEST_ARRAY } from '../../foundation/base/bytes.js'
import { closedAt, noteClosed } from '../../foundation/base/closing-places.js'
import { invalidType, invalidValue, outOfRange, refuseReceiver, stateError } from '../../foundation/base/errors.js'
import { destroyWhenUnreachable } from '../../foundation/base/finalization.js'
import { ClosableObject, checkMade, implementation, nextSerial } from '../../foundation/base/library-object.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { Pointer } from '../../foundation/driver/handle-types.js'
import type { Access } from '../../foundation/driver/touched-memory.js'
import { another, type Device } from '../device.js'
import { unregister } from '../streams/shared.js'
import { retryRefused } from './allocation-stream.js'
import { type Allocation, PinnedAllocation } from './allocations.js'

/** Addresses have 47 bits. */
const LONGEST = 2 ** 47 - 1

/** A piece of memory that was found to be open. */
export interface OpenMemory {
  readonly allocation: Allocation
  readonly pointer: Pointer
}

export class BufferImpl implements OpenMemory {
  readonly device: Device
  readonly pointer: Pointer
  readonly serial = nextSerial()
  /** The handle that kernels get for the memory of a texture or surface, and their access by it; undefined for a buffer, of which they get the address. */
  readonly object: { readonly handle: number; readonly access: Access } | undefined = undefined
  /** The buffer itself, or the one of which it is a slice. */
  readonly whole: BufferImpl
  /** The owner of foreign memory, until the buffer is closed; only set in the whole buffer. */
  owner: object | undefined
  /**
   * The ArrayBuffer of the views of pinned memory, and the offset in it at which the memory begins; only set in the whole buffer.
   */
  bytes: ArrayBuffer | undefined
  bytesBegin = 0
  #closed = false
  #view: OwnBytes | undefined

  /** `parent` is the buffer that a slice keeps reachable, since the slice ends with it. */
  constructor(
    readonly allocation: Allocation,
    whole?: BufferImpl,
    readonly parent?: object,
    readonly byteOffset = 0,
    readonly byteLength = allocation.byteLength,
  ) {
    this.device = allocation.device
    this.whole = whole ?? this
    this.pointer = (allocation.pointer + byteOffset) as Pointer
  }

  get isPinned(): boolean {
    return this.allocation instanceof PinnedAllocation
  }

  get isClosed(): boolean {
    return this.#closed || this.whole.#closed
  }

  checkOpen(): this {
    if (this.isClosed) throw this.#closedError()
    return this
  }

  /** The end of an error that says where it was closed, if that is known. */
  get closedAt(): string {
    return closedAt(this, this.whole)
  }

  #closedError(): Error {
    return stateError('ERR_CLOSED', `${this} cannot be used any more${this.closedAt}`)
  }

  /** This one, for use with a driver. Throws ERR_CLOSED, or ERR_DEVICE_MISMATCH if it belongs to another driver. */
  openFor(driver: Driver): this {
    this.checkOpen()
    if (this.allocation.driver === driver) return this
    throw this.ofAnotherDriver(driver)
  }

  /** @param name Where a message begins that says of which argument it is. */
  ofAnotherDriver(driver: Driver, name = ''): Error {
    const owner = another(this.allocation.driver, driver)
    return stateError(
      'ERR_DEVICE_MISMATCH',
      `${name}${this} belongs to ${owner} than the stream it is used with: use memory of the stream's own device`,
    )
  }

  /** A part of it, by offsets as `TypedArray.subarray()` has them, checked. `buffer` is the public object of this one. */
  subarray(buffer: object | undefined, begin: number, end: number | undefined): BufferImpl {
    this.checkOpen()
    const from = this.#offset(begin, 'begin')
    const to = end === undefined ? this.byteLength : this.#offset(end, 'end')
    if (from <= to)
      return new BufferImpl(this.allocation, this.whole, this.parent ?? buffer, this.byteOffset + from, to - from)
    throw outOfRange('end', `${from} or more, where the part begins: it is an offset and no length`, end)
  }

  #offset(value: number, name: string): number {
    const all = this.byteLength
    const expected = (): string => `from 0 to ${all}, the length of ${this}, or from -${all}, counted from its end`
    const offset = checkInteger(value, name, -all, all, expected)
    return offset < 0 ? all + offset : offset
  }

  /** Reports to the driver that JavaScript is about to read or write the memory. Throws ERR_CLOSED. */
  viewed(): void {
    this.checkOpen()
    this.allocation.driver.memory.viewed(this.pointer, this.byteLength)
  }

  /** The bytes of pinned memory. Does not report to the driver: that is for the places where programs get them. */
  ownBytes(): OwnBytes {
    this.checkFitsArray(this.byteLength)
    const buffer = this.ownBuffer()
    this.#view ??= new Uint8Array(buffer, this.viewOffset, this.byteLength)
    return this.#view
  }

  /** The offset in `ownBuffer()` at which this buffer begins. */
  get viewOffset(): number {
    return this.whole.bytesBegin + this.byteOffset
  }

  ownBuffer(): ArrayBuffer {
    const { bytes } = this.whole
    if (bytes === undefined) throw this.#closedError()
    if (bytes.byteLength > 0) return bytes
    throw invalidValue(`The ArrayBuffer of ${this} has been detached: its bytes are somewhere else`)
  }

  /** Memory may be longer than an array can be. */
  checkFitsArray(elements: number): void {
    if (elements <= LONGEST_ARRAY) return
    const what = `${this} has more elements than a typed array can have here, which is ${LONGEST_ARRAY}`
    throw stateError('ERR_UNSUPPORTED', `${what}: take slices of it`)
  }

  close(): void {
    if (this.#closed) return
    noteClosed(this)
    this.#closed = true
    if (this.whole !== this) return
    const { allocation, bytes } = this
    if (allocation.users === 0) this.#end()
    // The memory remains for its users, but not its views.
    else if (bytes !== undefined && this.#detachesViews) allocation.driver.memory.detachPinned(this.pointer, bytes)
  }

  /** Runs code of the program that uses memory. Memory that it closes is freed afterwards. */
  static retainDuring(impls: readonly BufferImpl[], fn: () => void): void {
    for (const impl of impls) impl.retain()
    try {
      fn()
    } finally {
      for (const impl of impls) impl.release()
    }
  }

  /**
   * Called when other code uses the memory. A buffer that is closed meanwhile is freed when it has been released as often.
   */
  retain(): void {
    this.allocation.users += 1
  }

  release(): void {
    const { allocation, whole } = this
    allocation.users -= 1
    if (allocation.users === 0 && whole.#closed && !allocation.isDisposed) whole.#end()
  }

  get #detachesViews(): boolean {
    return this.allocation instanceof PinnedAllocation && this.allocation.detachesViews
  }

  #end(): void {
    const { allocation } = this
    try {
      if (allocation instanceof PinnedAllocation && allocation.detachesViews) allocation.views = this.bytes
      allocation.dispose()
      retryRefused(allocation.driver)
    } finally {
      // If the driver has refused, the buffer is as it was before.
      this.#closed = allocation.isDisposed
      if (this.#closed) {
        unregister(this)
        this.owner = undefined
        this.bytes = undefined
      }
    }
  }

  toString(): string {
    const name = this.isPinned ? 'PinnedBuffer' : 'DeviceBuffer'
    const address = `0x${this.pointer.toString(16)}`
    return `${name}(${address}, ${this.byteLength} bytes, ${this.device}${this.isClosed ? ', closed' : ''})`
  }
}

/** A length that memory can have. */
export const checkLength = (byteLength: unknown): number => checkInteger(byteLength, 'byteLength', 0, LONGEST)

/** The bytes to ask the driver for: it allocates none where the program wants none, and such memory has to be used as any. */
export const bytesToAllocate = (byteLength: number): number => Math.max(byteLength, 1)

/** Device memory or pinned memory. */
export abstract class Memory extends ClosableObject {
  /** The device that the memory is on or, for pinned memory, that it was allocated for. */
  readonly device: Device
  /** The length in bytes. */
  readonly byteLength: number
  /** The number of this object: no other object of this thread has it. Others may be of the same memory. */
  readonly serial: number
  /** @internal */
  declare readonly [implementation]: BufferImpl

  protected constructor(impl: BufferImpl, name: string, way: string) {
    super()
    checkMade(impl, BufferImpl, name, way)
    this.device = impl.device
    this.byteLength = impl.byteLength
    this.serial = impl.serial
    this[implementation] = impl
    if (impl.whole === impl) destroyWhenUnreachable(this, impl.allocation)
  }

  /**
   * The address: the same for every GPU of the driver and, for pinned memory, for this process. It keeps nothing alive:
   * hold the buffer as long as others use it. It can still be read after `close()`, when another buffer may have it.
   */
  get pointer(): bigint {
    return BigInt(implOf(this).pointer)
  }

  /** Was the buffer closed? True for a slice of a closed buffer, too. */
  override get closed(): boolean {
    return implOf(this).isClosed
  }

  /**
   * Frees the memory when all work is done that this library queued with it, on any stream. Neither this call nor any
   * stream waits for that. Memory of `device.alloc()` is freed in the order of its stream (`cuMemFreeAsync`), or once the
   * other streams that used it are done, unless the stream has waited for them. If the stream belongs to another library, it
   * delays no free: wait until its work is done. To close a slice only ends that slice. May be called twice.
   *
   * A graph that uses the buffer retains the memory: it is freed when the graph, its instances and their launches are
   * over. Work that only had the address is not counted: make the buffer's stream wait for it first,
   * `stream.wait(theirs)`, then close.
   */
  close(): void {
    implOf(this).close()
  }
}

/** The implementation of a buffer; undefined for any other value. */
export const bufferImplOf = (value: unknown): BufferImpl | undefined =>
  value instanceof Memory ? value[implementation] : undefined

export const isMemory = (value: unknown): value is Memory => bufferImplOf(value) !== undefined

/** The implementation, for use with a driver. Throws ERR_CLOSED, or ERR_DEVICE_MISMATCH for a buffer of another driver. */
export const openMemory = (memory: Memory, driver: Driver): BufferImpl => implOf(memory).openFor(driver)

const implOf = (memory: unknown): BufferImpl => bufferImplOf(memory) ?? refuseReceiver('a buffer', memory)

/** A constructor of typed arrays, such as `Float32Array`. */
export interface ViewConstructor<V extends ArrayBufferView> {
  /** The bytes of an element. */
  readonly BYTES_PER_ELEMENT: number
  /**
   * Makes a view.
   * @param buffer The memory.
   * @param byteOffset Where the view begins, in bytes.
   * @param length The elements of the view.
   */
  new (buffer: ArrayBuffer, byteOffset: number, length: number): V
}

/**
 * A view of as many bytes as the buffer has. `memory` is called last, since the constructor may be the program's. Throws
 * ERR_INVALID_ARG_TYPE for a value that makes no views, ERR_INVALID_ARG_VALUE if the elements do not fit.
 */
export function viewOf<V extends ArrayBufferView>(
  type: ViewConstructor<V>,
  impl: BufferImpl,
  byteOffset: number,
  memory: () => ArrayBuffer,
): V {
  // In JavaScriptCore DataView has elements of one byte.
  const isOther = !isConstructor(type) || (type as unknown) === DataView
  const width: unknown = isOther ? undefined : type.BYTES_PER_ELEMENT
  if (typeof width !== 'number' || !Number.isInteger(width) || width <= 0) throw notViewConstructor(type)
  const { byteLength } = impl
  if (byteLength % width !== 0) throw invalidValue(`${impl} is no whole number of elements of ${width} bytes`)
  if (byteOffset % width !== 0) {
    throw invalidValue(`${impl} begins in the middle of an element of ${width} bytes, at byte ${byteOffset}`)
  }
  impl.checkFitsArray(byteLength / width)
  const view = new type(memory(), byteOffset, byteLength / width)
  if (ArrayBuffer.isView(view)) return view
  throw notViewConstructor(type)
}

/** Can it be called by `new`? A function such as `() => {}` cannot. It is not called. */
function isConstructor(value: unknown): boolean {
  if (typeof value !== 'function') return false
  try {
    Reflect.construct(Object, [], value)
    return true
  } catch {
    return false
  }
}

const notViewConstructor = (given: unknown): Error =>
  invalidType('type', 'a constructor of typed arrays such as Float32Array', given)
