/** The bands of the page, from above: for the host, one for each stream, and narrower ones for the nodes of graphs. */
import { BarList, type Bars, countUpTo, trackBars } from '../bars.js'
import { EventKind, isHostOnly, isInstant, NULL_STREAM, QUIET } from '../kinds.js'
import { type Data, placeOf, timeOf, trackName, wholeDeviceOf } from './data.js'
import type { View } from './view.js'

export interface Band extends Bars {
  readonly label: string
  readonly detail: string
  readonly kind: 'calls' | 'promises' | 'stream' | 'nodes'
  readonly track: number
  y: number
  height: number
  /** The rows of records, frees and the like: points of time. */
  readonly marks: Int32Array
  readonly markAt: Float64Array
}

export interface Heading {
  readonly text: string
  y: number
}

export interface PageLayout {
  readonly bands: readonly Band[]
  readonly headings: readonly Heading[]
  height: number
  /** The places of bands and headings if there is no more room than they need; `height` is that of a stream's band then. */
  readonly least: {
    readonly places: ReadonlyMap<Band | Heading, number>
    readonly all: number
    readonly height: number
  }
  /** The band of each stream; keys are tracks. */
  readonly ofTrack: ReadonlyMap<number, Band>
}

interface Call {
  readonly row: number
  readonly begin: number
  readonly end: number
  readonly colour: number
}

/** The heights of a stream's band and the numbers of streams up to which they are used. */
const BARS: readonly (readonly [streams: number, height: number])[] = [
  [6, 42],
  [16, 32],
  [Number.POSITIVE_INFINITY, 24],
]
const NODE_BAR = 16
const CALL_BAR = 20
const SPACE = 8
/** The space between bands if there are few, for the arrows. */
const WIDE_SPACE = 18
const HEADING = 28
const MOST_CALL_DEPTH = 4
const MOST_PROMISE_BANDS = 4

export function layOut(data: Data): PageLayout {
  const bands: Band[] = []
  const headings: Heading[] = []
  const ofTrack = new Map<number, Band>()
  const between = data.tracks.length <= (BARS[1]?.[0] ?? 0) ? WIDE_SPACE : SPACE
  let y = 0
  const heading = (text: string): void => {
    headings.push({ text, y })
    y += HEADING
  }
  const place = (band: Band): void => {
    band.y = y
    bands.push(band)
    y += band.height + (band.kind === 'stream' ? between : 3)
  }
  heading('Host')
  for (const band of hostBands(data)) place(band)
  y += SPACE
  const tracks = streamBands(data)
  for (const [device, name] of data.devices) {
    heading(`Device ${device} · ${name}`)
    for (const band of tracks) {
      if (data.tracks[band.track]?.device !== device || band.rows.length + band.marks.length === 0) continue
      place(band)
      if (band.kind === 'stream') ofTrack.set(band.track, band)
    }
    y += SPACE
  }
  const places = new Map([...bands, ...headings].map((one) => [one, one.y]))
  const height = bands.find(({ kind }) => kind === 'stream')?.height ?? 0
  return { bands, headings, height: y, least: { places, all: y, height }, ofTrack }
}

/** The most by which a stream's band grows where there is room. */
const MOST_GROWTH = 2

/** Makes the bands of streams as high as there is room for. Returns whether that has changed anything. */
export function stretch(layout: PageLayout, room: number): boolean {
  const { bands, headings, least } = layout
  const streams = bands.filter(({ kind }) => kind === 'stream')
  const share = streams.length === 0 ? 0 : Math.floor((room - least.all) / streams.length)
  const more = Math.max(0, Math.min(share, least.height * (MOST_GROWTH - 1)))
  if (layout.height === least.all + more * streams.length) return false
  for (const one of [...bands, ...headings]) {
    const y = least.places.get(one) ?? 0
    one.y = y + more * streams.filter((stream) => (least.places.get(stream) ?? 0) < y).length
  }
  for (const stream of streams) stream.height = least.height + more
  layout.height = least.all + more * streams.length
  return true
}

