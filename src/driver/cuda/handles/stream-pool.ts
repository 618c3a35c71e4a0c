/** Streams that were closed when idle, and whose handle no other code has: to make one takes CUDA microseconds. */
import { isMainThread } from 'node:worker_threads'
import { hasLostContext } from '../../cuda-results.js'
import type { ContextHandle, StreamHandle } from '../../driver.js'
import type { StreamRecord } from '../stream-records.js'

/** Of all sorts together. A worker keeps none: they would outlive it. */
const MOST_KEPT = isMainThread ? 64 : 0

export class StreamPool {
  /** By context, then by flags and priority: those that are kept. */
  readonly #sorts = new Map<ContextHandle, Map<number, StreamHandle[]>>()
  #count = 0

  take(context: ContextHandle, flags: number, priority: number): StreamHandle | undefined {
    if (this.#count === 0 || hasLostContext()) return undefined
    const stream = this.kept(context, flags, priority).pop()
    if (stream !== undefined) this.#count -= 1
    return stream
  }

  wants({ kept }: StreamRecord): boolean {
    return this.#count < MOST_KEPT && kept !== undefined
  }

  keep({ handle, kept }: StreamRecord): void {
    kept?.push(handle)
    this.#count += 1
  }

  /** Its handle is read after it was closed. True where it was kept, and is not any more. */
  remove(stream: StreamHandle): boolean {
    for (const kept of [...this.#sorts.values()].flatMap((sorts) => [...sorts.values()])) {
      const at = kept.indexOf(stream)
      if (at < 0) continue
      kept.splice(at, 1)
      this.#count -= 1
      return true
    }
    return false
  }

  /** The list that a stream of this sort joins when it is closed while idle. */
  kept(context: ContextHandle, flags: number, priority: number): StreamHandle[] {
    let sorts = this.#sorts.get(context)
    if (sorts === undefined) {
      sorts = new Map()
      this.#sorts.set(context, sorts)
    }
    // Flags are 0 or 1.
    const sort = 2 * priority + flags
    let kept = sorts.get(sort)
    if (kept === undefined) {
      kept = []
      sorts.set(sort, kept)
    }
    return kept
  }
}
