/** What stands beside the lanes: the selected operation, the gaps, the critical path, and how much of what there was. */
import type { Gap } from '../gap.js'
import { isHostOnly, isInstant, RowKind } from '../kinds.js'
import { type Data, placeOf, titleOf } from './data.js'
import { formatBytes, formatCount, formatTime } from './format.js'

/** A list longer than this is for a program to read, not for people. */
const MOST_LISTED = 200
/** Of a chain of waits. */
const MOST_LINKS = 6

type Select = (row: number) => void

const REASONS: Readonly<Record<string, string>> = {
  stream: 'it comes after, in the stream,',
  wait: 'it waits for',
  nullStream: "it comes after, by the null stream's rules,",
  host: 'the program had not queued it yet',
  eventLoop: 'JavaScript was busy with something else',
  engine: 'nothing was free for it while this ran:',
  unknown: 'nothing that was recorded held it up',
}

/** With what an idle stream waited for behind it. */
const GAP_REASONS: Readonly<Record<string, string>> = {
  wait: 'waits for',
  host: 'queued only after',
  engine: 'shares an engine with',
}

export function element<T extends keyof HTMLElementTagNameMap>(
  tag: T,
  properties: Partial<HTMLElementTagNameMap[T]> = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[T] {
  const made = Object.assign(document.createElement(tag), properties)
  made.append(...children)
  return made
}

const hint = (text: string): HTMLElement => element('p', { className: 'hint' }, text)

export function byId<T extends HTMLElement>(id: string, type: new () => T): T {
  const found = document.getElementById(id)
  if (!(found instanceof type)) throw new Error(`the page has no ${id}`)
  return found
}

/** The operation that was pointed at, in full. */
export function showDetails(data: Data, row: number, select: Select): void {
  const target = byId('details', HTMLElement)
  target.replaceChildren()
  if (row < 0) {
    target.append(hint('Point at a bar, or click it to see what held it up.'))
    return
  }
  target.append(
    element('h3', {}, swatch(data, row), titleOf(data, row)),
    element('p', { className: 'where' }, `${data.kinds[data.kind[row] ?? 0]} · ${placeOf(data, row)}`),
  )
  const list = element('dl')
  for (const [term, value] of facts(data, row)) list.append(element('dt', {}, term), element('dd', {}, value))
  target.append(list)
  const kind = data.kind[row] ?? 0
  if (!isHostOnly(kind) && data.parent[row] === -1) {
    target.append(element('h4', {}, 'It could not begin sooner'), ...chain(data, row, select))
  }
  const record = data.cause[row] ?? -1
  if (kind === RowKind.WAIT && record >= 0 && record !== data.heldUpBy[row]) {
    target.append(element('h4', {}, 'The record it refers to'), link(data, record, select))
  }
  const graph = data.parent[row] ?? -1
  if (graph >= 0) target.append(element('h4', {}, 'Part of'), link(data, graph, select))
}

/** What held it up, and through waits and records what held that up, until something that takes time. */
function chain(data: Data, from: number, select: Select): HTMLElement[] {
  const links: HTMLElement[] = []
  let row = from
  for (let steps = 0; steps < MOST_LINKS; steps += 1) {
    const reason = data.bindings[data.why[row] ?? 0] ?? ''
    const by = data.heldUpBy[row] ?? -1
    const because = by >= 0 && reason === 'host' ? 'the program queued it only after' : (REASONS[reason] ?? reason)
    links.push(element('p', { className: 'reason' }, because))
    if (by < 0) break
    links.push(link(data, by, select))
    if (!isInstant(data.kind[by] ?? 0)) break
    row = by
  }
  return links
}

function facts(data: Data, row: number): [string, string][] {
  const start = data.start[row] ?? Number.NaN
  const end = data.end[row] ?? Number.NaN
  const called = data.called[row] ?? 0
  const returned = data.returned[row] ?? 0
  const found: [string, string][] = []
  if (!isHostOnly(data.kind[row] ?? 0)) {
    found.push(['began', Number.isNaN(start) ? 'not in this recording' : formatTime(start)])
    found.push(['took', Number.isNaN(end) ? 'not over yet' : formatTime(end - start)])
    if (data.parent[row] === -1) found.push(['queued', `${formatTime(called)} (${formatTime(start - called)} before)`])
    found.push(['call took', formatTime(returned - called)])
  } else {
    found.push(['called', formatTime(called)], ['took', formatTime(returned - called)])
  }
  const bytes = data.bytes[row] ?? Number.NaN
  if (!Number.isNaN(bytes)) {
    found.push(['size', formatBytes(bytes)])
    if (end > start) found.push(['bandwidth', `${(bytes / (end - start)).toFixed(1)} GB/s`])
  }
  const site = data.sites[data.site[row] ?? 0] ?? ''
  if (site !== '') found.push(['called at', site])
  return found
}

function swatch(data: Data, row: number): HTMLElement {
  const kind = data.kind[row] ?? 0
  const made = element('span', { className: 'swatch', ariaHidden: 'true' })
  made.dataset['kind'] = data.kinds[kind] ?? ''
  if (kind === RowKind.KERNEL) made.style.background = `var(--kernel-${data.colours.get(data.name[row] ?? 0) ?? 0})`
  return made
}

function link(
  data: Data,
  row: number,
  select: Select,
  count = 1,
  took = (data.end[row] ?? Number.NaN) - (data.start[row] ?? Number.NaN),
): HTMLElement {
  return element(
    'button',
    { className: 'row', type: 'button', onclick: () => select(row) },
    swatch(data, row),
    element('span', { className: 'name' }, `${titleOf(data, row)}${count > 1 ? ` × ${formatCount(count)}` : ''}`),
    element('span', { className: 'place' }, placeOf(data, row)),
    element('span', { className: 'took' }, took > 0 ? formatTime(took) : ''),
  )
}

export function listGaps(data: Data, showGap: (gap: Gap) => void): void {
  const target = byId('gaps', HTMLElement)
  const all = `Idle gaps (${formatTime(data.gapTime, 1)} in ${formatCount(data.gapCount)})`
  byId('gaps-title', HTMLElement).textContent = data.gaps.length === 0 ? 'Idle gaps' : all
  if (data.gaps.length === 0) target.append(hint('No stream stood idle between two operations.'))
  for (const gap of data.gaps.slice(0, MOST_LISTED)) {
    target.append(
      element(
        'button',
        { className: 'row gap', type: 'button', onclick: () => showGap(gap) },
        element('span', { className: 'took' }, formatTime(gap.end - gap.begin)),
        element('span', { className: 'name' }, data.lanes[gap.lane]?.name ?? ''),
        element('span', { className: 'why' }, gapReason(data, gap)),
      ),
    )
  }
}

export function gapReason(data: Data, gap: Gap): string {
  const why = gap.cause < 0 ? undefined : GAP_REASONS[gap.reason]
  if (why === undefined) return REASONS[gap.reason] ?? gap.reason
  return `${why} ${titleOf(data, gap.cause)} on ${placeOf(data, gap.cause)}`
}

export function listPath(data: Data, select: Select): void {
  const target = byId('path', HTMLElement)
  const rows = Array.from(data.path).filter((row) => (data.end[row] ?? 0) > (data.start[row] ?? 0))
  const took = (row: number): number =>
    data.kind[row] === RowKind.WAIT ? 0 : (data.end[row] ?? 0) - (data.start[row] ?? 0)
  const total = rows.reduce((sum, row) => sum + took(row), 0)
  const share = data.duration === 0 ? 0 : Math.round((total / data.duration) * 100)
  byId('path-title', HTMLElement).textContent = `Critical path (${formatTime(total, 1)}, ${share} % of the time)`
  const runs = runsOf(data, rows)
  for (const { row, count, total: together } of runs.slice(0, MOST_LISTED)) {
    target.append(link(data, row, select, count, together))
  }
  if (runs.length > MOST_LISTED) {
    target.append(hint(`and ${formatCount(runs.length - MOST_LISTED)} more`))
  }
}

/** What comes several times in a row, on the same stream, is listed once. */
function runsOf(data: Data, rows: readonly number[]): { row: number; count: number; total: number }[] {
  const runs: { row: number; count: number; total: number }[] = []
  for (const row of rows) {
    const took = (data.end[row] ?? 0) - (data.start[row] ?? 0)
    const last = runs.at(-1)
    if (last !== undefined && data.name[last.row] === data.name[row] && data.lane[last.row] === data.lane[row]) {
      last.count += 1
      last.total += took
    } else runs.push({ row, count: 1, total: took })
  }
  return runs
}

/** Operations by name: where the time goes. */
export function listNames(data: Data, search: (text: string) => void): void {
  const sums = new Map<string, { name: number; row: number; count: number; total: number; longest: number }>()
  for (let row = 0; row < data.length; row += 1) {
    const kind = data.kind[row] ?? 0
    const took = (data.end[row] ?? Number.NaN) - (data.start[row] ?? Number.NaN)
    if (isHostOnly(kind) || !(took > 0) || kind === RowKind.WAIT) continue
    const key = `${kind} ${data.name[row]}`
    const sum = sums.get(key) ?? { name: data.name[row] ?? 0, row, count: 0, total: 0, longest: 0 }
    sum.count += 1
    sum.total += took
    sum.longest = Math.max(sum.longest, took)
    sums.set(key, sum)
  }
  const rows = [...sums.values()].sort((a, b) => b.total - a.total).slice(0, MOST_LISTED)
  for (const { row, name, count, total, longest } of rows) {
    const text = data.names[name] ?? ''
    const properties = { className: 'pick', type: 'button', onclick: () => search(text) } as const
    const cells = [formatCount(count), ...[total, total / count, longest].map((time) => formatTime(time, 2))]
    byId('names', HTMLElement).append(
      element(
        'tr',
        {},
        element('th', { scope: 'row' }, element('button', properties, swatch(data, row), text)),
        ...cells.map((cell) => element('td', {}, cell)),
      ),
    )
  }
}
