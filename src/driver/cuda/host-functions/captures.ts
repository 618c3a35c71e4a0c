/**
 * Captures that this thread has under way, and the events whose latest record is a part of one: to query such an event
 * would invalidate the capture, and a stream that waits for it joins the capture.
 */
import { CUresult, cudaError } from '../../cuda-results.js'
import type { ContextHandle, EventHandle, StreamHandle } from '../../driver.js'
import { check } from '../libcuda/library.js'
import { captures, type LibcudaParts } from '../libcuda/stream-calls.js'
import type { StreamRecord } from '../stream-records.js'
import type { Threads } from './thread-table.js'

export class Captures {
  #underWay = 0
  #joins = 0
  /** Streams that have waited for such events, while any capture is under way. */
  readonly #joined = new Set<StreamRecord>()
  /** By event: is the capture under way still? */
  readonly #recorded = new Map<EventHandle, () => boolean>()

  /** `rest` rests the processor while another thread begins or ends a capture, or records a device. */
  constructor(
    private readonly parts: Pick<LibcudaParts, 'library' | 'memory' | 'calls'>,
    private readonly threads: Threads,
    private readonly rest: (nanosecondsWaited: number) => void,
  ) {}

  /** Captures that this library began and has not ended. */
  get underWay(): number {
    return this.#underWay
  }

  /** Waits so far for events recorded in captures: each may have made a branch of a graph. */
  get joins(): number {
    return this.#joins
  }

  /** Streams that joined a capture, and may have left it, or be gone. */
  get joined(): ReadonlySet<StreamRecord> {
    return this.#joined
  }

  /** Must it be known which events are recorded, and waited for? */
  get matter(): boolean {
    return this.#underWay > 0 || this.#recorded.size > 0
  }

  /** Makes the call that begins a capture of the stream. */
  beginBy({ handle, owner }: StreamRecord, call: () => void): void {
    this.#alone(() => {
      call()
      this.threads.captures.add(handle, owner === 'library')
    })
  }

  /** Makes a call that ends the capture which the stream began, if it did, in this thread or another. */
  endBy<R>({ handle }: StreamRecord, call: () => R): R {
    const { captures: list } = this.threads
    if (!list.has(handle)) return call()
    return this.#alone(() => {
      try {
        return call()
      } finally {
        list.remove(handle)
      }
    })
  }

  /** Has no thread of this library ended the capture that the stream began? */
  isListed({ handle }: StreamRecord): boolean {
    return this.threads.captures.has(handle)
  }

  /**
   * Records an event behind all work of a device, named after the call that it is made for, unless that would invalidate a capture: of
   * another thread, or one that `isUnknown` sees, and no thread of this library has begun. Whether this thread captures the caller has asked.
   */
  recordDevice(
    event: EventHandle,
    context: ContextHandle,
    isUnknown: () => boolean = () => false,
    name = 'cuCtxRecordEvent',
  ): 'recorded' | 'others' | 'unknown' {
    return this.#alone(() => {
      if (this.threads.captures.anyOfOthers((stream, hasEnded) => this.#isOver(stream, hasEnded))) return 'others'
      if (isUnknown()) return 'unknown'
      check(name, this.parts.library.cuCtxRecordEvent(context, event))
      return 'recorded'
    })
  }

  #alone<R>(call: () => R): R {
    const { capturing } = this.threads
    while (!capturing.take()) this.rest(Number.POSITIVE_INFINITY)
    return capturing.during(call)
  }

  /** Other code may have ended the capture. What a thread that has ended left under way nobody else ends. */
  #isOver(stream: StreamHandle, hasEnded: boolean): boolean {
    if (!captures(this.parts, stream)) return true
    if (!hasEnded) return false
    const { library, memory } = this.parts
    // CUDA gives another thread no graph of most captures, and they are over all the same.
    if (library.cuStreamEndCapture(stream, memory.address) === 0) library.cuGraphDestroy(memory.pointerAt(0))
    return true
  }

  begun(): void {
    this.#underWay += 1
  }

  ended(): void {
    this.#underWay = Math.max(0, this.#underWay - 1)
    if (this.#underWay === 0) this.#joined.clear()
  }

  /**
   * The event has been recorded. `captureOf` tells whether that was a part of a capture: its result then tells whether the
   * capture is under way still. True where it was.
   */
  recorded(event: EventHandle, captureOf: () => (() => boolean) | undefined): boolean {
    const capture = this.#underWay > 0 ? captureOf() : undefined
    if (capture === undefined) this.#recorded.delete(event)
    else this.#recorded.set(event, capture)
    return capture !== undefined
  }

  /** A stream waits for the event. True where its latest record was a part of a capture. */
  waitedFor(event: EventHandle, stream: StreamRecord): boolean {
    if (!this.#recorded.has(event)) return false
    this.#joins += 1
    if (this.#underWay > 0) this.#joined.add(stream)
    return true
  }

  forgetEvent(event: EventHandle): void {
    this.#recorded.delete(event)
  }

  /**
   * Throws where to query the event would invalidate a capture that is under way; afterwards the driver can be asked. True where
   * its latest record was a part of a capture that is over: then it may have none.
   */
  refuseQuery(event: EventHandle): boolean {
    const isUnderWay = this.#recorded.get(event)
    if (isUnderWay?.()) throw cudaError('cuEventQuery', CUresult.CAPTURED_EVENT)
    return isUnderWay !== undefined
  }
}
