/**
 * The streams that have used a piece of memory, and how far: an event after the last use by each. Work that comes after
 * all of these may free the memory.
 */
import { nextSerial } from '../base/identity.js'
import type { Device } from '../device.js'
import { type Driver, EventFlag, type EventHandle, type OwnEvent } from '../driver/driver.js'
import { StreamCore } from '../streams/stream-core.js'

/** The most streams that have an event of their own; more are joined into one. */
const MOST_EVENTS = 16

const hiddenStreams = new WeakMap<Device, StreamCore>()

/** A stream of the library's own on each device, on which memory waits for the streams that used it. */
export function hiddenStream(device: Device): StreamCore {
  let hidden = hiddenStreams.get(device)
  if (hidden === undefined) {
    hidden = StreamCore.make(device)
    hiddenStreams.set(device, hidden)
  }
  return hidden
}

/** An event that no program sees, to be recorded before it is used for anything else. */
export function ownEvent({ driver, context }: Pick<StreamCore, 'driver' | 'context'>): OwnEvent {
  return { context, event: driver.eventCreate(context, EventFlag.DISABLE_TIMING, true) }
}

/** The same, recorded at once. Where that is refused no event is left behind. */
export function recordedEvent(
  use: Pick<StreamCore, 'driver' | 'context'>,
  record: (event: EventHandle) => void,
): OwnEvent {
  const own = ownEvent(use)
  try {
    record(own.event)
  } catch (error) {
    use.driver.eventRecycle(own.context, own.event)
    throw error
  }
  return own
}

/** The event after the last use by a stream. */
interface StreamUse extends OwnEvent {
  /** Of the stream. */
  readonly serial: number
}

const NONE: readonly StreamUse[] = []

export class StreamUses {
  /** There are few of them, and none of most memory: a map would cost more than all the rest. */
  #uses = NONE

  has(serial: number): boolean {
    return this.#useOf(serial) !== undefined
  }

  /**
   * Called before the stream is given work that uses the memory. A failure comes now, and not after the work is queued.
   */
  prepare(use: StreamCore, device: Device): void {
    if (this.has(use.serial)) return
    if (this.#uses.length >= MOST_EVENTS) this.#join(use.driver, hiddenStream(device))
    this.#add(use.serial, ownEvent(use))
  }

  /** Called after the stream was given that work. */
  record({ driver, handle, serial }: StreamCore): void {
    const own = this.#useOf(serial)
    if (own !== undefined) driver.eventRecordOwn(own.event, handle)
  }

  /** Lets the stream's later work come after all uses. */
  comeBefore({ driver, handle, serial }: StreamCore): void {
    for (const use of this.#uses) if (use.serial !== serial) driver.streamWaitEvent(handle, use.event, 0)
  }

  /** Is all the work done that used the memory? */
  areDone(driver: Driver): boolean {
    for (const { event } of this.#uses) if (!driver.memory.isDone(event)) return false
    return true
  }

  /** Gives the events to the function, which owns them from then on. Where it throws they stay here. */
  handOver(to: (events: readonly OwnEvent[]) => void): void {
    to(this.#uses)
    this.#uses = NONE
  }

  /** Takes over an event that is recorded behind uses by other code. */
  add(own: OwnEvent, driver: Driver, device: Device): void {
    if (this.#uses.length >= MOST_EVENTS) this.#join(driver, hiddenStream(device))
    this.#add(nextSerial(), own)
  }

  recycle(driver: Driver): void {
    for (const { context, event } of this.#uses) driver.eventRecycle(context, event)
    this.#uses = NONE
  }

  #useOf(serial: number): StreamUse | undefined {
    for (const use of this.#uses) if (use.serial === serial) return use
    return undefined
  }

  #add(serial: number, { context, event }: OwnEvent): void {
    this.#uses = [...this.#uses, { serial, context, event }]
  }

  #join(driver: Driver, hidden: StreamCore): void {
    this.comeBefore(hidden)
    const own = recordedEvent(hidden, (event) => driver.eventRecordOwn(event, hidden.handle))
    this.recycle(driver)
    this.#add(hidden.serial, own)
  }
}
