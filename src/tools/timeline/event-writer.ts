/** Writes the event records of a driver's calls, for all recordings of that driver that are under way. */
import { callSite } from '../../foundation/base/stack.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { EventHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import { backendOf } from '../../foundation/driver/wrappable-driver.js'
import { EventMeter } from './event-meter.js'
import { EventRecords, type Meter, Names, NO_ROW } from './event-records.js'
import { EventKind, wholeDevice } from './kinds.js'
import { StreamTracks } from './tracks.js'
import { VirtualMeter } from './virtual-meter.js'

/**
 * The time for which calls must have blocked for a call site to be worth taking, by clock. Taking one costs a tenth of a millisecond if that is
 * seldom done. So it is taken for the first few calls that blocked for this long, and again whenever calls have blocked for a hundred times as long
 * since.
 */
const WORTH_A_SITE = { host: 100_000, virtual: 1_000_000 }
const FIRST_SITES = 8
const BLOCKED_PER_SITE = 10_000_000

const nothing = (): void => {}

/** A function that makes the meter of a table's operations, on the streams of these tracks. */
export type MakeMeter = (table: EventRecords, tracks: () => StreamTracks) => Meter

export class EventWriter {
  readonly table = new EventRecords()
  readonly names = new Names()
  readonly sites = new Names()
  readonly tracks: StreamTracks
  readonly meter: Meter
  /** The driver that is recorded. */
  readonly driver: Driver
  callSites = false
  /** The time for which calls have blocked since the last call site was taken. */
  #forSites = FIRST_SITES * BLOCKED_PER_SITE
  /** The row of each event's latest record. */
  readonly #records = new Map<EventHandle, number>()
  /** The latest row of each track. */
  readonly #latest: number[] = []

  constructor(inner: Driver, device: number | undefined, meter?: MakeMeter) {
    // Calls that the recording itself makes must not pass other interceptors.
    const driver = meter === undefined ? backendOf(inner) : inner
    this.driver = driver
    const tracks = (): StreamTracks => this.tracks
    this.meter =
      meter?.(this.table, tracks) ??
      (driver.name === 'sim'
        ? new VirtualMeter(driver, this.table, this.names, tracks)
        : new EventMeter(driver, this.table, tracks, device))
    this.tracks = new StreamTracks(driver, (stream) => this.meter.describe(stream))
  }

  /** Adds an event record before an operation is queued. Returns its row, or NO_ROW if it is not recorded. */
  begin(kind: EventKind, stream: StreamHandle, name: string, bytes = Number.NaN, cause = NO_ROW): number {
    const { table, meter } = this
    if (table.isFull) {
      meter.unseen()
      return NO_ROW
    }
    const track = this.tracks.of(stream)
    const row = table.add(kind, track.index, this.names.of(name), bytes, meter.now())
    if (cause !== NO_ROW) table.cause[row] = cause
    if (this.callSites) table.site[row] = this.sites.of(callSite())
    if (!meter.queuing(row, stream, track)) {
      table.remove(row)
      return NO_ROW
    }
    this.#latest[track.index] = row
    return row
  }

  /** Queues the operation of a row that was begun, and records that it was queued or refused. */
  during<R>(row: number, stream: StreamHandle, queue: () => R): R {
    if (row === NO_ROW) return this.#unwritten(stream, queue)
    let result: R
    try {
      result = queue()
    } catch (error) {
      this.meter.refused(row)
      throw error
    }
    this.meter.queued(row, stream, this.tracks.of(stream))
    this.table.returned[row] = this.meter.now()
    return result
  }

  /** Queues an operation that has no event record. It counts as dropped, unless its stream captures. */
  #unwritten<R>(stream: StreamHandle, queue: () => R): R {
    const result = this.hidden(queue)
    if (this.table.isFull && !this.meter.captures(stream)) this.table.dropped += 1
    return result
  }

  /**
   * Records that the host waits for a stream, for the record of an event, if that has a row, or for a whole device. The returned function is to be
   * called when the wait ends.
   */
  call(
    kind: EventKind,
    name: string,
    stream: StreamHandle | undefined,
    device: number,
    record: number = NO_ROW,
  ): () => void {
    const { table, meter } = this
    if (table.isFull) return nothing
    const track = stream === undefined ? 0 : this.tracks.of(stream).index
    const row = table.add(kind, track, this.names.of(name), Number.NaN, meter.now())
    table.returned[row] = Number.NaN
    if (stream === undefined) table.cause[row] = wholeDevice(device)
    else if (record !== NO_ROW) table.cause[row] = record
    if (this.callSites) table.site[row] = this.sites.of(callSite())
    return () => {
      if (Number.isNaN(table.returned[row] ?? 0)) this.#returns(row)
    }
  }

  /** Ends the event record of a call that waited, and takes its call site if it blocked for long. */
  #returns(row: number): void {
    const { kind, called, returned, site } = this.table
    const now = this.meter.now()
    returned[row] = now
    const blocked = kind[row] === EventKind.SYNCHRONIZE ? now - (called[row] ?? 0) : 0
    this.#forSites += blocked
    if (blocked < WORTH_A_SITE[this.meter.clock] || this.#forSites < BLOCKED_PER_SITE || site[row] !== NO_ROW) return
    this.#forSites -= BLOCKED_PER_SITE
    site[row] = this.sites.of(callSite())
  }

  /**
   * Remembers the row of an event's latest record. Without a row the record is forgotten: the event may be another one now.
   */
  eventRecorded(event: EventHandle, row = NO_ROW): void {
    if (this.table.has(row)) this.#records.set(event, row)
    else this.#records.delete(event)
  }

  /** Notes that an event of the library itself was recorded. The record has no row: a wait for it is a wait for the latest row of the stream. */
  ownEventRecorded(event: EventHandle, stream: StreamHandle): void {
    const track = this.tracks.known(stream)
    const row = track === undefined ? NO_ROW : (this.#latest[track.index] ?? NO_ROW)
    // A row that was removed may be another stream's by now.
    this.eventRecorded(event, this.table.track[row] === track?.index ? row : NO_ROW)
  }

  /** The row of the record that a wait for the event waits for. */
  recordOf(event: EventHandle): number {
    return this.#records.get(event) ?? NO_ROW
  }

  /** Makes a driver call that queues no operation of the program. */
  hidden<R>(queue: () => R): R {
    this.meter.hide()
    try {
      return queue()
    } finally {
      this.meter.show()
    }
  }
}
