/** Modules and kernels on a real GPU. */
import { invalidValue, stateError } from '../../base/errors.js'
import { CUresult, cudaError } from '../cuda-results.js'
import {
  type ContextHandle,
  isDefaultStream,
  type KernelDriver,
  type KernelHandle,
  type LaunchShape,
  type ModuleHandle,
  SCALAR_BYTES,
  type ScalarType,
  type StreamHandle,
} from '../driver.js'
import type { Contexts } from './libcuda/contexts.js'
import { check, checkDestroyed, type Library } from './libcuda/library.js'
import { NativeMemory } from './libcuda/native.js'
import { compileCuda, compileCudaNow } from './libcuda/nvrtc.js'
import { ParameterBlock } from './libcuda/parameter-block.js'

/** A function of a module. Whoever gets it twice gets it once. */
interface CudaFunction {
  /** The CUfunction. */
  readonly handle: number
  readonly name: string
  /** Bytes of dynamic shared memory that it has leave for; without leave, what every kernel has. */
  sharedMemory: number
}

/** A function with a signature: the same bytes may be a float for one and an integer for another. */
interface Callable {
  readonly function: CudaFunction
  readonly parameters: ParameterBlock
}

/** What was got from one module. */
interface Loaded {
  readonly functions: Map<string, CudaFunction>
  /** By name and signature. */
  readonly kernels: Map<string, KernelHandle>
}

/** The rest of the driver, as far as kernels need it. */
export interface CudaKernelsParts {
  /** Makes one call on a stream, with its context current where it is a default stream. */
  onStream(stream: StreamHandle, call: string, fn: (raw: number) => number): void
  /** Entries of the stream's hardware queue are about to be taken. */
  count(stream: StreamHandle, entries: number): void
  /** Makes a call in which CUDA waits for the whole device, once no host function of any thread is pending. */
  exclusively<R>(call: () => R, what: string): R
  /** The same where that can be at once. False where it cannot: nothing was called. */
  exclusivelyNow(call: () => void): boolean
  /** Makes calls that may not be made beside a capture otherwise. */
  relaxed<R>(calls: () => R): R
}

/** It takes four arguments where cuLaunchKernel takes eleven, each of which costs. */
const LAUNCH = 'cuLaunchKernelEx'
const ATTRIBUTE_COOPERATIVE = 2
const ATTRIBUTE_CLUSTER = 4
/** sizeof(CUlaunchAttribute), and where its value stands. */
const ATTRIBUTE_BYTES = 72
const ATTRIBUTE_VALUE = 8
const CONFIG_BYTES = 56
const FUNCTION_ATTRIBUTE_LOCAL_SIZE = 3
const FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED = 8
const LIMIT_STACK_SIZE = 0
/** Dynamic shared memory that needs no leave. */
const SHARED_MEMORY_WITHOUT_LEAVE = 48 * 1024

export class CudaKernels implements KernelDriver {
  readonly #library: Library
  readonly #memory: NativeMemory
  readonly #contexts: Contexts
  readonly #around: CudaKernelsParts
  readonly #kernels = new Map<KernelHandle, Callable>()
  readonly #loaded = new Map<ModuleHandle, Loaded>()
  readonly #contextOf = new Map<ModuleHandle, ContextHandle>()
  /** Closed, and not yet given back. */
  readonly #unloaded: { readonly module: ModuleHandle; readonly context: ContextHandle }[] = []
  readonly #config = new NativeMemory(CONFIG_BYTES + 2 * ATTRIBUTE_BYTES)

  constructor(library: Library, memory: NativeMemory, contexts: Contexts, around: CudaKernelsParts) {
    this.#library = library
    this.#memory = memory
    this.#contexts = contexts
    this.#around = around
    this.#config.bytes.fill(0)
  }

  launchTwin(): void {
    throw stateError('ERR_UNSUPPORTED', 'A real GPU runs the kernel itself, not its twin')
  }

  compileNow(source: string, name: string, options: readonly string[]): Uint8Array {
    return compileCudaNow(source, name, options)
  }

  compile(source: string, name: string, options: readonly string[]): Promise<Uint8Array> {
    return compileCuda(source, name, options)
  }

