/** Graphs of the simulated GPU. */

import { type CapturedNode, fillOfRowsIsOn, notInBody } from '../foundation/driver/captured-graph.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { type CaptureMode, ConditionalType } from '../foundation/driver/driver-constants.js'
import type {
  ConditionalPlace,
  GraphDriver,
  NewConditional,
  NodeFacts,
  NodeKind,
} from '../foundation/driver/graph-driver.js'
import { refusedHandle } from '../foundation/driver/handle-errors.js'
import type {
  ContextHandle,
  GraphExecHandle,
  GraphHandle,
  NodeHandle,
  StreamHandle,
} from '../foundation/driver/handle-types.js'
import type { NodeWork, QueuedChildGraph, QueuedGraph, QueuedGraphUpload } from '../foundation/driver/queued-work.js'
import type { CaptureRules } from './capture-rules.js'
import type { ConditionalWork } from './machine/conditionals.js'
import type { Machine } from './machine/machine.js'
import type {
  SimBody,
  SimCapture,
  SimCondition,
  SimNodeWork,
  SimOperation,
  SimPartition,
  SimStream,
} from './machine/machine-state.js'
import { SimOperationKind, type Work } from './machine/work.js'
import { CopyEffect, FillEffect, RowsEffect } from './memory-work.js'
import type { Registry } from './registry.js'
import type { SimKernels } from './sim-kernels.js'
import type { Queued, SimMemory } from './sim-memory.js'

type Nodes = readonly CapturedNode<SimNodeWork>[]

interface SimGraph extends SimBody {
  /** The number of the capture that made the graph. */
  readonly id: bigint
  readonly handle: GraphHandle
  nodes: Nodes
  /** The values of the graph's conditions when a launch begins; handles count from 1. */
  conditions: readonly number[]
  /** The state of the graph, which stays the same object when captures add to the graph. */
  readonly life: { ended: boolean; instances: number }
}

interface SimGraphExec {
  /** The graph that the instance was made from, without its nodes: an update releases what their work refers to. */
  readonly origin: { readonly id: bigint; readonly life: SimGraph['life'] }
  nodes: Nodes
  /** The conditions that get their initial values when a launch begins. */
  conditions: readonly SimCondition[]
  /** The nodes that are switched off. */
  readonly off: Set<NodeHandle>
  /** The end of the latest launch, for which the next one waits. */
  last: SimOperation | undefined
}

const OFF: SimNodeWork = { kind: 'empty' }
/** The limit of a graph's nodes. */
const MOST_NODES = 2 ** 20

/** The functions that make the work of nodes. */
export interface NodeWorks {
  readonly kernels: SimKernels
  readonly memory: SimMemory
}

export class SimGraphs implements GraphDriver {
  readonly #graphs = new Map<GraphHandle, SimGraph>()
  readonly #instances = new Map<GraphExecHandle, SimGraphExec>()

  constructor(
    private readonly machine: Machine,
    private readonly captures: CaptureRules,
    private readonly registry: Registry,
    private readonly works: NodeWorks,
  ) {}

  begin(stream: StreamHandle, mode: CaptureMode): void {
    this.captures.begin(this.registry.liveStream(stream, 'cuStreamBeginCapture'), mode)
  }

  beginInto(handle: StreamHandle, mode: CaptureMode, graph: GraphHandle, after: readonly NodeHandle[]): void {
    const call = 'cuStreamBeginCaptureToGraph'
    const { id, nodes } = this.#graph(graph, call)
    const behind = after.flatMap((node) => nodes[node - nodeHandle(id, 0)] ?? [])
    if (behind.length < after.length) throw cudaError(call, CUresult.INVALID_VALUE)
    this.captures.begin(this.registry.liveStream(handle, call), mode, { id, nodes, after: behind })
  }

  end(handle: StreamHandle): GraphHandle {
    const stream = this.registry.liveStream(handle, 'cuStreamEndCapture')
    const { capture } = stream
    const { into, graphId = 0n, conditions = [] } = capture ?? {}
    const known = into === undefined ? undefined : this.#graphOf(into.id)
    try {
      const nodes = this.captures.end(stream)
      if (known === undefined) return this.#add(graphId, nodes, conditions).handle
      known.nodes = nodes
      known.conditions = [...known.conditions, ...conditions]
      return known.handle
    } catch (error) {
      if (known !== undefined && stream.capture === undefined) this.destroy(known.handle)
      throw error
    }
  }

