/** Device memory, of this library and of others. */

import { checkOwner, checkPointer, readOptions } from '../base/arguments.js'
import type { OwnBytes } from '../base/bytes.js'
import { CudaError, refuseReceiver, stateError } from '../base/errors.js'
import { type Device, deviceOf, driverOf, elsewhere, resolveDevice } from '../device.js'
import { driverForHandle } from '../driver/default-driver.js'
import type { Driver, EventHandle, MemoryPlace, Pointer } from '../driver/driver.js'
import { announce, checkFact, isShared, notAsShared, receive, type SharedBuffer } from '../streams/shared.js'
import type { StreamCore } from '../streams/stream-core.js'
import { freeDeferred } from './allocation-stream.js'
import {
  type Allocation,
  DeviceAllocation,
  ForeignAllocation,
  InterprocessAllocation,
  SharedAllocation,
} from './allocations.js'
import { bufferCoreOf, Memory } from './buffer.js'
import { BufferCore, checkLength } from './buffer-core.js'
import { checkIpcBytes, exportMemory, importMemory } from './interprocess-memory.js'
import type { PoolCore } from './memory-pool.js'

/** The device and the owner of memory that another library owns. */
export interface ForeignMemoryOptions {
  /** The device that the memory must be on. The driver is asked for it; -1 means not known. */
  readonly device?: Device | number | undefined
  /** Kept reachable while the buffer or a slice of it lives, until it is closed. */
  readonly owner?: object | undefined
}

/** The buffer that stands on a piece of memory. */
export let makeBuffer: (allocation: Allocation) => DeviceBuffer

/** Is the value a DeviceBuffer itself? A proxy of one is not, nor is an object that inherits from one. */
export const isDeviceBuffer = (value: unknown): value is DeviceBuffer => bufferCoreOf(value)?.isPinned === false

/**
 * Memory on a GPU. A slice keeps the whole reachable; a buffer that the program cannot reach any more is closed.
 *
 * A buffer that is closed, or a slice of one, is ERR_CLOSED for every call that uses it; only `pointer`, `byteLength`,
 * `device`, `owner`, `closed` and `close()` still answer. An argument of the wrong type is ERR_INVALID_ARG_TYPE.
 */
export class DeviceBuffer extends Memory {
  /** Use `device.alloc(byteLength)`. */
  private constructor(core: BufferCore) {
    super(core, 'obtained from device.alloc(byteLength) or DeviceBuffer.from(pointer, byteLength)')
  }

  /**
   * Wraps memory that another library owns: `close()` lets go of it, and never frees it. That library must keep it
   * until the work queued here is done.
   * @param pointer The device address, as a bigint or number.
   * @param byteLength Bytes, at least 1. Taken as given: only the simulator knows better.
   * @param options `device`: the device that the memory must be on. `owner`: an object that is kept reachable while the
   * buffer or a slice of it lives.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for a value that cannot be a pointer or a length;
   * ERR_INVALID_HANDLE for a pointer that the driver does not know (`cuPointerGetAttribute`); ERR_DEVICE_MISMATCH where
   * `device` is wrong
   * @example
   * ```ts
   * const tensor = DeviceBuffer.from(pointer, byteLength, { owner })
   * const bytes = await stream.wait(theirs).download(tensor)
   * ```
   */
  static from(pointer: bigint | number, byteLength: number, options?: ForeignMemoryOptions): DeviceBuffer
  /**
   * The buffer that another thread of this process shared by `share()`. To close it here only lets go of it. In the
   * thread that shared it, the result is the buffer itself.
   * @param shared The object that `share()` returned, as `postMessage` or `structuredClone` copied it.
   * @throws {Error} ERR_CLOSED where it was closed, ERR_INVALID_HANDLE from another process, ERR_UNSUPPORTED from
   * another thread's simulator; ERR_DEVICE_MISMATCH where the threads have different drivers; ERR_INVALID_ARG_TYPE,
   * ERR_INVALID_ARG_VALUE for a token that is not as `share()` returned it
   */
  static from(shared: SharedBuffer): DeviceBuffer
  static from(pointer: bigint | number | SharedBuffer, length?: number, options?: ForeignMemoryOptions): DeviceBuffer {
    if (isShared(pointer)) return bufferOfShared(pointer)
    const address = checkPointer(pointer, 'pointer', 'a device pointer (a bigint or a safe integer)') as Pointer
    const given = readOptions(options, ['device', 'owner'])
    const byteLength = checkLength(length)
    const owner = checkOwner(given.owner)
    const wanted = given.device === -1 ? undefined : given.device
    const near = resolveDevice(wanted)
    const driver = wanted === undefined ? driverForHandle(address, driverOf(near)) : driverOf(near)
    const { device: ordinal, isOfHost } = placeOf(driver, address, byteLength, near.ordinal)
    const device = deviceOf(driver, ordinal)
    if (wanted !== undefined && device !== near) {
      throw stateError('ERR_DEVICE_MISMATCH', `The memory is on ${device}, not on ${near} as options.device says`)
    }
    const allocation = new ForeignAllocation(device, driver, address, byteLength, isOfHost)
    if (owner !== undefined) allocation.owner = new WeakRef(owner)
    const core = new BufferCore(allocation)
    core.owner = owner
    return new DeviceBuffer(core)
  }

