/** Streams of the simulation. */

import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { EventFlag, type ExternalFlag, StreamFlag } from '../foundation/driver/driver-constants.js'
import type { Cancel, Settle } from '../foundation/driver/event-driver.js'
import { HandleSet } from '../foundation/driver/handle-tables.js'
import {
  type ContextHandle,
  defaultStream,
  type EventHandle,
  isDefaultStream,
  type StreamHandle,
} from '../foundation/driver/handle-types.js'
import type { StreamDriver, WrappedStream, Wrapper } from '../foundation/driver/stream-driver.js'
import type { CaptureRules } from './capture-rules.js'
import type { HostWaits } from './machine/host-waits.js'
import type { Machine } from './machine/machine.js'
import { SimEvent, type SimStream } from './machine/machine-state.js'
import { Slice } from './machine/slice.js'
import { SIMULATED_PRIORITIES } from './properties.js'
import type { Registry } from './registry.js'
import type { SimQueue } from './sim-queue.js'

/** The streams whose handle code outside of the library has read: it may queue work there that no driver of the library sees. */
class EscapedStreams {
  readonly #streams = new HandleSet<StreamHandle>()

  add(stream: StreamHandle): void {
    this.#streams.add(stream)
  }

  /** The stream is destroyed; another may get its handle. */
  forget(stream: StreamHandle): void {
    this.#streams.delete(stream)
  }

  /** Every program has the default streams. */
  has(stream: StreamHandle): boolean {
    return isDefaultStream(stream) || this.#streams.has(stream)
  }
}

export class SimStreams implements StreamDriver {
  readonly #escaped = new EscapedStreams()

  constructor(
    private readonly machine: Machine,
    private readonly registry: Registry,
    private readonly captures: CaptureRules,
    private readonly waits: HostWaits,
    private readonly queue: SimQueue,
  ) {}

  create(context: ContextHandle, flags: number, priority: number): StreamHandle {
    const partition = this.registry.partition(context)
    const call = partition === undefined ? 'cuStreamCreateWithPriority' : 'cuGreenCtxStreamCreate'
    const device = this.registry.liveContextDevice(context, call)
    this.machine.scheduler.tick()
    return this.registry.addStream(device, (flags & StreamFlag.NON_BLOCKING) !== 0, inRange(priority), partition).handle
  }

  destroy(handle: StreamHandle): void {
    this.foreignDestroy(handle)
    this.registry.handles.remember('stream', handle)
  }

  /** Destroys a stream as another library would, without remembering its handle. */
  foreignDestroy(handle: StreamHandle): void {
    const stream = this.registry.stream(handle, 'cuStreamDestroy')
    this.captures.streamDestroyed(stream)
    this.#escaped.forget(handle)
    this.registry.removeStream(stream)
  }

  wrap(cudaHandle: number, near: number): WrappedStream {
    const isDefault = cudaHandle === 0 || cudaHandle === 1 || cudaHandle === 2
    const handle = isDefault ? defaultStream(near, cudaHandle) : (cudaHandle as StreamHandle)
    const stream = isDefault || !isDefaultStream(handle) ? this.registry.peekStream(handle) : undefined
    if (stream === undefined) throw this.registry.refusedHandle('stream', handle, 'cuStreamGetCtx')
    const { device, partition } = stream
    return { stream: handle, context: device.context, device: device.ordinal, green: partition }
  }

  wrapped(): Wrapper {
    return { isOpen: true }
  }

  escaped(stream: StreamHandle): void {
    if (this.registry.peekStream(stream) !== undefined) this.#escaped.add(stream)
  }

  isEscaped(stream: StreamHandle): boolean {
    return this.#escaped.has(stream)
  }

  getId(handle: StreamHandle): bigint {
    return this.#streamOutsideCaptures(handle, 'cuStreamGetId').id
  }

  getFlags(handle: StreamHandle): number {
    return this.#streamOutsideCaptures(handle, 'cuStreamGetFlags').nonBlocking ? StreamFlag.NON_BLOCKING : 0
  }

  getPriority(handle: StreamHandle): number {
    return this.#outOfInvalidCaptures(handle, 'cuStreamGetPriority').priority
  }

  setPriority(handle: StreamHandle, priority: number): void {
    this.#outOfInvalidCaptures(handle, 'cuStreamSetAttribute').priority = inRange(priority)
  }

