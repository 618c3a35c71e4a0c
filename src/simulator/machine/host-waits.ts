/** The waits of the host for the machine: blocked, or turn by turn of the event loop. */

import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { after, monotonicTime, type Timeout } from '../../foundation/base/event-loop.js'
import { seconds, warnAfter, warnOnce } from '../../foundation/base/warnings.js'
import { blockedBy } from '../../foundation/driver/blocked-by.js'
import {
  behindPromise,
  comesAfterItself,
  deadlock,
  drained,
  MOST_NESTED,
  queuing,
  tooDeep,
} from '../../foundation/driver/deadlocks.js'
import { type BackOff, EventLoopPoller, type TurnResult } from '../../foundation/driver/event-loop-poller.js'
import type { Machine } from './machine.js'
import type { SimOperation, SimStream } from './machine-state.js'
import type { HostWait, Runs } from './scheduler.js'
import { OtherThreadsWork, SimOperationKind } from './work.js'

/** The launches that a stream accepts before the driver blocks the caller: measured on an H200. */
const QUEUE_ENTRIES = 1020
const QUEUING = queuing(`${QUEUE_ENTRIES} operations`)
/** The milliseconds between two checks of values for which streams wait. */
const LOOK_FOR_VALUES = 1
const LONGEST_TIMEOUT = 2 ** 31 - 1

/** A wait for all that is pending. */
const NEEDS_ALL: HostWait = { isOver: () => true, needs: () => true, last: undefined, room: undefined }

export class HostWaits {
  readonly #poller: EventLoopPoller
  #abandoned = false
  /** The time since which something has been pending, as far as the event loop has noticed. */
  #pendingSince: number | undefined
  /** The time at which other threads have last done something, as far as the event loop has noticed. */
  #othersAt: number | undefined
  readonly #warnAfter = warnAfter()
  readonly #deadlockAfter = VARIABLES.deadlockTimeout.read()

  /** @param all The waits of all machines of the process */
  constructor(
    private readonly machine: Machine,
    private readonly all: () => Iterable<HostWaits>,
  ) {
    this.#poller = new EventLoopPoller(
      () => this.#turn(),
      new Park(
        () => this.#warn(),
        () => this.#keepsAlive(),
      ),
      () => this.#keepsAlive(),
    )
  }

  /** Starts the event loop poller, as there is something to wait for. */
  wake(): void {
    this.#othersAt = undefined
    this.#poller.wake()
  }

  /** Leaves all that is pending as it is, forever: nothing settles, nothing runs, and nothing keeps the process alive. */
  abandon(): void {
    this.#abandoned = true
    this.#poller.wake()
  }

  /** Waits as a driver does until the stream's hardware queue has room. */
  reserve(stream: SimStream, entries: number): void {
    if (!hasCapacity(stream, entries)) this.#block(waitForCapacity(stream, entries), QUEUING)
  }

  blockFor(last: SimOperation, what: string): void {
    this.#block(waitFor(last), what)
    if (this.machine.comesAfterHostImplementation(last)) throw deadlock(what, comesAfterItself)
    this.machine.observe(last)
  }

  drainHostFunctions(): void {
    const { machine } = this
    const last = machine.lastSequence
    const isOver = drained(
      () => machine.hostFunctionsPending === 0,
      () => machine.hasNoHostFunctionUpTo(last),
    )
    this.#blockForAll(isOver, 'device.drainHostFunctions()')
  }

  /** Runs host functions until none is pending, since a real GPU needs that for a call that waits for the whole device. */
  exclusively(what: string): void {
    const { machine } = this
    const isOver = (): boolean => machine.hostFunctionsPending === 0 && !machine.standsForValue
    this.#blockForAll(isOver, what)
  }

  /**
   * Refuses such a call if it could never be made. Otherwise nothing is waited for: once the code is loaded a real GPU does not wait either, and a
   * missing wait is to be noticed.
   */
  refuseExclusive(what: string): void {
    this.#refuseEndless(NEEDS_ALL, what)
  }

  /** Whether a call that waits for the whole device would have to wait for JavaScript. */
  get holdsUpDevice(): boolean {
    return this.machine.hostFunctionsPending > 0 || this.machine.promiseBefore(NEEDS_ALL) !== undefined
  }

  get #pending(): number {
    return this.#abandoned ? 0 : this.machine.waitsPending + this.machine.hostFunctionsPending
  }

  /**
   * Whether the event loop has to stay alive, since other threads may wait for what is queued here. If they have done nothing for long, their own
   * work will never be done.
   */
  #keepsAlive(): boolean {
    if (this.#pending > 0) return true
    if (this.#abandoned || !this.machine.worksForOthers) return false
    const now = monotonicTime()
    if (this.machine.others.haveProgressed()) this.#othersAt = now
    this.#othersAt ??= now
    return now - this.#othersAt < this.#deadlockAfter
  }

  #turn(): TurnResult {
    if (this.#abandoned) return 'idle'
    const before = this.#pending
    if (this.machine.turn()) return this.#pending < before ? 'delivered' : 'soon'
    if (this.machine.standsForOthers) return 'later'
    if (this.#pending === 0) this.#pendingSince = undefined
    else this.#pendingSince ??= monotonicTime()
    return this.#pending > 0 ? 'later' : 'idle'
  }

  #block(wait: HostWait, what: string): void {
    const { scheduler, nested } = this.machine
    this.#refuseEndless(wait, what)
    const runs: Runs = nested === 0 ? 'any' : nested < MOST_NESTED ? 'needed' : 'none'
    /** The time since which no other thread has done anything, while this one waits for it. */
    let since: number | undefined
    while (!scheduler.block(wait, runs)) {
      // Another thread may have completed the last of what this wait needs since.
      if (this.machine.passValues() || wait.isOver()) continue
      if (this.machine.standsForOthers) {
        since ??= monotonicTime()
        this.machine.publish()
        if (this.machine.others.waitForProgress(LOOK_FOR_VALUES)) since = undefined
        else if (monotonicTime() - since > this.#deadlockAfter) throw deadlock(what, this.#whyStuck())
        continue
      }
      if (runs === 'none') throw deadlock(what, tooDeep)
      if (!this.#othersGoOn()) throw deadlock(what, this.#whyStuck())
    }
  }

  #blockForAll(isOver: () => boolean, what: string): void {
    this.#block({ ...NEEDS_ALL, isOver }, what)
    // A host function that ran may have queued a wait for a promise.
    this.#refuseEndless(NEEDS_ALL, what)
  }

  #refuseEndless(wait: HostWait, what: string): void {
    if (this.machine.comesAfterRunning(wait)) throw deadlock(what, comesAfterItself)
    const promise = this.machine.promiseBefore(wait)
    if (promise !== undefined) throw deadlock(what, behindPromise(describeOperation(promise)))
  }

  /** Lets host functions of other machines run, which may open a latch of this one. An exploration has no other machines. */
  #othersGoOn(): boolean {
    if (this.machine.scheduler.explores) return false
    let any = false
    for (const other of this.all()) if (other !== this && other.#goesOn()) any = true
    return any
  }

  #goesOn(): boolean {
    return !this.#abandoned && this.machine.hostFunctionsPending > 0 && this.machine.scheduler.step()
  }

  /**
   * Warns of latches that have blocked promises or host functions for a while, when nothing goes on by itself any more. Returns the milliseconds
   * after which to call this again.
   */
  #warn(): number | undefined {
    if (this.machine.passValues()) {
      this.#poller.wake()
      return undefined
    }
    const now = monotonicTime()
    const late = now - this.#warnAfter
    let next = (this.#pendingSince ?? now) - late
    if (next > 0) return this.machine.standsForValue ? LOOK_FOR_VALUES : next
    next = this.#warnAfter
    for (const [latch, since] of this.machine.latchesStanding) {
      if (!this.machine.isWaitedFor(latch)) continue
      if (since > late) next = Math.min(next, since - late)
      else warnOnce(`CUDA_STREAMS_${codeOf(latch)}`, stands(latch, this.#warnAfter))
    }
    // JavaScript writes to memory without a call, so values are checked now and then.
    return this.machine.standsForValue ? Math.min(next, LOOK_FOR_VALUES) : next
  }

  #whyStuck(): string {
    const value = [...this.machine.latchesStanding.keys()].find(({ work }) => work !== undefined)
    if (value?.work instanceof OtherThreadsWork) {
      return `it comes after work of another thread, and no thread has done anything for ${seconds(this.#deadlockAfter)}. The simulated GPU works for a thread while that is in its event loop, or in a call that waits: let it return there, or await finished() instead`
    }
    if (value !== undefined) {
      return `no work is running, and a stream is blocked by ${describeOperation(value)}. Write the value first, or await finished() instead`
    }
    return `no work is running, and ${this.machine.latchesStanding.size} latch(es) are closed. Open the latch first, or await finished() instead`
  }
}

