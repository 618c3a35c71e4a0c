/** The blocks of a launch: which starts next, which are on the device, and where the memory of each lies. */

import { Cluster, type ClusterGrid } from './cluster.js'
import { BlockOrder } from './global-races.js'
import type { KernelCode } from './kernel-code.js'
import { type LaunchOptions, pickFrom } from './launch-options.js'
import type { LaunchReports } from './launch-reports.js'
import type { LaunchSpace } from './launch-space.js'
import { BLOCK, MULTIPROCESSORS } from './layout.js'
import type { Resident } from './resident.js'

/** The number of blocks among which a schedule picks the one that starts next, where blocks do not wait for each other. */
const UPCOMING = 32
/** The byte that fills shared memory, where a read of bytes that nothing wrote shall be noticed: a large number in each type. */
const UNWRITTEN = 0x7f

export interface BlockOptions {
  /** The number of blocks in the grid. */
  readonly blocks: number
  /** The number of threads of a block. */
  readonly threads: number
  /** The number of blocks that are on the device at once. */
  readonly residentLimit: number
  /** Whether blocks start in the order of their numbers, since they may wait in a loop for blocks before them. */
  readonly startsInOrder: boolean
  /** Whether shared memory that nothing wrote has a pattern. */
  readonly showsUnwritten: boolean
  /** Picks one of so many blocks that could run next; without it they take turns. */
  readonly choose: LaunchOptions['choose']
  /** The clusters of the grid, all of whose blocks start together; undefined if each block is a cluster of its own. */
  readonly clusters: ClusterGrid | undefined
}

export class LaunchBlocks {
  /** The blocks that are on the device and have not ended. */
  readonly resident: Resident[] = []
  readonly #idle: Resident[] = []
  /** The number of blocks that have started, and the number of those that have ended. */
  started = 0
  finished = 0
  /** The number of the first block that is not run here. */
  end: number
  /** The index, among those on the device, of the block that has the next turn. */
  #at = 0
  readonly #upcoming: number[] = []
  /** The number of the first block that has not been among those from which a schedule picks. */
  #listed = 0

  constructor(
    private readonly code: KernelCode,
    private readonly space: LaunchSpace,
    private readonly reports: LaunchReports,
    private readonly options: BlockOptions,
  ) {
    this.end = options.blocks
  }

  /** Whether a block that has not started may do so before another one ends. */
  get canStart(): boolean {
    const size = this.options.clusters?.size ?? 1
    if (this.started >= this.end) return false
    // A cluster needs room for all of its blocks, and one of them has it even if it is larger than the limit.
    return this.resident.length === 0 || this.resident.length + size <= this.options.residentLimit
  }

  /** The index of the block that has the next turn, which may start with it. */
  next(): number {
    const count = this.resident.length + (this.canStart ? 1 : 0)
    const { choose } = this.options
    const index = choose === undefined ? this.#at % count : pickFrom(count, choose)
    return index >= this.resident.length ? this.#start() : index
  }

  /** Notes that the turn of a block is over, and whether the block has ended. */
  turnEnded(index: number, done: boolean): void {
    this.#at = done ? index : index + 1
    const resident = this.resident[index]
    if (!done || resident === undefined) return
    this.finished++
    if (index === this.resident.length - 1) this.resident.pop()
    else this.resident.splice(index, 1)
    // Other blocks of the cluster may still know the memory of one that has ended.
    if (resident.cluster.end(resident)) this.#idle.push(...resident.cluster.blocks)
  }

  /** Begins to run blocks through, the next one first; returns the memory for one at a time. */
  beginRun(): Resident {
    const resident = this.#idle.pop() ?? this.#newResident()
    this.#place(resident, this.finished)
    return resident
  }

  /** Notes that `count` blocks have run from their start to their end. */
  endRun(resident: Resident, count: number): void {
    this.finished += count
    this.started = this.finished
    this.#idle.push(resident)
  }

  /** Runs these blocks and no others. */
  limitTo(begin: number, end: number): void {
    this.started = begin
    this.finished = begin
    this.end = end
  }

