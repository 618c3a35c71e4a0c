/**
 * A Driver that stands before another and passes every verb on: what wrappers such as the sanitizer and the timeline
 * begin with. The sub-drivers are passed on as they are; a wrapper puts its own in their place, which for memory, kernels
 * and graphs begin with the classes at the end of this file.
 */

import type { OwnBytes } from '../base/bytes.js'
import type { ScalarType } from '../base/element-types.js'
import type {
  AdoptedStream,
  ArgumentUse,
  BatchedCopy,
  Cancel,
  CaptureMode,
  ContextHandle,
  CopyName,
  CopyRoute,
  Driver,
  EventHandle,
  ExternalFlag,
  FillWidth,
  GraphDriver,
  GraphExecHandle,
  GraphHandle,
  GreenContextPart,
  HostFunction,
  KernelDriver,
  KernelHandle,
  LaunchArgument,
  LaunchShape,
  LibraryDriver,
  MemoryDriver,
  MemoryPlace,
  MemoryRows,
  ModuleHandle,
  NodeFacts,
  NodeHandle,
  OwnEvent,
  PinnedMemory,
  Pointer,
  PoolDriver,
  PoolHandle,
  Settle,
  SharingDriver,
  StreamHandle,
  Twin,
  Wrapper,
} from './driver.js'
import type { Comparison, MemoryValue } from './values.js'

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
  get pools(): PoolDriver {
    return this.inner.pools
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

  deviceSplit(device: number, multiprocessors: readonly number[]): readonly GreenContextPart[] {
    return this.inner.deviceSplit(device, multiprocessors)
  }
  greenContextDestroy(context: ContextHandle): void {
    this.inner.greenContextDestroy(context)
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
  streamWrapped(stream: StreamHandle): Wrapper {
    return this.inner.streamWrapped(stream)
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
  streamSetMemorySyncDomain(stream: StreamHandle, domain: number): void {
    this.inner.streamSetMemorySyncDomain(stream, domain)
  }
  streamIsCapturing(stream: StreamHandle): boolean {
    return this.inner.streamIsCapturing(stream)
  }
  streamQuery(stream: StreamHandle, isIdle?: boolean): boolean {
    return this.inner.streamQuery(stream, isIdle)
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
  streamHeldBy(stream: StreamHandle): string | undefined {
    return this.inner.streamHeldBy(stream)
  }
  streamFinished(stream: StreamHandle, context: ContextHandle, settle: Settle): Cancel {
    return this.inner.streamFinished(stream, context, settle)
  }
  streamLaunchHostFunction(stream: StreamHandle, context: ContextHandle, call: HostFunction): void {
    this.inner.streamLaunchHostFunction(stream, context, call)
  }
  streamHold(stream: StreamHandle, context: ContextHandle): () => void {
    return this.inner.streamHold(stream, context)
  }

  eventCreate(context: ContextHandle, flags: number, recordedNext?: boolean): EventHandle {
    return this.inner.eventCreate(context, flags, recordedNext)
  }
  eventDestroy(event: EventHandle): void {
    this.inner.eventDestroy(event)
  }
  eventRecycle(context: ContextHandle, event: EventHandle, neverRecorded?: boolean): void {
    this.inner.eventRecycle(context, event, neverRecorded)
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
  eventQuery(event: EventHandle, isDone?: boolean): boolean {
    return this.inner.eventQuery(event, isDone)
  }
  eventSynchronize(event: EventHandle): void {
    this.inner.eventSynchronize(event)
  }
  eventHeldBy(event: EventHandle): string | undefined {
    return this.inner.eventHeldBy(event)
  }
  eventFinished(event: EventHandle, settle: Settle): Cancel {
    return this.inner.eventFinished(event, settle)
  }
  eventElapsedTime(start: EventHandle, end: EventHandle): number {
    return this.inner.eventElapsedTime(start, end)
  }
  eventGetIpcHandle(event: EventHandle): OwnBytes {
    return this.inner.eventGetIpcHandle(event)
  }
  eventOpenIpcHandle(context: ContextHandle, bytes: Uint8Array): EventHandle {
    return this.inner.eventOpenIpcHandle(context, bytes)
  }
}

export class MemoryWrapper implements MemoryDriver {
  /** `wrapper` is the driver whose sub-driver this is. */
  constructor(private readonly wrapper: DriverWrapper) {}

  /** The one that the verbs are passed to: it changes when wrappers are put in and taken out. */
  protected get inner(): MemoryDriver {
    return this.wrapper.inner.memory
  }

  allocate(byteLength: number, stream: StreamHandle, context: ContextHandle, pool?: PoolHandle): Pointer {
    return this.inner.allocate(byteLength, stream, context, pool)
  }
  free(pointer: Pointer, stream: StreamHandle): void {
    this.inner.free(pointer, stream)
  }
  allocatePinned(byteLength: number, context: ContextHandle): PinnedMemory {
    return this.inner.allocatePinned(byteLength, context)
  }
  registerPinned(bytes: Uint8Array, context: ContextHandle): Pointer {
    return this.inner.registerPinned(bytes, context)
  }
  closePinned(pointer: Pointer, bytes: ArrayBuffer | undefined, after: readonly OwnEvent[]): void {
    this.inner.closePinned(pointer, bytes, after)
  }
  detachPinned(pointer: Pointer, bytes: ArrayBuffer): void {
    this.inner.detachPinned(pointer, bytes)
  }
  admit(pointer: Pointer, owner: number, user: number): boolean {
    return this.inner.admit(pointer, owner, user)
  }
  copy(
    destination: Pointer,
    source: Pointer,
    byteLength: number,
    stream: StreamHandle,
    route?: CopyRoute,
    name?: CopyName,
  ): void {
    this.inner.copy(destination, source, byteLength, stream, route, name)
  }
  copyRows(
    destination: Pointer,
    source: Pointer,
    to: MemoryRows,
    from: MemoryRows,
    stream: StreamHandle,
    route?: 'withinHost',
  ): void {
    this.inner.copyRows(destination, source, to, from, stream, route)
  }
  copyBatch(copies: readonly BatchedCopy[], stream: StreamHandle): void {
    this.inner.copyBatch(copies, stream)
  }
  fill(pointer: Pointer, value: number, width: FillWidth, count: number, stream: StreamHandle): void {
    this.inner.fill(pointer, value, width, count, stream)
  }
  waitForValue(at: MemoryValue, compare: Comparison, stream: StreamHandle, context: ContextHandle): void {
    this.inner.waitForValue(at, compare, stream, context)
  }
  writeValue(at: MemoryValue, stream: StreamHandle): void {
    this.inner.writeValue(at, stream)
  }
  placeOf(pointer: Pointer, byteLength: number, near: number): MemoryPlace {
    return this.inner.placeOf(pointer, byteLength, near)
  }
  viewed(pointer: Pointer, byteLength: number): void {
    this.inner.viewed(pointer, byteLength)
  }
  isDone(event: EventHandle): boolean {
    return this.inner.isDone(event)
  }
  newArrayBuffer(byteLength: number): ArrayBuffer {
    return this.inner.newArrayBuffer(byteLength)
  }
}

export class KernelWrapper implements KernelDriver {
  /** `wrapper` is the driver whose sub-driver this is. */
  constructor(private readonly wrapper: DriverWrapper) {}

  protected get inner(): KernelDriver {
    return this.wrapper.inner.kernels
  }

  loadTwin(): void {
    this.inner.loadTwin()
  }
  bytesFrom(pointer: Pointer): number {
    return this.inner.bytesFrom(pointer)
  }
  launchTwin(stream: StreamHandle, twin: Twin): void {
    this.inner.launchTwin(stream, twin)
  }
  compileNow(source: string, name: string, options: readonly string[]): Uint8Array {
    return this.inner.compileNow(source, name, options)
  }
  compile(source: string, name: string, options: readonly string[]): Promise<Uint8Array> {
    return this.inner.compile(source, name, options)
  }
  load(image: Uint8Array, context: ContextHandle): ModuleHandle {
    return this.inner.load(image, context)
  }
  unload(module: ModuleHandle, context: ContextHandle): void {
    this.inner.unload(module, context)
  }
  kernel(module: ModuleHandle, name: string, parameters: readonly ScalarType[]): KernelHandle {
    return this.inner.kernel(module, name, parameters)
  }
  nameOf(kernel: KernelHandle): string {
    return this.inner.nameOf(kernel)
  }
  launch(
    kernel: KernelHandle,
    stream: StreamHandle,
    shape: LaunchShape,
    args: readonly LaunchArgument[],
    uses: readonly ArgumentUse[],
  ): void {
    this.inner.launch(kernel, stream, shape, args, uses)
  }
  activeBlocks(kernel: KernelHandle, blockSize: number, sharedMemory: number): number {
    return this.inner.activeBlocks(kernel, blockSize, sharedMemory)
  }
}

export class GraphWrapper implements GraphDriver {
  /** `wrapper` is the driver whose sub-driver this is. */
  constructor(private readonly wrapper: DriverWrapper) {}

  protected get inner(): GraphDriver {
    return this.wrapper.inner.graphs
  }

  begin(stream: StreamHandle, mode: CaptureMode): void {
    this.inner.begin(stream, mode)
  }
  end(stream: StreamHandle): GraphHandle {
    return this.inner.end(stream)
  }
  captureId(stream: StreamHandle): bigint | undefined {
    return this.inner.captureId(stream)
  }
  addGraph(stream: StreamHandle, graph: GraphHandle): void {
    this.inner.addGraph(stream, graph)
  }
  beginInto(stream: StreamHandle, mode: CaptureMode, graph: GraphHandle, after: readonly NodeHandle[]): void {
    this.inner.beginInto(stream, mode, graph, after)
  }
  capturedNode(stream: StreamHandle): NodeHandle | undefined {
    return this.inner.capturedNode(stream)
  }
  abandon(stream: StreamHandle): void {
    this.inner.abandon(stream)
  }
  leave(stream: StreamHandle): void {
    this.inner.leave(stream)
  }
  destroy(graph: GraphHandle): void {
    this.inner.destroy(graph)
  }
  nodeCount(graph: GraphHandle): number {
    return this.inner.nodeCount(graph)
  }
  toDot(graph: GraphHandle): string {
    return this.inner.toDot(graph)
  }
  instantiate(graph: GraphHandle, context: ContextHandle): GraphExecHandle {
    return this.inner.instantiate(graph, context)
  }
  destroyExec(exec: GraphExecHandle): void {
    this.inner.destroyExec(exec)
  }
  upload(exec: GraphExecHandle, stream: StreamHandle): void {
    this.inner.upload(exec, stream)
  }
  launch(exec: GraphExecHandle, stream: StreamHandle): void {
    this.inner.launch(exec, stream)
  }
  update(exec: GraphExecHandle, graph: GraphHandle): void {
    this.inner.update(exec, graph)
  }
  nodes(graph: GraphHandle): readonly NodeFacts[] {
    return this.inner.nodes(graph)
  }
  updateKernel(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    kernel: KernelHandle,
    shape: LaunchShape,
    args: readonly LaunchArgument[],
    uses: readonly ArgumentUse[],
  ): void {
    this.inner.updateKernel(exec, node, context, kernel, shape, args, uses)
  }
  updateTwin(exec: GraphExecHandle, node: NodeHandle, twin: Twin): void {
    this.inner.updateTwin(exec, node, twin)
  }
  updateCopy(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    destination: Pointer,
    source: Pointer,
    byteLength: number,
  ): void {
    this.inner.updateCopy(exec, node, context, destination, source, byteLength)
  }
  updateFill(
    exec: GraphExecHandle,
    node: NodeHandle,
    context: ContextHandle,
    pointer: Pointer,
    value: number,
    width: FillWidth,
    count: number,
  ): void {
    this.inner.updateFill(exec, node, context, pointer, value, width, count)
  }
  setEnabled(exec: GraphExecHandle, node: NodeHandle, context: ContextHandle | undefined, enabled: boolean): void {
    this.inner.setEnabled(exec, node, context, enabled)
  }
}
