/**
 * Internal driver interface. Public classes call it; each method corresponds to a CUDA driver function and takes raw
 * handles. The backends are driver/cuda (libcuda) and driver/sim (a simulated GPU); interceptors may stand in front of
 * them. All work that a stream is given goes through one method, `queue()`. A method throws `CudaError` where the GPU
 * refuses, and does not check again what public classes have checked.
 */

import type { OwnBytes } from '../base/bytes.js'
import type { ElementLayout } from '../base/element-layout.js'
import type { ScalarType } from '../base/element-types.js'
import type { Comparison, MemoryValue } from './values.js'

declare const kind: unique symbol

/** A CUstream, or a token for a default stream: pointers have 47 bits, so a number holds either exactly. */
export type StreamHandle = number & { readonly [kind]: 'CUstream' }
/** A CUevent. */
export type EventHandle = number & { readonly [kind]: 'CUevent' }
/** A CUcontext. */
export type ContextHandle = number & { readonly [kind]: 'CUcontext' }
/** A CUgraph. */
export type GraphHandle = number & { readonly [kind]: 'CUgraph' }
/** A CUgraphExec. */
export type GraphExecHandle = number & { readonly [kind]: 'CUgraphExec' }
/** A CUgraphNode. */
export type NodeHandle = number & { readonly [kind]: 'CUgraphNode' }
/** A CUmodule. */
export type ModuleHandle = number & { readonly [kind]: 'CUmodule' }
/** A CUfunction. */
export type KernelHandle = number & { readonly [kind]: 'kernel' }
/** A CUmemoryPool. */
export type PoolHandle = number & { readonly [kind]: 'CUmemoryPool' }
/** A CUdeviceptr. Addresses are unified: pinned memory has the same one for JavaScript and for every GPU. */
export type Pointer = number & { readonly [kind]: 'CUdeviceptr' }

/**
 * CUDA distinguishes default streams by the current context: 0 is the null stream of the current context, 1 is
 * another name for it, and 2 is the per-thread default stream. A handle must not depend on the current context, so
 * that of a default stream contains its device.
 */
export function defaultStream(device: number, which: 0 | 1 | 2): StreamHandle {
  return (device * 4 + which) as StreamHandle
}
/** The bound below which a StreamHandle is a default stream's token; no allocator returns such addresses. */
export const DEFAULT_STREAM_LIMIT = 4096
export const isDefaultStream = (stream: StreamHandle): boolean => stream < DEFAULT_STREAM_LIMIT
export const deviceOfDefaultStream = (stream: StreamHandle): number => stream >>> 2
/** CUDA's own handle of this stream: 0, 1 or 2 for a default stream, else its address. */
export const cudaHandleOf = (stream: StreamHandle): number => (isDefaultStream(stream) ? stream & 3 : stream)
/** Returns one handle for both names of the null stream of a device. */
export const canonicalStream = (stream: StreamHandle): StreamHandle =>
  isDefaultStream(stream) && (stream & 3) === 1 ? ((stream - 1) as StreamHandle) : stream
export const isNullStream = (stream: StreamHandle): boolean => isDefaultStream(stream) && (stream & 3) !== 2

export const StreamFlag = { NON_BLOCKING: 1 } as const
export const EventFlag = { DEFAULT: 0, BLOCKING_SYNC: 1, DISABLE_TIMING: 2, INTERPROCESS: 4 } as const

/**
 * True if a record of an event with these flags counts as work of its stream. Only a record of a plain event without
 * timing does not.
 */
export const isRecordWork = (flags: number): boolean => flags !== EventFlag.DISABLE_TIMING
/** CU_EVENT_RECORD_EXTERNAL and CU_EVENT_WAIT_EXTERNAL. */
export const ExternalFlag = { NONE: 0, EXTERNAL: 1 } as const
export type ExternalFlag = (typeof ExternalFlag)[keyof typeof ExternalFlag]

/** How a wait ends: called once, with nothing when the work is done, or with the reason why it never will be. */
export type Settle = (error?: unknown) => void
/** Stops a wait whose result is not needed any more. Calling it after the wait has settled does nothing. */
export type Cancel = () => void

/** A host function as the driver runs it: `status` is 0, or the CUresult of the fault that came before it. */
export interface HostFunction {
  readonly run: (status: number) => void
  /** True: `cuStreamAddCallback`, also run after a fault. False: `cuLaunchHostFunc`, dropped then, as CUDA does. */
  readonly runsAfterFault: boolean
  /** Internal, as those of a download: it does not count as something that the program queued. */
  readonly internal?: boolean
}

/** A context whose kernels run on some multiprocessors of a device only. */
export interface GreenContextPart {
  /** `cuCtxFromGreenCtx` */
  readonly context: ContextHandle
  readonly multiprocessors: number
}

/** A wrapper of a stream. The stream lives while the wrapper is open, unless its owner destroys it too early. */
export interface Wrapper {
  isOpen: boolean
}

export interface WrappedStream {
  readonly stream: StreamHandle
  /**
   * The context of the stream. For a stream in a green context it is the primary context, whose events, memory and
   * modules can be used in both.
   */
  readonly context: ContextHandle
  readonly device: number
  /** The green context of the stream, if it is in one. */
  readonly green?: GreenContextPart | undefined
}

/**
 * The comment of each method names the function of cuda.h that it corresponds to. Methods without such a name exist
 * only in this library.
 */
export interface Driver {
  readonly name: 'cuda' | 'sim'
  readonly memory: MemoryDriver
  readonly pools: PoolDriver
  readonly kernels: KernelDriver
  readonly graphs: GraphDriver
  readonly libraries: LibraryDriver
  readonly sharing: SharingDriver

  // Devices

