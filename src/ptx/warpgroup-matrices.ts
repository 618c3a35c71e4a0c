/** Products of matrices by a warpgroup: where `wgmma` finds a, b and the sum, and where it leaves the result. */
import type { Decoded } from './decoding.js'
import type { KernelCode } from './kernel-code.js'
import type { LaunchRunTime } from './launch-run-time.js'
import { SHADOW, SHARED_WINDOW } from './layout.js'
import { descriptorOf, type MatrixDescriptor, UNIT, unitAcross, unitOfRow } from './matrix-descriptors.js'
import type { Cell, Stop } from './program.js'
import type { Resident } from './resident.js'
import { bytesOf, type Factor, type Product, productOf } from './tensor-sums.js'
import { operationOf } from './thread-places.js'

/** The threads of a warpgroup: four warps, of which the first has a number that four divides. */
export const WARPGROUP_THREADS = 128
const ROWS = 64
/** The bytes along k of a row of a, and of a column of b; if a is sparse, a column of b has twice as many. */
const ROW_BYTES = 32

/** The values that the lanes of a warp brought to an instruction, and the places of its results. */
class WarpValues {
  readonly #sources = new Map<string, Cell[]>()
  readonly #results: readonly Cell[]

  constructor(
    private readonly words: Int32Array,
    { cells }: Stop,
    /** The index of the first lane's frame, and the distance of the next. */
    private readonly frames: number,
    private readonly step: number,
  ) {
    for (const cell of cells?.sources ?? []) {
      const list = this.#sources.get(cell.name)
      if (list === undefined) this.#sources.set(cell.name, [cell])
      else list.push(cell)
    }
    this.#results = cells?.results ?? []
  }

  countOf(name: string): number {
    return this.#sources.get(name)?.length ?? 0
  }

  word(lane: number, name: string, half: 0 | 1 = 0): number {
    const [cell] = this.#sources.get(name) ?? []
    if (cell === undefined) return 0
    if (cell.offset === undefined) return constantOf(cell, half)
    return this.words[this.frames + lane * this.step + (cell.offset >> 2) + half] ?? 0
  }

  /** The words of a register of all lanes. */
  register(name: string, index: number, into: Int32Array): void {
    const cell = this.#sources.get(name)?.[index]
    if (cell?.offset === undefined) {
      into.fill(cell === undefined ? 0 : constantOf(cell, 0))
      return
    }
    let at = this.frames + (cell.offset >> 2)
    for (let lane = 0; lane < 32; lane++, at += this.step) into[lane] = this.words[at] ?? 0
  }

  leave(index: number, results: Int32Array): void {
    const offset = this.#results[index]?.offset
    if (offset === undefined) return
    let at = this.frames + (offset >> 2)
    for (let lane = 0; lane < 32; lane++, at += this.step) this.words[at] = results[lane] ?? 0
  }
}

function constantOf({ constant = 0n }: Cell, half: 0 | 1): number {
  return Number(BigInt.asIntN(32, half === 0 ? constant : constant >> 32n))
}

/** The values of the threads of a warpgroup. */
class Values {
  constructor(readonly warps: readonly WarpValues[]) {}

  /** The number of registers of an operand. */
  countOf(name: string): number {
    return this.warps[0]?.countOf(name) ?? 0
  }

  word(thread: number, name: string, half: 0 | 1 = 0): number {
    return this.warps[thread >> 5]?.word(thread & 31, name, half) ?? 0
  }

  descriptor(thread: number, name: string): MatrixDescriptor {
    return descriptorOf(this.word(thread, name), this.word(thread, name, 1))
  }
}

export class WarpgroupMatrices {
  constructor(
    private readonly code: KernelCode,
    private readonly runTime: LaunchRunTime,
  ) {}

