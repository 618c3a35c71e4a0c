/** What the page gets: the columns as bytes in base64, and the texts beside them. */
import type { Analysis } from './analysis.js'
import { Bindings } from './bindings.js'
import { KIND_NAMES } from './kinds.js'
import type { Recorded } from './recorded.js'
import { Names, NO_ROW } from './table.js'
import { nodeTracks } from './tracks.js'

/** The page lists no more gaps than anybody looks at. */
const MOST_GAPS = 500

const BINDING_KINDS = ['unknown', 'stream', 'wait', 'nullStream', 'host', 'eventLoop', 'engine'] as const

export interface PageData {
  readonly title: string
  readonly driver: string
  readonly clock: string
  readonly duration: number
  readonly dropped: number
  /** Nanoseconds by which times may be off; 0 where they are exact. */
  readonly uncertainty: number
  readonly kinds: readonly string[]
  readonly bindings: readonly string[]
  readonly devices: readonly (readonly [number, string])[]
  readonly lanes: readonly {
    readonly name: string
    readonly device: number
    readonly id: string
    readonly priority: number
    readonly nonBlocking: boolean
    readonly nodeTracks: number
  }[]
  readonly names: readonly string[]
  readonly sites: readonly string[]
  readonly length: number
  /** Typed arrays, little-endian, in base64. */
  readonly columns: Readonly<Record<PageColumn, string>>
  /** The longest; of all there are so many, of so many nanoseconds together. */
  readonly gaps: Analysis['gaps']
  readonly gapCount: number
  readonly gapTime: number
}

export type PageColumn =
  | 'kind'
  | 'lane'
  | 'name'
  | 'bytes'
  | 'called'
  | 'returned'
  | 'start'
  | 'end'
  | 'cause'
  | 'parent'
  | 'site'
  | 'track'
  | 'why'
  | 'heldUpBy'
  | 'path'

export function pageData(recorded: Recorded, analysis: Analysis, title: string): PageData {
  const { length, lanes, laneNames, deviceNames, calibrations } = recorded
  const { tracks, width } = nodeTracks(recorded)
  const [names, nameOf] = numbered(recorded.name)
  const [sites, siteOf] = numbered(recorded.site)
  const bindings = new Bindings(recorded)
  const why = new Uint8Array(length)
  const heldUpBy = new Int32Array(length).fill(NO_ROW)
  for (let row = 0; row < length; row += 1) {
    if (recorded.parent[row] !== NO_ROW || Number.isNaN(recorded.start[row] ?? 0)) continue
    const binding = bindings.of(row)
    why[row] = BINDING_KINDS.indexOf(binding.kind)
    heldUpBy[row] = binding.row
  }
  return {
    title,
    driver: recorded.driver,
    clock: recorded.clock,
    duration: recorded.duration,
    dropped: recorded.dropped,
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
      kind: base64(recorded.kind),
      lane: base64(recorded.lane),
      name: base64(nameOf),
      bytes: base64(recorded.bytes),
      called: base64(recorded.called),
      returned: base64(recorded.returned),
      start: base64(recorded.start),
      end: base64(recorded.end),
      cause: base64(recorded.cause),
      parent: base64(recorded.parent),
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