function streamBands(data: Data): Band[] {
  const height = BARS.find(([streams]) => data.tracks.length <= streams)?.[1] ?? 24
  return trackBars(data, data.colours).flatMap(({ levels, marks }, track) => {
    const info = data.tracks[track]
    const detail = `${trackName(data, track)}: id ${info?.id}, priority ${info?.priority}${info?.nonBlocking ? '' : ', blocking'}`
    const markAt = Float64Array.from(marks, (row) => data.start[row] ?? 0)
    return levels.map((bars, level): Band => {
      if (level > 0)
        return { ...bars, label: '', detail: 'nodes of graphs', kind: 'nodes', track, height: NODE_BAR, ...none }
      return { ...bars, label: info?.name ?? '', detail, kind: 'stream', track, height, y: 0, marks, markAt }
    })
  })
}

const none = { y: 0, marks: new Int32Array(), markAt: new Float64Array() }

/** The bands of the host. Calls are nested: a host function runs in a blocking call, and makes calls itself. */
function hostBands(data: Data): Band[] {
  const calls: Call[] = []
  const promises: Call[] = []
  for (let row = 0; row < data.length; row += 1) {
    const kind = data.kind[row] ?? 0
    // The thread that made a call of other code is not known.
    if ((data.parent[row] !== -1 && !isHostOnly(kind)) || data.foreign[row] === 1) continue
    const colour = isInstant(kind) || kind === EventKind.LATCH ? QUIET : (data.colours[row] ?? 0)
    const call = { row, begin: data.called[row] ?? 0, end: data.returned[row] ?? 0, colour }
    if (kind === EventKind.AWAIT) promises.push(call)
    else calls.push(call)
    if (kind === EventKind.HOST_FUNCTION && !Number.isNaN(data.end[row] ?? Number.NaN)) {
      calls.push({ row, begin: data.start[row] ?? 0, end: data.end[row] ?? 0, colour })
    }
  }
  const stacked = (all: Call[], most: number): Bars[] => {
    // The longest of calls that begin together comes first, since it contains the others; before it come those that take no time.
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
  const bands = (levels: readonly Bars[], kind: 'calls' | 'promises', name: string, detail: string): Band[] =>
    levels.map((bars, level) => {
      return { ...bars, label: level === 0 ? name : '', detail, kind, track: -1, height: CALL_BAR, ...none }
    })
  return [
    ...bands(stacked(calls, MOST_CALL_DEPTH), 'calls', 'JavaScript', 'calls of the program'),
    ...bands(stacked(promises, MOST_PROMISE_BANDS), 'promises', 'promises', 'what was awaited'),
  ]
}

/** The place of a row's bar on a band, or -1. */
export function barOf(band: Band, row: number, { start, called }: Data): number {
  for (const begin of [start[row] ?? Number.NaN, called[row] ?? Number.NaN]) {
    let at = countUpTo(band.begin, begin) - 1
    while (at >= 0 && band.begin[at] === begin && band.rows[at] !== row) at -= 1
    if (at >= 0 && band.rows[at] === row) return at
  }
  return -1
}

/** Pixels by which a mark or a narrow bar may be missed. */
const NEAR = 4

export interface Picked {
  readonly row: number
  /** Whether it is the time before the row, in which the null stream held the row up. */
  readonly isHeld: boolean
}
export const NOTHING: Picked = { row: -1, isHeld: false }

/** The bar or mark at a place of the canvas, or the nearest one. */
export function pick(layout: PageLayout, view: View, x: number, y: number): Picked {
  const at = y + view.scroll
  const band = layout.bands.find((one) => at >= one.y && at < one.y + one.height + 5)
  if (band === undefined) return NOTHING
  const time = view.timeAt(x)
  const near = NEAR * view.perPixel
  const bar = (index: number): Picked => {
    return { row: band.rows[index] ?? -1, isHeld: band.colour[index] === NULL_STREAM }
  }
  const mark = nearest(band.markAt, time, near)
  if (mark >= 0 && at > band.y + band.height - 6) return { row: band.marks[mark] ?? -1, isHeld: false }
  const after = countUpTo(band.begin, time)
  if (after > 0 && (band.end[after - 1] ?? 0) >= time - near) return bar(after - 1)
  if ((band.begin[after] ?? Number.POSITIVE_INFINITY) <= time + near) return bar(after)
  return { row: band.marks[mark] ?? -1, isHeld: false }
}

function nearest(times: Float64Array, time: number, near: number): number {
  const after = countUpTo(times, time)
  const before = Math.abs((times[after - 1] ?? Number.NEGATIVE_INFINITY) - time)
  const behind = Math.abs((times[after] ?? Number.POSITIVE_INFINITY) - time)
  if (Math.min(before, behind) > near) return -1
  return before <= behind ? after - 1 : after
}

/** The band on which a row is drawn. */
export function bandOf(data: Data, layout: PageLayout, row: number): Band | undefined {
  if (row < 0) return undefined
  const isOn = (band: Band): boolean => barOf(band, row, data) >= 0 || band.marks.includes(row)
  const own = layout.ofTrack.get(data.track[row] ?? -1)
  if (own !== undefined && isOn(own)) return own
  return layout.bands.find((band) => band.kind !== 'calls' && isOn(band)) ?? layout.bands.find(isOn)
}

/** The row of the bar `step` places further on the same band. */
export function neighbour(data: Data, band: Band, row: number, step: number): number {
  const at = barOf(band, row, data)
  if (at >= 0) {
    let next = at + step
    while (band.colour[next] === NULL_STREAM) next += step
    return band.rows[next] ?? row
  }
  const after = countUpTo(band.begin, timeOf(data, row))
  return band.rows[step > 0 ? after : after - 1] ?? row
}

/** The row of the bar at about the same time on the next band above or below that has bars. */
export function beside(data: Data, layout: PageLayout, row: number, step: number): number {
  const { bands } = layout
  const band = bandOf(data, layout, row)
  let at = band === undefined ? -1 : bands.indexOf(band)
  do at += step
  while (at >= 0 && at < bands.length && bands[at]?.rows.length === 0)
  const next = bands[at]
  if (next === undefined) return row
  return next.rows[Math.max(0, countUpTo(next.begin, timeOf(data, row)) - 1)] ?? row
}

export interface SearchResult {
  readonly rows: Int32Array
  readonly matches: Uint8Array
  readonly matchesBefore: ReadonlyMap<Band, Int32Array>
}

/** Finds operations by name, kind or stream. All words must occur. Returns undefined for an empty text. */
export function find(data: Data, bands: readonly Band[], text: string): SearchResult | undefined {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return undefined
  const lower = data.names.map((name) => name.toLowerCase())
  const kinds = data.kinds.map((name) => name.toLowerCase())
  const matches = new Uint8Array(data.length)
  const rows: number[] = []
  const ofTrack = new Map<number, string>()
  const place = (row: number): string => {
    if (wholeDeviceOf(data, row) !== undefined) return placeOf(data, row)
    const track = data.track[row] ?? 0
    if (!ofTrack.has(track)) ofTrack.set(track, placeOf(data, row).toLowerCase())
    return ofTrack.get(track) ?? ''
  }
  for (let row = 0; row < data.length; row += 1) {
    const name = lower[data.name[row] ?? 0] ?? ''
    const kind = kinds[data.kind[row] ?? 0] ?? ''
    if (!words.every((word) => name.includes(word) || kind.includes(word) || place(row).includes(word))) continue
    matches[row] = 1
    rows.push(row)
  }
  rows.sort((a, b) => timeOf(data, a) - timeOf(data, b))
  const matchesBefore = new Map<Band, Int32Array>()
  for (const band of bands) {
    const before = new Int32Array(band.rows.length + 1)
    for (const [at, row] of band.rows.entries()) before[at + 1] = (before[at] ?? 0) + (matches[row] ?? 0)
    matchesBefore.set(band, before)
  }
  return { rows: Int32Array.from(rows), matches, matchesBefore }
}
