/** Pools that stream-ordered memory comes from. */
import { checkInteger, checkOwner, checkPointer, readOptions } from '../../foundation/base/arguments.js'
import { invalidType, refuseReceiver, stateError } from '../../foundation/base/errors.js'
import { destroyWhenUnreachable } from '../../foundation/base/finalization.js'
import { ClosableObject, implementation } from '../../foundation/base/library-object.js'
import type { PoolHandle } from '../../foundation/driver/handle-types.js'
import type { PoolUsage } from '../../foundation/driver/pool-driver.js'
import { releaseThreshold } from '../../foundation/driver/release-threshold.js'
import { type Device, deviceForHandle, driverOf, elsewhere, HandleImpl, resolveDevice } from '../device.js'

/** The device and the limits of a pool. */
export interface MemoryPoolOptions {
  /** The device whose memory it is. Default: the current device. */
  readonly device?: Device | number | undefined
  /**
   * Bytes that the pool keeps when the host synchronizes; Infinity: all. Default: CUDA_STREAMS_RELEASE_THRESHOLD, or
   * Infinity.
   */
  readonly releaseThreshold?: number | undefined
  /**
   * The most bytes that it takes from the device, which the driver rounds up: on an H200 to 32 MiB. Default: as many as
   * there are.
   */
  readonly maxBytes?: number | undefined
}

/** The options of `MemoryPool.from()`. */
export interface ForeignPoolOptions {
  /** The device whose memory it is; -1: not known. Default: the current device. */
  readonly device?: Device | number | undefined
  /** An object that is kept reachable as long as memory of the pool is in use, or the pool is not closed. */
  readonly owner?: object | undefined
}

const MOST = Number.MAX_SAFE_INTEGER

/** The implementation of a pool, which exists until it is closed and all of its memory was freed. */
export class PoolImpl extends HandleImpl<PoolHandle> {
  #isClosed = false
  /** The number of pieces of memory that are not freed. */
  #pieces = 0

  constructor(
    device: Device,
    handle: PoolHandle,
    readonly maxBytes: number | undefined,
    /** 'owned': made by this library. 'wrapped': of another library. 'kept': the device's own. */
    private readonly ownership: 'owned' | 'wrapped' | 'kept',
    /** An object that a wrapped pool keeps reachable. */
    public owner?: object,
  ) {
    super('MemoryPool', device, handle)
  }

  static make(options: MemoryPoolOptions | undefined): PoolImpl {
    const given = readOptions(options, ['device', 'releaseThreshold', 'maxBytes'])
    const { maxBytes } = given
    if (maxBytes !== undefined) checkInteger(maxBytes, 'options.maxBytes', 1, MOST)
    const threshold =
      given.releaseThreshold === undefined
        ? releaseThreshold()
        : checkThreshold(given.releaseThreshold, 'options.releaseThreshold')
    const device = resolveDevice(given.device)
    const { pools } = driverOf(device)
    const impl = new PoolImpl(device, pools.create(device.ordinal, maxBytes ?? 0), maxBytes, 'owned')
    pools.setThreshold(impl.handle, threshold)
    return impl
  }

  /** The pool of another library. */
  static wrap(source: bigint | number, options: ForeignPoolOptions | undefined): PoolImpl {
    const given = readOptions(options, ['device', 'owner'])
    const handle = checkPointer(source, 'handle', 'a CUmemoryPool (a bigint or a safe integer)')
    const owner = checkOwner(given.owner)
    const device = deviceForHandle(handle, given.device)
    const pool = driverOf(device).pools.wrap(handle, device.ordinal)
    return new PoolImpl(device, pool, undefined, 'wrapped', owner)
  }

  get isKept(): boolean {
    return this.ownership === 'kept'
  }

  override get isClosed(): boolean {
    return this.#isClosed
  }

  checkDevice(device: Device): void {
    if (device === this.device) return
    const where = elsewhere(device, this.device)
    throw stateError('ERR_DEVICE_MISMATCH', `${this} is of ${this.device}, and has no memory of ${where}`)
  }

  pieceAllocated(): void {
    this.#pieces += 1
  }

