/** C functions on threads of their own: those that need a large stack, and those that wait for the device. */
import { own } from './c-functions.js'
import { layer } from './layer.js'
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
    if (error !== 0) throw new Error(`The system makes no thread (error ${error})`)
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

/** A call of a C function that returns an int, with up to eight integers or pointers. */
interface CallOfC {
  readonly address: number
  /** The context that is current meanwhile. */
  readonly context: number
  readonly args: readonly number[]
}

/** `CallList` of native/threads.c: what sets the context, the number of calls, then ten words for each. */
const LIST_HEAD = 2
const WORDS_OF_CALL = 10

/**
 * Makes calls of C in turn on a thread of their own, until one returns other than 0; the last is made all the same. The result is the first
 * that is not 0.
 */
export class NativeCalls {
  readonly #memory: NativeMemory
  readonly #thread: NativeThread
  #isOver = false

  /** `setContext` is the address of `cuCtxSetCurrent`; 0: contexts are of no concern. */
  constructor(setContext: number, calls: readonly CallOfC[]) {
    const memory = new NativeMemory(8 * (LIST_HEAD + WORDS_OF_CALL * calls.length))
    const words = [setContext, calls.length, ...calls.flatMap(wordsOf)]
    for (const [index, word] of words.entries()) memory.setPointer(8 * index, word)
    this.#memory = memory
    this.#thread = new NativeThread(layer().functions['callInTurn'] ?? 0, memory.address)
  }

  /** The result of the calls; undefined while they are being made. */
  get result(): number | undefined {
    const { result } = this.#thread
    if (result !== undefined && !this.#isOver) {
      this.#isOver = true
      this.#memory.free()
    }
    return result
  }
}

const wordsOf = ({ context, address, args }: CallOfC): readonly number[] => [
  context,
  address,
  ...Array.from({ length: WORDS_OF_CALL - 2 }, (_, index) => args[index] ?? 0),
]
