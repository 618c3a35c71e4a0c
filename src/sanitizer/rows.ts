/** Memory that is touched in rows with gaps between them: which of its bytes two operations have in common. */
import type { MemoryRows, TouchedMemory } from '../driver/driver.js'

/** The memory of an operation that touches some of it in rows; undefined where it touches all of it. */
type Scattered = readonly TouchedMemory[] | undefined

/** Rows to look at. What lies so entangled that there are more is let pass. */
const MOST_LOOKS = 65_536

/** Do two operations that both reach into these bytes touch one of them, one of the two to write? */
export function meet(one: Scattered, other: Scattered, start: number, end: number): boolean {
  const [those, these] = one === undefined ? [other ?? [], one] : [one, other]
  let looks = 0
  for (const touched of those) {
    for (const [from, to] of rowsIn(touched, start, end)) {
      looks += 1
      if (looks > MOST_LOOKS) return false
      if (these === undefined) return true
      if (these.some((piece) => clashes(piece, touched) && reaches(piece, from, to))) return true
    }
  }
  return false
}

/** Does an operation touch all of these bytes that another touched? It may say no where it does. */
export function covers(operation: readonly TouchedMemory[], other: Scattered, start: number, end: number): boolean {
  return operation.some((piece) => {
    if (piece.pointer >= end || piece.pointer + piece.byteLength <= start) return false
    return piece.rows === undefined || (other?.some((earlier) => isSame(earlier, piece)) ?? false)
  })
}

function clashes(one: TouchedMemory, other: TouchedMemory): boolean {
  if (one.access === 'atomic' && other.access === 'atomic') return false
  return one.access !== 'in' || other.access !== 'in'
}

function isSame(one: TouchedMemory, other: TouchedMemory): boolean {
  const [a, b] = [one.rows, other.rows]
  if (one.pointer !== other.pointer || a === undefined || b === undefined) return false
  return (Object.keys(b) as (keyof MemoryRows)[]).every((key) => a[key] === b[key])
}

function reaches(piece: TouchedMemory, start: number, end: number): boolean {
  for (const _ of rowsIn(piece, start, end)) return true
  return false
}

/** The pieces of memory that are touched within these bytes. */
function* rowsIn(
  { pointer, byteLength, rows }: TouchedMemory,
  start: number,
  end: number,
): Iterable<readonly [number, number]> {
  if (rows === undefined) {
    if (pointer < end && pointer + byteLength > start)
      yield [Math.max(pointer, start), Math.min(pointer + byteLength, end)]
    return
  }
  for (let matrix = 0; matrix < rows.matrices; matrix += 1) {
    const first = pointer + matrix * rows.matrixDistance
    let row = Math.max(0, Math.floor((start - rows.rowLength - first) / rows.rowDistance) + 1)
    for (; row < rows.rows; row += 1) {
      const from = first + row * rows.rowDistance
      if (from >= end) break
      yield [Math.max(from, start), Math.min(from + rows.rowLength, end)]
    }
  }
}
