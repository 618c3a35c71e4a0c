/** The tracks from above: a band for the host, one for each stream, and narrower ones for the nodes of graphs. */
import { isHostOnly, isInstant, RowKind } from '../kinds.js'
import type { Data } from './data.js'

/** Bars that do not overlap, in the order of time. */
export interface Track {
  readonly label: string
  readonly detail: string
  readonly kind: 'calls' | 'promises' | 'stream' | 'nodes'
  readonly lane: number
  y: number
  readonly height: number
  readonly rows: Int32Array
  readonly begin: Float64Array
  readonly end: Float64Array
  /** How long the bars before each take together. */
  readonly busyBefore: Float64Array
  /** Records, frees and the like: points of time. */
  readonly marks: Int32Array
  readonly markAt: Float64Array
}

interface Span {
  readonly row: number
  readonly begin: number
  readonly end: number
}

export interface Heading {
  readonly text: string
  y: number
}

export interface PageLayout {
  readonly tracks: readonly Track[]
  readonly headings: readonly Heading[]
  readonly height: number
  /** The track of each stream. */
  readonly ofLane: ReadonlyMap<number, Track>
}

/** The fewer streams there are, the higher they may be. */
const BARS: readonly (readonly [streams: number, height: number])[] = [
  [6, 42],
  [16, 32],
  [Number.POSITIVE_INFINITY, 24],
]
const NODE_BAR = 16
const CALL_BAR = 20
const SPACE = 8
/** More of it where there is room, for the arrows. */
const WIDE_SPACE = 18
const HEADING = 28
const MOST_CALL_DEPTH = 4
const MOST_PROMISE_TRACKS = 4

export function layOut(data: Data): PageLayout {
  const tracks: Track[] = []
  const headings: Heading[] = []
  const ofLane = new Map<number, Track>()
  const between = data.lanes.length <= (BARS[1]?.[0] ?? 0) ? WIDE_SPACE : SPACE
  let y = 0
  const heading = (text: string): void => {
    headings.push({ text, y })
    y += HEADING
  }
  const place = (track: Track): void => {
    track.y = y
    tracks.push(track)
    y += track.height + (track.kind === 'stream' ? between : 3)
  }
  heading('Host')
  for (const track of hostTracks(data)) place(track)
  y += SPACE
  for (const [device, name] of data.devices) {
    heading(`Device ${device} · ${name}`)
    for (const [index, lane] of data.lanes.entries()) {
      if (lane.device !== device) continue
      for (const track of streamTracks(data, index)) {
        if (track.rows.length + track.marks.length === 0) continue
        place(track)
        if (track.kind === 'stream') ofLane.set(index, track)
      }
    }
    y += SPACE
  }
  return { tracks, headings, height: y, ofLane }
}

function streamTracks(data: Data, lane: number): Track[] {
  const bar = BARS.find(([streams]) => data.lanes.length <= streams)?.[1] ?? 24
  const info = data.lanes[lane]
  const spans: Span[][] = Array.from({ length: 1 + (info?.nodeTracks ?? 0) }, () => [])
  const marks: number[] = []
  for (let row = 0; row < data.length; row += 1) {
    const kind = data.kind[row] ?? 0
    if (data.lane[row] !== lane || isHostOnly(kind) || Number.isNaN(data.start[row] ?? 0)) continue
    const begin = data.start[row] ?? 0
    const end = data.end[row] ?? Number.NaN
    if (isInstant(kind) && begin === end) marks.push(row)
    else spans[data.track[row] ?? 0]?.push({ row, begin, end: Number.isNaN(end) ? data.duration : end })
  }
  const detail = `id ${info?.id}, priority ${info?.priority}${info?.nonBlocking ? '' : ', blocking'}`
  return spans.map((own, track) =>
    track === 0
      ? makeTrack(data, { label: info?.name ?? '', detail, kind: 'stream', lane, height: bar }, own, marks)
      : makeTrack(data, { label: '', detail: 'nodes of graphs', kind: 'nodes', lane, height: NODE_BAR }, own),
  )
}

/** Calls lie inside each other: a host function runs in a blocking call, and makes calls itself. */
function hostTracks(data: Data): Track[] {
  const calls: Span[] = []
  const promises: Span[] = []
  for (let row = 0; row < data.length; row += 1) {
    const kind = data.kind[row] ?? 0
    if (data.parent[row] !== -1 && !isHostOnly(kind)) continue
    const call = { row, begin: data.called[row] ?? 0, end: data.returned[row] ?? 0 }
    if (kind === RowKind.AWAIT) promises.push(call)
    else calls.push(call)
    if (kind === RowKind.HOST_FUNCTION && !Number.isNaN(data.end[row] ?? Number.NaN)) {
      calls.push({ row, begin: data.start[row] ?? 0, end: data.end[row] ?? 0 })
    }
  }
  const stacked = (spans: Span[], most: number): Span[][] => {
    // Of those that begin together the longest is around the others; what takes no time came before.
    const takesTime = ({ begin, end }: Span): number => (end > begin ? 1 : 0)
    spans.sort((a, b) => a.begin - b.begin || takesTime(a) - takesTime(b) || b.end - a.end)
    const levels: Span[][] = []
    for (const span of spans) {
      let level = levels.findIndex((one) => (one.at(-1)?.end ?? 0) <= span.begin)
      if (level < 0) level = levels.length
      if (level >= most) continue
      levels[level] ??= []
      levels[level]?.push(span)
    }
    return levels
  }
  const tracks = (levels: readonly Span[][], kind: 'calls' | 'promises', name: string, detail: string): Track[] =>
    levels.map((own, level) =>
      makeTrack(data, { label: level === 0 ? name : '', detail, kind, lane: -1, height: CALL_BAR }, own),
    )
  return [
    ...tracks(stacked(calls, MOST_CALL_DEPTH), 'calls', 'JavaScript', 'calls of the program'),
    ...tracks(stacked(promises, MOST_PROMISE_TRACKS), 'promises', 'promises', 'what was awaited'),
  ]
}

type TrackHead = Pick<Track, 'label' | 'detail' | 'kind' | 'lane' | 'height'>

function makeTrack(data: Data, head: TrackHead, spans: Span[], points: readonly number[] = []): Track {
  spans.sort((a, b) => a.begin - b.begin)
  const busyBefore = new Float64Array(spans.length + 1)
  for (const [at, { begin, end, row }] of spans.entries()) {
    const counts = head.kind !== 'stream' || data.kind[row] !== RowKind.WAIT
    busyBefore[at + 1] = (busyBefore[at] ?? 0) + (counts ? end - begin : 0)
  }
  const marks = Int32Array.from(points).sort((a, b) => (data.start[a] ?? 0) - (data.start[b] ?? 0))
  return {
    ...head,
    y: 0,
    rows: Int32Array.from(spans, ({ row }) => row),
    begin: Float64Array.from(spans, ({ begin }) => begin),
    end: Float64Array.from(spans, ({ end }) => end),
    busyBefore,
    marks,
    markAt: Float64Array.from(marks, (row) => data.start[row] ?? 0),
  }
}

/** How many of these times, which are in order, are at or before one. */
export function countUpTo(times: Float64Array, time: number, from = 0): number {
  let low = from
  let high = times.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((times[middle] ?? 0) <= time) low = middle + 1
    else high = middle
  }
  return low
}
