/** Graphs on a real GPU. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stateError } from '../../base/errors.js'
import { CUresult, cudaError } from '../cuda-results.js'
import {
  type CaptureMode,
  type ContextHandle,
  EventFlag,
  type EventHandle,
  type ExternalFlag,
  type FillWidth,
  type GraphDriver,
  type GraphExecHandle,
  type GraphHandle,
  type HostFunction,
  isDefaultStream,
  type KernelHandle,
  type LaunchArgument,
  type LaunchShape,
  type NodeFacts,
  type NodeHandle,
  type Pointer,
  type StreamHandle,
} from '../driver.js'
import type { CudaGreenContexts, Greens } from './cuda-green-contexts.js'
import type { CudaKernels } from './cuda-kernels.js'
import type { GraphNodes } from './graph-nodes.js'
import type { HandleCheck } from './handles/handle-check.js'
import type { Captures } from './host-functions/captures.js'
import type { CapturedHostFunction, GraphGates, GraphLane } from './host-functions/graph-gates.js'
import type { HostFunctions } from './host-functions/host-functions.js'
import { type CFunction, own } from './libcuda/c-functions.js'
import { check, checkDestroyed } from './libcuda/library.js'
import { NativeMemory } from './libcuda/native.js'
import { captures, type LibcudaParts } from './libcuda/stream-calls.js'
import type { BegunCapture, StreamRecord } from './stream-records.js'
import type { Blocking } from './waiting/blocking.js'
import type { EventPool } from './waiting/event-pool.js'
import type { ValueWaits } from './waiting/value-waits.js'

export interface CudaGraphsParts extends LibcudaParts {
  readonly graphGates: GraphGates
  readonly nodes: GraphNodes
  readonly hostFunctions: HostFunctions
  readonly blocking: Pick<Blocking, 'beforeCapture'>
  readonly captures: Captures
  readonly handles: HandleCheck
  readonly green: Pick<CudaGreenContexts, 'of' | 'isGreen' | 'beside'>
  readonly pool: EventPool
  readonly valueWaits: Pick<ValueWaits, 'aboutToStand' | 'queued'>
  readonly driver: {
    /** Makes a call that may make so many streams of CUDA's own in a context. */
    withStreams<R>(context: ContextHandle, streams: number, call: () => R, what: string, greens: Greens): R
    readonly kernels: Pick<CudaKernels, 'nodeCall'>
    streamIsCapturing(stream: StreamHandle): boolean
    streamWaitEvent(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void
    eventRecord(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void
  }
}

const CAPTURE_STATUS_ACTIVE = 1
const SET_DEPENDENCIES = 1

interface CapturedGraph {
  readonly hostFunctions: readonly CapturedHostFunction[]
  /** At most: an instance has a stream of CUDA's own for each. */
  readonly branches: number
  /** In which these streams are, besides the device's primary context. */
  readonly greens: Greens
  /** It waits for values: a launch may stand until this thread, or another program, writes them. */
  readonly stands: boolean
  /** So many of its nodes are graphs that have nothing to do. */
  readonly emptyGraphs: number
}

const NO_STREAMS: readonly StreamRecord[] = []
const NO_CHILDREN = { branches: 0, greens: new Set<never>(), stands: false, emptyGraphs: 0 }
const NOTHING_CAPTURED: CapturedGraph = { ...NO_CHILDREN, hostFunctions: [], branches: 1 }

type CapturedChildren = Pick<CapturedGraph, 'branches' | 'greens' | 'stands' | 'emptyGraphs'>

interface Instance {
  readonly context: ContextHandle
  /** What gives fills the parameters that an update gave them. */
  readonly fills: Map<NodeHandle, () => void>
  /** Fills that are switched off. */
  readonly off: Set<NodeHandle>
}

