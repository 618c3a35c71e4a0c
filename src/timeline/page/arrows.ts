/** From a record to the wait for it, on another stream. */
import { countUpTo } from '../bars.js'
import { RowKind } from '../kinds.js'
import type { Data } from './data.js'
import type { PageLayout } from './layout.js'
import type { Colours } from './theme.js'
import type { View } from './view.js'

/** More arrows than this at a time are a thicket. */
const MOST_ARROWS = 300
const HEAD = 5
const STUB = 14
const STUB_HEIGHT = 7

export class Arrows {
  /** Waits, in the order of their ends, and in that of the ends of what they wait for. */
  readonly #byHead: Ends
  readonly #byTail: Ends
  #selected = -1
  #ofSelected: readonly number[] = []
  /** How many are in view but not drawn. */
  hidden = 0

  constructor(
    private readonly data: Data,
    private readonly layout: PageLayout,
  ) {
    const { cause, end } = data
    const waits: number[] = []
    for (let row = 0; row < data.length; row += 1) if (isArrow(data, row)) waits.push(row)
    this.#byHead = endsOf(waits, (wait) => end[wait] ?? 0)
    this.#byTail = endsOf(waits, (wait) => end[cause[wait] ?? 0] ?? 0)
  }

  draw(context: CanvasRenderingContext2D, view: View, colours: Colours, selected: number): void {
    // None is over before it begins: what is not in view is over before it, or begins behind it.
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

  /** The waits that a row has to do with: itself, or those for it. */
  #of(row: number): readonly number[] {
    const { kind, cause } = this.data
    if (row < 0) return []
    if (kind[row] === RowKind.WAIT) return isArrow(this.data, row) ? [row] : []
    return Array.from(this.#byHead.waits.filter((wait) => cause[wait] === row))
  }

  #draw(context: CanvasRenderingContext2D, view: View, wait: number, colour: string): void {
    const { lane, cause, end } = this.data
    const record = cause[wait] ?? 0
    const from = this.layout.ofLane.get(lane[record] ?? 0)
    const to = this.layout.ofLane.get(lane[wait] ?? 0)
    if (from === undefined || to === undefined) return
    const down = to.y > from.y
    const x2 = view.xOf(end[wait] ?? 0)
    const whole = view.xOf(end[record] ?? 0)
    // Of one that comes from outside only the end is drawn: many of those would lie on top of each other.
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

function isArrow({ kind, lane, cause, end }: Data, row: number): boolean {
  const record = cause[row] ?? -1
  if (kind[row] !== RowKind.WAIT || record < 0 || lane[record] === lane[row]) return false
  return !Number.isNaN(end[row] ?? Number.NaN) && !Number.isNaN(end[record] ?? Number.NaN)
}
