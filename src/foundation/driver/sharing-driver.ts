/** The driver interface for what other threads and processes share. */

import type { InternalEvent } from './event-driver.js'
import type { ContextHandle, Pointer } from './handle-types.js'

/** CUDA's own handle of a whole allocation, 64 bytes, and where in it the memory lies. */
export interface ExportedMemory {
  readonly handle: Uint8Array
  readonly byteOffset: number
}

/** A whole allocation of another process. */
export interface ImportedMemory {
  readonly pointer: Pointer
  readonly byteLength: number
  /**
   * `cuIpcCloseMemHandle`, to be called once: gives it up when the latest records of these events are done, and takes
   * the events over.
   */
  readonly close: (after: readonly InternalEvent[]) => void
}

/** The record of a shared object that other threads read. */
export interface Registration {
  /** The address of the record. */
  readonly registration: number
  /** The memory that goes to other threads with the token, on the simulator. */
  readonly simulated?: object
}

/** How long something lives that another thread has shared. */
export interface SharedLifetime {
  readonly hasEnded: boolean
  /** Called when the shared object has one more wrapper in this thread. */
  join(): void
  leave(): void
}

export interface SharingDriver {
  /** `cuMemAlloc`: there at once. Invalidates no capture. */
  allocate(byteLength: number, context: ContextHandle): Pointer
  /**
   * `cuMemFree`: gives such memory back once the latest records of these events are done, and takes the events over.
   */
  free(pointer: Pointer, after: readonly InternalEvent[]): void
  /** `cuIpcGetMemHandle`. Throws ERR_UNSUPPORTED for memory that CUDA cannot share. */
  exportMemory(pointer: Pointer, context: ContextHandle): ExportedMemory
  /** `cuIpcOpenMemHandle`. Throws ERR_INVALID_HANDLE for bytes that are no memory of another process. */
  importMemory(handle: Uint8Array, context: ContextHandle): ImportedMemory

  /**
   * Writes a registration into memory that every thread of the process can read: its key, then at most seven words.
   * The words are the object's kind (0 a stream, 1 an event, 2 a buffer), its device, and what tokens are compared with.
   */
  register(words: readonly [key: number, ...rest: number[]]): Registration
  /** Removes a registration. */
  unregister(registration: number): void
  /** The words after the key of a registration; undefined if there is none with this key. Takes any address, and anything else. */
  readRegistration(registration: number, key: number, simulated: unknown): readonly number[] | undefined
  /**
   * Reports whether a registration that was read has been removed since, at the cost of a comparison. What it is of lives until `leave()` was called as
   * often as `join()`, and once more, though the thread that shared it may have ended.
   */
  watchRegistration(registration: number, key: number, simulated: unknown): SharedLifetime
  /**
   * A sanitizer watches an object of this thread from now on that has these words. Returns what goes to the sanitizers of other threads
   * with its token; undefined if there is no sanitizer.
   */
  watchShared(words: readonly [key: number, ...rest: number[]]): object | undefined
  /**
   * A sanitizer watches an object of another thread, of whose token `watched` is the result of `watchShared()`. False if there is no
   * sanitizer, or none there.
   */
  watchReceived(words: readonly [key: number, ...rest: number[]], watched: unknown): boolean
}
