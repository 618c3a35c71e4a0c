/**
 * Copies in bulk, copies of tiles, and stores that an mbarrier counts. They are carried out at once, which is one of the orders that a GPU may take;
 * unfinished-copies.ts finds programs that rely on it.
 */
import { type OperandWords, operandWords, spaceOfOperand } from './asynchronous-operands.js'
import { reduceInto } from './bulk-reductions.js'
import type { Decoded } from './decoding.js'
import type { FaultCode } from './faults.js'
import type { KernelCode } from './kernel-code.js'
import type { LaunchReports } from './launch-reports.js'
import { CLUSTER_STRIDE, CLUSTER_STRIDE_BITS, OPERANDS, SHADOW, SHARED_WINDOW } from './layout.js'
import { MemoryRanges, type MemoryRunTime } from './memory-ranges.js'
import { bitsOf } from './syntax.js'
import { decodeTensorMap, TENSOR_MAP_BYTES, type TensorMapFields } from './tensor-map.js'
import { replaceField } from './tensor-map-fields.js'
import { checkStore, layoutOf, type Row, rowsOf, swizzled, TileError } from './tensor-tiles.js'
import type { MemoryRange, UnfinishedCopies } from './unfinished-copies.js'

const ALIGNMENT = 16
/** The alignment of a tile in shared memory, and of a tensor map. */
const TILE_ALIGNMENT = 128
const MAP_ALIGNMENT = 64
const WINDOW = Number(SHARED_WINDOW)
/** The bits of the fields of an mbarrier (mbarrier-writer.ts). */
const BYTES_AT = 40n
const BYTES = 0x7fffffn << BYTES_AT
const UNMET = 0x7fffff00000fffffn
const MOST_BYTES = 2n ** 20n

export class AsynchronousCopies {
  readonly #ranges: MemoryRanges
  #at: Decoded | undefined
  #thread = 0
  #frame = 0
  #words: OperandWords = {}

  constructor(
    private readonly code: KernelCode,
    private readonly reports: LaunchReports,
    private readonly runTime: MemoryRunTime,
    private readonly unfinished: UnfinishedCopies,
  ) {
    this.#ranges = new MemoryRanges(code, runTime)
  }

  /** Carries out an instruction whose operands lie in memory. */
  run(at: Decoded, frame: number, thread: number): void {
    this.#at = at
    this.#frame = frame
    this.#thread = thread
    this.#words = operandWords(at)
    const { pattern, opcode } = at.form
    if (opcode === 'tensormap') this.#changeMap()
    else if (pattern === 'cp.async.commit_group') this.unfinished.ofThread(thread, 'commit')
    else if (pattern === 'cp.async.wait_all') this.unfinished.ofThread(thread, 'wait')
    else if (pattern === 'cp.async.wait_group') this.unfinished.ofThread(thread, { left: this.#integer('a') })
    else if (pattern.includes('.commit_group')) this.unfinished.commit(thread)
    else if (pattern.includes('.wait_group'))
      this.unfinished.waitForGroups(thread, this.#integer('c'), at.modifiers['read'] !== undefined)
    else if (opcode !== 'cp') this.#storeCounted()
    else if (pattern.includes('.tensor')) this.#copyTile()
    else this.#copyBytes()
  }

  // Operands ------------------------------------------------------------------------------------------------------------

  get #decoded(): Decoded {
    if (this.#at === undefined) throw new Error('No copy is under way')
    return this.#at
  }

  #word(name: string, index = 0): bigint {
    const at = (this.#words[name]?.at ?? 0) + index
    return this.code.memory.view.getBigUint64(OPERANDS + 8 * at, true)
  }

  #integer(name: string, index = 0): number {
    return Number(this.#word(name, index))
  }

  #has(name: string): boolean {
    return this.#words[name] !== undefined
  }

  #fault(code: FaultCode, what: string, address?: number): Error {
    return this.reports.faultAt(code, what, this.#at, this.#thread, address)
  }

  /** The address that an operand has, after the checks of its alignment and of the address space in the opcode. */
  #address(name: string, alignment: number, what: string): number {
    const address = this.#integer(name)
    if (address % alignment !== 0) {
      const message = `${what} is at ${inHex(address)}, which is not a multiple of ${alignment}`
      throw this.#fault('CUDA_ERROR_MISALIGNED_ADDRESS', message, address)
    }
    if (spaceOfOperand(this.#decoded, name) === 'shared::cta' && address - WINDOW >= CLUSTER_STRIDE) {
      const message = `${what} is in the shared memory of another block, and the instruction is for that of its own`
      throw this.#fault('CUDA_ERROR_ILLEGAL_INSTRUCTION', message, address)
    }
    return address
  }

  #range(address: number, byteLength: number, access: number): MemoryRange {
    return this.#ranges.locate(address, byteLength, { at: this.#decoded, thread: this.#thread, access })
  }

  // Copies of bytes -----------------------------------------------------------------------------------------------------

  #copyBytes(): void {
    const { modifiers, form } = this.#decoded
    const isPrefetch = form.pattern.includes('.prefetch')
    const from = this.#address('b', ALIGNMENT, 'The source of a bulk copy')
    const given = this.#integer('c')
    // A GPU ignores the lowest bits of a size in a register.
    const byteLength = given - (given % ALIGNMENT)
    if (byteLength !== given)
      this.#find(
        'wrong-copy',
        `A bulk copy of ${given} bytes copies ${byteLength}: its size is a multiple of ${ALIGNMENT}`,
      )
    if (isPrefetch) return
    const to = this.#address('a', ALIGNMENT, 'The destination of a bulk copy')
    const { op, T: type = 'b32' } = modifiers
    const copy = (target: number): MemoryRange | undefined => {
      if (byteLength === 0) return undefined
      const source = this.#range(from, byteLength, SHADOW.read)
      const access = op === undefined ? SHADOW.written : SHADOW.read | SHADOW.written | SHADOW.atomic
      const destination = this.#range(target, byteLength, access)
      if (op === undefined) destination.bytes().set(source.bytes().slice())
      else reduceInto(op, type, destination.bytes(), source.bytes().slice())
      this.#note(source, destination, byteLength)
      return destination
    }
    if (this.#has('m')) this.#counted(to, byteLength, copy)
    else copy(to)
  }

