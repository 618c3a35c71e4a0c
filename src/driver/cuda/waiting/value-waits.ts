/**
 * Waits for values that this thread has queued, and that may stand: who writes the value is not known. Behind each an event is
 * recorded, which tells whether the stream has come past it.
 */
import { shortCallSite } from '../../../base/stack.js'
import { CUresult } from '../../cuda-results.js'
import type { EventHandle, StreamHandle } from '../../driver.js'
import { heldBy } from '../../held-by.js'
import type { StreamReserve } from '../handles/stream-reserve.js'
import type { LibcudaParts } from '../libcuda/stream-calls.js'
import type { StreamRecord } from '../stream-records.js'
import type { EventPool } from './event-pool.js'

interface ValueWait {
  readonly stream: StreamRecord
  readonly event: EventHandle
  readonly site: string | undefined
  /** By `performance.now()`. */
  readonly since: number
}

/** So many are followed each; beyond, one event stands for all of a stream. */
const MOST = 256

export class ValueWaits {
  #waits: ValueWait[] = []

  constructor(
    private readonly parts: LibcudaParts & { readonly pool: EventPool; readonly reserve: StreamReserve },
    private readonly captures: (stream: StreamHandle) => boolean,
  ) {}

  /**
   * A wait is about to be queued. False where it goes into a graph. While it stands CUDA may make no more streams: those that
   * the library needs itself are made before.
   */
  aboutToStand(stream: StreamHandle): boolean {
    if (this.captures(stream)) return false
    this.parts.reserve.fillWhereNeeded()
    return true
  }

  /** Its wait is the last thing in the stream. */
  queued(handle: StreamHandle): void {
    if (this.#waits.length >= MOST) this.#prune()
    const { pool, library, calls, streams } = this.parts
    const stream = streams.of(handle)
    const latest = this.#waits.length < MOST ? undefined : this.#waits.findLast((wait) => wait.stream === stream)
    const event = latest?.event ?? pool.take(stream.context)
    calls.onStream(handle, 'cuEventRecord', (raw) => library.cuEventRecord(event, raw))
    if (latest !== undefined) return
    this.#waits.push({ stream, event, site: shortCallSite(), since: performance.now() })
  }

  /** May any stand? */
  get any(): boolean {
    return this.#waits.length > 0
  }

  /** As `any`, for where a wrong yes costs more than a look: it asks about the oldest until one of them does. */
  anyStands(): boolean {
    if (this.#waits.length === 0) return false
    this.parts.relaxed.run(() => {
      for (let wait = this.#waits[0]; wait !== undefined && this.#isOver(wait); wait = this.#waits[0])
        this.#waits.shift()
    })
    return this.#waits.length > 0
  }

  /** In words: one that was queued so many milliseconds ago, and is not over; undefined where none is known. */
  standingFor(milliseconds: number): string | undefined {
    const since = performance.now() - milliseconds
    if (!this.#waits.some((wait) => wait.since < since)) return undefined
    this.#prune()
    const first = this.#waits.find((wait) => wait.since < since)
    return first === undefined ? undefined : heldBy('a wait for a value', first.stream.handle, first.site)
  }

  #prune(): void {
    this.parts.relaxed.run(() => {
      this.#waits = this.#waits.filter((wait) => !this.#isOver(wait))
    })
  }

  /** Its event goes back where it is. */
  #isOver({ stream, event }: ValueWait): boolean {
    const { pool, library } = this.parts
    if (library.cuEventQuery(event) === CUresult.NOT_READY) return false
    pool.giveBack(stream.context, event)
    return true
  }
}
