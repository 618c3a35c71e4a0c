/** The allocations that the sanitizer knows of, the operations that touched their bytes last, and those that were freed. */
import { IntervalMap, upperBound } from '../../foundation/base/interval-map.js'
import { type Epoch, isBefore, type References } from '../../foundation/base/vector-clock.js'
import type { Pointer } from '../../foundation/driver/handle-types.js'
import type { LaunchShape } from '../../foundation/driver/kernel-driver.js'
import { type Access, type MemoryRows, type TouchedMemory, touching } from '../../foundation/driver/touched-memory.js'
import type { CheckedOperation, SampledSite, TakenStack } from './operations.js'
import type { PendingHostFunctions, PendingWaits } from './pending.js'

/** The accesses of all threads to memory that they share. */
export interface SharedAccesses {
  /** Whether the thread that shared the memory still has it. */
  readonly isOpen: boolean
  /** Adds the accesses of other threads to the region. */
  refresh(): void
  /** Records an access as `Ranges.touch()` does, and sends it to the other threads. */
  touch(operation: CheckedOperation, touched: TouchedMemory): RacesFound
  freed(operation: CheckedOperation): void
  /** Notes that the real accesses of a kernel are known now. */
  ran(operation: CheckedOperation): void
}

/** The kind of memory. 'unknown': allocated before the sanitizer began, or by code that it cannot observe. */
export type RegionKind = 'device' | 'pinned' | 'foreign' | 'unknown'

/** The launch that wrote to a region last, as the simulator has observed it. */
interface LastLaunch {
  readonly operation: CheckedOperation
  readonly shape: LaunchShape
  /** The first address that it wrote, and the one behind the last. */
  readonly from: number
  readonly to: number
  /** The bytes that each thread wrote, if all wrote as many, side by side, one element each. */
  readonly perThread: number | undefined
}

export class Region {
  readonly end: number
  readonly ranges: Ranges
  /** The place at which the memory was allocated. */
  made: TakenStack | undefined
  /** Whether the program has a view of the memory: it asked for one, or the memory is an array of its own. */
  isViewed = false
  /** Whether the memory is an array of the program that was registered. */
  isArray = false
  /** Whether streams may wait for values in the memory. */
  takesValues: boolean
  /** The operation that freed the memory. */
  freed: CheckedOperation | undefined
  /** The launch of a kernel that wrote here last, where the simulator observes it. */
  lastLaunch: LastLaunch | undefined
  /** The accesses of all threads; undefined as long as only this thread uses the memory. */
  shared: SharedAccesses | undefined
  // The following are made only when they are needed, since a program may allocate for each frame.
  #scripts: Ranges | undefined
  /** The buffer through which JavaScript sees pinned memory, and the offset of the first byte there. */
  #bytes: { readonly buffer: WeakRef<ArrayBufferLike>; readonly begin: number } | undefined
  #askedAbout: WeakSet<object> | undefined
  #whole: readonly [TouchedMemory] | undefined

  constructor(
    readonly kind: RegionKind,
    readonly start: number,
    byteLength: number,
    private readonly pending: PendingHostFunctions,
    private readonly pendingWaits: PendingWaits,
    /** The sites of all regions of one size, which share them: a program that allocates for each frame does the same with each region. */
    readonly sites: SampledSite[],
  ) {
    this.end = start + byteLength
    this.takesValues = kind !== 'device'
    // Host functions can touch pinned memory only.
    this.ranges = new Ranges(kind === 'pinned' || kind === 'unknown' ? pending : undefined, pendingWaits)
  }

  /** The whole region as written memory: what an allocation and a free touch. */
  get whole(): readonly [TouchedMemory] {
    this.#whole ??= [touching(this.start as Pointer, this.end - this.start, 'out')]
    return this.#whole
  }

  /** The accesses of JavaScript itself, in host functions and between them. */
  get scripts(): Ranges {
    this.#scripts ??= new Ranges(this.pending, this.pendingWaits)
    return this.#scripts
  }

  /** The streams on which the first use of another library's memory has been checked. */
  get askedAbout(): WeakSet<object> {
    this.#askedAbout ??= new WeakSet()
    return this.#askedAbout
  }

  /** Notes the array through which JavaScript sees the memory. */
  shows({ buffer, byteOffset }: Uint8Array): void {
    this.#bytes = { buffer: new WeakRef(buffer), begin: byteOffset }
  }

