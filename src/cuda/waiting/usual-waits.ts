/** How long waits take: mostly as long as those before. */

/** Milliseconds from which on a wait is long: an event loop that polled for it would burn a fifth of a core and more. */
const LONG = 0.5
/** Two waits are alike if they differ by no more than this part of the longer. */
const ALIKE = 1 / 4

export class UsualWaits {
  #last = 0
  #before = 0

  /** A wait has ended, so many milliseconds after it had begun. */
  ended(milliseconds: number): void {
    this.#before = this.#last
    this.#last = milliseconds
  }

  /** Whether the last two waits were long. One that was not is often followed by others. */
  get areLong(): boolean {
    return Math.min(this.#last, this.#before) >= LONG
  }

  /** The milliseconds that a wait takes; 0 while the last two were not alike. */
  get length(): number {
    const longer = Math.max(this.#last, this.#before)
    return longer - Math.min(this.#last, this.#before) <= longer * ALIKE ? this.#last : 0
  }
}
