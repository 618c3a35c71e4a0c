/** The asynchronous copies that are under way in the shared memory of a block. */
import type { Decoded } from './decoding.js'
import { ThreadCopies } from './thread-copies.js'

/** A range of shared memory that a copy in bulk reads or writes. */
export interface UnfinishedCopy {
  readonly from: number
  readonly to: number
  readonly isRead: boolean
  readonly at: Decoded
  readonly thread: number
  /** The location of the mbarrier that counts the copy, and the parity of its phase; undefined for a copy of a group. */
  readonly mbarrier: { readonly location: number; readonly parity: bigint } | undefined
  /** The number of the group, within its thread; it counts up with each commit. */
  readonly group: number
}

/** How a thread has written a byte. Zero stands for one that it has not, or that a copy in bulk has overwritten. */
export const WRITTEN = { byStore: 1, byCopy: 2 } as const

/** The copies under way in the shared memory of a block. */
export class CopiesOfBlock {
  readonly copies = new Set<UnfinishedCopy>()
  /** The number of groups that each thread has committed. */
  readonly groups = new Map<number, number>()
  /** The copies by cp.async. */
  readonly ofThreads = new ThreadCopies()
  /** How the bytes were written that threads have written since the latest fence.proxy.async. */
  written: Uint8Array | undefined
}
