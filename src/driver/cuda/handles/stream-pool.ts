/** Streams that were closed when idle, and whose handle no other code has: to make one takes CUDA microseconds. */
import { hasLostContext } from '../../cuda-results.js'
import type { ContextHandle, StreamHandle } from '../../driver.js'

/** Of each sort. */
const MOST_KEPT = 16

export class StreamPool {
  /** By context, then by flags and priority: those that are kept. */
  readonly #sorts = new Map<ContextHandle, Map<number, StreamHandle[]>>()
  /** For each stream that could be kept, where. */
  readonly #placeOf = new Map<StreamHandle, StreamHandle[]>()

  take(context: ContextHandle, flags: number, priority: number): StreamHandle | undefined {
    return hasLostContext() ? undefined : this.#kept(context, flags, priority).pop()
  }

  /** A stream that was made, and may come back. */
  made(stream: StreamHandle, context: ContextHandle, flags: number, priority: number): void {
    this.#placeOf.set(stream, this.#kept(context, flags, priority))
  }

  wants(stream: StreamHandle): boolean {
    const place = this.#placeOf.get(stream)
    return place !== undefined && place.length < MOST_KEPT
  }

  keep(stream: StreamHandle): void {
    this.#placeOf.get(stream)?.push(stream)
  }

  /** It is destroyed, or its handle is handed out, maybe after it was closed. True where it was kept, and is not any more. */
  forget(stream: StreamHandle): boolean {
    const place = this.#placeOf.get(stream)
    this.#placeOf.delete(stream)
    const at = place?.indexOf(stream) ?? -1
    if (at >= 0) place?.splice(at, 1)
    return at >= 0
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
