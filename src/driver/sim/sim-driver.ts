/**
 * The simulated GPU behind the Driver interface: handles to objects, the driver's refusals, and waiting. What runs when
 * is the machine's business; what a capture allows is capture-rules.ts.
 */
import { stateError } from '../../errors.js'
import { CUresult, cudaError, isContextLost } from '../cuda-results.js'
import {
  type AdoptedStream,
  type Cancel,
  type ContextHandle,
  type Driver,
  defaultStream,
  EventFlag,
  type EventHandle,
  type ExternalFlag,
  type HostFunction,
  isDefaultStream,
  type Settle,
  StreamFlag,
  type StreamHandle,
} from '../driver.js'
import { closedHandle, refusedHandle } from '../handle-errors.js'
import { LoopPump, type TurnResult } from '../loop-pump.js'
import { CaptureRules } from './capture-rules.js'
import { FaultPlan } from './fault-plan.js'
import { Handles, Ranges, rangeOf } from './handles.js'
import { Machine } from './machine.js'
import { type NodeWork, type Operation, OperationKind, SimDevice, SimEvent, SimStream, type Work } from './objects.js'
import { park } from './park.js'
import { SIMULATED_ATTRIBUTES, SIMULATED_NAME, SIMULATED_PRIORITIES, simulatedUuid } from './properties.js'
import type { Scheduler, Steps } from './scheduler.js'
import { SimGraphs } from './sim-graphs.js'
import { SimKernels } from './sim-kernels.js'
import { SimLibraries } from './sim-libraries.js'
import { SimMemory } from './sim-memory.js'
import { SimSharing } from './sim-sharing.js'
import { TimedScheduler } from './timed-scheduler.js'

/** Launches that a stream accepts before the driver blocks the caller: measured on an H200. */
const QUEUE_ENTRIES = 1020

export interface SimDriverOptions {
  readonly devices: number
  /** Of the allowed orders; 0 is the natural one. */
  readonly seed: number
  /** Picks the faults that are random. Default: the seed. */
  readonly faultSeed?: number
  /** In the place of virtual time, and of the seed. */
  readonly scheduler?: (steps: Steps) => Scheduler
  /** Where its handles and addresses lie, for whoever runs one simulation after the other there. */
  readonly ranges?: Ranges
}

const drivers = new Map<number, WeakRef<SimDriver>>()

/** What a simulation's handles and addresses lay in is another one's when nobody can reach it any more. */
const unreachable = new FinalizationRegistry((ranges: Ranges) => ranges.giveBack())

/** The simulator whose handle this is, if it is that of any. */
export function simulatorOfHandle(handle: number): SimDriver | undefined {
  return drivers.get(rangeOf(handle))?.deref()
}

export class SimDriver implements Driver {
  readonly name = 'sim'
  readonly graphs: SimGraphs
  readonly kernels: SimKernels
  readonly libraries: SimLibraries
  readonly memory: SimMemory
  readonly sharing: SimSharing
  readonly machine: Machine
  readonly seed: number
  readonly #devices: readonly SimDevice[]
  readonly #handles: Handles
  readonly #streams = new Map<StreamHandle, SimStream>()
  readonly #events = new Map<EventHandle, SimEvent>()
  readonly #contexts = new Map<ContextHandle, SimDevice>()
  readonly #captures = new CaptureRules()
  readonly #pump: LoopPump
  #nextId = 0n
  #abandoned = false

