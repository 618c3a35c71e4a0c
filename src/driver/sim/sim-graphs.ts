/** Graphs of the simulated GPU. */
import type { CapturedNode } from '../captured-graph.js'
import { CUresult, cudaError } from '../cuda-results.js'
import type { CaptureMode, GraphDriver, GraphExecHandle, GraphHandle, StreamHandle } from '../driver.js'
import type { CaptureRules } from './capture-rules.js'
import type { Handles } from './handles.js'
import type { Machine } from './machine.js'
import type { NodeWork, SimOperation, SimStream } from './objects.js'

/** The rest of the driver, as far as graphs need it. */
export interface GraphSurroundings {
  stream(handle: StreamHandle, call: string): SimStream
}

interface Instance {
  nodes: readonly CapturedNode<NodeWork>[]
  /** The end of its latest launch: the next one waits for it. */
  last: SimOperation | undefined
}

export class SimGraphs implements GraphDriver {
  readonly #machine: Machine
  readonly #captures: CaptureRules
  readonly #handles: Handles
  readonly #around: GraphSurroundings
  readonly #graphs = new Map<GraphHandle, readonly CapturedNode<NodeWork>[]>()
  readonly #instances = new Map<GraphExecHandle, Instance>()

  constructor(machine: Machine, captures: CaptureRules, handles: Handles, around: GraphSurroundings) {
    this.#machine = machine
    this.#captures = captures
    this.#handles = handles
    this.#around = around
  }

  begin(stream: StreamHandle, mode: CaptureMode): void {
    this.#captures.begin(this.#around.stream(stream, 'cuStreamBeginCapture'), mode)
  }

  end(stream: StreamHandle): GraphHandle {
    const nodes = this.#captures.end(this.#around.stream(stream, 'cuStreamEndCapture'))
    const graph = this.#handles.take('graph') as GraphHandle
    this.#graphs.set(graph, nodes)
    return graph
  }

  abandon(handle: StreamHandle): void {
    this.#captures.abandon(this.#around.stream(handle, 'cuStreamEndCapture'))
  }

  destroy(graph: GraphHandle): void {
    this.#nodes(graph, 'cuGraphDestroy')
    this.#graphs.delete(graph)
    this.#handles.giveBack('graph', graph)
  }

  nodeCount(graph: GraphHandle): number {
    return this.#nodes(graph, 'cuGraphGetNodes').length
  }

  toDot(graph: GraphHandle): string {
    const lines = ['digraph {']
    for (const { index, after, work } of this.#nodes(graph, 'cuGraphDebugDotPrint')) {
      lines.push(`  n${index} [label="${index}: ${labelOf(work)}"]`)
      for (const before of after) lines.push(`  n${before.index} -> n${index}`)
    }
    return `${[...lines, '}'].join('\n')}\n`
  }

  instantiate(graph: GraphHandle): GraphExecHandle {
    const nodes = this.#nodes(graph, 'cuGraphInstantiate')
    const exec = this.#handles.take('graphExec') as GraphExecHandle
    this.#instances.set(exec, { nodes, last: undefined })
    return exec
  }

  destroyExec(exec: GraphExecHandle): void {
    this.#instances.delete(exec)
    this.#handles.giveBack('graphExec', exec)
  }

  upload(exec: GraphExecHandle, stream: StreamHandle): void {
    this.#captures.refuseOn(this.#around.stream(stream, 'cuGraphUpload'), 'cuGraphUpload')
    this.#instance(exec, 'cuGraphUpload')
  }

  launch(exec: GraphExecHandle, handle: StreamHandle): void {
    const stream = this.#around.stream(handle, 'cuGraphLaunch')
    const instance = this.#instance(exec, 'cuGraphLaunch')
    this.#captures.refuseOn(stream, 'cuGraphLaunch')
    this.#captures.refuseImplicit(stream, 'cuGraphLaunch')
    instance.last = this.#machine.launch(stream, instance.nodes, instance.last)
  }

  update(exec: GraphExecHandle, graph: GraphHandle): void {
    const instance = this.#instance(exec, 'cuGraphExecUpdate')
    const nodes = this.#nodes(graph, 'cuGraphExecUpdate')
    if (!sameShape(instance.nodes, nodes)) throw cudaError('cuGraphExecUpdate', CUresult.GRAPH_EXEC_UPDATE_FAILURE)
    instance.nodes = nodes
  }

  #nodes(graph: GraphHandle, call: string): readonly CapturedNode<NodeWork>[] {
    const nodes = this.#graphs.get(graph)
    if (nodes === undefined) throw cudaError(call, CUresult.INVALID_VALUE)
    return nodes
  }

  #instance(exec: GraphExecHandle, call: string): Instance {
    const instance = this.#instances.get(exec)
    if (instance === undefined) throw cudaError(call, CUresult.INVALID_VALUE)
    return instance
  }
}

function sameShape(a: readonly CapturedNode<NodeWork>[], b: readonly CapturedNode<NodeWork>[]): boolean {
  const shapeOf = (nodes: readonly CapturedNode<NodeWork>[]): string =>
    nodes.map(({ after, work }) => `${labelOf(work)}<${after.map(({ index }) => index).sort()}`).join()
  return shapeOf(a) === shapeOf(b)
}

const labelOf = (work: NodeWork): string => (work.kind === 'work' ? (work.work?.shape ?? work.call) : work.kind)
