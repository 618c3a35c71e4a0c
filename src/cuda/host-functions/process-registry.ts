/**
 * The process registry: memory in which the threads of a process publish their host functions to each other. Each thread has modules of its
 * own, but one GPU, which blocks the streams of all of them: work of one thread can come behind a host function that only another thread
 * runs, and a call in which CUDA waits for the whole device would wait for that host function, and keep other threads out of CUDA meanwhile.
 * So each thread publishes how many host functions it has pending, and a call that waits for the device is made while no thread has any,
 * and keeps new ones from being queued. native/threads.h has the same memory as structs; a test compares the two.
 */
import { threadId } from 'node:worker_threads'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { placing } from '../../foundation/base/placing.js'
import { seconds, warnAfter } from '../../foundation/base/warnings.js'
import { DEFAULT_STREAM_LIMIT, type StreamHandle } from '../../foundation/driver/handle-types.js'
import { own } from '../../foundation/native/c-functions.js'
import { layer } from '../../foundation/native/layer.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'

const inHead = placing()
/** Words of the registry's head, of which native code alone has the rest. */
export const Head = {
  EXCLUSIVE: inHead(1),
  MOST_SLOTS_USED: inHead(1),
  CAPTURING: inHead(1),
  MAKING_STREAMS: inHead(1),
  WORDS: 16,
} as const
const inSlot = placing()
/** Words of a thread's slot; addresses have two. */
export const Slot = {
  OWNER: inSlot(1),
  PENDING: inSlot(1),
  STREAMS: inSlot(1),
  SEMAPHORE_COUNT: inSlot(1),
  SEMAPHORES: inSlot(2),
  GRAPH_SEMAPHORES: inSlot(2),
  ENTRIES: inSlot(1),
  VALUE_WAITS: inSlot(1),
  INNER_WAITS: inSlot(1),
  BEAT: inSlot(1),
  LABELS: inSlot(2),
  GRAPH_LABELS: inSlot(2),
  WORDS: inSlot(0),
} as const
export const SLOTS = 500
/** The registry has so many spare streams of each of the first devices. */
export const SPARE_DEVICES = 16
export const SPARE_STREAMS = 256
/** The largest number of captures that are listed at a time. Others are not protected. */
const MOST_CAPTURES = 512
const inCaptures = placing()
/** Words of the list of captures, whose streams have eight bytes each. */
const Captures = {
  USED: inCaptures(2),
  STREAMS: inCaptures(2 * MOST_CAPTURES),
  THREADS: inCaptures(MOST_CAPTURES),
  WORDS: inCaptures(0),
} as const
const inRegistry = placing()
inRegistry(Head.WORDS)
const SLOTS_AT = inRegistry(SLOTS * Slot.WORDS)
/** The offset of the counts of the spare streams. */
export const COUNTS_AT = inRegistry(2 * SPARE_DEVICES)
export const SPARE_AT = inRegistry(2 * SPARE_DEVICES * SPARE_STREAMS)
export const CAPTURES_AT = inRegistry(Captures.WORDS)
export const REGISTRY_WORDS = inRegistry(0)

/** The bit that is set in a slot's beat once the thread itself has reported why it runs no host functions. */
export const REPORTED = 0x8000_0000 | 0

/** What is known of the host function that a stream waits for, in this many bytes: its stream, and where one there was queued. */
export const LABEL_BYTES = 192
export const Label = { STREAM: 0, SEQUENCE: 2, LENGTH: 3, TEXT: 16 } as const

/**
 * The number that stands for a thread that began a capture and has ended: another thread may have its number by now.
 * native/threads.c writes it.
 */
const ENDED = 2 ** 31 - 1

/** Something that one thread of the process may do at a time. */
export class Lock {
  /** `tryTake` returns false when another thread has the lock. */
  constructor(
    readonly tryTake: () => boolean,
    readonly release: () => void,
  ) {}

  /** Makes a call for which the lock was taken, and releases the lock. */
  during<R>(call: () => R): R {
    try {
      return call()
    } finally {
      this.release()
    }
  }

  /** Makes a call with the lock, if that can be had at once; otherwise returns undefined without the call. */
  now<R>(call: () => R): { readonly made: R } | undefined {
    return this.tryTake() ? { made: this.during(call) } : undefined
  }
}

/** Streams without work that all threads have in common, by device. */
class SpareStreams {
  readonly #places: BigInt64Array
  /** How many there are of each device, then whether any were ever made for it. */
  readonly #counts: Int32Array

  constructor(memory: ArrayBuffer) {
    this.#places = new BigInt64Array(memory, 4 * SPARE_AT, SPARE_DEVICES * SPARE_STREAMS)
    this.#counts = new Int32Array(memory, 4 * COUNTS_AT, 2 * SPARE_DEVICES)
  }

