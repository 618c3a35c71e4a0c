/** The pieces of memory that the sanitizer knows: what touched which bytes of them, and which are given back. */
import { type Pointer, type TouchedMemory, touching } from '../driver/driver.js'
import type { StrandPoint } from './clocks.js'
import type { Holds } from './holds.js'
import type { CheckedOperation } from './operations.js'
import type { PendingHostFunctions } from './pending.js'
import { Ranges } from './ranges.js'
import type { SampledSite, TakenStack } from './stacks.js'

/** 'unknown': allocated before the sanitizer began, or by code that it cannot see. */
export type RegionKind = 'device' | 'pinned' | 'foreign' | 'unknown'

export class Region {
  readonly end: number
  readonly ranges: Ranges
  /** Where it was allocated. */
  made: TakenStack | undefined
  /** The program has a view of it: it has asked for one, or it is an array of the program's. */
  isViewed = false
  /** It is an array of the program's. */
  isArray = false
  /** Streams may wait for words in it. */
  takesValues: boolean
  /** The operation that gave it back. */
  freed: CheckedOperation | undefined
  // Made where they are needed: a program may allocate for each frame.
  #scripts: Ranges | undefined
  /** Of pinned memory: what JavaScript sees of it, and where it begins there. */
  #bytes: { readonly buffer: WeakRef<ArrayBufferLike>; readonly begin: number } | undefined
  #askedAbout: WeakSet<object> | undefined
  #whole: readonly [TouchedMemory] | undefined

  constructor(
    readonly kind: RegionKind,
    readonly start: number,
    byteLength: number,
    private readonly pending: PendingHostFunctions,
    private readonly holds: Holds,
    /** Of all memory of its size: a program that allocates for each frame does the same with all of it. */
    readonly sites: SampledSite[],
  ) {
    this.end = start + byteLength
    this.takesValues = kind !== 'device'
    // Host functions have to do with pinned memory only.
    this.ranges = new Ranges(kind === 'pinned' || kind === 'unknown' ? pending : undefined, holds)
  }

  /** All of it is touched, as by what allocates it and gives it back. */
  get whole(): readonly [TouchedMemory] {
    this.#whole ??= [touching(this.start as Pointer, this.end - this.start, 'out')]
    return this.#whole
  }

  /** What JavaScript itself does with it, in host functions and between them. */
  get scripts(): Ranges {
    this.#scripts ??= new Ranges(this.pending, this.holds)
    return this.#scripts
  }

  /** Of foreign memory: the streams that it has been looked at for. */
  get askedAbout(): WeakSet<object> {
    this.#askedAbout ??= new WeakSet()
    return this.#askedAbout
  }

  /** JavaScript has the memory as these bytes. */
  shows({ buffer, byteOffset }: Uint8Array): void {
    this.#bytes = { buffer: new WeakRef(buffer), begin: byteOffset }
  }

  /** The bytes from an address on; undefined where JavaScript has none. */
  read(from: number, byteLength: number): Uint8Array | undefined {
    const buffer = this.#bytes?.buffer.deref()
    const begin = (this.#bytes?.begin ?? 0) + from - this.start
    // The array may have been transferred, or its buffer shortened.
    if (buffer === undefined || buffer.byteLength < begin + byteLength) return undefined
    return new Uint8Array(buffer, begin, byteLength)
  }

  /** As `Ranges.sweep()`. */
  sweep(host: StrandPoint): void {
    this.ranges.sweep(host)
    this.#scripts?.sweep(host)
  }

  /** What touched it is of no use any more. */
  free(by: CheckedOperation): void {
    this.freed = by
    this.ranges.clear()
    this.#scripts = undefined
  }
}

/** So many foreign regions are remembered, and so many that are given back. */
const MOST_REMEMBERED = 4096
const FIRST_SWEEP = 4096
const MOST_SIZES = 256

export class Regions {
  /** In the order of their addresses, without overlap. */
  #regions: Region[] = []
  /** What lies in no region. */
  readonly #elsewhere: Region
  /** Of the regions, those that are given back. */
  #freedCount = 0
  /** By the size of the memory. */
  readonly #sites = new Map<number, SampledSite[]>()
  readonly #foreign: Region[] = []
  /** Found last, and before that: a copy has two. */
  #last: Region
  #lastBut: Region
  #touches = 0
  #nextSweep = FIRST_SWEEP

  constructor(
    private readonly pending: PendingHostFunctions,
    private readonly holds: Holds,
  ) {
    this.#elsewhere = new Region('unknown', 0, Number.MAX_SAFE_INTEGER, pending, holds, [])
    this.#last = this.#elsewhere
    this.#lastBut = this.#elsewhere
  }

  /** Ranges that are kept. */
  get rangeCount(): number {
    let count = this.#elsewhere.ranges.count
    for (const { ranges } of this.#regions) count += ranges.count
    return count
  }

  get count(): number {
    return this.#regions.length
  }

  allocated(pointer: Pointer, byteLength: number, kind: RegionKind): Region {
    const region = new Region(kind, pointer, byteLength, this.pending, this.holds, this.#sitesOf(byteLength))
    this.#replace(region)
    return region
  }

  /** Memory of another library. Memory that is wrapped twice, or in parts, is one region. */
  foreign(pointer: Pointer, byteLength: number): void {
    const end = pointer + byteLength
    const overlapping = this.#overlapping(pointer, end).filter(({ freed }) => freed === undefined)
    if (overlapping.some(({ kind, start, end: last }) => kind !== 'foreign' || (start <= pointer && end <= last)))
      return
    const start = Math.min(pointer, ...overlapping.map((region) => region.start))
    const last = Math.max(end, ...overlapping.map((region) => region.end))
    const region = new Region('foreign', start, last - start, this.pending, this.holds, this.#sitesOf(last - start))
    for (const part of overlapping) region.ranges.absorb(part.ranges)
    this.#replace(region)
    this.#foreign.push(region)
    if (this.#foreign.length <= MOST_REMEMBERED) return
    for (const old of this.#foreign.splice(0, MOST_REMEMBERED / 2)) this.#remove(old)
  }

  /** The region that begins at this address, to be given back. */
  startingAt(pointer: Pointer): Region | undefined {
    const region = this.#regions[this.#indexAfter(pointer) - 1]
    return region?.start === pointer && region.freed === undefined ? region : undefined
  }

  /** Its bytes are remembered as gone until they are allocated again. */
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

  /** To be called at each touch: forgets, now and then, what the JavaScript thread knows to be done. */
  touched(host: StrandPoint): void {
    this.#touches += 1
    if (this.#touches < this.#nextSweep) return
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

  /** Forgets the older half of those that are given back. */
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

  /** How many regions begin at or before an address. */
  #indexAfter(address: number): number {
    let low = 0
    let high = this.#regions.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#regions[middle] as Region).start <= address) low = middle + 1
      else high = middle
    }
    return low
  }
}
