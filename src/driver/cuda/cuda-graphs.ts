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
import type { BegunCapture, StreamRecord } from './handles/stream-records.js'
import type { Captures } from './host-functions/captures.js'
import type { CapturedHostFunction, GraphSemaphore, GraphSemaphores } from './host-functions/graph-semaphores.js'
import type { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import { type CFunction, own } from './libcuda/c-functions.js'
import type { LibcudaParts } from './libcuda/driver-calls.js'
import { check, checkDestroyed } from './libcuda/libcuda.js'
import { NativeMemory } from './libcuda/native-memory.js'
import type { Blocking } from './waiting/blocking.js'
import type { EventPool } from './waiting/event-pool.js'
import type { ValueWaits } from './waiting/value-waits.js'

export interface CudaGraphsParts extends LibcudaParts {
  readonly graphSemaphores: GraphSemaphores
  readonly nodes: GraphNodes
  readonly hostFunctions: PendingHostFunctions
  readonly blocking: Pick<Blocking, 'beforeCapture'>
  readonly captures: Captures
  readonly handles: HandleCheck
  readonly green: Pick<CudaGreenContexts, 'of' | 'isGreen' | 'launchStreamOf'>
  readonly pool: EventPool
  readonly valueWaits: Pick<ValueWaits, 'beforeWait' | 'queued'>
  readonly driver: {
    /** Makes a call in which CUDA may make that many streams of its own in a context. */
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
  /** The most branches that it may have. CUDA makes a stream of its own for each branch of an instance. */
  readonly branches: number
  /** The green contexts that these streams are in, besides the device's primary context. */
  readonly greens: Greens
  /** The graph waits for values, so a launch may be blocked until this thread, or another program, writes them. */
  readonly waitsForValues: boolean
  /** The number of its nodes that are graphs which have nothing to do. */
  readonly emptyGraphs: number
}

const NO_STREAMS: readonly StreamRecord[] = []
const NO_CHILDREN = { branches: 0, greens: new Set<never>(), waitsForValues: false, emptyGraphs: 0 }
const NOTHING_CAPTURED: CapturedGraph = { ...NO_CHILDREN, hostFunctions: [], branches: 1 }

type CapturedChildren = Pick<CapturedGraph, 'branches' | 'greens' | 'waitsForValues' | 'emptyGraphs'>

interface Instance {
  readonly context: ContextHandle
  /** Functions that give fills the parameters that an update gave them. */
  readonly fills: Map<NodeHandle, () => void>
  /** The fills that are switched off. */
  readonly off: Set<NodeHandle>
}

export class CudaGraphs implements GraphDriver {
  /** The streams that have a `capture`. */
  readonly #begun = new Set<StreamRecord>()
  /** The host functions captured so far, by the driver's number for the capture. */
  readonly #capturing = new Map<bigint, CapturedHostFunction[]>()
  readonly #captured = new Map<GraphHandle, CapturedGraph>()
  readonly #instances = new Map<GraphExecHandle, Instance>()
  /** The semaphores of instances with host functions. */
  readonly #semaphores = new Map<GraphExecHandle, readonly GraphSemaphore[]>()
  /** The instances that wait for values. */
  readonly #waiting = new Set<GraphExecHandle>()
  /** The instances that have nothing to do, with their latest launches. */
  readonly #empty = new Map<GraphExecHandle, EventHandle | undefined>()
  /** What the graphs have in them that were put into captures under way, by the driver's number for the capture. */
  readonly #children = new Map<bigint, CapturedChildren>()

  readonly #nodes: GraphNodes
  /** In a field, since the library has more functions than V8 finds without a hash table. */
  readonly #cuGraphLaunch: CFunction

  constructor(private readonly parts: CudaGraphsParts) {
    this.#cuGraphLaunch = parts.library.cuGraphLaunch
    this.#nodes = parts.nodes
  }

  /** The streams that have a capture under way. Another library's may have been destroyed, which ends the capture. */
  get begun(): readonly StreamRecord[] {
    if (this.#begun.size === 0) return NO_STREAMS
    const begun = [...this.#begun].filter(({ capture }) => capture?.isLeft === false)
    for (const stream of begun) if (!this.#isThere(stream) || this.#isEnded(stream)) this.#forgetCapture(stream)
    return begun.filter(({ capture }) => capture !== undefined)
  }

  /** The streams that joined a capture, and that CUDA may be called with. */
  get joined(): readonly StreamRecord[] {
    const { joined } = this.parts.captures
    return joined.size === 0 ? NO_STREAMS : [...joined].filter((stream) => this.#isThere(stream))
  }

  /** May CUDA be called with the stream? Another library's may have been destroyed, and another stream may have its handle. */
  #isThere({ isGone, owner, handle, id }: StreamRecord): boolean {
    return !isGone && (owner !== 'other' || this.parts.handles.isStill(handle, id))
  }

  /** Another thread may have ended the capture that the stream began. */
  #isEnded(stream: StreamRecord): boolean {
    return !this.parts.captures.isListed(stream) && !this.parts.calls.captures(stream.handle)
  }

  begin(stream: StreamHandle, mode: CaptureMode): void {
    const { calls, must } = this.parts
    this.#begin(stream, undefined, () => calls.onStream(stream, (raw) => must.cuStreamBeginCapture_v2(raw, mode)))
  }

  beginInto(stream: StreamHandle, mode: CaptureMode, graph: GraphHandle, after: readonly NodeHandle[]): void {
    const { calls, must } = this.parts
    const nodes = new NativeMemory(8 * Math.max(1, after.length))
    for (const [index, node] of after.entries()) nodes.setPointer(8 * index, node)
    try {
      this.#begin(stream, graph, () =>
        calls.onStream(stream, (raw) =>
          must.cuStreamBeginCaptureToGraph(raw, graph, nodes.address, 0, after.length, mode),
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
    // If ending the capture is refused, CUDA destroys the graph too.
    if (begun?.into !== undefined) this.#captured.delete(begun.into)
    const { calls, must, memory } = this.parts
    const end = (): GraphHandle => {
      calls.onStream(handle, (raw) => must.cuStreamEndCapture(raw, memory.address))
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

  /** What is known of a graph, with what a capture has added to it so far. */
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

  /** What is known of the graph that the stream's capture makes or adds to, without the host functions of the capture. */
  #withCapture(
    stream: StreamRecord,
    begun: BegunCapture | undefined,
  ): CapturedGraph & { readonly hostFunctions: CapturedHostFunction[] } {
    const before = begun?.into === undefined ? NOTHING_CAPTURED : (this.#captured.get(begun.into) ?? NOTHING_CAPTURED)
    const children = this.#childrenOf(begun?.id)
    // What is added to a graph may run in parallel with the rest.
    const added = begun?.into === undefined ? 0 : 1
    const joined = this.parts.captures.joins - (begun?.joins ?? 0)
    return {
      hostFunctions: [...before.hostFunctions],
      branches: before.branches + added + children.branches + joined,
      greens: new Set([...before.greens, ...children.greens, ...this.parts.green.of([stream, ...this.joined])]),
      waitsForValues: children.waitsForValues || before.waitsForValues,
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
      // Another library may have ended the capture. Ending one that the stream joined since would invalidate that.
      if (!valid || id === stream.capture.id) this.destroy(this.end(handle))
    } catch {
      // A capture that is invalidated returns no graph, and has ended all the same.
    } finally {
      // The stream may be destroyed from now on, so CUDA must not be called with it any more.
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

  /** Another stream has the handle for certain (`isOther`), or may have it. In the second case the capture that the stream began stays its own. */
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

  /** Forgets captures that were left and have ended: the owner may have ended them, or destroyed the stream. */
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
      // The context is lost, and the driver does not tell the capture's number any more.
    }
    this.#captureOver(stream)
  }

  /** A function that tells whether the capture that the stream is in now is still under way; undefined when it is in none. */
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

  /** Captures a host function. Its semaphore's operations become a node. */
  captureHostFunction(stream: StreamHandle, host: HostFunction): void {
    const { calls, graphSemaphores } = this.parts
    check(
      'cuLaunchHostFunc',
      calls.onStream(stream, (raw) => graphSemaphores.capture(raw)),
    )
    const { id, node } = this.#captureInfo(stream)
    if (id === undefined) return
    this.#noteHostFunction(id, { node, host })
  }

  /** A wait for a value has become part of the capture of this stream. */
  noteValueWait(stream: StreamHandle): void {
    const { id } = this.#captureInfo(stream)
    if (id !== undefined) this.#children.set(id, { ...this.#childrenOf(id), waitsForValues: true })
  }

  #noteHostFunction(id: bigint, hostFunction: CapturedHostFunction): void {
    const captured = this.#capturing.get(id)
    if (captured === undefined) this.#capturing.set(id, [hostFunction])
    else captured.push(hostFunction)
  }

  addGraph(stream: StreamHandle, graph: GraphHandle): void {
    const { must, memory, calls } = this.parts
    const { hostFunctions, branches, greens, waitsForValues } = this.#capturedIn(graph)
    if (hostFunctions.some(({ isWithin }) => isWithin)) {
      const what = 'A graph within this graph has host functions, which can be one level deep'
      throw stateError('ERR_UNSUPPORTED', `${what}: launch them in the capture itself`)
    }
    const { id, valid } = this.#captureInfo(stream)
    if (id === undefined || !valid) throw cudaError('cuGraphAddNode', CUresult.STREAM_CAPTURE_INVALIDATED)
    // That call wrote the nodes to come after, how many there are, and the graph.
    const [after, count, into] = [memory.pointerAt(16), memory.pointerAt(24), memory.pointerAt(40)]
    const node = this.#nodes.addGraph(into, after, count, graph)
    // The first words are overwritten when the context of a default stream is made current.
    memory.setPointer(48, node)
    const update = (raw: number): void =>
      must.cuStreamUpdateCaptureDependencies_v2(raw, memory.address + 48, 0, 1, SET_DEPENDENCIES)
    calls.onStream(stream, update)
    const children = this.#childrenOf(id)
    this.#children.set(id, {
      branches: children.branches + branches,
      greens: new Set([...children.greens, ...greens]),
      waitsForValues: children.waitsForValues || waitsForValues,
      emptyGraphs: children.emptyGraphs + (this.#isEmpty(graph) ? 1 : 0),
    })
    if (hostFunctions.length === 0) return
    const within = this.#nodes.graphOf(node)
    for (const { node: original, host } of hostFunctions) {
      must.cuGraphNodeFindInClone(memory.address, original, within)
      this.#noteHostFunction(id, { node: memory.pointerAt(0), host, isWithin: true })
    }
  }

  destroy(graph: GraphHandle): void {
    this.#captured.delete(graph)
    this.parts.relaxed.run(() => this.parts.must.cuGraphDestroy(graph))
  }

  /** Has a launch of it nothing to do? */
  #isEmpty(graph: GraphHandle): boolean {
    return this.nodeCount(graph) === this.#capturedIn(graph).emptyGraphs
  }

  nodeCount(graph: GraphHandle): number {
    const { must, memory } = this.parts
    must.cuGraphGetNodes(graph, 0, memory.address)
    return memory.pointerAt(0)
  }

  toDot(graph: GraphHandle): string {
    const { must, memory } = this.parts
    const directory = mkdtempSync(join(tmpdir(), 'cuda-graph-'))
    try {
      const path = join(directory, 'graph.dot')
      memory.bytes.set(Buffer.from(`${path}\0`))
      must.cuGraphDebugDotPrint(graph, memory.address, 0)
      return readFileSync(path, 'utf8')
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  }

  instantiate(graph: GraphHandle, context: ContextHandle): GraphExecHandle {
    const { library, memory, relaxed, graphSemaphores, driver } = this.parts
    const what = 'making an instance of a graph, for which CUDA waits for the device,'
    const { hostFunctions, branches, greens, waitsForValues } = this.#capturedIn(graph)
    let semaphores: GraphSemaphore[] = []
    const instantiate = (): number => {
      semaphores = graphSemaphores.arm(context, hostFunctions)
      return relaxed.run(() => library.cuGraphInstantiateWithFlags(memory.address, graph, 0))
    }
    const result = driver.withStreams(context, branches, instantiate, what, greens)
    if (result !== 0) for (const semaphore of semaphores) semaphore.destroy()
    check('cuGraphInstantiate', result)
    const exec = memory.pointerAt(0) as GraphExecHandle
    this.#instances.set(exec, { context, fills: new Map(), off: new Set() })
    this.#setSemaphores(exec, semaphores)
    this.#setWaiting(exec, waitsForValues)
    if (this.#isEmpty(graph)) this.#empty.set(exec, undefined)
    return exec
  }

  destroyExec(exec: GraphExecHandle): void {
    this.#setSemaphores(exec, [])
    this.#setWaiting(exec, false)
    const { library, relaxed, pool } = this.parts
    const { context } = this.#instances.get(exec) ?? {}
    const last = this.#empty.get(exec)
    if (last !== undefined && context !== undefined) pool.giveBack(context, last, EventFlag.DEFAULT)
    this.#empty.delete(exec)
    this.#instances.delete(exec)
    const result = relaxed.run(() => library.cuGraphExecDestroy(exec))
    checkDestroyed('cuGraphExecDestroy', result)
  }

  upload(exec: GraphExecHandle, stream: StreamHandle): void {
    const { must, hostFunctions, calls } = this.parts
    hostFunctions.countEntries(stream, 1)
    calls.onStream(stream, (raw) => must.cuGraphUpload(exec, raw))
  }

  launch(exec: GraphExecHandle, stream: StreamHandle): void {
    const { green, driver, hostFunctions, streams, valueWaits } = this.parts
    const semaphores = this.#semaphores.size === 0 ? undefined : this.#semaphores.get(exec)
    const isElsewhere = green.isGreen(stream) && !driver.streamIsCapturing(stream)
    const launchStream = isElsewhere ? green.launchStreamOf(streams.of(stream)) : undefined
    const mayBlock = this.#waiting.size > 0 && this.#waiting.has(exec) && valueWaits.beforeWait(stream)
    hostFunctions.countEntries(stream, 1)
    if (semaphores === undefined) this.#launch(exec, stream, launchStream)
    else hostFunctions.queueGraph(stream, semaphores, () => this.#launch(exec, stream, launchStream))
    if (mayBlock) valueWaits.queued(stream)
    if (this.#empty.size > 0 && this.#empty.has(exec)) this.#orderEmpty(exec, stream)
  }

  /**
   * To CUDA the launch of an instance that has nothing to do is no work: it comes after nothing, not even the null stream's work. A record of an event
   * with timing is work.
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

  #launch(exec: GraphExecHandle, stream: StreamHandle, launchStream: StreamHandle | undefined): void {
    if (launchStream === undefined) this.#launchOn(exec, stream)
    else this.#launchFromGreen(exec, stream, launchStream)
  }

  /**
   * A wait for a primary context includes its green contexts, but not graphs that are launched there (docs/cuda-facts.md). So the launch is made on a
   * stream of the primary context. The event is waited for before it is recorded again.
   */
  #launchFromGreen(exec: GraphExecHandle, stream: StreamHandle, launchStream: StreamHandle): void {
    const { streams, library, pool } = this.parts
    const event = pool.shared(streams.of(stream).context)
    const follow = (after: StreamHandle, before: StreamHandle): void =>
      check('cuGraphLaunch', library.cuEventRecord(event, before) || library.cuStreamWaitEvent(after, event, 0))
    follow(launchStream, stream)
    this.#launchOn(exec, launchStream)
    follow(stream, launchStream)
  }

  #launchOn(exec: GraphExecHandle, stream: StreamHandle): void {
    if (isDefaultStream(stream)) {
      this.#launchOnDefault(exec, stream)
      return
    }
    const result = this.#cuGraphLaunch(exec, stream)
    if (result !== 0) throw cudaError('cuGraphLaunch', result)
  }

  #launchOnDefault(exec: GraphExecHandle, stream: StreamHandle): void {
    this.parts.calls.onStream(stream, (raw) => this.parts.must.cuGraphLaunch(exec, raw))
  }

  update(exec: GraphExecHandle, graph: GraphHandle): void {
    const instance = this.#instances.get(exec)
    if (instance === undefined) throw cudaError('cuGraphExecUpdate', CUresult.INVALID_HANDLE)
    const { hostFunctions, waitsForValues } = this.#capturedIn(graph)
    const { graphSemaphores, library, memory } = this.parts
    const semaphores = graphSemaphores.arm(instance.context, hostFunctions)
    const result = library.cuGraphExecUpdate_v2(exec, graph, memory.address)
    if (result !== 0) for (const semaphore of semaphores) semaphore.destroy()
    check('cuGraphExecUpdate', result)
    this.#setSemaphores(exec, semaphores)
    this.#setWaiting(exec, waitsForValues)
  }

  #setSemaphores(exec: GraphExecHandle, semaphores: readonly GraphSemaphore[]): void {
    for (const semaphore of this.#semaphores.get(exec) ?? []) semaphore.destroy()
    if (semaphores.length > 0) this.#semaphores.set(exec, semaphores)
    else this.#semaphores.delete(exec)
  }

  #setWaiting(exec: GraphExecHandle, waitsForValues: boolean): void {
    if (waitsForValues) this.#waiting.add(exec)
    else this.#waiting.delete(exec)
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
    if (instance?.off.has(node)) this.#fillUnread(exec, node, context)
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
    this.parts.must.cuGraphNodeSetEnabled(exec, node, enabled ? 1 : 0)
  }

  /**
   * A fill that is off writes elsewhere. If CUDA switched it off, and a graph began with it, the context would be lost as soon as two launches are under
   * way (docs/cuda-facts.md).
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
      this.#fillUnread(exec, node, context)
      off.add(node)
      return
    }
    const fill = fills.get(node)
    if (fill === undefined) this.#nodes.resetFill(exec, node, context)
    else fill()
    off.delete(node)
  }

  #fillUnread(exec: GraphExecHandle, node: NodeHandle, context: ContextHandle): void {
    this.#nodes.updateFill(exec, node, context, this.parts.graphSemaphores.unreadByte, 0, 1, 1)
  }

  #childrenOf(id: bigint | undefined): CapturedChildren {
    return (id === undefined ? undefined : this.#children.get(id)) ?? NO_CHILDREN
  }

  /** Removes the host functions of the capture that the stream is in, and returns them. */
  #captureGoes({ handle, capture }: StreamRecord): readonly CapturedHostFunction[] {
    const { id, valid } = this.#captureInfo(handle)
    const known = valid || capture?.isLeft ? id : capture?.id
    if (known === undefined) return []
    const captured = this.#capturing.get(known) ?? []
    this.#capturing.delete(known)
    this.#children.delete(known)
    return captured
  }

  /** The capture that the stream began has ended, or this library cannot find out any more whether it has. */
  #forgetCapture(stream: StreamRecord): void {
    this.parts.captures.endBy(stream, () => {})
    this.#captureOver(stream)
  }

  /** The capture that the stream began, if it began one, has ended. */
  #captureOver(stream: StreamRecord): void {
    if (stream.capture?.isLeft !== false) return
    stream.capture = undefined
    this.#begun.delete(stream)
    this.parts.captures.ended()
    this.parts.hostFunctions.settle()
  }

  /** The driver's number for the capture that a stream is in, and the node that was captured on it last. */
  #captureInfo(stream: StreamHandle): {
    readonly id: bigint | undefined
    readonly valid: boolean
    readonly node: number
  } {
    const { must, memory, calls } = this.parts
    const { address, uint32, uint64 } = memory
    uint64.fill(0n, 0, 6)
    const [nodes, count, edges, graph] = [address + 16, address + 24, address + 32, address + 40]
    calls.onStream(stream, (raw) =>
      must.cuStreamGetCaptureInfo_v3(raw, address, address + 8, graph, nodes, edges, count),
    )
    const hasNode = uint64[3] === 1n
    if (hasNode) own().copy(address + 48, memory.pointerAt(16), 8)
    return {
      id: uint32[0] === 0 ? undefined : uint64[1],
      valid: uint32[0] === CAPTURE_STATUS_ACTIVE,
      node: hasNode ? memory.pointerAt(48) : 0,
    }
  }
}
