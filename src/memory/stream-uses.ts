/**
 * The streams that have used a piece of memory, and an event behind the last use by each. Work that is ordered after all of
 * these events may free the memory.
 */
import { nextSerial } from '../base/library-object.js'
import { memoize } from '../base/memoize.js'
import type { Device } from '../device.js'
import { type Driver, EventFlag, type EventHandle, type InternalEvent, type StreamHandle } from '../driver/driver.js'
import { StreamImpl } from '../streams/stream-impl.js'

/** The most streams that have an event of their own: those of more are joined into one event. */
export const MOST_EVENTS = 16

/** An internal stream of each device, on which memory waits for the streams that used it. */
export const internalStream = memoize((device: Device) => StreamImpl.make(device))

/** An internal event, to be recorded before it is used for anything else. */
export function internalEvent({ driver, context }: Pick<StreamImpl, 'driver' | 'context'>): InternalEvent {
  return { context, event: driver.eventCreate(context, EventFlag.DISABLE_TIMING, true) }
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
    use.driver.eventRecycle(own.context, own.event)
    throw error
  }
  return own
}

/** The event behind the last use by a stream. */
interface StreamUse extends InternalEvent {
  /** The serial number of the stream. */
  readonly serial: number
}

const NONE: readonly StreamUse[] = []

export class StreamUses {
  /** An array, since most memory has no such uses and none has many: a map would cost more than all the rest. */
  #uses = NONE
  /** Of first uses whose work was not queued yet, or was refused: their events, used before for something else, stand for nothing. */
  #prepared = NONE

  has(serial: number): boolean {
    return this.#useOf(serial) !== undefined
  }

  /** To be called before work that uses the memory is queued, so that a failure comes before it. */
  prepare(use: StreamImpl, device: Device): void {
    const { serial } = use
    if (this.has(serial) || this.#prepared.some((each) => each.serial === serial)) return
    if (this.#uses.length >= MOST_EVENTS) this.#join(use.driver, internalStream(device))
    this.#prepared = [...this.#prepared, { serial, ...internalEvent(use) }]
  }

  /** To be called after that work was queued. */
  record({ driver, handle, serial }: StreamImpl): void {
    const own = this.#useOf(serial)
    if (own !== undefined) driver.eventRecordInternal(own.event, handle)
    else this.#recordFirst(driver, handle, serial)
  }

  /** Orders the stream's later work after all uses. */
  orderBefore({ driver, handle, serial }: StreamImpl): void {
    for (const use of this.#uses) if (use.serial !== serial) driver.streamWaitEvent(handle, use.event, 0)
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
  add(own: InternalEvent, driver: Driver, device: Device): void {
    if (this.#uses.length >= MOST_EVENTS) this.#join(driver, internalStream(device))
    this.#add(nextSerial(), own)
  }

  recycle(driver: Driver): void {
    for (const { context, event } of [...this.#uses, ...this.#prepared]) driver.eventRecycle(context, event)
    this.#uses = NONE
    this.#prepared = NONE
  }

  #useOf(serial: number): StreamUse | undefined {
    for (const use of this.#uses) if (use.serial === serial) return use
    return undefined
  }

  #recordFirst(driver: Driver, handle: StreamHandle, serial: number): void {
    const own = this.#prepared.find((each) => each.serial === serial)
    if (own === undefined) return
    driver.eventRecordInternal(own.event, handle)
    this.#prepared = this.#prepared.filter((each) => each !== own)
    this.#uses = [...this.#uses, own]
  }

  #add(serial: number, { context, event }: InternalEvent): void {
    this.#uses = [...this.#uses, { serial, context, event }]
  }

  #join(driver: Driver, internal: StreamImpl): void {
    this.orderBefore(internal)
    const own = recordedEvent(internal, (event) => driver.eventRecordInternal(event, internal.handle))
    for (const { context, event } of this.#uses) driver.eventRecycle(context, event)
    this.#uses = NONE
    this.#add(internal.serial, own)
  }
}
