/**
 * Modules and kernels of the simulated GPU. PTX is compiled (ptx-kernels.ts), and host implementations in JavaScript run as they are
 * (host-kernels.ts).
 */

import { loadPtx } from '#load-ptx'
import { explained, stateError } from '../foundation/base/errors.js'
import { isLater } from '../foundation/base/versions.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { LOADING } from '../foundation/driver/deadlocks.js'
import { DEVICE_ATTRIBUTES as A } from '../foundation/driver/device-attributes.js'
import { LIMITS_OF_ANY } from '../foundation/driver/driver-constants.js'
import { refusedHandle } from '../foundation/driver/handle-errors.js'
import type { ContextHandle, KernelHandle, ModuleHandle, Pointer } from '../foundation/driver/handle-types.js'
import type {
  DescribeParameter,
  KernelDriver,
  KernelLimits,
  KernelSource,
  LaunchShape,
  ModuleImage,
  PassedType,
  SetConditional,
  WrappedFunction,
} from '../foundation/driver/kernel-driver.js'
import type { KernelProfile } from '../foundation/driver/kernel-profile.js'
import type { LibraryCall } from '../foundation/driver/library-driver.js'
import type { KernelWork, QueuedKernel } from '../foundation/driver/queued-work.js'
import { callOf, TENSOR_TYPES, type TensorMapSpec, whyMapIsRefused } from '../foundation/driver/tensor-maps.js'
import { type CompiledSource, compileCuda, compileCudaNow } from '../foundation/native/nvrtc.js'
import type * as Ptx from '../ptx/ptx.js'
import type { CaptureRules } from './capture-rules.js'
import { type ComputeCapability, NEWEST_PTX } from './compute-capability.js'
import { CALL, HostModuleCode, HostWork, type KernelCode, type ModuleCode, NO_FACTS } from './host-kernels.js'
import type { HostWaits } from './machine/host-waits.js'
import type { SimDevice, SimPartition } from './machine/machine-state.js'
import { Random } from './machine/random.js'
import { OtherThreadsWork, SimOperationKind } from './machine/work.js'
import { MULTIPROCESSORS, simulatedAttribute } from './properties.js'
import { PtxModule } from './ptx-kernels.js'
import type { Registry } from './registry.js'
import type { Queued, SimMemory } from './sim-memory.js'
import type { SimQueue } from './sim-queue.js'
import type { SourceFiles } from './source-files.js'

/** The bytes of shared memory, static and dynamic together, that a kernel may have without asking for more. */
const SHARED_MEMORY_OF_ANY = 48 * 1024
/** The most blocks of a cluster. A GPU may accept more for a kernel that asks for that, which the library does not. */
const LARGEST_CLUSTER = 8

interface LoadedModule {
  readonly code: ModuleCode
  /** The handles of kernels; keys are made of the names and the types of parameters. */
  readonly kernels: Map<string, KernelHandle>
  /** The handles by which other code can name its kernels, by their names. */
  readonly functions: Map<string, number>
}

interface LoadedKernel {
  readonly module: ModuleHandle
  readonly name: string
  readonly code: KernelCode
  /** The types of parameters that the signature gives. */
  readonly types: readonly PassedType[]
}

export class SimKernels implements KernelDriver {
  readonly #modules = new Map<ModuleHandle, LoadedModule>()
  /** The kernels; indices are their handles, numbers that no other kernel has ever had. Undefined if the module is unloaded. */
  readonly #kernels: (LoadedKernel | undefined)[] = []
  /** The kernels whose handles other code has, by these. */
  readonly #functions = new Map<number, WrappedFunction>()
  /** The functions that are told what each launch did. */
  readonly profilers = new Set<(profile: KernelProfile) => void>()
  /** Picks the block of a launch that goes on; undefined if they go on in order. */
  readonly #choose: ((count: number) => number) | undefined

  constructor(
    private readonly memory: SimMemory,
    private readonly queue: SimQueue,
    private readonly registry: Registry,
    private readonly captures: CaptureRules,
    private readonly waits: HostWaits,
    private readonly options: {
      readonly seed: number
      readonly instructions: number
      readonly cores: number
      readonly inStep: Ptx.InStep
      readonly sources: SourceFiles | undefined
      readonly setConditional: SetConditional
      readonly textures: Ptx.TextureObjects
      readonly computeCapability: ComputeCapability
    },
  ) {
    const { seed } = options
    const random = new Random(seed)
    if (seed !== 0) this.#choose = (count) => Math.floor(random.next() * count)
  }

