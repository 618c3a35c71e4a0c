/** Graphs and their instances; graphs come from captures (capture.ts). */
import {
  inspectAsPrinted,
  invalidType,
  invalidValue,
  outOfRange,
  printed,
  refuseReceiver,
  stateError,
} from '../base/errors.js'
import { destroyWhenUnreachable } from '../base/finalization.js'
import { another, type Device, elsewhere } from '../device.js'
import {
  type CaptureMode,
  type ContextHandle,
  type GraphHandle,
  isNullStream,
  type LaunchShape,
  type NodeHandle,
} from '../driver/driver.js'
import type { DefinedKernel } from '../kernels/defined-kernel.js'
import { HandleCore } from '../kernels/handle-core.js'
import type { Kernel, LaunchConfig } from '../kernels/kernel.js'
import type { ArgumentsOf, ParameterType } from '../kernels/kernel-signature.js'
import { isNodeKernel, type LaunchNode, launchOn, updateNode } from '../kernels/launchable.js'
import type { BufferCore, OpenMemory } from '../memory/buffer-core.js'
import type { DeviceBuffer } from '../memory/device-buffer.js'
import type { PinnedBuffer } from '../memory/pinned-buffer.js'
import { admitAll, endOf, endsOf } from '../memory/queue-with-memory.js'
import { checkCopy, checkFill, type FillOptions, openFill } from '../memory/transfers.js'
import {
  type CapturedCopy,
  type CaptureRecord,
  type CopyEnd,
  captureBegan,
  type GrowingGraph,
  Keeps,
  type NotedNode,
  recordInto,
  recordOf,
} from '../streams/capture-record.js'
import { currentCore } from '../streams/current.js'
import { greenContextsOf } from '../streams/green-context.js'
import { type StreamCore, streamCoreOf } from '../streams/stream-core.js'
import { ExecCore, type InstantiatedGraph } from './exec-core.js'
import {
  type CopyNode,
  type FillNode,
  type GraphNode,
  type KernelNode,
  type NodeCore,
  nodeCoreOf,
  nodesOf,
} from './nodes.js'

type Owners = ReadonlySet<object>

/** Of foreign memory and events: reachable as long as the noun, so that an owner that knows it is collected with it. */
const ownersOf = new WeakMap<Graph | GraphExec, Owners>()
/** Of updated nodes, likewise. */
const nodeOwnersOf = new WeakMap<GraphExec, Map<NodeHandle, readonly object[]>>()
const NO_NOTES: ReadonlyMap<NodeHandle, NotedNode> = new Map()
/** By the noun: a kernel that knows the graph is collected with it. */
const notesOf = new WeakMap<Graph, ReadonlyMap<NodeHandle, NotedNode>>()
const nodesOfGraphs = new WeakMap<Graph, readonly GraphNode[]>()

let graphCoreOf: (value: unknown) => GraphCore | undefined
let execCoreOf: (value: unknown) => ExecCore | undefined
let makeGraph: (core: GraphCore) => Graph
let makeExec: (core: ExecCore) => GraphExec

class GraphCore extends HandleCore<GraphHandle> implements GrowingGraph, InstantiatedGraph {
  /** Captures that add to it. */
  #growing = 0
  isLost = false
  /** Instances of it that are not over. */
  #instances = 0
  #isTold = false

