/** How long waits take: mostly as long as those before. */

/** Milliseconds from which on a wait is long: an event loop that polled for it would burn a fifth of a core and more. */
const LONG = 0.5
/** Two waits are alike if they differ by no more than this part of the longer. */
const ALIKE = 1 / 4
/** The time before which a wait is hardly looked at begins so much of the usual time, and so many milliseconds, before its expected end. */
const EXPECTED_WITHIN = 1 / 40
const EARLIER = 0.06
/** The milliseconds, or the part of the usual time, that an end is noticed behind the query that finds it. */
const NOTICED_WITHIN = { milliseconds: 0.05, part: 1 / 80 }

export class UsualWaits {
  #last = 0
  #before = 0
  /** Whether the last wait was over before it was looked for. */
  #wasShorter = false

  /**
   * A wait has ended, so many milliseconds after it had begun. One that was done when it was first looked for took less, it is not known how much: the
   * next is queried as if nothing were expected.
   */
  ended(milliseconds: number): void {
    const { length: usual, expectedFrom } = this
    const noticed = Math.max(NOTICED_WITHIN.milliseconds, usual * NOTICED_WITHIN.part)
    this.#wasShorter = usual > 0 && milliseconds <= expectedFrom + noticed
    this.#before = this.#last
    this.#last = milliseconds
  }

  /** The milliseconds after which a wait is looked for often, as its end is expected. */
  get expectedFrom(): number {
    return this.length * (1 - EXPECTED_WITHIN) - EARLIER
  }

  /** The milliseconds after which the end is not expected any more. */
  get expectedUntil(): number {
    return this.length * (1 + EXPECTED_WITHIN)
  }

  /** Whether the last two waits were long. One that was not is often followed by others. */
  get areLong(): boolean {
    return Math.min(this.#last, this.#before) >= LONG
  }

  /** The milliseconds that a wait takes; 0 where that is not known: the last two were not alike, or it was noticed late how long the last one took. */
  get length(): number {
    if (this.#wasShorter) return 0
    const longer = Math.max(this.#last, this.#before)
    return longer - Math.min(this.#last, this.#before) <= longer * ALIKE ? this.#last : 0
  }
}
