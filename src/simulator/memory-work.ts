/** The effects of operations on memory when they end, and the bytes that they read and write. */

import type { Comparison } from '../foundation/driver/driver-constants.js'
import type { Pointer } from '../foundation/driver/handle-types.js'
import type { FillWork, QueuedCopy } from '../foundation/driver/queued-work.js'
import { bytesIn, extentOf, isMet, type MemoryRows, type MemoryValue } from '../foundation/driver/touched-memory.js'
import { type Computation, InParts } from './machine/slice.js'
import type { Touch, Work } from './machine/work.js'
import { DeviceMemory, type MemoryBlock } from './memory-blocks.js'

/** The bytes that a copy or fill moves in one part: about a millisecond's worth, and less than a view may have. */
export const PART = 2 ** 22
/** The bytes that could be moved while the work goes on to another row. */
const COST_OF_ROW = 256

/** Work that moves bytes row by row, and part by part where they are many. */
abstract class Moving {
  /** The number of rows, and the bytes of each. */
  protected abstract readonly rows: number
  protected abstract readonly rowLength: number

  /** Moves so many bytes of a row, from the byte `at` of the row on. */
  protected abstract move(row: number, at: number, length: number): void

  effect(): void {
    new InParts(this.#parts()).run()
  }

  compute(): Computation | undefined {
    return this.rows * (this.rowLength + COST_OF_ROW) <= PART ? undefined : new InParts(this.#parts())
  }

  *#parts(): Generator<undefined, void> {
    let moved = 0
    for (let row = 0; row < this.rows; row += 1) {
      for (let at = 0; at < this.rowLength; at += PART) {
        const length = Math.min(PART, this.rowLength - at)
        this.move(row, at, length)
        moved += length + COST_OF_ROW
        if (moved < PART) continue
        moved = 0
        yield
      }
    }
  }
}

/** The addresses between which a copy copies. */
interface CopyEnds {
  readonly source: Pointer
  readonly destination: Pointer
}

export class CopyEffect extends Moving implements Work {
  readonly what = 'copy'
  readonly name = 'copy'
  /** Objects that stay reachable until the copy is done. */
  readonly held: readonly unknown[]
  /** Called when the copy reads. */
  reads: QueuedCopy['reads']

  constructor(
    private readonly to: MemoryBlock,
    private readonly destination: Pointer,
    private readonly from: MemoryBlock,
    private readonly source: Pointer,
    readonly byteLength: number,
    readonly engine: number | undefined,
  ) {
    super()
    this.held = [to.prepare(destination, byteLength), from.prepare(source, byteLength)]
  }

  get touches(): readonly Touch[] {
    const { byteLength } = this
    return [
      { pointer: this.source, byteLength, writes: false },
      { pointer: this.destination, byteLength, writes: true },
    ]
  }

  /** The addresses between which it copies. */
  get ends(): CopyEnds {
    return { source: this.source, destination: this.destination }
  }

  get shape(): string {
    return `copy ${this.places}`
  }

  /** The kinds of memory between which the copy goes, which an update of a graph cannot change. */
  get places(): string {
    return placesOf(this.to, this.from)
  }

  protected readonly rows = 1

  protected get rowLength(): number {
    return this.byteLength
  }

  protected move(_row: number, at: number, length: number): void {
    if (at === 0) this.reads?.((address) => this.from.isUnwritten(address))
    this.to.write((this.destination + at) as Pointer, this.from.read((this.source + at) as Pointer, length))
  }
}

/** One end of a copy of rows. */
interface RowsAt {
  readonly block: MemoryBlock
  readonly pointer: Pointer
  readonly rows: MemoryRows
}

export class RowsEffect extends Moving implements Work {
  readonly what = 'copy'
  readonly name = 'copy'
  readonly byteLength: number
  /** Objects that stay reachable until the copy is done. */
  readonly held: readonly unknown[]

  constructor(
    private readonly to: RowsAt,
    private readonly from: RowsAt,
    readonly engine: number | undefined,
  ) {
    super()
    this.byteLength = bytesIn(to.rows)
    this.held = [to, from].map(({ block, pointer, rows }) => block.prepare(pointer, extentOf(rows)))
  }

  get ends(): CopyEnds {
    return { source: this.from.pointer, destination: this.to.pointer }
  }

  get touches(): readonly Touch[] {
    const touch = ({ pointer, rows }: RowsAt, writes: boolean): Touch => ({
      pointer,
      byteLength: extentOf(rows),
      writes,
    })
    return [touch(this.from, false), touch(this.to, true)]
  }

  get shape(): string {
    return `copy of rows ${this.places}`
  }

  get places(): string {
    return placesOf(this.to.block, this.from.block)
  }

  protected get rows(): number {
    return this.to.rows.matrices * this.to.rows.rows
  }

  protected get rowLength(): number {
    return this.to.rows.rowLength
  }

