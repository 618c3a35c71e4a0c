/**
 * Captures that this thread has under way, and the events whose latest record is a part of one: to query such an event
 * would invalidate the capture, and a stream that waits for it joins the capture.
 */
import { CUresult, cudaError } from '../../cuda-results.js'
import type { EventHandle, StreamHandle } from '../../driver.js'
import type { Threads } from './thread-table.js'

export class Captures {
  #underWay = 0
  #joins = 0
  /** Streams that have waited for such events, while any capture is under way. */
  readonly #joined = new Set<StreamHandle>()
  /** By event: is the capture under way still? */
  readonly #recorded = new Map<EventHandle, () => boolean>()

  /** `rest` rests the processor while another thread keeps captures away. */
  constructor(
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

  /** Streams that joined a capture, and may have left it. */
  get joined(): ReadonlySet<StreamHandle> {
    return this.#joined
  }

  /** Must it be known which events are recorded, and waited for? */
  get matter(): boolean {
    return this.#underWay > 0 || this.#recorded.size > 0
  }

  /** Makes the call that begins a capture. The other threads are told before, and again where it is refused. */
  beginBy(call: () => void): void {
    while (!this.threads.announceCaptures(this.#underWay + 1)) this.rest(Number.POSITIVE_INFINITY)
    try {
      call()
    } catch (error) {
      this.threads.announceCaptures(this.#underWay)
      throw error
    }
  }

  begun(): void {
    this.#underWay += 1
  }

  ended(): void {
    this.#underWay = Math.max(0, this.#underWay - 1)
    if (this.#underWay === 0) this.#joined.clear()
    this.threads.announceCaptures(this.#underWay)
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
  waitedFor(event: EventHandle, stream: StreamHandle): boolean {
    if (!this.#recorded.has(event)) return false
    this.#joins += 1
    if (this.#underWay > 0) this.#joined.add(stream)
    return true
  }

  /** The stream is gone. */
  forgetStream(stream: StreamHandle): void {
    this.#joined.delete(stream)
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