  load(image: Uint8Array, context: ContextHandle): ModuleHandle {
    const copy = copyOf(image)
    let result: number
    try {
      result = this.#around.exclusively(
        () => this.#load(copy.address, context),
        'loading a module, in which CUDA waits for the whole device,',
      )
    } finally {
      copy.free()
    }
    check('cuModuleLoadData', result)
    const module = this.#memory.pointerAt(0) as ModuleHandle
    this.#contextOf.set(module, context)
    return module
  }

  #load(image: number, context: ContextHandle): number {
    this.#unloadKept()
    return this.#contexts.within(context, () =>
      this.#around.relaxed(() => this.#library.cuModuleLoadData(this.#memory.address, image)),
    )
  }

  /** CUDA waits for the whole device here too: while host functions are pending, that is put off. */
  unload(module: ModuleHandle, context: ContextHandle): void {
    this.#unloaded.push({ module, context })
    this.#unloadKept()
  }

  #unloadKept(): void {
    if (this.#unloaded.length === 0) return
    this.#around.exclusivelyNow(() => {
      for (const { module, context } of this.#unloaded.splice(0)) this.#unload(module, context)
    })
  }

  #unload(module: ModuleHandle, context: ContextHandle): void {
    // A function of another module may get the same address.
    for (const kernel of this.#loaded.get(module)?.kernels.values() ?? []) {
      this.#kernels.get(kernel)?.parameters.free()
      this.#kernels.delete(kernel)
    }
    this.#loaded.delete(module)
    this.#contextOf.delete(module)
    const result = this.#contexts.within(context, () =>
      this.#around.relaxed(() => this.#library.cuModuleUnload(module)),
    )
    checkDestroyed('cuModuleUnload', result)
  }

  kernel(module: ModuleHandle, name: string, parameters: readonly ScalarType[]): KernelHandle {
    const { functions, kernels } = this.#loadedOf(module)
    const found = functions.get(name) ?? this.#functionOf(module, name)
    const key = `${name}(${parameters})`
    const known = kernels.get(key)
    if (known !== undefined) return known
    this.#checkParameters(found, parameters)
    this.#makeLocalMemory(found, module)
    const block = new ParameterBlock(parameters)
    // The address of its block is a number that no other kernel has.
    const kernel = block.address as KernelHandle
    functions.set(name, found)
    kernels.set(key, kernel)
    this.#kernels.set(kernel, { function: found, parameters: block })
    return kernel
  }

  nameOf(kernel: KernelHandle): string {
    return this.#kernels.get(kernel)?.function.name ?? `kernel 0x${kernel.toString(16)}`
  }

  launch(kernel: KernelHandle, stream: StreamHandle, shape: LaunchShape, values: readonly (number | bigint)[]): void {
    const callable = this.#kernels.get(kernel)
    if (callable === undefined) throw cudaError(LAUNCH, CUresult.INVALID_HANDLE)
    const { handle } = callable.function
    if (shape.sharedMemory > SHARED_MEMORY_WITHOUT_LEAVE) allowSharedMemory(this.#library, callable.function, shape)
    this.#around.count(stream, 1)
    const parameters = callable.parameters.write(values)
    if (isDefaultStream(stream)) {
      this.#around.onStream(stream, LAUNCH, (raw) =>
        this.#library.cuLaunchKernelEx(this.#configure(raw, shape), handle, parameters, 0),
      )
      return
    }
    const result = this.#library.cuLaunchKernelEx(this.#configure(stream, shape), handle, parameters, 0)
    if (result !== 0) throw cudaError(LAUNCH, result)
  }

  activeBlocks(kernel: KernelHandle, blockSize: number, sharedMemory: number): number {
    const call = 'cuOccupancyMaxActiveBlocksPerMultiprocessor'
    const { address } = this.#memory
    const handle = this.#kernels.get(kernel)?.function.handle ?? 0
    check(call, this.#library.cuOccupancyMaxActiveBlocksPerMultiprocessor(address, handle, blockSize, sharedMemory))
    return this.#memory.int32[0] ?? 0
  }

  /** Holds the signature against what the driver knows of the kernel: the size of each parameter. */
  #checkParameters({ handle, name }: CudaFunction, parameters: readonly ScalarType[]): void {
    const sizes: number[] = []
    const { address } = this.#memory
    while (this.#library.cuFuncGetParamInfo(handle, sizes.length, address, address + 8) === 0) {
      sizes.push(this.#memory.pointerAt(8))
    }
    const given = parameters.map((type) => SCALAR_BYTES[type])
    if (String(sizes) === String(given)) return
    throw invalidValue(
      `The signature of kernel '${name}' has parameters of ${given.join(', ') || 'no'} bytes, but the kernel's have ${sizes.join(', ') || 'no'}`,
    )
  }

  /**
   * The first launch of a kernel that needs more local memory than any before makes that, for which CUDA waits for the
   * device; so it is made here, where a module is loaded, and a launch never waits.
   */
  #makeLocalMemory({ handle, name }: CudaFunction, module: ModuleHandle): void {
    const { address } = this.#memory
    check('cuFuncGetAttribute', this.#library.cuFuncGetAttribute(address, FUNCTION_ATTRIBUTE_LOCAL_SIZE, handle))
    const bytes = this.#memory.int32[0] ?? 0
    const context = this.#contextOf.get(module)
    if (bytes === 0 || context === undefined) return
    const limit = this.#contexts.within(context, () => {
      check('cuCtxGetLimit', this.#library.cuCtxGetLimit(address, LIMIT_STACK_SIZE))
      return this.#memory.pointerAt(0)
    })
    if (bytes <= limit) return
    const grow = (): number =>
      this.#contexts.within(context, () =>
        this.#around.relaxed(() => this.#library.cuCtxSetLimit(LIMIT_STACK_SIZE, bytes)),
      )
    const what = `making local memory for kernel '${name}', in which CUDA waits for the whole device,`
    check('cuCtxSetLimit', this.#around.exclusively(grow, what))
  }

  #loadedOf(module: ModuleHandle): Loaded {
    let loaded = this.#loaded.get(module)
    if (loaded === undefined) {
      loaded = { functions: new Map(), kernels: new Map() }
      this.#loaded.set(module, loaded)
    }
    return loaded
  }

  #functionOf(module: ModuleHandle, name: string): CudaFunction {
    const text = copyOf(Buffer.from(name))
    const result = this.#library.cuModuleGetFunction(this.#memory.address, module, text.address)
    text.free()
    check('cuModuleGetFunction', result)
    return { handle: this.#memory.pointerAt(0), name, sharedMemory: 0 }
  }

  /** Writes a CUlaunchConfig down. Returns its address. */
  #configure(raw: number, { grid, block, sharedMemory, cooperative, cluster }: LaunchShape): number {
    const { address, uint32 } = this.#config
    uint32[0] = grid[0]
    uint32[1] = grid[1]
    uint32[2] = grid[2]
    uint32[3] = block[0]
    uint32[4] = block[1]
    uint32[5] = block[2]
    uint32[6] = sharedMemory
    uint32[8] = raw
    uint32[9] = raw / 2 ** 32
    uint32[12] = cooperative || cluster !== undefined ? this.#attributes(cooperative, cluster) : 0
    return address
  }

  /** Writes down what more a launch wants. Returns how many attributes there are. */
  #attributes(cooperative: boolean, cluster: LaunchShape['cluster']): number {
    const { address, uint32, uint64 } = this.#config
    uint64[5] = BigInt(address + CONFIG_BYTES)
    let count = 0
    const attribute = (id: number, values: readonly number[]): void => {
      const at = (CONFIG_BYTES + count * ATTRIBUTE_BYTES) / 4
      uint32.fill(0, at, at + ATTRIBUTE_BYTES / 4)
      uint32[at] = id
      uint32.set(values, at + ATTRIBUTE_VALUE / 4)
      count += 1
    }
    if (cooperative) attribute(ATTRIBUTE_COOPERATIVE, [1])
    if (cluster !== undefined) attribute(ATTRIBUTE_CLUSTER, cluster)
    return count
  }
}

/** For C, which takes text to end at a zero. */
function copyOf(bytes: Uint8Array): NativeMemory {
  const copy = new NativeMemory(Math.ceil((bytes.length + 1) / 8) * 8)
  copy.bytes.fill(0)
  copy.bytes.set(bytes)
  return copy
}

function allowSharedMemory(library: Library, found: CudaFunction, { sharedMemory }: LaunchShape): void {
  if (found.sharedMemory >= sharedMemory) return
  const result = library.cuFuncSetAttribute(found.handle, FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED, sharedMemory)
  check('cuFuncSetAttribute', result)
  found.sharedMemory = sharedMemory
}