  protected move(row: number, at: number, length: number): void {
    const { to, from } = this
    const matrix = Math.floor(row / to.rows.rows)
    const place = ({ pointer, rows }: RowsAt): Pointer =>
      (pointer + matrix * rows.matrixDistance + (row - matrix * to.rows.rows) * rows.rowDistance + at) as Pointer
    to.block.write(place(to), from.block.read(place(from), length))
  }
}

export class FillEffect extends Moving implements Work {
  readonly what = 'fill'
  readonly name = 'fill'
  readonly engine = undefined
  /** The bytes that the fill writes. */
  readonly byteLength: number
  /** An object that stays reachable until the fill is done. */
  readonly held: unknown

  constructor(
    private readonly block: MemoryBlock,
    private readonly fill: FillWork,
  ) {
    super()
    this.byteLength = fill.count * fill.width
    this.held = block.prepare(fill.pointer, extentOfFill(fill))
  }

  get touches(): readonly Touch[] {
    return [{ pointer: this.fill.pointer, byteLength: extentOfFill(this.fill), writes: true }]
  }

  get isOfRows(): boolean {
    return this.fill.rows !== undefined
  }

  get filled(): { readonly destination: Pointer; readonly value: number; readonly width: number } {
    const { pointer, value, width } = this.fill
    return { destination: pointer, value, width }
  }

  /** The property that an update of a graph cannot change: the width of a plain fill may change, of a fill of rows only the value and the address. */
  get shape(): string {
    const { width, rows } = this.fill
    return rows === undefined ? 'fill' : `fill of rows ${[width, ...Object.values(rows)]}`
  }

  protected get rows(): number {
    return this.fill.rows?.rows ?? 1
  }

  protected get rowLength(): number {
    return this.fill.rows?.rowLength ?? this.byteLength
  }

  protected move(row: number, at: number, length: number): void {
    const { pointer, value, width, rows } = this.fill
    this.block.fill((pointer + row * (rows?.rowDistance ?? 0) + at) as Pointer, value, width, length / width)
  }
}

/** The bytes from the first that a fill writes to behind the last. */
export const extentOfFill = ({ width, count, rows }: FillWork): number =>
  rows === undefined ? width * count : extentOf(rows)

/** The effect of writing a word. */
export class WriteValueEffect implements Work {
  readonly what = 'writeValue'
  readonly name = 'writeValue'
  readonly engine = undefined
  readonly shape = 'writeValue'
  readonly byteLength: number
  readonly held: unknown

  constructor(
    private readonly block: MemoryBlock,
    private readonly at: MemoryValue,
  ) {
    this.byteLength = at.bits / 8
    this.held = block.prepare(at.pointer as Pointer, this.byteLength)
  }

  get touches(): readonly Touch[] {
    return [{ pointer: this.at.pointer, byteLength: this.byteLength, writes: true }]
  }

  effect(): void {
    const bytes = new BigUint64Array([this.at.value])
    this.block.write(this.at.pointer as Pointer, new Uint8Array(bytes.buffer, 0, this.byteLength))
  }
}

/** A wait of the stream until a word meets a comparison. */
export class WaitValueEffect implements Work {
  readonly what = 'waitValue'
  readonly name = 'waitValue'
  readonly engine = undefined
  readonly shape = 'waitValue'
  readonly byteLength = undefined
  readonly held: unknown

  constructor(
    private readonly block: MemoryBlock,
    private readonly at: MemoryValue,
    private readonly compare: Comparison,
  ) {
    this.held = block.prepare(at.pointer as Pointer, at.bits / 8)
  }

  get touches(): readonly Touch[] {
    return [{ pointer: this.at.pointer, byteLength: this.at.bits / 8, writes: false }]
  }

  readonly isReady = (): boolean => {
    const { pointer, bits } = this.at
    const bytes = new Uint8Array(8)
    bytes.set(this.block.read(pointer as Pointer, bits / 8))
    return isMet(new BigUint64Array(bytes.buffer)[0] ?? 0n, this.compare, this.at)
  }

  effect(): void {}
}

/** Work that is done in the order of streams, and touches no memory of the program. */
export class LaterEffect implements Work {
  readonly engine = undefined
  readonly byteLength = undefined
  readonly shape = undefined
  readonly touches: readonly Touch[] = []

  constructor(
    readonly what: string,
    readonly effect: () => void,
  ) {}

  get name(): string {
    return this.what
  }
}

export class FreeEffect implements Work {
  readonly what = 'free'
  readonly name = 'free'
  readonly engine = undefined
  readonly byteLength = undefined
  readonly shape = undefined

  constructor(
    private readonly block: MemoryBlock,
    private readonly giveBack: (block: MemoryBlock) => void,
  ) {}

  get touches(): readonly Touch[] {
    return [{ pointer: this.block.pointer, byteLength: this.block.byteLength, writes: true }]
  }

  effect(): void {
    this.block.free()
    this.giveBack(this.block)
  }
}

/** The kind of memory, as far as CUDA distinguishes it in the update of a copy: memory of a pool, or any other, that of the host included. */
const placeOf = (block: MemoryBlock): string =>
  block instanceof DeviceMemory && block.pool !== undefined
    ? `a pool of device ${block.device.ordinal}`
    : 'other memory'

/** The kinds of memory between which a copy goes. */
const placesOf = (to: MemoryBlock, from: MemoryBlock): string => `to ${placeOf(to)} from ${placeOf(from)}`
