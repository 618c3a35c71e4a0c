/** Pools that stream-ordered memory comes from. */
import { checkInteger, readOptions } from '../base/arguments.js'
import { inspectAsPrinted, invalidType, printed, refuseReceiver, stateError } from '../base/errors.js'
import { destroyWhenUnreachable, NativeResource } from '../base/finalization.js'
import { nextSerial, notCloneable } from '../base/identity.js'
import { type Device, driverOf, elsewhere, resolveDevice } from '../device.js'
import type { Driver, PoolHandle, PoolUsage } from '../driver/driver.js'
import { releaseThreshold } from '../driver/release-threshold.js'

/** The device and the limits of a pool. */
export interface MemoryPoolOptions {
  /** The device whose memory it is. Default: the current device. */
  readonly device?: Device | number | undefined
  /**
   * Bytes that the pool keeps when the host synchronizes; Infinity, the default unless CUDA_STREAMS_RELEASE_THRESHOLD says
   * otherwise: all that it has.
   */
  readonly releaseThreshold?: number | undefined
  /**
   * The most bytes that it takes from the device, which the driver rounds up: on an H200 to 32 MiB. Default: as many as
   * there are.
   */
  readonly maxBytes?: number | undefined
}

/** The core of a MemoryPool; undefined for any other value. */
let poolCoreOf: (value: unknown) => PoolCore | undefined

const MOST = Number.MAX_SAFE_INTEGER

/** A pool as the rest of the library works on it. It lives until it is closed and all of its memory was freed. */
export class PoolCore extends NativeResource {
  readonly driver: Driver
  closed = false
  /** Pieces of memory that are not freed. */
  #pieces = 0

  constructor(
    readonly device: Device,
    readonly handle: PoolHandle,
    readonly maxBytes: number | undefined,
    /** The device's, which the library did not make. */
    readonly isOfDevice: boolean,
  ) {
    super()
    this.driver = driverOf(device)
  }

  static make(options: MemoryPoolOptions | undefined): PoolCore {
    const given = readOptions(options, ['device', 'releaseThreshold', 'maxBytes'])
    const { maxBytes } = given
    if (maxBytes !== undefined) checkInteger(maxBytes, 'options.maxBytes', 1, MOST)
    const threshold =
      given.releaseThreshold === undefined
        ? releaseThreshold()
        : checkThreshold(given.releaseThreshold, 'options.releaseThreshold')
    const device = resolveDevice(given.device)
    const { pools } = driverOf(device)
    const core = new PoolCore(device, pools.create(device.ordinal, maxBytes ?? 0), maxBytes, false)
    pools.setThreshold(core.handle, threshold)
    return core
  }

  checkOpen(): this {
    if (this.closed) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
    return this
  }

  checkDevice(device: Device): void {
    if (device === this.device) return
    const where = elsewhere(device, this.device)
    throw stateError('ERR_DEVICE_MISMATCH', `${this} is of ${this.device}, and has no memory of ${where}`)
  }

  allocated(): void {
    this.#pieces += 1
  }

  /** The free of a piece was queued. */
  freed(): void {
    this.#pieces -= 1
    if (this.closed) this.#destroyIfUnused()
  }

  close(): void {
    if (!this.isOfDevice) this.release()
  }

  override destroy(): void {
    this.closed = true
    this.#destroyIfUnused()
  }

  #destroyIfUnused(): void {
    if (this.#pieces === 0) this.driver.pools.destroy(this.handle)
  }

  override toString(): string {
    const limit = this.maxBytes === undefined ? '' : `, at most ${this.maxBytes} bytes`
    return `MemoryPool(0x${this.handle.toString(16)}, ${this.device}${limit}${this.closed ? ', closed' : ''})`
  }
}

/**
 * Where stream-ordered memory comes from: memory that was freed stays with its pool for the next allocation.
 * `device.memoryPool` is the one that `device.alloc()` takes from; a pool of your own keeps one purpose's memory apart, with
 * limits and figures of its own. A pool that is closed is ERR_CLOSED, but for `handle`, `device`, `maxBytes`, `closed` and
 * `close()`.
 * @example
 * ```ts
 * import { Device, MemoryPool } from 'cuda-streams'
 *
 * using pool = new MemoryPool({ maxBytes: 2 ** 30 })
 * using buffer = Device.get().alloc(2 ** 20, { pool })
 * console.log(pool.used, pool.peakReserved)
 * ```
 */
export class MemoryPool implements Disposable {
  readonly #core: PoolCore
  /** The device whose memory it is. */
  readonly device: Device
  /** The most bytes that it takes from the device, before the driver rounds them up; undefined: no limit was given. */
  readonly maxBytes: number | undefined
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number = nextSerial()
  /**
   * @internal
   * Keeps the object from being copied to another thread.
   */
  protected readonly cloning: symbol = notCloneable()

