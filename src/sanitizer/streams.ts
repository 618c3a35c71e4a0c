/** The streams and events of a driver as the order between them needs them, and the captures that they are in. */
import { cudaHandleOf, deviceOfDefaultStream, isDefaultStream, type StreamHandle } from '../driver/driver.js'
import { Strand, type StrandPoint } from './clocks.js'
import type { StreamName, Touched } from './operations.js'
import type { Region } from './regions.js'
import type { TakenStack } from './stacks.js'

export class StreamStrand extends Strand implements StreamName {
  name: string | undefined
  /** The tick it began with. */
  readonly since = this.tick
  /** The driver could not be asked about it, since it captured. */
  unsure = false
  /** Set while its work is captured. */
  capture: Capture | undefined

  constructor(
    begin: StrandPoint,
    readonly handle: StreamHandle,
    readonly device: number,
    /** Another library owns it. */
    readonly foreign: boolean,
    /** It was seen being made, and will be seen being destroyed. */
    readonly ours: boolean,
    readonly made: TakenStack | undefined,
    /** The driver's own number for it, which no other stream ever gets; not known of each. */
    public id: bigint | undefined,
    /** True: the null stream's rules are not for it. */
    public nonBlocking: boolean,
  ) {
    super(begin)
  }

  get label(): string {
    return this.name ?? addressOf(this.handle)
  }
}

function addressOf(handle: StreamHandle): string {
  if (!isDefaultStream(handle)) return `Stream(0x${cudaHandleOf(handle).toString(16)})`
  const device = deviceOfDefaultStream(handle)
  return `${cudaHandleOf(handle) === 2 ? 'Stream.perThread' : 'Stream.null'}${device === 0 ? '' : ` of device ${device}`}`
}

/** What is known of an event. */
export class EventState {
  /** What its latest record comes after; nothing before the first. */
  points: readonly StrandPoint[] = []
  /** Set while the latest record was made inside a capture: what comes after it there. */
  captured: { readonly capture: Capture; readonly after: readonly CaptureNode[] } | undefined
  /** Each launch of a graph records it, or waits for it. */
  inGraph = false

  constructor(
    /** It was seen being made, so that without a record there is none. */
    readonly made: boolean,
    /** Others may record it, which is not seen. */
    public foreign: boolean,
    /** Its records are work. */
    readonly timing: boolean,
  ) {}
}

export type NodeWork =
  | {
      readonly kind: 'work'
      readonly what: string
      readonly memory: readonly Touched[]
      /** What each piece of it lay in when it was captured. */
      readonly regions: readonly Region[]
    }
  /** Runs JavaScript; `launched` is told where. */
  | { readonly kind: 'host'; readonly launched: (stream: StreamStrand, at: StrandPoint, node: CaptureNode) => void }
  | { readonly kind: 'record' | 'wait'; readonly event: EventState }

export interface CaptureNode {
  readonly index: number
  readonly after: readonly CaptureNode[]
  readonly work: NodeWork
  /** The strand of a launch that it is on. */
  readonly lane: number
  readonly stream: StreamStrand
  readonly stack: TakenStack | undefined
}

export class Capture {
  readonly nodes: CaptureNode[] = []
  readonly #frontiers = new Map<StreamStrand, readonly CaptureNode[]>()
  /** The last node of each strand so far. */
  readonly #lanes: CaptureNode[] = []

  /** The stream that began it or, where that was not seen, one that is in it. */
  readonly origin: StreamStrand
  /** It was seen to begin. */
  readonly seen: boolean
  #over = false

  constructor(origin: StreamStrand, seen: boolean) {
    this.origin = origin
    this.seen = seen
    this.join(origin, [])
  }

  /** What the stream's next operation comes after. */
  frontierOf(stream: StreamStrand): readonly CaptureNode[] {
    return this.#frontiers.get(stream) ?? []
  }

  /** Lets the stream's next operation come after these; a stream that is not in the capture joins it. */
  join(stream: StreamStrand, after: readonly CaptureNode[]): void {
    if (this.#over) return
    const known = this.frontierOf(stream)
    this.#frontiers.set(stream, [...known, ...after.filter((node) => !known.includes(node))])
    stream.capture = this
  }

  add(stream: StreamStrand, work: NodeWork, stack: TakenStack | undefined): void {
    if (work.kind === 'record' || work.kind === 'wait') work.event.inGraph = true
    this.#frontiers.set(stream, [this.#node(this.frontierOf(stream), stream, work, stack)])
  }

  /** A graph that is launched while this is captured becomes a part of it. */
  addGraph(stream: StreamStrand, nodes: readonly CaptureNode[]): void {
    const before = this.frontierOf(stream)
    const copies: CaptureNode[] = []
    const inner = new Set<CaptureNode>()
    for (const node of nodes) {
      const after = node.after.map(({ index }) => copies[index] as CaptureNode)
      for (const earlier of after) inner.add(earlier)
      copies.push(this.#node(after.length === 0 ? before : after, node.stream, node.work, node.stack))
    }
    const ends = copies.filter((copy) => !inner.has(copy))
    if (ends.length > 0) this.#frontiers.set(stream, ends)
  }

  /** A stream is destroyed: with the one that began it, all of it is over. */
  destroyed(stream: StreamStrand): void {
    if (this.seen && stream === this.origin) this.end()
    else this.leave(stream)
  }

  leave(stream: StreamStrand): void {
    this.#frontiers.delete(stream)
    stream.capture = undefined
  }

  /** Lets every stream go. */
  end(): void {
    this.#over = true
    for (const stream of this.#frontiers.keys()) stream.capture = undefined
    this.#frontiers.clear()
  }

  #node(
    after: readonly CaptureNode[],
    stream: StreamStrand,
    work: NodeWork,
    stack: TakenStack | undefined,
  ): CaptureNode {
    const free = this.#lanes.findIndex((last) => after.includes(last))
    const lane = free >= 0 ? free : this.#lanes.length
    const node = { index: this.nodes.length, after, work, lane, stream, stack }
    this.#lanes[lane] = node
    this.nodes.push(node)
    return node
  }
}
