/** Device memory and pinned host memory. What moves bytes between them is transfers.ts. */
import { inspect } from 'node:util'
import {
  type Allocation,
  captures,
  DeviceAllocation,
  ForeignAllocation,
  InterprocessAllocation,
  PinnedAllocation,
  SharedAllocation,
} from './allocations.js'
import { checkBoolean, checkInteger, checkOptions, checkOwner, checkPointer } from './arguments.js'
import { driverForHandle } from './default-driver.js'
import { contextOf, Device, deviceOf, driverOf, resolveDevice } from './device.js'
import type { Driver, EventHandle } from './driver/driver.js'
import type { Pointer } from './driver/memory-driver.js'
import { CudaError, invalidType, invalidValue, outOfRange, stateError } from './errors.js'
import { checkIpcBytes, exportMemory, importMemory } from './interprocess-memory.js'
import { destroyWhenUnreachable, release } from './remains.js'
import { announce, isShared, receive, type SharedBuffer, withdraw } from './shared.js'
import { isStream, Stream } from './stream.js'

/** Where device memory is allocated. */
export interface AllocOptions {
  /** The stream in whose order the memory is allocated and, in the end, freed. Default: the current stream of the device. */
  readonly stream?: Stream | undefined
  /**
   * Can be shared with other processes by `ipcHandle()`. It comes from `cuMemAlloc`, without a stream, in steps of 2 MiB.
   * Default: false.
   */
  readonly interprocess?: boolean | undefined
}

/** What is known of memory that another library owns. */
export interface ForeignMemoryOptions {
  /** The device that the memory must be on. It is asked of the driver; -1 means not known. */
  readonly device?: Device | number | undefined
  /** Kept reachable while the buffer or a slice of it lives, until it is closed. */
  readonly owner?: object | undefined
}

/** A constructor of typed arrays, such as `Float32Array`. */
export interface ViewConstructor<V extends ArrayBufferView> {
  /** Bytes that an element has. */
  readonly BYTES_PER_ELEMENT: number
  /** Makes a view of `length` elements, `byteOffset` bytes into the memory. */
  new (buffer: ArrayBuffer, byteOffset: number, length: number): V
}

/** A piece of memory as its driver knows it. */
export interface OpenMemory {
  readonly allocation: Allocation
  readonly pointer: Pointer
}

/** What a buffer is made from inside the library: the whole of an allocation, or a part of another buffer. */
class Part {
  readonly allocation: Allocation
  /** The whole that this is a part of; undefined for the whole. */
  readonly whole: Memory | undefined
  readonly byteOffset: number
  readonly byteLength: number

  constructor(allocation: Allocation, whole?: Memory, byteOffset = 0, byteLength = allocation.byteLength) {
    this.allocation = allocation
    this.whole = whole
    this.byteOffset = byteOffset
    this.byteLength = byteLength
  }
}

/** Is it a DeviceBuffer or a PinnedBuffer, and not merely an heir to one, as a proxy is? */
export let isMemory: (value: unknown) => value is DeviceBuffer | PinnedBuffer
/** For use with a driver. Throws ERR_CLOSED, or ERR_DEVICE_MISMATCH where it belongs to another than the one given. */
export let openMemory: (memory: DeviceBuffer | PinnedBuffer, driver?: Driver) => OpenMemory
/** The bytes of pinned memory of the library's own: no JavaScript but ours looks at it, so the driver is not told. */
export let ownBytes: (buffer: PinnedBuffer) => Uint8Array
let wholeOf: (memory: Memory) => Memory

abstract class Memory implements Disposable {
  /** The device it is on or, of pinned memory, that it was allocated for. */
  readonly device: Device
  /** Its length in bytes. */
  readonly byteLength: number
  readonly #allocation: Allocation
  readonly #whole: Memory
  readonly #byteOffset: number
  #closed = false

  constructor(part: Part, made: string) {
    if (!(part instanceof Part)) throw invalidType('The buffer', made, 'new')
    this.device = part.allocation.device
    this.byteLength = part.byteLength
    this.#allocation = part.allocation
    this.#whole = part.whole ?? this
    this.#byteOffset = part.byteOffset
    if (part.whole === undefined) destroyWhenUnreachable(this, part.allocation)
  }

