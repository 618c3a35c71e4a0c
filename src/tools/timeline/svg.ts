/** A still picture of a timeline, for documents. It follows the reader's colour scheme, and needs no script. */
import { checkBoolean, readOptions } from '../../foundation/base/arguments.js'
import { invalidType, outOfRange } from '../../foundation/base/errors.js'
import { beginning, escaped } from '../../foundation/base/printable.js'
import { type Bars, isHatched, Pixels, trackBars } from './bars.js'
import { NO_ROW } from './event-records.js'
import { BAR_COLOURS, barColours, COLOURS, EventKind, NULL_STREAM, WAIT } from './kinds.js'
import type { PageData } from './page-format.js'

/** The options of the picture. */
export interface SvgOptions {
  /** The width in pixels: at least 200, less than 100 000. Default 1200. */
  readonly width?: number | undefined
  /** The beginning of the stretch that is drawn, in nanoseconds since the recording began. Default 0. */
  readonly from?: number | undefined
  /** The end of the stretch, after `from`. Default: the timeline's `duration`. */
  readonly to?: number | undefined
  /** The title above the picture. Default: none. */
  readonly title?: string | undefined
  /** Whether arrows are drawn from records to the waits for them, if there are at most 300. Default true. */
  readonly arrows?: boolean | undefined
  /** Whether the operations of `timeline.criticalPath` are underlined. Default true. */
  readonly criticalPath?: boolean | undefined
}

const MARGIN = 16
/** The most pixels that names beside the tracks take. */
const LABELS = 150
const BAR = 26
const PITCH = 44
const TITLE = 30
const AXIS = 26
const LEGEND = 34
const LEGEND_LINE = 18
/** The most lines of names; those that do not fit in are left out. */
const MOST_LEGEND_LINES = 3
/** The width of a letter, about. */
const LETTER = 6.4
const NARROWEST = 200
/** The most letters of a name beside a track. */
const MOST_LETTERS = 22
/** The least width of a bar with round corners, and with a name if it fits. */
const ROUNDED = 5
/** The margin above and below hatched bars. */
const INSET = 8
/** The share of waiting time above which a pixel is hatched. */
const HALF = 0.5
/** The number of arrows above which none is drawn. */
const MOST_ARROWS = 300

interface Frame {
  readonly data: PageData
  /** The tracks that are drawn, from above. */
  readonly tracks: readonly { readonly track: number; readonly bars: Bars; readonly top: number }[]
  readonly from: number
  readonly to: number
  readonly width: number
  readonly top: number
  /** The left end of the tracks, behind their names. */
  readonly left: number
  readonly bottom: number
}

export function toSvg(data: PageData, options: SvgOptions | undefined): string {
  const given = readOptions(options, ['width', 'from', 'to', 'title', 'arrows', 'criticalPath'])
  const { width = 1200 } = given
  if (typeof width !== 'number') throw invalidType('options.width', 'a number of pixels', width)
  if (!(width >= NARROWEST && width < 1e5)) throw outOfRange('options.width', `from ${NARROWEST} to 100000`, width)
  // A recording without operations has no duration, but it has a picture.
  const { from = 0, to = Math.max(data.duration, 1), title = '' } = given
  if (typeof from !== 'number') throw invalidType('options.from', 'a number of nanoseconds', from)
  if (typeof to !== 'number') throw invalidType('options.to', 'a number of nanoseconds', to)
  if (typeof title !== 'string') throw invalidType('options.title', 'a text', title)
  if (!Number.isFinite(from)) throw outOfRange('options.from', 'finite', from)
  if (!Number.isFinite(to)) throw outOfRange('options.to', 'finite', to)
  if (!(to > from)) throw outOfRange('options.to', 'after options.from', to)
  const arrows = checkBoolean(given.arrows, 'options.arrows', true)
  const critical = checkBoolean(given.criticalPath, 'options.criticalPath', true)
  const frame = frameOf(data, from, to, width, title)
  const { lines, marks } = legend(frame, critical)
  const height = frame.bottom + LEGEND + (lines - 1) * LEGEND_LINE
  const arrowLines = arrows ? arrowsOf(frame) : []
  const name = title || `Timeline of ${frame.tracks.length} streams`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(name)}">`,
    `<title>${escaped(name)}</title>`,
    `<style>${styles()}</style>`,
    `<defs>${hatch('wait', 45)}${hatch('nullStream', -45)}`,
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
    `<rect class="background" width="${width}" height="${height}" rx="6"/>`,
    ...(title === '' ? [] : [`<text class="text title" x="${MARGIN}" y="24">${escaped(title)}</text>`]),
    ...axis(frame),
    ...frame.tracks.flatMap((track) => [...band(frame, track), ...drawnBars(frame, track, critical)]),
    ...arrowLines,
    ...marks,
    '</svg>',
    '',
  ].join('\n')
}

