/**
 * Waits that block JavaScript on a real GPU. While one lasts, host functions that become ready must run, or their streams would never resume.
 * So each wait checks in turn whether it has ended and whether a stream waits at a semaphore.
 */
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { seconds, warnAfter, warnOnce } from '../../foundation/base/warnings.js'
import { CUresult, cudaError } from '../../foundation/driver/cuda-results.js'
import {
  behindPromise,
  comesAfterItself,
  deadlock,
  drained,
  LIBRARY_CALL,
  MOST_NESTED,
  queuing,
  tooDeep,
} from '../../foundation/driver/deadlocks.js'
import type { ContextHandle, EventHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import type { ComesAfter } from '../host-functions/dependencies.js'
import type { PendingHostFunctions } from '../host-functions/pending-host-functions.js'
import { QUEUE_ENTRIES } from '../host-functions/queue-depth.js'
import type { PendingCall } from '../host-functions/semaphores.js'
import type { InternalRecord } from './event-pool.js'
import type { WaitingParts } from './promises.js'
import type { ValueWaits } from './value-waits.js'

/** Milliseconds in which host functions that queue others are likely to come to an end. */
const CALM_WITHIN = 100

/**
 * Milliseconds for which a wait inside a host function makes no progress before other host functions run which, as far as is known here, it
 * does not need. Streams that share a hardware queue are not known, nor waits that other libraries queue, and neither can be distinguished from work that
 * takes its time. A host function that runs while there is only such work may wait for what comes after the outer one, and gets an ERR_DEADLOCK
 * that it would not have got a moment later. So this is longer than most work takes.
 */
const PATIENCE = 250
/** The number of checks of semaphores, which are in memory, for each query, which costs up to a microsecond. */
const CHECKS = 8
/** Milliseconds for which `CHECKS` holds. After that the thread naps between two checks. */
const CHECKS_FOR = 1
/** `PATIENCE` is at most this part of the time after which the wait is given up. */
const SHARE_OF_DEADLOCK = 1 / 4

/** Streams may share a hardware queue, and have fewer entries of it then. */
const QUEUING = queuing(`at most ${QUEUE_ENTRIES} operations`)

/** Returns which host functions a wait needs at present: it cannot end before they have run. */
type Needs = () => ComesAfter
const needsAll: Needs = () => () => true
/** The library does not know which work another library waits for. */
const needsNone: Needs = () => () => false

/**
 * The reasons why a wait can never end: the host functions that it must not run, and the promises that it comes after.
 */
interface Never {
  readonly neverRun: Needs
  readonly neverSettle: Needs
}

/** Semaphores at which streams of other threads have waited since then. */
interface WaitingOthers {
  readonly semaphores: ReadonlySet<string>
  readonly since: number
}

/** A wait for a stream or an event that blocks now, and runs host functions. */
interface WaitUnderWay {
  /** The event that is waited for; undefined for a stream. */
  readonly event: EventHandle | undefined
  isDone: () => boolean
  /** Records what is waited for in an internal event, which no host function can change. */
  readonly record: () => InternalRecord
  /** Gives the internal event back; set once `record` was called. */
  giveBack: (() => void) | undefined
}

/** A native wait would run no host functions meanwhile, and may never end. */
export const mustRunHostFunctions = ({
  hostFunctions,
  valueWaits,
}: {
  readonly hostFunctions: Pick<PendingHostFunctions, 'anyPending'>
  readonly valueWaits: Pick<ValueWaits, 'anyBlocks'>
}): boolean => hostFunctions.anyPending || valueWaits.anyBlocks()

export class Blocking {
  #innerWaits = 0
  /** The innermost wait is the last one. */
  readonly #underWay: WaitUnderWay[] = []

  constructor(private readonly parts: WaitingParts) {}

  /** `record` records an internal event behind the stream's work. */
  forStream(stream: StreamHandle, isDone: () => boolean, record: () => InternalRecord): void {
    const { streams, dependencies, hostFunctions } = this.parts
    const of = streams.of(stream)
    const needs: Needs = () => dependencies.streamComesAfter(of)
    this.#blockFor({ event: undefined, isDone, record, giveBack: undefined }, needs, 'stream.synchronize()')
    hostFunctions.forgetEntries(of)
  }

  forEvent(event: EventHandle, isDone: () => boolean): void {
    const { pool, dependencies } = this.parts
    const record = (): InternalRecord => pool.copyOfRecord(event)
    const needs: Needs = () => dependencies.eventComesAfter(event)
    this.#blockFor({ event, isDone, record, giveBack: undefined }, needs, 'event.synchronize()')
  }

  /**
   * A stream is about to capture, so no wait can query it any more. Waits for streams that are under way continue with internal events. Queries of
   * events are made relaxed from now on, since they could invalidate the capture.
   */
  beforeCapture(): void {
    for (const wait of this.#underWay) {
      const { event } = wait
      if (event === undefined) this.#continueWithRecord(wait)
      else if (wait.giveBack === undefined) wait.isDone = () => this.parts.relaxed.run(() => this.#isDone(event))
    }
  }

  /** The event is about to be recorded again. Waits under way for its old record continue with an internal event. */
  keepRecord(event: EventHandle): void {
    for (const wait of this.#underWay) if (wait.event === event) this.#continueWithRecord(wait)
  }

  #continueWithRecord(wait: WaitUnderWay): void {
    if (wait.giveBack !== undefined) return
    const { copy, giveBack } = wait.record()
    wait.giveBack = giveBack
    wait.isDone = () => this.parts.relaxed.run(() => this.#isDone(copy))
  }

  #blockFor(wait: WaitUnderWay, needs: Needs, what: string): void {
    this.#underWay.push(wait)
    try {
      this.#block(() => wait.isDone(), needs, what)
    } finally {
      this.#underWay.splice(this.#underWay.indexOf(wait), 1)
      wait.giveBack?.()
    }
  }

  forContext(context: ContextHandle, device: number): void {
    const { pool, relaxed, captures, hostFunctions } = this.parts
    const what = 'device.synchronize()'
    const event = pool.take(context)
    // Later work does not count.
    let comesAfter: ComesAfter | undefined
    const needs: Needs = () => {
      comesAfter ??= hostFunctions.deviceComesAfter(context, device)
      return comesAfter
    }
    try {
      const record = (): boolean => captures.recordDevice(event, context, undefined, 'cuCtxSynchronize') === 'recorded'
      this.#block(record, needs, what)
      // A stream of another device may capture: CUDA lets a device be waited for meanwhile, but no event be queried.
      this.#block(() => relaxed.run(() => this.#isDone(event)), needs, what)
    } finally {
      pool.giveBack(context, event)
    }
  }

  /** Waits until the stream's hardware queue takes that many more entries, instead of letting the driver block. */
  forCapacity(stream: StreamHandle, entries: number, isEmpty: () => boolean): void {
    const { streams, hostFunctions, semaphores, dependencies } = this.parts
    const of = streams.of(stream)
    const hasCapacity = (): boolean => hostFunctions.hasCapacity(stream, entries, isEmpty)
    if (hasCapacity()) return
    // When no more semaphores can be had, any host function may release one.
    const needs: Needs = () => (semaphores.areFull ? needsAll() : dependencies.streamComesAfter(of))
    // The work before something that comes after the running host function may complete, and make room.
    const neverRun: Needs = () => (call) => call.stream === of
    // The same is true of the work before a wait for a promise, until the stream is blocked by it.
    const neverSettle: Needs = () => (call) => call.stream === of && call.semaphore.isWaitingFor(call)
    this.#block(hasCapacity, needs, QUEUING, { neverRun, neverSettle })
  }

  /** Runs host functions until none of this thread is pending. Those dropped because the GPU faulted are not pending. */
  forHostFunctions(what: string): void {
    const { hostFunctions } = this.parts
    const first = this.#pendingCalls()
    const isDone = drained(
      () => !hostFunctions.pending,
      () => first.every(hasCompleted),
    )
    this.#block(isDone, needsAll, what)
  }

  /** Waits for work of another library, which says itself when it has completed. */
  forLibrary(isDone: () => boolean, what: string): void {
    this.#block(isDone, needsNone, what)
  }

  /**
   * Makes a call that waits for the whole device in native code, once no host function of any thread is pending and no stream is blocked at a
   * value. No thread queues a host function while it is made. Host functions of this thread run meanwhile, those of others in their threads.
   */
  exclusively<R>(call: () => R, what: string): R {
    const { hostFunctions, registry, valueWaits, deadlockAfter } = this.parts
    const begun = monotonicTime()
    const first = this.#pendingCalls()
    const isAlone = (): boolean => {
      const isBlocked = valueWaits.anyBlocks()
      if (!hostFunctions.pending && !isBlocked && registry.exclusive.tryTake()) return true
      // Who writes the value is not known, so a wait for it ends in a warning, and in no error.
      if (isBlocked) return false
      const isLate = monotonicTime() - begun > deadlockAfter
      if (isLate && first.every(hasCompleted)) throw deadlock(what, neverNone(deadlockAfter))
      return false
    }
    this.#block(isAlone, needsAll, what)
    return registry.exclusive.during(call)
  }

  /**
   * Makes a call that may wait for the device in native code, after the host functions that are pending. It does not wait for those of this thread
   * that queue themselves again without end, or do not become ready: the call may wait for the device, or may not.
   */
  libraryCall<R>(call: () => R): R {
    const { registry } = this.parts
    this.#beforeLibraryCall()
    this.#block(() => registry.exclusive.tryTake(), needsNone, LIBRARY_CALL)
    return registry.exclusive.during(call)
  }

  #beforeLibraryCall(): void {
    const { hostFunctions, deadlockAfter } = this.parts
    const begun = monotonicTime()
    const first = this.#pendingCalls()
    let [left, progress] = [first.length, begun]
    const isDone = (): boolean => {
      if (!hostFunctions.pending) return true
      const now = monotonicTime()
      const remaining = first.filter((call) => !hasCompleted(call)).length
      if (remaining < left) [left, progress] = [remaining, now]
      return remaining === 0 ? now - begun > CALM_WITHIN : now - progress > deadlockAfter
    }
    this.#block(isDone, needsAll, LIBRARY_CALL)
  }

  #pendingCalls(): readonly PendingCall[] {
    return this.parts.semaphores.active.flatMap(({ calls }) => calls)
  }

  #block(isDone: () => boolean, needs: Needs, what: string, never: Partial<Never> = {}): void {
    const { hostFunctions } = this.parts
    const { neverRun = needs, neverSettle = needs } = never
    this.#refusePromises(neverSettle, what)
    const check = (waited: number): void => {
      this.#refusePromises(waited > this.parts.deadlockAfter ? needs : neverSettle, what)
      if (waited > warnAfter()) this.#warnOfBlocked(what)
    }
    if (hostFunctions.isInside) this.#insideHostFunction(() => this.#blockInside(isDone, needs, what, neverRun, check))
    else this.#blockOutside(isDone, what, check)
    // A thread that sleeps after this turns no event loop, in which it would publish that.
    hostFunctions.refreshCapacity()
    hostFunctions.settle()
  }

  /** Throws ERR_DEADLOCK for a wait that comes after a promise: no promise settles while JavaScript blocks. */
  #refusePromises(never: Needs, what: string): void {
    const { hostFunctions, semaphores } = this.parts
    if (semaphores.waits.size === 0) return
    const held = hostFunctions.blockedByPromise(never())
    if (held !== undefined) throw deadlock(what, behindPromise(held))
  }

  /** Runs every host function that becomes ready: each has returned before the next begins. */
  #blockOutside(isDone: () => boolean, what: string, check: (waited: number) => void): void {
    const { hostFunctions, semaphores, spinWait, valueWaits } = this.parts
    let since: number | undefined
    let others: WaitingOthers | undefined
    let waited = 0
    const mayRunFirst = (turn: number): boolean => turn % CHECKS !== 0 && waited < CHECKS_FOR && hostFunctions.pending
    for (let turn = 0; mayRunFirst(turn) || !isDone(); turn += 1) {
      if (semaphores.runReady()) {
        since = undefined
        others = undefined
        check(0)
        continue
      }
      const now = monotonicTime()
      since ??= now
      waited = now - since
      if (turn % 64 === 63) {
        hostFunctions.checkForFaults()
        if (waited > CALM_WITHIN) others = this.#checkOthers(others, what)
        if (semaphores.waits.size > 0 || valueWaits.any) check(waited)
      }
      spinWait(waited * 1e6)
    }
  }

  /** The library does not know which streams share a hardware queue, nor what other libraries wait for. */
  #warnOfBlocked(what: string): void {
    const { hostFunctions, valueWaits } = this.parts
    const held = hostFunctions.heldFor(warnAfter())
    if (held !== undefined) warnOnce('CUDA_STREAMS_PROMISE', mayWaitFor(what, held))
    const value = valueWaits.blockedFor(warnAfter())
    if (value !== undefined) warnOnce('CUDA_STREAMS_VALUE', needsValue(what, value))
  }

  /**
   * A stream of another thread may be in the way, at a semaphore that only that thread signals. If one waits there all the time, that thread runs no
   * host functions, and waiting for it may never end.
   */
  #checkOthers(before: WaitingOthers | undefined, what: string): WaitingOthers | undefined {
    const { registry, deadlockAfter } = this.parts
    if (!registry.othersPending) return undefined
    const now = monotonicTime()
    const waiting = registry.waitingSemaphores()
    const still = before === undefined ? waiting : new Set([...waiting].filter((name) => before.semaphores.has(name)))
    if (still.size === 0) return undefined
    if (before !== undefined && now - before.since > deadlockAfter) throw deadlock(what, blockedByOthers(deadlockAfter))
    return { semaphores: still, since: before?.since ?? now }
  }

  /** This thread's streams wait meanwhile. Other threads need not take that for a deadlock, since this wait ends by itself. */
  #insideHostFunction(wait: () => void): void {
    const { registry } = this.parts
    this.#innerWaits += 1
    registry.publishInnerWaits(this.#innerWaits)
    try {
      wait()
    } finally {
      this.#innerWaits -= 1
      registry.publishInnerWaits(this.#innerWaits)
    }
  }

  /**
   * Runs the host functions that the wait needs. The one that JavaScript is inside of cannot continue before they have returned, and what they wait
   * for may come after it. So others run only when nothing else happens any more.
   */
  #blockInside(
    isDone: () => boolean,
    needs: Needs,
    what: string,
    neverRun: Needs,
    check: (waited: number) => void,
  ): void {
    const { hostFunctions, semaphores, spinWait, deadlockAfter, valueWaits } = this.parts
    const patience = Math.min(PATIENCE, deadlockAfter * SHARE_OF_DEADLOCK)
    const isFull = semaphores.running.length >= MOST_NESTED
    /** The host functions that the wait needs. As long as no host function runs, none is needed that was not. */
    let isNeeded: ComesAfter | undefined
    let since = monotonicTime()
    let neededSince = since
    for (let turn = 0; !isDone(); turn += 1) {
      if (turn === 0 && semaphores.running.some(neverRun())) throw deadlock(what, comesAfterItself)
      isNeeded ??= needs()
      if (isFull && semaphores.isReady(isNeeded)) throw deadlock(what, tooDeep)
      const isPatient = monotonicTime() - neededSince < patience
      if (!isFull && semaphores.runReady(isPatient ? isNeeded : undefined)) {
        since = monotonicTime()
        if (isPatient) neededSince = since
        isNeeded = undefined
        continue
      }
      const waited = monotonicTime() - since
      if (waited > deadlockAfter) throw deadlock(what, noProgress(deadlockAfter))
      if (turn % 64 === 63) {
        hostFunctions.checkForFaults()
        if (semaphores.waits.size > 0 || valueWaits.any) check(waited)
      }
      spinWait(waited * 1e6)
    }
  }

  #isDone(event: EventHandle): boolean {
    const result = this.parts.library.cuEventQuery(event)
    if (result !== 0 && result !== CUresult.NOT_READY) throw cudaError('cuEventQuery', result)
    return result === 0
  }
}

