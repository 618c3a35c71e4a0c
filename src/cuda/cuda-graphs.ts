/** Graphs on a real GPU. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stateError } from '../foundation/base/errors.js'
import { fillOfRowsIsOn, notInBody } from '../foundation/driver/captured-graph.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { type CaptureMode, ConditionalType, EventFlag } from '../foundation/driver/driver-constants.js'
import type { EventDriver } from '../foundation/driver/event-driver.js'
import type {
  ConditionalFacts,
  ConditionalPlace,
  GraphDriver,
  NewConditional,
  NodeFacts,
} from '../foundation/driver/graph-driver.js'
import { refusedHandle } from '../foundation/driver/handle-errors.js'
import {
  type ContextHandle,
  type EventHandle,
  type GraphExecHandle,
  type GraphHandle,
  isDefaultStream,
  type NodeHandle,
  type StreamHandle,
} from '../foundation/driver/handle-types.js'
import type { FillWork, HostFunction, KernelWork, NodeWork } from '../foundation/driver/queued-work.js'
import type { StreamDriver } from '../foundation/driver/stream-driver.js'
import { type CFunction, own } from '../foundation/native/c-functions.js'
import { NativeMemory } from '../foundation/native/native-memory.js'
import type { CudaGreenContexts, Greens } from './cuda-green-contexts.js'
import type { CudaKernels } from './cuda-kernels.js'
import type { GraphNodes } from './graph-nodes.js'
import type { HandleCheck } from './handles/handle-check.js'
import type { BegunCapture, StreamRecord } from './handles/stream-records.js'
import type { Captures } from './host-functions/captures.js'
import type { CapturedHostFunction, GraphSemaphore, GraphSemaphores } from './host-functions/graph-semaphores.js'
import type { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import type { LibcudaParts } from './libcuda/driver-calls.js'
import { check, checkDestroyed } from './libcuda/libcuda.js'
import type { Blocking } from './waiting/blocking.js'
import type { EventPool } from './waiting/event-pool.js'
import type { IdleDevices } from './waiting/idle-devices.js'
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
  readonly idleDevices: Pick<IdleDevices, 'check' | 'whenIdle' | 'whenNothingStands'>
  readonly driver: {
    readonly kernels: Pick<CudaKernels, 'nodeCall'>
    readonly streams: Pick<StreamDriver, 'isCapturing' | 'waitEvent'> & {
      /** Makes a call in which CUDA may make that many streams of its own in a context. */
      withStreams<R>(context: ContextHandle, streams: number, call: () => R, what: string, greens: Greens): R
    }
    readonly events: Pick<EventDriver, 'record'>
  }
}

const CAPTURE_STATUS_ACTIVE = 1
const SET_DEPENDENCIES = 1
const CONDITION_ASSIGN_DEFAULT = 1
/** The number of CUDA 12.8 in the form of cuDriverGetVersion. */
const CUDA_12_8 = 12080

interface AddedConditional {
  readonly node: NodeHandle
  readonly bodies: readonly GraphHandle[]
}

/** What is known of a graph, or of what a capture has captured so far. */
class Contents {
  readonly hostFunctions: CapturedHostFunction[] = []
  /** The most branches that a graph may have. CUDA makes a stream of its own for each branch of an instance. */
  branches = 0
  /** The green contexts that these streams are in, besides the device's primary context. */
  greens: Greens = new Set()
  /**
   * Whether there are waits for values, so that a launch may be blocked until this thread, or another program, writes them.
   */
  waitsForValues = false
  /** The events that a launch records. */
  readonly events = new Set<EventHandle>()
  /** The number of nodes that are graphs which have nothing to do. */
  emptyGraphs = 0
  /** The conditional nodes, whose bodies CUDA reports only from 13.2 on. */
  readonly conditionals = new Map<NodeHandle, ConditionalFacts>()
  /** The node of a body that was added last; `parts` are the nodes that are parts of what was captured for the body. */
  last: NodeHandle | undefined
  readonly parts = new Set<NodeHandle>()

  add(more: Partial<Omit<Contents, 'add' | 'last' | 'parts'>> = {}): this {
    this.hostFunctions.push(...(more.hostFunctions ?? []))
    this.branches += more.branches ?? 0
    if (more.greens !== undefined) this.greens = new Set([...this.greens, ...more.greens])
    this.waitsForValues ||= more.waitsForValues ?? false
    for (const event of more.events ?? []) this.events.add(event)
    this.emptyGraphs += more.emptyGraphs ?? 0
    for (const [node, facts] of more.conditionals ?? []) this.conditionals.set(node, facts)
    return this
  }
}

