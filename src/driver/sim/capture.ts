/**
 * Stream capture: between begin and end a stream's work is written down as a graph instead of run. The rules and
 * results are those measured on an H200 (docs/cuda-facts.md, "While a stream captures").
 */
/** CUstreamCaptureMode. */
export const CaptureMode = { GLOBAL: 0, THREAD_LOCAL: 1, RELAXED: 2 } as const
export type CaptureMode = (typeof CaptureMode)[keyof typeof CaptureMode]

/** What can capture: a stream. */
export interface Capturing {
  capture: Capture | undefined
  readonly device: object
  readonly nonBlocking: boolean
}

export interface CaptureNode {
  readonly index: number
  readonly after: ReadonlySet<CaptureNode>
}

export class Capture {
  readonly origin: Capturing
  readonly mode: CaptureMode
  /** A mistake has spoilt it: it can only be ended. */
  invalid = false
  /** What the next operation of each stream in the capture comes after. */
  readonly frontiers = new Map<Capturing, Set<CaptureNode>>()
  /** Nodes that nothing comes after yet. */
  readonly #leaves = new Set<CaptureNode>()
  #count = 0

  constructor(origin: Capturing, mode: CaptureMode) {
    this.origin = origin
    this.mode = mode
    this.join(origin, [])
  }

  /** Lets a stream's next operation come after these nodes; a stream that is not in the capture joins it. */
  join(stream: Capturing, after: Iterable<CaptureNode>): void {
    const frontier = this.frontiers.get(stream) ?? new Set()
    for (const node of after) frontier.add(node)
    this.frontiers.set(stream, frontier)
    stream.capture = this
  }

  add(stream: Capturing): void {
    const after = this.frontiers.get(stream) ?? new Set()
    const node: CaptureNode = { index: this.#count, after }
    this.#count += 1
    for (const previous of after) this.#leaves.delete(previous)
    this.#leaves.add(node)
    this.frontiers.set(stream, new Set([node]))
  }

  frontierOf(stream: Capturing): ReadonlySet<CaptureNode> {
    return new Set(this.frontiers.get(stream) ?? [])
  }

  /** Has some stream that joined work that the origin does not wait for? */
  get unjoined(): boolean {
    const joined = this.frontiers.get(this.origin) ?? new Set()
    for (const leaf of this.#leaves) if (!joined.has(leaf)) return true
    return false
  }

  get nodeCount(): number {
    return this.#count
  }

  /** Lets every stream go. */
  end(): void {
    for (const stream of this.frontiers.keys()) stream.capture = undefined
    this.frontiers.clear()
  }
}
