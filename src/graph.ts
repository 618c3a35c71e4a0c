import { inspect, types } from 'node:util'
import { checkFunction, checkOptions } from './arguments.js'
import { type Device, driverOf } from './device.js'
import { type Driver, isNullStream } from './driver/driver.js'
import { CaptureMode } from './driver/graph-driver.js'
import type { ContextHandle, GraphExecHandle, GraphHandle } from './driver/handles.js'
import { describe, invalidType, invalidValue, stateError } from './errors.js'
import { freeDeferred } from './homes.js'
import { type Launchable, launch, launchOn } from './launch.js'
import { destroyWhenUnreachable, type Remains, release } from './remains.js'
import { isStream, openStream, Stream } from './stream.js'

/** What other work of the process a capture forbids meanwhile: CUDA's cudaStreamCaptureMode. */
export type CaptureModeName = 'global' | 'threadLocal' | 'relaxed'

/** How a capture is begun. */
export interface CaptureOptions {
  /** Default 'threadLocal'. */
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

class GraphRemains implements Remains {
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

/** Work written down by a capture: a template, to be instantiated. It outlives the streams it was captured from. */
export class Graph implements Disposable {
  /** The device of the stream it was captured from. */
  readonly device: Device
  readonly #driver: Driver
  readonly #context: ContextHandle
  readonly #handle: GraphHandle
  readonly #remains: GraphRemains

