/** The memory that a launch touched, byte for byte, as memory with rows: a kernel mostly touches elements at equal distances. */

import type { Pointer } from '../foundation/driver/handle-types.js'
import { type Access, type TouchedMemory, touching } from '../foundation/driver/touched-memory.js'
import type { ByteRange, RecordedAccesses } from '../ptx/ptx.js'

/** The most pieces of memory. */
const MOST_PIECES = 4096

/** Converts the accesses of a launch to pieces of memory; returns undefined if the bytes are too scattered. */
export function exactMemory(all: readonly RecordedAccesses[]): readonly TouchedMemory[] | undefined {
  const pieces: TouchedMemory[] = []
  for (const { reads, writes, atomics } of all) {
    addRows(pieces, without(reads, atomics), 'in')
    addRows(pieces, without(writes, atomics), 'out')
    addRows(pieces, atomics, 'atomic')
    if (pieces.length > MOST_PIECES) return undefined
  }
  return pieces
}

/** Adds ranges of equal length at equal distances as one piece. */
function addRows(pieces: TouchedMemory[], ranges: readonly ByteRange[], access: Access): void {
  for (let at = 0; at < ranges.length; ) {
    const first = ranges[at] as ByteRange
    const rowLength = first.to - first.from
    const rowDistance = (ranges[at + 1]?.from ?? first.to) - first.from
    let rows = 1
    for (;;) {
      const next = ranges[at + rows]
      if (next === undefined || next.to - next.from !== rowLength) break
      if (next.from !== first.from + rows * rowDistance) break
      rows += 1
    }
    const byteLength = (rows - 1) * rowDistance + rowLength
    const piece = touching(first.from as Pointer, byteLength, access)
    const layout = { rowLength, rows, rowDistance, matrices: 1, matrixDistance: rows * rowDistance }
    pieces.push(rows === 1 ? piece : { ...piece, rows: layout })
    at += rows
  }
}

/** The parts of some ranges that lie in none of the others. Both lists are sorted, and the ranges of each do not overlap. */
function without(ranges: readonly ByteRange[], others: readonly ByteRange[]): readonly ByteRange[] {
  if (others.length === 0) return ranges
  const left: ByteRange[] = []
  let at = 0
  for (const { from, to } of ranges) {
    let begin = from
    while ((others[at]?.to ?? to) <= from) at += 1
    for (let index = at; index < others.length; index += 1) {
      const other = others[index] as ByteRange
      if (other.from >= to) break
      if (other.from > begin) left.push({ from: begin, to: other.from })
      begin = Math.max(begin, other.to)
    }
    if (begin < to) left.push({ from: begin, to })
  }
  return left
}
