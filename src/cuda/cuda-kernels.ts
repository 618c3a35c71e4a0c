/** Modules and kernels on a real GPU. */
import { CudaError, stateError } from '../foundation/base/errors.js'
import { CUresult, cudaError, noteLaunch } from '../foundation/driver/cuda-results.js'
import { LOADING } from '../foundation/driver/deadlocks.js'
import { LIMITS_OF_ANY } from '../foundation/driver/driver-constants.js'
import { refusedHandle } from '../foundation/driver/handle-errors.js'
import {
  type ContextHandle,
  isDefaultStream,
  type KernelHandle,
  type ModuleHandle,
  type Pointer,
  type StreamHandle,
} from '../foundation/driver/handle-types.js'
import { bytesOfPassed, checkParameterSizes, tooMuchLocalMemory } from '../foundation/driver/kernel-checks.js'
import {
  type DescribeParameter,
  type KernelDriver,
  type KernelLimits,
  type KernelSource,
  type LaunchArgument,
  type LaunchShape,
  type ModuleImage,
  type PassedType,
  passedFor,
  type WrappedFunction,
} from '../foundation/driver/kernel-driver.js'
import {
  checkParameterKinds,
  mayBePtx,
  type PtxParameterTypes,
  ptxParameterTypes,
} from '../foundation/driver/ptx-parameters.js'
import type { QueuedKernel } from '../foundation/driver/queued-work.js'
import type { TensorMapSpec } from '../foundation/driver/tensor-maps.js'
import type { CFunction } from '../foundation/native/c-functions.js'
import { layer } from '../foundation/native/layer.js'
import { NativeMemory } from '../foundation/native/native-memory.js'
import { compileCuda, compileCudaNow } from '../foundation/native/nvrtc.js'
import { ThreadMemory } from '../foundation/native/thread-memory.js'
import type { KernelCall } from './graph-nodes.js'
import type { HandleCheck } from './handles/handle-check.js'
import type { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import type { LibcudaParts } from './libcuda/driver-calls.js'
import { check, checkDestroyed, type Library } from './libcuda/libcuda.js'
import { encodeTensorMap } from './tensor-maps.js'
import type { Blocking } from './waiting/blocking.js'
import type { IdleDevices } from './waiting/idle-devices.js'

/** How a value is written. V8 compares numbers faster than texts. */
const Writer = { INT32: 0, INT64: 1, FLOAT32: 2, FLOAT64: 3, BYTES: 4 } as const

const writerOf = (type: PassedType): number => {
  if (typeof type === 'number') return Writer.BYTES
  if (type === 'f32') return Writer.FLOAT32
  if (type === 'f64') return Writer.FLOAT64
  return bytesOfPassed(type) === 8 ? Writer.INT64 : Writer.INT32
}

/** The values of one kernel's parameters, laid out as in C, and the array of pointers to them that a launch takes. CUDA copies the values. */
class ParameterBlock {
  readonly #writers: readonly number[]
  readonly #offsets: readonly number[]
  readonly #memory: ThreadMemory
  readonly #view: DataView
  readonly #pointers: number

  constructor(types: readonly PassedType[]) {
    this.#writers = types.map(writerOf)
    let end = 0
    this.#offsets = types.map((type) => {
      const offset = end
      end += 8 * Math.ceil(bytesOfPassed(type) / 8)
      return offset
    })
    this.#memory = new ThreadMemory(Math.max(16, end + 8 * types.length))
    this.#view = new DataView(this.#memory.bytes.buffer)
    this.#pointers = this.#memory.address + end
    for (const [index, offset] of this.#offsets.entries()) {
      this.#memory.uint64[end / 8 + index] = BigInt(this.#memory.address + offset)
    }
  }

  free(): void {
    this.#memory.free()
  }

  /** Writes the values, and returns the address of the pointers. */
  write(args: readonly LaunchArgument[]): number {
    const writers = this.#writers
    const offsets = this.#offsets
    const { uint32, float32 } = this.#memory
    for (let index = 0; index < writers.length; index += 1) {
      const given = args[index] ?? 0
      const offset = offsets[index] ?? 0
      const writer = writers[index]
      const value = typeof given === 'object' && !ArrayBuffer.isView(given) ? passedFor(given) : given
      if (typeof value !== 'number') this.#writeOther(value, offset, writer)
      else if (writer === Writer.INT64) {
        uint32[offset / 4] = value
        uint32[offset / 4 + 1] = Math.floor(value * 2 ** -32)
      } else if (writer === Writer.FLOAT32) float32[offset / 4] = value
      else if (writer === Writer.INT32) uint32[offset / 4] = value
      else this.#view.setFloat64(offset, value, true)
    }
    return this.#pointers
  }

  #writeOther(value: bigint | Uint8Array, offset: number, writer: number | undefined): void {
    const view = this.#view
    if (typeof value === 'object') this.#memory.bytes.set(value, offset)
    else if (writer === Writer.INT64) view.setBigUint64(offset, BigInt.asUintN(64, value), true)
    else if (writer === Writer.INT32) view.setInt32(offset, Number(value), true)
    else if (writer === Writer.FLOAT32) view.setFloat32(offset, Number(value), true)
    else view.setFloat64(offset, Number(value), true)
  }
}

