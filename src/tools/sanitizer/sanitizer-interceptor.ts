/** Intercepts the calls that order work or touch memory, and passes them to the detector. */

import { calledFromHere } from '../../foundation/base/stack.js'
import type { Epoch } from '../../foundation/base/vector-clock.js'
import type { DeviceDriver } from '../../foundation/driver/device-driver.js'
import type { Driver } from '../../foundation/driver/driver.js'
import { EventFlag } from '../../foundation/driver/driver-constants.js'
import type { Cancel, EventDriver, InternalEvent, Settle } from '../../foundation/driver/event-driver.js'
import type { GraphDriver } from '../../foundation/driver/graph-driver.js'
import type { GraphExecHandle, GraphHandle, NodeHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import type { MemoryDriver } from '../../foundation/driver/memory-driver.js'
import {
  type KernelWork,
  memoryOf,
  type NodeWork,
  type QueuedCopies,
  type QueuedCopy,
  type QueuedFill,
  type QueuedHostFunction,
  type QueuedKernel,
  type QueuedLibraryCalls,
  type QueuedPromiseWait,
  type WorkDriver,
} from '../../foundation/driver/queued-work.js'
import type { SharingDriver } from '../../foundation/driver/sharing-driver.js'
import type { StreamDriver } from '../../foundation/driver/stream-driver.js'
import type { TextureDriver } from '../../foundation/driver/texture-driver.js'
import type { TouchedMemory } from '../../foundation/driver/touched-memory.js'
import type { Interceptor } from '../../foundation/driver/wrappable-driver.js'
import { Detector, ObservedLaunch, ObservedRead } from './detector.js'
import type { Findings } from './findings.js'
import { type CapturedNodes, GraphInstance } from './graph-instances.js'
import { HappensBefore, HostFunctionPlace } from './happens-before.js'
import type { Stacks } from './operations.js'

/** The name of the work in reports. */
function nameOf(work: KernelWork | QueuedCopy | QueuedCopies | QueuedFill): string {
  if (work.kind === 'kernel') return `kernel '${work.kernel.name}'`
  if (work.kind === 'copy') return work.name
  return work.kind === 'fill' ? 'fill' : 'copy'
}

/** The nodes by the handles that their copies have in another graph. */
const copied = (nodes: CapturedNodes, copies: ReadonlyMap<NodeHandle, NodeHandle>): CapturedNodes =>
  nodes.map((each) => {
    const { work } = each
    return work.kind === 'work' && work.node !== undefined
      ? { ...each, work: { ...work, node: copies.get(work.node) } }
      : each
  })

export class SanitizerInterceptor implements Interceptor {
  readonly detector: Detector
  readonly #order: HappensBefore
  /** The nodes of the graphs that are known as a whole. Nothing is concluded from the others. */
  readonly #graphs = new Map<GraphHandle, CapturedNodes>()
  readonly #instances = new Map<GraphExecHandle, GraphInstance>()
  /** The graphs of which only a part is known. */
  readonly #partlyKnown = new Set<GraphHandle>()
  /** The graphs that captures add to; keys are the streams on which the captures began. The new nodes are known when a capture ends. */
  readonly #growing = new Map<StreamHandle, GraphHandle>()
  /**
   * The streams of captures under way; keys are the bodies of conditional nodes in them, and the stream is that of the outermost node. Each launch is
   * taken to run all bodies once, one after the other: so what any of them does has to be ordered with the rest.
   */
  readonly #bodies = new Map<GraphHandle, StreamHandle>()

  constructor(
    private readonly next: Driver,
    findings: Findings,
    stacks: Stacks,
    isCausal: boolean,
  ) {
    this.#order = new HappensBefore(next, isCausal)
    this.detector = new Detector(next, this.#order, findings, stacks)
  }

  readonly work: Partial<WorkDriver> = {
    queue: (work) => {
      const { detector, next } = this
      switch (work.kind) {
        case 'kernel':
        case 'copy':
        case 'copies':
        case 'fill': {
          const memory = memoryOf(work)
          const what = nameOf(work)
          detector.probe(work.stream, what, memory)
          if (work.kind === 'kernel') this.#launch(work, what, memory)
          else if (work.kind === 'copy') this.#copy(work, memory)
          else {
            next.work.queue(work)
            detector.work(work.stream, what, memory)
          }
          if (work.kind === 'fill') detector.filled(work)
          break
        }
        case 'library':
          this.#callLibrary(work)
          break
        case 'allocate':
          next.work.queue(work)
          detector.allocated(work.pointer, work.byteLength, work.stream)
          break
        case 'free':
          detector.probeFree(work)
          detector.freed(work, () => next.work.queue(work))
          break
        case 'hostFunction':
          this.#launchHostFunction(work)
          break
        case 'promise':
          this.#waitForPromise(work)
          break
        case 'waitValue':
          detector.probeValue(work.word, work.stream)
          next.work.queue(work)
          detector.valueAwaited(work.word, work.compare, work.stream)
          break
        case 'writeValue':
          detector.probeValue(work.word, work.stream)
          next.work.queue(work)
          detector.valueWritten(work.word, work.stream)
          break
        case 'graph': {
          const instance = this.#instances.get(work.exec)
          detector.probeLaunch(instance, work.stream)
          next.work.queue(work)
          detector.launched(`launch of graph ${work.exec}`, instance, work.stream)
          break
        }
        case 'childGraph':
          next.work.queue(work)
          detector.graphAdded(work.stream, this.#graphs.get(work.graph) ?? [])
          break
        case 'graphUpload':
          next.work.queue(work)
          break
        default:
          work satisfies never
      }
    },
    drainHostFunctions: () => {
      this.next.work.drainHostFunctions()
      this.#order.drained()
    },
  }

  #launch(work: QueuedKernel, what: string, memory: readonly TouchedMemory[]): void {
    const launch = new ObservedLaunch(this.detector, what, memory, work.shape)
    this.next.work.queue({ ...work, comparesAll: true, observer: launch })
    if (this.detector.work(work.stream, what, memory, 'work', launch) === undefined) launch.queued(undefined)
  }

  #copy(work: QueuedCopy, memory: readonly TouchedMemory[]): void {
    const { detector } = this
    if (!detector.followsReadOf(work)) {
      this.next.work.queue(work)
      detector.work(work.stream, work.name, memory)
      return
    }
    const read = new ObservedRead(detector, work, memory)
    this.next.work.queue({ ...work, reads: (isUnwritten) => read.ran(isUnwritten) })
    read.operation = detector.work(work.stream, work.name, memory)
  }

  #callLibrary(work: QueuedLibraryCalls): void {
    for (const { name, stream, memory } of work.calls) this.detector.probe(stream, name, memory)
    this.next.work.queue({ ...work, comparesAll: true })
    for (const { name, stream, memory } of work.calls) this.detector.work(stream, name, memory)
  }

  #launchHostFunction(work: QueuedHostFunction): void {
    const { stream, call } = work
    const place = new HostFunctionPlace(this.#order)
    const { internal = false } = call
    const run = (status: number): void => {
      this.detector.hostFunctionRuns(internal)
      try {
        place.run(() => call.run(status))
      } finally {
        this.detector.hostFunctionRuns(internal)
      }
    }
    this.next.work.queue({ ...work, call: { ...call, run } })
    this.detector.hostFunctionQueued(stream, place, internal)
  }

  #waitForPromise(work: QueuedPromiseWait): void {
    this.next.work.queue(work)
    const { release } = work
    const settled = this.#order.hold(work.stream)
    work.release = () => {
      this.detector.promiseSettled()
      settled()
      release()
    }
  }

  readonly devices: Partial<DeviceDriver> = {
    context: (device) => {
      const context = this.next.devices.context(device)
      this.#order.streams.contextSeen(context, device)
      return context
    },
    synchronize: (device) => {
      const work = this.#order.workOfDevice(device)
      this.next.devices.synchronize(device)
      this.#order.hostWaitedFor(work)
    },
    finished: (device, settle) => {
      const work = this.#order.workOfDevice(device)
      return this.#following(work, settle, (settled) => this.next.devices.finished(device, settled))
    },
    recordInternal: (event, device) => {
      const recorded = this.next.devices.recordInternal(event, device)
      if (recorded) this.#order.recordDevice(event, device)
      return recorded
    },
  }

  readonly streams: Partial<StreamDriver> = {
    create: (context, flags, priority) => {
      const stream = this.next.streams.create(context, flags, priority)
      this.#order.streams.created(stream, context, flags, this.detector.stacks.take())
      return stream
    },
    destroy: (stream) => {
      this.#order.streams.destroying(stream)
      this.next.streams.destroy(stream)
      this.#order.streams.destroyed(stream)
    },
    wrap: (cudaHandle, near) => {
      const wrapped = this.next.streams.wrap(cudaHandle, near)
      this.#order.streams.wrapped(wrapped.stream, wrapped.device, this.detector.stacks.take())
      return wrapped
    },
    query: (stream, isIdle) => this.#order.answer(this.next.streams.query(stream, isIdle), this.#order.workOf(stream)),
    synchronize: (stream) => {
      const work = this.#order.workOf(stream)
      this.next.streams.synchronize(stream)
      this.#order.hostWaitedFor(work)
    },
    waitEvent: (stream, event, external) => {
      this.next.streams.waitEvent(stream, event, external)
      if (!this.#order.wait(stream, event, external !== 0)) this.detector.unrecordedEventAwaited(stream)
    },
    waitStream: (stream, other, otherContext) => {
      this.next.streams.waitStream(stream, other, otherContext)
      this.#order.waitForStream(stream, other)
    },
    finished: (stream, context, settle) => {
      const work: Epoch[] = []
      const cancel = this.#following(work, settle, (settled) => this.next.streams.finished(stream, context, settled))
      // The record is noted only now: the driver may refuse it, and then there is none.
      work.push(...this.#order.promised(stream))
      return cancel
    },
  }

  readonly events: Partial<EventDriver> = {
    create: (context, flags, recordedNext) => {
      const event = this.next.events.create(context, flags, recordedNext)
      this.#order.events.created(event, (flags & EventFlag.DISABLE_TIMING) === 0)
      return event
    },
    destroy: (event) => {
      this.next.events.destroy(event)
      this.#order.events.destroyed(event)
    },
    recycle: (context, event, flags, neverRecorded) => {
      this.next.events.recycle(context, event, flags, neverRecorded)
      this.#order.events.destroyed(event)
    },
    wrap: (event) => {
      const found = this.next.events.wrap(event)
      this.#order.events.wrapped(event)
      return found
    },
    openIpcHandle: (context, bytes) => {
      const event = this.next.events.openIpcHandle(context, bytes)
      this.#order.events.wrapped(event)
      return event
    },
    record: (event, stream, external) => {
      this.next.events.record(event, stream, external)
      this.#order.record(event, stream, external !== 0)
    },
    recordInternal: (event, stream) => {
      this.next.events.recordInternal(event, stream)
      this.#order.record(event, stream, false)
    },
    query: (event, isDone) => this.#order.answer(this.next.events.query(event, isDone), this.#order.workOfEvent(event)),
    synchronize: (event) => {
      const work = this.#order.workOfEvent(event)
      this.next.events.synchronize(event)
      this.#order.hostWaitedFor(work)
    },
    finished: (event, settle) => {
      const work = this.#order.workOfEvent(event)
      return this.#following(work, settle, (settled) => this.next.events.finished(event, settled))
    },
    elapsedTime: (start, end) => {
      const milliseconds = this.next.events.elapsedTime(start, end)
      for (const event of [start, end]) this.#order.hostWaitedFor(this.#order.workOfEvent(event))
      return milliseconds
    },
  }

  /** Lets the program learn that the work is complete when the promise settles, unless it cancels that first. */
  #following(work: readonly Epoch[], settle: Settle, start: (settled: Settle) => Cancel): Cancel {
    let givenUp = false
    this.detector.checkReads()
    const asHere = this.detector.isWatching ? calledFromHere() : undefined
    const cancel = start((error) => {
      asHere?.(() => this.detector.checkReads())
      if (error === undefined && !givenUp) this.#order.settle(work, () => settle(error))
      else settle(error)
    })
    return () => {
      givenUp = true
      cancel()
    }
  }

  readonly memory: Partial<MemoryDriver> = {
    allocatePinned: (byteLength, context) => {
      const pinned = this.next.memory.allocatePinned(byteLength, context)
      this.detector.allocatedApart(pinned.pointer, byteLength, 'pinned', new Uint8Array(pinned.bytes))
      return pinned
    },
    registerPinned: (bytes, context) => {
      const pointer = this.next.memory.registerPinned(bytes, context)
      this.detector.allocatedApart(pointer, bytes.length, 'pinned', bytes)
      this.detector.registered(pointer)
      return pointer
    },
    closePinned: (pointer, bytes, after) =>
      this.detector.closing(pointer, after, () => this.next.memory.closePinned(pointer, bytes, after)),
    placeOf: (pointer, byteLength, near) => {
      const place = this.next.memory.placeOf(pointer, byteLength, near)
      this.detector.regions.foreign(pointer, byteLength)
      return place
    },
    viewed: (pointer, byteLength) => {
      this.detector.viewed(pointer, byteLength)
      this.next.memory.viewed(pointer, byteLength)
    },
  }

  /** Memory that processes share is usable without a stream, and not known to be used by the others. */
  readonly sharing: Partial<SharingDriver> = {
    allocate: (byteLength, context) => {
      const pointer = this.next.sharing.allocate(byteLength, context)
      this.detector.allocatedApart(pointer, byteLength, 'device')
      return pointer
    },
    free: (pointer, after) => this.detector.closing(pointer, after, () => this.next.sharing.free(pointer, after)),
    importMemory: (handle, context) => {
      const imported = this.next.sharing.importMemory(handle, context)
      const close = (after: readonly InternalEvent[]): void => {
        imported.close(after)
        this.detector.takenOver(after)
      }
      return { ...imported, close }
    },
    watchShared: (words) => this.detector.exchange.share(words) ?? this.next.sharing.watchShared(words),
    watchReceived: (words, watched) =>
      this.detector.exchange.receive(words, watched, this.detector.stacks.take()) ||
      this.next.sharing.watchReceived(words, watched),
  }

  /** An array is usable without a stream; what uses a texture or a surface uses its memory. */
  readonly textures: Partial<TextureDriver> = {
    createArray: (byteLength, array, context) => {
      const pointer = this.next.textures.createArray(byteLength, array, context)
      this.detector.allocatedApart(pointer, byteLength, 'device')
      return pointer
    },
    destroyArray: (pointer, after) =>
      this.detector.closing(pointer, after, () => this.next.textures.destroyArray(pointer, after)),
    destroyTexture: (texture, after) => {
      this.next.textures.destroyTexture(texture, after)
      this.detector.takenOver(after)
    },
    destroySurface: (surface, after) => {
      this.next.textures.destroySurface(surface, after)
      this.detector.takenOver(after)
    },
  }

  readonly graphs: Partial<GraphDriver> = {
    begin: (stream, mode) => {
      this.#order.streams.at(stream)
      this.next.graphs.begin(stream, mode)
      this.#order.captureBegins(stream)
    },
    end: (stream) => {
      try {
        const graph = this.next.graphs.end(stream)
        const nodes = this.#order.captureEnds(stream)
        if (nodes === undefined || this.#partlyKnown.has(graph)) this.#graphs.delete(graph)
        else this.#graphs.set(graph, nodes)
        for (const [body, outer] of this.#bodies) if (outer === stream) this.#bodies.delete(body)
        return graph
      } catch (error) {
        if (!this.#stillCaptures(stream)) this.#order.captureEnds(stream)
        throw error
      }
    },
    beginInto: (stream, mode, graph, after) => {
      this.#order.streams.at(stream)
      this.next.graphs.beginInto(stream, mode, graph, after)
      this.#order.captureBegins(stream, this.#graphs.get(graph), after)
      this.#growing.set(stream, graph)
      if (!this.#graphs.has(graph)) this.#partlyKnown.add(graph)
    },
    addConditional: (place, node) => {
      const bodies = this.next.graphs.addConditional(place, node)
      const stream = 'stream' in place ? place.stream : this.#bodies.get(place.body)
      if (stream !== undefined) for (const body of bodies) this.#bodies.set(body, stream)
      return bodies
    },
    addToBody: (body, graph) => {
      const copies = this.next.graphs.addToBody(body, graph)
      const stream = this.#bodies.get(body)
      if (stream !== undefined) this.detector.graphAdded(stream, copied(this.#graphs.get(graph) ?? [], copies))
      return copies
    },
    abandon: (stream) => {
      this.next.graphs.abandon(stream)
      if (!this.#stillCaptures(stream)) this.#order.captureEnds(stream)
    },
    destroy: (graph) => {
      this.next.graphs.destroy(graph)
      this.#partlyKnown.delete(graph)
      this.#graphs.delete(graph)
    },
    instantiate: (graph, context) => {
      const exec = this.next.graphs.instantiate(graph, context)
      const nodes = this.#nodesOf(graph)
      if (nodes === undefined) this.#instances.delete(exec)
      else this.#instances.set(exec, new GraphInstance(nodes))
      return exec
    },
    destroyExec: (exec) => {
      this.next.graphs.destroyExec(exec)
      this.#forget(exec)
    },
    update: (exec, graph) => {
      this.next.graphs.update(exec, graph)
      const nodes = this.#nodesOf(graph)
      if (nodes === undefined) this.#forget(exec)
      else this.#instances.get(exec)?.update(nodes)
    },
    updateNode: (exec, node, context, work) => {
      let checked: NodeWork = work
      if (work.kind === 'kernel') {
        const observer = new ObservedLaunch(this.detector, nameOf(work), memoryOf(work), work.shape)
        checked = { ...work, comparesAll: true, observer }
        observer.queued(undefined)
      }
      this.next.graphs.updateNode(exec, node, context, checked)
      const instance = this.#instances.get(exec)
      if (instance !== undefined) this.detector.nodeUpdated(instance, node, memoryOf(work))
    },
    setEnabled: (exec, node: NodeHandle, context, enabled) => {
      this.next.graphs.setEnabled(exec, node, context, enabled)
      this.#instances.get(exec)?.setEnabled(node, enabled)
    },
  }

  #nodesOf(graph: GraphHandle): CapturedNodes | undefined {
    for (const [stream, growing] of this.#growing) {
      if (growing !== graph) continue
      if (this.#stillCaptures(stream)) return undefined
      this.#growing.delete(stream)
    }
    return this.#graphs.get(graph)
  }

  #forget(exec: GraphExecHandle): void {
    for (const component of this.#instances.get(exec)?.components ?? []) this.#order.components.end(component)
    this.#instances.delete(exec)
  }

  #stillCaptures(stream: StreamHandle): boolean {
    try {
      return this.next.streams.isCapturing(stream)
    } catch {
      return false
    }
  }
}
