/** The launches of captured graphs in the happens-before order: the nodes are spread over as few components as their order needs. */
import type { Component, Epoch } from '../../foundation/base/vector-clock.js'
import type { CapturedNode } from '../../foundation/driver/captured-graph.js'
import type { NodeHandle } from '../../foundation/driver/handle-types.js'
import type { TouchedMemory } from '../../foundation/driver/touched-memory.js'
import type { Values } from './awaited-values.js'
import type { TakenStack } from './operations.js'
import type { Region } from './regions.js'
import type { CapturedWork, TrackedEvent, TrackedStream } from './streams.js'

/** The part of the happens-before order that an instance needs. */
export interface LaunchOrder {
  newComponent(): Component
  /** The epochs that the latest record of an event stands for. */
  workOfRecord(event: TrackedEvent): readonly Epoch[]
  readonly values: Values
}

/** A function that is called with the epoch of each node of a launch. */
export type NodeVisitor = (stream: TrackedStream, work: CapturedWork, at: Epoch) => void

export type CapturedNodes = readonly CapturedNode<CapturedWork>[]

/** A graph ready to be launched. */
export class GraphInstance {
  /** The components of the branches beside the stream. They are used for all launches, which happen one after another. */
  readonly components: Component[] = []
  nodes: CapturedNodes = []
  /** The branch of each node: 0 is the stream. */
  #branches: readonly number[] = []
  #last: Epoch | undefined

  /** The indices of nodes that are switched off. */
  readonly off = new Set<number>()
  /** The index of each node; keys are the nodes' handles in the graph that the instance was made from. */
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
  launch(stream: TrackedStream, order: LaunchOrder, visit: NodeVisitor): void {
    if (this.#last !== undefined) stream.join(this.#last)
    const begin = stream.epoch()
    const epochs: Epoch[] = []
    const used = new Set<Component>()
    for (const { index, after, work } of this.nodes) {
      const branch = this.#branches[index] ?? 0
      while (this.components.length < branch) this.components.push(order.newComponent())
      const component = this.components[branch - 1] ?? stream
      if (!used.has(component)) component.join(begin)
      used.add(component)
      for (const before of after) component.join(epochs[before.index] as Epoch)
      if (work.kind === 'wait') for (const epoch of order.workOfRecord(work.event)) component.join(epoch)
      if (work.kind === 'waitValue') order.values.awaited(work.word, work.compare, component)
      const epoch = component.next()
      epochs.push(epoch)
      if (work.kind === 'writeValue') order.values.written(work.word, epoch)
      if (work.kind === 'record') {
        work.event.epochs = [epoch]
        work.event.captured = undefined
      }
      if (!this.off.has(index)) visit(stream, work, epoch)
    }
    for (const component of used) stream.join(component)
    this.#last = stream.epoch()
  }
}

/** The branch of each node. A node continues the branch of a node before it, if no other does so yet; otherwise it begins a branch. */
function branchesOf(nodes: CapturedNodes): number[] {
  const lasts: CapturedNode<CapturedWork>[] = []
  return nodes.map((node) => {
    const free = lasts.findIndex((last) => node.after.includes(last))
    const branch = free >= 0 ? free : lasts.length
    lasts[branch] = node
    return branch
  })
}
