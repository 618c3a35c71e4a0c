/** A recording under way. All recordings of one driver share what writes the rows down; each has its window of them. */

import { whenNameIsGiven } from '../driver/stream-names.js'
import type { WrappableDriver } from '../driver/wrappable-driver.js'
import type { RowWriter } from './row-writer.js'
import { TimelineDriver } from './timeline-driver.js'
import { type Trace, takeTrace, type Window } from './trace.js'

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
  readonly writer: RowWriter
  readonly unwrap: () => void
  /** Recordings that go on: after the last one nothing more is written down. */
  running: number
  /** Recordings whose rows were not taken yet; they may wait for what was recorded. After the last one nothing is timed. */
  open: number
}

const underWay = new WeakMap<WrappableDriver, Shared>()

whenNameIsGiven(({ driver, device, id, name }) => underWay.get(driver)?.writer.lanes.named(device, id, name))

export class Session {
  readonly writer: RowWriter
  readonly #front: WrappableDriver
  readonly #shared: Shared
  readonly #from: number
  readonly #limit: number
  readonly #begin: number
  readonly #droppedBefore: number
  readonly #epoch = Date.now() * 1e6
  #stopped = false

  constructor(front: WrappableDriver, { device, limit, callSites }: RecordingSettings) {
    this.#front = front
    this.#shared = share(front, device)
    const { writer } = this.#shared
    this.writer = writer
    const { table } = writer
    this.#from = table.length
    this.#begin = writer.meter.now()
    this.#limit = limit
    this.#droppedBefore = table.dropped
    table.limit = Math.max(table.limit, this.#from + limit)
    if (callSites) writer.callSites = true
  }

  get stopped(): boolean {
    return this.#stopped
  }

  /** Ends it, and resolves when all that was recorded is done. */
  async stop(): Promise<Trace> {
    const window = this.#end()
    await this.writer.meter.finished()
    return this.#take(window)
  }

  /** Ends it as things stand: what is not done yet has no end. */
  stopNow(): Trace {
    return this.#take(this.#end())
  }

  #end(): Window {
    this.#stopped = true
    const { writer, unwrap } = this.#shared
    const { table, meter } = writer
    const window = {
      from: this.#from,
      to: table.length,
      limit: this.#limit,
      dropped: table.dropped - this.#droppedBefore,
      begin: this.#begin,
      end: meter.now(),
      epoch: this.#epoch,
    }
    this.#shared.running -= 1
    if (this.#shared.running === 0) {
      unwrap()
      meter.stop()
      underWay.delete(this.#front)
    }
    return window
  }

  #take(window: Window): Trace {
    const { writer } = this
    writer.meter.collect()
    this.#shared.open -= 1
    if (this.#shared.open === 0) writer.meter.close()
    const names = writer.lanes.all.map(({ name }) => name)
    return takeTrace(writer, window, names)
  }
}

function share(front: WrappableDriver, device: number | undefined): Shared {
  const known = underWay.get(front)
  if (known !== undefined) {
    known.running += 1
    known.open += 1
    return known
  }
  const { wrapper, unwrap } = front.wrap((inner) => new TimelineDriver(inner, device))
  const shared = { writer: wrapper.writer, unwrap, running: 1, open: 1 }
  underWay.set(front, shared)
  return shared
}
