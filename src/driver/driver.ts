/**
 * The wall between the nouns and a GPU. Its verbs are CUDA's own, on plain handles; the backends behind it are
 * driver/cuda (libcuda) and driver/sim (a simulated GPU), and a wrapper may stand in between. The rule of this layer:
 * a verb that the GPU refuses throws `CudaError`, and no verb checks what the nouns have checked already.
 */

import type { GraphDriver } from './graph-driver.js'
import type { ContextHandle, EventHandle, StreamHandle } from './handles.js'
import type { KernelDriver } from './kernel-driver.js'
import type { LibraryDriver } from './library-driver.js'
import type { MemoryDriver } from './memory-driver.js'
import type { SharingDriver } from './sharing-driver.js'

export type { ContextHandle, EventHandle, StreamHandle } from './handles.js'

/**
 * CUDA tells default streams apart by the current context: 0 is the null stream of whichever is current, 1 the same by
 * another name, 2 the calling thread's. A handle must not depend on what is current, so the device is written in.
 */
export function defaultStream(device: number, which: 0 | 1 | 2): StreamHandle {
  return (device * 4 + which) as StreamHandle
}
/** Below this a StreamHandle is a default stream's token; no allocator hands out such addresses. */
export const DEFAULT_STREAM_LIMIT = 4096
export const isDefaultStream = (stream: StreamHandle): boolean => stream < DEFAULT_STREAM_LIMIT
export const deviceOfDefaultStream = (stream: StreamHandle): number => stream >>> 2
/** What CUDA itself calls this stream: 0, 1 or 2 for a default stream, else its address. */
export const cudaHandleOf = (stream: StreamHandle): number => (isDefaultStream(stream) ? stream & 3 : stream)
/** Both names of a device's null stream are one stream. */
export const canonicalStream = (stream: StreamHandle): StreamHandle =>
  isDefaultStream(stream) && (stream & 3) === 1 ? ((stream - 1) as StreamHandle) : stream
export const isNullStream = (stream: StreamHandle): boolean => isDefaultStream(stream) && (stream & 3) !== 2

export const StreamFlag = { NON_BLOCKING: 1 } as const
export const EventFlag = { DEFAULT: 0, BLOCKING_SYNC: 1, DISABLE_TIMING: 2, INTERPROCESS: 4 } as const
/** CU_EVENT_RECORD_EXTERNAL and CU_EVENT_WAIT_EXTERNAL. */
export const ExternalFlag = { NONE: 0, EXTERNAL: 1 } as const
export type ExternalFlag = (typeof ExternalFlag)[keyof typeof ExternalFlag]

/** What became of a wait: called once, with nothing when the work is done, or with the reason why it never will be. */
export type Settle = (error?: unknown) => void
/** Stops a wait whose result nobody needs. Calling it after the wait has settled does nothing. */
export type Cancel = () => void

/** A host function as the driver runs it: `status` is 0, or the CUresult of the fault that came before it. */
export interface HostFunction {
  readonly run: (status: number) => void
  /** True: `cuStreamAddCallback`, also run after a fault. False: `cuLaunchHostFunc`, dropped then, as CUDA does. */
  readonly runsAfterFault: boolean
  /** The library's own, as those of a download: whoever counts what a program queued leaves it out. */
  readonly own?: boolean
}

export interface AdoptedStream {
  readonly stream: StreamHandle
  readonly context: ContextHandle
  readonly device: number
}

export interface Driver {
  readonly name: 'cuda' | 'sim'
  readonly graphs: GraphDriver
  readonly kernels: KernelDriver
  readonly libraries: LibraryDriver
  readonly memory: MemoryDriver
  readonly sharing: SharingDriver

