/** The page of a recording: a template with the data in it. */
import { escaped } from '../../foundation/base/printable.js'
import type { Analysis } from './analysis.js'
import { deflateToBase64 } from './compression.js'
import { Names, NO_ROW } from './event-records.js'
import { KIND_NAMES } from './kinds.js'
import { BINDING_KINDS, emptyColumns, encodePage, type PageData } from './page-format.js'
import { TEMPLATE } from './page-template.js'
import { nodeLevels, type Trace } from './trace.js'

export function pageData(trace: Trace, analysis: Analysis, title: string): PageData {
  const { length, tracks, trackNames, deviceNames, calibrations } = trace
  const { levels, depth } = nodeLevels(trace)
  const [names, nameOf] = numbered(trace.name)
  const [sites, siteOf] = numbered(trace.site)
  const rows = emptyColumns(length)
  rows.kind.set(trace.kind)
  rows.track.set(trace.track)
  rows.name.set(nameOf)
  rows.parent.set(trace.parent)
  rows.cause.set(trace.cause)
  rows.site.set(siteOf)
  rows.bytes.set(trace.bytes)
  rows.level.set(levels)
  rows.foreign.set(trace.foreign)
  for (const name of ['called', 'returned', 'start', 'end'] as const) {
    for (let row = 0; row < length; row += 1) rows[name][row] = Math.round(trace[name][row] ?? 0)
  }
  rows.blockedBy.fill(NO_ROW)
  for (let row = 0; row < length; row += 1) {
    if (trace.parent[row] !== NO_ROW || Number.isNaN(trace.start[row] ?? 0)) continue
    const binding = analysis.bindings.of(row)
    rows.why[row] = BINDING_KINDS.indexOf(binding.kind)
    rows.blockedBy[row] = binding.row
  }
  for (const row of analysis.criticalPath) rows.critical[row] = 1
  rows.gapBegin.fill(Number.NaN)
  const stalls = analysis.summary.stalls.map(({ gaps, ...stall }, place) => {
    for (const index of gaps) {
      const gap = analysis.gaps[index]
      if (gap === undefined) continue
      rows.stall[gap.next] = place + 1
      rows.gapBegin[gap.next] = Math.round(gap.begin)
    }
    return stall
  })
  return {
    title,
    driver: trace.driver,
    clock: trace.clock,
    duration: trace.duration,
    dropped: trace.dropped,
    uncertainty: Math.max(0, ...calibrations.flatMap((one) => one.uncertainty.filter((value) => !Number.isNaN(value)))),
    kinds: KIND_NAMES,
    devices: [...deviceNames],
    tracks: tracks.map(({ index, device, id, priority, nonBlocking }) => {
      const name = trackNames[index] ?? ''
      return { name, device, id: String(id), priority, nonBlocking, nodeLevels: depth[index] ?? 0 }
    }),
    names,
    sites,
    streams: analysis.summary.streams,
    overlaps: analysis.summary.devices,
    verdict: analysis.summary.verdict,
    predicted: analysis.summary.predicted,
    stalls,
    profiles: [...trace.profiles],
    length,
    ...rows,
  }
}

function numbered(texts: readonly string[]): [names: string[], numbers: Uint32Array] {
  const names = new Names()
  const numbers = Uint32Array.from(texts, (text) => names.of(text))
  return [names.all(), numbers]
}

const DATA = '"DATA"'
const TITLE = '{{title}}'

export function toHtml(data: PageData): string {
  const bytes = deflateToBase64(encodePage(data))
  return TEMPLATE.replaceAll(TITLE, () => escaped(data.title)).replace(DATA, () => bytes)
}
