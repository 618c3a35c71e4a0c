/** The contents above and beside the bands: the findings, the selected operation, the gaps and the critical path. */
import { busyUntil } from '../bars.js'
import { BAR_COLOURS, EventKind, isHostOnly, isInstant, KIND_NAMES } from '../kinds.js'
import { BINDING_KINDS } from '../page-format.js'
import type { PageLayout } from './bands.js'
import {
  causeOf,
  type Data,
  formatBytes,
  formatCount,
  formatPoint,
  formatShare,
  formatTime,
  type Gaps,
  placeOf,
  siteOf,
  titleOf,
  trackName,
} from './data.js'
import { launchFacts } from './kernel-numbers.js'

/** The most links of a chain of waits that are listed. */
const MOST_LINKS = 6

/** The length above which a name is repeated among the facts. */
const LONG_NAME = 30

type Select = (row: number) => void

const REASONS: Readonly<Record<string, string>> = {
  stream: 'it comes after, in the stream,',
  wait: 'it waits for',
  nullStream: 'the null stream and this one wait for each other: it comes after',
  host: 'the program had not queued it yet',
  eventLoop: 'JavaScript was busy with something else',
  engine: 'nothing was free for it while this ran:',
  instance: 'launches of one instance run one after another: it comes after',
  unknown: 'nothing that was recorded held it up',
}

/** The reasons of a gap, to be followed by what the stream waited for. */
const GAP_REASONS: Readonly<Record<string, string>> = {
  wait: 'waits for',
  nullStream: 'by the null stream: waits for',
  host: 'queued only after',
  engine: 'shares an engine with',
  instance: 'the same instance: waits for',
}

