/**
 * How much more a stream takes before the driver blocks the caller. Behind a semaphore that would be forever, since only the caller signals
 * it. So the library waits before the driver would, and runs host functions meanwhile.
 *
 * Measured on an H200: a hardware queue holds 1020 entries, and streams share as many hardware queues as CUDA_DEVICE_MAX_CONNECTIONS says. A
 * launch, a copy, a memset and a semaphore take one entry each; records and waits for events take none.
 */
import type { StreamRecord } from '../handles/stream-records.js'
import { type ProcessRegistry, singleThread } from './process-registry.js'
import type { Semaphores } from './semaphores.js'

export const QUEUE_ENTRIES = 1000
/** The number of counted entries from which on a query which of them have completed is worth its cost. */
const WORTH_A_QUERY = 200

export class QueueDepth {
  /** Streams with entries counted. */
  readonly #streams = new Set<StreamRecord>()
  /** The entries of all of them. */
  #entries = 0

  constructor(
    private readonly semaphores: Pick<Semaphores, 'isWaitingAt'>,
    private readonly connections: number,
    private readonly registry: ProcessRegistry = singleThread(),
  ) {}

  /** Called when nothing is pending any more, so that the counts do not matter. */
  clear(): void {
    for (const stream of this.#streams) this.forget(stream)
  }

  forget(stream: StreamRecord): void {
    if (this.#streams.delete(stream)) this.#setEntries(stream, 0, 0)
  }

  /** Forgets counted entries that have completed: the more are counted, the less room other threads have. */
  refresh(isIdle: (stream: StreamRecord) => boolean): void {
    if (!this.registry.hasOthers || this.#entries < WORTH_A_QUERY) return
    for (const stream of this.#streams) {
      if (stream.entries >= WORTH_A_QUERY / 10 && isIdle(stream)) this.forget(stream)
    }
  }

  /** Counts entries that are about to be queued. */
  count(stream: StreamRecord, entries: number): void {
    this.#streams.add(stream)
    this.#setEntries(stream, stream.entries + entries, stream.entriesSinceSemaphore + entries)
  }

  /** Counts the operations of a semaphore, which take one entry. */
  semaphoreQueued(stream: StreamRecord): void {
    this.#streams.add(stream)
    this.#setEntries(stream, stream.entries + 1, 0)
  }

  /** Do the counts alone show that the stream takes that many more entries? */
  certainlyHasCapacity(stream: StreamRecord, entries: number): boolean {
    return stream.entries === 0 || stream.entries + entries <= this.#limit()
  }

  /**
   * Does the stream take that many more entries for certain? `isEmpty` queries the driver, and is called only when the counts do
   * not show it.
   */
  hasCapacity(stream: StreamRecord, entries: number, isEmpty: () => boolean): boolean {
    if (this.certainlyHasCapacity(stream, entries)) return true
    if (isEmpty()) {
      this.forget(stream)
      return true
    }
    const { semaphore, entriesSinceSemaphore } = stream
    // Once the stream waits for its last pending call, everything that was queued before that has completed.
    if (semaphore?.calls.length === 1 && this.semaphores.isWaitingAt(semaphore)) {
      this.#setEntries(stream, entriesSinceSemaphore + 1, entriesSinceSemaphore)
    }
    return stream.entries + entries <= this.#limit()
  }

  /** Streams that share a hardware queue share its entries. Which do is not documented, so the worst is assumed. */
  #limit(): number {
    const streams = Math.max(this.#streams.size, this.registry.allStreams)
    const sharing = streams <= this.connections / 2 ? 1 : Math.ceil(streams / this.connections) + 1
    // Any entry of other threads may be in the same queue.
    const free = Math.max(1, QUEUE_ENTRIES - this.registry.entriesOfOthers)
    return Math.min(free, Math.floor(QUEUE_ENTRIES / sharing))
  }

  #setEntries(stream: StreamRecord, entries: number, sinceSemaphore: number): void {
    this.#entries += entries - stream.entries
    stream.entries = entries
    stream.entriesSinceSemaphore = sinceSemaphore
    this.registry.publishWork(this.#streams.size, this.#entries)
  }
}
