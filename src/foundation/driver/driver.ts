/**
 * Internal driver interface. Public classes call it; each method corresponds to a CUDA driver function and takes raw
 * handles. The backends are src/cuda (libcuda) and src/simulator (a simulated GPU); interceptors may stand in front of
 * them. All work that a stream is given goes through one method, `queue()`. A method throws `CudaError` where the GPU
 * refuses, and does not check again what public classes have checked.
 */

import type { OwnBytes } from '../base/bytes.js'
import type { GreenContextPart } from './device-driver.js'
import type { ExternalFlag } from './driver-constants.js'
import type { Cancel, Settle } from './event-driver.js'
import type { GraphDriver } from './graph-driver.js'
import type { ContextHandle, EventHandle, StreamHandle } from './handle-types.js'
import type { KernelDriver } from './kernel-driver.js'
import type { LibraryDriver } from './library-driver.js'
import type { MemoryDriver } from './memory-driver.js'
import type { PoolDriver } from './pool-driver.js'
import type { QueuedWork } from './queued-work.js'
import type { SharingDriver } from './sharing-driver.js'
import type { WrappedStream, Wrapper } from './stream-driver.js'

/**
 * The comment of each method names the function of cuda.h that it corresponds to. Methods without such a name exist
 * only in this library.
 */
export interface Driver {
  readonly name: 'cuda' | 'sim'
  readonly memory: MemoryDriver
  readonly pools: PoolDriver
  readonly kernels: KernelDriver
  readonly graphs: GraphDriver
  readonly libraries: LibraryDriver
  readonly sharing: SharingDriver

  // Devices

  /** `cuDeviceGetCount` */
  deviceCount(): number
  /** `cuDeviceGetName` */
  deviceName(device: number): string
  /** `cuDeviceGetUuid`: 16 bytes as lower-case hexadecimal in the 8-4-4-4-12 form, with 'GPU-' before it. */
  deviceUuid(device: number): string
  /** `cuDeviceGetPCIBusId`, as 'domain:bus:device.function' in lower-case hexadecimal digits. */
  devicePciBusId(device: number): string
  /** `cuDeviceGetAttribute`: `attribute` is a CUdevice_attribute. */
  deviceAttribute(device: number, attribute: number): number
  /** `cuDevicePrimaryCtxRetain`, at the first call. */
  deviceContext(device: number): ContextHandle
  /** `cuCtxGetStreamPriorityRange` */
  streamPriorityRange(device: number): { readonly least: number; readonly greatest: number }
  /** `cuCtxSynchronize` */
  deviceSynchronize(device: number): void
  /**
   * `cuCtxRecordEvent`: settles when all that is queued on the device now is done. Throws where the driver refuses to look;
   * a capture there that this thread can know of is left as it was.
   */
  deviceFinished(device: number, settle: Settle): Cancel
  /**
   * `cuCtxRecordEvent`: records an internal event, made in the device's primary context, behind all work of the
   * device. False where a stream there captures, as far as this thread can know: nothing is done then.
   */
  deviceRecordInternal(event: EventHandle, device: number): boolean
  /** `cuEventQuery`: throws what a GPU that has faulted answers to every call, where that is known by now. */
  contextCheck(context: ContextHandle): void
  /**
   * What is known of the fault of a context beside its number, such as which thread of a kernel used which address. Undefined
   * without a fault, and on a GPU.
   */
  contextFault(context: ContextHandle): string | undefined
  /** `cuThreadExchangeStreamCaptureMode`: runs calls that would otherwise invalidate a capture of any thread. */
  relaxed<R>(calls: () => R): R

  // Green contexts

  /**
   * `cuDevSmResourceSplitByCount`, `cuDevResourceGenerateDesc`, `cuGreenCtxCreate`: green contexts of at least so many
   * multiprocessors each, and one of the rest, which comes last.
   */
  deviceSplit(device: number, multiprocessors: readonly number[]): readonly GreenContextPart[]
  /** Called when no more streams will be made in the green context: a split may return it again once it has none. */
  greenContextDestroy(context: ContextHandle): void

  // Streams

