/** Calls on other threads that wait for the device. */

import { monotonicTime } from '../../foundation/base/event-loop.js'
import { pollUntil } from '../../foundation/base/polling.js'
import type { NativeThread } from '../../foundation/native/native-thread.js'
import type { WaitingParts } from './promises.js'

/** The calls that are made on other threads. No host function may be queued while one is made. */
export class CallsOnThreads {
  readonly #calls = new Set<Pick<NativeThread, 'result'>>()

  constructor(
    private readonly parts: Pick<WaitingParts, 'registry' | 'hostFunctions' | 'spinWait' | 'deadlockAfter'>,
  ) {}

  /**
   * Begins a call once no host function of any thread is pending, and resolves with its result. Until it completes, none is queued. A call
   * that ends what streams are blocked at must not wait forever for what comes behind that, so after `patience` milliseconds it begins
   * all the same.
   */
  async make(begin: () => Pick<NativeThread, 'result'>, patience: number): Promise<number> {
    const { registry, hostFunctions } = this.parts
    const since = monotonicTime()
    let isExclusive = false
    try {
      // The call begins in the same turn in which the lock is taken, so no host function is queued in between.
      const call = await pollUntil(() => {
        isExclusive = !hostFunctions.pending && registry.exclusive.tryTake()
        if (!isExclusive && monotonicTime() - since <= patience) return undefined
        const begun = begin()
        this.#calls.add(begun)
        return begun
      })
      try {
        return await pollUntil(() => call.result)
      } finally {
        this.#calls.delete(call)
      }
    } finally {
      if (isExclusive) registry.exclusive.release()
    }
  }

  /** Blocks until the calls complete. To be called before the first host function is queued. */
  waitForAll(): void {
    const { spinWait, deadlockAfter } = this.parts
    const since = monotonicTime()
    for (const call of this.#calls) {
      while (call.result === undefined && monotonicTime() - since < deadlockAfter) spinWait(Number.POSITIVE_INFINITY)
    }
  }
}
