/** CUDA streams for TypeScript. Importing this loads no library and touches no GPU. */
import './external-work.js'
import './joins.js'
import './transfers.js'

export {
  DefinedKernel,
  defineKernel,
  type KernelDefinition,
  type TwinArgument,
  type TwinArguments,
  type ViewOf,
} from './defined-kernel.js'
export { type Context, Device } from './device.js'
export { type AllocOptions, DeviceBuffer, type ForeignMemoryOptions } from './device-buffer.js'
export type { DeviceAttribute } from './driver/device-attributes.js'
export type { FillWidth } from './driver/memory-driver.js'
export { CudaError } from './errors.js'
export { Event, type EventOptions } from './event.js'
export type { ExternalMemory, ExternalWork } from './external-work.js'
export type { WaitOptions } from './finished.js'
export { type CaptureModeName, type CaptureOptions, Graph, GraphExec } from './graph.js'
export { type Extent, Kernel, type LaunchConfig, Module } from './kernel.js'
export type { Access, ArgumentOf, ArgumentsOf, MemoryArgument, ParameterType, ScalarType } from './kernel-signature.js'
export { PinnedBuffer, type ViewConstructor } from './pinned-buffer.js'
export { type CompileOptions, Program } from './program.js'
export type { SharedBuffer, SharedEvent, SharedObject, SharedStream } from './shared.js'
export type { Extent3, Index3, SimulatedGrid, SimulatedThread } from './simulated-threads.js'
export { ExternalStream, Stream } from './stream.js'
export type {
  ExternalStreamOptions,
  RecordOptions,
  StreamOptions,
  WaitEventOptions,
  WaitStreamOptions,
} from './stream-options.js'
export { type CudaStreamLike, cudaStream, type PythonStreamLike, type StreamSource } from './stream-source.js'
export type { Bytes, DownloaderOptions, FillOptions } from './transfers.js'
