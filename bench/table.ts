/** Markdown tables that also line up on a terminal. */

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

export function median(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle]
  const lower = sorted[sorted.length % 2 === 1 ? middle : middle - 1]
  return upper === undefined || lower === undefined ? undefined : (upper + lower) / 2
}