/** A function of a module. There is one for each name. */
interface CudaFunction {
  /** The CUfunction. */
  readonly handle: number
  readonly name: string
  readonly limits: KernelLimits
  /** The bytes of dynamic shared memory that a launch may have. */
  allowedSharedMemory: number
}

/** A function with a signature. The same bytes may be a float for one signature and an integer for another. */
interface Callable {
  readonly function: CudaFunction
  readonly parameters: ParameterBlock
}

/** A module, and the functions and kernels of it. */
interface Loaded {
  readonly context: ContextHandle
  /** The number of wrappers of a module that other code has loaded; undefined for a module of this library. */
  wrappers: number | undefined
  readonly functions: Map<string, CudaFunction>
  /** The kernels by name and signature. */
  readonly kernels: Map<string, KernelHandle>
  /** The types of parameters, as far as the module was loaded from text. Machine code has sizes only. */
  readonly types: PtxParameterTypes
}

const NO_TYPES: PtxParameterTypes = new Map()

export interface CudaKernelsParts extends LibcudaParts {
  readonly hostFunctions: Pick<PendingHostFunctions, 'countEntries'>
  readonly blocking: Pick<Blocking, 'exclusively'>
  readonly idleDevices: Pick<IdleDevices, 'whenIdle' | 'makeAll'>
  readonly handles: Pick<HandleCheck, 'checkThere'>
}

/** cuLaunchKernel takes eleven arguments, each of which costs. This one takes four. */
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
/** sizeof(CUlaunchAttribute), and the offset of its value. */
const ATTRIBUTE_BYTES = 72
const ATTRIBUTE_VALUE = 8
const CONFIG_BYTES = 56
const FUNCTION_ATTRIBUTE_MAX_THREADS = 0
const FUNCTION_ATTRIBUTE_STATIC_SHARED = 1
const FUNCTION_ATTRIBUTE_LOCAL_SIZE = 3
const FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED = 8
const SET_ATTRIBUTE = 'cuFuncSetAttribute'
const LIMIT_STACK_SIZE = 0
/** The largest number of names that are read for a message. */
const MOST_NAMES = 256
/** Shared memory of a block, declared and dynamic together, that need not be allowed. */
const SHARED_MEMORY_OF_ANY = 48 * 1024

export class CudaKernels implements KernelDriver {
  /**
   * The kernels by handle, which is a number that no other kernel has ever had. Undefined once the module is unloaded.
   */
  readonly #kernels: (Callable | undefined)[] = []
  readonly #loaded = new Map<ModuleHandle, Loaded>()
  /** What the wrappers of kernels of other code are of: another module may have the handle by the time that one is released. */
  readonly #wrapped = new WeakMap<WrappedFunction, Loaded>()
  readonly #config = new ThreadMemory(CONFIG_BYTES + MOST_ATTRIBUTES * ATTRIBUTE_BYTES)
  /** The shape in the configuration. The next launch mostly has the same. */
  #configured: LaunchShape | undefined

  /**
   * The function for launches is in a field, since the library has more functions than V8 finds without a hash table.
   */
  readonly #cuLaunchKernelEx: CFunction

  constructor(private readonly parts: CudaKernelsParts) {
    this.#cuLaunchKernelEx = parts.library.cuLaunchKernelEx
    this.#config.bytes.fill(0)
  }

  compileNow(source: KernelSource): Uint8Array {
    return source.cubin ?? source.ptx ?? compileCudaNow(source, 'cubin')
  }

