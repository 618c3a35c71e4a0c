/** C functions on threads of their own: those that need a large stack, and those that wait for the device. */
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
