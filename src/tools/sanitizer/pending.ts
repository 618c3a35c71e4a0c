/** The host functions, and the waits for promises and values, that are queued and not over. */
import { type Epoch, isBefore, type References, timeBefore } from '../../foundation/base/vector-clock.js'

export class PendingHostFunctions {
  /** The epochs of each component, in the order of their times. */
  readonly #bySlot = new Map<number, Epoch[]>()

  get isEmpty(): boolean {
    return this.#bySlot.size === 0
  }

  queued(epoch: Epoch): void {
    const epochs = this.#bySlot.get(epoch.component)
    if (epochs === undefined) this.#bySlot.set(epoch.component, [epoch])
    else epochs.push(epoch)
  }

  ran(epoch: Epoch): void {
    const epochs = this.#bySlot.get(epoch.component)
    if (epochs === undefined) return
    const at = epochs.indexOf(epoch)
    if (at >= 0) epochs.splice(at, 1)
    if (epochs.length === 0) this.#bySlot.delete(epoch.component)
  }

  addReferences(references: References): void {
    for (const epochs of this.#bySlot.values()) for (const epoch of epochs) references.add(epoch)
  }

  /**
   * Whether a host function can still run that is not ordered with the work. If `later` is given, only those count that `later` happens after: what
   * they touch has to be checked against the work, too, though `later` happens after the work.
   */
  mayMeet(work: Epoch, later?: Epoch): boolean {
    for (const [component, epochs] of this.#bySlot) {
      if (component === work.component) continue
      const first = epochs.find(({ time }) => time > timeBefore(work, component))
      if (first === undefined || isBefore(work, first)) continue
      if (later === undefined || isBefore(first, later)) return true
    }
    return false
  }
}

export class PendingWaits {
  readonly #pendingWaits = new Set<Epoch>()

  /** Begins a wait. Returns a function that ends it. */
  begin(at: Epoch): () => void {
    this.#pendingWaits.add(at)
    return () => void this.#pendingWaits.delete(at)
  }

  addReferences(references: References): void {
    for (const epoch of this.#pendingWaits) references.add(epoch)
  }

  /**
   * Ends the waits before work that is known to be done: JavaScript, another thread, or another process has written the value. Returns true if there
   * are any.
   */
  areDone(known: Epoch): boolean {
    const { size } = this.#pendingWaits
    for (const hold of this.#pendingWaits) if (isBefore(hold, known)) this.#pendingWaits.delete(hold)
    return this.#pendingWaits.size < size
  }

  /** Whether the work happens after one of the waits. */
  comeBefore(work: Epoch): boolean {
    for (const hold of this.#pendingWaits) if (isBefore(hold, work)) return true
    return false
  }

  /** Whether only `later` is behind a wait. Then it is not checked, and cannot take the place of `earlier`. */
  separate(earlier: Epoch, later: Epoch): boolean {
    return this.#pendingWaits.size > 0 && this.comeBefore(later) && !this.comeBefore(earlier)
  }
}
