/**
 * Which host functions each stream and event comes after, so that a wait for one's own host function is an error at
 * once. Kept only while host functions are pending. Calls of one lane run in order, so the latest stands for all.
 */
import { type EventHandle, isNullStream } from '../../driver.js'
import type { StreamRecord } from '../stream-records.js'
import type { GateCall, GateLane } from './gates.js'

type After = Map<object, number>
export type ComesAfter = (call: GateCall) => boolean

export class Dependencies {
  /** Those that come after any. */
  readonly #streams = new Set<StreamRecord>()
  readonly #events = new Map<EventHandle, After>()

  /** `isBlocking` tells whether the null stream orders a stream; undefined while that captures. */
  constructor(private readonly isBlocking: (stream: StreamRecord) => boolean | undefined) {}

  /** Nothing is pending any more. */
  clear(): void {
    // A map or set that is cleared gets a new table, and this is called after each wait.
    if (this.#events.size > 0) this.#events.clear()
    if (this.#streams.size === 0) return
    for (const stream of this.#streams) stream.comesAfter = undefined
    this.#streams.clear()
  }

  queued(stream: StreamRecord, call: GateCall): void {
    this.#own(stream).set(call.lane, call.sequence)
  }

  recorded(event: EventHandle, stream: StreamRecord): void {
    const after = this.#afterStream(stream)
    if (after.size === 0) this.#events.delete(event)
    else this.#events.set(event, after)
  }

  waitedForEvent(stream: StreamRecord, event: EventHandle): void {
    const after = this.#events.get(event)
    if (after !== undefined && after.size > 0) merge(this.#own(stream), after)
  }

  forgetEvent(event: EventHandle): void {
    this.#events.delete(event)
  }

  /** Tells of a call whether all that the stream holds now includes something after it. */
  streamComesAfter(stream: StreamRecord): ComesAfter {
    return comesAfter(this.#afterStream(stream))
  }

  eventComesAfter(event: EventHandle): ComesAfter {
    return comesAfter(this.#events.get(event))
  }

  /** As `streamComesAfter`, of a device, of which these are the lanes: its streams may come after those of others. */
  deviceComesAfter(device: number, lanes: readonly GateLane[]): ComesAfter {
    return comesAfter(this.#afterDevice(device, lanes))
  }

  /** The event was recorded behind all work of the device. */
  recordedDevice(event: EventHandle, device: number, lanes: readonly GateLane[]): void {
    this.#events.set(event, this.#afterDevice(device, lanes))
  }

  #afterDevice(device: number, lanes: readonly GateLane[]): After {
    const after: After = new Map()
    for (const lane of lanes) after.set(lane, lane.calls.at(-1)?.sequence ?? 0)
    for (const stream of this.#streams) if (stream.device === device) merge(after, stream.comesAfter)
    return after
  }

  #own(stream: StreamRecord): After {
    // To be asked while the stream is in use: its owner may destroy it later.
    this.isBlocking(stream)
    stream.comesAfter ??= new Map()
    this.#streams.add(stream)
    return stream.comesAfter
  }

  /** By the null stream's rules it comes after the blocking streams of its device, and they after it. */
  #afterStream(stream: StreamRecord): After {
    const after: After = new Map(stream.comesAfter)
    const isBlocking = this.isBlocking(stream)
    for (const other of this.#streams) {
      if (other === stream || other.device !== stream.device) continue
      const holdsUp = isNull(stream) ? other.isBlocking === true : isNull(other) && isBlocking === true
      if (holdsUp) merge(after, other.comesAfter)
    }
    return after
  }
}

const isNull = ({ handle }: StreamRecord): boolean => isNullStream(handle)

function merge(into: After, from: ReadonlyMap<object, number> | undefined): void {
  for (const [lane, sequence] of from ?? []) {
    const known = into.get(lane)
    if (known === undefined || ((sequence - known) | 0) > 0) into.set(lane, sequence)
  }
}

function comesAfter(after: After | undefined): ComesAfter {
  return ({ lane, sequence }) => {
    const latest = after?.get(lane)
    return latest !== undefined && ((latest - sequence) | 0) >= 0
  }
}
