/**
 * Promises of a real GPU. The work of one stream ends in order, so one query a stream tells how far all of
 * them are, however many wait.
 */
import { CUresult, cudaError } from '../../cuda-results.js'
import type { Cancel, EventHandle, Settle } from '../../driver.js'
import type { Library } from '../libcuda/library.js'

interface Wait {
  readonly event: EventHandle
  readonly release: ((event: EventHandle) => void) | undefined
  settle: Settle | undefined
}

/** The answer to a query: done, not done, or the reason why it never will be. */
interface Answer {
  readonly done: boolean
  readonly error: unknown
}

/** A group is a stream, an event, or a context: by its record or handle. */
export class Completions<Group extends object | number> {
  /** Promises not settled. */
  pending = 0
  readonly #groups = new Map<Group, Wait[]>()

  constructor(private readonly library: Pick<Library, 'cuEventQuery'>) {}

  /** Waits for an event. Waits of one group are done in the order in which they came. */
  add(group: Group, event: EventHandle, settle: Settle, release?: (event: EventHandle) => void): Cancel {
    const wait: Wait = { event, settle, release }
    const waits = this.#groups.get(group)
    if (waits === undefined) this.#groups.set(group, [wait])
    else waits.push(wait)
    this.pending += 1
    return () => {
      if (wait.settle === undefined) return
      wait.settle = undefined
      this.pending -= 1
    }
  }

  /** Gives up asking for a group. The result settles the waits that have not been cancelled by then. */
  take(group: Group): Settle | undefined {
    const waits = this.#groups.get(group)
    this.#groups.delete(group)
    if (waits === undefined || waits.every(({ settle }) => settle === undefined)) return undefined
    return (error) => {
      for (const wait of waits) this.#settle(wait, error)
    }
  }

  /** How many there are: each is asked once by `poll()`. */
  get groups(): number {
    return this.#groups.size
  }

  has(group: Group): boolean {
    return this.#groups.has(group)
  }

  query(event: EventHandle): Answer {
    const result = this.library.cuEventQuery(event)
    if (result === CUresult.NOT_READY) return { done: false, error: undefined }
    return { done: true, error: result === 0 ? undefined : cudaError('cuEventQuery', result) }
  }

  /** Settles the waits that are over. False where none was. */
  poll(): boolean {
    let progress = false
    for (const [group, waits] of this.#groups) {
      const over = this.#over(waits)
      if (over.length === 0) continue
      if (over.length === waits.length) this.#groups.delete(group)
      else waits.splice(0, over.length)
      for (const { wait, error } of over) this.#settle(wait, error)
      progress = true
    }
    return progress
  }

  #over(waits: readonly Wait[]): { readonly wait: Wait; readonly error: unknown }[] {
    const over = []
    for (const wait of waits) {
      if (wait.settle !== undefined) {
        const { done, error } = this.query(wait.event)
        if (!done) break
        over.push({ wait, error })
      } else over.push({ wait, error: undefined })
    }
    return over
  }

  #settle(wait: Wait, error: unknown): void {
    wait.release?.(wait.event)
    const { settle } = wait
    if (settle === undefined) return
    wait.settle = undefined
    this.pending -= 1
    settle(error)
  }
}
