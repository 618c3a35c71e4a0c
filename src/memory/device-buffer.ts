/** Device memory, of this library and of others. What moves bytes is transfers.ts. */

import { checkBoolean, checkOwner, checkPointer, checkThis, readOptions } from '../base/arguments.js'
import { CudaError, invalidType, invalidValue, stateError } from '../base/errors.js'
import { Device, deviceOf, driverOf, elsewhere, isDevice, resolveDevice } from '../device.js'
import { driverForHandle } from '../driver/default-driver.js'
import type { Driver, EventHandle, MemoryPlace, Pointer } from '../driver/driver.js'
import { isStream, Stream } from '../stream.js'
import { announce, checkFact, isShared, notAsShared, receive, type SharedBuffer } from '../streams/shared.js'
import { freeDeferred } from './allocation-stream.js'
import {
  captures,
  DeviceAllocation,
  ForeignAllocation,
  InterprocessAllocation,
  SharedAllocation,
} from './allocations.js'
import { checkLength, Memory, type MemoryEnds, openMemory, Part, partOf, wholeOf } from './buffer.js'
import { checkIpcBytes, exportMemory, importMemory } from './interprocess-memory.js'

/** Where device memory is allocated. */
export interface AllocOptions {
  /**
   * The stream in whose order the memory is allocated and, unless another library owns the stream, freed in the end.
   * Default: the current stream of the device. Excludes `interprocess`.
   */
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

const ENDS: MemoryEnds = { before() {}, after: (whole) => void owners.delete(whole) }

/** What owns foreign memory, while a buffer or slice of it lives. */
const owners = new WeakMap<Memory, object>()

/** Is it a DeviceBuffer, and not merely an heir to one, as a proxy is? */
export let isDeviceBuffer: (value: unknown) => value is DeviceBuffer

/**
 * Memory on a GPU. A slice keeps the whole reachable; what nobody can reach any more is closed.
 *
 * A buffer that is closed, or a slice of one, is ERR_CLOSED for all that uses it; only `pointer`, `byteLength`,
 * `device`, `owner`, `closed` and `close()` still answer. An argument of the wrong type is ERR_INVALID_ARG_TYPE.
 */
export class DeviceBuffer extends Memory {
  readonly #isOne = true

  /** Use `device.alloc(byteLength)`. */
  constructor(part: never) {
    super(part, 'had from device.alloc(byteLength) or DeviceBuffer.from(pointer, byteLength)', ENDS)
  }

  /**
   * Wraps memory that another library owns: `close()` lets go of it, and never frees it. That library must keep it
   * until the work queued here is done. The length is taken as given: only the simulator knows better.
   * @throws ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for what cannot be a pointer or a length; ERR_INVALID_HANDLE for a
   * pointer that the driver does not know (`cuPointerGetAttribute`); ERR_DEVICE_MISMATCH where `device` is wrong
   */
  static from(pointer: bigint | number, byteLength: number, options?: ForeignMemoryOptions): DeviceBuffer
  /**
   * The buffer that another thread of this process shared by `share()`, whose `close()` here lets go of it; in the
   * thread that shared it, the buffer itself.
   * @throws ERR_CLOSED where it was closed, ERR_INVALID_HANDLE from another process, ERR_UNSUPPORTED from another
   * thread's simulator; ERR_DEVICE_MISMATCH where the threads have different drivers; ERR_INVALID_ARG_TYPE,
   * ERR_INVALID_ARG_VALUE for a token that is not as `share()` returned it
   */
  static from(shared: SharedBuffer): DeviceBuffer
  static from(
    pointer: bigint | number | SharedBuffer,
    byteLength: number = 0,
    options?: ForeignMemoryOptions,
  ): DeviceBuffer {
    if (isShared(pointer)) return bufferOfShared(pointer)
    const address = checkPointer(pointer, 'pointer', 'a device pointer (a bigint or a safe integer)') as Pointer
    const given = readOptions(options, ['device', 'owner'])
    checkLength(byteLength)
    const owner = checkOwner(given.owner)
    const wanted = given.device === -1 ? undefined : given.device
    const near = resolveDevice(wanted)
    const driver = wanted === undefined ? driverForHandle(address, driverOf(near)) : driverOf(near)
    const { device: ordinal, isOfHost } = placeOf(driver, address, byteLength, near.ordinal)
    const device = deviceOf(driver, ordinal)
    if (wanted !== undefined && device !== near) {
      throw stateError('ERR_DEVICE_MISMATCH', `The memory is on ${device}, not on ${near} as options.device says`)
    }
    const buffer = new DeviceBuffer(
      new Part(new ForeignAllocation(device, driver, address, byteLength, isOfHost)) as never,
    )
    if (owner !== undefined) owners.set(buffer, owner)
    return buffer
  }

  /**
   * Opens memory that another process shared (`cuIpcOpenMemHandle`): 80 bytes from `ipcHandle()`, or CUDA's own 64 from
   * another library, for a whole allocation. `device` is the one whose streams use it, the current one unless given.
   * Close it before the other process frees its own.
   * @throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for other lengths; ERR_INVALID_HANDLE for bytes that are no
   * memory of another process; ERR_OUT_OF_RANGE for a device that does not exist; ERR_UNSUPPORTED on the simulator
   */
  static fromIpcHandle(bytes: Uint8Array, options?: { readonly device?: Device | number | undefined }): DeviceBuffer {
    const { device } = readOptions(options, ['device'])
    const exported = checkIpcBytes(bytes)
    return new DeviceBuffer(new Part(importMemory(exported, resolveDevice(device))) as never)
  }