  copyAttributes(handle: StreamHandle, from: StreamHandle): void {
    const call = 'cuStreamCopyAttributes'
    const { priority } = this.#outOfInvalidCaptures(from, call)
    this.#outOfInvalidCaptures(handle, call).priority = priority
  }

  /** Throws for a stream that is in a capture which is invalidated. */
  #outOfInvalidCaptures(handle: StreamHandle, call: string): SimStream {
    const stream = this.registry.liveStream(handle, call)
    if (stream.capture?.invalid) throw cudaError(call, CUresult.STREAM_CAPTURE_INVALIDATED)
    return stream
  }

  /** Does nothing, since no stream of the simulation is slower for the writes of another. */
  setMemorySyncDomain(handle: StreamHandle): void {
    this.registry.liveStream(handle, 'cuStreamSetAttribute')
  }

  isCapturing(handle: StreamHandle): boolean {
    const stream = this.registry.liveStream(handle, 'cuStreamIsCapturing')
    this.captures.refuseToTell(stream, 'cuStreamIsCapturing')
    return stream.capture !== undefined
  }

  query(handle: StreamHandle): boolean {
    const stream = this.registry.liveStream(handle, 'cuStreamQuery')
    this.#refuseLooking(stream, 'cuStreamQuery')
    const isKnown = this.machine.look(this.queue.tailsOf(stream), new Slice())
    this.registry.alive(stream.device, 'cuStreamQuery')
    if (!isKnown) return false
    return stream === stream.device.nullStream ? stream.device.blockingUnfinished === 0 : stream.unfinished === 0
  }

  synchronize(handle: StreamHandle): void {
    const stream = this.registry.liveStream(handle, 'cuStreamSynchronize')
    this.#refuseLooking(stream, 'cuStreamSynchronize')
    this.waits.blockFor(this.machine.marker(stream, this.queue.tailsOf(stream)), 'stream.synchronize()')
    this.queue.waitedFor(stream.device, stream === stream.device.nullStream ? undefined : stream)
    this.registry.alive(stream.device, 'cuStreamSynchronize')
  }

  waitEvent(handle: StreamHandle, eventHandle: EventHandle, external: ExternalFlag): void {
    const stream = this.registry.liveStream(handle, 'cuStreamWaitEvent')
    const event = this.registry.event(eventHandle, 'cuStreamWaitEvent')
    if (stream.capture !== undefined && external !== 0) {
      this.captures.waitExternal(stream, stream.capture, event)
    } else this.queue.wait(stream, event)
  }

  waitStream(handle: StreamHandle, otherHandle: StreamHandle): void {
    const other = this.registry.liveStream(otherHandle, 'cuEventRecord')
    const between = new SimEvent(other.device, 0 as EventHandle, EventFlag.DISABLE_TIMING)
    this.queue.record(between, other, 0)
    this.queue.wait(this.registry.liveStream(handle, 'cuStreamWaitEvent'), between)
  }

  blockedBy(handle: StreamHandle): string | undefined {
    const stream = this.registry.peekStream(handle)
    return stream === undefined ? undefined : this.queue.blockedBy(this.queue.tailsOf(stream))
  }

  finished(handle: StreamHandle, _context: ContextHandle, settle: Settle): Cancel {
    const stream = this.registry.liveStream(handle, 'cuEventRecord')
    if (stream.capture !== undefined) throw cudaError('cuStreamQuery', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    this.captures.refuseToTell(stream, 'cuStreamIsCapturing')
    // A record on the null stream is work: what blocking streams are given later comes after it.
    const isWork = stream === stream.device.nullStream
    const record = isWork
      ? this.machine.enqueueRecord(stream)
      : this.machine.marker(stream, this.queue.recordedAfter(stream))
    return this.machine.notify(record, settle)
  }

  #streamOutsideCaptures(handle: StreamHandle, call: string): SimStream {
    const stream = this.registry.liveStream(handle, call)
    if (stream.capture !== undefined) throw cudaError(call, CUresult.STREAM_CAPTURE_UNSUPPORTED)
    return stream
  }

  #refuseLooking(stream: SimStream, call: string): void {
    if (!this.captures.active) return
    this.captures.refuseImplicit(stream, call)
    this.captures.refuseOn(stream, call)
    this.captures.refuseUnsafe(call)
  }
}

/** The nearest priority that streams of the device have. */
function inRange(priority: number): number {
  const { least, greatest } = SIMULATED_PRIORITIES
  return Math.min(least, Math.max(greatest, priority))
}
