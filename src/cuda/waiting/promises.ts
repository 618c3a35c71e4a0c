/** Waits by promise on a real GPU. */
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { seconds, warnAfter, warnOnce } from '../../foundation/base/warnings.js'
import { CUresult, cudaError } from '../../foundation/driver/cuda-results.js'
import type { Cancel, Settle } from '../../foundation/driver/event-driver.js'
import type { BackOff, TurnResult } from '../../foundation/driver/event-loop-poller.js'
import type { ContextHandle, EventHandle } from '../../foundation/driver/handle-types.js'
import type { StreamRecord } from '../handles/stream-records.js'
import type { HostFunctionParts, PendingHostFunctions } from '../host-functions/pending-host-functions.js'
import type { Library } from '../libcuda/libcuda.js'
import type { Awaited } from './back-off-timer.js'
import type { EventPool } from './event-pool.js'
import type { UsualWaits } from './usual-waits.js'
import type { ValueWaits } from './value-waits.js'

/** The most groups whose waits are settled in one turn of the event loop. */
const MOST_GROUPS = 64

interface Wait {
  readonly event: EventHandle
  readonly release: ((event: EventHandle) => void) | undefined
  settle: Settle | undefined
  /** The time, as of `clock.now()`, at which it began. */
  readonly begun: number
}

/** The answer whether what is waited for has completed. `error` is why it never will. */
interface Answer {
  readonly done: boolean
  readonly error: unknown
}

/**
 * Promises that wait for events. The waits of a group end in order, so few queries a group show how far all of them are, however many wait.
 */
export class Completions<Group extends object | number> {
  /** The number of promises that are not settled. */
  pending = 0
  readonly #groups = new Map<Group, Wait[]>()
  /** The groups that are still to be polled in this round. */
  #round = this.#groups.entries()

  constructor(
    private readonly library: Pick<Library, 'cuEventQuery'>,
    private readonly usual: UsualWaits,
  ) {}

  /** Waits for an event. The waits of one group end in the order in which they were added. */
  add(group: Group, event: EventHandle, settle: Settle, release?: (event: EventHandle) => void): Cancel {
    const wait: Wait = { event, settle, release, begun: monotonicTime() }
    const waits = this.#groups.get(group)
    if (waits === undefined) this.#groups.set(group, [wait])
    else waits.push(wait)
    this.pending += 1
    return () => {
      if (wait.settle === undefined) return
      wait.settle = undefined
      this.pending -= 1
    }
  }

  /** Removes a group. The result settles the waits that have not been cancelled by then. */
  take(group: Group): Settle | undefined {
    const waits = this.#groups.get(group)
    this.#groups.delete(group)
    if (waits === undefined || waits.every(({ settle }) => settle === undefined)) return undefined
    return (error) => {
      for (const wait of waits) this.#settle(wait, error)
    }
  }

  /** The number of groups. `poll()` makes a query for each. */
  get groups(): number {
    return this.#groups.size
  }

  has(group: Group): boolean {
    return this.#groups.has(group)
  }

  /** Calls a function with the wait of each group that has to end first. */
  forEachNext(fn: (wait: Pick<Wait, 'event' | 'begun'>) => void): void {
    for (const [first] of this.#groups.values()) if (first !== undefined) fn(first)
  }

  query(event: EventHandle): Answer {
    const result = this.library.cuEventQuery(event)
    if (result === CUresult.NOT_READY) return { done: false, error: undefined }
    return { done: true, error: result === 0 ? undefined : cudaError('cuEventQuery', result) }
  }

  /**
   * Settles waits that have ended. Returns false when none had. Once those of MOST_GROUPS have, the others are left to the next call, which goes on
   * with them: what a program does after a thousand waits must not hold the event loop in one piece.
   */
  poll(): boolean {
    let settled = 0
    for (let left = this.#groups.size; left > 0 && settled < MOST_GROUPS; left -= 1) {
      const [group, waits] = this.#next()
      const { count, error } = this.#ended(waits)
      if (count === 0) continue
      const isAll = count === waits.length
      if (isAll) this.#groups.delete(group)
      for (const wait of isAll ? waits : waits.splice(0, count)) this.#settle(wait, error)
      settled += 1
    }
    return settled > 0
  }

  /** The group behind the one before; the first behind the last. Must be called while there is one. */
  #next(): readonly [Group, Wait[]] {
    const next = this.#round.next()
    if (next.done !== true) return next.value
    this.#round = this.#groups.entries()
    return this.#next()
  }

