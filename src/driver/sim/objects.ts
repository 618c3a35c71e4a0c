/** The things a simulated machine has: devices, streams, events. They hold state; machine.ts moves it. */
import { type ContextHandle, defaultStream, type EventHandle, type StreamHandle } from '../driver.js'
import type { Capture, CaptureNode } from './capture.js'
import type { Operation } from './operation.js'

export class SimDevice {
  /** The CUresult of the fault that broke it, or 0. */
  fault = 0
  /** Operations that run on a kernel slot now. */
  busySlots = 0
  /** Unfinished operations in blocking streams, the null stream among them. */
  blockingUnfinished = 0
  /** Blocking streams with work queued since the null stream last waited for all of them. */
  readonly touched = new Set<SimStream>()
  readonly streams = new Set<SimStream>()
  readonly ordinal: number
  readonly context: ContextHandle
  readonly nullStream: SimStream
  readonly perThread: SimStream

  constructor(ordinal: number, context: ContextHandle, firstId: bigint) {
    this.ordinal = ordinal
    this.context = context
    this.nullStream = new SimStream(this, defaultStream(ordinal, 0), firstId, false, 0)
    this.perThread = new SimStream(this, defaultStream(ordinal, 2), firstId + 1n, false, 0)
    this.streams.add(this.nullStream)
    this.streams.add(this.perThread)
  }
}

export class SimStream {
  /** The operation queued last, if it is not over. */
  tail: Operation | undefined
  /** Unfinished operations that hold an entry of the hardware queue. */
  entries = 0
  capture: Capture | undefined
  /** Its handle is gone; what was queued still runs. */
  destroyed = false
  readonly device: SimDevice
  readonly handle: StreamHandle
  readonly id: bigint
  readonly nonBlocking: boolean
  readonly priority: number

  constructor(device: SimDevice, handle: StreamHandle, id: bigint, nonBlocking: boolean, priority: number) {
    this.device = device
    this.handle = handle
    this.id = id
    this.nonBlocking = nonBlocking
    this.priority = priority
  }
}

/** Where in a capture an event was recorded. */
export interface CapturedRecord {
  readonly capture: Capture
  readonly after: ReadonlySet<CaptureNode>
}

export class SimEvent {
  /** The record that a wait now would refer to; none before the first. */
  record: Operation | undefined
  /** Set while the latest record was made inside a capture. */
  captured: CapturedRecord | undefined
  readonly device: SimDevice
  readonly handle: EventHandle
  readonly flags: number

  constructor(device: SimDevice, handle: EventHandle, flags: number) {
    this.device = device
    this.handle = handle
    this.flags = flags
  }
}
