/** CUDA streams for TypeScript. Importing this loads no library and touches no GPU. */

import './shortcuts.js'

export type { Bytes } from './base/bytes.js'
export {
  type Elements,
  type ElementView,
  elements,
  type FieldType,
  type Struct,
  type StructFields,
  type StructOptions,
  type StructValue,
  struct,
  type ValueOf,
} from './base/element-layout.js'
export { CudaError } from './base/errors.js'
export { type Context, Device } from './device.js'
export type { DeviceAttribute } from './driver/device-attributes.js'
export type { FillWidth } from './driver/driver.js'
export type { WaitOptions } from './driver/finished.js'
export { Event } from './event.js'
export type { CaptureModeName, CaptureOptions, Synchronous } from './graphs/capture.js'
export { Graph, GraphExec } from './graphs/graph.js'
export type {
  ConditionalNode,
  CopyNode,
  FillNode,
  GraphNode,
  KernelNode,
  OtherNode,
  OtherNodeKind,
} from './graphs/nodes.js'
export { Condition } from './kernels/condition.js'
export {
  DefinedKernel,
  defineKernel,
  type HostArgument,
  type HostArguments,
  type KernelDefinition,
  type ViewOf,
} from './kernels/defined-kernel.js'
export type { ExternalMemory, ExternalWork } from './kernels/external-work.js'
export type { Extent3, Index3, SimulatedGrid, SimulatedThread } from './kernels/host-implementation.js'
export {
  type CompileOptions,
  type Extent,
  Kernel,
  type LaunchConfig,
  type LaunchConfigOptions,
  Module,
  Program,
} from './kernels/kernel.js'
export type {
  Access,
  ArgumentOf,
  ArgumentsOf,
  MemoryArgument,
  ParameterType,
  ScalarType,
  StructPointer,
  VectorArgument,
  VectorType,
} from './kernels/kernel-signature.js'
export type { ViewConstructor } from './memory/buffer.js'
export { DeviceBuffer, type ForeignMemoryOptions } from './memory/device-buffer.js'
export { MemoryPool, type MemoryPoolOptions } from './memory/memory-pool.js'
export { PinnedBuffer } from './memory/pinned-buffer.js'
export type { WaitValueOptions, WriteValueOptions } from './memory/stream-memory-operations.js'
export type { CopyOptions, DownloaderOptions, FillOptions, FillValueOptions } from './memory/transfers.js'
export type { AllocOptions } from './shortcuts.js'
export {
  ExternalStream,
  type LaunchArguments,
  type LaunchTarget,
  Stream,
  type WaitPromiseOptions,
  type WaitStreamOptions,
} from './stream.js'
export type { EventOptions } from './streams/event-impl.js'
export { GreenContext, type SplitDevice, type SplitOptions } from './streams/green-context.js'
export type { SharedBuffer, SharedEvent, SharedObject, SharedStream } from './streams/shared.js'
export {
  type CudaStreamLike,
  cudaStream,
  type ExternalStreamOptions,
  type PythonStreamLike,
  type RecordOptions,
  type StreamOptions,
  type StreamSource,
  type WaitEventOptions,
} from './streams/stream-options.js'