const hasCompleted = (call: PendingCall): boolean => !call.semaphore.calls.includes(call)
const SETS_TIME = 'CUDA_STREAMS_DEADLOCK_TIMEOUT sets this time, in milliseconds'
const mayWaitFor = (what: string, held: string): string =>
  `${what} has blocked for ${seconds(warnAfter())} while a stream is blocked by ${held}. If the two share a hardware queue, the call never returns: await finished() instead`
const needsValue = (what: string, value: string): string =>
  `${what} has blocked for ${seconds(warnAfter())} while a stream is blocked by ${value}. This thread writes no value while it blocks: if it is to write this one, await finished() instead`
const neverNone = (milliseconds: number): string =>
  `it needs a moment at which no host function is pending in any thread, and for ${milliseconds} ms there was none: each host function that ran was followed by another. Make the call before the host functions begin, or let them pause; ${SETS_TIME}`
const blockedByOthers = (milliseconds: number): string =>
  `a stream of another thread has waited for a host function for ${milliseconds} ms, which only that thread can run, and which may block this thread. Let that thread return to its event loop, or wait by a call of this library; ${SETS_TIME}`
const noProgress = (milliseconds: number): string =>
  `it was called inside a host function, and nothing made progress for ${milliseconds} ms: the two streams may share a hardware queue. Return from the host function first, or await finished() instead; ${SETS_TIME}`
