/**
 * The bytes of pinned memory that matter to a check: words that streams wait for, and on the simulator what the program has views of, since
 * JavaScript writes there without a call. Changes are written before the calls at which a sanitizer would compare bytes.
 */
import { sameBytes } from '../../foundation/base/bytes.js'
import type { Journal } from './journal.js'

/** The bytes of a slot, which contains a word of either length. */
const WORD = 8
/** The number of the latest ranges whose bytes are followed; the next constant is that of the bytes of each. */
const MOST = 256
const MOST_BYTES = 65_536
/** The bytes of a change that are written, and as many of its end: it only matters that they have changed. */
const MOST_WRITTEN = 32

interface Range {
  readonly pointer: number
  /** The bytes as they were written last; a reader begins with zeros. */
  before: Uint8Array
}

export class FollowedBytes {
  /** The pinned memory; keys are first addresses. The program alone keeps it reachable. */
  readonly #pinned = new Map<number, WeakRef<ArrayBuffer | Uint8Array>>()
  readonly #ranges = new Map<string, Range>()

  constructor(private readonly journal: Journal) {}

  allocated(pointer: number, memory: ArrayBuffer | Uint8Array): void {
    this.#pinned.set(pointer, new WeakRef(memory))
  }

  closed(pointer: number): void {
    const length = this.#pinned.get(pointer)?.deref()?.byteLength ?? 0
    this.#pinned.delete(pointer)
    for (const [key, range] of this.#ranges) {
      if (range.pointer >= pointer && range.pointer < pointer + length) this.#ranges.delete(key)
    }
  }

  followWord(pointer: number): void {
    this.follow(pointer - (pointer % WORD), WORD)
  }

  follow(pointer: number, byteLength: number): void {
    const length = Math.min(byteLength, MOST_BYTES)
    const key = `${pointer} ${length}`
    if (this.#ranges.has(key)) return
    const [oldest] = this.#ranges.keys()
    if (this.#ranges.size >= MOST && oldest !== undefined) this.#ranges.delete(oldest)
    this.#ranges.set(key, { pointer, before: new Uint8Array(length) })
  }

  /** Writes the bytes that have changed. */
  note(): void {
    if (this.#ranges.size === 0) return
    for (const range of this.#ranges.values()) {
      const { pointer, before } = range
      const bytes = this.#bytesAt(pointer, before.length)
      if (bytes === undefined || sameBytes(bytes, before)) continue
      range.before = bytes.slice()
      const first = bytes.findIndex((byte, index) => byte !== before[index])
      const last = bytes.findLastIndex((byte, index) => byte !== before[index])
      this.#write(pointer, bytes, first, Math.min(last, first + MOST_WRITTEN - 1))
      if (last >= first + MOST_WRITTEN)
        this.#write(pointer, bytes, Math.max(last - MOST_WRITTEN, first + MOST_WRITTEN), last)
    }
  }

  #write(pointer: number, bytes: Uint8Array, first: number, last: number): void {
    const digits = Array.from(bytes.subarray(first, last + 1), (byte) => byte.toString(16).padStart(2, '0'))
    this.journal.object({ bytes: digits.join(''), pointer: pointer + first })
  }

  #bytesAt(pointer: number, length: number): Uint8Array | undefined {
    for (const [start, kept] of this.#pinned) {
      const memory = kept.deref()
      const offset = pointer - start
      if (memory === undefined || offset < 0 || offset >= memory.byteLength) continue
      const left = Math.min(length, memory.byteLength - offset)
      return memory instanceof Uint8Array
        ? memory.subarray(offset, offset + left)
        : new Uint8Array(memory, offset, left)
    }
    return undefined
  }
}
