/** Pinned memory of the host, and its views in JavaScript. */

import { readOptions } from '../../foundation/base/arguments.js'
import { type Bytes, checkSource, type OwnBytes } from '../../foundation/base/bytes.js'
import { describe, invalidValue, refuseReceiver, stateError } from '../../foundation/base/errors.js'
import { construct } from '../../foundation/base/library-object.js'
import { workerThreads } from '../../foundation/base/node-modules.js'
import { contextOf, type Device, driverOf, resolveDevice } from '../device.js'
import { PinnedAllocation } from './allocations.js'
import { BufferImpl, bufferImplOf, bytesToAllocate, Memory, type ViewConstructor, viewOf } from './buffer.js'
import { allocateOnHost } from './out-of-memory.js'

/** Views of memory that the program did not register keep its buffer reachable, by their ArrayBuffer. */
const buffersOfViews = new WeakMap<ArrayBuffer, PinnedBuffer>()

/**
 * Page-locked memory of the host: GPUs copy from and to it without help of the processor. Slices and views keep the
 * whole reachable, but views of registered memory do not; a buffer that the program cannot reach any more is closed.
 *
 * A closed buffer, or a slice of one, is ERR_CLOSED for every call that uses it; only `pointer`, `byteLength`,
 * `device`, `closed` and `close()` still work. An argument of the wrong type is ERR_INVALID_ARG_TYPE.
 */
export class PinnedBuffer extends Memory {
  /** Use `device.allocPinned(byteLength)`. */
  private constructor(impl: BufferImpl) {
    super(impl, 'PinnedBuffer', 'device.allocPinned(byteLength)')
  }

  /** @internal */
  static [construct](impl: BufferImpl): PinnedBuffer {
    return new PinnedBuffer(impl)
  }

  /**
   * Page-locks existing memory of JavaScript (`cuMemHostRegister`): a SharedArrayBuffer, which other threads may write, a
   * file that an addon has mapped, or any array. The array remains yours, and is not detached by `close()`. It is retained
   * until the buffer is closed and all work is done that was queued with it; then it is unlocked. The call is slow.
   * @param array A typed array, a DataView or a whole ArrayBuffer, shared or not. An ArrayBuffer can
   * never be transferred afterwards: `postMessage` copies it or refuses, and its `transfer()` throws. Do not call
   * `ArrayBuffer.prototype.transfer` on it.
   * @param options `device`: the device whose context locks it (default: the current device); every device can access it
   * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for an array that is detached, ERR_OUT_OF_RANGE for a
   * device that does not exist; ERR_UNSUPPORTED for a resizable ArrayBuffer, for that of a WebAssembly.Memory
   * that is not shared (Node 20 cannot recognise it: do not pass it), and if it cannot be kept from being transferred
   * @throws {CudaError} 712 for memory that is registered already, or was registered and is still in use; 1 for memory of `allocPinned()`
   * @example
   * ```ts
   * const shared = new SharedArrayBuffer(4096) // other threads write it
   * using pinned = PinnedBuffer.from(shared)
   * await stream.copy(buffer, pinned).finished()
   * ```
   */
  static from(array: Bytes, options?: { readonly device?: Device | number | undefined }): PinnedBuffer {
    const given = readOptions(options, ['device'])
    return register(checkSource(array, 'array'), resolveDevice(given.device))
  }

  /**
   * The memory itself, not a copy: bytes that GPUs write appear here once that work is done, which this does not wait
   * for. Closing the buffer detaches the array at once: its length is 0 then. For registered memory it is a view of
   * your array, whose memory may be a SharedArrayBuffer, and does not keep the buffer reachable. Do not transfer the
   * ArrayBuffer of other pinned memory: this library cannot access the memory afterwards.
   * @throws {Error} ERR_CLOSED; ERR_INVALID_ARG_VALUE if its ArrayBuffer was transferred; ERR_UNSUPPORTED for more bytes
   * than typed arrays can have in this Node: take slices
   */
  get bytes(): OwnBytes {
    const impl = implOf(this)
    impl.viewed()
    return impl.ownBytes()
  }

  /**
   * The memory itself as typed elements. Detached like `bytes`.
   * @param type A constructor of typed arrays, such as Float32Array.
   * @throws {Error} ERR_INVALID_ARG_VALUE if the elements do not fit, ERR_INVALID_ARG_TYPE for a value that is no
   * constructor of typed arrays, ERR_CLOSED; ERR_UNSUPPORTED for more elements than typed arrays can have in this Node
   * @example
   * ```ts
   * const samples = pinned.view(Float32Array)
   * await stream.copy(pinned, buffer).finished()
   * console.log(samples[0])
   * ```
   */
  view<V extends ArrayBufferView>(type: ViewConstructor<V>): V {
    const impl = implOf(this)
    impl.viewed()
    return viewOf(type, impl, impl.viewOffset, () => impl.ownBuffer())
  }

  /**
   * A part of the buffer, which shares its memory and ends with it: `TypedArray.subarray()`, in bytes.
   * @param begin Where the part begins. A negative number counts from the end of this buffer.
   * @param end Where the part ends: the first byte behind it. A negative number counts from the end. Default: the end.
   * @throws {Error} ERR_OUT_OF_RANGE if an offset does not lie within the buffer, or `end` before `begin`, where JavaScript's
   * arrays give a shorter part; ERR_INVALID_ARG_TYPE, ERR_CLOSED
   * @example
   * ```ts
   * stream.fill(buffer.subarray(0, 4), 1).fill(buffer.subarray(4), 0) // the first four bytes, and all others
   * ```
   */
  subarray(begin: number, end?: number): PinnedBuffer {
    return new PinnedBuffer(implOf(this).subarray(this, begin, end))
  }

