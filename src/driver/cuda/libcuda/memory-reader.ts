/** Reads memory that may not be there: when it is not, that is an answer and no crash. */
import { own } from './c-functions.js'
import { NativeMemory } from './native.js'

/** The most that is read at once. */
export const MOST_WORDS = 8

/** Reads words of 8 bytes, in one look. */
export class Reader {
  readonly #memory = new NativeMemory(8 * MOST_WORDS)
  readonly #read = own().readMemory

  /** The pointer that stands at an address; undefined where the address cannot be read. */
  pointerAt(address: number): number | undefined {
    return this.#read(address, this.#memory.address, 8) === 1 ? this.#memory.pointerAt(0) : undefined
  }

  /** So many words from an address on, valid until the next look; undefined where they cannot all be read. */
  wordsAt(address: number, count: number): BigUint64Array | undefined {
    const isRead = this.#read(address, this.#memory.address, 8 * count) === 1
    return isRead ? this.#memory.uint64.subarray(0, count) : undefined
  }
}
