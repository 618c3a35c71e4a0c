/**
 * Words in memory by which streams wait for each other: a write tells all that comes before it, and a wait that it satisfies
 * learns that. Where no stream of this process has queued such a write yet, what a wait learns is not known: it counts as one
 * for a promise, until the write is queued.
 */

import type { StreamHandle } from '../driver/driver.js'
import { type Comparison, isMet, type MemoryValue } from '../driver/values.js'
import type { StrandPoint } from './clocks.js'

interface Written {
  readonly value: bigint
  readonly at: StrandPoint
}

interface Awaited {
  readonly isMet: (value: bigint) => boolean
  /** The write is queued, and comes before. */
  readonly met: (at: StrandPoint) => void
}

export interface ValueOrder {
  /** Undefined where the stream captures. */
  pointOf(stream: StreamHandle): StrandPoint | undefined
  learn(stream: StreamHandle, at: StrandPoint): void
  hold(stream: StreamHandle): () => void
}

/** So many of the latest writes of a word are remembered. */
const MOST = 32

export class Values {
  readonly #written = new Map<number, Written[]>()
  readonly #awaited = new Map<number, Awaited[]>()

  constructor(private readonly order: ValueOrder) {}

  written({ pointer, value }: MemoryValue, stream: StreamHandle): void {
    const at = this.order.pointOf(stream)
    if (at === undefined) return
    const written = this.#written.get(pointer) ?? []
    this.#written.set(pointer, [...written.slice(1 - MOST), { value, at }])
    const awaited = this.#awaited.get(pointer) ?? []
    const met = new Set(awaited.filter((wait) => wait.isMet(value)))
    if (met.size === awaited.length) this.#awaited.delete(pointer)
    else
      this.#awaited.set(
        pointer,
        awaited.filter((wait) => !met.has(wait)),
      )
    for (const wait of met) wait.met(at)
  }

  awaited(awaited: MemoryValue, compare: Comparison, stream: StreamHandle): void {
    if (this.order.pointOf(stream) === undefined) return
    const { pointer } = awaited
    const matches = (value: bigint): boolean => isMet(value, compare, awaited)
    // Which of them it was is not known, where there are several.
    const writes = (this.#written.get(pointer) ?? []).filter(({ value }) => matches(value))
    for (const { at } of writes) this.order.learn(stream, at)
    if (writes.length > 0) return
    const passed = this.order.hold(stream)
    const met = (at: StrandPoint): void => {
      passed()
      this.order.learn(stream, at)
    }
    this.#awaited.set(pointer, [...(this.#awaited.get(pointer) ?? []), { isMet: matches, met }])
  }
}
