/**
 * Looks at memory that may not be there. A wrong handle given to the driver is a segmentation fault; here it is an
 * answer. The inside of a CUstream and a CUevent is not documented, so it is learnt from ones made for the
 * purpose, and where they do not look as expected nothing is concluded from it.
 */
import { Reader } from '../libcuda/memory-reader.js'

/** Bytes of a stream's inner object that are searched for its address and number. */
const INNER_BYTES = 1024
/** Words of an event that are looked at. */
const EVENT_WORDS = 8
const HASH_FACTOR = 0x9e3779b1

/** The verdict on a handle without asking the driver. */
export type Verdict = 'alive' | 'unknown' | 'wrong'

export class MemoryCheck {
  /** Where in a stream's inner object its own address stands; undefined where that could not be learnt. */
  #selfOffset: number | undefined
  /** Where the driver's number for it stands. */
  #idOffset: number | undefined
  /** Does an event begin with the address of its context? */
  #eventNamesContext = false

  readonly #reader = new Reader()

  /** Learns from live streams and a live event what such things look like. */
  learn(streams: readonly { readonly handle: number; readonly id: number }[], event: number, context: number): void {
    this.#selfOffset = this.#offsetOf(streams.map(({ handle }) => ({ handle, value: handle })))
    this.#idOffset = this.#offsetOf(streams.map(({ handle, id }) => ({ handle, value: id })))
    this.#eventNamesContext = this.#pointerAt(event) === context
  }

  stream(handle: number): Verdict {
    const inner = this.#pointerAt(handle)
    if (inner === undefined) return 'wrong'
    if (this.#selfOffset === undefined) return 'unknown'
    const self = this.#pointerAt(inner + this.#selfOffset)
    if (self === undefined) return 'wrong'
    return self === handle ? 'alive' : 'unknown'
  }

  /** The driver's number for a stream: freed memory keeps it, and a stream that is made anew there has another. */
  idOfStream(handle: number): number | undefined {
    const inner = this.#pointerAt(handle)
    return inner === undefined || this.#idOffset === undefined ? undefined : this.#pointerAt(inner + this.#idOffset)
  }

  /** A hash of all that can be seen of an event, to be compared later. Each event that is closed is looked at. */
  lookOfEvent(handle: number): number {
    let look = 0
    for (const word of this.#reader.wordsAt(handle, EVENT_WORDS) ?? []) {
      const value = Number(word)
      look = (Math.imul(look, HASH_FACTOR) + (value >>> 0) + Math.floor(value / 2 ** 32)) | 0
    }
    return look
  }

  /** Where in the inner objects of all these streams their own value stands. */
  #offsetOf(streams: readonly { readonly handle: number; readonly value: number }[]): number | undefined {
    for (let offset = 0; offset < INNER_BYTES; offset += 8) {
      const stands = streams.every(({ handle, value }) => {
        const inner = this.#pointerAt(handle)
        return inner !== undefined && this.#pointerAt(inner + offset) === value
      })
      if (stands) return offset
    }
    return undefined
  }

  /** Which of the contexts an event belongs to, as far as can be seen. */
  event(
    handle: number,
    contexts: Iterable<number>,
  ): { readonly verdict: Verdict; readonly context: number | undefined } {
    const first = this.#pointerAt(handle)
    if (first === undefined) return { verdict: 'wrong', context: undefined }
    if (!this.#eventNamesContext) return { verdict: 'unknown', context: undefined }
    for (const context of contexts) if (context === first) return { verdict: 'alive', context }
    const verdict = this.#pointerAt(first - (first % 8)) === undefined ? 'wrong' : 'unknown'
    return { verdict, context: undefined }
  }

  /** The pointer that stands at an address, if the address can be read. */
  #pointerAt(address: number): number | undefined {
    return address % 8 === 0 ? this.#reader.pointerAt(address) : undefined
  }
}
