/** The part of the wall that kernels are behind. As in driver.ts, a verb that the GPU refuses throws `CudaError`. */
import type { ContextHandle, KernelHandle, ModuleHandle, Pointer, StreamHandle } from './handles.js'

/** The C types that a kernel's parameters can have: signed, unsigned and floating ones, by their number of bits. */
export type ScalarType = 'bool' | 'i8' | 'u8' | 'i16' | 'u16' | 'i32' | 'u32' | 'i64' | 'u64' | 'f32' | 'f64'

export const SCALAR_BYTES: Readonly<Record<ScalarType, number>> = {
  bool: 1,
  i8: 1,
  u8: 1,
  i16: 2,
  u16: 2,
  i32: 4,
  u32: 4,
  i64: 8,
  u64: 8,
  f32: 4,
  f64: 8,
}

export interface LaunchShape {
  /** Blocks in each direction. */
  readonly grid: readonly [number, number, number]
  /** Threads of a block in each direction. */
  readonly block: readonly [number, number, number]
  /** Dynamic shared memory of each block, in bytes. */
  readonly sharedMemory: number
  /** All blocks run at one time, so that they can wait for each other. */
  readonly cooperative: boolean
  /** Blocks of a cluster in each direction. */
  readonly cluster: readonly [number, number, number] | undefined
}

/** What a kernel does with the memory behind a pointer: reads it, writes it, or both. */
export type Access = 'in' | 'out' | 'inout'

/** Memory that a kernel is given. */
export interface KernelMemory {
  readonly pointer: Pointer
  readonly byteLength: number
  readonly access: Access
}

/** A kernel written in JavaScript, for a driver that runs no GPU code. */
export interface Twin {
  readonly name: string
  /** The memory that it works on. */
  readonly memory: readonly KernelMemory[]
  /** Virtual nanoseconds that it takes. */
  readonly nanoseconds: number
  /** How many threads run it, where it stands for a kernel of the caller's. */
  readonly shape: LaunchShape | undefined
  /** Does the work, on the bytes of each piece of memory. What it throws is an uncaught exception. */
  readonly run: (bytes: readonly Uint8Array[]) => void
}

export interface KernelDriver {
  /** Queues a kernel's twin. Throws ERR_UNSUPPORTED on a driver that runs the kernel itself. */
  launchTwin(stream: StreamHandle, twin: Twin): void
  /** As `compile`, and blocks until it is done. */
  compileNow(source: string, name: string, options: readonly string[]): Uint8Array
  /** Compiles CUDA C++ to code that `load` takes. Rejects with ERR_COMPILATION, or ERR_UNSUPPORTED without a compiler. */
  compile(source: string, name: string, options: readonly string[]): Promise<Uint8Array>
  /** `cuModuleLoadData`: cubin, PTX (ending in a zero) or fatbin. */
  load(image: Uint8Array, context: ContextHandle): ModuleHandle
  unload(module: ModuleHandle, context: ContextHandle): void
  /** `cuModuleGetFunction`. Throws ERR_INVALID_ARG_VALUE where these are not the kernel's parameters. */
  kernel(module: ModuleHandle, name: string, parameters: readonly ScalarType[]): KernelHandle
  /** The name that the kernel has in its module. */
  nameOf(kernel: KernelHandle): string
  /** `cuLaunchKernel`. `memory` is what is known of the pointers among the values: wrappers want it, a GPU does not. */
  launch(
    kernel: KernelHandle,
    stream: StreamHandle,
    shape: LaunchShape,
    values: readonly (number | bigint)[],
    memory: readonly KernelMemory[],
  ): void
  /** `cuOccupancyMaxActiveBlocksPerMultiprocessor`. */
  activeBlocks(kernel: KernelHandle, blockSize: number, sharedMemory: number): number
}