  /** `cuDeviceGetCount` */
  deviceCount(): number
  /** `cuDeviceGetName` */
  deviceName(device: number): string
  /** `cuDeviceGetUuid`: 16 bytes as lower-case hexadecimal in the 8-4-4-4-12 form, with 'GPU-' before it. */
  deviceUuid(device: number): string
  /** `cuDeviceGetPCIBusId`, as 'domain:bus:device.function' in lower-case hexadecimal digits. */
  devicePciBusId(device: number): string
  /** `cuDeviceGetAttribute`: `attribute` is a CUdevice_attribute. */
  deviceAttribute(device: number, attribute: number): number
  /** `cuDevicePrimaryCtxRetain`, at the first call. */
  deviceContext(device: number): ContextHandle
  /** `cuCtxGetStreamPriorityRange` */
  streamPriorityRange(device: number): { readonly least: number; readonly greatest: number }
  /** `cuCtxSynchronize` */
  deviceSynchronize(device: number): void
  /**
   * `cuCtxRecordEvent`: settles when all that is queued on the device now is done. Throws where the driver refuses to look;
   * a capture there that this thread can know of is left as it was.
   */
  deviceFinished(device: number, settle: Settle): Cancel
  /**
   * `cuCtxRecordEvent`: records an internal event, made in the device's primary context, behind all work of the
   * device. False where a stream there captures, as far as this thread can know: nothing is done then.
   */
  deviceRecordInternal(event: EventHandle, device: number): boolean
  /** `cuEventQuery`: throws what a GPU that has faulted answers to every call, where that is known by now. */
  contextCheck(context: ContextHandle): void
  /**
   * What is known of the fault of a context beside its number, such as which thread of a kernel used which address. Undefined
   * without a fault, and on a GPU.
   */
  contextFault(context: ContextHandle): string | undefined
  /** `cuThreadExchangeStreamCaptureMode`: runs calls that would otherwise invalidate a capture of any thread. */
  relaxed<R>(calls: () => R): R

  // Green contexts

  /**
   * `cuDevSmResourceSplitByCount`, `cuDevResourceGenerateDesc`, `cuGreenCtxCreate`: green contexts of at least so many
   * multiprocessors each, and one of the rest, which comes last.
   */
  deviceSplit(device: number, multiprocessors: readonly number[]): readonly GreenContextPart[]
  /** Called when no more streams will be made in the green context: a split may return it again once it has none. */
  greenContextDestroy(context: ContextHandle): void

  // Streams