  /** Compiles code that is loaded at once, for which a GPU waits. `compile` does not check that wait, which may be over by the end of it. */
  compileNow(source: KernelSource): ModuleImage {
    this.waits.refuseExclusive(LOADING)
    if (source.host !== undefined && source.compares !== true) return source.host
    return compiled(source, source.ptx ?? forDriver(compileCudaNow(this.#forPtx(source), 'ptx')))
  }

  async compile(source: KernelSource): Promise<ModuleImage> {
    if (source.host !== undefined && source.compares !== true) return source.host
    return compiled(source, source.ptx ?? forDriver(await compileCuda(this.#forPtx(source), 'ptx')))
  }

  /** The source with options that let NVRTC make PTX, which is for a virtual architecture, with lines where it is stepped through. */
  #forPtx({ text, file, options }: KernelSource): CompiledSource {
    const forVirtual = options.map((option) => option.replace(/\bsm_(?=\d)/, 'compute_'))
    const { sources } = this.options
    if (sources === undefined) return { text, file, options: forVirtual }
    sources.add(file, text)
    const hasLines = options.some((option) => /^--?(?:generate-)?line-?info$/.test(option))
    return { text, file, options: hasLines ? forVirtual : [...forVirtual, '-lineinfo'] }
  }

  load(image: ModuleImage, context: ContextHandle): ModuleHandle {
    const device = this.registry.liveContextDevice(context, 'cuModuleLoadData')
    if (ArrayBuffer.isView(image) || 'code' in image) this.waits.refuseExclusive(LOADING)
    const code = this.#codeOf(image, device)
    const module = this.registry.handles.take('module') as ModuleHandle
    this.#modules.set(module, { code, kernels: new Map(), functions: new Map() })
    return module
  }

  unload(module: ModuleHandle): void {
    const loaded = this.#modules.get(module)
    if (loaded === undefined) return
    for (const kernel of loaded.kernels.values()) this.#kernels[kernel] = undefined
    for (const handle of loaded.functions.values()) {
      this.#functions.delete(handle)
      this.registry.handles.giveBack('function', handle)
    }
    this.#modules.delete(module)
    loaded.code.unload()
    this.registry.handles.giveBack('module', module)
  }

  kernel(module: ModuleHandle, name: string, types: readonly PassedType[], describe?: DescribeParameter): KernelHandle {
    const { code, kernels } = this.#loaded(module, 'cuModuleGetFunction')
    if (name === '') throw cudaError('cuModuleGetFunction', CUresult.INVALID_VALUE)
    const key = `${name}(${types})`
    const known = kernels.get(key)
    if (known !== undefined) return known
    const found = code.kernel(name)
    found.checkParameters(types, describe)
    const kernel = this.#kernels.length as KernelHandle
    this.#kernels.push({ module, name, code: found, types })
    kernels.set(key, kernel)
    return kernel
  }

  functionOf(kernel: KernelHandle): number {
    const { module, name } = this.#kernel(kernel, 'cuModuleGetFunction')
    const { functions } = this.#loaded(module, 'cuModuleGetFunction')
    const known = functions.get(name)
    if (known !== undefined) return known
    const handle = this.registry.handles.take('function')
    functions.set(name, handle)
    this.#functions.set(handle, { module, name })
    return handle
  }

  wrap(handle: number): WrappedFunction {
    const found = this.#functions.get(handle)
    if (found !== undefined) return found
    throw refusedHandle('kernel', handle, cudaError('cuFuncGetModule', CUresult.INVALID_HANDLE))
  }

  /** A wrapper of a simulated kernel keeps nothing. */
  release(): void {}

  names(module: ModuleHandle): readonly string[] {
    return this.#loaded(module, 'cuModuleEnumerateFunctions').code.names
  }

  variable(module: ModuleHandle, name: string): { readonly pointer: Pointer; readonly byteLength: number } {
    return this.#loaded(module, 'cuModuleGetGlobal').code.variable(name)
  }

  limits(kernel: KernelHandle): KernelLimits {
    const { maxThreads = LIMITS_OF_ANY.maxThreads, requiredThreads, staticSharedBytes } = this.#factsOf(kernel)
    return { maxThreads, requiredBlock: requiredThreads, staticSharedBytes }
  }

  activeBlocks(kernel: KernelHandle, blockSize: number, sharedMemory: number): number {
    return blocksPerMultiprocessor([blockSize, 1, 1], sharedMemory + this.#factsOf(kernel).staticSharedBytes)
  }

  encodeTensorMap(spec: TensorMapSpec): Uint8Array {
    const why = whyMapIsRefused(spec)
    if (why !== undefined) throw explained(cudaError(callOf(spec), CUresult.INVALID_VALUE), why)
    const encode: typeof Ptx.encodeTensorMap = loadPtx().encodeTensorMap
    const elements: typeof Ptx.TENSOR_ELEMENTS = loadPtx().TENSOR_ELEMENTS
    const element = elements[Object.keys(TENSOR_TYPES).indexOf(spec.type)]
    if (element === undefined) throw cudaError(callOf(spec), CUresult.INVALID_VALUE)
    return encode({ ...spec, address: spec.pointer, element })
  }

  launch(work: QueuedKernel): void {
    const { stream, kernel } = work
    // The attribute is set before the launch, and a capture takes no notice of it.
    this.#checkSharedMemory(work)
    const { capture, partition } = this.registry.peekStream(stream) ?? {}
    // In a capture CUDA counts the multiprocessors of the whole device.
    const refusal = this.#refusalOf(work, capture === undefined ? partition : undefined)
    if (refusal !== 0) {
      const target = this.registry.liveStream(stream, CALL)
      this.captures.refuseQueuing(target, CALL)
      throw this.captures.refuseIn(target, CALL, refusal)
    }
    const { nanoseconds, work: effect } = this.#workOf(work, this.#kernel(kernel.handle, CALL), partition)
    this.queue.enqueue(stream, SimOperationKind.KERNEL, nanoseconds, CALL, effect)
  }

  /** The work of a graph's node that launches the kernel. */
  nodeWork(work: KernelWork, call: string, partition: SimPartition | undefined): Queued {
    this.#checkSharedMemory(work)
    const refusal = this.#refusalOf(work, partition)
    if (refusal !== 0) throw cudaError(call, refusal)
    return this.#workOf(work, this.#kernel(work.kernel.handle, call), partition)
  }

  /** Queues the host implementation of a library's call. */
  queueCall({ name, stream, memory, host }: LibraryCall, comparesAll: boolean): void {
    if (host === undefined) throw refusedLibrary(name)
    const names = memory.map((_, index) => `memory[${index}]`)
    // The nodes that another library's work becomes are not known. A call that only writes one piece of memory is taken for a fill.
    const shape = memory.length === 1 && memory[0]?.access === 'out' ? 'fill' : 'work of another library'
    const effect = new HostWork(
      name,
      { pieces: memory, names, run: host.run, parts: host.parts },
      comparesAll,
      this.memory,
      shape,
    )
    if (host.isReady !== undefined) {
      this.registry.machine.joinProcesses()
      this.queue.enqueue(stream, SimOperationKind.LATCH, 0, CALL, new OtherThreadsWork(host.isReady))
    }
    this.queue.enqueue(stream, SimOperationKind.KERNEL, host.nanoseconds, CALL, effect)
  }

  #codeOf(image: ModuleImage, device: SimDevice): ModuleCode {
    const { setConditional } = this.options
    if (!ArrayBuffer.isView(image) && !('code' in image)) {
      return new HostModuleCode(image, this.memory, setConditional)
    }
    const [code, host] = ArrayBuffer.isView(image) ? [image, undefined] : [image.code, image.host]
    return new PtxModule(code, host, {
      device,
      memory: this.memory,
      choose: this.#choose,
      instructions: this.options.instructions,
      cores: this.options.cores,
      inStep: this.options.inStep,
      sources: this.options.sources,
      profilers: this.profilers,
      occupancy,
      setConditional,
      textures: this.options.textures,
      computeCapability: this.options.computeCapability,
    })
  }

  #workOf(work: KernelWork, { code, types }: LoadedKernel, partition: SimPartition | undefined): Queued {
    return code.queued(work, types, partition?.multiprocessors)
  }

  #loaded(module: ModuleHandle, call: string): LoadedModule {
    const loaded = this.#modules.get(module)
    if (loaded === undefined) throw cudaError(call, CUresult.INVALID_HANDLE)
    return loaded
  }

  #kernel(handle: KernelHandle, call: string): LoadedKernel {
    const kernel = this.#kernels[handle]
    if (kernel === undefined) throw cudaError(call, CUresult.INVALID_HANDLE)
    return kernel
  }

  #factsOf(handle: KernelHandle): KernelCode['facts'] {
    return this.#kernels[handle]?.code.facts ?? NO_FACTS
  }

  #checkSharedMemory({ kernel, shape: { sharedMemory } }: KernelWork): void {
    const inAll = sharedMemory + this.#factsOf(kernel.handle).staticSharedBytes
    if (inAll <= SHARED_MEMORY_OF_ANY || within(inAll, A.maxSharedMemoryPerBlockOptin)) return
    throw cudaError('cuFuncSetAttribute', CUresult.INVALID_VALUE)
  }

