/** Modules and kernels on a real GPU. */
import { ELEMENT_TYPES, type ScalarType } from '../../base/element-types.js'
import { invalidValue, stateError } from '../../base/errors.js'
import { CUresult, cudaError } from '../cuda-results.js'
import { LOADING } from '../deadlocks.js'
import {
  type ContextHandle,
  isDefaultStream,
  type KernelDriver,
  type KernelHandle,
  type LaunchArgument,
  type LaunchShape,
  type ModuleHandle,
  type StreamHandle,
} from '../driver.js'
import type { HostFunctions } from './host-functions/host-functions.js'
import type { CFunction } from './libcuda/c-functions.js'
import { check, checkDestroyed, type Library } from './libcuda/library.js'
import { NativeMemory } from './libcuda/native.js'
import { compileCuda, compileCudaNow } from './libcuda/nvrtc.js'
import { ParameterBlock } from './libcuda/parameter-block.js'
import type { LibcudaParts } from './libcuda/stream-calls.js'
import type { Blocking } from './waiting/blocking.js'
import type { IdleDevices } from './waiting/idle-devices.js'

/** A function of a module. Got twice, it is one. */
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

/** A module, and all that was got from it. */
interface Loaded {
  readonly context: ContextHandle
  readonly functions: Map<string, CudaFunction>
  /** By name and signature. */
  readonly kernels: Map<string, KernelHandle>
}

export interface CudaKernelsParts extends LibcudaParts {
  readonly hostFunctions: Pick<HostFunctions, 'countEntries'>
  readonly blocking: Pick<Blocking, 'exclusively'>
  readonly idleDevices: Pick<IdleDevices, 'whenIdle' | 'makeAll'>
}

/** It takes four arguments where cuLaunchKernel takes eleven, each of which costs. */
const LAUNCH = 'cuLaunchKernelEx'
const ATTRIBUTE_COOPERATIVE = 2
const ATTRIBUTE_CLUSTER = 4
const ATTRIBUTE_CLUSTER_SCHEDULING = 5
const ATTRIBUTE_PROGRAMMATIC = 6
const ATTRIBUTE_PRIORITY = 8
const ATTRIBUTE_MEMORY_SYNC_DOMAIN = 10
const ATTRIBUTE_PREFERRED_CLUSTER = 11
const ATTRIBUTE_CARVEOUT = 14
const MOST_ATTRIBUTES = 8
/** sizeof(CUlaunchAttribute), and where its value stands. */
const ATTRIBUTE_BYTES = 72
const ATTRIBUTE_VALUE = 8
const CONFIG_BYTES = 56
const SET_NODE = 'cuGraphExecKernelNodeSetParams'
/** sizeof(CUDA_KERNEL_NODE_PARAMS). */
const NODE_PARAMS_BYTES = 72
const FUNCTION_ATTRIBUTE_LOCAL_SIZE = 3
const FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED = 8
const LIMIT_STACK_SIZE = 0
/** Dynamic shared memory that needs no leave. */
const SHARED_MEMORY_WITHOUT_LEAVE = 48 * 1024

export class CudaKernels implements KernelDriver {
  /** By handle: a number that no other kernel has ever had. Undefined where the module is unloaded. */
  readonly #kernels: (Callable | undefined)[] = []
  readonly #loaded = new Map<ModuleHandle, Loaded>()
  readonly #config = new NativeMemory(CONFIG_BYTES + MOST_ATTRIBUTES * ATTRIBUTE_BYTES)
  /** The shape in it: mostly that of the next launch, too. */
  #configured: LaunchShape | undefined

  readonly #node = new NativeMemory(NODE_PARAMS_BYTES)
  /** Kept at hand: the library has more functions than V8 finds without a table of them. */
  readonly #cuLaunchKernelEx: CFunction

  constructor(private readonly parts: CudaKernelsParts) {
    this.#cuLaunchKernelEx = parts.library.cuLaunchKernelEx
    this.#config.bytes.fill(0)
    this.#node.bytes.fill(0)
  }

  loadTwin(): never {
    throw runsNoTwin()
  }

  bytesFrom(): never {
    throw runsNoTwin()
  }

  launchTwin(): never {
    throw runsNoTwin()
  }

  compileNow(source: string, name: string, options: readonly string[]): Uint8Array {
    return compileCudaNow(source, name, options)
  }

  compile(source: string, name: string, options: readonly string[]): Promise<Uint8Array> {
    return compileCuda(source, name, options)
  }

  load(image: Uint8Array, context: ContextHandle): ModuleHandle {
    const copy = NativeMemory.ofText(image)
    let result: number
    try {
      result = this.parts.blocking.exclusively(() => this.#load(copy.address, context), LOADING)
    } finally {
      copy.free()
    }
    check('cuModuleLoadData', result)
    const module = this.parts.memory.pointerAt(0) as ModuleHandle
    this.#loaded.set(module, { context, functions: new Map(), kernels: new Map() })
    return module
  }

  #load(image: number, context: ContextHandle): number {
    this.parts.idleDevices.makeAll()
    return this.parts.contexts.within(context, () =>
      this.parts.relaxed.run(() => this.parts.library.cuModuleLoadData(this.parts.memory.address, image)),
    )
  }

