import { inspect, types } from 'node:util'
import { checkFunction, checkThis, isInstance, isThenable, readOptions } from '../base/arguments.js'
import {
  CudaError,
  describe,
  explained,
  inspected,
  invalidType,
  invalidValue,
  printed,
  stateError,
} from '../base/errors.js'
import { destroyWhenUnreachable, type NativeResource, release } from '../base/finalization.js'
import { nextSerial } from '../base/identity.js'
import { another, type Device, driverOf, elsewhere } from '../device.js'
import { CUresult } from '../driver/cuda-results.js'
import {
  CaptureMode,
  type ContextHandle,
  type Driver,
  type GraphExecHandle,
  type GraphHandle,
  isNullStream,
} from '../driver/driver.js'
import { type Launchable, launch, launchOn } from '../kernels/launchable.js'
import { freeDeferred } from '../memory/allocation-stream.js'
import { ExternalStream, isStream, openStream, queuedLast, Stream } from '../stream.js'

/**
 * Which calls a capture forbids meanwhile (CUDA's cudaStreamCaptureMode), of those that are not about its own streams:
 * to ask or to wait for other streams and their events (`query()`, `synchronize()`), and what other libraries do that
 * is like it, such as `cudaMalloc`. Such a call throws CudaError 900, and spoils the capture.
 *
 * - 'global': no thread of the process may make them
 * - 'threadLocal': this thread may not
 * - 'relaxed': any may
 *
 * In every mode these are allowed, and spoil nothing: `finished()` of streams and events, `alloc` on other streams,
 * what is queued there, and to close streams, events, buffers and graphs. While a blocking stream captures the null
 * stream is refused, with CudaError 906.
 */
export type CaptureModeName = 'global' | 'threadLocal' | 'relaxed'

/** How a capture is begun. */
export interface CaptureOptions {
  /** Which other calls it forbids meanwhile. Default 'threadLocal'. */
  readonly mode?: CaptureModeName | undefined
}

const MODES: Readonly<Record<CaptureModeName, CaptureMode>> = {
  global: CaptureMode.GLOBAL,
  threadLocal: CaptureMode.THREAD_LOCAL,
  relaxed: CaptureMode.RELAXED,
}

/** What graphs and their instances are made from, which only this file can. */
class GraphSeed<H> {
  readonly device: Device
  readonly context: ContextHandle
  readonly handle: H
  constructor(device: Device, context: ContextHandle, handle: H) {
    this.device = device
    this.context = context
    this.handle = handle
  }
}

class GraphRemains implements NativeResource {
  readonly #destroy: () => void
  gone = false
  registered = false
  constructor(destroy: () => void) {
    this.#destroy = destroy
  }
  destroy(): void {
    this.#destroy()
  }
}

let openGraph: (graph: Graph, driver: Driver) => GraphHandle
let isGraph: (value: unknown) => value is Graph
let isGraphExec: (value: unknown) => value is GraphExec

/**
 * Work written down by a capture: a template, to be instantiated. It outlives the streams it was captured from, but
 * keeps no buffers or modules: hold what it uses as long as its instances are launched. A graph that is closed is
 * ERR_CLOSED, and only `handle`, `device`, `closed` and `close()` still answer.
 */
export class Graph implements Disposable {
  /** The device of the stream it was captured from. */
  readonly device: Device
  /** Which object it is: no other of this thread has the number. */
  readonly serial: number = nextSerial()
  readonly #driver: Driver
  readonly #context: ContextHandle
  readonly #handle: GraphHandle
  readonly #remains: GraphRemains

