/**
 * What each client did last, in a file that the watchdog reads: it stays readable when the process is blocked, killed or
 * crashed. Each client has a track of a few slots, which it writes in turn.
 */
import { openSync, readFileSync, writeSync } from 'node:fs'

/** Tracks that each thread has: its clients, and what watches and shares. */
const TRACKS = 8
const SLOTS = 6
const SLOT_BYTES = 120
const TRACK_BYTES = SLOTS * SLOT_BYTES
const OVER = 'is over'

export interface TrackState {
  readonly track: number
  /** How many actions it has begun. */
  readonly count: number
  readonly over: boolean
  /** The latest last. */
  readonly latest: readonly string[]
}

export class Trace {
  readonly #file: number
  readonly #thread: number
  readonly #tracks = new Map<number, TraceTrack>()

  constructor(path: string, thread: number) {
    this.#file = openSync(path, 'r+')
    this.#thread = thread
  }

  track(index: number): TraceTrack {
    const known = this.#tracks.get(index)
    if (known !== undefined) return known
    const track = new TraceTrack(this.#file, this.#thread * TRACKS + index)
    this.#tracks.set(index, track)
    return track
  }
}

export class TraceTrack {
  /** How many actions it has begun. */
  count = 0
  /** The latest. */
  last = ''
  readonly #file: number
  readonly #at: number

  constructor(file: number, track: number) {
    this.#file = file
    this.#at = track * TRACK_BYTES
  }

  note(text: string): void {
    this.count += 1
    this.last = text
    const line = `${this.count} ${text}`.slice(0, SLOT_BYTES - 1).padEnd(SLOT_BYTES - 1)
    writeSync(this.#file, `${line}\n`, this.#at + (this.count % SLOTS) * SLOT_BYTES, 'latin1')
  }

  over(): void {
    this.note(OVER)
  }
}

/** What stands in a file of traces: of each track that has begun. */
export function readTrace(path: string): TrackState[] {
  const text = readFileSync(path, 'latin1')
  const tracks: TrackState[] = []
  for (let track = 0; track * TRACK_BYTES < text.length; track += 1) {
    const slots = Array.from({ length: SLOTS }, (_, slot) => {
      const from = track * TRACK_BYTES + slot * SLOT_BYTES
      const [, count, what] = /^(\d+) (.*)$/.exec(text.slice(from, from + SLOT_BYTES - 1).trimEnd()) ?? []
      return { count: Number(count ?? 0), what: what ?? '' }
    })
    const noted = slots.filter(({ count }) => count > 0).sort((a, b) => a.count - b.count)
    const last = noted.at(-1)
    if (last === undefined) continue
    tracks.push({ track, count: last.count, over: last.what === OVER, latest: noted.map(({ what }) => what) })
  }
  return tracks
}

/** Whose track it is, for a person to read. */
export function trackName(track: number): string {
  const [thread, index] = [Math.floor(track / TRACKS), track % TRACKS]
  return `${thread === 0 ? 'the main thread' : `worker ${thread}`}, client ${index}`
}
