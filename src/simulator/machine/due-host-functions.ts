/** Host functions that are due: in the order in which they became due or, with a seed, in any order of the streams. */
import type { SimOperation, SimStream } from './machine-state.js'
import { Queue } from './queue.js'
import type { Random } from './random.js'

export interface DueHostFunction {
  readonly operation: SimOperation
  /** The CUresult of an earlier fault, or 0. */
  readonly status: number
}

export class DueHostFunctions {
  /** The number of host functions that have come due so far. */
  added = 0
  #inOrder = new Queue<DueHostFunction>()
  /** The streams with host functions that are due, each of them once for every such function. Used with a seed only. */
  #turns: SimStream[] = []
  /** The callbacks of each stream, in the order of the stream. */
  readonly #ofStream = new Map<SimStream, Queue<DueHostFunction>>()

  constructor(private readonly random: Random | undefined) {}

  get length(): number {
    return this.random === undefined ? this.#inOrder.length : this.#turns.length
  }

  add(operation: SimOperation, status: number): void {
    const due = { operation, status }
    this.added += 1
    if (this.random === undefined) {
      this.#inOrder.push(due)
      return
    }
    const { stream } = operation
    this.#turns.push(stream)
    let queue = this.#ofStream.get(stream)
    if (queue === undefined) {
      queue = new Queue()
      this.#ofStream.set(stream, queue)
    }
    queue.push(due)
  }

  /** The host function that is taken next; undefined if there is none, or if a seed picks it. */
  get next(): DueHostFunction | undefined {
    return this.#inOrder.peek()
  }

  take(): DueHostFunction | undefined {
    if (this.random === undefined) return this.#inOrder.shift()
    if (this.#turns.length === 0) return undefined
    const picked = Math.floor(this.random.next() * this.#turns.length)
    const stream = this.#turns[picked]
    const last = this.#turns.pop()
    if (stream === undefined || last === undefined) return undefined
    if (picked < this.#turns.length) this.#turns[picked] = last
    return this.#takeOf(stream, (queue) => queue.shift())
  }

  /** Takes the next of the host functions that are needed, as `take` does among all. */
  takeNeeded(isNeeded: (operation: SimOperation) => boolean): DueHostFunction | undefined {
    if (this.random === undefined) return this.#inOrder.take(({ operation }) => isNeeded(operation))
    const needed: DueHostFunction[] = []
    for (const queue of this.#ofStream.values()) for (const due of queue) if (isNeeded(due.operation)) needed.push(due)
    if (needed.length === 0) return undefined
    const due = needed[Math.floor(this.random.next() * needed.length)] as DueHostFunction
    const { stream } = due.operation
    this.#turns.splice(this.#turns.indexOf(stream), 1)
    return this.#takeOf(stream, (queue) => queue.take((one) => one === due))
  }

  #takeOf(
    stream: SimStream,
    take: (queue: Queue<DueHostFunction>) => DueHostFunction | undefined,
  ): DueHostFunction | undefined {
    const queue = this.#ofStream.get(stream)
    if (queue === undefined) return undefined
    const due = take(queue)
    if (queue.length === 0) this.#ofStream.delete(stream)
    return due
  }

  clear(): void {
    this.#inOrder = new Queue()
    this.#turns = []
    this.#ofStream.clear()
  }

  /** Removes the host functions that are due and have not been notified of a fault; returns their operations. */
  drop(): readonly SimOperation[] {
    const all = [...this.#inOrder]
    for (const queue of this.#ofStream.values()) all.push(...queue)
    this.clear()
    for (const { operation, status } of all) if (status !== 0) this.add(operation, status)
    return all.filter(({ status }) => status === 0).map(({ operation }) => operation)
  }
}
