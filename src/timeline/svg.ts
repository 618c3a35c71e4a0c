/** A still picture of a timeline, for documents. It follows the reader's colour scheme, and needs no script. */
import { checkBoolean, readOptions } from '../base/arguments.js'
import { invalidType, outOfRange } from '../base/errors.js'
import type { Analysis } from './analysis.js'
import { escaped } from './html.js'
import { kernelColours } from './kernel-colours.js'
import { isHostOnly, isInstant, KIND_NAMES, RowKind } from './kinds.js'
import { NO_ROW } from './table.js'
import type { Trace } from './trace.js'

/** What the picture shows. */
export interface SvgOptions {
  /** Pixels: at least 200, less than 100 000. Default 1200. */
  readonly width?: number | undefined
  /** Where the stretch that is drawn begins, in nanoseconds since the recording began. Default 0. */
  readonly from?: number | undefined
  /** Where it ends, after `from`. Default: the timeline's `duration`. */
  readonly to?: number | undefined
  /** Stands above the picture. Default: none. */
  readonly title?: string | undefined
  /** Draws arrows from records to the waits for them. Default true. */
  readonly arrows?: boolean | undefined
  /** Underlines the operations of `timeline.criticalPath`. Default true. */
  readonly criticalPath?: boolean | undefined
}

const MARGIN = 16
const LABELS = 150
const BAR = 26
const PITCH = 44
const TITLE = 30
const AXIS = 26
const LEGEND = 34
/** About what a letter takes. */
const LETTER = 6.4
const NARROWEST = 200
/** The colour of narrower bars cannot be seen. */
const NARROWEST_IN_LEGEND = 2

/** By class: what it is drawn in for a reader who has it light, and dark. */
const COLOURS: Readonly<Record<string, readonly [light: string, dark: string]>> = {
  page: ['#ffffff', '#12161d'],
  text: ['#1c2330', '#e4e8ef'],
  title: ['#1c2330', '#e4e8ef'],
  faint: ['#6b7688', '#8f9bad'],
  band: ['#f0f2f6', '#1d222b'],
  line: ['#e0e4ea', '#2b323d'],
  wait: ['#b9c2cf', '#4a5566'],
  critical: ['#e0483e', '#ff7b6e'],
  arrow: ['#7d8797', '#8793a6'],
  head: ['#7d8797', '#8793a6'],
  onBar: ['#ffffff', '#0b0e13'],
  kernel0: ['#3f66d6', '#86a8ff'],
  kernel1: ['#0f87c4', '#5cc3f5'],
  kernel2: ['#6f5bd0', '#b4a3ff'],
  kernel3: ['#4e7191', '#9fb8d0'],
  kernel4: ['#2c4a9a', '#7d93e6'],
  kernel5: ['#128a9f', '#5fc9db'],
  copy: ['#0f8a6d', '#4fd1ab'],
  fill: ['#5f8a1c', '#a6d05a'],
  hostFunction: ['#b4690e', '#f0b35a'],
  graph: ['#8a46b8', '#d29bf5'],
  latch: ['#8b95a5', '#7e8a9c'],
  fault: ['#c22a2a', '#ff6b6b'],
}

interface Frame {
  readonly trace: Trace
  /** Those that are drawn. */
  readonly rows: readonly number[]
  readonly from: number
  readonly to: number
  readonly width: number
  readonly top: number
  /** The place of each lane that is drawn, from above. */
  readonly places: ReadonlyMap<number, number>
  readonly colours: ReadonlyMap<string, number>
}

export function toSvg(trace: Trace, analysis: Analysis, options: SvgOptions | undefined): string {
  const given = readOptions(options, ['width', 'from', 'to', 'title', 'arrows', 'criticalPath'])
  const { width = 1200 } = given
  if (typeof width !== 'number') throw invalidType('options.width', 'a number of pixels', width)
  if (!(width >= NARROWEST && width < 1e5)) throw outOfRange('options.width', `from ${NARROWEST} to 100000`, width)
  const { from = 0, to = trace.duration, title = '' } = given
  if (typeof from !== 'number') throw invalidType('options.from', 'a number of nanoseconds', from)
  if (typeof to !== 'number') throw invalidType('options.to', 'a number of nanoseconds', to)
  if (typeof title !== 'string') throw invalidType('options.title', 'a text', title)
  if (!Number.isFinite(from)) throw outOfRange('options.from', 'finite', from)
  if (!Number.isFinite(to)) throw outOfRange('options.to', 'finite', to)
  if (!(to > from)) throw outOfRange('options.to', 'after options.from', to)
  const arrows = checkBoolean(given.arrows, 'options.arrows', true)
  const critical = checkBoolean(given.criticalPath, 'options.criticalPath', true)
  const frame = frameOf(trace, from, to, width, title)
  const height = frame.top + frame.places.size * PITCH + LEGEND
  const name = title || `Timeline of ${frame.places.size} streams`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(name)}">`,
    `<title>${escaped(name)}</title>`,
    `<style>${styles()}</style>`,
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="wait" width="1.6" height="6"/></pattern>',
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
    `<rect class="page" width="${width}" height="${height}" rx="6"/>`,
    ...(title === '' ? [] : [`<text class="title" x="${MARGIN}" y="24">${escaped(title)}</text>`]),
    ...axis(frame, height),
    ...lanes(frame),
    ...bars(frame),
    ...(critical ? criticalMarks(frame, analysis) : []),
    ...(arrows ? arrowsOf(frame) : []),
    ...legend(frame, height, critical),
    '</svg>',
    '',
  ].join('\n')
}