export class CudaGraphs implements GraphDriver {
  /** Streams that began a capture which was not ended since, as far as this thread knows, those among them that were left. */
  readonly #begun = new Set<StreamRecord>()
  /** Host functions captured so far, by the driver's number for the capture. */
  readonly #capturing = new Map<bigint, CapturedHostFunction[]>()
  readonly #captured = new Map<GraphHandle, CapturedGraph>()
  readonly #instances = new Map<GraphExecHandle, Instance>()
  /** Of instances with host functions. */
  readonly #lanes = new Map<GraphExecHandle, readonly GraphLane[]>()
  /** Of instances that wait for values. */
  readonly #standing = new Set<GraphExecHandle>()
  /** Of instances that have nothing to do: their latest launches. */
  readonly #empty = new Map<GraphExecHandle, EventHandle | undefined>()
  /** Of graphs that were put into captures under way, by the driver's number for the capture; and what stands in these. */
  readonly #children = new Map<bigint, CapturedChildren>()

  readonly #nodes: GraphNodes
  /** Kept at hand, as those of streams. */
  readonly #cuGraphLaunch: CFunction

  constructor(private readonly parts: CudaGraphsParts) {
    this.#cuGraphLaunch = parts.library.cuGraphLaunch
    this.#nodes = parts.nodes
  }

  /** Of these those that may be asked about: another library's may have been destroyed, and the capture is over then. */
  get begun(): readonly StreamRecord[] {
    if (this.#begun.size === 0) return NO_STREAMS
    const begun = [...this.#begun].filter(({ capture }) => capture?.isLeft === false)
    for (const stream of begun) if (!this.#isThere(stream) || this.#isEnded(stream)) this.#forgetCapture(stream)
    return begun.filter(({ capture }) => capture !== undefined)
  }

  /** Streams that joined a capture, and that may be asked about as those of `begun`. */
  get joined(): readonly StreamRecord[] {
    const { joined } = this.parts.captures
    return joined.size === 0 ? NO_STREAMS : [...joined].filter((stream) => this.#isThere(stream))
  }

  /** Another library's may have been destroyed, and another may have its handle. */
  #isThere({ isGone, owner, handle, id }: StreamRecord): boolean {
    return !isGone && (owner !== 'other' || this.parts.handles.isStill(handle, id))
  }

  /** Another thread may have ended the capture that the stream began. */
  #isEnded(stream: StreamRecord): boolean {
    return !this.parts.captures.isListed(stream) && !captures(this.parts, stream.handle)
  }

  begin(stream: StreamHandle, mode: CaptureMode): void {
    const { calls, library } = this.parts
    this.#begin(stream, undefined, () =>
      calls.onStream(stream, 'cuStreamBeginCapture', (raw) => library.cuStreamBeginCapture_v2(raw, mode)),
    )
  }

  beginInto(stream: StreamHandle, mode: CaptureMode, graph: GraphHandle, after: readonly NodeHandle[]): void {
    const { calls, library } = this.parts
    const nodes = new NativeMemory(8 * Math.max(1, after.length))
    for (const [index, node] of after.entries()) nodes.uint64[index] = BigInt(node)
    try {
      this.#begin(stream, graph, () =>
        calls.onStream(stream, 'cuStreamBeginCaptureToGraph', (raw) =>
          library.cuStreamBeginCaptureToGraph(raw, graph, nodes.address, 0, after.length, mode),
        ),
      )
    } finally {
      nodes.free()
    }
  }

  #begin(handle: StreamHandle, into: GraphHandle | undefined, begin: () => void): void {
    const { blocking, captures, hostFunctions } = this.parts
    const stream = this.parts.streams.of(handle)
    this.#forgetLeft()
    blocking.beforeCapture()
    const isKnown = stream.capture?.isLeft === false
    captures.beginBy(stream, begin)
    stream.capture = { id: this.#captureInfo(handle).id, joins: captures.joins, into, isLeft: false }
    this.#begun.add(stream)
    if (isKnown) return
    captures.begun()
    hostFunctions.trackOrder()
  }

