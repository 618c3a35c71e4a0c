/** The two findings about a recording: the chain of operations that its length comes from, and why streams stood idle. */
import { Bindings } from './bindings.js'
import type { BindingKind, Gap } from './gap.js'
import { isHostOnly, isInstant, RowKind } from './kinds.js'
import { summarize } from './summarize.js'
import type { TimelineSummary } from './summary.js'
import { NO_ROW } from './table.js'
import type { Trace } from './trace.js'

export interface Analysis {
  /** Why each operation began when it did. */
  readonly bindings: Bindings
  /** Rows that take time, in its order. */
  readonly criticalPath: readonly number[]
  /** The longest first. */
  readonly gaps: readonly Gap[]
  readonly summary: TimelineSummary
}

export function analyse(trace: Trace): Analysis {
  const bindings = new Bindings(trace)
  const found = gaps(trace, bindings)
  const summary = summarize(trace, bindings, found)
  return { bindings, criticalPath: criticalPath(trace, bindings), gaps: found, summary }
}

/** From what ended last back to what it waited for, and so on. */
function criticalPath(trace: Trace, bindings: Bindings): number[] {
  const { length, kind, parent, end } = trace
  let row = NO_ROW
  for (let at = 0; at < length; at += 1) {
    const counts = parent[at] === NO_ROW && !isHostOnly(kind[at] ?? 0) && !isInstant(kind[at] ?? 0)
    if (counts && (end[at] ?? 0) > (end[row] ?? Number.NEGATIVE_INFINITY)) row = at
  }
  const path: number[] = []
  const seen = new Set<number>()
  while (row !== NO_ROW && !seen.has(row)) {
    seen.add(row)
    if (!isInstant(kind[row] ?? 0)) path.push(row)
    row = bindings.of(row).row
  }
  return path.reverse()
}

function gaps(trace: Trace, bindings: Bindings): Gap[] {
  const { length, kind, lane, parent, start, end, lanes } = trace
  const found: Gap[] = []
  const busyUntil = new Float64Array(lanes.length).fill(Number.NaN)
  for (let row = 0; row < length; row += 1) {
    const what = kind[row] ?? 0
    if (parent[row] !== NO_ROW || isInstant(what) || isHostOnly(what)) continue
    const on = lane[row] ?? 0
    const begin = busyUntil[on] ?? Number.NaN
    const until = start[row] ?? Number.NaN
    if (until > begin) found.push({ lane: on, begin, end: until, next: row, ...whyLate(trace, bindings, row) })
    busyUntil[on] = end[row] ?? Number.NaN
  }
  return found.sort((a, b) => b.end - b.begin - (a.end - a.begin) || a.begin - b.begin)
}

/** Follows what an operation waited for, through waits and records, to the operation behind them. */
function whyLate(trace: Trace, bindings: Bindings, late: number): Pick<Gap, 'reason' | 'wait' | 'cause'> {
  const { kind } = trace
  let reason: BindingKind = 'unknown'
  let wait = NO_ROW
  let row = late
  for (let steps = 0; steps < trace.length; steps += 1) {
    const binding = bindings.of(row)
    if (binding.kind === 'wait') {
      if (wait === NO_ROW) wait = row
      reason = 'wait'
    } else if (reason === 'unknown' && (binding.kind !== 'stream' || !isInstant(kind[binding.row] ?? 0))) {
      reason = binding.kind === 'stream' ? 'unknown' : binding.kind
    }
    row = binding.row
    if (row === NO_ROW || binding.kind === 'host' || binding.kind === 'eventLoop') break
    if (!isInstant(kind[row] ?? RowKind.NONE)) break
  }
  return { reason, wait, cause: row }
}