  /** Use `stream.capture(fn)` or `stream.endCapture()`. */
  constructor(seed: never) {
    const given: unknown = seed
    if (!isInstance(given, GraphSeed)) throw invalidType('Graph', 'had from stream.capture(fn)', given)
    const { device, context, handle } = given as GraphSeed<GraphHandle>
    const driver = driverOf(device)
    this.device = device
    this.#driver = driver
    this.#context = context
    this.#handle = handle
    this.#remains = new GraphRemains(() => driver.graphs.destroy(handle))
    destroyWhenUnreachable(this, this.#remains)
  }

  /** The CUgraph. It keeps nothing alive, and can still be read after `close()`, when it is nobody's. */
  get handle(): bigint {
    return BigInt(checkThis(this, isGraph, 'a Graph').#handle)
  }

  /** Was it closed? */
  get closed(): boolean {
    return checkThis(this, isGraph, 'a Graph').#remains.gone
  }

  /**
   * How many operations it has (`cuGraphGetNodes`).
   * @throws ERR_CLOSED
   */
  get nodeCount(): number {
    const handle = Graph.#open(this)
    return this.#driver.graphs.nodeCount(handle)
  }

  /**
   * The graph in Graphviz's DOT language (`cuGraphDebugDotPrint`, by way of a file in the system's temporary
   * directory).
   * @throws ERR_CLOSED
   */
  toDot(): string {
    const handle = Graph.#open(this)
    return this.#driver.graphs.toDot(handle)
  }

  /**
   * Makes an instance that can be launched (`cuGraphInstantiate`). The graph may be closed afterwards.
   * @throws ERR_CLOSED; CudaError; ERR_UNSUPPORTED where instances have more than 4096 host functions together
   */
  instantiate(): GraphExec {
    const graph = Graph.#open(this)
    const handle = this.#driver.graphs.instantiate(graph, this.#context)
    return new GraphExec(new GraphSeed(this.device, this.#context, handle) as never)
  }

  /** Destroys the graph (`cuGraphDestroy`); instances of it live on. May be called twice. */
  close(): void {
    const graph = checkThis(this, isGraph, 'a Graph')
    if (!graph.#remains.gone) release(graph, graph.#remains)
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    checkThis(this, isGraph, 'a Graph').close()
  }

  get [Symbol.toStringTag](): string {
    return 'Graph'
  }

  toString(): string {
    if (!isGraph(this)) return printed(this)
    return `Graph(0x${this.#handle.toString(16)}, ${this.device}${this.closed ? ', closed' : ''})`
  }

  [inspect.custom](): string {
    return inspected(this)
  }

  static #open(value: Graph): GraphHandle {
    const graph = checkThis(value, isGraph, 'a Graph')
    if (graph.#remains.gone) throw stateError('ERR_CLOSED', `${graph} cannot be used any more`)
    return graph.#handle
  }

  static {
    openGraph = (graph, driver) => {
      const handle = Graph.#open(graph)
      if (graph.#driver === driver) return handle
      const owner = another(graph.#driver, driver)
      throw stateError('ERR_DEVICE_MISMATCH', `${graph} belongs to ${owner} than the instance it is to update`)
    }
    isGraph = (value): value is Graph => typeof value === 'object' && value !== null && #handle in value
  }
}

/**
 * An instance of a graph, ready to be launched any number of times. Launches of one instance run one after another. It
 * keeps no buffers or modules. One that is closed is ERR_CLOSED, and only `device`, `closed` and `close()` still
 * answer.
 */
export class GraphExec implements Disposable, Launchable {
  /** The device whose streams it can be launched on. */
  readonly device: Device
  /** Which object it is: no other of this thread has the number. */
  readonly serial: number = nextSerial()
  readonly #driver: Driver
  readonly #handle: GraphExecHandle
  readonly #remains: GraphRemains

  /** Use `graph.instantiate()`. */
  constructor(seed: never) {
    const given: unknown = seed
    if (!isInstance(given, GraphSeed)) throw invalidType('GraphExec', 'had from graph.instantiate()', given)
    const { device, handle } = given as GraphSeed<GraphExecHandle>
    const driver = driverOf(device)
    this.device = device
    this.#driver = driver
    this.#handle = handle
    this.#remains = new GraphRemains(() => driver.graphs.destroyExec(handle))
    destroyWhenUnreachable(this, this.#remains)
  }

  /** Was it closed? */
  get closed(): boolean {
    return checkThis(this, isGraphExec, 'a GraphExec').#remains.gone
  }

  /**
   * Moves what a launch needs to the GPU ahead of time (`cuGraphUpload`). Default: the current stream of its device.
   * @throws ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH for a stream of another device; CudaError 900 while
   * the stream captures, which spoils the capture
   */
  upload(stream?: Stream): this {
    const target = GraphExec.#target(this, stream)
    const { handle } = openStream(target, 1)
    this.#driver.graphs.upload(GraphExec.#open(this), handle)
    return this
  }

  /**
   * Queues all its work (`cuGraphLaunch`). Default: the current stream of its device. Its host functions run at each
   * launch.
   * @throws ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_DEVICE_MISMATCH for a stream of another device; CudaError 900 while
   * the stream captures, which spoils the capture
   */
  launch(stream?: Stream): this {
    const target = GraphExec.#target(this, stream)
    const { handle } = openStream(target, 1)
    this.#driver.graphs.launch(GraphExec.#open(this), handle)
    queuedLast(target, 'a graph')
    return this
  }

  /**
   * Puts another graph of the same shape in (`cuGraphExecUpdate`).
   * @throws CudaError 910 where the shapes differ; the instance is as it was. ERR_DEVICE_MISMATCH for a graph of
   * another driver; ERR_UNSUPPORTED as `instantiate()`; ERR_INVALID_ARG_TYPE, ERR_CLOSED
   */
  update(graph: Graph): this {
    checkThis(this, isGraphExec, 'a GraphExec')
    if (!isGraph(graph)) throw invalidType('graph', 'a Graph', graph)
    const handle = GraphExec.#open(this)
    this.#driver.graphs.update(handle, openGraph(graph, this.#driver))
    return this
  }

  /** Destroys the instance (`cuGraphExecDestroy`); launches that are queued still complete. May be called twice. */
  close(): void {
    const exec = checkThis(this, isGraphExec, 'a GraphExec')
    if (!exec.#remains.gone) release(exec, exec.#remains)
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    checkThis(this, isGraphExec, 'a GraphExec').close()
  }

  get [Symbol.toStringTag](): string {
    return 'GraphExec'
  }

  toString(): string {
    if (!isGraphExec(this)) return printed(this)
    return `GraphExec(0x${this.#handle.toString(16)}, ${this.device}${this.closed ? ', closed' : ''})`
  }

  [inspect.custom](): string {
    return inspected(this)
  }

  [launchOn](stream: Stream): void {
    checkThis(this, isGraphExec, 'a GraphExec').launch(stream)
  }

  static #open(value: GraphExec): GraphExecHandle {
    const exec = checkThis(value, isGraphExec, 'a GraphExec')
    if (exec.#remains.gone) throw stateError('ERR_CLOSED', `${exec} cannot be used any more`)
    return exec.#handle
  }

  static #target(exec: GraphExec, stream: Stream | undefined): Stream {
    GraphExec.#open(exec)
    const target = stream === undefined ? Stream.current(exec.device) : stream
    if (!isStream(target)) throw invalidType('stream', 'a Stream', stream)
    if (target.device === exec.device) return target
    const where = elsewhere(target.device, exec.device)
    throw stateError('ERR_DEVICE_MISMATCH', `${exec} cannot be launched on ${target}, which is on ${where}`)
  }

  static {
    isGraphExec = (value): value is GraphExec => typeof value === 'object' && value !== null && #handle in value
  }
}

/* What graphs give to streams. It stands here so that imports run one way: graphs know streams, not the reverse. */

declare module '../stream.js' {
  interface Stream {
    /**
     * Begins to write this stream's work down instead of running it (`cuStreamBeginCapture`). Other streams join by
     * waiting for an event of it, and must be waited for before the end. Mode: 'threadLocal' unless given. Until the
     * end it is refused in every mode, with CudaError 900 or 907, to ask or to wait for the capture's streams and
     * events or the whole device, or to launch a graph on those streams; this spoils the capture, but for `finished()`
     * of a stream or event. `alloc`, `upload` and `download` there are ERR_UNSUPPORTED. What is captured does not count
     * as a use of buffers.
     * @throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for no mode; ERR_CLOSED; CudaError 401 where the stream
     * captures already, 900 for the null stream, or 906 while a blocking stream captures
     */
    beginCapture(mode?: CaptureModeName): this
    /**
     * Ends the capture that this stream began (`cuStreamEndCapture`).
     * @throws CudaError 901 where a mistake has spoilt it, 904 where a stream joined, has work, and was not waited for,
     * 908 where another thread began it and its mode is not 'relaxed': it is over by these, too. 903 on a stream that
     * only joined, which spoils the capture; 401 on one that does not capture; ERR_CLOSED
     */
    endCapture(): Graph
    /**
     * Captures what the function queues on this stream: `beginCapture()`, the function, `endCapture()`. Ends the
     * capture also where the function throws.
     * @throws what the function throws; ERR_INVALID_ARG_VALUE where it returns a promise, and for no mode; what
     * `beginCapture()` and `endCapture()` throw
     */
    capture(fn: () => void, options?: CaptureOptions): Graph
    /**
     * `exec.launch(stream)`.
     * @throws as `exec.launch(stream)`; ERR_INVALID_ARG_TYPE for what cannot be launched
     */
    launch(exec: GraphExec): this
  }
}

Stream.prototype.beginCapture = function (mode: CaptureModeName = 'threadLocal'): Stream {
  const { driver, handle } = openStream(this)
  if (typeof mode !== 'string') throw invalidType('mode', "'global', 'threadLocal' or 'relaxed'", mode)
  if (!Object.hasOwn(MODES, mode)) {
    throw invalidValue(`mode must be 'global', 'threadLocal' or 'relaxed', not ${describe(mode)}`)
  }
  if (isNullStream(handle)) return beginOnNullStream(this, () => driver.graphs.begin(handle, MODES[mode]))
  askBeforehand(this)
  driver.graphs.begin(handle, MODES[mode])
  return this
}

/** CUDA refuses it, as it refuses much while a stream captures; here nothing does, and there is nothing to be ended. */
function beginOnNullStream(stream: Stream, begin: () => void): Stream {
  try {
    begin()
  } catch (error) {
    if (!(error instanceof CudaError && error.number === CUresult.STREAM_CAPTURE_UNSUPPORTED)) throw error
    throw explained(error, 'A null stream cannot capture: capture on a stream that you made')
  }
  return stream
}

Stream.prototype.endCapture = function (): Graph {
  const { driver, handle, context } = openStream(this)
  try {
    return new Graph(new GraphSeed(this.device, context, driver.graphs.end(handle)) as never)
  } finally {
    freeDeferred(driver)
  }
}

Stream.prototype.capture = function (fn: () => void, options?: CaptureOptions): Graph {
  openStream(this)
  checkFunction(fn, 'fn')
  const { mode } = readOptions(options, ['mode'])
  // The function may close a wrapper, and the capture is still to be ended then.
  const ending = isInstance(this, ExternalStream) ? new ExternalStream(this) : this
  this.beginCapture(mode)
  try {
    const returned: unknown = fn()
    // What is returned may throw too, when it is looked at.
    if (isThenable(returned)) {
      ignoreRejection(returned)
      throw invalidValue(
        'fn must not return a promise: a capture ends with the function, before the promise would settle',
      )
    }
  } catch (error) {
    abandonCapture(ending)
    throw error
  }
  return ending.endCapture()
}

Stream.prototype.launch = launch as Stream['launch']

/** What a stream keeps of itself once it was asked, and what a capturing one cannot be asked. */
function askBeforehand(stream: Stream): void {
  try {
    void [stream.id, stream.nonBlocking, stream.priority]
  } catch {
    // It captures already, say: the beginning will be refused, and say why.
  }
}

/** Nobody gets the promise: it must not end the process. Other thenables may begin their work where they are waited for. */
function ignoreRejection(thenable: unknown): void {
  if (types.isPromise(thenable)) Promise.prototype.then.call(thenable, undefined, () => {})
}

/** Ends a capture whose graph is of no use; the error that brought this about is the one to be seen. */
function abandonCapture(stream: Stream): void {
  try {
    stream.endCapture().close()
  } catch {
    // A capture that is invalidated gives no graph, and is over all the same.
  }
}
