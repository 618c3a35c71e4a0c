/** What operations do to memory when they end, and which bytes they read and write. */
import type { FillWidth, Pointer } from '../driver.js'
import { type Block, DeviceMemory, PIECE } from './memory-blocks.js'
import type { CopyEngine, Touch, Work } from './objects.js'

export class CopyWork implements Work {
  readonly what = 'copy'
  readonly name = 'copy'
  readonly engine: CopyEngine | undefined
  /** Kept reachable until it is done. */
  readonly held: readonly unknown[]
  readonly #to: Block
  readonly #destination: Pointer
  readonly #from: Block
  readonly #source: Pointer
  readonly byteLength: number

  constructor(
    to: Block,
    destination: Pointer,
    from: Block,
    source: Pointer,
    byteLength: number,
    engine: CopyEngine | undefined,
  ) {
    this.held = [to.prepare(destination, byteLength), from.prepare(source, byteLength)]
    this.engine = engine
    this.#to = to
    this.#destination = destination
    this.#from = from
    this.#source = source
    this.byteLength = byteLength
  }

  get touches(): readonly Touch[] {
    const { byteLength } = this
    return [
      { pointer: this.#source, byteLength, writes: false },
      { pointer: this.#destination, byteLength, writes: true },
    ]
  }

  /** Which kinds of memory, and of which device, cannot be changed. */
  get shape(): string {
    return `copy ${endOf(this.#to)} from ${endOf(this.#from)}`
  }

  effect(): void {
    for (let done = 0; done < this.byteLength; done += PIECE) {
      const bytes = this.#from.read((this.#source + done) as Pointer, Math.min(PIECE, this.byteLength - done))
      this.#to.write((this.#destination + done) as Pointer, bytes)
    }
  }
}

export class FillWork implements Work {
  readonly what = 'fill'
  readonly name = 'fill'
  readonly engine = undefined
  /** The width may change. */
  readonly shape = 'fill'
  readonly held: unknown
  readonly #block: Block
  readonly #pointer: Pointer
  readonly #value: number
  readonly #width: FillWidth
  readonly #count: number

  constructor(block: Block, pointer: Pointer, value: number, width: FillWidth, count: number) {
    this.held = block.prepare(pointer, count * width)
    this.#block = block
    this.#pointer = pointer
    this.#value = value
    this.#width = width
    this.#count = count
  }

  get byteLength(): number {
    return this.#count * this.#width
  }

  get touches(): readonly Touch[] {
    return [{ pointer: this.#pointer, byteLength: this.byteLength, writes: true }]
  }

  effect(): void {
    this.#block.fill(this.#pointer, this.#value, this.#width, this.#count)
  }
}

/** The memory is gone: what is read there is poison. */
export class FreeWork implements Work {
  readonly what = 'free'
  readonly name = 'free'
  readonly engine = undefined
  readonly byteLength = undefined
  readonly shape = undefined
  readonly #block: Block
  readonly #giveBack: (block: Block) => void

  constructor(block: Block, giveBack: (block: Block) => void) {
    this.#block = block
    this.#giveBack = giveBack
  }

  get touches(): readonly Touch[] {
    return [{ pointer: this.#block.pointer, byteLength: this.#block.byteLength, writes: true }]
  }

  effect(): void {
    this.#block.free()
    this.#giveBack(this.#block)
  }
}

const endOf = (block: Block): string => (block instanceof DeviceMemory ? `device ${block.device.ordinal}` : 'host')
