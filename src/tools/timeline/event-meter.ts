/**
 * The times of a real GPU. A CUDA event with timing is recorded after each operation, and one before it if its beginning does not follow from what
 * came before; the events are read when the recording is over. The device's clock is compared with the host's at the beginning and at the end.
 */
import { CudaError } from '../../foundation/base/errors.js'
import { atNextTurn, monotonicTime, sleep } from '../../foundation/base/event-loop.js'
import { CUresult } from '../../foundation/driver/cuda-results.js'
import type { Driver } from '../../foundation/driver/driver.js'
import { EventFlag, StreamFlag } from '../../foundation/driver/driver-constants.js'
import {
  type ContextHandle,
  cudaHandleOf,
  deviceOfDefaultStream,
  type EventHandle,
  isDefaultStream,
  type StreamHandle,
} from '../../foundation/driver/handle-types.js'
import { type Calibration, type EventRecords, type Meter, NO_ROW } from './event-records.js'
import { EventKind, isTimed } from './kinds.js'
import type { Described, StreamTrack, StreamTracks } from './tracks.js'

const NO_EVENT = 0 as EventHandle
/** The value in place of an event before an operation that begins when the operation before it in its stream ends. */
const FOLLOWS = -1
/** The number of events in use above which those of complete operations are read and used again, at a turn of the event loop. */
const MOST_OUTSTANDING = 131_072

const NONE_BEHIND: ReadonlySet<number> = new Set()

const UNKNOWN: Omit<Described, 'id' | 'device'> = {
  context: 0 as ContextHandle,
  nonBlocking: true,
  priority: 0,
  isProvisional: true,
}

export class EventMeter implements Meter {
  readonly clock = 'host'
  readonly #origin = monotonicTime()
  readonly #clocks = new Map<ContextHandle, DeviceClock>()
  readonly #events: TimedEvents
  /** The tracks on which everything that the next operation has to wait for was queued here and recorded. */
  readonly #followed = new Set<number>()
  /** The tracks that did not capture when they were queried, and for which no call since could have begun a capture. */
  readonly #uncaptured = new Set<number>()
  /**
   * The events of each row: at twice its number the one before it, or FOLLOWS, and at the next index the one after it. A record has only FOLLOWS or
   * none.
   */
  #eventsOf = new Float64Array(0)
  /** The time that each track had reached after the last row that was read, with its waits. */
  readonly #ends: number[] = []
  /** The first row whose times have not been read. */
  #unread = 0
  #outstanding = 0
  #sweepsSoon = false
  #closed = false
  calibrations: readonly Calibration[] = []

  /** @param device A device that will be used, so that its clock is prepared now */
  constructor(
    private readonly driver: Driver,
    private readonly table: EventRecords,
    private readonly tracks: () => StreamTracks,
    device: number | undefined,
  ) {
    this.#events = new TimedEvents(driver)
    if (device !== undefined) this.#clockOf(driver.devices.context(device), device)
  }

