/** Draws the lanes in view. Bars narrower than two pixels are drawn with their neighbours, as high as they fill a pixel. */
import { type Bars, countUpTo, isHatched, Pixels } from '../bars.js'
import { BAR_COLOURS, NULL_STREAM, WAIT } from '../colours.js'
import type { Arrows } from './arrows.js'
import { AXIS, drawAxis, drawGrid, drawRange } from './axis.js'
import { causeOf, type Data, placeOf, titleOf } from './data.js'
import { barOf, type PageLayout, type Track } from './layout.js'
import type { Colours } from './theme.js'
import type { View } from './view.js'

const SMALLEST_TEXT = 34
const RADIUS = 3
const BAR_FONT = '12px system-ui, sans-serif'
/** Of what shares a pixel so many are asked whether they are on the critical path. */
const MOST_UNDERLINED = 8
/** Of hatching so many strengths are told apart. */
const ALPHAS = 8

export interface Highlights {
  selected: number
  hovered: number
  /** Rows that the search found, or undefined where nothing is searched for. */
  matches: Uint8Array | undefined
  /** Found rows before each bar of a track. */
  matchesBefore: ReadonlyMap<Track, Int32Array>
  showCritical: boolean
  /** Gaps that are to be seen, by lane, and the one that is meant. */
  gaps: ReadonlyMap<number, Bars>
  gap: number
  /** What is measured. */
  range: { readonly from: number; readonly to: number } | undefined
}

/** A colour's part of a pixel. */
interface PixelBar {
  readonly y: number
  readonly tall: number
  alpha: number
}
const NO_BAR: PixelBar = { y: 0, tall: 0, alpha: 0 }

export class Painter {
  readonly #context: CanvasRenderingContext2D
  readonly #pixels = new Pixels()
  #colours: Colours = () => ''
  #hatches: readonly (CanvasPattern | string)[] = []

  constructor(
    canvas: HTMLCanvasElement,
    private readonly data: Data,
    private readonly layout: PageLayout,
    private readonly arrows: Arrows,
    private readonly view: View,
    private readonly highlights: Highlights,
  ) {
    const context = canvas.getContext('2d', { alpha: false })
    if (context === null) throw new Error('This browser draws no canvas')
    this.#context = context
  }

  /** Colours have changed. */
  restyle(colours: Colours): void {
    this.#colours = colours
    this.#hatches = [WAIT, NULL_STREAM].map((colour) => this.#hatch(colours(BAR_COLOURS[colour] ?? 'wait'), colour))
  }

  draw(height: number, ratio: number): void {
    const context = this.#context
    const { view } = this
    const colours = this.#colours
    context.setTransform(ratio, 0, 0, ratio, 0, 0)
    context.fillStyle = colours('background')
    context.fillRect(0, 0, view.width, height)
    context.textBaseline = 'middle'
    context.textAlign = 'left'
    context.save()
    context.translate(0, AXIS)
    drawGrid(context, view, colours, height)
    context.fillStyle = colours('line')
    for (const { y } of this.layout.headings) context.fillRect(0, Math.round(y - view.scroll) + 27, view.width, 1)
    for (const track of this.layout.tracks) {
      const top = track.y - view.scroll
      if (top + track.height < 0 || top > height) continue
      this.#drawTrack(track, top)
    }
    this.arrows.draw(context, view, colours, this.highlights.selected)
    context.restore()
    drawAxis(context, view, colours)
    if (this.highlights.range !== undefined) drawRange(context, view, colours, this.highlights.range, height)
  }

