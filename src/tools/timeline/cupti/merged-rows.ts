/** The rows of a recording with those of other code in between, in the order of the calls. */

import { EventRecords, NO_ROW } from '../event-records.js'
import type { EventWriter } from '../event-writer.js'
import type { TraceWindow } from '../trace.js'
import type { Activity } from './records.js'

/** An operation that becomes a row of its own: one of other code, or a node of a graph that was launched here. */
export interface Extra {
  readonly activity: Activity
  readonly called: number
  readonly returned: number
  readonly start: number
  readonly end: number
  /** The row of the launch; NO_ROW for other code. */
  readonly parent: number
}

export interface Times {
  readonly start: number
  readonly end: number
}

/** Merges rows. `extras` are in the order of their calls; `times` are those of the recording's own rows, by their numbers. */
export function mergedRows(
  { table, names }: EventWriter,
  { from, to }: TraceWindow,
  extras: readonly Extra[],
  times: ReadonlyMap<number, Times>,
  trackOf: (activity: Activity) => number,
): EventRecords {
  const result = new EventRecords()
  const numbers = new Int32Array(to - from)
  const renumbered = (row: number): number => (row < from ? Math.min(row, NO_ROW) : (numbers[row - from] ?? NO_ROW))
  const add = ({ activity, called, returned, start, end, parent }: Extra): void => {
    const isNode = parent !== NO_ROW
    const track = isNode ? (table.track[parent] ?? 0) : trackOf(activity)
    const at = result.add(activity.kind, track, names.of(activity.name), activity.bytes, called)
    result.returned[at] = returned
    result.start[at] = start
    result.end[at] = end
    if (isNode) result.parent[at] = renumbered(parent)
    else result.foreign[at] = 1
  }
  let next = 0
  for (let row = from; row < to; row += 1) {
    const called = table.called[row] ?? 0
    for (let extra = extras[next]; extra !== undefined && extra.called < called; extra = extras[next]) {
      add(extra)
      next += 1
    }
    const bytes = table.bytes[row] ?? 0
    const at = result.add(table.kind[row] ?? 0, table.track[row] ?? 0, table.name[row] ?? 0, bytes, called)
    const exact = times.get(row)
    numbers[row - from] = at
    result.returned[at] = table.returned[row] ?? 0
    result.start[at] = exact?.start ?? table.start[row] ?? 0
    result.end[at] = exact?.end ?? table.end[row] ?? 0
    result.cause[at] = renumbered(table.cause[row] ?? NO_ROW)
    result.parent[at] = renumbered(table.parent[row] ?? NO_ROW)
    result.site[at] = table.site[row] ?? NO_ROW
  }
  for (const extra of extras.slice(next)) add(extra)
  return result
}
