/**
 * Calls that give something back, for which CUDA waits for all work of a device. The library makes them at times that no program
 * chose, and what a device is at may be work that only this thread can let go on, of another library too: so they are made when
 * the streams of this thread have nothing to do, and those of other libraries that are wrapped. `cuCtxRecordEvent` would tell of
 * all, but it ends every capture of the context, and those of other libraries cannot be known.
 */
import { RecheckTimer } from '../../../base/recheck-timer.js'
import { CUresult } from '../../cuda-results.js'
import { type ContextHandle, defaultStream, type OwnEvent, type StreamHandle } from '../../driver.js'
import type { HandleCheck } from '../handles/handle-check.js'
import type { HostFunctions } from '../host-functions/host-functions.js'
import { captures, type LibcudaParts } from '../libcuda/stream-calls.js'
import type { EventPool } from './event-pool.js'

export interface IdleDevicesParts extends LibcudaParts {
  readonly pool: EventPool
  readonly handles: Pick<HandleCheck, 'isStill'>
  readonly hostFunctions: Pick<HostFunctions, 'exclusivelyNow'>
}

/** So often was all done that had been queued, and other work was there: that is a device which is busy, not one which stands. */
const MOST_ROUNDS = 16
const NULL = 0
const PER_THREAD = 2

export class IdleDevices {
  #waiting: (() => void)[] = []
  /** Each behind the work of a stream that had some at the latest look. */
  #events: OwnEvent[] = []
  /** Looks that found the events of the look before done. */
  #rounds = 0
  readonly #again = new RecheckTimer(() => this.look())

  constructor(private readonly parts: IdleDevicesParts) {}

  /** Makes the call now where no device has anything to do, else later. */
  whenIdle(call: () => void): void {
    this.#waiting.push(call)
    this.look()
  }

  /** Makes the calls that wait where no device has anything to do. */
  look(): void {
    if (this.#waiting.length === 0) return
    if (this.#areIdle()) {
      const made = this.parts.hostFunctions.exclusivelyNow(() => this.makeAll())
      // What holds it up now is over at a time of which nothing was seen.
      if (made === undefined) this.#rounds = 0
    }
    if (this.#waiting.length > 0) this.#again.later()
  }

  /** Makes the calls that wait, for a thread that waits for the devices anyway. What they throw is thrown when all are made. */
  makeAll(): void {
    this.#forget()
    this.#rounds = 0
    const errors: unknown[] = []
    for (const call of this.#waiting.splice(0)) {
      try {
        call()
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw errors[0]
  }

  #areIdle(): boolean {
    return this.parts.relaxed.run(() => {
      if (!this.#areDone()) return false
      this.#forget()
      const busy = this.#busyStreams()
      if (busy === undefined) return false
      if (busy.length === 0 || this.#rounds >= MOST_ROUNDS) return true
      this.#rounds += 1
      for (const [stream, context] of busy) this.#record(stream, context)
      return false
    })
  }

  /** Undefined where a stream captures: it does not tell of the work that it had before. */
  #busyStreams(): (readonly [StreamHandle, ContextHandle])[] | undefined {
    const busy: (readonly [StreamHandle, ContextHandle])[] = []
    for (const [stream, context] of this.#streams()) {
      const isBusy = this.#isBusy(stream)
      if (isBusy === undefined) return undefined
      if (isBusy) busy.push([stream, context])
    }
    return busy
  }

  *#streams(): Iterable<readonly [StreamHandle, ContextHandle]> {
    const { calls, contexts, handles } = this.parts
    yield* calls.own
    for (const stream of calls.theirs(handles)) {
      const context = calls.contextOf(stream)
      if (context !== undefined) yield [stream, context]
    }
    for (const [device, context] of contexts.primaries) {
      if (context === undefined) continue
      yield [defaultStream(device, NULL), context]
      yield [defaultStream(device, PER_THREAD), context]
    }
  }

  /** Undefined where it captures, or a blocking stream does: to ask the null stream more would end that capture. */
  #isBusy(stream: StreamHandle): boolean | undefined {
    if (captures(this.parts, stream)) return undefined
    let result = 0
    this.parts.calls.onStream(stream, 'cuStreamQuery', (raw) => {
      result = this.parts.library.cuStreamQuery(raw)
      return 0
    })
    return result === CUresult.NOT_READY
  }

  #record(stream: StreamHandle, context: ContextHandle): void {
    const { pool, calls, library } = this.parts
    const event = pool.take(context)
    this.#events.push({ context, event })
    // Where that is refused the event is done, as one that has nothing before it.
    calls.onStream(stream, 'cuEventRecord', (raw) => {
      library.cuEventRecord(event, raw)
      return 0
    })
  }

  #areDone(): boolean {
    const { library } = this.parts
    return this.#events.every(({ event }) => library.cuEventQuery(event) !== CUresult.NOT_READY)
  }

  #forget(): void {
    for (const { context, event } of this.#events.splice(0)) this.parts.pool.giveBack(context, event)
  }
}
