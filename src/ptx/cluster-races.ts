/**
 * Finds accesses of different blocks of a cluster to the same bytes of shared memory whose order nothing determines. In order are accesses between
 * which all blocks met at the barrier of the cluster. A wait for an mbarrier, a fence and an access that orders others may stand for a meeting of two
 * blocks; which blocks is not followed, so that they count as a meeting of all.
 */
import type { Decoded } from './decoding.js'
import { SHADOW } from './layout.js'

export interface ClusterRace {
  /** The rank of the block that made the earlier access. */
  readonly other: number
  readonly before: Decoded | undefined
}

interface Access {
  readonly rank: number
  readonly epoch: number
  readonly at: Decoded | undefined
}

/** The latest accesses of one kind to a byte: the last one, and the last one of another block. */
interface Latest {
  last: Access
  other: Access | undefined
}

const WRITES = 0
const READS = 1
const ATOMICS = 2

/** The shared memory of one block, as the blocks of its cluster access it. */
export class ClusterRaces {
  readonly #kinds: readonly (Latest | undefined)[][] = [[], [], []]

  /** @param epoch The number of meetings so far, which orders accesses before a meeting with those behind it */
  access(
    address: number,
    bytes: number,
    access: number,
    rank: number,
    epoch: number,
    at: Decoded | undefined,
  ): ClusterRace | undefined {
    const isAtomic = (access & SHADOW.atomic) !== 0
    const kind = isAtomic ? ATOMICS : (access & SHADOW.written) !== 0 ? WRITES : READS
    const conflicts = kind === WRITES ? [WRITES, READS, ATOMICS] : kind === READS ? [WRITES, ATOMICS] : [WRITES, READS]
    const own: Access = { rank, epoch, at }
    let race: ClusterRace | undefined
    for (let byte = address; byte < address + bytes; byte++) {
      for (const conflict of conflicts) {
        const latest = this.#kinds[conflict]?.[byte]
        for (const earlier of [latest?.last, latest?.other]) {
          if (earlier === undefined || earlier.rank === rank || earlier.epoch !== epoch) continue
          race ??= { other: earlier.rank, before: earlier.at }
        }
      }
      this.#note(kind, byte, own)
    }
    return race
  }

  #note(kind: number, byte: number, own: Access): void {
    const all = this.#kinds[kind]
    if (all === undefined) return
    const latest = all[byte]
    if (latest === undefined || latest.last.epoch !== own.epoch) all[byte] = { last: own, other: undefined }
    else {
      if (latest.last.rank !== own.rank) latest.other = latest.last
      latest.last = own
    }
  }
}

/** Whether an instruction may order what blocks do, as a flag or a lock does. */
export function ordersBlocks({ form, modifiers, instruction }: Decoded): boolean {
  if (form.opcode === 'mbarrier') return true
  return !/^(?:|weak)$/.test(modifiers['order'] ?? '') || /^(?:atom|red)\..*\b(?:cas|exch)\b/.test(instruction.opcode)
}
