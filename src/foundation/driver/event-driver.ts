/** The driver interface for events, and for waits that settle later. */

import type { OwnBytes } from '../base/bytes.js'
import type { ExternalFlag } from './driver-constants.js'

import type { ContextHandle, EventHandle, StreamHandle } from './handle-types.js'

/** How a wait ends: called once, with nothing when the work is done, or with the reason why it never will be. */
export type Settle = (error?: unknown) => void

/** Stops a wait whose result is not needed any more. Calling it after the wait has settled does nothing. */
export type Cancel = () => void

/** An internal event of the library, and the context in which it was made. */
export interface InternalEvent {
  readonly context: ContextHandle
  readonly event: EventHandle
  /** Events with the same number are done in the order of their places. */
  readonly line?: number
  readonly place?: number
  /**
   * Gives the event back; called instead of recycling it by the one that takes it over, because others wait for it, too.
   */
  readonly release?: () => void
}

export interface EventDriver {
  /**
   * `cuEventCreate`. `recordedNext`: the caller records it before anything else, so it may be one that was recorded and
   * recycled before. Of an event without such a past a query is true, and a wait waits for nothing.
   */
  create(context: ContextHandle, flags: number, recordedNext?: boolean): EventHandle
  /** `cuEventDestroy`. No graph records the event, or waits for it. */
  destroy(event: EventHandle): void
  /**
   * Destroys an event that was made with these flags (no flags, or DISABLE_TIMING alone, which is the default) and whose handle was
   * never read: the driver may use it again, and where it was never recorded give it out as new.
   */
  recycle(context: ContextHandle, event: EventHandle, flags?: number, neverRecorded?: boolean): void
  /**
   * Wraps an event that another library owns. Undefined if the driver cannot find its device. Throws
   * ERR_INVALID_HANDLE or ERR_CLOSED for a number that is no event's handle.
   */
  wrap(event: EventHandle): { readonly context: ContextHandle; readonly device: number } | undefined
  /** `cuEventRecord`, or `cuEventRecordWithFlags` */
  record(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void
  /** `cuEventRecord` of an internal event. The stream does not capture. */
  recordInternal(event: EventHandle, stream: StreamHandle): void
  /** `cuEventQuery`. `isDone`: the answer was yes before, and it was not recorded since. */
  query(event: EventHandle, isDone?: boolean): boolean
  /** `cuEventSynchronize` */
  synchronize(event: EventHandle): void
  /**
   * Describes a host function or latch that the event's latest record comes after, as `streams.blockedBy()` does for a
   * stream.
   */
  blockedBy(event: EventHandle): string | undefined
  /** Settles when the event's latest record is done. */
  finished(event: EventHandle, settle: Settle): Cancel
  /** `cuEventElapsedTime`: milliseconds between two records. */
  elapsedTime(start: EventHandle, end: EventHandle): number
  /** `cuIpcGetEventHandle` */
  getIpcHandle(event: EventHandle): OwnBytes
  /** `cuIpcOpenEventHandle` */
  openIpcHandle(context: ContextHandle, bytes: Uint8Array): EventHandle
}
