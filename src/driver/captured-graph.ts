/**
 * Stream capture: between its begin and its end the work of streams is written down as a graph instead of run. Which calls
 * a capture allows, and what a node does, is decided elsewhere.
 */

/** One piece of captured work. */
export interface CapturedNode<Work> {
  /** Its place in the graph. It comes after nodes of lower places only. */
  readonly index: number
  readonly after: readonly CapturedNode<Work>[]
  readonly work: Work
}

/**
 * A graph while it is captured. A stream knows the capture that it is in; an event the one in which its latest record was
 * made, also when that is over.
 */
export class CapturedGraph<
  Stream extends { capture: CapturedGraph<Stream, Event, Work> | undefined },
  Event extends { captured: CapturedGraph<Stream, Event, Work> | undefined },
  Work,
> {
  /** In the order of capture. */
  #nodes: CapturedNode<Work>[] = []
  /** What the next operation of each stream in the capture comes after. */
  readonly #frontiers = new Map<Stream, readonly CapturedNode<Work>[]>()
  /** What the latest record of each event comes after. */
  readonly #records = new Map<Event, readonly CapturedNode<Work>[]>()
  #over = false

  /** `origin` is the stream that began it. */
  constructor(readonly origin: Stream) {
    this.join(origin, [])
  }

  get over(): boolean {
    return this.#over
  }

  get streams(): Iterable<Stream> {
    return this.#frontiers.keys()
  }

  /** What the stream's next operation comes after. */
  frontierOf(stream: Stream): readonly CapturedNode<Work>[] {
    return this.#frontiers.get(stream) ?? []
  }

  /** Has a stream that joined work that the origin does not wait for? */
  get unjoined(): boolean {
    const followed = new Set([...this.#nodes.flatMap(({ after }) => after), ...this.frontierOf(this.origin)])
    return this.#nodes.some((node) => !followed.has(node))
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

  record(event: Event, stream: Stream): void {
    this.#records.set(event, this.frontierOf(stream))
    event.captured = this
  }

  /** Lets the stream come after what the event's record comes after. */
  joinAt(event: Event, stream: Stream): void {
    this.join(stream, this.#records.get(event) ?? [])
  }

  leave(stream: Stream): void {
    this.#frontiers.delete(stream)
    stream.capture = undefined
  }

  /** Lets every stream go. Returns what was captured; what still knows of the capture keeps nothing of that. */
  end(): readonly CapturedNode<Work>[] {
    this.#over = true
    for (const stream of this.#frontiers.keys()) stream.capture = undefined
    this.#frontiers.clear()
    this.#records.clear()
    const nodes = this.#nodes
    this.#nodes = []
    return nodes
  }

  #node(after: readonly CapturedNode<Work>[], work: Work): CapturedNode<Work> {
    const node = { index: this.#nodes.length, after, work }
    this.#nodes.push(node)
    return node
  }
}
