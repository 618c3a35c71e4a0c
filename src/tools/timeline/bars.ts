/** The bars of tracks, and how they are drawn if many share a pixel, for the page and for a picture. */
import { BAR_COLOURS, HOST_FUNCTION, isHostOnly, isInstant, NULL_STREAM, WAIT } from './kinds.js'
import { BINDING_KINDS, type PageData } from './page-format.js'

/** Bars that do not overlap, in the order of time. */
export interface Bars {
  readonly rows: Int32Array
  readonly begin: Float64Array
  readonly end: Float64Array
  /** The indices in BAR_COLOURS. */
  readonly colour: Uint8Array
  /** The time for which a device works on all bars before each one. */
  readonly busyBefore: Float64Array
}

/** Whether the colour is hatched, because nothing runs there. */
export const isHatched = (colour: number | undefined): boolean => (colour ?? 0) >= WAIT
/** Whether a device works on bars of this colour. */
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
    const begins = this.#begin
    const count = begins.length
    const order = Int32Array.from(begins.keys())
    if (begins.some((begin, at) => begin < (begins[at - 1] ?? begin))) {
      order.sort((a, b) => (begins[a] ?? 0) - (begins[b] ?? 0) || a - b)
    }
    const bars = {
      rows: new Int32Array(count),
      begin: new Float64Array(count),
      end: new Float64Array(count),
      colour: new Uint8Array(count),
      busyBefore: new Float64Array(count + 1),
    }
    for (let at = 0; at < count; at += 1) {
      const from = order[at] ?? 0
      const [begin, end, colour] = [begins[from] ?? 0, this.#end[from] ?? 0, this.#colour[from] ?? 0]
      bars.rows[at] = this.#rows[from] ?? 0
      bars.begin[at] = begin
      bars.end[at] = end
      bars.colour[at] = colour
      bars.busyBefore[at + 1] = (bars.busyBefore[at] ?? 0) + (isWork(colour) ? end - begin : 0)
    }
    return bars
  }
}

export interface TrackBars {
  /** The stream's own bars, and below them the nodes of its graphs. */
  readonly levels: readonly Bars[]
  /** The rows of records, frees and the like: points of time. */
  readonly marks: Int32Array
}

/** The bars of each track: its operations, and the times in which the rules of the null stream held one up. */
export function trackBars(data: PageData, colours: Uint8Array): TrackBars[] {
  const { kind, track, start, end, called, why, parent, level } = data
  const byNullStream = BINDING_KINDS.indexOf('nullStream')
  const found = data.tracks.map(({ nodeLevels }) => {
    return { levels: Array.from({ length: 1 + nodeLevels }, () => new BarList()), marks: [] as number[], until: 0 }
  })
  for (let row = 0; row < data.length; row += 1) {
    const own = found[track[row] ?? 0]
    const begin = start[row] ?? Number.NaN
    if (own === undefined || isHostOnly(kind[row] ?? 0) || Number.isNaN(begin)) continue
    const until = Number.isNaN(end[row] ?? Number.NaN) ? data.duration : (end[row] ?? 0)
    const onLevel = own.levels[level[row] ?? 0]
    if (why[row] === byNullStream) {
      const ready = Math.max(called[row] ?? 0, own.until)
      if (ready < begin) onLevel?.add(row, ready, begin, NULL_STREAM)
    }
    if (parent[row] === -1) own.until = until
    if (isInstant(kind[row] ?? 0) && begin === until) own.marks.push(row)
    else onLevel?.add(row, begin, until, colours[row] ?? 0)
  }
  return found.map(({ levels, marks }) => {
    return {
      levels: levels.map((list) => list.toBars()),
      marks: Int32Array.from(marks).sort((a, b) => (start[a] ?? 0) - (start[b] ?? 0)),
    }
  })
}

/** The time for which a device has worked on the bars until a given time. */
export function busyUntil({ begin, end, colour, busyBefore }: Bars, time: number): number {
  const at = countUpTo(begin, time)
  const over = isWork(colour[at - 1]) ? Math.max(0, (end[at - 1] ?? 0) - time) : 0
  return Math.max(0, (busyBefore[at] ?? 0) - over)
}

/** The width in pixels below which bars are drawn as the share of each pixel that they take. */
const NARROW = 2
/** The least share of a pixel that a bar which stands alone fills; the more bars are within REACH pixels, the less. */
const LEAST_ALONE = 0.5
const REACH = 6
/** The number of bars in one pixel, the first of them, whose colours are counted. */
const MOST_ASKED = 12
const COLOUR_COUNT = BAR_COLOURS.length

/**
 * The shares of each pixel that the narrow bars take, by colour. Pixels are at multiples of their width, so that moving the view does not change
 * them.
 */
export class Pixels {
  /** The number of the first pixel. */
  first = 0
  count = 0
  /** The first bar of each pixel, or -1 for none; `upTo` is the one behind the last. */
  from = new Int32Array()
  upTo = new Int32Array()
  #shares = new Float32Array()
  /** The colours that occur, as 1. */
  readonly #present = new Uint8Array(COLOUR_COUNT)

