/** The analysis of a recording: the critical path, the gaps, and how busy each stream and each device was. */
import { ownStream } from '../prediction/own-stream.js'
import { type BindingKind, Bindings, type Gap } from './bindings.js'
import { NO_ROW } from './event-records.js'
import { gainOf, NOT_PREDICTED } from './gains.js'
import { type DeviceWork, EventKind, isHostOnly, isInstant, workOf } from './kinds.js'
import { Predictor } from './predictor.js'
import { NO_FACTS, proposalsOf } from './proposals.js'
import { causesOf, describeStall, type Gain, type Group, togetherOf, toStall } from './stalls.js'
import {
  byGain,
  type DeviceSummary,
  formatDuration,
  formatTimes,
  type Stall,
  type StallKind,
  type StreamSummary,
  type TimelineSummary,
} from './summary.js'
import type { Trace } from './trace.js'
import type { StreamTrack } from './tracks.js'
import { verdictOf } from './verdict.js'

export interface Analysis {
  /** The reason of each operation for beginning when it did. */
  readonly bindings: Pick<Bindings, 'of'>
  /** The rows of the critical path that take time, in order. */
  readonly criticalPath: readonly number[]
  /** The gaps, the longest first. */
  readonly gaps: readonly Gap[]
  readonly summary: TimelineSummary
}

export function analyse(trace: Trace): Analysis {
  const bindings = new Bindings(trace)
  const found = gaps(trace, bindings)
  const summary = summarize(trace, bindings, found)
  return { bindings, criticalPath: criticalPath(trace, bindings), gaps: found, summary }
}

/** The rows from the operation that ended last back to what it waited for, and so on. */
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
  const { length, kind, track, parent, start, end, tracks } = trace
  const found: Gap[] = []
  const busyUntil = new Float64Array(tracks.length).fill(Number.NaN)
  for (let row = 0; row < length; row += 1) {
    const what = kind[row] ?? 0
    if (parent[row] !== NO_ROW || isInstant(what) || isHostOnly(what)) continue
    const on = track[row] ?? 0
    const begin = busyUntil[on] ?? Number.NaN
    const until = start[row] ?? Number.NaN
    if (until > begin) found.push({ track: on, begin, end: until, next: row, ...whyLate(trace, bindings, row) })
    busyUntil[on] = end[row] ?? Number.NaN
  }
  return found.sort((a, b) => b.end - b.begin - (a.end - a.begin) || a.begin - b.begin)
}

/** The operation with duration for which a late one waited, found through waits and records. */
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
    if (!isInstant(kind[row] ?? EventKind.NONE)) break
  }
  return { reason, wait, cause: row }
}

/** The work of a stream in nanoseconds, and how often it changed between copies and compute. */
interface StreamWork {
  readonly copy: number
  readonly compute: number
  readonly changes: number
}

function summarize(trace: Trace, bindings: Bindings, gaps: readonly Gap[]): TimelineSummary {
  const devices = [...trace.deviceNames].map(([device, name]) => ({ device, name, ...deviceTimes(trace, device) }))
  const works = streamWorks(trace)
  const streams = streamsOf(trace, works, gaps)
  const predictor = Predictor.of(trace)
  const found = [
    ...stallsOf(trace, predictor, causesOf(trace, bindings, gaps)),
    ...devices.flatMap((one) => oneStream(trace, predictor, one, works)),
    ...ownHostFunctions(trace, predictor),
  ]
  const stalls = [...found, ...(predictor === undefined ? [] : proposalsOf(trace, predictor, found))].sort(byGain)
  const predicted = predictor?.part
  return {
    duration: trace.duration,
    streams,
    devices: devices.sort((a, b) => a.device - b.device),
    verdict: verdictOf({ duration: trace.duration, streams, stalls, predicted }),
    stalls,
    predicted,
  }
}

/** The stalls of the causes. Waits of the host by one call are one cause if the run gains only without all of them. */
function stallsOf(trace: Trace, predictor: Predictor | undefined, causes: readonly Group[]): Stall[] {
  const gains = new Map(causes.map((cause) => [cause, gainOf(trace, predictor, cause)]))
  for (const kind of ['blockingCall', 'await'] as const) {
    const calls = new Set(causes.flatMap((cause) => (cause.kind === kind ? [trace.name[cause.by] ?? ''] : [])))
    for (const call of calls) {
      const alike = causes.filter((cause) => cause.kind === kind && trace.name[cause.by] === call)
      const together = togetherOf(trace, alike)
      if (predictor === undefined || together === undefined) continue
      const gain = gainOf(trace, predictor, together)
      const most = Math.max(...alike.map((cause) => gains.get(cause)?.nanoseconds ?? 0))
      if (!gain.isWorthIt || (gain.nanoseconds ?? 0) < MUCH_MORE * most) continue
      for (const cause of alike) gains.delete(cause)
      gains.set(together, gain)
    }
  }
  return Array.from(gains, ([cause, gain]) => toStall(trace, cause, gain))
}

