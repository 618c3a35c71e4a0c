/**
 * The simulated GPU behind the Driver interface: its methods. The machine runs the operations, the registry knows the objects
 * behind the handles, and capture-rules.ts says which calls a capture allows.
 */

import type { OwnBytes } from '../foundation/base/bytes.js'
import { VARIABLES } from '../foundation/base/environment-variables.js'
import { stateError } from '../foundation/base/errors.js'
import { shortCallSite } from '../foundation/base/stack.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { SPLITTING } from '../foundation/driver/deadlocks.js'
import { DEVICE_ATTRIBUTES as A } from '../foundation/driver/device-attributes.js'
import type { GreenContextPart } from '../foundation/driver/device-driver.js'
import type { Driver } from '../foundation/driver/driver.js'
import { EventFlag, type ExternalFlag, isRecordWork, StreamFlag } from '../foundation/driver/driver-constants.js'
import { EscapedStreams } from '../foundation/driver/escaped-streams.js'
import type { Cancel, Settle } from '../foundation/driver/event-driver.js'
import {
  type ContextHandle,
  defaultStream,
  type EventHandle,
  isDefaultStream,
  type StreamHandle,
} from '../foundation/driver/handle-types.js'
import type { QueuedHostFunction, QueuedPromiseWait, QueuedWork } from '../foundation/driver/queued-work.js'
import type { WrappedStream, Wrapper } from '../foundation/driver/stream-driver.js'
import { CaptureRules } from './capture-rules.js'
import { type ComputeCapability, DEFAULT_COMPUTE_CAPABILITY, parseComputeCapability } from './compute-capability.js'
import { Ranges, rangeOf } from './handles.js'
import { availableCores } from './launch-workers.js'
import { defaultMemory } from './limits.js'
import { FaultPlan } from './machine/fault-plan.js'
import { describeOperation, HostWaits, hasCapacity } from './machine/host-waits.js'
import { Machine } from './machine/machine.js'
import {
  type SimDevice,
  SimEvent,
  type SimNodeWork,
  type SimOperation,
  type SimStream,
} from './machine/machine-state.js'
import type { Scheduler, Steps } from './machine/scheduler.js'
import { TimedScheduler } from './machine/timed-scheduler.js'
import { SimOperationKind, type Work } from './machine/work.js'
import {
  SIMULATED_NAME,
  SIMULATED_PRIORITIES,
  simulatedAttribute,
  simulatedPciBusId,
  simulatedSplit,
  simulatedUuid,
} from './properties.js'
import { Registry } from './registry.js'
import type { OtherMachines } from './shared/process-words.js'
import { SimGraphs } from './sim-graphs.js'
import { SimKernels } from './sim-kernels.js'
import { SimLibraries } from './sim-libraries.js'
import { SimMemory, type WorkQueue } from './sim-memory.js'
import { SimPools } from './sim-pools.js'
import { SimSharing } from './sim-sharing.js'

export interface SimDriverOptions {
  readonly devices: number
  /** The seed of the allowed orders. With 0, effects on memory are put off, and nothing else is left to chance. */
  readonly seed: number
  /** The bytes of each device. Default: a part of this machine's memory. */
  readonly memory?: number | undefined
  /** The most instructions of a launch. Default: as the environment says; 0: by the number of its threads. */
  readonly instructions?: number | undefined
  /** The compute capability of the devices. Default: as the environment says. */
  readonly computeCapability?: ComputeCapability | undefined
  /** The seed of the faults that are random. Default: `seed`. */
  readonly faultSeed?: number
  /** Makes the scheduler that takes the place of virtual time, and of the seed. */
  readonly scheduler?: (steps: Steps) => Scheduler
  /** The ranges of handles and addresses: an exploration runs one simulation after the other in the same ranges. */
  readonly ranges?: Ranges
}

const drivers = new Map<number, WeakRef<SimDriver>>()

/** Gives the ranges of a simulation to others once it is unreachable. */
const unreachable = new FinalizationRegistry(({ ranges, others }: { ranges: Ranges; others: OtherMachines }) => {
  ranges.giveBack()
  others.leave()
})

