/**
 * Waits for values that this thread has queued, and at which streams may be blocked: who writes the value is not known. Behind each wait an
 * event is recorded, which shows whether the stream has come past it.
 */
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { shortCallSite } from '../../foundation/base/stack.js'
import { blockedBy } from '../../foundation/driver/blocked-by.js'
import { CUresult } from '../../foundation/driver/cuda-results.js'
import type { EventHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import type { SpareStreams } from '../handles/spare-streams.js'
import type { StreamRecord } from '../handles/stream-records.js'
import type { ProcessRegistry } from '../host-functions/process-registry.js'
import type { LibcudaParts } from '../libcuda/driver-calls.js'
import type { EventPool } from './event-pool.js'

interface ValueWait {
  readonly stream: StreamRecord
  readonly event: EventHandle
  readonly site: string | undefined
  /** The time at which the wait was queued, by `monotonicTime()`. */
  readonly since: number
}

/** The most waits with an event of their own. Beyond that, there is one event for all of a stream. */
const MOST = 256

export class ValueWaits {
  #waits: ValueWait[] = []

  constructor(
    private readonly parts: LibcudaParts & {
      readonly pool: EventPool
      readonly spares: SpareStreams
      readonly registry: Pick<ProcessRegistry, 'publishValueWaits'>
    },
    private readonly captures: (stream: StreamHandle) => boolean,
  ) {}

  /**
   * Called before a wait is queued. Returns false if the wait becomes part of a graph. While a stream is blocked at a wait, CUDA
   * may be unable to make streams, so those that the library needs itself are made before.
   */
  beforeWait(stream: StreamHandle): boolean {
    if (this.captures(stream)) return false
    this.parts.spares.fillWhereNeeded()
    return true
  }

  /** The wait has been queued on the stream. */
  queued(handle: StreamHandle): void {
    if (this.#waits.length >= MOST) this.#prune()
    const { pool, must, calls, streams } = this.parts
    const stream = streams.of(handle)
    const latest = this.#waits.length < MOST ? undefined : this.#waits.findLast((wait) => wait.stream === stream)
    const event = latest?.event ?? pool.take(stream.context)
    calls.onStream(handle, (raw) => must.cuEventRecord(event, raw))
    if (latest !== undefined) return
    this.#waits.push({ stream, event, site: shortCallSite(), since: monotonicTime() })
    this.#publish()
  }

  /** Is any wait queued that may not have ended? */
  get any(): boolean {
    return this.#waits.length > 0
  }

  /** Does any wait block for certain? Queries the oldest waits until one has not ended. */
  anyBlocks(): boolean {
    if (this.#waits.length === 0) return false
    this.parts.relaxed.run(() => {
      for (let wait = this.#waits[0]; wait !== undefined && this.#isOver(wait); wait = this.#waits[0])
        this.#waits.shift()
    })
    this.#publish()
    return this.#waits.length > 0
  }

  /** Describes a wait that was queued that many milliseconds ago, and has not ended; undefined when there is none. */
  blockedFor(milliseconds: number): string | undefined {
    const since = monotonicTime() - milliseconds
    if (!this.#waits.some((wait) => wait.since < since)) return undefined
    this.#prune()
    const first = this.#waits.find((wait) => wait.since < since)
    return first === undefined ? undefined : blockedBy('a wait for a value', first.stream.handle, first.site)
  }

  #prune(): void {
    this.parts.relaxed.run(() => {
      this.#waits = this.#waits.filter((wait) => !this.#isOver(wait))
    })
    this.#publish()
  }

  /** What waits for the device for another thread must not wait for what only this one may end. */
  #publish(): void {
    this.parts.registry.publishValueWaits(this.#waits.length)
  }

  /** Gives the wait's event back if it has ended. */
  #isOver({ stream, event }: ValueWait): boolean {
    const { pool, library } = this.parts
    if (library.cuEventQuery(event) === CUresult.NOT_READY) return false
    pool.giveBack(stream.context, event)
    return true
  }
}