  /** Carries out a product for the warpgroup that begins with the thread `first`, whose warps have stopped at these instructions of one kind. */
  multiply(resident: Resident, stops: readonly Stop[], first: number): void {
    const [stop] = stops
    if (stop?.at === undefined) throw new Error('Nothing meets here')
    const { at } = stop
    const { threadBytes } = this.code.program
    const step = threadBytes >> 2
    const begin = (resident.frames >> 2) + first * step
    const { words } = this.code.memory
    const values = new Values(stops.map((each, warp) => new WarpValues(words, each, begin + 32 * warp * step, step)))
    const { modifiers } = at
    const [, n = 0, k = 0] = /n(\d+)k(\d+)$/.exec(modifiers['shape'] ?? '')?.map(Number) ?? []
    const factor = (type: string, sign: string, bytes: Uint8Array): Factor => ({
      type: modifiers[type] ?? 'f16',
      bytes,
      isNegative: values.word(0, sign) === -1,
    })
    const isSparse = operationOf(stop) === 'warpgroup.sparse'
    const stored =
      values.countOf('a') > 1 ? ofRegisters(values) : this.#fromShared(resident, at, first, values, 'a', ROWS)
    const a = isSparse ? spread(values, stored, modifiers['X'] ?? 'f16') : stored
    const b = this.#fromShared(resident, at, first, values, 'b', n, isSparse ? 2 * ROW_BYTES : ROW_BYTES)
    const product: Product = {
      columns: n,
      k,
      type: modifiers['D'] ?? 'f32',
      saturates: modifiers['satfinite'] !== undefined,
      a: factor('X', 'e', a),
      b: factor('Y', 'f', b),
      sums: sumsOf(values, n, modifiers['D'] === 'f16'),
    }
    leaveSums(values, n, modifiers['D'] === 'f16', productOf(product))
  }

  /** The bytes of a matrix in shared memory, those of each row of a or column of b together. */
  #fromShared(
    resident: Resident,
    at: Decoded,
    first: number,
    values: Values,
    name: 'a' | 'b',
    rows: number,
    rowBytes = ROW_BYTES,
  ): Uint8Array {
    const into = new Uint8Array(rows * rowBytes)
    const isTransposed = values.word(0, name === 'a' ? 't' : 'u') === 1
    // The first thread's descriptor counts for all, as on an H200.
    const descriptor = values.descriptor(0, name)
    const { bytes } = this.code.memory
    const { checked } = this.code.options
    for (let warp = 0; warp < 4; warp++) {
      // Each warp reads its sixteen rows of a, and all of b, which is read once unless each access is looked at.
      if (name === 'b' && warp > 0 && !checked) break
      const [begin, end] = name === 'a' ? [16 * warp, 16 * warp + 16] : [0, rows]
      const thread = first + 32 * warp
      const frame = resident.frames + thread * this.code.program.threadBytes
      const find = (address: number): number =>
        this.runTime.translate(address + Number(SHARED_WINDOW), UNIT, SHADOW.read, frame, thread, at)
      if (isTransposed) {
        for (let unit = begin / 8; unit < end / 8; unit++) {
          for (let column = 0; column < rowBytes / 2; column++) {
            const from = find(unitAcross(descriptor, unit, column))
            for (let index = 0; index < UNIT; index++) {
              const row = 8 * unit + (index >> 1)
              into[row * rowBytes + 2 * column + (index & 1)] = bytes[from + index] ?? 0
            }
          }
        }
        continue
      }
      for (let row = begin; row < end; row++) {
        for (let unit = 0; unit < rowBytes / UNIT; unit++) {
          const from = find(unitOfRow(descriptor, row, unit))
          into.set(bytes.subarray(from, from + UNIT), row * rowBytes + unit * UNIT)
        }
      }
    }
    return into
  }
}

/** The words of one register of the lanes of a warp. */
const lanes = new Int32Array(32)

