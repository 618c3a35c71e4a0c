/** Draws the bands in view, with the arrows, the axis and the overview, in light or dark. */
import { type Bars, busyUntil, countUpTo, isHatched, Pixels } from '../bars.js'
import { BAR_COLOURS, COLOURS, type ColourName, EventKind, NULL_STREAM, WAIT } from '../kinds.js'
import { type Band, barOf, type PageLayout } from './bands.js'
import { causeOf, type Data, formatPoint, formatTick, formatTime, placeOf, titleOf } from './data.js'
import { tickStep, type View } from './view.js'

const SMALLEST_TEXT = 34
const RADIUS = 3
const BAR_FONT = '12px system-ui, sans-serif'
/** The number of bars sharing a pixel that are checked for being on the critical path. */
const MOST_UNDERLINED = 8
/** The number of strengths of hatching. */
const ALPHAS = 8

export interface Highlights {
  selected: number
  hovered: number
  /** The rows that the search found, as 1; undefined if nothing is searched for. */
  matches: Uint8Array | undefined
  /** The number of found rows before each bar of a band. */
  matchesBefore: ReadonlyMap<Band, Int32Array>
  showCritical: boolean
  /** The gaps of each track that are marked; `gap` is the row of the selected one. */
  gaps: ReadonlyMap<number, Bars>
  gap: number
  /** The interval that is measured. */
  range: { readonly from: number; readonly to: number } | undefined
}