  /**
   * Opens memory that another process shared (`cuIpcOpenMemHandle`). Close it before the other process frees its own.
   * @param bytes The 80 bytes from `ipcHandle()`, or CUDA's own 64 from another library, for a whole allocation.
   * @param options `device`: the device whose streams use the memory (default: the current device)
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for other lengths; ERR_INVALID_HANDLE for bytes that
   * are no memory of another process; ERR_OUT_OF_RANGE for a device that does not exist; ERR_UNSUPPORTED on the
   * simulator
   */
  static fromIpcHandle(bytes: Uint8Array, options?: { readonly device?: Device | number | undefined }): DeviceBuffer {
    const { device } = readOptions(options, ['device'])
    const exported = checkIpcBytes(bytes)
    return makeBuffer(importMemory(exported, resolveDevice(device)))
  }

  /**
   * The 80 bytes by which another process opens this memory (`cuIpcGetMemHandle`). It must come from
   * `device.alloc(byteLength, { interprocess: true })`, or from `cudaMalloc` of another library. Keep it open until the
   * other processes have closed theirs.
   * @throws {Error} ERR_UNSUPPORTED for other memory and on the simulator, ERR_CLOSED
   */
  ipcHandle(): OwnBytes {
    const { allocation, byteOffset, byteLength } = open(this)
    return exportMemory(allocation, byteOffset, byteLength)
  }

  /**
   * Describes the buffer to other threads of this process: `DeviceBuffer.from()` makes a buffer of it there. It is kept
   * until you close it here; close it when the other threads have finished with it, since their work is not waited for.
   * @returns a plain object that `postMessage` and `structuredClone` can copy
   * @throws {Error} ERR_CLOSED
   * @example
   * ```ts
   * worker.postMessage(buffer.share())
   * // In the worker:
   * parentPort?.once('message', (shared) => stream.download(DeviceBuffer.from(shared)))
   * ```
   */
  share(): SharedBuffer {
    const { allocation, pointer, byteOffset, byteLength, whole, keeps } = open(this)
    const ready = allocation.ready ?? 0
    const facts = [allocation.pointer, allocation.byteLength, ready]
    return {
      ...announce(whole, keeps ?? this, 'buffer', allocation.device, facts),
      pointer: BigInt(pointer),
      byteOffset,
      byteLength,
      ready: BigInt(ready),
    }
  }

  /**
   * The object that is kept reachable for memory that another library owns; undefined once closed, and for other
   * memory.
   */
  get owner(): object | undefined {
    const core = coreOf(this)
    return core.closed ? undefined : core.whole.owner
  }

