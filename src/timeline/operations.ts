/** Operations as programs see them: objects, made from the rows when a program asks for them. */
import type { BindingKind, Gap } from './gap.js'
import { isHostOnly, KIND_NAMES, type OperationKind } from './kinds.js'
import { NO_ROW } from './table.js'
import type { Trace } from './trace.js'

/** A stream of a timeline. */
export interface TimelineStream {
  /** Its place among the timeline's streams, from 0. */
  readonly index: number
  /** The driver's number for it (`stream.id`); CUPTI's for a stream that only other code used. */
  readonly id: bigint
  /** The device's ordinal. */
  readonly device: number
  /** What `nameStream` called it; otherwise 'stream 13', by `id`, or 'stream 13 (16 multiprocessors)' in a green context, 'null stream' or 'per-thread stream'; 'foreign stream 13' where only other code used it. */
  readonly name: string
  /** `stream.priority`: lower numbers go first. */
  readonly priority: number
  /** `stream.nonBlocking`: false where it waits for the null stream, and the null stream for it. */
  readonly nonBlocking: boolean
  /** The multiprocessors of the green context that it is in; undefined where it is in none. */
  readonly multiprocessors: number | undefined
}

/** One thing that a stream did. Times are nanoseconds since the recording began. */
export interface TimelineOperation {
  /** Its place among the rows of the timeline, in the order of the calls. */
  readonly id: number
  /** What it is: 'kernel', 'copy', 'record' and so on. */
  readonly kind: OperationKind
  /** A kernel's own name; for the rest, what it is. */
  readonly name: string
  /** The stream that it ran on. */
  readonly stream: TimelineStream
  /** Bytes moved, filled or allocated; undefined where there are none. */
  readonly byteLength: number | undefined
  /** When the call that queued it began. */
  readonly called: number
  /** When that call returned. */
  readonly returned: number
  /** When it began to run; undefined where it had not when the recording was stopped. A wait begins when its stream gets there. */
  readonly start: number | undefined
  /** When it was done; undefined where it was not when the recording was stopped. */
  readonly end: number | undefined
  /**
   * For a wait: the `id` of the record that it refers to, where that was recorded. Where the library lets a stream wait
   * for memory: of the operation that makes it or uses it last.
   */
  readonly record: number | undefined
  /** For a node of a graph: the `id` of the launch. Only on the simulator, and on a GPU with the option `everything`. */
  readonly graph: number | undefined
  /** Other code queued it: another library, or another thread. Only with the option `everything`. */
  readonly foreign: boolean
  /** 'path:line:column', with the option `callSites`. */
  readonly callSite: string | undefined
}

/** A call that blocked the host, or a promise that it awaited. Times are nanoseconds since the recording began. */
export interface TimelineCall {
  /** Its place among the rows of the timeline, which operations share. */
  readonly id: number
  /** As it is written: 'stream.synchronize()'. */
  readonly name: string
  /** True for a promise: the host did other things meanwhile. */
  readonly awaits: boolean
  /** The stream that was waited for; undefined for a whole device. */
  readonly stream: TimelineStream | undefined
  /** When the call was made. */
  readonly called: number
  /** When it returned, or its promise settled; `called` where neither had happened by the end. */
  readonly returned: number
  /** 'path:line:column', with the option `callSites`. */
  readonly callSite: string | undefined
}

/** A time in which a stream stood idle between two operations. Times are nanoseconds since the recording began. */
export interface IdleGap {
  /** The stream that stood idle. */
  readonly stream: TimelineStream
  /** When the operation before it was done. */
  readonly begin: number
  /** When `next` began. */
  readonly end: number
  /** What could not begin sooner. */
  readonly next: TimelineOperation
  /** Why not: 'wait' for a wait in the stream, 'host' where the program had not queued it yet, and so on. */
  readonly reason: BindingKind
  /** The wait in the stream that held it up; undefined where there was none. */
  readonly wait: TimelineOperation | undefined
  /** The operation that was waited for; undefined if it was not recorded. */
  readonly cause: TimelineOperation | undefined
}

export function streamsOf({ lanes, laneNames }: Trace): TimelineStream[] {
  return lanes.map(({ index, id, device, priority, nonBlocking, multiprocessors }) => {
    return { index, id, device, name: laneNames[index] ?? '', priority, nonBlocking, multiprocessors }
  })
}

export function operationAt(trace: Trace, streams: readonly TimelineStream[], row: number): TimelineOperation {
  const stream = streams[trace.lane[row] ?? 0]
  const kind = KIND_NAMES[trace.kind[row] ?? 0]
  if (stream === undefined || kind === undefined || kind === 'synchronize' || kind === 'await') {
    throw new RangeError(`row ${row} is no operation`)
  }
  return {
    id: row,
    kind,
    name: trace.name[row] ?? '',
    stream,
    byteLength: known(trace.bytes[row]),
    called: trace.called[row] ?? 0,
    returned: trace.returned[row] ?? 0,
    start: known(trace.start[row]),
    end: known(trace.end[row]),
    record: kind === 'wait' ? rowOrNone(trace.cause[row]) : undefined,
    graph: rowOrNone(trace.parent[row]),
    foreign: trace.foreign[row] === 1,
    callSite: trace.site[row] || undefined,
  }
}

export function callAt(trace: Trace, streams: readonly TimelineStream[], row: number): TimelineCall {
  const isWholeDevice = (trace.cause[row] ?? NO_ROW) < NO_ROW
  return {
    id: row,
    name: trace.name[row] ?? '',
    awaits: KIND_NAMES[trace.kind[row] ?? 0] === 'await',
    stream: isWholeDevice ? undefined : streams[trace.lane[row] ?? 0],
    called: trace.called[row] ?? 0,
    returned: trace.returned[row] ?? 0,
    callSite: trace.site[row] || undefined,
  }
}

/** The rows of calls, which are on the host only, or those of operations. */
export const rowsOf = ({ kind }: Trace, which: 'calls' | 'operations'): number[] =>
  Array.from(kind.keys()).filter((row) => isHostOnly(kind[row] ?? 0) === (which === 'calls'))

export function gapOf(
  { lane, begin, end, next, reason, wait, cause }: Gap,
  streams: readonly TimelineStream[],
  operation: (row: number) => TimelineOperation,
): IdleGap {
  const stream = streams[lane]
  if (stream === undefined) throw new RangeError(`no stream ${lane}`)
  const orNone = (row: number): TimelineOperation | undefined => (row === NO_ROW ? undefined : operation(row))
  return { stream, begin, end, next: operation(next), reason, wait: orNone(wait), cause: orNone(cause) }
}

const known = (value: number | undefined): number | undefined =>
  value === undefined || Number.isNaN(value) ? undefined : value
const rowOrNone = (row: number | undefined): number | undefined => (row === undefined || row < 0 ? undefined : row)
