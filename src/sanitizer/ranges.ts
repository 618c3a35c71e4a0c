/**
 * What touched which bytes last: ranges of addresses, each with the operations that are not known to be followed by
 * another that takes their place. What an operation finds there that nothing orders with it is a race.
 */
import { isBefore, type StrandPoint } from './clocks.js'
import type { CheckedOperation } from './operations.js'
import type { PendingHostFunctions } from './pending.js'

type Operations = readonly CheckedOperation[]

interface MemoryRange {
  readonly start: number
  readonly end: number
  writes: Operations
  reads: Operations
}

/** Called for each range in which an operation is not ordered with one that was there. */
export type RaceFound = (other: CheckedOperation, access: 'in' | 'out', start: number, end: number) => void

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
  touch(operation: CheckedOperation, start: number, end: number, writes: boolean, found: RaceFound): void {
    const first = this.#indexOf(start)
    const range = this.#ranges[first]
    if (range !== undefined && range.start === start && range.end === end) {
      check(range, operation, writes, start, end, found)
      this.#keep(range, operation, writes)
    } else this.#touchMany(first, operation, start, end, writes, found)
  }

  /** As `touch`, but writes nothing down. */
  look(operation: CheckedOperation, start: number, end: number, writes: boolean, found: RaceFound): void {
    for (let index = this.#indexOf(start); index < this.#ranges.length; index += 1) {
      const range = this.#ranges[index] as MemoryRange
      if (range.start >= end) break
      check(range, operation, writes, Math.max(start, range.start), Math.min(end, range.end), found)
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
      if (range.writes.length + range.reads.length > 0) left.push(range)
    }
    this.#ranges = joined(left)
  }

  #touchMany(
    first: number,
    operation: CheckedOperation,
    start: number,
    end: number,
    writes: boolean,
    found: RaceFound,
  ): void {
    const pieces: MemoryRange[] = []
    let at = start
    let index = first
    for (; index < this.#ranges.length; index += 1) {
      const range = this.#ranges[index] as MemoryRange
      if (range.start >= end) break
      if (range.start > at) pieces.push(fresh(operation, at, range.start, writes))
      if (range.start < start) pieces.push({ ...range, end: start })
      const from = Math.max(start, range.start)
      const to = Math.min(end, range.end)
      const middle = { ...range, start: from, end: to }
      check(middle, operation, writes, from, to, found)
      this.#keep(middle, operation, writes)
      pieces.push(middle)
      if (range.end > end) pieces.push({ ...range, start: end })
      at = to
    }
    if (at < end) pieces.push(fresh(operation, at, end, writes))
    this.#ranges.splice(first, index - first, ...joined(pieces))
  }

  #keep(range: MemoryRange, operation: CheckedOperation, writes: boolean): void {
    if (!writes) {
      range.reads = this.#added(range.reads, operation)
      return
    }
    range.writes = this.#added(range.writes, operation)
    if (range.reads.length > 0) range.reads = range.reads.filter((other) => this.#isStillNeeded(other, operation))
  }

  #added(others: Operations, operation: CheckedOperation): Operations {
    const only = others.length === 1 ? others[0] : undefined
    if (others.length === 0 || (only !== undefined && !this.#isStillNeeded(only, operation))) return [operation]
    const left = others.filter((other) => other !== operation && this.#isStillNeeded(other, operation))
    left.push(operation)
    return left
  }

  /** Can there be something that races with `other`, and not with the operation that has just come after it? */
  #isStillNeeded(other: CheckedOperation, operation: CheckedOperation): boolean {
    return !isBefore(other, operation) || (this.pending?.mayMeet(other, operation) ?? false)
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

function fresh(operation: CheckedOperation, start: number, end: number, writes: boolean): MemoryRange {
  return { start, end, writes: writes ? [operation] : NONE, reads: writes ? NONE : [operation] }
}

function check(
  range: MemoryRange,
  operation: CheckedOperation,
  writes: boolean,
  start: number,
  end: number,
  found: RaceFound,
): void {
  checkAgainst(range.writes, 'out', operation, start, end, found)
  if (writes) checkAgainst(range.reads, 'in', operation, start, end, found)
}

function checkAgainst(
  others: Operations,
  access: 'in' | 'out',
  operation: CheckedOperation,
  start: number,
  end: number,
  found: RaceFound,
): void {
  for (let index = 0; index < others.length; index += 1) {
    const other = others[index] as CheckedOperation
    if (!isBefore(other, operation) && !isBefore(operation, other)) found(other, access, start, end)
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
      same(last.reads, range.reads)
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
