/**
 * The Trace Event format, with the conventions of PyTorch's profiler, so that tools made for one open the other: a
 * process for each device, a thread for each stream, microseconds with nanoseconds behind the point.
 */
import { process } from '../../foundation/base/node-modules.js'
import { NO_ROW } from './event-records.js'
import { callOf, categoryOf, deviceInCause, EventKind, isHostOnly, isInstant } from './kinds.js'
import { nodeLevels, type Trace } from './trace.js'

/** One event of the Trace Event format. */
export interface TraceEvent {
  /** The type of the event. 'X': a slice. 'M': a name of a process or thread. 's' and 'f': an arrow's ends. 'b' and 'e': a promise's two ends. */
  readonly ph: 'X' | 'M' | 's' | 'f' | 'b' | 'e'
  /** The label: the name of a kernel or of a driver call. For 'M', what is named, such as 'thread_name'. */
  readonly name: string
  /** The category, as PyTorch's profiler has them: 'kernel', 'gpu_memcpy', 'cuda_driver' and so on. */
  readonly cat?: string
  /** The ordinal of the device, or the number of the process that called. */
  readonly pid: number
  /** The thread in the process: a stream or nodes of its graphs, from 7, or 1 for JavaScript. */
  readonly tid: number
  /** The microseconds since `baseTimeNanoseconds`. */
  readonly ts: number
  /**
   * The microseconds of a slice, less a tenth of a nanosecond or two. Readers add them to `ts`, and the sum of two such fractions may be more than
   * the beginning of the next slice, which then seems to lie inside.
   */
  readonly dur?: number
  /** The number that the two ends of an arrow, or of a promise, have in common. */
  readonly id?: number
  /** The binding point: an arrow ends at the slice around its point, and not at the next one. */
  readonly bp?: 'e'
  /** The facts that viewers show of a selected slice: stream, bytes, call site; the `id` of the operation as 'correlation'. */
  readonly args?: Readonly<Record<string, string | number>>
}

/** A file of the Trace Event format: the text that `JSON.stringify` makes of it opens at ui.perfetto.dev. */
export interface TraceFile {
  /** The version of PyTorch's conventions. */
  readonly schemaVersion: 1
  /** The ordinal and name of each device. */
  readonly deviceProperties: readonly { readonly id: number; readonly name: string }[]
  /** The unit in which viewers write times. The events themselves have microseconds. */
  readonly displayTimeUnit: 'ms'
  /** The nanoseconds from 1970 to the beginning of the recording, to the microsecond. */
  readonly baseTimeNanoseconds: number
  /** The names of this package and the driver. */
  readonly traceName: string
  /** The events: names first, then JavaScript's slices by their beginnings, then what ran, then arrows from work to the waits for it. */
  readonly traceEvents: readonly TraceEvent[]
}

const JAVASCRIPT = 1
/** The first thread of a stream, since PyTorch's traces number streams from 7. */
const FIRST_STREAM = 7
/** A limit higher than the number of devices of any machine. */
const MOST_DEVICES = 64

/** The time in microseconds. The quotient is the number nearest to the fraction, which is also what a reader of the text gets. */
const micro = (nanoseconds: number): number => Math.round(nanoseconds) / 1000

/**
 * The length of a slice: a tenth of a nanosecond too short, and one more for each slice around it, up to four. It is never 0:
 * a slice without length that begins together with another would have to end before that one begins.
 */
const lengthOf = (from: number, to: number, depth = 0): number =>
  Math.max(10 * (Math.round(to) - Math.round(from)) - Math.min(depth + 1, 4), 1) / 10_000

export function toTraceEvents(trace: Trace): TraceFile {
  return { ...header(trace), traceEvents: [...eventsOf(trace)] }
}

/** The file as text, joined from an array, since a string of a million concatenations is nested too deep. */
export function toJson(trace: Trace): string {
  const events = Array.from(eventsOf(trace), (event) => JSON.stringify(event))
  return `${JSON.stringify(header(trace)).slice(0, -1)},"traceEvents":[\n${events.join(',\n')}\n]}\n`
}

function header({ deviceNames, epoch, driver }: Trace): Omit<TraceFile, 'traceEvents'> {
  return {
    schemaVersion: 1,
    deviceProperties: [...deviceNames].map(([id, name]) => ({ id, name })),
    displayTimeUnit: 'ms',
    baseTimeNanoseconds: epoch,
    traceName: `cuda-streams, ${driver}`,
  }
}

