/**
 * Words in memory by which the simulated machines of all threads of a process are one: what has faulted, who captures, how much of each machine's
 * work is done, and that something has happened.
 */
import { stateError } from '../../foundation/base/errors.js'
import { memoryOfAllThreads } from '../../foundation/base/once-in-all-threads.js'
import { placing } from '../../foundation/base/placing.js'
import { isSharedMemory } from '../../foundation/base/shared-memory.js'
import { isGone, ownThread, randomNumber } from '../../foundation/base/system-threads.js'

const MOST_MACHINES = 256
const inMachine = placing()
/** The index, in a machine's words, of its thread; 0 if there is none. */
const THREAD = inMachine(1)
/** The index of the number of the operation that the machine made last; OLDEST is that of the oldest one that is not over. */
const LATEST = inMachine(1)
const OLDEST = inMachine(1)
/** The index of the number of captures; GLOBAL_CAPTURES is that of those which forbid calls of other threads. */
const CAPTURES = inMachine(1)
const GLOBAL_CAPTURES = inMachine(1)
/** The index of a flag: another thread has made a call that the captures forbid. */
const FORBIDDEN = inMachine(1)
/** The number of words that each machine has. */
const EACH = 16
const inAll = placing()
const PROGRESS = inAll(1)
const FAULT = inAll(1)
/** The index of the number of captures, in all threads, that forbid calls of others. */
const ALL_GLOBAL_CAPTURES = inAll(1)
/** The index of the number of faults. */
const FAULTS = inAll(1)
/** The index of a number that identifies the memory: each thread has another SharedArrayBuffer for the same one. */
const NUMBER = inAll(1)
inAll(EACH - inAll(0))
/** The index of the first machine's words. */
const FIRST = inAll(EACH * MOST_MACHINES)
const PLACES = Array.from({ length: MOST_MACHINES }, (_, index) => FIRST + EACH * index)
/** The value of THREAD while the words of a terminated thread are cleared. */
const BEING_LEFT = -1
const LAST_NUMBER = 2 ** 31 - 1
const BYTES = 4 * inAll(0)

/** The memory that all threads have in common that are started once this module is loaded. */
const inherited = memoryOfAllThreads('cuda-streams: simulated machines', BYTES)

class ProcessWords {
  readonly #words: Int32Array
  readonly #own: number
  #seen = 0
  /** The number of faults before this machine joined, and of its own. */
  #faults: number

