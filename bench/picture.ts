/** A run of the bench as a picture: what a call takes beside what it takes others, on a scale of ratios. */

import { fastestPython, type Result, type ResultRow, ratio, ratioToC } from './result.js'
import type { Summary } from './statistics.js'

interface Mark {
  readonly className: 'c' | 'python'
  readonly label: string
  readonly summary: Summary
}

interface Layout {
  readonly width: number
  /** Where the scale begins, and what is left free behind its end. */
  readonly left: number
  readonly right: number
  /** From row to row. */
  readonly line: number
  /** Of a row, from its marks to the title, which stands beside them or above. */
  readonly title: { readonly className: string; readonly x: number; readonly y: number }
}

const TOP = 136
const LINE = 26
/** The most letters of a title that a narrow picture has the width for; those of longer ones are pressed together. */
const MOST_LETTERS = 48
const WIDE: Layout = { width: 1000, left: 400, right: 70, line: LINE, title: { className: 'end', x: -14, y: 4 } }
const NARROW: Layout = { width: 342, left: 24, right: 24, line: 42, title: { className: '', x: -8, y: -12 } }

/** Ratios at the ends of the scale; what lies beyond stands at the end. */
const [LEAST, MOST] = [1 / 64, 4]
const TICKS = [1 / 64, 1 / 16, 1 / 4, 1 / 2, 1, 2, 4]

const STYLE = `text{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1c2330}.title{font-size:15px;font-weight:600}.group{font-weight:600}
.faint{fill:#576273}.end{text-anchor:end}.middle{text-anchor:middle}.background{fill:#fff}.grid{stroke:#e0e4ea}.one{stroke:#1c2330}
.c{fill:#0b57d0;stroke:#0b57d0}.python{fill:#a8380a;stroke:#a8380a}
@media(prefers-color-scheme:dark){text{fill:#e4e8ef}.faint{fill:#8f9bad}.background{fill:#12151b}.grid{stroke:#2b323d}.one{stroke:#e4e8ef}.c{fill:#8ab4ff;stroke:#8ab4ff}.python{fill:#ff9d5c;stroke:#ff9d5c}}`

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

function x({ width, left, right }: Layout, value: number): number {
  const within = Math.min(MOST, Math.max(LEAST, value))
  return left + ((width - left - right) * Math.log(within / LEAST)) / Math.log(MOST / LEAST)
}

const tick = (value: number): string => (value < 1 ? `1/${1 / value}` : String(value))

/** A dot at the median, and a line over the half of the rounds in the middle. */
function drawn(layout: Layout, { className, label, summary }: Mark, y: number): string {
  const [low, middle, high] = [x(layout, summary.low), x(layout, summary.median), x(layout, summary.high)] as const
  const title = `<title>${escaped(label)}: ${summary.median.toFixed(2)} (${summary.low.toFixed(2)}–${summary.high.toFixed(2)})</title>`
  const shape =
    className === 'c'
      ? `<circle cx="${middle.toFixed(1)}" cy="${y}" r="5"/>`
      : `<rect x="${(middle - 4).toFixed(1)}" y="${y - 4}" width="8" height="8"/>`
  return `<g class="${className}">${title}<line x1="${low.toFixed(1)}" x2="${high.toFixed(1)}" y1="${y}" y2="${y}" stroke-width="2"/>${shape}</g>`
}

function marksOf(result: Result, row: ResultRow, ours: string, c: string | undefined): Mark[] {
  const python = fastestPython(result, row)
  const marks = [
    { className: 'c', label: 'ours / C', summary: c === undefined ? undefined : ratioToC(row, ours, c) },
    {
      className: 'python',
      label: `ours / ${python}`,
      summary: python === undefined ? undefined : ratio(row, ours, python),
    },
  ] as const
  return marks.flatMap(({ summary, ...mark }) => (summary === undefined ? [] : [{ ...mark, summary }]))
}

/** The ratios of a run, to C and to the fastest of the Python libraries, as an SVG; for phones narrow. */
export function picture(result: Result, isNarrow = false): string {
  const layout = isNarrow ? NARROW : WIDE
  const { width, left, line, title } = layout
  const ours = result.contestants[0]?.name ?? ''
  const c = result.contestants.find(({ kind }) => kind === 'C')?.name
  const lines: string[] = []
  let y = TOP
  let group: string | undefined
  for (const row of result.rows) {
    const marks = marksOf(result, row, ours, c)
    if (marks.length === 0) continue
    if (row.group !== group) {
      y += LINE
      lines.push(`<text class="group" x="16" y="${y + 4}">${escaped(row.group)}</text>`)
      group = row.group
    }
    y += line
    const pressed =
      isNarrow && row.title.length > MOST_LETTERS ? ` textLength="${width - 32}" lengthAdjust="spacingAndGlyphs"` : ''
    lines.push(
      `<text class="${title.className}" x="${left + title.x}" y="${y + title.y}"${pressed}>${escaped(row.title)}</text>`,
      ...marks.map((mark) => drawn(layout, mark, y)),
    )
  }
  const height = y + LINE
  const grid = TICKS.map(
    (value) =>
      `<line class="${value === 1 ? 'one' : 'grid'}" x1="${x(layout, value).toFixed(1)}" x2="${x(layout, value).toFixed(1)}" y1="${TOP}" y2="${height - 12}"/>` +
      `<text class="faint middle" x="${x(layout, value).toFixed(1)}" y="${TOP - 8}">${tick(value)}</text>`,
  )
  const heading = ["What a call takes: ours / others'", `on ${result.machine['GPU'] ?? 'a simulated GPU'}`]
  const name = escaped(heading.join(' '))
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${name}">
<title>${name}</title>
<style>${STYLE}</style>
<rect class="background" width="${width}" height="${height}"/>
${heading.map((text, at) => `<text class="title" x="16" y="${26 + 19 * at}">${escaped(text)}</text>`).join('\n')}
<g class="c"><circle cx="24" cy="62" r="5"/></g><text x="36" y="66">ours / C</text>
<g class="python"><rect x="116" y="58" width="8" height="8"/></g><text x="132" y="66">ours / the fastest Python library</text>
<text class="faint" x="16" y="86">to the left of 1 ours is faster</text>
<text class="faint" x="16" y="103">lines are the half of the ratios in the middle</text>
${[...grid, ...lines].join('\n')}
</svg>
`
}
