/**
 * The memory of a simulated machine: one WebAssembly memory, in which the blocks lie that kernels use, and a table of them
 * that compiled code searches. Pointers stay what the host chose; each access is translated.
 */
import { align, CELLS_END, SHADOW, TABLE_COUNT, TABLE_POINTER, TABLE_ROW } from './layout.js'
import { writeSpecialFunctions } from './special-functions.js'
import { newMemory, PAGE_BYTES, type WasmMemory } from './web-assembly.js'

/** Pointers from here to 2^47 belong to the compiler: memory that kernels allocate, and the workspace of grid barriers. */
export const ENGINE_BEGIN = 2 ** 47 - 2 ** 33

const HEAP_BEGIN = align(CELLS_END, 4096)
const ALIGNMENT = 256
/** The bytes of the widest access. */
const WIDEST = 32
/**
 * The size of a page, as a power of two. A launch notes the pages in which it has marked bytes of shadows, so that reading the marks skips all other
 * pages.
 */
export const PAGE_BITS = 12
const PAGE = 2 ** PAGE_BITS

/**
 * The list of ranges that launches have marked as a whole, which stand for marks in shadows: a word with their number, then a row for each with the
 * locations in the shadow of its beginning and its end, and its marks. Beyond `ranges` of them, and below `leastBytes`, bytes are marked.
 */
export const LISTED = { ranges: 8192, leastBytes: 256, begin: 16, row: 12 } as const

/** The error of a machine whose WebAssembly memory is full: 4 GiB, or the limit that was given. */
export class OutOfMachineMemory extends Error {
  readonly code = 'CUDA_ERROR_OUT_OF_MEMORY'
  readonly number = 2

  constructor(what: string) {
    super(`The memory of the simulated machine has no room for ${what}`)
  }

  static {
    OutOfMachineMemory.prototype.name = 'OutOfMachineMemory'
  }
}

export interface DeviceBlock {
  readonly begin: number
  readonly byteLength: number
  /** The offset of the block in the WebAssembly memory; undefined until a kernel uses the block. */
  base: number | undefined
  /** The offset of the block's shadow, which has a byte for each byte of the block; undefined unless accesses are recorded. */
  shadow: number | undefined
  /** Returns the bytes of a block that lies outside the WebAssembly memory, such as pinned memory. */
  readonly external: (() => Uint8Array) | undefined
  /** The shadow of a block that lies outside the WebAssembly memory: it lies outside, too, and is rounded up to whole words. */
  marks: Uint8Array | undefined
  /** Fills the block when a kernel uses it for the first time. */
  readonly load: ((into: Uint8Array) => void) | undefined
  /** Whether all bytes of the block count as written. */
  initialised: boolean
}

/** The parts of a block in which launches have marked something, as offsets within the block, and the ranges that they have marked as a whole. */
export interface TouchedBlock {
  readonly block: DeviceBlock
  readonly parts: readonly { readonly from: number; readonly to: number }[]
  readonly listed: readonly ListedRange[]
}

/** A range of a block, as offsets within the block, all of whose bytes have the same marks. */
export interface ListedRange {
  readonly from: number
  readonly to: number
  readonly marks: number
}

export interface BlockOptions {
  /** Writes the contents when a kernel uses the block for the first time; without it the block is zeros. */
  readonly load?: (into: Uint8Array) => void
  /** Whether a read of bytes that no kernel wrote is right. Default: whether there is `load`. */
  readonly initialised?: boolean
}

