/** Events of the simulation. */

import type { OwnBytes } from '../foundation/base/bytes.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { EventFlag, type ExternalFlag } from '../foundation/driver/driver-constants.js'
import type { Cancel, EventDriver, Settle } from '../foundation/driver/event-driver.js'
import type { ContextHandle, EventHandle, StreamHandle } from '../foundation/driver/handle-types.js'
import type { CaptureRules } from './capture-rules.js'
import type { HostWaits } from './machine/host-waits.js'
import type { Machine } from './machine/machine.js'
import type { SimEvent, SimOperation } from './machine/machine-state.js'
import { Slice } from './machine/slice.js'
import type { Registry } from './registry.js'
import type { SimQueue } from './sim-queue.js'
import type { SimSharing } from './sim-sharing.js'

export class SimEvents implements EventDriver {
  constructor(
    private readonly machine: Machine,
    private readonly registry: Registry,
    private readonly captures: CaptureRules,
    private readonly waits: HostWaits,
    private readonly queue: SimQueue,
    private readonly sharing: SimSharing,
  ) {}

  create(context: ContextHandle, flags: number): EventHandle {
    const device = this.registry.liveContextDevice(context, 'cuEventCreate')
    return this.registry.addEvent(device, flags).handle
  }

  destroy(handle: EventHandle): void {
    this.sharing.eventDestroyed(handle)
    this.registry.destroyEvent(handle)
  }

  recycle(_context: ContextHandle, handle: EventHandle): void {
    this.registry.destroyEvent(handle)
  }

  wrap(handle: EventHandle): { readonly context: ContextHandle; readonly device: number } {
    const event = this.registry.peekEvent(handle)
    if (event !== undefined) return { context: event.device.context, device: event.device.ordinal }
    throw this.registry.refusedHandle('event', handle, 'cuEventQuery')
  }

  record(eventHandle: EventHandle, handle: StreamHandle, external: ExternalFlag): void {
    const stream = this.registry.liveStream(handle, 'cuEventRecord')
    const event = this.registry.event(eventHandle, 'cuEventRecord')
    if (event.device !== stream.device) throw cudaError('cuEventRecord', CUresult.INVALID_HANDLE)
    this.queue.record(event, stream, external)
  }

  recordInternal(event: EventHandle, stream: StreamHandle): void {
    this.record(event, stream, 0)
  }

  query(handle: EventHandle): boolean {
    const event = this.#liveEvent(handle, 'cuEventQuery')
    const isKnown = this.machine.look([event.record], new Slice())
    this.registry.alive(event.device, 'cuEventQuery')
    return isKnown && (event.record === undefined || event.record.over)
  }

  synchronize(handle: EventHandle): void {
    const event = this.#liveEvent(handle, 'cuEventSynchronize')
    const { record } = event
    if (record !== undefined) {
      this.waits.blockFor(record, 'event.synchronize()')
      this.queue.waitedFor(event.device, record.stream)
    }
    this.registry.alive(event.device, 'cuEventSynchronize')
  }

  blockedBy(handle: EventHandle): string | undefined {
    return this.queue.blockedBy([this.registry.peekEvent(handle)?.record])
  }

  finished(handle: EventHandle, settle: Settle): Cancel {
    const event = this.registry.event(handle, 'cuEventQuery')
    this.registry.alive(event.device, 'cuEventQuery')
    this.captures.refuseCapturedEvent(event, 'cuEventQuery')
    return this.machine.notify(this.machine.marker(event.device.nullStream, [event.record]), settle)
  }

  elapsedTime(startHandle: EventHandle, endHandle: EventHandle): number {
    const call = 'cuEventElapsedTime'
    const start = this.registry.event(startHandle, call)
    const end = this.registry.event(endHandle, call)
    this.registry.alive(start.device, call)
    this.registry.alive(end.device, call)
    const [from, to] = [this.#timedRecord(start, call), this.#timedRecord(end, call)]
    if (start.device !== end.device) throw cudaError(call, CUresult.INVALID_HANDLE)
    this.machine.look([from, to])
    if (!from.over || !to.over) throw cudaError(call, CUresult.NOT_READY)
    return (to.time - from.time) / 1e6
  }

  getIpcHandle(handle: EventHandle): OwnBytes {
    return this.sharing.exportEvent(handle)
  }

  openIpcHandle(context: ContextHandle, bytes: Uint8Array): EventHandle {
    return this.sharing.importEvent(context, bytes)
  }

  #liveEvent(handle: EventHandle, call: string): SimEvent {
    const event = this.registry.event(handle, call)
    this.registry.entered(event.device, call)
    if (event.captured !== undefined) this.captures.refuseLookAt(event, call)
    this.captures.refuseUnsafe(call)
    return event
  }

  #timedRecord(event: SimEvent, call: string): SimOperation {
    this.captures.refuseCapturedEvent(event, call)
    const { record, flags } = event
    if (record === undefined || (flags & EventFlag.DISABLE_TIMING) !== 0) throw cudaError(call, CUresult.INVALID_HANDLE)
    return record
  }
}
