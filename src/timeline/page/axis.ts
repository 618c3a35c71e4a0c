/** The times above the lanes, each told apart from the next. */
import { formatPoint, formatTick, formatTime } from './format.js'
import type { Colours } from './theme.js'
import { tickStep, type View } from './view.js'

export const AXIS = 36
/** Pixels between two of them, at least. */
const APART = 110
/** More digits than this before those that differ are said once, for all. */
const MOST_STEPS = 1e4

export interface Ticks {
  /** What is to be added to each. */
  readonly base: number
  readonly times: readonly number[]
  readonly labels: readonly string[]
}

export function ticksOf({ begin, end, perPixel }: View): Ticks {
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

export function drawGrid(context: CanvasRenderingContext2D, view: View, colours: Colours, height: number): void {
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

export function drawAxis(context: CanvasRenderingContext2D, view: View, colours: Colours): void {
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

/** From where to where, and how long: above the lanes. */
export function drawRange(
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