  /** The free of a piece was queued. */
  pieceFreed(): void {
    this.#pieces -= 1
    if (this.#isClosed) this.#destroyIfUnused()
  }

  override close(): void {
    if (!this.isKept) this.dispose()
  }

  override destroy(): void {
    this.#isClosed = true
    this.#destroyIfUnused()
  }

  #destroyIfUnused(): void {
    if (this.#pieces > 0) return
    this.owner = undefined
    if (this.ownership === 'owned') this.driver.pools.destroy(this.handle)
  }

  protected override get details(): string {
    return this.maxBytes === undefined ? super.details : `${super.details}, at most ${this.maxBytes} bytes`
  }
}

/**
 * A source of stream-ordered memory: freed memory remains in its pool for the next allocation. `device.memoryPool` is the
 * one that `device.alloc()` takes memory from; a pool of your own separates the memory of one purpose, with limits and
 * statistics of its own. A closed pool is ERR_CLOSED, except for `handle`, `device`, `maxBytes`, `closed` and `close()`.
 * @example
 * ```ts
 * import { Device, MemoryPool } from 'cuda-streams'
 *
 * using pool = new MemoryPool({ maxBytes: 2 ** 30 })
 * using buffer = Device.get().alloc(2 ** 20, { pool })
 * console.log(pool.used, pool.peakReserved)
 * ```
 */
export class MemoryPool extends ClosableObject {
  /** The device whose memory it is. */
  readonly device: Device
  /** The most bytes that it takes from the device, before the driver rounds them up; undefined: no limit was given. */
  readonly maxBytes: number | undefined
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number
  /** @internal */
  declare readonly [implementation]: PoolImpl

  /**
   * Makes a pool (`cuMemPoolCreate`).
   * @param options `device` (default: the current one), `releaseThreshold` in bytes (default Infinity) and `maxBytes`
   * (default: no limit)
   * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_OUT_OF_RANGE for negative or too large numbers, or a device that does not
   * exist
   * @throws {CudaError} if the driver refuses
   */
  constructor(options?: MemoryPoolOptions) {
    super()
    const impl = options instanceof PoolImpl ? options : PoolImpl.make(options)
    this[implementation] = impl
    this.device = impl.device
    this.maxBytes = impl.maxBytes
    this.serial = impl.serial
    if (!impl.isKept) destroyWhenUnreachable(this, impl)
  }

  /**
   * Wraps a pool that another library made: memory for `device.alloc(byteLength, { pool })`, its statistics and its threshold. This library never
   * destroys it; `close()` releases it once all memory that was allocated from it here is freed.
   * @param handle The CUmemoryPool, as a bigint or number. A number that is none may end the process, as in CUDA itself: the driver cannot tell
   * whether there is a pool at an address that has memory.
   * @param options `device`: the device whose memory it is, which CUDA does not report (default: the current device). `owner`: an object that is
   * kept reachable as long as the pool is used.
   * @throws {Error} ERR_INVALID_HANDLE for a pool that was destroyed and an address without memory; ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE; on the
   * simulator ERR_DEVICE_MISMATCH if `device` is wrong
   * @example
   * ```ts
   * using pool = MemoryPool.from(handle, { device, owner })
   * using buffer = device.alloc(2 ** 20, { pool })
   * ```
   */
  static from(handle: bigint | number, options?: ForeignPoolOptions): MemoryPool {
    return new MemoryPool(PoolImpl.wrap(handle, options))
  }

  /** The CUmemoryPool. It keeps nothing alive, and can still be read after `close()`, when it may be no pool any more. */
  get handle(): bigint {
    return BigInt(implOf(this).handle)
  }

  /**
   * Bytes that the pool keeps; Infinity: all. Unused memory beyond them is returned to the device when the host waits for the
   * stream that freed it by `synchronize()`, of the stream, an event or the device; the next allocation then has to get it
   * from the device again, which is slow. `finished()` returns nothing. Memory in use counts too. May be set
   * (`cuMemPoolSetAttribute`).
   * @throws {Error} ERR_CLOSED; ERR_INVALID_ARG_TYPE and ERR_OUT_OF_RANGE if it is set to anything but Infinity or
   * a number of bytes
   */
  get releaseThreshold(): number {
    const { driver, handle } = open(this)
    return driver.pools.threshold(handle)
  }

