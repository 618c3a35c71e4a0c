/** The driver interface for calls of other libraries, such as cuBLAS. */

import type { ContextHandle, StreamHandle } from './handle-types.js'
import type { TouchedMemory } from './touched-memory.js'

/** A call of a C function that returns an int, with up to eight integers or pointers. */
export interface CallOfLibrary {
  readonly address: number
  readonly context: ContextHandle
  readonly args: readonly number[]
}

/** Calls that another thread makes. */
export interface ThreadedCalls {
  /** The first result that is not 0, or 0; undefined until all calls have returned. */
  readonly result: number | undefined
}

export interface LibraryDriver {
  /** Are host functions pending? A call that waits for the device in native code would wait forever then. */
  hostFunctionsPending(): boolean
  /**
   * Makes a call that queues nothing, such as one that makes a handle, with the context current. It may wait for the
   * device, and invalidates no capture of the thread: host functions that are pending are run before, on a GPU. Throws
   * ERR_DEADLOCK inside one, and while a stream waits for a promise.
   */
  call<R>(context: ContextHandle, fn: () => R): R
  /**
   * Calls a C function of one pointer, which waits for the device, on a thread of its own, and resolves with the int that
   * it returns. Begins when no host function is pending, and none is queued before it is over: while it waits, CUDA keeps
   * other threads out, so that they could run none. Where host functions stay pending it begins after so many milliseconds all the same.
   */
  callOnThread(address: number, argument: number, patience: number): Promise<number>
  /**
   * Makes calls of C in turn on a thread of their own, each with its context current, until one returns other than 0; the last is made all the
   * same. They begin at once, whatever is pending, so they must not wait for the device while they keep other threads out of CUDA.
   */
  makeOnThread(calls: readonly CallOfLibrary[]): ThreadedCalls
  /** Blocks until a library says that it is done. Host functions that become ready meanwhile are run. */
  waitUntil(isDone: () => boolean, what: string): void
}

/** Work in JavaScript, in place of a library's GPU code. */
export interface HostImplementation {
  /** Virtual nanoseconds that it takes. */
  readonly nanoseconds: number
  /** Whether the work can begin. Another thread or process makes this true. */
  readonly isReady?: (() => boolean) | undefined
  /**
   * Does the work, on the bytes of each piece of memory, in their order. An error that it throws is an uncaught exception.
   */
  readonly run: (bytes: readonly Uint8Array[]) => void
  /** The same work part by part: it goes on with each element, so that the event loop turns between them. Default: the work is one part. */
  readonly parts?: ((bytes: readonly Uint8Array[]) => Iterable<unknown>) | undefined
}

/** A host implementation of which the event loop need not wait for the end. */
export function implementedInParts(
  nanoseconds: number,
  parts: (bytes: readonly Uint8Array[]) => Iterable<unknown>,
): HostImplementation {
  const run = (bytes: readonly Uint8Array[]): void => {
    for (const _ of parts(bytes));
  }
  return { nanoseconds, run, parts }
}

/** A call of another library that queues work on a stream. */
export interface LibraryCall {
  readonly stream: StreamHandle
  readonly context: ContextHandle
  /** The C function, such as 'cublasGemmEx'. */
  readonly name: string
  /** The memory that it touches, as far as that is known: for interceptors and host implementations. */
  readonly memory: readonly TouchedMemory[]
  /** Entries of a hardware queue that it takes at most. Default: LIBRARY_ENTRIES. */
  readonly entries?: number
  /**
   * The call does not need the stream's context to be current: on a stream that is no default stream, the library finds the
   * context by itself.
   */
  readonly inAnyContext?: true
  /** Makes the call with CUDA's own handle of the stream, and the context current. Throws what the library refuses. */
  call(stream: number): void
  readonly host: HostImplementation | undefined
}
