/**
 * A C function on a thread of its own with a large stack, of which JavaScript can find out without its event loop whether it is
 * over: a thread that is about to queue a host function has to wait for it, and cannot turn its event loop meanwhile.
 */
import { own } from './c-functions.js'
import { NativeMemory } from './native.js'

/** As `Apart` of native/threads.c: the function, three arguments, then the result, and whether it is there. */
const BYTES = 40
const RESULT = 8
const IS_DONE = 9

export class NativeThread {
  readonly #memory = new NativeMemory(BYTES)
  #result: number | undefined

  /** Calls the function at this address with up to three integers or pointers. It returns an int. */
  constructor(address: number, ...args: readonly number[]) {
    this.#memory.uint64.set([address, ...args].map(BigInt))
    const error = own().callApart(this.#memory.address)
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
