/**
 * Calls that free something, for which CUDA waits for all work of a device. The library makes them at times that no program chose, and the
 * device may be blocked by work that only this thread can let resume, also of another library. So they are made when the streams of this
 * thread are idle, and the wrapped streams of other libraries. `cuCtxRecordEvent` would cover all streams, but it invalidates every capture of
 * the context, and captures of other libraries are not known.
 */
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { RecheckTimer } from '../../foundation/base/polling.js'
import { CUresult } from '../../foundation/driver/cuda-results.js'
import type { InternalEvent } from '../../foundation/driver/event-driver.js'
import { defaultStream, type StreamHandle } from '../../foundation/driver/handle-types.js'
import type { HandleCheck } from '../handles/handle-check.js'
import type { StreamRecord } from '../handles/stream-records.js'
import type { Captures } from '../host-functions/captures.js'
import type { PendingHostFunctions } from '../host-functions/pending-host-functions.js'
import type { LibcudaParts } from '../libcuda/driver-calls.js'
import type { EventPool } from './event-pool.js'

export interface IdleDevicesParts extends LibcudaParts {
  readonly pool: EventPool
  readonly captures: Pick<Captures, 'unlessCapturing'>
  readonly handles: Pick<HandleCheck, 'isStill'>
  readonly hostFunctions: Pick<PendingHostFunctions, 'exclusivelyNow'>
}

/**
 * The number of rounds after which the device is hardly ever idle when it is queried: each time all queued work has completed,
 * and other work was there.
 */
const MOST_ROUNDS = 16
/** Milliseconds for which this thread then looks on: it queues nothing meanwhile, so that what is not blocked comes to an end. */
const LONGEST_LOOK = 100
const NULL_AND_PER_THREAD = [0, 2] as const

export class IdleDevices {
  #waiting: (() => void)[] = []
  /** Calls for which CUDA may wait, and seldom does: made while nothing can be blocked that this thread has to let resume. */
  #seldomWaiting: (() => void)[] = []
  /** Each is recorded behind the work of a stream that had some at the latest check. */
  #events: InternalEvent[] = []
  /** The number of checks that found the events of the check before completed. */
  #rounds = 0
  readonly #again = new RecheckTimer(() => this.check())

  constructor(private readonly parts: IdleDevicesParts) {}

  /** Makes the call now if all devices are idle, otherwise later. */
  whenIdle(call: () => void): void {
    this.#waiting.push(call)
    this.check()
  }

  /**
   * Makes the call as soon as no host function is pending and no stream of this thread stands at a value: for calls in which CUDA
   * seldom waits, since other work is not waited for.
   */
  whenNothingStands(call: () => void): void {
    if (this.parts.hostFunctions.exclusivelyNow(call) !== undefined) return
    this.#seldomWaiting.push(call)
    this.#again.later()
  }

  /** Makes the waiting calls if all devices are idle. */
  check(): void {
    if (this.#seldomWaiting.length > 0) {
      this.parts.hostFunctions.exclusivelyNow(() => makeEach(this.#seldomWaiting.splice(0)))
      if (this.#seldomWaiting.length > 0) this.#again.later()
    }
    if (this.#waiting.length === 0) return
    if (this.#areIdle()) {
      const made = this.parts.hostFunctions.exclusivelyNow(() => this.makeAll())
      // When the obstacle to this will have ended is not known.
      if (made === undefined) this.#rounds = 0
    }
    if (this.#waiting.length > 0) this.#again.later()
  }

  /** Makes the waiting calls, for a thread that waits for the devices anyway. Throws the first error once all are made. */
  makeAll(): void {
    this.#forget()
    this.#rounds = 0
    makeEach([...this.#seldomWaiting.splice(0), ...this.#waiting.splice(0)])
  }

  #areIdle(): boolean {
    return this.parts.relaxed.run(() => {
      if (!this.#areDone()) return false
      this.#forget()
      const busy = this.#busyStreams()
      if (busy === undefined) return false
      if (busy.length === 0) return true
      if (this.#rounds >= MOST_ROUNDS) {
        this.#rounds = 0
        return this.#becomeIdle(busy)
      }
      this.#rounds += 1
      for (const stream of busy) this.#record(stream)
      return false
    })
  }

  /** The last of that work may be blocked by this thread, so that no call may wait for it without an end. */
  #becomeIdle(busy: readonly StreamRecord[]): boolean {
    const end = monotonicTime() + LONGEST_LOOK
    return busy.every(({ handle }) => {
      while (this.#isBusy(handle) === true) if (monotonicTime() > end) return false
      return this.#isBusy(handle) === false
    })
  }

  /**
   * The streams that have work; undefined when a stream captures: whether the work that it had before has completed cannot be
   * queried.
   */
  #busyStreams(): StreamRecord[] | undefined {
    const busy: StreamRecord[] = []
    for (const stream of this.#streams()) {
      const isBusy = this.#isBusy(stream.handle)
      if (isBusy === undefined) return undefined
      if (isBusy) busy.push(stream)
    }
    return busy
  }

  *#streams(): Iterable<StreamRecord> {
    const { streams, contexts, handles } = this.parts
    yield* streams.own()
    yield* streams.wrapped((stream, id) => handles.isStill(stream, id))
    for (const [device, context] of contexts.primaries)
      if (context !== undefined) for (const which of NULL_AND_PER_THREAD) yield streams.of(defaultStream(device, which))
  }

  /**
   * Has the stream work? Undefined when it captures, or, for the null stream, a blocking stream does: a query would invalidate
   * that capture.
   */
  #isBusy(stream: StreamHandle): boolean | undefined {
    const { calls, library, captures } = this.parts
    return captures.unlessCapturing(
      stream,
      () => calls.onStream(stream, (raw) => library.cuStreamQuery(raw)) === CUresult.NOT_READY,
    )
  }

  #record({ handle, context }: StreamRecord): void {
    const { pool, calls, library, captures } = this.parts
    const event = pool.take(context)
    this.#events.push({ context, event })
    // If that is refused, the event has nothing before it, and counts as completed.
    captures.unlessCapturing(handle, () => calls.onStream(handle, (raw) => library.cuEventRecord(event, raw)))
  }

  #areDone(): boolean {
    const { library } = this.parts
    return this.#events.every(({ event }) => library.cuEventQuery(event) !== CUresult.NOT_READY)
  }

  #forget(): void {
    for (const { context, event } of this.#events.splice(0)) this.parts.pool.giveBack(context, event)
  }
}

/** Throws the first error once all are made. */
function makeEach(calls: readonly (() => void)[]): void {
  const errors: unknown[] = []
  for (const call of calls) {
    try {
      call()
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw errors[0]
}
