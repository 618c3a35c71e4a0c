/** The order of operations by the memory that they touch, whatever streams they are on. */
import { IntervalMap } from '../../foundation/base/interval-map.js'
import type { Operation, RecordedRun, RecordedStream } from './run.js'

/** The operations that touched some bytes last, as numbers of steps. */
interface Touched {
  readonly write: number
  readonly reads: readonly number[]
}

const NONE = -1

/**
 * The operations that each operation has to come after; keys and values are numbers of steps.
 * @param which 'reads' leaves out what is needed only because memory is used again: writes behind reads of what was there before
 */
export function dataOrder(
  { steps }: RecordedRun,
  which: 'all' | 'reads' = 'all',
): ReadonlyMap<number, readonly number[]> {
  const touched = new IntervalMap<Touched>()
  const order = new Map<number, readonly number[]>()
  /** The latest operation of each stream whose memory is not known: its position in the stream is kept. */
  const fixed = new Map<RecordedStream, number>()
  /** The operations of each stream since then. */
  const since = new Map<RecordedStream, number[]>()
  for (const [index, step] of steps.entries()) {
    if (step.what !== 'operation') continue
    const before = new Set<number>()
    const last = fixed.get(step.stream)
    if (last !== undefined) before.add(last)
    if (step.memory === undefined) {
      for (const other of since.get(step.stream) ?? []) before.add(other)
      fixed.set(step.stream, index)
      since.set(step.stream, [])
    } else {
      since.set(step.stream, [...latestOfSites(steps, since.get(step.stream) ?? [], step), index])
      touch(touched, step, index, before, steps, which)
    }
    before.delete(index)
    if (before.size > 0) order.set(index, [...before])
  }
  return order
}

function touch(
  touched: IntervalMap<Touched>,
  { memory = [] }: Operation,
  index: number,
  before: Set<number>,
  steps: RecordedRun['steps'],
  which: 'all' | 'reads',
): void {
  for (const { pointer, byteLength, access } of memory) {
    touched.update(pointer, pointer + byteLength, (old = { write: NONE, reads: [] }) => {
      const isReusedHere = which === 'reads' && access === 'out' && old.reads.length > 0
      if (old.write !== NONE && !isReusedHere) before.add(old.write)
      const step = steps[index]
      if (access === 'in' && step?.what === 'operation') {
        return { write: old.write, reads: [...latestOfSites(steps, old.reads, step), index] }
      }
      if (which === 'all') for (const read of old.reads) before.add(read)
      return { write: index, reads: which === 'reads' && access !== 'out' ? [index] : [] }
    })
  }
}

/** The latest operations of each stream and line, which stand for the others, as those stay in their order. */
function latestOfSites(steps: RecordedRun['steps'], earlier: readonly number[], by: Operation): readonly number[] {
  return earlier.filter((index) => {
    const other = steps[index]
    return other?.what !== 'operation' || other.stream !== by.stream || other.site !== by.site
  })
}