  #add(id: bigint, nodes: Nodes, conditions: readonly number[]): SimGraph {
    const handle = this.registry.handles.take('graph') as GraphHandle
    const graph: SimGraph = { id, handle, nodes, conditions, life: { ended: false, instances: 0 } }
    this.#graphs.set(handle, graph)
    return graph
  }

  addGraph({ stream: handle, graph }: QueuedChildGraph): void {
    const call = 'cuGraphAddNode'
    const stream = this.registry.liveStream(handle, call)
    if (stream.capture === undefined) throw cudaError(call, CUresult.ILLEGAL_STATE)
    const { nodes } = this.#graph(graph, call)
    if (hasConditional(nodes)) throw cudaError(call, CUresult.NOT_SUPPORTED)
    this.captures.add(stream, stream.capture, call, { kind: 'graph', nodes })
  }

  createCondition(handle: StreamHandle, _context: ContextHandle, value: number): bigint {
    const call = 'cuGraphConditionalHandleCreate'
    const { conditions, into } = this.#captureOf(this.registry.liveStream(handle, call), call)
    const before = into === undefined ? 0 : (this.#graphOf(into.id)?.conditions.length ?? 0)
    conditions.push(value)
    return BigInt(before + conditions.length)
  }

  addConditional(place: ConditionalPlace, { context, condition, type, size }: NewConditional): readonly GraphHandle[] {
    const call = 'cuGraphAddNode'
    const bodies = Array.from({ length: size }, () => this.#add(this.captures.newId(), [], []))
    const work = { kind: 'conditional', type, condition, context, bodies } as const
    if ('stream' in place) {
      const stream = this.registry.liveStream(place.stream, call)
      const capture = this.#captureOf(stream, call)
      this.captures.add(stream, capture, call, work)
    } else {
      const body = this.#graph(place.body, call)
      body.nodes = [...body.nodes, { index: body.nodes.length, after: lastNodes(body.nodes), work }]
    }
    return bodies.map((body) => body.handle)
  }

  addToBody(handle: GraphHandle, graph: GraphHandle): ReadonlyMap<NodeHandle, NodeHandle> {
    const body = this.#graph(handle, 'cuGraphAddChildGraphNode')
    const { id, nodes } = this.#graph(graph, 'cuGraphAddChildGraphNode')
    const refused = firstRefused(nodes)
    if (refused !== undefined) throw notInBody(refused)
    const all = [...body.nodes]
    const begin = lastNodes(all)
    const first = all.length
    for (const { after, work } of nodes) {
      const behind = after.length === 0 ? begin : after.flatMap(({ index }) => all[first + index] ?? [])
      all.push({ index: all.length, after: behind, work })
    }
    body.nodes = all
    return new Map(nodes.map(({ index }) => [nodeHandle(id, index), nodeHandle(body.id, first + index)]))
  }

  #captureOf({ capture }: SimStream, call: string): SimCapture {
    if (capture === undefined) throw cudaError(call, CUresult.ILLEGAL_STATE)
    if (capture.invalid) throw cudaError(call, CUresult.STREAM_CAPTURE_INVALIDATED)
    return capture
  }

  #graphOf(id: bigint): SimGraph | undefined {
    for (const graph of this.#graphs.values()) if (graph.id === id) return graph
    return undefined
  }

  captureId(handle: StreamHandle): bigint | undefined {
    const { capture } = this.registry.liveStream(handle, 'cuStreamGetCaptureInfo')
    return capture === undefined || capture.invalid ? undefined : capture.id
  }

  capturedNode(handle: StreamHandle): NodeHandle | undefined {
    const stream = this.registry.liveStream(handle, 'cuStreamGetCaptureInfo')
    const [node, another] = stream.capture?.frontierOf(stream) ?? []
    return stream.capture === undefined || node === undefined || another !== undefined
      ? undefined
      : nodeHandle(stream.capture.graphId, node.index)
  }

  abandon(handle: StreamHandle): void {
    this.captures.abandon(this.registry.liveStream(handle, 'cuStreamEndCapture'))
  }

  /** Does nothing: the simulator is notified when the stream is destroyed. */
  leave(): void {}

  wrap(handle: number): GraphHandle {
    const graph = handle as GraphHandle
    if (this.#graphs.has(graph)) return graph
    throw refusedHandle('graph', handle, cudaError('cuGraphGetNodes', CUresult.INVALID_VALUE))
  }

  destroy(graph: GraphHandle): void {
    const { life, nodes } = this.#graph(graph, 'cuGraphDestroy')
    life.ended = true
    this.#graphs.delete(graph)
    this.registry.handles.giveBack('graph', graph)
    for (const { id } of bodiesOf(nodes)) {
      const body = this.#graphOf(id)
      if (body !== undefined) this.destroy(body.handle)
    }
  }

  nodeCount(graph: GraphHandle): number {
    return this.#graph(graph, 'cuGraphGetNodes').nodes.length
  }

  nodes(graph: GraphHandle): readonly NodeFacts[] {
    const { id, nodes } = this.#graph(graph, 'cuGraphGetNodes')
    return nodes.map(({ index, after, work }) => ({
      node: nodeHandle(id, index),
      kind: kindOf(work),
      after: after.map((before) => nodeHandle(id, before.index)),
      name: kindOf(work) === 'kernel' && work.kind === 'work' ? (work.work?.name ?? 'busy') : undefined,
      byteLength: work.kind === 'work' ? work.work?.byteLength : undefined,
      ...movedBy(work),
      conditional: work.kind === 'conditional' ? this.#factsOf(work) : undefined,
    }))
  }

  #factsOf({ type, bodies }: ConditionalWork): NonNullable<NodeFacts['conditional']> {
    return { type, bodies: bodies.flatMap(({ id }) => this.#graphOf(id)?.handle ?? []) }
  }

  toDot(graph: GraphHandle, verbose: boolean): string {
    const { nodes } = this.#graph(graph, 'cuGraphDebugDotPrint')
    return `${['digraph {', ...linesOf(nodes, verbose), '}'].join('\n')}\n`
  }

  instantiate(handle: GraphHandle): GraphExecHandle {
    const call = 'cuGraphInstantiate'
    const graph = this.#graph(handle, call)
    const { id, life, nodes } = graph
    if (life.instances > 0 && hasConditional(nodes)) throw cudaError(call, CUresult.NOT_SUPPORTED)
    const used = conditionsIn(nodes)
    if (used.size < graph.conditions.length) throw cudaError(call, CUresult.INVALID_VALUE)
    const isApart = ({ work }: Nodes[number]): boolean =>
      work.kind === 'conditional' &&
      work.bodies.some((body) => !areIn(body.nodes, this.registry.partition(work.context)))
    if (nodes.some(isApart)) throw cudaError(call, CUresult.INVALID_VALUE)
    const exec = this.registry.handles.take('graphExec') as GraphExecHandle
    const origin = { id, life }
    const conditions = conditionsOf(graph)
    this.#instances.set(exec, { origin, nodes: fixed(nodes), conditions, off: new Set(), last: undefined })
    life.instances += 1
    return exec
  }

  destroyExec(exec: GraphExecHandle): void {
    const instance = this.#instances.get(exec)
    if (instance !== undefined) instance.origin.life.instances -= 1
    this.#instances.delete(exec)
    this.registry.handles.giveBack('graphExec', exec)
  }

  /** Queues an upload. It is work of its stream, behind the launches and uploads of the instance before it. */
  upload({ exec, stream: handle }: QueuedGraphUpload): void {
    const { stream, instance } = this.#toRun(exec, handle, 'cuGraphUpload')
    if (!isEmpty(instance.nodes)) instance.last = this.machine.launch(stream, [], instance.last)
  }

  launch({ exec, stream: handle }: QueuedGraph): void {
    const { stream, instance } = this.#toRun(exec, handle, 'cuGraphLaunch')
    const { nodes, off, origin } = instance
    if (off.size > 0 && isOff(instance)) return
    const run = off.size === 0 ? nodes : switchedOff(origin.id, nodes, off)
    instance.last = this.machine.launch(stream, flattened(run), instance.last, instance.conditions)
  }

  #toRun(exec: GraphExecHandle, handle: StreamHandle, call: string): { stream: SimStream; instance: SimGraphExec } {
    const stream = this.registry.liveStream(handle, call)
    const instance = this.#instance(exec, call)
    this.captures.refuseOn(stream, call)
    this.captures.refuseImplicit(stream, call)
    return { stream, instance }
  }

  update(exec: GraphExecHandle, handle: GraphHandle): void {
    const instance = this.#instance(exec, 'cuGraphExecUpdate')
    const graph = this.#graph(handle, 'cuGraphExecUpdate')
    const nodes = fixed(graph.nodes)
    const updated = updatedBy(instance.nodes, nodes)
    if (updated === undefined) throw cudaError('cuGraphExecUpdate', CUresult.GRAPH_EXEC_UPDATE_FAILURE)
    instance.nodes = updated
    instance.conditions = conditionsOf(graph)
  }

  updateNode(exec: GraphExecHandle, node: NodeHandle, _context: ContextHandle, work: NodeWork): void {
    const call = 'cuGraphExecNodeSetParams'
    const { kernels, memory } = this.works
    if (work.kind === 'copy') this.#put(exec, node, call, 'copy', memory.copyWork(work, call))
    else if (work.kind === 'fill') this.#put(exec, node, call, 'fill', memory.fillWork(work, call))
    else {
      const before = this.#workOf(exec, node, call)
      const partition = before.kind === 'work' ? before.partition : undefined
      this.#put(exec, node, call, 'kernel', kernels.nodeWork(work, call, partition))
    }
  }

  setEnabled(exec: GraphExecHandle, node: NodeHandle, _context: ContextHandle | undefined, enabled: boolean): void {
    const call = 'cuGraphNodeSetEnabled'
    const { off } = this.#instance(exec, call)
    const work = this.#workOf(exec, node, call)
    const kind = kindOf(work)
    if (kind !== 'kernel' && kind !== 'copy' && kind !== 'fill') throw cudaError(call, CUresult.INVALID_VALUE)
    if (work.kind === 'work' && work.work instanceof FillEffect && work.work.isOfRows) throw fillOfRowsIsOn()
    if (enabled) off.delete(node)
    else off.add(node)
  }

  isEnabled(exec: GraphExecHandle, node: NodeHandle): boolean {
    const call = 'cuGraphNodeGetEnabled'
    const kind = kindOf(this.#workOf(exec, node, call))
    if (kind !== 'kernel' && kind !== 'copy' && kind !== 'fill') throw cudaError(call, CUresult.INVALID_VALUE)
    return !this.#instance(exec, call).off.has(node)
  }

  /** Gives a node of the instance other work of its kind. */
  #put(exec: GraphExecHandle, handle: NodeHandle, call: string, kind: NodeKind, queued: Queued): void {
    const instance = this.#instance(exec, call)
    const before = this.#workOf(exec, handle, call)
    if (before.kind !== 'work' || kindOf(before) !== kind) throw cudaError(call, CUresult.INVALID_VALUE)
    // Memory of a pool and other memory cannot take each other's place, as in an update by a graph.
    if (kind === 'copy' && placesOf(before.work) !== placesOf(queued.work))
      throw cudaError(call, CUresult.INVALID_VALUE)
    const work: SimNodeWork = { ...before, nanoseconds: queued.nanoseconds, work: queued.work }
    instance.nodes = changed(instance.origin.id, instance.nodes, (node) => (node === handle ? work : undefined))
  }

  /** The work of a node of the graph that the instance was made from, or of a body in there. */
  #workOf(exec: GraphExecHandle, node: NodeHandle, call: string): SimNodeWork {
    const { nodes, origin } = this.#instance(exec, call)
    const work = origin.life.ended ? undefined : workIn(origin.id, nodes, node)
    if (work === undefined) throw cudaError(call, CUresult.INVALID_VALUE)
    return work
  }

  #graph(graph: GraphHandle, call: string): SimGraph {
    const found = this.#graphs.get(graph)
    if (found === undefined) throw cudaError(call, CUresult.INVALID_VALUE)
    // While a capture adds to the graph, the graph has the nodes that were added so far.
    const nodes = this.captures.active ? this.captures.addingTo(found.id)?.nodes : undefined
    return nodes === undefined ? found : { ...found, nodes }
  }

  #instance(exec: GraphExecHandle, call: string): SimGraphExec {
    const instance = this.#instances.get(exec)
    if (instance === undefined) throw cudaError(call, CUresult.INVALID_VALUE)
    return instance
  }
}

