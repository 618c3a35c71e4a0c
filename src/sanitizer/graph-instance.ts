/** What happens when a captured graph is launched: its nodes are spread over as few strands as their order needs. */
import type { CapturedNode } from '../driver/captured-graph.js'
import type { NodeHandle, TouchedMemory } from '../driver/driver.js'
import type { Strand, StrandPoint } from './clocks.js'
import type { Region } from './regions.js'
import type { TakenStack } from './stacks.js'
import type { CapturedWork, EventState, StreamStrand } from './streams.js'
import type { Values } from './values.js'

/** What an instance has to know of the order around it. */
export interface LaunchOrder {
  newStrand(): Strand
  /** What the latest record of an event stands for. */
  workOfRecord(event: EventState): readonly StrandPoint[]
  readonly values: Values
}

/** Told where each node of a launch stands. */
export type NodeVisitor = (stream: StreamStrand, work: CapturedWork, at: StrandPoint) => void

export type CapturedNodes = readonly CapturedNode<CapturedWork>[]

/** A graph ready to be launched. */
export class GraphInstance {
  /** Strands beside that of the stream, kept from launch to launch: one launch comes after the other. */
  readonly strands: Strand[] = []
  nodes: CapturedNodes = []
  /** The strand of each node: 0 for the stream's own. */
  #branches: readonly number[] = []
  #last: StrandPoint | undefined

  /** The places of nodes that are switched off: they touch nothing. */
  readonly off = new Set<number>()
  /** Where each node is, by the driver's handle: that of the graph which the instance was made from. */
  readonly #places = new Map<NodeHandle, number>()

  constructor(nodes: CapturedNodes) {
    this.update(nodes)
    for (const { index, work } of nodes) {
      if (work.kind === 'work' && work.node !== undefined) this.#places.set(work.node, index)
    }
  }

  /** Gives one node other memory. */
  put(
    node: NodeHandle,
    memory: readonly TouchedMemory[],
    regions: readonly Region[],
    stack: TakenStack | undefined,
  ): void {
    const index = this.#places.get(node) ?? -1
    const before = this.nodes[index]
    if (before === undefined || before.work.kind !== 'work') return
    const work = { ...before.work, memory, regions, stack: stack ?? before.work.stack }
    this.nodes = this.nodes.with(index, { ...before, work })
  }

  setEnabled(node: NodeHandle, enabled: boolean): void {
    const index = this.#places.get(node)
    if (index === undefined) return
    if (enabled) this.off.delete(index)
    else this.off.add(index)
  }

  update(nodes: CapturedNodes): void {
    this.nodes = nodes
    this.#branches = branchesOf(nodes)
  }

  /** Puts a launch into the stream. */
  launch(stream: StreamStrand, order: LaunchOrder, visit: NodeVisitor): void {
    if (this.#last !== undefined) stream.join(this.#last)
    const begin = stream.point()
    const points: StrandPoint[] = []
    const used = new Set<Strand>()
    for (const { index, after, work } of this.nodes) {
      const branch = this.#branches[index] ?? 0
      while (this.strands.length < branch) this.strands.push(order.newStrand())
      const strand = this.strands[branch - 1] ?? stream
      if (!used.has(strand)) strand.join(begin)
      used.add(strand)
      for (const before of after) strand.join(points[before.index] as StrandPoint)
      if (work.kind === 'wait') for (const point of order.workOfRecord(work.event)) strand.join(point)
      if (work.kind === 'waitValue') order.values.awaited(work.word, work.compare, strand)
      const point = strand.next()
      points.push(point)
      if (work.kind === 'writeValue') order.values.written(work.word, point)
      if (work.kind === 'record') {
        work.event.points = [point]
        work.event.captured = undefined
      }
      if (!this.off.has(index)) visit(stream, work, point)
    }
    for (const strand of used) stream.join(strand)
    this.#last = stream.point()
  }
}

/** A node stands on the branch of one that it comes after, if none stands there yet; else it begins a branch. */
function branchesOf(nodes: CapturedNodes): number[] {
  const lasts: CapturedNode<CapturedWork>[] = []
  return nodes.map((node) => {
    const free = lasts.findIndex((last) => node.after.includes(last))
    const branch = free >= 0 ? free : lasts.length
    lasts[branch] = node
    return branch
  })
}
