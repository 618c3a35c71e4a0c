/**
 * The operations that are queued and not over, in the order in which they were queued. A list that is changed by assignments
 * alone: nothing can cut that off, as the stack that runs over does with calls, those of JavaScript's own functions too.
 */
import type { SimOperation } from './objects.js'

/** The place of an operation in the list. */
export interface Listed {
  isLive: boolean
  previousLive: SimOperation | undefined
  nextLive: SimOperation | undefined
}

export class LiveOperations {
  #first: SimOperation | undefined
  #last: SimOperation | undefined

  add(operation: SimOperation): void {
    operation.previousLive = this.#last
    if (this.#last === undefined) this.#first = operation
    else this.#last.nextLive = operation
    this.#last = operation
    operation.isLive = true
  }

  remove(operation: SimOperation): void {
    if (!operation.isLive) return
    const { previousLive, nextLive } = operation
    if (previousLive === undefined) this.#first = nextLive
    else previousLive.nextLive = nextLive
    if (nextLive === undefined) this.#last = previousLive
    else nextLive.previousLive = previousLive
    operation.previousLive = undefined
    operation.nextLive = undefined
    operation.isLive = false
  }

  all(): SimOperation[] {
    const all: SimOperation[] = []
    for (let one = this.#first; one !== undefined; one = one.nextLive) all.push(one)
    return all
  }
}
