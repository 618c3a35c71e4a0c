/**
 * Finds accesses of one launch to the same bytes of global memory whose order nothing determines. Lanes of a warp count as one: accesses of the same
 * warp are not compared.
 */
import type { Decoded } from './decoding.js'
import { SHADOW } from './layout.js'

/** The barriers, releases and acquisitions of a block of threads, which order it with other blocks. */
export class BlockOrder {
  /** The number of barriers that the block has passed. */
  epoch = 0
  /** The time of each fence or release, counted within the launch. Accesses before the first of them are in segment 0. */
  readonly releases: number[] = []
  /** The time at which the block last did something by which it may see what others released. */
  acquired = 0
  /** Whether the block has accessed memory since its latest release. */
  hasAccessed = false
  /** The accessor that each warp is at present; undefined until the warp accesses memory, and again after each barrier and release. */
  readonly accessors: (Accessor | undefined)[] = []

  /** @param number The place of the block in the grid. */
  constructor(readonly number: number) {}

  barrier(): void {
    this.epoch++
    this.accessors.length = 0
  }
}

/** A warp of a block between two barriers and two releases: accesses of one accessor are ordered alike with those of others. */
interface Accessor {
  readonly id: number
  readonly order: BlockOrder
  readonly warp: number
  readonly epoch: number
  readonly segment: number
}

export interface GlobalRace {
  readonly other: { readonly block: number; readonly warp: number }
  readonly before: Decoded | undefined
  /** Whether both accesses are plain writes that conflict in nothing else: they do no harm if they write the same values. */
  readonly isOfWrites: boolean
}

/** The latest accesses to the cells of a page: for each cell, the number of the accessor and that of the instruction. */
class Slot {
  readonly ids: Int32Array
  readonly sites: Int32Array

  constructor(cells: number) {
    this.ids = new Int32Array(cells)
    this.sites = new Int32Array(cells)
  }

  /** A copy of the slot that has a cell for each byte, in place of each word. */
  widened(): Slot {
    const wide = new Slot(PAGE_BYTES)
    for (let byte = 0; byte < PAGE_BYTES; byte++) {
      wide.ids[byte] = this.ids[byte >> 2] ?? 0
      wide.sites[byte] = this.sites[byte >> 2] ?? 0
    }
    return wide
  }
}

const PAGE_BYTES = 4096
/** The most accessors that are kept: a launch with more is not checked any further. */
const MOST_ACCESSORS = 2 ** 22

/**
 * The slots of a page. One is the last weak write, which is enough since it was compared with the write before. For weak reads, strong writes, strong
 * reads, and atomics that are tried by a weak read first there are three each: the last one, the last one of another warp of its block, and the last
 * one of another block.
 */
const WRITES = 0
const READS = [1, 2, 3] as const
const STRONG_WRITES = [4, 5, 6] as const
const STRONG_READS = [7, 8, 9] as const
const TRIED = [10, 11, 12] as const

/** A kind of access: the first of its slots, and the slots of accesses with which it must be in order. */
interface Kind {
  readonly slot: number
  readonly conflicts: readonly number[]
}

const WRITE: Kind = {
  slot: WRITES,
  conflicts: [WRITES, ...READS, ...STRONG_WRITES, ...STRONG_READS, ...TRIED],
}
const READ: Kind = { slot: READS[0], conflicts: [WRITES, ...STRONG_WRITES] }
const STRONG_WRITE: Kind = { slot: STRONG_WRITES[0], conflicts: [WRITES, ...READS] }
const STRONG_READ: Kind = { slot: STRONG_READS[0], conflicts: [WRITES] }
const TRY: Kind = { slot: TRIED[0], conflicts: [WRITES] }
/**
 * The atomics that programs often try by a plain load first, as in a search of a graph, to find out whether they would change anything: that does no
 * harm.
 */
const TRIED_FIRST = /^(?:atom|red)\..*\b(?:cas|min|max|and|or)\b/

interface Page {
  /** The size of the page's cells, as a power of two: 2 for words, 0 once something accesses single bytes. */
  shift: number
  readonly slots: (Slot | undefined)[]
}

/** The properties of an access that decide how it is ordered with others. */
interface Strength {
  /** Whether the access is atomic, volatile, or has a memory order: such accesses do not race with each other. */
  readonly isStrong: boolean
  readonly releases: boolean
  readonly isTried: boolean
}

/** The number and the strength of an instruction that accesses memory. */
export interface SiteFacts {
  readonly site: number
  readonly strength: Strength
}

export class GlobalRaces {
  readonly #pages = new Map<number, Page>()
  #lastNumber = -1
  #lastPage: Page = { shift: 2, slots: [] }
  readonly #accessors: (Accessor | undefined)[] = [undefined]
  readonly #sites: (Decoded | undefined)[] = [undefined]
  readonly #siteOf = new Map<Decoded, SiteFacts>()
  /** The number of events so far that order blocks. */
  #time = 0
  /** Whether there were more accessors than are kept: accesses since then were not checked. */
  isFull = false

