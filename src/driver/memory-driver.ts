/** The wall's verbs for memory, CUDA's own as the rest: what the GPU refuses is a `CudaError`, and nothing is checked twice. */
import type { ContextHandle, EventHandle, Pointer, StreamHandle } from './handles.js'

export type { Pointer } from './handles.js'

/** Bytes that a single element of a fill has. */
export type FillWidth = 1 | 2 | 4

/** The ordinals of two different devices. */
export interface TwoDevices {
  readonly to: number
  readonly from: number
}

/**
 * What a driver has to be told of a copy that is not an ordinary one: it goes between two devices, or from one piece of
 * the host's memory to another.
 */
export type CopyRoute = TwoDevices | 'withinHost'

/** What is known of another library's memory. */
export interface MemoryPlace {
  readonly device: number
  /** It is memory of the host, pinned or managed. */
  readonly isOfHost: boolean
}

/** An event of the library's own, and the context it was made in. */
export interface OwnEvent {
  readonly context: ContextHandle
  readonly event: EventHandle
}

export interface MemoryDriver {
  /** `cuMemAllocAsync`: there once the stream's work gets here. */
  allocate(byteLength: number, stream: StreamHandle, context: ContextHandle): Pointer
  /** `cuMemFreeAsync`: gone once the stream's work gets here. */
  free(pointer: Pointer, stream: StreamHandle): void
  /** `cuMemHostAlloc`, portable and mapped. Spoils no capture. Its bytes are those that GPUs of the driver see. */
  allocatePinned(byteLength: number, context: ContextHandle): { readonly pointer: Pointer; readonly bytes: ArrayBuffer }
  /**
   * Detaches `bytes`, the ArrayBuffer that came with it, if that is still reachable; gives the memory back once the
   * latest records of these events are done, and takes the events over.
   */
  closePinned(pointer: Pointer, bytes: ArrayBuffer | undefined, after: readonly OwnEvent[]): void
  /**
   * Lets the device `user` reach memory of the device `owner` (`cuCtxEnablePeerAccess`, `cuMemPoolSetAccess`), which it
   * must before work on one of its streams uses that. False where the two cannot reach each other. Spoils no capture.
   */
  admit(pointer: Pointer, owner: number, user: number): boolean
  /**
   * `cuMemcpyAsync` between any two places that the stream's device reaches; `cuMemcpyPeerAsync` where the route tells
   * that they are memory of two devices that it does not; `cuMemcpyBatchAsync` within the host. Never blocks.
   */
  copy(destination: Pointer, source: Pointer, byteLength: number, stream: StreamHandle, route?: CopyRoute): void
  /** `cuMemsetD8Async`, `D16` or `D32`. */
  fill(pointer: Pointer, value: number, width: FillWidth, count: number, stream: StreamHandle): void
  /**
   * Where another library's memory is (`cuPointerGetAttribute`), asked in a context of the device `near`. Throws where the
   * driver does not know it.
   */
  placeOf(pointer: Pointer, byteLength: number, near: number): MemoryPlace
  /** JavaScript has asked for a view of pinned memory, to read or to write it. Backends need not know; wrappers want to. */
  viewed(pointer: Pointer, byteLength: number): void
  /** Is the event's latest record done? Unlike a query this spoils no capture, and a fault is no answer but false. */
  isDone(event: EventHandle): boolean
}
