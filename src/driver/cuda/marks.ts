/**
 * Words of native memory by which one thread tells the others that something still stands: the other threads of a process
 * have modules of their own, but the same memory.
 */
import { type Reader, safeReader } from './memory-reader.js'
import { NativeMemory } from './native.js'

export class Marks {
  readonly #standing = new Map<number, NativeMemory>()
  /** Lowered, to be raised anew. Never given back, since another thread may look at any time. */
  readonly #lowered: NativeMemory[] = []
  #reader: Reader | undefined

  raise(key: number): number {
    const word = this.#lowered.pop() ?? new NativeMemory(8)
    word.uint64[0] = BigInt(key)
    this.#standing.set(word.address, word)
    return word.address
  }

  lower(mark: number): void {
    const word = this.#standing.get(mark)
    if (word === undefined) return
    this.#standing.delete(mark)
    word.uint64[0] = 0n
    this.#lowered.push(word)
  }

  stands(mark: number, key: number): boolean {
    if (key === 0 || mark % 8 !== 0) return false
    this.#reader ??= safeReader()
    return this.#reader(mark) === key
  }
}
