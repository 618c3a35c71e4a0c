/** Reads the records of a trace, which native/injection/trace.c has written, also of one that grows meanwhile. */
import { sameBytes } from '../../foundation/base/bytes.js'
import { invalidValue } from '../../foundation/base/errors.js'
import { process } from '../../foundation/base/node-modules.js'
import { orDamaged } from './line-checks.js'

/** The kinds of records, as in trace.c. */
export const TraceKind = {
  FUNCTION: 1,
  SITE: 2,
  CALL: 3,
  KERNEL: 4,
  PTX: 5,
  CONTEXT: 6,
  HOST_USE: 7,
  CLOCK: 8,
  CALL_TIMES: 9,
  ACTIVITY: 10,
  DEVICE: 11,
  RANK: 12,
} as const

/** A record: what it contains is from `at` to `end`. It is valid until the next one is read. */
export interface TraceRecord {
  readonly kind: number
  readonly view: DataView
  readonly bytes: Uint8Array
  readonly at: number
  readonly end: number
}

/** The bytes that are read at one time; more, where a record is longer. */
const READ = 2 ** 20
/** The most bytes of a record: trace.c writes none that is longer. */
const LONGEST = 2 ** 24

export class TraceReader {
  readonly #file: number
  /** What is read of the trace, and the place of its first byte there. */
  #bytes = new Uint8Array(READ)
  #view = new DataView(this.#bytes.buffer)
  #begin = 0

  /** @throws {Error} of the file system, if the trace cannot be read */
  constructor(private readonly path: string) {
    this.#file = process.getBuiltinModule('node:fs').openSync(path, 'r')
  }

  /**
   * Reads the records that the trace has by now and that were not read before.
   * @throws {Error} ERR_INVALID_ARG_VALUE if the file is no trace
   */
  more(visit: (record: TraceRecord) => void): void {
    let at = this.#begin
    const damaged = (): Error => invalidValue(`${this.path} is no trace, or damaged at byte ${at}`)
    // A record may be shorter than its head says, or contain numbers which no process has.
    orDamaged(() => {
      for (;;) {
        const read = this.#read()
        let needed = 0
        let isLast = read < this.#bytes.length
        while (at + 8 <= this.#begin + read) {
          const place = at - this.#begin
          const length = this.#view.getUint32(place, true)
          if (length === 0) {
            isLast = true
            break
          }
          if (length % 8 !== 0 || length > LONGEST) throw damaged()
          if (place + length > read) {
            needed = length
            break
          }
          const [kind, end] = [this.#view.getUint32(place + 4, true), place + length]
          visit({ kind, view: this.#view, bytes: this.#bytes, at: place + 8, end })
          at += length
        }
        if (needed > 0 && isLast) throw damaged()
        this.#begin = at
        if (isLast) break
        if (needed > this.#bytes.length) this.#reserve(needed)
      }
    }, damaged)
  }

  close(): void {
    process.getBuiltinModule('node:fs').closeSync(this.#file)
  }

  #reserve(byteLength: number): void {
    this.#bytes = new Uint8Array(byteLength)
    this.#view = new DataView(this.#bytes.buffer)
  }

  /** Reads from the first record on that was not read yet. A thread may be writing one: it is whole once a second reading finds the same. */
  #read(): number {
    const { readSync } = process.getBuiltinModule('node:fs')
    const read = (into: Uint8Array): number => readSync(this.#file, into, 0, into.length, this.#begin)
    const again = new Uint8Array(this.#bytes.length)
    for (;;) {
      const length = read(this.#bytes)
      if (read(again) === length && sameBytes(this.#bytes.subarray(0, length), again.subarray(0, length))) return length
    }
  }
}

/** The text in a record from a place on. */
export function textIn({ bytes, end }: TraceRecord, from: number): string {
  const text = bytes.subarray(from, end)
  const zero = text.indexOf(0)
  return new TextDecoder().decode(zero < 0 ? text : text.subarray(0, zero))
}