function frameOf(data: PageData, from: number, to: number, width: number, title: string): Frame {
  const top = (title === '' ? 8 : TITLE + 8) + AXIS
  const drawn = trackBars(data, barColours(data)).flatMap(({ levels: [bars] }, track) => {
    const isSeen = bars?.begin.some((begin, at) => begin < to && (bars.end[at] ?? 0) > Math.max(from, begin))
    return bars !== undefined && isSeen ? [{ track, bars }] : []
  })
  const tracks = drawn.map((one, place) => ({ ...one, top: top + place * PITCH + 8 }))
  const letters = Math.max(0, ...drawn.map(({ track }) => nameOf(data, track).length))
  const left = MARGIN + Math.min(LABELS, Math.ceil(letters * LETTER) + MARGIN)
  return { data, tracks, from, to, width, top, left, bottom: top + tracks.length * PITCH }
}

const nameOf = ({ tracks }: PageData, track: number): string => tracks[track]?.name ?? ''
const x = ({ from, to, width, left }: Frame, time: number): number =>
  left + ((Math.min(Math.max(time, from), to) - from) / (to - from)) * (width - left - MARGIN)
const round = (value: number): string => String(Number(value.toFixed(1)))
const titleOf = ({ data }: Frame, row: number): string => data.names[data.name[row] ?? 0] ?? ''
const colourClass = (colour: number | undefined): string => BAR_COLOURS[colour ?? 0] ?? ''
const fillOf = (colour: number): string =>
  isHatched(colour) ? `fill="url(#hatch-${colourClass(colour)})"` : `class="${colourClass(colour)}"`

const hatch = (name: string, degrees: number): string =>
  `<pattern id="hatch-${name}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(${degrees})"><rect class="${name}" width="1.8" height="6"/></pattern>`

function axis(frame: Frame): string[] {
  const { from, to, width, top, left: begin, bottom } = frame
  const most = Math.max(2, Math.floor((width - begin) / 110))
  const least = (to - from) / most
  const power = 10 ** Math.floor(Math.log10(least))
  const step = power * ([1, 2, 5, 10].find((one) => one * power >= least) ?? 10)
  const [unit, per] = step >= 1e6 ? ['ms', 1e6] : step >= 1e3 ? ['µs', 1e3] : ['ns', 1]
  const lines: string[] = []
  for (let at = 0; from + at * step <= to; at += 1) {
    const left = round(x(frame, from + at * step))
    lines.push(`<path class="line" d="M${left} ${top - 4}V${bottom}"/>`)
    lines.push(
      `<text class="faint" x="${left}" y="${top - 10}" text-anchor="${Number(left) > width - 2 * MARGIN ? 'end' : 'middle'}">${Number(((at * step) / per).toFixed(3))} ${unit}</text>`,
    )
  }
  return lines
}

type TrackBand = Frame['tracks'][number]

function band(frame: Frame, { track, top }: TrackBand): string[] {
  const { data, width, left } = frame
  const name = nameOf(data, track)
  return [
    `<rect class="band" x="${left}" y="${top}" width="${width - left - MARGIN}" height="${BAR}" rx="4"/>`,
    `<text class="text" x="${MARGIN}" y="${top + BAR / 2 + 4}">${name.length > MOST_LETTERS ? `<title>${escaped(name)}</title>` : ''}${escaped(fitting(name, MOST_LETTERS))}</text>`,
  ]
}

const fitting = (text: string, letters: number): string =>
  text.length <= letters ? text : letters < 4 ? '' : `${beginning(text, letters - 1)}…`

/**
 * Draws each bar that is wide enough; the others become one shape for each colour, by the share of each pixel that they
 * fill.
 */