/** The bytes of a that threads have in registers: a group of four lanes has a row, and the row eight below it. */
function ofRegisters({ warps }: Values): Uint8Array {
  const words = new Int32Array((ROWS * ROW_BYTES) / 4)
  for (const [warp, values] of warps.entries()) {
    for (let index = 0; index < 4; index++) {
      values.register('a', index, lanes)
      for (let lane = 0; lane < 32; lane++) {
        const row = 16 * warp + (lane >> 2) + 8 * (index & 1)
        words[row * (ROW_BYTES / 4) + (lane & 3) + 4 * (index >> 1)] = lanes[lane] ?? 0
      }
    }
  }
  return new Uint8Array(words.buffer)
}

/** The bytes of a sparse matrix with the zeros that it leaves out: of four elements beside each other two are stored, of two tf32 one. */
function spread(values: Values, stored: Uint8Array, type: string): Uint8Array {
  const all = new Uint8Array(2 * stored.length)
  const bytes = bytesOf(type)
  const selected = values.word(0, 'i')
  const groups = (2 * ROW_BYTES) / (bytes === 4 ? 8 : 4 * bytes)
  for (let row = 0; row < ROWS; row++) {
    const lane = 32 * (row >> 4) + 4 * (row & 7)
    const half = (row >> 3) & 1
    for (let group = 0; group < groups; group++) {
      const thread = lane + (bytes === 1 ? half + 2 * (group >> 3) : 2 * selected + (group >> 2))
      const places = values.word(thread, 'm') >>> (4 * (bytes === 1 ? group & 7 : (group & 3) + 4 * half))
      // The places of a tf32 are those of its halves.
      const kept = bytes === 4 ? [(places & 3) >> 1] : [places & 3, (places >> 2) & 3]
      for (const [index, place] of kept.entries()) {
        const from = row * ROW_BYTES + (group * kept.length + index) * bytes
        all.set(stored.subarray(from, from + bytes), 2 * row * ROW_BYTES + (2 * group * kept.length + place) * bytes)
      }
    }
  }
  return all
}

/** The sums before, as bits, row by row; zeros where none are asked for. */
function sumsOf({ warps }: Values, columns: number, isHalf: boolean): Int32Array {
  const sums = new Int32Array(ROWS * columns)
  // If lanes of the first warp do not agree, as they should, an H200 takes the sums before.
  const [first] = warps
  if (!Array.from({ length: 32 }, (_, lane) => (first?.word(lane, 's') ?? 0) & 1).includes(1)) return sums
  for (const [warp, values] of warps.entries()) {
    for (let index = 0; index < columns / (isHalf ? 4 : 2); index++) {
      values.register('d', index, lanes)
      for (let lane = 0; lane < 32; lane++) {
        const at = placeOf(warp, lane, isHalf ? index : index >> 1, columns)
        const word = lanes[lane] ?? 0
        if (isHalf) {
          sums[at] = word & 0xffff
          sums[at + 1] = word >>> 16
        } else sums[at + (index & 1)] = word
      }
    }
  }
  return sums
}

function leaveSums({ warps }: Values, columns: number, isHalf: boolean, sums: Int32Array): void {
  for (const [warp, values] of warps.entries()) {
    for (let index = 0; index < columns / (isHalf ? 4 : 2); index++) {
      for (let lane = 0; lane < 32; lane++) {
        const at = placeOf(warp, lane, isHalf ? index : index >> 1, columns)
        lanes[lane] = isHalf ? (sums[at] ?? 0) | ((sums[at + 1] ?? 0) << 16) : (sums[at + (index & 1)] ?? 0)
      }
      values.leave(index, lanes)
    }
  }
}

/** The place of the first of two sums beside each other that a thread has: they alternate between two of its warp's rows. */
function placeOf(warp: number, lane: number, pair: number, columns: number): number {
  return (16 * warp + (lane >> 2) + 8 * (pair & 1)) * columns + 8 * (pair >> 1) + 2 * (lane & 3)
}
