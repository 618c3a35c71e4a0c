/**
 * What touched which bytes last: ranges of addresses, each with the operations that are not known to be followed by
 * another that takes their place. What an operation finds there that nothing orders with it is a race.
 */
import type { Access } from '../driver/driver.js'
import { isBefore, type StrandPoint } from './clocks.js'
import type { Holds } from './holds.js'
import type { CheckedOperation } from './operations.js'
import type { PendingHostFunctions } from './pending.js'
import { covers, meet } from './rows.js'

type Operations = readonly CheckedOperation[]

/** Bytes, and what touched them. */
class MemoryRange {
  constructor(
    readonly start: number,
    readonly end: number,
    public writes: Operations,
    public reads: Operations,
    /** They race with all but each other. */
    public atomics: Operations,
  ) {}

  /** Touched by one operation. */
  static of(operation: CheckedOperation, start: number, end: number, access: Access): MemoryRange {
    const only = [operation]
    if (access === 'in') return new MemoryRange(start, end, NONE, only, NONE)
    return access === 'atomic'
      ? new MemoryRange(start, end, NONE, NONE, only)
      : new MemoryRange(start, end, only, NONE, NONE)
  }

  /** The same of other bytes. */
  at(start: number, end: number): MemoryRange {
    return new MemoryRange(start, end, this.writes, this.reads, this.atomics)
  }
}

/** Bytes in which an operation is not ordered with another that was there. */
export interface RaceFound {
  readonly other: CheckedOperation
  /** What the other did. */
  readonly access: Access
  readonly start: number
  readonly end: number
}

/** Undefined where there is none, as nearly always. */
export type RacesFound = readonly RaceFound[] | undefined

type Races = RaceFound[] | undefined

const NONE: Operations = []

export class Ranges {
  /** In the order of their addresses, without overlap. */
  #ranges: MemoryRange[] = []

  /** `pending` are the host functions that may still touch the memory: undefined where none can. */
  constructor(
    private readonly pending: PendingHostFunctions | undefined,
    private readonly holds: Holds,
  ) {}

  get count(): number {
    return this.#ranges.length
  }

  /** Writes down that an operation touches these bytes. Returns what it races with. */
  touch(operation: CheckedOperation, start: number, end: number, access: Access): RacesFound {
    const first = this.#indexOf(start)
    const range = first < this.#ranges.length ? this.#ranges[first] : undefined
    if (range === undefined || range.start >= end) {
      const fresh = MemoryRange.of(operation, start, end, access)
      // A new array has the place that it needs, and most buffers have one range.
      if (this.#ranges.length === 0) this.#ranges = [fresh]
      else this.#ranges.splice(first, 0, fresh)
      return undefined
    }
    if (range.start !== start || range.end !== end) return this.#touchMany(first, operation, start, end, access)
    const races = check(range, operation, access, start, end, undefined)
    this.#keep(range, operation, access)
    return races
  }

  /** As `touch`, but writes nothing down. */
  look(operation: CheckedOperation, start: number, end: number, access: Access): RacesFound {
    let races: Races
    for (let index = this.#indexOf(start); index < this.#ranges.length; index += 1) {
      const range = this.#ranges[index] as MemoryRange
      if (range.start >= end) break
      races = check(range, operation, access, Math.max(start, range.start), Math.min(end, range.end), races)
    }
    return races
  }

  clear(): void {
    this.#ranges = []
  }

  /** Takes in the ranges of another, which lie elsewhere. */
  absorb(other: Ranges): void {
    this.#ranges = [...this.#ranges, ...other.#ranges].sort((a, b) => a.start - b.start)
  }

  /**
   * Forgets what the JavaScript thread knows to be done: all that is to come is queued after that, but for host functions
   * that are pending.
   */
  sweep(host: StrandPoint): void {
    if (this.#ranges.length === 0) return
    const left: MemoryRange[] = []
    for (const range of this.#ranges) {
      range.writes = this.#live(range.writes, host)
      range.reads = this.#live(range.reads, host)
      range.atomics = this.#live(range.atomics, host)
      if (range.writes.length + range.reads.length + range.atomics.length > 0) left.push(range)
    }
    this.#ranges = joined(left)
  }

  #live(operations: Operations, host: StrandPoint): Operations {
    const isLive = (operation: CheckedOperation): boolean =>
      !isBefore(operation, host) || (this.pending?.mayMeet(operation) ?? false)
    return operations.every(isLive) ? operations : operations.filter(isLive)
  }

  #touchMany(first: number, operation: CheckedOperation, start: number, end: number, access: Access): RacesFound {
    const pieces: MemoryRange[] = []
    let races: Races
    let at = start
    let index = first
    for (; index < this.#ranges.length; index += 1) {
      const range = this.#ranges[index] as MemoryRange
      if (range.start >= end) break
      if (range.start > at) pieces.push(MemoryRange.of(operation, at, range.start, access))
      if (range.start < start) pieces.push(range.at(range.start, start))
      const from = Math.max(start, range.start)
      const to = Math.min(end, range.end)
      const middle = range.at(from, to)
      races = check(middle, operation, access, from, to, races)
      this.#keep(middle, operation, access)
      pieces.push(middle)
      if (range.end > end) pieces.push(range.at(end, range.end))
      at = to
    }
    if (at < end) pieces.push(MemoryRange.of(operation, at, end, access))
    this.#ranges.splice(first, index - first, ...joined(pieces))
    return races
  }