  unload(module: ModuleHandle, context: ContextHandle): void {
    this.parts.idleDevices.whenIdle(() => this.#unload(module, context))
  }

  #unload(module: ModuleHandle, context: ContextHandle): void {
    // A function of another module may get the same address.
    for (const kernel of this.#loaded.get(module)?.kernels.values() ?? []) {
      this.#kernels[kernel]?.parameters.free()
      this.#kernels[kernel] = undefined
    }
    this.#loaded.delete(module)
    const result = this.parts.contexts.within(context, () =>
      this.parts.relaxed.run(() => this.parts.library.cuModuleUnload(module)),
    )
    checkDestroyed('cuModuleUnload', result)
  }

  kernel(module: ModuleHandle, name: string, parameters: readonly ScalarType[]): KernelHandle {
    const loaded = this.#loaded.get(module)
    if (loaded === undefined) throw cudaError('cuModuleGetFunction', CUresult.INVALID_HANDLE)
    const { context, functions, kernels } = loaded
    const found = functions.get(name) ?? this.#functionOf(module, name)
    const key = `${name}(${parameters})`
    const known = kernels.get(key)
    if (known !== undefined) return known
    this.#checkParameters(found, parameters)
    this.#makeLocalMemory(found, context)
    const kernel = this.#kernels.length as KernelHandle
    functions.set(name, found)
    kernels.set(key, kernel)
    this.#kernels.push({ function: found, parameters: new ParameterBlock(parameters) })
    return kernel
  }

  nameOf(kernel: KernelHandle): string {
    return this.#kernels[kernel]?.function.name ?? `kernel 0x${kernel.toString(16)}`
  }

  launch(kernel: KernelHandle, stream: StreamHandle, shape: LaunchShape, args: readonly LaunchArgument[]): void {
    const callable = this.#kernels[kernel]
    if (callable === undefined) throw cudaError(LAUNCH, CUresult.INVALID_HANDLE)
    const { handle } = callable.function
    if (shape.sharedMemory > SHARED_MEMORY_WITHOUT_LEAVE)
      allowSharedMemory(this.parts.library, callable.function, shape)
    this.parts.hostFunctions.countEntries(stream, 1)
    const parameters = callable.parameters.write(args)
    if (isDefaultStream(stream)) {
      this.#launchOnDefault(stream, shape, handle, parameters)
      return
    }
    const result = this.#cuLaunchKernelEx(this.#configure(stream, shape), handle, parameters, 0)
    if (result !== 0) throw cudaError(LAUNCH, result)
  }