  /** Makes the next block of the grid resident, or those of the next cluster; returns the index of the first. */
  #start(): number {
    const { clusters } = this.options
    const first = this.resident.length
    const number = this.#nextBlock()
    if (clusters === undefined) {
      const resident = this.#begin(number)
      resident.rank = 0
      resident.cluster.begin([resident])
      return first
    }
    const blocks: Resident[] = []
    const cluster = new Cluster<Resident>()
    for (let rank = 0; rank < clusters.size; rank++) {
      const resident = this.#begin(clusters.blockOf(number, rank))
      resident.rank = rank
      resident.cluster = cluster
      blocks.push(resident)
    }
    cluster.begin(blocks)
    return first
  }

  #begin(number: number): Resident {
    const resident = this.#idle.pop() ?? this.#newResident()
    resident.uniform = 0
    if (resident.arrived.size > 0) resident.arrived.clear()
    resident.patience.fill(0)
    resident.missed.clear()
    resident.races = undefined
    resident.clusterRaces = undefined
    resident.unfinished = undefined
    resident.order = this.space.globalRaces && new BlockOrder(number)
    this.#place(resident, number)
    this.#clearShared(resident.shared)
    const { bytes } = this.code.memory
    const { hasLocalMemory, threadBytes } = this.code.program
    if (hasLocalMemory) bytes.fill(0, resident.frames, resident.frames + threadBytes * this.options.threads)
    this.resident.push(resident)
    return resident
  }

  /** The number of the block that starts next, or of the cluster. */
  #nextBlock(): number {
    const { choose, clusters } = this.options
    const size = clusters?.size ?? 1
    const next = this.started / size
    this.started += size
    if (choose === undefined || this.options.startsInOrder) return next
    const upcoming = this.#upcoming
    while (upcoming.length < UPCOMING && this.#listed < this.end / size) upcoming.push(this.#listed++)
    const at = pickFrom(upcoming.length, choose)
    const number = upcoming[at] ?? next
    upcoming[at] = upcoming.at(-1) ?? next
    upcoming.pop()
    return number
  }

  /**
   * Fills a block's shared memory before it starts. A GPU leaves what an earlier block wrote; the checks want a pattern, as zeros hide missing
   * writes.
   */
  #clearShared(begin: number): void {
    if (this.space.sharedBytes === 0) return
    const { bytes } = this.code.memory
    const own = begin + this.space.ownSharedBytes
    bytes.fill(this.options.showsUnwritten ? UNWRITTEN : 0, begin, own)
    if (this.space.sharedBytes > this.space.ownSharedBytes) bytes.fill(0, own, begin + this.space.sharedBytes)
  }

  /** Gives a resident block its number in the grid and resets its counters. */
  #place(resident: Resident, number: number): void {
    const { words } = this.code.memory
    const cells = resident.cells >> 2
    const ctaid = cells + (BLOCK.ctaid >> 2)
    words.set(this.reports.tripleOf(number), ctaid)
    words[cells + (BLOCK.smid >> 2)] = number % MULTIPROCESSORS
    words[cells + (BLOCK.spent >> 2)] = 0
    words[cells + (BLOCK.spent >> 2) + 1] = 0
  }

  #newResident(): Resident {
    const { threadBytes } = this.code.program
    const cells = this.space.allocate(BLOCK.bytes)
    const shared = this.space.allocate(Math.max(16, this.space.sharedBytes))
    const frames = this.space.allocate(threadBytes * this.options.threads)
    const { view, bytes } = this.code.memory
    bytes.fill(0, cells, cells + BLOCK.bytes)
    bytes.fill(0, frames, frames + threadBytes * this.options.threads)
    view.setBigInt64(cells + BLOCK.limit, 2n ** 63n - 1n, true)
    view.setInt32(cells + BLOCK.launch, this.space.cells, true)
    view.setInt32(cells + BLOCK.shared, shared, true)
    view.setInt32(cells + BLOCK.sharedBytes, this.space.sharedBytes, true)
    view.setInt32(cells + BLOCK.frames, frames, true)
    return {
      cells,
      shared,
      frames,
      uniform: 0,
      status: new Uint8Array(this.options.threads),
      arrived: new Map(),
      cluster: new Cluster<Resident>(),
      rank: 0,
      arrivals: new Int32Array(this.options.threads),
      missed: new Map(),
      patience: new Uint8Array(32),
      races: undefined,
      clusterRaces: undefined,
      unfinished: undefined,
      order: undefined,
    }
  }

  /** Frees the memory of all blocks. */
  close(): void {
    for (const { cells, shared, frames } of [...this.resident, ...this.#idle]) {
      for (const each of [cells, shared, frames]) this.code.memory.release(each)
    }
  }
}
