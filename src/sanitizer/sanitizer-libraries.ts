/** Work of other libraries, as far as it is queued through this one. */
import type { ContextHandle, LibraryDriver, LibraryWork } from '../driver/driver.js'
import type { DriverWrapper } from '../driver/driver-wrapper.js'
import type { Detector } from './detector.js'

/** What a twin may not write is compared in full. */
const comparingAll = (work: LibraryWork): LibraryWork =>
  work.twin === undefined ? work : { ...work, twin: { ...work.twin, comparesAll: true } }

export class SanitizerLibraries implements LibraryDriver {
  constructor(
    private readonly wrapper: DriverWrapper,
    private readonly detector: Detector,
  ) {}

  get #inner(): LibraryDriver {
    return this.wrapper.inner.libraries
  }

  get hostFunctionsPending(): boolean {
    return this.#inner.hostFunctionsPending
  }

  queue(work: readonly LibraryWork[], together?: (calls: () => void) => void): void {
    for (const { name, stream, memory } of work) this.detector.probe(stream, name, memory)
    this.#inner.queue(work.map(comparingAll), together)
    for (const { name, stream, memory } of work) this.detector.work(stream, name, memory)
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
}
