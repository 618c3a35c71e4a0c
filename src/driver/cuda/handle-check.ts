/** Tells live handles from wrong ones before the driver is asked, which would crash on some of them. */
import { CUresult, cudaError } from '../cuda-results.js'
import type { ContextHandle, EventHandle, StreamHandle } from '../driver.js'
import { closedHandle, refusedHandle } from '../handle-errors.js'
import type { Library } from './library.js'
import type { MemoryCheck } from './memory-check.js'

export class HandleCheck {
  readonly #library: Library
  readonly #memory: MemoryCheck
  /** Learns what streams and events look like; called once, before the first look at a foreign handle. */
  #learn: (() => void) | undefined
  /** Destroyed by this library. Another may have made a new one at the same address since. */
  readonly #destroyedStreams = new Set<StreamHandle>()
  readonly #destroyedEvents = new Set<EventHandle>()

  constructor(library: Library, memory: MemoryCheck, learn: () => void) {
    this.#library = library
    this.#memory = memory
    this.#learn = learn
  }

  streamCreated(stream: StreamHandle): void {
    if (this.#destroyedStreams.size > 0) this.#destroyedStreams.delete(stream)
  }

  streamDestroyed(stream: StreamHandle): void {
    this.#destroyedStreams.add(stream)
  }

  eventCreated(event: EventHandle): void {
    if (this.#destroyedEvents.size > 0) this.#destroyedEvents.delete(event)
  }

  eventDestroyed(event: EventHandle): void {
    this.#destroyedEvents.add(event)
  }

  /** Throws where the handle is no stream as far as can be seen. */
  checkStream(stream: StreamHandle): void {
    this.#learnOnce()
    const verdict = this.#memory.stream(stream)
    if (this.#destroyedStreams.has(stream)) {
      if (verdict !== 'alive') throw closedHandle('stream', stream)
      this.#destroyedStreams.delete(stream)
    }
    if (verdict === 'wrong') throw refusedHandle('stream', stream, cudaError('cuStreamGetCtx', CUresult.INVALID_HANDLE))
  }

  /** Throws where the handle is no event as far as can be seen. Returns its context where that is known. */
  checkEvent(event: EventHandle, contexts: Iterable<ContextHandle>): ContextHandle | undefined {
    this.#learnOnce()
    const { verdict, context } = this.#memory.event(event, contexts)
    if (this.#destroyedEvents.has(event)) {
      if (verdict !== 'alive') throw closedHandle('event', event)
      this.#destroyedEvents.delete(event)
    }
    if (verdict === 'wrong') throw refusedHandle('event', event, cudaError('cuEventQuery', CUresult.INVALID_HANDLE))
    // Asking about an event that was recorded in a capture would spoil the capture, and what is alive need not be asked.
    if (verdict === 'alive') return context as ContextHandle
    const result = this.#library.cuEventQuery(event)
    const known = result === CUresult.SUCCESS || result === CUresult.NOT_READY || result === CUresult.CAPTURED_EVENT
    if (!known) throw refusedHandle('event', event, cudaError('cuEventQuery', result))
    return undefined
  }

  #learnOnce(): void {
    const learn = this.#learn
    this.#learn = undefined
    learn?.()
  }
}
