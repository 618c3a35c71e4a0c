/** Rows in the order of one of their times, to look for the one before or after a moment. */
import type { Trace } from './trace.js'

export function sortedRows({ length }: Trace, by: Float64Array, isMeant: (row: number) => boolean): Int32Array {
  const rows: number[] = []
  for (let row = 0; row < length; row += 1) if (isMeant(row) && !Number.isNaN(by[row] ?? 0)) rows.push(row)
  return Int32Array.from(rows).sort((a, b) => (by[a] ?? 0) - (by[b] ?? 0) || a - b)
}

/** How many rows, in this order, have a time that is not after this one. */
export function firstAfter(order: Int32Array, times: Float64Array, time: number): number {
  let low = 0
  let high = order.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((times[order[middle] ?? 0] ?? 0) <= time) low = middle + 1
    else high = middle
  }
  return low
}
