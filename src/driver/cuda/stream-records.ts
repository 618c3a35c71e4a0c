/**
 * What the CUDA driver knows of each stream, in one record. CUDA gives the handle of a stream that was destroyed to a new one, so a
 * stream is its record and not its handle: the new stream has a new record, and nothing that was known of the old one is taken for
 * its own.
 */
import { CUresult, cudaError } from '../cuda-results.js'
import {
  type ContextHandle,
  canonicalStream,
  deviceOfDefaultStream,
  type GraphHandle,
  type GreenContextPart,
  isDefaultStream,
  StreamFlag,
  type StreamHandle,
  type Wrapper,
} from '../driver.js'
import { HandleMap } from '../handle-tables.js'
import type { StreamLane } from './host-functions/gates.js'

/** A capture that a stream began here, and that was not ended since, as far as this thread knows. */
export interface BegunCapture {
  /** The driver's number for it. The driver does not give the number of a capture that is invalidated. */
  readonly id: bigint | undefined
  /** `Captures.joins` when it began. */
  readonly joins: number
  /** The graph that it adds to. */
  readonly into: GraphHandle | undefined
  /** The wrapper of this foreign stream was closed: another wrapper may end the capture, or the stream's owner. */
  isLeft: boolean
}

export class StreamRecord {
  /** It was destroyed, or another stream has its handle: CUDA must not be asked about it. */
  isGone = false
  /** Code outside of the library has its handle, and may queue work that passes no driver. */
  hasEscaped: boolean
  /** Does the null stream order it? Undefined until that was asked. */
  isBlocking: boolean | undefined
  /** The green context that it is in. */
  green: GreenContextPart | undefined
  /** The stream of the device's primary context on which graphs are launched that are for this green stream. */
  beside: StreamHandle | undefined
  /** The list of closed streams that it joins when it is closed while idle, to be given out again. */
  kept: StreamHandle[] | undefined
  /** The capture that it began. */
  capture: BegunCapture | undefined
  /** The gates at which it stands, or will stand. */
  lane: StreamLane | undefined
  /** The latest call of each lane that its work comes after; undefined for none. */
  comesAfter: Map<object, number> | undefined
  /** Entries of a hardware queue that were counted since it was last seen empty, or since its last gate was reached. */
  entries = 0
  /** Those of them that came after its latest gate. */
  entriesSinceGate = 0

  constructor(
    /** For the null stream, the first of its two names. */
    readonly handle: StreamHandle,
    /** Of a stream in a green context, the primary one. */
    readonly context: ContextHandle,
    readonly device: number,
    /** Another library may have destroyed its streams without a word; CUDA's default streams live as long as the process. */
    readonly owner: 'library' | 'other' | 'cuda',
    /** The driver's number for another library's stream, where it is known. */
    readonly id?: number,
  ) {
    this.hasEscaped = owner === 'cuda'
    this.isBlocking = owner === 'cuda' ? true : undefined
  }
}

/** Another library's stream, as it was found. */
export interface FoundStream {
  readonly context: ContextHandle
  readonly id: number | undefined
  readonly green: GreenContextPart | undefined
}

interface OpenWrapper extends Wrapper {
  readonly record: StreamRecord
}

/** Wrappers that were collected as garbage do not say so. */
const MOST_WRAPPERS = 32

export class StreamRecords {
  readonly #records = new HandleMap<StreamHandle, StreamRecord>()
  /** Of other libraries' streams, the latest ones. */
  readonly #wrappers: OpenWrapper[] = []
  #latest = 0

  constructor(
    private readonly contexts: {
      primary(device: number): ContextHandle
      deviceOf(context: ContextHandle): number
    },
  ) {}

  /** Undefined for a stream that was destroyed, or is not known. */
  get(stream: StreamHandle): StreamRecord | undefined {
    return isDefaultStream(stream) ? this.#ofDefault(canonicalStream(stream)) : this.#records.get(stream)
  }

  /** @throws CudaError (400) for a stream that was destroyed, or is not known */
  of(stream: StreamHandle): StreamRecord {
    const record = this.get(stream)
    if (record === undefined) throw cudaError('cuStreamGetCtx', CUresult.INVALID_HANDLE)
    return record
  }

  /** The streams that this library made. They live, so that each may be asked at any time. */
  *own(): Iterable<StreamRecord> {
    for (const [, record] of this.#records) if (record.owner === 'library') yield record
  }

  /** This library has made the stream, or gives it out again. */
  created(stream: StreamHandle, context: ContextHandle, flags: number): StreamRecord {
    const record = new StreamRecord(stream, context, this.contexts.deviceOf(context), 'library')
    record.isBlocking = (flags & StreamFlag.NON_BLOCKING) === 0
    this.#put(record)
    return record
  }

  /** Is it for certain the stream that this handle meant before? As long as the library has one, no other can have its handle. */
  isSame(stream: StreamHandle, id: number | undefined): boolean {
    const before = this.get(stream)
    return before !== undefined && (before.owner !== 'other' || (id !== undefined && before.id === id))
  }

  /**
   * Another library's stream is handed over, which is not for certain the one that this handle meant before. Where its number is not
   * known it may still be that one, so what must not be lost goes over to the new record.
   */
  adopted(stream: StreamHandle, { context, id, green }: FoundStream): StreamRecord {
    const before = this.#records.get(stream)
    const record = new StreamRecord(stream, context, this.contexts.deviceOf(context), 'other', id)
    record.green = green
    if (before !== undefined) record.hasEscaped = before.hasEscaped
    if (before !== undefined && id === undefined) record.comesAfter = before.comesAfter
    this.#put(record)
    return record
  }

  /** The stream is destroyed, or kept to be given out again. */
  remove(record: StreamRecord): void {
    record.isGone = true
    if (this.#records.get(record.handle) === record) this.#records.delete(record.handle)
  }

  wrapped(stream: StreamHandle): Wrapper {
    const record = this.of(stream)
    const wrapper = { record, isOpen: true }
    if (record.owner !== 'other') return wrapper
    this.#wrappers[this.#latest] = wrapper
    this.#latest = (this.#latest + 1) % MOST_WRAPPERS
    return wrapper
  }

  /**
   * Streams of other libraries whose wrappers are open, the latest of them: these may be asked without being told to, as far as
   * `isStill` sees that they live.
   */
  *theirs(isStill: (stream: StreamHandle, id: number) => boolean): Iterable<StreamRecord> {
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
