/** The time for which the machine computes before the event loop turns. */
import { monotonicTime } from '../../foundation/base/event-loop.js'

/** The milliseconds that a slice takes, by the library's clock and not by virtual time. */
const LENGTH = 5

export class Slice {
  readonly #end = monotonicTime() + LENGTH

  get isOver(): boolean {
    return this.left === 0
  }

  /** The milliseconds until the slice is over. */
  get left(): number {
    return Math.max(0, this.#end - monotonicTime())
  }
}

/** An effect on memory that is computed part by part. */
export interface Computation {
  /** Whether no other effect can be computed between its parts. */
  readonly excludesOthers: boolean
  /** Computes until the effect is there, or the slice is over; at least one part. Returns whether the effect is there. Throws what `Work.effect` does. */
  run(slice?: Slice): boolean
  /** Called in place of `run` if the rest is never to be computed. */
  drop(): void
}

/** A computation that may rest wherever an iterator yields. */
export class InParts implements Computation {
  readonly excludesOthers = false

  constructor(private readonly parts: Iterator<unknown>) {}

  run(slice?: Slice): boolean {
    while (this.parts.next().done !== true) if (slice?.isOver === true) return false
    return true
  }

  drop(): void {
    this.parts.return?.()
  }
}
