/**
 * What each actor did last, in a file that the watchdog reads: it stays readable when the process is blocked, killed or
 * crashed. Each actor has a lane of a few slots, which it writes in turn.
 */
import { openSync, readFileSync, writeSync } from 'node:fs'

/** Lanes that each thread has: its actors, and what watches and shares. */
export const LANES = 8
const SLOTS = 6
const SLOT_BYTES = 120
const LANE_BYTES = SLOTS * SLOT_BYTES
const OVER = 'is over'

export interface LaneState {
  readonly lane: number
  /** How many actions it has begun. */
  readonly count: number
  readonly over: boolean
  /** The latest last. */
  readonly latest: readonly string[]
}

export class Trace {
  readonly #file: number
  readonly #thread: number
  readonly #lanes = new Map<number, TraceLane>()

  constructor(path: string, thread: number) {
    this.#file = openSync(path, 'r+')
    this.#thread = thread
  }

  lane(index: number): TraceLane {
    const known = this.#lanes.get(index)
    if (known !== undefined) return known
    const lane = new TraceLane(this.#file, this.#thread * LANES + index)
    this.#lanes.set(index, lane)
    return lane
  }
}

export class TraceLane {
  /** How many actions it has begun. */
  count = 0
  /** The latest. */
  last = ''
  readonly #file: number
  readonly #at: number

  constructor(file: number, lane: number) {
    this.#file = file
    this.#at = lane * LANE_BYTES
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

/** What stands in a file of traces: of each lane that has begun. */
export function readTrace(path: string): LaneState[] {
  const text = readFileSync(path, 'latin1')
  const lanes: LaneState[] = []
  for (let lane = 0; lane * LANE_BYTES < text.length; lane += 1) {
    const slots = Array.from({ length: SLOTS }, (_, slot) => {
      const from = lane * LANE_BYTES + slot * SLOT_BYTES
      const [, count, what] = /^(\d+) (.*)$/.exec(text.slice(from, from + SLOT_BYTES - 1).trimEnd()) ?? []
      return { count: Number(count ?? 0), what: what ?? '' }
    })
    const noted = slots.filter(({ count }) => count > 0).sort((a, b) => a.count - b.count)
    const last = noted.at(-1)
    if (last === undefined) continue
    lanes.push({ lane, count: last.count, over: last.what === OVER, latest: noted.map(({ what }) => what) })
  }
  return lanes
}

/** Whose lane it is, for a person to read. */
export function laneName(lane: number): string {
  const [thread, index] = [Math.floor(lane / LANES), lane % LANES]
  return `${thread === 0 ? 'the main thread' : `worker ${thread}`}, actor ${index}`
}