  /** A method of its own: one with a closure in it allocates at each call, also where the closure is not made. */
  #launchOnDefault(stream: StreamHandle, shape: LaunchShape, handle: number, parameters: number): void {
    this.parts.calls.onStream(stream, LAUNCH, (raw) =>
      this.#cuLaunchKernelEx(this.#configure(raw, shape), handle, parameters, 0),
    )
  }

  /** The CUDA_KERNEL_NODE_PARAMS for a node of a graph, until the next call. */
  nodeParams(kernel: KernelHandle, shape: LaunchShape, args: readonly LaunchArgument[]): NativeMemory {
    const callable = this.#kernels[kernel]
    if (callable === undefined) throw cudaError(SET_NODE, CUresult.INVALID_HANDLE)
    const { handle } = callable.function
    if (shape.sharedMemory > SHARED_MEMORY_WITHOUT_LEAVE)
      allowSharedMemory(this.parts.library, callable.function, shape)
    const { grid, block, sharedMemory } = shape
    const { uint32 } = this.#node
    const parameters = callable.parameters.write(args)
    uint32[0] = handle
    uint32[1] = handle / 2 ** 32
    uint32[2] = grid[0]
    uint32[3] = grid[1]
    uint32[4] = grid[2]
    uint32[5] = block[0]
    uint32[6] = block[1]
    uint32[7] = block[2]
    uint32[8] = sharedMemory
    uint32[10] = parameters
    uint32[11] = parameters / 2 ** 32
    // A CUkernel and a context: the function has its own.
    uint32.fill(0, 14, 18)
    return this.#node
  }

  activeBlocks(kernel: KernelHandle, blockSize: number, sharedMemory: number): number {
    const call = 'cuOccupancyMaxActiveBlocksPerMultiprocessor'
    const { address } = this.parts.memory
    const handle = this.#kernels[kernel]?.function.handle ?? 0
    check(
      call,
      this.parts.library.cuOccupancyMaxActiveBlocksPerMultiprocessor(address, handle, blockSize, sharedMemory),
    )
    return this.parts.memory.int32[0] ?? 0
  }

  /** Holds the signature against what the driver knows of the kernel: the size of each parameter. */
  #checkParameters({ handle, name }: CudaFunction, parameters: readonly ScalarType[]): void {
    const sizes: number[] = []
    const { address } = this.parts.memory
    while (this.parts.library.cuFuncGetParamInfo(handle, sizes.length, address, address + 8) === 0) {
      sizes.push(this.parts.memory.pointerAt(8))
    }
    const given = parameters.map((type) => ELEMENT_TYPES[type].bytes)
    if (String(sizes) === String(given)) return
    throw invalidValue(
      `The signature of kernel '${name}' has parameters of ${given.join(', ') || 'no'} bytes, but the kernel's have ${sizes.join(', ') || 'no'}`,
    )
  }

  /**
   * The first launch of a kernel that needs more local memory than any before makes that, for which CUDA waits for the
   * device; so it is made here, where a module is loaded, and a launch never waits.
   */
  #makeLocalMemory({ handle, name }: CudaFunction, context: ContextHandle): void {
    const { address } = this.parts.memory
    check('cuFuncGetAttribute', this.parts.library.cuFuncGetAttribute(address, FUNCTION_ATTRIBUTE_LOCAL_SIZE, handle))
    const bytes = this.parts.memory.int32[0] ?? 0
    if (bytes === 0) return
    const limit = this.parts.contexts.within(context, () => {
      check('cuCtxGetLimit', this.parts.library.cuCtxGetLimit(address, LIMIT_STACK_SIZE))
      return this.parts.memory.pointerAt(0)
    })
    if (bytes <= limit) return
    const grow = (): number =>
      this.parts.contexts.within(context, () =>
        this.parts.relaxed.run(() => this.parts.library.cuCtxSetLimit(LIMIT_STACK_SIZE, bytes)),
      )
    const what = `making local memory for kernel '${name}', in which CUDA waits for the whole device,`
    check('cuCtxSetLimit', this.parts.blocking.exclusively(grow, what))
  }

  #functionOf(module: ModuleHandle, name: string): CudaFunction {
    const text = NativeMemory.ofText(name)
    const result = this.parts.library.cuModuleGetFunction(this.parts.memory.address, module, text.address)
    text.free()
    check('cuModuleGetFunction', result)
    return { handle: this.parts.memory.pointerAt(0), name, sharedMemory: 0 }
  }

  /** Writes a CUlaunchConfig down. Returns its address. */
  #configure(raw: number, shape: LaunchShape): number {
    const { address, uint32 } = this.#config
    if (shape !== this.#configured) this.#configureShape(shape)
    uint32[8] = raw
    uint32[9] = raw * 2 ** -32
    return address
  }

  #configureShape(shape: LaunchShape): void {
    const { grid, block, sharedMemory, cooperative, cluster, attributes } = shape
    const { uint32 } = this.#config
    uint32[0] = grid[0]
    uint32[1] = grid[1]
    uint32[2] = grid[2]
    uint32[3] = block[0]
    uint32[4] = block[1]
    uint32[5] = block[2]
    uint32[6] = sharedMemory
    uint32[12] = cooperative || cluster !== undefined || attributes !== undefined ? this.#attributes(shape) : 0
    this.#configured = shape
  }

  /** Writes down what more a launch wants. Returns how many attributes there are. */
  #attributes({ cooperative, cluster, attributes }: LaunchShape): number {
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
    if (attributes === undefined) return count
    const { programmatic, priority, sharedMemoryCarveout, memorySyncDomain, clusterScheduling, preferredCluster } =
      attributes
    if (programmatic) attribute(ATTRIBUTE_PROGRAMMATIC, [1])
    if (priority !== undefined) attribute(ATTRIBUTE_PRIORITY, [priority])
    if (sharedMemoryCarveout !== undefined) attribute(ATTRIBUTE_CARVEOUT, [sharedMemoryCarveout])
    if (memorySyncDomain !== undefined) attribute(ATTRIBUTE_MEMORY_SYNC_DOMAIN, [memorySyncDomain])
    if (clusterScheduling !== undefined) attribute(ATTRIBUTE_CLUSTER_SCHEDULING, [clusterScheduling])
    if (preferredCluster !== undefined) attribute(ATTRIBUTE_PREFERRED_CLUSTER, preferredCluster)
    return count
  }
}

const runsNoTwin = (): Error => stateError('ERR_UNSUPPORTED', 'A real GPU runs the kernel itself, not its twin')

function allowSharedMemory(library: Library, found: CudaFunction, { sharedMemory }: LaunchShape): void {
  if (found.sharedMemory >= sharedMemory) return
  const result = library.cuFuncSetAttribute(found.handle, FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED, sharedMemory)
  check('cuFuncSetAttribute', result)
  found.sharedMemory = sharedMemory
}
