/**
 * Words in memory by which the threads of a process keep each other informed of simulated objects that they share: whether one is open and what it
 * is, and how far its work is. Each thread's own machine does its part of the work.
 */
import { placing } from '../../foundation/base/placing.js'
import { isSharedMemory, newSharedMemory } from '../../foundation/base/shared-memory.js'
import { hasLostWork, isGone, ownThread, randomNumber } from '../../foundation/base/system-threads.js'

/** The number of 64-bit words of a registration: the key, or 0 once it is closed; the kind; the device; and further properties. */
const REGISTRATION_WORDS = 16

/** The properties of an object in a token, which the owner can revoke. */
export class RegistrationWords {
  readonly #words: Float64Array

  private constructor(readonly memory: ArrayBufferLike) {
    this.#words = new Float64Array(memory)
  }

  static make(words: readonly number[]): RegistrationWords {
    const made = new RegistrationWords(newSharedMemory(8 * REGISTRATION_WORDS))
    made.#words.set(words)
    return made
  }

  /** The words in a memory; undefined if it is no such memory. */
  static in(memory: unknown): RegistrationWords | undefined {
    const isOne = isSharedMemory(memory) && memory.byteLength === 8 * REGISTRATION_WORDS
    return isOne ? new RegistrationWords(memory) : undefined
  }

  get key(): number {
    return this.#words[0] ?? 0
  }

  /** The words behind the key. */
  get rest(): readonly number[] {
    return [...this.#words.subarray(1)]
  }

  close(): void {
    this.#words[0] = 0
  }
}

const RECORDS = 32
export const MOST_PLACES = 42
const place = placing()
/** The index of a number that identifies the memory: each thread has another SharedArrayBuffer for the same one. */
const NUMBER = place(1)
const LOCK = place(1)
/** The index of the place whose thread queued last, plus one. */
const LAST = place(1)
const PLACES = place(1)
/** The index of the place whose thread captures, plus one. */
const CAPTURING = place(1)
const SERIAL = place(1)
/** The words in between are unused. */
place(58)
/** The index of the words for the latest finished records; each serial number has its place among them. */
const DONE_RECORDS = place(RECORDS)
/** The index of the words for the threads that made these records. */
const RECORDERS = place(RECORDS)
/** The index of the words for each place: how many operations its thread queued, how many of them are done, and the thread. */
const COUNTS = place(3 * MOST_PLACES)
/** The last two words are unused. */
export const WORK_BYTES = 4 * (place(0) + 2)

/** The work that one thread's work of a stream comes after: so many operations of another thread. */
export interface Turn {
  readonly place: number
  readonly count: number
}

/** The progress of an event's records, or of a stream's work. */
export class WorkWords {
  readonly #words: Int32Array

  constructor(readonly memory: ArrayBufferLike = newSharedMemory(WORK_BYTES)) {
    this.#words = new Int32Array(memory, 0, WORK_BYTES / 4)
    Atomics.compareExchange(this.#words, NUMBER, 0, randomNumber())
  }

  isSame(other: WorkWords | undefined): boolean {
    return other !== undefined && this.#words[NUMBER] === other.#words[NUMBER]
  }

  static in(memory: unknown): WorkWords | undefined {
    return isSharedMemory(memory) && memory.byteLength === WORK_BYTES ? new WorkWords(memory) : undefined
  }

  /** Whether the file was closed, since all records are done. */
  get #isClosed(): boolean {
    return this.#words.length === 0
  }

  // Records of an event ---------------------------------------------------------------------------------------------------

  /** The number of the latest record; 0 before the first. */
  get latestRecord(): number {
    return Atomics.load(this.#words, SERIAL)
  }

  /** Begins a new record; returns its number. */
  beginRecord(): number {
    const serial = Atomics.load(this.#words, SERIAL) + 1
    Atomics.store(this.#words, RECORDERS + (serial % RECORDS), ownThread())
    return Atomics.add(this.#words, SERIAL, 1) + 1
  }

  endRecord(serial: number): void {
    if (this.#isClosed) return
    const at = DONE_RECORDS + (serial % RECORDS)
    if (Atomics.load(this.#words, at) < serial) Atomics.store(this.#words, at, serial)
  }

  isRecordDone(serial: number): boolean {
    if (serial === 0 || this.#isClosed || Atomics.load(this.#words, DONE_RECORDS + (serial % RECORDS)) >= serial)
      return true
    return hasLostWork(Atomics.load(this.#words, RECORDERS + (serial % RECORDS)))
  }

  // The work of a stream, which each thread does a part of ----------------------------------------------------------------

  /** Takes a place for a thread that will queue work; returns undefined if there are too many. */
  takePlace(): number | undefined {
    for (;;) {
      const place = Atomics.load(this.#words, PLACES)
      if (place >= MOST_PLACES) return this.#placeOfEnded()
      if (Atomics.compareExchange(this.#words, PLACES, place, place + 1) !== place) continue
      Atomics.store(this.#words, COUNTS + 3 * place + 2, ownThread())
      return place
    }
  }

  /** The place of a thread that has ended. What it had queued and not done is lost, so that nothing waits for it. */
  #placeOfEnded(): number | undefined {
    const words = this.#words
    for (let place = 0; place < MOST_PLACES; place += 1) {
      const at = COUNTS + 3 * place
      const thread = Atomics.load(words, at + 2)
      if (!isGone(thread, true) || Atomics.compareExchange(words, at + 2, thread, ownThread()) !== thread) continue
      if (Atomics.load(words, at + 1) < Atomics.load(words, at)) hasLostWork(thread)
      Atomics.store(words, at + 1, Atomics.load(words, at))
      this.setCapturing(place, false)
      return place
    }
    return undefined
  }

  /** Notes that an operation is about to be queued. Returns the work of another thread that it comes after. */
  queue(place: number): Turn | undefined {
    const words = this.#words
    while (Atomics.compareExchange(words, LOCK, 0, 1) !== 0);
    const before = this.before(place)
    Atomics.store(words, LAST, place + 1)
    Atomics.add(words, COUNTS + 3 * place, 1)
    Atomics.store(words, LOCK, 0)
    return before
  }

  /** The work of another thread that an operation of this place would come after now. */
  before(place: number): Turn | undefined {
    const last = Atomics.load(this.#words, LAST) - 1
    if (last < 0 || last === place) return undefined
    return { place: last, count: Atomics.load(this.#words, COUNTS + 3 * last) }
  }

  done(place: number): void {
    Atomics.add(this.#words, COUNTS + 3 * place + 1, 1)
  }

  isDone({ place, count }: Turn): boolean {
    if (Atomics.load(this.#words, COUNTS + 3 * place + 1) >= count) return true
    return hasLostWork(Atomics.load(this.#words, COUNTS + 3 * place + 2))
  }

  /** Whether the thread of another place captures the stream. */
  capturesElsewhere(place: number): boolean {
    const capturing = Atomics.load(this.#words, CAPTURING)
    if (capturing === 0 || capturing === place + 1) return false
    return !isGone(Atomics.load(this.#words, COUNTS + 3 * (capturing - 1) + 2))
  }

  setCapturing(place: number, captures: boolean): void {
    if (captures) Atomics.store(this.#words, CAPTURING, place + 1)
    else Atomics.compareExchange(this.#words, CAPTURING, place + 1, 0)
  }
}