/** The simulator that the handle belongs to, if any. */
export function simulatorOfHandle(handle: number): SimDriver | undefined {
  return drivers.get(rangeOf(handle))?.deref()
}

export class SimDriver implements Driver, WorkQueue {
  readonly name = 'sim'
  readonly graphs: SimGraphs
  readonly kernels: SimKernels
  readonly libraries: SimLibraries
  readonly memory: SimMemory
  readonly pools: SimPools
  readonly sharing: SimSharing
  readonly machine: Machine
  readonly seed: number
  readonly #registry: Registry
  readonly #waits: HostWaits
  readonly #captures: CaptureRules
  readonly #escaped = new EscapedStreams()
  readonly #computeCapability: ComputeCapability

  constructor(options: SimDriverOptions) {
    const { seed, devices, memory = defaultMemory(devices), faultSeed = seed, ranges = new Ranges() } = options
    this.seed = seed
    this.#computeCapability =
      options.computeCapability ??
      parseComputeCapability(VARIABLES.simComputeCapability.read()) ??
      DEFAULT_COMPUTE_CAPABILITY
    const scheduler = options.scheduler ?? ((steps) => new TimedScheduler(steps, seed))
    this.machine = new Machine(scheduler, new FaultPlan(faultSeed))
    if (options.ranges === undefined) unreachable.register(this, { ranges, others: this.machine.others })
    this.#captures = new CaptureRules(this.machine.others)
    this.#registry = new Registry(this.machine, ranges, devices, memory)
    this.machine.devices = this.#registry.devices
    this.#waits = new HostWaits(this.machine, SimDriver.#allWaits)
    // The closure lets the machine keep its driver reachable: while work is pending, no other driver takes its handles.
    this.machine.onWork = () => this.#waits.wake()
    drivers.set(rangeOf(this.#registry.handles.base), new WeakRef(this))
    const takeAddresses = (byteLength: number): number => this.#takeAddresses(ranges, byteLength)
    this.pools = new SimPools(this.#registry)
    this.memory = new SimMemory(this.machine, this.#registry, this, this.pools, takeAddresses)
    this.sharing = new SimSharing(this.machine, this.#registry, this.memory, this.#captures)
    this.kernels = new SimKernels(this.memory, this, this.#registry, this.#captures, this.#waits, {
      seed,
      instructions: options.instructions ?? VARIABLES.simInstructions.read(),
      cores: VARIABLES.simCores.read() || availableCores(),
      setConditional: (condition, value) => this.machine.setCondition(condition, value),
      computeCapability: this.#computeCapability,
    })
    this.graphs = new SimGraphs(this.machine, this.#captures, this.#registry, this)
    this.libraries = new SimLibraries(this.kernels, this.#registry, this.#captures, this.#waits)
  }

  /** The waits of each simulator that is reachable. */
  static *#allWaits(): Generator<HostWaits> {
    for (const driver of new Set([...drivers.values()].map((each) => each.deref()))) {
      if (driver !== undefined) yield driver.#waits
    }
  }

  deviceCount(): number {
    return this.#registry.devices.length
  }

  deviceName(): string {
    return SIMULATED_NAME
  }

  deviceUuid(device: number): string {
    return simulatedUuid(device)
  }

  devicePciBusId(device: number): string {
    return simulatedPciBusId(device)
  }

  deviceAttribute(device: number, attribute: number): number {
    if (attribute === A.computeCapabilityMajor) return this.#computeCapability.major
    if (attribute === A.computeCapabilityMinor) return this.#computeCapability.minor
    const value = simulatedAttribute(attribute, device)
    if (value === undefined) throw cudaError('cuDeviceGetAttribute', CUresult.INVALID_VALUE)
    return value
  }

  deviceContext(device: number): ContextHandle {
    return this.#registry.device(device).context
  }

  streamPriorityRange(): { readonly least: number; readonly greatest: number } {
    return SIMULATED_PRIORITIES
  }

  deviceSynchronize(device: number): void {
    const target = this.#registry.entered(this.#registry.device(device), 'cuCtxSynchronize')
    this.#captures.refuseOnDevice(target, 'cuCtxSynchronize')
    this.#waits.blockFor(this.#allWork(target), 'device.synchronize()')
    this.#waitedFor(target)
    this.#registry.alive(target, 'cuCtxSynchronize')
  }

  deviceFinished(device: number, settle: Settle): Cancel {
    const target = this.#registry.alive(this.#registry.device(device), 'cuCtxRecordEvent')
    if (this.#captures.activeOn(target)) throw cudaError('cuCtxRecordEvent', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    return this.machine.notify(this.#allWork(target), settle)
  }

  deviceRecordInternal(handle: EventHandle, device: number): boolean {
    const target = this.#registry.alive(this.#registry.device(device), 'cuCtxRecordEvent')
    const event = this.#registry.event(handle, 'cuCtxRecordEvent')
    if (this.#captures.activeOn(target) || this.machine.others.capture) return false
    this.machine.recorded(event, this.#allWork(target))
    return true
  }

  contextCheck(context: ContextHandle): void {
    this.#registry.alive(this.#registry.contextDevice(context), 'cuEventQuery')
  }

  contextFault(context: ContextHandle): string | undefined {
    return this.#registry.contextDevice(context).faultReason
  }

  drainHostFunctions(): void {
    this.#waits.drainHostFunctions()
  }

  relaxed<R>(calls: () => R): R {
    return calls()
  }

  deviceSplit(ordinal: number, multiprocessors: readonly number[]): readonly GreenContextPart[] {
    const device = this.#registry.entered(this.#registry.device(ordinal), 'cuGreenCtxCreate')
    this.machine.scheduler.tick()
    this.#waits.exclusively(SPLITTING)
    const parts = simulatedSplit(multiprocessors)
    if (parts === undefined) {
      throw cudaError('cuDevSmResourceSplitByCount', CUresult.INVALID_RESOURCE_CONFIGURATION)
    }
    return parts.map((count) => this.#registry.addPartition(device, count))
  }

  greenContextDestroy(context: ContextHandle): void {
    const partition = this.#registry.partition(context)
    if (partition !== undefined) this.#registry.removePartition(partition)
  }

  streamCreate(context: ContextHandle, flags: number, priority: number): StreamHandle {
    const partition = this.#registry.partition(context)
    const call = partition === undefined ? 'cuStreamCreateWithPriority' : 'cuGreenCtxStreamCreate'
    const device = this.#registry.liveContextDevice(context, call)
    this.machine.scheduler.tick()
    const { least, greatest } = SIMULATED_PRIORITIES
    const clamped = Math.min(least, Math.max(greatest, priority))
    return this.#registry.addStream(device, (flags & StreamFlag.NON_BLOCKING) !== 0, clamped, partition).handle
  }

  streamDestroy(handle: StreamHandle): void {
    this.foreignStreamDestroy(handle)
    this.#registry.handles.remember('stream', handle)
  }

  /** Destroys a stream as another library would, without remembering its handle. */
  foreignStreamDestroy(handle: StreamHandle): void {
    const stream = this.#registry.stream(handle, 'cuStreamDestroy')
    this.#captures.streamDestroyed(stream)
    this.#escaped.forget(handle)
    this.#registry.removeStream(stream)
  }

  /** Leaves all that is pending as it is, forever: nothing settles, nothing runs, and nothing keeps the process alive. */
  abandon(): void {
    this.#waits.abandon()
  }

  /** Destroys every context: pending work is dropped, and all later use fails. */
  close(): void {
    if (this.#registry.devices.every((device) => device.fault === 0)) this.machine.break(CUresult.CONTEXT_IS_DESTROYED)
  }

  streamWrap(cudaHandle: number, near: number): WrappedStream {
    const isDefault = cudaHandle === 0 || cudaHandle === 1 || cudaHandle === 2
    const handle = isDefault ? defaultStream(near, cudaHandle) : (cudaHandle as StreamHandle)
    const stream = isDefault || !isDefaultStream(handle) ? this.#registry.peekStream(handle) : undefined
    if (stream === undefined) throw this.#registry.refusedHandle('stream', handle, 'cuStreamGetCtx')
    const { device, partition } = stream
    return { stream: handle, context: device.context, device: device.ordinal, green: partition }
  }

  streamWrapped(): Wrapper {
    return { isOpen: true }
  }

  streamEscaped(stream: StreamHandle): void {
    if (this.peek(stream) !== undefined) this.#escaped.add(stream)
  }

  isEscaped(stream: StreamHandle): boolean {
    return this.#escaped.has(stream)
  }

  streamReserve(handle: StreamHandle, entries: number): void {
    const stream = this.#registry.peekStream(handle)
    // A handle of no stream, with which CUDA crashes, is refused.
    if (stream === undefined) throw cudaError('cuStreamIsCapturing', CUresult.INVALID_HANDLE)
    this.#waits.reserve(stream, entries)
  }

  streamHasCapacity(handle: StreamHandle, entries: number): boolean {
    const stream = this.#registry.peekStream(handle)
    return stream === undefined || hasCapacity(stream, entries)
  }

  streamGetId(handle: StreamHandle): bigint {
    return this.#streamOutsideCaptures(handle, 'cuStreamGetId').id
  }

  streamGetFlags(handle: StreamHandle): number {
    return this.#streamOutsideCaptures(handle, 'cuStreamGetFlags').nonBlocking ? StreamFlag.NON_BLOCKING : 0
  }

  streamGetPriority(handle: StreamHandle): number {
    const stream = this.#registry.liveStream(handle, 'cuStreamGetPriority')
    if (stream.capture?.invalid) throw cudaError('cuStreamGetPriority', CUresult.STREAM_CAPTURE_INVALIDATED)
    return stream.priority
  }

  /** Does nothing, since no stream of the simulation is slower for the writes of another. */
  streamSetMemorySyncDomain(handle: StreamHandle): void {
    this.#registry.liveStream(handle, 'cuStreamSetAttribute')
  }

  streamIsCapturing(handle: StreamHandle): boolean {
    const stream = this.#registry.liveStream(handle, 'cuStreamIsCapturing')
    this.#captures.refuseToTell(stream, 'cuStreamIsCapturing')
    return stream.capture !== undefined
  }

  streamQuery(handle: StreamHandle): boolean {
    const stream = this.#registry.liveStream(handle, 'cuStreamQuery')
    this.#refuseLooking(stream, 'cuStreamQuery')
    this.machine.look(this.#tailsOf(stream))
    this.#registry.alive(stream.device, 'cuStreamQuery')
    return stream === stream.device.nullStream ? stream.device.blockingUnfinished === 0 : stream.unfinished === 0
  }

  streamSynchronize(handle: StreamHandle): void {
    const stream = this.#registry.liveStream(handle, 'cuStreamSynchronize')
    this.#refuseLooking(stream, 'cuStreamSynchronize')
    this.#waits.blockFor(this.machine.marker(stream, this.#tailsOf(stream)), 'stream.synchronize()')
    this.#waitedFor(stream.device, stream === stream.device.nullStream ? undefined : stream)
    this.#registry.alive(stream.device, 'cuStreamSynchronize')
  }

  streamWaitEvent(handle: StreamHandle, eventHandle: EventHandle, external: ExternalFlag): void {
    const stream = this.#registry.liveStream(handle, 'cuStreamWaitEvent')
    const event = this.#registry.event(eventHandle, 'cuStreamWaitEvent')
    if (stream.capture !== undefined && external !== 0) {
      this.#captures.waitExternal(stream, stream.capture, event)
    } else this.#wait(stream, event)
  }

  streamWaitStream(handle: StreamHandle, otherHandle: StreamHandle): void {
    const other = this.#registry.liveStream(otherHandle, 'cuEventRecord')
    const between = new SimEvent(other.device, 0 as EventHandle, EventFlag.DISABLE_TIMING)
    this.#record(between, other, 0)
    this.#wait(this.#registry.liveStream(handle, 'cuStreamWaitEvent'), between)
  }

  streamBlockedBy(handle: StreamHandle): string | undefined {
    const stream = this.#registry.peekStream(handle)
    return stream === undefined ? undefined : this.#blockedBy(this.#tailsOf(stream))
  }

  streamFinished(handle: StreamHandle, _context: ContextHandle, settle: Settle): Cancel {
    const stream = this.#registry.liveStream(handle, 'cuEventRecord')
    if (stream.capture !== undefined) throw cudaError('cuStreamQuery', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    this.#captures.refuseToTell(stream, 'cuStreamIsCapturing')
    // A record on the null stream is work: what blocking streams are given later comes after it.
    const isWork = stream === stream.device.nullStream
    const record = isWork
      ? this.machine.enqueueRecord(stream)
      : this.machine.marker(stream, this.#recordedAfter(stream))
    return this.machine.notify(record, settle)
  }

  queue(work: QueuedWork): void {
    switch (work.kind) {
      case 'kernel':
        this.kernels.launch(work)
        break
      case 'copy':
        this.memory.copy(work, work.stream)
        break
      case 'copies':
        for (const each of work.copies) this.memory.copy(each, work.stream)
        break
      case 'fill':
        this.memory.fill(work)
        break
      case 'hostFunction':
        this.#launchHostFunction(work)
        break
      case 'graph':
        this.graphs.launch(work)
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
        this.memory.waitForValue(work)
        break
      case 'writeValue':
        this.memory.writeValue(work)
        break
      case 'graphUpload':
        this.graphs.upload(work)
        break
      case 'childGraph':
        this.graphs.addGraph(work)
        break
      case 'promise':
        this.#waitForPromise(work)
        break
      default:
        work satisfies never
    }
  }

  #launchHostFunction({ stream: handle, call: host }: QueuedHostFunction): void {
    const call = host.runsAfterFault ? 'cuStreamAddCallback' : 'cuLaunchHostFunc'
    const stream = this.#registry.liveStream(handle, call)
    if (stream.capture !== undefined) {
      if (host.runsAfterFault) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
      this.#captures.add(stream, stream.capture, call, { kind: 'host', host })
      return
    }
    this.#captures.refuseToTell(stream, 'cuStreamIsCapturing')
    this.machine.enqueueHostFunction(stream, host)
  }

  #waitForPromise(work: QueuedPromiseWait): void {
    const stream = this.#registry.liveStream(work.stream, 'cuStreamBatchMemOp')
    this.#captures.refuseToTell(stream, 'cuStreamIsCapturing')
    const wait = this.machine.enqueueHold(stream, shortCallSite(work.called))
    work.release = () => this.machine.open(wait)
  }

  eventCreate(context: ContextHandle, flags: number): EventHandle {
    const device = this.#registry.liveContextDevice(context, 'cuEventCreate')
    return this.#registry.addEvent(device, flags).handle
  }

  eventDestroy(handle: EventHandle): void {
    this.sharing.eventDestroyed(handle)
    this.#registry.destroyEvent(handle)
  }

  eventRecycle(_context: ContextHandle, handle: EventHandle): void {
    this.#registry.destroyEvent(handle)
  }

  eventWrap(handle: EventHandle): { readonly context: ContextHandle; readonly device: number } {
    const event = this.#registry.peekEvent(handle)
    if (event !== undefined) return { context: event.device.context, device: event.device.ordinal }
    throw this.#registry.refusedHandle('event', handle, 'cuEventQuery')
  }

  eventRecord(eventHandle: EventHandle, handle: StreamHandle, external: ExternalFlag): void {
    const stream = this.#registry.liveStream(handle, 'cuEventRecord')
    const event = this.#registry.event(eventHandle, 'cuEventRecord')
    if (event.device !== stream.device) throw cudaError('cuEventRecord', CUresult.INVALID_HANDLE)
    this.#record(event, stream, external)
  }

  eventRecordInternal(event: EventHandle, stream: StreamHandle): void {
    this.eventRecord(event, stream, 0)
  }

  eventQuery(handle: EventHandle): boolean {
    const event = this.#liveEvent(handle, 'cuEventQuery')
    this.machine.look([event.record])
    this.#registry.alive(event.device, 'cuEventQuery')
    return event.record === undefined || event.record.over
  }

  eventSynchronize(handle: EventHandle): void {
    const event = this.#liveEvent(handle, 'cuEventSynchronize')
    const { record } = event
    if (record !== undefined) {
      this.#waits.blockFor(record, 'event.synchronize()')
      this.#waitedFor(event.device, record.stream)
    }
    this.#registry.alive(event.device, 'cuEventSynchronize')
  }

  eventBlockedBy(handle: EventHandle): string | undefined {
    return this.#blockedBy([this.#registry.peekEvent(handle)?.record])
  }

  eventFinished(handle: EventHandle, settle: Settle): Cancel {
    const event = this.#registry.event(handle, 'cuEventQuery')
    this.#registry.alive(event.device, 'cuEventQuery')
    this.#captures.refuseCapturedEvent(event, 'cuEventQuery')
    return this.machine.notify(this.machine.marker(event.device.nullStream, [event.record]), settle)
  }

  eventElapsedTime(startHandle: EventHandle, endHandle: EventHandle): number {
    const call = 'cuEventElapsedTime'
    const start = this.#registry.event(startHandle, call)
    const end = this.#registry.event(endHandle, call)
    this.#registry.alive(start.device, call)
    this.#registry.alive(end.device, call)
    const [from, to] = [this.#timedRecord(start, call), this.#timedRecord(end, call)]
    if (start.device !== end.device) throw cudaError(call, CUresult.INVALID_HANDLE)
    this.machine.look([from, to])
    if (!from.over || !to.over) throw cudaError(call, CUresult.NOT_READY)
    return (to.time - from.time) / 1e6
  }

  eventGetIpcHandle(handle: EventHandle): OwnBytes {
    return this.sharing.exportEvent(handle)
  }

  eventOpenIpcHandle(context: ContextHandle, bytes: Uint8Array): EventHandle {
    return this.sharing.importEvent(context, bytes)
  }

  /**
   * Queues an operation.
   * @param amount The virtual nanoseconds that it takes; for a fault, the CUresult that it ends in
   */
  enqueue(
    handle: StreamHandle,
    kind: SimOperationKind,
    amount: number,
    call = 'cuLaunchKernelEx',
    work?: Work,
  ): SimOperation {
    const stream = this.#registry.liveStream(handle, call)
    const fails = kind === SimOperationKind.FAULT ? amount : 0
    if (stream.capture !== undefined) {
      this.#captures.add(stream, stream.capture, call, capturedWork(stream, call, kind, amount, work, fails))
      return this.machine.marker(stream, [])
    }
    this.#captures.refuseImplicit(stream, call)
    return this.machine.enqueue(stream, kind, amount, work, fails)
  }

  enqueueBeside(...[handle, after, call, work, whenOver]: Parameters<WorkQueue['enqueueBeside']>): void {
    const stream = this.#streamOutsideCaptures(handle, call)
    const { device } = stream
    this.#captures.refuseImplicit(stream, call)
    const before = stream === device.nullStream ? this.machine.nullStreamTails(device) : this.#recordedAfter(stream)
    this.machine.marker(stream, [...before, ...after], work, whenOver)
  }

  /** The stream behind a handle; the lookup takes no virtual time. */
  peek(handle: StreamHandle): SimStream | undefined {
    return this.#registry.peekStream(handle)
  }

  /** The numbers of objects and bytes, for tests that look for leaks. */
  get counts(): { readonly streams: number; readonly events: number; readonly bytes: number } {
    return { ...this.#registry.counts, bytes: this.memory.bytesUsed }
  }

  /** Notes that the host has waited for all work of the stream, or of the device: pools give back what they need not keep. */
  #waitedFor(device: SimDevice, stream?: SimStream): void {
    for (const pool of device.pools.all) pool.waitedFor(stream)
  }

  #takeAddresses(ranges: Ranges, byteLength: number): number {
    const { base, numbers } = ranges.take(byteLength)
    for (const range of numbers) drivers.set(range, new WeakRef(this))
    return base
  }

  /** An operation that is over once all work of the device is over, that of other threads too. */
  #allWork(device: SimDevice): SimOperation {
    const { machine } = this
    const tails = [...device.tails()]
    if (!machine.others.isEmpty) {
      const mayBegin = (): boolean => !machine.others.capture
      if (!mayBegin()) tails.push(machine.otherThreadsWork(device, mayBegin))
      for (const isDone of machine.others.work()) tails.push(machine.otherThreadsWork(device, isDone))
    }
    return machine.marker(device.nullStream, tails)
  }

  /** The operations that have to be over for all the stream's work to be over. */
  #tailsOf(stream: SimStream): readonly (SimOperation | undefined)[] {
    return stream === stream.device.nullStream ? [...this.machine.nullStreamTails(stream.device)] : [stream.tail]
  }

  #blockedBy(operations: readonly (SimOperation | undefined)[]): string | undefined {
    const [held] = operations.flatMap((each) => (each === undefined ? [] : (this.machine.holdsUp(each) ?? [])))
    return held === undefined ? undefined : describeOperation(held)
  }

  #record(event: SimEvent, stream: SimStream, external: ExternalFlag): void {
    const { capture } = stream
    if (capture !== undefined) {
      if (external === 0) this.#captures.record(event, stream, capture)
      else this.#captures.add(stream, capture, 'cuEventRecordWithFlags', { kind: 'eventRecord', event })
      return
    }
    this.#captures.refuseImplicit(stream, 'cuEventRecord')
    this.machine.recorded(event, this.#recordOperation(stream, event))
  }

  /** The operations that a record comes after which is no work, as one without timing is. */
  #recordedAfter(stream: SimStream): Iterable<SimOperation | undefined> {
    return stream.nonBlocking ? [stream.tail] : [stream.tail, stream.device.nullStream.tail]
  }

  /**
   * Makes the record of an event. One of a plain event on a blocking stream comes after the null stream's work, and yet the stream is no busier by
   * it: a query of an idle one is true. One of an interprocess event comes after the event's record before, on whatever stream.
   */
  #recordOperation(stream: SimStream, { flags, record }: SimEvent): SimOperation {
    if ((flags & EventFlag.INTERPROCESS) !== 0) return this.machine.enqueueRecord(stream, record)
    if (isRecordWork(flags) || stream.nonBlocking || stream === stream.device.nullStream)
      return this.machine.enqueueRecord(stream)
    return this.machine.recordBeside(stream, this.#recordedAfter(stream))
  }

  #wait(stream: SimStream, event: SimEvent): void {
    if (stream.capture !== undefined || event.captured !== undefined) {
      this.#captures.wait(stream, event)
      return
    }
    this.#captures.refuseImplicit(stream, 'cuStreamWaitEvent')
    if (event.record !== undefined) this.machine.enqueueWait(stream, event.record)
  }

  #streamOutsideCaptures(handle: StreamHandle, call: string): SimStream {
    const stream = this.#registry.liveStream(handle, call)
    if (stream.capture !== undefined) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
    return stream
  }

  #liveEvent(handle: EventHandle, call: string): SimEvent {
    const event = this.#registry.event(handle, call)
    this.#registry.entered(event.device, call)
    if (event.captured !== undefined) this.#captures.refuseLookAt(event, call)
    this.#captures.refuseUnsafe(call)
    return event
  }

  #timedRecord(event: SimEvent, call: string): SimOperation {
    this.#captures.refuseCapturedEvent(event, call)
    const { record, flags } = event
    if (record === undefined || (flags & EventFlag.DISABLE_TIMING) !== 0) throw cudaError(call, CUresult.INVALID_HANDLE)
    return record
  }

  #refuseLooking(stream: SimStream, call: string): void {
    if (!this.#captures.active) return
    this.#captures.refuseImplicit(stream, call)
    this.#captures.refuseOn(stream, call)
    this.#captures.refuseUnsafe(call)
  }
}

function capturedWork(
  { device, partition }: SimStream,
  call: string,
  operation: SimOperationKind,
  nanoseconds: number,
  work: Work | undefined,
  fails: number,
): SimNodeWork {
  if (operation !== SimOperationKind.LATCH || work !== undefined)
    return { kind: 'work', call, operation, nanoseconds, work, fails, device, partition }
  throw stateError(
    'ERR_UNSUPPORTED',
    'A latch cannot be captured: it is opened once, and a graph is launched many times',
  )
}
