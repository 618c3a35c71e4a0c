/** The objects behind the handles, and the checks at the beginning of a call: dead handles, lost devices, faults. */
import { stateError } from '../foundation/base/errors.js'
import { CUresult, cudaError, isContextLost } from '../foundation/driver/cuda-results.js'
import { closedHandle, refusedHandle } from '../foundation/driver/handle-errors.js'
import {
  type ContextHandle,
  defaultStream,
  type EventHandle,
  type StreamHandle,
} from '../foundation/driver/handle-types.js'
import { type Behind, Handles, type Ranges } from './handles.js'
import type { Machine } from './machine/machine.js'
import { type SharedPart, SimDevice, SimEvent, SimPartition, SimStream } from './machine/machine-state.js'
import { DevicePools } from './machine/pools.js'
import type { WorkWords } from './shared/object-words.js'

/** The first number of default streams, which no other stream ever gets. */
const FIRST_DEFAULT_ID = 2n ** 40n

export class Registry {
  readonly handles: Handles
  readonly devices: readonly SimDevice[]
  readonly #streams: Behind<SimStream>
  readonly #defaultStreams = new Map<StreamHandle, SimStream>()
  readonly #events: Behind<SimEvent>
  readonly #contexts = new Map<ContextHandle, SimDevice>()
  readonly #partitions = new Map<ContextHandle, SimPartition>()
  /** The streams that other threads have shared with this one; keys are their handles there. */
  readonly #receivedStreams = new Map<StreamHandle, SimStream>()
  readonly #receivedEvents = new Map<EventHandle, SimEvent>()
  /** The number of the stream that was made last. Streams are numbered from 1, those that the library makes for itself among them. */
  #ids = 0n