/** Shows all that is known of a row. */
export function showDetails(data: Data, row: number, select: Select): void {
  const target = byId('details', HTMLElement)
  target.replaceChildren()
  if (row < 0) {
    target.append(hint('Point at a bar, or click it to see what held it up.'))
    return
  }
  target.append(
    element('h3', { title: titleOf(data, row) }, swatch(data, row), element('span', {}, titleOf(data, row))),
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
  if (kind === EventKind.WAIT) {
    target.append(element('h4', {}, 'It waits'), element('p', { className: 'reason' }, waitsFor(data, row, false)))
    if (record >= 0) target.append(link(data, record, select))
  }
  const graph = data.parent[row] ?? -1
  if (graph >= 0) target.append(element('h4', {}, 'Part of'), link(data, graph, select))
}

/** The text of what a wait waits for, or an operation that the null stream held up; '' for other rows. */
export function waitsFor(data: Data, row: number, isHeld: boolean): string {
  const by = causeOf(data, row)
  const last = by < 0 ? '' : `${titleOf(data, by)} on ${placeOf(data, by)}`
  if (isHeld) return `held up by the null stream: waits for ${last || 'what was not recorded'}`
  if (data.kind[row] !== EventKind.WAIT) return ''
  const record = data.cause[row] ?? -1
  if (record < 0) return 'for an event that was not recorded here'
  const site = siteOf(data, record)
  const where = site === '' ? `queued at ${formatPoint(data.called[record] ?? 0)}` : `queued at ${site}`
  const before = isInstant(data.kind[record] ?? 0) ? causeOf(data, record) : -1
  const behind = before < 0 ? '' : `, behind ${titleOf(data, before)}`
  return `for ${titleOf(data, record)} on ${placeOf(data, record)}, ${where}${behind}`
}

/** Lists what held a row up, and what held that up, through waits and records, to an operation that takes time. */
function chain(data: Data, from: number, select: Select): HTMLElement[] {
  const links: HTMLElement[] = []
  let row = from
  for (let steps = 0; steps < MOST_LINKS; steps += 1) {
    const held = heldUpBy(data, row)
    const reason = BINDING_KINDS[data.why[held] ?? 0] ?? ''
    const by = data.blockedBy[held] ?? -1
    const because = by >= 0 && reason === 'host' ? 'the program queued it only after' : (REASONS[reason] ?? reason)
    links.push(element('p', { className: 'reason' }, because))
    if (by < 0) break
    links.push(link(data, by, select))
    if (!isInstant(data.kind[by] ?? 0)) break
    row = by
  }
  return links
}

/** The row itself, or the last of the waits before it in the stream that took no time, and so did not hold it up. */
function heldUpBy({ kind, start, end, blockedBy, length }: Data, row: number): number {
  let held = row
  for (let steps = 0; steps < length; steps += 1) {
    const by = blockedBy[held] ?? -1
    if (by < 0 || kind[by] !== EventKind.WAIT || (end[by] ?? 0) > (start[by] ?? 0)) break
    held = by
  }
  return held
}

function facts(data: Data, row: number): [string, string][] {
  const start = data.start[row] ?? Number.NaN
  const end = data.end[row] ?? Number.NaN
  const called = data.called[row] ?? 0
  const returned = data.returned[row] ?? 0
  const found: [string, string][] = []
  if (titleOf(data, row).length > LONG_NAME) found.push(['name', titleOf(data, row)])
  if (data.foreign[row] === 1) found.push(['queued by', 'other code'])
  if (!isHostOnly(data.kind[row] ?? 0)) {
    found.push(['began', Number.isNaN(start) ? 'not in this recording' : formatPoint(start)])
    found.push(['took', Number.isNaN(end) ? 'not over yet' : formatTime(end - start)])
    if (data.parent[row] === -1) found.push(['queued', `${formatPoint(called)} (${formatTime(start - called)} before)`])
    found.push(['call took', formatTime(returned - called)])
  } else {
    found.push(['called', formatPoint(called)], ['took', formatTime(returned - called)])
  }
  const bytes = data.bytes[row] ?? Number.NaN
  if (!Number.isNaN(bytes)) {
    found.push(['size', formatBytes(bytes)])
    if (end > start) found.push(['bandwidth', `${(bytes / (end - start)).toFixed(1)} GB/s`])
  }
  const site = siteOf(data, row)
  if (site !== '') found.push(['called at', site])
  const profile = data.profiles.find(([counted]) => counted === row)?.[1]
  if (profile !== undefined) found.push(...launchFacts(profile))
  return found
}

function swatch(data: Data, row: number): HTMLElement {
  const made = element('span', { className: 'swatch', ariaHidden: 'true' })
  made.style.background = `var(--${BAR_COLOURS[data.colours[row] ?? 0]})`
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

export function listGaps(data: Data, gaps: Gaps, rows: readonly number[], showGap: Select): void {
  const target = byId('gaps', HTMLElement)
  const total = rows.reduce((sum, row) => sum + gaps.lengthOf(row), 0)
  const which = rows === gaps.all ? 'Idle gaps' : 'Marked gaps'
  const title = `${which} (${formatTime(total, 1)} in ${formatCount(rows.length)})`
  byId('gaps-title', HTMLElement).textContent = rows.length === 0 ? which : title
  target.replaceChildren()
  if (rows.length === 0) target.append(hint('No stream stood idle between two operations.'))
  for (const { why, alike } of alikeGaps(data, rows).slice(0, MOST_LISTED)) {
    const [first = -1] = alike
    const together = alike.reduce((sum, row) => sum + gaps.lengthOf(row), 0)
    const said = alike.length === 1 ? why : `${why}, ${formatTime(gaps.lengthOf(first))} at most`
    const name = trackName(data, data.track[first] ?? 0)
    const called = alike.length === 1 ? name : `${name} × ${formatCount(alike.length)}`
    let next = 0
    const show = (): void => {
      showGap(alike[next % alike.length] ?? first)
      next += 1
    }
    target.append(
      element(
        'button',
        { className: 'row gap', type: 'button', onclick: show },
        element('span', { className: 'took' }, formatTime(together)),
        element('span', { className: 'name', title: called }, called),
        element('span', { className: 'why', title: said }, said),
      ),
    )
  }
}

/** Gaps of one stream that have one reason. */
interface AlikeGaps {
  readonly why: string
  /** The rows behind them, the longest gap first. */
  readonly alike: number[]
}

/** The gaps with those that are alike in one entry, which stands where its longest gap would. */
function alikeGaps(data: Data, rows: readonly number[]): readonly AlikeGaps[] {
  const found = new Map<string, AlikeGaps>()
  for (const row of rows) {
    const why = gapReason(data, row)
    const key = `${data.track[row]} ${why}`
    const known = found.get(key)
    if (known === undefined) found.set(key, { why, alike: [row] })
    else known.alike.push(row)
  }
  return [...found.values()]
}

/** The reason of the gap before a row. */
export function gapReason(data: Data, row: number): string {
  const kindAt = (at: number): string => BINDING_KINDS[data.why[at] ?? 0] ?? ''
  let at = row
  // A record or a wait before the row in the stream has itself been held up, which is the reason.
  while (kindAt(at) === 'stream' && isInstant(data.kind[data.blockedBy[at] ?? -1] ?? 0)) at = data.blockedBy[at] ?? -1
  const kind = kindAt(at)
  const by = causeOf(data, at)
  const why = by < 0 ? undefined : GAP_REASONS[kind]
  return why === undefined ? (REASONS[kind] ?? kind) : `${why} ${titleOf(data, by)} on ${placeOf(data, by)}`
}

/** Shows the measured interval: its length, and how busy each stream is in it. */
export function showRange(data: Data, layout: PageLayout, range: { from: number; to: number } | undefined): void {
  byId('range', HTMLElement).hidden = range === undefined
  if (range === undefined) return
  const { from, to } = range
  byId('range-title', HTMLElement).textContent =
    `Measured: ${formatTime(to - from)}, from ${formatPoint(Math.round(from))} to ${formatPoint(Math.round(to))}`
  const rows = [...layout.ofTrack].slice(0, MOST_LISTED).map(([track, band]) => {
    const busy = busyUntil(band, to) - busyUntil(band, from)
    const name = trackName(data, track)
    return element(
      'tr',
      {},
      element('th', { scope: 'row', title: name }, name),
      element('td', {}, formatTime(busy)),
      element('td', {}, to > from ? formatShare(busy / (to - from)) : ''),
    )
  })
  byId('range-rows', HTMLElement).replaceChildren(...rows)
}

export function listPath(data: Data, select: Select): void {
  const target = byId('path', HTMLElement)
  const rows = Array.from(data.critical.keys())
    .filter((row) => data.critical[row] === 1 && (data.end[row] ?? 0) > (data.start[row] ?? 0))
    .sort((a, b) => (data.start[a] ?? 0) - (data.start[b] ?? 0))
  const took = (row: number): number =>
    data.kind[row] === EventKind.WAIT ? 0 : (data.end[row] ?? 0) - (data.start[row] ?? 0)
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

/** Joins neighbours of one name on one stream. */
function runsOf(data: Data, rows: readonly number[]): { row: number; count: number; total: number }[] {
  const runs: { row: number; count: number; total: number }[] = []
  for (const row of rows) {
    const took = (data.end[row] ?? 0) - (data.start[row] ?? 0)
    const last = runs.at(-1)
    if (last !== undefined && data.name[last.row] === data.name[row] && data.track[last.row] === data.track[row]) {
      last.count += 1
      last.total += took
    } else runs.push({ row, count: 1, total: took })
  }
  return runs
}

/** Lists the operations by name with their time. A graph with nodes is not listed, since its nodes are. */
export function listNames(data: Data, search: (text: string) => void): void {
  const sums = new Map<number, { row: number; count: number; total: number; longest: number }>()
  const hasNodes = new Set(data.parent)
  for (let row = 0; row < data.length; row += 1) {
    const kind = data.kind[row] ?? 0
    const took = (data.end[row] ?? Number.NaN) - (data.start[row] ?? Number.NaN)
    if (isHostOnly(kind) || !(took > 0) || kind === EventKind.WAIT || hasNodes.has(row)) continue
    const key = (data.name[row] ?? 0) * KIND_NAMES.length + kind
    const sum = sums.get(key) ?? { row, count: 0, total: 0, longest: 0 }
    sum.count += 1
    sum.total += took
    sum.longest = Math.max(sum.longest, took)
    sums.set(key, sum)
  }
  const rows = [...sums.values()].sort((a, b) => b.total - a.total).slice(0, MOST_LISTED)
  for (const { row, count, total, longest } of rows) {
    const text = titleOf(data, row)
    const properties = { className: 'pick', type: 'button', title: text, onclick: () => search(text) } as const
    const cells = [formatCount(count), ...[total, total / count, longest].map((time) => formatTime(time, 2))]
    byId('names', HTMLElement).append(
      element(
        'tr',
        {},
        element('th', { scope: 'row' }, element('button', properties, swatch(data, row), element('span', {}, text))),
        ...cells.map((cell) => element('td', {}, cell)),
      ),
    )
  }
}

export function showOverlaps({ overlaps, duration }: Data): void {
  const target = byId('overlaps', HTMLElement)
  for (const { device, name, copy, compute, overlap, busy } of overlaps) {
    const parts = [
      ['compute', compute - overlap],
      ['both', overlap],
      ['copy', copy - overlap],
      ['idle', Math.max(0, duration - busy)],
    ] as const
    const less = Math.min(copy, compute)
    const what = copy <= compute ? 'copying' : 'computing'
    const verdict =
      less === 0
        ? `It only ${copy > 0 ? 'copied' : 'computed'}.`
        : `${formatShare(overlap / less)} of the ${what} overlapped.`
    target.append(
      element(
        'div',
        { className: 'device' },
        element('h3', { title: name }, `Device ${device}: `, element('strong', {}, verdict)),
        element(
          'div',
          { className: 'parts', ariaHidden: 'true' },
          ...parts.map(([part, time]) => {
            const box = element('span', { className: part })
            box.style.flexGrow = String(time)
            return box
          }),
        ),
        element(
          'p',
          { className: 'legend' },
          ...parts.map(([part, time]) =>
            element(
              'span',
              {},
              element('i', { className: part, ariaHidden: 'true' }),
              `${part} ${formatTime(time, 2)}`,
            ),
          ),
        ),
      ),
    )
  }
}

/** Lists how busy each stream was. Pressing one brings it into view. */
export function listStreams(data: Data, show: (track: number) => void): void {
  const used = new Set(data.track)
  for (const { stream, busy, share } of data.streams.filter((one) => used.has(one.stream)).slice(0, MOST_LISTED)) {
    const bar = element('span', { className: 'bar', ariaHidden: 'true' }, element('span'))
    bar.style.setProperty('--share', String(share))
    byId('streams', HTMLElement).append(
      element(
        'button',
        { className: 'row stream', type: 'button', onclick: () => show(stream) },
        element('span', { className: 'name', title: trackName(data, stream) }, trackName(data, stream)),
        bar,
        element('span', { className: 'share' }, formatShare(share)),
        element('span', { className: 'took' }, formatTime(busy, 2)),
      ),
    )
  }
}

/** Lists the stalls, those with advice first. Pressing one marks its gaps. Returns a function that shows which one is marked. */
export function listStalls({ stalls, predicted }: Data, mark: (place: number) => void): (marked: number) => void {
  const target = byId('stalls', HTMLElement)
  if (stalls.length === 0) target.append(hint('Nothing held a stream up between two operations.'))
  const of = predicted?.duration ?? 0
  const buttons = stalls.slice(0, MOST_LISTED).map((stall, place) => {
    const { message, advice, time, callSite } = stall
    const isAdvised = advice !== ''
    const [share, whole] = isAdvised
      ? gainTexts(stall, of)
      : [formatTime(time, 2), 'less than 1 % of the run is to be gained here']
    return element(
      'button',
      {
        className: isAdvised ? 'row stall' : 'row stall minor',
        type: 'button',
        onclick: () => mark(place),
        title: callSite ?? '',
      },
      element('span', { className: 'took', title: whole }, share),
      element('span', { className: 'message' }, ...withCode(message)),
      ...(isAdvised ? [element('span', { className: 'advice' }, ...withCode(advice))] : []),
    )
  })
  target.append(...buttons)
  const showMarked = (marked: number): void => {
    for (const [place, button] of buttons.entries()) button.ariaPressed = String(place === marked)
  }
  showMarked(-1)
  return showMarked
}

/** The gain as a share of the run, and as a time. */
function gainTexts(
  { gain = 0, isAtMost }: Data['stalls'][number],
  of: number,
): readonly [share: string, whole: string] {
  const upTo = isAtMost ? '≤ ' : ''
  return [
    `${upTo}−${formatShare(of === 0 ? 0 : gain / of)}`,
    `${isAtMost ? 'up to ' : ''}−${formatTime(gain)} of ${formatTime(of)}`,
  ]
}

/** A text in which the parts between backticks are shown as code. */
export const withCode = (text: string): (Node | string)[] =>
  text.split('`').map((part, at) => (at % 2 === 1 ? element('code', {}, part) : part))

/** The most entries of a list. */
const MOST_LISTED = 200

export function element<T extends keyof HTMLElementTagNameMap>(
  tag: T,
  properties: Partial<HTMLElementTagNameMap[T]> = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[T] {
  const made = Object.assign(document.createElement(tag), properties)
  made.append(...children)
  return made
}

export const hint = (text: string): HTMLElement => element('p', { className: 'hint' }, text)

export function byId<T extends HTMLElement>(id: string, type: new () => T): T {
  const found = document.getElementById(id)
  if (!(found instanceof type)) throw new Error(`the page has no ${id}`)
  return found
}
