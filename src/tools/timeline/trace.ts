/** A recording that is over: its event records in time from its beginning, with the times worked out that no clock showed. */
import { isNullStream } from '../../foundation/driver/handle-types.js'
import type { KernelProfile } from '../../foundation/driver/kernel-profile.js'
import { type Calibration, type EventRecords, NO_ROW } from './event-records.js'
import type { EventWriter } from './event-writer.js'
import { EventKind, isHostOnly, isInstant } from './kinds.js'
import type { StreamTrack } from './tracks.js'
import type { WorkFact } from './work-facts.js'

export interface Trace {
  readonly length: number
  readonly kind: Uint8Array
  readonly track: Uint32Array
  readonly name: readonly string[]
  /** The bytes of each row; NaN if there are none. */
  readonly bytes: Float64Array
  readonly called: Float64Array
  /** The time at which the call returned, or `called` for a call that still waited at the end of the recording. */
  readonly returned: Float64Array
  /** The beginning of each operation; NaN, as for `end`, if there was none by the end of the recording. */
  readonly start: Float64Array
  readonly end: Float64Array
  /** The times at which host functions ran by the host's own clock, if `start` and `end` were moved to fit the device's; keys are rows. */
  readonly hostFunctionTimes: ReadonlyMap<number, readonly [start: number, end: number]>
  readonly cause: Int32Array
  readonly parent: Int32Array
  readonly site: readonly string[]
  /** What the simulator has counted of kernels; keys are rows. */
  readonly profiles: ReadonlyMap<number, KernelProfile>
  /** The facts of operations by which changes are predicted, of the first rows; keys are rows. */
  readonly facts: ReadonlyMap<number, WorkFact>
  /** The rows that other code queued, as 1. */
  readonly foreign: Uint8Array
  /** The row before each row in the same stream; NO_ROW for the first one, and for what is in no stream. */
  readonly previous: Int32Array
  /** The row of another stream that comes before by the rules of the null stream, or NO_ROW. */
  readonly implied: Int32Array
  readonly tracks: readonly StreamTrack[]
  readonly trackNames: readonly string[]
  readonly deviceNames: ReadonlyMap<number, string>
  readonly driver: 'cuda' | 'sim'
  readonly clock: 'virtual' | 'host'
  readonly duration: number
  /** The nanoseconds from 1970 to the beginning of the recording. */
  readonly epoch: number
  readonly calibrations: readonly Calibration[]
  readonly dropped: number
}

/** The first rows of a recording, of which it is predicted what changes of the program gain. */
export const PREDICTED_ROWS = 20_000

type HostFunctionTimes = Map<number, readonly [start: number, end: number]>

export interface TraceWindow {
  readonly from: number
  readonly to: number
  /** The most event records to take: an overlapping recording may have had room for more. */
  readonly limit: number
  /** The number of operations of this time that were not recorded. */
  readonly dropped: number
  readonly begin: number
  readonly end: number
  readonly epoch: number
}

const taken = new WeakSet<object>()

/** Whether the value was made by `takeTrace()`, or of what it made. */
export const isTrace = (value: unknown): value is Trace =>
  typeof value === 'object' && value !== null && taken.has(value)

