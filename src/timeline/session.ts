/** A recording under way. All recordings of one driver share a EventWriter; each has its window of the rows. */
import { listen } from '#cupti'
import { whenNameIsGiven } from '../driver/stream-names.js'
import type { WrappableDriver } from '../driver/wrappable-driver.js'
import type { ForeignWork } from './cupti/foreign-work.js'
import type { EventWriter } from './event-writer.js'
import { TimelineInterceptor } from './timeline-interceptor.js'
import { type Trace, type TraceWindow, takeTrace } from './trace.js'

/** So many rows, unless the program says otherwise. */
export const DEFAULT_LIMIT = 1_000_000

interface Shared {
  readonly writer: EventWriter
  readonly unwrap: () => void
  /** Recordings that go on: after the last one nothing more is written down. */
  running: number
  /** Recordings whose rows were not taken yet; they may wait for recorded work. After the last one nothing is timed. */
  open: number
}

const underWay = new WeakMap<WrappableDriver, Shared>()

whenNameIsGiven(({ driver, device, id, name }) => underWay.get(driver)?.writer.tracks.named(device, id, name))

export class Session {
  readonly writer: EventWriter
  stopped = false
  readonly #shared: Shared
  readonly #foreign: ForeignWork | undefined
  readonly #from: number
  readonly #begin: number
  readonly #droppedBefore: number
  readonly #epoch = Date.now() * 1e6

  /**
   * `device` is one that will be used, where one is known; `limit` the most rows that are written. With `everything`, the
   * work of other code is among them.
   */
  constructor(
    private readonly driver: WrappableDriver,
    device: number | undefined,
    private readonly limit = DEFAULT_LIMIT,
    callSites = false,
    everything = false,
  ) {
    // On the simulator all work is this library's.
    const cupti = everything && driver.name === 'cuda' ? listen(limit) : undefined
    try {
      this.#shared = share(driver, device)
    } catch (error) {
      cupti?.close()
      throw error
    }
    const { writer } = this.#shared
    this.#foreign = cupti?.join(writer, device ?? 0)
    this.writer = writer
    const { table } = writer
    this.#from = table.length
    this.#begin = writer.meter.now()
    this.#droppedBefore = table.dropped
    table.limit = Math.max(table.limit, this.#from + limit)
    if (callSites) writer.callSites = true
  }

  /** Ends it, and resolves when all that was recorded is done. */
  async stop(): Promise<Trace> {
    const window = this.#end()
    await this.writer.meter.finished()
    await this.#foreign?.finished()
    return this.#take(window)
  }

  /** Ends it as things stand: an operation that is not done yet has no end. */
  stopNow(): Trace {
    return this.#take(this.#end())
  }

  #end(): TraceWindow {
    this.stopped = true
    const { table, meter } = this.writer
    const window = {
      from: this.#from,
      to: table.length,
      limit: this.limit,
      dropped: table.dropped - this.#droppedBefore,
      begin: this.#begin,
      end: meter.now(),
      epoch: this.#epoch,
    }
    this.#shared.running -= 1
    if (this.#shared.running === 0) {
      this.#shared.unwrap()
      meter.stop()
      underWay.delete(this.driver)
    }
    return window
  }

  #take(window: TraceWindow): Trace {
    const { writer } = this
    writer.meter.collect()
    this.#shared.open -= 1
    if (this.#shared.open === 0) writer.meter.close()
    if (this.#foreign === undefined) return takeTrace(writer, window)
    const { rows, dropped } = this.#foreign.takeRows(window)
    return takeTrace(writer, { ...window, from: 0, to: rows.length, dropped: window.dropped + dropped }, rows)
  }
}

function share(driver: WrappableDriver, device: number | undefined): Shared {
  const known = underWay.get(driver)
  if (known !== undefined) {
    known.running += 1
    known.open += 1
    return known
  }
  const { wrapper, unwrap } = driver.wrap((inner) => new TimelineInterceptor(inner, device))
  const shared = { writer: wrapper.writer, unwrap, running: 1, open: 1 }
  underWay.set(driver, shared)
  return shared
}
