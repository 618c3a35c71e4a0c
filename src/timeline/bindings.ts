/** Why an operation ran when it did, and not before: the one thing that it had to wait for last. */
import type { BindingKind } from './gap.js'
import { HostTime } from './host-time.js'
import { deviceInCause, isHostOnly, isInstant, RowKind } from './kinds.js'
import { firstAfter, sortedRows } from './row-order.js'
import { NO_ROW } from './table.js'
import type { Trace } from './trace.js'

export interface Binding {
  readonly kind: BindingKind
  /** The row that was waited for; NO_ROW where that is no operation of the recording. */
  readonly row: number
}

/** On a real GPU it takes about so long from a call, or from the end of the work before, to the beginning of work. */
const HOST_CLOCK_SLACK = 15_000

export class Bindings {
  /** What the host did. */
  readonly host: HostTime
  readonly #slack: number
  /** Rows in the order of their ends: which of them was in the way. */
  readonly #byEnd: Int32Array
  /** Blocking calls, and promises that settled, in the order in which the host went on. */
  readonly #hostWaits: Int32Array

  constructor(private readonly trace: Trace) {
    const { kind, end, called, returned, parent, clock } = trace
    const isOnHost = (row: number): boolean => isHostOnly(kind[row] ?? 0)
    this.#slack = clock === 'host' ? HOST_CLOCK_SLACK : 0
    this.#byEnd = sortedRows(trace, end, (row) => parent[row] === NO_ROW && !isOnHost(row))
    this.#hostWaits = sortedRows(trace, returned, (row) => isOnHost(row) && (returned[row] ?? 0) > (called[row] ?? 0))
    this.host = new HostTime(trace)
  }

  of(row: number): Binding {
    const { kind, start, called, returned, previous, implied, cause, end } = this.trace
    const begins = (kind[row] === RowKind.WAIT ? end[row] : start[row]) ?? 0
    const before = previous[row] ?? NO_ROW
    const rule = implied[row] ?? NO_ROW
    let best: Binding = { kind: 'unknown', row: NO_ROW }
    let ready = Number.NEGATIVE_INFINITY
    const consider = (candidate: BindingKind, by: number): void => {
      const at = end[by] ?? Number.NEGATIVE_INFINITY
      if (by === NO_ROW || !(at > ready)) return
      ready = at
      best = { kind: candidate, row: by }
    }
    consider('stream', before)
    consider('nullStream', rule)
    if (kind[row] === RowKind.WAIT) consider('wait', cause[row] ?? NO_ROW)
    if (kind[row] === RowKind.GRAPH) consider('instance', cause[row] ?? NO_ROW)
    const queued = called[row] ?? 0
    if (queued >= ready) {
      // While the driver had the call, the program could not have done more.
      if (begins - (returned[row] ?? 0) <= this.#slack || kind[row] !== RowKind.HOST_FUNCTION) {
        return this.#elsewhere(row, begins, returned[row] ?? 0) ?? { kind: 'host', row: this.#hostCause(queued) }
      }
      return { kind: 'eventLoop', row: NO_ROW }
    }
    if (kind[row] === RowKind.HOST_FUNCTION && begins - ready > this.#slack) return { kind: 'eventLoop', row: best.row }
    return this.#elsewhere(row, begins, ready) ?? best
  }

  /** An operation that began late though nothing of its own was in the way: what it had to share a device with. */
  #elsewhere(row: number, begins: number, ready: number): Binding | undefined {
    const { kind, lane, lanes, end } = this.trace
    const what = kind[row] ?? 0
    if (begins - ready <= this.#slack || isInstant(what) || what === RowKind.HOST_FUNCTION) return undefined
    const device = lanes[lane[row] ?? 0]?.device
    const order = this.#byEnd
    for (let at = firstAfter(order, end, begins) - 1; at >= 0; at -= 1) {
      const other = order[at] ?? NO_ROW
      if ((end[other] ?? 0) < begins - this.#slack) break
      if (other !== row && kind[other] === what && lanes[lane[other] ?? 0]?.device === device) {
        return { kind: 'engine', row: other }
      }
    }
    return undefined
  }

  /** What the host waited for, or ran in, before it made a call at this time. */
  #hostCause(called: number): number {
    const { end, returned, lane, cause, lanes } = this.trace
    const inside = this.host.hostFunctionAt(called)
    if (inside !== NO_ROW) return inside
    const wait = this.#hostWaits[firstAfter(this.#hostWaits, returned, called) - 1] ?? NO_ROW
    if (wait === NO_ROW) return NO_ROW
    const to = returned[wait] ?? 0
    const device = deviceInCause(cause[wait] ?? NO_ROW)
    const order = this.#byEnd
    for (let index = firstAfter(order, end, to) - 1; index >= 0; index -= 1) {
      const row = order[index] ?? NO_ROW
      const on = lane[row] ?? 0
      const isMeant = device === undefined ? on === lane[wait] : lanes[on]?.device === device
      if (isMeant && row < wait) return row
    }
    return NO_ROW
  }
}
