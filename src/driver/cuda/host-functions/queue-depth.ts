/**
 * How much more a stream takes before the driver blocks the caller. Behind a gate that would be forever, since
 * only the caller opens it; so the library waits before the driver would, and runs host functions meanwhile.
 *
 * Measured on an H200: a hardware queue holds 1020 entries (a launch, a copy, a memset or a gate is one; records and
 * waits for events are none), and streams share as many hardware queues as CUDA_DEVICE_MAX_CONNECTIONS says.
 */
import type { StreamHandle } from '../../driver.js'
import type { Gates } from './gates.js'
import { alone, type Threads } from './thread-table.js'

const QUEUE_ENTRIES = 1000
/** So many entries are worth a look at which of them are done. */
const WORTH_A_LOOK = 200

interface Account {
  /** Entries queued since the stream was last seen empty, or since its last gate was reached. */
  entries: number
  /** Entries that came after the latest gate. */
  sinceGate: number
}

export class QueueDepth {
  /** Of all accounts. */
  #entries = 0
  readonly #accounts = new Map<StreamHandle, Account>()

  constructor(
    private readonly gates: Gates,
    private readonly connections: number,
    private readonly threads: Threads = alone(),
  ) {}

  /** Nothing is pending any more: the counts do not matter. */
  clear(): void {
    if (this.#accounts.size === 0) return
    this.#accounts.clear()
    this.#changeBy(-this.#entries)
  }

  forget(stream: StreamHandle): void {
    const entries = this.#accounts.get(stream)?.entries
    if (entries === undefined) return
    this.#accounts.delete(stream)
    this.#changeBy(-entries)
  }

  /** Forgets counted entries that are done: the more are counted, the less room other threads have. */
  refresh(isIdle: (stream: StreamHandle) => boolean): void {
    if (!this.threads.others || this.#entries < WORTH_A_LOOK) return
    for (const [stream, { entries }] of this.#accounts) {
      if (entries >= WORTH_A_LOOK / 10 && isIdle(stream)) this.forget(stream)
    }
  }

  /** Counts entries that are about to be queued. */
  count(stream: StreamHandle, entries: number): void {
    const account = this.#accounts.get(stream)
    if (account === undefined) {
      this.#accounts.set(stream, { entries, sinceGate: entries })
    } else {
      account.entries += entries
      account.sinceGate += entries
    }
    this.#changeBy(entries)
  }

  /** Counts a gate, which is one entry. */
  gateQueued(stream: StreamHandle): void {
    const account = this.#accounts.get(stream)
    if (account === undefined) {
      this.#accounts.set(stream, { entries: 1, sinceGate: 0 })
    } else {
      account.entries += 1
      account.sinceGate = 0
    }
    this.#changeBy(1)
  }

  /** Do the counts alone say that the stream can take so many more? */
  surelyHasRoom(stream: StreamHandle, entries: number): boolean {
    const account = this.#accounts.get(stream)
    return account === undefined || account.entries + entries <= this.#limit()
  }

  /** Can the stream take so many more for sure? `isEmpty` asks the driver, and is called only where it may not. */
  hasRoom(stream: StreamHandle, entries: number, isEmpty: () => boolean): boolean {
    const account = this.#accounts.get(stream)
    if (account === undefined || this.surelyHasRoom(stream, entries)) return true
    if (isEmpty()) {
      this.forget(stream)
      return true
    }
    const lane = this.gates.laneOf(stream)
    // Once the stream stands at its last gate, all that was queued before it is done.
    if (lane !== undefined && lane.calls.length === 1 && this.gates.arrivedAt(lane)) {
      this.#changeBy(account.sinceGate + 1 - account.entries)
      account.entries = account.sinceGate + 1
    }
    return account.entries + entries <= this.#limit()
  }

  /** Streams that share a hardware queue share its entries, and which do is the driver's secret: assume the worse. */
  #limit(): number {
    const streams = Math.max(this.#accounts.size, this.threads.allStreams)
    const sharing = streams <= this.connections / 2 ? 1 : Math.ceil(streams / this.connections) + 1
    // Any of the others' may stand in the same queue.
    const free = Math.max(1, QUEUE_ENTRIES - this.threads.entriesOfOthers)
    return Math.min(free, Math.floor(QUEUE_ENTRIES / sharing))
  }

  #changeBy(entries: number): void {
    this.#entries += entries
    this.threads.publishWork(this.#accounts.size, this.#entries)
  }
}
