/**
 * Words of memory by which streams signal each other. A wait comes after what every write that may satisfy it comes after: of the writes of one
 * stream only the first counts, and if the word satisfies the wait from the beginning the wait comes after nothing. As long as no such write is
 * known, the wait counts as one for a promise until one is queued.
 */

import {
  type Component,
  clockThrough,
  common,
  type Epoch,
  isBefore,
  merged,
  type References,
  type VectorClock,
} from '../../foundation/base/vector-clock.js'
import type { Comparison } from '../../foundation/driver/driver-constants.js'
import { isMet, type MemoryValue } from '../../foundation/driver/touched-memory.js'

/** A write of bytes: `bytes` again and again; undefined if they are not known. */
interface Write {
  readonly start: number
  readonly end: number
  readonly bytes: Uint8Array | undefined
  /** The epoch of the write; undefined for bytes that were there when all earlier writes were done. */
  readonly at: Epoch | undefined
  /** The clock of what happens before the write. */
  readonly before: VectorClock
}

/** The part of the happens-before order that values need. */
export interface ValueOrder {
  /** The component of all that any part of JavaScript has ever known to be done. */
  readonly known: Component
  /** Lets the component count as after all that is queued, until the returned function is called. */
  hold(component: Component): () => void
  /** The present bytes of a word, as far as they are known; undefined if only streams write there. */
  look(pointer: number, byteLength: number): { readonly bytes: Uint8Array | undefined } | undefined
}

/** The number of the latest writes of a word that are remembered, and of fills of memory that no stream has waited for yet. */
const MOST = 256
/** The bytes of a slot, which contains a word of either length. */
const SLOT = 8

export class Values {
  /** The slots with words; keys are their addresses. */
  readonly #slots = new Map<number, Slot>()
  #fills: Write[] = []

  constructor(private readonly order: ValueOrder) {}

  /**
   * Called before a wait or write of this word is queued, which may happen at once: if all writes of streams are done, the word holds what they
   * wrote, or what JavaScript has written since.
   */
  look({ pointer, bits }: MemoryValue): void {
    const slot = this.#slotOf(pointer)
    const end = pointer + bits / 8
    const { known } = this.order
    if (!slot.isDone(pointer, end, known)) return
    const held = this.order.look(pointer, bits / 8)
    if (held !== undefined) slot.holds({ ...held, start: pointer, end, at: undefined, before: known.clock })
  }

  /** Notes that a write of the word was queued, at the given epoch. */
  written({ pointer, bits, value }: MemoryValue, at: Epoch): void {
    const slot = this.#slotOf(pointer)
    const bytes = new Uint8Array(new BigUint64Array([value]).buffer, 0, bits / 8)
    slot.add({ start: pointer, end: pointer + bytes.length, bytes, at, before: clockThrough(at) })
  }

  awaited(word: MemoryValue, compare: Comparison, component: Component): void {
    this.#slotOf(word.pointer).wait(new Wait(word, compare, component, this.order))
  }

