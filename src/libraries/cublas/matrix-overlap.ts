/** Do two matrices share elements? Their rows may lie between each other's, as those of two halves of one matrix do. */
import type { Layout } from './gemm-shape.js'

/** Places to look at. What lies so entangled that there are more is let pass. */
const MOST_LOOKS = 65_536

/** Does any matrix of a batch share an element with any of another, the first of which begins `distance` elements later? */
export function matricesOverlap(a: Layout, c: Layout, distance: number, batchCount: number): boolean {
  if (distance >= a.elements || -distance >= c.elements) return false
  // Where lines are equally far apart in both, how far one of A is from one of C depends on their difference alone.
  const alike = a.leading === c.leading
  const lowest = alike ? 1 - a.lines : 0
  let looks = 0
  for (const shift of shifts(a.stride, c.stride, batchCount)) {
    for (let line = 0; line < (alike ? 1 : a.lines); line += 1) {
      looks += 1
      if (looks > MOST_LOOKS) return false
      const from = distance + shift - line * a.leading
      // The first line of C that does not end before this one of A begins.
      const index = Math.max(lowest, Math.floor((-c.length - from) / c.leading) + 1)
      if (index < c.lines && from + index * c.leading < a.length) return true
    }
  }
  return false
}

/** How much farther a matrix of the second batch is from one of the first than both first ones are from each other. */
function* shifts(first: number, second: number, batchCount: number): Iterable<number> {
  yield 0
  for (let count = 1; count < batchCount; count += 1) {
    if (first === second) {
      yield count * second
      yield -count * second
      continue
    }
    if (first === 0) {
      yield count * second
      continue
    }
    for (let other = 0; other <= count; other += 1) {
      yield count * second - other * first
      if (other < count) yield other * second - count * first
    }
  }
}
