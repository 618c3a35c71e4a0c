/** Graphs and their instances; graphs come from captures (capture.ts). */
import { isInstance } from '../base/arguments.js'
import { inspectAsPrinted, invalidType, printed, refuseReceiver, stateError } from '../base/errors.js'
import { destroyWhenUnreachable } from '../base/finalization.js'
import { another, type Device, elsewhere } from '../device.js'
import type { ContextHandle, GraphHandle } from '../driver/driver.js'
import { HandleCore } from '../kernels/handle-core.js'
import { launchOn } from '../kernels/launchable.js'
import { type CaptureRecord, Keeps } from '../streams/capture-record.js'
import { currentCore } from '../streams/current.js'
import { greenContextsOf } from '../streams/green-context.js'
import { type StreamCore, streamCoreOf } from '../streams/stream-core.js'
import { ExecCore } from './exec-core.js'

type Owners = ReadonlySet<object>

/** Of foreign memory and events: reachable as long as the noun, so that an owner that knows it is collected with it. */
const ownersOf = new WeakMap<Graph | GraphExec, Owners>()

let graphCoreOf: (value: unknown) => GraphCore | undefined
let execCoreOf: (value: unknown) => ExecCore | undefined
let makeGraph: (core: GraphCore) => Graph
let makeExec: (core: ExecCore) => GraphExec

class GraphCore extends HandleCore<GraphHandle> {
  constructor(
    device: Device,
    graph: GraphHandle,
    readonly keeps: Keeps,
    context: ContextHandle,
  ) {
    super('Graph', device, graph, () => this.#end(), context)
  }

  #end(): void {
    try {
      this.driver.graphs.destroy(this.handle)
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
    if (!isInstance(core, GraphCore)) throw invalidType('Graph', 'obtained from stream.capture(fn)', core)
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
   * Makes an instance that can be launched (`cuGraphInstantiate`). The graph may be closed afterwards.
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
    return owning(makeExec(new ExecCore(device, exec, keeps.copy(), context)), ownersOf.get(this))
  }

  /** Destroys the graph (`cuGraphDestroy`); instances of it live on. May be called twice. */
  close(): void {
    graphCore(this).release()
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    graphCore(this)
    this.close()
  }

  get [Symbol.toStringTag](): string {
    return 'Graph'
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

/** The graph that a capture on this stream gave. */
export function graphOf(
  { driver, device, context }: StreamCore,
  handle: GraphHandle,
  record: CaptureRecord | undefined,
): Graph {
  const keeps = record?.keeps ?? new Keeps()
  for (const green of greenContextsOf(driver)) keeps.add(green)
  const core = new GraphCore(device, handle, keeps, context)
  return owning(makeGraph(core), record?.owners)
}

function graphCore(graph: unknown): GraphCore {
  return graphCoreOf(graph) ?? refuseReceiver('a Graph', graph)
}

function openGraph(graph: unknown): GraphCore {
  return graphCore(graph).checkOpen()
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
    if (!isInstance(core, ExecCore)) throw invalidType('GraphExec', 'obtained from graph.instantiate()', core)
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
   * @throws {Error} ERR_DEVICE_MISMATCH for a graph of another driver; ERR_UNSUPPORTED as `instantiate()`;
   * ERR_INVALID_ARG_TYPE, ERR_CLOSED
   * @example
   * ```ts
   * exec.update(stream.capture(() => stream.fill(buffer, value))).launch(stream)
   * ```
   */
  update(graph: Graph): this {
    const core = execCore(this)
    const from = graphCoreOf(graph)
    if (from === undefined) throw invalidType('graph', 'a Graph', graph)
    core.checkOpen()
    from.checkOpen()
    if (from.driver !== core.driver) {
      const owner = another(from.driver, core.driver)
      throw stateError('ERR_DEVICE_MISMATCH', `${from} belongs to ${owner} than the instance it is to update`)
    }
    core.driver.graphs.update(core.handle, from.handle)
    owning(this, ownersOf.get(graph))
    core.replaced(from.keeps)
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