  constructor(
    device: Device,
    graph: GraphHandle,
    readonly keeps: Keeps,
    context: ContextHandle,
  ) {
    super('Graph', device, graph, () => this.#end(), context)
  }

  /** A capture begins to add to it: it is not destroyed meanwhile. */
  grows(): void {
    if (this.#growing > 0) throw invalidValue(`A capture adds to ${this} already`)
    this.#growing += 1
    this.keep()
  }

  /** The capture has ended. */
  grown(): void {
    this.#growing -= 1
    this.letGo()
  }

  lost(): void {
    this.isLost = true
    this.#growing -= 1
    const noun = growing.get(this)
    growing.delete(this)
    if (noun !== undefined) forgetNodes(noun)
    this.release()
    this.letGo()
  }

  /**
   * The program has nodes of it, which the driver takes for those of instances as long as the graph exists: from now on
   * instances keep it. Without nodes they do not, since after an update they use nothing of it any more.
   */
  told(): void {
    if (this.#isTold) return
    this.#isTold = true
    for (let left = this.#instances; left > 0; left -= 1) this.keep()
  }

  instanceMade(): void {
    this.#instances += 1
    if (this.#isTold) this.keep()
  }

  instanceOver(): void {
    this.#instances -= 1
    if (this.#isTold) this.letGo()
  }

  #end(): void {
    try {
      if (!this.isLost) this.driver.graphs.destroy(this.handle)
    } finally {
      this.keeps.letGo()
    }
  }
}

/**
 * Work written down by a capture: a template, to be instantiated. It outlives the streams it was captured from, and
 * keeps what its work uses: buffers, modules and events that are closed, or that the program cannot reach any more, are
 * given back when the graph, its instances and their launches are over. A graph that is closed is ERR_CLOSED, and only
 * `handle`, `device`, `closed` and `close()` still answer.
 */
export class Graph implements Disposable {
  /** The device of the stream that the graph was captured from. */
  readonly device: Device
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number
  readonly #core: GraphCore

  /** Use `stream.capture(fn)` or `stream.endCapture()`. */
  private constructor(core: GraphCore) {
    if (!(core instanceof GraphCore)) throw invalidType('Graph', 'obtained from stream.capture(fn)', core)
    this.device = core.device
    this.serial = core.serial
    this.#core = core
    destroyWhenUnreachable(this, core)
  }

  /** The CUgraph. It keeps nothing alive, and can still be read after `close()`, when it is no graph any more. */
  get handle(): bigint {
    return BigInt(graphCore(this).handle)
  }

  /** Was the graph closed? */
  get closed(): boolean {
    return graphCore(this).gone
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
   * @throws {Error} ERR_CLOSED
   */
  toDot(): string {
    const { driver, handle } = openGraph(this)
    return driver.graphs.toDot(handle)
  }

  /**
   * Makes an instance that can be launched (`cuGraphInstantiate`). The graph may be closed afterwards. While a capture adds to
   * the graph, the instance has what was captured so far.
   * @throws {Error} ERR_CLOSED; ERR_UNSUPPORTED where instances have more than 4096 host functions together
   * @throws {CudaError} where the driver refuses
   * @example
   * ```ts
   * using exec = graph.instantiate()
   * exec.upload(stream).launch(stream).launch(stream)
   * ```
   */
  instantiate(): GraphExec {
    const { driver, device, handle, context, keeps } = openGraph(this)
    const exec = driver.graphs.instantiate(handle, context)
    const core = new ExecCore(device, exec, graphCore(this), keeps.copy(), context)
    return owning(makeExec(core), ownersOf.get(this))
  }

  /**
   * The nodes of the graph, each behind those that it comes after (`cuGraphGetNodes`, `cuGraphGetEdges`). `kind` tells
   * their type.
   * @throws {Error} ERR_CLOSED
   * @example
   * ```ts
   * for (const node of graph.nodes) {
   *   if (node.kind === 'kernel') console.log(node.name, node.after.length)
   * }
   * ```
   */
  get nodes(): readonly GraphNode[] {
    const core = openGraph(this)
    let nodes = nodesOfGraphs.get(this)
    if (nodes === undefined) {
      nodes = nodesOf(core, core.driver.graphs.nodes(core.handle), notesOf.get(this) ?? NO_NOTES)
      nodesOfGraphs.set(this, nodes)
      core.told()
    }
    return nodes
  }

  /**
   * The nodes of one kernel, in the order of the capture, typed by its signature: for `exec.update(node, config,
   * ...args)`.
   * @param kernel The kernel that was launched in the capture.
   * @throws {Error} ERR_CLOSED, ERR_INVALID_ARG_TYPE
   * @example
   * ```ts
   * const [first] = graph.nodesOf(axpy)
   * ```
   */
  nodesOf<S extends readonly ParameterType[]>(kernel: Kernel<S> | DefinedKernel<S>): readonly KernelNode<S>[] {
    openGraph(this)
    if (!isNodeKernel(kernel)) throw invalidType('kernel', 'a Kernel or a DefinedKernel', kernel)
    return this.nodes.filter((node): node is KernelNode<S> => node.kind === 'kernel' && node.kernel === kernel)
  }

  /** Destroys the graph (`cuGraphDestroy`); instances of it live on. May be called twice. */
  close(): void {
    graphCore(this).release()
    forgetNodes(this)
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    graphCore(this)
    this.close()
  }

  get [Symbol.toStringTag](): string {
    return 'Graph'
  }

  /** @internal */
  [launchOn](stream: StreamCore): void {
    const core = openGraph(this)
    const isCapturing = !isNullStream(stream.handle) && stream.isCapturing
    if (!isCapturing) {
      throw invalidType('target', 'a GraphExec or a Kernel', this, 'graph.instantiate() makes a GraphExec of it')
    }
    checkHome(core, stream)
    const record = recordOf(stream)
    if (record?.into === core) throw invalidValue(`${core} cannot be put into itself`)
    record?.keeps.addAll(core.keeps)
    for (const owner of ownersOf.get(this) ?? []) record?.owners.add(owner)
    core.driver.graphs.addGraph(stream.handle, core.handle)
    stream.last = 'a graph'
  }

  toString(): string {
    return graphCoreOf(this)?.toString() ?? printed(this)
  }

  static {
    makeGraph = (core) => new Graph(core)
    graphCoreOf = (value) => (typeof value === 'object' && value !== null && #core in value ? value.#core : undefined)
  }
}
inspectAsPrinted(Graph)

function owning<G extends Graph | GraphExec>(graph: G, owners: Owners | undefined): G {
  if (owners === undefined || owners.size === 0) ownersOf.delete(graph)
  else ownersOf.set(graph, owners)
  return graph
}

/** Begins a capture that adds to a graph, behind these nodes of it. */
export function beginInto(stream: StreamCore, mode: CaptureMode, into: Graph, after: readonly GraphNode[]): void {
  const core = openGraph(into)
  checkHome(core, stream)
  const behind = after.map((node, index) => {
    const found = nodeCoreOf(node)
    if (found === undefined) throw invalidType(`options.after[${index}]`, 'a node of the graph', node)
    if (found.graph === core) return found.handle
    throw invalidValue(`options.after[${index}], ${node}, is not a node of ${core}`)
  })
  core.grows()
  try {
    stream.driver.graphs.beginInto(stream.handle, mode, core.handle, behind)
  } catch (error) {
    core.grown()
    throw error
  }
  growing.set(core, into)
  captureBegan(stream, core)
}

/** By the core, while a capture adds to it. */
const growing = new Map<object, Graph>()

/** The graph has the nodes of a capture that has ended, too. */
function grown(core: GraphCore, record: CaptureRecord): Graph {
  const graph = growing.get(core)
  if (graph === undefined) throw new Error('no capture adds to this graph')
  growing.delete(core)
  takeUp(graph, core, record)
  record.keeps.letGo()
  if (core.gone) forgetNodes(graph)
  core.grown()
  return graph
}

/** The graph keeps and tells what was captured into it, so far or at the end. */
function takeUp(graph: Graph, core: GraphCore, record: CaptureRecord): void {
  core.keeps.addAll(record.keeps)
  for (const green of greenContextsOf(core.driver)) core.keeps.add(green)
  owning(graph, new Set([...(ownersOf.get(graph) ?? []), ...record.owners]))
  notesOf.set(graph, new Map([...(notesOf.get(graph) ?? NO_NOTES), ...record.notes]))
  nodesOfGraphs.delete(graph)
}

/** A graph that is closed tells no nodes, and holds no kernels for them. */
function forgetNodes(graph: Graph): void {
  notesOf.delete(graph)
  nodesOfGraphs.delete(graph)
}

function checkHome(core: GraphCore, stream: StreamCore): void {
  if (core.device === stream.device) return
  const where = elsewhere(stream.device, core.device)
  throw stateError('ERR_DEVICE_MISMATCH', `${core} cannot be used by ${stream}, which is on ${where}`)
}

/** The graph that a capture on this stream gave. */
export function graphOf(
  { driver, device, context }: StreamCore,
  handle: GraphHandle,
  record: CaptureRecord | undefined,
): Graph {
  if (record?.into instanceof GraphCore) return grown(record.into, record)
  const keeps = record?.keeps ?? new Keeps()
  for (const green of greenContextsOf(driver)) keeps.add(green)
  const core = new GraphCore(device, handle, keeps, context)
  const graph = owning(makeGraph(core), record?.owners)
  if (record !== undefined) notesOf.set(graph, record.notes)
  return graph
}

export const isGraph = (value: unknown): value is Graph => graphCoreOf(value) !== undefined

function graphCore(graph: unknown): GraphCore {
  return graphCoreOf(graph) ?? refuseReceiver('a Graph', graph)
}

function openGraph(graph: unknown): GraphCore {
  const core = graphCore(graph).checkOpen()
  const adding = growing.get(core)
  const record = adding === undefined ? undefined : recordInto(core.driver, core)
  if (adding !== undefined && record !== undefined) takeUp(adding, core, record)
  return core
}

/**
 * An instance of a graph, ready to be launched any number of times. Launches of one instance run one after another. It
 * keeps what its work uses, as the graph does, and until its launches are over. An instance that is closed is
 * ERR_CLOSED, and only `device`, `closed` and `close()` still answer.
 */
export class GraphExec implements Disposable {
  /** The device of the streams that the instance can be launched on. */
  readonly device: Device
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number
  readonly #core: ExecCore

  /** Use `graph.instantiate()`. */
  private constructor(core: ExecCore) {
    if (!(core instanceof ExecCore)) throw invalidType('GraphExec', 'obtained from graph.instantiate()', core)
    this.device = core.device
    this.serial = core.serial
    this.#core = core
    destroyWhenUnreachable(this, core)
  }

  /** Was the instance closed? */
  get closed(): boolean {
    return execCore(this).gone
  }

  /**
   * Replaces the work of the instance by that of another graph of the same shape (`cuGraphExecUpdate`).
   * @param graph A graph of the same driver.
   * @throws {CudaError} 910 where the shapes differ; the instance is unchanged then
   * @throws {Error} ERR_DEVICE_MISMATCH for a graph of another driver; ERR_UNSUPPORTED as `instantiate()`, and after `setEnabled()`;
   * ERR_INVALID_ARG_TYPE, ERR_CLOSED
   * @example
   * ```ts
   * exec.update(stream.capture(() => stream.fill(buffer, value))).launch(stream)
   * ```
   */
  update(graph: Graph): this
  /**
   * Gives one kernel of the instance other arguments, for the launches to come (`cuGraphExecKernelNodeSetParams`).
   * Launches under way keep theirs.
   * @param node A node of the graph that the instance was made from, which may be closed by now.
   * @param config The shape of the launch, such as `node.config`. Only `grid`, `block` and `sharedMemory` may change.
   * @param args One argument for each parameter of the kernel, as for `stream.launch()`.
   * @throws {Error} ERR_INVALID_ARG_VALUE for a node of another graph, another number of arguments, or other `cooperative`
   * and `cluster`; ERR_UNSUPPORTED for a kernel that another library launched; otherwise as `stream.launch()`
   * @throws {CudaError} mostly 1, for a shape that the device cannot run
   * @example
   * ```ts
   * for (const node of graph.nodesOf(axpy)) exec.update(node, config, 3, x, y, 1024)
   * exec.launch(stream)
   * ```
   */
  update<S extends readonly ParameterType[]>(node: KernelNode<S>, config: LaunchConfig, ...args: ArgumentsOf<S>): this
  /**
   * Gives one copy of the instance other buffers, of any length, for the launches to come
   * (`cuGraphExecMemcpyNodeSetParams`).
   * @param node A copy of the graph that the instance was made from.
   * @param destination The buffer to write, on the device or host that the captured one was on.
   * @param source The buffer to read, likewise.
   * @throws {Error} ERR_INVALID_ARG_VALUE for a node of another graph, buffers elsewhere, and a copy that was captured of several
   * rows; ERR_OUT_OF_RANGE for buffers without bytes; ERR_UNSUPPORTED for a copy that another library queued; otherwise as
   * `stream.copy()`
   */
  update(node: CopyNode, destination: DeviceBuffer | PinnedBuffer, source: DeviceBuffer | PinnedBuffer): this
  /**
   * Gives one fill of the instance another buffer and value, for the launches to come
   * (`cuGraphExecMemsetNodeSetParams`).
   * @param node A fill of the graph that the instance was made from.
   * @param buffer The buffer to write.
   * @param value An integer of `width` bytes, signed or not.
   * @param options `width`: the bytes of the value, 1, 2 or 4 (default 1)
   * @throws {Error} ERR_INVALID_ARG_VALUE for a node of another graph, and for pinned memory where the captured fill's was
   * a device's, or the reverse; ERR_OUT_OF_RANGE for a buffer without bytes; ERR_UNSUPPORTED for a fill that another library
   * queued; otherwise as `stream.fill()`
   */
  update(node: FillNode, buffer: DeviceBuffer | PinnedBuffer, value: number, options?: FillOptions): this
  update(target: Graph | GraphNode, ...given: unknown[]): this {
    const core = execCore(this)
    const node = nodeCoreOf(target)
    if (node !== undefined) {
      const memory = putNode(core, target as GraphNode, node, given)
      core.nodeUses(node.handle, memory)
      keepOwners(this, node.handle, memory)
      return this
    }
    const graph = target as Graph
    const from = graphCoreOf(graph)
    if (from === undefined) throw invalidType('graph', 'a Graph, or a node of one', graph)
    core.checkOpen()
    from.checkOpen()
    if (from.driver !== core.driver) {
      const owner = another(from.driver, core.driver)
      throw stateError('ERR_DEVICE_MISMATCH', `${from} belongs to ${owner} than the instance it is to update`)
    }
    if (core.changed === 'switched') throw excluded(core)
    core.driver.graphs.update(core.handle, from.handle)
    core.changed = 'updated'
    owning(this, ownersOf.get(graph))
    nodeOwnersOf.delete(this)
    core.replaced(from.keeps)
    return this
  }

  /**
   * Switches a kernel, copy or fill of the instance off, or on again, for the launches to come (`cuGraphNodeSetEnabled`; a fill
   * that is off writes a byte of the library's own).
   * A node that is off does nothing; what comes after it still comes after what is before it. An update of the node
   * leaves it off. An instance that was updated by a graph takes no switches, nor the reverse.
   * @param node A node of the graph that the instance was made from.
   * @param enabled Is it to be launched?
   * @throws {Error} ERR_INVALID_ARG_VALUE for a node of another graph, and one that is no kernel, copy or fill;
   * ERR_UNSUPPORTED after `exec.update(graph)`, and for a fill of several rows that another library queued; ERR_INVALID_ARG_TYPE,
   * ERR_CLOSED
   * @example
   * ```ts
   * for (const node of graph.nodesOf(axpy)) exec.setEnabled(node, false)
   * exec.launch(stream)
   * ```
   */
  setEnabled(node: KernelNode | CopyNode | FillNode, enabled: boolean): this {
    const core = execCore(this)
    const found = nodeCoreOf(node)
    if (found === undefined) throw invalidType('node', 'a node of a graph', node)
    if (typeof enabled !== 'boolean') throw invalidType('enabled', 'true or false', enabled)
    core.checkOpen()
    checkNode(core, node, found)
    const { kind } = node as GraphNode
    if (kind !== 'kernel' && kind !== 'copy' && kind !== 'fill') {
      throw invalidValue(`${node} cannot be switched off: only kernels, copies and fills can`)
    }
    if (core.changed === 'updated') throw excluded(core)
    core.driver.graphs.setEnabled(core.handle, found.handle, found.context, enabled)
    core.changed = 'switched'
    return this
  }

  /** Destroys the instance (`cuGraphExecDestroy`); launches that are queued still complete. May be called twice. */
  close(): void {
    execCore(this).release()
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    execCore(this)
    this.close()
  }

  get [Symbol.toStringTag](): string {
    return 'GraphExec'
  }

  toString(): string {
    return execCoreOf(this)?.toString() ?? printed(this)
  }

  /** @internal */
  [launchOn](stream: StreamCore): void {
    const core = execCore(this)
    launchOnStream(core, checkDevice(core, stream))
  }

  static {
    makeExec = (core) => new GraphExec(core)
    execCoreOf = (value) => (typeof value === 'object' && value !== null && #core in value ? value.#core : undefined)
  }
}
inspectAsPrinted(GraphExec)

function execCore(exec: unknown): ExecCore {
  return execCoreOf(exec) ?? refuseReceiver('a GraphExec', exec)
}

/** Gives a node other work of its kind. Returns the memory that it uses. */
function putNode(core: ExecCore, noun: GraphNode, node: NodeCore, given: unknown[]): readonly OpenMemory[] {
  const { driver, handle: exec } = core
  if (noun.kind === 'kernel') {
    const context = contextOfNode(core, noun, node)
    if (node.launch === undefined) throw unknownNode(noun)
    const place = core.places.get(node) ?? placeOf(core, node, context, node.launch.shape)
    const config = given.shift()
    return node.launch.kernel[updateNode](place, config, given)
  }
  if (noun.kind === 'copy') {
    const { to, from } = checkCopy(given[0], given[1])
    const context = contextOfNode(core, noun, node)
    if (node.copy?.isOfRows)
      throw invalidValue(`${noun} copies several rows, and CUDA changes no such copy: capture another graph`)
    const memory = [to.openFor(driver), from.openFor(driver)] as const
    checkEnds(noun, node, endsOf(to, from))
    refuseNothing(noun, to)
    admitAll(memory, core)
    driver.graphs.updateCopy(exec, node.handle, context, to.pointer, from.pointer, from.byteLength)
    return memory
  }
  if (noun.kind === 'fill') {
    const fill = checkFill(given[0], given[1] as number, given[2] as FillOptions | undefined)
    const context = contextOfNode(core, noun, node)
    const { to, value, width } = openFill(fill, driver)
    checkEnd(noun, node, endOf(to))
    refuseNothing(noun, to)
    admitAll([to], core)
    driver.graphs.updateFill(exec, node.handle, context, to.pointer, value, width, to.byteLength / width)
    return [to]
  }
  throw invalidValue(`${noun} cannot be changed alone: only kernels, copies and fills can`)
}

function contextOfNode(core: ExecCore, noun: GraphNode, node: NodeCore): ContextHandle {
  checkNode(core.checkOpen(), noun, node)
  if (node.context === undefined) throw unknownNode(noun)
  return node.context
}

const unknownNode = (noun: GraphNode): Error =>
  stateError('ERR_UNSUPPORTED', `${noun} is another library's, and not known well enough: capture another graph`)

function refuseNothing(noun: GraphNode, { byteLength }: BufferCore): void {
  if (byteLength > 0) return
  throw outOfRange('The memory', `at least 1 byte long: setEnabled(node, false) switches ${noun} off`, byteLength)
}

/** Made once: a program changes the same node again and again. */
function placeOf(core: ExecCore, node: NodeCore, context: ContextHandle, shape: LaunchShape): LaunchNode {
  const { driver, device, ordinal, handle: exec } = core
  const place = { driver, device, ordinal, exec, node: node.handle, context, shape, checkOpen: () => core.checkOpen() }
  core.places.set(node, place)
  return place
}

function excluded(core: ExecCore): Error {
  const what = `${core} cannot be updated by a graph and have nodes switched, in whichever order`
  return stateError('ERR_UNSUPPORTED', `${what}: make another instance, or change its nodes one at a time`)
}

function checkNode(core: ExecCore, noun: object, node: NodeCore): void {
  if (node.graph !== core.graph) {
    throw invalidValue(`${noun} is not of the graph that ${core} was made from: graph.nodes of that has its nodes`)
  }
  if (!core.graph.isLost) return
  const why = 'a capture into its graph has failed, and CUDA destroyed the graph'
  throw stateError('ERR_CLOSED', `${noun} cannot be used: ${why}`)
}

const isSameEnd = (a: CopyEnd, b: CopyEnd): boolean =>
  a.isOfHost === b.isOfHost && (a.isOfHost || a.device === b.device)

const inWords = ({ isOfHost, device }: CopyEnd): string => (isOfHost ? 'pinned memory' : `memory of device ${device}`)

/** CUDA takes memory of another kind for a fill, too, and some launches of it then fault. */
function checkEnd(noun: object, { fills }: NodeCore, end: CopyEnd): void {
  if (fills === undefined || isSameEnd(fills, end)) return
  throw invalidValue(`${noun} fills ${inWords(fills)}, and no update changes that: capture another graph`)
}

function checkEnds(noun: object, { copy }: NodeCore, { to, from }: CapturedCopy): void {
  if (copy === undefined || (isSameEnd(copy.to, to) && isSameEnd(copy.from, from))) return
  const captured = `to ${inWords(copy.to)} from ${inWords(copy.from)}`
  throw invalidValue(`${noun} copies ${captured}, and no update changes that: capture another graph`)
}

function keepOwners(exec: GraphExec, node: NodeHandle, memory: readonly OpenMemory[]): void {
  let owners: object[] | undefined
  for (const { allocation } of memory) {
    const owner = allocation.owner?.deref()
    if (owner === undefined) continue
    owners ??= []
    owners.push(owner)
  }
  const known = nodeOwnersOf.get(exec)
  if (owners === undefined) known?.delete(node)
  else if (known === undefined) nodeOwnersOf.set(exec, new Map([[node, owners]]))
  else known.set(node, owners)
}

/** `exec.upload()`, on the stream given or the current one of the instance's device. */
export function uploadExec(exec: GraphExec, stream: unknown): void {
  const core = execCore(exec)
  const target = targetOf(core, stream)
  target.makeRoom(1)
  core.checkOpen()
  core.driver.graphs.upload(core.handle, target.handle)
}

/** `exec.launch()`, on the stream given or the current one of the instance's device. */
export function launchExec(exec: GraphExec, stream: unknown): void {
  const core = execCore(exec)
  launchOnStream(core, targetOf(core, stream))
}

function launchOnStream(core: ExecCore, target: StreamCore): void {
  target.makeRoom(1)
  core.checkOpen()
  core.driver.graphs.launch(core.handle, target.handle)
  core.launchedOn(target)
  target.last = 'a graph'
}

function targetOf(exec: ExecCore, stream: unknown): StreamCore {
  exec.checkOpen()
  const target = stream === undefined ? currentCore(exec.device) : streamCoreOf(stream)
  if (target === undefined) throw invalidType('stream', 'a Stream', stream)
  return checkDevice(exec, target)
}

function checkDevice(exec: ExecCore, target: StreamCore): StreamCore {
  exec.checkOpen()
  if (target.device === exec.device) return target
  const where = elsewhere(target.device, exec.device)
  throw stateError('ERR_DEVICE_MISMATCH', `${exec} cannot be launched on ${target}, which is on ${where}`)
}
