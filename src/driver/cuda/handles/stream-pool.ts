/** Streams that were closed when idle, and whose handle no other code has: to make one takes CUDA microseconds. */
import { isMainThread } from 'node:worker_threads'
import { hasLostContext } from '../../cuda-results.js'
import type { ContextHandle, StreamHandle } from '../../driver.js'

/** Of all sorts together. A worker keeps none: they would outlive it. */
const MOST_KEPT = isMainThread ? 64 : 0

export class StreamPool {
  /** By context, then by flags and priority: those that are kept. */
  readonly #sorts = new Map<ContextHandle, Map<number, StreamHandle[]>>()
  /** For each stream that could be kept, where. */
  readonly #placeOf = new Map<StreamHandle, StreamHandle[]>()
  #count = 0

  take(context: ContextHandle, flags: number, priority: number): StreamHandle | undefined {
    if (this.#count === 0 || hasLostContext()) return undefined
    const stream = this.#kept(context, flags, priority).pop()
    if (stream !== undefined) this.#count -= 1
    return stream
  }

  /** A stream that was made, and may come back. */
  made(stream: StreamHandle, context: ContextHandle, flags: number, priority: number): void {
    this.#placeOf.set(stream, this.#kept(context, flags, priority))
  }

  wants(stream: StreamHandle): boolean {
    return this.#count < MOST_KEPT && this.#placeOf.has(stream)
  }

  keep(stream: StreamHandle): void {
    this.#placeOf.get(stream)?.push(stream)
    this.#count += 1
  }

  /** It is destroyed, or its handle is handed out, maybe after it was closed. True where it was kept, and is not any more. */
  forget(stream: StreamHandle): boolean {
    const place = this.#placeOf.get(stream)
    this.#placeOf.delete(stream)
    const at = place?.indexOf(stream) ?? -1
    if (at < 0) return false
    place?.splice(at, 1)
    this.#count -= 1
    return true
  }

  #kept(context: ContextHandle, flags: number, priority: number): StreamHandle[] {
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
