/**
 * How much more a stream takes before the driver blocks the caller. Behind a gate that would be forever, since
 * only the caller opens it; so the library waits before the driver would, and runs host functions meanwhile.
 *
 * Measured on an H200: a hardware queue holds 1020 entries (a launch, a copy, a memset or a gate is one; records and
 * waits for events are none), and streams share as many hardware queues as CUDA_DEVICE_MAX_CONNECTIONS says.
 */
import type { StreamRecord } from '../stream-records.js'
import type { Gates } from './gates.js'
import { alone, type Threads } from './thread-table.js'

const QUEUE_ENTRIES = 1000
/** So many entries are worth a look at which of them are done. */
const WORTH_A_LOOK = 200

export class QueueDepth {
  /** Streams with entries counted. */
  readonly #streams = new Set<StreamRecord>()
  /** Of all of them. */
  #entries = 0

  constructor(
    private readonly gates: Pick<Gates, 'arrivedAt'>,
    private readonly connections: number,
    private readonly threads: Threads = alone(),
  ) {}

  /** Nothing is pending any more: the counts do not matter. */
  clear(): void {
    for (const stream of this.#streams) this.forget(stream)
  }

  forget(stream: StreamRecord): void {
    if (!this.#streams.delete(stream)) return
    this.#setEntries(stream, 0, 0)
  }

  /** Forgets counted entries that are done: the more are counted, the less room other threads have. */
  refresh(isIdle: (stream: StreamRecord) => boolean): void {
    if (!this.threads.others || this.#entries < WORTH_A_LOOK) return
    for (const stream of this.#streams) {
      if (stream.entries >= WORTH_A_LOOK / 10 && isIdle(stream)) this.forget(stream)
    }
  }

  /** Counts entries that are about to be queued. */
  count(stream: StreamRecord, entries: number): void {
    this.#streams.add(stream)
    this.#setEntries(stream, stream.entries + entries, stream.entriesSinceGate + entries)
  }

  /** Counts a gate, which is one entry. */
  gateQueued(stream: StreamRecord): void {
    this.#streams.add(stream)
    this.#setEntries(stream, stream.entries + 1, 0)
  }

  /** Do the counts alone say that the stream can take so many more? */
  surelyHasRoom(stream: StreamRecord, entries: number): boolean {
    return stream.entries === 0 || stream.entries + entries <= this.#limit()
  }

  /** Can the stream take so many more for sure? `isEmpty` asks the driver, and is called only where it may not. */
  hasRoom(stream: StreamRecord, entries: number, isEmpty: () => boolean): boolean {
    if (this.surelyHasRoom(stream, entries)) return true
    if (isEmpty()) {
      this.forget(stream)
      return true
    }
    const { lane, entriesSinceGate } = stream
    // Once the stream stands at its last gate, all that was queued before it is done.
    if (lane !== undefined && lane.calls.length === 1 && this.gates.arrivedAt(lane)) {
      this.#setEntries(stream, entriesSinceGate + 1, entriesSinceGate)
    }
    return stream.entries + entries <= this.#limit()
  }

  /** Streams that share a hardware queue share its entries, and which do is the driver's secret: assume the worse. */
  #limit(): number {
    const streams = Math.max(this.#streams.size, this.threads.allStreams)
    const sharing = streams <= this.connections / 2 ? 1 : Math.ceil(streams / this.connections) + 1
    // Any of the others' may stand in the same queue.
    const free = Math.max(1, QUEUE_ENTRIES - this.threads.entriesOfOthers)
    return Math.min(free, Math.floor(QUEUE_ENTRIES / sharing))
  }

  #setEntries(stream: StreamRecord, entries: number, sinceGate: number): void {
    this.#entries += entries - stream.entries
    stream.entries = entries
    stream.entriesSinceGate = sinceGate
    this.threads.publishWork(this.#streams.size, this.#entries)
  }
}
