/** Where host functions stand in the order, and which of them runs now. */
import type { Strand, StrandPoint } from './clocks.js'
import type { Order } from './order.js'
import type { CaptureNode, StreamStrand } from './streams.js'

export interface Running extends Launched {
  /** What it comes after: what its place in the stream does, and what it waits for itself. */
  readonly knows: Strand
}

interface Launched {
  readonly at: StrandPoint
  readonly sequence: number
  readonly stream: StreamStrand
  readonly node: CaptureNode | undefined
}

/** Where a host function runs: once, or once for each launch of its graph, in the order of the launches. */
export class HostFunctionPlace {
  readonly #order: Order
  readonly #running: Running[]
  readonly #waiting: Launched[] = []

  constructor(order: Order, running: Running[]) {
    this.#order = order
    this.#running = running
  }

  launched(launched: Launched): void {
    this.#waiting.push(launched)
    this.#order.pending.queued(launched.at)
  }

  run(fn: () => void): void {
    const launched = this.#waiting.shift()
    if (launched === undefined) {
      fn()
      return
    }
    this.#order.pending.ran(launched.at)
    const running = { ...launched, knows: this.#order.enterHostFunction(launched.at) }
    this.#running.push(running)
    try {
      fn()
    } finally {
      this.#running.splice(this.#running.indexOf(running), 1)
      this.#order.leaveHostFunction(running.at, running.knows)
    }
  }
}