  now(): number {
    return (monotonicTime() - this.#origin) * 1e6
  }

  describe(stream: StreamHandle): Described {
    const driver = this.driver
    const near = isDefaultStream(stream) ? deviceOfDefaultStream(stream) : 0
    try {
      const { device, context, green } = driver.streams.wrap(cudaHandleOf(stream), near)
      const multiprocessors = green?.multiprocessors
      this.#clockOf(context, device)
      // The two queries below are refused while the stream captures. Captured work is not recorded anyway.
      if (this.captures(stream)) return { ...UNKNOWN, id: BigInt(stream), device, context, multiprocessors }
      const nonBlocking = (driver.streams.getFlags(stream) & StreamFlag.NON_BLOCKING) !== 0
      return {
        device,
        context,
        id: driver.streams.getId(stream),
        nonBlocking,
        priority: driver.streams.getPriority(stream),
        multiprocessors,
        isProvisional: false,
      }
    } catch {
      // The context may be lost, for example. The program's own call will report that.
      return { ...UNKNOWN, id: BigInt(stream), device: near }
    }
  }

  /**
   * Whether the stream captures. True also if the driver refuses to answer, as for the null stream while a blocking stream captures: nothing may be
   * recorded then.
   */
  captures(stream: StreamHandle): boolean {
    try {
      return this.driver.streams.isCapturing(stream)
    } catch {
      return true
    }
  }

  queuing(row: number, stream: StreamHandle, track: StreamTrack): boolean {
    const kind = this.table.kind[row] ?? 0
    if (this.#captures(kind, stream, track)) return false
    if (2 * row + 1 >= this.#eventsOf.length) this.#grow(row)
    if (isTimed(kind)) {
      this.#eventsOf[2 * row] = this.#follows(stream, track) ? FOLLOWS : this.#record(stream, track)
      this.#eventsOf[2 * row + 1] = NO_EVENT
    } else if (kind === EventKind.RECORD) this.#eventsOf[2 * row] = this.#follows(stream, track) ? FOLLOWS : NO_EVENT
    else if (this.#hidesItsEnd(kind, row)) this.#followed.delete(track.index)
    return true
  }

  unseen(): void {
    this.#uncaptured.clear()
    this.#followed.clear()
  }

  /** Whether the stream captures. The driver is queried only if a capture can have begun since the last time, since that costs a call. */
  #captures(kind: number, stream: StreamHandle, track: StreamTrack): boolean {
    const isKnown = this.#uncaptured.has(track.index) && !this.driver.streams.isEscaped(stream)
    const captures = !isKnown && this.captures(stream)
    // A wait for an event that is part of a capture lets its stream join that capture.
    if (captures || kind === EventKind.WAIT) this.#uncaptured.delete(track.index)
    else if (!isKnown) this.#uncaptured.add(track.index)
    return captures
  }

  /** Whether no other code can have queued work before the next operation of this stream. */
  #follows(stream: StreamHandle, track: StreamTrack): boolean {
    return this.#followed.has(track.index) && track.nonBlocking && !this.driver.streams.isEscaped(stream)
  }

  /**
   * Whether the end of an operation is unknown. A wait may be for a record whose time is unknown, an allocation for memory that another stream frees.
   */
  #hidesItsEnd(kind: number, row: number): boolean {
    if (kind !== EventKind.WAIT) return kind === EventKind.ALLOCATE
    const cause = this.table.cause[row] ?? NO_ROW
    return cause === NO_ROW || this.#eventsOf[2 * cause] !== FOLLOWS
  }

  queued(row: number, stream: StreamHandle, track: StreamTrack): void {
    const kind = this.table.kind[row] ?? 0
    // A wait for a captured event has made its stream join the capture.
    if (kind === EventKind.WAIT && this.table.cause[row] === NO_ROW && this.captures(stream)) this.table.remove(row)
    if (!isTimed(kind)) return
    const after = this.#record(stream, track)
    this.#eventsOf[2 * row + 1] = after
    if (after === NO_EVENT) this.#followed.delete(track.index)
    else this.#followed.add(track.index)
    if (this.#outstanding > MOST_OUTSTANDING) this.#sweepSoon()
  }

  refused(row: number): void {
    const { kind, track } = this.table
    if (isTimed(kind[row] ?? 0)) this.#giveBack(2 * row, this.tracks().all[track[row] ?? 0])
    this.#eventsOf[2 * row] = NO_EVENT
    this.#unread = Math.min(this.#unread, row)
    this.table.remove(row)
  }

  hide(): void {}

  show(): void {}

  hostFunctionBegins(row: number): void {
    if (row >= 0) this.table.start[row] = this.now()
  }

  hostFunctionEnds(row: number): void {
    if (row >= 0) this.table.end[row] = this.now()
  }

  collect(): void {
    this.driver.devices.relaxed(() => this.#readAll())
  }

  #readAll(): void {
    const { track, length } = this.table
    const behind = new Set<number>()
    let allRead = true
    for (let row = this.#unread; row < length; row += 1) {
      const on = track[row] ?? 0
      if (!this.#isRead(row) && (behind.has(on) || !this.#read(row, behind))) {
        behind.add(on)
        allRead = false
      } else if (allRead) this.#unread = row + 1
    }
  }

  #isRead(row: number): boolean {
    const { kind, end } = this.table
    const what = kind[row] ?? 0
    return (isTimed(what) || what === EventKind.RECORD) && !Number.isNaN(end[row] ?? 0)
  }

  stop(): void {}

  async finished(): Promise<void> {
    const last = new Map<number, EventHandle>()
    const hostFunctions: number[] = []
    const { kind, track, length, end } = this.table
    for (let row = this.#unread; row < length; row += 1) {
      const event = (this.#eventsOf[2 * row + 1] ?? 0) as EventHandle
      if (!Number.isNaN(end[row] ?? 0)) continue
      if (isTimed(kind[row] ?? 0) && event !== NO_EVENT) last.set(track[row] ?? 0, event)
      if (kind[row] === EventKind.HOST_FUNCTION) hostFunctions.push(row)
    }
    await Promise.all([...last.values()].map((event) => this.#eventFinished(event)))
    const isPending = (row: number): boolean =>
      this.table.kind[row] === EventKind.HOST_FUNCTION && Number.isNaN(this.table.end[row] ?? 0)
    while (hostFunctions.some(isPending) && !this.#isLost()) await sleep(1)
  }

  close(): void {
    this.#closed = true
    this.calibrations = [...this.#clocks.values()].map((clock) => clock.close())
    const { kind, track, length, start, end } = this.table
    const tracks = this.tracks().all
    this.#ends.fill(Number.NEGATIVE_INFINITY)
    for (let row = 0; row < length; row += 1) {
      if (!isTimed(kind[row] ?? 0)) {
        this.#pass(row, NONE_BEHIND)
        continue
      }
      const owner = tracks[track[row] ?? 0]
      const clock = owner === undefined ? undefined : this.#clocks.get(owner.context)
      if (Number.isNaN(end[row] ?? 0)) {
        this.#giveBack(2 * row, owner)
        this.#giveBack(2 * row + 1, owner)
      } else if (clock !== undefined) {
        end[row] = clock.corrected(end[row] ?? 0)
        const began = this.#isFollower(row) ? this.#followingStart(row, clock) : clock.corrected(start[row] ?? 0)
        start[row] = this.#startOf(row, began)
        this.#ends[track[row] ?? 0] = end[row] ?? 0
      }
    }
    this.#events.close()
  }

  #clockOf(context: ContextHandle, device: number): DeviceClock {
    let clock = this.#clocks.get(context)
    if (clock === undefined) {
      this.#events.prepare(context)
      clock = new DeviceClock(this.driver, this.#events, context, device, () => this.now())
      this.#clocks.set(context, clock)
    }
    return clock
  }

  /** Records an event with timing. Never throws: if this fails, the program's own call fails too, and reports the error. */
  #record(stream: StreamHandle, track: StreamTrack): EventHandle {
    try {
      if (!this.driver.work.hasCapacity(stream, 1)) return NO_EVENT
      const event = this.#events.take(track.context)
      this.#outstanding += 1
      this.driver.events.record(event, stream, 0)
      return event
    } catch {
      return NO_EVENT
    }
  }

  /** Reads the times of a row. Returns false if they are not known yet, as on the tracks that are `behind`. */
  #read(row: number, behind: ReadonlySet<number>): boolean {
    if (!isTimed(this.table.kind[row] ?? 0)) return this.#pass(row, behind)
    const before = (this.#eventsOf[2 * row] ?? 0) as EventHandle
    const after = (this.#eventsOf[2 * row + 1] ?? 0) as EventHandle
    const track = this.tracks().all[this.table.track[row] ?? 0]
    if (before === NO_EVENT || after === NO_EVENT || track === undefined) return true
    const follows = this.#isFollower(row)
    const clock = this.#clockOf(track.context, track.device)
    try {
      const end = clock.timeOf(after)
      const start = follows ? Number.NaN : clock.timeOf(before)
      this.table.end[row] = end
      this.table.start[row] = this.#startOf(row, follows ? this.#followingStart(row, clock) : start)
      this.#ends[track.index] = end
    } catch (error) {
      if (error instanceof CudaError && error.number === CUresult.NOT_READY) return false
      this.table.lost.add(row)
      return true
    }
    this.#giveBack(2 * row, track)
    this.#giveBack(2 * row + 1, track)
    return true
  }

  /**
   * Moves a track past a row without an event: a record, which is reached where the track is; a wait, which holds the track until its record is
   * reached; a host function. Returns false if the track is not there yet.
   */
  #pass(row: number, behind: ReadonlySet<number>): boolean {
    const { kind, track, cause, called, end } = this.table
    const on = track[row] ?? 0
    const what = kind[row] ?? 0
    if (what === EventKind.RECORD && this.#isFollower(row)) end[row] = this.#ends[on] ?? called[row] ?? 0
    if (what === EventKind.HOST_FUNCTION) return this.#holdUntil(row, on)
    if (what !== EventKind.WAIT || this.#hidesItsEnd(what, row)) return true
    const record = cause[row] ?? NO_ROW
    // A record without an end will never have one, if all of its track is read.
    return this.#holdUntil(record, on) || !behind.has(track[record] ?? 0)
  }

  /** Holds the track until this row ends. Returns false if that time is not known. */
  #holdUntil(row: number, on: number): boolean {
    const over = this.table.end[row] ?? Number.NaN
    if (Number.isNaN(over)) return false
    this.#ends[on] = Math.max(this.#ends[on] ?? over, over)
    return true
  }

  #isFollower(row: number): boolean {
    return this.#eventsOf[2 * row] === FOLLOWS
  }

  /**
   * The time at which the stream had completed what is before the row, or, if later, the time at which an idle stream would have reached it after the
   * call.
   */
  #followingStart(row: number, clock: DeviceClock): number {
    const { track, called, end } = this.table
    const idle = (called[row] ?? 0) + clock.latency
    return Math.min(Math.max(this.#ends[track[row] ?? 0] ?? idle, idle), end[row] ?? idle)
  }

  /** The beginning of an operation, given the time at which its stream reached it: a graph waits there for the last launch of its instance. */
  #startOf(row: number, reached: number): number {
    const { kind, cause, end } = this.table
    const before = kind[row] === EventKind.GRAPH ? (end[cause[row] ?? NO_ROW] ?? Number.NaN) : Number.NaN
    return before > reached ? Math.min(before, end[row] ?? before) : reached
  }

  #giveBack(at: number, track: StreamTrack | undefined): void {
    const event = (this.#eventsOf[at] ?? 0) as EventHandle
    if (event <= NO_EVENT || track === undefined) return
    this.#eventsOf[at] = NO_EVENT
    this.#outstanding -= 1
    this.#clockOf(track.context, track.device).giveBack(event)
  }

  #sweepSoon(): void {
    if (this.#sweepsSoon) return
    this.#sweepsSoon = true
    atNextTurn(() => {
      this.#sweepsSoon = false
      if (!this.#closed) this.collect()
    }).unref()
  }

  #eventFinished(event: EventHandle): Promise<void> {
    return new Promise((resolve) => {
      try {
        this.driver.events.finished(event, () => resolve())
      } catch {
        resolve()
      }
    })
  }

  #isLost(): boolean {
    return [...this.#clocks.values()].some((clock) => clock.isLost())
  }

  /** Grows the list of events up to a row. Calls before it that wait have event records, but no events. */
  #grow(row: number): void {
    const grown = new Float64Array(Math.max(2048, 4 * row))
    grown.set(this.#eventsOf)
    this.#eventsOf = grown
  }
}

/** The number of events that are created when a context is first used, and again whenever half of them are taken. */
const BATCH = 8192

export class TimedEvents {
  readonly #free = new Map<ContextHandle, EventHandle[]>()
  #context = 0 as ContextHandle
  #stock: EventHandle[] = []
  #refillsSoon = false
  #closed = false

  constructor(private readonly driver: Driver) {}

  prepare(context: ContextHandle): void {
    const stock = this.#stockOf(context)
    while (stock.length < BATCH) stock.push(this.#create(context))
  }

  take(context: ContextHandle): EventHandle {
    if (context !== this.#context) {
      this.#stock = this.#stockOf(context)
      this.#context = context
    }
    if (this.#stock.length < BATCH / 2) this.#refillSoon(context)
    return this.#stock.pop() ?? this.#create(context)
  }

  giveBack(context: ContextHandle, event: EventHandle): void {
    this.#stockOf(context).push(event)
  }

  close(): void {
    this.#closed = true
    for (const [context, stock] of this.#free) {
      for (const event of stock.splice(0)) this.driver.events.recycle(context, event, EventFlag.DEFAULT)
    }
  }

  /** Creates an event, or takes one that an earlier recording has left, since programs never see them. */
  #create(context: ContextHandle): EventHandle {
    return this.driver.events.create(context, EventFlag.DEFAULT, true)
  }

  #stockOf(context: ContextHandle): EventHandle[] {
    let stock = this.#free.get(context)
    if (stock === undefined) {
      stock = []
      this.#free.set(context, stock)
    }
    return stock
  }

  #refillSoon(context: ContextHandle): void {
    if (this.#refillsSoon) return
    this.#refillsSoon = true
    atNextTurn(() => {
      this.#refillsSoon = false
      if (this.#closed) return
      try {
        this.prepare(context)
      } catch {
        // The context is lost, so there will be nothing more to time.
      }
    }).unref()
  }
}

/** The number of comparisons of the clocks, of which the closest counts. */
const COMPARISONS = 12
/** The nanoseconds above which a comparison is of no use, since the device is busy. */
const LONGEST_COMPARISON = 5e6
/** The nanoseconds at which a new near event is taken: in single precision, 50 ms are exact to 4 ns. */
const FAR = 50e6
/** The nanoseconds below which the drift of a recording is smaller than the uncertainty of the comparisons. */
const SHORTEST_FOR_DRIFT = 1e9

interface ClockComparison {
  readonly event: EventHandle
  readonly host: number
  readonly uncertainty: number
}

export class DeviceClock {
  readonly #stream: StreamHandle
  readonly #begin: ClockComparison
  #cost: number
  #near: { readonly event: EventHandle; readonly time: number }
  /** The near event, once its owner has returned it. */
  #kept: EventHandle | undefined
  #rate = 1

  constructor(
    private readonly driver: Driver,
    private readonly events: TimedEvents,
    private readonly context: ContextHandle,
    private readonly device: number,
    private readonly now: () => number,
  ) {
    this.#stream = driver.streams.create(context, StreamFlag.NON_BLOCKING, 0)
    const began = now()
    this.#begin = this.#compare()
    this.#near = { event: this.#begin.event, time: this.#begin.host }
    this.#cost = now() - began
  }

  /** The time of an event's latest record, in nanoseconds of the host's clock. Throws CudaError 600 until it is complete. */
  timeOf(event: EventHandle): number {
    const { event: near, time } = this.#near
    const passed = this.driver.events.elapsedTime(near, event) * 1e6
    if (Math.abs(passed) > FAR) {
      this.#letGo()
      this.#near = { event, time: time + passed }
    }
    return time + passed
  }

  /**
   * Takes back an event that its owner has read. The near event is kept, since it must not be recorded again while it is in
   * use.
   */
  giveBack(event: EventHandle): void {
    if (event === this.#near.event) this.#kept = event
    else this.events.giveBack(this.context, event)
  }

  /** The nanoseconds from the call until an idle stream reaches a record, as this clock assumes. */
  get latency(): number {
    return this.#begin.uncertainty
  }

  isLost(): boolean {
    try {
      this.driver.events.elapsedTime(this.#begin.event, this.#begin.event)
      return false
    } catch {
      return true
    }
  }

  /** Corrects a time that was read before the rate of this clock was known. */
  corrected(time: number): number {
    return this.#begin.host + (time - this.#begin.host) * this.#rate
  }

  /** Compares the clocks a second time. */
  close(): Calibration {
    const began = this.now()
    let atEnd = Number.NaN
    try {
      const last = this.#compare()
      const device = this.timeOf(last.event) - this.#begin.host
      const host = last.host - this.#begin.host
      atEnd = last.uncertainty
      if (device > SHORTEST_FOR_DRIFT) this.#rate = host / device
      this.events.giveBack(this.context, last.event)
      this.#letGo()
      this.events.giveBack(this.context, this.#begin.event)
      this.driver.streams.destroy(this.#stream)
    } catch {
      // The context is lost. The times that are known are as exact as the first comparison.
    }
    // No time is read any more, so no event that is returned from now on need be kept.
    this.#near = { event: this.#begin.event, time: this.#begin.host }
    this.#cost += this.now() - began
    return {
      device: this.device,
      uncertainty: [this.#begin.uncertainty, atEnd],
      drift: (1 / this.#rate - 1) * 1e6,
      cost: this.#cost,
    }
  }

  #letGo(): void {
    if (this.#kept !== undefined) this.events.giveBack(this.context, this.#kept)
    this.#kept = undefined
  }

  /** Compares the clocks: the device reaches a record between the call and the moment at which it is seen to be complete. */
  #compare(): ClockComparison {
    let best: ClockComparison | undefined
    for (let count = 0; count < COMPARISONS; count += 1) {
      const event = this.events.take(this.context)
      const before = this.now()
      this.driver.events.record(event, this.#stream, 0)
      let after = before
      while (!this.driver.memory.isDone(event) && after - before < LONGEST_COMPARISON) after = this.now()
      after = this.now()
      const uncertainty = (after - before) / 2
      if (best === undefined || uncertainty < best.uncertainty) {
        if (best !== undefined) this.events.giveBack(this.context, best.event)
        best = { event, host: before + uncertainty, uncertainty }
      } else this.events.giveBack(this.context, event)
    }
    if (best === undefined) throw new RangeError('the clocks were not compared')
    return best
  }
}
