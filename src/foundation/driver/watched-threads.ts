/**
 * Whether a sanitizer watches each thread that uses a shared object. While one does not, the order between threads is not all known, and
 * no sanitizer reports races with another thread.
 */
import { memoryOfAllThreads } from '../base/once-in-all-threads.js'
import { isSharedMemory, newSharedMemory } from '../base/shared-memory.js'
import { randomNumber } from '../base/system-threads.js'

/** Tells these words from others: each thread has another SharedArrayBuffer for the same memory. */
const NUMBER = 0
/** How many objects that are open a thread uses without a sanitizer. */
const UNWATCHED = 1
/** Changes with `UNWATCHED`: what was known before does not count afterwards. */
const ERA = 2
/** Bytes behind these words, for the sanitizers of all threads. */
export const SANITIZERS_BEGIN = 64
const BYTES = 262_144

/** Threads that are started once this module is loaded have the same. */
export const memoryOfSanitizers = memoryOfAllThreads('cuda-streams: sanitizers', BYTES)
const words = new Int32Array(memoryOfSanitizers, 0, SANITIZERS_BEGIN / 4)
Atomics.compareExchange(words, NUMBER, 0, randomNumber())

/** Bytes of the memory that sanitizers have of an object; its first word is `STATE`. */
const OBJECT_BYTES = 65_536
/** 1: a thread uses the object without a sanitizer. 2: it is closed. */
const STATE = 0
const IS_UNWATCHED = 1
const IS_CLOSED = 2

/** What a token has of a shared object that a sanitizer watches. */
export interface WatchedObject {
  readonly mailbox: ArrayBufferLike
  /** The words of the process, as the thread has them that shared the object. */
  readonly process: ArrayBufferLike
  /** The thread has it of another, or has shared it by another object before. */
  readonly isKnown?: boolean
}

export const newWatchedObject = (): WatchedObject => ({
  mailbox: newSharedMemory(OBJECT_BYTES),
  process: memoryOfSanitizers,
})

function partsOf(given: unknown): WatchedObject | undefined {
  const { mailbox, process, isKnown = false } = (given ?? {}) as Partial<WatchedObject>
  if (!isSharedMemory(mailbox) || mailbox.byteLength !== OBJECT_BYTES) return undefined
  return isSharedMemory(process) && process.byteLength === BYTES ? { mailbox, process, isKnown } : undefined
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
    knowsLess()
    return
  }
  if (Atomics.compareExchange(new Int32Array(watched.mailbox), STATE, 0, IS_UNWATCHED) === 0) {
    changeUnwatched(new Int32Array(watched.process), 1)
  }
  if (!hasWordsOfThisThread(watched)) knowsLess()
}

/** Called when this thread has closed an object that it shared. */
export function sharingEnds(given: unknown): void {
  const watched = partsOf(given)
  if (watched?.isKnown) return
  const wasUnwatched =
    watched === undefined || Atomics.exchange(new Int32Array(watched.mailbox), STATE, IS_CLOSED) === IS_UNWATCHED
  if (wasUnwatched) changeUnwatched(words, -1)
}

/** Called for an operation whose ordering sanitizers do not know. */
export const knowsLess = (): void => changeUnwatched(words, 1)

export const isClosed = ({ mailbox }: WatchedObject): boolean =>
  Atomics.load(new Int32Array(mailbox), STATE) === IS_CLOSED

function changeUnwatched(where: Int32Array, by: number): void {
  Atomics.add(where, UNWATCHED, by)
  Atomics.add(where, ERA, 1)
}

/** The number of the time since which sanitizers know the order of all threads; undefined while they do not. */
export function watchedEra(): number | undefined {
  return Atomics.load(words, UNWATCHED) === 0 ? Atomics.load(words, ERA) : undefined
}
