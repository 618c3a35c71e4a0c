/**
 * How a thread passes the time between two queries of the GPU.
 *
 * Its event loop polls for a moment, then sleeps for a fixed share of the time already waited. So the end of a wait of any length is noticed
 * late by that share at most, and the number of queries grows with the logarithm of the wait's length.
 */

import { own } from '../../../native/c-functions.js'
import { layer, type Timer } from '../../../native/layer.js'
import type { BackOff } from '../../event-loop-poller.js'

const MICROSECOND = 1_000n
const MILLISECOND = 1_000_000n
/** How long the event loop polls before it first sleeps. */
const POLL_FOR = 200n * MICROSECOND
const SHORTEST = 50n * MICROSECOND
const LONGEST = 20n * MILLISECOND
const SHARE = 32n

/** The program may replace this by a fake one, and its waits must end all the same. */
const { setImmediate } = globalThis

export class BackOffTimer implements BackOff {
  polls = true
  #since: bigint | undefined
  /** The number of sleeps so far. Cancelling the latest one counts as another. */
  #sleeps = 0
  #wake: () => void = () => {}
  /** The timers of the run times count in milliseconds. */
  #timer: Timer | undefined
  #isTiming = false

  sleep(wake: () => void): void {
    const now = process.hrtime.bigint()
    this.#since ??= now
    const waited = now - this.#since
    this.polls = waited < POLL_FOR
    if (this.polls) {
      this.#sleeps += 1
      const nth = this.#sleeps
      setImmediate(() => {
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
    this.#timer.start(Number(wanted < SHORTEST ? SHORTEST : wanted > LONGEST ? LONGEST : wanted))
  }

  cancel(): void {
    this.polls = true
    this.#since = undefined
    // The immediate is not cleared: once one has thrown, Node fails for good if the next one is cleared.
    this.#sleeps += 1
    if (this.#isTiming) this.#timer?.stop()
    this.#isTiming = false
  }
}

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
