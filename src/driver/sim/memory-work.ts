/** The effects of operations on memory when they end, and the bytes that they read and write. */
import type { FillWidth, Pointer } from '../driver.js'
import type { Touch, Work } from './machine/work.js'
import { DeviceMemory, type MemoryBlock, PIECE } from './memory-blocks.js'

export class CopyWork implements Work {
  readonly what = 'copy'
  readonly name = 'copy'
  /** Kept reachable until it is done. */
  readonly held: readonly unknown[]

  constructor(
    private readonly to: MemoryBlock,
    private readonly destination: Pointer,
    private readonly from: MemoryBlock,
    private readonly source: Pointer,
    readonly byteLength: number,
    readonly engine: number | undefined,
  ) {
    this.held = [to.prepare(destination, byteLength), from.prepare(source, byteLength)]
  }

  get touches(): readonly Touch[] {
    const { byteLength } = this
    return [
      { pointer: this.source, byteLength, writes: false },
      { pointer: this.destination, byteLength, writes: true },
    ]
  }

  /** A GPU lets the host make such a copy. */
  get isWithinHost(): boolean {
    return !(this.to instanceof DeviceMemory || this.from instanceof DeviceMemory)
  }

  /** Which kinds of memory, and of which device, cannot be changed. */
  get shape(): string {
    return `copy ${placeOf(this.to)} from ${placeOf(this.from)}`
  }

  effect(): void {
    for (let done = 0; done < this.byteLength; done += PIECE) {
      const bytes = this.from.read((this.source + done) as Pointer, Math.min(PIECE, this.byteLength - done))
      this.to.write((this.destination + done) as Pointer, bytes)
    }
  }
}

export class FillWork implements Work {
  readonly what = 'fill'
  readonly name = 'fill'
  readonly engine = undefined
  /** The width may change. */
  readonly shape = 'fill'
  readonly byteLength: number
  /** Kept reachable until it is done. */
  readonly held: unknown

  constructor(
    private readonly block: MemoryBlock,
    private readonly pointer: Pointer,
    private readonly value: number,
    private readonly width: FillWidth,
    private readonly count: number,
  ) {
    this.byteLength = count * width
    this.held = block.prepare(pointer, this.byteLength)
  }

  get touches(): readonly Touch[] {
    return [{ pointer: this.pointer, byteLength: this.byteLength, writes: true }]
  }

  effect(): void {
    this.block.fill(this.pointer, this.value, this.width, this.count)
  }
}

/** The memory is gone: what is read there is poison. */
export class FreeWork implements Work {
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

const placeOf = (block: MemoryBlock): string =>
  block instanceof DeviceMemory ? `device ${block.device.ordinal}` : 'host'