const TYPE_NAMES: Readonly<Record<ConditionalType, string>> = {
  [ConditionalType.IF]: 'if',
  [ConditionalType.WHILE]: 'while',
  [ConditionalType.SWITCH]: 'switch',
}

const nodeHandle = (capture: bigint, index: number): NodeHandle => (Number(capture) * MOST_NODES + index) as NodeHandle

/** The conditions of a graph, for an instance of it. */
const conditionsOf = ({ conditions }: SimGraph): readonly SimCondition[] =>
  conditions.map((initial, index) => ({ handle: BigInt(index + 1), initial, value: initial }))

/** The handles of the conditions that nodes have. */
const conditionsIn = (nodes: Nodes): ReadonlySet<bigint> =>
  new Set(
    nodes.flatMap(({ work }) =>
      work.kind === 'conditional'
        ? [work.condition, ...work.bodies.flatMap((body) => [...conditionsIn(body.nodes)])]
        : [],
    ),
  )

/** Whether all kernels are in this part of a device, or all in none. */
const areIn = (nodes: Nodes, partition: SimPartition | undefined): boolean =>
  nodes.every(({ work }) => {
    if (work.kind === 'graph') return areIn(work.nodes, partition)
    if (work.kind === 'conditional') return work.bodies.every((body) => areIn(body.nodes, partition))
    return work.kind !== 'work' || work.operation !== SimOperationKind.KERNEL || work.partition === partition
  })

