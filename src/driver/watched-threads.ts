/**
 * Memory by which the sanitizers of a process's threads exchange what they know: a mailbox of each shared object, and words that all
 * threads have. While a thread without a sanitizer uses a shared object, the order between threads is not all known, and no thread
 * reports races with another.
 */
import { memoryOfAllThreads } from '../base/once-in-all-threads.js'
import { isGone, isSharedMemory, newSharedMemory, ownThread, randomNumber } from '../base/system-threads.js'

/** The number of the thread that holds the lock; 0 if none does. */
const LOCK = 0
/** Tells these words from others: each thread has another SharedArrayBuffer for the same memory. */
const NUMBER = 1
/** How many objects that are open a thread uses without a sanitizer. */
const UNWATCHED = 2
/** Changes with `UNWATCHED`: what was known before does not count afterwards. */
const ERA = 3
/** How many numbers components of vector clocks have, and how many of these are free again. */
const COMPONENTS = 4
const FREE = 6
/** Counts the times at which more work became known to be done. */
const CHANGES = 5
/** By component, the latest time that some thread knows to be done; then the latest time that was told; then the free numbers. */
const DONE = 16
export const MOST_COMPONENTS = 8192
const LATEST = DONE + MOST_COMPONENTS
const FREE_NUMBERS = LATEST + MOST_COMPONENTS
/** By device, a mailbox of the null stream's work, and one of that of blocking streams. */
const MOST_DEVICES = 16
const DEVICE_BYTES = 4096
const BOXES = 4 * (FREE_NUMBERS + MOST_COMPONENTS)

/** Threads that are started once this module is loaded have the same. */
const memory = memoryOfAllThreads('cuda-streams: sanitizers', BOXES + 2 * MOST_DEVICES * DEVICE_BYTES)
const words = new Int32Array(memory, 0, BOXES / 4)
Atomics.compareExchange(words, NUMBER, 0, randomNumber())

const VERSION = 0
const LENGTH = 1
/** 1: a thread uses the object without a sanitizer. 2: it is closed. */
const STATE = 2
const MAILBOX_HEADER = 16
const OBJECT_BYTES = 65_536

/** A JSON text that all threads can read, and write while they have the lock. */
export class Mailbox {
  readonly #header: Int32Array
  readonly #bytes: Uint8Array
  #read = 0

  constructor(buffer: ArrayBufferLike, offset = 0, byteLength = buffer.byteLength) {
    this.#header = new Int32Array(buffer, offset, MAILBOX_HEADER / 4)
    this.#bytes = new Uint8Array(buffer, offset + MAILBOX_HEADER, byteLength - MAILBOX_HEADER)
  }

