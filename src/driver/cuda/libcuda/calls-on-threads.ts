/** Calls of C functions on threads of their own: those that need a large stack, and those that wait for the device. */
import { lookUntil } from '../../look-until.js'
import type { WaitingParts } from '../waiting/promises.js'
import { own } from './c-functions.js'
import { NativeMemory } from './native-memory.js'

/** `ThreadCall` of native/threads.c: the function, three arguments, then the result, and whether it is there. */
const BYTES = 40
const RESULT = 8
const IS_DONE = 9

/** A C function that runs on a thread with a large stack. Its result can be read without a turn of the event loop. */
export class NativeThread {
  readonly #memory = new NativeMemory(BYTES)
  #result: number | undefined

  /** Calls the function at this address, which returns an int, with up to three integers or pointers. */
  constructor(address: number, ...args: readonly number[]) {
    this.#memory.uint64.set([address, ...args].map(BigInt))
    const error = own().callOnThread(this.#memory.address)
    if (error !== 0) throw new Error(`pthread_create returned ${error}`)
  }

  /** The function's result; undefined while it runs. */
  get result(): number | undefined {
    if (this.#result !== undefined) return this.#result
    if (Atomics.load(this.#memory.int32, IS_DONE) === 0) return undefined
    this.#result = this.#memory.int32[RESULT] ?? 0
    this.#memory.free()
    return this.#result
  }
}

/** Calls on other threads that wait for the device. No host function may be queued while one is made. */
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
    const since = performance.now()
    let isExclusive = false
    try {
      // The call begins in the same turn in which the lock is taken, so no host function is queued in between.
      const call = await lookUntil(() => {
        isExclusive = !hostFunctions.pending && registry.exclusive.tryTake()
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
      if (isExclusive) registry.exclusive.release()
    }
  }

  /** Blocks until the calls complete. To be called before the first host function is queued. */
  waitForAll(): void {
    const { spinWait, deadlockAfter } = this.parts
    const since = performance.now()
    for (const call of this.#calls) {
      while (call.result === undefined && performance.now() - since < deadlockAfter) spinWait(Number.POSITIVE_INFINITY)
    }
  }
}