/** Copies the event records of a window out of those that were written. */
export function takeTrace(writer: EventWriter, window: TraceWindow, table = writer.table): Trace {
  const { from, to: written, limit, begin, end, epoch, dropped } = window
  const { names, sites, driver, meter } = writer
  const to = Math.min(written, from + limit)
  const numbers = new Int32Array(to - from).fill(NO_ROW)
  const kept = new Int32Array(to - from)
  let length = 0
  for (let row = from; row < to; row += 1) {
    if (table.kind[row] === EventKind.NONE) continue
    numbers[row - from] = length
    kept[length] = row
    length += 1
  }
  const rows = kept.subarray(0, length)
  const renumbered = (row: number): number => (row < from ? Math.min(row, NO_ROW) : (numbers[row - from] ?? NO_ROW))
  /** The times of a column. `otherwise` has the times of the rows for which the column has NaN. */
  const times = (column: Float64Array, otherwise = column): Float64Array =>
    filled(new Float64Array(length), rows, (row) => {
      const time = column[row] ?? 0
      return (Number.isNaN(time) ? (otherwise[row] ?? 0) : time) - begin
    })
  const profiles = new Map<number, KernelProfile>()
  for (const [row, profile] of table.profiles) {
    const number = row < to ? renumbered(row) : NO_ROW
    if (number !== NO_ROW) profiles.set(number, profile)
  }
  const facts = new Map<number, WorkFact>()
  for (const [row, fact] of table.facts) {
    const number = row < to ? renumbered(row) : NO_ROW
    if (number !== NO_ROW) facts.set(number, fact)
  }
  const tracks = [...writer.tracks.all]
  const hostFunctionTimes: HostFunctionTimes = new Map()
  const devices = new Set(tracks.map(({ device }) => device))
  const trace = {
    length,
    kind: filled(new Uint8Array(length), rows, (row) => table.kind[row] ?? 0),
    track: filled(new Uint32Array(length), rows, (row) => table.track[row] ?? 0),
    name: Array.from(rows, (row) => names.at(table.name[row] ?? 0)),
    bytes: filled(new Float64Array(length), rows, (row) => table.bytes[row] ?? 0),
    called: times(table.called),
    returned: times(table.returned, table.called),
    start: times(table.start),
    end: times(table.end),
    hostFunctionTimes,
    cause: filled(new Int32Array(length), rows, (row) => renumbered(table.cause[row] ?? NO_ROW)),
    parent: filled(new Int32Array(length), rows, (row) => renumbered(table.parent[row] ?? NO_ROW)),
    site: Array.from(rows, (row) => sites.at(table.site[row] ?? NO_ROW)),
    profiles,
    facts,
    foreign: filled(new Uint8Array(length), rows, (row) => table.foreign[row] ?? 0),
    previous: new Int32Array(length).fill(NO_ROW),
    implied: new Int32Array(length).fill(NO_ROW),
    tracks,
    trackNames: tracks.map(({ name }) => name),
    deviceNames: new Map([...devices].map((device) => [device, driver.devices.name(device)])),
    driver: driver.name,
    clock: meter.clock,
    duration: 0,
    epoch,
    calibrations: meter.calibrations,
    dropped: dropped + operationsIn(table, to, written),
  }
  settle(trace)
  return asTrace({ ...trace, duration: durationOf(trace, end - begin) })
}

/** The trace as one of which a timeline can be made. */
export function asTrace(trace: Trace): Trace {
  taken.add(trace)
  return trace
}

/** Fills a column. The method `from()` of a typed array uses an iterator, which costs a second for a long recording. */
function filled<A extends Int32Array | Float64Array | Uint8Array | Uint32Array>(
  column: A,
  rows: Int32Array,
  valueAt: (row: number) => number,
): A {
  for (let i = 0; i < rows.length; i += 1) column[i] = valueAt(rows[i] ?? 0)
  return column
}

/** The number of operations that lie beyond a limit at the first of these rows. A node of a graph is beyond it only with its launch. */
function operationsIn({ kind, parent }: EventRecords, from: number, to: number): number {
  let operations = 0
  for (let row = from; row < to; row += 1) {
    const what = kind[row] ?? EventKind.NONE
    if (what !== EventKind.NONE && !isHostOnly(what) && (parent[row] ?? NO_ROW) < from) operations += 1
  }
  return operations
}

/**
 * Finds, in the order of the calls, what came before each operation, and the times of those that take no time: a wait begins when its stream reaches
 * it, and a record, an allocation and a free happen then.
 */
