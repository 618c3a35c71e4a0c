/** Looks after something that does not report when it is over. */

/** Milliseconds until the next look. */
const SOON = 20

export class LookAgain {
  #isSet = false

  /** `look` is called a while after each `later()`; `wait` tells how many milliseconds that is. */
  constructor(
    private readonly look: () => void,
    private readonly wait: () => number = () => SOON,
  ) {}

  /** Looks once more, however often it is called until then. It keeps no process alive. */
  later(): void {
    if (this.#isSet) return
    this.#isSet = true
    setTimeout(() => {
      this.#isSet = false
      this.look()
    }, this.wait()).unref()
  }
}
