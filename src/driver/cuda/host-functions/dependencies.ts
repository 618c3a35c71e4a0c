/**
 * Which host functions each stream and event comes after, so that a wait for one's own host function is an error at
 * once. Kept only while host functions are pending. Calls of one lane run in order, so the latest stands for all.
 */
import {
  canonicalStream,
  deviceOfDefaultStream,
  type EventHandle,
  isDefaultStream,
  type StreamHandle,
} from '../../driver.js'
import type { GateCall, GateLane } from './gates.js'

type After = Map<GateLane, number>
export type ComesAfter = (call: GateCall) => boolean

/** The two things that the null stream's rules go by. */
interface Facts {
  readonly blocking: boolean
  readonly device: number
}

export class Dependencies {
  readonly #streams = new Map<StreamHandle, After>()
  readonly #events = new Map<EventHandle, After>()
  /** Of streams in use. Another library may have destroyed one since, so no stream is asked but while it is used. */
  readonly #facts = new Map<StreamHandle, Facts>()

  /** `isBlocking` has no answer for a stream that captures: to ask for its flags would invalidate the capture. */
  constructor(
    private readonly isBlocking: (stream: StreamHandle) => boolean | undefined,
    private readonly deviceOf: (stream: StreamHandle) => number,
  ) {}

  /** Nothing is pending any more. What streams are like still holds: it takes five calls of the driver to ask. */
  clear(): void {
    // A map that is cleared gets a new table, and this is called after each wait.
    if (this.#streams.size > 0) this.#streams.clear()
    if (this.#events.size > 0) this.#events.clear()
  }

  queued(stream: StreamHandle, call: GateCall): void {
    this.#own(stream).set(call.lane, call.sequence)
  }

  recorded(event: EventHandle, stream: StreamHandle): void {
    const after = this.#afterStream(stream)
    if (after.size === 0) this.#events.delete(event)
    else this.#events.set(event, after)
  }

  waitedForEvent(stream: StreamHandle, event: EventHandle): void {
    const after = this.#events.get(event)
    if (after !== undefined && after.size > 0) merge(this.#own(stream), after)
  }

  forgetStream(stream: StreamHandle): void {
    this.#streams.delete(stream)
    this.#facts.delete(stream)
  }

  /** Another stream may have been made with this handle: its flags and device have to be asked anew. */
  streamAdopted(stream: StreamHandle): void {
    this.#facts.delete(stream)
  }

  forgetEvent(event: EventHandle): void {
    this.#events.delete(event)
  }

  /** Tells of a call whether all that the stream holds now includes something after it. */
  streamComesAfter(stream: StreamHandle): ComesAfter {
    return comesAfter(this.#afterStream(stream))
  }

  eventComesAfter(event: EventHandle): ComesAfter {
    return comesAfter(this.#events.get(event))
  }

  /** The same of a device, of which these are the lanes: its streams may come after those of others. */
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
    for (const [stream, theirs] of this.#streams) if (this.#facts.get(stream)?.device === device) merge(after, theirs)
    return after
  }

  /** Of a stream that is in use now. */
  #factsOf(stream: StreamHandle): Facts {
    const known = this.#facts.get(stream)
    if (known !== undefined) return known
    const blocking = this.isBlocking(stream)
    const facts = { blocking: blocking ?? false, device: this.deviceOf(stream) }
    if (blocking !== undefined) this.#facts.set(stream, facts)
    return facts
  }

  #own(stream: StreamHandle): After {
    const key = canonicalStream(stream)
    this.#factsOf(key)
    let after = this.#streams.get(key)
    if (after === undefined) {
      after = new Map()
      this.#streams.set(key, after)
    }
    return after
  }

  /** By the null stream's rules it comes after the blocking streams of its device, and they after it. */
  #afterStream(stream: StreamHandle): After {
    const key = canonicalStream(stream)
    const after: After = new Map(this.#streams.get(key))
    const { blocking, device } = this.#factsOf(key)
    for (const [other, theirs] of this.#streams) {
      if (other === key) continue
      const holdsUp = isNull(key)
        ? this.#facts.get(other)?.blocking === true && this.#facts.get(other)?.device === device
        : isNull(other) && blocking && deviceOfDefaultStream(other) === device
      if (holdsUp) merge(after, theirs)
    }
    return after
  }
}

const isNull = (stream: StreamHandle): boolean => isDefaultStream(stream) && (stream & 3) === 0

function merge(into: After, from: After): void {
  for (const [lane, sequence] of from) {
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
