/**
 * What touched which bytes last: ranges of addresses, each with the operations that are not known to be followed by
 * another that takes their place. What an operation finds there that nothing orders with it is a race.
 */
import type { Access } from '../driver/driver.js'
import { isBefore, type StrandPoint } from './clocks.js'
import type { CheckedOperation } from './operations.js'
import type { PendingHostFunctions } from './pending.js'
import { covers, meet } from './rows.js'

type Operations = readonly CheckedOperation[]

interface MemoryRange {
  readonly start: number
  readonly end: number
  writes: Operations
  reads: Operations
  /** They race with all but each other. */
  atomics: Operations
}

/** Called for each range in which an operation is not ordered with one that was there. */
export type RaceFound = (other: CheckedOperation, access: Access, start: number, end: number) => void

const NONE: Operations = []

export class Ranges {
  /** In the order of their addresses, without overlap. */
  #ranges: MemoryRange[] = []

  /** `pending` are the host functions that may still touch the memory: undefined where none can. */
  constructor(private readonly pending: PendingHostFunctions | undefined) {}

  get count(): number {
    return this.#ranges.length
  }

  /** Writes down that an operation touches these bytes, and reports what it races with. */
  touch(operation: CheckedOperation, start: number, end: number, access: Access, found: RaceFound): void {
    const first = this.#indexOf(start)
    const range = this.#ranges[first]
    if (range !== undefined && range.start === start && range.end === end) {
      check(range, operation, access, start, end, found)
      this.#keep(range, operation, access)
    } else this.#touchMany(first, operation, start, end, access, found)
  }

  /** As `touch`, but writes nothing down. */
  look(operation: CheckedOperation, start: number, end: number, access: Access, found: RaceFound): void {
    for (let index = this.#indexOf(start); index < this.#ranges.length; index += 1) {
      const range = this.#ranges[index] as MemoryRange
      if (range.start >= end) break
      check(range, operation, access, Math.max(start, range.start), Math.min(end, range.end), found)
    }
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
    const left: MemoryRange[] = []
    const isLive = (operation: CheckedOperation): boolean =>
      !isBefore(operation, host) || (this.pending?.mayMeet(operation) ?? false)
    for (const range of this.#ranges) {
      range.writes = range.writes.filter(isLive)
      range.reads = range.reads.filter(isLive)
      range.atomics = range.atomics.filter(isLive)
      if (range.writes.length + range.reads.length + range.atomics.length > 0) left.push(range)
    }
    this.#ranges = joined(left)
  }

  #touchMany(
    first: number,
    operation: CheckedOperation,
    start: number,
    end: number,
    access: Access,
    found: RaceFound,
  ): void {
    const pieces: MemoryRange[] = []
    let at = start
    let index = first
    for (; index < this.#ranges.length; index += 1) {
      const range = this.#ranges[index] as MemoryRange
      if (range.start >= end) break
      if (range.start > at) pieces.push(fresh(operation, at, range.start, access))
      if (range.start < start) pieces.push({ ...range, end: start })
      const from = Math.max(start, range.start)
      const to = Math.min(end, range.end)
      const middle = { ...range, start: from, end: to }
      check(middle, operation, access, from, to, found)
      this.#keep(middle, operation, access)
      pieces.push(middle)
      if (range.end > end) pieces.push({ ...range, start: end })
      at = to
    }
    if (at < end) pieces.push(fresh(operation, at, end, access))
    this.#ranges.splice(first, index - first, ...joined(pieces))
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
    return others.filter((other) => other !== operation && this.#isStillNeeded(range, other, operation))
  }

  /** Can there be something that races with `other`, and not with the operation that has just come after it? */
  #isStillNeeded({ start, end }: MemoryRange, other: CheckedOperation, operation: CheckedOperation): boolean {
    if (!isBefore(other, operation) || (this.pending?.mayMeet(other, operation) ?? false)) return true
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

function fresh(operation: CheckedOperation, start: number, end: number, access: Access): MemoryRange {
  const range = { start, end, writes: NONE, reads: NONE, atomics: NONE }
  if (access === 'in') return { ...range, reads: [operation] }
  return access === 'atomic' ? { ...range, atomics: [operation] } : { ...range, writes: [operation] }
}

function check(
  range: MemoryRange,
  operation: CheckedOperation,
  access: Access,
  start: number,
  end: number,
  found: RaceFound,
): void {
  checkAgainst(range.writes, 'out', operation, start, end, found)
  if (access !== 'in') checkAgainst(range.reads, 'in', operation, start, end, found)
  if (access !== 'atomic') checkAgainst(range.atomics, 'atomic', operation, start, end, found)
}

function checkAgainst(
  others: Operations,
  access: Access,
  operation: CheckedOperation,
  start: number,
  end: number,
  found: RaceFound,
): void {
  for (let index = 0; index < others.length; index += 1) {
    const other = others[index] as CheckedOperation
    if (isBefore(other, operation) || isBefore(operation, other)) continue
    const [these, those] = [other.scattered, operation.scattered]
    const areWhole = these === undefined && those === undefined
    if (areWhole || meet(these, those, start, end)) found(other, access, start, end)
  }
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
      result[result.length - 1] = { ...last, end: range.end }
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
