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

export class StreamUses {
  readonly #events = new Map<number, OwnEvent>()

  has(serial: number): boolean {
    return this.#events.has(serial)
  }

  /**
   * Called before the stream is given work that uses the memory. A failure comes now, and not after the work is queued.
   */
  prepare(use: StreamCore, device: Device): void {
    if (this.#events.has(use.serial)) return
    if (this.#events.size >= MOST_EVENTS) this.#join(use.driver, hiddenStream(device))
    this.#events.set(use.serial, ownEvent(use))
  }

  /** Called after the stream was given that work. */
  record({ driver, handle, serial }: StreamCore): void {
    const own = this.#events.get(serial)
    if (own !== undefined) driver.eventRecordOwn(own.event, handle)
  }

  /** Lets the stream's later work come after all uses. */
  comeBefore({ driver, handle, serial }: StreamCore): void {
    for (const [user, { event }] of this.#events) if (user !== serial) driver.streamWaitEvent(handle, event, 0)
  }

  /** Is all the work done that used the memory? */
  areDone(driver: Driver): boolean {
    for (const { event } of this.#events.values()) if (!driver.memory.isDone(event)) return false
    return true
  }

  /** Gives the events to the function, which owns them from then on. Where it throws they stay here. */
  handOver(to: (events: readonly OwnEvent[]) => void): void {
    to([...this.#events.values()])
    this.#events.clear()
  }

  /** Takes over an event that is recorded behind uses by other code. */
  add(own: OwnEvent, driver: Driver, device: Device): void {
    if (this.#events.size >= MOST_EVENTS) this.#join(driver, hiddenStream(device))
    this.#events.set(nextSerial(), own)
  }

  recycle(driver: Driver): void {
    this.handOver((events) => {
      for (const { context, event } of events) driver.eventRecycle(context, event)
    })
  }

  #join(driver: Driver, hidden: StreamCore): void {
    this.comeBefore(hidden)
    const own = recordedEvent(hidden, (event) => driver.eventRecordOwn(event, hidden.handle))
    this.recycle(driver)
    this.#events.set(hidden.serial, own)
  }
}
