/** A Driver that reports every call that orders work or touches memory to a detector, and passes all of them on. */

import { calledFromHere } from '../base/stack.js'
import {
  type AdoptedStream,
  type Cancel,
  type ContextHandle,
  type Driver,
  EventFlag,
  type EventHandle,
  type ExternalFlag,
  type GraphDriver,
  type HostFunction,
  type KernelDriver,
  type LibraryDriver,
  type MemoryDriver,
  type Settle,
  type SharingDriver,
  type StreamHandle,
} from '../driver/driver.js'
import { DriverWrapper } from '../driver/driver-wrapper.js'
import type { StrandPoint } from './clocks.js'
import { Detector } from './detector.js'
import type { Findings } from './findings.js'
import { HappensBefore } from './happens-before.js'
import { HostFunctionPlace } from './host-functions.js'
import { SanitizerGraphs } from './sanitizer-graphs.js'
import { SanitizerKernels } from './sanitizer-kernels.js'
import { SanitizerLibraries } from './sanitizer-libraries.js'
import { SanitizerMemory } from './sanitizer-memory.js'
import { SanitizerSharing } from './sanitizer-sharing.js'
import { type StackMode, Stacks } from './stacks.js'

export class SanitizerDriver extends DriverWrapper {
  readonly detector: Detector
  readonly #graphs: SanitizerGraphs
  readonly #kernels: SanitizerKernels
  readonly #libraries: SanitizerLibraries
  readonly #memory: SanitizerMemory
  readonly #sharing: SanitizerSharing

  constructor(inner: Driver, findings: Findings, stacks: StackMode, isCausal: boolean) {
    super(inner)
    this.detector = new Detector(this, new HappensBefore(this, isCausal), findings, new Stacks(stacks))
    this.#graphs = new SanitizerGraphs(this, this.detector)
    this.#kernels = new SanitizerKernels(this, this.detector)
    this.#libraries = new SanitizerLibraries(this, this.detector)
    this.#memory = new SanitizerMemory(this, this.detector)
    this.#sharing = new SanitizerSharing(this, this.detector)
  }

  override get graphs(): GraphDriver {
    return this.#graphs
  }
  override get kernels(): KernelDriver {
    return this.#kernels
  }
  override get libraries(): LibraryDriver {
    return this.#libraries
  }
  override get memory(): MemoryDriver {
    return this.#memory
  }
  override get sharing(): SharingDriver {
    return this.#sharing
  }

  override deviceContext(device: number): ContextHandle {
    const context = super.deviceContext(device)
    this.#order.streams.contextSeen(context, device)
    return context
  }

  override deviceSynchronize(device: number): void {
    const work = this.#order.workOfDevice(device)
    super.deviceSynchronize(device)
    this.#order.hostKnows(work)
  }

  override deviceFinished(device: number, settle: Settle): Cancel {
    const work = this.#order.workOfDevice(device)
    return this.#following(work, settle, (told) => super.deviceFinished(device, told))
  }

  override drainHostFunctions(): void {
    super.drainHostFunctions()
    this.#order.drained()
  }

  override deviceRecordOwn(event: EventHandle, device: number): boolean {
    const recorded = super.deviceRecordOwn(event, device)
    if (recorded) this.#order.recordDevice(event, device)
    return recorded
  }

  override streamCreate(context: ContextHandle, flags: number, priority: number): StreamHandle {
    const stream = super.streamCreate(context, flags, priority)
    this.#order.streams.created(stream, context, flags, this.detector.stacks.take())
    return stream
  }

  override streamDestroy(stream: StreamHandle): void {
    super.streamDestroy(stream)
    this.#order.streams.destroyed(stream)
  }

  override streamAdopt(cudaHandle: number, near: number): AdoptedStream {
    const adopted = super.streamAdopt(cudaHandle, near)
    this.#order.streams.adopted(adopted.stream, adopted.device, this.detector.stacks.take())
    return adopted
  }

  override streamQuery(stream: StreamHandle, isIdle?: boolean): boolean {
    return this.#order.answer(super.streamQuery(stream, isIdle), this.#order.workOf(stream))
  }

  override streamSynchronize(stream: StreamHandle): void {
    const work = this.#order.workOf(stream)
    super.streamSynchronize(stream)
    this.#order.hostKnows(work)
  }