  /** `cuStreamCreateWithPriority`; in a green context, whose streams are all non-blocking, `cuGreenCtxStreamCreate`. */
  streamCreate(context: ContextHandle, flags: number, priority: number): StreamHandle
  /** `cuStreamDestroy` */
  streamDestroy(stream: StreamHandle): void
  /**
   * `cuStreamGetCtx_v2`: wraps a stream that another library owns, by CUDA's own handle; 0, 1 and 2 are default
   * streams of the device `near`. Throws ERR_INVALID_HANDLE or ERR_CLOSED for a number that is no stream's handle.
   */
  streamWrap(cudaHandle: number, near: number): WrappedStream
  /** A wrapper of the stream was made. The caller sets `isOpen` of the result to false when it closes the wrapper. */
  streamWrapped(stream: StreamHandle): Wrapper
  /**
   * The stream's handle was read. Code outside of the library may queue work on the stream from now on, without a
   * call of this driver. The stream may be destroyed already.
   */
  streamEscaped(stream: StreamHandle): void
  /** Was `streamEscaped()` called for the stream? Always true for default streams. */
  isEscaped(stream: StreamHandle): boolean
  /**
   * Queues work on its stream; captures it where the stream captures. Never waits: `streamReserve()` comes before it.
   * Records of events and waits for them are methods of their own, since programs make millions of them.
   */
  queue(work: QueuedWork): void
  /**
   * Waits until the stream's hardware queue takes so many more entries, 256 at most. Host functions that become ready run
   * meanwhile.
   */
  streamReserve(stream: StreamHandle, entries: number): void
  /**
   * True if the stream's hardware queue takes so many more entries now. Waits for nothing, and invalidates no
   * capture.
   */
  streamHasCapacity(stream: StreamHandle, entries: number): boolean
  /** `cuStreamGetId` */
  streamGetId(stream: StreamHandle): bigint
  /** `cuStreamGetFlags` */
  streamGetFlags(stream: StreamHandle): number
  /** `cuStreamGetPriority` */
  streamGetPriority(stream: StreamHandle): number
  /** `cuStreamSetAttribute` of CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: a CUlaunchMemSyncDomain, for what is queued then. */
  streamSetMemorySyncDomain(stream: StreamHandle, domain: number): void
  /** `cuStreamIsCapturing` */
  streamIsCapturing(stream: StreamHandle): boolean
  /** `cuStreamQuery`. `isIdle`: the answer was yes before, and nothing was queued since, so that it may be given unasked. */
  streamQuery(stream: StreamHandle, isIdle?: boolean): boolean
  /** `cuStreamSynchronize` */
  streamSynchronize(stream: StreamHandle): void
  /** `cuStreamWaitEvent` */
  streamWaitEvent(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void
  /**
   * `cuEventRecord` of an event that only the driver knows on `other`, in its context, and `cuStreamWaitEvent` on
   * `stream`.
   */
  streamWaitStream(stream: StreamHandle, other: StreamHandle, otherContext: ContextHandle): void
  /**
   * Describes a host function or latch that the stream's work comes after, and that only this thread can run or open.
   * Undefined if none is known.
   */
  streamBlockedBy(stream: StreamHandle): string | undefined
  /**
   * Settles when all work that is queued on the stream now is done. Throws if the driver refuses the query, as on a
   * capturing stream.
   */
  streamFinished(stream: StreamHandle, context: ContextHandle, settle: Settle): Cancel

  /** Runs host functions as they become ready, and blocks until none is pending on any stream of any device. */
  drainHostFunctions(): void

  // Events

  /**
   * `cuEventCreate`. `recordedNext`: the caller records it before anything else, so it may be one that was recorded and
   * recycled before. Of an event without such a past a query is true, and a wait waits for nothing.
   */
  eventCreate(context: ContextHandle, flags: number, recordedNext?: boolean): EventHandle
  /** `cuEventDestroy`. No graph records the event, or waits for it. */
  eventDestroy(event: EventHandle): void
  /**
   * Destroys an event that was made with these flags (no flags, or DISABLE_TIMING alone, which is the default) and whose handle was
   * never read: the driver may use it again, and where it was never recorded give it out as new.
   */
  eventRecycle(context: ContextHandle, event: EventHandle, flags?: number, neverRecorded?: boolean): void
  /**
   * Wraps an event that another library owns. Undefined if the driver cannot find its device. Throws
   * ERR_INVALID_HANDLE or ERR_CLOSED for a number that is no event's handle.
   */
  eventWrap(event: EventHandle): { readonly context: ContextHandle; readonly device: number } | undefined
  /** `cuEventRecord`, or `cuEventRecordWithFlags` */
  eventRecord(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void
  /** `cuEventRecord` of an internal event. The stream does not capture. */
  eventRecordInternal(event: EventHandle, stream: StreamHandle): void
  /** `cuEventQuery`. `isDone`: the answer was yes before, and it was not recorded since. */
  eventQuery(event: EventHandle, isDone?: boolean): boolean
  /** `cuEventSynchronize` */
  eventSynchronize(event: EventHandle): void
  /**
   * Describes a host function or latch that the event's latest record comes after, as `streamBlockedBy` does for a
   * stream.
   */
  eventBlockedBy(event: EventHandle): string | undefined
  /** Settles when the event's latest record is done. */
  eventFinished(event: EventHandle, settle: Settle): Cancel
  /** `cuEventElapsedTime`: milliseconds between two records. */
  eventElapsedTime(start: EventHandle, end: EventHandle): number
  /** `cuIpcGetEventHandle` */
  eventGetIpcHandle(event: EventHandle): OwnBytes
  /** `cuIpcOpenEventHandle` */
  eventOpenIpcHandle(context: ContextHandle, bytes: Uint8Array): EventHandle
}
