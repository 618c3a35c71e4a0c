/**
 * Tracks which host functions each stream and event comes after, so that a wait for a host function that cannot run before the
 * wait ends is an error at once. The sets are kept only while host functions are pending. The calls of one semaphore run in
 * order, so the latest is enough.
 */
import { type EventHandle, isNullStream } from '../../foundation/driver/handle-types.js'
import type { StreamRecord } from '../handles/stream-records.js'
import type { PendingCall, Semaphore } from './semaphores.js'

/** The latest sequence of each semaphore. */
type After = Map<object, number>
export type ComesAfter = (call: PendingCall) => boolean

export class Dependencies {
  /** The streams that come after any host function. */
  readonly #streams = new Set<StreamRecord>()
  readonly #events = new Map<EventHandle, After>()

  /** `isBlocking` tells whether the null stream orders a stream; undefined while that captures. */
  constructor(private readonly isBlocking: (stream: StreamRecord) => boolean | undefined) {}

  /** Called when no host function is pending any more. */
  clear(): void {
    // A map or set that is cleared gets a new table, and this is called after each wait.
    if (this.#events.size > 0) this.#events.clear()
    if (this.#streams.size === 0) return
    for (const stream of this.#streams) stream.comesAfter = undefined
    this.#streams.clear()
  }

  queued(stream: StreamRecord, { semaphore, sequence }: PendingCall): void {
    this.#afterOf(stream).set(semaphore, sequence)
  }

  recorded(event: EventHandle, stream: StreamRecord): void {
    const after = this.#afterStream(stream)
    if (after.size === 0) this.#events.delete(event)
    else this.#events.set(event, after)
  }

  waitedForEvent(stream: StreamRecord, event: EventHandle): void {
    const after = this.#events.get(event)
    if (after !== undefined && after.size > 0) merge(this.#afterOf(stream), after)
  }

  forgetEvent(event: EventHandle): void {
    this.#events.delete(event)
  }

  /** Does the work that the stream has now include something after a call? */
  streamComesAfter(stream: StreamRecord): ComesAfter {
    return comesAfter(this.#afterStream(stream))
  }

  eventComesAfter(event: EventHandle): ComesAfter {
    return comesAfter(this.#events.get(event))
  }

  /**
   * Does the same as `streamComesAfter`, for a device that has these semaphores. Its streams may come after those of other
   * devices.
   */
  deviceComesAfter(device: number, semaphores: readonly Semaphore[]): ComesAfter {
    return comesAfter(this.#afterDevice(device, semaphores))
  }

  /** The event was recorded behind all work of the device. */
  recordedDevice(event: EventHandle, device: number, semaphores: readonly Semaphore[]): void {
    this.#events.set(event, this.#afterDevice(device, semaphores))
  }

  #afterDevice(device: number, semaphores: readonly Semaphore[]): After {
    const after: After = new Map()
    for (const semaphore of semaphores) after.set(semaphore, semaphore.calls.at(-1)?.sequence ?? 0)
    for (const stream of this.#streams) if (stream.device === device) merge(after, stream.comesAfter)
    return after
  }

  #afterOf(stream: StreamRecord): After {
    // The driver is queried while the stream is in use: its owner may destroy it later.
    this.isBlocking(stream)
    stream.comesAfter ??= new Map()
    this.#streams.add(stream)
    return stream.comesAfter
  }

  /** The null stream comes after the blocking streams of its device, and they come after it. */
  #afterStream(stream: StreamRecord): After {
    const after: After = new Map(stream.comesAfter)
    const isBlocking = this.isBlocking(stream)
    for (const other of this.#streams) {
      if (other === stream || other.device !== stream.device) continue
      const isBefore = isNullStream(stream.handle) ? other.isBlocking : isNullStream(other.handle) && isBlocking
      if (isBefore === true) merge(after, other.comesAfter)
    }
    return after
  }
}

function merge(into: After, from: ReadonlyMap<object, number> | undefined): void {
  for (const [semaphore, sequence] of from ?? []) {
    const known = into.get(semaphore)
    if (known === undefined || ((sequence - known) | 0) > 0) into.set(semaphore, sequence)
  }
}

function comesAfter(after: After | undefined): ComesAfter {
  return ({ semaphore, sequence }) => {
    const latest = after?.get(semaphore)
    return latest !== undefined && ((latest - sequence) | 0) >= 0
  }
}