  /** The bytes from an address on; undefined if JavaScript cannot see them. */
  read(from: number, byteLength: number): Uint8Array | undefined {
    const buffer = this.#bytes?.buffer.deref()
    const begin = (this.#bytes?.begin ?? 0) + from - this.start
    // The array may have been transferred, or its buffer shortened.
    if (buffer === undefined || buffer.byteLength < begin + byteLength) return undefined
    return new Uint8Array(buffer, begin, byteLength)
  }

  /** Forgets operations as `Ranges.sweep()` does. */
  sweep(host: Epoch): void {
    this.ranges.sweep(host)
    this.#scripts?.sweep(host)
  }

  addReferences(references: References): void {
    this.ranges.addReferences(references)
    this.#scripts?.addReferences(references)
  }

  /** Notes that the memory was freed: earlier operations no longer matter. */
  free(by: CheckedOperation): void {
    this.freed = by
    this.ranges.clear()
    this.#scripts = undefined
    this.lastLaunch = undefined
  }
}

/** The most foreign regions, and the most freed ones, that are remembered. */
const MOST_REMEMBERED = 4096
const FIRST_SWEEP = 4096
const MOST_SIZES = 256

export class Regions {
  /** All regions, sorted by address, without overlap. */
  #regions: Region[] = []
  /** The region that stands for all memory outside of the others. */
  readonly #elsewhere: Region
  /** The number of regions that are freed. */
  #freedCount = 0
  /** The sampled sites; keys are sizes of memory. */
  readonly #sites = new Map<number, SampledSite[]>()
  readonly #foreign: Region[] = []
  /** The region that was found last; `#lastBut` is the one before, as a copy touches two. */
  #last: Region
  #lastBut: Region
  #touches = 0
  #nextSweep = FIRST_SWEEP

  constructor(
    private readonly pending: PendingHostFunctions,
    private readonly pendingWaits: PendingWaits,
  ) {
    this.#elsewhere = new Region('unknown', 0, Number.MAX_SAFE_INTEGER, pending, pendingWaits, [])
    this.#last = this.#elsewhere
    this.#lastBut = this.#elsewhere
  }

