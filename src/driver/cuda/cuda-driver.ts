/**
 * The real GPU behind the Driver interface: libcuda's functions, each result checked once. It reports to HostFunctions
 * each host function, record, wait and destruction, and asks Blocking and Promises to wait.
 */
import type { OwnBytes } from '../../base/bytes.js'
import { stateError } from '../../base/errors.js'
import { CUresult, cudaError, hasLostContext } from '../cuda-results.js'
import {
  type AdoptedStream,
  type Cancel,
  type ContextHandle,
  cudaHandleOf,
  DEFAULT_STREAM_LIMIT,
  type Driver,
  defaultStream,
  deviceOfDefaultStream,
  EventFlag,
  type EventHandle,
  type ExternalFlag,
  type GreenContextPart,
  type HostFunction,
  isDefaultStream,
  isNullStream,
  isRecordWork,
  type Settle,
  StreamFlag,
  type StreamHandle,
  type Wrapper,
} from '../driver.js'
import { refusedHandle } from '../handle-errors.js'
import { HandleMap } from '../handle-tables.js'
import { CudaGraphs } from './cuda-graphs.js'
import { CudaGreenContexts, type Greens } from './cuda-green-contexts.js'
import { CudaKernels } from './cuda-kernels.js'
import { CudaLibraries } from './cuda-libraries.js'
import { CudaMemory } from './cuda-memory.js'
import { CudaPools } from './cuda-pools.js'
import { CudaSharing, HANDLE_AT, IPC_HANDLE_BYTES } from './cuda-sharing.js'
import type { GraphNodes } from './graph-nodes.js'
import type { HandleCheck } from './handles/handle-check.js'
import { HandlesInUse } from './handles/handles-in-use.js'
import { StreamPool } from './handles/stream-pool.js'
import type { StreamReserve } from './handles/stream-reserve.js'
import type { Captures } from './host-functions/captures.js'
import type { GraphGates } from './host-functions/graph-gates.js'
import type { HostFunctions } from './host-functions/host-functions.js'
import type { Threads } from './host-functions/thread-table.js'
import type { CFunction } from './libcuda/c-functions.js'
import { check, checkDestroyed, type Library } from './libcuda/library.js'
import type { NativeMemory } from './libcuda/native.js'
import { captures, type LibcudaParts, type StreamCalls } from './libcuda/stream-calls.js'
import type { StreamRecord, StreamRecords } from './stream-records.js'
import type { Blocking } from './waiting/blocking.js'
import type { CallsApart } from './waiting/calls-apart.js'
import { type EventPool, isPooled, type OwnRecord } from './waiting/event-pool.js'
import { IdleDevices } from './waiting/idle-devices.js'
import type { Promises } from './waiting/promises.js'
import type { ValueWaits } from './waiting/value-waits.js'

const NAME_BYTES = 256

export interface CudaDriverParts extends LibcudaParts {
  readonly handles: HandleCheck
  readonly reserve: StreamReserve
  readonly threads: Threads
  readonly graphGates: GraphGates
  readonly nodes: GraphNodes
  readonly captures: Captures
  readonly hostFunctions: HostFunctions
  readonly blocking: Blocking
  readonly promises: Promises
  readonly callsApart: CallsApart
  readonly valueWaits: ValueWaits
  readonly pool: EventPool
}

