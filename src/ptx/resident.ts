/** A block of threads that is on the device: where its memory lies, and how far its threads are. */

import type { BlockOrder } from './global-races.js'
import type { SharedRaces } from './shared-races.js'

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
  /** The threads that arrived at the barrier of the cluster, and do not wait at it yet. */
  readonly arrivedInCluster: Set<number>
  /** The turns for which each warp's lanes that meet without a mask have waited for lanes that used up their turn. */
  readonly patience: Uint8Array
  races: SharedRaces | undefined
  order: BlockOrder | undefined
}
