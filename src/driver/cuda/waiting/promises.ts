/**
 * Waits by promise on a real GPU, and the turn of the event loop in which they are settled and host functions that are due
 * are run.
 */

import { seconds, warnAfter, warnOnce } from '../../../base/warnings.js'
import { CUresult, cudaError } from '../../cuda-results.js'
import type { Cancel, ContextHandle, EventHandle, Settle } from '../../driver.js'
import type { TurnResult } from '../../loop-pump.js'
import type { StreamRecord } from '../stream-records.js'
import type { WaitingParts } from './blocking.js'
import { Completions } from './completions.js'

/** A turn of the event loop takes as long as four queries: so many are made in each as long as turns follow at once. */
const QUERIES = 4
/** In the turn after nothing was waited for: short work is over by then, and noticed as soon as by a thread that blocks. */
const FIRST_QUERIES = 12

/** Which captures of a device this thread sees: those that it knows, and others, which may be another thread's. */
interface SeenCaptures {
  readonly known: () => boolean
  readonly unknown: () => boolean
}

interface LaterWait {
  readonly context: ContextHandle
  readonly captures: SeenCaptures
  readonly settle: Settle
  readonly since: number
  cancel: Cancel | undefined
  isOver: boolean
}

export class Promises {
  /** By stream; waits for a device by its context, and for an earlier record of an event by the event that stands for it. */
  readonly #streams: Completions<StreamRecord | ContextHandle | EventHandle>
  /** Waits for devices that begin once no other thread captures. */
  readonly #later: LaterWait[] = []
  /** Nothing was waited for when the last turn was over. */
  #wasIdle = true

  constructor(private readonly parts: WaitingParts) {
    this.#streams = new Completions(parts.library)
  }

  streamFinished(stream: StreamRecord, record: (event: EventHandle) => void, settle: Settle): Cancel {
    const { copy, giveBack } = this.parts.pool.recordOf(stream.context, record)
    return this.#finished(stream, copy, settle, giveBack)
  }