  /** The colours that occur, in the order of drawing: waits behind work. */
  get colours(): readonly number[] {
    const order = [...BAR_COLOURS.keys()]
    return [...order.slice(WAIT), ...order.slice(0, WAIT)].filter((colour) => this.#present[colour] === 1)
  }

  /** The share of a pixel that a colour takes, from 0 to 1. */
  share(pixel: number, colour: number): number {
    return Math.min(1, this.#shares[pixel * COLOUR_COUNT + colour] ?? 0)
  }

  /** Calls `wide` for each bar that is wide enough to be drawn by itself. */
  fill(bars: Bars, begin: number, end: number, perPixel: number, wide: (at: number) => void): void {
    this.#clear(Math.floor(begin / perPixel), Math.floor(end / perPixel))
    const isWide = (at: number): boolean => (bars.end[at] ?? 0) - (bars.begin[at] ?? 0) >= NARROW * perPixel
    let at = countUpTo(bars.end, begin)
    let size = 8
    while (at < bars.rows.length && (bars.begin[at] ?? 0) < end) {
      if (isWide(at)) {
        wide(at)
        at += 1
        continue
      }
      const limit = (Math.floor((bars.begin[at] ?? 0) / perPixel) + 1) * perPixel
      let next = Math.max(at + 1, countUpTo(bars.begin, limit, at, at + 2 * size))
      size = next - at
      // Bars do not overlap, so only the last of them can be a wide one.
      if (next > at + 1 && isWide(next - 1)) next -= 1
      this.#add(bars, at, next, perPixel)
      at = next
    }
    this.#raise()
  }

  #clear(first: number, last: number): void {
    this.first = first
    this.count = last - first + 1
    if (this.from.length < this.count) {
      this.#shares = new Float32Array(this.count * COLOUR_COUNT)
      this.from = new Int32Array(this.count)
      this.upTo = new Int32Array(this.count)
    }
    this.#present.fill(0)
    this.#shares.fill(0)
    this.from.fill(-1)
  }

  #add(bars: Bars, at: number, next: number, perPixel: number): void {
    const asked = Math.min(next, at + MOST_ASKED)
    const busy = (bars.busyBefore[asked] ?? 0) - (bars.busyBefore[at] ?? 0)
    const all = (bars.busyBefore[next] ?? 0) - (bars.busyBefore[at] ?? 0)
    for (let bar = at; bar < asked; bar += 1) {
      const colour = bars.colour[bar] ?? 0
      const begin = bars.begin[bar] ?? 0
      const end = bars.end[bar] ?? 0
      // The bars whose colours are counted stand for the others, too.
      const weight = isWork(colour) ? (busy === 0 ? 1 : all / busy) : (next - at) / (asked - at)
      this.#present[colour] = 1
      let pixel = Math.floor(begin / perPixel)
      do {
        const part = Math.min(end, (pixel + 1) * perPixel) - Math.max(begin, pixel * perPixel)
        // A bar that takes no time is visible, too.
        this.#share(pixel, colour, Math.max(Number.EPSILON, (part / perPixel) * weight), at, next)
        pixel += 1
      } while (pixel * perPixel < end)
    }
  }

  #share(pixel: number, colour: number, share: number, from: number, upTo: number): void {
    const at = pixel - this.first
    if (at < 0 || at >= this.count) return
    const place = at * COLOUR_COUNT + colour
    this.#shares[place] = (this.#shares[place] ?? 0) + share
    if (this.from[at] === -1) this.from[at] = from
    this.upTo[at] = upTo
  }

  /** Raises the shares of short operations that have few others near them, so that they are visible. */
  #raise(): void {
    const isThere = (pixel: number): boolean => (this.from[pixel] ?? -1) !== -1
    let near = 0
    for (let pixel = -REACH; pixel < this.count; pixel += 1) {
      if (isThere(pixel + REACH)) near += 1
      if (isThere(pixel - REACH - 1)) near -= 1
      if (!isThere(pixel)) continue
      const least = LEAST_ALONE * (1 - (near - 1) / (2 * REACH)) ** 3
      const place = pixel * COLOUR_COUNT
      let sum = 0
      for (let colour = 0; colour < WAIT; colour += 1) sum += this.#shares[place + colour] ?? 0
      if (sum === 0 || sum >= least) continue
      for (let colour = 0; colour < WAIT; colour += 1) {
        this.#shares[place + colour] = ((this.#shares[place + colour] ?? 0) * least) / sum
      }
    }
  }
}

/** The number of these times, which are in order, that are at or before `time`: at least `from`, and probably less than `about`. */
export function countUpTo(times: Float64Array, time: number, from = 0, about = times.length): number {
  const isLess = (times[about] ?? Number.POSITIVE_INFINITY) > time
  let low = isLess ? from : about
  let high = isLess ? Math.min(about, times.length) : times.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((times[middle] ?? 0) <= time) low = middle + 1
    else high = middle
  }
  return low
}
