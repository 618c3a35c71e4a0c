/** Finds accesses of different threads to the same bytes of shared memory, of which no barrier says which comes first. */
import type { Decoded } from './decoding.js'
import { SHADOW } from './layout.js'

export interface SharedRace {
  /** The thread of the earlier access. */
  readonly other: number
  readonly before: Decoded | undefined
}

interface Access {
  readonly thread: number
  readonly epoch: number
  readonly warpEpoch: number
  readonly atomic: boolean
  readonly at: Decoded | undefined
}

export class SharedRaces {
  readonly #writers: (Access | undefined)[]
  readonly #readers: (Access | undefined)[]
  #epoch = 0
  readonly #warpEpochs = new Int32Array(32)

  constructor(byteLength: number) {
    this.#writers = new Array<Access | undefined>(byteLength)
    this.#readers = new Array<Access | undefined>(byteLength)
  }

  /** All threads of the block met. */
  barrier(): void {
    this.#epoch++
  }

  /** The lanes of a warp met; of all warps for -1. */
  warpBarrier(warp: number): void {
    if (warp < 0) for (let each = 0; each < 32; each++) this.#warpEpochs[each] = (this.#warpEpochs[each] ?? 0) + 1
    else this.#warpEpochs[warp] = (this.#warpEpochs[warp] ?? 0) + 1
  }

  access(
    address: number,
    bytes: number,
    access: number,
    thread: number,
    at: Decoded | undefined,
  ): SharedRace | undefined {
    const warp = thread >> 5
    const atomic = (access & SHADOW.atomic) !== 0
    const own: Access = { thread, epoch: this.#epoch, warpEpoch: this.#warpEpochs[warp] ?? 0, atomic, at }
    let race: SharedRace | undefined
    const compare = (earlier: Access | undefined): void => {
      if (earlier === undefined || earlier.thread === thread || earlier.epoch !== own.epoch) return
      if (earlier.atomic && atomic) return
      const sameWarp = earlier.thread >> 5 === warp
      if (sameWarp && earlier.warpEpoch !== own.warpEpoch) return
      race ??= { other: earlier.thread, before: earlier.at }
    }
    for (let byte = address; byte < address + bytes; byte++) {
      compare(this.#writers[byte])
      if ((access & SHADOW.written) !== 0) {
        compare(this.#readers[byte])
        this.#writers[byte] = own
      }
      if ((access & SHADOW.read) !== 0) this.#readers[byte] = own
    }
    return race
  }
}
