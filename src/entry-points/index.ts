/** CUDA streams for TypeScript. Importing this loads no library and touches no GPU. */

export {
  Condition,
  DefinedKernel,
  Device,
  DeviceBuffer,
  defineKernel,
  Event,
  ExternalStream,
  Graph,
  GraphExec,
  GreenContext,
  Kernel,
  MemoryPool,
  Module,
  OpaqueArray,
  PinnedBuffer,
  Program,
  Stream,
  StreamLane,
  StreamPool,
  SurfaceObject,
  TextureObject,
} from '../core/all-members.js'
export type { Context } from '../core/device.js'
export type { ForeignEventOptions } from '../core/event.js'
export type { CaptureModeName, CaptureOptions, Synchronous } from '../core/graphs/capture.js'
export type { ForeignGraphOptions } from '../core/graphs/graph.js'
export type {
  ConditionalNode,
  CopyNode,
  EventNode,
  FillNode,
  GraphNode,
  KernelNode,
  OtherNode,
  OtherNodeKind,
} from '../core/graphs/nodes.js'
export type { HostArgument, HostArguments, KernelDefinition, ViewOf } from '../core/kernels/defined-kernel.js'
export type { ExternalMemory, ExternalWork } from '../core/kernels/external-work.js'
export type { Extent3, Index3, SimulatedGrid, SimulatedThread } from '../core/kernels/host-implementation.js'
export type {
  CompileOptions,
  Extent,
  ForeignKernelOptions,
  LaunchConfig,
  LaunchConfigOptions,
} from '../core/kernels/kernel.js'
export type {
  Access,
  ArgumentOf,
  ArgumentsOf,
  MemoryArgument,
  ParameterType,
  ScalarType,
  StructPointer,
  TensorMapType,
  VectorArgument,
  VectorType,
} from '../core/kernels/kernel-signature.js'
export type { ViewConstructor } from '../core/memory/buffer.js'
export type { ForeignMemoryOptions } from '../core/memory/device-buffer.js'
export type { ForeignPoolOptions, MemoryPoolOptions } from '../core/memory/memory-pool.js'
export type { ArrayFormat, ArrayOptions } from '../core/memory/opaque-array.js'
export type { WaitValueOptions, WriteValueOptions } from '../core/memory/stream-memory-operations.js'
export { type Im2colBox, TensorMap, type TensorMapOptions, type TensorType } from '../core/memory/tensor-map.js'
export type { AddressMode, TextureOptions } from '../core/memory/texture-object.js'
export type {
  CopyOptions,
  DownloaderOptions,
  DownloadOptions,
  FillOptions,
  FillValueOptions,
} from '../core/memory/transfers.js'
export type { AllocOptions } from '../core/shortcuts.js'
export type { LaunchArguments, LaunchTarget, WaitStreamOptions } from '../core/stream.js'
export type { StreamPoolOptions } from '../core/stream-pool.js'
export type { EventOptions } from '../core/streams/event-impl.js'
export type { SplitDevice, SplitOptions } from '../core/streams/green-context.js'
export type { SharedBuffer, SharedEvent, SharedObject, SharedStream } from '../core/streams/shared.js'
export {
  type CudaStreamLike,
  cudaStream,
  type ExternalStreamOptions,
  type PythonStreamLike,
  type RecordOptions,
  type StreamOptions,
  type StreamSource,
  type WaitEventOptions,
  type WaitPromiseOptions,
} from '../core/streams/stream-options.js'
export type { Bytes } from '../foundation/base/bytes.js'
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
} from '../foundation/base/element-layout.js'
export { CudaError, LibraryError } from '../foundation/base/errors.js'
export type { DeviceAttribute } from '../foundation/driver/device-attributes.js'
export type { DeviceProcess, DeviceUsage } from '../foundation/driver/device-driver.js'
export type { WaitOptions } from '../foundation/driver/finished.js'
export type { FillWidth } from '../foundation/driver/queued-work.js'
