/** One timeline of the traces of several processes, or ranks, whose clocks are brought to one axis. Each has rows of its own. */
import { type Analysis, analyse } from './analysis.js'
import { NO_ROW } from './event-records.js'
import { deviceInCause, wholeDevice } from './kinds.js'
import { byGain, type TimelineSummary } from './summary.js'
import { asTrace, type Trace } from './trace.js'
import { verdictOf } from './verdict.js'

/** The axis of a trace: a time of its own is `offset + scale * time` on the axis of all. */
export interface Axis {
  readonly offset: number
  readonly scale: number
}

export interface Part {
  /** The name of the rank, such as 'rank 0', which is put behind those of its streams. */
  readonly name: string
  readonly trace: Trace
  readonly axis: Axis
}

/** The trace with its times on the axis of all, whose beginning was at `epoch`. Its streams have the name of the rank. */
export function onAxis({ name, trace, axis: { offset, scale } }: Part, epoch: number): Trace {
  const moved = (times: Float64Array): Float64Array => times.map((time) => offset + scale * time)
  return asTrace({
    ...trace,
    called: moved(trace.called),
    returned: moved(trace.returned),
    start: moved(trace.start),
    end: moved(trace.end),
    hostFunctionTimes: new Map(
      [...trace.hostFunctionTimes].map(([row, times]) => [
        row,
        [offset + scale * times[0], offset + scale * times[1]] as const,
      ]),
    ),
    trackNames: trace.trackNames.map((stream) => `${stream}, ${name}`),
    duration: offset + scale * trace.duration,
    epoch,
  })
}

/** The numbers at which the rows, streams and devices of a part begin among those of all. */
interface Place {
  readonly rows: number
  readonly tracks: number
  readonly devices: number
}

/** One trace of several, and what the analysis of each says: a rank is held up by its own host and its own streams, as far as a trace shows. */
export function joined(traces: readonly Trace[]): readonly [trace: Trace, analysis: Analysis] {
  const [first] = traces
  if (first === undefined) throw new RangeError('there is no trace')
  const places: Place[] = []
  let [rows, tracks, devices] = [0, 0, 0]
  for (const { length, tracks: own, deviceNames } of traces) {
    places.push({ rows, tracks, devices })
    rows += length
    tracks += own.length
    devices += Math.max(0, ...deviceNames.keys(), ...own.map(({ device }) => device)) + 1
  }
  const parts = traces.map((trace, index) => {
    const place = places[index]
    if (place === undefined) throw new RangeError('a trace has no place')
    return { trace, place }
  })
  const all = asTrace({
    ...first,
    length: rows,
    kind: column(new Uint8Array(rows), parts, ({ kind }) => kind),
    track: column(
      new Uint32Array(rows),
      parts,
      ({ track }) => track,
      (value, at) => value + at.tracks,
    ),
    name: traces.flatMap(({ name }) => name),
    bytes: column(new Float64Array(rows), parts, ({ bytes }) => bytes),
    called: column(new Float64Array(rows), parts, ({ called }) => called),
    returned: column(new Float64Array(rows), parts, ({ returned }) => returned),
    start: column(new Float64Array(rows), parts, ({ start }) => start),
    end: column(new Float64Array(rows), parts, ({ end }) => end),
    hostFunctionTimes: new Map(
      parts.flatMap(({ trace, place }) =>
        [...trace.hostFunctionTimes].map(([row, times]) => [row + place.rows, times]),
      ),
    ),
    cause: column(new Int32Array(rows), parts, ({ cause }) => cause, causeIn),
    parent: column(new Int32Array(rows), parts, ({ parent }) => parent, rowIn),
    site: traces.flatMap(({ site }) => site),
    profiles: new Map(
      parts.flatMap(({ trace, place }) => [...trace.profiles].map(([row, profile]) => [row + place.rows, profile])),
    ),
    facts: new Map(),
    foreign: column(new Uint8Array(rows), parts, ({ foreign }) => foreign),
    previous: column(new Int32Array(rows), parts, ({ previous }) => previous, rowIn),
    implied: column(new Int32Array(rows), parts, ({ implied }) => implied, rowIn),
    tracks: parts.flatMap(({ trace, place }) =>
      trace.tracks.map((track) => ({
        ...track,
        index: track.index + place.tracks,
        device: track.device + place.devices,
      })),
    ),
    trackNames: traces.flatMap(({ trackNames }) => trackNames),
    deviceNames: new Map(
      parts.flatMap(({ trace, place }) =>
        [...trace.deviceNames].map(([device, name]) => [device + place.devices, name]),
      ),
    ),
    duration: Math.max(...traces.map(({ duration }) => duration)),
    calibrations: traces.flatMap(({ calibrations }) => calibrations),
    dropped: traces.reduce((sum, { dropped }) => sum + dropped, 0),
  })
  return [all, joinedAnalysis(parts, all)]
}

