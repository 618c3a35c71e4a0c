/** Draws the lanes in view. Bars narrower than a pixel are drawn together with their neighbours, as full as they are. */
import { isInstant, RowKind } from '../kinds.js'
import type { Arrows } from './arrows.js'
import { type Data, titleOf } from './data.js'
import { formatTick } from './format.js'
import { countUpTo, type PageLayout, type Track } from './layout.js'
import type { Colours } from './theme.js'
import { tickStep, type View } from './view.js'

export const AXIS = 30
const SMALLEST_TEXT = 34
const RADIUS = 3

export interface Highlights {
  selected: number
  hovered: number
  /** Rows that the search found, or undefined where nothing is searched for. */
  matches: Uint8Array | undefined
  /** Found rows before each bar of a track. */
  matchesBefore: ReadonlyMap<Track, Int32Array>
  isCritical: Uint8Array
  showCritical: boolean
  gap: { readonly lane: number; readonly begin: number; readonly end: number } | undefined
}

export class Painter {
  readonly #context: CanvasRenderingContext2D
  #hatch: CanvasPattern | null = null

  constructor(
    canvas: HTMLCanvasElement,
    private readonly data: Data,
    private readonly layout: PageLayout,
    private readonly arrows: Arrows,
    private readonly view: View,
    private readonly highlights: Highlights,
    public colours: Colours,
  ) {
    const context = canvas.getContext('2d', { alpha: false })
    if (context === null) throw new Error('This browser draws no canvas')
    this.#context = context
  }

  /** Colours have changed. */
  restyle(colours: Colours): void {
    this.colours = colours
    const tile = document.createElement('canvas')
    tile.width = 8
    tile.height = 8
    const pen = tile.getContext('2d')
    if (pen === null) return
    pen.strokeStyle = colours.wait
    pen.lineWidth = 1.5
    pen.beginPath()
    for (const from of [-8, 0, 8]) {
      pen.moveTo(from, 8)
      pen.lineTo(from + 8, 0)
    }
    pen.stroke()
    this.#hatch = this.#context.createPattern(tile, 'repeat')
  }

  draw(height: number, ratio: number): void {
    const context = this.#context
    const { colours, view } = this
    context.setTransform(ratio, 0, 0, ratio, 0, 0)
    context.fillStyle = colours.background
    context.fillRect(0, 0, view.width, height)
    context.textBaseline = 'middle'
    context.textAlign = 'left'
    context.save()
    context.translate(0, AXIS)
    this.#drawGrid(height)
    for (const { y } of this.layout.headings) this.#drawLine(y - view.scroll + 27.5)
    for (const track of this.layout.tracks) {
      const top = track.y - view.scroll
      if (top + track.height < 0 || top > height) continue
      this.#drawTrack(track, top)
    }
    this.#drawGap()
    this.arrows.draw(context, view, colours, this.highlights.selected)
    context.restore()
    this.#drawAxis()
  }

