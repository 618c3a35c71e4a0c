/** A change of a run in which some operations have streams of their own, and wait only for what they need. */
import type { Change } from './replay.js'
import type { Operation, RecordedRun } from './run.js'

export interface OwnStream {
  readonly change: Change
  /** The operations that the moved ones have to wait for, by the memory that both touch, on other streams. */
  readonly waitsFor: readonly Operation[]
  /** The operations that have to wait for the moved ones. */
  readonly waitedForBy: readonly Operation[]
}

/**
 * @param data The operations that each operation has to come after
 * @param at The numbers of the steps that are moved
 * @param keyOf The stream that each of them gets
 */
export function ownStream(
  { steps }: RecordedRun,
  data: ReadonlyMap<number, readonly number[]>,
  at: ReadonlySet<number>,
  keyOf: (index: number) => string,
): OwnStream {
  const moved = new Map([...at].map((index) => [index, keyOf(index)]))
  const crossing = new Map<number, readonly number[]>()
  const waitsFor = new Set<Operation>()
  const waitedForBy = new Set<Operation>()
  for (const [index, before] of data) {
    const across = before.filter((other) => moved.get(index) !== moved.get(other))
    if (across.length === 0) continue
    crossing.set(index, across)
    for (const other of across) {
      // The library itself frees memory behind all that uses it.
      const needed = steps[moved.has(index) ? other : index]
      if (needed?.what !== 'operation' || needed.kind === 'allocate' || needed.kind === 'free') continue
      if (moved.has(index)) waitsFor.add(needed)
      else waitedForBy.add(needed)
    }
  }
  // Each moved operation may be waited for, and so is kept.
  for (const index of at) if (!crossing.has(index)) crossing.set(index, [])
  for (const before of [...crossing.values()])
    for (const other of before) if (!crossing.has(other)) crossing.set(other, [])
  return { change: { moved, data: crossing }, waitsFor: [...waitsFor], waitedForBy: [...waitedForBy] }
}