function* eventsOf(trace: Trace): Generator<TraceEvent> {
  const host = process.pid < MOST_DEVICES ? process.pid + 100_000 : process.pid
  const { levels, depth } = nodeLevels(trace)
  const firstThread: number[] = []
  let next = FIRST_STREAM
  for (const { index } of trace.tracks) {
    firstThread[index] = next
    next += 1 + (depth[index] ?? 0)
  }
  yield* names(trace, host, firstThread, depth)
  yield* hostEvents(trace, host)
  for (let row = 0; row < trace.length; row += 1) {
    const thread = (firstThread[trace.track[row] ?? 0] ?? 0) + (levels[row] ?? 0)
    yield* eventsOfRow(trace, row, host, thread)
  }
  yield* arrows(trace, firstThread)
}

function* names(
  { tracks, trackNames, deviceNames, driver }: Trace,
  host: number,
  firstThread: readonly number[],
  depth: readonly number[],
): Generator<TraceEvent> {
  const meta = (name: string, pid: number, tid: number, args: NonNullable<TraceEvent['args']>): TraceEvent => {
    return { ph: 'M', name, pid, tid, ts: 0, args }
  }
  yield meta('process_name', host, 0, { name: 'node' })
  yield meta('process_labels', host, 0, { labels: 'CPU' })
  yield meta('process_sort_index', host, 0, { sort_index: -1 })
  yield meta('thread_name', host, JAVASCRIPT, { name: 'JavaScript' })
  for (const [device, name] of deviceNames) {
    yield meta('process_name', device, 0, { name })
    yield meta('process_labels', device, 0, { labels: driver === 'sim' ? `simulated GPU ${device}` : `GPU ${device}` })
    yield meta('process_sort_index', device, 0, { sort_index: 5_000_000 + device })
  }
  for (const { device, index } of tracks) {
    const first = firstThread[index] ?? 0
    for (let level = 0; level <= (depth[index] ?? 0); level += 1) {
      const name = level === 0 ? (trackNames[index] ?? '') : `${trackNames[index]}, graph nodes ${level}`
      yield meta('thread_name', device, first + level, { name })
      yield meta('thread_sort_index', device, first + level, { sort_index: first + level })
    }
  }
}

/** The events of the JavaScript thread: slices, which are nested, and promises, which may overlap. */
function* hostEvents(trace: Trace, host: number): Generator<TraceEvent> {
  const slices: HostSlice[] = []
  for (let row = 0; row < trace.length; row += 1) {
    const { kind, called, returned, name, parent, foreign } = trace
    const what = kind[row] ?? 0
    const text = name[row] ?? ''
    const from = Math.round(called[row] ?? 0)
    const to = Math.round(returned[row] ?? 0)
    const call = callOf(what)
    if (what === EventKind.AWAIT) {
      const common = { cat: 'await', name: text, id: row + 1, pid: host, tid: JAVASCRIPT }
      yield { ph: 'b', ...common, ts: micro(from), args: argsOnHost(trace, row) }
      yield { ph: 'e', ...common, ts: micro(to) }
    } else if (what === EventKind.SYNCHRONIZE) slices.push({ row, cat: 'cuda_runtime', name: text, from, to })
    else if (call !== undefined && parent[row] === NO_ROW && foreign[row] === 0) {
      slices.push({ row, cat: 'cuda_driver', name: call, from, to })
    }
    const ran = what === EventKind.HOST_FUNCTION ? hostFunctionTimes(trace, row) : undefined
    if (ran !== undefined) slices.push({ row, cat: 'host_function', name: text, from: ran[0], to: ran[1] })
  }
  slices.sort((a, b) => a.from - b.from || b.to - a.to)
  const around: number[] = []
  for (const { row, cat, name, from, to } of slices) {
    while ((around.at(-1) ?? Number.POSITIVE_INFINITY) <= from) around.pop()
    const dur = lengthOf(from, to, around.length)
    yield { ph: 'X', cat, name, pid: host, tid: JAVASCRIPT, ts: micro(from), dur, args: argsOnHost(trace, row) }
    around.push(to)
  }
}

interface HostSlice {
  readonly row: number
  readonly cat: string
  readonly name: string
  readonly from: number
  readonly to: number
}

