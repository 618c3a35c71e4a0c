/**
 * The captures that the threads of a process have under way, in memory that all of them share: to record an event behind the
 * work of a whole device invalidates every capture there, of any thread and in any mode (docs/cuda-facts.md).
 */
import { DEFAULT_STREAM_LIMIT, type StreamHandle } from '../../driver.js'

/** So many at a time; more are not listed, and not protected. */
const MOST_CAPTURES = 512
export const CAPTURE_LIST_BYTES = 8 + MOST_CAPTURES * 12

/** Instead of the thread that began it: that thread has ended, and another may have its number by now. */
const ENDED = 2 ** 31 - 1

/** Changed and read only with the right `ThreadTable.capturing`, apart from `has()` and `threadEnded()`. */
export class CaptureList {
  /** How many places were used, up to the last that is. */
  readonly #used: Int32Array
  readonly #streams: Float64Array
  /** The thread that began the capture: negative where it had not made the stream, but wrapped it. */
  readonly #threads: Int32Array

  /** `thread` is the number of this one, from 1; `hasEnded` is asked about others. */
  constructor(
    memory: ArrayBufferLike,
    offset: number,
    private readonly thread: number,
    private readonly hasEnded: (thread: number) => boolean,
  ) {
    this.#used = new Int32Array(memory, offset, 1)
    this.#streams = new Float64Array(memory, offset + 8, MOST_CAPTURES)
    this.#threads = new Int32Array(memory, offset + 8 + MOST_CAPTURES * 8, MOST_CAPTURES)
  }

  has(stream: StreamHandle): boolean {
    return this.#placeOf(stream) !== undefined
  }

  /** This thread has begun a capture of the stream. `isMadeHere` where it made the stream, too. */
  add(stream: StreamHandle, isMadeHere: boolean): void {
    const place = this.#placeOf(stream) ?? this.#streams.indexOf(0)
    if (place < 0) return
    // In this order: the thread may be terminated in between.
    this.#threads[place] = isMadeHere ? this.thread : -this.thread
    this.#streams[place] = stream
    this.#used[0] = Math.max(this.#usedPlaces, place + 1)
  }

  remove(stream: StreamHandle): void {
    const place = this.#placeOf(stream)
    if (place !== undefined) this.#clear(place)
  }

  /**
   * Has another thread a capture under way? `isOver` is asked about streams that their thread made, which live as long as they are
   * listed, and learns whether that thread has ended. Of a stream that was wrapped nothing can be asked: its owner may have destroyed it.
   */
  anyOfOthers(isOver: (stream: StreamHandle, hasEnded: boolean) => boolean): boolean {
    let any = false
    for (let place = 0; place < this.#usedPlaces; place += 1) {
      const stream = this.#streams[place] as StreamHandle
      const began = this.#threads[place] ?? 0
      const thread = Math.abs(began)
      if (stream === 0 || thread === this.thread) continue
      const hasEnded = thread === ENDED || this.hasEnded(thread)
      if (began > 0 ? isOver(stream, hasEnded) : hasEnded) this.#clear(place)
      else any = true
    }
    return any
  }

  /** A thread has ended, and this one takes its number. */
  threadEnded(): void {
    for (let place = 0; place < this.#usedPlaces; place += 1) {
      Atomics.compareExchange(this.#threads, place, this.thread, ENDED)
      Atomics.compareExchange(this.#threads, place, -this.thread, -ENDED)
    }
  }

  /** Each thread has a default stream of its own with the same handle. */
  #placeOf(stream: StreamHandle): number | undefined {
    for (let place = 0; place < this.#usedPlaces; place += 1) {
      if (this.#streams[place] !== stream) continue
      if (stream >= DEFAULT_STREAM_LIMIT || this.#threads[place] === -this.thread) return place
    }
    return undefined
  }

  #clear(place: number): void {
    this.#streams[place] = 0
    let used = this.#usedPlaces
    while (used > 0 && this.#streams[used - 1] === 0) used -= 1
    this.#used[0] = used
  }

  get #usedPlaces(): number {
    return this.#used[0] ?? 0
  }
}