  /** The result with which a GPU refuses a launch, or 0. */
  #refusalOf({ kernel, shape }: KernelWork, partition: SimPartition | undefined): number {
    const { block, grid, sharedMemory, cluster } = shape
    if (!fits(shape)) return CUresult.INVALID_VALUE
    const facts = this.#factsOf(kernel.handle)
    if (!fitsClusters(cluster, grid, facts)) return CUresult.INVALID_CLUSTER_SIZE
    const { staticSharedBytes, maxThreads, requiredThreads } = facts
    const shared = sharedMemory + staticSharedBytes
    if (maxThreads !== undefined && block[0] * block[1] * block[2] > maxThreads) return CUresult.INVALID_VALUE
    if (requiredThreads !== undefined && block.some((count, axis) => count !== (requiredThreads[axis] ?? 1)))
      return CUresult.INVALID_VALUE
    if (!shape.cooperative) return 0
    const room = blocksPerMultiprocessor(block, shared) * (partition?.multiprocessors ?? MULTIPROCESSORS)
    return grid[0] * grid[1] * grid[2] > room ? CUresult.COOPERATIVE_LAUNCH_TOO_LARGE : 0
  }
}

const compiled = ({ host }: KernelSource, code: Uint8Array): ModuleImage => (host === undefined ? code : { code, host })