/** The kind of the first node that no body can have. */
function firstRefused(nodes: Nodes): NodeKind | undefined {
  for (const { work } of nodes) {
    const kind = kindOf(work)
    if (kind === 'graph') {
      const refused = work.kind === 'graph' ? firstRefused(work.nodes) : undefined
      if (refused !== undefined) return refused
    } else if (kind !== 'kernel' && kind !== 'copy' && kind !== 'fill' && kind !== 'empty') return kind
  }
  return undefined
}

/** The nodes that no other comes after. */
function lastNodes(nodes: Nodes): Nodes {
  const last = new Set(lastOf(nodes))
  return nodes.filter(({ index }) => last.has(index))
}

const bodiesOf = (nodes: Nodes): readonly SimBody[] =>
  nodes.flatMap(({ work }) => (work.kind === 'conditional' ? work.bodies : []))

const hasConditional = (nodes: Nodes): boolean =>
  nodes.some(({ work }) => work.kind === 'conditional' || (work.kind === 'graph' && hasConditional(work.nodes)))

/** The same nodes, with the bodies as they are now: what is added to those later is not in an instance. */
function fixed(nodes: Nodes): Nodes {
  if (!hasConditional(nodes)) return nodes
  return nodes.map((node) => {
    const { work } = node
    if (work.kind !== 'conditional') return node
    return { ...node, work: { ...work, bodies: work.bodies.map(({ id, nodes }) => ({ id, nodes: fixed(nodes) })) } }
  })
}

