/** The bindings of operations: the one thing that each had to wait for last before it ran. */
import { firstAfter, NO_ROW, sortedRows } from './event-records.js'
import { deviceInCause, EventKind, isHostOnly, isInstant } from './kinds.js'
import type { Trace } from './trace.js'

export interface Binding {
  readonly kind: BindingKind
  /** The row that was waited for, or NO_ROW if that was not recorded. */
  readonly row: number
}

/** The nanoseconds after its call, or after the end of the work before it, by which work begins on a real GPU, as a rule. */
const HOST_CLOCK_SLACK = 15_000

export class Bindings {
  /** The times of the host's calls. */
  readonly host: HostTime
  readonly #slack: number
  /** The rows of operations, in the order of their ends. */
  readonly #byEnd: Int32Array
  /** The rows of blocking calls and of settled promises, in the order of their ends. */
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
    const begins = (kind[row] === EventKind.WAIT ? end[row] : start[row]) ?? 0
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
    if (kind[row] === EventKind.WAIT) consider('wait', cause[row] ?? NO_ROW)
    if (kind[row] === EventKind.GRAPH) consider('instance', cause[row] ?? NO_ROW)
    const queued = called[row] ?? 0
    if (queued >= ready) {
      // The time inside the driver call does not count as the program's.
      if (begins - (returned[row] ?? 0) <= this.#slack || kind[row] !== EventKind.HOST_FUNCTION) {
        return this.#elsewhere(row, begins, returned[row] ?? 0) ?? { kind: 'host', row: this.#hostCause(queued) }
      }
      return { kind: 'eventLoop', row: NO_ROW }
    }
    if (kind[row] === EventKind.HOST_FUNCTION && begins - ready > this.#slack)
      return { kind: 'eventLoop', row: best.row }
    return this.#elsewhere(row, begins, ready) ?? best
  }

  /** The operation that another one shared the device with, if that one began late although it had to wait for nothing. */
  #elsewhere(row: number, begins: number, ready: number): Binding | undefined {
    const { kind, track, tracks, end } = this.trace
    const what = kind[row] ?? 0
    if (begins - ready <= this.#slack || isInstant(what) || what === EventKind.HOST_FUNCTION) return undefined
    const device = tracks[track[row] ?? 0]?.device
    const order = this.#byEnd
    for (let at = firstAfter(order, end, begins) - 1; at >= 0; at -= 1) {
      const other = order[at] ?? NO_ROW
      if ((end[other] ?? 0) < begins - this.#slack) break
      if (other !== row && kind[other] === what && tracks[track[other] ?? 0]?.device === device) {
        return { kind: 'engine', row: other }
      }
    }
    return undefined
  }

  /** The row that the host waited for before it made a call at this time, or the host function in which it made the call. */
  #hostCause(called: number): number {
    const { end, returned, track, cause, tracks } = this.trace
    const inside = this.host.hostFunctionAt(called)
    if (inside !== NO_ROW) return inside
    const wait = this.#hostWaits[firstAfter(this.#hostWaits, returned, called) - 1] ?? NO_ROW
    if (wait === NO_ROW) return NO_ROW
    const to = returned[wait] ?? 0
    const device = deviceInCause(cause[wait] ?? NO_ROW)
    const order = this.#byEnd
    for (let index = firstAfter(order, end, to) - 1; index >= 0; index -= 1) {
      const row = order[index] ?? NO_ROW
      const on = track[row] ?? 0
      const isMeant = device === undefined ? on === track[wait] : tracks[on]?.device === device
      if (isMeant && row < wait) return row
    }
    return NO_ROW
  }
}

/** The kind of what an operation had to wait for last before it could begin. */
export type BindingKind =
  /** The operation before it in the stream. */
  | 'stream'
  /** A wait for an event or a stream. */
  | 'wait'
  /** The null stream's rules. */
  | 'nullStream'
  /** The host: the program had not queued the operation yet. */
  | 'host'
  /** The event loop: JavaScript was busy while a host function was due. */
  | 'eventLoop'
  /** The launch before of the same instance of a graph: CUDA runs those one after another. */
  | 'instance'
  /** The engines or kernel slots of the device, which were all in use. */
  | 'engine'
  /** An unknown reason: the operation waited for nothing that was recorded. */
  | 'unknown'

/** A time in which a stream was idle between two operations. */
export interface Gap {
  readonly track: number
  readonly begin: number
  readonly end: number
  /** The row of the operation that could not begin sooner. */
  readonly next: number
  readonly reason: BindingKind
  /** The row of the wait in the stream that held the operation up, or NO_ROW. */
  readonly wait: number
  /** The row of the operation that was waited for, or NO_ROW. */
  readonly cause: number
}

/** The nanoseconds that a call which queues work takes at most, as a rule; keys are clocks. */
const SLOW_CALL = { host: 20_000, virtual: 1000 }
/**
 * The number of recorded operations that may fill a hardware queue: it has 1020 entries, of which each takes up to three, and streams may share it.
 */
const FULL_QUEUE = 250

/** Calls of one name at one place of the program. */
interface Group {
  /** The part of the gap that the host spent in these calls. */
  inside: number
  /** The time by which the host would have come sooner without these calls. */
  gained: number
  /** The row of the longest one. */
  row: number
  longest: number
}

export class HostTime {
  /** The rows of calls in which the host waited, or that were slow, in the order of their ends. */
  readonly #spent: Int32Array
  readonly #hostFunctions: Int32Array

  constructor(private readonly trace: Trace) {
    const { kind, start, called, returned, clock, parent } = trace
    const slow = SLOW_CALL[clock]
    this.#spent = sortedRows(trace, returned, (row) => {
      const spent = (returned[row] ?? 0) - (called[row] ?? 0)
      return isHostOnly(kind[row] ?? 0) ? spent > 0 : spent > slow && parent[row] === NO_ROW
    })
    this.#hostFunctions = sortedRows(trace, start, (row) => kind[row] === EventKind.HOST_FUNCTION)
  }

  /** The row of the host function that ran at this time, or NO_ROW. */
  hostFunctionAt(time: number): number {
    const { start, end } = this.trace
    const inside = this.#hostFunctions[firstAfter(this.#hostFunctions, start, time) - 1] ?? NO_ROW
    return inside !== NO_ROW && (end[inside] ?? 0) >= time ? inside : NO_ROW
  }

  /**
   * The call that kept the host from what it did at `until`, if the host was late from `from` on: the one in which it was most of that time;
   * otherwise, the one without which it would have come soonest. NO_ROW if that is its own JavaScript.
   */
  lateBecauseOf(from: number, until: number): number {
    const { name, site, track, kind, called, returned } = this.trace
    const order = this.#spent
    const groups = new Map<string, Group>()
    /** The end of the calls so far; `own` is the part of the time that was spent in none of them. */
    let covered = from
    let own = 0
    for (let at = firstAfter(order, returned, from - 1); at < order.length; at += 1) {
      const row = order[at] ?? NO_ROW
      const [began, over] = [called[row] ?? 0, returned[row] ?? 0]
      if (over > until) break
      own += Math.max(0, began - covered)
      covered = Math.max(covered, over)
      const key = site[row] || `${kind[row]} ${track[row]} ${name[row]}`
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
   * The call that had to wait for room in its stream's queue, and kept the host from coming to `next` sooner: it came late itself, or took long,
   * while that stream had much to do. NO_ROW if there is none.
   */
  waitedForCapacity(from: number, next: number): number {
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

  /** The number of operations before this one that its stream had not completed at this time. */
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
