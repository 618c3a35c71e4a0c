/** Tells live handles from wrong ones before the driver is asked, which would crash on some of them. */
import { CUresult, cudaError } from '../../cuda-results.js'
import type { ContextHandle, EventHandle, StreamHandle } from '../../driver.js'
import { closedHandle, refusedHandle } from '../../handle-errors.js'
import type { MemoryCheck } from './memory-check.js'

export class HandleCheck {
  /** Learns what streams and events look like; called once, before the first look at one. */
  #learn: (() => void) | undefined
  /**
   * Destroyed by this library, with what they looked like: freed memory may look so for long, and another library may
   * have made a new one at the same address since.
   */
  readonly #destroyedStreams = new Map<StreamHandle, number | undefined>()
  readonly #destroyedEvents = new Map<EventHandle, number>()
  /** Looked alive once. One that looks otherwise now was destroyed by its owner: to ask the driver could crash. */
  readonly #seenStreams = new Set<StreamHandle>()
  readonly #seenEvents = new Set<EventHandle>()

  /**
   * `query` is `cuEventQuery`, without harm to a capture. `hides` tells events of the library's own, which may stand where a
   * caller's event once stood.
   */
  constructor(
    private readonly query: (event: EventHandle) => number,
    private readonly memory: MemoryCheck,
    private readonly hides: (event: EventHandle) => boolean,
    learn: () => void,
  ) {
    this.#learn = learn
  }

  streamCreated(stream: StreamHandle): void {
    if (this.#destroyedStreams.size > 0) this.#destroyedStreams.delete(stream)
  }

  /**
   * To be told just before. `id` is the driver's number for the stream, where it told: in a capture it does not, and its
   * memory is looked at.
   */
  streamDestroyed(stream: StreamHandle, id: number | undefined): void {
    this.#learnOnce()
    this.#destroyedStreams.set(stream, id ?? this.memory.idOfStream(stream))
  }

  /** The same of a stream whose handle no program has read yet: what can be seen is kept, for it may read it later. */
  streamLeft(stream: StreamHandle): void {
    const id = this.memory.idOfStream(stream)
    if (id !== undefined) this.#destroyedStreams.set(stream, id)
  }

  /** Its handle is read now. Another library's stream may stand there by now: it is not looked at where ours is known. */
  readAfterEnd(stream: StreamHandle): void {
    if (!this.#destroyedStreams.has(stream)) this.streamDestroyed(stream, undefined)
  }

  eventCreated(event: EventHandle): void {
    if (this.#destroyedEvents.size > 0) this.#destroyedEvents.delete(event)
  }

  eventDestroyed(event: EventHandle): void {
    this.#destroyedEvents.set(event, this.memory.lookOfEvent(event))
  }

  /**
   * Throws where the handle is no stream as far as can be seen. Returns the driver's number for it where that is seen.
   */
  checkStream(stream: StreamHandle, contexts: Iterable<ContextHandle> = []): number | undefined {
    this.#learnOnce()
    const verdict = this.memory.stream(stream)
    if (this.#destroyedStreams.has(stream) && !this.#isEventNow(stream, contexts)) {
      const before = this.#destroyedStreams.get(stream)
      const stale = before === undefined || this.memory.idOfStream(stream) === before
      if (verdict !== 'alive' || stale) throw closedHandle('stream', stream)
      this.#destroyedStreams.delete(stream)
    }
    if (verdict === 'alive') {
      this.#seenStreams.add(stream)
      return this.memory.idOfStream(stream)
    }
    if (verdict === 'wrong' || this.#seenStreams.has(stream)) {
      throw refusedHandle('stream', stream, cudaError('cuStreamGetCtx', CUresult.INVALID_HANDLE))
    }
    return undefined
  }

  /** Does an event of the program stand where a stream was destroyed? */
  #isEventNow(stream: StreamHandle, contexts: Iterable<ContextHandle>): boolean {
    const event = stream as number as EventHandle
    if (this.memory.event(event, contexts).verdict !== 'alive') return false
    return !this.#destroyedEvents.has(event) && !this.hides(event)
  }

  /** Is it the stream of this number still, as far as can be seen? The driver is not asked. */
  isStill(stream: StreamHandle, id: number | undefined): boolean {
    if (this.#destroyedStreams.has(stream)) return false
    const verdict = this.memory.stream(stream)
    if (verdict === 'alive') return id === undefined || this.memory.idOfStream(stream) === id
    return verdict === 'unknown' && !this.#seenStreams.has(stream)
  }

  /** Throws where the handle is no event as far as can be seen. Returns its context where that is known. */
  checkEvent(event: EventHandle, contexts: Iterable<ContextHandle>): ContextHandle | undefined {
    this.#learnOnce()
    const { verdict, context } = this.memory.event(event, contexts)
    if (this.#destroyedEvents.has(event)) {
      const stale = this.memory.lookOfEvent(event) === this.#destroyedEvents.get(event)
      if (verdict !== 'alive' || stale || this.hides(event)) throw closedHandle('event', event)
      this.#destroyedEvents.delete(event)
    }
    // Asking about an event that was recorded in a capture would invalidate the capture, and one that is alive need not be asked about.
    if (verdict === 'alive') {
      this.#seenEvents.add(event)
      return context as ContextHandle
    }
    if (verdict === 'wrong' || this.#seenEvents.has(event)) {
      throw refusedHandle('event', event, cudaError('cuEventQuery', CUresult.INVALID_HANDLE))
    }
    const result = this.query(event)
    const known = result === CUresult.SUCCESS || result === CUresult.NOT_READY || result === CUresult.CAPTURED_EVENT
    if (!known) throw refusedHandle('event', event, cudaError('cuEventQuery', result))
    return undefined
  }

  #learnOnce(): void {
    const learn = this.#learn
    this.#learn = undefined
    try {
      learn?.()
    } catch {
      // A lost context teaches nothing: every handle then looks unknown, and is the driver's to judge.
    }
  }
}
