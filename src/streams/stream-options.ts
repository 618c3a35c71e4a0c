/** What callers may say of streams, records and waits. */
import type { Device } from '../device.js'
import type { Event } from '../event.js'
import type { EventOptions } from './event-core.js'

/** How a stream is made. */
export interface StreamOptions {
  /** A Device, or an ordinal of the current device's driver. Default: the current device. */
  readonly device?: Device | number | undefined
  /** An integer. Lower goes first; clamped to the device's `priorityRange`, as CUDA does. Default 0. */
  readonly priority?: number | undefined
  /** Does not wait for the null stream, nor the null stream for it. Default true. */
  readonly nonBlocking?: boolean | undefined
}

/** What is known of a stream that another library owns. */
export interface ExternalStreamOptions {
  /** The device that the stream must be on. It is asked of the driver; -1 means not known. */
  readonly device?: Device | number | undefined
  /** Kept reachable while the wrapper lives. Default: the protocol object it was made from. */
  readonly owner?: object | undefined
}

/** How an event is recorded and, where none is given, made. */
export interface RecordOptions extends EventOptions {
  /** While capturing: an event node that work outside the graph can wait for. No effect otherwise. */
  readonly external?: boolean | undefined
}

/** How a stream waits for an event. */
export interface WaitEventOptions {
  /** While capturing: a wait for an event recorded outside the graph. No effect otherwise. */
  readonly external?: boolean | undefined
}

/** How a stream waits for another. */
export interface WaitStreamOptions extends WaitEventOptions {
  /** The event to record on the other stream, of the same device as that. Default: one of the library's own. */
  readonly event?: Event | undefined
}