  /**
   * How many of the waits, from the first on, have ended or were cancelled. Since they end in order, the first and the last are queried, and
   * then those halfway: a query of an event that is done costs up to two microseconds, and many may have ended.
   */
  #ended(waits: readonly Wait[]): { readonly count: number; readonly error: unknown } {
    const first = waits.findIndex(({ settle }) => settle !== undefined)
    if (first < 0) return { count: waits.length, error: undefined }
    let error: unknown
    // All before `low` have ended, and none from `high` on.
    let [low, high, at] = [first, waits.length, first]
    while (low < high) {
      const wait = waits[at]
      const answer = wait === undefined ? undefined : this.query(wait.event)
      if (answer?.done === true) low = at + 1
      else high = at
      error ??= answer?.error
      at = at === first ? high - 1 : (low + high) >> 1
    }
    return { count: low, error }
  }

  #settle(wait: Wait, error: unknown): void {
    wait.release?.(wait.event)
    const { settle } = wait
    if (settle === undefined) return
    wait.settle = undefined
    this.pending -= 1
    this.usual.ended(monotonicTime() - wait.begun)
    settle(error)
  }
}

/** What blocking, promises and calls on other threads are made from. */
export interface WaitingParts extends HostFunctionParts {
  readonly hostFunctions: PendingHostFunctions
  readonly pool: EventPool
  readonly eventWaits: Completions<EventHandle>
  readonly valueWaits: ValueWaits
  readonly usualWaits: UsualWaits
  /** How the event loop sleeps between two turns. */
  readonly backOff: BackOff
  /** Called again and again while JavaScript blocks. Spares the core after a while. */
  readonly spinWait: (nanosecondsWaited: number) => void
  /** Milliseconds without progress after which a wait inside a host function is given up. */
  readonly deadlockAfter: number
}

/** A turn of the event loop takes as long as four queries, so that many are made in each turn while turns follow directly. */
const QUERIES = 4
/**
 * The number of queries in the first turn that waits for anything: short work completes in it, and is noticed as soon as by a
 * blocked thread.
 */
const FIRST_QUERIES = 12

/**
 * Whether a capture is under way on a device: one that this thread knows of, or one that it does not, and that may be another
 * thread's.
 */
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
  isCancelled: boolean
}

/** Waits by promise, and the turn of the event loop in which they are settled and host functions that are ready run. */
export class Promises {
  /** The waits by stream, by context for waits for a device, and by the event that has an earlier record of another. */
  readonly #streams: Completions<StreamRecord | ContextHandle | EventHandle>
  /** Waits for devices that have not begun, since another thread captures. */
  readonly #later: LaterWait[] = []
  /** Whether nothing was waited for at the end of the last turn. */
  #wasIdle = true

  constructor(private readonly parts: WaitingParts) {
    this.#streams = new Completions(parts.library, parts.usualWaits)
  }

  streamFinished(stream: StreamRecord, record: (event: EventHandle) => void, settle: Settle): Cancel {
    const { copy, giveBack } = this.parts.pool.recordOf(stream.context, record)
    return this.#finished(stream, copy, settle, giveBack)
  }

  /** Waits for all work of a context. Must be called while no capture is under way that this thread knows of. */
  contextFinished(context: ContextHandle, captures: SeenCaptures, settle: Settle): Cancel {
    const begun = this.#contextFinished(context, captures, settle)
    if (begun === 'unknown') throw cudaError('cuCtxRecordEvent', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    return begun === 'others' ? this.#finishedLater(context, captures, settle) : begun
  }

  eventFinished(event: EventHandle, settle: Settle): Cancel {
    const { hostFunctions, captures, eventWaits, poller, relaxed } = this.parts
    // The event may be recorded by a graph later, which is not what is waited for.
    if (captures.refuseQuery(event)) {
      const { done, error } = relaxed.run(() => eventWaits.query(event))
      if (done && error !== undefined) throw error
      captures.forgetEvent(event)
    }
    const cancel = eventWaits.add(event, event, settle)
    hostFunctions.trackOrder()
    poller.wake()
    return () => {
      cancel()
      // A wait that was given up keeps nobody from destroying the event, which another thread may query while the event loop sleeps.
      poller.wake()
    }
  }

  /** The event is about to be recorded again, or destroyed. Waits for its old record continue with an event of their own. */
  keepRecord(event: EventHandle): void {
    const { eventWaits, pool, relaxed, poller } = this.parts
    if (!eventWaits.has(event)) return
    // Another thread may query the event while the event loop sleeps, for a wait that was given up, too.
    poller.wake()
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
      // The new record is refused with this error, so the event keeps its old one.
      eventWaits.add(event, event, settle)
      throw error
    }
  }

