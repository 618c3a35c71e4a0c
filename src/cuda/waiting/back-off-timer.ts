/**
 * How a thread passes the time between two queries of the GPU.
 *
 * Its event loop polls for a moment, then sleeps. If it waits for nothing but events, a native thread queries them meanwhile, and wakes it
 * when one is done. Otherwise the event loop itself sleeps between two queries. The intervals are a fixed share of the time already waited, so
 * the end of a wait is noticed late by that share at most.
 */

import { atNextTurn, monotonicNanoseconds } from '../../foundation/base/event-loop.js'
import type { BackOff } from '../../foundation/driver/event-loop-poller.js'
import type { EventHandle } from '../../foundation/driver/handle-types.js'
import { own } from '../../foundation/native/c-functions.js'
import { layer, type Timer } from '../../foundation/native/layer.js'
import { ThreadMemory } from '../../foundation/native/thread-memory.js'

const MICROSECOND = 1_000n
const MILLISECOND = 1_000_000n
/** How long the event loop polls before it first sleeps. */
const POLL_FOR = 200n * MICROSECOND
const SHORTEST = 50n * MICROSECOND
const LONGEST = 20n * MILLISECOND
const SHARE = 32n
/**
 * The same for the native thread: after this share of the time already waited, at least every 500 µs; in long waits, after a hundredth of what is
 * beyond 50 ms, at least every 4 ms. A query, and mostly the sleep before it, takes 20 µs. `cuEventSynchronize` of an event with
 * CU_EVENT_BLOCKING_SYNC returns about as late.
 */
const SHARE_BETWEEN_QUERIES = 24n
const USUAL_BETWEEN_QUERIES = 500n * MICROSECOND
const LONG_WAIT = 50n * MILLISECOND
const SHARE_OF_LONG_WAITS = 100n
const LONGEST_BETWEEN_QUERIES = 4n * MILLISECOND
/**
 * The longest sleep of the event loop while another thread queries events: the event loop only checks whether a warning is due.
 */
const LONGEST_WITH_QUERIES = 250n * MILLISECOND

/** The most events that the native thread queries, and where they are: see Queries in native/timer.c. */
const MOST_EVENTS = 16
const PERIOD_AT = 16
const EXPECTED_AT = 24
const COUNT_AT = 48
const EVENTS_AT = 56

/**
 * Work mostly takes as long as the work before it. So events are queried this often around the time that the last wait took, for a twentieth of
 * it: where the shares above would be late by 250 microseconds after 100 milliseconds, this is by 50.
 */
const SHARE_WHEN_EXPECTED = 1000n
/** The end is expected so much of that time before and behind it: a fortieth. */
const EXPECTED_WITHIN = 40n
const LEAST_WHEN_EXPECTED = 50n * MICROSECOND
/** The time by which the work may be done earlier than expected: the last wait was itself noticed late. */
const EARLIER = 100n * MICROSECOND

/** What a thread of its own needs to query events of the driver. */
export interface EventQueries {
  /** The addresses of `cuEventQuery` and `cuThreadExchangeStreamCaptureMode`. */
  readonly functions: readonly [query: number, exchangeMode: number]
  /** The events of which one has to be done before anything happens; undefined if something else may happen first. */
  readonly awaited: () => readonly EventHandle[] | undefined
}

export class BackOffTimer implements BackOff {
  polls = true
  #since: bigint | undefined
  /** How long the last wait took, of those in which the event loop slept. */
  #expected = 0n
  /** The number of sleeps so far. Cancelling the latest one counts as another. */
  #sleeps = 0
  #wake: () => void = () => {}
  /** The timers of the run times count in milliseconds. */
  #timer: Timer | undefined
  #isTiming = false
  #memory: ThreadMemory | undefined

  /** Makes a timer. Without `queries` the event loop makes all queries. */
  constructor(private readonly queries?: EventQueries) {}

  sleep(wake: () => void): void {
    const now = monotonicNanoseconds()
    this.#since ??= now
    const waited = now - this.#since
    this.polls = waited < POLL_FOR
    if (this.polls) {
      this.#sleeps += 1
      const nth = this.#sleeps
      atNextTurn(() => {
        if (nth === this.#sleeps) wake()
      })
      return
    }
    const wanted = waited / SHARE
    this.#wake = wake
    this.#timer ??= layer().timer(() => {
      this.#isTiming = false
      this.#wake()
    })
    this.#isTiming = true
    const events = this.queries?.awaited() ?? []
    if (events.length === 0 || events.length > MOST_EVENTS) this.#timer.start(between(SHORTEST, wanted, LONGEST))
    else {
      const usual = between(SHORTEST, waited / SHARE_BETWEEN_QUERIES, USUAL_BETWEEN_QUERIES)
      const period = Math.max(usual, between(0n, (waited - LONG_WAIT) / SHARE_OF_LONG_WAITS, LONGEST_BETWEEN_QUERIES))
      this.#timer.start(between(SHORTEST, waited, LONGEST_WITH_QUERIES), this.#queriesOf(events, period, waited))
    }
  }

  /** Returns the address of what native/timer.c calls Queries. */
  #queriesOf(events: readonly EventHandle[], period: number, waited: bigint): number {
    this.#memory ??= this.#newQueries()
    const memory = this.#memory
    memory.setPointer(PERIOD_AT, period)
    const expected = this.#expected
    const from = expected - expected / EXPECTED_WITHIN - EARLIER - waited
    const until = expected + expected / EXPECTED_WITHIN - waited
    memory.setPointer(EXPECTED_AT, from > 0n ? Number(from) : 0)
    memory.setPointer(EXPECTED_AT + 8, until > 0n ? Number(until) : 0)
    memory.setPointer(
      EXPECTED_AT + 16,
      Math.min(period, between(LEAST_WHEN_EXPECTED, expected / SHARE_WHEN_EXPECTED, LONGEST)),
    )
    memory.setPointer(COUNT_AT, events.length)
    events.forEach((event, index) => void memory.setPointer(EVENTS_AT + 8 * index, event))
    return memory.address
  }

  #newQueries(): ThreadMemory {
    const memory = new ThreadMemory(EVENTS_AT + 8 * MOST_EVENTS)
    this.queries?.functions.forEach((address, index) => void memory.setPointer(8 * index, address))
    return memory
  }

  cancel(): void {
    if (this.#since !== undefined && !this.polls) this.#expected = monotonicNanoseconds() - this.#since
    this.polls = true
    this.#since = undefined
    // The immediate is not cleared: once one has thrown, Node fails for good if the next one is cleared.
    this.#sleeps += 1
    if (this.#isTiming) this.#timer?.stop()
    this.#isTiming = false
  }
}

const between = (least: bigint, wanted: bigint, most: bigint): number =>
  Number(wanted < least ? least : wanted > most ? most : wanted)

/** A blocked thread spins for so many nanoseconds at first: most waits have ended by then, and a sleep costs more than they take. */
const SPIN_FOR = 1_000_000
const NAP_MICROSECONDS = 50

/** Returns how a blocked thread passes the time between two queries: it spins at first, as CUDA does, then naps to spare the core. */
export function makeSpinWait(): (nanosecondsWaited: number) => void {
  const { nap } = own()
  return (waited) => {
    if (waited > SPIN_FOR) nap(NAP_MICROSECONDS)
  }
}