  end(handle: StreamHandle): GraphHandle {
    const stream = this.parts.streams.of(handle)
    const { capture } = stream
    const begun = capture === undefined || (capture.isLeft && !this.#isIn(stream, capture)) ? undefined : capture
    const captured = this.#withCapture(stream, begun)
    captured.hostFunctions.push(...this.#captureGoes(stream))
    // Where the end is refused the graph is gone, too.
    if (begun?.into !== undefined) this.#captured.delete(begun.into)
    const { calls, library, memory } = this.parts
    const end = (): GraphHandle => {
      calls.onStream(handle, 'cuStreamEndCapture', (raw) => library.cuStreamEndCapture(raw, memory.address))
      return memory.pointerAt(0) as GraphHandle
    }
    try {
      const graph = this.parts.captures.endBy(stream, end)
      this.#captured.set(graph, captured)
      return graph
    } finally {
      this.#captureOver(stream)
    }
  }

  /** With what a capture has added to it so far. */
  #capturedIn(graph: GraphHandle): CapturedGraph {
    for (const stream of this.#begun) {
      const { capture } = stream
      if (capture?.into !== graph || capture.isLeft) continue
      const captured = this.#withCapture(stream, capture)
      if (capture.id !== undefined) captured.hostFunctions.push(...(this.#capturing.get(capture.id) ?? []))
      return captured
    }
    return this.#captured.get(graph) ?? NOTHING_CAPTURED
  }

  /** The graph that the capture makes or adds to, which the stream began, without the host functions of the capture. */
  #withCapture(
    stream: StreamRecord,
    begun: BegunCapture | undefined,
  ): CapturedGraph & { readonly hostFunctions: CapturedHostFunction[] } {
    const before = begun?.into === undefined ? NOTHING_CAPTURED : (this.#captured.get(begun.into) ?? NOTHING_CAPTURED)
    const children = this.#childrenOf(begun?.id)
    // What is added to a graph may run beside the rest.
    const added = begun?.into === undefined ? 0 : 1
    const joined = this.parts.captures.joins - (begun?.joins ?? 0)
    return {
      hostFunctions: [...before.hostFunctions],
      branches: before.branches + added + children.branches + joined,
      greens: new Set([...before.greens, ...children.greens, ...this.parts.green.of([stream, ...this.joined])]),
      stands: children.stands || before.stands,
      emptyGraphs: children.emptyGraphs + before.emptyGraphs,
    }
  }

  captureId(stream: StreamHandle): bigint | undefined {
    const { id, valid } = this.#captureInfo(stream)
    return valid ? id : undefined
  }

  abandon(handle: StreamHandle): void {
    const stream = this.parts.streams.of(handle)
    if (stream.capture?.isLeft !== false) return
    try {
      const { id, valid } = this.#captureInfo(handle)
      // Another library may have ended its own; to end one that it joined since would invalidate that.
      if (!valid || id === stream.capture.id) this.destroy(this.end(handle))
    } catch {
      // One that is invalidated gives no graph, and is over all the same.
    } finally {
      // The stream may be gone from now on: it must not be asked about the capture any more.
      this.#forgetCapture(stream)
    }
  }

  leave(stream: StreamHandle): void {
    this.#leave(this.parts.streams.of(stream))
  }

  #leave(stream: StreamRecord): void {
    const { capture, owner } = stream
    if (capture === undefined || capture.isLeft || owner !== 'other') return
    this.#forgetCapture(stream)
    stream.capture = { ...capture, isLeft: true }
    this.#begun.add(stream)
  }

  /**
   * Another stream has the handle, or may have: `isOther` where that is certain. Else the capture that the stream began is still its
   * own.
   */
  replaced(before: StreamRecord, now: StreamRecord, isOther: boolean): void {
    if (isOther) this.#leave(before)
    else if (this.#begun.delete(before)) {
      now.capture = before.capture
      this.#begun.add(now)
    }
  }

  /** Is the stream still in a capture that it began? */
  #isIn({ handle }: StreamRecord, { id }: BegunCapture): boolean {
    return this.#captureInfo(handle).id === id
  }

  /** Forgets captures that were left and are over: the owner may have ended them, or destroyed the stream. */
  #forgetLeft(): void {
    for (const stream of this.#begun) {
      const { capture } = stream
      if (!capture?.isLeft || (this.#isThere(stream) && this.#isIn(stream, capture))) continue
      this.#begun.delete(stream)
      stream.capture = undefined
      if (capture.id === undefined) continue
      this.#capturing.delete(capture.id)
      this.#children.delete(capture.id)
    }
  }

  /** The stream is about to be destroyed, and takes the capture that it began, if it did, along. */
  streamGoes(stream: StreamRecord): void {
    if (stream.capture === undefined) return
    try {
      this.#captureGoes(stream)
    } catch {
      // Its context is lost, and with it the number.
    }
    this.#captureOver(stream)
  }

  /** Tells whether the capture that the stream is in now is under way still; undefined where it is in none. */
  captureOf(stream: StreamHandle): (() => boolean) | undefined {
    const { id } = this.#captureInfo(stream)
    if (id === undefined) return undefined
    return () => {
      const left = [...this.#begun].filter((origin) => origin.capture?.isLeft && this.#isThere(origin))
      for (const origin of [...this.begun, ...left]) {
        const now = this.#captureInfo(origin.handle)
        if (now.id === id) return now.valid
      }
      return false
    }
  }

  /** Captures a host function: a gate that becomes a node. */
  captureHostFunction(stream: StreamHandle, host: HostFunction): void {
    this.parts.calls.onStream(stream, 'cuLaunchHostFunc', (raw) => this.parts.graphGates.capture(raw))
    const { id, node } = this.#captureInfo(stream)
    if (id === undefined) return
    this.#noteHostFunction(id, { node, host })
  }

  /** A wait for a value has gone into the capture of this stream. */
  noteValueWait(stream: StreamHandle): void {
    const { id } = this.#captureInfo(stream)
    if (id !== undefined) this.#children.set(id, { ...this.#childrenOf(id), stands: true })
  }

  #noteHostFunction(id: bigint, hostFunction: CapturedHostFunction): void {
    const captured = this.#capturing.get(id)
    if (captured === undefined) this.#capturing.set(id, [hostFunction])
    else captured.push(hostFunction)
  }

  addGraph(stream: StreamHandle, graph: GraphHandle): void {
    const { library, memory, calls } = this.parts
    const { hostFunctions, branches, greens, stands } = this.#capturedIn(graph)
    if (hostFunctions.some(({ isWithin }) => isWithin)) {
      const what = 'A graph within this graph has host functions, which can be one level deep'
      throw stateError('ERR_UNSUPPORTED', `${what}: launch them in the capture itself`)
    }
    const { id, valid } = this.#captureInfo(stream)
    if (id === undefined || !valid) throw cudaError('cuGraphAddNode', CUresult.STREAM_CAPTURE_INVALIDATED)
    // What the call before wrote: the nodes to come after, how many, and the graph.
    const [after, count, into] = [memory.pointerAt(16), memory.pointerAt(24), memory.pointerAt(40)]
    const node = this.#nodes.addGraph(into, after, count, graph)
    memory.setPointer(0, node)
    calls.onStream(stream, 'cuStreamUpdateCaptureDependencies', (raw) =>
      library.cuStreamUpdateCaptureDependencies_v2(raw, memory.address, 0, 1, SET_DEPENDENCIES),
    )
    const children = this.#childrenOf(id)
    this.#children.set(id, {
      branches: children.branches + branches,
      greens: new Set([...children.greens, ...greens]),
      stands: children.stands || stands,
      emptyGraphs: children.emptyGraphs + (this.#isEmpty(graph) ? 1 : 0),
    })
    if (hostFunctions.length === 0) return
    const within = this.#nodes.graphOf(node)
    for (const { node: original, host } of hostFunctions) {
      check('cuGraphNodeFindInClone', library.cuGraphNodeFindInClone(memory.address, original, within))
      this.#noteHostFunction(id, { node: memory.pointerAt(0), host, isWithin: true })
    }
  }

  destroy(graph: GraphHandle): void {
    this.#captured.delete(graph)
    const result = this.parts.relaxed.run(() => this.parts.library.cuGraphDestroy(graph))
    check('cuGraphDestroy', result)
  }

  /** Has a launch of it nothing to do? */
  #isEmpty(graph: GraphHandle): boolean {
    return this.nodeCount(graph) === this.#capturedIn(graph).emptyGraphs
  }

