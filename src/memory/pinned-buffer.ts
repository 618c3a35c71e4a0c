/** Pinned memory of the host, and its views in JavaScript. */
import { checkInteger, readOptions } from '../base/arguments.js'
import { type Bytes, checkSource, type OwnBytes } from '../base/bytes.js'
import { refuseReceiver } from '../base/errors.js'
import { contextOf, type Device, driverOf, resolveDevice } from '../device.js'
import { PinnedAllocation } from './allocations.js'
import { bufferCoreOf, Memory } from './buffer.js'
import { BufferCore } from './buffer-core.js'
import { keeperOf } from './keep-in-place.js'
import { type ViewConstructor, viewOf } from './views.js'

let makeBuffer: (core: BufferCore) => PinnedBuffer

/** Views of memory that is not the program's keep its buffer reachable, by the ArrayBuffer that they look at. */
const buffersOfViews = new WeakMap<ArrayBuffer, PinnedBuffer>()

/**
 * Page-locked memory of the host, which GPUs copy from and to without help of the processor. Slices and views keep the
 * whole reachable, but views of registered memory do not; a buffer that the program cannot reach any more is closed.
 *
 * A buffer that is closed, or a slice of one, is ERR_CLOSED for every call that uses it; only `pointer`, `byteLength`,
 * `device`, `closed` and `close()` still answer. An argument of the wrong type is ERR_INVALID_ARG_TYPE.
 */
export class PinnedBuffer extends Memory {
  /** Use `device.allocPinned(byteLength)`. */
  private constructor(core: BufferCore) {
    super(core, 'obtained from device.allocPinned(byteLength)')
  }

  /**
   * Page-locks memory that JavaScript has already (`cuMemHostRegister`): a SharedArrayBuffer, which other threads may write, a
   * file that an addon has mapped, or any array. The array stays yours, and is not emptied at the close. It is kept until
   * the buffer is closed and all work is done that was queued with it; then it is unlocked. The call is slow.
   * @param array A typed array, a DataView or a whole ArrayBuffer, shared or not, of at least one byte. An ArrayBuffer can never
   * again be transferred: `postMessage` copies it or refuses, and its `transfer()` throws. Do not call that of the prototype on it.
   * @param options `device`: the device whose context locks it (default: the current device); every device reaches it
   * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for an array that is detached, ERR_OUT_OF_RANGE for an
   * empty one and a device that does not exist; ERR_UNSUPPORTED for a resizable ArrayBuffer, for that of a WebAssembly.Memory
   * that is not shared (Node 20 cannot tell it from others: do not pass it), and where it cannot be kept
   * @throws {CudaError} 712 for memory that is registered already, or was and is in use still
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
   * for. Closing the buffer detaches the array at once: its length is 0 then. Of memory that was registered it is a view of
   * your array, whose memory may be a SharedArrayBuffer, and does not keep the buffer reachable. Do not transfer the
   * ArrayBuffer of other pinned memory: this library cannot look at the memory any more.
   * @throws {Error} ERR_CLOSED; ERR_INVALID_ARG_VALUE where its ArrayBuffer was transferred; ERR_UNSUPPORTED for more bytes
   * than this Node's typed arrays have: take slices
   */
  get bytes(): OwnBytes {
    const core = coreOf(this)
    core.viewed()
    return core.ownBytes()
  }

  /**
   * The memory itself as typed elements. Detached like `bytes`.
   * @param type A constructor of typed arrays, such as Float32Array.
   * @throws {Error} ERR_INVALID_ARG_VALUE where the elements do not fit, ERR_INVALID_ARG_TYPE for a value that is no
   * constructor of typed arrays, ERR_CLOSED; ERR_UNSUPPORTED for more elements than this Node's typed arrays have
   * @example
   * ```ts
   * const samples = pinned.view(Float32Array)
   * await stream.copy(pinned, buffer).finished()
   * console.log(samples[0])
   * ```
   */
  view<V extends ArrayBufferView>(type: ViewConstructor<V>): V {
    const core = coreOf(this)
    core.viewed()
    return viewOf(type, core, core.viewOffset, () => core.ownBuffer())
  }

  /**
   * A part of the buffer, which shares its memory and ends with it.
   * @param byteOffset Where the part begins, in bytes from the beginning of this buffer.
   * @param byteLength Bytes; may be 0.
   * @throws {Error} ERR_OUT_OF_RANGE where the part does not lie within the buffer, ERR_INVALID_ARG_TYPE, ERR_CLOSED
   */
  slice(byteOffset: number, byteLength: number): PinnedBuffer {
    return new PinnedBuffer(coreOf(this).slice(this, byteOffset, byteLength))
  }

  override get [Symbol.toStringTag](): string {
    return 'PinnedBuffer'
  }

  static {
    makeBuffer = (core) => new PinnedBuffer(core)
  }
}

/** `device.allocPinned()`, for a length that was checked. */
export function allocatePinned(device: Device, byteLength: number): PinnedBuffer {
  const core = pinnedCore(device, byteLength)
  const buffer = makeBuffer(core)
  buffersOfViews.set(core.ownBuffer(), buffer)
  return buffer
}

/** Memory that JavaScript has: kept by the driver as long as it is registered. */
function register(bytes: Uint8Array, device: Device): PinnedBuffer {
  checkInteger(bytes.length, 'array.byteLength', 1)
  const keepInPlace = keeperOf(bytes.buffer)
  const driver = driverOf(device)
  const pointer = driver.memory.registerPinned(bytes, contextOf(device))
  keepInPlace()
  const core = new BufferCore(new PinnedAllocation(device, driver, pointer, bytes.length, false))
  // Views are made of it as of any ArrayBuffer, though it may be a SharedArrayBuffer.
  core.bytes = bytes.buffer as ArrayBuffer
  core.bytesBegin = bytes.byteOffset
  return makeBuffer(core)
}

/** Pinned memory of the library's own. */
export function pinnedCore(device: Device, byteLength: number): BufferCore {
  const driver = driverOf(device)
  const { pointer, bytes } = driver.memory.allocatePinned(byteLength, contextOf(device))
  const core = new BufferCore(new PinnedAllocation(device, driver, pointer, byteLength))
  core.bytes = bytes
  return core
}

function coreOf(buffer: unknown): BufferCore {
  const core = bufferCoreOf(buffer)
  return core?.isPinned ? core : refuseReceiver('a PinnedBuffer', buffer)
}
