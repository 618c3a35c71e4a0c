/** A timer that checks again for something that does not report when it is done. */

import { after } from './event-loop.js'

/** Milliseconds until the next check. */
const SOON = 20

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
