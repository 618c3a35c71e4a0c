/** Reads memory that may not be there. */
import { own } from './c-functions.js'
import { ThreadMemory } from './thread-memory.js'

/** The most words that a reader reads at once. */
const MOST_WORDS = 128

/** Reads memory that may not be there, without a crash. */
export class MemoryReader {
  readonly #memory = new ThreadMemory(8 * MOST_WORDS)
  readonly #read = own().readMemory

  /** The pointer at an address; undefined when the address cannot be read. */
  pointerAt(address: number): number | undefined {
    return this.#read(address, this.#memory.address, 8) === 1 ? this.#memory.pointerAt(0) : undefined
  }

  /** The words of 8 bytes at an address, valid until the next read; undefined when they cannot all be read. */
  wordsAt(address: number, count: number): BigUint64Array | undefined {
    const isRead = this.#read(address, this.#memory.address, 8 * count) === 1
    return isRead ? this.#memory.uint64.subarray(0, count) : undefined
  }
}
