/** Graphs and their instances; graphs come from captures (capture.ts). */

import { checkBoolean, checkOwner, checkPointer, readOptions } from '../../foundation/base/arguments.js'
import {
  CudaError,
  explained,
  invalidType,
  invalidValue,
  outOfRange,
  refuseReceiver,
  stateError,
} from '../../foundation/base/errors.js'
import { construct, implementation } from '../../foundation/base/library-object.js'
import { memoize } from '../../foundation/base/memoize.js'
import { CUresult } from '../../foundation/driver/cuda-results.js'
import type { CaptureMode } from '../../foundation/driver/driver-constants.js'
import type { NodeFacts } from '../../foundation/driver/graph-driver.js'
import type { ContextHandle, GraphExecHandle, GraphHandle, NodeHandle } from '../../foundation/driver/handle-types.js'
import { isNullStream } from '../../foundation/driver/handle-types.js'
import type { LaunchShape } from '../../foundation/driver/kernel-driver.js'
import {
  another,
  contextOf,
  type Device,
  deviceForHandle,
  driverOf,
  elsewhere,
  HandleImpl,
  HandleObject,
} from '../device.js'
import { conditionImplOf } from '../kernels/condition.js'
import type { DefinedKernel } from '../kernels/defined-kernel.js'
import type { Kernel, LaunchConfig } from '../kernels/kernel.js'
import type { ArgumentsOf, ParameterType } from '../kernels/kernel-signature.js'
import { isKernel, type LaunchNode, launchOn, refuseArguments, updateNode } from '../kernels/launchable.js'
import type { TritonKernel } from '../kernels/triton-kernel.js'
import type { BufferImpl, OpenMemory } from '../memory/buffer.js'
import type { DeviceBuffer } from '../memory/device-buffer.js'
import type { PinnedBuffer } from '../memory/pinned-buffer.js'
import { enablePeerAccess, endOf, endsOf } from '../memory/queue-with-memory.js'
import { checkCopy, checkFill, type FillValueOptions, openFill } from '../memory/transfers.js'
import type { CaptureRecord, CaptureTarget, CopyEnd, NotedNode } from '../streams/capture-record.js'
import { captureBegan, RetainedResources, recordOf, recordOfTarget } from '../streams/capture-record.js'
import { greenContextsOf } from '../streams/green-context.js'
import { currentStreamImpl, type StreamImpl, streamImplOf } from '../streams/stream-impl.js'
import { GraphExecImpl, type InstantiatedGraph } from './graph-exec-impl.js'
import type { CopyNode, FillNode, GraphNode, KernelNode, NodeState } from './nodes.js'
import { nodeStateOf, nodesOf } from './nodes.js'

/** Objects of the program that a graph or an instance keeps reachable. */
class ReachableObjects {
  /** Owners of foreign memory and events. */
  owners: ReadonlySet<object> = new Set()
  /** The owners of the memory of an instance's updated nodes. */
  readonly nodeOwners = new Map<NodeHandle, readonly object[]>()
  /** The kernels of a graph's nodes, among what the driver does not report. */
  notes: ReadonlyMap<NodeHandle, NotedNode> = new Map()
  nodes: readonly GraphNode[] | undefined

  /** A closed graph has no nodes, and keeps no kernels reachable for them. */
  forgetNodes(): void {
    this.notes = new Map()
    this.nodes = undefined
  }
}

/**
 * The reachable objects by the public object: they are collected together with an owner or a kernel that refers to it.
 */
const reachableFrom = memoize((_graph: Graph | GraphExec) => new ReachableObjects())

class GraphImpl extends HandleImpl<GraphHandle> implements CaptureTarget, InstantiatedGraph {
  #hasCapture = false
  isLost = false
  /** The number of open instances. */
  #instances = 0
  /** The program has nodes of it. */
  #hasNodeObjects = false
  /** The conditions that no node has. */
  unusedConditions = 0
  /** The captures of which the graph is made. */
  readonly captures = new WeakSet<CaptureRecord>()

  constructor(
    device: Device,
    graph: GraphHandle,
    readonly retained: RetainedResources,
    context: ContextHandle,
    /** Does this library destroy it? */
    private readonly isOwned = true,
  ) {
    super('Graph', device, graph, context)
  }

