/** Memory that comes after some was given back: whatever writes there still hurts it. */
import type { MemoryKind } from '../../catalogue/axes.js'
import type { Lab, Piece } from '../../catalogue/lab.js'

const KINDS: readonly MemoryKind[] = ['device', 'device', 'slice', 'pinned', 'pinned slice', 'interprocess']
const WORD = 0x77777777

export class Victims {
  readonly #lab: Lab
  #pieces: readonly Piece[] = []

  constructor(lab: Lab) {
    this.#lab = lab
  }

  /** Makes memory of the sizes that operands have, and writes over it. */
  arrive(): void {
    this.#pieces = KINDS.map((kind) => this.#lab.make(kind, this.#lab.allocationStream))
    for (const piece of this.#pieces) this.#lab.write(piece, WORD)
  }

  /** To be called when all that was queued before is done. */
  async check(): Promise<void> {
    await this.#lab.allocationStream.finished()
    for (const piece of this.#pieces) this.#lab.check('memory of others', piece, WORD, WORD)
  }

  dispose(): void {
    for (const piece of this.#pieces) piece.dispose()
  }
}
