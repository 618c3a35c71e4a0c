/** Where streams wait for promises that have not settled, and for values that nothing has written. */
import { isBefore, type StrandPoint } from './clocks.js'

export class Holds {
  readonly #holds = new Set<StrandPoint>()

  /** Returns a function that ends it. */
  begin(at: StrandPoint): () => void {
    this.#holds.add(at)
    return () => void this.#holds.delete(at)
  }

  /** Those that come before what is known to be done are over: JavaScript, or another process, has written the value. */
  areDone(known: StrandPoint): void {
    for (const hold of this.#holds) if (isBefore(hold, known)) this.#holds.delete(hold)
  }

  /** Does the work come after one? */
  isHeld(work: StrandPoint): boolean {
    for (const hold of this.#holds) if (isBefore(hold, work)) return true
    return false
  }

  /** Is `later` not judged, and `earlier` is? Then the one does not stand for the other. */
  separate(earlier: StrandPoint, later: StrandPoint): boolean {
    return this.#holds.size > 0 && this.isHeld(later) && !this.isHeld(earlier)
  }
}