/** The factor by which the gain without several causes is larger than that without one, for them to be told as one. */
const MUCH_MORE = 1.25

/** The end of an operation; for one that had not ended, the end of the recording. */
const endOf = ({ end, duration }: Trace, row: number): number =>
  Number.isNaN(end[row] ?? Number.NaN) ? duration : (end[row] ?? 0)

function streamWorks(trace: Trace): StreamWork[] {
  const { length, kind, track, parent, start, tracks } = trace
  const works = tracks.map(() => ({ copy: 0, compute: 0, changes: 0, last: undefined as DeviceWork | undefined }))
  for (let row = 0; row < length; row += 1) {
    const did = workOf(kind[row] ?? 0)
    const own = works[track[row] ?? 0]
    const began = start[row] ?? Number.NaN
    if (did === undefined || own === undefined || parent[row] !== NO_ROW || Number.isNaN(began)) continue
    own[did] += endOf(trace, row) - began
    if (own.last !== undefined && own.last !== did) own.changes += 1
    own.last = did
  }
  return works
}

function streamsOf(
  { tracks, trackNames, duration }: Trace,
  works: StreamWork[],
  gaps: readonly Gap[],
): StreamSummary[] {
  const idle = tracks.map(() => 0)
  for (const { track, begin, end } of gaps) idle[track] = (idle[track] ?? 0) + end - begin
  return tracks.map(({ index, device }) => {
    const { copy, compute } = works[index] ?? { copy: 0, compute: 0 }
    const busy = copy + compute
    const share = duration === 0 ? 0 : busy / duration
    return { stream: index, name: trackNames[index] ?? '', device, busy, share, idle: idle[index] ?? 0 }
  })
}

/** Adds up what ran on a device, by a sweep over the beginnings and the ends. For a graph with nodes, the nodes count. */
function deviceTimes(trace: Trace, device: number): Pick<DeviceSummary, 'busy' | 'copy' | 'compute' | 'overlap'> {
  const { length, kind, track, tracks, parent, start } = trace
  const withNodes = new Set<number>()
  for (let row = 0; row < length; row += 1) if (parent[row] !== NO_ROW) withNodes.add(parent[row] ?? NO_ROW)
  const times: Record<DeviceWork, { begins: number[]; ends: number[] }> = {
    copy: { begins: [], ends: [] },
    compute: { begins: [], ends: [] },
  }
  for (let row = 0; row < length; row += 1) {
    const did = workOf(kind[row] ?? 0)
    const began = start[row] ?? Number.NaN
    if (did === undefined || tracks[track[row] ?? 0]?.device !== device || Number.isNaN(began)) continue
    if (withNodes.has(row)) continue
    times[did].begins.push(began)
    times[did].ends.push(endOf(trace, row))
  }
  const copies = new Running(times.copy.begins, times.copy.ends)
  const computes = new Running(times.compute.begins, times.compute.ends)
  const sums = { busy: 0, copy: 0, compute: 0, overlap: 0 }
  for (let now = Math.min(copies.next, computes.next); now < Number.POSITIVE_INFINITY; ) {
    copies.goTo(now)
    computes.goTo(now)
    const until = Math.min(copies.next, computes.next)
    const passed = until === Number.POSITIVE_INFINITY ? 0 : until - now
    if (copies.any) sums.copy += passed
    if (computes.any) sums.compute += passed
    if (copies.any || computes.any) sums.busy += passed
    if (copies.any && computes.any) sums.overlap += passed
    now = until
  }
  return sums
}

/** Counts how many of some intervals contain a time, as time goes on. */
class Running {
  readonly #begins: Float64Array
  readonly #ends: Float64Array
  #begun = 0
  #ended = 0

  constructor(begins: readonly number[], ends: readonly number[]) {
    this.#begins = Float64Array.from(begins).sort()
    this.#ends = Float64Array.from(ends).sort()
  }

  get any(): boolean {
    return this.#begun > this.#ended
  }

