/** Which row is under the pointer, and which row stands next to another. */
import { countUpTo } from '../bars.js'
import { NULL_STREAM } from '../colours.js'
import { type Data, timeOf } from './data.js'
import { barOf, type PageLayout, type Track } from './layout.js'
import type { View } from './view.js'

/** Pixels by which a mark or a narrow bar may be missed. */
const NEAR = 4

export interface Picked {
  readonly row: number
  /** What holds the row up, not the row itself. */
  readonly isHeldUp: boolean
}
export const NOTHING: Picked = { row: -1, isHeldUp: false }

/** The bar or mark that is meant there. */
export function pick(layout: PageLayout, view: View, x: number, y: number): Picked {
  const at = y + view.scroll
  const track = layout.tracks.find((one) => at >= one.y && at < one.y + one.height + 5)
  if (track === undefined) return NOTHING
  const time = view.timeAt(x)
  const near = NEAR * view.perPixel
  const bar = (index: number): Picked => {
    return { row: track.rows[index] ?? -1, isHeldUp: track.colour[index] === NULL_STREAM }
  }
  const mark = nearest(track.markAt, time, near)
  if (mark >= 0 && at > track.y + track.height - 6) return { row: track.marks[mark] ?? -1, isHeldUp: false }
  const after = countUpTo(track.begin, time)
  if (after > 0 && (track.end[after - 1] ?? 0) >= time - near) return bar(after - 1)
  if ((track.begin[after] ?? Number.POSITIVE_INFINITY) <= time + near) return bar(after)
  return { row: track.marks[mark] ?? -1, isHeldUp: false }
}

function nearest(times: Float64Array, time: number, near: number): number {
  const after = countUpTo(times, time)
  const before = Math.abs((times[after - 1] ?? Number.NEGATIVE_INFINITY) - time)
  const behind = Math.abs((times[after] ?? Number.POSITIVE_INFINITY) - time)
  if (Math.min(before, behind) > near) return -1
  return before <= behind ? after - 1 : after
}

/** The track that a row is drawn on. */
export function trackOf(data: Data, layout: PageLayout, row: number): Track | undefined {
  if (row < 0) return undefined
  const isOn = (track: Track): boolean => barOf(track, row, data) >= 0 || track.marks.includes(row)
  const own = layout.ofLane.get(data.lane[row] ?? -1)
  if (own !== undefined && isOn(own)) return own
  return layout.tracks.find((track) => track.kind !== 'calls' && isOn(track)) ?? layout.tracks.find(isOn)
}

/** The bar so many places further on the same track. */
export function neighbour(data: Data, track: Track, row: number, step: number): number {
  const at = barOf(track, row, data)
  if (at >= 0) {
    let next = at + step
    while (track.colour[next] === NULL_STREAM) next += step
    return track.rows[next] ?? row
  }
  const after = countUpTo(track.begin, timeOf(data, row))
  return track.rows[step > 0 ? after : after - 1] ?? row
}

/** The bar at about the same time on the next track above or below that has any. */
export function beside(data: Data, layout: PageLayout, row: number, step: number): number {
  const { tracks } = layout
  const track = trackOf(data, layout, row)
  let at = track === undefined ? -1 : tracks.indexOf(track)
  do at += step
  while (at >= 0 && at < tracks.length && tracks[at]?.rows.length === 0)
  const next = tracks[at]
  if (next === undefined) return row
  return next.rows[Math.max(0, countUpTo(next.begin, timeOf(data, row)) - 1)] ?? row
}
