/** Mailboxes and words in memory by which the sanitizers of a process's threads exchange what they know. */
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { isGone, ownThread } from '../../foundation/base/system-threads.js'
import {
  isClosed,
  knowsLess,
  memoryOfSanitizers,
  SANITIZERS_BEGIN,
  type WatchedObject,
} from '../../foundation/driver/watched-threads.js'

/** The index of the number of the thread that holds the lock; 0 if none does. */
const LOCK = 0
/** The index of the count of numbers of components; FREE is that of the count of free ones among them. */
const COMPONENTS = 1
const FREE = 2
/** The index of the count of times at which more work became known to be done. */
const CHANGES = 3
/**
 * The index of the latest time of each component that some thread knows to be done; LATEST is that of the latest times that were sent, FREE_NUMBERS
 * that of the free numbers.
 */
const DONE = 16
const MOST_COMPONENTS = 8192
const LATEST = DONE + MOST_COMPONENTS
const FREE_NUMBERS = LATEST + MOST_COMPONENTS
const WORDS = FREE_NUMBERS + MOST_COMPONENTS
/** The number of devices with mailboxes: one for the null stream's work, and one for that of blocking streams. */
const MOST_DEVICES = 16
const DEVICE_BYTES = 4096
const DEVICES = SANITIZERS_BEGIN + 4 * WORDS

/**
 * The milliseconds after which a lock counts as abandoned. It is held for a millisecond at most, unless its thread was terminated, which not every
 * system shows.
 */
const LONGEST_HELD = 2000

const words = new Int32Array(memoryOfSanitizers, SANITIZERS_BEGIN, WORDS)

/** The index of the version of a mailbox; the word before it says whether the object is open. */
const VERSION = 1
const LENGTH = 2
const MAILBOX_HEADER = 16

/** A JSON text that all threads can read, and can write while they have the lock. */
export class Mailbox {
  readonly #header: Int32Array
  readonly #bytes: Uint8Array
  #read = 0

  /** @param buffer The memory of an object, or other memory that contains the mailbox */
  constructor(
    buffer: ArrayBufferLike,
    offset = 0,
    byteLength = buffer.byteLength,
    private readonly object?: WatchedObject,
  ) {
    this.#header = new Int32Array(buffer, offset, MAILBOX_HEADER / 4)
    this.#bytes = new Uint8Array(buffer, offset + MAILBOX_HEADER, byteLength - MAILBOX_HEADER)
  }

  static of(object: WatchedObject): Mailbox {
    return new Mailbox(object.mailbox, 0, object.mailbox.byteLength, object)
  }

  /** Whether the thread has closed the object that shared the mailbox. */
  get isClosed(): boolean {
    return this.object !== undefined && isClosed(this.object)
  }

  /** Whether the mailbox was written since this thread read or wrote it. */
  get isNews(): boolean {
    return Atomics.load(this.#header, VERSION) !== this.#read
  }

  /** The value in the mailbox; undefined before it is written. */
  read(): unknown {
    this.#read = Atomics.load(this.#header, VERSION)
    const length = Atomics.load(this.#header, LENGTH)
    if (length === 0) return undefined
    try {
      // The bytes are copied, since decoders refuse shared memory.
      return JSON.parse(new TextDecoder().decode(this.#bytes.slice(0, length)))
    } catch {
      // The text may be cut off, if a thread was terminated while it wrote.
      knowsLess()
      return undefined
    }
  }

  /** Writes a value. Returns false if it is too long, which leaves the mailbox unchanged. */
  write(value: unknown): boolean {
    const bytes = new TextEncoder().encode(JSON.stringify(value))
    if (bytes.length > this.#bytes.length) return false
    this.#bytes.set(bytes)
    Atomics.store(this.#header, LENGTH, bytes.length)
    this.#read = Atomics.add(this.#header, VERSION, 1) + 1
    return true
  }
}

/** Runs a function while no other thread runs one. */
export function exclusively<R>(fn: () => R): R {
  const own = ownThread()
  let began: number | undefined
  for (;;) {
    const holder = Atomics.compareExchange(words, LOCK, 0, own)
    if (holder === 0) break
    if (holder === own) return fn()
    began ??= monotonicTime()
    const isLost = isGone(holder) || monotonicTime() - began > LONGEST_HELD
    if (isLost && Atomics.compareExchange(words, LOCK, holder, 0) === holder) knowsLess()
  }
  try {
    return fn()
  } finally {
    Atomics.store(words, LOCK, 0)
  }
}

/** The mailboxes of a device's null stream, and of its blocking streams. Devices beyond the first sixteen share the last. */
export function mailboxesOfDevice(device: number): { readonly nullStream: Mailbox; readonly blocking: Mailbox } {
  const at = DEVICES + 2 * Math.min(device, MOST_DEVICES - 1) * DEVICE_BYTES
  return {
    nullStream: new Mailbox(memoryOfSanitizers, at, DEVICE_BYTES),
    blocking: new Mailbox(memoryOfSanitizers, at + DEVICE_BYTES, DEVICE_BYTES),
  }
}

/** The times of components that have numbers in all threads. */
export const sharedTimes = {
  /** A number for a component, and the latest time that another component had with it; undefined if there are too many. */
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
  /** Frees these numbers, which their thread will not use any more. */
  giveBack(numbers: Iterable<number>): void {
    exclusively(() => {
      for (const number of numbers) Atomics.store(words, FREE_NUMBERS + Atomics.add(words, FREE, 1), number)
    })
  },
  get count(): number {
    return Atomics.load(words, COMPONENTS)
  },
  /** The count of changes, which grows when more work is known to be done. */
  get changes(): number {
    return Atomics.load(words, CHANGES)
  },
  done: (component: number): number => Atomics.load(words, DONE + component),
  latest: (component: number): number => Atomics.load(words, LATEST + component),
  setDone: (component: number, time: number): void => raise(DONE + component, time),
  setLatest: (component: number, time: number): void => raise(LATEST + component, time),
  /** Counts a change. It is to be called before and after `setDone()`: a thread that reads the new time finds that something has changed. */
  changed: (): void => void Atomics.add(words, CHANGES, 1),
}

function raise(at: number, time: number): void {
  for (let before = Atomics.load(words, at); before < time; before = Atomics.load(words, at)) {
    Atomics.compareExchange(words, at, before, time)
  }
}