/** The part of a pixel that a colour fills. */
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

  /** Takes new colours. */
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
    for (const band of this.layout.bands) {
      const top = band.y - view.scroll
      if (top + band.height < 0 || top > height) continue
      this.#drawTrack(band, top)
    }
    this.arrows.draw(context, view, colours, this.highlights.selected)
    context.restore()
    drawAxis(context, view, colours)
    if (this.highlights.range !== undefined) drawRange(context, view, colours, this.highlights.range, height)
  }

  /** The pattern of a hatched colour: one leans to the right, the other to the left. */
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

  #drawTrack(band: Band, top: number): void {
    const { view, highlights } = this
    if (band.kind === 'stream') {
      this.#context.fillStyle = this.#colours('band')
      this.#context.fillRect(0, top, view.width, band.height)
    }
    const gaps = band.kind === 'stream' ? highlights.gaps.get(band.track) : undefined
    if (gaps !== undefined) this.#drawGaps(gaps, band, top)
    this.#pixels.fill(band, view.begin, view.end, view.perPixel, (at) => this.#drawBar(band, at, top))
    this.#drawPixels(band, top)
    this.#drawMarks(band, top)
    this.#outline(band, highlights.hovered, top, this.#colours('text'), 1.25)
    this.#outline(band, highlights.selected, top, this.#colours('accent'), 2.5)
  }

  /** Draws the narrow bars. The colours of a pixel are stacked, and equal parts of neighbours are drawn at once. */
  #drawPixels(band: Band, top: number): void {
    const context = this.#context
    const { view } = this
    const pixels = this.#pixels
    const { first, count, from, upTo } = pixels
    const inset = band.kind === 'stream' ? 3 : 1
    const height = band.height - 2 * inset
    const filled = new Float32Array(count)
    const left = (pixel: number): number => Math.round(view.xOf((first + pixel) * view.perPixel))
    for (const colour of pixels.colours) {
      context.fillStyle = this.#fillOf(colour)
      let begin = 0
      let before: PixelBar = NO_BAR
      for (let pixel = 0; pixel <= count; pixel += 1) {
        const share = pixel < count && from[pixel] !== -1 ? pixels.share(pixel, colour) : 0
        const bar = share === 0 ? NO_BAR : this.#pixelBar(colour, share, filled[pixel] ?? 0, height)
        if (share > 0) bar.alpha *= this.#strength(band, from[pixel] ?? 0, upTo[pixel] ?? 0)
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
    if (!this.highlights.showCritical || band.kind !== 'stream') return
    context.fillStyle = this.#colours('critical')
    let begin = -1
    for (let pixel = 0; pixel <= count; pixel += 1) {
      const isCritical = pixel < count && this.#isCritical(band, from[pixel] ?? -1, upTo[pixel] ?? 0)
      if (isCritical === begin >= 0) continue
      if (!isCritical) context.fillRect(left(begin), top + band.height - 3, left(pixel) - left(begin), 3)
      begin = isCritical ? pixel : -1
    }
  }

  #pixelBar(colour: number, share: number, below: number, height: number): PixelBar {
    if (isHatched(colour)) return { y: 7, tall: height - 14, alpha: Math.ceil(share * ALPHAS) / ALPHAS }
    // A colour that takes little of the pixel is visible, too, as a line.
    const tall = Math.min(height - below, Math.max(1, Math.round(share * height)))
    return { y: height - below - tall, tall, alpha: 1 }
  }

  #isCritical(band: Band, from: number, upTo: number): boolean {
    for (let at = from; at >= 0 && at < Math.min(upTo, from + MOST_UNDERLINED); at += 1) {
      if (this.data.critical[band.rows[at] ?? 0] === 1 && !isHatched(band.colour[at])) return true
    }
    return false
  }

  #drawBar(band: Band, at: number, top: number): void {
    const context = this.#context
    const row = band.rows[at] ?? 0
    const colour = band.colour[at] ?? 0
    const { left, width, y, height } = this.#box(band, at, top)
    context.globalAlpha = this.#strength(band, at, at + 1)
    context.fillStyle = this.#fillOf(colour)
    this.#rounded(left, y, width, height)
    context.fill()
    const middle = top + band.height / 2
    if (width > SMALLEST_TEXT && height > 12) {
      if (colour === NULL_STREAM) this.#drawStall(row, left, middle, width)
      else if (!isHatched(colour)) this.#drawText(titleOf(this.data, row), left, middle, width, 'onBar')
    }
    context.globalAlpha = 1
    if (this.highlights.showCritical && band.kind === 'stream' && !isHatched(colour) && this.data.critical[row] === 1) {
      context.fillStyle = this.#colours('critical')
      context.fillRect(left, top + band.height - 3, width, 3)
    }
  }

  #drawStall(row: number, left: number, middle: number, width: number): void {
    const by = causeOf(this.data, row)
    const name = 'null stream'
    const whole = by < 0 ? name : `${name}: after ${titleOf(this.data, by)} on ${placeOf(this.data, by)}`
    this.#context.font = BAR_FONT
    const fits = this.#context.measureText(whole).width < width - 12
    this.#drawText(fits ? whole : name, left, middle, width, 'text')
  }

  /** The visible part of a bar, in pixels. */
  #box(band: Band, at: number, top: number) {
    const { view } = this
    const left = Math.max(-10, view.xOf(band.begin[at] ?? 0))
    const right = Math.min(view.width + 10, view.xOf(band.end[at] ?? 0))
    const inset = band.kind === 'stream' ? (isHatched(band.colour[at]) ? 10 : 3) : 1
    const width = Math.max(1, right - left - (right - left > 6 ? 0.75 : 0))
    return { left, width, y: top + inset, height: band.height - 2 * inset }
  }

  #outline(band: Band, row: number, top: number, colour: string, line: number): void {
    const at = row < 0 ? -1 : barOf(band, row, this.data)
    if (at < 0) return
    const { left, width, y, height } = this.#box(band, at, top)
    const context = this.#context
    context.strokeStyle = colour
    context.lineWidth = line
    this.#rounded(left - (width < 3 ? 1 : 0), y, Math.max(3, width), height)
    context.stroke()
  }

  /** Draws the beginning of a text that fits. */
  #drawText(text: string, left: number, middle: number, width: number, colour: 'onBar' | 'text'): void {
    const context = this.#context
    const from = Math.max(left, 0)
    const room = left + width - from - 12
    context.font = BAR_FONT
    const shown = fitting(context, text, room)
    if (shown === '') return
    if (colour === 'text') {
      context.fillStyle = this.#colours('band')
      context.fillRect(from + 3, middle - 8, context.measureText(shown).width + 6, 16)
    }
    context.fillStyle = this.#colours(colour)
    context.fillText(shown, from + 6, middle + 0.5)
  }

  /** Draws the marks of a band, if there is room for them. */
  #drawMarks(band: Band, top: number): void {
    const { view, highlights } = this
    const { marks, markAt } = band
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
      context.fillRect(x - (isMeant ? 1.5 : 0.5), top + band.height - 2, isMeant ? 3 : 1, 6)
    }
    context.globalAlpha = 1
  }

  #drawGaps(gaps: Bars, band: Band, top: number): void {
    const { view, highlights } = this
    const context = this.#context
    context.fillStyle = this.#colours('gap')
    this.#pixels.fill(gaps, view.begin, view.end, view.perPixel, (at) => {
      const { left, width } = this.#box({ ...band, ...gaps }, at, top)
      const isMeant = gaps.rows[at] === highlights.gap
      context.globalAlpha = isMeant ? 0.5 : 0.25
      context.fillRect(left, top, width, band.height)
      context.globalAlpha = 1
      for (const y of [top, top + band.height - 2]) context.fillRect(left, y, width, 2)
    })
    const { first, count } = this.#pixels
    for (let pixel = 0; pixel < count; pixel += 1) {
      const share = this.#pixels.share(pixel, 0)
      if (share === 0) continue
      const x = Math.round(view.xOf((first + pixel) * view.perPixel))
      context.globalAlpha = 0.25 * share
      context.fillRect(x, top, 1, band.height)
      context.globalAlpha = 0.35 + 0.65 * share
      for (const y of [top, top + band.height - 2]) context.fillRect(x, y, 1, 2)
    }
    context.globalAlpha = 1
  }

  #strength(band: Band, first: number, next: number): number {
    const { matches, matchesBefore } = this.highlights
    if (matches === undefined) return 1
    const before = matchesBefore.get(band)
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