/**
 * The PTX as the driver accepts it. NVRTC makes machine code on a GPU, which no driver has to compile: PTX that stands for it may be newer than the
 * driver. Its version is lowered, as it means the same without what the later version adds.
 */
function forDriver(ptx: Uint8Array): Uint8Array {
  const text = new TextDecoder().decode(ptx)
  const version = /^\.version (\S+)$/m.exec(text)?.[1]
  if (version === undefined || !isLater(version, NEWEST_PTX)) return ptx
  return new TextEncoder().encode(text.replace(/^\.version .*$/m, `.version ${NEWEST_PTX}`))
}

/** Whether the blocks of a grid are whole clusters, of the size that the kernel requires. */
function fitsClusters(
  given: LaunchShape['cluster'],
  grid: LaunchShape['grid'],
  { requiredCluster, needsCluster, maxClusterBlocks = LARGEST_CLUSTER }: KernelCode['facts'],
): boolean {
  if (given === undefined && needsCluster && requiredCluster === undefined) return false
  const cluster = given ?? requiredCluster
  if (cluster === undefined) return true
  if (requiredCluster !== undefined && cluster.some((size, axis) => size !== requiredCluster[axis])) return false
  if (cluster.some((size, axis) => (grid[axis] ?? 1) % size !== 0)) return false
  return cluster[0] * cluster[1] * cluster[2] <= maxClusterBlocks
}

/** Whether a launch's blocks and threads keep to the limits of the device. A GPU refuses one that does not. */
function fits({ grid, block }: LaunchShape): boolean {
  const [x, y, z] = block
  const limits = [A.maxGridDimX, A.maxGridDimY, A.maxGridDimZ, A.maxBlockDimX, A.maxBlockDimY, A.maxBlockDimZ]
  const isWithin = [...grid, x, y, z].every((value, index) => within(value, limits[index] ?? 0))
  return isWithin && within(x * y * z, A.maxThreadsPerBlock)
}

function occupancy(
  block: LaunchShape['block'],
  sharedMemory: number,
): Pick<KernelProfile, 'activeBlocks' | 'occupancy'> {
  const activeBlocks = blocksPerMultiprocessor(block, sharedMemory)
  const limit = (attribute: number): number => simulatedAttribute(attribute) ?? 1
  const warps = (threads: number): number => Math.ceil(threads / limit(A.warpSize))
  const most = warps(limit(A.maxThreadsPerMultiprocessor))
  return { activeBlocks, occupancy: (activeBlocks * warps(block[0] * block[1] * block[2])) / most }
}

/** The most blocks on a multiprocessor. The registers of the machine code are not known here: they may leave room for fewer. */
function blocksPerMultiprocessor([x, y, z]: LaunchShape['block'], sharedMemory: number): number {
  const limit = (attribute: number): number => simulatedAttribute(attribute) ?? 0
  const warpSize = limit(A.warpSize)
  const threads = Math.ceil((x * y * z) / warpSize) * warpSize
  return Math.min(
    limit(A.maxBlocksPerMultiprocessor),
    Math.floor(limit(A.maxThreadsPerMultiprocessor) / threads),
    Math.floor(limit(A.maxSharedMemoryPerMultiprocessor) / (sharedMemory + limit(A.reservedSharedMemoryPerBlock))),
  )
}

const within = (value: number, limit: number): boolean => value <= (simulatedAttribute(limit) ?? 0)

export function refusedLibrary(what: string): Error {
  return stateError('ERR_UNSUPPORTED', `${what} needs a real GPU: the simulator runs no code of CUDA's libraries`)
}
