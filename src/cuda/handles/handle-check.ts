/**
 * Distinguishes live handles from wrong ones before the driver is called, which would crash on some of them, and keeps handles alive that a blocking
 * call uses.
 */

import { CUresult, cudaError } from '../../foundation/driver/cuda-results.js'
import { closedHandle, refusedHandle, type WrappedKind } from '../../foundation/driver/handle-errors.js'
import type { ContextHandle, EventHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import { MemoryReader } from '../../foundation/native/memory-reader.js'

/** How many bytes of a stream's inner object are searched for the stream's handle and number. */
const INNER_BYTES = 1024
/** How many words of an event are read. */
const EVENT_WORDS = 8
const HASH_FACTOR = 0x9e3779b1

/** What can be said of a handle without calling the driver. */
export type Verdict = 'alive' | 'unknown' | 'wrong'

/** What the memory of a stream says. */
export interface StreamLook {
  readonly verdict: Verdict
  /** The driver's number for the stream. Freed memory keeps it; a new stream at the same address has another. */
  readonly id: number | undefined
}

/**
 * Reads memory that may not be there. A wrong handle crashes the driver; here it is an answer. What is inside a CUstream and a CUevent is not
 * documented, so it is learned from ones that are made for the purpose; when those do not look as expected, nothing is concluded.
 */
export class MemoryCheck {
  /**
   * The offsets in a stream's inner object of the stream's handle and of the driver's number for it; undefined when they could
   * not be learned.
   */
  #selfOffset: number | undefined
  #idOffset: number | undefined
  /** The part of the inner object that has both, which is read at once: each read is a system call. */
  #begin = 0
  #words = 0
  /** Does an event begin with the address of its context? */
  #eventNamesContext = false

  readonly #reader = new MemoryReader()

  /** Learns from live streams and a live event what such objects look like. */
  learn(streams: readonly { readonly handle: number; readonly id: number }[], event: number, context: number): void {
    this.#selfOffset = this.#offsetOf(streams.map(({ handle }) => ({ handle, value: handle })))
    this.#idOffset = this.#offsetOf(streams.map(({ handle, id }) => ({ handle, value: id })))
    const offsets = [this.#selfOffset, this.#idOffset].filter((offset) => offset !== undefined)
    this.#begin = Math.min(...offsets, INNER_BYTES)
    this.#words = Math.max(0, (Math.max(...offsets, 0) - this.#begin) / 8 + 1)
    this.#eventNamesContext = this.#pointerAt(event) === context
  }

  stream(handle: number): StreamLook {
    const inner = this.#pointerAt(handle)
    if (inner === undefined) return { verdict: 'wrong', id: undefined }
    if (this.#words === 0) return { verdict: 'unknown', id: undefined }
    const words = inner % 8 === 0 ? this.#reader.wordsAt(inner + this.#begin, this.#words) : undefined
    if (words === undefined) return { verdict: this.#selfOffset === undefined ? 'unknown' : 'wrong', id: undefined }
    const at = (offset: number | undefined): number | undefined =>
      offset === undefined ? undefined : Number(words[(offset - this.#begin) / 8])
    return { verdict: at(this.#selfOffset) === handle ? 'alive' : 'unknown', id: at(this.#idOffset) }
  }

  /** Can the memory at this address be read? */
  isThere(handle: number): boolean {
    return this.#pointerAt(handle) !== undefined
  }

  /** A hash of what can be read of an event, to be compared later. It is computed for each event that is closed. */
  lookOfEvent(handle: number): number {
    let look = 0
    for (const word of this.#reader.wordsAt(handle, EVENT_WORDS) ?? []) {
      const value = Number(word)
      look = (Math.imul(look, HASH_FACTOR) + (value >>> 0) + Math.floor(value / 2 ** 32)) | 0
    }
    return look
  }

  /** The offset at which the inner object of each of these streams has the stream's value. */
  #offsetOf(streams: readonly { readonly handle: number; readonly value: number }[]): number | undefined {
    for (let offset = 0; offset < INNER_BYTES; offset += 8) {
      const isThere = streams.every(({ handle, value }) => {
        const inner = this.#pointerAt(handle)
        return inner !== undefined && this.#pointerAt(inner + offset) === value
      })
      if (isThere) return offset
    }
    return undefined
  }

  /** Finds to which of the contexts an event belongs, by reading its memory. */
  event(
    handle: number,
    contexts: Iterable<number>,
  ): { readonly verdict: Verdict; readonly context: number | undefined } {
    const first = this.#pointerAt(handle)
    if (first === undefined) return { verdict: 'wrong', context: undefined }
    if (!this.#eventNamesContext) return { verdict: 'unknown', context: undefined }
    for (const context of contexts) if (context === first) return { verdict: 'alive', context }
    const verdict = this.#pointerAt(first - (first % 8)) === undefined ? 'wrong' : 'unknown'
    return { verdict, context: undefined }
  }

  /** The pointer at an address, if the address can be read. */
  #pointerAt(address: number): number | undefined {
    return address % 8 === 0 ? this.#reader.pointerAt(address) : undefined
  }
}

/** Keeps the handles that this library destroyed, and those that other code passed to it. */
export class HandleCheck {
  /** Learns what streams and events look like. Called once, before the memory of one is read. */
  #learn: (() => void) | undefined
  /**
   * The streams that this library destroyed, by number, and events, by look: freed memory may look the same for long, and another library may
   * have made a new one at the same address since.
   */
  readonly #destroyedStreams = new Map<StreamHandle, number | undefined>()
  readonly #destroyedEvents = new Map<EventHandle, number>()
  /** Handles that looked alive once. One that looks otherwise now was destroyed by its owner, and a call of the driver could crash. */
  readonly #seenStreams = new Set<StreamHandle>()
  readonly #seenEvents = new Set<EventHandle>()

  /** `query` is `cuEventQuery`, without harm to a capture. `hides` recognises internal events, which may be where a caller's event once was. */
  constructor(
    private readonly query: (event: EventHandle) => number,
    private readonly memory: MemoryCheck,
    private readonly hides: (event: EventHandle) => boolean,
    learn: () => void,
  ) {
    this.#learn = learn
  }

  /** Throws if there is no memory at the address of the handle, with which the driver would crash. `call` is the one that would be made. */
  checkThere(kind: WrappedKind, handle: number, call: string): void {
    if (this.memory.isThere(handle)) return
    throw refusedHandle(kind, handle, cudaError(call, CUresult.INVALID_HANDLE))
  }

  streamCreated(stream: StreamHandle): void {
    if (this.#destroyedStreams.size > 0) this.#destroyedStreams.delete(stream)
    // An event may have been there.
    if (this.#destroyedEvents.size > 0) this.#destroyedEvents.delete(stream as number as EventHandle)
  }

  /**
   * Called just before a stream is destroyed. `id` is the driver's number for the stream. In a capture the driver refuses to
   * report it, and memory is read.
   */
  streamDestroyed(stream: StreamHandle, id: number | undefined): void {
    this.#learnOnce()
    this.#destroyedStreams.set(stream, id ?? this.memory.stream(stream).id)
  }

  /** Called before a stream is destroyed whose handle no program has read. A program may still read it later. */
  streamLeft(stream: StreamHandle): void {
    const { id } = this.memory.stream(stream)
    if (id !== undefined) this.#destroyedStreams.set(stream, id)
  }

  /** The handle is read now. Another library's stream may be there by now, so memory is only read when nothing is known of ours. */
  readAfterEnd(stream: StreamHandle): void {
    if (!this.#destroyedStreams.has(stream)) this.streamDestroyed(stream, undefined)
  }

  eventCreated(event: EventHandle): void {
    if (this.#destroyedEvents.size > 0) this.#destroyedEvents.delete(event)
  }

  eventDestroyed(event: EventHandle): void {
    this.#destroyedEvents.set(event, this.memory.lookOfEvent(event))
  }

  /** Throws if the handle is no stream as far as can be found out. Returns the driver's number for the stream, if it is found. */
  checkStream(stream: StreamHandle, contexts: Iterable<ContextHandle> = []): number | undefined {
    this.#learnOnce()
    const { verdict, id } = this.memory.stream(stream)
    if (this.#destroyedStreams.has(stream) && !this.#isEventNow(stream, contexts)) {
      const before = this.#destroyedStreams.get(stream)
      const stale = before === undefined || id === before
      if (verdict !== 'alive' || stale) throw closedHandle('stream', stream)
      this.#destroyedStreams.delete(stream)
    }
    if (verdict === 'alive') {
      this.#seenStreams.add(stream)
      return id
    }
    if (verdict === 'wrong' || this.#seenStreams.has(stream)) {
      throw refusedHandle('stream', stream, cudaError('cuStreamGetCtx', CUresult.INVALID_HANDLE))
    }
    return undefined
  }

  /** Is an event of the program where a stream was destroyed? */
  #isEventNow(stream: StreamHandle, contexts: Iterable<ContextHandle>): boolean {
    const event = stream as number as EventHandle
    if (this.memory.event(event, contexts).verdict !== 'alive') return false
    return !this.#destroyedEvents.has(event) && !this.hides(event)
  }

  /** Is the handle still the stream with this number, by its memory? The driver is not called. */
  isStill(stream: StreamHandle, id: number | undefined): boolean {
    if (this.#destroyedStreams.has(stream)) return false
    const { verdict, id: found } = this.memory.stream(stream)
    if (verdict === 'alive') return id === undefined || found === id
    return verdict === 'unknown' && !this.#seenStreams.has(stream)
  }

  /** Throws if the handle is no event as far as can be found out. Returns the event's context, if it is found. */
  checkEvent(event: EventHandle, contexts: Iterable<ContextHandle>): ContextHandle | undefined {
    this.#learnOnce()
    const { verdict, context } = this.memory.event(event, contexts)
    if (this.#destroyedEvents.has(event)) {
      const stale = this.memory.lookOfEvent(event) === this.#destroyedEvents.get(event)
      if (verdict !== 'alive' || stale || this.hides(event)) throw closedHandle('event', event)
      this.#destroyedEvents.delete(event)
    }
    // A query of an event that was recorded in a capture would invalidate the capture, and is not needed for one that is alive.
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
      // Nothing can be learned in a lost context. Every handle then is unknown, and the driver decides.
    }
  }
}

/**
 * Streams and events that a blocking call queries again and again. A host function that runs meanwhile may close one. It is destroyed when the
 * call ends, since a query of a destroyed one crashes.
 */
export class HandlesInUse {
  readonly #users = new Map<number, number>()
  readonly #postponed = new Map<number, () => void>()

  /** Runs a call that uses the handle. */
  during<R>(handle: number, call: () => R): R {
    const before = this.#users.get(handle) ?? 0
    this.#users.set(handle, before + 1)
    try {
      return call()
    } finally {
      if (before > 0) this.#users.set(handle, before)
      else {
        this.#users.delete(handle)
        const destroy = this.#postponed.get(handle)
        this.#postponed.delete(handle)
        destroy?.()
      }
    }
  }

  /** If the handle is in use, returns true and calls `destroy` afterwards. */
  postpones(handle: number, destroy: () => void): boolean {
    if (this.#users.size === 0 || !this.#users.has(handle)) return false
    this.#postponed.set(handle, destroy)
    return true
  }
}