function frameOf(trace: Trace, from: number, to: number, width: number, title: string): Frame {
  const rows = Array.from(trace.kind.keys()).filter((row) => isDrawn(trace, row, from, to))
  const used = new Set(rows.map((row) => trace.lane[row] ?? 0))
  const drawn = trace.lanes.filter(({ index }) => used.has(index))
  const places = new Map(drawn.map(({ index }, place) => [index, place]))
  const top = (title === '' ? 8 : TITLE + 8) + AXIS
  return { trace, rows, from, to, width, top, places, colours: kernelColours(trace) }
}

const x = ({ from, to, width }: Frame, time: number): number =>
  MARGIN + LABELS + ((Math.min(Math.max(time, from), to) - from) / (to - from)) * (width - LABELS - 2 * MARGIN)
const round = (value: number): string => String(Number(value.toFixed(1)))
const laneTop = ({ top, places }: Frame, lane: number): number => top + (places.get(lane) ?? 0) * PITCH + 8

function isDrawn({ kind, start, end, parent }: Trace, row: number, from: number, to: number): boolean {
  const what = kind[row] ?? 0
  if (isHostOnly(what) || (isInstant(what) && what !== RowKind.WAIT) || parent[row] !== NO_ROW) return false
  return (start[row] ?? Number.NaN) < to && (end[row] ?? Number.NaN) > Math.max(from, start[row] ?? 0)
}

function classOf({ trace, colours }: Frame, row: number): string {
  const kind = trace.kind[row] ?? 0
  if (kind !== RowKind.KERNEL) return KIND_NAMES[kind] ?? ''
  return `kernel${colours.get(trace.name[row] ?? '') ?? 0}`
}

function axis(frame: Frame, height: number): string[] {
  const { from, to, width, top } = frame
  const most = Math.max(2, Math.floor((width - LABELS) / 110))
  const least = (to - from) / most
  const power = 10 ** Math.floor(Math.log10(least))
  const step = power * ([1, 2, 5, 10].find((one) => one * power >= least) ?? 10)
  const [unit, per] = step >= 1e6 ? ['ms', 1e6] : step >= 1e3 ? ['µs', 1e3] : ['ns', 1]
  const lines: string[] = []
  for (let at = 0; from + at * step <= to; at += 1) {
    const left = round(x(frame, from + at * step))
    lines.push(`<path class="line" d="M${left} ${top - 4}V${height - LEGEND}"/>`)
    lines.push(
      `<text class="faint" x="${left}" y="${top - 10}" text-anchor="${Number(left) > width - 2 * MARGIN ? 'end' : 'middle'}">${Number(((at * step) / per).toFixed(3))} ${unit}</text>`,
    )
  }
  return lines
}

function lanes(frame: Frame): string[] {
  const { trace, places, width } = frame
  return [...places.keys()].flatMap((lane) => {
    const top = laneTop(frame, lane)
    return [
      `<rect class="band" x="${MARGIN + LABELS}" y="${top}" width="${width - LABELS - 2 * MARGIN}" height="${BAR}" rx="4"/>`,
      `<text class="text" x="${MARGIN}" y="${top + BAR / 2 + 4}">${escaped(trace.laneNames[lane] ?? '')}</text>`,
    ]
  })
}

function bars(frame: Frame): string[] {
  const { trace, rows } = frame
  const found: string[] = []
  /** Where the bar before ends: what begins in the same half pixel is drawn with it. */
  const drawnTo = new Map<number, number>()
  for (const row of rows) {
    const lane = trace.lane[row] ?? 0
    const left = x(frame, trace.start[row] ?? 0)
    const right = x(frame, trace.end[row] ?? 0)
    if (right - left < 0.5 && right < (drawnTo.get(lane) ?? Number.NEGATIVE_INFINITY) + 0.5) continue
    drawnTo.set(lane, right)
    const isWait = trace.kind[row] === RowKind.WAIT
    const inset = isWait ? 8 : 0
    const width = Math.max(0.8, right - left - (right - left > 4 ? 1 : 0))
    const top = laneTop(frame, lane) + inset
    const size = `x="${round(left)}" y="${top}" width="${round(width)}" height="${BAR - 2 * inset}"`
    const name = trace.name[row] ?? ''
    found.push(
      `<rect ${isWait ? 'fill="url(#hatch)"' : `class="${classOf(frame, row)}"`} ${size} rx="${width > 5 ? 3 : 0}"/>`,
    )
    if (!isWait && width > name.length * LETTER + 8) {
      found.push(
        `<text class="onBar" x="${round(left + width / 2)}" y="${top + BAR / 2 + 4}" text-anchor="middle">${escaped(name)}</text>`,
      )
    }
  }
  return found
}