  override streamWaitEvent(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void {
    super.streamWaitEvent(stream, event, external)
    if (!this.#order.wait(stream, event, external !== 0)) this.detector.waitedInVain(stream)
  }

  override streamWaitStream(stream: StreamHandle, other: StreamHandle, otherContext: ContextHandle): void {
    super.streamWaitStream(stream, other, otherContext)
    this.#order.waitForStream(stream, other)
  }

  override streamFinished(stream: StreamHandle, context: ContextHandle, settle: Settle): Cancel {
    const work: StrandPoint[] = []
    const cancel = this.#following(work, settle, (told) => super.streamFinished(stream, context, told))
    // Only now: the driver may refuse it, and then there is no record either.
    work.push(...this.#order.promised(stream))
    return cancel
  }

  override streamLaunchHostFunction(stream: StreamHandle, context: ContextHandle, call: HostFunction): void {
    const place = new HostFunctionPlace(this.#order)
    const { own = false } = call
    const run = (status: number): void => {
      this.detector.hostFunctionRuns(own)
      try {
        place.run(() => call.run(status))
      } finally {
        this.detector.hostFunctionRuns(own)
      }
    }
    super.streamLaunchHostFunction(stream, context, { ...call, run })
    this.detector.hostFunctionQueued(stream, place, own)
  }

  override streamHold(stream: StreamHandle, context: ContextHandle): () => void {
    const open = super.streamHold(stream, context)
    const opened = this.#order.hold(stream)
    return () => {
      this.detector.holdOpens()
      opened()
      open()
    }
  }

  override eventCreate(context: ContextHandle, flags: number, recordedNext?: boolean): EventHandle {
    const event = super.eventCreate(context, flags, recordedNext)
    this.#order.events.created(event, (flags & EventFlag.DISABLE_TIMING) === 0)
    return event
  }

  override eventDestroy(event: EventHandle): void {
    super.eventDestroy(event)
    this.#order.events.destroyed(event)
  }

  override eventRecycle(context: ContextHandle, event: EventHandle, neverRecorded?: boolean): void {
    super.eventRecycle(context, event, neverRecorded)
    this.#order.events.destroyed(event)
  }

  override eventAdopt(event: EventHandle): { readonly context: ContextHandle; readonly device: number } | undefined {
    const found = super.eventAdopt(event)
    this.#order.events.adopted(event)
    return found
  }

  override eventOpenIpcHandle(context: ContextHandle, bytes: Uint8Array): EventHandle {
    const event = super.eventOpenIpcHandle(context, bytes)
    this.#order.events.adopted(event)
    return event
  }

  override eventRecord(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void {
    super.eventRecord(event, stream, external)
    this.#order.record(event, stream, external !== 0)
  }

  override eventRecordOwn(event: EventHandle, stream: StreamHandle): void {
    super.eventRecordOwn(event, stream)
    this.#order.record(event, stream, false)
  }

  override eventQuery(event: EventHandle, isDone?: boolean): boolean {
    return this.#order.answer(super.eventQuery(event, isDone), this.#order.workOfEvent(event))
  }

  override eventSynchronize(event: EventHandle): void {
    const work = this.#order.workOfEvent(event)
    super.eventSynchronize(event)
    this.#order.hostKnows(work)
  }

  override eventFinished(event: EventHandle, settle: Settle): Cancel {
    const work = this.#order.workOfEvent(event)
    return this.#following(work, settle, (told) => super.eventFinished(event, told))
  }

  override eventElapsedTime(start: EventHandle, end: EventHandle): number {
    const milliseconds = super.eventElapsedTime(start, end)
    for (const event of [start, end]) this.#order.hostKnows(this.#order.workOfEvent(event))
    return milliseconds
  }

  get #order(): HappensBefore {
    return this.detector.order
  }

  /** The program learns that the work is done, unless it gives the promise up. */
  #following(work: readonly StrandPoint[], settle: Settle, start: (told: Settle) => Cancel): Cancel {
    let givenUp = false
    this.detector.lookAtReads()
    const asHere = this.detector.isWatching ? calledFromHere() : undefined
    const cancel = start((error) => {
      asHere?.(() => this.detector.lookAtReads())
      if (error === undefined && !givenUp) this.#order.settle(work, () => settle(error))
      else settle(error)
    })
    return () => {
      givenUp = true
      cancel()
    }
  }
}
