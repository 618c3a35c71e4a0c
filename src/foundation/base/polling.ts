/** Polling of what does not report when it is done: a promise, and a timer that checks again. */
import { after, sleep } from './event-loop.js'

/** Milliseconds between two polls: short at first, for what is done soon. */
const SHORTEST = 0.1
const LONGEST = 10
const GROWTH = 1.5

/**
 * Calls `poll` at once, and then again until it returns a value other than undefined, with which the promise resolves. Rejects with what
 * `poll` throws.
 */
export async function pollUntil<T>(poll: () => T | undefined): Promise<T> {
  for (let wait = SHORTEST; ; wait = Math.min(wait * GROWTH, LONGEST)) {
    const found = poll()
    if (found !== undefined) return found
    await sleep(wait)
  }
}

/** Milliseconds until the next check. */
const SOON = 20

/** A timer that checks again, as often as it is asked to. */
export class RecheckTimer {
  #isSet = false

  /** `check` is called a while after each `later()`; `wait` gives that time in milliseconds. */
  constructor(
    private readonly check: () => void,
    private readonly wait: () => number = () => SOON,
  ) {}

  /** Checks once more, however often it is called until then. It keeps no process alive. */
  later(): void {
    if (this.#isSet) return
    this.#isSet = true
    after(this.wait(), () => {
      this.#isSet = false
      this.check()
    }).unref()
  }
}