function drawnBars(frame: Frame, { bars, top }: TrackBand, critical: boolean): string[] {
  const { from, to, width, left: begin } = frame
  const perPixel = (to - from) / (width - begin - MARGIN)
  const wide: string[] = []
  const narrow = BAR_COLOURS.map(() => '')
  const underlined: (readonly [left: number, right: number])[] = []
  const underline = (at: number, left: number, right: number): void => {
    const last = underlined.at(-1)
    if (frame.data.critical[bars.rows[at] ?? 0] !== 1 || isHatched(bars.colour[at])) return
    if (last !== undefined && left - last[1] < 1) underlined[underlined.length - 1] = [last[0], right]
    else underlined.push([left, right])
  }
  const pixels = new Pixels()
  pixels.fill(bars, from, to, perPixel, (at) => {
    const colour = bars.colour[at] ?? 0
    const left = x(frame, bars.begin[at] ?? 0)
    const right = x(frame, bars.end[at] ?? 0)
    const size = Math.max(0.8, right - left - (right - left > 4 ? 1 : 0))
    const inset = isHatched(colour) ? INSET : 0
    const [y, tall] = [top + inset, BAR - 2 * inset]
    underline(at, left, left + size)
    if (size < ROUNDED) {
      narrow[colour] += `M${round(left)} ${y}h${round(size)}v${tall}h-${round(size)}z`
      return
    }
    wide.push(`<rect ${fillOf(colour)} x="${round(left)}" y="${y}" width="${round(size)}" height="${tall}" rx="3"/>`)
    const text = fitting(
      colour === NULL_STREAM ? 'null stream' : titleOf(frame, bars.rows[at] ?? 0),
      (size - 8) / LETTER,
    )
    if (text === '' || colour === WAIT) return
    const place = `x="${round(left + size / 2)}" y="${top + BAR / 2 + 4}" text-anchor="middle"`
    wide.push(`<text class="${colour === NULL_STREAM ? 'text onHatch' : 'onBar'}" ${place}>${escaped(text)}</text>`)
  })
  for (const [colour, shape] of heaps(pixels, top).entries()) narrow[colour] += shape
  for (let pixel = 0; pixel < pixels.count; pixel += 1) {
    const left = x(frame, (pixels.first + pixel) * perPixel)
    for (let at = pixels.from[pixel] ?? -1; at >= 0 && at < (pixels.upTo[pixel] ?? 0); at += 1)
      underline(at, left, left + 1)
  }
  underlined.sort(([a], [b]) => a - b)
  const line = underlined.map(
    ([left, right]) => `M${round(left)} ${top + BAR + 1}h${round(right - left)}v3h-${round(right - left)}z`,
  )
  return [
    ...narrow.flatMap((shape, colour) => (shape === '' ? [] : [`<path ${fillOf(colour)} d="${shape}"/>`])).reverse(),
    ...wide,
    ...(critical && line.length > 0 ? [`<path class="critical" d="${line.join('')}"/>`] : []),
  ]

  /** The colours of a pixel are stacked: each shape begins at the bottom, behind those below it. */
  function heaps(pixels: Pixels, top: number): string[] {
    const shapes = BAR_COLOURS.map(() => '')
    const before = BAR_COLOURS.map(() => 0)
    const ground = top + BAR
    const { first, count } = pixels
    for (let pixel = 0; pixel <= count; pixel += 1) {
      const left = Math.round(x(frame, (first + pixel) * perPixel))
      let filled = 0
      for (const colour of BAR_COLOURS.keys()) {
        const share = pixel === count || pixels.from[pixel] === -1 ? 0 : pixels.share(pixel, colour)
        const inset = isHatched(colour) ? INSET : 0
        let tall = 0
        if (isHatched(colour)) tall = share > HALF ? BAR - 2 * inset : 0
        else if (share > 0) {
          filled += share * BAR
          tall = Math.min(BAR, Math.max(1, Math.round(filled)))
        }
        if (tall === before[colour]) continue
        if (before[colour] === 0) shapes[colour] += `M${left} ${ground - inset}`
        else shapes[colour] += `H${left}`
        shapes[colour] += tall === 0 ? `V${ground - inset}z` : `V${ground - inset - tall}`
        before[colour] = tall
      }
    }
    return shapes
  }
}

