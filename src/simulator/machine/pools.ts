/**
 * The pools from which the stream-ordered memory of a simulated device is taken, counted as an H200's are. Freed memory stays with its pool. The pool
 * gives it back when the host waits for the stream that freed it, except for what the release threshold lets the pool keep. Fragmentation is not
 * simulated.
 */
import { releaseThreshold } from '../../foundation/driver/release-threshold.js'
import { STEP } from '../limits.js'

const roundedUp = (bytes: number): number => Math.ceil(bytes / STEP) * STEP
const roundedDown = (bytes: number): number => Math.floor(bytes / STEP) * STEP

/** The frees of one stream that are queued and not over. */
interface Leaving {
  /** The bytes that no other stream can have yet. */
  bytes: number
  /** The bytes that later allocations of the same stream have reused. */
  reused: number
  /** Whether the stream has freed memory since the host last waited for it. */
  isNew: boolean
}

/** The number of streams without queued frees that are remembered. */
const MOST_STREAMS = 64

export class SimPool {
  /** The bytes that are allocated and not freed. */
  used = 0
  /** The bytes that the pool has taken from the device. */
  reserved = 0
  peakUsed = 0
  peakReserved = 0
  #threshold: number | undefined
  readonly #leaving = new Map<object, Leaving>()
  /** The bytes of the queued frees of all streams together. */
  #leavingBytes = 0
  /** The bytes in use whose frees wait for more than a stream. */
  #waiting = 0
  /** The bytes of such frees that are in use again, though the frees are not over. */
  #lent = 0
  readonly #most: number

  /** @param maxBytes The most bytes of the pool; 0 for as many as there are */
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

  /** Allocates bytes; returns false if neither the pool nor the device has so many. */
  allocate(size: number, stream: object): boolean {
    const leaving = this.#leavingBytes === 0 ? undefined : this.#leaving.get(stream)
    const again = leaving === undefined ? 0 : Math.min(size, leaving.bytes)
    if (this.#grow(this.used + this.#leavingBytes - again + size)) {
      if (leaving !== undefined) this.#reuse(leaving, again)
    } else if (this.#grow(this.used + size)) {
      // The memory of queued frees of other streams can be reused: on a GPU, work that gets it comes after the frees.
      for (const each of this.#leaving.values()) this.#reuse(each, each.bytes)
    } else if (this.#waiting > 0 && this.#grow(this.used - this.#waiting + size)) {
      for (const each of this.#leaving.values()) this.#reuse(each, each.bytes)
      // The memory of frees that wait for other uses can be reused as well, as work that gets it comes after them.
      this.used -= this.#waiting
      this.#lent += this.#waiting
      this.#waiting = 0
    } else return false
    this.used += size
    if (this.used > this.peakUsed) this.peakUsed = this.used
    return true
  }

  /** Notes that a free was queued on the stream. */
  free(size: number, stream: object): void {
    this.used -= size
    const leaving = this.#of(stream)
    leaving.bytes += size
    leaving.isNew = true
    this.#leavingBytes += size
  }

  /** Takes back a free that could not be queued. */
  notFreed(size: number, stream: object): void {
    this.used += size
    this.left(size, stream)
  }

  /** Notes that the earliest unfinished free of the stream is over. */
  left(size: number, stream: object): void {
    const leaving = this.#leaving.get(stream)
    if (leaving === undefined) return
    const reused = Math.min(size, leaving.reused)
    leaving.reused -= reused
    const bytes = Math.min(leaving.bytes, size - reused)
    leaving.bytes -= bytes
    this.#leavingBytes -= bytes
  }

  /** Notes that a free was queued that waits for more than a stream: until it is over the memory is in use. */
  freesBeside(size: number): void {
    this.#waiting += size
  }

  /** Notes that such a free is over. */
  freedBeside(size: number): void {
    const lent = Math.min(size, this.#lent)
    this.#lent -= lent
    this.#waiting -= size - lent
    this.used -= size - lent
  }

  /** Takes back such a free, which could not be queued. */
  notFreedBeside(size: number): void {
    this.#waiting -= size
  }

  /** Notes that the host has waited for this stream, or for all: now the pool can count the frees as done. */
  waitedFor(stream: object | undefined): void {
    const leaving = stream && this.#leaving.get(stream)
    if (stream !== undefined && leaving?.isNew !== true) return
    if (leaving !== undefined) leaving.isNew = false
    this.#giveBack(roundedDown(this.threshold))
  }

  trim(bytesToKeep: number): void {
    this.#giveBack(roundedUp(bytesToKeep))
  }

  resetPeaks(): void {
    this.peakUsed = this.used
    this.peakReserved = this.reserved
  }

  #of(stream: object): Leaving {
    const known = this.#leaving.get(stream)
    if (known !== undefined) return known
    if (this.#leaving.size >= MOST_STREAMS) {
      for (const [other, { bytes, reused }] of this.#leaving) if (bytes + reused === 0) this.#leaving.delete(other)
    }
    const made = { bytes: 0, reused: 0, isNew: true }
    this.#leaving.set(stream, made)
    return made
  }

  #reuse(leaving: Leaving, bytes: number): void {
    leaving.bytes -= bytes
    leaving.reused += bytes
    this.#leavingBytes -= bytes
  }

  #grow(needed: number): boolean {
    if (needed <= this.reserved) return true
    const reserved = roundedUp(needed)
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
  /** The bytes that come from no pool. */
  apart = 0
  readonly all = new Set<SimPool>()
  /** The pool that memory comes from if a call names no other. */
  readonly current: SimPool

  /** @param total The bytes of the device */
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

  /** The bytes that are allocated and not freed. */
  get used(): number {
    let used = this.apart
    for (const pool of this.all) used += pool.used
    return used
  }

  /** Whether the device has so many bytes, if need be with the unused bytes that the pools keep. */
  has(bytes: number, asking?: SimPool): boolean {
    if (bytes <= this.free) return true
    for (const pool of this.all) if (pool !== asking) pool.trim(0)
    return bytes <= this.free
  }
}
