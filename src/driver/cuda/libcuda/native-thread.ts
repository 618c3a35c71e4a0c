/**
 * A C function on a thread of its own, of which JavaScript can tell without its event loop whether it is over: a thread
 * that is about to queue a host function has to wait for it, and cannot turn its event loop meanwhile.
 */
import { koffi, NativeMemory } from './native.js'

const P = 'uintptr_t'

export class NativeThread {
  readonly #memory = new NativeMemory(16)
  readonly #join: (thread: number, result: number) => number
  #result: number | undefined

  /** Calls the function at this address with one pointer. It returns an int. */
  constructor(address: number, argument: number) {
    const libc = koffi().load(null)
    const create = libc.func('pthread_create', 'int', [P, P, P, P])
    this.#join = libc.func('pthread_tryjoin_np', 'int', [P, P])
    const status = create(this.#memory.address, 0, address, argument) as number
    if (status !== 0) throw new Error(`pthread_create returned ${status}`)
  }

  /** The function's result; undefined while it runs. */
  get result(): number | undefined {
    if (this.#result !== undefined) return this.#result
    if (this.#join(this.#memory.pointerAt(0), this.#memory.address + 8) !== 0) return undefined
    this.#result = this.#memory.int32[2] ?? 0
    this.#memory.free()
    return this.#result
  }
}
