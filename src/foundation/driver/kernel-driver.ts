/** The driver interface for kernels: compiling and loading them, and what a launch is made of. */

import type { ElementLayout } from '../base/element-layout.js'
import type { ScalarType } from '../base/element-types.js'
import type { ContextHandle, KernelHandle, ModuleHandle, Pointer } from './handle-types.js'
import type { TensorMapSpec } from './tensor-maps.js'
import type { Access, TouchedMemory } from './touched-memory.js'

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

/** Returns how error messages name a parameter, by its index. */
export type DescribeParameter = (index: number) => string

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
  kernel(
    module: ModuleHandle,
    name: string,
    parameters: readonly PassedType[],
    describe?: DescribeParameter,
  ): KernelHandle
  /** The names of the kernels of a module (`cuModuleEnumerateFunctions`); none if the driver does not tell. */
  names(module: ModuleHandle): readonly string[]
  /** `cuModuleGetGlobal`: where a variable of the module lies. */
  variable(module: ModuleHandle, name: string): { readonly pointer: Pointer; readonly byteLength: number }
  /** The CUfunction of a kernel. Throws CUDA_ERROR_INVALID_HANDLE once its module is unloaded. */
  functionOf(kernel: KernelHandle): number
  /**
   * `cuFuncGetModule`, `cuFuncGetName`: the module of a CUfunction or CUkernel that other code has loaded, and its name there. `kernel` knows it
   * by that name, until what was returned is given to `release`. Throws ERR_INVALID_HANDLE where the handle is none.
   */
  wrap(handle: number, context: ContextHandle): WrappedFunction
  /** Called once for each result of `wrap`: the module remains its owner's. */
  release(wrapped: WrappedFunction): void
  /** `cuFuncGetAttribute`. Of a kernel that is unloaded: the limits of any. */
  limits(kernel: KernelHandle): KernelLimits
  /** `cuOccupancyMaxActiveBlocksPerMultiprocessor`. */
  activeBlocks(kernel: KernelHandle, blockSize: number, sharedMemory: number): number
  /** `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col`: the bytes of a tensor map. */
  encodeTensorMap(spec: TensorMapSpec): Uint8Array
}

/** A kernel of another library. */
export interface WrappedFunction {
  readonly module: ModuleHandle
  readonly name: string
}

/** How a parameter is passed: as a number, by its type, or as so many bytes, which are those of a struct or vector. */
export type PassedType = ScalarType | number

/** An argument of a kernel as it is passed: memory by its address, and a struct or vector by its bytes. */
export type LaunchArgument = number | bigint | Uint8Array | MemoryOfArgument

type MemoryOfArgument = Pick<TouchedMemory, 'pointer' | 'byteLength'> & {
  /** The texture or surface object by which the kernel uses the memory, and its access; undefined where the kernel gets the address. */
  readonly object?: { readonly handle: number; readonly access: Access } | undefined
  /** The bytes that are passed in place of the address: those of a tensor map, by which the kernel finds the memory. */
  readonly encoded?: Uint8Array
}

export const isMemoryArgument = (given: LaunchArgument): given is MemoryOfArgument =>
  typeof given === 'object' && !ArrayBuffer.isView(given)

/** The address or the object that a kernel gets for memory. */
export const passedNumber = ({ pointer, object }: MemoryOfArgument): number => object?.handle ?? pointer

/** What a kernel gets for memory: a number, or the bytes of a tensor map. */
export const passedFor = (given: MemoryOfArgument): number | Uint8Array => given.encoded ?? passedNumber(given)

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
  | 'unfinished-product'
  | 'uninitialised-read'
  | 'unfinished-copy'
  | 'missing-proxy-fence'
  | 'wrong-copy'
  | 'block-that-ended'

export interface KernelMistake {
  readonly kind: KernelMistakeKind
  readonly message: string
  /** The bytes of global memory that a read found unwritten. */
  readonly memory?: { readonly address: number; readonly bytes: number }
}

/** Follows the launches of a kernel on the simulator, each time that its code has run. */
export interface LaunchObserver {
  /** Whether `ran` will be called for the launch; set by the driver. */
  isTold: boolean
  /** @param memory All bytes that the launch touched; undefined where they are too scattered to tell. */
  ran(memory: readonly TouchedMemory[] | undefined, mistakes: readonly KernelMistake[]): void
}