/** The number of arrows in view above which none is drawn. */
const MOST_ARROWS = 300
const HEAD = 5
const STUB = 14
const STUB_HEIGHT = 7

export class Arrows {
  /** The waits in the order of their ends; `#byTail` has them in the order of the ends of their records. */
  readonly #byHead: Ends
  readonly #byTail: Ends
  #selected = -1
  #ofSelected: readonly number[] = []
  /** The number of arrows that are in view but not drawn. */
  hidden = 0

  constructor(
    private readonly data: Data,
    private readonly layout: PageLayout,
  ) {
    const { cause, end } = data
    const waits: number[] = []
    // A wait that took no time held nothing up: its arrow is drawn when it is selected.
    for (let row = 0; row < data.length; row += 1)
      if (isArrow(data, row) && (end[row] ?? 0) > (data.start[row] ?? 0)) waits.push(row)
    this.#byHead = endsOf(waits, (wait) => end[wait] ?? 0)
    this.#byTail = endsOf(waits, (wait) => end[cause[wait] ?? 0] ?? 0)
  }

  draw(context: CanvasRenderingContext2D, view: View, colours: Colours, selected: number): void {
    // An arrow that is not in view ends before the view, or begins after it.
    const heads = this.#byHead
    const over = countUpTo(heads.times, view.begin)
    const begun = countUpTo(this.#byTail.times, view.end)
    this.hidden = begun - over > MOST_ARROWS ? begun - over : 0
    context.lineWidth = 1.25
    if (this.hidden === 0) {
      const inView = new Set(heads.waits.subarray(over, countUpTo(heads.times, view.end)))
      for (const wait of this.#byTail.waits.subarray(countUpTo(this.#byTail.times, view.begin), begun)) inView.add(wait)
      for (const wait of inView) this.#draw(context, view, wait, colours('arrow'))
    }
    if (selected !== this.#selected) this.#ofSelected = this.#of(selected)
    this.#selected = selected
    context.lineWidth = 2.5
    for (const wait of this.#ofSelected) this.#draw(context, view, wait, colours('accent'))
  }

  /** The waits of a row: the row itself, or the waits for its record. */
  #of(row: number): readonly number[] {
    const { kind, cause } = this.data
    if (row < 0) return []
    if (kind[row] === EventKind.WAIT) return isArrow(this.data, row) ? [row] : []
    return Array.from(cause.keys()).filter((wait) => cause[wait] === row && isArrow(this.data, wait))
  }

  #draw(context: CanvasRenderingContext2D, view: View, wait: number, colour: string): void {
    const { track, cause, end } = this.data
    const record = cause[wait] ?? 0
    const from = this.layout.ofTrack.get(track[record] ?? 0)
    const to = this.layout.ofTrack.get(track[wait] ?? 0)
    if (from === undefined || to === undefined) return
    const down = to.y > from.y
    const x2 = view.xOf(end[wait] ?? 0)
    const whole = view.xOf(end[record] ?? 0)
    // An arrow that begins outside of the view is drawn as a stub at its end, since many of those would cover each other.
    const isStub = whole < 0
    const x1 = isStub ? x2 - STUB : whole
    context.globalAlpha = isStub ? 0.5 : Math.max(0.3, 1 - (x2 - x1) / view.width)
    const y1 = from.y - view.scroll + (down ? from.height : 0)
    const y2 = to.y - view.scroll + (down ? 0 : to.height)
    const bend = Math.min(60, Math.max(0, x2 - x1) / 2)
    context.strokeStyle = colour
    context.fillStyle = colour
    context.beginPath()
    context.moveTo(x1, isStub ? y2 + (down ? -STUB_HEIGHT : STUB_HEIGHT) : y1)
    const middle = (y1 + y2) / 2
    if (isStub) context.lineTo(x2, y2)
    else context.bezierCurveTo(x1 + bend * 0.2, middle, x2 - bend * 0.4, middle, x2, y2)
    context.stroke()
    const back = down ? -HEAD : HEAD
    context.beginPath()
    context.moveTo(x2, y2)
    context.lineTo(x2 - HEAD * 0.8, y2 + back)
    context.lineTo(x2 + HEAD * 0.5, y2 + back)
    context.fill()
    context.globalAlpha = 1
  }
}

interface Ends {
  readonly waits: Int32Array
  readonly times: Float64Array
}

function endsOf(waits: readonly number[], timeOfEnd: (wait: number) => number): Ends {
  const sorted = Int32Array.from(waits).sort((a, b) => timeOfEnd(a) - timeOfEnd(b))
  return { waits: sorted, times: Float64Array.from(sorted, timeOfEnd) }
}

function isArrow({ kind, track, cause, end }: Data, row: number): boolean {
  const record = cause[row] ?? -1
  if (kind[row] !== EventKind.WAIT || record < 0 || track[record] === track[row]) return false
  return !Number.isNaN(end[row] ?? Number.NaN) && !Number.isNaN(end[record] ?? Number.NaN)
}

export const AXIS = 36
/** The least distance of two ticks in pixels. */
const APART = 110
/** The ratio of times to the distance of ticks above which the digits that all have in common are shown once. */
const MOST_STEPS = 1e4

export interface Ticks {
  /** The time that must be added to each label. */
  readonly base: number
  readonly times: readonly number[]
  readonly labels: readonly string[]
}

function ticksOf({ begin, end, perPixel }: View): Ticks {
  const step = tickStep(perPixel * APART)
  const far = 10 ** Math.ceil(Math.log10(end - begin))
  const base = begin / step < MOST_STEPS ? 0 : Math.floor(begin / far) * far
  const times: number[] = []
  for (let at = Math.ceil(begin / step); at * step <= end; at += 1) times.push(at * step)
  const labels = times.map((time) =>
    base === 0 ? formatTick(time, step, end) : `+ ${formatTick(time - base, step, end - base)}`,
  )
  return { base, times, labels }
}

function drawGrid(context: CanvasRenderingContext2D, view: View, colours: Colours, height: number): void {
  context.strokeStyle = colours('line')
  context.lineWidth = 1
  context.beginPath()
  for (const time of ticksOf(view).times) {
    const x = Math.round(view.xOf(time)) + 0.5
    context.moveTo(x, 0)
    context.lineTo(x, height)
  }
  context.stroke()
}

function drawAxis(context: CanvasRenderingContext2D, view: View, colours: Colours): void {
  context.fillStyle = colours('background')
  context.fillRect(0, 0, view.width, AXIS)
  context.font = '11px system-ui, sans-serif'
  const { base, times, labels } = ticksOf(view)
  context.fillStyle = colours('text')
  if (base > 0) context.fillText(`from ${formatPoint(base)}`, 5, 9)
  context.fillStyle = colours('faint')
  for (const [at, time] of times.entries()) {
    const x = view.xOf(time)
    context.fillRect(Math.round(x), AXIS - 6, 1, 6)
    if (time >= 0) context.fillText(labels[at] ?? '', x + 5, AXIS - 13)
  }
  context.fillStyle = colours('line')
  context.fillRect(0, AXIS - 1, view.width, 1)
}

/** Draws the measured interval with its length. */
function drawRange(
  context: CanvasRenderingContext2D,
  view: View,
  colours: Colours,
  { from, to }: { readonly from: number; readonly to: number },
  height: number,
): void {
  const left = view.xOf(from)
  const width = Math.max(1, view.xOf(to) - left)
  context.fillStyle = colours('accent')
  context.globalAlpha = 0.12
  context.fillRect(left, 0, width, height)
  context.globalAlpha = 1
  context.fillRect(left - 0.75, 0, 1.5, height)
  context.fillRect(left + width - 0.75, 0, 1.5, height)
  const text = formatTime(to - from)
  const room = context.measureText(text).width + 12
  const x = Math.min(Math.max(left + width / 2 - room / 2, 2), view.width - room - 2)
  context.fillRect(x, 1, room, 16)
  context.fillStyle = colours('background')
  context.fillText(text, x + 6, 9.5)
}

export class Overview {
  #image: { readonly width: number; readonly busy: Float64Array } | undefined

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly view: View,
    private readonly data: Data,
    private readonly layout: PageLayout,
  ) {
    const move = (event: PointerEvent): void => {
      const box = canvas.getBoundingClientRect()
      const middle = ((event.clientX - box.left) / box.width) * view.duration
      const half = (view.end - view.begin) / 2
      view.show(middle - half, middle + half, false)
    }
    canvas.addEventListener('pointerdown', (event) => {
      canvas.setPointerCapture(event.pointerId)
      move(event)
    })
    canvas.addEventListener('pointermove', (event) => {
      if (event.buttons === 1) move(event)
    })
  }

  draw(colours: Colours, ratio: number): void {
    const { clientWidth: width, clientHeight: height } = this.canvas
    const [pixels, lines] = [Math.round(width * ratio), Math.round(height * ratio)]
    if (this.canvas.width !== pixels || this.canvas.height !== lines)
      Object.assign(this.canvas, { width: pixels, height: lines })
    const context = this.canvas.getContext('2d')
    if (context === null) return
    context.setTransform(ratio, 0, 0, ratio, 0, 0)
    context.clearRect(0, 0, width, height)
    const busy = this.#busyness(Math.max(1, Math.floor(width)))
    context.fillStyle = colours('kernel0')
    context.globalAlpha = 0.75
    for (let x = 0; x < busy.length; x += 1) {
      const tall = (busy[x] ?? 0) * (height - 6)
      context.fillRect(x, height - 2 - tall, 1, tall)
    }
    const { begin, end, duration } = this.view
    const left = Math.max(0, (begin / duration) * width)
    const right = Math.min(width, (end / duration) * width)
    context.globalAlpha = 0.6
    context.fillStyle = colours('background')
    context.fillRect(0, 0, left, height)
    context.fillRect(right, 0, width - right, height)
    context.globalAlpha = 1
    context.strokeStyle = colours('accent')
    context.lineWidth = 1.5
    context.strokeRect(left + 0.75, 0.75, Math.max(2, right - left - 1.5), height - 1.5)
  }

  /** The share of the streams that work at the time of each pixel. */
  #busyness(width: number): Float64Array {
    if (this.#image?.width === width) return this.#image.busy
    const busy = new Float64Array(width)
    const streams = this.layout.bands.filter((band) => band.kind === 'stream' && band.rows.length > 0)
    for (const band of streams) {
      let before = 0
      for (let x = 0; x < width; x += 1) {
        const passed = busyUntil(band, ((x + 1) / width) * this.data.duration)
        busy[x] = (busy[x] ?? 0) + (passed - before) / (this.data.duration / width) / streams.length
        before = passed
      }
    }
    this.#image = { width, busy }
    return busy
  }
}

export type Colours = (name: ColourName) => string

const THEMES = ['auto', 'light', 'dark'] as const
type Theme = (typeof THEMES)[number]

/** Makes a button switch between the system's theme, light and dark, and sets the colours as CSS variables; returns the function that chooses one. */
export function themeButton(button: HTMLButtonElement, changed: (colours: Colours) => void): (theme: Theme) => void {
  const system = matchMedia('(prefers-color-scheme: dark)')
  let theme: Theme = 'auto'
  const apply = (): void => {
    const isDark = theme === 'dark' || (theme === 'auto' && system.matches)
    const { style } = document.documentElement
    style.colorScheme = isDark ? 'dark' : 'light'
    for (const [name, pair] of Object.entries(COLOURS)) style.setProperty(`--${name}`, pair[isDark ? 1 : 0])
    button.textContent = { auto: '◐', light: '☀', dark: '☾' }[theme]
    const label = `Colours: ${theme === 'auto' ? 'as the system has them' : theme}`
    button.title = label
    button.setAttribute('aria-label', label)
    changed((name) => COLOURS[name][isDark ? 1 : 0])
  }
  const choose = (chosen: Theme): void => {
    theme = chosen
    apply()
  }
  button.addEventListener('click', () => choose(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'auto'))
  system.addEventListener('change', apply)
  apply()
  return choose
}
