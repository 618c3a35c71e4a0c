/** A recording under way. All recordings of one driver share an EventWriter, and each has a window of its event records. */

import { whenNameIsGiven } from '../../core/stream-names.js'
import { monotonicTime, timeOrigin } from '../../foundation/base/event-loop.js'
import type { WrappableDriver } from '../../foundation/driver/wrappable-driver.js'
import type { ForeignWork } from './cupti/foreign-work.js'
import { listen } from './cupti/listen.js'
import type { EventWriter } from './event-writer.js'
import { TimelineInterceptor } from './timeline-interceptor.js'
import { PREDICTED_ROWS, type Trace, type TraceWindow, takeTrace } from './trace.js'

/** The most event records, unless the program says otherwise. */
export const DEFAULT_LIMIT = 1_000_000

interface Shared {
  readonly writer: EventWriter
  readonly unwrap: () => void
  /** The number of recordings under way. After the last one nothing more is recorded. */
  running: number
  /** The number of recordings that have not taken their event records yet, since they wait for recorded work. After the last one nothing is timed. */
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
  /** The time of the beginning since 1970, to the microsecond: numbers of this size are not more exact. */
  readonly #epoch = Math.round((timeOrigin + monotonicTime()) * 1000) * 1000

  /**
   * @param device A device that will be used, if one is known
   * @param limit The most event records
   * @param everything Whether the work of other code is recorded, too
   * @param profile Whether what kernels do is counted, which only the simulator can
   */
  constructor(
    private readonly driver: WrappableDriver,
    device: number | undefined,
    private readonly limit = DEFAULT_LIMIT,
    callSites = false,
    everything = false,
    profile = false,
  ) {
    // The simulator has no other code, so CUPTI is not needed there.
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
    table.factsUntil = Math.max(table.factsUntil, this.#from + PREDICTED_ROWS)
    if (callSites) writer.callSites = true
    if (profile) writer.meter.countKernels?.()
  }

  /** Ends the recording, and resolves when all recorded operations are complete. */
  async stop(): Promise<Trace> {
    const window = this.#end()
    await this.writer.meter.finished()
    await this.#foreign?.finished()
    return this.#take(window)
  }

  /** Ends the recording at once. An operation that is not complete yet has no end. */
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
