/** The bars of streams, and what is seen of them where many share a pixel: the same on the page and in a picture. */
import { BAR_COLOURS, HOST_FUNCTION, NULL_STREAM, WAIT } from './colours.js'
import { isHostOnly, isInstant } from './kinds.js'
import { BINDING_KINDS, type PageData } from './page-format.js'

/** Bars that do not overlap, in the order of time. */
export interface Bars {
  readonly rows: Int32Array
  readonly begin: Float64Array
  readonly end: Float64Array
  /** Places in BAR_COLOURS. */
  readonly colour: Uint8Array
  /** How long the bars before each work together. */
  readonly busyBefore: Float64Array
}

/** Nothing runs there: it is hatched. */
export const isHatched = (colour: number | undefined): boolean => (colour ?? 0) >= WAIT
/** Does a device work on it? */
const isWork = (colour: number | undefined): boolean => !isHatched(colour) && colour !== HOST_FUNCTION

export class BarList {
  readonly #rows: number[] = []
  readonly #begin: number[] = []
  readonly #end: number[] = []
  readonly #colour: number[] = []

  add(row: number, begin: number, end: number, colour: number): void {
    this.#rows.push(row)
    this.#begin.push(begin)
    this.#end.push(end)
    this.#colour.push(colour)
  }

  toBars(): Bars {
    const order = Array.from(this.#rows.keys())
    const begins = this.#begin
    if (begins.some((begin, at) => begin < (begins[at - 1] ?? 0))) {
      order.sort((a, b) => (begins[a] ?? 0) - (begins[b] ?? 0) || a - b)
    }
    const bars = {
      rows: Int32Array.from(order, (at) => this.#rows[at] ?? 0),
      begin: Float64Array.from(order, (at) => this.#begin[at] ?? 0),
      end: Float64Array.from(order, (at) => this.#end[at] ?? 0),
      colour: Uint8Array.from(order, (at) => this.#colour[at] ?? 0),
    }
    const busyBefore = new Float64Array(order.length + 1)
    for (let at = 0; at < order.length; at += 1) {
      const worked = isWork(bars.colour[at]) ? (bars.end[at] ?? 0) - (bars.begin[at] ?? 0) : 0
      busyBefore[at + 1] = (busyBefore[at] ?? 0) + worked
    }
    return { ...bars, busyBefore }
  }
}

export interface LaneBars {
  /** The stream's own bars, and below them the nodes of its graphs. */
  readonly tracks: readonly Bars[]
  /** Records, frees and the like: points of time. */
  readonly marks: Int32Array
}

/** For each lane. Beside the operations stands where the null stream's rules held one up. */
export function laneBars(data: PageData, colours: Uint8Array): LaneBars[] {
  const { kind, lane, start, end, called, why, parent, track } = data
  const byNullStream = BINDING_KINDS.indexOf('nullStream')
  const found = data.lanes.map(({ nodeTracks }) => {
    return { tracks: Array.from({ length: 1 + nodeTracks }, () => new BarList()), marks: [] as number[], until: 0 }
  })
  for (let row = 0; row < data.length; row += 1) {
    const own = found[lane[row] ?? 0]
    const begin = start[row] ?? Number.NaN
    if (own === undefined || isHostOnly(kind[row] ?? 0) || Number.isNaN(begin)) continue
    const until = Number.isNaN(end[row] ?? Number.NaN) ? data.duration : (end[row] ?? 0)
    const onTrack = own.tracks[track[row] ?? 0]
    if (why[row] === byNullStream) {
      const ready = Math.max(called[row] ?? 0, own.until)
      if (ready < begin) onTrack?.add(row, ready, begin, NULL_STREAM)
    }
    if (parent[row] === -1) own.until = until
    if (isInstant(kind[row] ?? 0) && begin === until) own.marks.push(row)
    else onTrack?.add(row, begin, until, colours[row] ?? 0)
  }
  return found.map(({ tracks, marks }) => {
    return {
      tracks: tracks.map((list) => list.toBars()),
      marks: Int32Array.from(marks).sort((a, b) => (start[a] ?? 0) - (start[b] ?? 0)),
    }
  })
}

/** How long the bars have worked until a time. */
export function busyUntil({ begin, end, colour, busyBefore }: Bars, time: number): number {
  const at = countUpTo(begin, time)
  const over = isWork(colour[at - 1]) ? Math.max(0, (end[at - 1] ?? 0) - time) : 0
  return Math.max(0, (busyBefore[at] ?? 0) - over)
}

/** Narrower bars are drawn by how much of each pixel they take. */
const NARROW = 2
/** What is there is seen, however short it is. */
const LEAST_SHARE = 1e-3
/** Of more bars in one pixel only so many are asked for their colours. */
const MOST_ASKED = 24

/** How much of each pixel the narrow bars take, by colour. Pixels stand at multiples of their width: they stay when moved. */
export class Pixels {
  /** The number of the first pixel. */
  first = 0
  count = 0
  /** By pixel and colour. */
  shares = new Float32Array()
  /** The bars of each pixel: from, and up to. */
  from = new Int32Array()
  upTo = new Int32Array()

  /** Calls `wide` for each bar that is wide enough to be drawn by itself. */
  fill(bars: Bars, begin: number, end: number, perPixel: number, wide: (at: number) => void): void {
    this.#clear(Math.floor(begin / perPixel), Math.floor(end / perPixel))
    const isWide = (at: number): boolean => (bars.end[at] ?? 0) - (bars.begin[at] ?? 0) >= NARROW * perPixel
    let at = countUpTo(bars.end, begin)
    while (at < bars.rows.length && (bars.begin[at] ?? 0) < end) {
      if (isWide(at)) {
        wide(at)
        at += 1
        continue
      }
      const limit = (Math.floor((bars.begin[at] ?? 0) / perPixel) + 1) * perPixel
      let next = Math.max(at + 1, countUpTo(bars.begin, limit, at))
      // Bars do not overlap, so only the last of them can be a wide one.
      if (next > at + 1 && isWide(next - 1)) next -= 1
      this.#add(bars, at, next, perPixel)
      at = next
    }
  }

  #clear(first: number, last: number): void {
    this.first = first
    this.count = last - first + 1
    const size = this.count * BAR_COLOURS.length
    if (this.shares.length < size) {
      this.shares = new Float32Array(size)
      this.from = new Int32Array(this.count)
      this.upTo = new Int32Array(this.count)
    }
    this.shares.fill(0, 0, size)
    this.from.fill(-1)
  }

  #add(bars: Bars, at: number, next: number, perPixel: number): void {
    const step = Math.max(1, Math.ceil((next - at) / MOST_ASKED))
    const weight = step === 1 ? 1 : this.#weight(bars, at, next, step)
    for (let bar = at; bar < next; bar += step) {
      const colour = bars.colour[bar] ?? 0
      const begin = bars.begin[bar] ?? 0
      const end = bars.end[bar] ?? 0
      const own = Math.floor(begin / perPixel)
      this.#share(own, colour, LEAST_SHARE, at, next)
      for (let pixel = own; pixel * perPixel < end; pixel += 1) {
        const part = Math.min(end, (pixel + 1) * perPixel) - Math.max(begin, pixel * perPixel)
        this.#share(pixel, colour, (part / perPixel) * weight, at, next)
      }
    }
  }

  /** What those that are asked stand for. */
  #weight(bars: Bars, at: number, next: number, step: number): number {
    let asked = 0
    for (let bar = at; bar < next; bar += step) {
      if (isWork(bars.colour[bar])) asked += (bars.end[bar] ?? 0) - (bars.begin[bar] ?? 0)
    }
    return asked === 0 ? step : ((bars.busyBefore[next] ?? 0) - (bars.busyBefore[at] ?? 0)) / asked
  }

  #share(pixel: number, colour: number, share: number, from: number, upTo: number): void {
    const at = pixel - this.first
    if (at < 0 || at >= this.count) return
    const place = at * BAR_COLOURS.length + colour
    this.shares[place] = (this.shares[place] ?? 0) + share
    if (this.from[at] === -1) this.from[at] = from
    this.upTo[at] = upTo
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