  /**
   * A part of the buffer, which shares its memory and ends with it.
   * @param byteOffset Where the part begins, in bytes from the beginning of this buffer.
   * @param byteLength Bytes; may be 0.
   * @throws {Error} ERR_OUT_OF_RANGE where the part does not lie within the buffer, ERR_INVALID_ARG_TYPE, ERR_CLOSED
   */
  slice(byteOffset: number, byteLength: number): DeviceBuffer {
    return new DeviceBuffer(coreOf(this).slice(this, byteOffset, byteLength))
  }

  override get [Symbol.toStringTag](): string {
    return 'DeviceBuffer'
  }

  static {
    makeBuffer = (allocation) => new DeviceBuffer(new BufferCore(allocation))
  }
}

/** `device.alloc()` in the order of a stream. */
export function allocateOn(stream: StreamCore, device: Device, byteLength: number, pool?: PoolCore): DeviceBuffer {
  if (stream.device !== device) {
    const where = elsewhere(device, stream.device)
    throw stateError('ERR_DEVICE_MISMATCH', `${stream} is on ${stream.device}, and cannot allocate memory of ${where}`)
  }
  stream.makeRoom(0)
  // The allocation would become a part of the graph.
  if (stream.driver.streamIsCapturing(stream.handle)) {
    throw stateError('ERR_UNSUPPORTED', `${stream} captures: allocate before the capture begins, or on another stream`)
  }
  freeDeferred(stream.driver)
  return makeBuffer(new DeviceAllocation(device, stream, byteLength, pool))
}

/** `device.alloc()` of memory that other processes may see. */
export function allocateInterprocess(device: Device, byteLength: number): DeviceBuffer {
  return makeBuffer(new InterprocessAllocation(device, byteLength))
}

function coreOf(buffer: unknown): BufferCore {
  const core = bufferCoreOf(buffer)
  return core !== undefined && !core.isPinned ? core : refuseReceiver('a DeviceBuffer', buffer)
}

function open(buffer: unknown): BufferCore {
  return coreOf(buffer).checkOpen()
}

function bufferOfShared(shared: SharedBuffer): DeviceBuffer {
  const { owner, device, facts, said } = receive(shared, 'buffer', ['pointer', 'byteOffset', 'byteLength', 'ready'])
  const [begin = 0, length = 0, ready = 0] = facts
  const byteOffset = checkWithin(said.byteOffset, 'byteOffset', length)
  const byteLength = checkWithin(said.byteLength, 'byteLength', length - byteOffset)
  const pointer = (begin + byteOffset) as Pointer
  checkFact(said.pointer, 'pointer', BigInt(pointer))
  checkFact(said.ready, 'ready', BigInt(ready))
  if (owner !== undefined) {
    const whole = owner as DeviceBuffer
    return byteLength === length ? whole : whole.slice(byteOffset, byteLength)
  }
  const event = ready === 0 ? undefined : (ready as EventHandle)
  const { isOfHost } = placeOf(driverOf(device), pointer, byteLength, device.ordinal)
  return makeBuffer(new SharedAllocation(device, pointer, byteLength, event, isOfHost))
}

/** A slice's token may name any part of the whole. */
function checkWithin(value: unknown, name: string, most: number): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= most) return value
  throw notAsShared(name, value)
}

/** Where another library's memory is. Throws ERR_INVALID_HANDLE where the driver does not know it. */
export function placeOf(driver: Driver, pointer: Pointer, byteLength: number, near: number): MemoryPlace {
  try {
    return driver.memory.placeOf(pointer, byteLength, near)
  } catch (cause) {
    if (!(cause instanceof CudaError) || cause.number !== 1) throw cause
    const what = `0x${pointer.toString(16)} is no device memory of this driver`
    const why = 'was it freed, or does it come from another process or driver?'
    throw stateError('ERR_INVALID_HANDLE', `${what}, or ends before ${byteLength} bytes: ${why}`, cause)
  }
}
