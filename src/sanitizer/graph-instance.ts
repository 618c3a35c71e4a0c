/** What happens when a captured graph is launched: its nodes are spread over as few strands as their order needs. */
import type { Strand, StrandPoint } from './clocks.js'
import type { CaptureNode, EventState, StreamStrand } from './streams.js'

/** What an instance has to know of the order around it. */
export interface LaunchOrder {
  newStrand(): Strand
  /** What the latest record of an event stands for. */
  workOfRecord(event: EventState): readonly StrandPoint[]
}

/** Told where each node of a launch stands. */
export type NodeVisitor = (stream: StreamStrand, node: CaptureNode, at: StrandPoint) => void

/** A graph ready to be launched. */
export class GraphInstance {
  /** Strands beside that of the stream, kept from launch to launch: one launch comes after the other. */
  readonly strands: Strand[] = []
  #last: StrandPoint | undefined

  constructor(public nodes: readonly CaptureNode[]) {}

  /** Puts a launch into the stream. */
  launch(stream: StreamStrand, order: LaunchOrder, visit: NodeVisitor): void {
    if (this.#last !== undefined) stream.join(this.#last)
    const begin = stream.point()
    const points: StrandPoint[] = []
    const used = new Set<Strand>()
    for (const node of this.nodes) {
      const { after, lane, work } = node
      while (this.strands.length < lane) this.strands.push(order.newStrand())
      const strand = this.strands[lane - 1] ?? stream
      if (!used.has(strand)) strand.join(begin)
      used.add(strand)
      for (const { index } of after) strand.join(points[index] as StrandPoint)
      if (work.kind === 'wait') for (const point of order.workOfRecord(work.event)) strand.join(point)
      strand.tick += 1
      const point = strand.point()
      points.push(point)
      if (work.kind === 'record') {
        work.event.points = [point]
        work.event.captured = undefined
      }
      visit(stream, node, point)
    }
    for (const strand of used) stream.join(strand)
    this.#last = stream.point()
  }
}