  /** Use `stream.capture(fn)` or `stream.endCapture()`. */
  constructor(seed: never) {
    const given: unknown = seed
    if (!(given instanceof GraphSeed)) throw invalidType('Graph', 'had from stream.capture(fn)', given)
    const { device, context, handle } = given as GraphSeed<GraphHandle>
    const driver = driverOf(device)
    this.device = device
    this.#driver = driver
    this.#context = context
    this.#handle = handle
    this.#remains = new GraphRemains(() => driver.graphs.destroy(handle))
    destroyWhenUnreachable(this, this.#remains)
  }

  /** The CUgraph. */
  get handle(): bigint {
    return BigInt(this.#handle)
  }

  /** Was it closed? */
  get closed(): boolean {
    return this.#remains.gone
  }

  /** How many operations it has (`cuGraphGetNodes`). */
  get nodeCount(): number {
    return this.#driver.graphs.nodeCount(this.#open())
  }

  /** The graph in Graphviz's DOT language (`cuGraphDebugDotPrint`). */
  toDot(): string {
    return this.#driver.graphs.toDot(this.#open())
  }

  /** Makes an instance that can be launched (`cuGraphInstantiate`). The graph may be closed afterwards. */
  instantiate(): GraphExec {
    const handle = this.#driver.graphs.instantiate(this.#open(), this.#context)
    return new GraphExec(new GraphSeed(this.device, this.#context, handle) as never)
  }

  /** Destroys the graph (`cuGraphDestroy`); instances of it live on. May be called twice. */
  close(): void {
    if (!this.#remains.gone) release(this, this.#remains)
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    this.close()
  }

  get [Symbol.toStringTag](): string {
    return 'Graph'
  }

  toString(): string {
    return `Graph(0x${this.#handle.toString(16)}, ${this.device}${this.closed ? ', closed' : ''})`
  }

  [inspect.custom](): string {
    return this.toString()
  }

  #open(): GraphHandle {
    if (this.#remains.gone) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
    return this.#handle
  }

  static {
    openGraph = (graph, driver) => {
      const handle = graph.#open()
      if (graph.#driver === driver) return handle
      throw stateError('ERR_DEVICE_MISMATCH', `${graph} belongs to another driver than the instance it is to update`)
    }
    isGraph = (value): value is Graph => typeof value === 'object' && value !== null && #handle in value
  }
}

/** An instance of a graph, ready to be launched any number of times. Launches of one instance run one after another. */
export class GraphExec implements Disposable, Launchable {
  /** The device whose streams it can be launched on. */
  readonly device: Device
  readonly #driver: Driver
  readonly #handle: GraphExecHandle
  readonly #remains: GraphRemains

  /** Use `graph.instantiate()`. */
  constructor(seed: never) {
    const given: unknown = seed
    if (!(given instanceof GraphSeed)) throw invalidType('GraphExec', 'had from graph.instantiate()', given)
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
    return this.#remains.gone
  }

  /** Moves what a launch needs to the GPU ahead of time (`cuGraphUpload`). Default: the current stream of its device. */
  upload(stream?: Stream): this {
    const target = this.#target(stream)
    this.#driver.graphs.upload(this.#handle, openStream(target).handle)
    return this
  }

  /** Queues all its work (`cuGraphLaunch`). Default: the current stream of its device. */
  launch(stream?: Stream): this {
    const target = this.#target(stream)
    this.#driver.graphs.launch(this.#handle, openStream(target).handle)
    return this
  }

  /**
   * Puts another graph of the same shape in (`cuGraphExecUpdate`).
   * @throws CudaError 910 where the shapes differ; the instance is as it was. ERR_DEVICE_MISMATCH for a graph of another
   * driver
   */
  update(graph: Graph): this {
    if (!isGraph(graph)) throw invalidType('graph', 'a Graph', graph)
    this.#driver.graphs.update(this.#open(), openGraph(graph, this.#driver))
    return this
  }

  /** Destroys the instance (`cuGraphExecDestroy`); launches that are queued still complete. May be called twice. */
  close(): void {
    if (!this.#remains.gone) release(this, this.#remains)
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    this.close()
  }

  get [Symbol.toStringTag](): string {
    return 'GraphExec'
  }

  toString(): string {
    return `GraphExec(0x${this.#handle.toString(16)}, ${this.device}${this.closed ? ', closed' : ''})`
  }

  [inspect.custom](): string {
    return this.toString()
  }

  #open(): GraphExecHandle {
    if (this.#remains.gone) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
    return this.#handle
  }

  [launchOn](stream: Stream): void {
    this.launch(stream)
  }

  #target(stream: Stream | undefined): Stream {
    this.#open()
    const target = stream === undefined ? Stream.current(this.device) : stream
    if (!isStream(target)) throw invalidType('stream', 'a Stream', stream)
    if (target.device === this.device) return target
    throw stateError('ERR_DEVICE_MISMATCH', `${this} cannot be launched on ${target}, which is on ${target.device}`)
  }
}

/* What graphs give to streams. It stands here so that imports run one way: graphs know streams, not the reverse. */

declare module './stream.js' {
  interface Stream {
    /**
     * Begins to write this stream's work down instead of running it (`cuStreamBeginCapture`). Other streams join by
     * waiting for an event of it, and must be waited for before the end. Mode: 'threadLocal' unless given.
     */
    beginCapture(mode?: CaptureModeName): this
    /**
     * Ends the capture that this stream began (`cuStreamEndCapture`).
     * @throws CudaError 901 where a mistake has spoilt it, 904 where a stream joined and was not waited for
     */
    endCapture(): Graph
    /** Captures what the function queues on this stream. Ends the capture also where it throws; refuses a promise. */
    capture(fn: () => void, options?: CaptureOptions): Graph
    /** `exec.launch(stream)`. */
    launch(exec: GraphExec): this
  }
}

Stream.prototype.beginCapture = function (mode: CaptureModeName = 'threadLocal'): Stream {
  const { driver, handle } = openStream(this)
  if (typeof mode !== 'string') throw invalidType('mode', "'global', 'threadLocal' or 'relaxed'", mode)
  if (!Object.hasOwn(MODES, mode)) {
    throw invalidValue(`mode must be 'global', 'threadLocal' or 'relaxed', not ${describe(mode)}`)
  }
  if (!isNullStream(handle)) askBeforehand(this)
  driver.graphs.begin(handle, MODES[mode])
  return this
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
  checkFunction(fn, 'fn')
  this.beginCapture(checkOptions(options)?.mode)
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
    abandonCapture(this)
    throw error
  }
  return this.endCapture()
}

Stream.prototype.launch = launch as Stream['launch']

/** What a stream keeps of itself once it was asked, and what a capturing one cannot be asked. */
function askBeforehand(stream: Stream): void {
  try {
    void [stream.id, stream.nonBlocking]
  } catch {
    // It captures already, say: the beginning will be refused, and say why.
  }
}

function isThenable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, 'then') === 'function'
}

/** Nobody gets the promise: it must not end the process. Other thenables may begin their work where they are waited for. */
function ignoreRejection(thenable: unknown): void {
  if (types.isPromise(thenable)) Promise.prototype.then.call(thenable, undefined, () => {})
}

/** Ends a capture whose graph nobody wants; the error that brought this about is the one to be seen. */
function abandonCapture(stream: Stream): void {
  try {
    stream.endCapture().close()
  } catch {
    // A spoilt capture gives no graph, and is over all the same.
  }
}
