/**
 * All waiting on a real GPU, with a promise or without: while JavaScript waits, host functions that come due must run,
 * or the stream would never go on. This is the one place where that is seen to.
 */

import { CUresult, cudaError } from '../../cuda-results.js'
import { comesAfterItself, deadlock, MOST_NESTED, tooDeep } from '../../deadlocks.js'
import {
  type Cancel,
  type ContextHandle,
  canonicalStream,
  type EventHandle,
  type HostFunction,
  type Settle,
  type StreamHandle,
} from '../../driver.js'
import { lookUntil } from '../../look-until.js'
import { LoopPump, type Sleeper, type TurnResult } from '../../loop-pump.js'
import type { ComesAfter, Dependencies } from '../host-functions/dependencies.js'
import type { GateCall, Gates } from '../host-functions/gates.js'
import type { GraphLane } from '../host-functions/graph-gates.js'
import type { QueueDepth } from '../host-functions/queue-depth.js'
import type { Threads } from '../host-functions/thread-table.js'
import { check, type Library } from '../libcuda/library.js'
import type { RelaxedCaptures } from '../libcuda/relaxed-captures.js'
import { type Answer, Completions } from './completions.js'
import type { EventPool } from './event-pool.js'

/** Milliseconds in which host functions that queue others are likely to be through. */
const CALM_WITHIN = 100

/**
 * Milliseconds for which a wait inside a host function stands still before others run which, as far as is known here,
 * it does not need. Streams that share a hardware queue are not known, nor waits that other libraries queue, and neither
 * can be told from work that takes its time. One that is run while there is only such work may wait for what comes
 * after the outer one, and gets an ERR_DEADLOCK that it would not have got a moment later: so this is longer than most
 * work takes.
 */
const PATIENCE = 250
/** It is at most this part of the time after which the wait is given up. */
const SHARE_OF_DEADLOCK = 1 / 4

const LIBRARY_CALL = 'this call, which may wait for the whole device,'

/** Which host functions a wait needs, as things stand: it cannot end before they have run. */
type Needs = () => ComesAfter
const needsAll: Needs = () => () => true
/** What another library waits for is not known. */
const needsNone: Needs = () => () => false

interface LaterWait {
  readonly context: ContextHandle
  readonly settle: Settle
  cancel: Cancel | undefined
  isOver: boolean
}

/** A call on a thread of its own: its result is undefined while it runs. */
export interface NativeCall {
  readonly result: number | undefined
}

/** Gates at which streams of other threads have stood since then. */
interface OthersStanding {
  readonly gates: ReadonlySet<string>
  readonly since: number
}

export interface WaitingParts {
  readonly library: Library
  readonly relaxed: RelaxedCaptures
  readonly gates: Gates
  readonly depth: QueueDepth
  readonly dependencies: Dependencies
  readonly pool: EventPool
  readonly sleeper: Sleeper
  readonly threads: Threads
  /** Is all the stream's work done? False where that cannot be asked without harm. */
  readonly isIdle: (stream: StreamHandle) => boolean
  /** Called over and over while JavaScript blocks: rests the processor after a while. */
  readonly rest: (nanosecondsWaited: number) => void
  /** Milliseconds without progress after which a wait inside a host function is given up. */
  readonly deadlockAfter: number
}

export class Waiting {
  /**
   * Must the driver tell what is recorded, waited for and queued? While nothing is pending, nobody needs to know.
   */
  tracksOrder = false
  /** Waits so far for what was recorded in captures: each may have made a branch of a graph. */
  captureJoins = 0
  readonly #parts: WaitingParts
  readonly #streams: Completions
  /** Waits for events that the caller can record anew. */
  readonly #events: Completions
  /** Waits for devices that begin once no other thread captures. */
  readonly #later: LaterWait[] = []
  /** Calls on threads of their own. */
  readonly #apart = new Set<NativeCall>()
  readonly #pump: LoopPump
  /** Captures that this library began and has not ended. */
  #captures = 0
  /** Events whose latest record was made inside a capture, and whether that capture is under way still. */
  readonly #captured = new Map<EventHandle, () => boolean>()

