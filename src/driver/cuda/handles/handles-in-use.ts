/**
 * Streams and events that a blocking call asks about again and again. A host function that runs meanwhile may close one:
 * the driver is told when the call is over, since to ask about a destroyed one is a segmentation fault.
 */
export class HandlesInUse {
  readonly #users = new Map<number, number>()
  readonly #postponed = new Map<number, () => void>()

  /** Runs a call that asks about the handle. */
  during<R>(handle: number, call: () => R): R {
    const before = this.#users.get(handle) ?? 0
    this.#users.set(handle, before + 1)
    try {
      return call()
    } finally {
      if (before > 0) this.#users.set(handle, before)
      else {
        this.#users.delete(handle)
        const destroy = this.#postponed.get(handle)
        this.#postponed.delete(handle)
        destroy?.()
      }
    }
  }

  /** Is it in use? Then it is destroyed afterwards. */
  postpones(handle: number, destroy: () => void): boolean {
    if (this.#users.size === 0 || !this.#users.has(handle)) return false
    this.#postponed.set(handle, destroy)
    return true
  }
}
