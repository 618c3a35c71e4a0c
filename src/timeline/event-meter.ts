/**
 * Times of a real GPU: an event with timing after each operation, and one before it where its beginning does not follow
 * from what came before, read when the recording is over. The device's clock is held against the host's at the beginning
 * and at the end.
 */

import { atNextTurn, sleep } from '#platform'
import { CudaError } from '../base/errors.js'
import { CUresult } from '../driver/cuda-results.js'
import {
  type ContextHandle,
  cudaHandleOf,
  type Driver,
  deviceOfDefaultStream,
  type EventHandle,
  isDefaultStream,
  StreamFlag,
  type StreamHandle,
} from '../driver/driver.js'
import { DeviceClock } from './device-clock.js'
import { RowKind } from './kinds.js'
import type { Described, Lanes, TimelineLane } from './lanes.js'
import type { Calibration, Meter } from './meter.js'
import { FIRST_CAPACITY, NO_ROW, type RowTable } from './table.js'
import { TimedEvents } from './timed-events.js'

const NO_EVENT = 0 as EventHandle
/** In the place of the event before an operation: it begins when what is before it in its stream is over. */
const FOLLOWS = -1
/** So many events stand in the rows before those that are done are read and used again, at a turn of the event loop. */
const MOST_OUTSTANDING = 131_072

const NONE_BEHIND: ReadonlySet<number> = new Set()

const UNKNOWN: Omit<Described, 'id' | 'device'> = {
  context: 0 as ContextHandle,
  nonBlocking: true,
  priority: 0,
  isProvisional: true,
}

const isTimed = (kind: number): boolean =>
  kind === RowKind.KERNEL || kind === RowKind.COPY || kind === RowKind.FILL || kind === RowKind.GRAPH

export class EventMeter implements Meter {
  readonly clock = 'host'
  readonly #origin = performance.now()
  readonly #clocks = new Map<ContextHandle, DeviceClock>()
  readonly #events: TimedEvents
  /** Lanes on which all that the next operation has to wait for is known: it was queued here, and seen. */
  readonly #followed = new Set<number>()
  /** Lanes that were seen not to capture, and since then nothing has passed that could have begun it. */
  readonly #uncaptured = new Set<number>()
  /** The events of each row: before it, or FOLLOWS, at twice its number; after it at the next. Of a record only FOLLOWS or not. */
  #eventsOf = new Float64Array(2 * FIRST_CAPACITY)
  /** When each lane had come as far as it was read: through its operations, and what they had to wait for. */
  readonly #ends: number[] = []
  /** All rows before this one are read. */
  #unread = 0
  #outstanding = 0
  #sweepsSoon = false
  #closed = false
  calibrations: readonly Calibration[] = []

  /** `device` is one that will be used: what its clock needs is made now. */
  constructor(
    private readonly driver: Driver,
    private readonly table: RowTable,
    private readonly lanes: () => Lanes,
    device: number | undefined,
  ) {
    this.#events = new TimedEvents(driver)
    if (device !== undefined) this.#clockOf(driver.deviceContext(device), device)
  }

