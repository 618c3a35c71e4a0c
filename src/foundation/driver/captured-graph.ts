import { stateError } from '../base/errors.js'

/**
 * Stream capture: between its begin and its end the work of streams is written down as a graph instead of run. Which calls
 * a capture allows, and what a node does, is decided elsewhere.
 */

/** A node of a graph: one piece of captured work. */
export interface CapturedNode<Work> {
  /** The node's index in the graph. It comes only after nodes of lower indices. */
  readonly index: number
  readonly after: readonly CapturedNode<Work>[]
  readonly work: Work
  /**
   * The node's place among those that nothing comes after, if a capture ended with it: an update pairs these in the order in which
   * the stream that began the capture came to be behind them, whichever of them was captured first.
   */
  readonly rank?: number
}

/**
 * A graph while it is captured. A stream refers to the capture that it is in. An event refers to the capture in which
 * its latest record was made, even after that capture has ended.
 */
export class CapturedGraph<
  Stream extends { capture: CapturedGraph<Stream, Event, Work> | undefined },
  Event extends { captured: CapturedGraph<Stream, Event, Work> | undefined },
  Work,
> {
  /** The nodes in the order of capture. */
  #nodes: CapturedNode<Work>[]
  /** The number of nodes that the graph had before the capture. */
  readonly #before: number
  /** The nodes that the next operation of each stream in the capture comes after. */
  readonly #frontiers = new Map<Stream, readonly CapturedNode<Work>[]>()
  /** The nodes that the latest record of each event comes after. */
  readonly #records = new Map<Event, readonly CapturedNode<Work>[]>()
  #over = false

  /** `origin` is the stream that began it; its first operation comes after those of the nodes before that are named. */
  constructor(
    readonly origin: Stream,
    before: readonly CapturedNode<Work>[] = [],
    after: readonly CapturedNode<Work>[] = [],
  ) {
    this.#nodes = [...before]
    this.#before = before.length
    this.join(origin, after)
  }

  get over(): boolean {
    return this.#over
  }

  get streams(): Iterable<Stream> {
    return this.#frontiers.keys()
  }

  /** The nodes that were captured so far, after those that the graph had before. */
  get nodes(): readonly CapturedNode<Work>[] {
    return [...this.#nodes]
  }

  /** The nodes that the stream's next operation comes after. */
  frontierOf(stream: Stream): readonly CapturedNode<Work>[] {
    return this.#frontiers.get(stream) ?? []
  }

  /** True if a stream that joined the capture has work that the origin does not wait for. */
  get unjoined(): boolean {
    const followed = new Set([...this.#nodes.flatMap(({ after }) => after), ...this.frontierOf(this.origin)])
    return this.#nodes.some((node) => node.index >= this.#before && !followed.has(node))
  }

  /** Lets the stream's next operation come after these nodes; a stream that is not in the capture joins it. */
  join(stream: Stream, after: readonly CapturedNode<Work>[]): void {
    if (this.#over) return
    this.#frontiers.set(stream, [...new Set([...this.frontierOf(stream), ...after])])
    stream.capture = this
  }

  add(stream: Stream, work: Work): void {
    this.#frontiers.set(stream, [this.#node(this.frontierOf(stream), work)])
  }

  /**
   * Adds all nodes of another graph after those of the stream. The next operation of the stream comes after all of
   * them.
   */
  addAll(stream: Stream, nodes: readonly CapturedNode<Work>[]): void {
    const begin = this.frontierOf(stream)
    const added: CapturedNode<Work>[] = []
    for (const { after, work } of nodes) {
      const behind = after.flatMap(({ index }) => added[index] ?? [])
      added.push(this.#node(behind.length === 0 ? begin : behind, work))
    }
    if (added.length > 0) this.#frontiers.set(stream, added)
  }

  record(event: Event, stream: Stream): void {
    this.#records.set(event, this.frontierOf(stream))
    event.captured = this
  }

  /** Lets the stream's next operation come after the nodes that the event's record comes after. */
  joinAt(event: Event, stream: Stream): void {
    this.join(stream, this.#records.get(event) ?? [])
  }

  leave(stream: Stream): void {
    this.#frontiers.delete(stream)
    stream.capture = undefined
  }

  /**
   * Releases every stream. Returns the captured nodes; objects that still refer to the capture do not keep them
   * reachable.
   */
  end(): readonly CapturedNode<Work>[] {
    this.#over = true
    const nodes = this.#nodes
    const frontier = this.frontierOf(this.origin)
    const last = new Set(frontier)
    // A graph to which many captures add one node each has many nodes at each end: no list of what they come after is made.
    for (const { after } of nodes) for (const node of after) last.delete(node)
    for (const [place, node] of frontier.entries()) {
      if (last.has(node)) nodes[node.index] = { ...node, rank: nodes.length + place }
    }
    for (const stream of this.#frontiers.keys()) stream.capture = undefined
    this.#frontiers.clear()
    this.#records.clear()
    this.#nodes = []
    return nodes
  }

  #node(after: readonly CapturedNode<Work>[], work: Work): CapturedNode<Work> {
    const node = { index: this.#nodes.length, after, work }
    this.#nodes.push(node)
    return node
  }
}

/**
 * The error for a node that no body of a conditional node can have. CUDA reports it only when an instance is made, without a
 * reason.
 */
export const notInBody = (kind: string): Error =>
  stateError(
    'ERR_UNSUPPORTED',
    `The body of a conditional node has a node of the kind '${kind}', and can have only kernels, copies and fills of memory of devices, graphs of these, and conditional nodes`,
  )

/** CUDA may lose the context when it switches a fill off (docs/internals/cuda-facts.md), and a fill of rows can be given no other memory. */
export const fillOfRowsIsOn = (): Error =>
  stateError('ERR_UNSUPPORTED', 'A fill of several rows cannot be switched off: capture a graph without it')
