/**
 * Words of native memory by which one thread tells the others that a thing still stands, and which thing it is: the other
 * threads of a process have modules of their own, but the same memory.
 */

import { Reader } from '../libcuda/memory-reader.js'
import { NativeMemory } from '../libcuda/native.js'

/** A key, then the words that it stands for. */
const WORDS = 8

/** A mark that was read once, looked at without a call. */
export class MarkWatch {
  readonly #words: Uint32Array
  readonly #low: number
  readonly #high: number

  constructor(mark: number, key: number) {
    this.#words = new NativeMemory(8, mark).uint32
    this.#low = key >>> 0
    this.#high = Math.floor(key / 2 ** 32)
  }

  /** Has it been lowered, or raised for something else? */
  get isOver(): boolean {
    return this.#words[0] !== this.#low || this.#words[1] !== this.#high
  }
}

export class Marks {
  readonly #standing = new Map<number, NativeMemory>()
  /** Lowered, to be raised anew. Never given back, since another thread may look at any time. */
  readonly #lowered: NativeMemory[] = []
  #reader: Reader | undefined

  raise([key, ...rest]: readonly [key: number, ...rest: number[]]): number {
    const memory = this.#lowered.pop() ?? new NativeMemory(8 * WORDS)
    const { uint64, address } = memory
    for (let word = 1; word < WORDS; word += 1) uint64[word] = BigInt(rest[word - 1] ?? 0)
    // Last: a thread that sees the key sees the words behind it.
    uint64[0] = BigInt(key)
    this.#standing.set(address, memory)
    return address
  }

  lower(mark: number): void {
    const memory = this.#standing.get(mark)
    if (memory === undefined) return
    this.#standing.delete(mark)
    memory.uint64[0] = 0n
    this.#lowered.push(memory)
  }

  /** The words behind the key; undefined where no mark with this key stands. */
  read(mark: number, key: number): readonly number[] | undefined {
    if (key === 0 || mark % 8 !== 0) return undefined
    this.#reader ??= new Reader()
    const reader = this.#reader
    if (reader.pointerAt(mark) !== key) return undefined
    const rest = Array.from(reader.wordsAt(mark + 8, WORDS - 1) ?? [], Number)
    // It may have been lowered, and raised for something else, in the meantime.
    return reader.pointerAt(mark) === key ? rest : undefined
  }
}