  /**
   * Makes a pool (`cuMemPoolCreate`).
   * @param options `device` (default: the current one), `releaseThreshold` in bytes (default Infinity) and `maxBytes`
   * (default: no limit)
   * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_OUT_OF_RANGE for negative or too large numbers, or a device that does not
   * exist
   * @throws {CudaError} where the driver refuses
   */
  constructor(options?: MemoryPoolOptions) {
    const core = options instanceof PoolCore ? options : PoolCore.make(options)
    this.#core = core
    this.device = core.device
    this.maxBytes = core.maxBytes
    if (!core.isOfDevice) destroyWhenUnreachable(this, core)
  }

  /** The CUmemoryPool. It keeps nothing alive, and can still be read after `close()`, when it may be no pool any more. */
  get handle(): bigint {
    return BigInt(coreOf(this).handle)
  }

  /** Was the pool closed? */
  get closed(): boolean {
    return coreOf(this).closed
  }

  /**
   * Bytes that the pool keeps; Infinity: all. What it has beyond them and does not use it gives back to the device when the
   * host waits for the stream that freed it by `synchronize()`, of the stream, an event or the device; the next allocation
   * then takes it anew, which is slow. `finished()` gives nothing back. Memory that is in use counts too. May be set
   * (`cuMemPoolSetAttribute`).
   * @throws {Error} ERR_CLOSED; ERR_INVALID_ARG_TYPE and ERR_OUT_OF_RANGE where it is set to something else than Infinity or
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
   * Bytes that the pool has taken from the device and not given back: those in use, and those that it keeps.
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
   * Makes the peaks what is in use and reserved now (`cuMemPoolSetAttribute`).
   * @throws {Error} ERR_CLOSED
   */
  resetPeaks(): this {
    const { driver, handle } = open(this)
    driver.pools.resetPeaks(handle)
    return this
  }

  /**
   * Gives memory that is not in use back to the device now, whatever the release threshold (`cuMemPoolTrimTo`). Waits for
   * nothing: what was freed behind work that is not done stays.
   * @param bytesToKeep Bytes that the pool keeps all the same, with those in use. Default 0.
   * @throws {Error} ERR_CLOSED, ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE
   * @example
   * ```ts
   * await device.finished()
   * device.memoryPool.trim() // for other processes
   * ```
   */
  trim(bytesToKeep: number = 0): this {
    const { driver, handle } = open(this)
    driver.pools.trim(handle, checkInteger(bytesToKeep, 'bytesToKeep', 0, MOST))
    return this
  }

  /**
   * Ends the pool: nothing more is allocated from it. Buffers that came from it stay as they are; the pool is destroyed
   * when the last of them was closed and the work that uses them is done (`cuMemPoolDestroy`). May be called twice, and does
   * nothing to the device's own pool.
   */
  close(): void {
    coreOf(this).close()
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    coreOf(this)
    this.close()
  }

  get [Symbol.toStringTag](): string {
    return 'MemoryPool'
  }

  toString(): string {
    return poolCoreOf(this)?.toString() ?? printed(this)
  }

  static {
    poolCoreOf = (value) => (typeof value === 'object' && value !== null && #core in value ? value.#core : undefined)
  }
}
inspectAsPrinted(MemoryPool)

const poolsOfDevices = new WeakMap<Device, MemoryPool>()

/** The pool that the device's allocations come from now: another library may exchange it. */
export function poolOfDevice(device: Device): MemoryPool {
  const handle = driverOf(device).pools.current(device.ordinal)
  const known = poolsOfDevices.get(device)
  if (known !== undefined && coreOf(known).handle === handle) return known
  const made = new MemoryPool(new PoolCore(device, handle, undefined, true))
  poolsOfDevices.set(device, made)
  return made
}

/** The core of a pool that memory is to be allocated from, on this device. */
export function openPool(value: unknown, device: Device): PoolCore {
  const core = poolCoreOf(value)
  if (core === undefined) throw invalidType('options.pool', 'a MemoryPool', value)
  core.checkDevice(device)
  return core.checkOpen()
}

function checkThreshold(bytes: unknown, name: string): number {
  return bytes === Number.POSITIVE_INFINITY ? bytes : checkInteger(bytes, name, 0, MOST)
}

function usageOf(pool: unknown): PoolUsage {
  const { driver, handle } = open(pool)
  return driver.pools.usage(handle)
}

function coreOf(pool: unknown): PoolCore {
  return poolCoreOf(pool) ?? refuseReceiver('a MemoryPool', pool)
}

const open = (pool: unknown): PoolCore => coreOf(pool).checkOpen()