  now(): number {
    return (performance.now() - this.#origin) * 1e6
  }

  describe(stream: StreamHandle): Described {
    const driver = this.driver
    const near = isDefaultStream(stream) ? deviceOfDefaultStream(stream) : 0
    try {
      const { device, context, green } = driver.streamAdopt(cudaHandleOf(stream), near)
      const multiprocessors = green?.multiprocessors
      this.#clockOf(context, device)
      // These two are refused while the stream captures; captured work is not recorded either.
      if (this.captures(stream)) return { ...UNKNOWN, id: BigInt(stream), device, context, multiprocessors }
      const nonBlocking = (driver.streamGetFlags(stream) & StreamFlag.NON_BLOCKING) !== 0
      return {
        device,
        context,
        id: driver.streamGetId(stream),
        nonBlocking,
        priority: driver.streamGetPriority(stream),
        multiprocessors,
        isProvisional: false,
      }
    } catch {
      // A lost context, say. The program's own call will be told so.
      return { ...UNKNOWN, id: BigInt(stream), device: near }
    }
  }

  /** Where the driver will not say, as of the null stream while a blocking stream captures, nothing may be recorded. */
  captures(stream: StreamHandle): boolean {
    try {
      return this.driver.streamIsCapturing(stream)
    } catch {
      return true
    }
  }

  queuing(row: number, stream: StreamHandle, lane: TimelineLane): boolean {
    const kind = this.table.kind[row] ?? 0
    if (this.#captures(kind, stream, lane)) return false
    if (2 * row + 1 >= this.#eventsOf.length) this.#grow()
    if (isTimed(kind)) {
      this.#eventsOf[2 * row] = this.#follows(stream, lane) ? FOLLOWS : this.#record(stream, lane)
      this.#eventsOf[2 * row + 1] = NO_EVENT
    } else if (kind === RowKind.RECORD) this.#eventsOf[2 * row] = this.#follows(stream, lane) ? FOLLOWS : NO_EVENT
    else if (this.#hidesItsEnd(kind, row)) this.#followed.delete(lane.index)
    return true
  }

  unseen(): void {
    this.#uncaptured.clear()
    this.#followed.clear()
  }

  /** To ask takes a call of the driver, so it is asked only where a capture can have begun since the last time. */
  #captures(kind: number, stream: StreamHandle, lane: TimelineLane): boolean {
    const isKnown = this.#uncaptured.has(lane.index) && !this.driver.isHandedOut(stream)
    const captures = !isKnown && this.captures(stream)
    // The event may be part of a capture, and the stream is then in it too.
    if (captures || kind === RowKind.WAIT) this.#uncaptured.delete(lane.index)
    else if (!isKnown) this.#uncaptured.add(lane.index)
    return captures
  }

  /** Is the stream all ours, so that nothing unseen can stand in front of the next operation? */
  #follows(stream: StreamHandle, lane: TimelineLane): boolean {
    return this.#followed.has(lane.index) && lane.nonBlocking && !this.driver.isHandedOut(stream)
  }

  /** A wait may be for a record that was reached at a time not known, an allocation for memory that another stream frees. */
  #hidesItsEnd(kind: number, row: number): boolean {
    if (kind !== RowKind.WAIT) return kind === RowKind.ALLOCATE
    const cause = this.table.cause[row] ?? NO_ROW
    return cause === NO_ROW || this.#eventsOf[2 * cause] !== FOLLOWS
  }

  queued(row: number, stream: StreamHandle, lane: TimelineLane): void {
    const kind = this.table.kind[row] ?? 0
    // A wait for a captured event brings its stream into the capture.
    if (kind === RowKind.WAIT && this.table.cause[row] === NO_ROW && this.captures(stream)) this.table.remove(row)
    if (!isTimed(kind)) return
    const after = this.#record(stream, lane)
    this.#eventsOf[2 * row + 1] = after
    if (after === NO_EVENT) this.#followed.delete(lane.index)
    else this.#followed.add(lane.index)
    if (this.#outstanding > MOST_OUTSTANDING) this.#sweepSoon()
  }

  refused(row: number): void {
    const { kind, lane } = this.table
    if (isTimed(kind[row] ?? 0)) this.#giveBack(2 * row, this.lanes().all[lane[row] ?? 0])
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
    this.driver.relaxed(() => this.#readAll())
  }

  #readAll(): void {
    const { lane, length } = this.table
    const behind = new Set<number>()
    let allRead = true
    for (let row = this.#unread; row < length; row += 1) {
      const on = lane[row] ?? 0
      if (!this.#isRead(row) && (behind.has(on) || !this.#read(row, behind))) {
        behind.add(on)
        allRead = false
      } else if (allRead) this.#unread = row + 1
    }
  }

  #isRead(row: number): boolean {
    const { kind, end } = this.table
    const what = kind[row] ?? 0
    return (isTimed(what) || what === RowKind.RECORD) && !Number.isNaN(end[row] ?? 0)
  }

  stop(): void {}

  async finished(): Promise<void> {
    const last = new Map<number, EventHandle>()
    const hostFunctions: number[] = []
    const { kind, lane, length, end } = this.table
    for (let row = this.#unread; row < length; row += 1) {
      const event = (this.#eventsOf[2 * row + 1] ?? 0) as EventHandle
      if (!Number.isNaN(end[row] ?? 0)) continue
      if (isTimed(kind[row] ?? 0) && event !== NO_EVENT) last.set(lane[row] ?? 0, event)
      if (kind[row] === RowKind.HOST_FUNCTION) hostFunctions.push(row)
    }
    await Promise.all([...last.values()].map((event) => this.#eventFinished(event)))
    const isPending = (row: number): boolean =>
      this.table.kind[row] === RowKind.HOST_FUNCTION && Number.isNaN(this.table.end[row] ?? 0)
    while (hostFunctions.some(isPending) && !this.#isLost()) await sleep(1)
  }

  close(): void {
    this.#closed = true
    this.calibrations = [...this.#clocks.values()].map((clock) => clock.close())
    const { kind, lane, length, start, end } = this.table
    const lanes = this.lanes().all
    this.#ends.fill(Number.NEGATIVE_INFINITY)
    for (let row = 0; row < length; row += 1) {
      if (!isTimed(kind[row] ?? 0)) {
        this.#pass(row, NONE_BEHIND)
        continue
      }
      const owner = lanes[lane[row] ?? 0]
      const clock = owner === undefined ? undefined : this.#clocks.get(owner.context)
      if (Number.isNaN(end[row] ?? 0)) {
        this.#giveBack(2 * row, owner)
        this.#giveBack(2 * row + 1, owner)
      } else if (clock !== undefined) {
        end[row] = clock.corrected(end[row] ?? 0)
        const began = this.#isFollower(row) ? this.#followingStart(row, clock) : clock.corrected(start[row] ?? 0)
        start[row] = this.#startOf(row, began)
        this.#ends[lane[row] ?? 0] = end[row] ?? 0
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

  /** Never throws: an error here is an error of the program's own call too, which is to throw it. */
  #record(stream: StreamHandle, lane: TimelineLane): EventHandle {
    try {
      if (!this.driver.streamHasRoom(stream, 1)) return NO_EVENT
      const event = this.#events.take(lane.context)
      this.#outstanding += 1
      this.driver.eventRecord(event, stream, 0)
      return event
    } catch {
      return NO_EVENT
    }
  }

  /** Reads the times of a row. False where they are not there yet, as on the lanes that are behind. */
  #read(row: number, behind: ReadonlySet<number>): boolean {
    if (!isTimed(this.table.kind[row] ?? 0)) return this.#pass(row, behind)
    const before = (this.#eventsOf[2 * row] ?? 0) as EventHandle
    const after = (this.#eventsOf[2 * row + 1] ?? 0) as EventHandle
    const lane = this.lanes().all[this.table.lane[row] ?? 0]
    if (before === NO_EVENT || after === NO_EVENT || lane === undefined) return true
    const follows = this.#isFollower(row)
    const clock = this.#clockOf(lane.context, lane.device)
    try {
      const end = clock.timeOf(after)
      const start = follows ? Number.NaN : clock.timeOf(before)
      this.table.end[row] = end
      this.table.start[row] = this.#startOf(row, follows ? this.#followingStart(row, clock) : start)
      this.#ends[lane.index] = end
    } catch (error) {
      if (error instanceof CudaError && error.number === CUresult.NOT_READY) return false
      this.table.lost.add(row)
      return true
    }
    this.#giveBack(2 * row, lane)
    this.#giveBack(2 * row + 1, lane)
    return true
  }

  /**
   * Takes a lane past what has no event: a record, which is reached where the lane is; a wait, which holds the lane until
   * its record is reached; a host function. False where it is not there yet.
   */
  #pass(row: number, behind: ReadonlySet<number>): boolean {
    const { kind, lane, cause, called, end } = this.table
    const on = lane[row] ?? 0
    const what = kind[row] ?? 0
    if (what === RowKind.RECORD && this.#isFollower(row)) end[row] = this.#ends[on] ?? called[row] ?? 0
    if (what === RowKind.HOST_FUNCTION) return this.#holdUntil(row, on)
    if (what !== RowKind.WAIT || this.#hidesItsEnd(what, row)) return true
    const record = cause[row] ?? NO_ROW
    // Where the record's lane is through and it has no end, it will never have one.
    return this.#holdUntil(record, on) || !behind.has(lane[record] ?? 0)
  }

  /** The lane goes on when this row is over. False where that is not known. */
  #holdUntil(row: number, on: number): boolean {
    const over = this.table.end[row] ?? Number.NaN
    if (Number.isNaN(over)) return false
    this.#ends[on] = Math.max(this.#ends[on] ?? over, over)
    return true
  }

  #isFollower(row: number): boolean {
    return this.#eventsOf[2 * row] === FOLLOWS
  }

  /** When its stream was through with what is before it, or when an idle stream would have come to it after the call. */
  #followingStart(row: number, clock: DeviceClock): number {
    const { lane, called, end } = this.table
    const idle = (called[row] ?? 0) + clock.latency
    return Math.min(Math.max(this.#ends[lane[row] ?? 0] ?? idle, idle), end[row] ?? idle)
  }

  /** When it began, where its stream got there at this time: a graph waits there for its instance's launch before it. */
  #startOf(row: number, reached: number): number {
    const { kind, cause, end } = this.table
    const before = kind[row] === RowKind.GRAPH ? (end[cause[row] ?? NO_ROW] ?? Number.NaN) : Number.NaN
    return before > reached ? Math.min(before, end[row] ?? before) : reached
  }

  #giveBack(at: number, lane: TimelineLane | undefined): void {
    const event = (this.#eventsOf[at] ?? 0) as EventHandle
    if (event <= NO_EVENT || lane === undefined) return
    this.#eventsOf[at] = NO_EVENT
    this.#outstanding -= 1
    this.#clockOf(lane.context, lane.device).giveBack(event)
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
        this.driver.eventFinished(event, () => resolve())
      } catch {
        resolve()
      }
    })
  }

  #isLost(): boolean {
    return [...this.#clocks.values()].some((clock) => clock.isLost())
  }

  #grow(): void {
    const grown = new Float64Array(2 * this.#eventsOf.length)
    grown.set(this.#eventsOf)
    this.#eventsOf = grown
  }
}
