/**
 * The part of the wall through which other C libraries, such as cuBLAS and NCCL, queue work on our streams. The library
 * is the caller's affair: a driver gives it CUDA's own handle of the stream, at a moment when it can be used safely.
 */
import type { ContextHandle, StreamHandle } from './handles.js'
import type { KernelMemory } from './kernel-driver.js'

/** Entries of a hardware queue that one call of a library takes at most: a few kernels, and what they copy and clear before. */
export const LIBRARY_ENTRIES = 8

/** Work that another library queues on a stream. */
export interface LibraryWork {
  /** The C function, such as 'cublasGemmEx'. */
  readonly name: string
  readonly stream: StreamHandle
  readonly context: ContextHandle
  /** What is known of the memory that it touches: wrappers want it, a GPU does not. */
  readonly memory: readonly KernelMemory[]
  /** Queues it on CUDA's own handle of the stream, with the context current. Throws what the library refuses. */
  call(stream: number): void
  /** The same in JavaScript, for a driver that runs no GPU code. */
  readonly twin?: LibraryTwin | undefined
}

export interface LibraryTwin {
  /** Virtual nanoseconds that it takes. */
  readonly nanoseconds: number
  /** Does the work, on the bytes of each piece of memory, in their order. What it throws is an uncaught exception. */
  readonly run: (bytes: readonly Uint8Array[]) => void
}

export interface LibraryDriver {
  /** Host functions are pending: a call that waits for the device in native code would wait for ever. */
  readonly hostFunctionsPending: boolean
  /**
   * Makes the calls, each in its context, in hardware queues that have room for LIBRARY_ENTRIES of each. `together` stands around
   * them where the library wants to be told that they belong together. Throws ERR_UNSUPPORTED where work has no twin and
   * the driver runs no GPU code.
   */
  queue(work: readonly LibraryWork[], together?: (calls: () => void) => void): void
  /**
   * Makes a call that queues nothing, such as one that makes a handle, with the context current. It may wait for the
   * device, and spoils no capture of the thread: host functions that are pending are run before. Throws ERR_DEADLOCK
   * inside one, and ERR_UNSUPPORTED on a driver that runs no GPU code.
   */
  call<R>(context: ContextHandle, fn: () => R): R
  /**
   * Calls a C function of one pointer, which waits for the device, on a thread of its own, and resolves with the int that
   * it returns. Begins when no host function is pending, and none is queued before it is over: while it waits, CUDA keeps
   * other threads out, so that they could run none. Where host functions stay pending it begins after so many milliseconds all the same.
   */
  apart(address: number, argument: number, patience: number): Promise<number>
  /** Blocks until a library says that it is done. Host functions that come due meanwhile are run. */
  waitUntil(isDone: () => boolean, what: string): void
}
