/** A recording under way. All recordings of one driver share what writes the rows down; each has its window of them. */
import type { Front } from '../driver/front.js'
import { laneName } from './lane-names.js'
import { type Recorded, takeRecorded } from './recorded.js'
import type { Recorder } from './recorder.js'
import { RecordingDriver } from './recording-driver.js'

export interface RecordingSettings {
  /** A device that will be used; undefined where none is known. */
  readonly device: number | undefined
  /** Most rows that are written. */
  readonly limit: number
  readonly callSites: boolean
}

/** So many rows, where nobody says otherwise. */
export const DEFAULT_LIMIT = 1_000_000

interface Shared {
  readonly recorder: Recorder
  readonly unwrap: () => void
  users: number
}

const underWay = new WeakMap<Front, Shared>()

export class Recording {
  readonly recorder: Recorder
  readonly #front: Front
  readonly #shared: Shared
  readonly #from: number
  readonly #begin: number
  readonly #droppedBefore: number
  readonly #epoch = Date.now() * 1e6
  #stopped = false

  constructor(front: Front, { device, limit, callSites }: RecordingSettings) {
    this.#front = front
    this.#shared = share(front, device)
    const { recorder } = this.#shared
    this.recorder = recorder
    this.#from = recorder.table.length
    this.#begin = recorder.meter.now()
    this.#droppedBefore = recorder.dropped
    recorder.limit = Math.max(recorder.limit, this.#from + limit)
    if (callSites) recorder.callSites = true
  }

  get stopped(): boolean {
    return this.#stopped
  }

  /** Ends it, and resolves when all that was recorded is done. */
  async stop(): Promise<Recorded> {
    const { window, isLast } = this.#end()
    const { meter } = this.recorder
    await meter.finished()
    return this.#take(window, isLast)
  }

  /** Ends it as things stand: what is not done yet has no end. */
  stopNow(): Recorded {
    const { window, isLast } = this.#end()
    return this.#take(window, isLast)
  }

  #end(): { readonly window: { from: number; to: number; begin: number; end: number }; readonly isLast: boolean } {
    this.#stopped = true
    const { recorder, unwrap } = this.#shared
    const { table, meter } = recorder
    const window = { from: this.#from, to: table.length, begin: this.#begin, end: meter.now() }
    this.#shared.users -= 1
    const isLast = this.#shared.users === 0
    if (isLast) {
      unwrap()
      underWay.delete(this.#front)
    }
    return { window, isLast }
  }

  #take(window: { from: number; to: number; begin: number; end: number }, isLast: boolean): Recorded {
    const { recorder } = this
    recorder.meter.collect()
    if (isLast) recorder.meter.close()
    const dropped = recorder.dropped - this.#droppedBefore
    const names = recorder.lanes.all.map((lane) => laneName(this.#front, lane))
    return takeRecorded(recorder, { ...window, epoch: this.#epoch, dropped }, names)
  }
}

function share(front: Front, device: number | undefined): Shared {
  const known = underWay.get(front)
  if (known !== undefined) {
    known.users += 1
    return known
  }
  const { wrapper, unwrap } = front.wrap((inner) => new RecordingDriver(inner, device))
  const shared = { recorder: wrapper.recorder, unwrap, users: 1 }
  underWay.set(front, shared)
  return shared
}
