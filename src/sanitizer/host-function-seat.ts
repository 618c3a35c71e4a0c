/** Where host functions stand in the order, and which of them runs now. */
import type { Point } from './clocks.js'
import type { Order } from './order.js'
import type { CaptureNode, StreamStrand } from './streams.js'

/** A host function that runs now: where it stands in the order. */
export interface Running {
  readonly at: Point
  readonly sequence: number
  readonly stream: StreamStrand
  readonly node: CaptureNode | undefined
}

/** Where a host function runs: once, or once for each launch of its graph, in the order of the launches. */
export class HostFunctionSeat {
  readonly #order: Order
  readonly #running: Running[]
  readonly #waiting: Running[] = []

  constructor(order: Order, running: Running[]) {
    this.#order = order
    this.#running = running
  }

  launched(running: Running): void {
    this.#waiting.push(running)
    this.#order.pending.queued(running.at)
  }

  run(fn: () => void): void {
    const running = this.#waiting.shift()
    if (running === undefined) {
      fn()
      return
    }
    this.#order.pending.ran(running.at)
    this.#order.hostKnows([running.at])
    this.#running.push(running)
    try {
      fn()
    } finally {
      this.#running.splice(this.#running.indexOf(running), 1)
    }
  }
}