function arrowsOf(frame: Frame): string[] {
  const { data, from, to } = frame
  const { length, kind, track, cause, end } = data
  const tops = new Map(frame.tracks.map((one) => [one.track, one.top]))
  const found: string[] = []
  for (let row = 0; row < length; row += 1) {
    const record = cause[row] ?? NO_ROW
    if (kind[row] !== EventKind.WAIT || record < 0 || track[record] === track[row]) continue
    const leaves = end[record] ?? Number.NaN
    const arrives = end[row] ?? Number.NaN
    const [top, other] = [tops.get(track[row] ?? 0), tops.get(track[record] ?? 0)]
    if (!(leaves >= from && arrives <= to) || top === undefined || other === undefined) continue
    const down = top > other
    const y1 = other + (down ? BAR : 0)
    const y2 = top + (down ? 0 : BAR)
    const x1 = x(frame, leaves)
    const x2 = x(frame, arrives)
    const bend = Math.max(4, Math.min(40, (x2 - x1) / 2))
    const middle = (y1 + y2) / 2
    const curve =
      x2 - x1 < 2
        ? `M${round(x1)} ${y1}L${round(x2)} ${y2}`
        : `M${round(x1)} ${y1}C${round(x1 + bend)} ${round(middle)} ${round(x2 - bend)} ${round(middle)} ${round(x2)} ${y2}`
    found.push(`<path class="arrow" d="${curve}" marker-end="url(#head)"/>`)
    if (found.length > MOST_ARROWS) return []
  }
  return found
}

function legend(frame: Frame, critical: boolean): { readonly lines: number; readonly marks: readonly string[] } {
  const entries = new Map<string, string>()
  let hasWaits = false
  let hasNullStream = false
  for (const { bars } of frame.tracks) {
    for (const [at, row] of bars.rows.entries()) {
      const [begin, end] = [bars.begin[at] ?? 0, bars.end[at] ?? 0]
      if (begin >= frame.to || end <= frame.from) continue
      const colour = bars.colour[at] ?? 0
      if (colour === WAIT) hasWaits = true
      else if (colour === NULL_STREAM) hasNullStream = true
      else entries.set(titleOf(frame, row), colourClass(colour))
    }
  }
  const marks: string[] = []
  let { left } = frame
  let lines = 1
  let y = frame.bottom + LEGEND - 14
  const add = (mark: (at: number) => string, text: string): void => {
    const width = 24 + text.length * LETTER
    if (left > frame.left && left + width > frame.width) {
      if (lines === MOST_LEGEND_LINES) return
      lines += 1
      left = frame.left
      y += LEGEND_LINE
    }
    marks.push(mark(left), `<text class="faint" x="${round(left + 18)}" y="${y}">${escaped(text)}</text>`)
    left += width + 14
  }
  const box = (fill: string) => (at: number) =>
    `<rect ${fill} x="${round(at)}" y="${y - 10}" width="12" height="12" rx="3"/>`
  for (const [name, type] of entries) add(box(`class="${type}"`), fitting(name, MOST_LETTERS))
  if (hasWaits) add(box(fillOf(WAIT)), 'waits')
  if (hasNullStream) add(box(fillOf(NULL_STREAM)), 'held up by the null stream')
  if (critical)
    add((at) => `<rect class="critical" x="${round(at)}" y="${y - 5}" width="12" height="3"/>`, 'critical path')
  return { lines, marks }
}

function styles(): string {
  const fixed =
    'text{font:12px system-ui,-apple-system,"Segoe UI",sans-serif}.title{font-size:15px;font-weight:600}.onBar,.onHatch{font-size:11px}.onHatch{paint-order:stroke;stroke-width:4px}.line{stroke-width:1}.arrow{fill:none;stroke-width:1.3}'
  const of = (scheme: 0 | 1): string => {
    const rules = Object.entries(COLOURS).map(([name, colours]) => {
      const property = name === 'line' || name === 'arrow' ? 'stroke' : 'fill'
      return `.${name}{${property}:${colours[scheme]}}`
    })
    return `${rules.join('')}.head{fill:${COLOURS.arrow[scheme]}}.onHatch{stroke:${COLOURS.band[scheme]}}`
  }
  return `${fixed}${of(0)}@media(prefers-color-scheme:dark){${of(1)}}`
}