  #keep(range: MemoryRange, operation: CheckedOperation, access: Access): void {
    if (access === 'in') range.reads = this.#added(range, range.reads, operation)
    else if (access === 'atomic') range.atomics = this.#added(range, range.atomics, operation)
    else {
      range.writes = this.#added(range, range.writes, operation)
      if (range.reads.length > 0) range.reads = this.#needed(range, range.reads, operation)
      if (range.atomics.length > 0) range.atomics = this.#needed(range, range.atomics, operation)
    }
  }

  #added(range: MemoryRange, others: Operations, operation: CheckedOperation): Operations {
    const only = others.length === 1 ? others[0] : undefined
    if (others.length === 0 || (only !== undefined && !this.#isStillNeeded(range, only, operation))) return [operation]
    return [...this.#needed(range, others, operation), operation]
  }

  #needed(range: MemoryRange, others: Operations, operation: CheckedOperation): Operations {
    const only = others.length === 1 ? others[0] : undefined
    if (only !== undefined) return only !== operation && this.#isStillNeeded(range, only, operation) ? others : NONE
    return others.filter((other) => other !== operation && this.#isStillNeeded(range, other, operation))
  }

  /** Can there be something that races with `other`, and not with the operation that has just come after it? */
  #isStillNeeded({ start, end }: MemoryRange, other: CheckedOperation, operation: CheckedOperation): boolean {
    if (!isBefore(other, operation) || (this.pending?.mayMeet(other, operation) ?? false)) return true
    if (this.holds.separate(other, operation)) return true
    // With other JavaScript it is not compared here.
    if (operation.kind === 'javascript' && other.kind !== 'javascript') return true
    const { scattered } = operation
    return scattered !== undefined && !covers(scattered, other.scattered, start, end)
  }

  /** The first range that ends behind an address. */
  #indexOf(address: number): number {
    let low = 0
    let high = this.#ranges.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#ranges[middle] as MemoryRange).end <= address) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** Adds what an operation races with. */
function check(
  range: MemoryRange,
  operation: CheckedOperation,
  access: Access,
  start: number,
  end: number,
  known: Races,
): Races {
  let races = checkAgainst(range.writes, 'out', operation, start, end, known)
  if (access !== 'in') races = checkAgainst(range.reads, 'in', operation, start, end, races)
  if (access !== 'atomic') races = checkAgainst(range.atomics, 'atomic', operation, start, end, races)
  return races
}

function checkAgainst(
  others: Operations,
  access: Access,
  operation: CheckedOperation,
  start: number,
  end: number,
  known: Races,
): Races {
  let races = known
  for (let index = 0; index < others.length; index += 1) {
    const other = others[index] as CheckedOperation
    if (isBefore(other, operation) || isBefore(operation, other)) continue
    const [these, those] = [other.scattered, operation.scattered]
    const areWhole = these === undefined && those === undefined
    if (!areWhole && !meet(these, those, start, end)) continue
    races ??= []
    races.push({ other, access, start, end })
  }
  return races
}

/** Neighbours that say the same are one. */
function joined(ranges: readonly MemoryRange[]): MemoryRange[] {
  const result: MemoryRange[] = []
  for (const range of ranges) {
    const last = result[result.length - 1]
    if (
      last !== undefined &&
      last.end === range.start &&
      same(last.writes, range.writes) &&
      same(last.reads, range.reads) &&
      same(last.atomics, range.atomics)
    )
      result[result.length - 1] = last.at(last.start, range.end)
    else result.push(range)
  }
  return result
}

function same(a: Operations, b: Operations): boolean {
  if (a === b) return true
  if (a.length !== b.length) return false
  for (let index = 0; index < a.length; index += 1) if (a[index] !== b[index]) return false
  return true
}
