/** The memory pools of a program, and what is certain of their figures. */
import { type Device, type DeviceBuffer, MemoryPool, type PinnedBuffer, type Stream } from 'cuda-streams'
import { OPEN, outcome, SKIPPED } from './outcome.js'
import { pick } from './steps.js'

interface Made {
  readonly pool: MemoryPool
  readonly hasLimit: boolean
  /** What is allocated of it and not freed, with the stream that frees it. */
  readonly buffers: Map<
    object,
    { readonly byteLength: number; readonly allocationStream: Stream; readonly isOwn: boolean }
  >
  /** Is it certain when each of them is freed? */
  isSure: boolean
}

/** Pools take memory from the device in steps of so many bytes, also where their limit is less. */
const STEP = 32 * 2 ** 20
const MOST = 3

export class Pools {
  readonly #pools: Made[] = []

  make(device: Device, limit: number): string {
    if (this.#pools.length === MOST) return SKIPPED
    const hasLimit = limit % 2 === 1
    return outcome(() => {
      const pool = new MemoryPool({ device, ...(hasLimit && { maxBytes: 1, releaseThreshold: 0 }) })
      this.#pools.push({ pool, hasLimit, buffers: new Map(), isSure: true })
    })
  }

  /** From one of the pools, or the device's own. */
  alloc(allocationStream: Stream, byteLength: number, index: number, isOwn: boolean): DeviceBuffer {
    const made = index % (this.#pools.length + 1) === 0 ? undefined : pick(this.#pools, index)
    const buffer = allocationStream.device.alloc(byteLength, {
      stream: allocationStream,
      ...(made !== undefined && { pool: made.pool }),
    })
    made?.buffers.set(buffer, { byteLength, allocationStream, isOwn })
    return buffer
  }

  /** A free counts when it is queued, which is at once where its stream takes it. */
  freed(buffer: DeviceBuffer | PinnedBuffer, isSure: boolean): void {
    for (const made of this.#pools) {
      const known = made.buffers.get(buffer)
      if (known === undefined) continue
      made.buffers.delete(buffer)
      if (!isSure || !known.isOwn || known.allocationStream.closed) made.isSure = false
    }
  }

  use(index: number, use: number, value: number): string {
    if (this.#pools.length === 0) return SKIPPED
    const made = pick(this.#pools, index)
    const { pool } = made
    const used = (bytes: number): string => (made.isSure ? String(bytes) : OPEN)
    const uses: readonly (() => unknown)[] = [
      () => used(pool.used),
      () => pool.peakUsed >= pool.used && pool.reserved >= pool.used && pool.peakReserved >= pool.reserved,
      () => void pool.trim(value % 2 === 0 ? undefined : (value % 8) * STEP),
      () => {
        pool.releaseThreshold = value % 2 === 0 ? (value % 8) * STEP : Number.POSITIVE_INFINITY
        return pool.releaseThreshold
      },
      () => pool.resetPeaks().peakUsed === pool.used,
      () => pool.closed,
    ]
    return outcome(pick(uses, use))
  }

  /** More than its limit. */
  overfill(index: number, stream: Stream): string {
    const made = this.#pools.length === 0 ? undefined : pick(this.#pools, index)
    if (made === undefined || !made.hasLimit) return SKIPPED
    return outcome(() => stream.device.alloc(STEP + 1, { stream, pool: made.pool }).close())
  }

  closeOne(index: number): string {
    return this.#pools.length === 0 ? SKIPPED : outcome(() => pick(this.#pools, index).pool.close())
  }

  close(): void {
    for (const { pool } of this.#pools) pool.close()
  }
}
