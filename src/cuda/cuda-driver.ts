/**
 * The driver interface on a real GPU: calls of libcuda, whose results are checked once. The driver reports each host function, record, wait and
 * destruction to PendingHostFunctions, and lets Blocking and Promises wait.
 */
import type { OwnBytes } from '../foundation/base/bytes.js'
import { stateError } from '../foundation/base/errors.js'
import { CUresult, cudaError, hasLostContext } from '../foundation/driver/cuda-results.js'
import type { GreenContextPart } from '../foundation/driver/device-driver.js'
import type { Driver } from '../foundation/driver/driver.js'
import { EventFlag, type ExternalFlag, isRecordWork, StreamFlag } from '../foundation/driver/driver-constants.js'
import type { Cancel, Settle } from '../foundation/driver/event-driver.js'
import { noEvent, refusedHandle } from '../foundation/driver/handle-errors.js'
import { HandleMap } from '../foundation/driver/handle-tables.js'
import {
  type ContextHandle,
  cudaHandleOf,
  DEFAULT_STREAM_LIMIT,
  defaultStream,
  deviceOfDefaultStream,
  type EventHandle,
  isDefaultStream,
  isNullStream,
  type StreamHandle,
} from '../foundation/driver/handle-types.js'
import type {
  QueuedCopy,
  QueuedFill,
  QueuedHostFunction,
  QueuedKernel,
  QueuedPromiseWait,
  QueuedWork,
} from '../foundation/driver/queued-work.js'
import type { WrappedStream, Wrapper } from '../foundation/driver/stream-driver.js'
import type { CFunction } from '../foundation/native/c-functions.js'
import type { NativeMemory } from '../foundation/native/native-memory.js'
import { CudaGraphs } from './cuda-graphs.js'
import { CudaGreenContexts, type Greens } from './cuda-green-contexts.js'
import { CudaKernels } from './cuda-kernels.js'
import { CudaLibraries } from './cuda-libraries.js'
import { CudaMemory } from './cuda-memory.js'
import { CudaPools } from './cuda-pools.js'
import { CudaSharing, HANDLE_AT, IPC_HANDLE_BYTES } from './cuda-sharing.js'
import type { GraphNodes } from './graph-nodes.js'
import { type HandleCheck, HandlesInUse } from './handles/handle-check.js'
import { ClosedStreams, type SpareStreams } from './handles/spare-streams.js'
import type { StreamRecord, StreamRecords } from './handles/stream-records.js'
import type { Captures } from './host-functions/captures.js'
import type { GraphSemaphores } from './host-functions/graph-semaphores.js'
import type { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import type { ProcessRegistry } from './host-functions/process-registry.js'
import type { LibcudaParts, StreamCalls } from './libcuda/driver-calls.js'
import { type CheckedLibrary, checkCleanup, checkDestroyed, type Library } from './libcuda/libcuda.js'
import { PutOffFrees } from './memory/put-off-frees.js'
import type { Blocking } from './waiting/blocking.js'
import type { CallsOnThreads } from './waiting/calls-on-threads.js'
import { type EventPool, type InternalRecord, isPooled } from './waiting/event-pool.js'
import { IdleDevices } from './waiting/idle-devices.js'
import { isLaunchBlocking, LaunchBlocking } from './waiting/launch-blocking.js'
import type { Promises } from './waiting/promises.js'
import type { ValueWaits } from './waiting/value-waits.js'

export interface CudaDriverParts extends LibcudaParts {
  readonly handles: HandleCheck
  readonly spares: SpareStreams
  readonly registry: ProcessRegistry
  readonly graphSemaphores: GraphSemaphores
  readonly nodes: GraphNodes
  readonly captures: Captures
  readonly hostFunctions: PendingHostFunctions
  readonly blocking: Blocking
  readonly promises: Promises
  readonly callsOnThreads: CallsOnThreads
  readonly valueWaits: ValueWaits
  readonly pool: EventPool
  /** The address of `cuCtxSetCurrent`. */
  readonly setContext: number
}

const NAME_BYTES = 256
/** sizeof(CUstreamAttrValue), and a CUstreamAttrID. */
const ATTRIBUTE_BYTES = 64
const ATTRIBUTE_MEMORY_SYNC_DOMAIN = 10

const NO_GREENS: Greens = new Set()

export class CudaDriver implements Driver {
  readonly name = 'cuda'
  readonly graphs: CudaGraphs
  readonly kernels: CudaKernels
  readonly libraries: CudaLibraries
  readonly memory: CudaMemory
  readonly pools: CudaPools
  readonly sharing: CudaSharing
  readonly #library: Library
  readonly #must: CheckedLibrary
  /**
   * The functions that programs call most are in fields, since the library has more functions than V8 finds without a hash table.
   */
  readonly #cuEventRecord: CFunction
  readonly #cuStreamWaitEvent: CFunction
  /** Takes the out parameters of calls. */
  readonly #out: NativeMemory
  readonly #calls: StreamCalls
  readonly #streams: StreamRecords
  readonly #green: CudaGreenContexts
  readonly #hostFunctions: PendingHostFunctions
  readonly #inUse = new HandlesInUse()
  readonly #closedStreams = new ClosedStreams()
  /** Events of which a record is work of its stream: all but plain ones without timing. Foreign events count as work. */
  readonly #workEvents = new HandleMap<EventHandle, true>()
  /** The driver's numbers for the null streams, by device. */
  readonly #nullStreamIds = new Map<number, bigint>()

  constructor(private readonly parts: CudaDriverParts) {
    this.#library = parts.library
    this.#must = parts.must
    this.#cuEventRecord = parts.library.cuEventRecord
    this.#cuStreamWaitEvent = parts.library.cuStreamWaitEvent
    this.#out = parts.memory
    this.#calls = parts.calls
    this.#streams = parts.streams
    this.#green = new CudaGreenContexts(parts)
    this.#hostFunctions = parts.hostFunctions
    const idleDevices = new IdleDevices(parts)
    this.kernels = new CudaKernels({ ...parts, idleDevices })
    this.libraries = new CudaLibraries(parts)
    const putOff = new PutOffFrees({ ...parts, driver: this })
    this.pools = new CudaPools({ ...parts, putOff })
    const allParts = { ...parts, idleDevices, putOff, driver: this, pools: this.pools, green: this.#green }
    this.graphs = new CudaGraphs(allParts)
    this.memory = new CudaMemory(allParts)
    this.sharing = new CudaSharing(allParts)
    if (isLaunchBlocking()) this.#queueByLaunchBlocking()
  }

  /** A method of the object's own, so that `queue` costs no more where the variable is not set. */
  #queueByLaunchBlocking(): void {
    const queue = this.queue.bind(this)
    const launchBlocking = new LaunchBlocking({
      ...this.parts,
      captures: (stream) => this.#isCapturing(stream),
      runsHostFunctions: (work) => work.kind === 'graph' && this.graphs.runsHostFunctions(work.exec),
    })
    this.queue = (work) => launchBlocking.queue(work, () => queue(work))
  }

  deviceCount(): number {
    this.#must.cuDeviceGetCount(this.#out.address)
    return this.#out.int32[0] ?? 0
  }

  deviceName(device: number): string {
    this.#must.cuDeviceGetName(this.#out.address, NAME_BYTES, this.parts.contexts.cudaDevice(device))
    return this.#text()
  }

  devicePciBusId(device: number): string {
    this.#must.cuDeviceGetPCIBusId(this.#out.address, NAME_BYTES, this.parts.contexts.cudaDevice(device))
    return this.#text().toLowerCase()
  }

  /** What a function has written as a C string. */
  #text(): string {
    const { bytes } = this.#out
    return Buffer.from(bytes.subarray(0, bytes.indexOf(0))).toString('utf8')
  }

  deviceUuid(device: number): string {
    this.#must.cuDeviceGetUuid_v2(this.#out.address, this.parts.contexts.cudaDevice(device))
    const digits = Buffer.from(this.#out.bytes.subarray(0, 16)).toString('hex')
    return `GPU-${digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')}`
  }

  deviceAttribute(device: number, attribute: number): number {
    this.#must.cuDeviceGetAttribute(this.#out.address, attribute, this.parts.contexts.cudaDevice(device))
    return this.#out.int32[0] ?? 0
  }

  deviceContext(device: number): ContextHandle {
    const context = this.parts.contexts.primary(device)
    this.#noteNullStreamId(device)
    return context
  }

  /**
   * Queries the number of the null stream before any stream can capture: while a blocking stream does, CUDA refuses the query,
   * and invalidates the capture.
   */
  #noteNullStreamId(device: number): void {
    const stream = defaultStream(device, 0)
    if (this.#nullStreamIds.has(device)) return
    const result = this.parts.captures.unlessCapturing(stream, () =>
      this.#calls.onStream(stream, (raw) => this.#library.cuStreamGetId(raw, this.#out.address)),
    )
    if (result === 0) this.#nullStreamIds.set(device, this.#out.uint64[0] ?? 0n)
  }

  #nullStreamId(device: number): bigint {
    this.#noteNullStreamId(device)
    const id = this.#nullStreamIds.get(device)
    if (id !== undefined) return id
    const stream = defaultStream(device, 0)
    this.#refuseWhileCapturing(stream, 'cuStreamGetId')
    this.#query(stream, 'cuStreamGetId')
    return this.#out.uint64[0] ?? 0n
  }

  streamPriorityRange(device: number): { readonly least: number; readonly greatest: number } {
    const { contexts } = this.parts
    const { address, int32 } = this.#out
    contexts.within(contexts.primary(device), () => this.#must.cuCtxGetStreamPriorityRange(address, address + 4))
    return { least: int32[0] ?? 0, greatest: int32[1] ?? 0 }
  }

  deviceSynchronize(device: number): void {
    const { contexts, registry, blocking } = this.parts
    const context = contexts.primary(device)
    // The driver's own wait is refused while another thread captures, and invalidates the capture.
    if (this.#mustRunHostFunctions || registry.hasOthers) {
      if (this.#anyCaptures(device, context)) this.#refuseWait(context)
      blocking.forContext(context, device)
    } else contexts.within(context, () => this.#must.cuCtxSynchronize())
  }

  /** CUDA refuses to wait for a context while a stream of it captures, and invalidates the capture, before it waits for anything. */
  #refuseWait(context: ContextHandle): void {
    const { pool, captures } = this.parts
    const event = pool.take(context)
    try {
      const outcome = captures.recordDevice(event, context, undefined, 'cuCtxSynchronize')
      if (outcome === 'others') throw cudaError('cuCtxSynchronize', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    } finally {
      pool.giveBack(context, event)
    }
  }

  deviceFinished(device: number, settle: Settle): Cancel {
    const context = this.parts.contexts.primary(device)
    const known = (): boolean => this.#anyCaptures(device, context)
    if (known()) throw cudaError('cuCtxRecordEvent', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    return this.parts.promises.contextFinished(context, { known, unknown: () => this.#anyUnknown(device) }, settle)
  }

  deviceRecordInternal(event: EventHandle, device: number): boolean {
    const context = this.parts.contexts.primary(device)
    if (this.#anyCaptures(device, context)) return false
    const isRecorded = this.parts.captures.recordDevice(event, context, () => this.#anyUnknown(device)) === 'recorded'
    if (isRecorded) this.#hostFunctions.recordedDevice(event, context, device)
    return isRecorded
  }

  contextCheck(context: ContextHandle): void {
    const { pool, relaxed } = this.parts
    const unrecorded = pool.unrecorded(context)
    relaxed.run(() => this.#must.cuEventQuery(unrecorded))
  }

  contextFault(): undefined {
    return undefined
  }

  drainHostFunctions(): void {
    this.parts.blocking.forHostFunctions('device.drainHostFunctions()')
  }

  relaxed<R>(calls: () => R): R {
    return this.parts.relaxed.run(calls)
  }

  deviceSplit(device: number, multiprocessors: readonly number[]): readonly GreenContextPart[] {
    return this.#green.split(device, multiprocessors)
  }

  greenContextDestroy(context: ContextHandle): void {
    this.#green.destroy(context)
  }

  streamCreate(context: ContextHandle, flags: number, priority: number): StreamHandle {
    const device = this.#green.deviceOf(context)
    if (device !== undefined) return this.#createGreen(device, context, priority)
    const stream = this.#closedStreams.take(context, flags, priority) ?? this.#create(context, flags, priority)
    this.#streams.created(stream, context, flags).reuse = this.#closedStreams.listOf(context, flags, priority)
    return stream
  }

  #create(context: ContextHandle, flags: number, priority: number): StreamHandle {
    const { contexts } = this.parts
    const create = (): void => this.#must.cuStreamCreateWithPriority(this.#out.address, flags, priority)
    const what = 'making one more stream, for which CUDA waits for the device,'
    this.withStreams(context, 1, () => contexts.within(context, create), what)
    const stream = this.#out.pointerAt(0) as StreamHandle
    this.#isNew(stream)
    return stream
  }

  /** A stream of a green context is destroyed when it is closed, and never given out again. */
  #createGreen(device: number, green: ContextHandle, priority: number): StreamHandle {
    const made = this.#green.createStream(green, priority)
    this.#isNew(made.stream)
    const context = this.parts.contexts.primary(device)
    this.#streams.created(made.stream, context, StreamFlag.NON_BLOCKING).green = made.green
    return made.stream
  }

  /** A new stream may have the handle of another library's stream that was wrapped and has been destroyed. */
  #isNew(stream: StreamHandle): void {
    this.parts.handles.streamCreated(stream)
    const before = this.#streams.get(stream)
    if (before === undefined) return
    this.graphs.leave(stream)
    this.#goes(before)
  }

  /** The stream is destroyed, or another has its handle. */
  #goes(stream: StreamRecord): void {
    this.#hostFunctions.forgetEntries(stream)
    this.#green.streamGoes(stream)
    this.#streams.remove(stream)
  }

  /**
   * Makes a call that makes streams, in the device's primary context and in these green contexts: at once if there are places for them, otherwise when
   * no host function is pending. `what` describes the call in error messages.
   */
  withStreams<R>(context: ContextHandle, streams: number, call: () => R, what: string, greens: Greens = NO_GREENS): R {
    const { spares, contexts, blocking } = this.parts
    spares.fillWhereNeeded()
    const make = (): R => {
      this.#green.fill(greens)
      return spares.making(call)
    }
    const now = this.#hostFunctions.exclusivelyNow(make)
    if (now !== undefined) return now.made
    const device = contexts.deviceOf(context)
    const makeInPlaces = (): R => {
      this.#green.makePlaces(greens, streams)
      return call()
    }
    const inPlaces = this.#green.hasPlaces(greens, streams)
      ? spares.inPlaces(device, streams, this.#hostFunctions.isInside, makeInPlaces)
      : undefined
    if (inPlaces !== undefined) return inPlaces.made
    if (greens.size > 0 && !this.#hostFunctions.isInside) {
      if (this.#hostFunctions.pending) blocking.forHostFunctions(what)
      // A stream may be blocked at a value that this thread is to write. Mostly CUDA has places all the same.
      if (!this.#hostFunctions.anyPending) {
        const made = this.#hostFunctions.exclusivelyNow(make)
        return made === undefined ? spares.making(call) : made.made
      }
    }
    const fillAndMake = (): R => {
      spares.fill(device)
      return make()
    }
    return blocking.exclusively(fillAndMake, what)
  }

  streamDestroy(handle: StreamHandle): void {
    const { captures, handles, spares } = this.parts
    const stream = this.#streams.of(handle)
    if (this.#inUse.postpones(handle, () => this.streamDestroy(handle))) {
      // Its capture ends now.
      if (captures.isListed(stream)) this.graphs.abandon(handle)
      return
    }
    const kept = this.#whereKept(stream)
    this.graphs.streamGoes(stream)
    this.#goes(stream)
    // No other library can come back with a handle that it never had.
    if (stream.hasEscaped) {
      const hasId = !this.#captureIsUnderWay(handle) && this.#library.cuStreamGetId(handle, this.#out.address) === 0
      handles.streamDestroyed(handle, hasId ? this.#out.pointerAt(0) : undefined)
    }
    // The stream captures nothing, whoever ended its capture.
    if (kept !== undefined) captures.endBy(stream, () => {})
    if (kept === 'closed') {
      this.#closedStreams.add(stream)
      return
    }
    if (!stream.hasEscaped) handles.streamLeft(handle)
    if (kept === 'spare' && spares.keep(stream.device, handle)) return
    captures.endBy(stream, () => checkDestroyed('cuStreamDestroy', this.#library.cuStreamDestroy_v2(handle)))
  }

  /** An idle stream need not be destroyed: it is given out again, or makes room for another. */
  #whereKept(stream: StreamRecord): 'closed' | 'spare' | undefined {
    if (stream.owner !== 'library' || stream.green !== undefined) return undefined
    const isWanted = this.#closedStreams.wants(stream)
    if ((!isWanted && !this.parts.spares.wants(stream.device)) || !this.isIdle(stream)) return undefined
    return isWanted ? 'closed' : 'spare'
  }

  /** Does the stream capture? Querying its number during a capture would invalidate that. */
  #captureIsUnderWay(stream: StreamHandle): boolean {
    return this.#library.cuStreamIsCapturing(stream, this.#out.address) !== 0 || this.#out.int32[0] !== 0
  }

  streamWrap(cudaHandle: number, near: number): WrappedStream {
    const { contexts, handles } = this.parts
    if (cudaHandle === 0 || cudaHandle === 1 || cudaHandle === 2) {
      this.#refuseOfGreen(cudaHandle)
      return { stream: defaultStream(near, cudaHandle), device: near, context: contexts.primary(near) }
    }
    const stream = cudaHandle as StreamHandle
    const id = handles.checkStream(stream, contexts.known)
    const { context, green } = this.#contextsOf(stream, near)
    const before = this.#streams.get(stream)
    const device = contexts.deviceOf(context)
    if (before?.owner === 'library') return { stream, context, device, green: before.green }
    if (before !== undefined && id !== undefined && before.id === id) before.green = green
    else {
      const now = this.#streams.foreign(stream, { context, id, green })
      if (before !== undefined) {
        this.graphs.replaced(before, now, id !== undefined)
        this.#goes(before)
      }
    }
    return { stream, context, device, green }
  }

  streamWrapped(stream: StreamHandle): Wrapper {
    return this.#streams.openWrapper(stream)
  }

  /** CUDA refuses the context of a stream whose capture is invalidated. */
  #contextsOf(stream: StreamHandle, near: number): Pick<StreamRecord, 'context' | 'green'> {
    const { address } = this.#out
    const result = this.#library.cuStreamGetCtx_v2(stream, address, address + 8)
    if (result === 0) {
      const context = this.#out.pointerAt(0) as ContextHandle
      return { context, green: this.#green.found(this.#out.pointerAt(8)) }
    }
    if (result !== CUresult.STREAM_CAPTURE_INVALIDATED) {
      throw refusedHandle('stream', stream, cudaError('cuStreamGetCtx', result))
    }
    const { context, green } = this.#streams.get(stream) ?? {}
    return { context: context ?? this.parts.contexts.primary(near), green }
  }

  /** While another library has a green context current, the handles of default streams mean streams of that context. */
  #refuseOfGreen(cudaHandle: number): void {
    const { address } = this.#out
    if (this.#library.cuCtxGetCurrent(address) !== 0) return
    const current = this.#out.pointerAt(0)
    if (current === 0 || this.parts.contexts.isPrimary(current as ContextHandle)) return
    const result = this.#library.cuStreamGetCtx_v2(0, address, address + 8)
    if (result !== 0 || this.#out.pointerAt(8) === 0) return
    const what = `A green context is current on this thread, where the stream ${cudaHandle} is one of its own`
    throw stateError('ERR_UNSUPPORTED', `${what}: pass a stream that was made in it, or wrap this one outside of it`)
  }

  streamEscaped(stream: StreamHandle): void {
    const record = this.#streams.get(stream)
    if (record !== undefined) {
      record.hasEscaped = true
      record.reuse = undefined
    } else {
      this.parts.handles.readAfterEnd(stream)
      if (this.#closedStreams.remove(stream))
        checkDestroyed('cuStreamDestroy', this.#library.cuStreamDestroy_v2(stream))
    }
  }

  isEscaped(stream: StreamHandle): boolean {
    return this.#streams.get(stream)?.hasEscaped === true
  }

  streamGetId(stream: StreamHandle): bigint {
    if (isNullStream(stream)) return this.#nullStreamId(deviceOfDefaultStream(stream))
    this.#refuseWhileCapturing(stream, 'cuStreamGetId')
    // The number distinguishes this stream from a later one with its handle, so it cannot be given out again.
    this.#streams.of(stream).reuse = undefined
    this.parts.relaxed.run(() => this.#query(stream, 'cuStreamGetId'))
    return this.#out.uint64[0] ?? 0n
  }

  streamGetFlags(stream: StreamHandle): number {
    if (isNullStream(stream)) return 0
    this.#refuseWhileCapturing(stream, 'cuStreamGetFlags')
    this.parts.relaxed.run(() => this.#query(stream, 'cuStreamGetFlags'))
    return this.#out.uint32[0] ?? 0
  }

  streamGetPriority(stream: StreamHandle): number {
    if (isNullStream(stream)) return 0
    this.#query(stream, 'cuStreamGetPriority')
    return this.#out.int32[0] ?? 0
  }

  streamSetMemorySyncDomain(stream: StreamHandle, domain: number): void {
    const { bytes, int32, address } = this.#out
    // The stream would still have the attribute when it is given out again.
    this.#streams.of(stream).reuse = undefined
    bytes.fill(0, 0, ATTRIBUTE_BYTES)
    int32[0] = domain
    const set = (raw: number): void => this.#must.cuStreamSetAttribute(raw, ATTRIBUTE_MEMORY_SYNC_DOMAIN, address)
    this.#calls.onStream(stream, (raw) => this.parts.relaxed.run(() => set(raw)))
  }

  streamIsCapturing(stream: StreamHandle): boolean {
    this.#calls.onStream(stream, (raw) => this.#must.cuStreamIsCapturing(raw, this.#out.address))
    return this.#out.int32[0] !== 0
  }

  streamQuery(stream: StreamHandle, isIdle = false): boolean {
    if (stream < DEFAULT_STREAM_LIMIT) return this.#queryDefaultStream(stream)
    if (isIdle && this.#streams.get(stream)?.hasEscaped === false && this.#mayAnswerItself()) return true
    const result = this.#library.cuStreamQuery(stream)
    if (result === 0) return true
    if (result === CUresult.NOT_READY) return false
    throw cudaError('cuStreamQuery', result)
  }

  /** This is a method of its own, since one with a closure in it allocates at each call, even when the closure is not made. */
  #queryDefaultStream(stream: StreamHandle): boolean {
    const result = this.#calls.onStream(stream, (raw) => this.#library.cuStreamQuery(raw))
    if (result !== 0 && result !== CUresult.NOT_READY) throw cudaError('cuStreamQuery', result)
    return result === 0
  }

  streamSynchronize(stream: StreamHandle): void {
    if (stream < DEFAULT_STREAM_LIMIT || this.#mustRunHostFunctions) {
      this.#synchronizeWith(stream)
      return
    }
    const result = this.#library.cuStreamSynchronize(stream)
    if (result !== 0) throw cudaError('cuStreamSynchronize', result)
  }

  streamWaitEvent(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void {
    if (this.#hostFunctions.tracksOrder) {
      this.#waitInOrder(stream, event, external)
      return
    }
    const awaited = this.parts.pool.interprocess.size > 0 ? this.#waitable(stream, event) : event
    if (stream < DEFAULT_STREAM_LIMIT || external !== 0) {
      this.#waitWith(stream, awaited, external)
      return
    }
    const result = this.#cuStreamWaitEvent(stream, awaited, 0)
    if (result !== 0) throw cudaError('cuStreamWaitEvent', result)
  }

  #waitInOrder(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void {
    const joinsCapture = this.#hostFunctions.joinsCapture(stream, event)
    if (joinsCapture) this.parts.blocking.beforeCapture()
    const isNode = this.#waitWith(stream, this.#waitable(stream, event), external)
    // A wait that is refused, or captured, orders no work of the stream.
    if (!joinsCapture && !isNode) this.#hostFunctions.waitedForEvent(stream, event)
  }

  /** The event, or another in its place if it is one of another device that other processes may share. */
  #waitable(stream: StreamHandle, event: EventHandle): EventHandle {
    const { pool, captures } = this.parts
    const device = pool.interprocess.get(event)
    if (device === undefined || device === this.#streams.of(stream).device || captures.isOfCapture(event)) return event
    return pool.relayed(event, device)
  }

  streamWaitStream(stream: StreamHandle, other: StreamHandle, otherContext: ContextHandle): void {
    const between = this.parts.pool.shared(otherContext)
    this.eventRecord(between, other, 0)
    this.streamWaitEvent(stream, between, 0)
  }

  streamBlockedBy(stream: StreamHandle): string | undefined {
    return this.#hostFunctions.blockedBy((dependencies) => dependencies.streamComesAfter(this.#streams.of(stream)))
  }

  streamFinished(stream: StreamHandle, _context: ContextHandle, settle: Settle): Cancel {
    if (this.streamIsCapturing(stream)) throw cudaError('cuStreamQuery', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    const record = (event: EventHandle): void => this.eventRecord(event, stream, 0)
    return this.parts.promises.streamFinished(this.#streams.of(stream), record, settle)
  }

  /** Queues the work. The function is short, so that V8 inlines it where programs queue the most work. */
  queue(work: QueuedWork): void {
    if (work.kind === 'kernel') this.kernels.launch(work)
    else if (work.kind === 'copy') this.#copy(work)
    else if (work.kind === 'fill') this.memory.fill(work)
    else this.#queueOther(work)
  }

  #queueOther(work: Exclude<QueuedWork, QueuedKernel | QueuedCopy | QueuedFill>): void {
    switch (work.kind) {
      case 'copies':
        this.memory.copyBatch(work.copies, work.stream)
        break
      case 'hostFunction':
        this.#launchHostFunction(work)
        break
      case 'graph':
        this.graphs.launch(work.exec, work.stream)
        break
      case 'allocate':
        this.memory.allocate(work)
        break
      case 'free':
        this.memory.free(work)
        break
      case 'library':
        this.libraries.queue(work)
        break
      case 'waitValue':
        this.memory.waitForValue(work.word, work.compare, work.stream)
        break
      case 'writeValue':
        this.memory.writeValue(work.word, work.stream)
        break
      case 'graphUpload':
        this.graphs.upload(work.exec, work.stream)
        break
      case 'childGraph':
        this.graphs.addGraph(work.stream, work.graph)
        break
      case 'promise':
        this.#waitForPromise(work)
        break
      default:
        work satisfies never
    }
  }

  #copy({ destination, source, byteLength, rows, route, stream }: QueuedCopy): void {
    if (rows === undefined) this.memory.copy(destination, source, byteLength, stream, route)
    else this.memory.copyRows(destination, source, rows.to, rows.from, stream, route)
  }

  #launchHostFunction({ stream, context, call: host }: QueuedHostFunction): void {
    const call = host.runsAfterFault ? 'cuStreamAddCallback' : 'cuLaunchHostFunc'
    if (this.streamIsCapturing(stream)) {
      if (host.runsAfterFault) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
      this.graphs.captureHostFunction(stream, host)
      return
    }
    const queue = (): void => this.#hostFunctions.queue(stream, cudaHandleOf(stream), host)
    if (isDefaultStream(stream)) this.parts.contexts.within(context, queue)
    else queue()
  }

  #waitForPromise(work: QueuedPromiseWait): void {
    const { stream, context, called } = work
    const wait = (): (() => void) => this.#hostFunctions.queueWait(stream, cudaHandleOf(stream), called)
    work.release = isDefaultStream(stream) ? this.parts.contexts.within(context, wait) : wait()
  }

  /**
   * Is the stream one of this library whose work has completed? False when the driver refuses to say, or the query would
   * invalidate a capture. Streams of other libraries are not queried, since they may have been destroyed.
   */
  isIdle({ owner, handle }: StreamRecord): boolean {
    if (owner !== 'library' || this.#calls.captures(handle)) return false
    return this.parts.relaxed.run(() => this.#library.cuStreamQuery(handle)) === 0
  }

  /** Does the null stream order the stream's work? Undefined while it captures: querying its flags would invalidate the capture. */
  isBlocking(stream: StreamRecord): boolean | undefined {
    if (stream.owner === 'cuda' || stream.isBlocking === false) return stream.isBlocking
    if (this.streamIsCapturing(stream.handle)) return undefined
    stream.isBlocking ??= (this.streamGetFlags(stream.handle) & StreamFlag.NON_BLOCKING) === 0
    return stream.isBlocking
  }

  streamReserve(stream: StreamHandle, entries: number): void {
    if (!this.#hostFunctions.anyPending || this.#hostFunctions.certainlyHasCapacity(stream, entries)) return
    if (this.#isCapturing(stream)) return
    this.#inUse.during(stream, () => this.parts.blocking.forCapacity(stream, entries, () => this.streamQuery(stream)))
  }

  streamHasCapacity(stream: StreamHandle, entries: number): boolean {
    if (!this.#hostFunctions.anyPending || this.#isCapturing(stream)) return true
    return this.#hostFunctions.hasCapacity(stream, entries, () => this.streamQuery(stream))
  }

  eventCreate(context: ContextHandle, flags: number, recordedNext = false): EventHandle {
    const { pool, handles } = this.parts
    if (flags === EventFlag.DISABLE_TIMING) {
      if (recordedNext) return pool.take(context)
      const unused = pool.takeNew(context)
      if (unused !== undefined) return unused
    }
    const event = recordedNext && isPooled(flags) ? pool.take(context, flags) : pool.create(context, flags)
    handles.eventCreated(event)
    // An event of another library may have been there, which was destroyed since.
    if (isRecordWork(flags)) this.#workEvents.set(event, true)
    else if (this.#workEvents.size > 0) this.#workEvents.delete(event)
    if ((flags & EventFlag.INTERPROCESS) !== 0) pool.interprocess.set(event, this.parts.contexts.deviceOf(context))
    return event
  }

  eventDestroy(event: EventHandle): void {
    if (this.#inUse.postpones(event, () => this.eventDestroy(event))) return
    this.#workEvents.delete(event)
    this.#forgetEvent(event)
    this.parts.pool.interprocess.delete(event)
    this.parts.handles.eventDestroyed(event)
    checkDestroyed('cuEventDestroy', this.#library.cuEventDestroy_v2(event))
  }

  eventRecycle(
    context: ContextHandle,
    event: EventHandle,
    flags: number = EventFlag.DISABLE_TIMING,
    neverRecorded = false,
  ): void {
    if (this.#inUse.postpones(event, () => this.eventRecycle(context, event, flags, neverRecorded))) return
    const { pool } = this.parts
    this.#workEvents.delete(event)
    if (neverRecorded && flags === EventFlag.DISABLE_TIMING && pool.giveBackNew(context, event)) return
    this.#forgetEvent(event)
    pool.interprocess.delete(event)
    if (isPooled(flags)) pool.giveBack(context, event, flags)
    else checkCleanup('cuEventDestroy', event, this.#library.cuEventDestroy_v2(event))
  }

  eventWrap(event: EventHandle): { readonly context: ContextHandle; readonly device: number } | undefined {
    const { handles, contexts } = this.parts
    const context = handles.checkEvent(event, contexts.known)
    this.#workEvents.set(event, true)
    if (context === undefined) return undefined
    const device = contexts.deviceOf(context)
    // The driver does not tell its flags.
    this.parts.pool.interprocess.set(event, device)
    return { context, device }
  }

  eventRecord(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void {
    if (stream < DEFAULT_STREAM_LIMIT || external !== 0 || this.#hostFunctions.tracksOrder) {
      this.#recordWith(event, stream, external)
      return
    }
    const result = this.#cuEventRecord(event, stream)
    if (result !== 0) throw cudaError('cuEventRecord', result)
  }

  eventRecordInternal(event: EventHandle, stream: StreamHandle): void {
    this.eventRecord(event, stream, 0)
  }

  eventQuery(event: EventHandle, isDone = false): boolean {
    if (isDone && this.#mayAnswerItself()) return true
    const result = this.#library.cuEventQuery(event)
    if (result === 0) return true
    if (result === CUresult.NOT_READY) return false
    throw cudaError('cuEventQuery', result)
  }

  eventSynchronize(event: EventHandle): void {
    if (this.#mustRunHostFunctions) {
      this.#inUse.during(event, () => this.parts.blocking.forEvent(event, () => this.eventQuery(event)))
    } else this.#must.cuEventSynchronize(event)
  }

  eventBlockedBy(event: EventHandle): string | undefined {
    return this.#hostFunctions.blockedBy((dependencies) => dependencies.eventComesAfter(event))
  }

  eventFinished(event: EventHandle, settle: Settle): Cancel {
    return this.parts.promises.eventFinished(event, settle)
  }

  eventElapsedTime(start: EventHandle, end: EventHandle): number {
    // The call queries whether the events have completed, which invalidates captures unless it is relaxed.
    this.parts.relaxed.run(() => this.#must.cuEventElapsedTime(this.#out.address, start, end))
    return this.#out.float32[0] ?? 0
  }

  eventGetIpcHandle(event: EventHandle): OwnBytes {
    this.#must.cuIpcGetEventHandle(this.#out.address, event)
    return this.#out.bytes.slice(0, IPC_HANDLE_BYTES)
  }

  eventOpenIpcHandle(context: ContextHandle, bytes: Uint8Array): EventHandle {
    const { address } = this.#out
    this.#out.bytes.set(bytes, HANDLE_AT)
    const result = this.parts.contexts.within(context, () =>
      this.#library.cuIpcOpenEventHandle(address, address + HANDLE_AT),
    )
    const event = this.#out.pointerAt(0) as EventHandle
    if (result !== 0) throw noEvent(cudaError('cuIpcOpenEventHandle', result))
    this.parts.kinds.event.add(event)
    this.parts.handles.eventCreated(event)
    this.#workEvents.set(event, true)
    this.parts.pool.interprocess.set(event, this.parts.contexts.deviceOf(context))
    return event
  }

  /** The event is about to be destroyed, or used for something else. */
  #forgetEvent(event: EventHandle): void {
    if (!this.#hostFunctions.tracksOrder) return
    this.parts.promises.keepRecord(event)
    this.#hostFunctions.forgetEvent(event)
  }

  /** Queries a property of a stream, which the out parameters then have. */
  #query(stream: StreamHandle, call: 'cuStreamGetId' | 'cuStreamGetFlags' | 'cuStreamGetPriority'): void {
    this.#calls.onStream(stream, (raw) => this.#must[call](raw, this.#out.address))
  }

  /** May a known answer be given without a query? With 32 hardware queues, a query costs as much as seven records. */
  #mayAnswerItself(): boolean {
    // A query is refused while a stream captures, and reports faults.
    return this.parts.captures.underWay === 0 && !hasLostContext() && !this.parts.registry.hasOthers
  }

  /** A native wait would run no host functions meanwhile, and may never end. */
  get #mustRunHostFunctions(): boolean {
    return this.#hostFunctions.anyPending || this.parts.valueWaits.anyBlocks()
  }

  #synchronizeWith(stream: StreamHandle): void {
    if (this.#mustRunHostFunctions) {
      const { blocking, pool } = this.parts
      const isDone = (): boolean => this.streamQuery(stream)
      const record = (): InternalRecord =>
        pool.recordOf(this.#streams.of(stream).context, (event) => this.eventRecord(event, stream, 0))
      this.#inUse.during(stream, () => blocking.forStream(stream, isDone, record))
    } else this.#calls.onStream(stream, (raw) => this.#must.cuStreamSynchronize(raw))
  }

  /** CUDA refuses the external flags outside of a capture, where they mean nothing. */
  #recordWith(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void {
    if (this.#hostFunctions.tracksOrder) {
      if (this.#workEvents.has(event)) this.#hostFunctions.countEntries(stream, 1)
      this.parts.blocking.keepRecord(event)
      this.parts.promises.keepRecord(event)
    }
    if (external !== 0 && this.#isCapturing(stream)) {
      // Each launch of the graph will record the event, which stays as it is until then.
      this.#calls.onStream(stream, (raw) => this.#must.cuEventRecordWithFlags(event, raw, 1))
      this.graphs.noteRecord(stream, event)
      return
    }
    this.#calls.onStream(stream, (raw) => this.#must.cuEventRecord(event, raw))
    if (this.#hostFunctions.tracksOrder) this.#hostFunctions.recorded(event, stream, () => this.#captureOf(stream))
  }

  /** Returns whether the wait became a node of a capture, for the event's latest record at each launch of the graph. */
  #waitWith(stream: StreamHandle, event: EventHandle, external: ExternalFlag): boolean {
    const flags = external !== 0 && this.#isCapturing(stream) ? 1 : 0
    this.#calls.onStream(stream, (raw) => this.#must.cuStreamWaitEvent(raw, event, flags))
    return flags === 1
  }

  /**
   * Does a stream of the context capture? CUDA answers that for one stream at a time: for those that began a capture here, those of this library that
   * may be in one, and those of other libraries that are wrapped. Captures on other streams of other libraries are not known, apart from those of
   * blocking streams (`#anyUnknown`).
   */
  #anyCaptures(device: number, context: ContextHandle): boolean {
    const { begun, joined } = this.graphs
    const wrapped = this.#streams.wrapped((stream, id) => this.parts.handles.isStill(stream, id))
    const own = [...this.#streams.own()].filter(({ hasEscaped }) => hasEscaped || begun.length > 0)
    // Calls for a primary context leave captures in its green contexts alone. Another library's stream may have joined one there.
    for (const stream of [...begun, ...joined, ...own, ...wrapped])
      if (stream.context === context && stream.green === undefined && this.#calls.captures(stream.handle)) return true
    return this.#calls.captures(defaultStream(device, 2))
  }

  /** Does a blocking stream capture, of whichever thread? The answer for the null stream shows that. */
  #anyUnknown(device: number): boolean {
    return this.#calls.captures(defaultStream(device, 0))
  }

  /** A null stream never captures, and the query for one is refused while a blocking stream captures. */
  #isCapturing(stream: StreamHandle): boolean {
    return !isNullStream(stream) && this.streamIsCapturing(stream)
  }

  /** Returns a function that checks whether the capture that the stream is in is still under way; undefined when it is in none. */
  #captureOf(stream: StreamHandle): (() => boolean) | undefined {
    return isNullStream(stream) ? undefined : this.graphs.captureOf(stream)
  }

  /** Throws what the driver would, which invalidates a capture when it is queried for these properties of a capturing stream. */
  #refuseWhileCapturing(stream: StreamHandle, call: string): void {
    if (this.streamIsCapturing(stream)) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
  }
}