  /** Returns false when there are enough. */
  add(device: number, stream: number): boolean {
    for (const place of placesOf(device)) {
      if (Atomics.compareExchange(this.#places, place, 0n, BigInt(stream)) !== 0n) continue
      Atomics.add(this.#counts, device, 1)
      return true
    }
    return false
  }

  take(device: number): number | undefined {
    for (const place of placesOf(device)) {
      const stream = Atomics.exchange(this.#places, place, 0n)
      if (stream === 0n) continue
      Atomics.sub(this.#counts, device, 1)
      return Number(stream)
    }
    return undefined
  }

  count(device: number): number {
    return device < SPARE_DEVICES ? Atomics.load(this.#counts, device) : 0
  }

  /** True for the thread that calls this first for a device. It makes the spare streams. */
  begins(device: number): boolean {
    return device < SPARE_DEVICES && Atomics.exchange(this.#counts, SPARE_DEVICES + device, 1) === 0
  }
}

function* placesOf(device: number): Iterable<number> {
  if (device >= SPARE_DEVICES) return
  for (let place = device * SPARE_STREAMS; place < (device + 1) * SPARE_STREAMS; place += 1) yield place
}

/**
 * The captures that the threads have under way. Recording an event behind the work of a whole device invalidates every capture there, of any
 * thread and in any mode (docs/internals/cuda-facts.md). Changed and read only with the lock `capturing`, apart from `has()`. The native layer says of those of
 * a thread that has ended, whose number another thread gets, that they are nobody's.
 */
class CaptureList {
  /** The number of places up to the last one in use. */
  readonly #used: Int32Array
  readonly #streams: Float64Array
  /** The thread that began the capture. Negative if it had wrapped the stream, and not made it. */
  readonly #threads: Int32Array

  /** `thread` is the number of this thread, from 1. `hasEnded` returns whether another thread has ended. */
  constructor(
    memory: ArrayBuffer,
    private readonly thread: number,
    private readonly hasEnded: (thread: number) => boolean,
  ) {
    const bytesTo = (word: number): number => 4 * (CAPTURES_AT + word)
    this.#used = new Int32Array(memory, bytesTo(Captures.USED), 1)
    this.#streams = new Float64Array(memory, bytesTo(Captures.STREAMS), MOST_CAPTURES)
    this.#threads = new Int32Array(memory, bytesTo(Captures.THREADS), MOST_CAPTURES)
  }

  has(stream: StreamHandle): boolean {
    return this.#placeOf(stream) !== undefined
  }

  /** This thread has begun a capture of the stream. `isMadeHere`: it made the stream, too. */
  add(stream: StreamHandle, isMadeHere: boolean): void {
    const place = this.#placeOf(stream) ?? this.#streams.indexOf(0)
    if (place < 0) return
    // In this order, since the thread may be terminated in between.
    this.#threads[place] = isMadeHere ? this.thread : -this.thread
    this.#streams[place] = stream
    this.#used[0] = Math.max(this.#usedPlaces, place + 1)
  }

  remove(stream: StreamHandle): void {
    const place = this.#placeOf(stream)
    if (place !== undefined) this.#clear(place)
  }

  /**
   * Has another thread a capture under way? `isOver` is called for streams that their thread made, which live as long as they are listed,
   * with whether that thread has ended. No query can be made about a stream that was wrapped: its owner may have destroyed it.
   */
  anyOfOthers(isOver: (stream: StreamHandle, hasEnded: boolean) => boolean): boolean {
    let any = false
    for (let place = 0; place < this.#usedPlaces; place += 1) {
      const stream = this.#streams[place] as StreamHandle
      const began = this.#threads[place] ?? 0
      const thread = Math.abs(began)
      if (stream === 0 || thread === this.thread) continue
      const hasEnded = thread === ENDED || this.hasEnded(thread)
      if (began > 0 ? isOver(stream, hasEnded) : hasEnded) this.#clear(place)
      else any = true
    }
    return any
  }

  /** Default streams of several threads have the same handle. */
  #placeOf(stream: StreamHandle): number | undefined {
    for (let place = 0; place < this.#usedPlaces; place += 1) {
      if (this.#streams[place] !== stream) continue
      if (stream >= DEFAULT_STREAM_LIMIT || this.#threads[place] === -this.thread) return place
    }
    return undefined
  }

  #clear(place: number): void {
    this.#streams[place] = 0
    let used = this.#usedPlaces
    while (used > 0 && this.#streams[used - 1] === 0) used -= 1
    this.#used[0] = used
  }

  get #usedPlaces(): number {
    return this.#used[0] ?? 0
  }
}

/** The registry, as one thread uses it that has a slot in it. */
export class ProcessRegistry {
  /** The lock for a call that waits for the device. It cannot be had while another thread has host functions pending. */
  readonly exclusive = new Lock(
    () => this.#enterExclusive(),
    () => this.#leaveExclusive(),
  )
  /** The lock for beginning or ending a capture, and for recording an event behind all work of a device while no capture is under way. */
  readonly capturing = this.#lock(Head.CAPTURING)
  /**
   * The lock for making streams. While one thread destroys a spare stream and makes another in its place, no other thread may take that
   * place.
   */
  readonly makingStreams = this.#lock(Head.MAKING_STREAMS)
  readonly captures: CaptureList
  readonly spareStreams: SpareStreams
  /**
   * The words of the registry. The field is not a private name (#), since V8 is slow to read these in code that runs for each
   * query.
   */
  private readonly words: Int32Array
  /** The offset of this thread's slot. */
  readonly #at: number
  /** The number of exclusive calls that this thread is inside of: one may unload a module that another has put off. */
  #depth = 0
  /** The semaphores of other threads, by their address. They live as long as the process. */
  readonly #semaphores = new Map<number, Int32Array>()

  constructor(
    memory: ArrayBuffer,
    private readonly slot: number,
  ) {
    this.words = new Int32Array(memory)
    this.#at = startOf(slot)
    this.captures = new CaptureList(memory, slot + 1, (thread) => this.#isGone(thread))
    this.spareStreams = new SpareStreams(memory)
  }

  /** Publishes how many host functions this thread has pending. */
  publishPending(pending: number): void {
    Atomics.store(this.words, this.#at + Slot.PENDING, pending)
  }

  /** Publishes that number before more are queued. Returns false, and leaves it, while another thread makes a call that waits for the device. */
  tryAnnounce(pending: number): boolean {
    const before = Atomics.load(this.words, this.#at + Slot.PENDING)
    this.publishPending(pending)
    const holder = Atomics.load(this.words, Head.EXCLUSIVE)
    if (holder === 0 || holder === this.slot + 1 || this.#isGone(holder)) return true
    this.publishPending(before)
    return false
  }

  /** Does another thread have host functions pending? */
  get othersPending(): boolean {
    return (this.words[Head.MOST_SLOTS_USED] ?? 0) > 1 && this.#anyOtherPending()
  }

  #anyOtherPending(): boolean {
    for (const at of this.#otherSlots()) if (Atomics.load(this.words, at + Slot.PENDING) > 0) return true
    return false
  }

  /** Does another thread use the library, or has one used it? */
  get hasOthers(): boolean {
    return (this.words[Head.MOST_SLOTS_USED] ?? 0) > 1
  }

  /** Publishes how many waits for values this thread has queued that may not have ended. */
  publishValueWaits(waits: number): void {
    Atomics.store(this.words, this.#at + Slot.VALUE_WAITS, waits)
  }

  /** Publishes how many streams of this thread have work counted, and how many entries of hardware queues that is. */
  publishWork(streams: number, entries: number): void {
    this.words[this.#at + Slot.STREAMS] = streams
    this.words[this.#at + Slot.ENTRIES] = entries
  }

  /** The entries of hardware queues that other threads have counted. */
  get entriesOfOthers(): number {
    let sum = 0
    for (const at of this.#otherSlots()) sum += Atomics.load(this.words, at + Slot.ENTRIES)
    return sum
  }

  /** The streams of all threads that have work counted. */
  get allStreams(): number {
    let streams = this.words[this.#at + Slot.STREAMS] ?? 0
    for (const at of this.#otherSlots()) streams += this.words[at + Slot.STREAMS] ?? 0
    return streams
  }

  /** Publishes where the semaphores of this thread are, each a pair of words, and the labels, one for each. */
  publishSemaphores(kind: 'stream' | 'graph', address: number, count: number, labels: number): void {
    this.words[this.#at + Slot.SEMAPHORE_COUNT] = count
    this.#publishAddress(kind === 'stream' ? Slot.LABELS : Slot.GRAPH_LABELS, labels)
    this.#publishAddress(kind === 'stream' ? Slot.SEMAPHORES : Slot.GRAPH_SEMAPHORES, address)
  }

  /** This thread looks for host functions that are ready. */
  beat(): void {
    const at = this.#at + Slot.BEAT
    this.words[at] = ((this.words[at] ?? 0) + 1) & ~REPORTED
  }

  /** This thread has reported why it runs no host functions, so the watchdog need not. */
  reported(): void {
    const at = this.#at + Slot.BEAT
    this.words[at] = (this.words[at] ?? 0) | REPORTED
  }

  /** Publishes how many waits inside host functions this thread is in. Each is given up when nothing makes progress. */
  publishInnerWaits(waits: number): void {
    Atomics.store(this.words, this.#at + Slot.INNER_WAITS, waits)
  }

  /** The semaphores at which streams wait that another thread must signal, each by a name that it has until it is signalled. */
  waitingSemaphores(): ReadonlySet<string> {
    const found = new Set<string>()
    for (const at of this.#otherSlots()) {
      if (Atomics.load(this.words, at + Slot.PENDING) === 0) continue
      // A thread that waits inside a host function signals them when that wait ends or is given up.
      if (Atomics.load(this.words, at + Slot.INNER_WAITS) > 0) continue
      for (const word of [Slot.SEMAPHORES, Slot.GRAPH_SEMAPHORES]) this.#addWaiting(at, at + word, found)
    }
    return found
  }

  #addWaiting(at: number, addressAt: number, found: Set<string>): void {
    const address = (this.words[addressAt + 1] ?? 0) * 2 ** 32 + ((this.words[addressAt] ?? 0) >>> 0)
    if (address === 0) return
    const count = this.words[at + Slot.SEMAPHORE_COUNT] ?? 0
    const pairs = this.#semaphores.get(address) ?? new NativeMemory(8 * count, address).int32
    this.#semaphores.set(address, pairs)
    for (let word = 0; word < pairs.length; word += 2) {
      const waiting = Atomics.load(pairs, word)
      if (((waiting - Atomics.load(pairs, word + 1)) | 0) > 0) found.add(`${address + 4 * word}:${waiting}`)
    }
  }

  #enterExclusive(): boolean {
    this.#depth += 1
    if (this.#depth > 1) return true
    const entered = this.#tryTake(Head.EXCLUSIVE)
    if (entered && !this.othersPending) return true
    if (entered) this.#release(Head.EXCLUSIVE)
    this.#depth -= 1
    return false
  }

  #leaveExclusive(): void {
    this.#depth -= 1
    if (this.#depth === 0) this.#release(Head.EXCLUSIVE)
  }

  /** A thread that was terminated inside its call has left its slot, and with it the lock. */
  #isGone(holder: number): boolean {
    return Atomics.load(this.words, startOf(holder - 1) + Slot.OWNER) === 0
  }

  #lock(word: number): Lock {
    return new Lock(
      () => this.#tryTake(word),
      () => this.#release(word),
    )
  }

  #tryTake(word: number): boolean {
    const own = this.slot + 1
    const holder = Atomics.compareExchange(this.words, word, 0, own)
    if (holder === 0) return true
    return this.#isGone(holder) && Atomics.compareExchange(this.words, word, holder, own) === holder
  }

  #release(word: number): void {
    Atomics.store(this.words, word, 0)
  }

  #publishAddress(word: number, address: number): void {
    this.words[this.#at + word + 1] = Math.floor(address / 2 ** 32)
    this.words[this.#at + word] = address | 0
  }

  /** The offsets of the slots of other threads. */
  *#otherSlots(): Iterable<number> {
    const used = this.words[Head.MOST_SLOTS_USED] ?? 0
    for (let slot = 0; slot < used; slot += 1) if (slot !== this.slot) yield startOf(slot)
  }
}

export const startOf = (slot: number): number => SLOTS_AT + slot * Slot.WORDS

/** A registry in which no other thread is. */
export const singleThread = (): ProcessRegistry => new ProcessRegistry(new ArrayBuffer(4 * REGISTRY_WORDS), 0)

/**
 * Takes a slot of the process's registry for this thread. It is given back when the thread ends, however it ends. When all slots are taken,
 * this thread publishes nothing to the others.
 */
export function openProcessRegistry(): ProcessRegistry {
  const address = own().processRegistry()
  const memory = layer().view(address, 4 * REGISTRY_WORDS)
  const number = own().takeSlot(threadId + 1)
  if (number === 0) return singleThread()
  layer().fillAtEnd(address + 4 * startOf(number - 1), 4 * Slot.WORDS, 0)
  return new ProcessRegistry(memory, number - 1)
}

/**
 * Returns a function that starts the watchdog (native/watchdog.c), to be called before the first host function is queued: one thread for the
 * process, which reads the registry. It warns when a thread of JavaScript has not looked for host functions for a while although a stream
 * waits for one: that thread is inside a call of another library, or a loop, and can report nothing itself. Nothing is started when
 * nothing listens to warnings.
 */
export function makeWatchdog(): () => void {
  const isWanted = VARIABLES.watchdog.read()
  const after = warnAfter()
  let isNeeded = isWanted && after !== Number.POSITIVE_INFINITY && process.listenerCount('warning') > 0
  return () => {
    if (!isNeeded) return
    isNeeded = false
    const text = NativeMemory.ofText(seconds(after))
    // When the system gives no thread, there is no watchdog.
    own().watch(after * 1e6, text.address)
    text.free()
  }
}
