/** Finds accesses of different threads to the same bytes of shared memory, of which no barrier says which comes first. */
import type { Decoded } from './decoding.js'
import { SHADOW } from './layout.js'

export interface SharedRace {
  /** The thread of the earlier access. */
  readonly other: number
  readonly before: Decoded | undefined
  /** Whether both write, and nothing else is wrong: that does no harm if they write the same. */
  readonly isOfWrites: boolean
}

interface Access {
  readonly thread: number
  readonly epoch: number
  readonly warpEpoch: number
  readonly at: Decoded | undefined
}

/**
 * The accesses of one kind to one byte since the last barrier, as far as they matter: the last one, the last one of another
 * thread, and the last one of another warp. If any of all accesses is unordered with an access to come, one of these three is.
 */
class LatestAccesses {
  last: Access | undefined
  ofOtherThread: Access | undefined
  ofOtherWarp: Access | undefined

  add(access: Access): void {
    const { last } = this
    if (last?.epoch !== access.epoch) {
      this.ofOtherThread = undefined
      this.ofOtherWarp = undefined
    } else {
      if (last.thread >> 5 !== access.thread >> 5) this.ofOtherWarp = last
      if (last.thread !== access.thread) this.ofOtherThread = last
    }
    this.last = access
  }
}

function addTo(all: (LatestAccesses | undefined)[], byte: number, access: Access): void {
  const latest = all[byte] ?? new LatestAccesses()
  latest.add(access)
  all[byte] = latest
}

export class SharedRaces {
  /** By byte, the last write is enough: it was compared with the write before. */
  readonly #writers: (Access | undefined)[]
  /** Readers and atomics are kept apart from writers: a thread that reads or writes its own byte must not hide another thread. */
  readonly #readers: (LatestAccesses | undefined)[]
  readonly #atomics: (LatestAccesses | undefined)[]
  #epoch = 0
  readonly #warpEpochs = new Int32Array(32)

  constructor(byteLength: number) {
    this.#writers = new Array<Access | undefined>(byteLength)
    this.#readers = new Array<LatestAccesses | undefined>(byteLength)
    this.#atomics = new Array<LatestAccesses | undefined>(byteLength)
  }

  /** All threads of the block met. */
  barrier(): void {
    this.#epoch++
  }

  /** The lanes of a warp met at `bar.warp.sync`; those of all warps for -1. Shuffles and votes order no memory. */
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
    const isAtomic = (access & SHADOW.atomic) !== 0
    const writes = (access & SHADOW.written) !== 0
    const own: Access = { thread, epoch: this.#epoch, warpEpoch: this.#warpEpochs[warp] ?? 0, at }
    let race: SharedRace | undefined
    const compare = (earlier: Access | undefined, isOfWrites = false): void => {
      if (earlier === undefined || earlier.thread === thread || earlier.epoch !== own.epoch) return
      if (earlier.thread >> 5 === warp && earlier.warpEpoch !== own.warpEpoch) return
      if (race === undefined || (race.isOfWrites && !isOfWrites)) {
        race = { other: earlier.thread, before: earlier.at, isOfWrites }
      }
    }
    const compareAll = (latest: LatestAccesses | undefined): void => {
      compare(latest?.last)
      compare(latest?.ofOtherThread)
      compare(latest?.ofOtherWarp)
    }
    for (let byte = address; byte < address + bytes; byte++) {
      compare(this.#writers[byte], writes && !isAtomic)
      if (!isAtomic) compareAll(this.#atomics[byte])
      if (writes) compareAll(this.#readers[byte])
      if (isAtomic) addTo(this.#atomics, byte, own)
      else if (writes) this.#writers[byte] = own
      else addTo(this.#readers, byte, own)
    }
    return race
  }
}
