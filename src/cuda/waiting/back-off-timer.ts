/**
 * How a thread passes the time between two queries of the GPU.
 *
 * Its event loop polls for a moment, unless the waits before were long, then sleeps. If it waits for nothing but events, a native thread queries
 * them meanwhile, and wakes it when one is done. Otherwise the event loop itself sleeps between two queries. The intervals are a fixed share of
 * the time already waited, so the end of a wait is noticed late by that share at most.
 */

import { atNextTurn, monotonicNanoseconds, monotonicTime } from '../../foundation/base/event-loop.js'
import type { BackOff } from '../../foundation/driver/event-loop-poller.js'
import type { EventHandle } from '../../foundation/driver/handle-types.js'
import { own } from '../../foundation/native/c-functions.js'
import { layer, type Timer } from '../../foundation/native/layer.js'
import { ThreadMemory } from '../../foundation/native/thread-memory.js'
import { UsualWaits } from './usual-waits.js'

const MICROSECOND = 1_000n
const MILLISECOND = 1_000_000n
/** How long the event loop polls before it first sleeps. */
const POLL_FOR = 200n * MICROSECOND
const SHORTEST = 50n * MICROSECOND
const LONGEST = 20n * MILLISECOND
const SHARE = 32n
/**
 * The longest sleep of the event loop while another thread queries events: the event loop only checks whether a warning is due.
 */
const LONGEST_WITH_QUERIES = 250n * MILLISECOND

/** The most events that the native thread queries, and where they are: see Queries in native/timer.c. */
const MOST_EVENTS = 16
const WAITED_AT = 16
const EXPECTED_AT = 24
const COUNT_AT = 40
const EVENTS_AT = 48

/** What the event loop waits for while it sleeps. */
export interface Awaited {
  /** The events of which one has to be done before anything happens. */
  readonly events: readonly EventHandle[]
  /** The time, as of `clock.now()`, at which the wait has begun; undefined where there are several. */
  readonly begun?: number | undefined
}

/** What a thread of its own needs to query events of the driver. */
export interface EventQueries {
  /** The addresses of `cuEventQuery` and `cuThreadExchangeStreamCaptureMode`. */
  readonly functions: readonly [query: number, exchangeMode: number]
  /** Returns undefined if something else may happen before one of the events is done. */
  readonly awaited: () => Awaited | undefined
}

export class BackOffTimer implements BackOff {
  #since: bigint | undefined
  #isAsleep = false
  /** The number of sleeps so far. Cancelling the latest one counts as another. */
  #sleeps = 0
  #wake: () => void = () => {}
  /** The timers of the run times count in milliseconds. */
  #timer: Timer | undefined
  #isTiming = false
  #memory: ThreadMemory | undefined

  /** Makes a timer. Without `queries` the event loop makes all queries. */
  constructor(
    private readonly queries?: EventQueries,
    private readonly usual = new UsualWaits(),
  ) {}

  get polls(): boolean {
    return !(this.#isAsleep || this.usual.areLong)
  }

  sleep(wake: () => void): void {
    const now = monotonicNanoseconds()
    this.#since ??= now
    const waited = now - this.#since
    const mustSleep = waited >= POLL_FOR
    // Not looked at while it polls: there may be thousands of events.
    const awaited = mustSleep || this.usual.areLong ? this.queries?.awaited() : undefined
    const events = awaited?.events ?? []
    const isQueried = events.length > 0 && events.length <= MOST_EVENTS
    this.#isAsleep = mustSleep || isQueried
    if (!this.#isAsleep) {
      this.#sleeps += 1
      const nth = this.#sleeps
      atNextTurn(() => {
        if (nth === this.#sleeps) wake()
      })
      return
    }
    this.#wake = wake
    this.#timer ??= layer().timer(() => {
      this.#isTiming = false
      this.#wake()
    })
    this.#isTiming = true
    if (isQueried) this.#timer.start(Number(LONGEST_WITH_QUERIES), this.#queriesOf(events, waited, awaited?.begun))
    else this.#timer.start(between(SHORTEST, waited / SHARE, LONGEST))
  }

  /** Returns the address of what native/timer.c calls Queries. */
  #queriesOf(events: readonly EventHandle[], waited: bigint, begun: number | undefined): number {
    this.#memory ??= this.#newQueries()
    const memory = this.#memory
    memory.setPointer(WAITED_AT, Number(waited))
    // Nanoseconds from now.
    const after = (milliseconds: number): bigint => nanoseconds(milliseconds - (monotonicTime() - (begun ?? 0)))
    const [from, until] = [after(this.usual.expectedFrom), after(this.usual.expectedUntil)]
    const isExpected = begun !== undefined && this.usual.length > 0 && until > 0n
    memory.setPointer(EXPECTED_AT, isExpected && from > 0n ? Number(from) : 0)
    memory.setPointer(EXPECTED_AT + 8, isExpected ? Number(until) : 0)
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
    this.#isAsleep = false
    this.#since = undefined
    // The immediate is not cleared: once one has thrown, Node fails for good if the next one is cleared.
    this.#sleeps += 1
    if (this.#isTiming) this.#timer?.stop()
    this.#isTiming = false
  }
}

const between = (least: bigint, wanted: bigint, most: bigint): number =>
  Number(wanted < least ? least : wanted > most ? most : wanted)

const nanoseconds = (milliseconds: number): bigint => BigInt(Math.round(milliseconds * 1e6))

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
