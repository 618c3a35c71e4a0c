/** Device memory, of this library and of others. */

import { checkOwner, checkPointer, readOptions } from '../../foundation/base/arguments.js'
import { checkBytes, type OwnBytes } from '../../foundation/base/bytes.js'
import { CudaError, refuseReceiver, stateError } from '../../foundation/base/errors.js'
import { construct } from '../../foundation/base/library-object.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { EventHandle, Pointer } from '../../foundation/driver/handle-types.js'
import type { MemoryPlace } from '../../foundation/driver/memory-driver.js'
import { driverForHandle } from '../default-driver.js'
import { contextOf, type Device, deviceOf, driverOf, elsewhere, resolveDevice } from '../device.js'
import { recordOf } from '../streams/capture-record.js'
import { changedToken, checkFact, isShared, receive, register, type SharedBuffer } from '../streams/shared.js'
import type { StreamImpl } from '../streams/stream-impl.js'
import { freeDeferred } from './allocation-stream.js'
import type { Allocation } from './allocations.js'
import {
  DeviceAllocation,
  ForeignAllocation,
  ImportedAllocation,
  InterprocessAllocation,
  SharedAllocation,
} from './allocations.js'
import { BufferImpl, bufferImplOf, bytesToAllocate, checkLength, Memory } from './buffer.js'
import type { PoolImpl } from './memory-pool.js'
import { internalStream } from './stream-uses.js'
import { makeTensorMap, type TensorMap, type TensorMapOptions } from './tensor-map.js'

/** The device and the owner of memory that another library owns. */
export interface ForeignMemoryOptions {
  /** The device that the memory must be on. The driver knows it, so it may be left out; -1 means not known. */
  readonly device?: Device | number | undefined
  /** An object that is kept reachable while the buffer or a slice of it is, until the buffer is closed. */
  readonly owner?: object | undefined
}

/** Bytes by which another process opens memory: CUDA's own, and those with the place of the memory behind them. */
const CUDA_IPC_BYTES = 64
const ALL_IPC_BYTES = 80

export const isDeviceBuffer = (value: unknown): value is DeviceBuffer => bufferImplOf(value)?.isPinned === false

/**
 * Memory on a GPU. A slice keeps the whole reachable; a buffer that the program cannot reach any more is closed.
 *
 * A closed buffer, or a slice of one, is ERR_CLOSED for every call that uses it; only `pointer`, `byteLength`,
 * `device`, `owner`, `closed` and `close()` still work. An argument of the wrong type is ERR_INVALID_ARG_TYPE.
 */
export class DeviceBuffer extends Memory {
  /** Use `device.alloc(byteLength)`. */
  private constructor(impl: BufferImpl) {
    super(impl, 'DeviceBuffer', 'device.alloc(byteLength) or DeviceBuffer.from(pointer, byteLength)')
  }

  /** @internal */
  static [construct](impl: BufferImpl): DeviceBuffer {
    return new DeviceBuffer(impl)
  }

  /**
   * Wraps memory that another library owns: `close()` releases it, and never frees it. That library must keep it
   * until the work queued here is done.
   * @param pointer The device address, as a bigint or number.
   * @param byteLength Bytes. Only the simulator can check it. With 0 the pointer may be 0, too: no driver is asked for it.
   * @param options `device`: the device that the memory must be on. `owner`: an object that is kept reachable while the
   * buffer or a slice of it is.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for a value that cannot be a pointer or a length;
   * ERR_INVALID_HANDLE for a pointer that the driver does not know (`cuPointerGetAttribute`); ERR_DEVICE_MISMATCH if
   * `device` is wrong
   * @example
   * ```ts
   * const tensor = DeviceBuffer.from(pointer, byteLength, { owner })
   * const bytes = await stream.wait(theirs).download(tensor)
   * ```
   */
  static from(pointer: bigint | number, byteLength: number, options?: ForeignMemoryOptions): DeviceBuffer
  /**
   * The buffer that another thread of this process shared by `share()`. To close it here only releases it. In the
   * thread that shared it, the result is the buffer itself.
   * @param shared The object that `share()` returned, as `postMessage` or `structuredClone` copied it.
   * @throws {Error} ERR_CLOSED if it was closed, ERR_INVALID_HANDLE from another process,
   * ERR_DEVICE_MISMATCH if the threads have different drivers; ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for a token that is not as `share()` returned it
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
    const impl = new BufferImpl(allocation)
    impl.owner = owner
    return new DeviceBuffer(impl)
  }

  /**
   * Opens memory that another process shared (`cuIpcOpenMemHandle`). Close it before the other process frees its own.
   * @param bytes The 80 bytes from `ipcHandle()`, or CUDA's own 64 from another library, for a whole allocation.
   * @param options `device`: the device whose streams use the memory (default: the current device)
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for other lengths; ERR_INVALID_HANDLE for bytes that
   * are no memory of another process; ERR_OUT_OF_RANGE for a device that does not exist; ERR_UNSUPPORTED on the
   * simulator of a system other than Linux and Windows
   */
  static fromIpcHandle(bytes: Uint8Array, options?: { readonly device?: Device | number | undefined }): DeviceBuffer {
    const { device } = readOptions(options, ['device'])
    const ways = `${ALL_IPC_BYTES} bytes from buffer.ipcHandle(), or ${CUDA_IPC_BYTES} from another library`
    const exported = checkBytes(bytes, 'bytes', [ALL_IPC_BYTES, CUDA_IPC_BYTES], ways)
    return makeBuffer(importMemory(exported, resolveDevice(device)))
  }

