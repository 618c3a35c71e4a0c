/** Streams on a real GPU. The driver reports each wait and destruction to PendingHostFunctions, and lets Blocking and Promises wait. */

import { stateError } from '../foundation/base/errors.js'
import { CUresult, cudaError, waitRefused } from '../foundation/driver/cuda-results.js'
import { type ExternalFlag, StreamFlag } from '../foundation/driver/driver-constants.js'
import type { Cancel, EventDriver, Settle } from '../foundation/driver/event-driver.js'
import { refusedHandle } from '../foundation/driver/handle-errors.js'
import {
  type ContextHandle,
  DEFAULT_STREAM_LIMIT,
  defaultStream,
  deviceOfDefaultStream,
  type EventHandle,
  isNullStream,
  type StreamHandle,
} from '../foundation/driver/handle-types.js'
import type { StreamDriver, WrappedStream, Wrapper } from '../foundation/driver/stream-driver.js'
import { type CFunction, own } from '../foundation/native/c-functions.js'
import type { NativeMemory } from '../foundation/native/native-memory.js'
import type { CudaGraphs } from './cuda-graphs.js'
import type { CudaGreenContexts, Greens } from './cuda-green-contexts.js'
import type { HandleCheck, HandlesInUse } from './handles/handle-check.js'
import { ClosedStreams, type SpareStreams } from './handles/spare-streams.js'
import type { StreamRecord, StreamRecords } from './handles/stream-records.js'
import type { Captures } from './host-functions/captures.js'
import { mayAnswerItself } from './host-functions/captures.js'
import type { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import type { ProcessRegistry } from './host-functions/process-registry.js'
import type { LibcudaParts, StreamCalls } from './libcuda/driver-calls.js'
import { type CheckedLibrary, checkDestroyed, type Library } from './libcuda/libcuda.js'
import type { Blocking } from './waiting/blocking.js'
import { mustRunHostFunctions } from './waiting/blocking.js'
import type { EventPool, InternalRecord } from './waiting/event-pool.js'
import type { Promises } from './waiting/promises.js'
import type { ValueWaits } from './waiting/value-waits.js'

const NO_GREENS: Greens = new Set()
/** sizeof(CUstreamAttrValue), and a CUstreamAttrID. */
const ATTRIBUTE_BYTES = 64
const ATTRIBUTE_MEMORY_SYNC_DOMAIN = 10
const ATTRIBUTE_PRIORITY = 8

export interface CudaStreamsParts extends LibcudaParts {
  readonly handles: HandleCheck
  readonly inUse: HandlesInUse
  readonly spares: SpareStreams
  readonly registry: ProcessRegistry
  readonly captures: Captures
  readonly hostFunctions: PendingHostFunctions
  readonly blocking: Blocking
  readonly promises: Promises
  readonly valueWaits: ValueWaits
  readonly pool: EventPool
  readonly green: CudaGreenContexts
  readonly driver: {
    readonly events: Pick<EventDriver, 'record'>
    readonly graphs: Pick<CudaGraphs, 'abandon' | 'leave' | 'replaced' | 'streamGoes'>
  }
}

export class CudaStreams implements StreamDriver {
  readonly #library: Library
  readonly #must: CheckedLibrary
  /** The functions are in fields, since the library has more functions than V8 finds without a hash table. */
  readonly #cuStreamWaitEvent: CFunction
  readonly #cuStreamIsCapturing: CFunction
  readonly #waitForStream = own().waitForStream
  /** Takes the out parameters of calls. */
  readonly #out: NativeMemory
  readonly #calls: StreamCalls
  readonly #streams: StreamRecords
  readonly #hostFunctions: PendingHostFunctions
  readonly #closedStreams = new ClosedStreams()
  /** The driver's numbers for the null streams, by device. */
  readonly #nullStreamIds = new Map<number, bigint>()

  constructor(private readonly parts: CudaStreamsParts) {
    this.#library = parts.library
    this.#must = parts.must
    this.#cuStreamWaitEvent = parts.library.cuStreamWaitEvent
    this.#cuStreamIsCapturing = parts.library.cuStreamIsCapturing
    this.#out = parts.memory
    this.#calls = parts.calls
    this.#streams = parts.streams
    this.#hostFunctions = parts.hostFunctions
  }

  create(context: ContextHandle, flags: number, priority: number): StreamHandle {
    const device = this.parts.green.deviceOf(context)
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
    const made = this.parts.green.createStream(green, priority)
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
    this.parts.driver.graphs.leave(stream)
    this.#goes(before)
  }

  /** The stream is destroyed, or another has its handle. */
  #goes(stream: StreamRecord): void {
    this.#hostFunctions.forgetEntries(stream)
    this.parts.green.streamGoes(stream)
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
      this.parts.green.fill(greens)
      return spares.making(call)
    }
    const now = this.#hostFunctions.exclusivelyNow(make)
    if (now !== undefined) return now.made
    const device = contexts.deviceOf(context)
    const makeInPlaces = (): R => {
      this.parts.green.makePlaces(greens, streams)
      return call()
    }
    const inPlaces = this.parts.green.hasPlaces(greens, streams)
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

  destroy(handle: StreamHandle): void {
    const { captures, handles, spares } = this.parts
    const stream = this.#streams.of(handle)
    if (this.parts.inUse.postpones(handle, () => this.destroy(handle))) {
      // Its capture ends now.
      if (captures.isListed(stream)) this.parts.driver.graphs.abandon(handle)
      return
    }
    const kept = this.#whereKept(stream)
    this.parts.driver.graphs.streamGoes(stream)
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

  wrap(cudaHandle: number, near: number): WrappedStream {
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
        this.parts.driver.graphs.replaced(before, now, id !== undefined)
        this.#goes(before)
      }
    }
    return { stream, context, device, green }
  }

  wrapped(stream: StreamHandle): Wrapper {
    return this.#streams.openWrapper(stream)
  }

  /** CUDA refuses the context of a stream whose capture is invalidated. */
  #contextsOf(stream: StreamHandle, near: number): Pick<StreamRecord, 'context' | 'green'> {
    const { address } = this.#out
    const result = this.#library.cuStreamGetCtx_v2(stream, address, address + 8)
    if (result === 0) {
      const context = this.#out.pointerAt(0) as ContextHandle
      return { context, green: this.parts.green.found(this.#out.pointerAt(8)) }
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

  escaped(stream: StreamHandle): void {
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

  getId(stream: StreamHandle): bigint {
    if (isNullStream(stream)) return this.#nullStreamId(deviceOfDefaultStream(stream))
    this.#refuseWhileCapturing(stream, 'cuStreamGetId')
    // The number distinguishes this stream from a later one with its handle, so it cannot be given out again.
    this.#streams.of(stream).reuse = undefined
    this.parts.relaxed.run(() => this.#query(stream, 'cuStreamGetId'))
    return this.#out.uint64[0] ?? 0n
  }

  /**
   * Queries the number of the null stream before any stream can capture: while a blocking stream does, CUDA refuses the query,
   * and invalidates the capture.
   */
  noteNullStreamId(device: number): void {
    const stream = defaultStream(device, 0)
    if (this.#nullStreamIds.has(device)) return
    const result = this.parts.captures.unlessCapturing(stream, () =>
      this.#calls.onStream(stream, (raw) => this.#library.cuStreamGetId(raw, this.#out.address)),
    )
    if (result === 0) this.#nullStreamIds.set(device, this.#out.uint64[0] ?? 0n)
  }

  #nullStreamId(device: number): bigint {
    this.noteNullStreamId(device)
    const id = this.#nullStreamIds.get(device)
    if (id !== undefined) return id
    const stream = defaultStream(device, 0)
    this.#refuseWhileCapturing(stream, 'cuStreamGetId')
    this.#query(stream, 'cuStreamGetId')
    return this.#out.uint64[0] ?? 0n
  }

  getFlags(stream: StreamHandle): number {
    if (isNullStream(stream)) return 0
    this.#refuseWhileCapturing(stream, 'cuStreamGetFlags')
    this.parts.relaxed.run(() => this.#query(stream, 'cuStreamGetFlags'))
    return this.#out.uint32[0] ?? 0
  }

  getPriority(stream: StreamHandle): number {
    if (isNullStream(stream)) return 0
    this.#query(stream, 'cuStreamGetPriority')
    return this.#out.int32[0] ?? 0
  }

  setPriority(stream: StreamHandle, priority: number): void {
    this.#setAttribute(stream, ATTRIBUTE_PRIORITY, priority)
  }

  copyAttributes(stream: StreamHandle, from: StreamHandle): void {
    this.#streams.of(stream).reuse = undefined
    this.#calls.onStream(stream, (raw) => this.parts.relaxed.run(() => this.#must.cuStreamCopyAttributes(raw, from)))
  }

  setMemorySyncDomain(stream: StreamHandle, domain: number): void {
    this.#setAttribute(stream, ATTRIBUTE_MEMORY_SYNC_DOMAIN, domain)
  }

  #setAttribute(stream: StreamHandle, attribute: number, value: number): void {
    const { bytes, int32, address } = this.#out
    // The stream would still have the attribute when it is given out again.
    this.#streams.of(stream).reuse = undefined
    bytes.fill(0, 0, ATTRIBUTE_BYTES)
    int32[0] = value
    const set = (raw: number): void => this.#must.cuStreamSetAttribute(raw, attribute, address)
    this.#calls.onStream(stream, (raw) => this.parts.relaxed.run(() => set(raw)))
  }

  isCapturing(stream: StreamHandle): boolean {
    if (stream < DEFAULT_STREAM_LIMIT) return this.#isDefaultCapturing(stream)
    const result = this.#cuStreamIsCapturing(stream, this.#out.address)
    if (result !== 0) throw cudaError('cuStreamIsCapturing', result)
    return this.#out.int32[0] !== 0
  }

  #isDefaultCapturing(stream: StreamHandle): boolean {
    this.#calls.onStream(stream, (raw) => this.#must.cuStreamIsCapturing(raw, this.#out.address))
    return this.#out.int32[0] !== 0
  }

  /** A null stream never captures, and the query for one is refused while a blocking stream captures. */
  capturesNow(stream: StreamHandle): boolean {
    return !isNullStream(stream) && this.isCapturing(stream)
  }

  query(stream: StreamHandle, isIdle = false): boolean {
    if (stream < DEFAULT_STREAM_LIMIT) return this.#queryDefaultStream(stream)
    if (isIdle && this.#streams.get(stream)?.hasEscaped === false && mayAnswerItself(this.parts)) return true
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

  synchronize(stream: StreamHandle): void {
    if (stream < DEFAULT_STREAM_LIMIT || mustRunHostFunctions(this.parts)) {
      this.#synchronizeWith(stream)
      return
    }
    const result = this.#library.cuStreamSynchronize(stream)
    if (result !== 0) throw cudaError('cuStreamSynchronize', result)
  }

  #synchronizeWith(stream: StreamHandle): void {
    if (mustRunHostFunctions(this.parts)) {
      const { blocking, pool } = this.parts
      const isDone = (): boolean => this.query(stream)
      const record = (): InternalRecord =>
        pool.recordOf(this.#streams.of(stream).context, (event) => this.parts.driver.events.record(event, stream, 0))
      this.parts.inUse.during(stream, () => blocking.forStream(stream, isDone, record))
    } else this.#calls.onStream(stream, (raw) => this.#must.cuStreamSynchronize(raw))
  }

  waitEvent(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void {
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

  /** Returns whether the wait became a node of a capture, for the event's latest record at each launch of the graph. */
  #waitWith(stream: StreamHandle, event: EventHandle, external: ExternalFlag): boolean {
    const flags = external !== 0 && this.capturesNow(stream) ? 1 : 0
    this.#calls.onStream(stream, (raw) => this.#must.cuStreamWaitEvent(raw, event, flags))
    return flags === 1
  }

  waitStream(stream: StreamHandle, other: StreamHandle, otherContext: ContextHandle): void {
    const between = this.parts.pool.shared(otherContext)
    if (this.#hostFunctions.tracksOrder || stream < DEFAULT_STREAM_LIMIT || other < DEFAULT_STREAM_LIMIT) {
      this.parts.driver.events.record(between, other, 0)
      this.waitEvent(stream, between, 0)
      return
    }
    const result = this.#waitForStream(stream, other, between)
    if (result !== 0) throw waitRefused(result)
  }

  blockedBy(stream: StreamHandle): string | undefined {
    return this.#hostFunctions.blockedBy((dependencies) => dependencies.streamComesAfter(this.#streams.of(stream)))
  }

  finished(stream: StreamHandle, _context: ContextHandle, settle: Settle): Cancel {
    if (this.isCapturing(stream)) throw cudaError('cuStreamQuery', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    const record = (event: EventHandle): void => this.parts.driver.events.record(event, stream, 0)
    return this.parts.promises.streamFinished(this.#streams.of(stream), record, settle)
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
    if (this.isCapturing(stream.handle)) return undefined
    stream.isBlocking ??= (this.getFlags(stream.handle) & StreamFlag.NON_BLOCKING) === 0
    return stream.isBlocking
  }

  /** Queries a property of a stream, which the out parameters then have. */
  #query(stream: StreamHandle, call: 'cuStreamGetId' | 'cuStreamGetFlags' | 'cuStreamGetPriority'): void {
    this.#calls.onStream(stream, (raw) => this.#must[call](raw, this.#out.address))
  }

  /** Throws what the driver would, which invalidates a capture when it is queried for these properties of a capturing stream. */
  #refuseWhileCapturing(stream: StreamHandle, call: string): void {
    if (this.isCapturing(stream)) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
  }
}
