/**
 * The captures that this thread has under way, and the events whose latest record is part of one: a query of such an event would invalidate the
 * capture, and a stream that waits for it joins the capture.
 */
import { CUresult, cudaError, hasLostContext } from '../../foundation/driver/cuda-results.js'
import type { ContextHandle, EventHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import type { StreamRecord } from '../handles/stream-records.js'
import type { LibcudaParts } from '../libcuda/driver-calls.js'
import { check, checkCleanup } from '../libcuda/libcuda.js'
import type { ProcessRegistry } from './process-registry.js'

/**
 * May a known answer be given without a query? With 32 hardware queues, a query costs as much as seven records. A query is refused while a
 * stream captures, and reports faults.
 */
export const mayAnswerItself = ({
  captures,
  registry,
}: {
  readonly captures: Pick<Captures, 'underWay'>
  readonly registry: Pick<ProcessRegistry, 'hasOthers'>
}): boolean => captures.underWay === 0 && !hasLostContext() && !registry.hasOthers

export class Captures {
  #underWay = 0
  #joins = 0
  readonly #joined = new Set<StreamRecord>()
  /** Whether the capture that an event was recorded in is still under way. */
  readonly #recorded = new Map<EventHandle, () => boolean>()

  /** `spinWait` is called while another thread begins or ends a capture, or records a device. */
  constructor(
    private readonly parts: Pick<LibcudaParts, 'library' | 'memory' | 'calls'>,
    private readonly registry: ProcessRegistry,
    private readonly spinWait: (nanosecondsWaited: number) => void,
  ) {}

  /** The number of captures that this library began and has not ended. */
  get underWay(): number {
    return this.#underWay
  }

  /** The number of waits so far for events recorded in captures: each may have made a branch of a graph. */
  get joins(): number {
    return this.#joins
  }

  /** Streams that joined a capture while one was under way. They may have left it, or be gone. */
  get joined(): ReadonlySet<StreamRecord> {
    return this.#joined
  }

  /** Must the records of events, and the waits for them, be tracked? */
  get matter(): boolean {
    return this.#underWay > 0 || this.#recorded.size > 0
  }

  /** Makes the call that begins a capture of the stream. */
  beginBy({ handle, owner }: StreamRecord, call: () => void): void {
    this.#alone(() => {
      call()
      this.registry.captures.add(handle, owner === 'library')
    })
  }

  /** Makes a call that ends the capture which the stream began, if it began one, in this thread or another. */
  endBy<R>({ handle }: StreamRecord, call: () => R): R {
    const { captures: list } = this.registry
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
    return this.registry.captures.has(handle)
  }

  /**
   * Records an event behind all work of a device, unless that would invalidate a capture: of another thread, or one that `isUnknown` finds,
   * and no thread of this library has begun. The caller has checked whether this thread captures. `name` is the call in error messages.
   */
  recordDevice(
    event: EventHandle,
    context: ContextHandle,
    isUnknown: () => boolean = () => false,
    name = 'cuCtxRecordEvent',
  ): 'recorded' | 'others' | 'unknown' {
    return this.#alone(() => {
      if (this.registry.captures.anyOfOthers((stream, hasEnded) => this.#isOver(stream, hasEnded))) return 'others'
      if (isUnknown()) return 'unknown'
      check(name, this.parts.library.cuCtxRecordEvent(context, event))
      return 'recorded'
    })
  }

  /**
   * Makes a call that would invalidate what the stream captures, or, for a null stream, what blocking streams of any thread do: no thread of this
   * library can begin a capture meanwhile. Returns undefined, and makes none, while one is under way.
   */
  unlessCapturing<R>(stream: StreamHandle, call: () => R): R | undefined {
    return this.#alone(() => (this.parts.calls.captures(stream) ? undefined : call()))
  }

  #alone<R>(call: () => R): R {
    const { capturing } = this.registry
    while (!capturing.tryTake()) this.spinWait(Number.POSITIVE_INFINITY)
    return capturing.during(call)
  }

  /**
   * Is the capture over? Other code may have ended it. A capture that a thread left when it ended is ended here, since nobody
   * else does.
   */
  #isOver(stream: StreamHandle, hasEnded: boolean): boolean {
    const { library, memory, calls } = this.parts
    if (!calls.captures(stream)) return true
    if (!hasEnded) return false
    // CUDA returns no graph of most captures to another thread, and ends them all the same.
    if (library.cuStreamEndCapture(stream, memory.address) === 0) {
      const graph = memory.pointerAt(0)
      checkCleanup('cuGraphDestroy', graph, library.cuGraphDestroy(graph))
    }
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
   * The event has been recorded. `captureOf` returns undefined when the record is not part of a capture; otherwise a function that returns
   * whether the capture is still under way. Returns whether the record is part of one.
   */
  recorded(event: EventHandle, captureOf: () => (() => boolean) | undefined): boolean {
    const capture = this.#underWay > 0 ? captureOf() : undefined
    if (capture === undefined) this.#recorded.delete(event)
    else this.#recorded.set(event, capture)
    return capture !== undefined
  }

  /** A stream waits for the event. Returns whether the event's latest record is part of a capture. */
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
   * Throws if a query of the event would invalidate a capture that is under way. Otherwise returns whether its latest record was part of a
   * capture that has ended: then the event may have no record at all.
   */
  refuseQuery(event: EventHandle): boolean {
    const isUnderWay = this.#recorded.get(event)
    if (isUnderWay?.()) throw cudaError('cuEventQuery', CUresult.CAPTURED_EVENT)
    return isUnderWay !== undefined
  }

  /** Is the event's latest record part of a capture that is under way? */
  isOfCapture(event: EventHandle): boolean {
    return this.#recorded.get(event)?.() === true
  }
}
