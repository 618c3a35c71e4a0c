/** Pinned memory of the host, and what JavaScript sees of it. */
import { invalidReceiver, invalidType, invalidValue } from '../base/errors.js'
import { contextOf, type Device, driverOf } from '../device.js'
import { PinnedAllocation } from './allocations.js'
import { Memory } from './buffer.js'
import { BufferCore } from './buffer-core.js'

/** A constructor of typed arrays, such as `Float32Array`. */
export interface ViewConstructor<V extends ArrayBufferView> {
  /** Bytes that an element has. */
  readonly BYTES_PER_ELEMENT: number
  /** Makes a view of `length` elements, `byteOffset` bytes into the memory. */
  new (buffer: ArrayBuffer, byteOffset: number, length: number): V
}

/** Views of a pinned buffer keep it reachable, by the ArrayBuffer that they look at. */
const buffersOfViews = new WeakMap<ArrayBuffer, PinnedBuffer>()

/** The core of a PinnedBuffer; undefined for all else. */
let pinnedCoreOf: (value: unknown) => BufferCore | undefined

/**
 * Page-locked memory of the host, which GPUs copy from and to without help of the processor. Slices and views keep the
 * whole reachable; one that the program cannot reach any more is closed.
 *
 * A buffer that is closed, or a slice of one, is ERR_CLOSED for all that uses it; only `pointer`, `byteLength`,
 * `device`, `closed` and `close()` still answer. An argument of the wrong type is ERR_INVALID_ARG_TYPE.
 */
export class PinnedBuffer extends Memory {
  readonly #core: BufferCore

  /** Use `device.allocPinned(byteLength)`. */
  constructor(core: never)
  /** @internal */
  constructor(core: BufferCore)
  constructor(core: BufferCore) {
    super(core, 'had from device.allocPinned(byteLength)')
    this.#core = core
  }

  /**
   * The memory itself, not a copy: what GPUs write appears here, once that work is done. Closing the buffer detaches it
   * at once, its length is 0 then. Nothing is waited for.
   * @throws ERR_CLOSED; ERR_UNSUPPORTED for more bytes than this Node's typed arrays have: take slices
   */
  get bytes(): Uint8Array {
    const core = coreOf(this)
    core.viewed()
    return core.ownBytes()
  }

  /**
   * The memory as typed elements: `buffer.view(Float32Array)`. Detached like `bytes`.
   * @throws ERR_INVALID_ARG_VALUE where the elements do not fit, ERR_INVALID_ARG_TYPE for what is no constructor of
   * typed arrays, ERR_CLOSED; ERR_UNSUPPORTED for more elements than this Node's typed arrays have
   */
  view<V extends ArrayBufferView>(type: ViewConstructor<V>): V {
    const core = coreOf(this)
    core.viewed()
    const width = checkWidth(type)
    const { byteLength, byteOffset } = core
    if (byteLength % width !== 0 || byteOffset % width !== 0) {
      throw invalidValue(`${core} is no whole number of elements of ${width} bytes, or begins in the middle of one`)
    }
    core.checkFitsArray(byteLength / width)
    const view = new type(core.ownBuffer(), byteOffset, byteLength / width)
    if (ArrayBuffer.isView(view)) return view
    throw noViewConstructor(type)
  }

  /**
   * A part of it, in bytes, which shares its memory and ends with it. It may have no bytes.
   * @throws ERR_OUT_OF_RANGE where it does not lie within, ERR_INVALID_ARG_TYPE, ERR_CLOSED
   */
  slice(byteOffset: number, byteLength: number): PinnedBuffer {
    return new PinnedBuffer(coreOf(this).slice(this, byteOffset, byteLength))
  }

  override get [Symbol.toStringTag](): string {
    return 'PinnedBuffer'
  }

  static {
    pinnedCoreOf = (value) => (typeof value === 'object' && value !== null && #core in value ? value.#core : undefined)
  }
}

/** `device.allocPinned()`, for a length that was checked. */
export function allocatePinned(device: Device, byteLength: number): PinnedBuffer {
  const core = pinnedCore(device, byteLength)
  const buffer = new PinnedBuffer(core)
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
  const core = pinnedCoreOf(buffer)
  if (core === undefined) throw invalidReceiver('a PinnedBuffer', buffer)
  return core
}

/** How many bytes an element has. Throws ERR_INVALID_ARG_TYPE for a function that makes no views. */
function checkWidth(type: unknown): number {
  const width: unknown = isConstructor(type) ? Reflect.get(type, 'BYTES_PER_ELEMENT') : undefined
  if (typeof width === 'number' && Number.isInteger(width) && width > 0) return width
  throw noViewConstructor(type)
}

/** Can it be called with `new`? The question does not call it. */
function isConstructor(value: unknown): value is new () => object {
  if (typeof value !== 'function') return false
  try {
    Reflect.construct(Object, [], value)
    return true
  } catch {
    return false
  }
}

const noViewConstructor = (given: unknown): Error =>
  invalidType('type', 'a constructor of typed arrays such as Float32Array', given)