  /** To be called while no capture is under way that this thread knows. */
  contextFinished(context: ContextHandle, captures: SeenCaptures, settle: Settle): Cancel {
    const begun = this.#contextFinished(context, captures, settle)
    if (begun === 'unknown') throw cudaError('cuCtxRecordEvent', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    return begun === 'others' ? this.#finishedLater(context, captures, settle) : begun
  }

  eventFinished(event: EventHandle, settle: Settle): Cancel {
    const { hostFunctions, captures, eventWaits, pump, relaxed } = this.parts
    // What a graph records in it later is not what is waited for.
    if (captures.refuseQuery(event)) {
      const { done, error } = relaxed.run(() => eventWaits.query(event))
      if (done && error !== undefined) throw error
      captures.forgetEvent(event)
    }
    const cancel = eventWaits.add(event, event, settle)
    hostFunctions.trackOrder()
    pump.wake()
    return cancel
  }

  /**
   * The event is about to be recorded anew, or destroyed: waits for the old record go on with an event of their own.
   */
  keepRecord(event: EventHandle): void {
    const { eventWaits, pool, relaxed, pump } = this.parts
    const settle = eventWaits.take(event)
    if (settle === undefined) return
    const { done, error } = relaxed.run(() => eventWaits.query(event))
    if (done) {
      settle(error)
      return
    }
    try {
      const { copy, giveBack } = pool.copyOfRecord(event)
      this.#streams.add(copy, copy, settle, giveBack)
    } catch (error) {
      // The record that is refused with this leaves the event as it is.
      eventWaits.add(event, event, settle)
      throw error
    }
    pump.wake()
  }

  /** One turn of the event loop: runs host functions that are due, settles promises that are over. */
  turn(): TurnResult {
    const { hostFunctions, relaxed, gates, eventWaits, sleeper } = this.parts
    if (this.#later.length > 0) this.#beginLater()
    hostFunctions.refreshRoom()
    const most = !sleeper.polls ? 1 : this.#wasIdle ? FIRST_QUERIES : QUERIES
    this.#wasIdle = false
    const progress = relaxed.run(() => {
      const groups = this.#streams.groups + eventWaits.groups
      for (let queries = 0; queries < most; queries += groups) {
        const settled = this.#streams.poll()
        if (eventWaits.poll() || settled) return true
        if (gates.active.length > 0 || groups === 0) break
      }
      return false
    })
    // As many as there are streams: one that queues itself anew each time must not hold up the loop.
    let ran = false
    for (let most = gates.active.length; most > 0 && gates.runDue(); most -= 1) ran = true
    if (!progress && !ran && hostFunctions.pending) hostFunctions.lookForFaults()
    hostFunctions.calmDown()
    const pending = this.#streams.pending + eventWaits.pending + this.#later.length
    if (pending === 0 && !hostFunctions.functionsPending) {
      this.#wasIdle = true
      return 'idle'
    }
    if (!progress && !ran) {
      this.#tellOfStanding()
      return 'later'
    }
    sleeper.cancel()
    return 'soon'
  }

  /** Something that is waited for may come after a promise that never settles, or a value that is never written. */
  #tellOfStanding(): void {
    const { gates, hostFunctions, valueWaits } = this.parts
    const held = gates.holds.size === 0 ? undefined : hostFunctions.heldFor(warnAfter())
    if (held !== undefined) warnOnce('CUDA_STREAMS_PROMISE', stands(held, warnAfter()))
    const value = valueWaits.any ? valueWaits.standingFor(warnAfter()) : undefined
    if (value !== undefined) warnOnce('CUDA_STREAMS_VALUE', stands(value, warnAfter()))
  }

  /** Begins no wait while a stream captures: to record the device would invalidate that. */
  #contextFinished(context: ContextHandle, seen: SeenCaptures, settle: Settle): Cancel | 'others' | 'unknown' {
    const { captures, pool } = this.parts
    const event = pool.take(context)
    const giveBack = (): void => void pool.giveBack(context, event)
    let outcome: ReturnType<typeof captures.recordDevice> | undefined
    try {
      outcome = captures.recordDevice(event, context, seen.unknown)
    } finally {
      if (outcome !== 'recorded') giveBack()
    }
    return outcome === 'recorded' ? this.#finished(context, event, settle, giveBack) : outcome
  }

  /** It begins when no thread captures any more. */
  #finishedLater(context: ContextHandle, captures: SeenCaptures, settle: Settle): Cancel {
    const since = performance.now()
    const wait: LaterWait = { context, captures, settle, since, cancel: undefined, isOver: false }
    this.#later.push(wait)
    this.parts.pump.wake()
    return () => {
      wait.isOver = true
      wait.cancel?.()
    }
  }

  #beginLater(): void {
    for (const wait of this.#later.splice(0)) {
      if (wait.isOver || this.#begins(wait)) continue
      this.#later.push(wait)
      if (performance.now() - wait.since > warnAfter()) warnOnce('CUDA_STREAMS_CAPTURE', captured(warnAfter()))
    }
  }

  /** False where it cannot begin yet. */
  #begins(wait: LaterWait): boolean {
    try {
      if (wait.captures.known()) return false
      const begun = this.#contextFinished(wait.context, wait.captures, wait.settle)
      if (typeof begun === 'string') return false
      wait.cancel = begun
      return true
    } catch (error) {
      wait.settle(error)
      return true
    }
  }

  #finished(group: StreamRecord | ContextHandle, recorded: EventHandle, settle: Settle, giveBack: () => void): Cancel {
    const { pump } = this.parts
    const cancel = this.#streams.add(group, recorded, settle, giveBack)
    pump.wake()
    return cancel
  }
}

const stands = (held: string, milliseconds: number): string =>
  `A stream has stood for ${seconds(milliseconds)} at ${held}, while work is waited for that may come after it`

const captured = (milliseconds: number): string =>
  `device.finished() has waited for ${seconds(milliseconds)} for a capture of a stream, of this thread or another, to end: to ask before would invalidate it. Call endCapture() on the stream that began it, or await the finished() of the streams that matter`