  constructor(
    readonly machine: Machine,
    ranges: Ranges,
    devices: number,
    private readonly deviceBytes: number,
  ) {
    this.handles = new Handles(ranges)
    this.#streams = this.handles.behind('stream')
    this.#events = this.handles.behind('event')
    this.devices = Array.from({ length: devices }, (_, ordinal) => this.#makeDevice(ordinal))
  }

  /** The numbers of objects, default streams among them, for tests that look for leaks. */
  get counts(): { readonly streams: number; readonly events: number } {
    return { streams: this.#streams.size + this.#defaultStreams.size, events: this.#events.size }
  }

  addStream(device: SimDevice, nonBlocking: boolean, priority: number, partition?: SimPartition): SimStream {
    const handle = this.handles.take('stream', device.ordinal) as StreamHandle
    this.#ids += 1n
    const stream = new SimStream(device, handle, this.#ids, nonBlocking, priority, partition)
    this.#streams.set(handle, stream)
    if (partition !== undefined) partition.streams += 1
    return stream
  }

  addPartition(device: SimDevice, multiprocessors: number): SimPartition {
    const context = this.handles.take('context') as ContextHandle
    const partition = new SimPartition(device, context, multiprocessors)
    this.#partitions.set(context, partition)
    return partition
  }

  partition(context: ContextHandle): SimPartition | undefined {
    return this.#partitions.get(context)
  }

  /** Removes a partition once its last stream is destroyed. */
  removePartition(partition: SimPartition): void {
    partition.isClosed = true
    if (partition.streams > 0) return
    this.#partitions.delete(partition.context)
    this.handles.giveBack('context', partition.context)
  }

  removeStream(stream: SimStream): void {
    this.#streams.delete(stream.handle)
    const { partition } = stream
    if (partition !== undefined) {
      partition.streams -= 1
      if (partition.isClosed) this.removePartition(partition)
    }
    stream.destroyed = true
    stream.device.forgetDestroyed(stream)
    this.handles.giveBack('stream', stream.handle, stream.device.ordinal)
  }

  addEvent(device: SimDevice, flags: number): SimEvent {
    const handle = this.handles.take('event', device.ordinal) as EventHandle
    const event = new SimEvent(device, handle, flags)
    this.#events.set(handle, event)
    return event
  }

  destroyEvent(handle: EventHandle): void {
    const { device } = this.event(handle, 'cuEventDestroy')
    this.#events.delete(handle)
    this.handles.giveBack('event', handle, device.ordinal)
    this.handles.remember('event', handle)
  }

  /** Makes this thread's part of a stream that another thread has shared. */
  receiveStream(handle: StreamHandle, work: WorkWords, make: () => SimStream): void {
    if (!work.isSame(this.peekStream(handle)?.shared?.words)) this.#receivedStreams.set(handle, make())
  }

  receiveEvent(device: SimDevice, handle: EventHandle, flags: number, words: WorkWords): void {
    if (words.isSame(this.#receivedEvents.get(handle)?.shared?.words)) return
    const event = new SimEvent(device, handle, flags)
    event.shared = { words, serial: 0 }
    this.#receivedEvents.set(handle, event)
  }

  /** Forgets a stream that its owner has closed, unless another one has the handle since. Returns false if work of it is still queued here. */
  forgetStream(handle: StreamHandle, work: WorkWords): boolean {
    const stream = this.#receivedStreams.get(handle)
    if (stream === undefined || !work.isSame(stream.shared?.words)) return true
    if (stream.unfinished > 0) return false
    this.#receivedStreams.delete(handle)
    return true
  }

  forgetEvent(handle: EventHandle, work: WorkWords): boolean {
    if (work.isSame(this.#receivedEvents.get(handle)?.shared?.words)) this.#receivedEvents.delete(handle)
    return true
  }

  /** The stream behind a handle; the lookup takes no virtual time. */
  peekStream(handle: StreamHandle): SimStream | undefined {
    return this.#streams.get(handle) ?? this.#defaultStreams.get(handle) ?? this.#receivedStreams.get(handle)
  }

  peekEvent(handle: EventHandle): SimEvent | undefined {
    const event = this.#events.get(handle) ?? this.#receivedEvents.get(handle)
    if (event?.shared !== undefined) this.machine.refresh(event)
    return event
  }

  device(ordinal: number): SimDevice {
    const device = this.devices[ordinal]
    if (device === undefined) throw cudaError('cuDeviceGet', 101)
    return device
  }

  contextDevice(context: ContextHandle): SimDevice {
    const device = this.#contexts.get(context) ?? this.#partitions.get(context)?.device
    if (device === undefined) throw cudaError('cuCtxSetCurrent', CUresult.INVALID_CONTEXT)
    return device
  }

  liveContextDevice(context: ContextHandle, call: string): SimDevice {
    return this.entered(this.contextDevice(context), call)
  }

  stream(handle: StreamHandle, call: string): SimStream {
    this.machine.scheduler.tick()
    const stream = this.peekStream(handle)
    if (stream === undefined) throw cudaError(call, CUresult.INVALID_HANDLE)
    if (stream.shared !== undefined) this.#useShared(stream, stream.shared)
    return stream
  }

  liveStream(handle: StreamHandle, call: string): SimStream {
    const stream = this.stream(handle, call)
    this.entered(stream.device, call)
    return stream
  }

  event(handle: EventHandle, call: string): SimEvent {
    this.machine.scheduler.tick()
    const event = this.peekEvent(handle)
    if (event === undefined) throw cudaError(call, CUresult.INVALID_HANDLE)
    return event
  }

  alive(device: SimDevice, call: string): SimDevice {
    if (device.fault !== 0) throw device.faultError(call)
    return device
  }

  /** Checks the device as `alive` does, at the beginning of a call. */
  entered(device: SimDevice, call: string): SimDevice {
    if (!this.machine.others.isEmpty) this.machine.hearFault()
    this.alive(device, call)
    const { faults } = this.machine
    // A simulation without planned faults pays for one check only.
    if (!faults.empty) this.#failOnRequest(faults.ofCall(call), call)
    return device
  }

  refusedHandle(kind: 'stream' | 'event', handle: number, call: string): Error {
    if (this.handles.remembers(kind, handle)) return closedHandle(kind, handle)
    return refusedHandle(kind, handle, cudaError(call, CUresult.INVALID_HANDLE))
  }

  #useShared(stream: SimStream, { words, place }: SharedPart): void {
    if (words.capturesElsewhere(place)) {
      const why = 'on the simulator only that thread can use it until the capture ends'
      throw stateError('ERR_UNSUPPORTED', `Another thread captures this stream, and ${why}`)
    }
    this.machine.catchUp(stream)
  }

  #failOnRequest(result: number, call: string): void {
    if (result === 0) return
    if (isContextLost(result)) this.machine.break(result)
    throw cudaError(call, result)
  }

  #makeDevice(ordinal: number): SimDevice {
    const context = this.handles.take('context') as ContextHandle
    const device = new SimDevice(
      ordinal,
      context,
      FIRST_DEFAULT_ID + BigInt(2 * ordinal),
      new DevicePools(this.deviceBytes),
    )
    this.#contexts.set(context, device)
    for (const which of [0, 1] as const) this.#defaultStreams.set(defaultStream(ordinal, which), device.nullStream)
    this.#defaultStreams.set(defaultStream(ordinal, 2), device.perThread)
    return device
  }
}
