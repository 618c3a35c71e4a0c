/**
 * Waits by promise on a real GPU, and the turn of the event loop in which they are settled and host functions that are due
 * are run.
 */

import { seconds, warnAfter, warnOnce } from '../../../base/warnings.js'
import {
  type Cancel,
  type ContextHandle,
  canonicalStream,
  type EventHandle,
  type Settle,
  type StreamHandle,
} from '../../driver.js'
import type { TurnResult } from '../../loop-pump.js'
import { check } from '../libcuda/library.js'
import type { WaitingParts } from './blocking.js'
import { Completions } from './completions.js'

/** A turn of the event loop takes as long as four queries: so many are made in each as long as turns follow at once. */
const QUERIES = 4
/** In the turn after nothing was waited for: short work is over by then, and noticed as soon as by a thread that blocks. */
const FIRST_QUERIES = 12

interface LaterWait {
  readonly context: ContextHandle
  readonly settle: Settle
  readonly since: number
  cancel: Cancel | undefined
  isOver: boolean
}

export class Promises {
  readonly #streams: Completions
  /** Waits for devices that begin once no other thread captures. */
  readonly #later: LaterWait[] = []
  /** Nothing was waited for when the last turn was over. */
  #wasIdle = true

  constructor(private readonly parts: WaitingParts) {
    this.#streams = new Completions(parts.library)
  }

  streamFinished(
    stream: StreamHandle,
    context: ContextHandle,
    record: (event: EventHandle) => void,
    settle: Settle,
  ): Cancel {
    return this.#finished(canonicalStream(stream), context, record, settle)
  }

  contextFinished(context: ContextHandle, settle: Settle): Cancel {
    const begun = this.parts.threads.recording.now(() => this.#contextFinished(context, settle))
    return begun === undefined ? this.#finishedLater(context, settle) : begun.made
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

  /** The stream is gone, or was replaced: later waits with this handle are not in order with those before. */
  forgetStream(stream: StreamHandle): void {
    this.#streams.detach(stream)
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

  #contextFinished(context: ContextHandle, settle: Settle): Cancel {
    const { library } = this.parts
    const record = (event: EventHandle): void => check('cuCtxRecordEvent', library.cuCtxRecordEvent(context, event))
    // No stream's handle is negative, so this is a group of its own.
    return this.#finished(-context, context, record, settle)
  }

  /** Another thread captures, and to record the device would invalidate that: it begins when the capture is over. */
  #finishedLater(context: ContextHandle, settle: Settle): Cancel {
    const wait: LaterWait = { context, settle, since: performance.now(), cancel: undefined, isOver: false }
    this.#later.push(wait)
    this.parts.pump.wake()
    return () => {
      wait.isOver = true
      wait.cancel?.()
    }
  }

  #beginLater(): void {
    const { threads, captures } = this.parts
    for (const wait of this.#later.splice(0)) {
      if (wait.isOver) continue
      const begin = (): void => {
        try {
          wait.cancel = this.#contextFinished(wait.context, wait.settle)
        } catch (error) {
          wait.settle(error)
        }
      }
      if (captures.underWay === 0 && threads.recording.now(begin) !== undefined) continue
      this.#later.push(wait)
      if (performance.now() - wait.since > warnAfter()) warnOnce('CUDA_STREAMS_CAPTURE', captured(warnAfter()))
    }
  }

  #finished(group: number, context: ContextHandle, record: (event: EventHandle) => void, settle: Settle): Cancel {
    const { pool, pump } = this.parts
    const event = pool.take(context)
    try {
      record(event)
    } catch (error) {
      pool.giveBack(context, event)
      throw error
    }
    const cancel = this.#streams.add(group, event, settle, (used) => pool.giveBack(context, used))
    pump.wake()
    return cancel
  }
}

const stands = (held: string, milliseconds: number): string =>
  `A stream has stood for ${seconds(milliseconds)} at ${held}, while work is waited for that may come after it`

const captured = (milliseconds: number): string =>
  `device.finished() has waited for ${seconds(milliseconds)} for a capture of a stream, of this thread or another, to end: to ask before would invalidate it. Call endCapture() on the stream that began it, or await the finished() of the streams that matter`
