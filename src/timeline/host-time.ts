/** What the host did while a stream had nothing to do. */
import { isHostOnly, RowKind } from './kinds.js'
import { firstAfter, sortedRows } from './row-order.js'
import { NO_ROW } from './table.js'
import type { Trace } from './trace.js'

/** A call that queues work takes a few microseconds; on the simulator a tenth of one. */
const SLOW_CALL = { host: 20_000, virtual: 1000 }
/** A hardware queue holds 1020 entries, and a recorded operation takes up to three; streams may share one. */
const FULL_QUEUE = 250

/** Calls that look the same: the same call, at the same place of the program. */
interface Group {
  /** Time of the gap in which the host was in one of them. */
  inside: number
  /** Time by which the host would have come sooner without them. */
  gained: number
  /** The longest of them. */
  row: number
  longest: number
}

export class HostTime {
  /** Calls in which the host waited, or that were slow, in the order in which it went on. */
  readonly #spent: Int32Array
  readonly #hostFunctions: Int32Array

  constructor(private readonly trace: Trace) {
    const { kind, start, called, returned, clock, parent } = trace
    const slow = SLOW_CALL[clock]
    this.#spent = sortedRows(trace, returned, (row) => {
      const spent = (returned[row] ?? 0) - (called[row] ?? 0)
      return isHostOnly(kind[row] ?? 0) ? spent > 0 : spent > slow && parent[row] === NO_ROW
    })
    this.#hostFunctions = sortedRows(trace, start, (row) => kind[row] === RowKind.HOST_FUNCTION)
  }

  /** The host function in which the host was at this time, or NO_ROW. */
  hostFunctionAt(time: number): number {
    const { start, end } = this.trace
    const inside = this.#hostFunctions[firstAfter(this.#hostFunctions, start, time) - 1] ?? NO_ROW
    return inside !== NO_ROW && (end[inside] ?? 0) >= time ? inside : NO_ROW
  }

  /**
   * The call that kept the host from what it did at `until`, where from `from` on it was late: the one in which it was most of
   * that time; otherwise, the one without which it would have come soonest. NO_ROW where that is its own JavaScript.
   */
  lateBecauseOf(from: number, until: number): number {
    const { name, site, lane, kind, called, returned } = this.trace
    const order = this.#spent
    const groups = new Map<string, Group>()
    /** Until when the time was spent in one of the calls, and how much of it was not. */
    let covered = from
    let own = 0
    for (let at = firstAfter(order, returned, from - 1); at < order.length; at += 1) {
      const row = order[at] ?? NO_ROW
      const [began, over] = [called[row] ?? 0, returned[row] ?? 0]
      if (over > until) break
      own += Math.max(0, began - covered)
      covered = Math.max(covered, over)
      const key = site[row] || `${kind[row]} ${lane[row]} ${name[row]}`
      const group = groups.get(key) ?? { inside: 0, gained: 0, row, longest: 0 }
      groups.set(key, group)
      group.inside += over - Math.max(began, from)
      group.gained += Math.min(over - began, until - from)
      if (over - began > group.longest) {
        group.longest = over - began
        group.row = row
      }
    }
    own += Math.max(0, until - covered)
    const most = (of: 'inside' | 'gained'): number => {
      let best: Group | undefined
      for (const group of groups.values()) if (group[of] > (best?.[of] ?? 0)) best = group
      return best === undefined || best[of] < own ? NO_ROW : best.row
    }
    const inside = most('inside')
    return inside === NO_ROW ? most('gained') : inside
  }

  /**
   * The call that had to wait for room in its stream's queue, and kept the host from coming to `next` sooner: it came late
   * itself, or took long, while that stream had much to do. NO_ROW where there is none.
   */
  waitedForRoom(from: number, next: number): number {
    const { called, returned, parent, clock } = this.trace
    const latest = called[next] ?? 0
    let most = Math.max(SLOW_CALL[clock], (latest - from) / 2)
    let found = NO_ROW
    for (let row = next; row > 0 && (returned[row] ?? 0) > from; row -= 1) {
      const began = Math.max(returned[row - 1] ?? 0, from)
      const waited = Math.min(returned[row] ?? 0, latest) - began
      if (parent[row] !== NO_ROW || waited <= most || this.#pending(row, began) < FULL_QUEUE) continue
      most = waited
      found = row
    }
    return found
  }

  /** How many operations before this one its stream had not done at this time. */
  #pending(row: number, time: number): number {
    const { previous, end } = this.trace
    let count = 0
    let before = previous[row] ?? NO_ROW
    while (count < FULL_QUEUE && before !== NO_ROW && !((end[before] ?? Number.NaN) <= time)) {
      count += 1
      before = previous[before] ?? NO_ROW
    }
    return count
  }
}
