/** What the page and a picture draw: a recording and what was found in it, in columns. */
import type { Analysis } from './analysis.js'
import { KIND_NAMES } from './kinds.js'
import { BINDING_KINDS, emptyRows, type PageData } from './page-format.js'
import { Names, NO_ROW } from './table.js'
import type { Trace } from './trace.js'
import { nodeTracks } from './tracks.js'

export function pageData(trace: Trace, analysis: Analysis, title: string): PageData {
  const { length, lanes, laneNames, deviceNames, calibrations } = trace
  const { tracks, width } = nodeTracks(trace)
  const [names, nameOf] = numbered(trace.name)
  const [sites, siteOf] = numbered(trace.site)
  const rows = emptyRows(length)
  rows.kind.set(trace.kind)
  rows.lane.set(trace.lane)
  rows.name.set(nameOf)
  rows.parent.set(trace.parent)
  rows.cause.set(trace.cause)
  rows.site.set(siteOf)
  rows.bytes.set(trace.bytes)
  rows.track.set(tracks)
  rows.foreign.set(trace.foreign)
  for (const name of ['called', 'returned', 'start', 'end'] as const) {
    for (let row = 0; row < length; row += 1) rows[name][row] = Math.round(trace[name][row] ?? 0)
  }
  rows.heldUpBy.fill(NO_ROW)
  for (let row = 0; row < length; row += 1) {
    if (trace.parent[row] !== NO_ROW || Number.isNaN(trace.start[row] ?? 0)) continue
    const binding = analysis.bindings.of(row)
    rows.why[row] = BINDING_KINDS.indexOf(binding.kind)
    rows.heldUpBy[row] = binding.row
  }
  for (const row of analysis.criticalPath) rows.critical[row] = 1
  rows.gapBegin.fill(Number.NaN)
  const holdUps = analysis.summary.holdUps.map(({ gaps, ...holdUp }, place) => {
    for (const index of gaps) {
      const gap = analysis.gaps[index]
      if (gap === undefined) continue
      rows.heldUp[gap.next] = place + 1
      rows.gapBegin[gap.next] = Math.round(gap.begin)
    }
    return holdUp
  })
  return {
    title,
    driver: trace.driver,
    clock: trace.clock,
    duration: trace.duration,
    dropped: trace.dropped,
    uncertainty: Math.max(0, ...calibrations.flatMap((one) => one.uncertainty.filter((value) => !Number.isNaN(value)))),
    kinds: KIND_NAMES.map((name) => name ?? ''),
    devices: [...deviceNames],
    lanes: lanes.map(({ index, device, id, priority, nonBlocking }) => {
      const name = laneNames[index] ?? ''
      return { name, device, id: String(id), priority, nonBlocking, nodeTracks: width[index] ?? 0 }
    }),
    names,
    sites,
    streams: analysis.summary.streams,
    overlaps: analysis.summary.devices,
    holdUps,
    length,
    ...rows,
  }
}

function numbered(texts: readonly string[]): [names: string[], numbers: Uint32Array] {
  const names = new Names()
  const numbers = Uint32Array.from(texts, (text) => names.of(text))
  return [names.all(), numbers]
}
