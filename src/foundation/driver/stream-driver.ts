/** The driver interface for streams. The work that they are given is in queued-work.ts. */

import type { GreenContextPart } from './device-driver.js'
import type { ExternalFlag } from './driver-constants.js'
import type { Cancel, Settle } from './event-driver.js'
import type { ContextHandle, EventHandle, StreamHandle } from './handle-types.js'

/** A wrapper of a stream. The stream lives while the wrapper is open, unless its owner destroys it too early. */
export interface Wrapper {
  isOpen: boolean
}

export interface WrappedStream {
  readonly stream: StreamHandle
  /**
   * The context of the stream. For a stream in a green context it is the primary context, whose events, memory and
   * modules can be used in both.
   */
  readonly context: ContextHandle
  readonly device: number
  /** The green context of the stream, if it is in one. */
  readonly green?: GreenContextPart | undefined
}

export interface StreamDriver {
  /** `cuStreamCreateWithPriority`; in a green context, whose streams are all non-blocking, `cuGreenCtxStreamCreate`. */
  create(context: ContextHandle, flags: number, priority: number): StreamHandle
  /** `cuStreamDestroy` */
  destroy(stream: StreamHandle): void
  /**
   * `cuStreamGetCtx_v2`: wraps a stream that another library owns, by CUDA's own handle; 0, 1 and 2 are default
   * streams of the device `near`. Throws ERR_INVALID_HANDLE or ERR_CLOSED for a number that is no stream's handle.
   */
  wrap(cudaHandle: number, near: number): WrappedStream
  /** A wrapper of the stream was made. The caller sets `isOpen` of the result to false when it closes the wrapper. */
  wrapped(stream: StreamHandle): Wrapper
  /**
   * The stream's handle was read. Code outside of the library may queue work on the stream from now on, without a
   * call of this driver. The stream may be destroyed already.
   */
  escaped(stream: StreamHandle): void
  /** Was `escaped()` called for the stream? Always true for default streams. */
  isEscaped(stream: StreamHandle): boolean
  /** `cuStreamGetId` */
  getId(stream: StreamHandle): bigint
  /** `cuStreamGetFlags` */
  getFlags(stream: StreamHandle): number
  /** `cuStreamGetPriority` */
  getPriority(stream: StreamHandle): number
  /** `cuStreamSetAttribute` of CU_LAUNCH_ATTRIBUTE_PRIORITY, which the driver takes into the range of the device. The stream is no default stream. */
  setPriority(stream: StreamHandle, priority: number): void
  /** `cuStreamCopyAttributes`: gives the stream the priority, memory domain and policies of the other one. Neither is a default stream. */
  copyAttributes(stream: StreamHandle, from: StreamHandle): void
  /** `cuStreamSetAttribute` of CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: a CUlaunchMemSyncDomain, for what is queued then. */
  setMemorySyncDomain(stream: StreamHandle, domain: number): void
  /** `cuStreamIsCapturing` */
  isCapturing(stream: StreamHandle): boolean
  /** `cuStreamQuery`. `isIdle`: the answer was yes before, and nothing was queued since, so that it may be given unasked. */
  query(stream: StreamHandle, isIdle?: boolean): boolean
  /** `cuStreamSynchronize` */
  synchronize(stream: StreamHandle): void
  /** `cuStreamWaitEvent` */
  waitEvent(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void
  /**
   * `cuEventRecord` of an event that only the driver knows on `other`, in its context, and `cuStreamWaitEvent` on
   * `stream`.
   */
  waitStream(stream: StreamHandle, other: StreamHandle, otherContext: ContextHandle): void
  /**
   * Describes a host function or latch that the stream's work comes after, and that only this thread can run or open.
   * Undefined if none is known.
   */
  blockedBy(stream: StreamHandle): string | undefined
  /**
   * Settles when all work that is queued on the stream now is done. Throws if the driver refuses the query, as on a
   * capturing stream.
   */
  finished(stream: StreamHandle, context: ContextHandle, settle: Settle): Cancel
}