  /**
   * The 80 bytes by which another process opens this memory (`cuIpcGetMemHandle`). It must come from
   * `device.alloc(byteLength, { interprocess: true })`, or from `cudaMalloc` of another library. Keep it open until the
   * other processes have closed theirs.
   * @throws {Error} ERR_UNSUPPORTED for other memory, and on the simulator of a system other than Linux and Windows; ERR_CLOSED
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
    const { allocation, pointer, byteOffset, byteLength, whole, parent } = open(this)
    const ready = allocation.ready ?? 0
    const facts = [allocation.pointer, allocation.byteLength, ready]
    return {
      ...register(whole, parent ?? this, 'buffer', allocation.device, facts),
      pointer: BigInt(pointer),
      byteOffset,
      byteLength,
      ready: BigInt(ready),
    }
  }

  /**
   * The object that is kept reachable for memory that another library owns; undefined after the close, and for other
   * memory.
   */
  get owner(): object | undefined {
    const impl = implOf(this)
    return impl.isClosed ? undefined : impl.whole.owner
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
  subarray(begin: number, end?: number): DeviceBuffer {
    return new DeviceBuffer(implOf(this).subarray(this, begin, end))
  }

  /**
   * A tensor map of the buffer's memory (`cuTensorMapEncodeTiled`, with `im2col` `cuTensorMapEncodeIm2col`), by which kernels copy tiles to and from
   * shared memory. It is an argument for a parameter `const __grid_constant__ CUtensorMap`. The kernel's coordinates begin with the innermost
   * dimension, the last of `shape`.
   * @param options The tensor, which begins where the buffer begins, and its tiles.
   * @throws {Error} CUDA_ERROR_INVALID_VALUE for what no GPU takes, such as a row of a tile that is no multiple of 16 bytes; ERR_OUT_OF_RANGE for a
   * tensor beyond the end of the buffer, or a number that no option has; ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_CLOSED
   * @example
   * ```ts
   * // An argument of a kernel with the signature ['in tensorMap'].
   * const map = buffer.tensorMap({ type: 'f32', shape: [64, 128], box: [32, 32], swizzle: 128 })
   * ```
   */
  tensorMap(options: TensorMapOptions): TensorMap {
    return makeTensorMap(this, open(this), options)
  }

  override get [Symbol.toStringTag](): string {
    return 'DeviceBuffer'
  }
}

/** Makes the public object for a piece of memory. */
export const makeBuffer = (allocation: Allocation, byteLength?: number): DeviceBuffer =>
  DeviceBuffer[construct](new BufferImpl(allocation, undefined, undefined, 0, byteLength))

/** `device.alloc()` in the order of a stream; while that captures, of an internal one. */
export function allocateOn(stream: StreamImpl, device: Device, byteLength: number, pool?: PoolImpl): DeviceBuffer {
  if (stream.device !== device) {
    const where = elsewhere(device, stream.device)
    throw stateError('ERR_DEVICE_MISMATCH', `${stream} is on ${stream.device}, and cannot allocate memory of ${where}`)
  }
  stream.reserve(0)
  const isCapturing = stream.driver.streams.isCapturing(stream.handle)
  if (isCapturing) checkGraphRetains(stream)
  freeDeferred(stream.driver)
  // Captured, the allocation would become a node, and the graph could have one instance only. What the capture writes there is written by
  // launches, and until then, or if there is none, every run should read the same.
  const on = isCapturing ? internalStream(device) : stream
  return makeBuffer(new DeviceAllocation(device, on, bytesToAllocate(byteLength), pool, isCapturing), byteLength)
}

/** Throws ERR_UNSUPPORTED if the stream is in a capture whose graph would not retain the memory, nor wait for its allocation. */
function checkGraphRetains(stream: StreamImpl): void {
  if (recordOf(stream) !== undefined) return
  const why =
    'that is invalidated, or that this library did not begin in this thread, so that no graph keeps the memory'
  throw stateError(
    'ERR_UNSUPPORTED',
    `${stream} is in a capture ${why}: allocate before the capture begins, or on another stream`,
  )
}

/** `device.alloc()` of memory that other processes can open. */
export const allocateInterprocess = (device: Device, byteLength: number): DeviceBuffer =>
  makeBuffer(new InterprocessAllocation(device, bytesToAllocate(byteLength)), byteLength)

function implOf(buffer: unknown): BufferImpl {
  const impl = bufferImplOf(buffer)
  return impl !== undefined && !impl.isPinned ? impl : refuseReceiver('a DeviceBuffer', buffer)
}

const open = (buffer: unknown): BufferImpl => implOf(buffer).checkOpen()

function bufferOfShared(shared: SharedBuffer): DeviceBuffer {
  const { owner, device, facts, claims, follow } = receive(shared, 'buffer', [
    'pointer',
    'byteOffset',
    'byteLength',
    'ready',
  ])
  const [begin = 0, length = 0, ready = 0] = facts
  const byteOffset = checkWithin(claims.byteOffset, 'byteOffset', length)
  const byteLength = checkWithin(claims.byteLength, 'byteLength', length - byteOffset)
  const pointer = (begin + byteOffset) as Pointer
  checkFact(claims.pointer, 'pointer', BigInt(pointer))
  checkFact(claims.ready, 'ready', BigInt(ready))
  if (owner !== undefined) {
    const whole = owner as DeviceBuffer
    return byteLength === whole.byteLength ? whole : whole.subarray(byteOffset, byteOffset + byteLength)
  }
  const event = ready === 0 ? undefined : (ready as EventHandle)
  // Of all of it: a part without bytes may begin where the memory ends.
  const { isOfHost } = placeOf(driverOf(device), begin as Pointer, length, device.ordinal)
  return makeBuffer(new SharedAllocation(device, pointer, byteLength, event, isOfHost, follow()))
}

/** A slice's token may name any part of the whole. */
function checkWithin(value: unknown, name: string, most: number): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= most) return value
  throw changedToken(name, value)
}