function criticalMarks(frame: Frame, { criticalPath }: Analysis): string[] {
  const { trace } = frame
  const drawn = new Set(frame.rows)
  const rows = criticalPath.filter((row) => drawn.has(row) && trace.kind[row] !== RowKind.WAIT)
  return rows.map((row) => {
    const left = x(frame, trace.start[row] ?? 0)
    const width = Math.max(0.8, x(frame, trace.end[row] ?? 0) - left - 1)
    const top = laneTop(frame, trace.lane[row] ?? 0) + BAR + 1
    return `<rect class="critical" x="${round(left)}" y="${top}" width="${round(width)}" height="3"/>`
  })
}

function arrowsOf(frame: Frame): string[] {
  const { trace, from, to, places } = frame
  const { length, kind, lane, cause, end } = trace
  const found: string[] = []
  for (let row = 0; row < length; row += 1) {
    const record = cause[row] ?? NO_ROW
    if (kind[row] !== RowKind.WAIT || record < 0 || lane[record] === lane[row]) continue
    const leaves = end[record] ?? Number.NaN
    const arrives = end[row] ?? Number.NaN
    if (!(leaves >= from && arrives <= to) || !places.has(lane[row] ?? 0) || !places.has(lane[record] ?? 0)) continue
    const down = laneTop(frame, lane[row] ?? 0) > laneTop(frame, lane[record] ?? 0)
    const y1 = laneTop(frame, lane[record] ?? 0) + (down ? BAR : 0)
    const y2 = laneTop(frame, lane[row] ?? 0) + (down ? 0 : BAR)
    const x1 = x(frame, leaves)
    const x2 = x(frame, arrives)
    const bend = Math.max(4, Math.min(40, (x2 - x1) / 2))
    const middle = (y1 + y2) / 2
    const curve =
      x2 - x1 < 2
        ? `M${round(x1)} ${y1}L${round(x2)} ${y2}`
        : `M${round(x1)} ${y1}C${round(x1 + bend)} ${round(middle)} ${round(x2 - bend)} ${round(middle)} ${round(x2)} ${y2}`
    found.push(`<path class="arrow" d="${curve}" marker-end="url(#head)"/>`)
  }
  return found
}

function legend(frame: Frame, height: number, critical: boolean): string[] {
  const { trace, rows } = frame
  const entries = new Map<string, string>()
  let waits = false
  for (const row of rows) {
    if (trace.kind[row] === RowKind.WAIT) waits = true
    else if (x(frame, trace.end[row] ?? 0) - x(frame, trace.start[row] ?? 0) >= NARROWEST_IN_LEGEND) {
      entries.set(trace.name[row] ?? '', classOf(frame, row))
    }
  }
  const parts: string[] = []
  let left = MARGIN + LABELS
  const y = height - 14
  const add = (mark: (at: number) => string, text: string): void => {
    const width = 24 + text.length * LETTER + 14
    if (left + width > frame.width) return
    parts.push(mark(left), `<text class="faint" x="${round(left + 18)}" y="${y}">${escaped(text)}</text>`)
    left += width
  }
  for (const [name, type] of entries) {
    add((at) => `<rect class="${type}" x="${round(at)}" y="${y - 10}" width="12" height="12" rx="3"/>`, name)
  }
  if (waits) add((at) => `<rect fill="url(#hatch)" x="${round(at)}" y="${y - 10}" width="12" height="12"/>`, 'waits')
  if (critical)
    add((at) => `<rect class="critical" x="${round(at)}" y="${y - 5}" width="12" height="3"/>`, 'critical path')
  return parts
}

function styles(): string {
  const of = (scheme: 0 | 1): string =>
    Object.entries(COLOURS)
      .map(
        ([name, colours]) => `.${name}{${name === 'line' || name === 'arrow' ? 'stroke' : 'fill'}:${colours[scheme]}}`,
      )
      .join('')
  const fixed =
    'text{font:12px system-ui,-apple-system,"Segoe UI",sans-serif}.title{font-size:15px;font-weight:600}.onBar{font-size:11px}.line{stroke-width:1}.arrow{fill:none;stroke-width:1.3}'
  return `${fixed}${of(0)}@media(prefers-color-scheme:dark){${of(1)}}`
}
