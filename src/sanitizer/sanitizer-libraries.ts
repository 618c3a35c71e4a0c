/** Work of other libraries, as far as it is queued through us. */
import type { ContextHandle, LibraryDriver, LibraryWork } from '../driver/driver.js'
import type { SanitizerParts } from './parts.js'

export class SanitizerLibraries implements LibraryDriver {
  readonly #parts: SanitizerParts

  constructor(parts: SanitizerParts) {
    this.#parts = parts
  }

  get hostFunctionsPending(): boolean {
    return this.#inner.hostFunctionsPending
  }

  queue(work: readonly LibraryWork[], together?: (calls: () => void) => void): void {
    const { detector, probes } = this.#parts
    if (probes) for (const { name, stream, memory } of work) detector.probe(stream, name, memory)
    this.#inner.queue(work, together)
    for (const { name, stream, memory } of work) detector.work(stream, name, memory)
  }

  call<R>(context: ContextHandle, fn: () => R): R {
    return this.#inner.call(context, fn)
  }

  apart(address: number, argument: number, patience: number): Promise<number> {
    return this.#inner.apart(address, argument, patience)
  }

  waitUntil(isDone: () => boolean, what: string): void {
    this.#inner.waitUntil(isDone, what)
  }

  get #inner(): LibraryDriver {
    return this.#parts.inner().libraries
  }
}