  async compile(source: KernelSource): Promise<Uint8Array> {
    return source.cubin ?? source.ptx ?? compileCuda(source, 'cubin')
  }

  load(image: ModuleImage, context: ContextHandle): ModuleHandle {
    if (!ArrayBuffer.isView(image)) throw stateError('ERR_UNSUPPORTED', 'A GPU runs no host implementation of a kernel')
    const copy = NativeMemory.ofText(image)
    try {
      this.parts.blocking.exclusively(() => this.#load(copy.address, context), LOADING)
    } finally {
      copy.free()
    }
    const module = this.parts.memory.pointerAt(0) as ModuleHandle
    // A module that other code has unloaded may have been there.
    this.#forget(module)
    const types = mayBePtx(image) ? ptxParameterTypes(new TextDecoder().decode(image)) : NO_TYPES
    this.#loaded.set(module, { context, wrappers: undefined, functions: new Map(), kernels: new Map(), types })
    return module
  }

  #load(image: number, context: ContextHandle): void {
    const { idleDevices, contexts, relaxed, must, memory } = this.parts
    idleDevices.makeAll()
    contexts.within(context, () => relaxed.run(() => must.cuModuleLoadData(memory.address, image)))
  }

  unload(module: ModuleHandle, context: ContextHandle): void {
    this.parts.idleDevices.whenIdle(() => this.#unload(module, context))
  }

  #unload(module: ModuleHandle, context: ContextHandle): void {
    const { contexts, relaxed, library } = this.parts
    // A function of another module may get the same address.
    this.#forget(module)
    const result = contexts.within(context, () => relaxed.run(() => library.cuModuleUnload(module)))
    checkDestroyed('cuModuleUnload', result)
  }

