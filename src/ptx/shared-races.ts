/** Finds accesses of different threads to the same bytes of shared memory whose order no barrier determines. */
import type { Decoded } from './decoding.js'
import { SHADOW } from './layout.js'

export interface SharedRace {
  /** The number of the thread that made the earlier access. */
  readonly other: number
  readonly before: Decoded | undefined
  /** Whether both accesses are plain writes that conflict in nothing else: they do no harm if they write the same values. */
  readonly isOfWrites: boolean
}

/** A read of shared memory that nothing had written. */
export interface EarlyRead {
  readonly address: number
  readonly bytes: number
  readonly thread: number
  readonly isAtomic: boolean
  readonly at: Decoded | undefined
  /** Whether another thread has written the bytes without a barrier between, so that the mistake is reported as that race alone. */
  isRace: boolean
}

const WRITTEN = 1
const READ = 2

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
  /** The last write to each byte. One is enough, since it was compared with the write before. */
  readonly #writers: (Access | undefined)[]
  /**
   * The latest readers of each byte. They and the atomics are kept apart from writers: a thread that reads or writes its own byte must not hide
   * another one.
   */
  readonly #readers: (LatestAccesses | undefined)[]
  readonly #atomics: (LatestAccesses | undefined)[]
  /** Whether each byte has been written, or has been read before that; undefined if neither. */
  readonly #contents: (typeof WRITTEN | typeof READ | undefined)[]
  /** The first read of each byte that nothing had written, since the last barrier; keys are the bytes' addresses. */
  readonly #early = new Map<number, EarlyRead>()
  #epoch = 0
  readonly #warpEpochs = new Int32Array(32)

  constructor(byteLength: number) {
    this.#contents = new Array<typeof WRITTEN | undefined>(byteLength)
    this.#writers = new Array<Access | undefined>(byteLength)
    this.#readers = new Array<LatestAccesses | undefined>(byteLength)
    this.#atomics = new Array<LatestAccesses | undefined>(byteLength)
  }

  /** Notes that all threads of the block met. */
  barrier(): void {
    this.#epoch++
  }

  /** Notes that the lanes of a warp met at `bar.warp.sync`; -1 stands for all warps. Shuffles and votes order no memory. */
  warpBarrier(warp: number): void {
    if (warp < 0) for (let each = 0; each < 32; each++) this.#warpEpochs[each] = (this.#warpEpochs[each] ?? 0) + 1
    else this.#warpEpochs[warp] = (this.#warpEpochs[warp] ?? 0) + 1
  }

  /** Notes the bytes that an access writes, and whether it reads some that nothing wrote. */
  noteContents(address: number, bytes: number, access: number, thread: number, at: Decoded | undefined): void {
    let early: EarlyRead | undefined
    for (let byte = address; byte < address + bytes; byte++) {
      const contents = this.#contents[byte]
      if (contents === WRITTEN) continue
      if (contents === READ && (access & SHADOW.written) !== 0) this.#overtake(byte, access, thread)
      if (contents === undefined && (access & SHADOW.read) !== 0) {
        early ??= { address, bytes, thread, isAtomic: (access & SHADOW.atomic) !== 0, at, isRace: false }
        this.#early.set(byte, early)
      }
      this.#contents[byte] = (access & SHADOW.written) !== 0 ? WRITTEN : READ
    }
  }

  /** Notes a write to a byte that was read before: if another thread read it, the two race, and the early read is no mistake of its own. */
  #overtake(byte: number, access: number, thread: number): void {
    const early = this.#early.get(byte)
    if (early === undefined || early.thread === thread || (early.isAtomic && (access & SHADOW.atomic) !== 0)) return
    early.isRace = true
  }

  /** Returns the reads of bytes that nothing had written, up to this barrier or the end of the block. */
  takeEarlyReads(): readonly EarlyRead[] {
    if (this.#early.size === 0) return []
    const found = [...new Set(this.#early.values())].filter(({ isRace }) => !isRace)
    this.#early.clear()
    return found
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