  set releaseThreshold(bytes: number) {
    const { driver, handle } = open(this)
    driver.pools.setThreshold(handle, checkThreshold(bytes, 'releaseThreshold'))
  }

  /**
   * Bytes that are allocated and not freed: a free counts when it is queued (`cuMemPoolGetAttribute`).
   * @throws {Error} ERR_CLOSED
   */
  get used(): number {
    return usageOf(this).used
  }

  /**
   * The most bytes that were in use at one time, since the pool was made or `resetPeaks()` was called.
   * @throws {Error} ERR_CLOSED
   */
  get peakUsed(): number {
    return usageOf(this).peakUsed
  }

  /**
   * Bytes that the pool has taken from the device and not returned: those in use, and those that it keeps.
   * @throws {Error} ERR_CLOSED
   */
  get reserved(): number {
    return usageOf(this).reserved
  }

  /**
   * The most bytes that it had from the device at one time, since it was made or `resetPeaks()` was called.
   * @throws {Error} ERR_CLOSED
   */
  get peakReserved(): number {
    return usageOf(this).peakReserved
  }

  /**
   * Resets both peaks to what is in use and reserved now (`cuMemPoolSetAttribute`).
   * @throws {Error} ERR_CLOSED
   */
  resetPeaks(): this {
    const { driver, handle } = open(this)
    driver.pools.resetPeaks(handle)
    return this
  }

  /**
   * Returns unused memory to the device now, regardless of the release threshold (`cuMemPoolTrimTo`). Does not wait:
   * memory that was freed behind unfinished work remains.
   * @param bytesToKeep Bytes that the pool keeps nevertheless, those in use included. Default 0.
   * @throws {Error} ERR_CLOSED, ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE
   * @example
   * ```ts
   * await device.finished()
   * device.memoryPool.trim() // for other processes
   * ```
   */
  trim(bytesToKeep: number = 0): this {
    const { driver, handle, device } = open(this)
    driver.pools.trim(handle, device.ordinal, checkInteger(bytesToKeep, 'bytesToKeep', 0, MOST))
    return this
  }

  /**
   * Ends the pool: nothing more can be allocated from it. Its buffers remain usable; the pool is destroyed when the last of
   * them was closed and the work that uses them is done (`cuMemPoolDestroy`). May be called twice, and does nothing to the
   * device's own pool.
   */
  close(): void {
    implOf(this).close()
  }

  get [Symbol.toStringTag](): string {
    return 'MemoryPool'
  }
}

const poolImplOf = (value: unknown): PoolImpl | undefined =>
  value instanceof MemoryPool ? value[implementation] : undefined

const poolsOfDevices = new WeakMap<Device, MemoryPool>()

/** The pool that the device's allocations come from now: another library may exchange it. */
export function poolOfDevice(device: Device): MemoryPool {
  const handle = driverOf(device).pools.current(device.ordinal)
  const known = poolsOfDevices.get(device)
  if (known !== undefined && implOf(known).handle === handle) return known
  const made = new MemoryPool(new PoolImpl(device, handle, undefined, 'kept'))
  poolsOfDevices.set(device, made)
  return made
}

/** The implementation of an open pool of this device. */
export function openPool(value: unknown, device: Device): PoolImpl {
  const impl = poolImplOf(value)
  if (impl === undefined) throw invalidType('options.pool', 'a MemoryPool', value)
  impl.checkDevice(device)
  return impl.checkOpen()
}

const checkThreshold = (bytes: unknown, name: string): number =>
  bytes === Number.POSITIVE_INFINITY ? bytes : checkInteger(bytes, name, 0, MOST)

function usageOf(pool: unknown): PoolUsage {
  const { driver, handle } = open(pool)
  return driver.pools.usage(handle)
}

const implOf = (pool: unknown): PoolImpl => poolImplOf(pool) ?? refuseReceiver('a MemoryPool', pool)

const open = (pool: unknown): PoolImpl => implOf(pool).checkOpen()