export class DeviceMemory {
  readonly memory: WasmMemory
  readonly maximumPages: number
  /** The number of changes after which the windows of compiled code are out of date. */
  generation = 1
  /** All blocks, in the order of their addresses. */
  readonly #blocks: DeviceBlock[] = []
  /** The free pieces of the heap, in the order of their addresses. */
  readonly #free: { begin: number; byteLength: number }[] = []
  readonly #sizes = new Map<number, number>()
  #end: number
  #tableRows = 0
  #table = 0
  #stale = true
  #bytes: Uint8Array
  #words: Int32Array
  #view: DataView
  #recorded = false
  /** The offset of a table with a byte for each page of the WebAssembly memory: not 0 if the page has been noted as marked. */
  #touchedTable = 0
  #rangeList = 0
  /** The pages that have been noted as marked, in the order in which that happened. */
  #touchedPages: number[] = []
  /** The pages of `marks` that have been noted as marked, for each block outside the WebAssembly memory. */
  readonly #touchedOutside = new Map<DeviceBlock, Set<number>>()
  /** The blocks that have a shadow, in the order of their shadows. */
  readonly #shadowed: DeviceBlock[] = []

  /** @param maximumBytes The most bytes that the WebAssembly memory may have. Default, and the most that is possible: 4 GiB */
  constructor(maximumBytes = 2 ** 32) {
    this.maximumPages = Math.min(65536, Math.max(64, Math.floor(maximumBytes / PAGE_BYTES)))
    this.memory = newMemory(16, this.maximumPages)
    writeSpecialFunctions(this.memory.buffer)
    this.#end = HEAP_BEGIN
    this.#bytes = new Uint8Array(this.memory.buffer)
    this.#words = new Int32Array(this.memory.buffer)
    this.#view = new DataView(this.memory.buffer)
  }

  #refresh(): void {
    // A memory that grows detaches the buffer that it had.
    if (this.#bytes.length !== 0) return
    this.#bytes = new Uint8Array(this.memory.buffer)
    this.#words = new Int32Array(this.memory.buffer)
    this.#view = new DataView(this.memory.buffer)
  }

  /** The bytes of the memory. They are valid until it grows, so no caller may keep them. */
  get bytes(): Uint8Array {
    this.#refresh()
    return this.#bytes
  }

  get words(): Int32Array {
    this.#refresh()
    return this.#words
  }

  get view(): DataView {
    this.#refresh()
    return this.#view
  }

  // The heap ------------------------------------------------------------------------------------------------------------

  /** Allocates a piece of the WebAssembly memory with arbitrary contents; returns undefined if the memory is full. */
  allocate(byteLength: number): number | undefined {
    const size = align(Math.max(byteLength, 1), ALIGNMENT)
    for (const [index, piece] of this.#free.entries()) {
      if (piece.byteLength < size) continue
      const { begin } = piece
      if (piece.byteLength === size) this.#free.splice(index, 1)
      else this.#free[index] = { begin: begin + size, byteLength: piece.byteLength - size }
      this.#sizes.set(begin, size)
      return begin
    }
    const begin = align(this.#end, ALIGNMENT)
    const capacity = this.memory.buffer.byteLength
    if (begin + size > capacity) {
      const wanted = Math.ceil((begin + size - capacity) / PAGE_BYTES)
      const now = capacity / PAGE_BYTES
      const generous = Math.min(Math.max(wanted, now >> 2), this.maximumPages - now)
      if (wanted > this.maximumPages - now) return undefined
      try {
        this.memory.grow(generous)
      } catch {
        return undefined
      }
    }
    this.#end = begin + size
    this.#sizes.set(begin, size)
    return begin
  }

  release(begin: number): void {
    const byteLength = this.#sizes.get(begin)
    if (byteLength === undefined) return
    this.#sizes.delete(begin)
    let at = 0
    while (at < this.#free.length && (this.#free[at]?.begin ?? 0) < begin) at++
    this.#free.splice(at, 0, { begin, byteLength })
    this.#join(at)
    this.#join(at - 1)
    const last = this.#free.at(-1)
    if (last !== undefined && last.begin + last.byteLength === this.#end) {
      this.#end = last.begin
      this.#free.pop()
    }
  }

  #join(at: number): void {
    const [piece, next] = [this.#free[at], this.#free[at + 1]]
    if (piece === undefined || next === undefined || piece.begin + piece.byteLength !== next.begin) return
    this.#free.splice(at, 2, { begin: piece.begin, byteLength: piece.byteLength + next.byteLength })
  }

  // Blocks --------------------------------------------------------------------------------------------------------------

  /** Adds a block of device memory, which kernels may access from now on. */
  add(begin: number, byteLength: number, options: BlockOptions = {}): void {
    const { load, initialised = load !== undefined } = options
    this.#insert({
      begin,
      byteLength,
      base: undefined,
      shadow: undefined,
      external: undefined,
      marks: undefined,
      load,
      initialised,
    })
  }

