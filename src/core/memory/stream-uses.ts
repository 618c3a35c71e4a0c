/**
 * The streams that have used a piece of memory, and an event behind the last use by each. Work that is ordered after all of
 * these events may free the memory.
 */
import { nextSerial } from '../../foundation/base/library-object.js'
import { memoize } from '../../foundation/base/memoize.js'
import { giveBackEvent } from '../../foundation/driver/after-work.js'
import type { Driver } from '../../foundation/driver/driver.js'
import { EventFlag } from '../../foundation/driver/driver-constants.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import type { EventHandle } from '../../foundation/driver/handle-types.js'
import type { Device } from '../device.js'
import { StreamImpl } from '../streams/stream-impl.js'

/** The number of events from which on those that are done are looked for, to be joined. */
const MOST_EVENTS = 16

/** An internal stream of each device, on which memory is allocated and freed that is in the order of no other. It never waits. */
export const internalStream = memoize((device: Device) => StreamImpl.make(device))

/** An internal event, to be recorded before it is used for anything else. */
export function internalEvent({ driver, context }: Pick<StreamImpl, 'driver' | 'context'>): InternalEvent {
  return { context, event: driver.events.create(context, EventFlag.DISABLE_TIMING, true) }
}

/** An internal event that is recorded at once. If the record is refused, no event is left behind. */
export function recordedEvent(
  use: Pick<StreamImpl, 'driver' | 'context'>,
  record: (event: EventHandle) => void,
): InternalEvent {
  const own = internalEvent(use)
  try {
    record(own.event)
  } catch (error) {
    use.driver.events.recycle(own.context, own.event)
    throw error
  }
  return own
}

/** An event for which several wait. */
export class CommonEvent {
  #users = 1

  constructor(
    private readonly driver: Driver,
    readonly own: InternalEvent,
  ) {}

  /** Shares the event with one more user, who waits for it and releases it. */
  share(): InternalEvent {
    this.#users += 1
    return { ...this.own, release: () => this.release() }
  }

  get isShared(): boolean {
    return this.#users > 1
  }

  /** Called when one user does not need the event any more. Its owner is the last to call this. */
  release(): void {
    this.#users -= 1
    if (this.#users === 0) giveBackEvent(this.driver, this.own)
  }
}

/** The event behind the last use by a stream. */
interface StreamUse extends InternalEvent {
  /** The serial number of the stream. */
  readonly line: number
  /** The number of the use among those that were recorded on the stream. */
  place: number
}

const NONE: readonly StreamUse[] = []

export class StreamUses {
  /** The number of events from which on those that are done are joined into one. */
  #most = MOST_EVENTS
  /** An array, since most memory has no such uses and none has many: a map would cost more than all the rest. */
  #uses = NONE
  /**
   * The events of first uses whose work was not queued yet, or was refused. They were used before for something else, so their
   * records mean nothing.
   */
  #prepared = NONE

  /** The number of streams for whose uses there is an event. */
  get count(): number {
    return this.#uses.length
  }

  has(serial: number): boolean {
    return this.#useOf(serial) !== undefined
  }

  /** Called before work that uses the memory is queued, so that a failure comes before it. */
  prepare(use: StreamImpl): void {
    const { serial } = use
    if (this.has(serial) || this.#prepared.some(({ line }) => line === serial)) return
    if (this.#uses.length >= this.#most) this.#joinDone(use.device)
    this.#prepared = [...this.#prepared, { ...internalEvent(use), line: serial, place: 0 }]
  }

  /** Called after that work was queued. */
  record(stream: StreamImpl): void {
    const { driver, handle, serial } = stream
    const own = this.#useOf(serial) ?? this.#prepared.find(({ line }) => line === serial)
    if (own === undefined) return
    driver.events.recordInternal(own.event, handle)
    if (own.place === 0) this.#isRecorded(own)
    own.place = stream.useRecorded()
  }

  /** Orders the stream's later work after all uses. */
  orderBefore({ driver, handle, serial }: StreamImpl): void {
    for (const { line, event } of this.#uses) if (line !== serial) driver.streams.waitEvent(handle, event, 0)
  }

  /** The events behind those uses after which work of the stream does not come anyway. */
  notBefore(stream: StreamImpl): readonly InternalEvent[] {
    if (this.#uses.length === 0) return NONE
    return this.#uses.filter(({ line, place }) => line !== stream.serial && !stream.comesAfter(line, place))
  }

  /** Is all work done that used the memory? */
  areDone(driver: Driver): boolean {
    for (const { event } of this.#uses) if (!driver.memory.isDone(event)) return false
    return true
  }

  /** Gives the events to the function, which owns them afterwards. If it throws, they stay here. */
  handOver(driver: Driver, to: (events: readonly InternalEvent[]) => void): void {
    to(this.#uses)
    this.#uses = NONE
    this.recycle(driver)
  }

  /** Takes over an event that is recorded behind uses by other code. */
  add(own: InternalEvent, device: Device): void {
    if (this.#uses.length >= this.#most) this.#joinDone(device)
    this.#uses = [...this.#uses, { ...own, line: nextSerial(), place: 1 }]
  }

  /** Gives the events back, except those that others have taken over. */
  recycle(driver: Driver, taken: readonly InternalEvent[] = NONE): void {
    if (this.#uses.length === 0 && this.#prepared.length === 0) return
    for (const each of [...this.#uses, ...this.#prepared]) if (!taken.includes(each)) giveBackEvent(driver, each)
    this.#uses = NONE
    this.#prepared = NONE
  }

  #useOf(serial: number): StreamUse | undefined {
    for (const use of this.#uses) if (use.line === serial) return use
    return undefined
  }

  #isRecorded(first: StreamUse): void {
    this.#prepared = this.#prepared.filter((each) => each !== first)
    this.#uses = [...this.#uses, first]
  }

  /**
   * Replaces the events that are done by a single one: a sanitizer must still see that the free comes after them. The remaining
   * events have work that is not done, and are checked again when their number has doubled.
   */
  #joinDone(device: Device): void {
    const internal = internalStream(device)
    const { driver, handle, serial } = internal
    const done = this.#uses.filter(({ event }) => driver.memory.isDone(event))
    const left = this.#uses.filter((use) => !done.includes(use))
    if (done.length > 1) {
      for (const { event } of done) driver.streams.waitEvent(handle, event, 0)
      const joined = recordedEvent(internal, (event) => driver.events.recordInternal(event, handle))
      const place = internal.useRecorded()
      for (const use of done) giveBackEvent(driver, use)
      this.#uses = [...left, { ...joined, line: serial, place }]
    }
    this.#most = Math.max(MOST_EVENTS, 2 * left.length)
  }
}
