/**
 * Waits that block JavaScript on a real GPU. While one lasts, host functions that come due must run, or the stream would
 * never go on: so each wait looks in turn whether it is over and whether a stream stands at a gate.
 */

import { seconds, warnAfter, warnOnce } from '../../../base/warnings.js'
import { CUresult, cudaError } from '../../cuda-results.js'
import {
  behindPromise,
  comesAfterItself,
  deadlock,
  drained,
  LIBRARY_CALL,
  MOST_NESTED,
  tooDeep,
} from '../../deadlocks.js'
import type { ContextHandle, EventHandle, StreamHandle } from '../../driver.js'
import type { Sleeper } from '../../loop-pump.js'
import type { ComesAfter } from '../host-functions/dependencies.js'
import type { GateCall } from '../host-functions/gates.js'
import type { HostFunctions, HostFunctionsParts } from '../host-functions/host-functions.js'
import type { Completions } from './completions.js'
import type { EventPool, OwnRecord } from './event-pool.js'
import type { ValueWaits } from './value-waits.js'

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
/** So many looks at the gates, which are in memory, for each query, which costs up to a microsecond. */
const LOOKS = 8
/** Milliseconds for which it is so: later the thread naps between two looks. */
const LOOKS_FOR = 1
/** It is at most this part of the time after which the wait is given up. */
const SHARE_OF_DEADLOCK = 1 / 4

/** Which host functions a wait needs, as things stand: it cannot end before they have run. */
type Needs = () => ComesAfter
const needsAll: Needs = () => () => true
/** The library does not know which work another library waits for. */
const needsNone: Needs = () => () => false

/** Where a wait can never end: which host function it may not run, and which promises it comes after. */
interface Never {
  readonly neverRun: Needs
  readonly neverSettle: Needs
}

/** Gates at which streams of other threads have stood since then. */
interface OthersStanding {
  readonly gates: ReadonlySet<string>
  readonly since: number
}

/** What blocking, promises and calls on threads of their own are made from. */
export interface WaitingParts extends HostFunctionsParts {
  readonly hostFunctions: HostFunctions
  readonly pool: EventPool
  readonly eventWaits: Completions<EventHandle>
  readonly valueWaits: ValueWaits
  /** How the event loop sleeps between two turns. */
  readonly sleeper: Sleeper
  /** Called over and over while JavaScript blocks: rests the processor after a while. */
  readonly rest: (nanosecondsWaited: number) => void
  /** Milliseconds without progress after which a wait inside a host function is given up. */
  readonly deadlockAfter: number
}

/** A wait for a stream or an event that blocks now, and runs host functions. */
interface WaitUnderWay {
  /** The event that it waits for; undefined where that is a stream. */
  readonly event: EventHandle | undefined
  isDone: () => boolean
  /** Records what is waited for in an event of the library's own, which no host function can touch. */
  readonly recordOwn: () => OwnRecord
  /** Set once that was done. */
  giveBack: (() => void) | undefined
}

export class Blocking {
  #waitsInside = 0
  /** Innermost last. */
  readonly #underWay: WaitUnderWay[] = []

  constructor(private readonly parts: WaitingParts) {}

  /** `recordOwn` records an event of the library's own behind the stream's work. */
  forStream(stream: StreamHandle, isDone: () => boolean, recordOwn: () => OwnRecord): void {
    const record = this.parts.streams.of(stream)
    const needs: Needs = () => this.parts.dependencies.streamComesAfter(record)
    this.#blockFor({ event: undefined, isDone, recordOwn, giveBack: undefined }, needs, 'stream.synchronize()')
    this.parts.hostFunctions.streamIsEmpty(stream)
  }

  forEvent(event: EventHandle, isDone: () => boolean): void {
    const { pool, dependencies } = this.parts
    const recordOwn = (): OwnRecord => pool.copyOfRecord(event)
    const needs: Needs = () => dependencies.eventComesAfter(event)
    this.#blockFor({ event, isDone, recordOwn, giveBack: undefined }, needs, 'event.synchronize()')
  }

