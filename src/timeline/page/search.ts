/** Finds operations by their name, kind or stream. */
import { type Data, placeOf, timeOf, wholeDeviceOf } from './data.js'
import type { Track } from './layout.js'

export interface SearchResult {
  readonly rows: Int32Array
  readonly matches: Uint8Array
  readonly matchesBefore: ReadonlyMap<Track, Int32Array>
}

/** Nothing where the text is empty. Several words are all to be found. */
export function find(data: Data, tracks: readonly Track[], text: string): SearchResult | undefined {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return undefined
  const lower = data.names.map((name) => name.toLowerCase())
  const kinds = data.kinds.map((name) => name.toLowerCase())
  const matches = new Uint8Array(data.length)
  const rows: number[] = []
  const ofLane = new Map<number, string>()
  const place = (row: number): string => {
    if (wholeDeviceOf(data, row) !== undefined) return placeOf(data, row)
    const lane = data.lane[row] ?? 0
    if (!ofLane.has(lane)) ofLane.set(lane, placeOf(data, row).toLowerCase())
    return ofLane.get(lane) ?? ''
  }
  for (let row = 0; row < data.length; row += 1) {
    const name = lower[data.name[row] ?? 0] ?? ''
    const kind = kinds[data.kind[row] ?? 0] ?? ''
    if (!words.every((word) => name.includes(word) || kind.includes(word) || place(row).includes(word))) continue
    matches[row] = 1
    rows.push(row)
  }
  rows.sort((a, b) => timeOf(data, a) - timeOf(data, b))
  const matchesBefore = new Map<Track, Int32Array>()
  for (const track of tracks) {
    const before = new Int32Array(track.rows.length + 1)
    for (const [at, row] of track.rows.entries()) before[at + 1] = (before[at] ?? 0) + (matches[row] ?? 0)
    matchesBefore.set(track, before)
  }
  return { rows: Int32Array.from(rows), matches, matchesBefore }
}
