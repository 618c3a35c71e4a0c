/**
 * Words of memory by which streams signal each other. A wait comes after what every write that may satisfy it comes after:
 * of the writes of one stream that is the first, and where the word satisfies the wait from the beginning it is nothing.
 * Where no such write is known yet, the wait counts as one for a promise until one is queued.
 */
import { type Comparison, isMet, type MemoryValue } from '../driver/values.js'
import { type Clock, common, isBefore, knownAt, merged, type Strand, type StrandPoint } from './clocks.js'

/** Bytes that were written: `bytes` again and again, or what is not known. */
interface Write {
  readonly start: number
  readonly end: number
  readonly bytes: Uint8Array | undefined
  /** Undefined for what was there when all earlier writes were done. */
  readonly at: StrandPoint | undefined
  /** All that comes before it. */
  readonly before: Clock
}

/** What values have to know of the order around them. */
export interface ValueOrder {
  /** What any part of JavaScript has ever known to be done. */
  readonly known: Strand
  /** Until the result is called the strand may come after all that is queued. */
  hold(strand: Strand): () => void
  /** What a word holds now, as far as that is known; undefined where only streams write there. */
  look(pointer: number, byteLength: number): { readonly bytes: Uint8Array | undefined } | undefined
}

/** So many of the latest writes of a word are remembered, and so many fills of memory that no stream has waited for yet. */
const MOST = 256
/** A word of either length lies in one of these. */
const SLOT = 8

export class Values {
  /** By the address of the slot. */
  readonly #slots = new Map<number, Slot>()
  #fills: Write[] = []

  constructor(private readonly order: ValueOrder) {}

  /** `at` is the place of the write. */
  written({ pointer, bits, value }: MemoryValue, at: StrandPoint): void {
    const slot = this.#slotOf(pointer)
    this.#look(slot, pointer, bits)
    const bytes = new Uint8Array(new BigUint64Array([value]).buffer, 0, bits / 8)
    slot.add({ start: pointer, end: pointer + bytes.length, bytes, at, before: knownAt(at) })
  }

  awaited(word: MemoryValue, compare: Comparison, strand: Strand): void {
    const slot = this.#slotOf(word.pointer)
    this.#look(slot, word.pointer, word.bits)
    slot.wait(new Wait(word, compare, strand, this.order))
  }

