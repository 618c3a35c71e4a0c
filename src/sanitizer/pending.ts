/** Host functions that are queued and have not run: JavaScript that will touch memory in between work that is queued already. */
import { isBefore, type StrandPoint, tickKnown } from './clocks.js'

export class PendingHostFunctions {
  /** By the slot of their strand, in the order of its ticks. */
  readonly #bySlot = new Map<number, StrandPoint[]>()

  get isEmpty(): boolean {
    return this.#bySlot.size === 0
  }

  queued(point: StrandPoint): void {
    const points = this.#bySlot.get(point.slot)
    if (points === undefined) this.#bySlot.set(point.slot, [point])
    else points.push(point)
  }

  ran(point: StrandPoint): void {
    const points = this.#bySlot.get(point.slot)
    if (points === undefined) return
    const at = points.indexOf(point)
    if (at >= 0) points.splice(at, 1)
    if (points.length === 0) this.#bySlot.delete(point.slot)
  }

  /**
   * Can a host function still run that nothing orders with the work? Given `later`, only those count that `later` comes
   * after: what they touch has to be checked against the work too, though `later` comes after that.
   */
  mayMeet(work: StrandPoint, later?: StrandPoint): boolean {
    for (const [slot, points] of this.#bySlot) {
      if (slot === work.slot) continue
      const first = points.find(({ tick }) => tick > tickKnown(work, slot))
      if (first === undefined || isBefore(work, first)) continue
      if (later === undefined || isBefore(first, later)) return true
    }
    return false
  }
}
