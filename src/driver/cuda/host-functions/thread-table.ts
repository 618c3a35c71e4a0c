/**
 * How the threads of a process tell each other of their host functions. Each thread has modules of its own, but one
 * GPU holds up the streams of all of them: work of one thread can stand behind a gate that only another one opens, and a
 * call in which CUDA waits for the whole device would wait for that gate, and keep other threads out of CUDA meanwhile.
 * So each thread writes into a table that all see how many host functions it has pending, and a call that waits for the
 * device is made while none of any thread is, and keeps new ones away.
 */
import { threadId } from 'node:worker_threads'
import { own } from '../libcuda/c-functions.js'
import { layer } from '../libcuda/layer.js'
import { CAPTURE_LIST_BYTES, CaptureList } from './capture-list.js'
import {
  CAPTURES_AT,
  COUNTS_AT,
  Head,
  KEPT_AT,
  KEPT_DEVICES,
  KEPT_STREAMS,
  SLOTS,
  Slot,
  StandingGates,
  startOf,
  TABLE_WORDS,
  TOLD,
} from './thread-slots.js'

/** Words that say which thread has a right: the number of its slot and one, or zero. */
const RIGHTS = [Head.EXCLUSIVE, Head.CAPTURING, Head.MAKING_STREAMS]
/** Something that one thread of the process may do at a time. */
export class Right {
  /** `take` is false where the right cannot be had now. */
  constructor(
    readonly take: () => boolean,
    readonly giveBack: () => void,
  ) {}

  /** Makes a call for which the right was taken, and gives it back. */
  during<R>(call: () => R): R {
    try {
      return call()
    } finally {
      this.giveBack()
    }
  }

  /** Takes the right for a call where it can be had at once. Undefined where it cannot: nothing was called. */
  now<R>(call: () => R): { readonly made: R } | undefined {
    return this.take() ? { made: this.during(call) } : undefined
  }
}

/** Streams that the threads of a process keep together, so many of each device. */
class KeptStreams {
  /** `counts` has how many are kept of each device, then whether streams have ever been made for it. */
  constructor(
    private readonly places: BigInt64Array,
    private readonly counts: Int32Array,
  ) {}

  /** False where enough are kept. */
  keep(device: number, stream: number): boolean {
    const [begin, end] = placesOf(device)
    for (let place = begin; place < end; place += 1) {
      if (Atomics.compareExchange(this.places, place, 0n, BigInt(stream)) !== 0n) continue
      Atomics.add(this.counts, device, 1)
      return true
    }
    return false
  }

  take(device: number): number | undefined {
    const [begin, end] = placesOf(device)
    for (let place = begin; place < end; place += 1) {
      const stream = Atomics.exchange(this.places, place, 0n)
      if (stream === 0n) continue
      Atomics.sub(this.counts, device, 1)
      return Number(stream)
    }
    return undefined
  }

  count(device: number): number {
    return device < KEPT_DEVICES ? Atomics.load(this.counts, device) : 0
  }

  /** True for the thread that asks first, which makes the streams that are kept. */
  begins(device: number): boolean {
    return device < KEPT_DEVICES && Atomics.exchange(this.counts, KEPT_DEVICES + device, 1) === 0
  }
}

const placesOf = (device: number): readonly [begin: number, end: number] =>
  device < KEPT_DEVICES ? [device * KEPT_STREAMS, (device + 1) * KEPT_STREAMS] : [0, 0]

/** The table as the rest of the driver sees it; tests put others in its place. */
export type Threads = Pick<ThreadTable, keyof ThreadTable>

const freeRight = new Right(
  () => true,
  () => {},
)

/** Where no other thread is. */
export const alone = (): Threads => ({
  publish() {},
  announce: () => true,
  othersPending: false,
  others: false,
  publishWork() {},
  publishWaiting() {},
  allStreams: 0,
  entriesOfOthers: 0,
  captures: new CaptureList(new ArrayBuffer(CAPTURE_LIST_BYTES), 0, 1, () => false),
  capturing: freeRight,
  publishGates() {},
  beat() {},
  told() {},
  standing: () => new Set(),
  exclusive: freeRight,
  makingStreams: freeRight,
  kept: new KeptStreams(new BigInt64Array(KEPT_DEVICES * KEPT_STREAMS), new Int32Array(2 * KEPT_DEVICES)),
})