  /** Was it written since this thread read or wrote it? */
  get isNews(): boolean {
    return Atomics.load(this.#header, VERSION) !== this.#read
  }

  get isClosed(): boolean {
    return Atomics.load(this.#header, STATE) === 2
  }

  /** What it has; undefined before it is written. */
  read(): unknown {
    this.#read = Atomics.load(this.#header, VERSION)
    const length = Atomics.load(this.#header, LENGTH)
    if (length === 0) return undefined
    try {
      // Decoders take no shared memory.
      return JSON.parse(new TextDecoder().decode(this.#bytes.slice(0, length)))
    } catch {
      // A thread was terminated while it wrote.
      changeUnwatched(words, 1)
      return undefined
    }
  }

  /** False if it is too long, which leaves the mailbox as it was. */
  write(value: unknown): boolean {
    const bytes = new TextEncoder().encode(JSON.stringify(value))
    if (bytes.length > this.#bytes.length) return false
    this.#bytes.set(bytes)
    Atomics.store(this.#header, LENGTH, bytes.length)
    this.#read = Atomics.add(this.#header, VERSION, 1) + 1
    return true
  }
}

/** What a token has of a shared object that a sanitizer watches. */
export interface WatchedObject {
  readonly mailbox: ArrayBufferLike
  /** The words of the process, as the thread has them that shared the object. */
  readonly process: ArrayBufferLike
  /** The thread has it of another, or has shared it by another object before. */
  readonly isKnown?: boolean
}

export const newWatchedObject = (): WatchedObject => ({ mailbox: newSharedMemory(OBJECT_BYTES), process: memory })

function partsOf(given: unknown): WatchedObject | undefined {
  const { mailbox, process, isKnown = false } = (given ?? {}) as Partial<WatchedObject>
  if (!isSharedMemory(mailbox) || mailbox.byteLength !== OBJECT_BYTES) return undefined
  return isSharedMemory(process) && process.byteLength === memory.byteLength ? { mailbox, process, isKnown } : undefined
}

const hasWordsOfThisThread = ({ process }: WatchedObject): boolean => new Int32Array(process)[NUMBER] === words[NUMBER]

/**
 * What a token has of the object. Undefined if no sanitizer watches it in the thread that shared it, or if that thread was started
 * before its parent loaded this library, and has other words.
 */
export function watchedObject(given: unknown): WatchedObject | undefined {
  const watched = partsOf(given)
  return watched !== undefined && hasWordsOfThisThread(watched) ? watched : undefined
}

/** A thread uses a shared object without a sanitizer; `given` is what the token has, if one watches it in the thread that shared it. */
export function unwatchedBegins(given?: unknown): void {
  const watched = partsOf(given)
  if (watched === undefined) {
    changeUnwatched(words, 1)
    return
  }
  if (Atomics.compareExchange(new Int32Array(watched.mailbox), STATE, 0, 1) === 0) {
    changeUnwatched(new Int32Array(watched.process), 1)
  }
  if (!hasWordsOfThisThread(watched)) changeUnwatched(words, 1)
}

/** This thread has closed an object that it shared. */
export function sharingEnds(given: unknown): void {
  const watched = partsOf(given)
  if (watched?.isKnown) return
  const wasUnwatched = watched === undefined || Atomics.exchange(new Int32Array(watched.mailbox), STATE, 2) === 1
  if (wasUnwatched) changeUnwatched(words, -1)
}

function changeUnwatched(where: Int32Array, by: number): void {
  Atomics.add(where, UNWATCHED, by)
  Atomics.add(where, ERA, 1)
}

/** The number of the time since which sanitizers know the order of all threads; undefined while they do not. */
export function watchedEra(): number | undefined {
  return Atomics.load(words, UNWATCHED) === 0 ? Atomics.load(words, ERA) : undefined
}

/** Runs a function while no other thread runs one. */
export function exclusively<R>(fn: () => R): R {
  const own = ownThread()
  for (;;) {
    const holder = Atomics.compareExchange(words, LOCK, 0, own)
    if (holder === 0) break
    if (holder === own) return fn()
    if (isGone(holder)) Atomics.compareExchange(words, LOCK, holder, 0)
  }
  try {
    return fn()
  } finally {
    Atomics.store(words, LOCK, 0)
  }
}

/** The mailboxes of a device's null stream, and of its blocking streams. Devices beyond the first sixteen share the last. */
export function mailboxesOfDevice(device: number): { readonly nullStream: Mailbox; readonly blocking: Mailbox } {
  const at = BOXES + 2 * Math.min(device, MOST_DEVICES - 1) * DEVICE_BYTES
  return {
    nullStream: new Mailbox(memory, at, DEVICE_BYTES),
    blocking: new Mailbox(memory, at + DEVICE_BYTES, DEVICE_BYTES),
  }
}

/** The times of components that have numbers in all threads. */
export const sharedTimes = {
  /** A number for a component, and the latest time that another had with it; undefined if there are too many. */
  newComponent(): { readonly number: number; readonly since: number } | undefined {
    return exclusively(() => {
      const free = Atomics.sub(words, FREE, 1) - 1
      if (free >= 0) {
        const number = Atomics.load(words, FREE_NUMBERS + free)
        return { number, since: Math.max(sharedTimes.done(number), sharedTimes.latest(number)) }
      }
      Atomics.store(words, FREE, 0)
      const number = Atomics.load(words, COMPONENTS)
      if (number >= MOST_COMPONENTS) return undefined
      Atomics.store(words, COMPONENTS, number + 1)
      return { number, since: 0 }
    })
  },
  /** The thread that has these numbers will not use them any more. */
  giveBack(numbers: Iterable<number>): void {
    exclusively(() => {
      for (const number of numbers) Atomics.store(words, FREE_NUMBERS + Atomics.add(words, FREE, 1), number)
    })
  },
  get count(): number {
    return Atomics.load(words, COMPONENTS)
  },
  /** Changes when more work is known to be done. */
  get changes(): number {
    return Atomics.load(words, CHANGES)
  },
  done: (component: number): number => Atomics.load(words, DONE + component),
  latest: (component: number): number => Atomics.load(words, LATEST + component),
  setDone: (component: number, time: number): void => raise(DONE + component, time),
  setLatest: (component: number, time: number): void => raise(LATEST + component, time),
  /** To be called before and after `setDone()`: a thread that sees the time sees that something has changed. */
  changed: (): void => void Atomics.add(words, CHANGES, 1),
}

function raise(at: number, time: number): void {
  for (let before = Atomics.load(words, at); before < time; before = Atomics.load(words, at)) {
    Atomics.compareExchange(words, at, before, time)
  }
}