  /** `cuStreamCreateWithPriority`; in a green context, whose streams are all non-blocking, `cuGreenCtxStreamCreate`. */
  streamCreate(context: ContextHandle, flags: number, priority: number): StreamHandle
  /** `cuStreamDestroy` */
  streamDestroy(stream: StreamHandle): void
  /**
   * `cuStreamGetCtx_v2`: wraps a stream that another library owns, by CUDA's own handle; 0, 1 and 2 are default
   * streams of the device `near`. Throws ERR_INVALID_HANDLE or ERR_CLOSED for a number that is no stream's handle.
   */
  streamWrap(cudaHandle: number, near: number): WrappedStream
  /** A wrapper of the stream was made. The caller sets `isOpen` of the result to false when it closes the wrapper. */
  streamWrapped(stream: StreamHandle): Wrapper
  /**
   * The stream's handle was read. Code outside of the library may queue work on the stream from now on, without a
   * call of this driver. The stream may be destroyed already.
   */
  streamEscaped(stream: StreamHandle): void
  /** Was `streamEscaped()` called for the stream? Always true for default streams. */
  isEscaped(stream: StreamHandle): boolean
  /**
   * Queues work on its stream; captures it where the stream captures. Never waits: `streamReserve()` comes before it.
   * Records of events and waits for them are methods of their own, since programs make millions of them.
   */
  queue(work: QueuedWork): void
  /**
   * Waits until the stream's hardware queue takes so many more entries, 256 at most. Host functions that become ready run
   * meanwhile.
   */
  streamReserve(stream: StreamHandle, entries: number): void
  /**
   * True if the stream's hardware queue takes so many more entries now. Waits for nothing, and invalidates no
   * capture.
   */
  streamHasCapacity(stream: StreamHandle, entries: number): boolean
  /** `cuStreamGetId` */
  streamGetId(stream: StreamHandle): bigint
  /** `cuStreamGetFlags` */
  streamGetFlags(stream: StreamHandle): number
  /** `cuStreamGetPriority` */
  streamGetPriority(stream: StreamHandle): number
  /** `cuStreamSetAttribute` of CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: a CUlaunchMemSyncDomain, for what is queued then. */
  streamSetMemorySyncDomain(stream: StreamHandle, domain: number): void
  /** `cuStreamIsCapturing` */
  streamIsCapturing(stream: StreamHandle): boolean
  /** `cuStreamQuery`. `isIdle`: the answer was yes before, and nothing was queued since, so that it may be given unasked. */
  streamQuery(stream: StreamHandle, isIdle?: boolean): boolean
  /** `cuStreamSynchronize` */
  streamSynchronize(stream: StreamHandle): void
  /** `cuStreamWaitEvent` */
  streamWaitEvent(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void
  /**
   * `cuEventRecord` of an event that only the driver knows on `other`, in its context, and `cuStreamWaitEvent` on
   * `stream`.
   */
  streamWaitStream(stream: StreamHandle, other: StreamHandle, otherContext: ContextHandle): void
  /**
   * Describes a host function or latch that the stream's work comes after, and that only this thread can run or open.
   * Undefined if none is known.
   */
  streamBlockedBy(stream: StreamHandle): string | undefined
  /**
   * Settles when all work that is queued on the stream now is done. Throws if the driver refuses the query, as on a
   * capturing stream.
   */
  streamFinished(stream: StreamHandle, context: ContextHandle, settle: Settle): Cancel

  /** Runs host functions as they become ready, and blocks until none is pending on any stream of any device. */
  drainHostFunctions(): void

  // Events

  /**
   * `cuEventCreate`. `recordedNext`: the caller records it before anything else, so it may be one that was recorded and
   * recycled before. Of an event without such a past a query is true, and a wait waits for nothing.
   */
  eventCreate(context: ContextHandle, flags: number, recordedNext?: boolean): EventHandle
  /** `cuEventDestroy`. No graph records the event, or waits for it. */
  eventDestroy(event: EventHandle): void
  /**
   * Destroys an event that was made with these flags (no flags, or DISABLE_TIMING alone, which is the default) and whose handle was
   * never read: the driver may use it again, and where it was never recorded give it out as new.
   */
  eventRecycle(context: ContextHandle, event: EventHandle, flags?: number, neverRecorded?: boolean): void
  /**
   * Wraps an event that another library owns. Undefined if the driver cannot find its device. Throws
   * ERR_INVALID_HANDLE or ERR_CLOSED for a number that is no event's handle.
   */
  eventWrap(event: EventHandle): { readonly context: ContextHandle; readonly device: number } | undefined
  /** `cuEventRecord`, or `cuEventRecordWithFlags` */
  eventRecord(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void
  /** `cuEventRecord` of an internal event. The stream does not capture. */
  eventRecordInternal(event: EventHandle, stream: StreamHandle): void
  /** `cuEventQuery`. `isDone`: the answer was yes before, and it was not recorded since. */
  eventQuery(event: EventHandle, isDone?: boolean): boolean
  /** `cuEventSynchronize` */
  eventSynchronize(event: EventHandle): void
  /**
   * Describes a host function or latch that the event's latest record comes after, as `streamBlockedBy` does for a
   * stream.
   */
  eventBlockedBy(event: EventHandle): string | undefined
  /** Settles when the event's latest record is done. */
  eventFinished(event: EventHandle, settle: Settle): Cancel
  /** `cuEventElapsedTime`: milliseconds between two records. */
  eventElapsedTime(start: EventHandle, end: EventHandle): number
  /** `cuIpcGetEventHandle` */
  eventGetIpcHandle(event: EventHandle): OwnBytes
  /** `cuIpcOpenEventHandle` */
  eventOpenIpcHandle(context: ContextHandle, bytes: Uint8Array): EventHandle
}

/** The ordinals of two different devices. */
export interface TwoDevices {
  readonly to: number
  readonly from: number
}

/**
 * The route of a copy that is not an ordinary one: between two devices, or from one piece of the host's memory to another.
 */
export type CopyRoute = TwoDevices | 'withinHost'

/** The place of another library's memory. */
export interface MemoryPlace {
  readonly device: number
  /** True for memory of the host, pinned or managed. */
  readonly isOfHost: boolean
}

/** An internal event of the library, and the context in which it was made. */
export interface InternalEvent {
  readonly context: ContextHandle
  readonly event: EventHandle
  /** Events with the same number are done in the order of their places. */
  readonly line?: number
  readonly place?: number
  /**
   * Gives the event back; called instead of recycling it by the one that takes it over, because others wait for it, too.
   */
  readonly release?: () => void
}

/** Gives back an event that was taken over. */
export function giveBackEvent(driver: Pick<Driver, 'eventRecycle'>, { context, event, release }: InternalEvent): void {
  if (release === undefined) driver.eventRecycle(context, event)
  else release()
}

export interface PinnedMemory {
  readonly pointer: Pointer
  readonly bytes: ArrayBuffer
}

export interface MemoryDriver {
  /** `cuMemHostAlloc`, portable and mapped. Invalidates no capture. The GPUs of the driver access the same bytes. */
  allocatePinned(byteLength: number, context: ContextHandle): PinnedMemory
  /**
   * `cuMemHostRegister`, portable and mapped: page-locks memory of the process, which stays where it is and is kept until
   * `closePinned`. Invalidates no capture.
   */
  registerPinned(bytes: Uint8Array, context: ContextHandle): Pointer
  /**
   * `cuMemFreeHost`, or `cuMemHostUnregister` of what was registered, which is never detached: detaches `bytes`, the ArrayBuffer that came with it, if that is still reachable; gives the memory back
   * once the latest records of these events are done, and takes the events over.
   */
  closePinned(pointer: Pointer, bytes: ArrayBuffer | undefined, after: readonly InternalEvent[]): void
  /** Detaches `bytes`, the ArrayBuffer that came with pinned memory. The memory stays until `closePinned()`. */
  detachPinned(pointer: Pointer, bytes: ArrayBuffer): void
  /**
   * Lets the device `user` reach memory of the device `owner` (`cuCtxEnablePeerAccess`, `cuMemPoolSetAccess`), which it
   * must before work on one of its streams uses that. False where the two cannot reach each other. Invalidates no capture.
   */
  enablePeerAccess(pointer: Pointer, owner: number, user: number): boolean
  /**
   * The place of another library's memory (`cuPointerGetAttribute`), queried in a context of the device `near`.
   * Throws if the driver does not know the memory.
   */
  placeOf(pointer: Pointer, byteLength: number, near: number): MemoryPlace
  /** JavaScript requests a view of pinned memory, to read or to write it. Only interceptors handle this call. */
  viewed(pointer: Pointer, byteLength: number): void
  /**
   * `cuEventQuery`: is the event's latest record done? This invalidates no capture, and a fault is no answer but false.
   */
  isDone(event: EventHandle): boolean
  /** An ArrayBuffer of zeros in ordinary memory, which is about to be filled. */
  newArrayBuffer(byteLength: number): ArrayBuffer
  /** Copies bytes of the host to as many others, now: several threads at a time, where that is worth it. */
  copyBytes(to: Uint8Array, from: Uint8Array): void
}

/** The memory of a device, in bytes. */
export interface MemoryInfo {
  readonly free: number
  readonly total: number
}

/** Bytes of a pool: in use, and taken from the device; now, and at most since the peaks were reset. */
export interface PoolUsage {
  readonly used: number
  readonly peakUsed: number
  readonly reserved: number
  readonly peakReserved: number
}

/** Pools that stream-ordered memory comes from. No method invalidates a capture, or waits for a stream. */
export interface PoolDriver {
  /** `cuMemGetInfo` */
  info(device: number): MemoryInfo
  /** `cuDeviceGetMemPool`: the pool that `allocate` takes memory from where none is given. */
  current(device: number): PoolHandle
  /** `cuMemPoolCreate`. `maxBytes`: the most that it takes from the device; 0: as much as there is. */
  create(device: number, maxBytes: number): PoolHandle
  /** `cuMemPoolDestroy`: no memory of it is in use, but frees may be in flight. */
  destroy(pool: PoolHandle): void
  /** `cuMemPoolGetAttribute`: the release threshold; Infinity where nothing is given back. */
  threshold(pool: PoolHandle): number
  /** `cuMemPoolSetAttribute` */
  setThreshold(pool: PoolHandle, bytes: number): void
  /** `cuMemPoolGetAttribute` */
  usage(pool: PoolHandle): PoolUsage
  /** `cuMemPoolSetAttribute`: the peaks are what is used and reserved now. */
  resetPeaks(pool: PoolHandle): void
  /** `cuMemPoolTrimTo`: gives back to the device what is not in use, but for so many bytes. */
  trim(pool: PoolHandle, bytesToKeep: number): void
}

export interface LaunchShape {
  /** Blocks in each direction. */
  readonly grid: readonly [number, number, number]
  /** Threads of a block in each direction. */
  readonly block: readonly [number, number, number]
  /** Dynamic shared memory of each block, in bytes. */
  readonly sharedMemory: number
  /** Whether all blocks run at the same time, so that they can wait for each other. */
  readonly cooperative: boolean
  /** Blocks of a cluster in each direction. */
  readonly cluster: readonly [number, number, number] | undefined
  /** Attributes that few launches need. */
  readonly attributes: LaunchAttributes | undefined
}

/** CUlaunchAttribute, as far as it changes how a kernel runs and not what it computes. */
export interface LaunchAttributes {
  /** CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
  readonly programmatic: boolean
  /** CU_LAUNCH_ATTRIBUTE_PRIORITY */
  readonly priority: number | undefined
  /** CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: a percentage. */
  readonly sharedMemoryCarveout: number | undefined
  /** CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, a CUlaunchMemSyncDomain. */
  readonly memorySyncDomain: number | undefined
  /** CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, a CUclusterSchedulingPolicy. */
  readonly clusterScheduling: number | undefined
  /** CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION: blocks in each direction. */
  readonly preferredCluster: readonly [number, number, number] | undefined
}

/** A kernel in JavaScript, for the simulator. */
export interface HostKernel {
  /** Virtual nanoseconds that a launch takes. */
  readonly nanoseconds: number
  /** The name of each argument in error messages. */
  readonly argumentNames: readonly string[]
  /** Runs all threads. Memory, a struct and a vector are given as their bytes. What it throws is an uncaught exception. */
  run(shape: LaunchShape, args: readonly (number | bigint | Uint8Array)[], setConditional: SetConditional): void
}

/** A module whose kernels are in JavaScript, by their names. */
export type HostModule = ReadonlyMap<string, HostKernel>

/** What a module is loaded from: a cubin, PTX, or a fatbin; on the simulator PTX or a HostModule. */
export type ModuleImage = Uint8Array | HostModule | ComparedModule

/** Compiled code and the same kernels in JavaScript: each launch runs both on the same memory and compares. */
export interface ComparedModule {
  readonly code: Uint8Array
  readonly host: HostModule
}

/** Kernels before they are compiled. */
export interface KernelSource {
  /** CUDA C++; empty where there is PTX. */
  readonly text: string
  /** What was compiled of it before. */
  readonly ptx: Uint8Array | undefined
  /** Machine code for the device, in place of the PTX; the simulator takes the PTX. */
  readonly cubin?: Uint8Array | undefined
  /** The name of the file in the compiler's messages. */
  readonly file: string
  /** NVRTC's options. */
  readonly options: readonly string[]
  /** The same kernels in JavaScript, which the simulator takes for the compiled ones; undefined: it compiles the text. */
  readonly host: HostModule | undefined
  /** The simulator compiles the text, too, and compares. */
  readonly compares?: boolean
}

/** The limits of a kernel whose code has none of its own. */
export const LIMITS_OF_ANY: KernelLimits = { maxThreads: 1024, staticSharedBytes: 0 }

/** What the code of a kernel leaves for its launches. */
export interface KernelLimits {
  /** The most threads of a block: the code's own bound, such as `__launch_bounds__`, or fewer if its registers allow no more. */
  readonly maxThreads: number
  /** `.reqntid`: the one block that the code takes, as far as is known: the NVIDIA driver says it in its own words, once a launch fails. */
  readonly requiredBlock?: readonly number[] | undefined
  /** The shared memory that the code declares, which a launch's dynamic shared memory comes on top of. */
  readonly staticSharedBytes: number
}

export interface KernelDriver {
  /** `nvrtcCompileProgram`: as `compile`, and blocks until it is done. */
  compileNow(source: KernelSource): ModuleImage
  /**
   * `nvrtcCompileProgram`: compiles CUDA C++ to an image that `load` takes. Rejects with ERR_COMPILATION, or ERR_UNSUPPORTED
   * where there is no compiler.
   */
  compile(source: KernelSource): Promise<ModuleImage>
  /** `cuModuleLoadData`. Throws ERR_DEADLOCK inside a host function, and ERR_UNSUPPORTED for code that the driver cannot run. */
  load(image: ModuleImage, context: ContextHandle): ModuleHandle
  /** `cuModuleUnload` */
  unload(module: ModuleHandle, context: ContextHandle): void
  /** `cuModuleGetFunction`. Throws ERR_INVALID_ARG_VALUE where these are not the kernel's parameters. */
  kernel(module: ModuleHandle, name: string, parameters: readonly PassedType[]): KernelHandle
  /** The names of the kernels of a module (`cuModuleEnumerateFunctions`); none if the driver does not tell. */
  names(module: ModuleHandle): readonly string[]
  /** `cuModuleGetGlobal`: where a variable of the module lies. */
  variable(module: ModuleHandle, name: string): { readonly pointer: Pointer; readonly byteLength: number }
  /** `cuFuncGetAttribute`. Of a kernel that is unloaded: the limits of any. */
  limits(kernel: KernelHandle): KernelLimits
  /** `cuOccupancyMaxActiveBlocksPerMultiprocessor`. */
  activeBlocks(kernel: KernelHandle, blockSize: number, sharedMemory: number): number
}

/** CUstreamCaptureMode. */
export const CaptureMode = { GLOBAL: 0, THREAD_LOCAL: 1, RELAXED: 2 } as const
export type CaptureMode = (typeof CaptureMode)[keyof typeof CaptureMode]

/**
 * The kind of a node, from CUgraphNodeType. Memory operations that stand for a host function are one node of that kind.
 */
export type NodeKind =
  | 'kernel'
  | 'copy'
  | 'fill'
  | 'hostFunction'
  | 'eventRecord'
  | 'eventWait'
  | 'graph'
  | 'conditional'
  | 'empty'
  | 'alloc'
  | 'free'
  | 'other'

/** CUgraphConditionalNodeType. */
export const ConditionalType = { IF: 0, WHILE: 1, SWITCH: 2 } as const
export type ConditionalType = (typeof ConditionalType)[keyof typeof ConditionalType]

/**
 * The place at which a conditional node is added: behind the captured work of a stream, or behind the nodes of a body.
 */
export type ConditionalPlace = { readonly stream: StreamHandle } | { readonly body: GraphHandle }

/** A conditional node that is to be added. */
export interface NewConditional {
  readonly context: ContextHandle
  /** A CUgraphConditionalHandle. */
  readonly condition: bigint
  readonly type: ConditionalType
  /** The number of its bodies. */
  readonly size: number
}

/** A conditional node, and the graphs that it plays, which are destroyed together with its own. */
export interface ConditionalFacts {
  readonly type: ConditionalType
  readonly bodies: readonly GraphHandle[]
}

/** The facts that a driver reports of a node. */
export interface NodeFacts {
  readonly node: NodeHandle
  readonly kind: NodeKind
  /** The nodes that it comes after at once. */
  readonly after: readonly NodeHandle[]
  /** The name of a kernel node's kernel. */
  readonly name: string | undefined
  /** The number of bytes that a copy or a fill writes. */
  readonly byteLength: number | undefined
  /** The facts of a conditional node that this driver added. */
  readonly conditional?: ConditionalFacts | undefined
}

export interface GraphDriver {
  /** `cuStreamBeginCapture` */
  begin(stream: StreamHandle, mode: CaptureMode): void
  /** `cuStreamEndCapture`, of the capture that this stream began. */
  end(stream: StreamHandle): GraphHandle
  /**
   * `cuStreamGetCaptureInfo`: the driver's number for the capture that the stream is in; undefined where it is in none, or
   * in one that is invalidated. The stream is no null stream.
   */
  captureId(stream: StreamHandle): bigint | undefined
  /**
   * `cuStreamGetCaptureInfo`: the node that was captured on the stream last; undefined where its next work comes after
   * several, or none.
   */
  capturedNode(stream: StreamHandle): NodeHandle | undefined
  /**
   * `cuStreamBeginCaptureToGraph`: what is captured is added to the graph, behind these nodes. `end` gives the same handle.
   * Where it throws the capture's error, the graph is destroyed.
   */
  beginInto(stream: StreamHandle, mode: CaptureMode, graph: GraphHandle, after: readonly NodeHandle[]): void
  /**
   * `cuGraphConditionalHandleCreate`, with CU_GRAPH_COND_ASSIGN_DEFAULT, for the graph of the capture that the stream is in: a
   * condition of this context that has this value when a launch begins. Returns the CUgraphConditionalHandle.
   */
  createCondition(stream: StreamHandle, context: ContextHandle, value: number): bigint
  /**
   * `cuGraphAddNode` of a conditional node, and in a capture `cuStreamUpdateCaptureDependencies`. Its bodies are graphs of their
   * own, which are empty.
   */
  addConditional(place: ConditionalPlace, node: NewConditional): readonly GraphHandle[]
  /**
   * `cuGraphAddChildGraphNode`: adds a copy of the graph to the body of a conditional node, behind what the body has. Returns the
   * copy of each node (`cuGraphNodeFindInClone`). Throws ERR_UNSUPPORTED for a graph with nodes that no body can have.
   */
  addToBody(body: GraphHandle, graph: GraphHandle): ReadonlyMap<NodeHandle, NodeHandle>
  /** Ends the capture that this stream began, if it is still under way, and throws the graph away. */
  abandon(stream: StreamHandle): void
  /**
   * Called when another library's stream, on which a capture was begun here, may be destroyed at any time from now on: it is no
   * longer queried for the state of that capture.
   */
  leave(stream: StreamHandle): void
  /** `cuGraphDestroy` */
  destroy(graph: GraphHandle): void
  /** `cuGraphGetNodes` */
  nodeCount(graph: GraphHandle): number
  /** `cuGraphDebugDotPrint`: the graph in Graphviz's language. */
  toDot(graph: GraphHandle): string
  /** `cuGraphInstantiateWithFlags` */
  instantiate(graph: GraphHandle, context: ContextHandle): GraphExecHandle
  /** `cuGraphExecDestroy` */
  destroyExec(exec: GraphExecHandle): void
  /** `cuGraphExecUpdate`: puts another graph of the same shape into an instantiated one. */
  update(exec: GraphExecHandle, graph: GraphHandle): void
  /** `cuGraphGetNodes`, `cuGraphNodeGetType`, `cuGraphGetEdges`: each node comes after those that it depends on. */
  nodes(graph: GraphHandle): readonly NodeFacts[]
  /**
   * `cuGraphExecKernelNodeSetParams`, `cuGraphExecMemcpyNodeSetParams` or `cuGraphExecMemsetNodeSetParams`: gives a node other
   * work of its kind. The node is one of the graph that the instance was made from, or of a body in there, which still lives, and the context the
   * one that it was captured in.
   */
  updateNode(exec: GraphExecHandle, node: NodeHandle, context: ContextHandle, work: NodeWork): void
  /** `cuGraphNodeSetEnabled`, of a kernel, copy or fill; ERR_UNSUPPORTED for a fill of several rows. No context is known for one that another library queued. */
  setEnabled(exec: GraphExecHandle, node: NodeHandle, context: ContextHandle | undefined, enabled: boolean): void
}

/** A call of a C function that returns an int, with up to eight integers or pointers. */
export interface CallOfLibrary {
  readonly address: number
  readonly context: ContextHandle
  readonly args: readonly number[]
}

/** Calls that another thread makes. */
export interface ThreadedCalls {
  /** The first result that is not 0, or 0; undefined until all calls have returned. */
  readonly result: number | undefined
}

export interface LibraryDriver {
  /** Are host functions pending? A call that waits for the device in native code would wait forever then. */
  hostFunctionsPending(): boolean
  /**
   * Makes a call that queues nothing, such as one that makes a handle, with the context current. It may wait for the
   * device, and invalidates no capture of the thread: host functions that are pending are run before, on a GPU. Throws
   * ERR_DEADLOCK inside one, and while a stream waits for a promise.
   */
  call<R>(context: ContextHandle, fn: () => R): R
  /**
   * Calls a C function of one pointer, which waits for the device, on a thread of its own, and resolves with the int that
   * it returns. Begins when no host function is pending, and none is queued before it is over: while it waits, CUDA keeps
   * other threads out, so that they could run none. Where host functions stay pending it begins after so many milliseconds all the same.
   */
  callOnThread(address: number, argument: number, patience: number): Promise<number>
  /**
   * Makes calls of C in turn on a thread of their own, each with its context current, until one returns other than 0; the last is made all the
   * same. They begin at once, whatever is pending, so they must not wait for the device while they keep other threads out of CUDA.
   */
  makeOnThread(calls: readonly CallOfLibrary[]): ThreadedCalls
  /** Blocks until a library says that it is done. Host functions that become ready meanwhile are run. */
  waitUntil(isDone: () => boolean, what: string): void
}

/** CUDA's own handle of a whole allocation, 64 bytes, and where in it the memory lies. */
export interface ExportedMemory {
  readonly handle: Uint8Array
  readonly byteOffset: number
}

/** A whole allocation of another process. */
export interface ImportedMemory {
  readonly pointer: Pointer
  readonly byteLength: number
  /**
   * `cuIpcCloseMemHandle`, to be called once: gives it up when the latest records of these events are done, and takes
   * the events over.
   */
  readonly close: (after: readonly InternalEvent[]) => void
}

/** The record of a shared object that other threads read. */
export interface Registration {
  /** The address of the record. */
  readonly registration: number
  /** The memory that goes to other threads with the token, on the simulator. */
  readonly simulated?: object
}

/** How long something lives that another thread has shared. */
export interface SharedLifetime {
  readonly hasEnded: boolean
  /** Called when the shared object has one more wrapper in this thread. */
  join(): void
  leave(): void
}

export interface SharingDriver {
  /** `cuMemAlloc`: there at once. Invalidates no capture. */
  allocate(byteLength: number, context: ContextHandle): Pointer
  /**
   * `cuMemFree`: gives such memory back once the latest records of these events are done, and takes the events over.
   */
  free(pointer: Pointer, after: readonly InternalEvent[]): void
  /** `cuIpcGetMemHandle`. Throws ERR_UNSUPPORTED for memory that CUDA cannot share. */
  exportMemory(pointer: Pointer, context: ContextHandle): ExportedMemory
  /** `cuIpcOpenMemHandle`. Throws ERR_INVALID_HANDLE for bytes that are no memory of another process. */
  importMemory(handle: Uint8Array, context: ContextHandle): ImportedMemory

  /**
   * Writes a registration into memory that every thread of the process can read: its key, then at most seven words.
   * The words are the object's kind (0 a stream, 1 an event, 2 a buffer), its device, and what tokens are compared with.
   */
  register(words: readonly [key: number, ...rest: number[]]): Registration
  /** Removes a registration. */
  unregister(registration: number): void
  /** The words after the key of a registration; undefined if there is none with this key. Takes any address, and anything else. */
  readRegistration(registration: number, key: number, simulated: unknown): readonly number[] | undefined
  /**
   * Reports whether a registration that was read has been removed since, at the cost of a comparison. What it is of lives until `leave()` was called as
   * often as `join()`, and once more, though the thread that shared it may have ended.
   */
  watchRegistration(registration: number, key: number, simulated: unknown): SharedLifetime
  /**
   * A sanitizer watches an object of this thread from now on that has these words. Returns what goes to the sanitizers of other threads
   * with its token; undefined if there is no sanitizer.
   */
  watchShared(words: readonly [key: number, ...rest: number[]]): object | undefined
  /**
   * A sanitizer watches an object of another thread, of whose token `watched` is the result of `watchShared()`. False if there is no
   * sanitizer, or none there.
   */
  watchReceived(words: readonly [key: number, ...rest: number[]], watched: unknown): boolean
}

// Work that streams are given

/**
 * How memory is used: read, written, or both. 'atomic' is both, by atomic operations alone, whose order among each other
 * does not matter to the work.
 */
export type Access = 'in' | 'out' | 'inout' | 'atomic'

/** Matrices at equal distances, the rows of each at equal distances: in bytes, from the first byte of the memory on. */
export interface MemoryRows {
  readonly rowLength: number
  readonly rows: number
  readonly rowDistance: number
  readonly matrices: number
  readonly matrixDistance: number
}

/** Bytes from the first byte of the rows to behind the last. */
export const extentOf = ({ rowLength, rows, rowDistance, matrices, matrixDistance }: MemoryRows): number =>
  (matrices - 1) * matrixDistance + (rows - 1) * rowDistance + rowLength
/** Bytes of all rows. */
export const bytesIn = ({ rowLength, rows, matrices }: MemoryRows): number => rowLength * rows * matrices

/** Memory that work touches. */
export interface TouchedMemory {
  readonly pointer: Pointer
  readonly byteLength: number
  readonly access: Access
  /** The index of the kernel's argument, from 0; undefined if the memory is not an argument. */
  readonly argument: number | undefined
  /** The rows of the memory that are touched; undefined if all bytes are. */
  readonly rows: MemoryRows | undefined
}

/** The bytes that a copy reads and writes. */
export interface CopiedBytes {
  readonly destination: Pointer
  readonly source: Pointer
  /** The bytes of all rows, if it copies rows. */
  readonly byteLength: number
  readonly route: CopyRoute | undefined
  /** The rows at both ends, as many and as long. The distance of two matrices is a whole number of rows' distances. */
  readonly rows: { readonly to: MemoryRows; readonly from: MemoryRows } | undefined
}

/** A copy, in a stream or in a node of a graph. */
export interface CopyWork extends CopiedBytes {
  readonly kind: 'copy'
}

/** Bytes that a single element of a fill has. */
export type FillWidth = 1 | 2 | 4

/** A fill, in a stream or in a node of a graph. */
export interface FillWork {
  readonly kind: 'fill'
  readonly pointer: Pointer
  readonly value: number
  readonly width: FillWidth
  /** The elements of all rows, if it fills rows. */
  readonly count: number
  /** The rows, which make one matrix; undefined if no bytes are left out. */
  readonly rows: MemoryRows | undefined
}

/** How a parameter is passed: as a number, by its type, or as so many bytes, which are those of a struct or vector. */
export type PassedType = ScalarType | number

/** An argument of a kernel as it is passed: memory by its address, and a struct or vector by its bytes. */
export type LaunchArgument = number | bigint | Uint8Array | MemoryOfArgument

type MemoryOfArgument = Pick<TouchedMemory, 'pointer' | 'byteLength'>

export const isMemoryArgument = (given: LaunchArgument): given is MemoryOfArgument =>
  typeof given === 'object' && !ArrayBuffer.isView(given)

/** What a kernel does with an argument. */
export interface ArgumentUse {
  /** How the kernel uses the memory of the argument; undefined for an argument that is no pointer. */
  readonly access: Access | undefined
  /** The layout of the value, or of the elements that a pointer points to. */
  readonly element: ElementLayout
}

/** Sets the condition with this handle, as `cudaGraphSetConditional` does. */
export type SetConditional = (handle: bigint, value: number) => void

/** A kernel that can be launched. */
export interface LaunchedKernel {
  readonly handle: KernelHandle
  readonly name: string
  /** Virtual nanoseconds that a launch takes on the simulator; undefined: what its code says. */
  readonly nanoseconds?: number | undefined
  /** How the kernel uses each argument, for interceptors and host implementations. A GPU does not need it. */
  readonly uses: readonly ArgumentUse[]
}

/** What a GPU leaves undefined in a kernel, and the simulator has seen. */
export type KernelMistakeKind =
  | 'shared-memory-race'
  | 'global-memory-race'
  | 'diverging-barrier'
  | 'shuffle-from-absent-lane'
  | 'lane-not-in-mask'
  | 'uninitialised-read'

/** Follows the launches of a kernel on the simulator, each time that its code has run. */
export interface LaunchObserver {
  /** Whether `ran` will be called for the launch; set by the driver. */
  isTold: boolean
  /** @param memory All bytes that the launch touched; undefined where they are too scattered to tell. */
  ran(
    memory: readonly TouchedMemory[] | undefined,
    mistakes: readonly { readonly kind: KernelMistakeKind; readonly message: string }[],
  ): void
}

/** A launch of a kernel, in a stream or in a node of a graph. */
export interface KernelWork {
  readonly kind: 'kernel'
  readonly kernel: LaunchedKernel
  readonly shape: LaunchShape
  readonly args: readonly LaunchArgument[]
  readonly observer?: LaunchObserver
  /** See `QueuedLibraryCalls`. */
  readonly comparesAll?: true
}

/** Work that a node of a graph can be given in the place of other work of its kind. */
export type NodeWork = CopyWork | FillWork | KernelWork

interface InStream {
  readonly stream: StreamHandle
}
interface InContext extends InStream {
  readonly context: ContextHandle
}

/**
 * `cuMemcpyAsync` between any two places that the stream's device reaches, `cuMemcpyPeerAsync` where the route says that
 * they are memory of two devices that it does not reach, `cuMemcpyBatchAsync` within the host, `cuMemcpy3DAsync` of rows
 * (within the host a host function copies rows). Never blocks.
 */
export interface QueuedCopy extends InStream, CopyWork {
  /** What the program has called for. */
  readonly name: 'copy' | 'upload' | 'download'
}

/** `cuMemcpyBatchAsync`, or one by one: copies that touch nothing of each other, in any order. */
export interface QueuedCopies extends InStream {
  readonly kind: 'copies'
  readonly copies: readonly CopiedBytes[]
}

/** `cuMemsetD8Async`, `D16` or `D32`; of rows `cuMemsetD2D8Async`, `D2D16` or `D2D32`. */
export interface QueuedFill extends InStream, FillWork {}

/** `cuLaunchKernelEx` */
export interface QueuedKernel extends InStream, KernelWork {}

/**
 * `cuMemAllocAsync`, or `cuMemAllocFromPoolAsync` where a pool is given: the memory is there once the stream's work gets
 * here. Where memory runs out, what the pools of the device keep unused is given back first.
 */
export interface QueuedAllocation extends InContext {
  readonly kind: 'allocate'
  readonly byteLength: number
  readonly pool: PoolHandle | undefined
  /** Whether all bytes are 0 at first. Otherwise CUDA promises nothing. */
  readonly isZeroed: boolean
  /** The address of the memory; set by the driver. CUDA_MEM_ALLOC_NODE_PARAMS has such a field, too. */
  pointer: Pointer
}

/**
 * `cuMemFreeAsync`: the memory is gone once the stream's work gets here, and the latest records of the events are done. The
 * stream does not wait for them, and the driver takes them over.
 */
export interface QueuedFree extends InStream {
  readonly kind: 'free'
  readonly pointer: Pointer
  readonly after: readonly InternalEvent[]
}

/**
 * `cuStreamWaitValue32` or `64`: later work of the stream waits until the word in memory meets the comparison. Not memory
 * of a pool.
 */
export interface QueuedValueWait extends InContext {
  readonly kind: 'waitValue'
  readonly word: MemoryValue
  readonly compare: Comparison
}

/** `cuStreamWriteValue32` or `64`: written when all earlier work of the stream is done, and all that it wrote is there. */
export interface QueuedValueWrite extends InStream {
  readonly kind: 'writeValue'
  readonly word: MemoryValue
}

/** `cuLaunchHostFunc` or `cuStreamAddCallback` */
export interface QueuedHostFunction extends InContext {
  readonly kind: 'hostFunction'
  readonly call: HostFunction
}

/**
 * Blocks the stream at this point until `release` is called. The stream does not capture. A wait of this thread for work
 * behind it is ERR_DEADLOCK meanwhile. It alone does not keep the process alive.
 */
export interface QueuedPromiseWait extends InContext {
  readonly kind: 'promise'
  /** The function of the library that the program has called, if that is known: warnings name the place of the call. */
  readonly called: ((...args: never[]) => unknown) | undefined
  /** Ends the block; set by the driver. */
  release: () => void
}

/** `cuGraphLaunch` */
export interface QueuedGraph extends InStream {
  readonly kind: 'graph'
  readonly exec: GraphExecHandle
}

/** `cuGraphUpload` */
export interface QueuedGraphUpload extends InStream {
  readonly kind: 'graphUpload'
  readonly exec: GraphExecHandle
}

/**
 * `cuGraphAddChildGraphNode`, `cuStreamUpdateCaptureDependencies`: puts a copy of the graph into the capture that the
 * stream is in, as one node, behind what the stream has there. The stream captures.
 */
export interface QueuedChildGraph extends InStream {
  readonly kind: 'childGraph'
  readonly graph: GraphHandle
}

/**
 * Entries of a hardware queue that one call of a library takes at most, unless the call says more: a few kernels, and what they copy
 * and clear before.
 */
export const LIBRARY_ENTRIES = 8
/** The most that are reserved for one call: about half of what a hardware queue holds. */
export const MOST_LIBRARY_ENTRIES = 500

/** Work in JavaScript, in place of a library's GPU code. */
export interface HostImplementation {
  /** Virtual nanoseconds that it takes. */
  readonly nanoseconds: number
  /** Whether the work can begin. Another thread or process makes this true. */
  readonly isReady?: (() => boolean) | undefined
  /**
   * Does the work, on the bytes of each piece of memory, in their order. An error that it throws is an uncaught exception.
   */
  readonly run: (bytes: readonly Uint8Array[]) => void
}

/** A call of another library that queues work on a stream. */
export interface LibraryCall extends InContext {
  /** The C function, such as 'cublasGemmEx'. */
  readonly name: string
  /** The memory that it touches, as far as that is known: for interceptors and host implementations. */
  readonly memory: readonly TouchedMemory[]
  /** Entries of a hardware queue that it takes at most. Default: LIBRARY_ENTRIES. */
  readonly entries?: number
  /**
   * The call does not need the stream's context to be current: on a stream that is no default stream, the library finds the
   * context by itself.
   */
  readonly inAnyContext?: true
  /** Makes the call with CUDA's own handle of the stream, and the context current. Throws what the library refuses. */
  call(stream: number): void
  readonly host: HostImplementation | undefined
}

/**
 * Makes the calls, each in its context, in hardware queues that have room for the entries of each. Throws
 * ERR_UNSUPPORTED where a call has no host implementation and the driver runs no GPU code.
 */
export interface QueuedLibraryCalls {
  readonly kind: 'library'
  readonly calls: readonly LibraryCall[]
  /**
   * Makes the calls inside a pair of calls that marks a group, for libraries that must know which calls belong together.
   */
  readonly together?: ((calls: () => void) => void) | undefined
  /**
   * Whether the memory that a host implementation must not write is compared in full, and not just at the ends of long ranges.
   */
  readonly comparesAll?: true
}

/** The work that `Driver.queue()` queues. */
export type QueuedWork =
  | QueuedAllocation
  | QueuedChildGraph
  | QueuedCopies
  | QueuedCopy
  | QueuedFill
  | QueuedFree
  | QueuedGraph
  | QueuedGraphUpload
  | QueuedHostFunction
  | QueuedKernel
  | QueuedLibraryCalls
  | QueuedPromiseWait
  | QueuedValueWait
  | QueuedValueWrite

/** All of these bytes, with this access. */
export const touching = (pointer: Pointer, byteLength: number, access: Access): TouchedMemory => {
  return { pointer, byteLength, access, argument: undefined, rows: undefined }
}

/** The memory that copies, fills and kernels touch. */
export function memoryOf(work: NodeWork | QueuedCopies): readonly TouchedMemory[] {
  switch (work.kind) {
    case 'copy':
      return endsOf(work)
    case 'copies':
      return work.copies.flatMap(endsOf)
    case 'fill':
      return [
        work.rows === undefined
          ? touching(work.pointer, work.width * work.count, 'out')
          : touchingRows(work.pointer, work.rows, 'out'),
      ]
    case 'kernel':
      return work.args.flatMap((given, argument) => {
        if (!isMemoryArgument(given)) return []
        const { pointer, byteLength } = given
        return { pointer, byteLength, access: work.kernel.uses[argument]?.access ?? 'inout', argument, rows: undefined }
      })
  }
}

function endsOf({ destination, source, byteLength, rows }: CopiedBytes): readonly [TouchedMemory, TouchedMemory] {
  if (rows === undefined) return [touching(destination, byteLength, 'out'), touching(source, byteLength, 'in')]
  return [touchingRows(destination, rows.to, 'out'), touchingRows(source, rows.from, 'in')]
}

function touchingRows(pointer: Pointer, rows: MemoryRows, access: Access): TouchedMemory {
  const isDense = rows.rowDistance === rows.rowLength && rows.matrixDistance === rows.rows * rows.rowLength
  return { pointer, byteLength: extentOf(rows), access, argument: undefined, rows: isDense ? undefined : rows }
}
