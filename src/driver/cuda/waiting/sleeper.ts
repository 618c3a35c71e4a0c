/**
 * How a thread passes the time between two looks at the GPU.
 *
 * Its event loop does not sleep at all for a moment, then for a fixed share of the time already waited. The end of a wait of any length
 * is noticed late by that share at most, and costs a number of looks that grows with the logarithm of its length.
 */
import type { Sleeper } from '../../loop-pump.js'
import { own } from '../libcuda/c-functions.js'
import { layer, type Timer } from '../libcuda/layer.js'

const MICROSECOND = 1_000n
const MILLISECOND = 1_000_000n
/** How long the loop polls before it first sleeps. */
const POLL_FOR = 200n * MICROSECOND
const SHORTEST = 50n * MICROSECOND
const LONGEST = 20n * MILLISECOND
const SHARE = 32n

/** The program may put fake timers in the place of these, and its waits must end all the same. */
const { setImmediate } = globalThis

export class BackOffSleeper implements Sleeper {
  polls = true
  #since: bigint | undefined
  /** The number of sleeps so far; the latest may be forgotten. */
  #sleeps = 0
  #wake: () => void = () => {}
  /** The run times' own timers count in milliseconds. */
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
    // Not cleared: once an immediate has thrown, Node fails for good if the one that comes next is cleared.
    this.#sleeps += 1
    if (this.#isTiming) this.#timer?.stop()
    this.#isTiming = false
  }
}

/**
 * A blocked thread spins first for so many nanoseconds: most waits are over by then, and a sleep costs more than they
 * take.
 */
const SPIN_FOR = 1_000_000
const NAP_MICROSECONDS = 50

/**
 * How a blocked thread passes the time between two looks: it spins at first, as CUDA does, then naps, so as not to burn
 * a core.
 */
export function makeRest(): (nanosecondsWaited: number) => void {
  const { nap } = own()
  return (waited) => {
    if (waited > SPIN_FOR) nap(NAP_MICROSECONDS)
  }
}