  /** The graph of another library. */
  static wrap(handle: bigint | number, wanted: Device | number | undefined): GraphImpl {
    const address = checkPointer(handle, 'handle', 'a CUgraph (a bigint or a safe integer)')
    const device = deviceForHandle(address, wanted)
    const graph = driverOf(device).graphs.wrap(address)
    return new GraphImpl(device, graph, new RetainedResources(), contextOf(device), false)
  }

  /** A capture begins to add to it: it is not destroyed meanwhile. */
  captureBegins(): void {
    if (this.#hasCapture) throw invalidValue(`A capture adds to ${this} already`)
    this.#hasCapture = true
    this.retain()
  }

  captureEnded(): void {
    this.#hasCapture = false
    this.release()
  }

  captureFailed(): void {
    this.isLost = true
    const graph = captureTargets.get(this)
    captureTargets.delete(this)
    if (graph !== undefined) reachableFrom(graph).forgetNodes()
    this.dispose()
    this.captureEnded()
  }

  /**
   * The program gets nodes of it, which the driver takes for those of instances as long as the graph exists: from now on
   * instances retain it. Without nodes they do not, since after an update they use nothing of it any more.
   */
  nodesRead(): void {
    if (this.#hasNodeObjects) return
    this.#hasNodeObjects = true
    for (let left = this.#instances; left > 0; left -= 1) this.retain()
  }

  instanceMade(): void {
    this.#instances += 1
    if (this.#hasNodeObjects) this.retain()
  }

  instanceClosed(): void {
    this.#instances -= 1
    if (this.#hasNodeObjects) this.release()
  }

  override destroy(): void {
    try {
      if (!this.isLost && this.isOwned) this.driver.graphs.destroy(this.handle)
    } finally {
      this.retained.release()
    }
  }
}

/** The options of `Graph.from()`. */
export interface ForeignGraphOptions {
  /** The device of the graph's work; -1: not known. Default: the current device. */
  readonly device?: Device | number | undefined
  /** An object that is kept reachable while the graph or an instance of it is. */
  readonly owner?: object | undefined
}

/**
 * Captured work: a template, to be instantiated. It outlives the streams that it was captured from, and retains what its work
 * uses: buffers, modules and events that are closed, or that the program cannot reach any more, are destroyed when the graph,
 * its instances and their launches are over. A closed graph is ERR_CLOSED, and only `handle`, `device`, `closed` and
 * `close()` still work.
 */
export class Graph extends HandleObject {
  /** @internal */
  declare readonly [implementation]: GraphImpl

  /** Use `stream.capture(fn)` or `stream.endCapture()`. */
  private constructor(impl: GraphImpl) {
    super(impl, GraphImpl, 'Graph', 'stream.capture(fn)')
  }

  /** @internal */
  static [construct](impl: GraphImpl): Graph {
    return new Graph(impl)
  }

  /**
   * Wraps a graph that another library made, such as what PyTorch or CuPy has captured: to be instantiated, launched on streams of this library,
   * put into its captures, and read (`nodes`, `toDot()`). This library never destroys it, and knows neither what memory its work uses nor what
   * order that needs: the other library keeps both.
   * @param handle The CUgraph, as a bigint or number.
   * @param options `device`: the device of the work, which CUDA does not report (default: the current device). `owner`: an object that is kept
   * reachable while the graph or an instance of it is, such as the one that keeps the memory of its work.
   * @throws {Error} ERR_INVALID_HANDLE for a handle of no graph; ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE
   * @example
   * ```ts
   * using graph = Graph.from(handle, { owner })
   * using exec = graph.instantiate()
   * stream.launch(exec)
   * ```
   */
  static from(handle: bigint | number, options?: ForeignGraphOptions): Graph {
    const { device, owner } = readOptions(options, ['device', 'owner'])
    const held = checkOwner(owner)
    const graph = new Graph(GraphImpl.wrap(handle, device))
    if (held !== undefined) reachableFrom(graph).owners = new Set([held])
    return graph
  }

  /** The CUgraph. It keeps nothing alive, and can still be read after `close()`, when it is no graph any more. */
  get handle(): bigint {
    return BigInt(graphImpl(this).handle)
  }

  /**
   * The number of operations of the graph (`cuGraphGetNodes`).
   * @throws {Error} ERR_CLOSED
   */
  get nodeCount(): number {
    const { driver, handle } = openGraph(this)
    return driver.graphs.nodeCount(handle)
  }

  /**
   * The graph in Graphviz's DOT language (`cuGraphDebugDotPrint`, by way of a file in the system's temporary
   * directory).
   * @param options `verbose`: whether nodes are drawn with what they are launched with, such as addresses and shapes (default
   * false; CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)
   * @throws {Error} ERR_CLOSED, ERR_INVALID_ARG_TYPE
   */
  toDot(options?: { readonly verbose?: boolean | undefined }): string {
    const verbose = checkBoolean(readOptions(options, ['verbose']).verbose, 'options.verbose', false)
    const { driver, handle } = openGraph(this)
    return driver.graphs.toDot(handle, verbose)
  }

  /**
   * Makes an instance that can be launched (`cuGraphInstantiate`). The graph may be closed afterwards. While a capture adds
   * to the graph, the instance has what was captured so far.
   * @throws {Error} ERR_CLOSED; ERR_UNSUPPORTED if all instances together have more than 4096 host functions
   * @throws {CudaError} if the driver refuses: 801 for a second instance of a graph with conditional nodes while the first is there, 1
   * for a condition that no node has
   * @example
   * ```ts
   * using exec = graph.instantiate()
   * exec.upload(stream)
   * stream.launch(exec).launch(exec)
   * ```
   */
  instantiate(): GraphExec {
    const { driver, device, handle, context, retained } = openGraph(this)
    const exec = instantiated(graphImpl(this), () => driver.graphs.instantiate(handle, context))
    const impl = new GraphExecImpl(device, exec, graphImpl(this), retained.copy(), context)
    const made = GraphExec[construct](impl)
    reachableFrom(made).owners = reachableFrom(this).owners
    return made
  }

  /**
   * The nodes of the graph, each behind those that it comes after (`cuGraphGetNodes`, `cuGraphGetEdges`). `kind` is the
   * type of a node.
   * @throws {Error} ERR_CLOSED
   * @example
   * ```ts
   * for (const node of graph.nodes) {
   *   if (node.kind === 'kernel') console.log(node.name, node.after.length)
   * }
   * ```
   */
  get nodes(): readonly GraphNode[] {
    const impl = openGraph(this)
    const reachable = reachableFrom(this)
    if (reachable.nodes === undefined) {
      const factsOf = (graph: GraphHandle): readonly NodeFacts[] => impl.driver.graphs.nodes(graph)
      reachable.nodes = nodesOf(impl, factsOf(impl.handle), reachable.notes, factsOf)
      impl.nodesRead()
    }
    return reachable.nodes
  }

  /**
   * The nodes of one kernel, in the order of the capture, with those in bodies of conditional nodes, typed by its signature: for `exec.update(node, config,
   * ...args)`.
   * @param kernel The kernel that was launched in the capture.
   * @throws {Error} ERR_CLOSED, ERR_INVALID_ARG_TYPE
   * @example
   * ```ts
   * const [first] = graph.nodesOf(axpy)
   * ```
   */
  nodesOf<S extends readonly ParameterType[]>(
    kernel: Kernel<S> | DefinedKernel<S> | TritonKernel<S>,
  ): readonly KernelNode<S>[] {
    openGraph(this)
    if (!isKernel(kernel)) throw invalidType('kernel', 'a Kernel or a DefinedKernel', kernel)
    return withBodies(this.nodes).filter(
      (node): node is KernelNode<S> => node.kind === 'kernel' && node.kernel === kernel,
    )
  }

  /** Destroys the graph (`cuGraphDestroy`); instances of it remain usable. May be called twice. */
  close(): void {
    graphImpl(this).close()
    reachableFrom(this).forgetNodes()
  }

  get [Symbol.toStringTag](): string {
    return 'Graph'
  }

  /** @internal */
  [launchOn](stream: StreamImpl, config: unknown, args: readonly unknown[]): void {
    const impl = openGraph(this)
    refuseArguments(impl, config, args)
    const isCapturing = !isNullStream(stream.handle) && stream.isCapturing
    if (!isCapturing) {
      throw invalidType('target', 'a GraphExec or a Kernel', this, 'graph.instantiate() makes a GraphExec of it')
    }
    checkDevice(impl, stream)
    const record = recordOf(stream)
    if (record?.target === impl) throw invalidValue(`${impl} cannot be put into itself`)
    record?.retained.addAll(impl.retained)
    for (const owner of reachableFrom(this).owners) record?.owners.add(owner)
    impl.driver.work.queue({ kind: 'childGraph', stream: stream.handle, graph: impl.handle })
    stream.lastWork = 'a graph'
  }
}

/** CUDA says by a number alone why it refuses an instance. */
function instantiated(graph: GraphImpl, make: () => GraphExecHandle): GraphExecHandle {
  try {
    return make()
  } catch (error) {
    if (!(error instanceof CudaError)) throw error
    if (error.number === CUresult.NOT_SUPPORTED) {
      throw explained(
        error,
        `A graph with conditional nodes has one instance at a time: close the other one, which CUDA destroys when the device is idle, or capture ${graph} again`,
      )
    }
    if (error.number !== CUresult.INVALID_VALUE || graph.unusedConditions === 0) throw error
    throw explained(
      error,
      `${graph} has a condition that no node has: use each condition that you make in if(), while() or switch()`,
    )
  }
}

/** The nodes, with those of bodies behind their conditional node. */
const withBodies = (nodes: readonly GraphNode[]): readonly GraphNode[] =>
  nodes.flatMap((node) => (node.kind === 'conditional' ? [node, ...node.bodies.flatMap(withBodies)] : [node]))

const graphImplOf = (value: unknown): GraphImpl | undefined =>
  value instanceof Graph ? value[implementation] : undefined

const graphImpl = (graph: unknown): GraphImpl => graphImplOf(graph) ?? refuseReceiver('a Graph', graph)

export const isGraph = (value: unknown): value is Graph => graphImplOf(value) !== undefined

/** Begins a capture that adds to a graph, behind these nodes of it. */
export function beginInto(stream: StreamImpl, mode: CaptureMode, into: Graph, after: readonly GraphNode[]): void {
  const impl = openGraph(into)
  checkDevice(impl, stream)
  const behind = after.map((node, index) => {
    const found = nodeStateOf(node)
    if (found === undefined) throw invalidType(`options.after[${index}]`, 'a node of the graph', node)
    if (found.isInBody) throw invalidValue(`options.after[${index}], ${node}, is in the body of a conditional node`)
    if (found.graph === impl) return found.handle
    throw invalidValue(`options.after[${index}], ${node}, is not a node of ${impl}`)
  })
  impl.captureBegins()
  try {
    stream.driver.graphs.beginInto(stream.handle, mode, impl.handle, behind)
  } catch (error) {
    impl.captureEnded()
    throw error
  }
  captureTargets.set(impl, into)
  captureBegan(stream, impl)
}

/** The graphs that captures add to, by their implementations. */
const captureTargets = new Map<object, Graph>()

/** A capture has ended that added to the graph. */
function extended(impl: GraphImpl, record: CaptureRecord): Graph {
  const graph = captureTargets.get(impl)
  if (graph === undefined) throw new Error('no capture adds to this graph')
  captureTargets.delete(impl)
  addCaptured(graph, impl, record)
  record.retained.release()
  if (impl.isClosed) reachableFrom(graph).forgetNodes()
  impl.captureEnded()
  return graph
}

/** The graph retains and reports what was captured into it, so far or at the end. */
function addCaptured(graph: Graph, impl: GraphImpl, record: CaptureRecord): void {
  impl.retained.addAll(record.retained)
  impl.captures.add(record)
  impl.unusedConditions += record.unusedConditions
  record.unusedConditions = 0
  for (const green of greenContextsOf(impl.driver)) impl.retained.add(green)
  const reachable = reachableFrom(graph)
  reachable.owners = new Set([...reachable.owners, ...record.owners])
  reachable.notes = new Map([...reachable.notes, ...record.notes])
  reachable.nodes = undefined
}

function checkDevice<S extends StreamImpl>(impl: GraphImpl | GraphExecImpl, stream: S): S {
  if (impl.device === stream.device) return stream
  const where = elsewhere(stream.device, impl.device)
  throw stateError('ERR_DEVICE_MISMATCH', `${impl} cannot be used by ${stream}, which is on ${where}`)
}

/** The graph that a capture on this stream gave. */
export function graphOf(
  { driver, device, context }: StreamImpl,
  handle: GraphHandle,
  record: CaptureRecord | undefined,
): Graph {
  if (record?.target instanceof GraphImpl) return extended(record.target, record)
  const retained = record?.retained ?? new RetainedResources()
  for (const green of greenContextsOf(driver)) retained.add(green)
  const graph = Graph[construct](new GraphImpl(device, handle, retained, context))
  if (record !== undefined) {
    graph[implementation].captures.add(record)
    graph[implementation].unusedConditions = record.unusedConditions
    const reachable = reachableFrom(graph)
    reachable.owners = record.owners
    reachable.notes = record.notes
  }
  return graph
}

function openGraph(graph: unknown): GraphImpl {
  const impl = graphImpl(graph).checkOpen()
  const target = captureTargets.get(impl)
  const record = target === undefined ? undefined : recordOfTarget(impl.driver, impl)
  if (target !== undefined && record !== undefined) addCaptured(target, impl, record)
  return impl
}

/**
 * An instance of a graph, which can be launched any number of times. Launches of one instance run one after another. It
 * retains what its work uses, as the graph does, and until its launches are over. A closed instance is ERR_CLOSED, and only
 * `device`, `closed` and `close()` still work.
 */
export class GraphExec extends HandleObject {
  /** @internal */
  declare readonly [implementation]: GraphExecImpl

  /** Use `graph.instantiate()`. */
  private constructor(impl: GraphExecImpl) {
    super(impl, GraphExecImpl, 'GraphExec', 'graph.instantiate()')
  }

  /** @internal */
  static [construct](impl: GraphExecImpl): GraphExec {
    return new GraphExec(impl)
  }

  /**
   * The CUgraphExec, for other libraries to launch or update. It keeps nothing alive, and can still be read after `close()`, when it is no
   * instance any more. This library does not know of launches and updates that others make.
   */
  get handle(): bigint {
    return BigInt(execImpl(this).handle)
  }

  /**
   * Replaces the work of the instance by that of another graph of the same shape (`cuGraphExecUpdate`).
   * @param graph A graph of the same driver.
   * @throws {CudaError} 910 if the shapes differ, and for a kernel or fill of another device; the instance is unchanged then
   * @throws {Error} ERR_DEVICE_MISMATCH for a graph of another driver; ERR_UNSUPPORTED as `instantiate()`, and after `setEnabled()`;
   * ERR_INVALID_ARG_TYPE, ERR_CLOSED
   * @example
   * ```ts
   * stream.launch(exec.update(stream.capture(() => stream.fill(buffer, value))))
   * ```
   */
  update(graph: Graph): this
  /**
   * Gives one kernel of the instance other arguments, for later launches (`cuGraphExecKernelNodeSetParams`). Launches under
   * way keep theirs.
   * @param node A node of the graph that the instance was made from, which may be closed by now.
   * @param config The shape of the launch, such as `node.config`. Only `grid` (or `threads`), `block` and
   * `sharedMemory` may change.
   * @param args One argument for each parameter of the kernel, as for `stream.launch()`.
   * @throws {Error} ERR_INVALID_ARG_VALUE for a node of another graph, another number of arguments, or other `cooperative`
   * and `cluster`; ERR_UNSUPPORTED for a kernel that another library launched; otherwise as `stream.launch()`
   * @throws {CudaError} mostly 1, for a shape that the device cannot run
   * @example
   * ```ts
   * for (const node of graph.nodesOf(axpy)) exec.update(node, config, 3, x, y, 1024)
   * stream.launch(exec)
   * ```
   */
  update<S extends readonly ParameterType[]>(node: KernelNode<S>, config: LaunchConfig, ...args: ArgumentsOf<S>): this
  /**
   * Gives one copy of the instance other buffers, of any length, for later launches (`cuGraphExecMemcpyNodeSetParams`).
   * @param node A copy of the graph that the instance was made from.
   * @param destination The buffer to write, on the device or host that the captured one was on.
   * @param source The buffer to read, on the device or host that the captured one was on.
   * @throws {CudaError} 1 for memory of a pool where the captured one was other memory, such as that of `alloc(byteLength, { interprocess: true })`, and the reverse
   * @throws {Error} ERR_INVALID_ARG_VALUE for a node of another graph, buffers elsewhere or that overlap, and a copy of several rows; ERR_OUT_OF_RANGE for buffers without bytes; ERR_UNSUPPORTED for a copy that another library queued; otherwise as
   * `stream.copy()`
   */
  update(node: CopyNode, destination: DeviceBuffer | PinnedBuffer, source: DeviceBuffer | PinnedBuffer): this
  /**
   * Gives one fill of the instance another buffer and value, for later launches (`cuGraphExecMemsetNodeSetParams`).
   * @param node A fill of the graph that the instance was made from.
   * @param buffer The buffer to write.
   * @param value An integer of `width` bytes, signed or not.
   * @param options `width`: the bytes of the value, 1, 2 or 4 (default 1)
   * @throws {Error} ERR_INVALID_ARG_VALUE for a node of another graph, and for pinned memory if the captured fill's was
   * a device's, or the reverse, and for a fill of several rows; ERR_OUT_OF_RANGE for a buffer without bytes; ERR_UNSUPPORTED for a fill that another library
   * queued; otherwise as `stream.fill()`
   */
  update(node: FillNode, buffer: DeviceBuffer | PinnedBuffer, value: number, options?: FillValueOptions): this
  update(target: Graph | GraphNode, ...given: unknown[]): this {
    const impl = execImpl(this)
    const node = nodeStateOf(target)
    if (node !== undefined) {
      const memory = changeNode(impl, target as GraphNode, node, given)
      impl.nodeUses(node.handle, memory)
      const { nodeOwners } = reachableFrom(this)
      const owners = memory.flatMap(({ allocation }) => allocation.owner?.deref() ?? [])
      if (owners.length > 0) nodeOwners.set(node.handle, owners)
      else nodeOwners.delete(node.handle)
      return this
    }
    const graph = target as Graph
    const from = graphImplOf(graph)
    if (from === undefined) throw invalidType('graph', 'a Graph, or a node of one', graph)
    impl.checkOpen()
    from.checkOpen()
    if (from.driver !== impl.driver) {
      const owner = another(from.driver, impl.driver)
      throw stateError('ERR_DEVICE_MISMATCH', `${from} belongs to ${owner} than the instance it is to update`)
    }
    if (impl.changed === 'switched') throw excluded(impl)
    try {
      impl.driver.graphs.update(impl.handle, from.handle)
    } catch (error) {
      throw whyNoUpdate(error, graph)
    }
    impl.changed = 'updated'
    const reachable = reachableFrom(this)
    reachable.owners = reachableFrom(graph).owners
    reachable.nodeOwners.clear()
    impl.replaced(from.retained)
    return this
  }

  /**
   * Switches a kernel, copy or fill of the instance off, or on again, for later launches (`cuGraphNodeSetEnabled`; a fill
   * that is off writes a byte of internal memory). A node that is off does nothing, and the order of the nodes around it
   * remains. An update of the node leaves it off. Nodes of an instance that was updated by a graph cannot be switched, and
   * an instance with switched nodes cannot be updated by a graph.
   * @param node A node of the graph that the instance was made from.
   * @param enabled Is the node to be launched?
   * @throws {Error} ERR_INVALID_ARG_VALUE for a node of another graph, and one that is no kernel, copy or fill;
   * ERR_UNSUPPORTED after `exec.update(graph)`, and for a fill of several rows; ERR_INVALID_ARG_TYPE,
   * ERR_CLOSED
   * @example
   * ```ts
   * for (const node of graph.nodesOf(axpy)) exec.setEnabled(node, false)
   * stream.launch(exec)
   * ```
   */
  setEnabled(node: KernelNode | CopyNode | FillNode, enabled: boolean): this {
    const impl = execImpl(this)
    if (nodeStateOf(node) !== undefined && typeof enabled !== 'boolean')
      throw invalidType('enabled', 'true or false', enabled)
    const found = switchable(impl, node, 'cannot be switched off')
    if (impl.changed === 'updated') throw excluded(impl)
    impl.driver.graphs.setEnabled(impl.handle, found.handle, found.context, enabled)
    impl.changed = 'switched'
    return this
  }

  /**
   * Whether a kernel, copy or fill of the instance is launched (`cuGraphNodeGetEnabled`): true until `setEnabled(node, false)`.
   * @param node A node of the graph that the instance was made from.
   * @throws {Error} ERR_INVALID_ARG_VALUE for a node of another graph, and one that is no kernel, copy or fill; ERR_INVALID_ARG_TYPE, ERR_CLOSED
   * @example
   * ```ts
   * const off = graph.nodesOf(axpy).filter((node) => !exec.isEnabled(node))
   * ```
   */
  isEnabled(node: KernelNode | CopyNode | FillNode): boolean {
    const impl = execImpl(this)
    const { handle } = switchable(impl, node, 'is always launched')
    return impl.driver.graphs.isEnabled(impl.handle, handle)
  }

  /** Destroys the instance (`cuGraphExecDestroy`); launches that are queued still complete. May be called twice. */
  close(): void {
    execImpl(this).close()
  }

  get [Symbol.toStringTag](): string {
    return 'GraphExec'
  }

  /** @internal */
  [launchOn](stream: StreamImpl, config: unknown, args: readonly unknown[]): void {
    const impl = execImpl(this).checkOpen()
    refuseArguments(impl, config, args)
    launchOnStream(impl, checkDevice(impl, stream))
  }
}

const execImpl = (exec: unknown): GraphExecImpl =>
  (exec instanceof GraphExec ? exec[implementation] : undefined) ?? refuseReceiver('a GraphExec', exec)

/** The state of a node that can be switched off. `otherwise` is what is said of others. */
function switchable(impl: GraphExecImpl, node: GraphNode, otherwise: string): NodeState {
  const found = nodeStateOf(node)
  if (found === undefined) throw invalidType('node', 'a node of a graph', node)
  impl.checkOpen()
  checkNode(impl, node, found)
  const { kind } = node
  if (kind === 'kernel' || kind === 'copy' || kind === 'fill') return found
  throw invalidValue(`${node} ${otherwise}: only kernels, copies and fills can be switched off`)
}

/** Gives a node other work of its kind. Returns the memory that it uses. `shown` is the public object of the node. */
function changeNode(impl: GraphExecImpl, shown: GraphNode, node: NodeState, given: unknown[]): readonly OpenMemory[] {
  const { driver, handle: exec } = impl
  if (shown.kind === 'kernel') {
    const context = contextOfNode(impl, shown, node)
    if (node.launch === undefined) throw unknownNode(shown)
    const target = impl.launchNodes.get(node) ?? launchNodeOf(impl, node, context, node.launch.shape)
    const config = given.shift()
    for (const each of given) conditionImplOf(each)?.checkGraph(impl.graph.captures, impl.graph)
    return node.launch.kernel[updateNode](target, config, given)
  }
  if (shown.kind === 'copy') {
    const { to, from } = checkCopy(given[0], given[1])
    const context = contextOfNode(impl, shown, node)
    if (node.copy?.isOfRows)
      throw invalidValue(`${shown} copies several rows, and CUDA changes no such copy: capture another graph`)
    const memory = [to.openFor(driver), from.openFor(driver)] as const
    const [captured, ends] = [node.copy, endsOf(to, from)]
    if (captured !== undefined && !(isSameEnd(captured.to, ends.to) && isSameEnd(captured.from, ends.from))) {
      throw unchangeable(shown, `copies to ${describeEnd(captured.to)} from ${describeEnd(captured.from)}`)
    }
    refuseEmpty(shown, to)
    enablePeerAccess(memory, impl)
    const bytes = { destination: to.pointer, source: from.pointer, byteLength: from.byteLength }
    const work = { kind: 'copy', ...bytes, route: undefined, rows: undefined } as const
    try {
      driver.graphs.updateNode(exec, node.handle, context, work)
    } catch (error) {
      throw whyNoCopy(error, shown)
    }
    return memory
  }
  if (shown.kind === 'fill') {
    const fill = checkFill(given[0], given[1] as number, given[2] as FillValueOptions | undefined)
    const context = contextOfNode(impl, shown, node)
    if (node.fill?.isOfRows)
      throw invalidValue(`${shown} fills several rows, and CUDA changes no such fill: capture another graph`)
    const { to, value, width, count } = openFill(fill, driver)
    // CUDA accepts another kind of memory for a fill, but some launches of it then fault.
    const fills = node.fill?.fills
    if (fills !== undefined && !isSameEnd(fills, endOf(to))) throw unchangeable(shown, `fills ${describeEnd(fills)}`)
    refuseEmpty(shown, to)
    enablePeerAccess([to], impl)
    const work = { kind: 'fill', pointer: to.pointer, value, width, count, rows: undefined } as const
    driver.graphs.updateNode(exec, node.handle, context, work)
    return [to]
  }
  throw invalidValue(`${shown} cannot be changed alone: only kernels, copies and fills can`)
}

/** CUDA says by a number alone why it refuses other memory for a copy, and a graph for an instance. */
const whyNoCopy = (error: unknown, shown: GraphNode): unknown =>
  error instanceof CudaError && error.number === CUresult.INVALID_VALUE
    ? explained(
        error,
        `${shown} was captured with memory of a pool, which alloc() gives, at an end that is to be other memory, such as that of alloc(byteLength, { interprocess: true }), or the reverse: capture another graph`,
      )
    : error

const whyNoUpdate = (error: unknown, graph: Graph): unknown =>
  error instanceof CudaError && error.number === CUresult.GRAPH_EXEC_UPDATE_FAILURE
    ? explained(
        error,
        `${graph} differs from the graph of the instance by more than values: the same calls in the same order are expected, kernels and fills on the same device, and memory of a pool (that of alloc()) at the same ends of copies. Make another instance`,
      )
    : error

function contextOfNode(impl: GraphExecImpl, shown: GraphNode, node: NodeState): ContextHandle {
  checkNode(impl.checkOpen(), shown, node)
  if (node.context === undefined) throw unknownNode(shown)
  return node.context
}

const unknownNode = (shown: GraphNode): Error =>
  stateError('ERR_UNSUPPORTED', `${shown} is another library's, and not known well enough: capture another graph`)

function refuseEmpty(shown: GraphNode, { byteLength }: BufferImpl): void {
  if (byteLength > 0) return
  throw outOfRange('The memory', `at least 1 byte long: setEnabled(node, false) switches ${shown} off`, byteLength)
}

/** The launch of a node, which is made once, since programs change the same node again and again. */
function launchNodeOf(impl: GraphExecImpl, node: NodeState, context: ContextHandle, shape: LaunchShape): LaunchNode {
  const { driver, device, ordinal, handle: exec } = impl
  const target = { driver, device, ordinal, exec, node: node.handle, context, shape, checkOpen: () => impl.checkOpen() }
  impl.launchNodes.set(node, target)
  return target
}

function excluded(impl: GraphExecImpl): Error {
  const what = `${impl} cannot both be updated by a graph and have nodes switched`
  return stateError('ERR_UNSUPPORTED', `${what}: make another instance, or change its nodes one at a time`)
}

function checkNode(impl: GraphExecImpl, shown: object, node: NodeState): void {
  if (node.graph !== impl.graph) {
    throw invalidValue(`${shown} is not of the graph that ${impl} was made from: graph.nodes of that has its nodes`)
  }
  if (!impl.graph.isLost) return
  const why = 'a capture into its graph has failed, and CUDA destroyed the graph'
  throw stateError('ERR_CLOSED', `${shown} cannot be used: ${why}`)
}

const isSameEnd = (a: CopyEnd, b: CopyEnd): boolean =>
  a.isOfHost === b.isOfHost && (a.isOfHost || a.device === b.device)

const describeEnd = ({ isOfHost, device }: CopyEnd): string =>
  isOfHost ? 'pinned memory' : `memory of device ${device}`

const unchangeable = (shown: object, does: string): Error =>
  invalidValue(`${shown} ${does}, and no update changes that: capture another graph`)

/** `exec.upload()`, on the stream given or the current one of the instance's device. */
export function uploadExec(exec: GraphExec, stream: unknown): void {
  const impl = execImpl(exec)
  const target = targetOf(impl, stream)
  target.reserve(1)
  impl.checkOpen()
  impl.driver.work.queue({ kind: 'graphUpload', stream: target.handle, exec: impl.handle })
}

/** `exec.launch()`, on the stream given or the current one of the instance's device. */
export function launchExec(exec: GraphExec, stream: unknown): void {
  const impl = execImpl(exec)
  launchOnStream(impl, targetOf(impl, stream))
}

function launchOnStream(impl: GraphExecImpl, target: StreamImpl): void {
  target.reserve(1)
  impl.checkOpen().checkAwaited()
  impl.waitForAllocations(target)
  impl.driver.work.queue({ kind: 'graph', stream: target.handle, exec: impl.handle })
  impl.launchedOn(target)
  target.lastWork = 'a graph'
}

function targetOf(exec: GraphExecImpl, stream: unknown): StreamImpl {
  exec.checkOpen()
  const target = stream === undefined ? currentStreamImpl(exec.device) : streamImplOf(stream)
  if (target === undefined) throw invalidType('stream', 'a Stream', stream)
  return checkDevice(exec, target)
}