  /** The number of ranges that are kept. */
  get rangeCount(): number {
    let count = this.#elsewhere.ranges.count
    for (const { ranges } of this.#regions) count += ranges.count
    return count
  }

  get count(): number {
    return this.#regions.length
  }

  allocated(pointer: Pointer, byteLength: number, kind: RegionKind): Region {
    const region = new Region(kind, pointer, byteLength, this.pending, this.pendingWaits, this.#sitesOf(byteLength))
    this.#replace(region)
    return region
  }

  /** The region of memory that this thread shares with others. */
  shared(pointer: Pointer, byteLength: number): Region {
    const known = this.startingAt(pointer)
    const isKnown = known !== undefined && known.end >= pointer + byteLength && known.shared === undefined
    return isKnown ? known : this.allocated(pointer, byteLength, 'device')
  }

  /** The region of memory that another thread has shared. Nothing shows when it is freed, or becomes other memory. */
  received(pointer: Pointer, byteLength: number): Region {
    const closed = this.#regions.filter(({ shared }) => shared?.isOpen === false)
    if (closed.length > MOST_REMEMBERED) for (const region of closed) this.#remove(region)
    return this.allocated(pointer, byteLength, 'device')
  }

  /** Adds memory of another library that was wrapped. Memory that is wrapped twice, or in parts, becomes one region. */
  foreign(pointer: Pointer, byteLength: number): void {
    const end = pointer + byteLength
    const overlapping = this.#overlapping(pointer, end).filter(({ freed }) => freed === undefined)
    if (overlapping.some(({ kind, start, end: last }) => kind !== 'foreign' || (start <= pointer && end <= last)))
      return
    const start = Math.min(pointer, ...overlapping.map((region) => region.start))
    const last = Math.max(end, ...overlapping.map((region) => region.end))
    const region = new Region(
      'foreign',
      start,
      last - start,
      this.pending,
      this.pendingWaits,
      this.#sitesOf(last - start),
    )
    for (const part of overlapping) region.ranges.absorb(part.ranges)
    this.#replace(region)
    this.#foreign.push(region)
    if (this.#foreign.length <= MOST_REMEMBERED) return
    for (const old of this.#foreign.splice(0, MOST_REMEMBERED / 2)) this.#remove(old)
  }

  /** The region that begins at this address, unless it is freed already. */
  startingAt(pointer: Pointer): Region | undefined {
    const region = this.#regions[this.#indexAfter(pointer) - 1]
    return region?.start === pointer && region.freed === undefined ? region : undefined
  }

  /** Remembers the region as freed until its bytes are allocated again. */
  free(region: Region, by: CheckedOperation): void {
    region.free(by)
    this.#freedCount += 1
    if (this.#freedCount > MOST_REMEMBERED) this.#forgetFreed()
  }

  at(pointer: number): Region {
    const last = this.#last
    if (pointer >= last.start && pointer < last.end && last !== this.#elsewhere) return last
    const lastBut = this.#lastBut
    const isThat = pointer >= lastBut.start && pointer < lastBut.end && lastBut !== this.#elsewhere
    const region = isThat ? lastBut : this.#regions[this.#indexAfter(pointer) - 1]
    if (region === undefined || pointer >= region.end) return this.#elsewhere
    this.#lastBut = last
    this.#last = region
    return region
  }

  /** Counts an access, and now and then forgets the operations that the JavaScript thread knows to be complete. */
  touched(host: Epoch): void {
    this.#touches += 1
    if (this.#touches < this.#nextSweep) return
    this.#sweep(host)
  }

  /** Adds the operations that may still race with later ones. */
  addReferences(references: References, host: Epoch): void {
    this.#sweep(host)
    this.#elsewhere.addReferences(references)
    for (const region of this.#regions) if (region.freed === undefined) region.addReferences(references)
    references.count += this.#regions.length
  }

  #sweep(host: Epoch): void {
    this.#touches = 0
    this.#elsewhere.sweep(host)
    for (const region of this.#regions) if (region.freed === undefined) region.sweep(host)
    this.#nextSweep = Math.max(FIRST_SWEEP, 2 * (this.rangeCount + this.#regions.length))
  }

  #sitesOf(byteLength: number): SampledSite[] {
    const known = this.#sites.get(byteLength)
    if (known !== undefined) return known
    if (this.#sites.size >= MOST_SIZES) this.#sites.clear()
    const sites: SampledSite[] = []
    this.#sites.set(byteLength, sites)
    return sites
  }

  /** Forgets the older half of the freed regions. */
  #forgetFreed(): void {
    const bySequence = this.#regions.flatMap(({ freed }) => freed?.sequence ?? []).sort((a, b) => a - b)
    const [kept = 0] = bySequence.slice(bySequence.length >> 1)
    this.#regions = this.#regions.filter(({ freed }) => freed === undefined || freed.sequence >= kept)
    this.#freedCount = bySequence.length - (bySequence.length >> 1)
    this.#last = this.#elsewhere
    this.#lastBut = this.#elsewhere
  }

  #replace(region: Region): void {
    const at = this.#indexAfter(region.start) - 1
    const before = this.#regions[at]
    if (before !== undefined && before.start === region.start && before.end === region.end) {
      this.#regions[at] = region
      this.#leaves(before)
      return
    }
    for (const old of this.#overlapping(region.start, region.end)) this.#remove(old)
    this.#regions.splice(this.#indexAfter(region.start), 0, region)
  }

  #remove(region: Region): void {
    const at = this.#indexAfter(region.start) - 1
    if (this.#regions[at] !== region) return
    this.#regions.splice(at, 1)
    this.#leaves(region)
  }

  #leaves(region: Region): void {
    if (region.freed !== undefined) this.#freedCount -= 1
    if (this.#last === region) this.#last = this.#elsewhere
    if (this.#lastBut === region) this.#lastBut = this.#elsewhere
  }

  #overlapping(start: number, end: number): Region[] {
    const result: Region[] = []
    for (let index = Math.max(0, this.#indexAfter(start) - 1); index < this.#regions.length; index += 1) {
      const region = this.#regions[index] as Region
      if (region.start >= end) break
      if (region.end > start) result.push(region)
    }
    return result
  }

  /** The number of regions that begin at or before an address. */
  #indexAfter(address: number): number {
    return upperBound(this.#regions.length, (at) => (this.#regions[at] as Region).start, address)
  }
}

type Operations = readonly CheckedOperation[]

/** The operations that touched some bytes last, and that a later operation may still race with. */
interface Accesses {
  readonly writes: Operations
  readonly reads: Operations
  /** The latest atomic updates, which race with all operations but each other. */
  readonly atomics: Operations
}

const NONE: Operations = []
const UNTOUCHED: Accesses = { writes: NONE, reads: NONE, atomics: NONE }

/** Bytes that an operation and an earlier one both touch without an order between them. */
export interface RaceFound {
  readonly other: CheckedOperation
  /** The access of the earlier operation. */
  readonly access: Access
  readonly start: number
  readonly end: number
}

/** The races of an access; undefined if there is none, which is nearly always. */
export type RacesFound = readonly RaceFound[] | undefined

type Races = RaceFound[] | undefined

/** The operations that touched the bytes of some memory last. An operation races with those that it finds there and that nothing orders with it. */
export class Ranges {
  readonly #accesses = new IntervalMap<Accesses>(
    (a, b) => isSame(a.writes, b.writes) && isSame(a.reads, b.reads) && isSame(a.atomics, b.atomics),
  )

  /** @param pending The host functions that may still touch the memory; undefined if none can */
  constructor(
    private readonly pending: PendingHostFunctions | undefined,
    private readonly pendingWaits: PendingWaits,
  ) {}

  get count(): number {
    return this.#accesses.size
  }

  /** Records that an operation touches these bytes, and returns its races. */
  touch(operation: CheckedOperation, start: number, end: number, access: Access): RacesFound {
    let races: Races
    this.#accesses.update(start, end, (old, from, to) => {
      if (old === undefined) return this.#with(UNTOUCHED, operation, access, from, to)
      races = check(old, operation, access, from, to, races)
      return this.#with(old, operation, access, from, to)
    })
    return races
  }

  /** The operations that may still race with later ones, and are recorded for some bytes. */
  operations(): Set<CheckedOperation> {
    const all = [...this.#accesses.overlapping(0, Number.MAX_SAFE_INTEGER)].map(({ value }) => value)
    const operations = all.flatMap(({ writes, reads, atomics }) => [...writes, ...reads, ...atomics])
    return new Set(operations.sort((a, b) => a.sequence - b.sequence))
  }

  addReferences(references: References): void {
    for (const { value } of this.#accesses.overlapping(0, Number.MAX_SAFE_INTEGER)) {
      for (const operations of [value.writes, value.reads, value.atomics]) {
        for (const operation of operations) references.add(operation)
      }
    }
  }

  /** Returns the races that `touch()` would return, but records nothing. */
  look(operation: CheckedOperation, start: number, end: number, access: Access): RacesFound {
    let races: Races
    for (const { start: from, end: to, value } of this.#accesses.overlapping(start, end)) {
      races = check(value, operation, access, Math.max(start, from), Math.min(end, to), races)
    }
    return races
  }

  clear(): void {
    this.#accesses.clear()
  }

  /** Adds the ranges of another object, which must not overlap with these. */
  absorb(other: Ranges): void {
    this.#accesses.addAll(other.#accesses)
  }

  /**
   * Forgets the operations that the JavaScript thread knows to be complete: all later work is queued after them. Those that a pending host function
   * may still race with are kept.
   */
  sweep(host: Epoch): void {
    const isLive = (operation: CheckedOperation): boolean =>
      !isBefore(operation, host) || (this.pending?.mayMeet(operation) ?? false)
    const live = (operations: Operations): Operations =>
      operations.every(isLive) ? operations : operations.filter(isLive)
    this.#accesses.replaceAll(({ writes, reads, atomics }) => {
      const left = { writes: live(writes), reads: live(reads), atomics: live(atomics) }
      return left.writes.length + left.reads.length + left.atomics.length > 0 ? left : undefined
    })
  }

  #with(old: Accesses, by: CheckedOperation, access: Access, start: number, end: number): Accesses {
    const { writes, reads, atomics } = old
    if (access === 'in') return { writes, reads: added(this.#needed(reads, by, start, end), by), atomics }
    if (access === 'atomic') return { writes, reads, atomics: added(this.#needed(atomics, by, start, end), by) }
    return {
      writes: added(this.#needed(writes, by, start, end), by),
      reads: this.#needed(reads, by, start, end),
      atomics: this.#needed(atomics, by, start, end),
    }
  }

  #needed(others: Operations, by: CheckedOperation, start: number, end: number): Operations {
    const [only] = others
    if (only === undefined) return others
    if (others.length === 1) return this.#isStillNeeded(only, by, start, end) ? others : NONE
    return others.filter((other) => this.#isStillNeeded(other, by, start, end))
  }

  /** Whether there can be something that races with `other`, and not with the operation that has just come after it. */
  #isStillNeeded(other: CheckedOperation, operation: CheckedOperation, start: number, end: number): boolean {
    if (other === operation) return false
    if (!isBefore(other, operation) || (this.pending?.mayMeet(other, operation) ?? false)) return true
    if (this.pendingWaits.separate(other, operation)) return true
    // Two accesses by JavaScript are not compared here, so neither replaces the other.
    if (operation.kind === 'javascript' && other.kind !== 'javascript') return true
    const { scattered } = operation
    return scattered !== undefined && !covers(scattered, other.scattered, start, end)
  }
}

const added = (operations: Operations, operation: CheckedOperation): Operations =>
  operations.length === 0 ? [operation] : [...operations, operation]

/** Adds the races of an operation to those found before. */
function check(
  { writes, reads, atomics }: Accesses,
  operation: CheckedOperation,
  access: Access,
  start: number,
  end: number,
  known: Races,
): Races {
  let races = checkAgainst(writes, 'out', operation, start, end, known)
  if (access !== 'in') races = checkAgainst(reads, 'in', operation, start, end, races)
  if (access !== 'atomic') races = checkAgainst(atomics, 'atomic', operation, start, end, races)
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

function isSame(a: Operations, b: Operations): boolean {
  return a === b || (a.length === b.length && a.every((operation, index) => operation === b[index]))
}

/** The memory of an operation that touches some of it in rows; undefined if it touches all of it. */
type Scattered = readonly TouchedMemory[] | undefined

/** The most rows that are compared. Accesses that are more entangled count as not in conflict. */
const MOST_LOOKS = 65_536

/** Whether two operations that both reach into these bytes touch a common byte, one of the two to write. */
export function meet(one: Scattered, other: Scattered, start: number, end: number): boolean {
  const [those, these] = one === undefined ? [other ?? [], one] : [one, other]
  let looks = 0
  for (const touched of those) {
    for (const [from, to] of rowsIn(touched, start, end)) {
      looks += 1
      if (looks > MOST_LOOKS) return false
      if (these === undefined) return true
      if (these.some((piece) => clashes(piece, touched) && reaches(piece, from, to))) return true
    }
  }
  return false
}

/** Whether an operation touches all of these bytes that another touched. The answer may be false though it does. */
function covers(operation: readonly TouchedMemory[], other: Scattered, start: number, end: number): boolean {
  return operation.some((piece) => {
    if (piece.pointer >= end || piece.pointer + piece.byteLength <= start) return false
    return piece.rows === undefined || (other?.some((earlier) => hasSameRows(earlier, piece)) ?? false)
  })
}

function clashes(one: TouchedMemory, other: TouchedMemory): boolean {
  if (one.access === 'atomic' && other.access === 'atomic') return false
  return one.access !== 'in' || other.access !== 'in'
}

function hasSameRows(one: TouchedMemory, other: TouchedMemory): boolean {
  const [a, b] = [one.rows, other.rows]
  if (one.pointer !== other.pointer || a === undefined || b === undefined) return false
  return (Object.keys(b) as (keyof MemoryRows)[]).every((key) => a[key] === b[key])
}

function reaches(piece: TouchedMemory, start: number, end: number): boolean {
  for (const _ of rowsIn(piece, start, end)) return true
  return false
}

/** The pieces of memory that are touched within these bytes. */
function* rowsIn(
  { pointer, byteLength, rows }: TouchedMemory,
  start: number,
  end: number,
): Iterable<readonly [number, number]> {
  if (rows === undefined) {
    if (pointer < end && pointer + byteLength > start)
      yield [Math.max(pointer, start), Math.min(pointer + byteLength, end)]
    return
  }
  for (let matrix = 0; matrix < rows.matrices; matrix += 1) {
    const first = pointer + matrix * rows.matrixDistance
    let row = Math.max(0, Math.floor((start - rows.rowLength - first) / rows.rowDistance) + 1)
    for (; row < rows.rows; row += 1) {
      const from = first + row * rows.rowDistance
      if (from >= end) break
      yield [Math.max(from, start), Math.min(from + rows.rowLength, end)]
    }
  }
}