/** Keeps the process alive, as pending work does on a GPU, without doing anything until a call comes. */
class Park implements BackOff {
  #timer: Timeout | undefined

  /** @param look Returns the milliseconds after which it is to be called again; undefined if it has woken the poller */
  constructor(
    private readonly look: () => number | undefined,
    private readonly keepsAlive: () => boolean,
  ) {}

  readonly sleep = (): void => {
    const wait = this.look()
    if (wait === undefined) return
    this.#timer = after(Math.min(Math.ceil(wait), LONGEST_TIMEOUT), this.sleep)
    if (!this.keepsAlive()) this.#timer.unref()
  }

  cancel(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }
}

/** The description of an operation that blocks its stream until JavaScript runs or opens it. */
export const describeOperation = (operation: SimOperation): string => {
  const { kind, stream, site } = operation
  return blockedBy(kind === SimOperationKind.HOST ? 'a host function' : NAMES[codeOf(operation)], stream.handle, site)
}

const NAMES = {
  LATCH: 'a latch',
  PROMISE: 'a promise',
  VALUE: 'a wait for a value',
  THREAD: 'work of another thread',
} as const

function codeOf({ kind, work }: SimOperation): keyof typeof NAMES {
  if (kind === SimOperationKind.PROMISE) return 'PROMISE'
  if (work === undefined) return 'LATCH'
  return work instanceof OtherThreadsWork ? 'THREAD' : 'VALUE'
}

const stands = (latch: SimOperation, milliseconds: number): string =>
  `Nothing has completed for ${seconds(milliseconds)}: work that is waited for comes after ${describeOperation(latch)}`

function waitFor(last: SimOperation): HostWait {
  return { last, room: undefined, isOver: () => last.over, needs: (host) => host.isBefore(last) }
}

/** Whether the stream's hardware queue has room. Work that a stream captures goes into a graph and takes no entry. */
export function hasCapacity(stream: SimStream, entries: number): boolean {
  return stream.capture !== undefined || stream.entries + entries <= QUEUE_ENTRIES
}

function waitForCapacity(stream: SimStream, entries: number): HostWait {
  const room = { stream, left: QUEUE_ENTRIES - entries }
  return { last: undefined, room, isOver: () => hasCapacity(stream, entries), needs: (host) => host.holdsUp(stream) }
}
