/**
 * A Driver that stands before another and passes every verb on: what wrappers such as the sanitizer and the timeline
 * begin with. The sub-drivers are passed on as they are; a wrapper puts its own in their place.
 */
import type {
  AdoptedStream,
  Cancel,
  ContextHandle,
  Driver,
  EventHandle,
  ExternalFlag,
  GraphDriver,
  HostFunction,
  KernelDriver,
  LibraryDriver,
  MemoryDriver,
  Settle,
  SharingDriver,
  StreamHandle,
} from './driver.js'

export class DriverWrapper implements Driver {
  /** Whom the verbs are passed to. It changes when a wrapper is put in or taken out in between. */
  inner: Driver

  constructor(inner: Driver) {
    this.inner = inner
  }

  get name(): 'cuda' | 'sim' {
    return this.inner.name
  }
  get graphs(): GraphDriver {
    return this.inner.graphs
  }
  get kernels(): KernelDriver {
    return this.inner.kernels
  }
  get libraries(): LibraryDriver {
    return this.inner.libraries
  }
  get memory(): MemoryDriver {
    return this.inner.memory
  }
  get sharing(): SharingDriver {
    return this.inner.sharing
  }

  deviceCount(): number {
    return this.inner.deviceCount()
  }
  deviceName(device: number): string {
    return this.inner.deviceName(device)
  }
  deviceUuid(device: number): string {
    return this.inner.deviceUuid(device)
  }
  deviceAttribute(device: number, attribute: number): number {
    return this.inner.deviceAttribute(device, attribute)
  }
  deviceContext(device: number): ContextHandle {
    return this.inner.deviceContext(device)
  }
  streamPriorityRange(device: number): { readonly least: number; readonly greatest: number } {
    return this.inner.streamPriorityRange(device)
  }
  deviceSynchronize(device: number): void {
    this.inner.deviceSynchronize(device)
  }
  deviceFinished(device: number, settle: Settle): Cancel {
    return this.inner.deviceFinished(device, settle)
  }
  deviceRecordOwn(event: EventHandle, device: number): boolean {
    return this.inner.deviceRecordOwn(event, device)
  }

  contextCheck(context: ContextHandle): void {
    this.inner.contextCheck(context)
  }
  drainHostFunctions(): void {
    this.inner.drainHostFunctions()
  }

  relaxed<R>(calls: () => R): R {
    return this.inner.relaxed(calls)
  }

  streamCreate(context: ContextHandle, flags: number, priority: number): StreamHandle {
    return this.inner.streamCreate(context, flags, priority)
  }
  streamDestroy(stream: StreamHandle): void {
    this.inner.streamDestroy(stream)
  }
  streamAdopt(cudaHandle: number, near: number): AdoptedStream {
    return this.inner.streamAdopt(cudaHandle, near)
  }
  streamHandedOut(stream: StreamHandle): void {
    this.inner.streamHandedOut(stream)
  }
  isHandedOut(stream: StreamHandle): boolean {
    return this.inner.isHandedOut(stream)
  }
  streamMakeRoom(stream: StreamHandle, entries: number): void {
    this.inner.streamMakeRoom(stream, entries)
  }
  streamHasRoom(stream: StreamHandle, entries: number): boolean {
    return this.inner.streamHasRoom(stream, entries)
  }
  streamGetId(stream: StreamHandle): bigint {
    return this.inner.streamGetId(stream)
  }
  streamGetFlags(stream: StreamHandle): number {
    return this.inner.streamGetFlags(stream)
  }
  streamGetPriority(stream: StreamHandle): number {
    return this.inner.streamGetPriority(stream)
  }
  streamIsCapturing(stream: StreamHandle): boolean {
    return this.inner.streamIsCapturing(stream)
  }
  streamQuery(stream: StreamHandle): boolean {
    return this.inner.streamQuery(stream)
  }
  streamSynchronize(stream: StreamHandle): void {
    this.inner.streamSynchronize(stream)
  }
  streamWaitEvent(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void {
    this.inner.streamWaitEvent(stream, event, external)
  }
  streamWaitStream(stream: StreamHandle, other: StreamHandle, otherContext: ContextHandle): void {
    this.inner.streamWaitStream(stream, other, otherContext)
  }
  streamFinished(stream: StreamHandle, context: ContextHandle, settle: Settle): Cancel {
    return this.inner.streamFinished(stream, context, settle)
  }
  streamLaunchHostFunction(stream: StreamHandle, context: ContextHandle, call: HostFunction): void {
    this.inner.streamLaunchHostFunction(stream, context, call)
  }

  eventCreate(context: ContextHandle, flags: number, recordedNext?: boolean): EventHandle {
    return this.inner.eventCreate(context, flags, recordedNext)
  }
  eventDestroy(event: EventHandle): void {
    this.inner.eventDestroy(event)
  }
  eventRecycle(context: ContextHandle, event: EventHandle): void {
    this.inner.eventRecycle(context, event)
  }
  eventAdopt(event: EventHandle): { readonly context: ContextHandle; readonly device: number } | undefined {
    return this.inner.eventAdopt(event)
  }
  eventRecord(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void {
    this.inner.eventRecord(event, stream, external)
  }
  eventRecordOwn(event: EventHandle, stream: StreamHandle): void {
    this.inner.eventRecordOwn(event, stream)
  }
  eventQuery(event: EventHandle): boolean {
    return this.inner.eventQuery(event)
  }
  eventSynchronize(event: EventHandle): void {
    this.inner.eventSynchronize(event)
  }
  eventFinished(event: EventHandle, settle: Settle): Cancel {
    return this.inner.eventFinished(event, settle)
  }
  eventElapsedTime(start: EventHandle, end: EventHandle): number {
    return this.inner.eventElapsedTime(start, end)
  }
  eventGetIpcHandle(event: EventHandle): Uint8Array {
    return this.inner.eventGetIpcHandle(event)
  }
  eventOpenIpcHandle(context: ContextHandle, bytes: Uint8Array): EventHandle {
    return this.inner.eventOpenIpcHandle(context, bytes)
  }
}
