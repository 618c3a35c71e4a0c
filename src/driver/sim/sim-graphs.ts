/** Graphs of the simulated GPU. */
import type { CapturedNode } from '../captured-graph.js'
import { CUresult, cudaError } from '../cuda-results.js'
import type { CaptureMode, GraphDriver, GraphExecHandle, GraphHandle, StreamHandle } from '../driver.js'
import type { CaptureRules } from './capture-rules.js'
import type { Machine } from './machine/machine.js'
import type { SimNodeWork, SimOperation } from './machine/machine-state.js'
import { SimOperationKind } from './machine/work.js'
import type { Registry } from './registry.js'

type Nodes = readonly CapturedNode<SimNodeWork>[]

interface SimGraphExec {
  nodes: Nodes
  /** The end of its latest launch: the next one waits for it. */
  last: SimOperation | undefined
}

export class SimGraphs implements GraphDriver {
  readonly #graphs = new Map<GraphHandle, Nodes>()
  readonly #instances = new Map<GraphExecHandle, SimGraphExec>()

  constructor(
    private readonly machine: Machine,
    private readonly captures: CaptureRules,
    private readonly registry: Registry,
  ) {}

  begin(stream: StreamHandle, mode: CaptureMode): void {
    this.captures.begin(this.registry.liveStream(stream, 'cuStreamBeginCapture'), mode)
  }

  end(stream: StreamHandle): GraphHandle {
    const nodes = this.captures.end(this.registry.liveStream(stream, 'cuStreamEndCapture'))
    const graph = this.registry.handles.take('graph') as GraphHandle
    this.#graphs.set(graph, nodes)
    return graph
  }

  captureId(handle: StreamHandle): bigint | undefined {
    const { capture } = this.registry.liveStream(handle, 'cuStreamGetCaptureInfo')
    return capture === undefined || capture.invalid ? undefined : capture.id
  }

  abandon(handle: StreamHandle): void {
    this.captures.abandon(this.registry.liveStream(handle, 'cuStreamEndCapture'))
  }

  destroy(graph: GraphHandle): void {
    this.#nodes(graph, 'cuGraphDestroy')
    this.#graphs.delete(graph)
    this.registry.handles.giveBack('graph', graph)
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
    const exec = this.registry.handles.take('graphExec') as GraphExecHandle
    this.#instances.set(exec, { nodes, last: undefined })
    return exec
  }

  destroyExec(exec: GraphExecHandle): void {
    this.#instances.delete(exec)
    this.registry.handles.giveBack('graphExec', exec)
  }

  upload(exec: GraphExecHandle, stream: StreamHandle): void {
    this.captures.refuseOn(this.registry.liveStream(stream, 'cuGraphUpload'), 'cuGraphUpload')
    this.#instance(exec, 'cuGraphUpload')
  }

  launch(exec: GraphExecHandle, handle: StreamHandle): void {
    const call = 'cuGraphLaunch'
    const stream = this.registry.liveStream(handle, call)
    const instance = this.#instance(exec, call)
    this.captures.refuseOn(stream, call)
    this.captures.refuseImplicit(stream, call)
    instance.last = this.machine.launch(stream, instance.nodes, instance.last)
  }

  update(exec: GraphExecHandle, graph: GraphHandle): void {
    const instance = this.#instance(exec, 'cuGraphExecUpdate')
    const nodes = this.#nodes(graph, 'cuGraphExecUpdate')
    if (!sameShape(instance.nodes, nodes)) throw cudaError('cuGraphExecUpdate', CUresult.GRAPH_EXEC_UPDATE_FAILURE)
    instance.nodes = nodes
  }

  #nodes(graph: GraphHandle, call: string): Nodes {
    const nodes = this.#graphs.get(graph)
    if (nodes === undefined) throw cudaError(call, CUresult.INVALID_VALUE)
    return nodes
  }

  #instance(exec: GraphExecHandle, call: string): SimGraphExec {
    const instance = this.#instances.get(exec)
    if (instance === undefined) throw cudaError(call, CUresult.INVALID_VALUE)
    return instance
  }
}

function sameShape(a: Nodes, b: Nodes): boolean {
  const shapeOf = (nodes: Nodes): string =>
    nodes.map(({ after, work }) => `${labelOf(work)}${placeOf(work)}<${after.map(({ index }) => index).sort()}`).join()
  return shapeOf(a) === shapeOf(b)
}

/** A kernel stays in its part of the device. */
const placeOf = (work: SimNodeWork): string =>
  work.kind === 'work' && work.operation === SimOperationKind.KERNEL ? ` in ${work.partition?.context}` : ''

const labelOf = (work: SimNodeWork): string => (work.kind === 'work' ? (work.work?.shape ?? work.call) : work.kind)