  nodeCount(graph: GraphHandle): number {
    check('cuGraphGetNodes', this.parts.library.cuGraphGetNodes(graph, 0, this.parts.memory.address))
    return this.parts.memory.pointerAt(0)
  }

  toDot(graph: GraphHandle): string {
    const directory = mkdtempSync(join(tmpdir(), 'cuda-graph-'))
    try {
      const path = join(directory, 'graph.dot')
      this.parts.memory.bytes.set(Buffer.from(`${path}\0`))
      check('cuGraphDebugDotPrint', this.parts.library.cuGraphDebugDotPrint(graph, this.parts.memory.address, 0))
      return readFileSync(path, 'utf8')
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  }

  instantiate(graph: GraphHandle, context: ContextHandle): GraphExecHandle {
    const instantiate = (): number =>
      this.parts.relaxed.run(() => this.parts.library.cuGraphInstantiateWithFlags(this.parts.memory.address, graph, 0))
    const what = 'making an instance of a graph, for which CUDA waits for the device,'
    const { hostFunctions, branches, greens, stands } = this.#capturedIn(graph)
    let lanes: GraphLane[] = []
    const armed = (): number => {
      lanes = this.parts.graphGates.arm(context, hostFunctions)
      return instantiate()
    }
    const result = this.parts.driver.withStreams(context, branches, armed, what, greens)
    if (result !== 0) for (const lane of lanes) lane.destroy()
    check('cuGraphInstantiate', result)
    const exec = this.parts.memory.pointerAt(0) as GraphExecHandle
    this.#instances.set(exec, { context, fills: new Map(), off: new Set() })
    this.#setLanes(exec, lanes)
    this.#setStanding(exec, stands)
    if (this.#isEmpty(graph)) this.#empty.set(exec, undefined)
    return exec
  }

  destroyExec(exec: GraphExecHandle): void {
    this.#setLanes(exec, [])
    this.#setStanding(exec, false)
    const { context } = this.#instances.get(exec) ?? {}
    const last = this.#empty.get(exec)
    if (last !== undefined && context !== undefined) this.parts.pool.giveBack(context, last, EventFlag.DEFAULT)
    this.#empty.delete(exec)
    this.#instances.delete(exec)
    const result = this.parts.relaxed.run(() => this.parts.library.cuGraphExecDestroy(exec))
    checkDestroyed('cuGraphExecDestroy', result)
  }

  upload(exec: GraphExecHandle, stream: StreamHandle): void {
    this.parts.hostFunctions.countEntries(stream, 1)
    this.parts.calls.onStream(stream, 'cuGraphUpload', (raw) => this.parts.library.cuGraphUpload(exec, raw))
  }

  launch(exec: GraphExecHandle, stream: StreamHandle): void {
    const { green, driver, hostFunctions, streams, valueWaits } = this.parts
    const lanes = this.#lanes.size === 0 ? undefined : this.#lanes.get(exec)
    const isBeside = green.isGreen(stream) && !driver.streamIsCapturing(stream)
    const beside = isBeside ? green.beside(streams.of(stream)) : undefined
    const mayStand = this.#standing.size > 0 && this.#standing.has(exec) && valueWaits.aboutToStand(stream)
    hostFunctions.countEntries(stream, 1)
    if (lanes === undefined) this.#launch(exec, stream, beside)
    else hostFunctions.queueGraph(stream, lanes, () => this.#launch(exec, stream, beside))
    if (mayStand) valueWaits.queued(stream)
    if (this.#empty.size > 0 && this.#empty.has(exec)) this.#orderEmpty(exec, stream)
  }

  /**
   * For CUDA the launch of an instance that has nothing to do is no work: it comes after nothing, not even the null stream's work. A
   * record of an event with timing is work.
   */
  #orderEmpty(exec: GraphExecHandle, stream: StreamHandle): void {
    const { driver, pool } = this.parts
    const last = this.#empty.get(exec)
    if (last !== undefined) driver.streamWaitEvent(stream, last, 0)
    const context = this.#instances.get(exec)?.context
    if (context === undefined) return
    const event = last ?? pool.take(context, EventFlag.DEFAULT)
    this.#empty.set(exec, event)
    driver.eventRecord(event, stream, 0)
  }

  #launch(exec: GraphExecHandle, stream: StreamHandle, beside: StreamHandle | undefined): void {
    if (beside === undefined) this.#launchOn(exec, stream)
    else this.#launchBeside(exec, stream, beside)
  }

  /**
   * What waits for a primary context waits for its green contexts, too, but not for graphs that are launched there
   * (docs/cuda-facts.md): so the launch is made on a stream of the primary one. The event is waited for before it is
   * recorded anew.
   */
  #launchBeside(exec: GraphExecHandle, stream: StreamHandle, beside: StreamHandle): void {
    const { streams, library, pool } = this.parts
    const event = pool.shared(streams.of(stream).context)
    const follow = (after: StreamHandle, before: StreamHandle): void =>
      check('cuGraphLaunch', library.cuEventRecord(event, before) || library.cuStreamWaitEvent(after, event, 0))
    follow(beside, stream)
    this.#launchOn(exec, beside)
    follow(stream, beside)
  }

  #launchOn(exec: GraphExecHandle, stream: StreamHandle): void {
    if (isDefaultStream(stream)) {
      this.parts.calls.onStream(stream, 'cuGraphLaunch', (raw) => this.#cuGraphLaunch(exec, raw))
      return
    }
    const result = this.#cuGraphLaunch(exec, stream)
    if (result !== 0) throw cudaError('cuGraphLaunch', result)
  }

  update(exec: GraphExecHandle, graph: GraphHandle): void {
    const instance = this.#instances.get(exec)
    if (instance === undefined) throw cudaError('cuGraphExecUpdate', CUresult.INVALID_HANDLE)
    const { hostFunctions, stands } = this.#capturedIn(graph)
    const lanes = this.parts.graphGates.arm(instance.context, hostFunctions)
    const result = this.parts.library.cuGraphExecUpdate_v2(exec, graph, this.parts.memory.address)
    if (result !== 0) for (const lane of lanes) lane.destroy()
    check('cuGraphExecUpdate', result)
    this.#setLanes(exec, lanes)
    this.#setStanding(exec, stands)
  }

  #setLanes(exec: GraphExecHandle, lanes: readonly GraphLane[]): void {
    for (const lane of this.#lanes.get(exec) ?? []) lane.destroy()
    if (lanes.length > 0) this.#lanes.set(exec, lanes)
    else this.#lanes.delete(exec)
  }

  #setStanding(exec: GraphExecHandle, stands: boolean): void {
    if (stands) this.#standing.add(exec)
    else this.#standing.delete(exec)
  }

