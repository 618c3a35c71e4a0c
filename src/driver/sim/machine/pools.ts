/**
 * Where the stream-ordered memory of a simulated device is taken from, counted as an H200's is: memory that was freed stays with
 * its pool, which gives it back when the host waits for the stream that freed it, but for what the release threshold lets it keep.
 * Fragmentation is not simulated.
 */
import { releaseThreshold } from '../../release-threshold.js'

/** Pools take memory from the device, and give it back, in steps of this. */
const STEP = 2 ** 25

const roundedUp = (bytes: number): number => Math.ceil(bytes / STEP) * STEP
const roundedDown = (bytes: number): number => Math.floor(bytes / STEP) * STEP

/** Of a stream that memory is freed on. */
interface FreeingStream {
  readonly nonBlocking: boolean
}

/** Frees of one stream that are queued and not over. */
interface Leaving {
  /** Bytes that no other stream can have yet. */
  bytes: number
  /** Bytes that later allocations of the same stream have had again. */
  reused: number
}

export class SimPool {
  /** Bytes that are allocated and not freed. */
  used = 0
  /** Bytes taken from the device. */
  reserved = 0
  peakUsed = 0
  peakReserved = 0
  #threshold: number | undefined
  readonly #leaving = new Map<FreeingStream, Leaving>()
  /** Those that freed memory since the host last waited for them. */
  readonly #freedOn = new Set<FreeingStream>()
  readonly #most: number

  /** `maxBytes`: 0 for as much as there is. */
  constructor(
    private readonly device: DevicePools,
    maxBytes: number,
  ) {
    this.#most = maxBytes === 0 ? Number.POSITIVE_INFINITY : roundedUp(maxBytes)
  }

  get threshold(): number {
    this.#threshold ??= releaseThreshold()
    return this.#threshold
  }

  set threshold(bytes: number) {
    this.#threshold = bytes
  }

  /** False where neither the pool nor the device has so much. */
  allocate(size: number, stream: FreeingStream): boolean {
    const leaving = this.#leaving.get(stream)
    const again = Math.min(size, leaving?.bytes ?? 0)
    if (this.#grow(this.used + this.#leavingBytes - again + size)) {
      if (leaving !== undefined) {
        leaving.bytes -= again
        leaving.reused += again
      }
    } else if (this.#grow(this.used + size)) this.#reuseAll()
    else return false
    this.used += size
    this.peakUsed = Math.max(this.peakUsed, this.used)
    return true
  }

  /** A free was queued on the stream. */
  free(size: number, stream: FreeingStream): void {
    this.used -= size
    const leaving = this.#leaving.get(stream)
    if (leaving === undefined) this.#leaving.set(stream, { bytes: size, reused: 0 })
    else leaving.bytes += size
    this.#freedOn.add(stream)
  }

  /** The free that was to be queued was not. */
  notFreed(size: number, stream: FreeingStream): void {
    this.used += size
    this.left(size, stream)
  }

  /** The earliest free of the stream that was not over is. */
  left(size: number, stream: FreeingStream): void {
    const leaving = this.#leaving.get(stream)
    if (leaving === undefined) return
    const reused = Math.min(size, leaving.reused)
    leaving.reused -= reused
    leaving.bytes = Math.max(0, leaving.bytes - (size - reused))
    if (leaving.bytes === 0 && leaving.reused === 0) this.#leaving.delete(stream)
  }

  /** The host has waited for these streams: now the pool knows that their frees are done. */
  waitedFor(isOne: (stream: FreeingStream) => boolean): void {
    let any = false
    for (const stream of this.#freedOn) if (isOne(stream)) any = this.#freedOn.delete(stream)
    if (any) this.#giveBack(roundedDown(this.threshold))
  }

  trim(bytesToKeep: number): void {
    this.#giveBack(roundedUp(bytesToKeep))
  }

  resetPeaks(): void {
    this.peakUsed = this.used
    this.peakReserved = this.reserved
  }

  get #leavingBytes(): number {
    let sum = 0
    for (const { bytes } of this.#leaving.values()) sum += bytes
    return sum
  }

  /** Work of other streams that is given the memory comes after the frees, on a GPU. */
  #reuseAll(): void {
    for (const leaving of this.#leaving.values()) {
      leaving.reused += leaving.bytes
      leaving.bytes = 0
    }
  }

  #grow(needed: number): boolean {
    const reserved = Math.max(this.reserved, roundedUp(needed))
    if (reserved > this.#most || !this.device.has(reserved - this.reserved, this)) return false
    this.reserved = reserved
    this.peakReserved = Math.max(this.peakReserved, reserved)
    return true
  }

  #giveBack(keep: number): void {
    const needed = roundedUp(this.used + this.#leavingBytes)
    this.reserved = Math.min(this.reserved, Math.max(keep, needed))
  }
}

export class DevicePools {
  /** Bytes that come from no pool. */
  apart = 0
  readonly all = new Set<SimPool>()
  /** The one that memory comes from where no other is named. */
  readonly current: SimPool

  /** `total`: the bytes of the device. */
  constructor(readonly total: number) {
    this.current = this.add(0)
  }

  add(maxBytes: number): SimPool {
    const pool = new SimPool(this, maxBytes)
    this.all.add(pool)
    return pool
  }

  get free(): number {
    let free = this.total - this.apart
    for (const { reserved } of this.all) free -= reserved
    return free
  }

  /** Bytes that are allocated and not freed. */
  get used(): number {
    let used = this.apart
    for (const pool of this.all) used += pool.used
    return used
  }

  /** Has the device so many bytes, if need be with what the pools keep for nothing? */
  has(bytes: number, asking?: SimPool): boolean {
    if (bytes <= this.free) return true
    for (const pool of this.all) if (pool !== asking) pool.trim(0)
    return bytes <= this.free
  }
}
