/**
 * Host functions that run, and what each comes after: its place in its stream, and what it waits for itself. What else the
 * JavaScript thread knows by then may be chance, and does not count.
 */
import { type Clock, isBefore, NOWHERE, Strand, type StrandPoint } from './clocks.js'
import type { PendingHostFunctions } from './pending.js'

/** One that is over, and all that it knew then. */
interface Over {
  readonly at: StrandPoint
  readonly clock: Clock
}

/** Of those that are over so many count, as long as others are pending. */
const MOST_OVER = 256

export class RunningHostFunctions {
  readonly #pending: PendingHostFunctions
  /** What each knows, the innermost last, and how far that went when it began. */
  readonly #running: { readonly knows: Strand; readonly began: number }[] = []
  /** Those that have waited for something. */
  readonly #over: Over[] = []

  constructor(pending: PendingHostFunctions) {
    this.#pending = pending
  }

  /** Begins to run. The result follows what it comes after. */
  enter(at: StrandPoint): Strand {
    const knows = new Strand(NOWHERE, 1, at.clock)
    knows.join(at)
    this.#inherit(knows)
    this.#running.push({ knows, began: knows.tick })
    return knows
  }

  leave(at: StrandPoint, knows: Strand): void {
    const [left] = this.#running.splice(
      this.#running.findIndex((one) => one.knows === knows),
      1,
    )
    if (this.#running.length === 0 && this.#pending.isEmpty) {
      // What is queued from now on comes after all that JavaScript knows.
      this.#over.length = 0
      return
    }
    if (left?.began === knows.tick) return
    this.#over.push({ at, clock: knows.clock })
    if (this.#over.length > MOST_OVER) this.#over.shift()
  }

  /** The innermost has waited for these points. */
  learns(points: readonly StrandPoint[]): void {
    const knows = this.#running[this.#running.length - 1]?.knows
    if (knows === undefined) return
    for (const point of points) knows.join(point)
    this.#inherit(knows)
  }

  /** What comes after a host function comes after what that waited for. */
  #inherit(knows: Strand): void {
    let news = this.#over.length > 0
    while (news) {
      news = false
      for (const { at, clock } of this.#over) if (isBefore(at, knows) && knows.joinClock(clock)) news = true
    }
  }
}