/** The lines of a graph in Graphviz's language. A body is drawn in a box. */
function linesOf(nodes: Nodes, verbose: boolean, prefix = 'n'): readonly string[] {
  return nodes.flatMap(({ index, after, work }) => {
    const text = verbose ? [labelOf(work), ...detailsOf(work)].join(', ') : labelOf(work)
    const label = text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')
    const name = `${prefix}${index}`
    const lines = [
      `  ${name} [label="${index}: ${label}"]`,
      ...after.map((one) => `  ${prefix}${one.index} -> ${name}`),
    ]
    if (work.kind !== 'conditional') return lines
    const boxes = work.bodies.map((body, which) => [
      `  subgraph cluster_${name}_${which} {`,
      `  label="body ${which} of ${index}"`,
      ...linesOf(body.nodes, verbose, `${name}_${which}_`),
      '  }',
    ])
    return [...lines, ...boxes.flat()]
  })
}

/** The nodes with the work of others; undefined if the graphs differ. A body keeps its number. */
function updatedBy(nodes: Nodes, others: Nodes): Nodes | undefined {
  const pairs = paired(nodes, others)
  if (pairs === undefined) return undefined
  const updated: CapturedNode<SimNodeWork>[] = []
  for (const node of nodes) {
    const behind = node.after.flatMap((one) => updated[one.index] ?? [])
    const work = others[pairs.get(node.index) ?? -1]?.work ?? node.work
    updated.push({ ...node, after: behind, work: withBodiesOf(node.work, work) })
  }
  return updated
}

