/**
 * Keeps small copies in the null stream's order. CUDA reads the source of one from pinned memory at the call where the
 * copy's stream has nothing to do, although work that the null stream puts before the copy may still write there
 * (docs/cuda-facts.md). A record and a wait for it in front give the stream something to do for just as long.
 */
import type { StreamHandle } from '../../driver.js'
import type { LibcudaParts } from '../libcuda/stream-calls.js'
import type { EventPool } from '../waiting/event-pool.js'

/** Seen up to 24 KiB, and not from 32 KiB on; another GPU may draw the line elsewhere. */
const MOST_READ_AT_THE_CALL = 65_536

export interface CopyOrderDriver {
  /** Does the null stream order it? Undefined while it captures. */
  isBlocking(stream: StreamHandle): boolean | undefined
}

export class CopyOrder {
  /** Does the null stream order the stream's work? */
  readonly #blocking = new Map<StreamHandle, boolean>()

  constructor(private readonly parts: LibcudaParts & { readonly pool: EventPool; readonly driver: CopyOrderDriver }) {}

  /** The handle is, or was, that of another stream. */
  forget(stream: StreamHandle): void {
    this.#blocking.delete(stream)
  }

  /** To be called in front of a copy, with the stream's context current. Returns a CUresult. */
  before(stream: StreamHandle, raw: number, byteLength: number): number {
    if (byteLength > MOST_READ_AT_THE_CALL || !this.#isBlocking(stream)) return 0
    const { library, pool, calls } = this.parts
    const context = calls.contextOf(stream)
    if (context === undefined) return 0
    const event = pool.shared(context)
    return library.cuEventRecord(event, raw) || library.cuStreamWaitEvent(raw, event, 0)
  }

  #isBlocking(stream: StreamHandle): boolean {
    const known = this.#blocking.get(stream)
    if (known !== undefined) return known
    const blocking = this.parts.driver.isBlocking(stream)
    if (blocking !== undefined) this.#blocking.set(stream, blocking)
    // What a graph copies is never read early.
    return blocking ?? false
  }
}