  nodes(graph: GraphHandle): readonly NodeFacts[] {
    const { hostFunctions } = this.#capturedIn(graph)
    return this.#nodes.factsOf(graph, new Set(hostFunctions.map(({ node }) => node)))
  }

  capturedNode(stream: StreamHandle): NodeHandle | undefined {
    const { node } = this.#captureInfo(stream)
    return node === 0 ? undefined : (node as NodeHandle)
  }

  updateKernel(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    kernel: KernelHandle,
    shape: LaunchShape,
    values: readonly LaunchArgument[],
  ): void {
    const { driver, contexts } = this.parts
    const call = driver.kernels.nodeCall(kernel, shape, values)
    const update = (): void => this.#nodes.updateKernel(exec, node, call)
    // A node of a green context is changed with that current: CUDA refuses it even where the parameters name it.
    if (context === this.#instances.get(exec)?.context) update()
    else contexts.within(context, update)
  }

  updateTwin(): void {
    throw stateError('ERR_UNSUPPORTED', 'A real GPU runs the kernel itself, not its twin')
  }

  updateCopy(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    destination: Pointer,
    source: Pointer,
    byteLength: number,
  ): void {
    this.#nodes.updateCopy(exec, node, context, destination, source, byteLength)
  }

  updateFill(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    pointer: Pointer,
    value: number,
    width: FillWidth,
    count: number,
  ): void {
    const fill = (): void => this.#nodes.updateFill(exec, node, context, pointer, value, width, count)
    fill()
    const instance = this.#instances.get(exec)
    instance?.fills.set(node, fill)
    if (instance?.off.has(node)) this.#fillNowhere(exec, node, context)
  }

  setEnabled(exec: GraphExecHandle, node: NodeHandle, context: ContextHandle | undefined, enabled: boolean): void {
    const instance = this.#instances.get(exec)
    const rows = this.#nodes.rowsOfFill(node)
    if (rows !== undefined && rows > 1) {
      const what = 'A fill of several rows, which another library queued, cannot be switched off'
      throw stateError('ERR_UNSUPPORTED', `${what}: capture a graph without it`)
    }
    if (rows === 1 && instance !== undefined) {
      this.#switchFill(exec, instance, node, context ?? instance.context, enabled)
      return
    }
    check('cuGraphNodeSetEnabled', this.parts.library.cuGraphNodeSetEnabled(exec, node, enabled ? 1 : 0))
  }

  /**
   * A fill that is off writes elsewhere: where a graph begins with one that CUDA has switched off, the context is lost as
   * soon as two launches are under way (docs/cuda-facts.md).
   */
  #switchFill(
    exec: GraphExecHandle,
    { fills, off }: Instance,
    node: NodeHandle,
    context: ContextHandle,
    enabled: boolean,
  ): void {
    if (enabled !== off.has(node)) return
    if (!enabled) {
      this.#fillNowhere(exec, node, context)
      off.add(node)
      return
    }
    const fill = fills.get(node)
    if (fill === undefined) this.#nodes.resetFill(exec, node, context)
    else fill()
    off.delete(node)
  }