  /** One leans to the right, the other to the left. */
  #hatch(colour: string, kind: number): CanvasPattern | string {
    const tile = document.createElement('canvas')
    tile.width = 8
    tile.height = 8
    const pen = tile.getContext('2d')
    if (pen === null) return colour
    pen.strokeStyle = colour
    pen.lineWidth = kind === NULL_STREAM ? 2.5 : 1.5
    pen.beginPath()
    for (const from of [-8, 0, 8]) {
      pen.moveTo(from, kind === NULL_STREAM ? 0 : 8)
      pen.lineTo(from + 8, kind === NULL_STREAM ? 8 : 0)
    }
    pen.stroke()
    return this.#context.createPattern(tile, 'repeat') ?? colour
  }

  #drawTrack(track: Track, top: number): void {
    const { view, highlights } = this
    if (track.kind === 'stream') {
      this.#context.fillStyle = this.#colours('band')
      this.#context.fillRect(0, top, view.width, track.height)
    }
    const gaps = track.kind === 'stream' ? highlights.gaps.get(track.lane) : undefined
    if (gaps !== undefined) this.#drawGaps(gaps, track, top)
    this.#pixels.fill(track, view.begin, view.end, view.perPixel, (at) => this.#drawBar(track, at, top))
    this.#drawPixels(track, top)
    this.#drawMarks(track, top)
    this.#outline(track, highlights.hovered, top, this.#colours('text'), 1.25)
    this.#outline(track, highlights.selected, top, this.#colours('accent'), 2.5)
  }

  /** The colours of a pixel stand on each other. What is alike in neighbours is drawn at once. */
  #drawPixels(track: Track, top: number): void {
    const context = this.#context
    const { view } = this
    const pixels = this.#pixels
    const { first, count, from, upTo } = pixels
    const inset = track.kind === 'stream' ? 3 : 1
    const height = track.height - 2 * inset
    const filled = new Float32Array(count)
    const left = (pixel: number): number => Math.round(view.xOf((first + pixel) * view.perPixel))
    for (const colour of pixels.colours) {
      context.fillStyle = this.#fillOf(colour)
      let begin = 0
      let before: PixelBar = NO_BAR
      for (let pixel = 0; pixel <= count; pixel += 1) {
        const share = pixel < count && from[pixel] !== -1 ? pixels.share(pixel, colour) : 0
        const bar = share === 0 ? NO_BAR : this.#pixelBar(colour, share, filled[pixel] ?? 0, height)
        if (share > 0) bar.alpha *= this.#strength(track, from[pixel] ?? 0, upTo[pixel] ?? 0)
        if (!isHatched(colour)) filled[pixel] = (filled[pixel] ?? 0) + bar.tall
        if (bar.y === before.y && bar.tall === before.tall && bar.alpha === before.alpha) continue
        if (before.tall > 0) {
          context.globalAlpha = before.alpha
          context.fillRect(left(begin), top + inset + before.y, left(pixel) - left(begin), before.tall)
        }
        begin = pixel
        before = bar
      }
    }
    context.globalAlpha = 1
    if (!this.highlights.showCritical || track.kind !== 'stream') return
    context.fillStyle = this.#colours('critical')
    let begin = -1
    for (let pixel = 0; pixel <= count; pixel += 1) {
      const isCritical = pixel < count && this.#isCritical(track, from[pixel] ?? -1, upTo[pixel] ?? 0)
      if (isCritical === begin >= 0) continue
      if (!isCritical) context.fillRect(left(begin), top + track.height - 3, left(pixel) - left(begin), 3)
      begin = isCritical ? pixel : -1
    }
  }

  #pixelBar(colour: number, share: number, below: number, height: number): PixelBar {
    if (isHatched(colour)) return { y: 7, tall: height - 14, alpha: Math.ceil(share * ALPHAS) / ALPHAS }
    // What is there is seen: as a line, however little of the pixel it takes.
    const tall = Math.min(height - below, Math.max(1, Math.round(share * height)))
    return { y: height - below - tall, tall, alpha: 1 }
  }

  #isCritical(track: Track, from: number, upTo: number): boolean {
    for (let at = from; at >= 0 && at < Math.min(upTo, from + MOST_UNDERLINED); at += 1) {
      if (this.data.critical[track.rows[at] ?? 0] === 1 && !isHatched(track.colour[at])) return true
    }
    return false
  }

  #drawBar(track: Track, at: number, top: number): void {
    const context = this.#context
    const row = track.rows[at] ?? 0
    const colour = track.colour[at] ?? 0
    const { left, width, y, height } = this.#box(track, at, top)
    context.globalAlpha = this.#strength(track, at, at + 1)
    context.fillStyle = this.#fillOf(colour)
    this.#rounded(left, y, width, height)
    context.fill()
    const middle = top + track.height / 2
    if (colour === NULL_STREAM) this.#drawHoldUp(row, left, middle, width)
    else if (width > SMALLEST_TEXT && !isHatched(colour) && height > 12)
      this.#drawText(titleOf(this.data, row), left, middle, width, 'onBar')
    context.globalAlpha = 1
    if (
      this.highlights.showCritical &&
      track.kind === 'stream' &&
      !isHatched(colour) &&
      this.data.critical[row] === 1
    ) {
      context.fillStyle = this.#colours('critical')
      context.fillRect(left, top + track.height - 3, width, 3)
    }
  }

  #drawHoldUp(row: number, left: number, middle: number, width: number): void {
    const by = causeOf(this.data, row)
    const name = 'null stream'
    const whole = by < 0 ? name : `${name}: after ${titleOf(this.data, by)} on ${placeOf(this.data, by)}`
    this.#context.font = BAR_FONT
    const isRoom = this.#context.measureText(whole).width < width - 12
    this.#drawText(isRoom ? whole : name, left, middle, width, 'text', 'band')
  }

  /** Where a bar is, as far as it can be seen. */
  #box(track: Track, at: number, top: number) {
    const { view } = this
    const left = Math.max(-10, view.xOf(track.begin[at] ?? 0))
    const right = Math.min(view.width + 10, view.xOf(track.end[at] ?? 0))
    const inset = track.kind === 'stream' ? (isHatched(track.colour[at]) ? 10 : 3) : 1
    const width = Math.max(1, right - left - (right - left > 6 ? 0.75 : 0))
    return { left, width, y: top + inset, height: track.height - 2 * inset }
  }

  #outline(track: Track, row: number, top: number, colour: string, line: number): void {
    const at = row < 0 ? -1 : barOf(track, row, this.data)
    if (at < 0) return
    const { left, width, y, height } = this.#box(track, at, top)
    const context = this.#context
    context.strokeStyle = colour
    context.lineWidth = line
    this.#rounded(left - (width < 3 ? 1 : 0), y, Math.max(3, width), height)
    context.stroke()
  }

  /** One line, as much of it as there is room for. */
  #drawText(
    text: string,
    left: number,
    middle: number,
    width: number,
    colour: 'onBar' | 'text',
    behind?: 'band',
  ): void {
    const context = this.#context
    const from = Math.max(left, 0)
    const room = left + width - from - 12
    context.font = BAR_FONT
    const shown = fitting(context, text, room)
    if (shown === '') return
    if (behind !== undefined) {
      context.fillStyle = this.#colours(behind)
      context.fillRect(from + 3, middle - 8, context.measureText(shown).width + 6, 16)
    }
    context.fillStyle = this.#colours(colour)
    context.fillText(shown, from + 6, middle + 0.5)
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
      context.fillStyle = this.#colours(isMeant ? 'accent' : 'faint')
      context.fillRect(x - (isMeant ? 1.5 : 0.5), top + track.height - 2, isMeant ? 3 : 1, 6)
    }
    context.globalAlpha = 1
  }

  #drawGaps(gaps: Bars, track: Track, top: number): void {
    const { view, highlights } = this
    const context = this.#context
    context.fillStyle = this.#colours('gap')
    this.#pixels.fill(gaps, view.begin, view.end, view.perPixel, (at) => {
      const { left, width } = this.#box({ ...track, ...gaps }, at, top)
      const isMeant = gaps.rows[at] === highlights.gap
      context.globalAlpha = isMeant ? 0.5 : 0.25
      context.fillRect(left, top, width, track.height)
      context.globalAlpha = 1
      for (const y of [top, top + track.height - 2]) context.fillRect(left, y, width, 2)
    })
    const { first, count } = this.#pixels
    for (let pixel = 0; pixel < count; pixel += 1) {
      const share = this.#pixels.share(pixel, 0)
      if (share === 0) continue
      const x = Math.round(view.xOf((first + pixel) * view.perPixel))
      context.globalAlpha = 0.25 * share
      context.fillRect(x, top, 1, track.height)
      context.globalAlpha = 0.35 + 0.65 * share
      for (const y of [top, top + track.height - 2]) context.fillRect(x, y, 1, 2)
    }
    context.globalAlpha = 1
  }

  #strength(track: Track, first: number, next: number): number {
    const { matches, matchesBefore } = this.highlights
    if (matches === undefined) return 1
    const before = matchesBefore.get(track)
    return (before?.[next] ?? 0) > (before?.[first] ?? 0) ? 1 : 0.15
  }

  #fillOf(colour: number): string | CanvasPattern {
    return this.#hatches[colour - WAIT] ?? this.#colours(BAR_COLOURS[colour] ?? 'quiet')
  }

  #rounded(x: number, y: number, width: number, height: number): void {
    const context = this.#context
    context.beginPath()
    if (width < 2 * RADIUS) context.rect(x, y, width, height)
    else context.roundRect(x, y, width, height, RADIUS)
  }
}

function fitting(context: CanvasRenderingContext2D, text: string, room: number): string {
  const width = context.measureText(text).width
  if (width <= room) return text
  const letters = Math.floor((text.length * room) / width) - 1
  return letters < 3 ? '' : `${text.slice(0, letters)}…`
}