  /** Notes that an operation has written these bytes: a fill the same bytes again and again, another operation bytes that are not known. */
  overwritten(start: number, end: number, at: Epoch, bytes?: Uint8Array): void {
    if (bytes === undefined && this.#slots.size === 0) return
    const write = { start, end, bytes, at, before: clockThrough(at) }
    for (const slot of this.#slotsIn(start, end)) slot.add(write)
    if (bytes === undefined) return
    this.#fills.push(write)
    if (this.#fills.length > MOST) this.#fills = this.#fills.slice(MOST / 2)
  }

  /** Forgets words in memory that is gone, or that others have now. */
  forget(start: number, end: number): void {
    for (const slot of this.#slotsIn(start, end)) this.#slots.delete(slot.start)
    if (this.#fills.length > 0) this.#fills = this.#fills.filter((fill) => fill.end <= start || fill.start >= end)
  }

  /** Adds references to the writes that may still matter: those that are known to be done are before all later waits. */
  addReferences(references: References): void {
    const { known } = this.order
    const add = (at: Epoch | undefined): void => {
      if (at !== undefined && !isBefore(at, known)) references.add(at)
      else references.count += 1
    }
    for (const { at } of this.#fills) add(at)
    for (const slot of this.#slots.values()) for (const at of slot.epochs()) add(at)
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
}

class Slot {
  /** The writes, in the order in which they were queued. */
  #writes: Write[] = []
  /** The waits that later writes can still affect. */
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

  /** The writes, and the waits that they can still affect. */
  *epochs(): Generator<Epoch | undefined> {
    for (const { at } of this.#writes) yield at
    for (const wait of this.#waits) if (wait.isOpen) yield wait.at
  }

  /** Whether all writes of these bytes are known to be done. */
  isDone(start: number, end: number, known: Epoch): boolean {
    return this.#writes.every((write) => !overlaps(write, start, end) || isKnown(write, known))
  }

  /** Replaces the writes of these bytes, which are all done, by what the bytes hold now. */
  holds(write: Write): void {
    const { start, end } = write
    this.#writes = this.#writes.filter((earlier) => earlier.start < start || earlier.end > end)
    this.add(write)
  }
}

/** A wait for a word, as long as another write can change what it comes after. */
class Wait {
  /** The clock of what happens before the component without this wait. */
  readonly #before: VectorClock
  readonly at: Epoch
  /** The clock of what happens before all writes that may satisfy the wait; undefined as long as none is known. */
  #past: VectorClock | undefined
  #release: (() => void) | undefined
  /** The time of the component at the latest change: if it is later by now, the component has been given work. */
  #time: number

  constructor(
    private readonly word: MemoryValue,
    private readonly compare: Comparison,
    private readonly component: Component,
    private readonly order: ValueOrder,
  ) {
    this.#before = component.clock
    this.at = component.next()
    this.#time = component.time
    component.waitedAt = component.time
  }

  get isOpen(): boolean {
    const { hasEnded, time } = this.component
    return this.#past === undefined || (this.#time === time && !hasEnded)
  }

  /** Takes in the writes that were queued before the wait. */
  begin(writes: readonly Write[]): void {
    const { pointer, bits } = this.word
    const end = pointer + bits / 8
    const there = writes.filter((write) => overlaps(write, pointer, end))
    const known = there.map((write) => isKnown(write, this.at))
    for (const [index, write] of there.entries()) {
      // A later write that happens before the wait has replaced this one.
      const isOver = there.some((later, nth) => nth > index && known[nth] === true && comesAfter(later, write))
      if (!isOver) this.#mayBeMetBy(write)
    }
    if (this.#past === undefined) {
      this.#release = this.order.hold(this.component)
      this.#changed()
    }
  }

  /** Takes in a write that was queued after the wait. */
  written(write: Write): void {
    if (!this.isOpen || write.at === undefined || isBefore(this.at, write.at)) return
    this.#mayBeMetBy(write)
    if (this.#past === undefined) return
    this.#release?.()
    this.#release = undefined
  }

  #mayBeMetBy(write: Write): void {
    const value = valueBehind(write, this.word)
    if (value === undefined || !isMet(value, this.compare, this.word)) return
    const isFirst = this.#past === undefined
    this.#past = this.#past === undefined ? write.before : common(this.#past, write.before)
    if (this.component.hasEnded) return
    if (this.component.time === this.#time) this.component.turnTo(merged(this.#before, this.#past))
    else if (isFirst) this.component.joinClock(this.#past)
    this.#changed()
  }

  #changed(): void {
    this.#time = this.component.time
    this.component.waitedAt = this.#time
  }
}

const overlaps = (write: Write, start: number, end: number): boolean => write.start < end && write.end > start

const isKnown = ({ at }: Write, later: Epoch): boolean => at === undefined || isBefore(at, later)

const comesAfter = (later: Write, { at }: Write): boolean =>
  at === undefined || later.at === undefined || isBefore(at, later.at)

/** The value of the word after a write; undefined if it is not known. */
function valueBehind({ start, end, bytes }: Write, { pointer, bits }: MemoryValue): bigint | undefined {
  if (bytes === undefined || start > pointer || end < pointer + bits / 8) return undefined
  const word = new Uint8Array(8)
  for (let index = 0; index < bits / 8; index += 1) word[index] = bytes[(pointer - start + index) % bytes.length] ?? 0
  return new BigUint64Array(word.buffer)[0]
}
