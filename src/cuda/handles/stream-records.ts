/**
 * What the CUDA driver knows of each stream, in one record. CUDA gives the handle of a stream that was destroyed to a new one, so a
 * stream is its record and not its handle: the new stream has a new record, and nothing that was known of the old one is taken for
 * its own.
 */
import { CUresult, cudaError } from '../../foundation/driver/cuda-results.js'
import type { GreenContextPart } from '../../foundation/driver/device-driver.js'
import { StreamFlag } from '../../foundation/driver/driver-constants.js'
import { HandleMap } from '../../foundation/driver/handle-tables.js'
import {
  type ContextHandle,
  canonicalStream,
  deviceOfDefaultStream,
  type GraphHandle,
  isDefaultStream,
  type StreamHandle,
} from '../../foundation/driver/handle-types.js'
import type { Wrapper } from '../../foundation/driver/stream-driver.js'
import type { StreamSemaphore } from '../host-functions/semaphores.js'

/** A capture that a stream began here, and that was not ended since, as far as this thread knows. */
export interface BegunCapture {
  /** The driver's number for the capture, which it refuses once the capture is invalidated. */
  readonly id: bigint | undefined
  /** `Captures.joins` when the capture began. */
  readonly joins: number
  /** The graph that the capture adds to, if it adds to one. */
  readonly into: GraphHandle | undefined
  /** The wrapper of this foreign stream was closed. Another wrapper may end the capture, or the stream's owner. */
  readonly isLeft: boolean
}

export class StreamRecord {
  /** The stream was destroyed, or another stream has its handle, so CUDA must not be called with it. */
  isGone = false
  /** Code outside of the library has the handle, and may queue work that the library does not see. */
  hasEscaped: boolean
  /** Does the null stream order the stream's work? Undefined until that was queried. */
  isBlocking: boolean | undefined
  /** The green context that the stream is in. */
  green: GreenContextPart | undefined
  /** The stream of the primary context on which the graphs of a green stream are launched. */
  launchStream: StreamHandle | undefined
  /** The list of idle streams that the stream joins when it is closed while idle, to be given out again. */
  reuse: StreamHandle[] | undefined
  /** The capture that the stream began. */
  capture: BegunCapture | undefined
  /** The semaphore that the stream waits at, while it has host functions pending. */
  semaphore: StreamSemaphore | undefined
  /** The latest call of each semaphore that the stream's work comes after; undefined for none. */
  comesAfter: Map<object, number> | undefined
  /** Entries of a hardware queue that were counted since the stream was last seen empty, or to wait for its last pending call. */
  entries = 0
  /** The number of them that were counted since the stream's latest semaphore. */
  entriesSinceSemaphore = 0

  constructor(
    /** CUDA has two handles for the null stream. This is the first. */
    readonly handle: StreamHandle,
    /** The primary context, even if the stream is in a green context. */
    readonly context: ContextHandle,
    readonly device: number,
    /**
     * The owner of the stream. Another library may destroy its streams unseen. CUDA's default streams live as long as the
     * process.
     */
    readonly owner: 'library' | 'other' | 'cuda',
    /** The driver's number for another library's stream, if it is known. */
    readonly id?: number,
  ) {
    this.hasEscaped = owner === 'cuda'
    this.isBlocking = owner === 'cuda' ? true : undefined
  }
}

/** What was found out about another library's stream. */
export interface ForeignStream {
  readonly context: ContextHandle
  readonly id: number | undefined
  readonly green: GreenContextPart | undefined
}

interface OpenWrapper extends Wrapper {
  readonly record: StreamRecord
}

/** Wrappers that are collected as garbage are never closed, so only the latest are remembered. */
const MOST_WRAPPERS = 32

export class StreamRecords {
  readonly #records = new HandleMap<StreamHandle, StreamRecord>()
  /** The latest wrappers of other libraries' streams. */
  readonly #wrappers: OpenWrapper[] = []
  #latest = 0

  constructor(
    private readonly contexts: {
      primary(device: number): ContextHandle
      deviceOf(context: ContextHandle): number
    },
  ) {}

  /** The record of a stream; undefined for a stream that was destroyed or is not known. */
  get(stream: StreamHandle): StreamRecord | undefined {
    return isDefaultStream(stream) ? this.#ofDefault(canonicalStream(stream)) : this.#records.get(stream)
  }

  /** Throws CUDA_ERROR_INVALID_HANDLE for a stream that was destroyed or is not known. */
  of(stream: StreamHandle): StreamRecord {
    const record = this.get(stream)
    if (record === undefined) throw cudaError('cuStreamGetCtx', CUresult.INVALID_HANDLE)
    return record
  }

  /** The streams that this library made. They are alive, so that CUDA may be called with each at any time. */
  *own(): Iterable<StreamRecord> {
    for (const [, record] of this.#records) if (record.owner === 'library') yield record
  }

  /** Adds a stream that this library has made, or gives out again. */
  created(stream: StreamHandle, context: ContextHandle, flags: number): StreamRecord {
    const record = new StreamRecord(stream, context, this.contexts.deviceOf(context), 'library')
    record.isBlocking = (flags & StreamFlag.NON_BLOCKING) === 0
    this.#put(record)
    return record
  }

  /**
   * Adds another library's stream, which is not for certain the stream that had this handle before. If its number is not known it may be the
   * same stream, so the new record takes over what it comes after.
   */
  foreign(stream: StreamHandle, { context, id, green }: ForeignStream): StreamRecord {
    const before = this.#records.get(stream)
    const record = new StreamRecord(stream, context, this.contexts.deviceOf(context), 'other', id)
    record.green = green
    if (before !== undefined) record.hasEscaped = before.hasEscaped
    if (before !== undefined && id === undefined) record.comesAfter = before.comesAfter
    this.#put(record)
    return record
  }

  /** Removes a stream that is destroyed, or closed to be given out again. */
  remove(record: StreamRecord): void {
    record.isGone = true
    if (this.#records.get(record.handle) === record) this.#records.delete(record.handle)
  }

  /** Adds a wrapper of the stream, which is open until its holder says otherwise. */
  openWrapper(stream: StreamHandle): Wrapper {
    const record = this.of(stream)
    const wrapper = { record, isOpen: true }
    if (record.owner !== 'other') return wrapper
    this.#wrappers[this.#latest] = wrapper
    this.#latest = (this.#latest + 1) % MOST_WRAPPERS
    return wrapper
  }

  /** The latest streams of other libraries that have open wrappers, and are alive as far as `isStill` can find out. */
  *wrapped(isStill: (stream: StreamHandle, id: number) => boolean): Iterable<StreamRecord> {
    for (const { record, isOpen } of this.#wrappers) {
      if (isOpen && !record.isGone && record.id !== undefined && isStill(record.handle, record.id)) yield record
    }
  }

  #put(record: StreamRecord): void {
    const before = this.#records.get(record.handle)
    if (before !== undefined) before.isGone = true
    this.#records.set(record.handle, record)
  }

  #ofDefault(stream: StreamHandle): StreamRecord {
    let record = this.#records.get(stream)
    if (record === undefined) {
      const device = deviceOfDefaultStream(stream)
      record = new StreamRecord(stream, this.contexts.primary(device), device, 'cuda')
      this.#records.set(stream, record)
    }
    return record
  }
}
