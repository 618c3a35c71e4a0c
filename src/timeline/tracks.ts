/** Where the nodes of graphs are drawn: they run beside each other in one stream, so each stream has tracks for them. */

import { NO_ROW } from './table.js'
import type { Trace } from './trace.js'

export interface NodeTracks {
  /** For each row 0, the stream's own track, or the number of a track below it. */
  readonly tracks: Uint32Array
  /** How many tracks for nodes each lane needs. */
  readonly width: readonly number[]
}

export function nodeTracks({ length, parent, lane, start, end, lanes }: Trace): NodeTracks {
  const tracks = new Uint32Array(length)
  /** Until when each track of each lane is taken. */
  const taken = lanes.map((): number[] => [])
  const nodes: number[] = []
  for (let row = 0; row < length; row += 1) if (parent[row] !== NO_ROW) nodes.push(row)
  nodes.sort((a, b) => (start[a] ?? 0) - (start[b] ?? 0))
  for (const row of nodes) {
    const until = taken[lane[row] ?? 0] ?? []
    const from = start[row] ?? Number.NaN
    if (Number.isNaN(from)) continue
    const free = until.findIndex((time) => time <= from)
    const track = free < 0 ? until.length : free
    until[track] = end[row] ?? Number.POSITIVE_INFINITY
    tracks[row] = track + 1
  }
  return { tracks, width: taken.map((until) => until.length) }
}