interface Instance {
  readonly context: ContextHandle
  /** Functions that give fills the parameters that an update gave them. */
  readonly fills: Map<NodeHandle, () => void>
  /** The fills that are switched off. */
  readonly off: Set<NodeHandle>
  semaphores: readonly GraphSemaphore[]
  waitsForValues: boolean
  events: ReadonlySet<EventHandle>
  /** A launch has nothing to do. */
  readonly isEmpty: boolean
  readonly hasConditionals: boolean
  /** The event that is recorded after the latest launch, if that has nothing to do. */
  lastLaunch: EventHandle | undefined
}

const NO_STREAMS: readonly StreamRecord[] = []

/** CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE */
const DOT_VERBOSE = 1

export class CudaGraphs implements GraphDriver {
  /** The streams that have a `capture`. */
  readonly #begun = new Set<StreamRecord>()
  /** What has been captured so far, by the driver's number for the capture. */
  readonly #captured = new Map<bigint, Contents>()
  readonly #graphs = new Map<GraphHandle, Contents>()
  readonly #instances = new Map<GraphExecHandle, Instance>()
  readonly #nodes: GraphNodes
  /**
   * The function for launches is in a field, since the library has more functions than V8 finds without a hash table.
   */
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

  /** Has the capture ended that the stream began? Another thread may have ended it. */
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
    const contents = this.#contentsWith(stream, begun, this.#takeCaptured(stream))
    // If ending the capture is refused, CUDA destroys the graph too.
    if (begun?.into !== undefined) this.#graphs.delete(begun.into)
    const { calls, must, memory } = this.parts
    const end = (): GraphHandle => {
      calls.onStream(handle, (raw) => must.cuStreamEndCapture(raw, memory.address))
      return memory.pointerAt(0) as GraphHandle
    }
    try {
      const graph = this.parts.captures.endBy(stream, end)
      this.#graphs.set(graph, contents)
      return graph
    } finally {
      this.#captureEnded(stream)
    }
  }

  /** What is known of a graph, with what a capture has added to it so far. */
  #contentsOf(graph: GraphHandle): Contents {
    for (const stream of this.#begun) {
      const { capture } = stream
      if (capture?.into === graph && !capture.isLeft)
        return this.#contentsWith(stream, capture, this.#capturedIn(capture.id))
    }
    return this.#graphs.get(graph) ?? new Contents().add({ branches: 1 })
  }

  /** What is known of the graph that the stream's capture makes or adds to. */
  #contentsWith(stream: StreamRecord, begun: BegunCapture | undefined, captured: Contents | undefined): Contents {
    const { captures, green } = this.parts
    const into = begun?.into
    // What is added to a graph may run in parallel with the rest.
    const contents = into === undefined ? undefined : (this.#graphs.get(into) ?? new Contents().add({ branches: 1 }))
    const branches = 1 + captures.joins - (begun?.joins ?? 0)
    const greens = green.of([stream, ...this.joined])
    return new Contents().add(contents).add(captured).add({ branches, greens })
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

  /**
   * Called when another stream has the handle for certain (`isOther`), or may have it. In the second case the capture that the
   * stream began stays its own.
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

  /** Forgets captures that were left and have ended: the owner may have ended them, or destroyed the stream. */
  #forgetLeft(): void {
    for (const stream of this.#begun) {
      const { capture } = stream
      if (!capture?.isLeft || (this.#isThere(stream) && this.#isIn(stream, capture))) continue
      this.#begun.delete(stream)
      stream.capture = undefined
      if (capture.id !== undefined) this.#captured.delete(capture.id)
    }
  }

  /** The stream is about to be destroyed, and takes the capture that it began, if it did, along. */
  streamGoes(stream: StreamRecord): void {
    if (stream.capture === undefined) return
    try {
      this.#takeCaptured(stream)
    } catch {
      // The context is lost, and the driver refuses the capture's number.
    }
    this.#captureEnded(stream)
  }

  /** Returns a function that checks whether the capture that the stream is in now is still under way; undefined when it is in none. */
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
    this.#note(id, { hostFunctions: [{ node, host }] })
  }

  /** A wait for a value has become part of the capture of this stream. */
  noteValueWait(stream: StreamHandle): void {
    const { id } = this.#captureInfo(stream)
    this.#note(id, { waitsForValues: true })
  }

  /** A record of an event has become part of the capture of this stream: each launch makes it. */
  noteRecord(stream: StreamHandle, event: EventHandle): void {
    this.#note(this.#captureInfo(stream).id, { events: new Set([event]) })
  }

  #note(id: bigint | undefined, more: Partial<Contents>): void {
    if (id === undefined) return
    const captured = this.#captured.get(id)
    if (captured === undefined) this.#captured.set(id, new Contents().add(more))
    else captured.add(more)
  }

  #capturedIn(id: bigint | undefined): Contents | undefined {
    return id === undefined ? undefined : this.#captured.get(id)
  }

  addGraph(stream: StreamHandle, graph: GraphHandle): void {
    const { must, memory, calls } = this.parts
    const { hostFunctions, branches, greens, waitsForValues, events } = this.#contentsOf(graph)
    if (hostFunctions.some(({ isWithin }) => isWithin)) {
      const what = 'A graph within this graph has host functions, which can be one level deep'
      throw stateError('ERR_UNSUPPORTED', `${what}: launch them in the capture itself`)
    }
    const id = this.#checkValid(stream, 'cuGraphAddNode')
    // That call wrote the nodes to come after, how many there are, and the graph.
    const [after, count, into] = [memory.pointerAt(16), memory.pointerAt(24), memory.pointerAt(40)]
    const node = this.#nodes.addGraph(into, after, count, graph)
    // The first words are overwritten when the context of a default stream is made current.
    memory.setPointer(48, node)
    const update = (raw: number): void =>
      must.cuStreamUpdateCaptureDependencies_v2(raw, memory.address + 48, 0, 1, SET_DEPENDENCIES)
    calls.onStream(stream, update)
    this.#note(id, { branches, greens, waitsForValues, events, emptyGraphs: this.#isEmpty(graph) ? 1 : 0 })
    if (hostFunctions.length === 0) return
    const within = this.#nodes.graphOf(node)
    for (const { node: original, host } of hostFunctions) {
      must.cuGraphNodeFindInClone(memory.address, original, within)
      this.#note(id, { hostFunctions: [{ node: memory.pointerAt(0), host, isWithin: true }] })
    }
  }

  createCondition(stream: StreamHandle, context: ContextHandle, value: number): bigint {
    const { must, memory } = this.parts
    this.#checkValid(stream, 'cuGraphConditionalHandleCreate')
    const graph = memory.pointerAt(40)
    must.cuGraphConditionalHandleCreate(memory.address, graph, context, value, CONDITION_ASSIGN_DEFAULT)
    return memory.uint64[0] ?? 0n
  }

  addConditional(place: ConditionalPlace, conditional: NewConditional): readonly GraphHandle[] {
    const { type } = conditional
    this.#checkConditional(conditional)
    const isBody = 'body' in place
    const { node, bodies } = isBody
      ? this.#addConditionalToBody(place.body, conditional)
      : this.#addConditionalToCapture(place.stream, conditional)
    const facts = { type, bodies }
    if (isBody) this.#contentsOf(place.body).conditionals.set(node, facts)
    else this.#note(this.#captureInfo(place.stream).id, { conditionals: new Map([[node, facts]]) })
    for (const body of bodies) this.#graphs.set(body, new Contents())
    return bodies
  }

  /** An older driver refuses these with a number alone. */
  #checkConditional({ type, size }: NewConditional): void {
    const { must, memory } = this.parts
    if (type === ConditionalType.WHILE || (type === ConditionalType.IF && size === 1)) return
    must.cuDriverGetVersion(memory.address)
    const version = memory.int32[0] ?? 0
    if (version >= CUDA_12_8) return
    const what = type === ConditionalType.IF ? 'An if node with a second body' : 'A switch node'
    const which = `this one is for ${Math.floor(version / 1000)}.${(version % 1000) / 10}`
    const way = 'use an if node for each body'
    throw stateError('ERR_UNSUPPORTED', `${what} needs a driver for CUDA 12.8 or later, and ${which}: ${way}`)
  }

  #addConditionalToCapture(stream: StreamHandle, conditional: NewConditional): AddedConditional {
    const { must, memory, calls } = this.parts
    this.#checkValid(stream, 'cuGraphAddNode')
    const [after, count, into] = [memory.pointerAt(16), memory.pointerAt(24), memory.pointerAt(40)]
    const added = this.#nodes.addConditional(into, after, count, conditional)
    memory.setPointer(48, added.node)
    calls.onStream(stream, (raw) =>
      must.cuStreamUpdateCaptureDependencies_v2(raw, memory.address + 48, 0, 1, SET_DEPENDENCIES),
    )
    return added
  }

  #addConditionalToBody(body: GraphHandle, conditional: NewConditional): AddedConditional {
    const { memory } = this.parts
    const { last } = this.#contentsOf(body)
    if (last !== undefined) memory.setPointer(8, last)
    const [after, count] = last === undefined ? [0, 0] : [memory.address + 8, 1]
    const added = this.#nodes.addConditional(body, after, count, conditional)
    this.#contentsOf(body).last = added.node
    return added
  }

  addToBody(body: GraphHandle, graph: GraphHandle): ReadonlyMap<NodeHandle, NodeHandle> {
    const refused = this.#nodes.refusedInBody(graph)
    if (refused !== undefined) throw notInBody(refused)
    const contents = this.#contentsOf(body)
    const { branches, greens } = this.#contentsOf(graph)
    const node = this.#nodes.addGraphBehind(body, contents.last, graph)
    contents.add({ branches, greens })
    contents.last = node
    contents.parts.add(node)
    return this.#nodes.copiesOf(graph, node)
  }

  /** The number of the capture that the stream is in. What CUDA tells of it is in memory afterwards. */
  #checkValid(stream: StreamHandle, call: string): bigint {
    const { id, valid } = this.#captureInfo(stream)
    if (id === undefined || !valid) throw cudaError(call, CUresult.STREAM_CAPTURE_INVALIDATED)
    return id
  }

  wrap(handle: number): GraphHandle {
    const call = 'cuGraphGetNodes'
    const { handles, library, memory } = this.parts
    handles.checkThere('graph', handle, call)
    const result = library.cuGraphGetNodes(handle, 0, memory.address)
    if (result !== 0) throw refusedHandle('graph', handle, cudaError(call, result))
    return handle as GraphHandle
  }

  destroy(graph: GraphHandle): void {
    this.#forget(graph)
    this.parts.relaxed.run(() => this.parts.must.cuGraphDestroy(graph))
  }

  #forget(graph: GraphHandle): void {
    for (const { bodies } of this.#graphs.get(graph)?.conditionals.values() ?? []) {
      for (const body of bodies) this.#forget(body)
    }
    this.#graphs.delete(graph)
  }

  /** Has a launch of the graph nothing to do? */
  #isEmpty(graph: GraphHandle): boolean {
    return this.nodeCount(graph) === this.#contentsOf(graph).emptyGraphs
  }

  nodeCount(graph: GraphHandle): number {
    const { must, memory } = this.parts
    must.cuGraphGetNodes(graph, 0, memory.address)
    return memory.pointerAt(0)
  }

  toDot(graph: GraphHandle, verbose: boolean): string {
    const { must, memory } = this.parts
    const directory = mkdtempSync(join(tmpdir(), 'cuda-graph-'))
    try {
      const path = join(directory, 'graph.dot')
      memory.bytes.set(Buffer.from(`${path}\0`))
      must.cuGraphDebugDotPrint(graph, memory.address, verbose ? DOT_VERBOSE : 0)
      return readFileSync(path, 'utf8')
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  }

  instantiate(graph: GraphHandle, context: ContextHandle): GraphExecHandle {
    const { library, memory, relaxed, graphSemaphores, driver, idleDevices } = this.parts
    const what = 'making an instance of a graph, for which CUDA waits for the device,'
    const contents = this.#contentsOf(graph)
    const { hostFunctions, waitsForValues, events, conditionals } = contents
    const { branches, greens } = this.#withBodies(contents)
    const hasConditionals = conditionals.size > 0
    // An instance that was closed is destroyed when the device is idle, and CUDA makes no other before.
    if (hasConditionals) idleDevices.check()
    let semaphores: GraphSemaphore[] = []
    const instantiate = (): number => {
      semaphores = graphSemaphores.arm(context, hostFunctions)
      return relaxed.run(() => library.cuGraphInstantiateWithFlags(memory.address, graph, 0))
    }
    const result = driver.streams.withStreams(context, branches, instantiate, what, greens)
    if (result !== 0) for (const semaphore of semaphores) semaphore.destroy()
    check('cuGraphInstantiate', result)
    const exec = memory.pointerAt(0) as GraphExecHandle
    const isEmpty = this.#isEmpty(graph)
    const kept = { fills: new Map(), off: new Set<NodeHandle>(), lastLaunch: undefined }
    this.#instances.set(exec, { context, semaphores, waitsForValues, events, isEmpty, hasConditionals, ...kept })
    return exec
  }

  /** The branches of the graph and of its bodies, and the green contexts that these are in. */
  #withBodies({ branches, greens, conditionals }: Contents): Pick<Contents, 'branches' | 'greens'> {
    const all = new Contents().add({ branches, greens })
    for (const { bodies } of conditionals.values()) {
      for (const body of bodies) all.add(this.#withBodies(this.#contentsOf(body)))
    }
    return all
  }

  destroyExec(exec: GraphExecHandle): void {
    const { library, relaxed, pool, idleDevices } = this.parts
    const instance = this.#instances.get(exec)
    this.#instances.delete(exec)
    for (const semaphore of instance?.semaphores ?? []) semaphore.destroy()
    if (instance?.lastLaunch !== undefined) pool.giveBack(instance.context, instance.lastLaunch, EventFlag.DEFAULT)
    const destroy = (): void =>
      checkDestroyed(
        'cuGraphExecDestroy',
        relaxed.run(() => library.cuGraphExecDestroy(exec)),
      )
    // CUDA waits for the device, and if a loop of the instance still runs the context is lost (docs/internals/cuda-facts.md).
    if (instance?.hasConditionals) idleDevices.whenIdle(destroy)
    // CUDA waits for the device in few of these calls: why in those is not known (docs/internals/cuda-facts.md).
    else idleDevices.whenNothingStands(destroy)
  }

  upload(exec: GraphExecHandle, stream: StreamHandle): void {
    const { must, hostFunctions, calls } = this.parts
    hostFunctions.countEntries(stream, 1)
    calls.onStream(stream, (raw) => must.cuGraphUpload(exec, raw))
  }

  /** Has the instance host functions of its own, which JavaScript runs during each launch? */
  runsHostFunctions(exec: GraphExecHandle): boolean {
    return (this.#instances.get(exec)?.semaphores.length ?? 0) > 0
  }

  launch(exec: GraphExecHandle, stream: StreamHandle): void {
    const { green, driver, hostFunctions, streams, valueWaits, captures } = this.parts
    const instance = this.#instances.get(exec)
    const isElsewhere = green.isGreen(stream) && !driver.streams.isCapturing(stream)
    const launchStream = isElsewhere ? green.launchStreamOf(streams.of(stream)) : undefined
    const mayBlock = instance?.waitsForValues && valueWaits.beforeWait(stream)
    hostFunctions.countEntries(stream, 1)
    if (instance === undefined || instance.semaphores.length === 0) this.#launch(exec, stream, launchStream)
    else this.#launchWithHostFunctions(instance.semaphores, exec, stream, launchStream)
    if (mayBlock) valueWaits.queued(stream)
    // A record that a launch makes takes the place of one that was captured.
    if (captures.matter && instance !== undefined && instance.events.size > 0 && !driver.streams.isCapturing(stream))
      for (const event of instance.events) captures.forgetEvent(event)
    if (instance?.isEmpty) this.#orderEmpty(instance, stream)
  }

  /** This is a method of its own, since one with a closure in it allocates at each call, even when the closure is not made. */
  #launchWithHostFunctions(
    semaphores: readonly GraphSemaphore[],
    exec: GraphExecHandle,
    stream: StreamHandle,
    launchStream: StreamHandle | undefined,
  ): void {
    this.parts.hostFunctions.queueGraph(stream, semaphores, () => this.#launch(exec, stream, launchStream))
  }

  /**
   * Keeps the order of a launch that has nothing to do. To CUDA such a launch is no work: it comes after nothing, not even the
   * null stream's work. A record of an event with timing is work.
   */
  #orderEmpty(instance: Instance, stream: StreamHandle): void {
    const { driver, pool } = this.parts
    if (instance.lastLaunch === undefined) instance.lastLaunch = pool.take(instance.context, EventFlag.DEFAULT)
    else driver.streams.waitEvent(stream, instance.lastLaunch, 0)
    driver.events.record(instance.lastLaunch, stream, 0)
  }

  #launch(exec: GraphExecHandle, stream: StreamHandle, launchStream: StreamHandle | undefined): void {
    if (launchStream === undefined) this.#launchOn(exec, stream)
    else this.#launchFromGreen(exec, stream, launchStream)
  }

  /**
   * A wait for a primary context includes its green contexts, but not graphs that are launched there (docs/internals/cuda-facts.md). So the launch is made on a
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
    const { hostFunctions, waitsForValues, events } = this.#contentsOf(graph)
    const { graphSemaphores, library, memory } = this.parts
    const semaphores = graphSemaphores.arm(instance.context, hostFunctions)
    const result = library.cuGraphExecUpdate_v2(exec, graph, memory.address)
    if (result !== 0) for (const semaphore of semaphores) semaphore.destroy()
    check('cuGraphExecUpdate', result)
    for (const semaphore of instance.semaphores) semaphore.destroy()
    instance.semaphores = semaphores
    instance.waitsForValues = waitsForValues
    instance.events = events
  }

  nodes(graph: GraphHandle): readonly NodeFacts[] {
    const { hostFunctions, conditionals, parts } = this.#contentsOf(graph)
    return this.#nodes.factsOf(graph, new Set(hostFunctions.map(({ node }) => node)), conditionals, parts)
  }

  capturedNode(stream: StreamHandle): NodeHandle | undefined {
    const { node } = this.#captureInfo(stream)
    return node === 0 ? undefined : (node as NodeHandle)
  }

  updateNode(exec: GraphExecHandle, node: NodeHandle, context: ContextHandle, work: NodeWork): void {
    switch (work.kind) {
      case 'kernel':
        this.#updateKernel(exec, node, context, work)
        break
      case 'copy':
        this.#nodes.updateCopy(exec, node, context, work.destination, work.source, work.byteLength)
        break
      case 'fill':
        this.#updateFill(exec, node, context, work)
        break
      default:
        work satisfies never
    }
  }

  #updateKernel(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    { kernel, shape, args }: KernelWork,
  ): void {
    const { driver, contexts } = this.parts
    const call = driver.kernels.nodeCall(kernel.handle, shape, args)
    const update = (): void => this.#nodes.updateKernel(exec, node, call)
    // A node of a green context is changed with that current: CUDA refuses it even if the parameters name it.
    if (context === this.#instances.get(exec)?.context) update()
    else contexts.within(context, update)
  }

  #updateFill(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    { pointer, value, width, count }: FillWork,
  ): void {
    const parameters = { pointer, value, width, count }
    const fill = (): void => this.#nodes.updateFill(exec, node, context, parameters)
    fill()
    const instance = this.#instances.get(exec)
    instance?.fills.set(node, fill)
    if (instance?.off.has(node)) this.#fillUnread(exec, node, context)
  }

  setEnabled(exec: GraphExecHandle, node: NodeHandle, context: ContextHandle | undefined, enabled: boolean): void {
    const instance = this.#instances.get(exec)
    const rows = this.#nodes.rowsOfFill(node)
    if (rows !== undefined && rows > 1) {
      throw fillOfRowsIsOn()
    }
    if (rows === 1 && instance !== undefined) {
      this.#switchFill(exec, instance, node, context ?? instance.context, enabled)
      return
    }
    this.parts.must.cuGraphNodeSetEnabled(exec, node, enabled ? 1 : 0)
  }

  isEnabled(exec: GraphExecHandle, node: NodeHandle): boolean {
    if (this.#instances.get(exec)?.off.has(node)) return false
    const { must, memory } = this.parts
    must.cuGraphNodeGetEnabled(exec, node, memory.address)
    return memory.uint32[0] !== 0
  }

  /**
   * A fill that is off writes elsewhere. If CUDA switched it off, and a graph began with it, the context would be lost as soon as two launches are under
   * way (docs/internals/cuda-facts.md).
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
    const pointer = this.parts.graphSemaphores.unreadByte(context)
    this.#nodes.updateFill(exec, node, context, { pointer, value: 0, width: 1, count: 1 })
  }

  /** Forgets what has been captured so far by the capture that the stream is in, and returns it. */
  #takeCaptured({ handle, capture }: StreamRecord): Contents | undefined {
    const { id, valid } = this.#captureInfo(handle)
    const known = valid || capture?.isLeft ? id : capture?.id
    const captured = this.#capturedIn(known)
    if (known !== undefined) this.#captured.delete(known)
    return captured
  }

  /** The capture that the stream began has ended, or this library cannot find out any more whether it has. */
  #forgetCapture(stream: StreamRecord): void {
    this.parts.captures.endBy(stream, () => {})
    this.#captureEnded(stream)
  }

  /** The capture that the stream began, if it began one, has ended. */
  #captureEnded(stream: StreamRecord): void {
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