/** The table of this process, and this thread's slot in it; nothing to tell others when all slots are taken. */
export function openThreadTable(): Threads {
  const address = own().threadTable()
  return takeSlot(address, layer().view(address, 4 * TABLE_WORDS)) ?? alone()
}

class ThreadTable {
  /**
   * The right to make a call that waits for the device. It is not given while another thread has host functions
   * pending.
   */
  readonly exclusive = new Right(
    () => this.#enterExclusive(),
    () => this.#leaveExclusive(),
  )
  /** The right to begin or end a capture, and to record an event behind all work of a device while none is under way. */
  readonly capturing = new Right(
    () => this.#take(Head.CAPTURING),
    () => this.#release(Head.CAPTURING),
  )
  /** The captures of all threads. */
  readonly captures: CaptureList
  /**
   * The right to make streams. While one thread gives up a kept stream and makes another in its place, no other thread may
   * take that place.
   */
  readonly makingStreams = new Right(
    () => this.#take(Head.MAKING_STREAMS),
    () => this.#release(Head.MAKING_STREAMS),
  )
  readonly #at: number
  /** How far this thread is inside of exclusive calls: one may unload a module that another has put off. */
  #depth = 0
  readonly #standing: StandingGates

  constructor(
    private readonly words: Int32Array,
    /** Streams that no work is on, which all threads keep together. */
    readonly kept: KeptStreams,
    private readonly slot: number,
  ) {
    this.#at = startOf(slot)
    this.#standing = new StandingGates(words)
    this.captures = new CaptureList(words.buffer, 4 * CAPTURES_AT, slot + 1, (thread) => this.#isGone(thread))
  }

  /** How many host functions this thread has pending, for the others to see. */
  publish(pending: number): void {
    Atomics.store(this.words, this.#at + Slot.PENDING, pending)
  }

  /**
   * Publishes more of them before they are queued. False while another thread makes a call that waits for the device.
   */
  announce(pending: number): boolean {
    const before = Atomics.load(this.words, this.#at + Slot.PENDING)
    this.publish(pending)
    const holder = Atomics.load(this.words, Head.EXCLUSIVE)
    if (holder === 0 || holder === this.slot + 1 || this.#isGone(holder)) return true
    this.publish(before)
    return false
  }

  /** Does another thread have host functions pending? */
  get othersPending(): boolean {
    const used = this.words[Head.MOST_SLOTS_USED] ?? 0
    if (used <= 1) return false
    for (let slot = 0; slot < used; slot += 1) {
      if (slot !== this.slot && Atomics.load(this.words, startOf(slot) + Slot.PENDING) > 0) return true
    }
    return false
  }

  /** Are there other threads that use the library, or have been? */
  get others(): boolean {
    return (this.words[Head.MOST_SLOTS_USED] ?? 0) > 1
  }

  /** How many streams of this thread have work counted, and how many entries of hardware queues that is. */
  publishWork(streams: number, entries: number): void {
    this.words[this.#at + Slot.STREAMS] = streams
    this.words[this.#at + Slot.ENTRIES] = entries
  }

  get entriesOfOthers(): number {
    return this.#sumOfOthers(Slot.ENTRIES)
  }

  /** Streams of all threads, and the entries that others have counted. */
  get allStreams(): number {
    const used = this.words[Head.MOST_SLOTS_USED] ?? 0
    let streams = 0
    for (let slot = 0; slot < used; slot += 1) streams += this.words[startOf(slot) + Slot.STREAMS] ?? 0
    return streams
  }

  /** Where the gates of this thread lie: so many pairs of words, "arrived" and "go"; and a label for each. */
  publishGates(kind: 'stream' | 'graph', address: number, pairs: number, labels: number): void {
    this.words[this.#at + Slot.PAIRS] = pairs
    this.#publishAddress(kind === 'stream' ? Slot.LABELS : Slot.GRAPH_LABELS, labels)
    this.#publishAddress(kind === 'stream' ? Slot.GATES : Slot.GRAPH_GATES, address)
  }

  /** This thread looks for host functions that are due. */
  beat(): void {
    const at = this.#at + Slot.BEAT
    this.words[at] = ((this.words[at] ?? 0) + 1) & ~TOLD
  }

  /** This thread has told why it does not look: the watchdog need not. */
  told(): void {
    const at = this.#at + Slot.BEAT
    this.words[at] = (this.words[at] ?? 0) | TOLD
  }

  /** How many waits inside host functions this thread is in: each is given up where nothing goes on. */
  publishWaiting(waits: number): void {
    Atomics.store(this.words, this.#at + Slot.WAITING, waits)
  }

  /** The gates at which streams stand that another thread must open, each by a name that it has until it is opened. */
  standing(): ReadonlySet<string> {
    const found = new Set<string>()
    const used = this.words[Head.MOST_SLOTS_USED] ?? 0
    for (let slot = 0; slot < used; slot += 1) {
      const at = startOf(slot)
      if (slot === this.slot || Atomics.load(this.words, at + Slot.PENDING) === 0) continue
      // It waits by the library, and opens them when that is over or given up.
      if (Atomics.load(this.words, at + Slot.WAITING) > 0) continue
      for (const { name } of this.#standing.of(slot)) found.add(name)
    }
    return found
  }

  #enterExclusive(): boolean {
    this.#depth += 1
    if (this.#depth > 1) return true
    const entered = this.#take(Head.EXCLUSIVE)
    if (entered && !this.othersPending) return true
    if (entered) this.#release(Head.EXCLUSIVE)
    this.#depth -= 1
    return false
  }

  #leaveExclusive(): void {
    this.#depth -= 1
    if (this.#depth === 0) this.#release(Head.EXCLUSIVE)
  }

  /** A thread that was terminated inside of its call has left its slot, and the right with it. */
  #isGone(holder: number): boolean {
    return Atomics.load(this.words, startOf(holder - 1) + Slot.OWNER) === 0
  }

  /** Takes a right that one thread has at a time. */
  #take(word: number): boolean {
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

  #sumOfOthers(word: number): number {
    const used = this.words[Head.MOST_SLOTS_USED] ?? 0
    let sum = 0
    for (let slot = 0; slot < used; slot += 1) {
      if (slot !== this.slot) sum += Atomics.load(this.words, startOf(slot) + word)
    }
    return sum
  }
}

/** A slot that is given back when the thread ends, however it ends. Undefined where all are taken. */
function takeSlot(address: number, table: ArrayBuffer): Threads | undefined {
  const words = new Int32Array(table)
  for (let slot = 0; slot < SLOTS; slot += 1) {
    const at = startOf(slot)
    if (Atomics.compareExchange(words, at + Slot.OWNER, 0, threadId + 1) !== 0) continue
    words.fill(0, at + 1, at + Slot.WORDS)
    // A thread that was terminated may have left a right with its slot.
    for (const word of RIGHTS) Atomics.compareExchange(words, word, slot + 1, 0)
    layer().fillAtEnd(address + at * 4, Slot.WORDS * 4, 0)
    for (;;) {
      const most = Atomics.load(words, Head.MOST_SLOTS_USED)
      if (most > slot || Atomics.compareExchange(words, Head.MOST_SLOTS_USED, most, slot + 1) === most) break
    }
    const places = new BigInt64Array(table, 4 * KEPT_AT, KEPT_DEVICES * KEPT_STREAMS)
    const counts = words.subarray(COUNTS_AT, COUNTS_AT + 2 * KEPT_DEVICES)
    const threads = new ThreadTable(words, new KeptStreams(places, counts), slot)
    threads.captures.threadEnded()
    return threads
  }
  return undefined
}
