/** Calls that wait for the device on a thread of their own. While one is made no host function may be queued. */
import { lookUntil } from '../../look-until.js'
import type { WaitingParts } from './blocking.js'

/** A call on a thread of its own: its result is undefined while it runs. */
export interface NativeCall {
  readonly result: number | undefined
}

export class CallsApart {
  readonly #calls = new Set<NativeCall>()

  constructor(private readonly parts: WaitingParts) {}

  /**
   * Begins a call once no host function of any thread is pending, and resolves with its result. Until it is over none is
   * queued. One that ends what streams stand at must not wait forever for what stands behind that: after so many
   * milliseconds it begins all the same.
   */
  async make(begin: () => NativeCall, patience: number): Promise<number> {
    const { threads } = this.parts
    const since = performance.now()
    let isExclusive = false
    try {
      // It is begun in the same breath in which the right is had: no host function is queued in between.
      const call = await lookUntil(() => {
        isExclusive = !this.parts.hostFunctions.pending && threads.exclusive.take()
        if (!isExclusive && performance.now() - since <= patience) return undefined
        const begun = begin()
        this.#calls.add(begun)
        return begun
      })
      try {
        return await lookUntil(() => call.result)
      } finally {
        this.#calls.delete(call)
      }
    } finally {
      if (isExclusive) threads.exclusive.giveBack()
    }
  }

  /** To be called before the first host function is queued: blocks until the calls are over. */
  waitForAll(): void {
    const { rest, deadlockAfter } = this.parts
    const since = performance.now()
    for (const call of this.#calls) {
      while (call.result === undefined && performance.now() - since < deadlockAfter) rest(Number.POSITIVE_INFINITY)
    }
  }
}
