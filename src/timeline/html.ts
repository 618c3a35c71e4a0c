/** The page: a template, and the data in it. */
import type { Analysis } from './analysis.js'
import { KIND_NAMES } from './kinds.js'
import type { PageData } from './page-format.js'
import { TEMPLATE } from './page-template.js'
import { Names, NO_ROW } from './table.js'
import type { Trace } from './trace.js'
import { nodeTracks } from './tracks.js'

const DATA = '"DATA"'
const TITLE = '{{title}}'
/** More gaps are too many to look at. */
const MOST_GAPS = 500
const BINDING_KINDS = ['unknown', 'stream', 'wait', 'nullStream', 'host', 'eventLoop', 'engine'] as const

export function toHtml(trace: Trace, analysis: Analysis, title: string): string {
  // Nothing in the data may end the element that it stands in.
  const data = JSON.stringify(pageData(trace, analysis, title)).replaceAll('<', '\\u003c')
  return TEMPLATE.replaceAll(TITLE, () => escaped(title)).replace(DATA, () => data)
}

export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

/** The columns as bytes in base64, and the texts beside them. */
function pageData(trace: Trace, analysis: Analysis, title: string): PageData {
  const { length, lanes, laneNames, deviceNames, calibrations } = trace
  const { tracks, width } = nodeTracks(trace)
  const [names, nameOf] = numbered(trace.name)
  const [sites, siteOf] = numbered(trace.site)
  const why = new Uint8Array(length)
  const heldUpBy = new Int32Array(length).fill(NO_ROW)
  for (let row = 0; row < length; row += 1) {
    if (trace.parent[row] !== NO_ROW || Number.isNaN(trace.start[row] ?? 0)) continue
    const binding = analysis.bindings.of(row)
    why[row] = BINDING_KINDS.indexOf(binding.kind)
    heldUpBy[row] = binding.row
  }
  return {
    title,
    driver: trace.driver,
    clock: trace.clock,
    duration: trace.duration,
    dropped: trace.dropped,
    uncertainty: Math.max(0, ...calibrations.flatMap((one) => one.uncertainty.filter((value) => !Number.isNaN(value)))),
    kinds: KIND_NAMES.map((name) => name ?? ''),
    bindings: BINDING_KINDS,
    devices: [...deviceNames],
    lanes: lanes.map(({ index, device, id, priority, nonBlocking }) => {
      const name = laneNames[index] ?? ''
      return { name, device, id: String(id), priority, nonBlocking, nodeTracks: width[index] ?? 0 }
    }),
    names,
    sites,
    length,
    columns: {
      kind: base64(trace.kind),
      lane: base64(trace.lane),
      name: base64(nameOf),
      bytes: base64(trace.bytes),
      called: base64(trace.called),
      returned: base64(trace.returned),
      start: base64(trace.start),
      end: base64(trace.end),
      cause: base64(trace.cause),
      parent: base64(trace.parent),
      site: base64(siteOf),
      track: base64(tracks),
      why: base64(why),
      heldUpBy: base64(heldUpBy),
      path: base64(Int32Array.from(analysis.criticalPath)),
    },
    gaps: analysis.gaps.slice(0, MOST_GAPS),
    gapCount: analysis.gaps.length,
    gapTime: analysis.gaps.reduce((sum, gap) => sum + gap.end - gap.begin, 0),
  }
}

function numbered(texts: readonly string[]): [names: string[], numbers: Uint32Array] {
  const names = new Names()
  const numbers = Uint32Array.from(texts, (text) => names.of(text))
  return [names.all(), numbers]
}

const base64 = (column: ArrayBufferView): string =>
  Buffer.from(column.buffer, column.byteOffset, column.byteLength).toString('base64')