  /** The time at which an interval begins or ends next; Infinity if none does. */
  get next(): number {
    const { POSITIVE_INFINITY } = Number
    return Math.min(this.#begins[this.#begun] ?? POSITIVE_INFINITY, this.#ends[this.#ended] ?? POSITIVE_INFINITY)
  }

  goTo(time: number): void {
    while ((this.#begins[this.#begun] ?? Number.POSITIVE_INFINITY) <= time) this.#begun += 1
    while ((this.#ends[this.#ended] ?? Number.POSITIVE_INFINITY) <= time) this.#ended += 1
  }
}

/** The stall of copies and kernels that could have overlapped if they had not been queued on one stream. */
function oneStream(
  trace: Trace,
  predictor: Predictor | undefined,
  device: DeviceSummary,
  works: readonly StreamWork[],
): Stall[] {
  const { tracks, trackNames } = trace
  const mixed = tracks.filter(({ index, device: of }) => of === device.device && (works[index]?.changes ?? 0) > 1)
  const [first] = mixed
  if (first === undefined) return []
  const serial = mixed.map(({ index }) => Math.min(works[index]?.copy ?? 0, works[index]?.compute ?? 0))
  const time = Math.min(
    Math.min(device.copy, device.compute) - device.overlap,
    serial.reduce((sum, one) => sum + one, 0),
  )
  if (time <= 0) return []
  const count = mixed.reduce((sum, { index }) => sum + (works[index]?.changes ?? 0), 0)
  const held = mixed.length === 1 ? `'${trackNames[first.index] ?? ''}'` : `${mixed.length} streams`
  const often = `${formatTimes(count)}: ${formatDuration(time)} could overlap at most`
  const { message, advice } = describeStall('oneStream', { ...NO_FACTS, held, often })
  const gain = predictor === undefined ? NOT_PREDICTED : gainOfCopies(trace, predictor, new Set(mixed))
  return [stallWithoutGaps('oneStream', message, advice, gain, { count, time })]
}

/** The gain if the copies of these streams have streams of their own, one for each direction. */
function gainOfCopies(
  { length, kind, track, tracks }: Trace,
  predictor: Predictor,
  of: ReadonlySet<StreamTrack>,
): Gain {
  const moved = new Map<number, string>()
  for (let row = 0; row < length; row += 1) {
    const stream = tracks[track[row] ?? 0]
    const step = predictor.stepOf(row)
    if (kind[row] !== EventKind.COPY || stream === undefined || step < 0 || !of.has(stream)) continue
    if (predictor.operationAt(step)?.memory === undefined) continue
    moved.set(step, `copies ${stream.index} ${predictor.operationAt(step)?.engine}`)
  }
  const { change } = ownStream(predictor.run, predictor.data, new Set(moved.keys()), (step) => moved.get(step) ?? '')
  const nanoseconds = predictor.gainOf(change)
  return { nanoseconds, isAtMost: predictor.hasUnknown, isLagging: false, isWorthIt: predictor.isWorthIt(nanoseconds) }
}

function stallWithoutGaps(
  kind: StallKind,
  message: string,
  advice: string,
  { nanoseconds: gain, isAtMost, isWorthIt }: Gain,
  { count, time }: Pick<Stall, 'count' | 'time'>,
): Stall {
  const said = isWorthIt ? advice : ''
  return { kind, message, advice: said, count, time, gain, isAtMost, callSite: undefined, gaps: [] }
}

/**
 * The stalls by a stream's own host functions. They leave no gap in the stream, but the device does nothing for it
 * meanwhile.
 */
function ownHostFunctions(trace: Trace, predictor: Predictor | undefined): Stall[] {
  const { length, kind, track, start, end, tracks, trackNames } = trace
  const sums = tracks.map(() => ({ count: 0, time: 0, waited: 0, held: 0 }))
  for (let row = 0; row < length; row += 1) {
    const own = sums[track[row] ?? 0]
    if (own === undefined) continue
    if (kind[row] === EventKind.HOST_FUNCTION) {
      own.held += 1
      own.waited += (end[row] ?? 0) - (start[row] ?? 0)
    } else if (workOf(kind[row] ?? 0) !== undefined) {
      own.count += own.held
      own.time += own.waited
      own.held = 0
      own.waited = 0
    }
  }
  return sums.flatMap(({ count, time }, on): Stall[] => {
    if (!(time > 0)) return []
    const often = `${formatTimes(count)}, ${formatDuration(time)}`
    const { message, advice } = describeStall('hostFunction', {
      ...NO_FACTS,
      held: `'${trackNames[on] ?? ''}'`,
      by: 'its own',
      often,
    })
    const aside = new Set<number>()
    for (let row = 0; row < length; row += 1) {
      const step = predictor?.stepOf(row) ?? NO_ROW
      if (kind[row] === EventKind.HOST_FUNCTION && track[row] === on && step >= 0) aside.add(step)
    }
    const nanoseconds = predictor?.gainOf({ aside })
    const isWorthIt = predictor?.isWorthIt(nanoseconds) === true
    const gain = { nanoseconds, isAtMost: true, isLagging: false, isWorthIt }
    return [stallWithoutGaps('hostFunction', message, advice, gain, { count, time })]
  })
}
