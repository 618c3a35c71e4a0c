/** The accesses of a launch to memory, collected from the marks that its code leaves in the shadows of blocks of memory. */

import type { ListedRange, TouchedBlock } from './device-memory.js'
import { SHADOW } from './layout.js'

/** The bytes from the address `from` up to, and without, the address `to` of the machine. */
export interface ByteRange {
  readonly from: number
  readonly to: number
}

/** The accesses of a launch to one block of memory. */
export interface RecordedAccesses {
  /** The address at which the block of memory begins. */
  readonly block: number
  readonly reads: readonly ByteRange[]
  readonly writes: readonly ByteRange[]
  /** The bytes that atomics accessed; `reads` and `writes` contain them, too. */
  readonly atomics: readonly ByteRange[]
}

/** Collects the marks in parts of a shadow and clears them. Words without marks are skipped. */
export function takeMarks(
  words: Int32Array,
  shadow: number,
  parts: TouchedBlock['parts'],
  begin: number,
): RecordedAccesses {
  const kinds = [SHADOW.read, SHADOW.written, SHADOW.atomic].map((mask) => ({
    mask,
    from: -1,
    ranges: [] as ByteRange[],
  }))
  const end = (at: number): void => {
    for (const kind of kinds) {
      if (kind.from >= 0) kind.ranges.push({ from: begin + kind.from, to: begin + at })
      kind.from = -1
    }
  }
  for (const { from, to } of parts) {
    // A word of four equal bytes is kept here: while equal words follow it, no range begins or ends.
    let same = -1
    for (let at = from; at < to; at += 4) {
      const word = words[(shadow + at) >>> 2] ?? 0
      const isMarked = (word & ~ALL_INITIALISED) !== 0
      if (word === same) {
        // Most words are equal to the one before, so those are passed over together.
        const [begin, end] = [(shadow + at) >>> 2, (shadow + to + 3) >>> 2]
        let next = begin + 1
        while (next < end && words[next] === word) next++
        if (isMarked) words.fill(word & ALL_INITIALISED, begin, next)
        at += 4 * (next - begin - 1)
        continue
      }
      if (isMarked) words[(shadow + at) >>> 2] = word & ALL_INITIALISED
      same = word === Math.imul(word & 0xff, 0x01010101) ? word : -1
      if (!isMarked) {
        end(at)
        continue
      }
      for (let byte = at; byte < Math.min(at + 4, to); byte++) {
        const marks = word >> (8 * (byte - at))
        for (const kind of kinds) {
          const marked = (marks & kind.mask) !== 0
          if (marked && kind.from < 0) kind.from = byte
          else if (!marked && kind.from >= 0) {
            kind.ranges.push({ from: begin + kind.from, to: begin + byte })
            kind.from = -1
          }
        }
      }
    }
    end(to)
  }
  const [reads = [], writes = [], atomics = []] = kinds.map(({ ranges }) => ranges)
  return { block: begin, reads, writes, atomics }
}

/** Adds ranges that were listed in place of marks. */
export function withListed(found: RecordedAccesses, listed: readonly ListedRange[]): RecordedAccesses {
  if (listed.length === 0) return found
  const { block, atomics } = found
  const of = (mask: number): ByteRange[] =>
    listed.filter(({ marks }) => (marks & mask) !== 0).map(({ from, to }) => ({ from: block + from, to: block + to }))
  const reads = united([...found.reads, ...of(SHADOW.read)])
  return { block, reads, writes: united([...found.writes, ...of(SHADOW.written)]), atomics }
}

/** The bytes that lie in any of some ranges, as ranges in the order of their addresses which do not touch each other. */
function united(ranges: ByteRange[]): readonly ByteRange[] {
  const result: ByteRange[] = []
  for (const range of ranges.sort((a, b) => a.from - b.from)) {
    const last = result.at(-1)
    if (last === undefined || range.from > last.to) result.push(range)
    else if (range.to > last.to) result[result.length - 1] = { from: last.from, to: range.to }
  }
  return result
}

/** The bits of a shadow word which say that its bytes have been written, and nothing else. */
const ALL_INITIALISED = 0x01010101 * SHADOW.initialised
