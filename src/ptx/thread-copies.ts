/**
 * Copies by cp.async, which are of single threads: a thread waits for its own by groups, or lets an mbarrier count all that it has made so far. What a
 * copy writes counts as under way until then, whoever reads it.
 */
import type { Decoded } from './decoding.js'

export interface ThreadCopy {
  readonly thread: number
  readonly at: Decoded
  /** The number of the copy among those of its thread, from zero. */
  readonly number: number
}

interface Progress {
  /** The number of copies that the thread has made. */
  made: number
  /** The number of copies that are known to be done, which are the first. */
  done: number
  /** The copies made before each commit that may be waited for, the latest last. */
  groups: number[]
}

interface Arrival {
  readonly progress: Progress
  readonly made: number
  readonly parity: bigint
}

export class ThreadCopies {
  /** The latest copy to each word of shared memory that has one. A copy has whole words, at a place that is a multiple of its size. */
  readonly #words = new Map<number, ThreadCopy>()
  readonly #threads = new Map<number, Progress>()
  /** The arrivals at each mbarrier, by its location, that count copies which may be under way. */
  readonly #arrivals = new Map<number, Arrival[]>()

  #progressOf(thread: number): Progress {
    let progress = this.#threads.get(thread)
    if (progress === undefined) {
      progress = { made: 0, done: 0, groups: [] }
      this.#threads.set(thread, progress)
    }
    return progress
  }

  add(address: number, bytes: number, thread: number, at: Decoded): void {
    const copy = { thread, at, number: this.#progressOf(thread).made++ }
    for (let word = address >> 2; word < (address + bytes) >> 2; word++) this.#words.set(word, copy)
  }

  /** Ends a group of copies of a thread. */
  commit(thread: number): void {
    const progress = this.#progressOf(thread)
    progress.groups.push(progress.made)
  }

  /** Notes that a thread has waited for all of its groups but the latest so many. */
  waitForGroups(thread: number, left: number): void {
    const progress = this.#progressOf(thread)
    const last = progress.groups.at(-1 - left)
    if (last === undefined) return
    progress.done = Math.max(progress.done, last)
    progress.groups.splice(0, progress.groups.length - left)
  }

  waitForAll(thread: number): void {
    const progress = this.#progressOf(thread)
    progress.done = progress.made
    progress.groups.length = 0
  }

  /** Lets the mbarrier at this location count what a thread has copied so far, in its phase of this parity. */
  arrive(location: number, parity: bigint, thread: number): void {
    const progress = this.#progressOf(thread)
    if (progress.made === progress.done) return
    const arrival = { progress, made: progress.made, parity }
    const known = this.#arrivals.get(location)
    if (known === undefined) this.#arrivals.set(location, [arrival])
    else known.push(arrival)
  }

  /** Notes that a thread looks at the mbarrier at this location, whose phase has this parity: what earlier phases counted is done. */
  look(location: number, parity: bigint): void {
    const arrivals = this.#arrivals.get(location)
    if (arrivals === undefined) return
    const left = arrivals.filter((each) => each.parity === parity)
    for (const { progress, made, parity: of } of arrivals) {
      if (of !== parity) progress.done = Math.max(progress.done, made)
    }
    if (left.length === 0) this.#arrivals.delete(location)
    else this.#arrivals.set(location, left)
  }

  /** The copies to these bytes that are under way, which are forgotten. */
  take(address: number, bytes: number): readonly ThreadCopy[] {
    const found: ThreadCopy[] = []
    if (this.#words.size === 0) return found
    for (let word = address >> 2; word < (address + bytes + 3) >> 2; word++) {
      const copy = this.#words.get(word)
      if (copy === undefined) continue
      this.#words.delete(word)
      const isDone = copy.number < this.#progressOf(copy.thread).done
      if (!isDone && !found.includes(copy)) found.push(copy)
    }
    return found
  }
}