  constructor(parts: WaitingParts) {
    this.#parts = parts
    const query = (event: EventHandle): Answer => this.#answer(event)
    this.#streams = new Completions(query)
    this.#events = new Completions(query)
    this.#pump = new LoopPump(
      () => this.#turn(),
      parts.sleeper,
      () => true,
    )
  }

  /** Of this thread. */
  get hostFunctionsPending(): boolean {
    return this.#parts.gates.pending > 0
  }

  /** Of any thread: a native wait could be for one that only its thread runs. */
  get anyPending(): boolean {
    return this.#parts.gates.pending > 0 || this.#parts.threads.othersPending
  }

  queueHostFunction(stream: StreamHandle, raw: number, context: ContextHandle, host: HostFunction): void {
    const key = canonicalStream(stream)
    const { gates, depth, dependencies } = this.#parts
    const call = gates.queue(key, raw, context, host)
    depth.count(key, 1)
    depth.gateQueued(key)
    dependencies.queued(key, call)
    this.tracksOrder = true
    this.#pump.wake()
  }

  /** A graph is about to be launched that has so many host functions in it. */
  graphGoes(lanes: readonly GraphLane[]): void {
    this.#parts.gates.announce(lanes.length)
  }

  /** It was not launched. */
  graphStays(): void {
    this.#parts.threads.publish(this.#parts.gates.pending)
  }

  /** It was. */
  graphLaunched(stream: StreamHandle, lanes: readonly GraphLane[]): void {
    const key = canonicalStream(stream)
    const { gates, dependencies } = this.#parts
    for (const lane of lanes) {
      const call = lane.next(key)
      gates.add(call)
      dependencies.queued(key, call)
    }
    this.tracksOrder = true
    this.#pump.wake()
  }

  /** From now on it has to be known which events were recorded inside a capture: to query one would spoil it. */
  captureGoes(): void {
    const { threads, rest } = this.#parts
    while (!threads.announceCaptures(this.#captures + 1)) rest(Number.POSITIVE_INFINITY)
  }

  /** It was refused. */
  captureStays(): void {
    this.#parts.threads.announceCaptures(this.#captures)
  }

  /** From now on it has to be known which events were recorded inside a capture: to query one would invalidate it. */
  captureBegins(): void {
    this.#captures += 1
    this.tracksOrder = true
  }

  captureEnds(): void {
    this.#captures = Math.max(0, this.#captures - 1)
    this.#parts.threads.announceCaptures(this.#captures)
    this.#calmDown()
  }

  /** The event is about to be recorded anew: what waits for the old record keeps it. */
  beforeRecord(event: EventHandle): void {
    if (this.#events.has(event)) this.#keepOldRecord(event)
  }

  /**
   * It has been recorded. `captureOf` tells whether that was a part of a capture, which comes after nothing that runs: the
   * result then tells whether the capture is under way still.
   */
  recorded(event: EventHandle, stream: StreamHandle, captureOf: () => (() => boolean) | undefined): void {
    const capture = this.#captures > 0 ? captureOf() : undefined
    if (capture !== undefined) {
      this.#captured.set(event, capture)
      this.#parts.dependencies.forgetEvent(event)
      return
    }
    this.#captured.delete(event)
    if (this.hostFunctionsPending) this.#parts.dependencies.recorded(event, stream)
  }

  waitedForEvent(stream: StreamHandle, event: EventHandle): void {
    if (this.#captured.has(event)) this.captureJoins += 1
    if (this.hostFunctionsPending && !this.#captured.has(event)) {
      this.#parts.dependencies.waitedForEvent(stream, event)
    }
  }

  /** The stream is gone, or was replaced: what comes by this handle later is another stream's. */
  forgetStream(stream: StreamHandle): void {
    const { gates, depth, dependencies } = this.#parts
    this.#streams.detach(stream)
    // What is queued is counted also while only other threads have host functions pending.
    depth.forget(stream)
    if (!this.tracksOrder) return
    gates.forget(stream)
    dependencies.forgetStream(stream)
  }

  /** Another library may have destroyed the stream that had this handle, and made a new one. */
  streamAdopted(stream: StreamHandle): void {
    const { gates, depth, dependencies } = this.#parts
    if (this.#streams.pending > 0) this.#streams.detach(stream)
    depth.forget(stream)
    if (!this.hostFunctionsPending) return
    gates.forget(stream)
    dependencies.streamAdopted(stream)
  }

  forgetEvent(event: EventHandle): void {
    if (!this.tracksOrder) return
    if (this.#events.has(event)) this.#keepOldRecord(event)
    this.#captured.delete(event)
    this.#parts.dependencies.forgetEvent(event)
  }

  /** An event that may be recorded anew at once: a wait refers to the record that was latest when it was queued. */
  eventBetween(context: ContextHandle): EventHandle {
    return this.#parts.pool.shared(context)
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
    if (!this.#parts.threads.enterRecording()) return this.#finishedLater(context, settle)
    try {
      return this.#contextFinishedNow(context, settle)
    } finally {
      this.#parts.threads.leaveRecording()
    }
  }

  /** False while another thread captures: nothing is done then. */
  recordContextNow(context: ContextHandle, event: EventHandle): boolean {
    const { threads } = this.#parts
    if (!threads.enterRecording()) return false
    try {
      this.#recordContext(context, event)
    } finally {
      threads.leaveRecording()
    }
    return true
  }

  get hasOtherThreads(): boolean {
    return this.#parts.threads.others
  }

  #contextFinishedNow(context: ContextHandle, settle: Settle): Cancel {
    const record = (event: EventHandle): void => this.#recordContext(context, event)
    // No stream's handle is negative, so this is a group of its own.
    return this.#finished(-context, context, record, settle)
  }

  /** Another thread captures, and to record the device would invalidate that: it begins when the capture is over. */
  #finishedLater(context: ContextHandle, settle: Settle): Cancel {
    const wait: LaterWait = { context, settle, cancel: undefined, isOver: false }
    this.#later.push(wait)
    this.#pump.wake()
    return () => {
      wait.isOver = true
      wait.cancel?.()
    }
  }

  #beginLater(): void {
    const { threads } = this.#parts
    for (const wait of this.#later.splice(0)) {
      if (wait.isOver) continue
      if (this.#captures > 0 || !threads.enterRecording()) {
        this.#later.push(wait)
        continue
      }
      try {
        wait.cancel = this.#contextFinishedNow(wait.context, wait.settle)
      } catch (error) {
        wait.settle(error)
      } finally {
        threads.leaveRecording()
      }
    }
  }

  eventFinished(event: EventHandle, settle: Settle): Cancel {
    // To ask about an event of a capture that is under way would spoil it; afterwards the driver can be asked.
    if (this.#captured.get(event)?.()) throw cudaError('cuEventQuery', CUresult.CAPTURED_EVENT)
    this.#captured.delete(event)
    const cancel = this.#events.add(event, event, settle)
    this.tracksOrder = true
    this.#pump.wake()
    return cancel
  }

  forStream(stream: StreamHandle, isDone: () => boolean): void {
    this.#block(isDone, () => this.#parts.dependencies.streamComesAfter(stream), 'stream.synchronize()')
    this.#parts.depth.forget(canonicalStream(stream))
  }

  forEvent(event: EventHandle, isDone: () => boolean): void {
    this.#block(isDone, () => this.#parts.dependencies.eventComesAfter(event), 'event.synchronize()')
  }

  forContext(context: ContextHandle, device: number): void {
    const { pool, gates, relaxed, dependencies } = this.#parts
    const event = pool.take(context)
    // What is queued from now on does not count.
    let comesAfter: ComesAfter | undefined
    const needs: Needs = () => {
      comesAfter ??= dependencies.deviceComesAfter(
        device,
        gates.active.filter((lane) => lane.context === context),
      )
      return comesAfter
    }
    try {
      this.#block(() => this.#parts.threads.enterRecording(), needs, 'device.synchronize()')
      try {
        this.#recordContext(context, event)
      } finally {
        this.#parts.threads.leaveRecording()
      }
      // A stream of another device may capture: CUDA lets a device be waited for meanwhile, but no event be asked.
      this.#block(() => relaxed.run(() => this.#isDone(event)), needs, 'device.synchronize()')
    } finally {
      pool.giveBack(context, event)
    }
  }

  /** Waits until the stream's hardware queue takes so many entries more, where the driver would wait. */
  forRoom(stream: StreamHandle, entries: number, isEmpty: () => boolean): void {
    const { gates, dependencies } = this.#parts
    const key = canonicalStream(stream)
    const hasRoom = (): boolean => this.hasRoom(key, entries, isEmpty)
    if (hasRoom()) return
    // Where no more gates can be had, whichever runs may give one back.
    const needs: Needs = () => (gates.full ? needsAll() : dependencies.streamComesAfter(key))
    // What the stream holds before something that comes after the running one may go on, and make room.
    const behindItself: Needs = () => (call) => call.stream === key
    this.#block(hasRoom, needs, 'queuing more work', behindItself)
  }

  hasRoom(stream: StreamHandle, entries: number, isEmpty: () => boolean): boolean {
    const { depth, gates, relaxed } = this.#parts
    if (this.anyPending)
      return depth.hasRoom(canonicalStream(stream), entries, () => relaxed.run(isEmpty)) && !gates.full
    depth.clear()
    return true
  }

  /** Is JavaScript inside a host function? */
  get insideHostFunction(): boolean {
    return this.#parts.gates.running.length > 0
  }

  /** Runs host functions until none of this thread is pending. Those dropped because the GPU faulted are not pending. */
  forHostFunctions(what: string): void {
    this.#block(() => !this.hostFunctionsPending, needsAll, what)
  }

  /**
   * Makes a call that waits for the whole device in native code, once no host function of any thread is pending; while it
   * is made no thread queues one. This thread's run meanwhile, the others' in their threads.
   */
  exclusively<R>(call: () => R, what: string): R {
    const { threads, gates, deadlockAfter } = this.#parts
    const begun = performance.now()
    const first = gates.active.flatMap((lane) => lane.calls)
    const isAlone = (): boolean => {
      if (!this.hostFunctionsPending && threads.enterExclusive()) return true
      const isLate = performance.now() - begun > deadlockAfter
      if (isLate && first.every(isOver)) throw deadlock(what, neverNone(deadlockAfter))
      return false
    }
    this.#block(isAlone, needsAll, what)
    try {
      return call()
    } finally {
      threads.leaveExclusive()
    }
  }

  /** The same where that can be at once. Undefined where it cannot: nothing was called. */
  exclusivelyNow<R>(call: () => R): { readonly made: R } | undefined {
    const { threads } = this.#parts
    if (this.hostFunctionsPending || !threads.enterExclusive()) return undefined
    try {
      return { made: call() }
    } finally {
      threads.leaveExclusive()
    }
  }

  /**
   * Makes a call that may wait for the device in native code, after the host functions that are pending. Those of this
   * thread are not waited for where they queue themselves anew without end, or do not come due: the call may wait for the
   * device, and may not.
   */
  libraryCall<R>(call: () => R): R {
    const { threads } = this.#parts
    this.#beforeLibraryCall()
    this.#block(() => threads.enterExclusive(), needsNone, LIBRARY_CALL)
    try {
      return call()
    } finally {
      threads.leaveExclusive()
    }
  }

  #beforeLibraryCall(): void {
    const { gates, deadlockAfter } = this.#parts
    const begun = performance.now()
    const first = gates.active.flatMap((lane) => lane.calls)
    let [left, progress] = [first.length, begun]
    const isDone = (): boolean => {
      if (!this.hostFunctionsPending) return true
      const now = performance.now()
      const remaining = first.filter((call) => !isOver(call)).length
      if (remaining < left) [left, progress] = [remaining, now]
      return remaining === 0 ? now - begun > CALM_WITHIN : now - progress > deadlockAfter
    }
    this.#block(isDone, needsAll, LIBRARY_CALL)
  }

  /**
   * Begins a call that waits for the device on a thread of its own, once no host function of any thread is pending, and
   * resolves with its result. Until it is over none is queued. One that ends what streams stand at must not wait forever
   * for what stands behind that: after so many milliseconds it begins all the same.
   */
  async apart(begin: () => NativeCall, patience: number): Promise<number> {
    const { threads } = this.#parts
    const since = performance.now()
    let isExclusive = false
    try {
      // It is begun in the same breath in which the right is had: no host function is queued in between.
      const call = await lookUntil(() => {
        isExclusive = !this.hostFunctionsPending && threads.enterExclusive()
        if (!isExclusive && performance.now() - since <= patience) return undefined
        const begun = begin()
        this.#apart.add(begun)
        return begun
      })
      try {
        return await lookUntil(() => call.result)
      } finally {
        this.#apart.delete(call)
      }
    } finally {
      if (isExclusive) threads.leaveExclusive()
    }
  }

  /** To be called before the first host function is queued: blocks until calls on threads of their own are over. */
  forApart(): void {
    const { rest, deadlockAfter } = this.#parts
    const since = performance.now()
    for (const call of this.#apart) {
      while (call.result === undefined && performance.now() - since < deadlockAfter) rest(Number.POSITIVE_INFINITY)
    }
  }

  /** Waits for what another library does, as it says itself. */
  forLibrary(isDone: () => boolean, what: string): void {
    this.#block(isDone, needsNone, what)
  }

  /** Entries are about to be queued. */
  countEntries(stream: StreamHandle, entries: number): void {
    if (this.anyPending) this.#parts.depth.count(canonicalStream(stream), entries)
  }

  #finished(group: number, context: ContextHandle, record: (event: EventHandle) => void, settle: Settle): Cancel {
    const { pool } = this.#parts
    const event = pool.take(context)
    try {
      record(event)
    } catch (error) {
      pool.giveBack(context, event)
      throw error
    }
    const cancel = this.#streams.add(group, event, settle, (used) => pool.giveBack(context, used))
    this.#pump.wake()
    return cancel
  }

  #recordContext(context: ContextHandle, event: EventHandle): void {
    check('cuCtxRecordEvent', this.#parts.library.cuCtxRecordEvent(context, event))
  }

  /** One turn of the event loop: runs what is due, settles what is done. */
  #turn(): TurnResult {
    if (this.#later.length > 0) this.#beginLater()
    this.#parts.depth.refresh(this.#parts.isIdle)
    const progress = this.#parts.relaxed.run(() => {
      const settled = this.#streams.poll()
      return this.#events.poll() || settled
    })
    // As many as there are streams: one that queues itself anew each time must not hold up the loop.
    let ran = false
    for (let most = this.#parts.gates.active.length; most > 0 && this.#parts.gates.runDue(); most -= 1) ran = true
    if (!progress && !ran && this.hostFunctionsPending) this.#lookForFaults()
    this.#calmDown()
    const pending = this.#streams.pending + this.#events.pending + this.#later.length
    if (pending === 0 && !this.hostFunctionsPending) return 'idle'
    if (!progress && !ran) return 'later'
    this.#parts.sleeper.cancel()
    return 'soon'
  }

  #block(isDone: () => boolean, needs: Needs, what: string, neverRun = needs): void {
    if (this.insideHostFunction) this.#blockInside(isDone, needs, what, neverRun)
    else this.#blockOutside(isDone, what)
    // A thread that sleeps after this takes no turn in which it would tell the others.
    this.#parts.depth.refresh(this.#parts.isIdle)
    this.#calmDown()
  }

  /** Runs every host function that comes due: each has returned before the next begins. */
  #blockOutside(isDone: () => boolean, what: string): void {
    const { gates, rest } = this.#parts
    let since = performance.now()
    let others: OthersStanding | undefined
    for (let turn = 0; !isDone(); turn += 1) {
      if (gates.runDue()) {
        since = performance.now()
        others = undefined
        continue
      }
      const waited = performance.now() - since
      if (turn % 64 === 63) {
        this.#lookForFaults()
        if (waited > CALM_WITHIN) others = this.#lookAtOthers(others, what)
      }
      rest(waited * 1e6)
    }
  }

  /**
   * A stream of another thread may stand in the way, at a gate that only that thread opens: where one stands all the time,
   * that thread runs no host functions, and waiting for it may never end.
   */
  #lookAtOthers(before: OthersStanding | undefined, what: string): OthersStanding | undefined {
    const { threads, deadlockAfter } = this.#parts
    if (!threads.othersPending) return undefined
    const now = performance.now()
    const standing = threads.standing()
    const still = before === undefined ? standing : new Set([...standing].filter((gate) => before.gates.has(gate)))
    if (still.size === 0) return undefined
    if (before !== undefined && now - before.since > deadlockAfter) throw deadlock(what, heldByOthers(deadlockAfter))
    return { gates: still, since: before?.since ?? now }
  }

  /**
   * Runs the host functions that the wait needs. The one that JavaScript is inside of cannot go on before they have
   * returned, and what they wait for may come after it: so others run only where nothing else happens any more.
   */
  #blockInside(isDone: () => boolean, needs: Needs, what: string, neverRun: Needs): void {
    const { gates, rest, deadlockAfter } = this.#parts
    const patience = Math.min(PATIENCE, deadlockAfter * SHARE_OF_DEADLOCK)
    const isFull = gates.running.length >= MOST_NESTED
    /** As long as none runs, none is needed anew. */
    let isNeeded: ComesAfter | undefined
    let since = performance.now()
    let neededSince = since
    for (let turn = 0; !isDone(); turn += 1) {
      if (turn === 0 && gates.running.some(neverRun())) throw deadlock(what, comesAfterItself)
      isNeeded ??= needs()
      if (isFull && gates.isDue(isNeeded)) throw deadlock(what, tooDeep)
      const isPatient = performance.now() - neededSince < patience
      if (!isFull && gates.runDue(isPatient ? isNeeded : undefined)) {
        since = performance.now()
        if (isPatient) neededSince = since
        isNeeded = undefined
        continue
      }
      const waited = performance.now() - since
      if (waited > deadlockAfter) throw deadlock(what, noProgress(deadlockAfter))
      if (turn % 64 === 63) this.#lookForFaults()
      rest(waited * 1e6)
    }
  }

  #calmDown(): void {
    if (!this.tracksOrder || this.hostFunctionsPending) return
    if (!this.#parts.threads.othersPending) this.#parts.depth.clear()
    this.#parts.dependencies.clear()
    this.tracksOrder = this.#events.pending > 0 || this.#captures > 0 || this.#captured.size > 0
  }

  /** A stream in a lost context never arrives at its gate: asks each context that has gates whether it lives. */
  #lookForFaults(): void {
    const { gates, pool } = this.#parts
    const seen = new Set<ContextHandle>()
    for (const { context } of [...gates.active]) {
      if (seen.has(context)) continue
      seen.add(context)
      const result = this.#parts.relaxed.run(() => this.#parts.library.cuEventQuery(pool.unrecorded(context)))
      if (result !== 0 && result !== CUresult.NOT_READY) gates.fail(context, result)
    }
  }

  /** The event is about to stand for other work: what waited for the old record goes on with an event of its own. */
  #keepOldRecord(event: EventHandle): void {
    const settle = this.#events.take(event)
    if (settle === undefined) return
    const { pool, relaxed } = this.#parts
    const { done, error } = relaxed.run(() => this.#answer(event))
    if (done) {
      settle(error)
      return
    }
    try {
      const { copy, giveBack } = pool.copyOfRecord(event)
      this.#streams.add(copy, copy, settle, giveBack)
    } catch (error) {
      // The record that is refused with this leaves the event as it is.
      this.#events.add(event, event, settle)
      throw error
    }
    this.#pump.wake()
  }

  #isDone(event: EventHandle): boolean {
    const { done, error } = this.#answer(event)
    if (error !== undefined) throw error
    return done
  }

  #answer(event: EventHandle): Answer {
    const result = this.#parts.library.cuEventQuery(event)
    if (result === CUresult.NOT_READY) return { done: false, error: undefined }
    return { done: true, error: result === 0 ? undefined : cudaError('cuEventQuery', result) }
  }
}

const isOver = (call: GateCall): boolean => !call.lane.calls.includes(call)
const neverNone = (milliseconds: number): string =>
  `it is made while no host function is pending, and for ${milliseconds} ms some have been all the time, of this thread or another: each that ran was followed by the next. Make it before they begin, or let them pause; CUDA_STREAMS_DEADLOCK_TIMEOUT sets this time, in milliseconds`
const heldByOthers = (milliseconds: number): string =>
  `a stream of another thread has stood at a host function for ${milliseconds} ms, which only that thread can run, and may hold this one up. Let its event loop turn, or let it wait by this library; CUDA_STREAMS_DEADLOCK_TIMEOUT sets this time, in milliseconds`
const noProgress = (milliseconds: number): string =>
  `it was called inside a host function, and nothing went on for ${milliseconds} ms: the two streams may share a hardware queue. Return first, or await the finished() of it; CUDA_STREAMS_DEADLOCK_TIMEOUT sets this time, in milliseconds`
