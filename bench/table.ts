/** Markdown tables that also line up on a terminal; and those that show a run of the bench. */

import type { Unit } from './catalogue.js'
import { fastestPython, type Result, type ResultRow, ratio, ratioToC, taken } from './result.js'
import { type Summary, summaryOf } from './statistics.js'

export type Cell = string | number | undefined

/** The first column is text, to the left; the others are to the right. What is missing is '-'. */
export function table(header: readonly string[], lines: readonly (readonly Cell[])[]): string {
  const cells = [header, ...lines.map((line) => line.map((cell) => (cell === undefined ? '-' : String(cell))))]
  const widths = header.map((_, column) => Math.max(3, ...cells.map((line) => line[column]?.length ?? 0)))
  const print = (line: readonly string[]): string =>
    `| ${widths.map((width, i) => (i === 0 ? (line[i] ?? '').padEnd(width) : (line[i] ?? '').padStart(width))).join(' | ')} |`
  const rule = `|${widths.map((width, i) => (i === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`
  return [print(header), rule, ...cells.slice(1).map(print)].join('\n')
}

const SHOW: Readonly<Record<Unit, (value: number, row: ResultRow) => number>> = {
  ns: (value) => value,
  µs: (value) => value / 1000,
  'GB/s': (value, { bytes = 0 }) => bytes / value,
  'operations/s': (value) => 1e9 / value,
  '%': (value) => value,
}

const shown = (row: ResultRow, value: number): string => {
  const number = SHOW[row.unit](value, row)
  const digits = number >= 100 ? 0 : number >= 10 ? 1 : 2
  return number.toFixed(digits).replace(/\B(?=(\d{3})+$)/g, digits === 0 ? ' ' : '')
}

const shownRatio = (summary: Summary | undefined): string | undefined =>
  summary && `${summary.median.toFixed(2)} (${summary.low.toFixed(2)}–${summary.high.toFixed(2)})`

/** A column of ratios: of two contestants, or of one and the fastest of the Python libraries. */
interface Ratio {
  readonly title: string
  readonly of: (row: ResultRow) => Summary | undefined
}

function ratiosOf(result: Result): readonly Ratio[] {
  const names = (kind: string): string[] =>
    result.contestants.filter((one) => one.kind === kind).map(({ name }) => name)
  const [ours = '', ...ways] = names('ours')
  const others = names('other version')
  const c = names('C')[0]
  const pair = (title: string, first: string, second: string): Ratio => ({
    title,
    of: (row) => ratio(row, first, second),
  })
  const toC = (title: string, name: string, ofC: string): Ratio => ({ title, of: (row) => ratioToC(row, name, ofC) })
  const python: Ratio = {
    title: 'ours / fastest of Python',
    of(row) {
      const name = fastestPython(result, row)
      return name === undefined ? undefined : ratio(row, ours, name)
    },
  }
  return [
    ...(c === undefined ? [] : [toC('ours / C', ours, c)]),
    ...others.map((name) => pair(`ours / ${name}`, ours, name)),
    ...(c === undefined
      ? ways.map((name) => pair(`ours / ${name}`, ours, name))
      : [...others, ...ways].map((name) => toC(`${name} / C`, name, c))),
    ...(names('Python').length === 0 ? [] : [python]),
  ]
}

/**
 * Medians; ±, half the width of the middle half (of the slices beside C, else of the rounds); and the ratios with that half. A table for each
 * group of rows with the same unit, without the columns that none of its rows has; what a row lacks is empty.
 */
export function resultTables(result: Result): string {
  const names = [...new Set(result.contestants.map(({ name }) => name))]
  const ratios = ratiosOf(result)
  const titles = [...names, '±', ...ratios.map(({ title }) => title)]
  const groups = new Map<string, Cell[][]>()
  for (const row of result.rows) {
    const [ours = ''] = names
    const summaries = ratios.map((one) => one.of(row))
    const own = row.besideC?.[ours] === undefined ? taken(row, ours) : summaryOf(row.besideC[ours])
    const title = `${row.group}, ${row.unit}`
    const lines = groups.get(title) ?? []
    groups.set(title, lines)
    lines.push([
      row.title,
      ...names.map((name) => {
        const time = taken(row, name)
        return time && shown(row, time.median)
      }),
      own && `${((100 * (own.high - own.low)) / 2 / own.median).toFixed(0)} %`,
      ...summaries.map(shownRatio),
    ])
  }
  return Array.from(groups, ([group, lines]) => {
    const isThere = (_: Cell, column: number): boolean =>
      column === 0 || lines.some((line) => line[column] !== undefined)
    return table(
      [group, ...titles].filter(isThere),
      lines.map((line) => line.map((cell) => cell ?? '').filter((_, column) => isThere(line[column], column))),
    )
  }).join('\n\n')
}

/** The medians of some rows and contestants. */
export function medianTable(result: Result, keys: readonly string[], names: readonly string[]): string {
  const lines = result.rows
    .filter(({ key }) => keys.includes(key))
    .map((row) => [
      row.title,
      ...names.map((name) => {
        const time = taken(row, name)
        return time && shown(row, time.median)
      }),
    ])
  return table(['', ...names], lines)
}

/** The machine, who took part, and what did not work, a line each. */
export function headOf({ date, commit, command, machine, contestants, leftOut, failures }: Result): string {
  const facts = Object.entries(machine).map(([name, value]) => `${name.padEnd(9)} ${value}`)
  const versions = contestants.map(
    ({ name, facts: { version = '', node, queues } }) =>
      `${name.padEnd(13)} ${[version, node && `Node ${node}`, queues && `${queues} queues`].filter(Boolean).join(', ')}`,
  )
  return [
    `${date}, ${commit}`,
    command,
    ...facts,
    ...versions,
    ...leftOut.map((line) => `left out  ${line}`),
    ...failures.map((line) => `failed    ${line}`),
  ].join('\n')
}