  #fillNowhere(exec: GraphExecHandle, node: NodeHandle, context: ContextHandle): void {
    this.#nodes.updateFill(exec, node, context, this.parts.graphGates.nowhere, 0, 1, 1)
  }

  #childrenOf(id: bigint | undefined): CapturedChildren {
    return (id === undefined ? undefined : this.#children.get(id)) ?? NO_CHILDREN
  }

  /** Lets go of the host functions of the capture that the stream is in, and returns them. */
  #captureGoes({ handle, capture }: StreamRecord): readonly CapturedHostFunction[] {
    const { id, valid } = this.#captureInfo(handle)
    const known = valid || capture?.isLeft ? id : capture?.id
    if (known === undefined) return []
    const captured = this.#capturing.get(known) ?? []
    this.#capturing.delete(known)
    this.#children.delete(known)
    return captured
  }

  /** The capture that the stream began is over, or this library does not know any more whether it is. */
  #forgetCapture(stream: StreamRecord): void {
    this.parts.captures.endBy(stream, () => {})
    this.#captureOver(stream)
  }

  /** The capture that the stream began, if it did, is over. */
  #captureOver(stream: StreamRecord): void {
    if (stream.capture?.isLeft !== false) return
    stream.capture = undefined
    this.#begun.delete(stream)
    this.parts.captures.ended()
    this.parts.hostFunctions.calmDown()
  }

  /** The driver's number for the capture that a stream is in, and the node that was captured last on it. */
  #captureInfo(stream: StreamHandle): {
    readonly id: bigint | undefined
    readonly valid: boolean
    readonly node: number
  } {
    const { address, uint64 } = this.parts.memory
    uint64.fill(0n, 0, 6)
    const [status, id, nodes, count, edges, graph] = [0, 8, 16, 24, 32, 40].map((offset) => address + offset)
    this.parts.calls.onStream(stream, 'cuStreamGetCaptureInfo', (raw) =>
      this.parts.library.cuStreamGetCaptureInfo_v3(
        raw,
        status ?? 0,
        id ?? 0,
        graph ?? 0,
        nodes ?? 0,
        edges ?? 0,
        count ?? 0,
      ),
    )
    const capturing = this.parts.memory.uint32[0] !== 0
    const valid = this.parts.memory.uint32[0] === CAPTURE_STATUS_ACTIVE
    const hasNode = uint64[3] === 1n
    if (hasNode) own().copy(address + 48, this.parts.memory.pointerAt(16), 8)
    const node = hasNode ? this.parts.memory.pointerAt(48) : 0
    return { id: capturing ? uint64[1] : undefined, valid, node }
  }
}
