/** A block of threads that is on the device: where its memory lies, and how far its threads are. */

import type { Cluster } from './cluster.js'
import type { ClusterRaces } from './cluster-races.js'
import type { CopiesOfBlock } from './copies-of-block.js'
import type { BlockOrder } from './global-races.js'
import type { SharedRaces } from './shared-races.js'

/** A phase of an mbarrier for which a thread waits. */
export interface MissedPhase {
  /** The number of the place in the code that waits (`KernelCode.sites`). */
  readonly site: number
  /** The location of the mbarrier in WebAssembly's memory. */
  readonly at: number
  readonly thread: number
}

export interface Resident {
  /** The address of the block's cells (BLOCK in layout.ts). */
  readonly cells: number
  readonly shared: number
  readonly frames: number
  /** The state that all threads have in common, or MIXED. */
  uniform: number
  /** The state of each thread, while `uniform` is MIXED. */
  readonly status: Uint8Array
  /** The number of threads that arrived at each barrier without waiting; keys are the barriers' numbers. */
  readonly arrived: Map<number, number>
  /** The cluster of the block, which may be its only one, and the block's rank in it. */
  cluster: Cluster<Resident>
  rank: number
  /** The meeting of the cluster for which each thread has arrived (cluster.ts). */
  readonly arrivals: Int32Array
  /** The mbarriers for which warps of the block last waited in vain; keys are the numbers of the warps. */
  readonly missed: Map<number, MissedPhase>
  /** The turns for which each warp's lanes that meet without a mask have waited for lanes that used up their turn. */
  readonly patience: Uint8Array
  races: SharedRaces | undefined
  /** The accesses of the blocks of the cluster to the block's shared memory, if they are followed. */
  clusterRaces: ClusterRaces | undefined
  /** The asynchronous copies that are under way in the block's shared memory, if they are followed. */
  unfinished: CopiesOfBlock | undefined
  order: BlockOrder | undefined
}
