/** Which row is under the pointer, and which row stands next to another. */
import type { Data } from './data.js'
import { countUpTo, type PageLayout, type Track } from './layout.js'
import type { View } from './view.js'

/** Pixels by which a mark or a narrow bar may be missed. */
const NEAR = 4

/** The row of the bar or mark that is meant there; -1 where there is none. */
export function pick(layout: PageLayout, view: View, x: number, y: number): number {
  const at = y + view.scroll
  const track = layout.tracks.find((one) => at >= one.y && at < one.y + one.height + 5)
  if (track === undefined) return -1
  const time = view.timeAt(x)
  const near = NEAR * view.perPixel
  if (at > track.y + track.height - 6) {
    const mark = nearest(track.markAt, time, near)
    if (mark >= 0) return track.marks[mark] ?? -1
  }
  const after = countUpTo(track.begin, time)
  if (after > 0 && (track.end[after - 1] ?? 0) >= time - near) return track.rows[after - 1] ?? -1
  if ((track.begin[after] ?? Number.POSITIVE_INFINITY) <= time + near) return track.rows[after] ?? -1
  return track.marks[nearest(track.markAt, time, near)] ?? -1
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
  const isOn = (track: Track): boolean => track.rows.includes(row) || track.marks.includes(row)
  const own = layout.ofLane.get(data.lane[row] ?? -1)
  if (own !== undefined && isOn(own)) return own
  return layout.tracks.find((track) => track.kind !== 'calls' && isOn(track)) ?? layout.tracks.find(isOn)
}

/** The bar so many places further on the same track. */
export function neighbour(track: Track, row: number, step: number): number {
  const at = track.rows.indexOf(row)
  if (at >= 0) return track.rows[at + step] ?? row
  const mark = track.marks.indexOf(row)
  const time = track.markAt[mark] ?? 0
  const after = countUpTo(track.begin, time)
  return track.rows[step > 0 ? after : after - 1] ?? row
}