function settle(trace: Omit<Trace, 'duration' | 'hostFunctionTimes'> & { hostFunctionTimes: HostFunctionTimes }): void {
  const { kind, track, tracks, start, end, called, returned, cause, parent, foreign, previous, implied, clock } = trace
  const { hostFunctionTimes } = trace
  const last = new Int32Array(tracks.length).fill(NO_ROW)
  const endOf = (row: number): number => (row === NO_ROW ? Number.NEGATIVE_INFINITY : (end[row] ?? Number.NaN))
  for (let row = 0; row < trace.length; row += 1) {
    const on = track[row] ?? 0
    const own = tracks[on]
    const what = kind[row] ?? 0
    if (parent[row] !== NO_ROW || own === undefined || what === EventKind.SYNCHRONIZE || what === EventKind.AWAIT)
      continue
    previous[row] = last[on] ?? NO_ROW
    implied[row] = impliedBy(own, tracks, last, endOf)
    last[on] = row
    const reached = Math.max(
      (isInstant(what) ? returned[row] : called[row]) ?? 0,
      endOf(previous[row] ?? NO_ROW),
      endOf(implied[row] ?? NO_ROW),
    )
    if (what === EventKind.WAIT) {
      start[row] = reached
      if (clock === 'host') end[row] = Math.max(reached, endOf(Math.max(cause[row] ?? NO_ROW, NO_ROW)))
    } else if (isInstant(what) && (clock === 'host' || what === EventKind.ALLOCATE)) {
      start[row] = reached
      end[row] = reached
    } else if (clock === 'host' && foreign[row] === 0) {
      // The two clocks may disagree a little, but work of one stream must not overlap.
      if (what === EventKind.HOST_FUNCTION) hostFunctionTimes.set(row, [start[row] ?? 0, end[row] ?? 0])
      start[row] = Math.max(start[row] ?? 0, reached)
      end[row] = Math.max(end[row] ?? 0, start[row] ?? 0)
    }
    if (what === EventKind.WAIT && !((start[row] ?? 0) <= (end[row] ?? 0))) start[row] = end[row] ?? 0
  }
}

/** The latest row before each row by the rules of the null stream, which waits for all blocking streams of its device, and they for it. */
function impliedBy(
  own: StreamTrack,
  tracks: readonly StreamTrack[],
  last: Int32Array,
  endOf: (row: number) => number,
): number {
  const isNull = isNullStream(own.handle)
  if (own.nonBlocking && !isNull) return NO_ROW
  let latest = NO_ROW
  for (const other of tracks) {
    if (other === own || other.device !== own.device || other.nonBlocking) continue
    if (!isNull && !isNullStream(other.handle)) continue
    const row = last[other.index] ?? NO_ROW
    if (row !== NO_ROW && !(endOf(row) <= endOf(latest))) latest = row
  }
  return latest
}

function durationOf({ length, end, returned }: Omit<Trace, 'duration'>, stopped: number): number {
  let duration = stopped
  for (let row = 0; row < length; row += 1) {
    const latest = Math.max(returned[row] ?? 0, Number.isNaN(end[row] ?? 0) ? 0 : (end[row] ?? 0))
    if (latest > duration) duration = latest
  }
  return duration
}

export interface NodeLevels {
  /** The level of each row: 0 for the track itself, or the number of a level below it. */
  readonly levels: Uint32Array
  /** The number of levels for nodes of graphs that each track needs. */
  readonly depth: readonly number[]
}

export function nodeLevels({ length, parent, track, start, end, tracks }: Trace): NodeLevels {
  const levels = new Uint32Array(length)
  /** The time until which each level of each track is occupied. */
  const taken = tracks.map((): number[] => [])
  const nodes: number[] = []
  for (let row = 0; row < length; row += 1) if (parent[row] !== NO_ROW) nodes.push(row)
  nodes.sort((a, b) => (start[a] ?? 0) - (start[b] ?? 0))
  for (const row of nodes) {
    const until = taken[track[row] ?? 0] ?? []
    const from = start[row] ?? Number.NaN
    if (Number.isNaN(from)) continue
    const free = until.findIndex((time) => time <= from)
    const level = free < 0 ? until.length : free
    until[level] = end[row] ?? Number.POSITIVE_INFINITY
    levels[row] = level + 1
  }
  return { levels, depth: taken.map((until) => until.length) }
}