  private constructor(readonly memory: ArrayBufferLike) {
    this.#words = new Int32Array(memory)
    Atomics.compareExchange(this.#words, NUMBER, 0, randomNumber())
    const isMine = (at: number): boolean => Atomics.compareExchange(this.#words, at + THREAD, 0, ownThread()) === 0
    let own = PLACES.find(isMine)
    // The words of terminated threads are looked for here, since machines that wait for nothing have not noticed that they ended.
    if (own === undefined)
      own = PLACES.filter((at) => this.#isLeft(at, Atomics.load(this.#words, at + THREAD), true)).find(isMine)
    if (own === undefined) {
      throw stateError(
        'ERR_UNSUPPORTED',
        `More than ${MOST_MACHINES} simulations share objects at a time: close threads that are done`,
      )
    }
    this.#own = own
    this.#faults = Atomics.load(this.#words, FAULTS)
    this.publishCaptures(0, 0)
    Atomics.store(this.#words, own + FORBIDDEN, 0)
    this.publishLatest(0)
    this.publishOldest(1)
  }

  /** Clears the words of this machine, which is gone with all its work done. */
  leave(): void {
    this.#clear(this.#own)
  }

  /** Joins the machines of other threads, or returns the one of `joined` that has done so. Undefined if `memory` is no such memory. */
  static join(memory: unknown, joined: readonly ProcessWords[]): ProcessWords | undefined {
    if (!isSharedMemory(memory) || memory.byteLength !== BYTES) return undefined
    const number = new Int32Array(memory)[NUMBER]
    return joined.find((words) => words.#words[NUMBER] === number) ?? new ProcessWords(memory)
  }

  /** Notifies the other threads that something has happened. */
  progress(): void {
    Atomics.add(this.#words, PROGRESS, 1)
    Atomics.notify(this.#words, PROGRESS)
  }

  /** Waits until something happens in another thread, for so many milliseconds at most. Returns false if nothing did. */
  waitForProgress(milliseconds: number): boolean {
    if (this.hasProgressed()) return true
    Atomics.wait(this.#words, PROGRESS, this.#seen, milliseconds)
    return this.hasProgressed()
  }

  /** Whether anything has happened since this was asked before. */
  hasProgressed(): boolean {
    const now = Atomics.load(this.#words, PROGRESS)
    const happened = now !== this.#seen
    this.#seen = now
    return happened
  }

  /** The CUresult of a fault of another thread since this machine has joined; 0 without one. */
  get fault(): number {
    return Atomics.load(this.#words, FAULTS) === this.#faults ? 0 : Atomics.load(this.#words, FAULT)
  }

  setFault(result: number): void {
    Atomics.store(this.#words, FAULT, result)
    this.#faults = Atomics.add(this.#words, FAULTS, 1) + 1
    this.progress()
  }

  /** Publishes the number of the operation that this machine made last. */
  publishLatest(latest: number): void {
    Atomics.store(this.#words, this.#own + LATEST, latest)
  }

  /** Publishes the number of this machine's oldest operation that is not over. */
  publishOldest(oldest: number): void {
    if (Atomics.exchange(this.#words, this.#own + OLDEST, oldest) !== oldest) this.progress()
  }

  publishCaptures(all: number, global: number): void {
    Atomics.store(this.#words, this.#own + CAPTURES, all)
    const before = Atomics.exchange(this.#words, this.#own + GLOBAL_CAPTURES, global)
    Atomics.add(this.#words, ALL_GLOBAL_CAPTURES, global - before)
    this.progress()
  }

  get othersAreThere(): boolean {
    return this.#others().length > 0
  }

  /** Whether any other thread captures. */
  get othersCapture(): boolean {
    return this.#others().some((at) => Atomics.load(this.#words, at + CAPTURES) > 0)
  }

  get othersCaptureGlobally(): boolean {
    if (Atomics.load(this.#words, ALL_GLOBAL_CAPTURES) === 0) return false
    return this.#others().some((at) => Atomics.load(this.#words, at + GLOBAL_CAPTURES) > 0)
  }

  /** Notes a call that captures in global mode forbid to all threads, which invalidates captures of other threads. Returns true if there are any. */
  forbidden(): boolean {
    const global = this.#others().filter((at) => Atomics.load(this.#words, at + GLOBAL_CAPTURES) > 0)
    for (const at of global) Atomics.store(this.#words, at + FORBIDDEN, 1)
    return global.length > 0
  }

  /** Whether another thread has made a call that the captures of this one forbid. Returns true once for each. */
  takeForbidden(): boolean {
    return (
      Atomics.load(this.#words, this.#own + FORBIDDEN) === 1 &&
      Atomics.exchange(this.#words, this.#own + FORBIDDEN, 0) === 1
    )
  }

  /** The functions, one for each other machine that has work, that return whether all work is done that is queued there now. */
  othersWork(): readonly (() => boolean)[] {
    return this.#others()
      .map((at) => ({ at, latest: Atomics.load(this.#words, at + LATEST) }))
      .filter(({ at, latest }) => Atomics.load(this.#words, at + OLDEST) <= latest)
      .map(
        ({ at, latest }) =>
          () =>
            Atomics.load(this.#words, at + OLDEST) > latest || this.#isLeft(at, Atomics.load(this.#words, at + THREAD)),
      )
  }

  #others(): readonly number[] {
    const isOther = (at: number): boolean => {
      const thread = Atomics.load(this.#words, at + THREAD)
      return thread !== 0 && thread !== ownThread() && !this.#isLeft(at, thread)
    }
    return PLACES.filter(isOther)
  }

  /** Whether a thread was terminated and has left captures and work behind, which will never end. */
  #isLeft(at: number, thread: number, atOnce = false): boolean {
    if (!isGone(thread, atOnce)) return false
    if (Atomics.compareExchange(this.#words, at + THREAD, thread, BEING_LEFT) !== thread) return true
    this.#clear(at)
    return true
  }

  #clear(at: number): void {
    Atomics.store(this.#words, at + CAPTURES, 0)
    Atomics.sub(this.#words, ALL_GLOBAL_CAPTURES, Atomics.exchange(this.#words, at + GLOBAL_CAPTURES, 0))
    Atomics.store(this.#words, at + FORBIDDEN, 0)
    Atomics.store(this.#words, at + OLDEST, LAST_NUMBER)
    Atomics.store(this.#words, at + THREAD, 0)
    this.progress()
  }
}

/**
 * The machines of other threads. Mostly all threads of a process have the same words; a thread that was started before its parent loaded this library
 * has others, until something is shared between the two.
 */
export class OtherMachines {
  readonly #joined: ProcessWords[] = []
  /** Whether something is shared with other processes. */
  processes = false

  /** Joins the machines that a token of another thread names; without a token, those of this process. */
  join(memory: unknown = inherited): ArrayBufferLike | undefined {
    const known = ProcessWords.join(memory, this.#joined)
    if (known !== undefined && !this.#joined.includes(known)) this.#joined.push(known)
    return known?.memory
  }

  leave(): void {
    for (const words of this.#joined.splice(0)) words.leave()
  }

  get isEmpty(): boolean {
    return this.#joined.length === 0
  }

  progress(): void {
    for (const words of this.#joined) words.progress()
  }

  waitForProgress(milliseconds: number): boolean {
    return this.#joined.filter((words) => words.waitForProgress(milliseconds / this.#joined.length)).length > 0
  }

  /** Whether there are machines that it helps to wait for. */
  get areThere(): boolean {
    return this.processes || this.#joined.some(({ othersAreThere }) => othersAreThere)
  }

  haveProgressed(): boolean {
    return this.#joined.filter((words) => words.hasProgressed()).length > 0
  }

  get fault(): number {
    return this.#joined.find(({ fault }) => fault !== 0)?.fault ?? 0
  }

  /**
   * Publishes a fault to the machines that do not have it yet: to the others it would be a new fault, which loses machines that have joined since,
   * too.
   */
  setFault(result: number): void {
    for (const words of this.#joined) if (words.fault === 0) words.setFault(result)
  }

  publishLatest(latest: number): void {
    for (const words of this.#joined) words.publishLatest(latest)
  }

  publishOldest(oldest: number): void {
    for (const words of this.#joined) words.publishOldest(oldest)
  }

  publishCaptures(all: number, global: number): void {
    for (const words of this.#joined) words.publishCaptures(all, global)
  }

  get capture(): boolean {
    return this.#joined.some(({ othersCapture }) => othersCapture)
  }

  get captureGlobally(): boolean {
    return this.#joined.some(({ othersCaptureGlobally }) => othersCaptureGlobally)
  }

  forbidden(): boolean {
    return this.#joined.filter((words) => words.forbidden()).length > 0
  }

  takeForbidden(): boolean {
    return this.#joined.filter((words) => words.takeForbidden()).length > 0
  }

  work(): readonly (() => boolean)[] {
    return this.#joined.flatMap((words) => words.othersWork())
  }
}