/** sizeof(CUstreamAttrValue), and one of its kinds. */
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
  /** Kept at hand: the library has more functions than V8 finds without a table of them. */
  readonly #cuEventRecord: CFunction
  readonly #cuStreamWaitEvent: CFunction
  /** Where out parameters go. */
  readonly #out: NativeMemory
  readonly #calls: StreamCalls
  readonly #green: CudaGreenContexts
  readonly #hostFunctions: HostFunctions
  readonly #streams: StreamRecords
  readonly #inUse = new HandlesInUse()
  readonly #closedStreams = new StreamPool()
  /** The flags of events of which a record is work of the stream: all but plain ones without timing. Foreign events count as work. */
  readonly #eventFlags = new HandleMap<EventHandle, number>()
  /** The driver's numbers for the null streams, by device. */
  readonly #nullStreamIds = new Map<number, bigint>()

  constructor(private readonly parts: CudaDriverParts) {
    this.#library = parts.library
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
    this.pools = new CudaPools(parts)
    const ownParts = { ...parts, idleDevices, driver: this, pools: this.pools, green: this.#green }
    this.graphs = new CudaGraphs(ownParts)
    this.memory = new CudaMemory(ownParts)
    this.sharing = new CudaSharing(ownParts)
  }

  deviceCount(): number {
    check('cuDeviceGetCount', this.#library.cuDeviceGetCount(this.#out.address))
    return this.#out.int32[0] ?? 0
  }

  deviceName(device: number): string {
    check(
      'cuDeviceGetName',
      this.#library.cuDeviceGetName(this.#out.address, NAME_BYTES, this.parts.contexts.cudaDevice(device)),
    )
    const { bytes } = this.#out
    return Buffer.from(bytes.subarray(0, bytes.indexOf(0))).toString('utf8')
  }

  deviceUuid(device: number): string {
    check(
      'cuDeviceGetUuid',
      this.#library.cuDeviceGetUuid_v2(this.#out.address, this.parts.contexts.cudaDevice(device)),
    )
    const digits = Buffer.from(this.#out.bytes.subarray(0, 16)).toString('hex')
    return `GPU-${digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')}`
  }

  deviceAttribute(device: number, attribute: number): number {
    const cudaDevice = this.parts.contexts.cudaDevice(device)
    check('cuDeviceGetAttribute', this.#library.cuDeviceGetAttribute(this.#out.address, attribute, cudaDevice))
    return this.#out.int32[0] ?? 0
  }

  deviceContext(device: number): ContextHandle {
    const context = this.parts.contexts.primary(device)
    this.#noteNullStreamId(device)
    return context
  }

  /** CUDA refuses to tell it while a blocking stream captures, and invalidates the capture: so it is asked before any can. */
  #noteNullStreamId(device: number): void {
    const stream = defaultStream(device, 0)
    if (this.#nullStreamIds.has(device) || this.#captures(stream)) return
    let result = 0
    this.#calls.onStream(stream, 'cuStreamGetId', (raw) => {
      result = this.#library.cuStreamGetId(raw, this.#out.address)
      return 0
    })
    if (result === 0) this.#nullStreamIds.set(device, this.#out.uint64[0] ?? 0n)
  }

  #nullStreamId(device: number): bigint {
    this.#noteNullStreamId(device)
    const id = this.#nullStreamIds.get(device)
    if (id !== undefined) return id
    this.#refuseWhileCapturing(defaultStream(device, 0), 'cuStreamGetId')
    this.#ask(defaultStream(device, 0), 'cuStreamGetId')
    return this.#out.uint64[0] ?? 0n
  }

  streamPriorityRange(device: number): { readonly least: number; readonly greatest: number } {
    const { address } = this.#out
    this.#calls.inContext(this.parts.contexts.primary(device), 'cuCtxGetStreamPriorityRange', () =>
      this.#library.cuCtxGetStreamPriorityRange(address, address + 4),
    )
    return { least: this.#out.int32[0] ?? 0, greatest: this.#out.int32[1] ?? 0 }
  }

  deviceSynchronize(device: number): void {
    const context = this.parts.contexts.primary(device)
    // The driver's own wait is refused while another thread captures, and invalidates that.
    if (this.#mustLook || this.parts.threads.others) {
      if (this.#anyCaptures(device, context)) this.#refuseWait(context)
      this.parts.blocking.forContext(context, device)
    } else this.#calls.inContext(context, 'cuCtxSynchronize', () => this.#library.cuCtxSynchronize())
  }

  /** CUDA refuses to wait for a context of which a stream captures, and invalidates the capture, before it waits for anything. */
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

  deviceRecordOwn(event: EventHandle, device: number): boolean {
    const context = this.parts.contexts.primary(device)
    if (this.#anyCaptures(device, context)) return false
    const isRecorded = this.parts.captures.recordDevice(event, context, () => this.#anyUnknown(device)) === 'recorded'
    if (isRecorded) this.#hostFunctions.recordedDevice(event, context, device)
    return isRecorded
  }

  contextCheck(context: ContextHandle): void {
    const unrecorded = this.parts.pool.unrecorded(context)
    check(
      'cuEventQuery',
      this.parts.relaxed.run(() => this.#library.cuEventQuery(unrecorded)),
    )
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
    this.#streams.created(stream, context, flags).kept = this.#closedStreams.kept(context, flags, priority)
    return stream
  }

  #create(context: ContextHandle, flags: number, priority: number): StreamHandle {
    const create = (): number => this.#library.cuStreamCreateWithPriority(this.#out.address, flags, priority)
    const createThere = (): void => this.#calls.inContext(context, 'cuStreamCreateWithPriority', create)
    this.withStreams(context, 1, createThere, 'making one more stream, for which CUDA waits for the device,')
    const stream = this.#out.pointerAt(0) as StreamHandle
    this.#isNew(stream)
    return stream
  }

  /** It is destroyed when it is closed, and never given out again. */
  #createGreen(device: number, green: ContextHandle, priority: number): StreamHandle {
    const made = this.#green.createStream(green, priority)
    this.#isNew(made.stream)
    const context = this.parts.contexts.primary(device)
    this.#streams.created(made.stream, context, StreamFlag.NON_BLOCKING).green = made.green
    return made.stream
  }

  /** It may stand where another library's stood, which was handed over and has been destroyed. */
  #isNew(stream: StreamHandle): void {
    this.parts.handles.streamCreated(stream)
    const before = this.#streams.get(stream)
    if (before === undefined) return
    this.graphs.leave(stream)
    this.#goes(before)
  }

  /** The stream is destroyed, or another has its handle. */
  #goes(stream: StreamRecord): void {
    this.#hostFunctions.streamGoes(stream)
    this.#green.streamGoes(stream)
    this.#streams.remove(stream)
  }

  /**
   * Makes a call that makes streams, of the device's primary context and of these green ones: at once where there is place for
   * them, else when no host function is pending.
   */
  withStreams<R>(context: ContextHandle, streams: number, call: () => R, what: string, greens: Greens = NO_GREENS): R {
    const { reserve, contexts, blocking } = this.parts
    reserve.fillWhereNeeded()
    const make = (): R => {
      this.#green.fill(greens)
      return reserve.making(call)
    }
    const now = this.#hostFunctions.exclusivelyNow(make)
    if (now !== undefined) return now.made
    const device = contexts.deviceOf(context)
    const there = (): R => {
      this.#green.makePlaces(greens, streams)
      return call()
    }
    const inPlace = this.#green.hasPlaces(greens, streams)
      ? reserve.inPlaces(device, streams, this.#hostFunctions.isInside, there)
      : undefined
    if (inPlace !== undefined) return inPlace.made
    if (greens.size > 0 && !this.#hostFunctions.isInside) {
      if (this.#hostFunctions.pending) blocking.forHostFunctions(what)
      // A stream may stand at a value that this thread is to write. CUDA mostly has a place all the same.
      if (!this.#hostFunctions.anyPending) {
        const made = this.#hostFunctions.exclusivelyNow(make)
        return made === undefined ? reserve.making(call) : made.made
      }
    }
    const filled = (): R => {
      reserve.fill(device)
      return make()
    }
    return blocking.exclusively(filled, what)
  }

  streamDestroy(handle: StreamHandle): void {
    if (this.#inUse.postpones(handle, () => this.streamDestroy(handle))) return
    const { captures, handles, reserve } = this.parts
    const stream = this.#streams.of(handle)
    const kept = this.#whereKept(stream)
    this.graphs.streamGoes(stream)
    this.#goes(stream)
    // No other library can come back with a handle that none has had.
    if (stream.hasEscaped) {
      const told = this.#mayTellId(handle) && this.#library.cuStreamGetId(handle, this.#out.address) === 0
      handles.streamDestroyed(handle, told ? this.#out.pointerAt(0) : undefined)
    }
    // It captures nothing, whoever ended its capture.
    if (kept !== undefined) captures.endBy(stream, () => {})
    if (kept === 'pool') {
      this.#closedStreams.keep(stream)
      return
    }
    if (!stream.hasEscaped) handles.streamLeft(handle)
    if (kept !== undefined && reserve.keep(stream.device, handle)) return
    captures.endBy(stream, () => checkDestroyed('cuStreamDestroy', this.#library.cuStreamDestroy_v2(handle)))
  }

  /** Where a stream that is idle need not be destroyed: it will be another, or make place for one on its device. */
  #whereKept(stream: StreamRecord): 'pool' | 'reserve' | undefined {
    if (stream.owner !== 'library' || stream.green !== undefined) return undefined
    const inPool = this.#closedStreams.wants(stream)
    if ((!inPool && !this.parts.reserve.wants(stream.device)) || !this.isIdle(stream)) return undefined
    return inPool ? 'pool' : 'reserve'
  }

  streamAdopt(cudaHandle: number, near: number): AdoptedStream {
    if (cudaHandle === 0 || cudaHandle === 1 || cudaHandle === 2) {
      this.#refuseOfGreen(cudaHandle)
      return { stream: defaultStream(near, cudaHandle), device: near, context: this.parts.contexts.primary(near) }
    }
    const stream = cudaHandle as StreamHandle
    const id = this.parts.handles.checkStream(stream, this.parts.contexts.known)
    const { context, green } = this.#foundOf(stream, near)
    const before = this.#streams.get(stream)
    const device = this.parts.contexts.deviceOf(context)
    if (before?.owner === 'library') return { stream, context, device, green: before.green }
    if (before !== undefined && id !== undefined && before.id === id) before.green = green
    else {
      const now = this.#streams.adopted(stream, { context, id, green })
      if (before !== undefined) {
        this.graphs.replaced(before, now, id !== undefined)
        this.#goes(before)
      }
    }
    return { stream, context, device, green }
  }

  streamWrapped(stream: StreamHandle): Wrapper {
    return this.#streams.wrapped(stream)
  }

  /** A stream in a capture that is invalidated does not tell its context. */
  #foundOf(stream: StreamHandle, near: number): Pick<StreamRecord, 'context' | 'green'> {
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

  /** While another library has a green context current, the handles of default streams mean streams of that. */
  #refuseOfGreen(cudaHandle: number): void {
    const { contexts } = this.parts
    const { address } = this.#out
    if (this.#library.cuCtxGetCurrent(address) !== 0) return
    const current = this.#out.pointerAt(0)
    if (current === 0 || contexts.isPrimary(current as ContextHandle)) return
    const result = this.#library.cuStreamGetCtx_v2(0, address, address + 8)
    if (result !== 0 || this.#out.pointerAt(8) === 0) return
    const what = `A green context is current on this thread, where the stream ${cudaHandle} is one of its own`
    throw stateError('ERR_UNSUPPORTED', `${what}: pass a stream that was made in it, or wrap this one outside of it`)
  }

  streamHandedOut(stream: StreamHandle): void {
    const record = this.#streams.get(stream)
    if (record !== undefined) {
      record.hasEscaped = true
      record.kept = undefined
    } else {
      this.parts.handles.readAfterEnd(stream)
      if (this.#closedStreams.remove(stream))
        checkDestroyed('cuStreamDestroy', this.#library.cuStreamDestroy_v2(stream))
    }
  }

  isHandedOut(stream: StreamHandle): boolean {
    return this.#streams.get(stream)?.hasEscaped === true
  }

  streamGetId(stream: StreamHandle): bigint {
    if (isNullStream(stream)) return this.#nullStreamId(deviceOfDefaultStream(stream))
    this.#refuseWhileCapturing(stream, 'cuStreamGetId')
    // It tells this stream from all that come after.
    this.#streams.of(stream).kept = undefined
    this.parts.relaxed.run(() => this.#ask(stream, 'cuStreamGetId'))
    return this.#out.uint64[0] ?? 0n
  }

  streamGetFlags(stream: StreamHandle): number {
    if (isNullStream(stream)) return 0
    this.#refuseWhileCapturing(stream, 'cuStreamGetFlags')
    this.parts.relaxed.run(() => this.#ask(stream, 'cuStreamGetFlags'))
    return this.#out.uint32[0] ?? 0
  }

  streamGetPriority(stream: StreamHandle): number {
    if (isNullStream(stream)) return 0
    this.#ask(stream, 'cuStreamGetPriority')
    return this.#out.int32[0] ?? 0
  }

  streamSetMemorySyncDomain(stream: StreamHandle, domain: number): void {
    // It would still have the attribute where it is given out again.
    this.#streams.of(stream).kept = undefined
    this.#out.bytes.fill(0, 0, ATTRIBUTE_BYTES)
    this.#out.int32[0] = domain
    const set = (raw: number): number =>
      this.#library.cuStreamSetAttribute(raw, ATTRIBUTE_MEMORY_SYNC_DOMAIN, this.#out.address)
    this.#calls.onStream(stream, 'cuStreamSetAttribute', (raw) => this.parts.relaxed.run(() => set(raw)))
  }

  streamIsCapturing(stream: StreamHandle): boolean {
    this.#calls.onStream(stream, 'cuStreamIsCapturing', (raw) =>
      this.#library.cuStreamIsCapturing(raw, this.#out.address),
    )
    return this.#out.int32[0] !== 0
  }

  streamQuery(stream: StreamHandle, isIdle = false): boolean {
    if (isIdle && this.#streams.get(stream)?.hasEscaped === false && this.#mayAnswerItself()) return true
    if (stream < DEFAULT_STREAM_LIMIT) return this.#queryDefaultStream(stream)
    const result = this.#library.cuStreamQuery(stream)
    if (result === 0) return true
    if (result === CUresult.NOT_READY) return false
    throw cudaError('cuStreamQuery', result)
  }

  streamSynchronize(stream: StreamHandle): void {
    if (stream < DEFAULT_STREAM_LIMIT || this.#mustLook) {
      this.#synchronizeWith(stream)
      return
    }
    const result = this.#library.cuStreamSynchronize(stream)
    if (result !== 0) throw cudaError('cuStreamSynchronize', result)
  }

  streamWaitEvent(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void {
    if (this.#hostFunctions.tracksOrder && this.#hostFunctions.waitedForEvent(stream, event))
      this.parts.blocking.beforeCapture()
    if (stream < DEFAULT_STREAM_LIMIT || external !== 0) {
      this.#waitWith(stream, event, external)
      return
    }
    const result = this.#cuStreamWaitEvent(stream, event, 0)
    if (result !== 0) throw cudaError('cuStreamWaitEvent', result)
  }

  streamWaitStream(stream: StreamHandle, other: StreamHandle, otherContext: ContextHandle): void {
    const between = this.parts.pool.shared(otherContext)
    this.eventRecord(between, other, 0)
    this.streamWaitEvent(stream, between, 0)
  }

  streamHeldBy(stream: StreamHandle): string | undefined {
    return this.#hostFunctions.heldBy((dependencies) => dependencies.streamComesAfter(this.#streams.of(stream)))
  }

  streamFinished(stream: StreamHandle, _context: ContextHandle, settle: Settle): Cancel {
    if (this.streamIsCapturing(stream)) throw cudaError('cuStreamQuery', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    const record = (event: EventHandle): void => this.eventRecord(event, stream, 0)
    return this.parts.promises.streamFinished(this.#streams.of(stream), record, settle)
  }

  streamLaunchHostFunction(stream: StreamHandle, context: ContextHandle, host: HostFunction): void {
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

  streamHold(stream: StreamHandle, context: ContextHandle): () => void {
    const hold = (): (() => void) => this.#hostFunctions.hold(stream, cudaHandleOf(stream))
    return isDefaultStream(stream) ? this.parts.contexts.within(context, hold) : hold()
  }

  /**
   * Is it a stream of our own whose work is done? False where the driver refuses to say, or would invalidate a capture by
   * it. Streams of other libraries are not asked: they may have been destroyed.
   */
  isIdle({ owner, handle }: StreamRecord): boolean {
    if (owner !== 'library' || this.#captures(handle)) return false
    return this.parts.relaxed.run(() => this.#library.cuStreamQuery(handle)) === 0
  }

  /** Does the null stream order its work now? Undefined while it captures: to ask for its flags would invalidate the capture. */
  isBlocking(stream: StreamRecord): boolean | undefined {
    if (stream.owner === 'cuda' || stream.isBlocking === false) return stream.isBlocking
    if (this.streamIsCapturing(stream.handle)) return undefined
    stream.isBlocking ??= (this.streamGetFlags(stream.handle) & StreamFlag.NON_BLOCKING) === 0
    return stream.isBlocking
  }

  streamMakeRoom(stream: StreamHandle, entries: number): void {
    if (!this.#hostFunctions.anyPending || this.#hostFunctions.surelyHasRoom(stream, entries)) return
    if (this.#isCapturing(stream)) return
    this.#inUse.during(stream, () => this.parts.blocking.forRoom(stream, entries, () => this.streamQuery(stream)))
  }

  streamHasRoom(stream: StreamHandle, entries: number): boolean {
    if (!this.#hostFunctions.anyPending || this.#isCapturing(stream)) return true
    return this.#hostFunctions.hasRoom(stream, entries, () => this.streamQuery(stream))
  }

  eventCreate(context: ContextHandle, flags: number, recordedNext = false): EventHandle {
    if (flags === EventFlag.DISABLE_TIMING) {
      if (recordedNext) return this.parts.pool.take(context)
      const unused = this.parts.pool.takeNew(context)
      if (unused !== undefined) return unused
    }
    const isKept = recordedNext && isPooled(flags)
    const event = isKept ? this.parts.pool.take(context, flags) : this.parts.pool.create(context, flags)
    this.parts.handles.eventCreated(event)
    if (isRecordWork(flags)) this.#eventFlags.set(event, flags)
    return event
  }

  eventDestroy(event: EventHandle): void {
    if (this.#inUse.postpones(event, () => this.eventDestroy(event))) return
    this.#eventFlags.delete(event)
    this.#forgetEvent(event)
    this.parts.handles.eventDestroyed(event)
    checkDestroyed('cuEventDestroy', this.#library.cuEventDestroy_v2(event))
  }

  eventRecycle(context: ContextHandle, event: EventHandle, neverRecorded = false): void {
    if (this.#inUse.postpones(event, () => this.eventRecycle(context, event, neverRecorded))) return
    const flags = this.#eventFlags.get(event) ?? EventFlag.DISABLE_TIMING
    if (neverRecorded && flags !== EventFlag.DEFAULT && this.parts.pool.giveBackNew(context, event)) return
    this.#forgetEvent(event)
    if (!this.parts.pool.giveBack(context, event, isPooled(flags) ? flags : EventFlag.DISABLE_TIMING))
      this.#eventFlags.delete(event)
  }

  eventAdopt(event: EventHandle): { readonly context: ContextHandle; readonly device: number } | undefined {
    const context = this.parts.handles.checkEvent(event, this.parts.contexts.known)
    this.#eventFlags.set(event, EventFlag.DEFAULT)
    return context === undefined ? undefined : { context, device: this.parts.contexts.deviceOf(context) }
  }

  eventRecord(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void {
    if (stream < DEFAULT_STREAM_LIMIT || external !== 0 || this.#hostFunctions.tracksOrder) {
      this.#recordWith(event, stream, external)
      return
    }
    const result = this.#cuEventRecord(event, stream)
    if (result !== 0) throw cudaError('cuEventRecord', result)
  }

  eventRecordOwn(event: EventHandle, stream: StreamHandle): void {
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
    if (this.#mustLook) {
      this.#inUse.during(event, () => this.parts.blocking.forEvent(event, () => this.eventQuery(event)))
    } else check('cuEventSynchronize', this.#library.cuEventSynchronize(event))
  }

  eventHeldBy(event: EventHandle): string | undefined {
    return this.#hostFunctions.heldBy((dependencies) => dependencies.eventComesAfter(event))
  }

  eventFinished(event: EventHandle, settle: Settle): Cancel {
    return this.parts.promises.eventFinished(event, settle)
  }

  eventElapsedTime(start: EventHandle, end: EventHandle): number {
    // It asks whether the events are done, which invalidates captures as a query does.
    const { address } = this.#out
    check(
      'cuEventElapsedTime',
      this.parts.relaxed.run(() => this.#library.cuEventElapsedTime(address, start, end)),
    )
    return this.#out.float32[0] ?? 0
  }

  eventGetIpcHandle(event: EventHandle): OwnBytes {
    check('cuIpcGetEventHandle', this.#library.cuIpcGetEventHandle(this.#out.address, event))
    return this.#out.bytes.slice(0, IPC_HANDLE_BYTES)
  }

  eventOpenIpcHandle(context: ContextHandle, bytes: Uint8Array): EventHandle {
    const { address } = this.#out
    this.#out.bytes.set(bytes, HANDLE_AT)
    const result = this.parts.contexts.within(context, () =>
      this.#library.cuIpcOpenEventHandle(address, address + HANDLE_AT),
    )
    const event = this.#out.pointerAt(0) as EventHandle
    if (result !== 0) {
      const cause = cudaError('cuIpcOpenEventHandle', result)
      const why = 'are they what ipcHandle() returned, in another process that still runs?'
      throw stateError('ERR_INVALID_HANDLE', `These 64 bytes open no event: ${why}`, cause)
    }
    this.parts.handles.eventCreated(event)
    this.#eventFlags.set(event, EventFlag.INTERPROCESS)
    return event
  }

  /** The event is about to be destroyed, or used for something else. */
  #forgetEvent(event: EventHandle): void {
    if (!this.#hostFunctions.tracksOrder) return
    this.parts.promises.keepRecord(event)
    this.#hostFunctions.forgetEvent(event)
  }

  /** Asks for something of a stream, which then stands where out parameters go. */
  #ask(stream: StreamHandle, call: 'cuStreamGetId' | 'cuStreamGetFlags' | 'cuStreamGetPriority'): void {
    this.#calls.onStream(stream, call, (raw) => this.#library[call](raw, this.#out.address))
  }

  /**
   * A query costs as much as seven records, with 32 hardware queues. It is refused while a stream captures, and tells of
   * faults.
   */
  #mayAnswerItself(): boolean {
    return this.parts.captures.underWay === 0 && !hasLostContext() && !this.parts.threads.others
  }

  #queryDefaultStream(stream: StreamHandle): boolean {
    let result = 0
    this.#calls.onStream(stream, 'cuStreamQuery', (raw) => {
      result = this.#library.cuStreamQuery(raw)
      return result === CUresult.NOT_READY ? 0 : result
    })
    return result === 0
  }

  /** A native wait may never end, and would run and tell nothing meanwhile. */
  get #mustLook(): boolean {
    return this.#hostFunctions.anyPending || this.parts.valueWaits.anyStands()
  }

  #synchronizeWith(stream: StreamHandle): void {
    if (this.#mustLook) {
      const { blocking, pool } = this.parts
      const isDone = (): boolean => this.streamQuery(stream)
      const recordOwn = (): OwnRecord => {
        return pool.recordOf(this.#streams.of(stream).context, (event) => this.eventRecord(event, stream, 0))
      }
      this.#inUse.during(stream, () => blocking.forStream(stream, isDone, recordOwn))
    } else this.#calls.onStream(stream, 'cuStreamSynchronize', (raw) => this.#library.cuStreamSynchronize(raw))
  }

  /** CUDA refuses the external flags outside of a capture, where they mean nothing. */
  #recordWith(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void {
    if (this.#hostFunctions.tracksOrder) {
      if (this.#eventFlags.has(event)) this.#hostFunctions.countEntries(stream, 1)
      this.parts.blocking.keepRecord(event)
      this.parts.promises.keepRecord(event)
    }
    if (external !== 0 && this.#isCapturing(stream)) {
      this.#calls.onStream(stream, 'cuEventRecordWithFlags', (raw) =>
        this.#library.cuEventRecordWithFlags(event, raw, 1),
      )
      // It is recorded by each launch of the graph, and stays as it was until then.
      return
    }
    this.#calls.onStream(stream, 'cuEventRecord', (raw) => this.#library.cuEventRecord(event, raw))
    if (this.#hostFunctions.tracksOrder) this.#hostFunctions.recorded(event, stream, () => this.#captureOf(stream))
  }

  #waitWith(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void {
    const flags = external !== 0 && this.#isCapturing(stream) ? 1 : 0
    this.#calls.onStream(stream, 'cuStreamWaitEvent', (raw) => this.#library.cuStreamWaitEvent(raw, event, flags))
  }

  /** To ask a capturing stream for its id would invalidate the capture. */
  #mayTellId(stream: StreamHandle): boolean {
    return this.#library.cuStreamIsCapturing(stream, this.#out.address) === 0 && this.#out.int32[0] === 0
  }

  /**
   * Does a stream of the context capture? CUDA cannot be asked that, only each stream: those that began a capture here, those of
   * our own that may be in one, and those of other libraries that are wrapped. Of the others the null stream tells of blocking
   * ones (`#anyUnknown`); what other libraries capture on other streams of theirs is not known.
   */
  #anyCaptures(device: number, context: ContextHandle): boolean {
    const { begun, joined } = this.graphs
    const theirs = this.#streams.theirs((stream, id) => this.parts.handles.isStill(stream, id))
    const own = [...this.#streams.own()].filter(({ hasEscaped }) => hasEscaped || begun.length > 0)
    // Calls about a primary context leave captures in its green contexts alone. Another library's stream may have joined one there.
    for (const stream of [...begun, ...joined, ...own, ...theirs])
      if (stream.context === context && stream.green === undefined && this.#captures(stream.handle)) return true
    return this.#captures(defaultStream(device, 2))
  }

  /** Does a blocking stream capture? The null stream tells so, and not of which thread: beside captures of others it tells nothing new. */
  #anyUnknown(device: number): boolean {
    return this.#captures(defaultStream(device, 0))
  }

  #captures(stream: StreamHandle): boolean {
    return captures(this.parts, stream)
  }

  /** A null stream never captures, and asking whether it does is refused while a blocking stream captures. */
  #isCapturing(stream: StreamHandle): boolean {
    return !isNullStream(stream) && this.streamIsCapturing(stream)
  }

  /** Tells whether the capture that the stream is in is under way still; undefined where it is in none. */
  #captureOf(stream: StreamHandle): (() => boolean) | undefined {
    return isNullStream(stream) ? undefined : this.graphs.captureOf(stream)
  }

  /**
   * These getters invalidate a capture when they are asked about a capturing stream; the answer is the same without.
   */
  #refuseWhileCapturing(stream: StreamHandle, call: string): void {
    if (this.streamIsCapturing(stream)) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
  }
}