/** The times of a host function by the host's clock; undefined if it has not run. */
function hostFunctionTimes(
  { hostFunctionTimes, start, end }: Trace,
  row: number,
): [from: number, to: number] | undefined {
  const [began, over] = hostFunctionTimes.get(row) ?? [start[row] ?? Number.NaN, end[row] ?? Number.NaN]
  return Number.isNaN(began) || Number.isNaN(over) ? undefined : [Math.round(began), Math.round(over)]
}

function argsOnHost({ kind, cause, track, trackNames, site }: Trace, row: number): NonNullable<TraceEvent['args']> {
  const isOnHost = isHostOnly(kind[row] ?? 0)
  const isOfStream = !isOnHost || deviceInCause(cause[row] ?? 0) === undefined
  return {
    ...(isOnHost ? {} : { correlation: row }),
    ...(isOfStream ? { stream: trackNames[track[row] ?? 0] ?? '' } : {}),
    ...(site[row] ? { 'call site': site[row] } : {}),
  }
}

/** The slice of an operation, and the arrow from its call. */
function* eventsOfRow(trace: Trace, row: number, host: number, thread: number): Generator<TraceEvent> {
  const { kind, called, start, end, track, tracks, name, bytes, parent, foreign } = trace
  const what = kind[row] ?? 0
  const own = tracks[track[row] ?? 0]
  const began = start[row] ?? Number.NaN
  const over = end[row] ?? Number.NaN
  if (own === undefined || isHostOnly(what) || Number.isNaN(began) || Number.isNaN(over)) return
  if (isInstant(what) && !(what === EventKind.WAIT && Math.round(over) > Math.round(began))) return
  const call = callOf(what)
  const cat = categoryOf(what)
  const ts = micro(began)
  const size = bytes[row] ?? Number.NaN
  const args = {
    correlation: row,
    stream: Number(own.id),
    ...(Number.isNaN(size) ? {} : { bytes: size }),
    ...(foreign[row] === 0 ? {} : { 'queued by': 'other code' }),
  }
  yield { ph: 'X', cat, name: name[row] ?? '', pid: own.device, tid: thread, ts, dur: lengthOf(began, over), args }
  // The thread that made a call of other code is not known.
  if (parent[row] !== NO_ROW || foreign[row] === 1 || call === undefined) return
  const arrow = { cat: 'ac2g', name: 'ac2g', id: row + 1 }
  yield { ph: 's', ...arrow, pid: host, tid: JAVASCRIPT, ts: micro(called[row] ?? 0) }
  yield { ph: 'f', bp: 'e', ...arrow, pid: own.device, tid: thread, ts }
}

/** The arrows from the operation before a record to the operation behind the wait for it. */
function* arrows(trace: Trace, firstThread: readonly number[]): Generator<TraceEvent> {
  const { length, kind, track, tracks, cause, start, end, previous } = trace
  const takesTime = (row: number): boolean =>
    !isInstant(kind[row] ?? 0) && !Number.isNaN(start[row] ?? 0) && !Number.isNaN(end[row] ?? 0)
  const waiting = new Map<number, number[]>()
  for (let row = 0; row < length; row += 1) {
    const on = track[row] ?? 0
    if (kind[row] === EventKind.WAIT && (cause[row] ?? NO_ROW) >= 0 && track[cause[row] ?? 0] !== on) {
      waiting.set(on, [...(waiting.get(on) ?? []), row])
    }
    if (previous[row] === NO_ROW && !waiting.has(on)) continue
    if (!takesTime(row) || isHostOnly(kind[row] ?? 0) || trace.parent[row] !== NO_ROW) continue
    for (const wait of waiting.get(on) ?? []) {
      let source = cause[wait] ?? NO_ROW
      while (source !== NO_ROW && !takesTime(source)) source = previous[source] ?? NO_ROW
      const from = tracks[track[source] ?? 0]
      const to = tracks[on]
      if (source === NO_ROW || from === undefined || to === undefined) continue
      // The arrow begins before the very end of a slice, which does not count as inside.
      const leaves = micro(Math.max(start[source] ?? 0, Math.round(end[source] ?? 0) - 1))
      const common = { cat: 'wait', name: 'wait', id: length + wait + 1 }
      yield { ph: 's', ...common, pid: from.device, tid: firstThread[from.index] ?? 0, ts: leaves }
      yield { ph: 'f', bp: 'e', ...common, pid: to.device, tid: firstThread[on] ?? 0, ts: micro(start[row] ?? 0) }
    }
    waiting.delete(on)
  }
}