  deviceCount(): number
  deviceName(device: number): string
  /** 16 bytes as lower-case hexadecimal in the 8-4-4-4-12 form, with 'GPU-' before it. */
  deviceUuid(device: number): string
  /** `attribute` is a CUdevice_attribute. */
  deviceAttribute(device: number, attribute: number): number
  /** The device's primary context, retained at the first call. */
  deviceContext(device: number): ContextHandle
  streamPriorityRange(device: number): { readonly least: number; readonly greatest: number }
  deviceSynchronize(device: number): void
  /**
   * Settles when all that is queued on the device now is done. Throws where the driver refuses to look; a capture there that
   * this thread can know of is left as it was.
   */
  deviceFinished(device: number, settle: Settle): Cancel
  /**
   * Records an event of the library's own, made in the device's primary context, behind all work of the device. False where
   * a stream there captures, as far as this thread can know: nothing is done then.
   */
  deviceRecordOwn(event: EventHandle, device: number): boolean
  /** Throws what a GPU that has faulted answers to every call, where that is known by now (`cuEventQuery`). */
  contextCheck(context: ContextHandle): void
  /** Runs host functions as they come due, and blocks until none is pending on any stream of any device. */
  drainHostFunctions(): void
  /** Runs calls that would spoil a capture which anybody has under way (`cuThreadExchangeStreamCaptureMode`). */
  relaxed<R>(calls: () => R): R

  streamCreate(context: ContextHandle, flags: number, priority: number): StreamHandle
  streamDestroy(stream: StreamHandle): void
  /**
   * Takes in a stream that another library owns, by CUDA's own handle; 0, 1 and 2 are default streams of the device
   * `near`. Throws ERR_INVALID_HANDLE or ERR_CLOSED for what is none.
   */
  streamAdopt(cudaHandle: number, near: number): AdoptedStream
  /**
   * Somebody outside of the library has the stream's handle from now on, and may queue work that passes no driver. The
   * stream may be destroyed already.
   */
  streamHandedOut(stream: StreamHandle): void
  /** Was it ever? Default streams always were. */
  isHandedOut(stream: StreamHandle): boolean
  /**
   * Waits until the stream's hardware queue takes so many entries more, 256 at most: host functions that come due run
   * meanwhile. No other verb that queues work waits, so all of them come after this.
   */
  streamMakeRoom(stream: StreamHandle, entries: number): void
  /** Does its hardware queue take so many entries more now? Waits for nothing, and spoils no capture. */
  streamHasRoom(stream: StreamHandle, entries: number): boolean
  streamGetId(stream: StreamHandle): bigint
  streamGetFlags(stream: StreamHandle): number
  streamGetPriority(stream: StreamHandle): number
  streamIsCapturing(stream: StreamHandle): boolean
  streamQuery(stream: StreamHandle): boolean
  streamSynchronize(stream: StreamHandle): void
  streamWaitEvent(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void
  /** Records an event that nobody sees on `other`, in its context, and makes `stream` wait for it. */
  streamWaitStream(stream: StreamHandle, other: StreamHandle, otherContext: ContextHandle): void
  /** Settles when all that is queued now is done. Throws where the driver refuses to look, as on a capturing stream. */
  streamFinished(stream: StreamHandle, context: ContextHandle, settle: Settle): Cancel
  streamLaunchHostFunction(stream: StreamHandle, context: ContextHandle, call: HostFunction): void

  /**
   * `recordedNext`: whoever asks records it before anything else, so it may be one that others have recorded and recycled.
   * Of an event without such a past a query is true, and a wait waits for nothing.
   */
  eventCreate(context: ContextHandle, flags: number, recordedNext?: boolean): EventHandle
  /** A graph that records the event, or waits for it, may be launched still, and knows it then as it did. */
  eventDestroy(event: EventHandle): void
  /** Destroys an event, with no flags but DISABLE_TIMING, whose handle nobody has seen: it may be made use of again. */
  eventRecycle(context: ContextHandle, event: EventHandle): void
  /** Takes in an event that another library owns; undefined where its device cannot be told. Throws ERR_INVALID_HANDLE or ERR_CLOSED for what is none. */
  eventAdopt(event: EventHandle): { readonly context: ContextHandle; readonly device: number } | undefined
  eventRecord(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void
  /** The same with an event of the library's own: nothing that the program has asked for. The stream does not capture. */
  eventRecordOwn(event: EventHandle, stream: StreamHandle): void
  eventQuery(event: EventHandle): boolean
  eventSynchronize(event: EventHandle): void
  eventFinished(event: EventHandle, settle: Settle): Cancel
  /** Milliseconds between two records. */
  eventElapsedTime(start: EventHandle, end: EventHandle): number
  eventGetIpcHandle(event: EventHandle): Uint8Array
  eventOpenIpcHandle(context: ContextHandle, bytes: Uint8Array): EventHandle
}
