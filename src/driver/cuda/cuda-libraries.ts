/** Other libraries' work on a real GPU: they are called with CUDA's own handles, and queue what they like. */
import { cudaHandleOf, type StreamHandle } from '../driver.js'
import type { ContextHandle } from '../handles.js'
import type { LibraryDriver, LibraryWork } from '../library-driver.js'
import type { Contexts } from './contexts.js'
import type { RelaxedCaptures } from './relaxed-captures.js'
import type { Waiting } from './waiting.js'

/** Entries of the hardware queue that one call takes at most: a few kernels, and what they copy and clear before. */
const ENTRIES = 8

export interface LibraryParts {
  readonly contexts: Contexts
  readonly relaxed: RelaxedCaptures
  readonly waiting: Waiting
  /** Waits for room in the stream's hardware queue. */
  reserve(stream: StreamHandle): void
}

export class CudaLibraries implements LibraryDriver {
  readonly #parts: LibraryParts

  constructor(parts: LibraryParts) {
    this.#parts = parts
  }

  get hostFunctionsPending(): boolean {
    return this.#parts.waiting.hostFunctionsPending
  }

  queue(work: readonly LibraryWork[], together: (calls: () => void) => void = (calls) => calls()): void {
    const { contexts, reserve } = this.#parts
    for (const { stream } of work) for (let left = ENTRIES; left > 0; left -= 1) reserve(stream)
    together(() => {
      for (const each of work) contexts.within(each.context, () => each.call(cudaHandleOf(each.stream)))
    })
  }

  call<R>(context: ContextHandle, fn: () => R): R {
    const { contexts, relaxed, waiting } = this.#parts
    waiting.beforeLibraryCall()
    return contexts.within(context, () => relaxed.run(fn))
  }

  waitUntil(isDone: () => boolean, what: string): void {
    this.#parts.waiting.forLibrary(isDone, what)
  }
}