function withBodiesOf(before: SimNodeWork, work: SimNodeWork): SimNodeWork {
  if (before.kind !== 'conditional' || work.kind !== 'conditional') return work
  const bodies = before.bodies.map(({ id, nodes }, which) => {
    return { id, nodes: updatedBy(nodes, work.bodies[which]?.nodes ?? []) ?? nodes }
  })
  return { ...work, bodies }
}

/** The work of a node among these, or in one of their bodies. */
function workIn(id: bigint, nodes: Nodes, node: NodeHandle): SimNodeWork | undefined {
  const own = nodes[node - nodeHandle(id, 0)]
  if (own !== undefined) return own.work
  for (const body of bodiesOf(nodes)) {
    const found = workIn(body.id, body.nodes, node)
    if (found !== undefined) return found
  }
  return undefined
}

/** The same nodes, some of which have other work, also in bodies. */
function changed(id: bigint, nodes: Nodes, change: (node: NodeHandle) => SimNodeWork | undefined): Nodes {
  return nodes.map((node) => {
    const work = change(nodeHandle(id, node.index))
    if (work !== undefined) return { ...node, work }
    if (node.work.kind !== 'conditional') return node
    const bodies = node.work.bodies.map((body) => ({ id: body.id, nodes: changed(body.id, body.nodes, change) }))
    return { ...node, work: { ...node.work, bodies } }
  })
}

const switchedOff = (id: bigint, nodes: Nodes, off: ReadonlySet<NodeHandle>): Nodes =>
  changed(id, nodes, (node) => (off.has(node) ? OFF : undefined))

/** Whether a launch has nothing to do. */
const isEmpty = (nodes: Nodes): boolean =>
  nodes.every(({ work }) => work.kind === 'empty' || (work.kind === 'graph' && isEmpty(work.nodes)))

/** Whether all is switched off that a launch has to do. A fill that is off still writes, to another address. */
const isOff = ({ nodes, off, origin }: SimGraphExec): boolean =>
  !isEmpty(nodes) &&
  isEmpty(nodes.filter(({ index, work }) => !off.has(nodeHandle(origin.id, index)) || kindOf(work) === 'fill'))

/** The nodes of a graph, with those of graphs within it in their place, each such graph between two nodes that do nothing. */
function flattened(nodes: Nodes): Nodes {
  if (nodes.every(({ work }) => work.kind !== 'graph' && work.kind !== 'conditional')) return nodes
  const all: CapturedNode<SimNodeWork>[] = []
  const put = (after: Nodes, work: SimNodeWork): CapturedNode<SimNodeWork> => {
    const node = { index: all.length, after, work }
    all.push(node)
    return node
  }
  const putAll = (graph: Nodes, roots: Nodes): Nodes => {
    const ends: CapturedNode<SimNodeWork>[] = []
    for (const { after, work } of graph) {
      const behind = after.length === 0 ? roots : after.flatMap(({ index }) => ends[index] ?? [])
      if (work.kind === 'graph') ends.push(put(putAll(work.nodes, [put(behind, OFF)]), OFF))
      else if (work.kind !== 'conditional') ends.push(put(behind, work))
      else {
        const bodies = work.bodies.map((body) => ({ ...body, nodes: flattened(body.nodes) }))
        ends.push(put(behind, { ...work, bodies }))
      }
    }
    return ends.length === 0 ? roots : ends
  }
  putAll(nodes, [])
  return all
}

/**
 * The place in the graph from which an update takes the work of each place in an instance; undefined if the graphs differ. CUDA pairs the nodes
 * that nothing comes after, in the order in which the origin of the capture came to be behind them, and then what these come after, in the order
 * in which they came to.
 */