  /** An operation has written these bytes: a fill the same again and again, others what is not known. */
  overwritten(start: number, end: number, at: StrandPoint, bytes?: Uint8Array): void {
    if (bytes === undefined && this.#slots.size === 0) return
    const write = { start, end, bytes, at, before: knownAt(at) }
    for (const slot of this.#slotsIn(start, end)) slot.add(write)
    if (bytes === undefined) return
    this.#fills.push(write)
    if (this.#fills.length > MOST) this.#fills = this.#fills.slice(MOST / 2)
  }

  /** The memory is gone, or others have its place. */
  forget(start: number, end: number): void {
    for (const slot of this.#slotsIn(start, end)) this.#slots.delete(slot.start)
    if (this.#fills.length > 0) this.#fills = this.#fills.filter((fill) => fill.end <= start || fill.start >= end)
  }

  #slotOf(pointer: number): Slot {
    const start = pointer - (pointer % SLOT)
    const known = this.#slots.get(start)
    if (known !== undefined) return known
    const slot = new Slot(start)
    for (const fill of this.#fills) if (fill.start < start + SLOT && fill.end > start) slot.add(fill)
    this.#slots.set(start, slot)
    return slot
  }

  #slotsIn(start: number, end: number): Slot[] {
    if (this.#slots.size === 0) return []
    const first = start - (start % SLOT)
    if ((end - first) / SLOT > this.#slots.size) {
      return [...this.#slots.values()].filter((slot) => slot.start >= first && slot.start < end)
    }
    const slots: Slot[] = []
    for (let at = first; at < end; at += SLOT) {
      const slot = this.#slots.get(at)
      if (slot !== undefined) slots.push(slot)
    }
    return slots
  }

  /** Where all that streams have written is done, the word holds that, or what JavaScript has written since. */
  #look(slot: Slot, pointer: number, bits: number): void {
    const end = pointer + bits / 8
    const { known } = this.order
    if (!slot.isDone(pointer, end, known)) return
    const held = this.order.look(pointer, bits / 8)
    if (held !== undefined) slot.holds({ ...held, start: pointer, end, at: undefined, before: known.clock })
  }
}

class Slot {
  /** In the order in which they were queued. */
  #writes: Write[] = []
  /** Those whose strands have not been given anything since, or that no write satisfies yet. */
  #waits: Wait[] = []

  constructor(readonly start: number) {}

  add(write: Write): void {
    if (this.#writes.length >= MOST) this.#writes = this.#writes.slice(MOST / 2)
    this.#writes.push(write)
    if (this.#waits.length === 0) return
    for (const wait of this.#waits) wait.written(write)
    this.#waits = this.#waits.filter((wait) => wait.isOpen)
  }

  wait(wait: Wait): void {
    wait.begin(this.#writes)
    this.#waits = [...this.#waits.filter(({ isOpen }) => isOpen), wait]
  }

  /** Is all that was written to these bytes known to be done? */
  isDone(start: number, end: number, known: StrandPoint): boolean {
    return this.#writes.every((write) => !overlaps(write, start, end) || isKnown(write, known))
  }

  /** All writes of these bytes are done: this is what they hold. */
  holds(write: Write): void {
    const { start, end } = write
    this.#writes = this.#writes.filter((earlier) => earlier.start < start || earlier.end > end)
    this.add(write)
  }
}

/** A wait for a word, as long as another write can change what it comes after. */
class Wait {
  /** What the strand comes after without it. */
  readonly #before: Clock
  readonly #at: StrandPoint
  /** What all writes that may satisfy it come after; undefined as long as none is known. */
  #learned: Clock | undefined
  #release: (() => void) | undefined
  /** Where the strand was when it learned that: further on it has been given something. */
  #tick: number

  constructor(
    private readonly word: MemoryValue,
    private readonly compare: Comparison,
    private readonly strand: Strand,
    private readonly order: ValueOrder,
  ) {
    this.#before = strand.clock
    this.#at = strand.next()
    this.#tick = strand.tick
  }

  get isOpen(): boolean {
    return this.#learned === undefined || this.#tick === this.strand.tick
  }

  /** `writes` were queued before. */
  begin(writes: readonly Write[]): void {
    const { pointer, bits } = this.word
    const end = pointer + bits / 8
    const there = writes.filter((write) => overlaps(write, pointer, end))
    const known = there.map((write) => isKnown(write, this.#at))
    for (const [index, write] of there.entries()) {
      // One that comes before the wait has taken its place.
      const isOver = there.some((later, nth) => nth > index && known[nth] === true && comesAfter(later, write))
      if (!isOver) this.#mayBeMetBy(write)
    }
    if (this.#learned === undefined) {
      this.#release = this.order.hold(this.strand)
      this.#tick = this.strand.tick
    }
  }

  /** A write was queued later. */
  written(write: Write): void {
    if (!this.isOpen || write.at === undefined || isBefore(this.#at, write.at)) return
    this.#mayBeMetBy(write)
    if (this.#learned === undefined) return
    this.#release?.()
    this.#release = undefined
  }

  #mayBeMetBy(write: Write): void {
    const value = valueBehind(write, this.word)
    if (value === undefined || !isMet(value, this.compare, this.word)) return
    const isFirst = this.#learned === undefined
    this.#learned = this.#learned === undefined ? write.before : common(this.#learned, write.before)
    if (this.strand.tick === this.#tick) this.strand.turnTo(merged(this.#before, this.#learned))
    else if (isFirst) this.strand.joinClock(this.#learned)
    this.#tick = this.strand.tick
  }
}

const overlaps = (write: Write, start: number, end: number): boolean => write.start < end && write.end > start

const isKnown = ({ at }: Write, later: StrandPoint): boolean => at === undefined || isBefore(at, later)

const comesAfter = (later: Write, { at }: Write): boolean =>
  at === undefined || later.at === undefined || isBefore(at, later.at)

/** What the word holds behind a write; undefined where that is not known. */
function valueBehind({ start, end, bytes }: Write, { pointer, bits }: MemoryValue): bigint | undefined {
  if (bytes === undefined || start > pointer || end < pointer + bits / 8) return undefined
  const word = new Uint8Array(8)
  for (let index = 0; index < bits / 8; index += 1) word[index] = bytes[(pointer - start + index) % bytes.length] ?? 0
  return new BigUint64Array(word.buffer)[0]
}