  /** What all waits are for; undefined if something else may happen before one of their events is done. */
  get awaited(): Awaited | undefined {
    const { hostFunctions, eventWaits } = this.parts
    if (this.#later.length > 0 || hostFunctions.pending) return undefined
    const events: EventHandle[] = []
    let begun: number | undefined
    const add = (wait: Pick<Wait, 'event' | 'begun'>): void => {
      events.push(wait.event)
      begun = events.length === 1 ? wait.begun : undefined
    }
    this.#streams.forEachNext(add)
    eventWaits.forEachNext(add)
    return { events, begun }
  }

  /** Handles one turn of the event loop: runs host functions that are ready, and settles promises that have ended. */
  turn(): TurnResult {
    const { hostFunctions, relaxed, semaphores, eventWaits, backOff } = this.parts
    if (this.#later.length > 0) this.#beginLater()
    hostFunctions.refreshCapacity()
    const most = !backOff.polls ? 1 : this.#wasIdle ? FIRST_QUERIES : QUERIES
    this.#wasIdle = false
    const progress = relaxed.run(() => {
      const groups = this.#streams.groups + eventWaits.groups
      for (let queries = 0; queries < most; queries += groups) {
        const settled = this.#streams.poll()
        if (eventWaits.poll() || settled) return true
        if (semaphores.active.length > 0 || groups === 0) break
      }
      return false
    })
    // At most one for each stream: a host function that queues itself again each time must not block the loop.
    let ran = false
    for (let most = semaphores.active.length; most > 0 && semaphores.runReady(); most -= 1) ran = true
    if (!progress && !ran && hostFunctions.pending) hostFunctions.checkForFaults()
    hostFunctions.settle()
    const pending = this.#streams.pending + eventWaits.pending + this.#later.length
    if (pending === 0 && !hostFunctions.functionsPending) {
      this.#wasIdle = true
      return 'idle'
    }
    if (!progress && !ran) {
      this.#warnOfBlocked()
      return 'later'
    }
    backOff.cancel()
    return 'soon'
  }

  /** What is waited for may come after a promise that never settles, or a value that is never written. */
  #warnOfBlocked(): void {
    const { semaphores, hostFunctions, valueWaits } = this.parts
    const held = semaphores.waits.size === 0 ? undefined : hostFunctions.heldFor(warnAfter())
    if (held !== undefined) warnOnce('CUDA_STREAMS_PROMISE', blocked(held, warnAfter()))
    const value = valueWaits.any ? valueWaits.blockedFor(warnAfter()) : undefined
    if (value !== undefined) warnOnce('CUDA_STREAMS_VALUE', blocked(value, warnAfter()))
  }

  /** Begins no wait while a stream captures, since recording the device would invalidate the capture. */
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

  /** Begins the wait when no thread captures any more. */
  #finishedLater(context: ContextHandle, captures: SeenCaptures, settle: Settle): Cancel {
    const since = monotonicTime()
    const wait: LaterWait = { context, captures, settle, since, cancel: undefined, isCancelled: false }
    this.#later.push(wait)
    this.parts.poller.wake()
    return () => {
      wait.isCancelled = true
      wait.cancel?.()
    }
  }

  #beginLater(): void {
    for (const wait of this.#later.splice(0)) {
      if (wait.isCancelled || this.#begins(wait)) continue
      this.#later.push(wait)
      if (monotonicTime() - wait.since > warnAfter()) warnOnce('CUDA_STREAMS_CAPTURE', captured(warnAfter()))
    }
  }

  /** Returns false while the wait cannot begin. */
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
    const { poller } = this.parts
    const cancel = this.#streams.add(group, recorded, settle, giveBack)
    poller.wake()
    return cancel
  }
}

const blocked = (held: string, milliseconds: number): string =>
  `A stream has been blocked for ${seconds(milliseconds)} by ${held}, while work is waited for that may come after it`

const captured = (milliseconds: number): string =>
  `device.finished() has waited for ${seconds(milliseconds)} for a capture of a stream, of this thread or another, to end: a query before then would invalidate it. Call endCapture() on the stream that began it, or await finished() of the streams that matter`