  #forget(module: ModuleHandle): void {
    for (const kernel of this.#loaded.get(module)?.kernels.values() ?? []) {
      this.#kernels[kernel]?.parameters.free()
      this.#kernels[kernel] = undefined
    }
    this.#loaded.delete(module)
  }

  functionOf(kernel: KernelHandle): number {
    const callable = this.#kernels[kernel]
    if (callable === undefined) throw cudaError('cuModuleGetFunction', CUresult.INVALID_HANDLE)
    return callable.function.handle
  }

  wrap(handle: number, context: ContextHandle): WrappedFunction {
    const call = 'cuFuncGetModule'
    const { handles, contexts, relaxed } = this.parts
    handles.checkThere('kernel', handle, call)
    const found = contexts.within(context, () => relaxed.run(() => this.#find(handle)))
    if (typeof found === 'number') throw refusedHandle('kernel', handle, cudaError(call, found))
    const { module, name, function: given } = found
    const before = this.#loaded.get(module)
    const known = before?.functions.get(name)?.handle
    // The module that was wrapped here before is unloaded, and its memory that of another.
    if (before?.wrappers !== undefined && known !== undefined && known !== given) this.#forget(module)
    const loaded = this.#loaded.get(module) ?? {
      ...{ context, wrappers: 0, functions: new Map(), kernels: new Map() },
      types: NO_TYPES,
    }
    this.#loaded.set(module, loaded)
    if (loaded.wrappers !== undefined) loaded.wrappers += 1
    if (!loaded.functions.has(name)) loaded.functions.set(name, this.#describe(given, name))
    const wrapped = { module, name }
    this.#wrapped.set(wrapped, loaded)
    return wrapped
  }

  release(wrapped: WrappedFunction): void {
    const loaded = this.#wrapped.get(wrapped)
    if (loaded?.wrappers === undefined) return
    loaded.wrappers -= 1
    if (loaded.wrappers === 0 && this.#loaded.get(wrapped.module) === loaded) this.#forget(wrapped.module)
  }

  /** The function that a CUfunction or a CUkernel is, or the driver's result. The context is current. */
  #find(handle: number): number | (WrappedFunction & { readonly function: number }) {
    const { library, memory } = this.parts
    const { address } = memory
    let found = handle
    if (library.cuFuncGetModule(address, found) !== 0) {
      const ofKernel = library.cuKernelGetFunction(address, handle)
      if (ofKernel !== 0) return ofKernel
      found = memory.pointerAt(0)
      const result = library.cuFuncGetModule(address, found)
      if (result !== 0) return result
    }
    const module = memory.pointerAt(0) as ModuleHandle
    const named = library.cuFuncGetName(address, found)
    if (named !== 0) return named
    return { module, name: layer().text(memory.pointerAt(0)), function: found }
  }

  kernel(
    module: ModuleHandle,
    name: string,
    parameters: readonly PassedType[],
    describe?: DescribeParameter,
  ): KernelHandle {
    const loaded = this.#loaded.get(module)
    if (loaded === undefined) throw cudaError('cuModuleGetFunction', CUresult.INVALID_HANDLE)
    const { context, functions, kernels, types } = loaded
    const found = functions.get(name) ?? this.#functionOf(module, name)
    const key = `${name}(${parameters})`
    const known = kernels.get(key)
    if (known !== undefined) return known
    this.#checkParameters(found, parameters, describe)
    checkParameterKinds(name, parameters, types.get(name) ?? [], describe)
    this.#makeLocalMemory(found, context)
    const kernel = this.#kernels.length as KernelHandle
    functions.set(name, found)
    kernels.set(key, kernel)
    this.#kernels.push({ function: found, parameters: new ParameterBlock(parameters) })
    return kernel
  }

  launch({ kernel, stream, shape, args }: QueuedKernel): void {
    const callable = this.#kernels[kernel.handle]
    if (callable === undefined) throw cudaError(LAUNCH, CUresult.INVALID_HANDLE)
    const { handle, name } = callable.function
    noteLaunch(name)
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

  /** This is a method of its own, since one with a closure in it allocates at each call, even when the closure is not made. */
  #launchOnDefault(stream: StreamHandle, shape: LaunchShape, handle: number, parameters: number): void {
    const { calls, must } = this.parts
    calls.onStream(stream, (raw) => must.cuLaunchKernelEx(this.#configure(raw, shape), handle, parameters, 0))
  }

  /** The parameters for a node of a graph, valid until the next call that takes arguments of this kernel. */
  nodeCall(kernel: KernelHandle, shape: LaunchShape, args: readonly LaunchArgument[]): KernelCall {
    const callable = this.#kernels[kernel]
    if (callable === undefined) throw cudaError('cuGraphExecNodeSetParams', CUresult.INVALID_HANDLE)
    allowSharedMemory(this.parts.library, callable.function, shape)
    return { func: callable.function.handle, params: callable.parameters.write(args), shape }
  }

  names(module: ModuleHandle): readonly string[] {
    const loaded = this.#loaded.get(module)
    if (loaded === undefined) return []
    const { contexts, library, memory, relaxed } = this.parts
    const functions = new NativeMemory(MOST_NAMES * 8)
    try {
      const enumerate = (): number => library.cuModuleEnumerateFunctions(functions.address, MOST_NAMES, module)
      if (contexts.within(loaded.context, () => relaxed.run(enumerate)) !== 0) return []
      const found = [...functions.uint64].filter((handle) => handle !== 0n)
      return found.flatMap((handle) =>
        library.cuFuncGetName(memory.address, Number(handle)) === 0 ? [layer().text(memory.pointerAt(0))] : [],
      )
    } finally {
      functions.free()
    }
  }

  variable(module: ModuleHandle, name: string): { readonly pointer: Pointer; readonly byteLength: number } {
    const loaded = this.#loaded.get(module)
    if (loaded === undefined) throw cudaError('cuModuleGetGlobal', CUresult.INVALID_HANDLE)
    const { contexts, must, memory } = this.parts
    const text = NativeMemory.ofText(name)
    try {
      contexts.within(loaded.context, () =>
        must.cuModuleGetGlobal_v2(memory.address, memory.address + 8, module, text.address),
      )
    } finally {
      text.free()
    }
    return { pointer: memory.pointerAt(0) as Pointer, byteLength: memory.pointerAt(8) }
  }

  limits(kernel: KernelHandle): KernelLimits {
    return this.#kernels[kernel]?.function.limits ?? LIMITS_OF_ANY
  }

  activeBlocks(kernel: KernelHandle, blockSize: number, sharedMemory: number): number {
    const { library, must, memory } = this.parts
    const found = this.#kernels[kernel]?.function
    if (found !== undefined) {
      // CUDA counts no blocks with more shared memory than the function may have, which a launch asks for.
      const result = requestSharedMemory(library, found, sharedMemory)
      if (result === CUresult.INVALID_VALUE) return 0
      check(SET_ATTRIBUTE, result)
    }
    const handle = found?.handle ?? 0
    must.cuOccupancyMaxActiveBlocksPerMultiprocessor(memory.address, handle, blockSize, sharedMemory)
    return memory.int32[0] ?? 0
  }

  encodeTensorMap(spec: TensorMapSpec): Uint8Array {
    return encodeTensorMap(this.parts.library, spec)
  }

  /** Compares the signature with the sizes of the kernel's parameters, which the driver has. */
  #checkParameters(
    { handle, name }: CudaFunction,
    parameters: readonly PassedType[],
    describe?: DescribeParameter,
  ): void {
    const sizes: number[] = []
    const { address } = this.parts.memory
    while (this.parts.library.cuFuncGetParamInfo(handle, sizes.length, address, address + 8) === 0) {
      sizes.push(this.parts.memory.pointerAt(8))
    }
    checkParameterSizes(name, parameters, sizes, describe)
  }

  /**
   * When a kernel that needs more local memory than any before is first launched, CUDA allocates that, and waits for the device. So it is allocated
   * here, when a module is loaded, and a launch never waits.
   */
  #makeLocalMemory({ handle, name }: CudaFunction, context: ContextHandle): void {
    const { must, memory, contexts, relaxed, blocking } = this.parts
    const bytes = this.#attributeOf(handle, FUNCTION_ATTRIBUTE_LOCAL_SIZE)
    if (bytes === 0) return
    contexts.within(context, () => must.cuCtxGetLimit(memory.address, LIMIT_STACK_SIZE))
    if (bytes <= memory.pointerAt(0)) return
    const grow = (): void => {
      try {
        contexts.within(context, () => relaxed.run(() => must.cuCtxSetLimit(LIMIT_STACK_SIZE, bytes)))
      } catch (error) {
        if (!(error instanceof CudaError && error.number === CUresult.INVALID_VALUE)) throw error
        throw tooMuchLocalMemory(name, bytes)
      }
    }
    blocking.exclusively(grow, `making local memory for kernel '${name}', in which CUDA waits for the whole device,`)
  }

  #functionOf(module: ModuleHandle, name: string): CudaFunction {
    const { must, memory } = this.parts
    const text = NativeMemory.ofText(name)
    try {
      must.cuModuleGetFunction(memory.address, module, text.address)
    } finally {
      text.free()
    }
    return this.#describe(memory.pointerAt(0), name)
  }

  /** What other code has allowed a function's launches to have remains allowed. */
  #describe(handle: number, name: string): CudaFunction {
    const limits = {
      maxThreads: this.#attributeOf(handle, FUNCTION_ATTRIBUTE_MAX_THREADS),
      staticSharedBytes: this.#attributeOf(handle, FUNCTION_ATTRIBUTE_STATIC_SHARED),
    }
    const allowed = this.#attributeOf(handle, FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED)
    const ofAny = SHARED_MEMORY_OF_ANY - limits.staticSharedBytes
    return { handle, name, limits, allowedSharedMemory: Math.max(allowed, ofAny) }
  }

  #attributeOf(handle: number, attribute: number): number {
    const { must, memory } = this.parts
    must.cuFuncGetAttribute(memory.address, attribute, handle)
    return memory.int32[0] ?? 0
  }

  /** Writes a CUlaunchConfig, and returns its address. */
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

  /** Writes the attributes of a launch, and returns how many there are. */
  #attributes({ cooperative, cluster, attributes }: LaunchShape): number {
    const { address, uint32 } = this.#config
    this.#config.setPointer(40, address + CONFIG_BYTES)
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

/** CUDA allows a launch no more than 48 KiB together with what the code declares, unless the program asks for more. */
function allowSharedMemory(library: Library, found: CudaFunction, { sharedMemory }: LaunchShape): void {
  if (found.allowedSharedMemory < sharedMemory) check(SET_ATTRIBUTE, requestSharedMemory(library, found, sharedMemory))
}

/** Returns the CUresult, which is CUDA_ERROR_INVALID_VALUE for more than the device has. */
function requestSharedMemory(library: Library, found: CudaFunction, sharedMemory: number): number {
  if (found.allowedSharedMemory >= sharedMemory) return 0
  const result = library.cuFuncSetAttribute(found.handle, FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED, sharedMemory)
  if (result === 0) found.allowedSharedMemory = sharedMemory
  return result
}