  /** The address: the same for every GPU of the driver and, of pinned memory, for this process. */
  get pointer(): bigint {
    return BigInt(this.#allocation.pointer + this.#byteOffset)
  }

  /** True for a slice of what is closed, too. */
  get closed(): boolean {
    return this.#closed || this.#whole.#closed
  }

  /** Gives the memory back; closing a slice only ends that slice. Queued work still has it. May be called twice. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    if (this.#whole !== this) return
    withdraw(this, this.device)
    this.beforeClose(this.#allocation)
    release(this, this.#allocation)
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    this.close()
  }

  abstract get [Symbol.toStringTag](): string
  protected beforeClose(_allocation: Allocation): void {}

  toString(): string {
    const address = `0x${this.pointer.toString(16)}`
    const state = this.closed ? ', closed' : ''
    return `${this[Symbol.toStringTag]}(${address}, ${this.byteLength} bytes, ${this.device}${state})`
  }

  [inspect.custom](): string {
    return this.toString()
  }

  /** A part of this one, checked. */
  protected part(byteOffset: number, byteLength: number): Part {
    this.checkOpen()
    checkInteger(byteOffset, 'byteOffset')
    checkInteger(byteLength, 'byteLength')
    if (byteOffset < 0 || byteOffset > this.byteLength) {
      throw outOfRange('byteOffset', `from 0 to ${this.byteLength}, the length of ${this}`, byteOffset)
    }
    const most = this.byteLength - byteOffset
    if (byteLength < 0 || byteLength > most) {
      throw outOfRange('byteLength', `from 0 to ${most}: ${this} ends there`, byteLength)
    }
    return new Part(this.#allocation, this.#whole, this.#byteOffset + byteOffset, byteLength)
  }

  /** Tells the driver that JavaScript is about to look. */
  protected viewed(): void {
    this.checkOpen()
    const { driver, pointer } = this.#allocation
    driver.memory.viewed((pointer + this.#byteOffset) as Pointer, this.byteLength)
  }

  protected checkOpen(): void {
    if (this.closed) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
  }

  static {
    isMemory = (value): value is DeviceBuffer | PinnedBuffer =>
      typeof value === 'object' && value !== null && #allocation in value
    openMemory = (memory: Memory, driver) => {
      memory.checkOpen()
      const allocation = memory.#allocation
      if (driver !== undefined && allocation.driver !== driver) {
        throw stateError('ERR_DEVICE_MISMATCH', `${memory} belongs to another driver than the stream it is used with`)
      }
      return { allocation, pointer: (allocation.pointer + memory.#byteOffset) as Pointer }
    }
    wholeOf = (memory) => memory.#whole
  }
}

/** What owns foreign memory, while a buffer or slice of it lives. */
const owners = new WeakMap<Memory, object>()

/** Memory on a GPU. */
export class DeviceBuffer extends Memory {
  /** Use `device.alloc(byteLength)`. */
  constructor(part: never) {
    super(part, 'had from device.alloc(byteLength) or DeviceBuffer.from(pointer, byteLength)')
  }

  /**
   * Wraps memory that another library owns: `close()` lets go of it, and never frees it. That library must keep it until
   * the work queued here is done.
   * @throws ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for what cannot be a pointer or a length; ERR_INVALID_HANDLE for a
   * pointer that the driver does not know (`cuPointerGetAttribute`); ERR_DEVICE_MISMATCH where `device` is wrong
   */
  static from(pointer: bigint | number, byteLength: number, options?: ForeignMemoryOptions): DeviceBuffer
  /**
   * The buffer that another thread of this process shared by `share()`, whose `close()` here lets go of it; in the thread
   * that shared it, the buffer itself.
   * @throws ERR_CLOSED where it was closed, ERR_INVALID_HANDLE from another process, ERR_UNSUPPORTED from another thread's
   * simulator
   */
  static from(shared: SharedBuffer): DeviceBuffer
  static from(
    pointer: bigint | number | SharedBuffer,
    byteLength: number = 0,
    options?: ForeignMemoryOptions,
  ): DeviceBuffer {
    if (isShared(pointer)) return bufferOfShared(pointer)
    const address = checkPointer(pointer, 'pointer', 'a device pointer (a bigint or a safe integer)') as Pointer
    checkLength(byteLength)
    const given = checkOptions(options) ?? {}
    const owner = checkOwner(given.owner)
    const wanted = given.device === -1 ? undefined : given.device
    const near = resolveDevice(wanted)
    const driver = wanted === undefined ? driverForHandle(address, driverOf(near)) : driverOf(near)
    const device = deviceOf(driver, ordinalOf(driver, address, byteLength, near.ordinal))
    if (wanted !== undefined && device !== near) {
      throw stateError('ERR_DEVICE_MISMATCH', `The memory is on ${device}, not on ${near} as options.device says`)
    }
    const buffer = new DeviceBuffer(new Part(new ForeignAllocation(device, driver, address, byteLength)) as never)
    if (owner !== undefined) owners.set(buffer, owner)
    return buffer
  }

  /**
   * Opens memory that another process shared (`cuIpcOpenMemHandle`): 80 bytes from `ipcHandle()`, or CUDA's own 64 from
   * another library, for a whole allocation. `device` is the one whose streams use it, the current one unless given.
   * Close it before the other process frees its own.
   * @throws ERR_INVALID_ARG_VALUE for other lengths; ERR_INVALID_HANDLE for bytes that are no memory of another process;
   * ERR_UNSUPPORTED on the simulator
   */
  static fromIpcHandle(bytes: Uint8Array, options?: { readonly device?: Device | number | undefined }): DeviceBuffer {
    checkIpcBytes(bytes)
    const device = resolveDevice(checkOptions(options)?.device)
    return new DeviceBuffer(new Part(importMemory(bytes, device)) as never)
  }

  /**
   * The 80 bytes by which another process opens this memory (`cuIpcGetMemHandle`). It must come from
   * `device.alloc(byteLength, { interprocess: true })`, or from `cudaMalloc` of another library. Keep it open until the
   * others have closed theirs.
   * @throws ERR_UNSUPPORTED for other memory and on the simulator, ERR_CLOSED
   */
  ipcHandle(): Uint8Array {
    const { allocation, pointer } = openMemory(this)
    return exportMemory(allocation, pointer - allocation.pointer, this.byteLength)
  }

  /**
   * Describes it to other threads of this process: `DeviceBuffer.from()` makes a buffer of it there. It is kept until you
   * close it; do that when the others have done with it, since their work is not waited for.
   * @throws ERR_CLOSED
   */
  share(): SharedBuffer {
    const { allocation, pointer } = openMemory(this)
    const byteOffset = pointer - allocation.pointer
    const ready = BigInt(allocation.ready ?? 0)
    const whole = announce(wholeOf(this), 'buffer', this.device)
    return { ...whole, pointer: BigInt(pointer), byteOffset, byteLength: this.byteLength, ready }
  }

  /** What is kept reachable for memory that another library owns; undefined once closed. */
  get owner(): object | undefined {
    return this.closed ? undefined : owners.get(wholeOf(this))
  }

  /**
   * A part of it, which shares its memory and ends with it.
   * @throws ERR_OUT_OF_RANGE where it does not lie within, ERR_CLOSED
   */
  slice(byteOffset: number, byteLength: number): DeviceBuffer {
    return new DeviceBuffer(this.part(byteOffset, byteLength) as never)
  }

  override get [Symbol.toStringTag](): string {
    return 'DeviceBuffer'
  }

  protected override beforeClose(): void {
    owners.delete(this)
  }
}

/** What the views of a pinned buffer look at, and the buffer that must live as long as they do. */
const pinnedBytes = new WeakMap<Memory, ArrayBuffer>()
const buffersOfViews = new WeakMap<ArrayBuffer, Memory>()

/** Page-locked memory of the host, which GPUs copy from and to without help of the processor. */
export class PinnedBuffer extends Memory {
  #bytes: Uint8Array | undefined
  readonly #byteOffset: number

  /** Use `device.allocPinned(byteLength)`. */
  constructor(part: never) {
    super(part, 'had from device.allocPinned(byteLength)')
    this.#byteOffset = (part as Part).byteOffset
  }

  /**
   * The memory itself, not a copy: what GPUs write appears here. Closing the buffer detaches it, its length is 0 then.
   * @throws ERR_CLOSED
   */
  get bytes(): Uint8Array {
    this.viewed()
    return this.#all()
  }

  /**
   * The memory as typed elements: `buffer.view(Float32Array)`. Detached like `bytes`.
   * @throws ERR_INVALID_ARG_VALUE where the elements do not fit, ERR_CLOSED
   */
  view<V extends ArrayBufferView>(type: ViewConstructor<V>): V {
    this.viewed()
    const width: unknown = typeof type === 'function' ? type.BYTES_PER_ELEMENT : undefined
    if (typeof width !== 'number') throw invalidType('type', 'a constructor of typed arrays such as Float32Array', type)
    if (this.byteLength % width !== 0 || this.#byteOffset % width !== 0) {
      throw invalidValue(`${this} is no whole number of elements of ${width} bytes, or begins in the middle of one`)
    }
    return new type(this.#buffer(), this.#byteOffset, this.byteLength / width)
  }

  /**
   * A part of it, which shares its memory and ends with it.
   * @throws ERR_OUT_OF_RANGE where it does not lie within, ERR_CLOSED
   */
  slice(byteOffset: number, byteLength: number): PinnedBuffer {
    return new PinnedBuffer(this.part(byteOffset, byteLength) as never)
  }

  override get [Symbol.toStringTag](): string {
    return 'PinnedBuffer'
  }

  protected override beforeClose(allocation: Allocation): void {
    if (allocation instanceof PinnedAllocation) allocation.views = pinnedBytes.get(this)
    pinnedBytes.delete(this)
  }

  #all(): Uint8Array {
    this.#bytes ??= new Uint8Array(this.#buffer(), this.#byteOffset, this.byteLength)
    return this.#bytes
  }

  static {
    ownBytes = (buffer) => buffer.#all()
  }

  #buffer(): ArrayBuffer {
    const buffer = pinnedBytes.get(wholeOf(this))
    if (buffer === undefined) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
    return buffer
  }
}

declare module './device.js' {
  interface Device {
    /**
     * Allocates so many bytes, at least 1, in the order of a stream (`cuMemAllocAsync`). What they hold is not defined.
     * Other streams may use them at once: their first use waits for the allocation.
     * @throws ERR_OUT_OF_RANGE, ERR_DEVICE_MISMATCH for a stream of another device, ERR_UNSUPPORTED while it captures;
     * CudaError 2, CUDA_ERROR_OUT_OF_MEMORY
     */
    alloc(byteLength: number, options?: AllocOptions): DeviceBuffer
    /**
     * Allocates so many bytes, at least 1, of page-locked host memory (`cuMemHostAlloc`) that every device of the driver
     * can reach. This is slow: do it once, and use it again and again.
     * @throws ERR_OUT_OF_RANGE; CudaError 2, CUDA_ERROR_OUT_OF_MEMORY
     */
    allocPinned(byteLength: number): PinnedBuffer
  }
}

Device.prototype.alloc = function (byteLength: number, options?: AllocOptions): DeviceBuffer {
  checkLength(byteLength)
  const given = checkOptions(options)?.stream
  if (checkBoolean(options?.interprocess, 'options.interprocess', false)) {
    if (given === undefined) return new DeviceBuffer(new Part(new InterprocessAllocation(this, byteLength)) as never)
    throw invalidValue('options.stream and options.interprocess exclude each other: such memory is there at once')
  }
  if (given !== undefined && !isStream(given)) throw invalidType('options.stream', 'a Stream', given)
  const stream = given ?? Stream.current(this)
  if (stream.device !== this) {
    throw stateError('ERR_DEVICE_MISMATCH', `${stream} is on ${stream.device}, and cannot allocate memory of ${this}`)
  }
  if (captures(stream)) {
    throw stateError('ERR_UNSUPPORTED', `${stream} captures: allocate before the capture begins, or on another stream`)
  }
  return new DeviceBuffer(new Part(new DeviceAllocation(this, stream, byteLength)) as never)
}

Device.prototype.allocPinned = function (byteLength: number): PinnedBuffer {
  checkLength(byteLength)
  const driver = driverOf(this)
  const { pointer, bytes } = driver.memory.allocatePinned(byteLength, contextOf(this))
  const buffer = new PinnedBuffer(new Part(new PinnedAllocation(this, driver, pointer, byteLength)) as never)
  pinnedBytes.set(buffer, bytes)
  buffersOfViews.set(bytes, buffer)
  return buffer
}

function bufferOfShared(shared: SharedBuffer): DeviceBuffer {
  const received = receive(shared, 'buffer')
  const { byteOffset, byteLength } = shared
  if ('owner' in received) {
    const whole = received.owner as DeviceBuffer
    return byteOffset === 0 && byteLength === whole.byteLength ? whole : whole.slice(byteOffset, byteLength)
  }
  const pointer = checkPointer(shared.pointer, 'shared.pointer', 'as share() returned it') as Pointer
  const ready = checkPointer(shared.ready, 'shared.ready', 'as share() returned it') as EventHandle
  const event = ready === 0 ? undefined : ready
  return new DeviceBuffer(new Part(new SharedAllocation(received.device, pointer, byteLength, event)) as never)
}

function checkLength(byteLength: number): void {
  checkInteger(byteLength, 'byteLength')
  if (byteLength < 1 || byteLength >= 2 ** 47)
    throw outOfRange('byteLength', 'from 1 to what memory there is', byteLength)
}

function ordinalOf(driver: Driver, pointer: Pointer, byteLength: number, near: number): number {
  try {
    return driver.memory.deviceOf(pointer, byteLength, near)
  } catch (cause) {
    if (!(cause instanceof CudaError) || cause.number !== 1) throw cause
    const what = `0x${pointer.toString(16)} is no device memory of this driver`
    const why = 'was it freed, or does it come from another process or driver?'
    throw stateError('ERR_INVALID_HANDLE', `${what}, or ends before ${byteLength} bytes: ${why}`, cause)
  }
}