  /** Notes a fence, or an access that releases: from now on others can see what the block did before. */
  release(order: BlockOrder): void {
    // If the block has not accessed memory since the last release, another one would change nothing.
    if (!order.hasAccessed) return
    order.hasAccessed = false
    order.releases.push(++this.#time)
    order.accessors.length = 0
  }

  access(
    order: BlockOrder,
    warp: number,
    address: number,
    bytes: number,
    access: number,
    { site, strength }: SiteFacts,
  ): GlobalRace | undefined {
    if (strength.releases) this.release(order)
    if (strength.isStrong) order.acquired = ++this.#time
    const own = order.accessors[warp] ?? this.#newAccessor(order, warp)
    if (own === undefined) return undefined
    const number = Math.floor(address / PAGE_BYTES)
    const page = number === this.#lastNumber ? this.#lastPage : this.#pageOf(number)
    if (bytes < 4 && page.shift !== 0) narrow(page)
    const writes = (access & SHADOW.written) !== 0
    const kind = !writes
      ? strength.isStrong
        ? STRONG_READ
        : READ
      : strength.isTried
        ? TRY
        : strength.isStrong
          ? STRONG_WRITE
          : WRITE
    const { conflicts, slot } = kind
    const { slots } = page
    let race: GlobalRace | undefined
    const from = (address - number * PAGE_BYTES) >> page.shift
    const to = from + (bytes >> page.shift)
    for (let cell = from; cell < to; cell++) {
      for (const each of conflicts) {
        const ids = slots[each]?.ids
        if (ids === undefined) continue
        const id = ids[cell] ?? 0
        if (id !== 0 && id !== own.id) race = this.#compare(race, page, each, cell, own, kind === WRITE)
      }
      if (kind === WRITE) put(page, slot, cell, own.id, site)
      else this.#add(page, slot, cell, own, site)
    }
    return race
  }

  /** The race of an access with the one in this slot, unless there is none or a worse one has been found. */
  #compare(
    known: GlobalRace | undefined,
    { slots }: Page,
    slot: number,
    cell: number,
    own: Accessor,
    isWrite: boolean,
  ): GlobalRace | undefined {
    const from = slots[slot]
    const earlier = this.#accessors[from?.ids[cell] ?? 0]
    if (from === undefined || earlier === undefined || isBefore(earlier, own.order, own.warp)) return known
    const isOfWrites = slot === WRITES && isWrite
    if (known !== undefined && (isOfWrites || !known.isOfWrites)) return known
    const before = this.#sites[from.sites[cell] ?? 0]
    return { other: { block: earlier.order.number, warp: earlier.warp }, before, isOfWrites }
  }

  #add(page: Page, first: number, cell: number, own: Accessor, site: number): void {
    const slot = page.slots[first]
    const last = slot?.ids[cell] ?? 0
    if (last === own.id) return
    const earlier = this.#accessors[last]
    if (slot !== undefined && earlier !== undefined) {
      const which = first + (earlier.order === own.order ? 1 : 2)
      if (earlier.order !== own.order || earlier.warp !== own.warp) put(page, which, cell, last, slot.sites[cell] ?? 0)
    }
    put(page, first, cell, own.id, site)
  }

  #newAccessor(order: BlockOrder, warp: number): Accessor | undefined {
    const id = this.#accessors.length
    if (id > MOST_ACCESSORS) {
      this.isFull = true
      return undefined
    }
    const accessor = { id, order, warp, epoch: order.epoch, segment: order.releases.length }
    this.#accessors.push(accessor)
    order.accessors[warp] = accessor
    order.hasAccessed = true
    return accessor
  }

  #pageOf(number: number): Page {
    const page = this.#pages.get(number) ?? { shift: 2, slots: [] }
    this.#pages.set(number, page)
    this.#lastNumber = number
    this.#lastPage = page
    return page
  }

  /** The number and the strength of an instruction that accesses memory, computed once. */
  factsOf(at: Decoded | undefined): SiteFacts {
    if (at === undefined) return UNKNOWN
    const known = this.#siteOf.get(at)
    if (known !== undefined) return known
    const facts = { site: this.#sites.push(at) - 1, strength: strengthOf(at) }
    this.#siteOf.set(at, facts)
    return facts
  }
}

const UNKNOWN: SiteFacts = { site: 0, strength: { isStrong: false, releases: false, isTried: false } }

function strengthOf({ modifiers, form, instruction }: Decoded): Strength {
  const order = modifiers['order'] ?? 'weak'
  const isStrong = order !== 'weak' || modifiers['cop'] === 'cv' || /^(atom|red)$/.test(form.opcode)
  return { isStrong, releases: /^(release|acq_rel)$/.test(order), isTried: TRIED_FIRST.test(instruction.opcode) }
}

/** Whether an earlier access is ordered before what a warp does now. */
function isBefore(earlier: Accessor, order: BlockOrder, warp: number): boolean {
  if (earlier.order === order && (earlier.warp === warp || earlier.epoch !== order.epoch)) return true
  const released = earlier.order.releases[earlier.segment]
  return released !== undefined && order.acquired > released
}

function put(page: Page, slot: number, cell: number, id: number, site: number): void {
  let into = page.slots[slot]
  if (into === undefined) {
    into = new Slot(PAGE_BYTES >> page.shift)
    page.slots[slot] = into
  }
  into.ids[cell] = id
  into.sites[cell] = site
}

function narrow(page: Page): void {
  page.shift = 0
  for (const [index, slot] of page.slots.entries()) if (slot !== undefined) page.slots[index] = slot.widened()
}
