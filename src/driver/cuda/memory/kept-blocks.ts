/**
 * Memory that was given back and is kept for the next that wants some: giving it to the driver can wait for the whole
 * device.
 */
import type { Pointer } from '../../driver.js'

export interface Block {
  readonly pointer: Pointer
  readonly byteLength: number
}

export class KeptBlocks {
  readonly #blocks: Block[] = []
  #bytes = 0

  /** `most` is how many bytes are worth keeping. */
  constructor(private readonly most: number) {}

  hasRoomFor(block: Block): boolean {
    return this.#bytes + block.byteLength <= this.most
  }

  keep(block: Block): void {
    this.#blocks.push(block)
    this.#bytes += block.byteLength
  }

  /** The smallest that is large enough, and not so large that much is wasted. */
  take(wanted: number): Block | undefined {
    let best: Block | undefined
    for (const block of this.#blocks) {
      if (block.byteLength < wanted || block.byteLength > 2 * wanted) continue
      if (best === undefined || block.byteLength < best.byteLength) best = block
    }
    if (best === undefined) return undefined
    this.#blocks.splice(this.#blocks.indexOf(best), 1)
    this.#bytes -= best.byteLength
    return best
  }

  takeAll(): readonly Block[] {
    this.#bytes = 0
    return this.#blocks.splice(0)
  }
}
