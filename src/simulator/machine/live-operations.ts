/** The operations that are queued and not over, in the order in which they were queued: a linked list. */

/** The place of an operation in the list. */
export interface Listed<Operation> {
  previousLive: Operation | undefined
  nextLive: Operation | undefined
}

export class LiveOperations<Operation extends Listed<Operation>> {
  #first: Operation | undefined
  #last: Operation | undefined

  add(operation: Operation): void {
    operation.previousLive = this.#last
    if (this.#last === undefined) this.#first = operation
    else this.#last.nextLive = operation
    this.#last = operation
  }

  remove(operation: Operation): void {
    const { previousLive, nextLive } = operation
    if (previousLive === undefined && this.#first !== operation) return
    if (previousLive === undefined) this.#first = nextLive
    else previousLive.nextLive = nextLive
    if (nextLive === undefined) this.#last = previousLive
    else nextLive.previousLive = previousLive
    operation.previousLive = undefined
    operation.nextLive = undefined
  }

  get isEmpty(): boolean {
    return this.#first === undefined
  }

  /** The oldest operation for which the predicate is true. */
  find(predicate: (operation: Operation) => boolean): Operation | undefined {
    let one = this.#first
    while (one !== undefined && !predicate(one)) one = one.nextLive
    return one
  }

  all(): Operation[] {
    const all: Operation[] = []
    for (let one = this.#first; one !== undefined; one = one.nextLive) all.push(one)
    return all
  }
}