  /** Copies to shared memory, of several blocks of the cluster if the opcode says so, and counts the bytes at the mbarrier of each. */
  #counted(to: number, bytes: number, copy: (target: number) => MemoryRange | undefined): void {
    const mbarrier = this.#address('m', 8, 'The mbarrier of a bulk copy')
    if (!this.#has('n')) {
      this.#complete(mbarrier, bytes, () => void copy(to))
      return
    }
    const mask = this.#integer('n') & 0xffff
    const within = (address: number, rank: number): number =>
      WINDOW + (rank + 1) * CLUSTER_STRIDE + ((address - WINDOW) % CLUSTER_STRIDE)
    for (let rank = 0; rank < 16; rank++) {
      if (((mask >> rank) & 1) === 0) continue
      this.#complete(within(mbarrier, rank), bytes, () => void copy(within(to, rank)))
    }
  }

  /** Subtracts bytes that have come from those that a phase of an mbarrier awaits. */
  #complete(mbarrier: number, bytes: number, copy: () => void): void {
    const access = SHADOW.read | SHADOW.written | SHADOW.atomic
    const { location } = this.runTime.sharedRange(mbarrier, 8, access, this.#decoded, this.#thread)
    this.unfinished.begin(
      this.#decoded,
      this.#thread,
      location,
      this.code.memory.view.getBigUint64(location, true) >> 63n,
    )
    copy()
    this.unfinished.end()
    const { view } = this.code.memory
    const before = view.getBigUint64(location, true)
    // More bytes may have come than are awaited yet: their number must not borrow from the parity.
    const now = (before & ~BYTES) | ((before - (BigInt(bytes) << BYTES_AT)) & BYTES)
    if (BigInt.asIntN(23, now >> BYTES_AT) <= -MOST_BYTES)
      throw this.#fault('CUDA_ERROR_LAUNCH_FAILED', `An mbarrier counts fewer than ${MOST_BYTES} bytes`, mbarrier)
    const isOver = (now & UNMET) === 0n
    const word = isOver ? (now | ((now >> 20n) & 0xfffffn)) ^ (1n << 63n) : now
    view.setBigUint64(location, BigInt.asUintN(64, word), true)
  }

  /** Notes a copy that the checks take to be under way until the program has waited for it. */
  #note(source: MemoryRange, destination: MemoryRange, byteLength: number): void {
    this.unfinished.note(this.#decoded, this.#thread, source, destination, byteLength)
  }

  #find(kind: 'wrong-copy', message: string): void {
    this.reports.find(kind, message, [this.#thread], this.#at, this.reports.current)
  }

  // Stores and reductions of a thread that an mbarrier counts -------------------------------------------------------------

  #storeCounted(): void {
    const { modifiers } = this.#decoded
    const type = modifiers['T'] ?? 'b32'
    const each = bitsOf(type) / 8
    const count = this.#words['b']?.count ?? 1
    const to = this.#address('a', each * count, `The destination of ${this.#decoded.form.opcode}.async`)
    const mbarrier = this.#address('m', 8, 'The mbarrier')
    const values = new DataView(new ArrayBuffer(each * count))
    for (let index = 0; index < count; index++) {
      const value = this.#word('b', index)
      if (each === 8) values.setBigUint64(8 * index, value, true)
      else values.setUint32(4 * index, Number(value & 0xffffffffn), true)
    }
    const bytes = new Uint8Array(values.buffer)
    this.#complete(mbarrier, bytes.byteLength, () => {
      const { op } = modifiers
      const access = op === undefined ? SHADOW.written : SHADOW.read | SHADOW.written | SHADOW.atomic
      const destination = this.#range(to, bytes.byteLength, access)
      if (op === undefined) destination.bytes().set(bytes)
      else reduceInto(op, type, destination.bytes(), bytes)
      this.unfinished.note(this.#decoded, this.#thread, undefined, destination, bytes.byteLength)
    })
  }

  // Tiles ---------------------------------------------------------------------------------------------------------------

  #copyTile(): void {
    const { modifiers, form } = this.#decoded
    const map = this.#map()
    const rank = Number(modifiers['dim']?.[0] ?? 0)
    const mode = modifiers['mode'] ?? 'tile'
    const isIm2col = mode.startsWith('im2col')
    if (map.dims.length !== rank || isIm2col !== (map.im2col !== undefined)) {
      const has = `${map.dims.length} dimensions${map.im2col === undefined ? '' : ' for im2col'}`
      throw this.#fault(
        'CUDA_ERROR_ILLEGAL_INSTRUCTION',
        `The tensor map has ${has}, and the copy is ${rank}d in the mode ${mode}`,
      )
    }
    const at = Array.from({ length: rank }, (_, index) => Number(BigInt.asIntN(32, this.#word('t', index + 1))))
    const offsets = Array.from({ length: this.#words['i']?.count ?? 0 }, (_, index) => this.#integer('i', index))
    let rows: readonly Row[]
    try {
      rows = rowsOf(map, at, mode === 'im2col' ? offsets : undefined)
      if (modifiers['dst'] === 'global') checkStore(map, at, modifiers['op'])
    } catch (error) {
      if (!(error instanceof TileError)) throw error
      throw this.#fault('CUDA_ERROR_ILLEGAL_INSTRUCTION', error.message)
    }
    if (form.pattern.includes('.prefetch')) return
    if (modifiers['dst'] === 'global') this.#storeTile(map, rows)
    else this.#loadTile(map, rows)
  }

  /** Reads the tensor map of a copy. */
  #map(): TensorMapFields {
    const address = this.#address('t', MAP_ALIGNMENT, 'A tensor map')
    const bytes = this.runTime.bytesAt(address, TENSOR_MAP_BYTES, this.#decoded, this.#frame, this.#thread)
    const map = decodeTensorMap(bytes)
    if (map !== undefined) return map
    const what = `There is no tensor map at ${inHex(address)}: cuTensorMapEncodeTiled makes one`
    throw this.#fault('CUDA_ERROR_ILLEGAL_INSTRUCTION', what, address)
  }

  #loadTile(map: TensorMapFields, rows: readonly Row[]): void {
    const to = this.#address('a', TILE_ALIGNMENT, 'The destination of a tile')
    const layout = layoutOf(map, rows)
    const tile = this.#gather(map, rows, layout.bytes)
    this.#counted(to, layout.bytes, (target) => {
      const destination = this.#range(target, layout.span, SHADOW.written)
      swizzled(layout, (target - WINDOW) % CLUSTER_STRIDE, (from, at, count) => {
        destination.bytes().set(tile.subarray(from, from + count), at)
      })
      this.#note(destination, destination, layout.span)
      return destination
    })
  }

  /** Collects the elements of a tile from global memory; those outside of the tensor are 0, or NaN. */
  #gather(map: TensorMapFields, rows: readonly Row[], byteLength: number): Uint8Array {
    const tile = new Uint8Array(byteLength)
    let at = 0
    for (const { address, skipped, read, bytes } of rows) {
      if (map.fill === 1) fillWithNaN(tile.subarray(at, at + bytes))
      if (read > 0) {
        const source = this.#range(address, read, SHADOW.read)
        const part = tile.subarray(at + skipped, at + skipped + read)
        part.set(source.bytes())
        if (map.element.startsWith('tf32')) roundToTf32(part)
      }
      at += bytes
    }
    return tile
  }

  #storeTile(map: TensorMapFields, rows: readonly Row[]): void {
    const from = this.#address('b', TILE_ALIGNMENT, 'The source of a tile')
    const layout = layoutOf(map, rows)
    const source = this.#range(from, layout.span, SHADOW.read)
    const tile = new Uint8Array(layout.bytes)
    swizzled(layout, (from - WINDOW) % CLUSTER_STRIDE, (to, at, count) => {
      tile.set(source.bytes().subarray(at, at + count), to)
    })
    this.unfinished.note(this.#decoded, this.#thread, source, undefined, layout.span)
    const { op } = this.#decoded.modifiers
    const type = map.element.replace('.ftz', '').replace('tf32', 'f32')
    const access = op === undefined ? SHADOW.written : SHADOW.read | SHADOW.written | SHADOW.atomic
    let at = 0
    for (const { address, skipped, read, bytes } of rows) {
      if (read > 0) {
        const count = this.#unitsAt(address, read, bytes - skipped)
        const destination = this.#range(address, count, access)
        const part = tile.subarray(at + skipped, at + skipped + count)
        if (op === undefined) destination.bytes().set(part)
        else reduceInto(op, type, destination.bytes(), part)
      }
      at += bytes
    }
  }

  /** The bytes of a row that a store writes: a GPU writes units of 16 bytes, also where the tensor ends within one, if there is memory. */
  #unitsAt(address: number, bytes: number, most: number): number {
    const units = Math.min(most, Math.ceil(bytes / ALIGNMENT) * ALIGNMENT)
    const block = this.code.memory.find(address)
    return block !== undefined && address + units <= block.begin + block.byteLength ? units : bytes
  }

  // Tensor maps in memory -----------------------------------------------------------------------------------------------

  #changeMap(): void {
    const { form, modifiers } = this.#decoded
    const to = this.#address('a', MAP_ALIGNMENT, 'A tensor map')
    if (form.pattern.includes('.cp_fenceproxy')) {
      const source = this.#range(this.#address('b', MAP_ALIGNMENT, 'A tensor map'), TENSOR_MAP_BYTES, SHADOW.read)
      const destination = this.#range(to, TENSOR_MAP_BYTES, SHADOW.written)
      destination.bytes().set(source.bytes().slice())
      return
    }
    const map = this.#range(to, TENSOR_MAP_BYTES, SHADOW.read | SHADOW.written)
    replaceField(map.bytes(), modifiers['field'] ?? '', this.#has('i') ? this.#integer('i') : 0, this.#word('b'))
  }
}

/** Fills elements outside of a tensor with the NaN of a GPU, whose halves are the same in all types. */
function fillWithNaN(bytes: Uint8Array): void {
  for (let at = 0; at < bytes.byteLength; at += 2) {
    bytes[at] = 0xf7
    bytes[at + 1] = 0x7f
  }
}

/** Rounds elements to tf32, as a load by a map of that type does: to 10 bits of fraction, the nearest, ties to even. */
function roundToTf32(bytes: Uint8Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let at = 0; at + 4 <= bytes.byteLength; at += 4) {
    const bits = view.getUint32(at, true)
    const isNotANumber = (bits & 0x7fffffff) > 0x7f800000
    const rounded = (bits + 0xfff + ((bits >>> 13) & 1)) & 0xffffe000
    view.setInt32(at, isNotANumber ? 0x7fffe000 : rounded, true)
  }
}

function inHex(address: number): string {
  return address >= WINDOW
    ? `byte ${(address - WINDOW) % 2 ** CLUSTER_STRIDE_BITS} of shared memory`
    : `0x${address.toString(16)}`
}