  constructor(options: SimDriverOptions) {
    const { seed, ranges = new Ranges() } = options
    this.seed = seed
    this.#handles = new Handles(ranges)
    if (options.ranges === undefined) unreachable.register(this, ranges)
    const scheduler = options.scheduler ?? ((steps) => new TimedScheduler(steps, seed))
    this.machine = new Machine(scheduler, new FaultPlan(options.faultSeed ?? seed))
    this.#devices = Array.from({ length: options.devices }, (_, ordinal) => this.#makeDevice(ordinal))
    this.machine.devices = this.#devices
    this.#pump = new LoopPump(
      () => this.#turn(),
      park(),
      () => this.#pending > 0,
    )
    this.graphs = new SimGraphs(this.machine, this.#captures, this.#handles, {
      stream: (handle, call) => this.#liveStream(handle, call),
      reserve: (stream) => this.#reserve(stream),
    })
    drivers.set(rangeOf(this.#handles.base), new WeakRef(this))
    this.machine.onWork = () => this.#pump.wake()
    this.memory = new SimMemory({
      machine: this.machine,
      stream: (handle, call) => this.#liveStream(handle, call),
      device: (context, call) => this.#entered(this.#contextDevice(context), call),
      event: (event) => this.#events.get(event),
      recycle: ({ context, event }) => this.eventRecycle(context, event),
      enqueue: (handle, kind, amount, call, work) => this.enqueue(handle, kind, amount, call, work),
      takeAddresses: (byteLength) => this.#takeAddresses(ranges, byteLength),
    })
    this.sharing = new SimSharing(this.memory)
    this.kernels = new SimKernels(this.memory, (...work) => this.enqueue(...work))
    this.libraries = new SimLibraries(this.kernels)
  }

  deviceCount(): number {
    return this.#devices.length
  }

  deviceName(): string {
    return SIMULATED_NAME
  }

  deviceUuid(device: number): string {
    return simulatedUuid(device)
  }

  deviceAttribute(_device: number, attribute: number): number {
    const value = SIMULATED_ATTRIBUTES[attribute]
    if (value === undefined) throw cudaError('cuDeviceGetAttribute', CUresult.INVALID_VALUE)
    return value
  }

  deviceContext(device: number): ContextHandle {
    return this.#device(device).context
  }

  streamPriorityRange(): { readonly least: number; readonly greatest: number } {
    return SIMULATED_PRIORITIES
  }

  deviceSynchronize(device: number): void {
    const target = this.#entered(this.#device(device), 'cuCtxSynchronize')
    this.#captures.refuseOnDevice(target, 'cuCtxSynchronize')
    this.#blockFor(this.machine.marker(target.nullStream, target.tails()), 'device.synchronize()')
    this.#alive(target, 'cuCtxSynchronize')
  }

  deviceFinished(device: number, settle: Settle): Cancel {
    const target = this.#alive(this.#device(device), 'cuCtxRecordEvent')
    this.#captures.refuseOnDevice(target, 'cuCtxRecordEvent')
    return this.machine.notify(this.machine.marker(target.nullStream, target.tails()), settle)
  }

  drainHostFunctions(): void {
    const what = 'device.drainHostFunctions()'
    if (this.machine.insideHostFunction) {
      throw stateError('ERR_DEADLOCK', `${what} would wait for ever: ${this.#whyStuck()}`)
    }
    this.#block(() => this.machine.hostFunctionsPending === 0, what)
  }

  streamCreate(context: ContextHandle, flags: number, priority: number): StreamHandle {
    const device = this.#entered(this.#contextDevice(context), 'cuStreamCreateWithPriority')
    this.machine.scheduler.tick()
    const { least, greatest } = SIMULATED_PRIORITIES
    const clamped = Math.min(least, Math.max(greatest, priority))
    const handle = this.#handles.take('stream') as StreamHandle
    const stream = new SimStream(device, handle, this.#newId(), (flags & StreamFlag.NON_BLOCKING) !== 0, clamped)
    this.#streams.set(handle, stream)
    return handle
  }

  streamDestroy(handle: StreamHandle): void {
    this.foreignStreamDestroy(handle)
    this.#handles.remember('stream', handle)
  }

  /** Destroys a stream without the memory that it was this library's. */
  foreignStreamDestroy(handle: StreamHandle): void {
    const stream = this.#stream(handle, 'cuStreamDestroy')
    this.#captures.streamDestroyed(stream)
    this.#streams.delete(handle)
    stream.destroyed = true
    if (stream.unfinished === 0) stream.device.forget(stream)
    this.#handles.giveBack('stream', handle)
  }

  /** Lets all that is pending be, for ever: nothing settles, nothing runs, and nothing keeps the process alive. */
  abandon(): void {
    this.#abandoned = true
    this.#pump.wake()
  }

  /** Destroys every context: what is pending is dropped, and all later use fails. */
  close(): void {
    if (this.#devices.every((device) => device.fault === 0)) this.machine.break(CUresult.CONTEXT_IS_DESTROYED)
  }

  streamAdopt(cudaHandle: number, near: number): AdoptedStream {
    const isDefault = cudaHandle === 0 || cudaHandle === 1 || cudaHandle === 2
    const handle = isDefault ? defaultStream(near, cudaHandle) : (cudaHandle as StreamHandle)
    const stream = isDefault || !isDefaultStream(handle) ? this.#streams.get(handle) : undefined
    if (stream === undefined) throw this.#refusedHandle('stream', handle, 'cuStreamGetCtx')
    return { stream: handle, context: stream.device.context, device: stream.device.ordinal }
  }

  streamGetId(handle: StreamHandle): bigint {
    const stream = this.#liveStream(handle, 'cuStreamGetId')
    if (stream.capture !== undefined) throw cudaError('cuStreamGetId', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    return stream.id
  }

  streamGetFlags(handle: StreamHandle): number {
    const stream = this.#liveStream(handle, 'cuStreamGetFlags')
    if (stream.capture !== undefined) throw cudaError('cuStreamGetFlags', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    return stream.nonBlocking ? StreamFlag.NON_BLOCKING : 0
  }

  streamGetPriority(handle: StreamHandle): number {
    const stream = this.#liveStream(handle, 'cuStreamGetPriority')
    if (this.#captures.implicitOf(stream) !== undefined) {
      throw cudaError('cuStreamGetPriority', CUresult.STREAM_CAPTURE_IMPLICIT)
    }
    if (stream.capture?.invalid) throw cudaError('cuStreamGetPriority', CUresult.STREAM_CAPTURE_INVALIDATED)
    return stream.priority
  }

  streamIsCapturing(handle: StreamHandle): boolean {
    const stream = this.#liveStream(handle, 'cuStreamIsCapturing')
    if (this.#captures.implicitOf(stream) !== undefined) {
      throw cudaError('cuStreamIsCapturing', CUresult.STREAM_CAPTURE_IMPLICIT)
    }
    return stream.capture !== undefined
  }

  streamQuery(handle: StreamHandle): boolean {
    const stream = this.#liveStream(handle, 'cuStreamQuery')
    this.#refuseLooking(stream, 'cuStreamQuery')
    const isNull = stream === stream.device.nullStream
    const tails = isNull ? [...this.machine.nullStreamTails(stream.device)] : [stream.tail]
    this.machine.scheduler.look({ operations: tails })
    this.#alive(stream.device, 'cuStreamQuery')
    return isNull ? stream.device.blockingUnfinished === 0 : stream.unfinished === 0
  }

  streamSynchronize(handle: StreamHandle): void {
    const stream = this.#liveStream(handle, 'cuStreamSynchronize')
    this.#refuseLooking(stream, 'cuStreamSynchronize')
    const isNull = stream === stream.device.nullStream
    const last = isNull
      ? this.machine.marker(stream, this.machine.nullStreamTails(stream.device))
      : this.machine.marker(stream, [stream.tail])
    this.#blockFor(last, 'stream.synchronize()')
    this.#alive(stream.device, 'cuStreamSynchronize')
  }

  streamWaitEvent(handle: StreamHandle, eventHandle: EventHandle, external: ExternalFlag): void {
    const stream = this.#liveStream(handle, 'cuStreamWaitEvent')
    const event = this.#event(eventHandle, 'cuStreamWaitEvent')
    if (stream.capture !== undefined && external !== 0) {
      this.#captures.waitExternal(stream, stream.capture, event)
    } else this.#wait(stream, event)
  }

  streamWaitStream(handle: StreamHandle, otherHandle: StreamHandle): void {
    const other = this.#liveStream(otherHandle, 'cuEventRecord')
    const between = new SimEvent(other.device, 0 as EventHandle, EventFlag.DISABLE_TIMING)
    this.#record(between, other, 0)
    this.#wait(this.#liveStream(handle, 'cuStreamWaitEvent'), between)
  }

  streamFinished(handle: StreamHandle, _context: ContextHandle, settle: Settle): Cancel {
    const stream = this.#liveStream(handle, 'cuEventRecord')
    if (stream.capture !== undefined) throw cudaError('cuStreamQuery', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    if (this.#captures.implicitOf(stream) !== undefined) {
      throw cudaError('cuStreamIsCapturing', CUresult.STREAM_CAPTURE_IMPLICIT)
    }
    const isNull = stream === stream.device.nullStream
    const tails = isNull ? this.machine.nullStreamTails(stream.device) : [stream.tail]
    return this.machine.notify(this.machine.marker(stream, tails), settle)
  }

  streamLaunchHostFunction(handle: StreamHandle, _context: ContextHandle, host: HostFunction): void {
    const call = host.runsAfterFault ? 'cuStreamAddCallback' : 'cuLaunchHostFunc'
    const stream = this.#liveStream(handle, call)
    if (stream.capture !== undefined) {
      if (host.runsAfterFault) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
      this.#captures.add(stream, stream.capture, call, { kind: 'host', host })
      return
    }
    if (this.#captures.implicitOf(stream) !== undefined) {
      throw cudaError('cuStreamIsCapturing', CUresult.STREAM_CAPTURE_IMPLICIT)
    }
    this.#reserve(stream)
    this.machine.enqueueHostFunction(stream, host)
  }

  eventCreate(context: ContextHandle, flags: number): EventHandle {
    const device = this.#entered(this.#contextDevice(context), 'cuEventCreate')
    const handle = this.#handles.take('event') as EventHandle
    this.#events.set(handle, new SimEvent(device, handle, flags))
    return handle
  }

  eventDestroy(handle: EventHandle): void {
    this.#event(handle, 'cuEventDestroy')
    this.#events.delete(handle)
    this.#handles.giveBack('event', handle)
    this.#handles.remember('event', handle)
  }

  eventRecycle(_context: ContextHandle, handle: EventHandle): void {
    this.eventDestroy(handle)
  }

  eventAdopt(handle: EventHandle): { readonly context: ContextHandle; readonly device: number } {
    const event = this.#events.get(handle)
    if (event !== undefined) return { context: event.device.context, device: event.device.ordinal }
    throw this.#refusedHandle('event', handle, 'cuEventQuery')
  }

  eventRecord(eventHandle: EventHandle, handle: StreamHandle, external: ExternalFlag): void {
    const stream = this.#liveStream(handle, 'cuEventRecord')
    const event = this.#event(eventHandle, 'cuEventRecord')
    if (event.device !== stream.device) throw cudaError('cuEventRecord', CUresult.INVALID_HANDLE)
    this.#record(event, stream, external)
  }

  eventQuery(handle: EventHandle): boolean {
    const event = this.#liveEvent(handle, 'cuEventQuery')
    this.machine.scheduler.look({ operations: [event.record] })
    this.#alive(event.device, 'cuEventQuery')
    return event.record === undefined || event.record.over
  }

  eventSynchronize(handle: EventHandle): void {
    const event = this.#liveEvent(handle, 'cuEventSynchronize')
    const { record } = event
    if (record !== undefined) this.#blockFor(record, 'event.synchronize()')
    this.#alive(event.device, 'cuEventSynchronize')
  }

  eventFinished(handle: EventHandle, settle: Settle): Cancel {
    const event = this.#event(handle, 'cuEventQuery')
    this.#alive(event.device, 'cuEventQuery')
    if (event.captured !== undefined) {
      const { over, invalid } = event.captured.capture
      throw cudaError('cuEventQuery', over || invalid ? CUresult.INVALID_VALUE : CUresult.CAPTURED_EVENT)
    }
    return this.machine.notify(this.machine.marker(event.device.nullStream, [event.record]), settle)
  }

  eventElapsedTime(startHandle: EventHandle, endHandle: EventHandle): number {
    const call = 'cuEventElapsedTime'
    const start = this.#event(startHandle, call)
    const end = this.#event(endHandle, call)
    this.#alive(start.device, call)
    this.#alive(end.device, call)
    const [from, to] = [timedRecord(start, call), timedRecord(end, call)]
    if (start.device !== end.device) throw cudaError(call, CUresult.INVALID_HANDLE)
    this.machine.scheduler.look({ operations: [from, to] })
    if (!from.over || !to.over) throw cudaError(call, CUresult.NOT_READY)
    return (to.time - from.time) / 1e6
  }

  eventGetIpcHandle(): Uint8Array {
    throw stateError(
      'ERR_UNSUPPORTED',
      'The simulator has no other process to share an event with; use the cuda driver',
    )
  }

  eventOpenIpcHandle(): EventHandle {
    throw stateError('ERR_UNSUPPORTED', 'The simulator has no other process to take an event from; use the cuda driver')
  }

  /** Queues work of a stated length, a latch, a fault, and what touches memory. */
  enqueue(handle: StreamHandle, kind: OperationKind, amount: number, call = 'cuLaunchKernel', work?: Work): Operation {
    const stream = this.#liveStream(handle, call)
    const fails = kind === OperationKind.FAULT ? amount : 0
    if (stream.capture !== undefined) {
      this.#captures.add(stream, stream.capture, call, capturedWork(call, kind, amount, work, fails))
      return this.machine.marker(stream, [])
    }
    this.#captures.refuseImplicit(stream, call)
    if (kind !== OperationKind.INSTANT) this.#reserve(stream)
    return this.machine.enqueue(stream, kind, amount, work, fails)
  }

  /** What is behind a handle; to look takes no virtual time. */
  peek(handle: StreamHandle): SimStream | undefined {
    return this.#streams.get(handle)
  }

  #makeDevice(ordinal: number): SimDevice {
    const context = this.#handles.take('context') as ContextHandle
    const device = new SimDevice(ordinal, context, this.#newId())
    this.#newId()
    this.#contexts.set(context, device)
    this.#streams.set(defaultStream(ordinal, 0), device.nullStream)
    this.#streams.set(defaultStream(ordinal, 1), device.nullStream)
    this.#streams.set(defaultStream(ordinal, 2), device.perThread)
    return device
  }

  #takeAddresses(ranges: Ranges, byteLength: number): number {
    const { base, numbers } = ranges.take(byteLength)
    for (const range of numbers) drivers.set(range, new WeakRef(this))
    return base
  }

  #newId(): bigint {
    this.#nextId += 1n
    return this.#nextId
  }

  #record(event: SimEvent, stream: SimStream, external: ExternalFlag): void {
    if (stream.capture !== undefined && external === 0) {
      this.#captures.record(event, stream, stream.capture)
      return
    }
    if (stream.capture !== undefined) {
      this.#captures.add(stream, stream.capture, 'cuEventRecordWithFlags', { kind: 'eventRecord', event })
      return
    }
    this.#captures.refuseImplicit(stream, 'cuEventRecord')
    event.captured = undefined
    event.record = this.#recordOperation(stream, (event.flags & EventFlag.DISABLE_TIMING) === 0)
  }

  /**
   * A record without timing on a blocking stream comes after the null stream's work, and yet the stream is no busier by it:
   * on an idle one a query is true. One with timing is work.
   */
  #recordOperation(stream: SimStream, timing: boolean): Operation {
    const { nullStream } = stream.device
    if (timing || stream.nonBlocking || stream === nullStream) return this.machine.enqueueMark(stream)
    return this.machine.marker(stream, [stream.tail, nullStream.tail])
  }

  #wait(stream: SimStream, event: SimEvent): void {
    if (stream.capture !== undefined || event.captured !== undefined) {
      this.#captures.wait(stream, event)
      return
    }
    this.#captures.refuseImplicit(stream, 'cuStreamWaitEvent')
    if (event.record === undefined) return
    this.machine.enqueueMark(stream, [event.record])
  }

  get #pending(): number {
    return this.#abandoned ? 0 : this.machine.waitsPending + this.machine.hostFunctionsPending
  }

  #turn(): TurnResult {
    if (this.#abandoned) return 'idle'
    if (this.machine.scheduler.turn()) return 'soon'
    return this.#pending > 0 ? 'later' : 'idle'
  }

  /** Waits as a driver does for room in the stream's hardware queue. */
  #reserve(stream: SimStream): void {
    if (stream.entries >= QUEUE_ENTRIES) this.#block(() => stream.entries < QUEUE_ENTRIES, 'queuing more work')
  }

  #blockFor(last: Operation, what: string): void {
    this.#block(() => last.over, what, last)
  }

  #block(isOver: () => boolean, what: string, last?: Operation): void {
    if (this.machine.scheduler.block(isOver, last)) return
    throw stateError('ERR_DEADLOCK', `${what} would wait for ever: ${this.#whyStuck()}`)
  }

  #whyStuck(): string {
    if (this.machine.insideHostFunction) {
      return 'it was called inside a host function, and what it waits for comes after that host function. Return first, or await the finished() of it'
    }
    return `nothing runs any more, and ${this.machine.latchesStanding} latch(es) stand. Open the latch first, or await the finished() of it`
  }

  #device(ordinal: number): SimDevice {
    const device = this.#devices[ordinal]
    if (device === undefined) throw cudaError('cuDeviceGet', 101)
    return device
  }

  #contextDevice(context: ContextHandle): SimDevice {
    const device = this.#contexts.get(context)
    if (device === undefined) throw cudaError('cuCtxSetCurrent', CUresult.INVALID_CONTEXT)
    return device
  }

  #stream(handle: StreamHandle, call: string): SimStream {
    this.machine.scheduler.tick()
    const stream = this.#streams.get(handle)
    if (stream === undefined) throw cudaError(call, CUresult.INVALID_HANDLE)
    return stream
  }

  #liveStream(handle: StreamHandle, call: string): SimStream {
    const stream = this.#stream(handle, call)
    if (stream.device.fault !== 0) throw cudaError(call, stream.device.fault)
    this.#failOnRequest(call)
    return stream
  }

  #event(handle: EventHandle, call: string): SimEvent {
    this.machine.scheduler.tick()
    const event = this.#events.get(handle)
    if (event === undefined) throw cudaError(call, CUresult.INVALID_HANDLE)
    return event
  }

  #liveEvent(handle: EventHandle, call: string): SimEvent {
    const event = this.#event(handle, call)
    this.#entered(event.device, call)
    if (event.captured !== undefined) this.#captures.refuseCapturedEvent(event, call)
    this.#captures.refuseUnsafe(call)
    return event
  }

  #alive(device: SimDevice, call: string): SimDevice {
    if (device.fault !== 0) throw cudaError(call, device.fault)
    return device
  }

  /** As `alive`, at the beginning of a call. */
  #entered(device: SimDevice, call: string): SimDevice {
    this.#alive(device, call)
    this.#failOnRequest(call)
    return device
  }

  /** Where somebody asked for it: a simulation without faults pays one look. */
  #failOnRequest(call: string): void {
    const { faults } = this.machine
    const result = faults.empty ? 0 : faults.ofCall(call)
    if (result === 0) return
    if (isContextLost(result)) this.machine.break(result)
    throw cudaError(call, result)
  }

  #refuseLooking(stream: SimStream, call: string): void {
    if (!this.#captures.active) return
    this.#captures.refuseImplicit(stream, call)
    this.#captures.refuseOn(stream, call)
    this.#captures.refuseUnsafe(call)
  }

  #refusedHandle(kind: 'stream' | 'event', handle: number, call: string): Error {
    if (this.#handles.remembers(kind, handle)) return closedHandle(kind, handle)
    return refusedHandle(kind, handle, cudaError(call, CUresult.INVALID_HANDLE))
  }
}

function timedRecord({ record, captured, flags }: SimEvent, call: string): Operation {
  if (captured !== undefined) {
    const { over, invalid } = captured.capture
    throw cudaError(call, over || invalid ? CUresult.INVALID_VALUE : CUresult.CAPTURED_EVENT)
  }
  if (record === undefined || (flags & EventFlag.DISABLE_TIMING) !== 0) throw cudaError(call, CUresult.INVALID_HANDLE)
  return record
}

function capturedWork(
  call: string,
  operation: OperationKind,
  amount: number,
  work: Work | undefined,
  fails: number,
): NodeWork {
  if (operation !== OperationKind.LATCH) return { kind: 'work', call, operation, amount, work, fails }
  throw stateError(
    'ERR_UNSUPPORTED',
    'A latch cannot be captured: it is opened once, and a graph is launched many times',
  )
}
