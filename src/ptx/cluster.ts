/** The blocks of a cluster: they are on the device together, meet at the barrier of the cluster, and access each other's shared memory. */
import type { Triple } from './faults.js'
import { MIXED } from './layout.js'
import { GONE } from './thread-status.js'

/** The state of a thread that has not arrived at the barrier of the cluster since it waited there. */
const HAS_NOT_ARRIVED = -1

/** A block of a cluster, as far as the barrier of the cluster knows it. */
interface Member {
  readonly uniform: number
  readonly status: Uint8Array
  readonly arrivals: Int32Array
}

export class Cluster<B extends Member> {
  /** The blocks by their rank; those that have ended keep their shared memory until the whole cluster has. */
  readonly blocks: B[] = []
  readonly #ended = new Set<B>()
  /** The number of times that all threads of the cluster have met. */
  #meetings = 0
  /** The number of instructions so far that may have ordered what two blocks do. */
  orders = 0

  /** Begins with these blocks, and nothing of those before. */
  begin(blocks: readonly B[]): void {
    this.blocks.length = 0
    this.blocks.push(...blocks)
    this.#ended.clear()
    this.#meetings = 0
    this.orders = 0
    for (const { arrivals } of blocks) arrivals.fill(HAS_NOT_ARRIVED)
  }

  hasEnded(resident: B): boolean {
    return this.#ended.has(resident)
  }

  /** Notes that all threads of a block have ended; returns whether those of the whole cluster have. */
  end(resident: B): boolean {
    this.#ended.add(resident)
    return this.#ended.size === this.blocks.length
  }

  /** Notes that a thread has arrived at the barrier. */
  arrive({ arrivals }: B, thread: number): void {
    arrivals[thread] = this.#meetings
  }

  /** Whether a thread has arrived, and all others since then that have not ended. */
  haveMet({ arrivals }: B, thread: number): boolean {
    this.#meet()
    const arrival = arrivals[thread] ?? HAS_NOT_ARRIVED
    return arrival !== HAS_NOT_ARRIVED && arrival < this.#meetings
  }

  /** Lets a thread go on from the barrier. */
  leave({ arrivals }: B, thread: number): void {
    arrivals[thread] = HAS_NOT_ARRIVED
  }

  /** The number of times that all threads of the cluster have met. */
  get meetings(): number {
    return this.#meetings
  }

  #meet(): void {
    for (const block of this.blocks) {
      if (this.#ended.has(block)) continue
      const { arrivals, status, uniform } = block
      for (let thread = 0; thread < arrivals.length; thread++) {
        const hasEnded = uniform === MIXED && status[thread] === GONE
        if (!hasEnded && arrivals[thread] !== this.#meetings) return
      }
    }
    this.#meetings++
  }
}

/** The clusters of a grid: how many blocks each has, and which. */
export class ClusterGrid {
  /** The number of blocks of a cluster. */
  readonly size: number
  readonly #clusters: Triple

  constructor(
    private readonly grid: Triple,
    readonly shape: Triple,
  ) {
    this.size = shape[0] * shape[1] * shape[2]
    this.#clusters = [grid[0] / shape[0], grid[1] / shape[1], grid[2] / shape[2]]
  }

  /** The number in the grid of a cluster's block with this rank. */
  blockOf(cluster: number, rank: number): number {
    const [at, within] = [tripleIn(this.#clusters, cluster), tripleIn(this.shape, rank)]
    const [x, y, z] = [0, 1, 2].map((axis) => (at[axis] ?? 0) * (this.shape[axis] ?? 1) + (within[axis] ?? 0))
    return (x ?? 0) + this.grid[0] * ((y ?? 0) + this.grid[1] * (z ?? 0))
  }
}

function tripleIn(extent: Triple, number: number): Triple {
  const row = Math.floor(number / extent[0])
  return [number - row * extent[0], row % extent[1], Math.floor(row / extent[1])]
}