/**
 * Finds the device and the kind of another library's memory. Throws ERR_INVALID_HANDLE if the driver does not know it.
 */
export function placeOf(driver: Driver, pointer: Pointer, byteLength: number, near: number): MemoryPlace {
  // Other libraries have no memory for a tensor without elements: its pointer is mostly null.
  if (byteLength === 0) return { device: near, isOfHost: false }
  try {
    return driver.memory.placeOf(pointer, byteLength, near)
  } catch (cause) {
    if (!(cause instanceof CudaError) || cause.number !== 1) throw cause
    const what = `0x${pointer.toString(16)} is no device memory of this driver`
    const why = 'was it freed, or does it come from another process or driver?'
    throw stateError('ERR_INVALID_HANDLE', `${what}, or ends before ${byteLength} bytes: ${why}`, cause)
  }
}

/** The place of the memory in its allocation stands behind CUDA's bytes: byteOffset and byteLength as little-endian u64. */
function exportMemory(allocation: Allocation, byteOffset: number, byteLength: number): OwnBytes {
  const { driver, pointer, device } = allocation
  const exported = driver.sharing.exportMemory(pointer, contextOf(device))
  const bytes = new Uint8Array(ALL_IPC_BYTES)
  bytes.set(exported.handle)
  const view = new DataView(bytes.buffer)
  view.setBigUint64(CUDA_IPC_BYTES, BigInt(exported.byteOffset + byteOffset), true)
  view.setBigUint64(CUDA_IPC_BYTES + 8, BigInt(byteLength), true)
  return bytes
}

/** CUDA's bytes alone stand for a whole allocation. */
function importMemory(bytes: Uint8Array, device: Device): ImportedAllocation {
  const imported = driverOf(device).sharing.importMemory(bytes.slice(0, CUDA_IPC_BYTES), contextOf(device))
  if (bytes.length === CUDA_IPC_BYTES) return new ImportedAllocation(device, imported, 0, imported.byteLength)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const byteOffset = Number(view.getBigUint64(CUDA_IPC_BYTES, true))
  const byteLength = Number(view.getBigUint64(CUDA_IPC_BYTES + 8, true))
  if (byteOffset + byteLength <= imported.byteLength) {
    return new ImportedAllocation(device, imported, byteOffset, byteLength)
  }
  imported.close([])
  const what = `These bytes name ${byteLength} bytes from ${byteOffset} on, and the memory has ${imported.byteLength}`
  throw stateError('ERR_INVALID_HANDLE', `${what}: pass on the bytes that ipcHandle() returned as they are`)
}
