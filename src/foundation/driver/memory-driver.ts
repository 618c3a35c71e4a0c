/** The driver interface for pinned memory, and for memory of others. */

import type { InternalEvent } from './event-driver.js'
import type { ContextHandle, EventHandle, Pointer } from './handle-types.js'

/** The place of another library's memory. */
export interface MemoryPlace {
  readonly device: number
  /** True for memory of the host, pinned or managed. */
  readonly isOfHost: boolean
}

export interface PinnedMemory {
  readonly pointer: Pointer
  readonly bytes: ArrayBuffer
}

export interface MemoryDriver {
  /** `cuMemHostAlloc`, portable and mapped. Invalidates no capture. The GPUs of the driver access the same bytes. */
  allocatePinned(byteLength: number, context: ContextHandle): PinnedMemory
  /**
   * `cuMemHostRegister`, portable and mapped: page-locks memory of the process, which stays where it is and is kept until
   * `closePinned`. Invalidates no capture.
   */
  registerPinned(bytes: Uint8Array, context: ContextHandle): Pointer
  /**
   * `cuMemFreeHost`, or `cuMemHostUnregister` of what was registered, which is never detached: detaches `bytes`, the ArrayBuffer that came with it, if that is still reachable; gives the memory back
   * once the latest records of these events are done, and takes the events over.
   */
  closePinned(pointer: Pointer, bytes: ArrayBuffer | undefined, after: readonly InternalEvent[]): void
  /** Detaches `bytes`, the ArrayBuffer that came with pinned memory. The memory stays until `closePinned()`. */
  detachPinned(pointer: Pointer, bytes: ArrayBuffer): void
  /**
   * Lets the device `user` reach memory of the device `owner` (`cuCtxEnablePeerAccess`, `cuMemPoolSetAccess`), which it
   * must before work on one of its streams uses that. False where the two cannot reach each other. Invalidates no capture.
   */
  enablePeerAccess(pointer: Pointer, owner: number, user: number): boolean
  /** `cuDeviceCanAccessPeer`, of two devices. */
  canAccessPeer(owner: number, user: number): boolean
  /**
   * The place of another library's memory (`cuPointerGetAttribute`), queried in a context of the device `near`.
   * Throws if the driver does not know the memory.
   */
  placeOf(pointer: Pointer, byteLength: number, near: number): MemoryPlace
  /** JavaScript requests a view of pinned memory, to read or to write it. Only interceptors handle this call. */
  viewed(pointer: Pointer, byteLength: number): void
  /**
   * `cuEventQuery`: is the event's latest record done? This invalidates no capture, and a fault is no answer but false.
   */
  isDone(event: EventHandle): boolean
  /** An ArrayBuffer of zeros in ordinary memory, which is about to be filled. */
  newArrayBuffer(byteLength: number): ArrayBuffer
  /** Copies bytes of the host to as many others, now: several threads at a time, where that is worth it. */
  copyBytes(to: Uint8Array, from: Uint8Array): void
}