  override get [Symbol.toStringTag](): string {
    return 'PinnedBuffer'
  }
}

/** `device.allocPinned()`, for a checked length. */
export function allocatePinned(device: Device, byteLength: number): PinnedBuffer {
  const impl = allocatePinnedImpl(device, byteLength)
  const buffer = PinnedBuffer[construct](impl)
  buffersOfViews.set(impl.ownBuffer(), buffer)
  return buffer
}

/** Registers memory of JavaScript. The driver retains it as long as it is registered. */
function register(bytes: Uint8Array, device: Device): PinnedBuffer {
  // The driver locks no memory without bytes, and nothing shows whose these are.
  if (bytes.length === 0) return allocatePinned(device, 0)
  const forbidTransfer = transferGuardOf(bytes.buffer)
  const driver = driverOf(device)
  const pointer = driver.memory.registerPinned(bytes, contextOf(device))
  forbidTransfer()
  const impl = new BufferImpl(new PinnedAllocation(device, driver, pointer, bytes.length, false))
  // It may be a SharedArrayBuffer, of which views are made in the same way.
  impl.bytes = bytes.buffer as ArrayBuffer
  impl.bytesBegin = bytes.byteOffset
  return PinnedBuffer[construct](impl)
}

/** Internal pinned memory. The uses by the stream of the serial number `untracked` are not tracked: they are done before it is freed. */
export function allocatePinnedImpl(device: Device, byteLength: number, untracked?: number): BufferImpl {
  const driver = driverOf(device)
  const allocated = bytesToAllocate(byteLength)
  const { pointer, bytes } = allocateOnHost(() => driver.memory.allocatePinned(allocated, contextOf(device)))
  const allocation = new PinnedAllocation(device, driver, pointer, allocated, true, untracked)
  const impl = new BufferImpl(allocation, undefined, undefined, 0, byteLength)
  impl.bytes = bytes
  return impl
}

function implOf(buffer: unknown): BufferImpl {
  const impl = bufferImplOf(buffer)
  return impl?.isPinned ? impl : refuseReceiver('a PinnedBuffer', buffer)
}

const TRANSFERS = ['transfer', 'transferToFixedLength'] as const

/** A number of bytes that is larger than the memory of any process. */
const TOO_MANY = Number.MAX_SAFE_INTEGER
/** `ArrayBuffer.prototype.transfer`, which Node 20 does not have. */
const transfer: unknown = Reflect.get(ArrayBuffer.prototype, TRANSFERS[0])

let marksWork: boolean | undefined

/**
 * V8 never moves the memory of an ArrayBuffer, but gives it to another one by a transfer, and frees it with that one. Returns
 * a function that forbids that for good: it cannot be taken back.
 * @throws ERR_UNSUPPORTED if it cannot be forbidden
 */
function transferGuardOf(buffer: ArrayBufferLike): () => void {
  // A page has that class only if it is isolated from other origins.
  if (typeof SharedArrayBuffer === 'function' && buffer instanceof SharedArrayBuffer) return () => {}
  if (Reflect.get(buffer, 'resizable') === true) {
    throw stateError(
      'ERR_UNSUPPORTED',
      'A resizable ArrayBuffer cannot be registered: its memory may go while a GPU uses it',
    )
  }
  marksWork ??= testMarks()
  if (!marksWork || !Object.isExtensible(buffer)) {
    throw stateError(
      'ERR_UNSUPPORTED',
      `${describe(buffer)} cannot be kept from being transferred here: register a SharedArrayBuffer`,
    )
  }
  if (isOfWebAssembly(buffer)) {
    throw stateError(
      'ERR_UNSUPPORTED',
      'The ArrayBuffer of a WebAssembly.Memory cannot be registered: its memory goes where that grows. Make it with { shared: true }',
    )
  }
  return () => {
    markAsUntransferable(buffer)
    for (const name of TRANSFERS) {
      if (name in buffer) Object.defineProperty(buffer, name, { value: refuseTransfer })
    }
  }
}

/**
 * Is the ArrayBuffer one of WebAssembly's? Only those cannot be transferred among unmarked ones; in Node 20 that cannot be
 * tested.
 */
function isOfWebAssembly(buffer: ArrayBufferLike): boolean {
  if (typeof transfer !== 'function' || isMarkedAsUntransferable(buffer)) return false
  try {
    transfer.call(buffer, TOO_MANY)
    return false
  } catch (error) {
    // It checks whether it may transfer before it allocates.
    return !(error instanceof RangeError)
  }
}

function refuseTransfer(): never {
  throw invalidValue('This ArrayBuffer cannot be transferred: its memory was registered by PinnedBuffer.from()')
}

/** Marks an ArrayBuffer so that it cannot be transferred. False if the run time cannot do that. */
function markAsUntransferable(buffer: object): boolean {
  workerThreads.markAsUntransferable?.(buffer)
  return typeof workerThreads.markAsUntransferable === 'function'
}

/** False if the run time cannot tell. */
function isMarkedAsUntransferable(buffer: object): boolean {
  const query: unknown = Reflect.get(workerThreads, 'isMarkedAsUntransferable')
  return typeof query === 'function' && query(buffer) === true
}

/** Are marked ArrayBuffers not transferred? Not every run time supports it. */
function testMarks(): boolean {
  const scratch = new ArrayBuffer(8)
  if (!markAsUntransferable(scratch)) return false
  try {
    structuredClone(scratch, { transfer: [scratch] })
  } catch {
    // Refused, so it was not transferred.
  }
  return scratch.byteLength > 0
}