interface Placed {
  readonly trace: Trace
  readonly place: Place
}

const rowIn = (row: number, { rows }: Place): number => (row === NO_ROW ? NO_ROW : row + rows)

function causeIn(cause: number, place: Place): number {
  const device = deviceInCause(cause)
  return device === undefined ? rowIn(cause, place) : wholeDevice(device + place.devices)
}

/** Fills a column of all with those of the parts. */
function column<A extends Uint8Array | Uint32Array | Int32Array | Float64Array>(
  all: A,
  parts: readonly Placed[],
  of: (trace: Trace) => A,
  placed: (value: number, place: Place) => number = (value) => value,
): A {
  for (const { trace, place } of parts) {
    const own = of(trace)
    for (let row = 0; row < trace.length; row += 1) all[row + place.rows] = placed(own[row] ?? 0, place)
  }
  return all
}

function joinedAnalysis(parts: readonly Placed[], { duration }: Trace): Analysis {
  const found = parts.map(({ trace, place }) => ({ trace, place, analysis: analyse(trace) }))
  const lastEnd = ({ trace, analysis }: (typeof found)[number]): number =>
    trace.end[analysis.criticalPath.at(-1) ?? NO_ROW] ?? Number.NEGATIVE_INFINITY
  const last = found.reduce((latest, one) => (lastEnd(one) > lastEnd(latest) ? one : latest))
  const ordered = found
    .flatMap(({ analysis, place }, part) =>
      analysis.gaps.map((gap, index) => ({
        key: `${part} ${index}`,
        gap: {
          ...gap,
          track: gap.track + place.tracks,
          next: rowIn(gap.next, place),
          wait: rowIn(gap.wait, place),
          cause: rowIn(gap.cause, place),
        },
      })),
    )
    .sort((a, b) => b.gap.end - b.gap.begin - (a.gap.end - a.gap.begin) || a.gap.begin - b.gap.begin)
  const numbers = new Map(ordered.map(({ key }, index) => [key, index]))
  return {
    bindings: {
      of(row) {
        const own = found.findLast(({ place }) => place.rows <= row)
        if (own === undefined) return { kind: 'unknown', row: NO_ROW }
        const { kind, row: other } = own.analysis.bindings.of(row - own.place.rows)
        return { kind, row: rowIn(other, own.place) }
      },
    },
    criticalPath: last.analysis.criticalPath.map((row) => row + last.place.rows),
    gaps: ordered.map(({ gap }) => gap),
    summary: { duration, ...summaryOf(found, duration, numbers) },
  }
}

interface Found extends Placed {
  readonly analysis: Analysis
}

/** The summaries of all. What a rank gains is predicted for that rank alone. */
function summaryOf(
  found: readonly Found[],
  duration: number,
  numbers: ReadonlyMap<string, number>,
): Omit<TimelineSummary, 'duration'> {
  const streams = found.flatMap(({ analysis: { summary }, place }) =>
    summary.streams.map((stream) => ({
      ...stream,
      stream: stream.stream + place.tracks,
      device: stream.device + place.devices,
      share: duration === 0 ? 0 : stream.busy / duration,
    })),
  )
  const devices = found.flatMap(({ analysis: { summary }, place }) =>
    summary.devices.map((device) => ({ ...device, device: device.device + place.devices })),
  )
  const stalls = found
    .flatMap(({ analysis: { summary } }, part) =>
      summary.stalls.map((stall) => ({
        ...stall,
        gaps: stall.gaps.map((index) => numbers.get(`${part} ${index}`) ?? 0),
      })),
    )
    .sort(byGain)
  const parts = found.map(({ analysis: { summary } }) => summary.predicted)
  const known = parts.flatMap((part) => part ?? [])
  const predicted =
    known.length < parts.length
      ? undefined
      : {
          duration: Math.max(...known.map((part) => part.duration)),
          operations: known.reduce((sum, { operations }) => sum + operations, 0),
          isAll: known.every(({ isAll }) => isAll),
        }
  return { streams, devices, verdict: verdictOf({ duration, streams, stalls, predicted }), stalls, predicted }
}
