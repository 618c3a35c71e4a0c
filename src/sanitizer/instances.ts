/** What happens when a captured graph is launched: its nodes are spread over as few strands as their order needs. */
import type { Strand, StrandPoint } from './clocks.js'
import type { CaptureNode, EventState, StreamStrand } from './streams.js'

export interface LaunchParts {
  readonly newLane: () => Strand
  /** What the latest record of an event stands for. */
  readonly workOf: (event: EventState) => readonly StrandPoint[]
  /** Told where each node stands. */
  readonly visit: (node: CaptureNode, at: StrandPoint) => void
}

/** A graph ready to be launched. */
export class Instance {
  nodes: readonly CaptureNode[]
  /** Strands beside that of the stream, kept from launch to launch: one launch comes after the other. */
  readonly lanes: Strand[] = []
  #last: StrandPoint | undefined

  constructor(nodes: readonly CaptureNode[]) {
    this.nodes = nodes
  }

  /** Puts a launch into the stream. */
  launch(stream: StreamStrand, { newLane, workOf, visit }: LaunchParts): void {
    if (this.#last !== undefined) stream.join(this.#last)
    const begin = stream.point()
    const points: StrandPoint[] = []
    const used = new Set<Strand>()
    for (const node of this.nodes) {
      const strand = node.lane === 0 ? stream : this.#lane(node.lane, newLane)
      if (!used.has(strand)) strand.join(begin)
      used.add(strand)
      for (const { index } of node.after) strand.join(points[index] as StrandPoint)
      if (node.work.kind === 'wait') for (const point of workOf(node.work.event)) strand.join(point)
      strand.tick += 1
      const point = strand.point()
      points.push(point)
      if (node.work.kind === 'record') {
        node.work.event.points = [point]
        node.work.event.captured = undefined
      }
      visit(node, point)
    }
    for (const strand of used) stream.join(strand)
    this.#last = stream.point()
  }

  #lane(lane: number, newLane: () => Strand): Strand {
    while (this.lanes.length < lane) this.lanes.push(newLane())
    return this.lanes[lane - 1] as Strand
  }
}