  #drawGrid(height: number): void {
    const context = this.#context
    const { view } = this
    const step = tickStep(view.perPixel * 110)
    context.strokeStyle = this.colours.line
    context.lineWidth = 1
    context.beginPath()
    for (let time = Math.ceil(view.begin / step) * step; time <= view.end; time += step) {
      const x = Math.round(view.xOf(time)) + 0.5
      context.moveTo(x, 0)
      context.lineTo(x, height)
    }
    context.stroke()
  }

  #drawLine(y: number): void {
    const context = this.#context
    context.strokeStyle = this.colours.line
    context.beginPath()
    context.moveTo(0, y)
    context.lineTo(this.view.width, y)
    context.stroke()
  }

  #drawAxis(): void {
    const context = this.#context
    const { view } = this
    context.fillStyle = this.colours.background
    context.fillRect(0, 0, view.width, AXIS)
    const step = tickStep(view.perPixel * 110)
    context.fillStyle = this.colours.faint
    context.font = '11px system-ui, sans-serif'
    for (let at = Math.ceil(view.begin / step); at * step <= view.end; at += 1) {
      const time = at * step
      const x = view.xOf(time)
      context.fillRect(Math.round(x), AXIS - 6, 1, 6)
      if (time >= 0) context.fillText(formatTick(time, step, view.end), x + 5, AXIS - 13)
    }
    this.#drawLine(AXIS - 0.5)
  }

  #drawTrack(track: Track, top: number): void {
    const { view } = this
    if (track.kind === 'stream') {
      this.#context.fillStyle = this.colours.band
      this.#context.fillRect(0, top, view.width, track.height)
    }
    const { begin, end } = track
    const pixel = view.perPixel
    let at = countUpTo(end, view.begin)
    while (at < begin.length && (begin[at] ?? 0) < view.end) {
      const from = begin[at] ?? 0
      const to = end[at] ?? 0
      if (to - from >= 2 * pixel) {
        this.#drawBar(track, at, top)
        at += 1
        continue
      }
      // All that begins in the next two pixels becomes one bar.
      const limit = from + 2 * pixel
      let next = Math.max(at + 1, countUpTo(begin, limit, at))
      // Bars do not overlap, so only the last of them can be a long one.
      if (next > at + 1 && (end[next - 1] ?? 0) - (begin[next - 1] ?? 0) >= 2 * pixel) next -= 1
      this.#drawCrowd(track, at, next, limit, top)
      at = next
    }
    this.#drawMarks(track, top)
  }

  #drawCrowd(track: Track, first: number, next: number, limit: number, top: number): void {
    const { view, highlights } = this
    const context = this.#context
    const busy = (track.busyBefore[next] ?? 0) - (track.busyBefore[first] ?? 0)
    const full = Math.min(1, busy / (limit - (track.begin[first] ?? 0)))
    let row = track.rows[first] ?? 0
    // What works is to be seen, not what waits beside it.
    if (this.data.kind[row] === RowKind.WAIT && next > first + 1) row = track.rows[first + 1] ?? row
    if (busy === 0 && this.data.kind[row] === RowKind.WAIT && next === first + 1) return
    context.globalAlpha = (0.35 + 0.65 * full) * this.#strength(track, first, next)
    context.fillStyle = this.#colourOf(track, row)
    const x = view.xOf(track.begin[first] ?? 0)
    const width = Math.max(1.5, (limit - (track.begin[first] ?? 0)) / view.perPixel)
    const inset = track.kind === 'stream' ? 3 : 1
    context.fillRect(x, top + inset, width, track.height - 2 * inset)
    context.globalAlpha = 1
    if (highlights.showCritical && track.kind === 'stream') {
      for (let at = first; at < Math.min(next, first + 16); at += 1) {
        if (highlights.isCritical[track.rows[at] ?? 0] !== 1) continue
        context.fillStyle = this.colours.critical
        context.fillRect(x, top + track.height - 3, 2, 3)
        break
      }
    }
  }

  #drawBar(track: Track, at: number, top: number): void {
    const { view, highlights } = this
    const context = this.#context
    const row = track.rows[at] ?? 0
    const left = Math.max(-10, view.xOf(track.begin[at] ?? 0))
    const right = Math.min(view.width + 10, view.xOf(track.end[at] ?? 0))
    const width = Math.max(1, right - left - (right - left > 6 ? 0.75 : 0))
    const isWait = this.data.kind[row] === RowKind.WAIT && track.kind === 'stream'
    const inset = track.kind === 'stream' ? (isWait ? 10 : 3) : 1
    const height = track.height - 2 * inset
    context.globalAlpha = this.#strength(track, at, at + 1)
    context.fillStyle = isWait ? (this.#hatch ?? this.colours.wait) : this.#colourOf(track, row)
    this.#rounded(left, top + inset, width, height)
    context.fill()
    if (width > SMALLEST_TEXT && !isWait && height > 12)
      this.#drawText(titleOf(this.data, row), left, top + track.height / 2, width)
    context.globalAlpha = 1
    if (highlights.showCritical && track.kind === 'stream' && !isWait && highlights.isCritical[row] === 1) {
      context.fillStyle = this.colours.critical
      context.fillRect(left, top + track.height - 3, width, 3)
    }
    if (row === highlights.selected || row === highlights.hovered) {
      context.strokeStyle = row === highlights.selected ? this.colours.accent : this.colours.text
      context.lineWidth = row === highlights.selected ? 2.5 : 1.25
      this.#rounded(left, top + inset, width, height)
      context.stroke()
    }
  }

  #drawText(text: string, left: number, middle: number, width: number): void {
    const context = this.#context
    context.save()
    const from = Math.max(left, 0)
    context.beginPath()
    context.rect(from, middle - 20, left + width - from - 4, 40)
    context.clip()
    context.fillStyle = this.colours.onBar
    context.font = '12px system-ui, sans-serif'
    context.fillText(text, from + 6, middle + 0.5)
    context.restore()
  }

  /** Points of time, where there is room for them. */
  #drawMarks(track: Track, top: number): void {
    const { view, highlights } = this
    const { marks, markAt } = track
    const first = countUpTo(markAt, view.begin)
    const last = countUpTo(markAt, view.end)
    if (last - first > view.width / 3) return
    const context = this.#context
    for (let at = first; at < last; at += 1) {
      const row = marks[at] ?? 0
      const x = view.xOf(markAt[at] ?? 0)
      const isMeant = row === highlights.selected || row === highlights.hovered
      const isFound = highlights.matches === undefined || highlights.matches[row] === 1
      context.globalAlpha = isFound ? 1 : 0.15
      context.fillStyle = isMeant ? this.colours.accent : this.colours.faint
      context.fillRect(x - (isMeant ? 1.5 : 0.5), top + track.height - 2, isMeant ? 3 : 1, 6)
    }
    context.globalAlpha = 1
  }

  #drawGap(): void {
    const { view } = this
    const { gap } = this.highlights
    const track = gap === undefined ? undefined : this.layout.ofLane.get(gap.lane)
    if (gap === undefined || track === undefined) return
    const context = this.#context
    const left = view.xOf(gap.begin)
    const width = Math.max(2, view.xOf(gap.end) - left)
    context.fillStyle = this.colours.gap
    context.globalAlpha = 0.25
    context.fillRect(left, track.y - view.scroll, width, track.height)
    context.globalAlpha = 1
    context.strokeStyle = this.colours.gap
    context.lineWidth = 1.5
    context.strokeRect(left, track.y - view.scroll, width, track.height)
  }

  #strength(track: Track, first: number, next: number): number {
    const { matches, matchesBefore } = this.highlights
    if (matches === undefined) return 1
    const before = matchesBefore.get(track)
    return (before?.[next] ?? 0) > (before?.[first] ?? 0) ? 1 : 0.15
  }

  #colourOf(track: Track, row: number): string {
    const { colours } = this
    const kind = this.data.kind[row] ?? 0
    if (track.kind === 'calls' && (isInstant(kind) || kind === RowKind.LATCH)) return colours.faint
    if (kind !== RowKind.KERNEL) return colours.bars[kind] ?? colours.faint
    return colours.kernels[this.data.colours.get(this.data.name[row] ?? 0) ?? 0] ?? colours.faint
  }

  #rounded(x: number, y: number, width: number, height: number): void {
    const context = this.#context
    context.beginPath()
    if (width < 2 * RADIUS) context.rect(x, y, width, height)
    else context.roundRect(x, y, width, height, RADIUS)
  }
}