  /**
   * A stream is about to capture. No wait can query it any more, so those under way for streams go on with events; and a query of an event
   * could invalidate the capture unless it is relaxed.
   */
  beforeCapture(): void {
    for (const wait of this.#underWay) {
      const { event } = wait
      if (event === undefined) this.#goOnWithOwn(wait)
      else if (wait.giveBack === undefined) wait.isDone = () => this.parts.relaxed.run(() => this.#isDone(event))
    }
  }

  /** The event is about to be recorded anew: waits under way for the record before go on with an event of their own. */
  keepRecord(event: EventHandle): void {
    for (const wait of this.#underWay) if (wait.event === event) this.#goOnWithOwn(wait)
  }

  #goOnWithOwn(wait: WaitUnderWay): void {
    if (wait.giveBack !== undefined) return
    const { copy, giveBack } = wait.recordOwn()
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
    const { pool, gates, relaxed, dependencies, captures } = this.parts
    const event = pool.take(context)
    // Later work does not count.
    let comesAfter: ComesAfter | undefined
    const needs: Needs = () => {
      comesAfter ??= dependencies.deviceComesAfter(
        device,
        gates.active.filter((lane) => lane.context === context),
      )
      return comesAfter
    }
    const record = (): boolean => captures.recordDevice(event, context, undefined, 'cuCtxSynchronize') === 'recorded'
    try {
      this.#block(record, needs, 'device.synchronize()')
      // A stream of another device may capture: CUDA lets a device be waited for meanwhile, but no event be asked.
      this.#block(() => relaxed.run(() => this.#isDone(event)), needs, 'device.synchronize()')
    } finally {
      pool.giveBack(context, event)
    }
  }

  /** Waits until the stream's hardware queue takes so many entries more, where the driver would wait. */
  forRoom(stream: StreamHandle, entries: number, isEmpty: () => boolean): void {
    const { streams, hostFunctions, gates, dependencies } = this.parts
    const key = streams.of(stream)
    const hasRoom = (): boolean => hostFunctions.hasRoom(stream, entries, isEmpty)
    if (hasRoom()) return
    // Where no more gates can be had, whichever runs may give one back.
    const needs: Needs = () => (gates.full ? needsAll() : dependencies.streamComesAfter(key))
    // What the stream holds before something that comes after the running one may go on, and make room.
    const neverRun: Needs = () => (call) => call.stream === key
    // And what comes after a promise only once the stream stands there: before, its work makes room.
    const neverSettle: Needs = () => (call) => call.stream === key && call.lane.arrived(call)
    this.#block(hasRoom, needs, 'queuing more work', { neverRun, neverSettle })
  }

  /**
   * Runs host functions until none of this thread is pending. Those dropped because the GPU faulted are not pending.
   */
  forHostFunctions(what: string): void {
    const { gates, hostFunctions } = this.parts
    const first = gates.active.flatMap((lane) => lane.calls)
    const isDone = drained(
      () => !hostFunctions.pending,
      () => first.every(isOver),
    )
    this.#block(isDone, needsAll, what)
  }

  /** Waits for work of another library, which says itself when it is done. */
  forLibrary(isDone: () => boolean, what: string): void {
    this.#block(isDone, needsNone, what)
  }

  /**
   * Makes a call that waits for the whole device in native code, once no host function of any thread is pending and no
   * stream stands at a value; while it is made no thread queues a host function. This thread's run meanwhile, the others' in
   * their threads.
   */
  exclusively<R>(call: () => R, what: string): R {
    const { hostFunctions, threads, gates, valueWaits, deadlockAfter } = this.parts
    const begun = performance.now()
    const first = gates.active.flatMap((lane) => lane.calls)
    const isAlone = (): boolean => {
      const stands = valueWaits.anyStands()
      if (!hostFunctions.pending && !stands && threads.exclusive.take()) return true
      // Who writes the value is not known: that ends in a warning.
      if (stands) return false
      const isLate = performance.now() - begun > deadlockAfter
      if (isLate && first.every(isOver)) throw deadlock(what, neverNone(deadlockAfter))
      return false
    }
    this.#block(isAlone, needsAll, what)
    return threads.exclusive.during(call)
  }

  /**
   * Makes a call that may wait for the device in native code, after the host functions that are pending. Those of this
   * thread are not waited for where they queue themselves anew without end, or do not come due: the call may wait for the
   * device, and may not.
   */
  libraryCall<R>(call: () => R): R {
    const { threads } = this.parts
    this.#beforeLibraryCall()
    this.#block(() => threads.exclusive.take(), needsNone, LIBRARY_CALL)
    return threads.exclusive.during(call)
  }

  #beforeLibraryCall(): void {
    const { hostFunctions, gates, deadlockAfter } = this.parts
    const begun = performance.now()
    const first = gates.active.flatMap((lane) => lane.calls)
    let [left, progress] = [first.length, begun]
    const isDone = (): boolean => {
      if (!hostFunctions.pending) return true
      const now = performance.now()
      const remaining = first.filter((call) => !isOver(call)).length
      if (remaining < left) [left, progress] = [remaining, now]
      return remaining === 0 ? now - begun > CALM_WITHIN : now - progress > deadlockAfter
    }
    this.#block(isDone, needsAll, LIBRARY_CALL)
  }