function paired(nodes: Nodes, others: Nodes): ReadonlyMap<number, number> | undefined {
  if (nodes.length !== others.length) return undefined
  const pairs = new Map<number, number>()
  const open: [readonly number[], readonly number[]][] = [[lastOf(nodes), lastOf(others)]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [some, those] = next
    if (some.length !== those.length) return undefined
    for (const [at, index] of some.entries()) {
      const [node, other] = [nodes[index], others[those[at] ?? -1]]
      if (node === undefined || other === undefined) return undefined
      const known = pairs.get(index)
      if (known === other.index) continue
      if (known !== undefined || !isSameKind(node.work, other.work)) return undefined
      pairs.set(index, other.index)
      open.push([indexesOf(node.after), indexesOf(other.after)])
    }
  }
  return pairs
}

const indexesOf = (nodes: Nodes): readonly number[] => nodes.map(({ index }) => index)

/** The indices of the nodes that no other comes after, in the order in which an update pairs them. */
function lastOf(nodes: Nodes): readonly number[] {
  const followed = new Set(nodes.flatMap(({ after }) => indexesOf(after)))
  const last = nodes.filter(({ index }) => !followed.has(index))
  return indexesOf(last.sort((a, b) => (a.rank ?? a.index) - (b.rank ?? b.index)))
}

function isSameKind(work: SimNodeWork, other: SimNodeWork): boolean {
  if (work.kind === 'graph') return other.kind === 'graph' && paired(work.nodes, other.nodes) !== undefined
  if (work.kind === 'conditional') {
    if (other.kind !== 'conditional' || work.type !== other.type) return false
    if (work.bodies.length !== other.bodies.length) return false
    return work.bodies.every((body, index) => paired(body.nodes, other.bodies[index]?.nodes ?? []) !== undefined)
  }
  return labelOf(work) === labelOf(other) && placeOf(work) === placeOf(other)
}

function labelOf(work: SimNodeWork): string {
  if (work.kind === 'conditional') return TYPE_NAMES[work.type]
  return work.kind === 'work' ? (work.work?.shape ?? work.call) : work.kind
}

/** The facts of a copy or a fill that other nodes do not have. */
function movedBy(work: SimNodeWork): Pick<NodeFacts, 'destination' | 'source' | 'value' | 'width'> {
  const effect = work.kind === 'work' ? work.work : undefined
  if (effect instanceof FillEffect) return effect.filled
  return effect instanceof CopyEffect || effect instanceof RowsEffect ? effect.ends : {}
}

/** What a drawing with details says of a node. */
function detailsOf(work: SimNodeWork): readonly string[] {
  if (work.kind !== 'work') return []
  const { destination, source, value, width } = movedBy(work)
  const address = (pointer: number): string => `0x${pointer.toString(16)}`
  return [
    ...(source === undefined ? [] : [`from ${address(source)}`]),
    ...(destination === undefined ? [] : [`to ${address(destination)}`]),
    ...(value === undefined ? [] : [`value ${value} of ${width} bytes`]),
    ...(work.work?.byteLength === undefined ? [] : [`${work.work.byteLength} bytes`]),
    `on device ${work.device.ordinal}`,
    work.call,
  ]
}

function kindOf(work: SimNodeWork): NodeKind {
  if (work.kind === 'host') return 'hostFunction'
  if (work.kind !== 'work') return work.kind
  if (work.operation === SimOperationKind.KERNEL) return 'kernel'
  const { work: memory } = work
  if (memory instanceof CopyEffect || memory instanceof RowsEffect) return 'copy'
  return memory instanceof FillEffect ? 'fill' : 'other'
}

/** The kinds of memory between which a copy goes; undefined for other work. */
const placesOf = (work: Work | undefined): string | undefined =>
  work instanceof CopyEffect || work instanceof RowsEffect ? work.places : undefined

/**
 * The place that an update must leave unchanged: a kernel or a fill stays on the device that it was captured on, and a kernel in its part of that.
 * Whether CUDA requires that of copies is not known.
 */
function placeOf(work: SimNodeWork): string {
  if (work.kind !== 'work') return ''
  const { operation, device, partition, work: memory } = work
  const isKernel = operation === SimOperationKind.KERNEL
  if (isKernel && memory?.shape === undefined) return `on ${device.ordinal} in ${partition?.context}`
  // The work of another library that is taken for a fill is updated as one.
  return isKernel || memory instanceof FillEffect ? `on ${device.ordinal}` : ''
}