  /** Adds a block of memory that is visible outside, such as pinned memory. It is never copied into the machine: each access calls `bytes`. */
  addExternal(begin: number, byteLength: number, bytes: () => Uint8Array): void {
    this.#insert({
      begin,
      byteLength,
      base: undefined,
      shadow: undefined,
      external: bytes,
      marks: undefined,
      load: undefined,
      initialised: true,
    })
  }

  #insert(block: DeviceBlock): void {
    const at = this.#indexOf(block.begin)
    this.#blocks.splice(at + 1, 0, block)
  }

  /** Removes a block; accesses to it are faults from now on. */
  remove(begin: number): void {
    const at = this.#indexOf(begin)
    const block = this.#blocks[at]
    if (block === undefined || block.begin !== begin) return
    this.#blocks.splice(at, 1)
    this.#touchedOutside.delete(block)
    if (block.base !== undefined) this.release(block.base)
    if (block.shadow !== undefined) {
      this.#takeListed((each) => each === block)
      this.#shadowed.splice(this.#shadowedBefore(block.shadow) - 1, 1)
      this.release(block.shadow)
    }
    this.#changed()
  }

  #changed(): void {
    this.#stale = true
    this.generation++
  }

  /** The index of the last block that begins at an address or before, or -1. */
  #indexOf(address: number): number {
    let [low, high] = [0, this.#blocks.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#blocks[middle]?.begin ?? 0) <= address) low = middle + 1
      else high = middle
    }
    return low - 1
  }

  /** The block that contains an address. */
  find(address: number): DeviceBlock | undefined {
    const block = this.#blocks[this.#indexOf(address)]
    return block !== undefined && address < block.begin + block.byteLength ? block : undefined
  }

  /** The blocks before and behind an address that lies in none, for messages. */
  around(address: number): { readonly before: DeviceBlock | undefined; readonly behind: DeviceBlock | undefined } {
    const at = this.#indexOf(address)
    return { before: this.#blocks[at], behind: this.#blocks[at + 1] }
  }

  /** Gives a block its place in the WebAssembly memory; returns false if the memory is full. */
  makeResident(block: DeviceBlock): boolean {
    if (block.external !== undefined) return true
    if (block.base === undefined) {
      const base = this.allocate(block.byteLength + WIDEST)
      if (base === undefined) return false
      block.base = base
      const bytes = this.bytes.subarray(base, base + block.byteLength)
      bytes.fill(0)
      block.load?.(bytes)
      this.#changed()
    }
    if (this.#recorded && block.shadow === undefined) {
      const shadow = this.allocate(block.byteLength + WIDEST)
      if (shadow === undefined) return false
      block.shadow = shadow
      this.#shadowed.splice(this.#shadowedBefore(shadow), 0, block)
      this.bytes.fill(block.initialised ? 4 : 0, shadow, shadow + block.byteLength)
      this.#changed()
    }
    return true
  }

  /**
   * The bytes of a block, or of a part of it, valid until a kernel runs, which may move them. Undefined if no kernel has used the block: then its
   * contents are still the host's.
   */
  contents(begin: number, byteLength: number): Uint8Array | undefined {
    const block = this.find(begin)
    if (block?.external !== undefined) {
      return block.external().subarray(begin - block.begin, begin - block.begin + byteLength)
    }
    if (block?.base === undefined) return undefined
    const from = block.base + begin - block.begin
    return this.bytes.subarray(from, from + byteLength)
  }

  /** The bytes of a block or of a part of it, as `contents` returns them, after the block has been made resident. */
  use(begin: number, byteLength: number): Uint8Array | undefined {
    const block = this.find(begin)
    if (block === undefined || begin + byteLength > block.begin + block.byteLength) return undefined
    return this.makeResident(block) ? this.contents(begin, byteLength) : undefined
  }

  // Recording -----------------------------------------------------------------------------------------------------------

  /**
   * Gives blocks shadows from now on.
   * @throws OutOfMachineMemory
   */
  record(): void {
    if (this.#recorded) return
    const pages = (this.maximumPages * PAGE_BYTES) / PAGE
    const table = this.allocate(pages)
    if (table === undefined) throw new OutOfMachineMemory('the records of kernels')
    const list = this.allocate(LISTED.begin + LISTED.ranges * LISTED.row)
    if (list === undefined) throw new OutOfMachineMemory('the records of kernels')
    this.bytes.fill(0, table, table + pages)
    this.words[list >> 2] = 0
    this.#rangeList = list
    this.#touchedTable = table
    this.#recorded = true
  }

  /** The offset of the table with a byte for each page of the memory: not 0 if `pageTouched()` was called for the page. */
  get touchedTable(): number {
    return this.#touchedTable
  }

  /** The offset of the list of ranges that launches have marked as a whole. */
  get rangeList(): number {
    return this.#rangeList
  }

  /** Takes the listed ranges of some blocks, by the shadows in which they lie; the others stay listed. */
  #takeListed(isTaken: (block: DeviceBlock) => boolean): ReadonlyMap<DeviceBlock, ListedRange[]> {
    const taken = new Map<DeviceBlock, ListedRange[]>()
    if (this.#rangeList === 0) return taken
    const { words } = this
    const [count, rows] = [this.#rangeList >>> 2, (this.#rangeList + LISTED.begin) >>> 2]
    let left = 0
    for (let index = 0; index < (words[count] ?? 0); index++) {
      const row = rows + index * (LISTED.row >>> 2)
      const [from = 0, to = 0, marks = 0] = words.subarray(row, row + 3)
      const block = this.#shadowed[this.#shadowedBefore(from >>> 0) - 1]
      if (block?.shadow === undefined) continue
      if (!isTaken(block)) {
        words.copyWithin(rows + left++ * (LISTED.row >>> 2), row, row + 3)
        continue
      }
      const known = taken.get(block) ?? []
      taken.set(block, known)
      known.push({ from: (from >>> 0) - block.shadow, to: (to >>> 0) - block.shadow, marks })
    }
    words[count] = left
    return taken
  }

  /** Notes that a launch has marked something in this page of a shadow. The page must not have been noted before. */
  pageTouched(page: number): void {
    this.bytes[this.#touchedTable + page] = 1
    this.#touchedPages.push(page)
  }

  /** Notes that a launch has marked these bytes of a shadow. */
  shadowTouched(at: number, byteLength: number): void {
    for (const page of pagesOf(at, byteLength)) {
      if (this.bytes[this.#touchedTable + page] === 0) this.pageTouched(page)
    }
  }

  /** Notes that a launch has marked these bytes of a block outside the WebAssembly memory. */
  marksTouched(block: DeviceBlock, offset: number, byteLength: number): void {
    const pages = this.#touchedOutside.get(block) ?? new Set()
    this.#touchedOutside.set(block, pages)
    for (const page of pagesOf(offset, byteLength)) pages.add(page)
  }

  /** The parts of blocks whose marks launches have touched since the last call, in the order of their addresses. */
  takeTouched(): readonly TouchedBlock[] {
    const parts = new Map<DeviceBlock, { from: number; to: number }[]>()
    const add = (block: DeviceBlock, from: number, to: number): void => {
      const known = parts.get(block) ?? []
      parts.set(block, known)
      const last = known.at(-1)
      if (last?.to === from) last.to = to
      else known.push({ from, to })
    }
    const pages = this.#touchedPages.sort((a, b) => a - b)
    this.#touchedPages = []
    const { bytes } = this
    for (const page of pages) {
      bytes[this.#touchedTable + page] = 0
      const [begin, end] = [page * PAGE, (page + 1) * PAGE]
      for (let at = Math.max(0, this.#shadowedBefore(begin) - 1); at < this.#shadowed.length; at += 1) {
        const block = this.#shadowed[at] as DeviceBlock
        const { shadow = 0, byteLength } = block
        if (shadow >= end) break
        const [from, to] = [Math.max(0, begin - shadow), Math.min(byteLength, end - shadow)]
        if (from < to) add(block, from, to)
      }
    }
    for (const [block, touched] of this.#touchedOutside) {
      for (const page of [...touched].sort((a, b) => a - b)) {
        add(block, page * PAGE, Math.min(block.byteLength, (page + 1) * PAGE))
      }
    }
    this.#touchedOutside.clear()
    const listed = this.#takeListed(() => true)
    return [...new Set([...parts.keys(), ...listed.keys()])]
      .map((block) => ({ block, parts: parts.get(block) ?? [], listed: listed.get(block) ?? [] }))
      .sort((a, b) => a.block.begin - b.block.begin)
  }

  /** The number of shadows that begin at an offset in the WebAssembly memory or before it. */
  #shadowedBefore(address: number): number {
    let [low, high] = [0, this.#shadowed.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#shadowed[middle]?.shadow ?? 0) <= address) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Notes that the host wrote these bytes, so that reads of them are right. */
  markInitialised(begin: number, byteLength: number): void {
    const block = this.find(begin)
    if (block === undefined) return
    // Without recording there is no shadow that could say which bytes were written, so the whole block counts as written.
    if (byteLength >= block.byteLength || !this.#recorded) block.initialised = true
    if (block.shadow === undefined && (block.initialised || !this.makeResident(block))) return
    if (block.shadow === undefined) return
    const from = block.shadow + begin - block.begin
    const shadow = this.bytes
    for (let at = from; at < from + byteLength; at++) shadow[at] = (shadow[at] ?? 0) | 4
  }

  /** Whether nothing has written this byte; false where there is no record of that. */
  isUnwritten(address: number): boolean {
    const block = this.find(address)
    if (block?.shadow === undefined || block.initialised) return false
    return ((this.bytes[block.shadow + address - block.begin] ?? 0) & SHADOW.initialised) === 0
  }

  // The table that compiled code searches -------------------------------------------------------------------------------

  /** Writes the table again if blocks came or went. */
  updateTable(): void {
    if (!this.#stale) return
    const resident = this.#blocks.filter(({ base }) => base !== undefined)
    if (resident.length > this.#tableRows) {
      if (this.#table !== 0) this.release(this.#table)
      this.#tableRows = Math.max(64, 2 * resident.length)
      this.#table = this.allocate(this.#tableRows * TABLE_ROW) ?? 0
      if (this.#table === 0) {
        this.#tableRows = 0
        resident.length = 0
      }
    }
    const { view } = this
    for (const [index, { begin, byteLength, base = 0, shadow = 0, initialised }] of resident.entries()) {
      const row = this.#table + index * TABLE_ROW
      view.setBigUint64(row, BigInt(begin), true)
      view.setBigUint64(row + 8, BigInt(byteLength), true)
      view.setInt32(row + 16, base, true)
      view.setInt32(row + 20, shadow, true)
      view.setInt32(row + 24, initialised ? 1 : 0, true)
    }
    view.setInt32(TABLE_POINTER, this.#table, true)
    view.setInt32(TABLE_COUNT, resident.length, true)
    this.#stale = false
  }
}

/** The numbers of the pages that contain some of these bytes: two if an access that is not aligned crosses from one to the next. */
function pagesOf(at: number, byteLength: number): readonly number[] {
  const [first, last] = [at >>> PAGE_BITS, (at + byteLength - 1) >>> PAGE_BITS]
  return first === last ? [first] : [first, last]
}
