/** Pinned memory of the host, and its views in JavaScript. */
import type { OwnBytes } from '../base/bytes.js'
import { refuseReceiver } from '../base/errors.js'
import { contextOf, type Device, driverOf } from '../device.js'
import { PinnedAllocation } from './allocations.js'
import { bufferCoreOf, Memory } from './buffer.js'
import { BufferCore } from './buffer-core.js'
import { type ViewConstructor, viewOf } from './views.js'

let makeBuffer: (core: BufferCore) => PinnedBuffer

/** Views of a pinned buffer keep it reachable, by the ArrayBuffer that they look at. */
const buffersOfViews = new WeakMap<ArrayBuffer, PinnedBuffer>()

/**
 * Page-locked memory of the host, which GPUs copy from and to without help of the processor. Slices and views keep the
 * whole reachable; a buffer that the program cannot reach any more is closed.
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
   * The memory itself, not a copy: bytes that GPUs write appear here once that work is done, which this does not wait
   * for. Closing the buffer detaches the array at once: its length is 0 then.
   * @throws {Error} ERR_CLOSED; ERR_UNSUPPORTED for more bytes than this Node's typed arrays have: take slices
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
    return viewOf(type, core, core.byteOffset, () => core.ownBuffer())
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
