/** Other libraries' work on a real GPU: they are called with CUDA's own handles, and queue what they like. */
import {
  type ContextHandle,
  cudaHandleOf,
  LIBRARY_ENTRIES,
  type LibraryDriver,
  type LibraryWork,
  type StreamHandle,
} from '../driver.js'
import type { Contexts } from './libcuda/contexts.js'
import { NativeThread } from './libcuda/native-thread.js'
import type { RelaxedCaptures } from './libcuda/relaxed-captures.js'
import type { Waiting } from './waiting/waiting.js'

export interface CudaLibrariesParts {
  readonly contexts: Contexts
  readonly relaxed: RelaxedCaptures
  readonly waiting: Waiting
  /** Entries of the stream's hardware queue are about to be taken. */
  count(stream: StreamHandle, entries: number): void
}

export class CudaLibraries implements LibraryDriver {
  readonly #parts: CudaLibrariesParts

  constructor(parts: CudaLibrariesParts) {
    this.#parts = parts
  }

  get hostFunctionsPending(): boolean {
    return this.#parts.waiting.hostFunctionsPending
  }

  queue(work: readonly LibraryWork[], together: (calls: () => void) => void = (calls) => calls()): void {
    const { contexts, count } = this.#parts
    for (const { stream } of work) count(stream, LIBRARY_ENTRIES)
    together(() => {
      for (const each of work) contexts.within(each.context, () => each.call(cudaHandleOf(each.stream)))
    })
  }

  call<R>(context: ContextHandle, fn: () => R): R {
    const { contexts, relaxed, waiting } = this.#parts
    return waiting.libraryCall(() => contexts.within(context, () => relaxed.run(fn)))
  }

  apart(address: number, argument: number, patience: number): Promise<number> {
    return this.#parts.waiting.apart(() => new NativeThread(address, argument), patience)
  }

  waitUntil(isDone: () => boolean, what: string): void {
    this.#parts.waiting.forLibrary(isDone, what)
  }
}
