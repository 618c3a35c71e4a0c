/**
 * Writes the times of operations, once they are known: on a GPU by events, on the simulator in virtual time, as timelines have them. The event
 * records that this takes are dropped again and again, so that the memory for them is bounded.
 */
import type { EventRecords } from '../timeline/event-records.js'
import type { EventWriter } from '../timeline/event-writer.js'
import { EventKind, isTimed } from '../timeline/kinds.js'
import type { TimelineInterceptor } from '../timeline/timeline-interceptor.js'
import type { Journal } from './journal.js'

/** The rows of one table. */
const ROWS = 65_536
/** The number of tables that wait for their work. The rest of the oldest one is dropped, and its work has no times. */
const MOST_WAITING = 8
const NO_CALL = -1
const NO_ROW = -1

/** A table, and the calls that its rows belong to. */
class Part {
  readonly calls: number[] = []
  /** The first row that has not been written. */
  done = 0

  constructor(
    readonly writer: EventWriter,
    /** The time at which the table's clock began, by the recording's clock. */
    readonly began: number,
  ) {}
}

export class Durations {
  #latest: Part
  /** The tables that wait for their work, the oldest first. */
  #waiting: Part[] = []
  /** The first row of the call under way, or NO_ROW. */
  #row = NO_ROW
  readonly now: () => number

  constructor(
    private readonly timing: TimelineInterceptor,
    private readonly journal: Journal,
  ) {
    const { meter } = timing.writer
    const began = meter.now()
    this.now = () => meter.now() - began
    this.#latest = this.#begin()
  }

  /** Notes that a call begins. */
  begin(): void {
    this.#row = NO_ROW
  }

  /** Notes the number of the call that has ended. */
  end(call: number): void {
    const { calls } = this.#latest
    if (this.#row === NO_ROW) return
    while (calls.length <= this.#row) calls.push(NO_CALL)
    calls[this.#row] = call
    this.#row = NO_ROW
  }

  get isFull(): boolean {
    return this.#latest.writer.table.length >= ROWS
  }

  /** Begins another table, as this one is full. Must not be called during a capture. */
  renew(): void {
    this.#waiting.push(this.#latest)
    this.#latest.writer.meter.stop()
    this.timing.restart()
    this.#latest = this.#begin()
    while (this.#waiting.length > MOST_WAITING) this.#end(this.#waiting.shift())
  }

  /** Writes the times that are known by now. */
  collect(): void {
    while (this.#waiting[0] !== undefined && this.#write(this.#waiting[0])) this.#end(this.#waiting.shift())
    if (this.#waiting.length === 0) this.#write(this.#latest)
  }

  /** Resolves when all work is done that was recorded. */
  async finished(): Promise<void> {
    for (const { writer } of [...this.#waiting, this.#latest]) await writer.meter.finished()
  }

  close(): void {
    for (const part of [...this.#waiting, this.#latest]) {
      part.writer.meter.stop()
      this.#end(part)
    }
  }

  #begin(): Part {
    const { writer } = this.timing
    const part = new Part(writer, this.now() - writer.meter.now())
    writer.table.limit = Number.POSITIVE_INFINITY
    writer.table.whenAdded = [
      (row) => {
        if (this.#row === NO_ROW) this.#row = row
      },
    ]
    return part
  }

  #end(part: Part | undefined): void {
    if (part === undefined) return
    this.#write(part)
    const { meter, table } = part.writer
    meter.close()
    this.#writeRows(part, part.done, table.length)
    part.done = table.length
  }

  /** Writes the rows up to the first that still runs. Returns true if there is none. */
  #write(part: Part): boolean {
    const { table, meter } = part.writer
    meter.collect()
    const from = part.done
    let to = from
    while (to < table.length && isKnown(table, to)) to += 1
    part.done = to
    this.#writeRows(part, from, to)
    return to === table.length
  }

  #writeRows(part: Part, from: number, to: number): void {
    this.journal.times(timesOf(part, from, to))
  }
}

/** The calls of rows with the times of their work, as far as these are known. */
function* timesOf({ calls, writer, began }: Part, from: number, to: number): Generator<[number, number, number]> {
  const { kind, start, end } = writer.table
  for (let row = from; row < to; row += 1) {
    const call = calls[row] ?? NO_CALL
    if (call === NO_CALL || !isTimed(kind[row] ?? 0)) continue
    const [first, last] = [(start[row] ?? 0) + began, (end[row] ?? 0) + began]
    if (!Number.isNaN(first) && !Number.isNaN(last)) yield [call, first, last]
  }
}

/** Whether a row's work has ended, takes no time, or was lost. */
const isKnown = ({ kind, end, lost }: EventRecords, row: number): boolean =>
  kind[row] === EventKind.NONE || !isTimed(kind[row] ?? 0) || !Number.isNaN(end[row] ?? 0) || lost.has(row)
