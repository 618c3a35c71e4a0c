/**
 * One recording's share of CUPTI's records: the work of other code, put between the rows of the recording, and exact times for these. Work that was
 * queued on this thread during a call of this library belongs to the library.
 */

import type { Driver } from '../../../foundation/driver/driver.js'
import { own } from '../../../foundation/native/c-functions.js'
import { type EventRecords, firstAfter, NO_ROW } from '../event-records.js'
import type { EventWriter } from '../event-writer.js'
import { EventKind, isTimed } from '../kinds.js'
import type { TraceWindow } from '../trace.js'
import type { Activities, ClockLook } from './activities.js'
import { type Extra, mergedRows, type Times } from './merged-rows.js'
import { StreamNumbers } from './stream-numbers.js'

export class ForeignWork {
  /** The lower half of pthread_self(), by which records identify this thread. */
  readonly #thread = own().threadNumber() % 2 ** 32
  readonly #begin: ClockLook

  /** @param device A device that is in use */
  constructor(
    private readonly activities: Activities,
    private readonly writer: EventWriter,
    private readonly device: number,
  ) {
    this.#begin = this.#look()
  }

  /** Resolves when the devices in use have done what other code has queued by now. */
  async finished(): Promise<void> {
    await Promise.all([...this.#devices()].map((device) => deviceFinished(this.writer.driver, device)))
  }

  /** The rows of a window, and those of other code between them. The recording does not need CUPTI any more. */
  takeRows(window: TraceWindow): { readonly rows: EventRecords; readonly dropped: number } {
    try {
      this.activities.collect()
      return { rows: this.#rows(window), dropped: this.activities.dropped }
    } finally {
      this.activities.close()
    }
  }

  #look(): ClockLook {
    return this.activities.look(() => this.writer.meter.now())
  }

  #devices(): Set<number> {
    return new Set([this.device, ...this.writer.tracks.all.map(({ device }) => device)])
  }

  #rows(window: TraceWindow): EventRecords {
    const { table } = this.writer
    const { calls, activities } = this.activities.records
    const streams = new StreamNumbers(this.activities, this.writer, this.#devices())
    const rowAt = rowFinder(table, window)
    const hostTime = between(this.#begin, this.#look())
    // Operations of other code count only up to the last row, if there was no room for later ones: behind it they cannot be told from the
    // library's own.
    const until = window.dropped > 0 ? (table.called[table.length - 1] ?? 0) : window.end
    const extras: Extra[] = []
    const times = new Map<number, Times>()
    for (const activity of activities) {
      const call = calls.get(activity.correlation)
      const [start, end] = [hostTime(activity.start), hostTime(activity.end)]
      // An operation whose call CUPTI does not record has been called at the time of its beginning.
      const [called, returned] = call === undefined ? [start, start] : [hostTime(call.start), hostTime(call.end)]
      const row = call?.thread === this.#thread ? rowAt((called + returned) / 2) : NO_ROW
      const isNode = table.kind[row] === EventKind.GRAPH
      if (row === NO_ROW) {
        if (called >= window.begin && called <= until)
          extras.push({ activity, called, returned, start, end, parent: row })
      } else if (isNode) {
        const [launched = 0, done = 0] = [table.called[row], table.returned[row]]
        extras.push({ activity, called: launched, returned: done, start, end, parent: row })
      } else streams.learn(activity, table.track[row] ?? 0)
      if (row !== NO_ROW && !Number.isNaN(end)) {
        const { start: first = start, end: last = end } = times.get(row) ?? {}
        times.set(row, { start: Math.min(first, start), end: Math.max(last, end) })
      }
    }
    extras.sort((a, b) => a.called - b.called)
    return mergedRows(this.writer, window, extras, times, (activity) => streams.trackOf(activity))
  }
}

/** Converts times of CUPTI's clock to those of the recording's clock. */
function between(begin: ClockLook, end: ClockLook): (cupti: number) => number {
  const rate = (end.host - begin.host) / (end.cupti - begin.cupti)
  return (cupti) => begin.host + (cupti - begin.cupti) * rate
}

/** Finds the row whose call was under way at a moment. */
function rowFinder({ kind, called, returned }: EventRecords, { from, to }: TraceWindow): (moment: number) => number {
  const rows: number[] = []
  for (let row = from; row < to; row += 1) if (isTimed(kind[row] ?? 0)) rows.push(row)
  const order = Int32Array.from(rows)
  return (moment) => {
    const row = order[firstAfter(order, called, moment) - 1] ?? NO_ROW
    return row !== NO_ROW && moment <= (returned[row] ?? 0) ? row : NO_ROW
  }
}

/** Resolves when the device is done. Errors are ignored, since the driver refuses to answer while a stream of the device captures. */
function deviceFinished(driver: Driver, device: number): Promise<void> {
  return new Promise((resolve) => {
    try {
      driver.devices.finished(device, () => resolve())
    } catch {
      resolve()
    }
  })
}
