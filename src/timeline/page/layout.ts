/** The tracks from above: a band for the host, one for each stream, and narrower ones for the nodes of graphs. */
import { BarList, type Bars, countUpTo, laneBars } from '../bars.js'
import { QUIET } from '../colours.js'
import { isHostOnly, isInstant, RowKind } from '../kinds.js'
import { type Data, laneName } from './data.js'

export interface Track extends Bars {
  readonly label: string
  readonly detail: string
  readonly kind: 'calls' | 'promises' | 'stream' | 'nodes'
  readonly lane: number
  y: number
  readonly height: number
  /** Records, frees and the like: points of time. */
  readonly marks: Int32Array
  readonly markAt: Float64Array
}

export interface Heading {
  readonly text: string
  readonly y: number
}

export interface PageLayout {
  readonly tracks: readonly Track[]
  readonly headings: readonly Heading[]
  readonly height: number
  /** The track of each stream. */
  readonly ofLane: ReadonlyMap<number, Track>
}

interface Call {
  readonly row: number
  readonly begin: number
  readonly end: number
  readonly colour: number
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
  const lanes = streamTracks(data)
  for (const [device, name] of data.devices) {
    heading(`Device ${device} · ${name}`)
    for (const track of lanes) {
      if (data.lanes[track.lane]?.device !== device || track.rows.length + track.marks.length === 0) continue
      place(track)
      if (track.kind === 'stream') ofLane.set(track.lane, track)
    }
    y += SPACE
  }
  return { tracks, headings, height: y, ofLane }
}

function streamTracks(data: Data): Track[] {
  const height = BARS.find(([streams]) => data.lanes.length <= streams)?.[1] ?? 24
  return laneBars(data, data.colours).flatMap(({ tracks, marks }, lane) => {
    const info = data.lanes[lane]
    const detail = `${laneName(data, lane)}: id ${info?.id}, priority ${info?.priority}${info?.nonBlocking ? '' : ', blocking'}`
    const markAt = Float64Array.from(marks, (row) => data.start[row] ?? 0)
    return tracks.map((bars, track): Track => {
      if (track > 0)
        return { ...bars, label: '', detail: 'nodes of graphs', kind: 'nodes', lane, height: NODE_BAR, ...none }
      return { ...bars, label: info?.name ?? '', detail, kind: 'stream', lane, height, y: 0, marks, markAt }
    })
  })
}

const none = { y: 0, marks: new Int32Array(), markAt: new Float64Array() }

/** Calls lie inside each other: a host function runs in a blocking call, and makes calls itself. */
function hostTracks(data: Data): Track[] {
  const calls: Call[] = []
  const promises: Call[] = []
  for (let row = 0; row < data.length; row += 1) {
    const kind = data.kind[row] ?? 0
    // Which thread made a call of other code is not known.
    if ((data.parent[row] !== -1 && !isHostOnly(kind)) || data.foreign[row] === 1) continue
    const colour = isInstant(kind) || kind === RowKind.LATCH ? QUIET : (data.colours[row] ?? 0)
    const call = { row, begin: data.called[row] ?? 0, end: data.returned[row] ?? 0, colour }
    if (kind === RowKind.AWAIT) promises.push(call)
    else calls.push(call)
    if (kind === RowKind.HOST_FUNCTION && !Number.isNaN(data.end[row] ?? Number.NaN)) {
      calls.push({ row, begin: data.start[row] ?? 0, end: data.end[row] ?? 0, colour })
    }
  }
  const stacked = (all: Call[], most: number): Bars[] => {
    // Of those that begin together the longest is around the others; what takes no time came before.
    const takesTime = ({ begin, end }: Call): number => (end > begin ? 1 : 0)
    all.sort((a, b) => a.begin - b.begin || takesTime(a) - takesTime(b) || b.end - a.end)
    const levels: { readonly list: BarList; until: number }[] = []
    for (const { row, begin, end, colour } of all) {
      let level = levels.find(({ until }) => until <= begin)
      if (level === undefined && levels.length < most) {
        level = { list: new BarList(), until: 0 }
        levels.push(level)
      }
      level?.list.add(row, begin, end, colour)
      if (level !== undefined) level.until = end
    }
    return levels.map(({ list }) => list.toBars())
  }
  const tracks = (levels: readonly Bars[], kind: 'calls' | 'promises', name: string, detail: string): Track[] =>
    levels.map((bars, level) => {
      return { ...bars, label: level === 0 ? name : '', detail, kind, lane: -1, height: CALL_BAR, ...none }
    })
  return [
    ...tracks(stacked(calls, MOST_CALL_DEPTH), 'calls', 'JavaScript', 'calls of the program'),
    ...tracks(stacked(promises, MOST_PROMISE_TRACKS), 'promises', 'promises', 'what was awaited'),
  ]
}

/** The place of a row among the bars of a track; -1 where it is not among them. */
export function barOf(track: Track, row: number, { start, called }: Data): number {
  for (const begin of [start[row] ?? Number.NaN, called[row] ?? Number.NaN]) {
    let at = countUpTo(track.begin, begin) - 1
    while (at >= 0 && track.begin[at] === begin && track.rows[at] !== row) at -= 1
    if (at >= 0 && track.rows[at] === row) return at
  }
  return -1
}