  #block(isDone: () => boolean, needs: Needs, what: string, never: Partial<Never> = {}): void {
    const { hostFunctions } = this.parts
    const { neverRun = needs, neverSettle = needs } = never
    this.#refusePromises(neverSettle, what)
    const look = (waited: number): void => {
      this.#refusePromises(waited > this.parts.deadlockAfter ? needs : neverSettle, what)
      if (waited > warnAfter()) this.#tellOfStanding(what)
    }
    if (hostFunctions.isInside) this.#insideHostFunction(() => this.#blockInside(isDone, needs, what, neverRun, look))
    else this.#blockOutside(isDone, what, look)
    // A thread that sleeps after this takes no turn in which it would tell the others.
    hostFunctions.refreshRoom()
    hostFunctions.calmDown()
  }

  /** No promise settles while JavaScript blocks. */
  #refusePromises(never: Needs, what: string): void {
    const { hostFunctions, gates } = this.parts
    if (gates.holds.size === 0) return
    const held = hostFunctions.heldByPromise(never())
    if (held !== undefined) throw deadlock(what, behindPromise(held))
  }

  /** Runs every host function that comes due: each has returned before the next begins. */
  #blockOutside(isDone: () => boolean, what: string, look: (waited: number) => void): void {
    const { hostFunctions, gates, rest, valueWaits } = this.parts
    let since: number | undefined
    let others: OthersStanding | undefined
    let waited = 0
    const mayRunFirst = (turn: number): boolean => turn % LOOKS !== 0 && waited < LOOKS_FOR && hostFunctions.pending
    for (let turn = 0; mayRunFirst(turn) || !isDone(); turn += 1) {
      if (gates.runDue()) {
        since = undefined
        others = undefined
        look(0)
        continue
      }
      const now = performance.now()
      since ??= now
      waited = now - since
      if (turn % 64 === 63) {
        hostFunctions.lookForFaults()
        if (waited > CALM_WITHIN) others = this.#lookAtOthers(others, what)
        if (gates.holds.size > 0 || valueWaits.any) look(waited)
      }
      rest(waited * 1e6)
    }
  }

  /** The library does not know which streams share a hardware queue, nor what other libraries wait for. */
  #tellOfStanding(what: string): void {
    const { hostFunctions, valueWaits } = this.parts
    const held = hostFunctions.heldFor(warnAfter())
    if (held !== undefined) warnOnce('CUDA_STREAMS_PROMISE', mayWaitFor(what, held))
    const value = valueWaits.standingFor(warnAfter())
    if (value !== undefined) warnOnce('CUDA_STREAMS_VALUE', needsValue(what, value))
  }

  /**
   * A stream of another thread may stand in the way, at a gate that only that thread opens: where one stands all the time,
   * that thread runs no host functions, and waiting for it may never end.
   */
  #lookAtOthers(before: OthersStanding | undefined, what: string): OthersStanding | undefined {
    const { threads, deadlockAfter } = this.parts
    if (!threads.othersPending) return undefined
    const now = performance.now()
    const standing = threads.standing()
    const still = before === undefined ? standing : new Set([...standing].filter((gate) => before.gates.has(gate)))
    if (still.size === 0) return undefined
    if (before !== undefined && now - before.since > deadlockAfter) throw deadlock(what, heldByOthers(deadlockAfter))
    return { gates: still, since: before?.since ?? now }
  }

  /** Its streams stand meanwhile, and other threads need not take that for a deadlock: this wait ends by itself. */
  #insideHostFunction(wait: () => void): void {
    const { threads } = this.parts
    this.#waitsInside += 1
    threads.publishWaiting(this.#waitsInside)
    try {
      wait()
    } finally {
      this.#waitsInside -= 1
      threads.publishWaiting(this.#waitsInside)
    }
  }

  /**
   * Runs the host functions that the wait needs. The one that JavaScript is inside of cannot go on before they have
   * returned, and what they wait for may come after it: so others run only where nothing else happens any more.
   */
  #blockInside(
    isDone: () => boolean,
    needs: Needs,
    what: string,
    neverRun: Needs,
    look: (waited: number) => void,
  ): void {
    const { hostFunctions, gates, rest, deadlockAfter, valueWaits } = this.parts
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
      if (turn % 64 === 63) {
        hostFunctions.lookForFaults()
        if (gates.holds.size > 0 || valueWaits.any) look(waited)
      }
      rest(waited * 1e6)
    }
  }

  #isDone(event: EventHandle): boolean {
    const result = this.parts.library.cuEventQuery(event)
    if (result !== 0 && result !== CUresult.NOT_READY) throw cudaError('cuEventQuery', result)
    return result === 0
  }
}

const mayWaitFor = (what: string, held: string): string =>
  `${what} has blocked for ${seconds(warnAfter())} while a stream stands at ${held}. Where the two share a hardware queue it never ends: await the finished() of it instead`
const needsValue = (what: string, value: string): string =>
  `${what} has blocked for ${seconds(warnAfter())} while a stream stands at ${value}. This thread writes none meanwhile: where it is to write that one, await the finished() of it instead`
const isOver = (call: GateCall): boolean => !call.lane.calls.includes(call)
const neverNone = (milliseconds: number): string =>
  `it is made while no host function is pending, and for ${milliseconds} ms some have been all the time, of this thread or another: each that ran was followed by the next. Make it before they begin, or let them pause; CUDA_STREAMS_DEADLOCK_TIMEOUT sets this time, in milliseconds`
const heldByOthers = (milliseconds: number): string =>
  `a stream of another thread has stood at a host function for ${milliseconds} ms, which only that thread can run, and may hold this one up. Let its event loop turn, or let it wait by this library; CUDA_STREAMS_DEADLOCK_TIMEOUT sets this time, in milliseconds`
const noProgress = (milliseconds: number): string =>
  `it was called inside a host function, and nothing went on for ${milliseconds} ms: the two streams may share a hardware queue. Return first, or await the finished() of it; CUDA_STREAMS_DEADLOCK_TIMEOUT sets this time, in milliseconds`
