/** Pinned memory of the host, and what JavaScript sees of it. What moves bytes is transfers.ts. */

import { checkThis } from '../base/arguments.js'
import { invalidType, invalidValue, stateError } from '../base/errors.js'
import { contextOf, Device, driverOf, isDevice } from '../device.js'
import { PinnedAllocation } from './allocations.js'
import { checkFitsArray, checkLength, Memory, type MemoryEnds, Part, partOf, viewed, wholeOf } from './buffer.js'

/** A constructor of typed arrays, such as `Float32Array`. */
export interface ViewConstructor<V extends ArrayBufferView> {
  /** Bytes that an element has. */
  readonly BYTES_PER_ELEMENT: number
  /** Makes a view of `length` elements, `byteOffset` bytes into the memory. */
  new (buffer: ArrayBuffer, byteOffset: number, length: number): V
}

/** The bytes of pinned memory of the library's own: no JavaScript but ours looks at it, so the driver is not told. */
export let ownBytes: (buffer: PinnedBuffer) => Uint8Array
let isPinnedBuffer: (value: unknown) => value is PinnedBuffer

const ENDS: MemoryEnds = {
  before(whole, allocation) {
    if (allocation instanceof PinnedAllocation) allocation.views = pinnedBytes.get(whole)
  },
  after: (whole) => void pinnedBytes.delete(whole),
}

/** What the views of a pinned buffer look at, and the buffer that must live as long as they do. */
const pinnedBytes = new WeakMap<Memory, ArrayBuffer>()
const buffersOfViews = new WeakMap<ArrayBuffer, Memory>()

/**
 * Page-locked memory of the host, which GPUs copy from and to without help of the processor. Slices and views keep the
 * whole reachable; what nobody can reach any more is closed.
 *
 * A buffer that is closed, or a slice of one, is ERR_CLOSED for all that uses it; only `pointer`, `byteLength`,
 * `device`, `closed` and `close()` still answer. An argument of the wrong type is ERR_INVALID_ARG_TYPE.
 */
export class PinnedBuffer extends Memory {
  #bytes: Uint8Array | undefined
  readonly #byteOffset: number

  /** Use `device.allocPinned(byteLength)`. */
  constructor(part: never) {
    super(part, 'had from device.allocPinned(byteLength)', ENDS)
    this.#byteOffset = (part as Part).byteOffset
  }

  /**
   * The memory itself, not a copy: what GPUs write appears here, once that work is done. Closing the buffer detaches it
   * at once, its length is 0 then. Nothing is waited for.
   * @throws ERR_CLOSED; ERR_UNSUPPORTED for more bytes than this Node's typed arrays have: take slices
   */
  get bytes(): Uint8Array {
    const buffer = checkThis(this, isPinnedBuffer, 'a PinnedBuffer')
    viewed(buffer)
    return buffer.#all()
  }

  /**
   * The memory as typed elements: `buffer.view(Float32Array)`. Detached like `bytes`.
   * @throws ERR_INVALID_ARG_VALUE where the elements do not fit, ERR_INVALID_ARG_TYPE for what is no constructor of
   * typed arrays, ERR_CLOSED; ERR_UNSUPPORTED for more elements than this Node's typed arrays have
   */
  view<V extends ArrayBufferView>(type: ViewConstructor<V>): V {
    const buffer = checkThis(this, isPinnedBuffer, 'a PinnedBuffer')
    viewed(buffer)
    const width = checkWidth(type)
    const { byteLength } = buffer
    if (byteLength % width !== 0 || buffer.#byteOffset % width !== 0) {
      throw invalidValue(`${buffer} is no whole number of elements of ${width} bytes, or begins in the middle of one`)
    }
    checkFitsArray(buffer, byteLength / width)
    const view = new type(buffer.#buffer(), buffer.#byteOffset, byteLength / width)
    if (ArrayBuffer.isView(view)) return view
    throw noViewConstructor(type)
  }

  /**
   * A part of it, in bytes, which shares its memory and ends with it. It may have no bytes.
   * @throws ERR_OUT_OF_RANGE where it does not lie within, ERR_INVALID_ARG_TYPE, ERR_CLOSED
   */
  slice(byteOffset: number, byteLength: number): PinnedBuffer {
    const buffer = checkThis(this, isPinnedBuffer, 'a PinnedBuffer')
    return new PinnedBuffer(partOf(buffer, byteOffset, byteLength) as never)
  }

  override get [Symbol.toStringTag](): string {
    return 'PinnedBuffer'
  }

  #all(): Uint8Array {
    checkFitsArray(this, this.byteLength)
    this.#bytes ??= new Uint8Array(this.#buffer(), this.#byteOffset, this.byteLength)
    return this.#bytes
  }

  static {
    ownBytes = (buffer) => buffer.#all()
    isPinnedBuffer = (value): value is PinnedBuffer =>
      typeof value === 'object' && value !== null && #byteOffset in value
  }

  #buffer(): ArrayBuffer {
    const buffer = pinnedBytes.get(wholeOf(this))
    if (buffer === undefined) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
    return buffer
  }
}

declare module '../device.js' {
  interface Device {
    /**
     * Allocates so many bytes, at least 1, of page-locked host memory (`cuMemHostAlloc`) that every device of the
     * driver can reach. This is slow: do it once, and use it again and again.
     * @throws ERR_OUT_OF_RANGE, ERR_INVALID_ARG_TYPE; CudaError 2, CUDA_ERROR_OUT_OF_MEMORY
     */
    allocPinned(byteLength: number): PinnedBuffer
  }
}

Device.prototype.allocPinned = function (byteLength: number): PinnedBuffer {
  const device = checkThis(this, isDevice, 'a Device')
  checkLength(byteLength)
  const driver = driverOf(device)
  const { pointer, bytes } = driver.memory.allocatePinned(byteLength, contextOf(device))
  const buffer = new PinnedBuffer(new Part(new PinnedAllocation(device, driver, pointer, byteLength)) as never)
  pinnedBytes.set(buffer, bytes)
  buffersOfViews.set(bytes, buffer)
  return buffer
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