  /**
   * The 80 bytes by which another process opens this memory (`cuIpcGetMemHandle`). It must come from
   * `device.alloc(byteLength, { interprocess: true })`, or from `cudaMalloc` of another library. Keep it open until the
   * others have closed theirs.
   * @throws ERR_UNSUPPORTED for other memory and on the simulator, ERR_CLOSED
   */
  ipcHandle(): Uint8Array {
    const { allocation, pointer } = openMemory(checkThis(this, isDeviceBuffer, 'a DeviceBuffer'))
    return exportMemory(allocation, pointer - allocation.pointer, this.byteLength)
  }

  /**
   * Describes it to other threads of this process: `DeviceBuffer.from()` makes a buffer of it there. It is kept until you
   * close it; do that when the others have done with it, since their work is not waited for.
   * @throws ERR_CLOSED
   */
  share(): SharedBuffer {
    const { allocation, pointer } = openMemory(checkThis(this, isDeviceBuffer, 'a DeviceBuffer'))
    const ready = allocation.ready ?? 0
    const facts = [allocation.pointer, allocation.byteLength, ready]
    return {
      ...announce(wholeOf(this), 'buffer', this.device, facts),
      pointer: BigInt(pointer),
      byteOffset: pointer - allocation.pointer,
      byteLength: this.byteLength,
      ready: BigInt(ready),
    }
  }

  /** What is kept reachable for memory that another library owns; undefined once closed, and for other memory. */
  get owner(): object | undefined {
    const buffer = checkThis(this, isDeviceBuffer, 'a DeviceBuffer')
    return buffer.closed ? undefined : owners.get(wholeOf(buffer))
  }

  /**
   * A part of it, in bytes, which shares its memory and ends with it. It may have no bytes.
   * @throws ERR_OUT_OF_RANGE where it does not lie within, ERR_INVALID_ARG_TYPE, ERR_CLOSED
   */
  slice(byteOffset: number, byteLength: number): DeviceBuffer {
    const buffer = checkThis(this, isDeviceBuffer, 'a DeviceBuffer')
    return new DeviceBuffer(partOf(buffer, byteOffset, byteLength) as never)
  }

  override get [Symbol.toStringTag](): string {
    return 'DeviceBuffer'
  }

  static {
    isDeviceBuffer = (value): value is DeviceBuffer => typeof value === 'object' && value !== null && #isOne in value
  }
}

declare module '../device.js' {
  interface Device {
    /**
     * Allocates so many bytes, at least 1, in the order of a stream (`cuMemAllocAsync`). What they hold is not defined.
     * Other streams may use them at once: their first use waits for the allocation.
     * @throws ERR_OUT_OF_RANGE, ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for options that exclude each other;
     * ERR_CLOSED, ERR_DEVICE_MISMATCH for a stream of another device, ERR_UNSUPPORTED while it captures; CudaError 2,
     * CUDA_ERROR_OUT_OF_MEMORY
     */
    alloc(byteLength: number, options?: AllocOptions): DeviceBuffer
  }
}

Device.prototype.alloc = function (byteLength: number, options?: AllocOptions): DeviceBuffer {
  const device = checkThis(this, isDevice, 'a Device')
  const { stream: given, interprocess } = readOptions(options, ['stream', 'interprocess'])
  checkLength(byteLength)
  if (checkBoolean(interprocess, 'options.interprocess', false)) {
    if (given === undefined) return new DeviceBuffer(new Part(new InterprocessAllocation(device, byteLength)) as never)
    throw invalidValue('options.stream and options.interprocess exclude each other: such memory is there at once')
  }
  if (given !== undefined && !isStream(given)) throw invalidType('options.stream', 'a Stream', given)
  const stream = given ?? Stream.current(device)
  if (stream.device !== device) {
    const where = elsewhere(device, stream.device)
    throw stateError('ERR_DEVICE_MISMATCH', `${stream} is on ${stream.device}, and cannot allocate memory of ${where}`)
  }
  if (captures(stream)) {
    throw stateError('ERR_UNSUPPORTED', `${stream} captures: allocate before the capture begins, or on another stream`)
  }
  freeDeferred(driverOf(device))
  return new DeviceBuffer(new Part(new DeviceAllocation(device, stream, byteLength)) as never)
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
  return new DeviceBuffer(new Part(new SharedAllocation(device, pointer, byteLength, event, isOfHost)) as never)
}

/** A slice's token may name any part of the whole. */
function checkWithin(value: unknown, name: string, most: number): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= most) return value
  throw notAsShared(name, value)
}

function placeOf(driver: Driver, pointer: Pointer, byteLength: number, near: number): MemoryPlace {
  try {
    return driver.memory.placeOf(pointer, byteLength, near)
  } catch (cause) {
    if (!(cause instanceof CudaError) || cause.number !== 1) throw cause
    const what = `0x${pointer.toString(16)} is no device memory of this driver`
    const why = 'was it freed, or does it come from another process or driver?'
    throw stateError('ERR_INVALID_HANDLE', `${what}, or ends before ${byteLength} bytes: ${why}`, cause)
  }
}
