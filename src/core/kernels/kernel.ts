/** Modules of GPU code, from binaries or from CUDA C++, and the kernels in them. */

import type { Given } from '../../foundation/base/arguments.js'
import {
  checkArray,
  checkBoolean,
  checkInteger,
  checkOwner,
  checkPointer,
  checkText,
  isOptionsObject,
  nearest,
  oneOf,
  readOptions,
} from '../../foundation/base/arguments.js'
import { bytesOf } from '../../foundation/base/bytes.js'
import { placeOfClosing } from '../../foundation/base/closing-places.js'
import {
  CudaError,
  explained,
  invalidType,
  invalidValue,
  outOfRange,
  refuseReceiver,
  stateError,
} from '../../foundation/base/errors.js'
import { checkMade, construct, implementation, LibraryObject } from '../../foundation/base/library-object.js'
import { types } from '../../foundation/base/node-modules.js'
import { printable } from '../../foundation/base/printable.js'
import { fromCaller } from '../../foundation/base/stack.js'
import { CUresult } from '../../foundation/driver/cuda-results.js'
import type { DeviceAttribute } from '../../foundation/driver/device-attributes.js'
import { LIMITS_OF_ANY } from '../../foundation/driver/driver-constants.js'
import type { KernelHandle, ModuleHandle } from '../../foundation/driver/handle-types.js'
import type {
  KernelLimits,
  KernelSource,
  LaunchAttributes,
  LaunchedKernel,
  LaunchShape,
  ModuleImage,
  WrappedFunction,
} from '../../foundation/driver/kernel-driver.js'
import {
  contextOf,
  type Device,
  deviceForHandle,
  driverOf,
  elsewhere,
  HandleImpl,
  HandleObject,
  resolveDevice,
} from '../device.js'
import type { OpenMemory } from '../memory/buffer.js'
import { DeviceBuffer } from '../memory/device-buffer.js'
import { beginWork, enablePeerAccess, endWork } from '../memory/queue-with-memory.js'
import { capturesUnderWay, recordOf } from '../streams/capture-record.js'
import { checkMemorySyncDomain, checkPriority, needsHopper, type StreamImpl } from '../streams/stream-impl.js'
import { type ConditionImpl, conditionImplOf } from './condition.js'
import type { ArgumentsOf, Parameter, ParameterType } from './kernel-signature.js'
import {
  checkArguments,
  checkMemoryOpen,
  describeParameter,
  memoryIn,
  parseSignature,
  passedAs,
} from './kernel-signature.js'
import { checkUpdate, type LaunchNode, launchOn, updateNode } from './launchable.js'

/**
 * A number of blocks or threads in one direction, or in up to three: y and z are 1 by default. Whole numbers, at least
 * 1.
 */
export type Extent = number | readonly [x: number, y?: number, z?: number]

/** The shape of a launch: how many threads run a kernel, and in which blocks. It has either `grid` or `threads`. */
export type LaunchConfig = LaunchConfigOptions &
  (
    | {
        /** Blocks of the grid. CUDA allows 2 ** 31 - 1 in x, and 65535 in y and z. Excludes `threads`. */
        readonly grid: Extent
        readonly threads?: undefined
      }
    | {
        /**
         * Threads in all, in each direction: the grid is as many blocks as they need, rounded up, with `cluster` to whole
         * clusters. The threads beyond them run too, so the kernel compares its index with the length. With 0 nothing is
         * queued. Excludes `grid`.
         */
        readonly threads: Extent
        readonly grid?: undefined
      }
  )

/** What a launch's configuration may have besides its size. */
export interface LaunchConfigOptions {
  /**
   * Threads of each block; CUDA allows 1024 in all. Default: 256, which is 256 in x; 32 x 8 where `grid` or `threads` has
   * more than 1 in y; 32 x 4 x 2 where it has more than 1 in z. With `threads` it is a smaller one where the kernel takes no
   * 256, as with `__launch_bounds__(128)`.
   */
  readonly block?: Extent | undefined
  /** Dynamic shared memory of each block, in bytes. Default 0. */
  readonly sharedMemory?: number | undefined
  /**
   * Whether all blocks run at the same time, so that they can wait for each other. Default false. The simulator ignores it.
   */
  readonly cooperative?: boolean | undefined
  /**
   * Blocks of a thread block cluster (compute capability 9.0 and later). Default: no clusters, or those that the kernel
   * requires (`__cluster_dims__`).
   */
  readonly cluster?: Extent | undefined
  /**
   * Programmatic dependent launch (compute capability 9.0 and later): the kernel may begin before the one before it in
   * the stream has ended, once all blocks of that one have called `griddepcontrol.launch_dependents`
   * (cudaTriggerProgrammaticLaunchCompletion) or ended. It must call `griddepcontrol.wait`
   * (cudaGridDependencySynchronize) before it touches memory that earlier work uses: the library and the sanitizer
   * assume that it does. Captured, it is an edge of that kind. Default false. The simulator runs one after the other.
   */
  readonly programmatic?: boolean | undefined
  /** The priority of this launch, in place of the stream's: lower goes first. Default: the stream's. */
  readonly priority?: number | undefined
  /** The preferred share of the L1 cache that is used as shared memory, in percent. Default: the driver's choice. */
  readonly sharedMemoryCarveout?: number | undefined
  /**
   * The memory domain of the launch (compute capability 9.0 and later): 'remote' keeps its fences from waiting for
   * writes of other kernels, such as those of communication. Default: the stream's.
   */
  readonly memorySyncDomain?: 'default' | 'remote' | undefined
  /** How clusters are placed (compute capability 9.0 and later). Default: the driver's choice. */
  readonly clusterScheduling?: 'spread' | 'loadBalancing' | undefined
  /**
   * The dimensions of larger clusters, which the device uses in place of those of `cluster` if it has room (compute capability
   * 9.0 and later, driver of CUDA 12.8): in x and y a multiple of `cluster` and a divisor of the grid, in z as `cluster`. A
   * kernel can query its cluster's dimensions while it runs. Default: none. The simulator ignores it.
   */
  readonly preferredCluster?: Extent | undefined
}

const LARGEST_EXTENT = 2 ** 31 - 1

class ModuleImpl extends HandleImpl<ModuleHandle> {
  override destroy(): void {
    this.driver.kernels.unload(this.handle, this.context)
  }
}

/** The module of a kernel that other code has loaded, and unloads. */
class WrappedModule extends ModuleImpl {
  constructor(
    device: Device,
    private readonly wrapped: WrappedFunction,
    /** An object that is kept reachable as long as the module is. */
    readonly owner: object | undefined,
  ) {
    super('Module', device, wrapped.module)
  }

  override destroy(): void {
    this.driver.kernels.release(this.wrapped)
  }
}

/** GPU code, loaded on a device. */
export class Module extends HandleObject {
  /** @internal */
  declare readonly [implementation]: ModuleImpl

  /** Use `Module.load()`. */
  private constructor(impl: ModuleImpl) {
    super(impl, ModuleImpl, 'Module', 'Module.load(code)')
  }

  /** @internal */
  static [construct](impl: ModuleImpl): Module {
    return new Module(impl)
  }

  /**
   * Loads GPU code (`cuModuleLoadData`). Blocks: CUDA waits for the whole device, so pending host functions run first.
   * @param code PTX, as text or bytes; on a GPU also a cubin or a fatbin.
   * @param options `device`: the device to load it on (default: the current device)
   * @throws {Error} ERR_DEADLOCK inside a host function and while a stream waits for a promise; ERR_UNSUPPORTED for machine code on the
   * simulator, which runs PTX; ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for a path, ERR_OUT_OF_RANGE for no bytes, or for a device that does not exist
   * @throws {CudaError} for code that this device cannot run
   */
  static load(code: Uint8Array | string, options?: { readonly device?: Device | number | undefined }): Module {
    const given = readOptions(options, ['device'])
    const image = imageOf(code)
    return loadModule(image, resolveDevice(given.device))
  }

  /** The CUmodule. It keeps nothing alive, and can still be read after `close()`, when it may be no module any more. */
  get handle(): bigint {
    return BigInt(implOf(this).handle)
  }

  /** Was the module closed? Its kernels cannot be launched then. */
  override get closed(): boolean {
    return implOf(this).isClosed
  }

  /**
   * A kernel of this module (`cuModuleGetFunction`).
   * @param name The kernel's name in the module: an `extern "C"` function has its own.
   * @param signature The kernel's parameters in order: values such as 'i32', 'f32x4' or a struct, and pointers such as 'in f32*', 'out
   * f32*', 'inout f32*' or `{ in: Particle }`. Their sizes are compared with those that the driver reports.
   * @throws {Error} ERR_INVALID_ARG_VALUE if the parameters are not the kernel's own, or one is not a parameter type;
   * ERR_INVALID_ARG_TYPE, ERR_CLOSED
   * On the simulator also ERR_UNSUPPORTED, with the line of the PTX, for a kernel with a form that it does not run
   * @throws {CudaError} 500 if the module has no such kernel
   * @example
   * ```ts
   * const axpy = Module.load(bytes).kernel('axpy', ['f32', 'in f32*', 'inout f32*', 'i32'])
   * stream.launch(axpy, { grid: 4, block: 256 }, 2, x, y, 1024)
   * ```
   */
  kernel<const S extends readonly ParameterType[]>(name: string, signature: S): Kernel<S> {
    const impl = implOf(this)
    impl.checkOpen()
    checkText(name, 'name', 'the name of a kernel')
    const parameters = parseSignature(signature)
    // A getter of the signature may have closed it.
    impl.checkOpen()
    return Kernel[construct]<S>(kernelIn(impl, { name, parameters, nanoseconds: undefined }), this)
  }

  /**
   * A variable of this module, `__device__` or `__constant__`, as a buffer (`cuModuleGetGlobal`). It can be used while the
   * module is open, and is closed without effect on the module.
   * @param name The variable's name in the module: an `extern "C"` variable has its own.
   * @throws {Error} ERR_CLOSED, ERR_INVALID_ARG_TYPE
   * @throws {CudaError} 500 if the module has no such variable
   * @example
   * ```ts
   * const coefficients = Module.load(bytes).global('coefficients')
   * await stream.upload(coefficients, new Float32Array([0.25, 0.5, 0.25]))
   * ```
   */
  global(name: string): DeviceBuffer {
    const impl = implOf(this)
    impl.checkOpen()
    checkText(name, 'name', 'the name of a variable')
    const { pointer, byteLength } = impl.driver.kernels.variable(impl.handle, name)
    return DeviceBuffer.from(pointer, byteLength, { device: impl.device, owner: this })
  }

  /**
   * Unloads the module (`cuModuleUnload`): no launch of its kernels may be under way. Since CUDA waits for the whole device
   * then, it happens when the devices are idle. That of `Kernel.from()` is only released. May be called twice.
   */
  close(): void {
    implOf(this).close()
  }

  get [Symbol.toStringTag](): string {
    return 'Module'
  }
}

/** Loads what a compiler, or the program, has made. */
const loadModule = (image: ModuleImage, device: Device): Module => Module[construct](loadCode(image, device))

/** Modules that no program sees and nobody closes, by the text of their PTX or machine code. */
const modules = new WeakMap<Device, Map<string, WeakRef<ModuleImpl>>>()

/** A kernel that is to be found in a module. */
interface WantedKernel {
  /** The kernel's name for the program. */
  readonly name: string
  /** The kernel's name in the module. Default: `name`. */
  readonly inModule?: string
  readonly parameters: readonly Parameter[]
  readonly nanoseconds: number | undefined
}

/**
 * A kernel of a module that no program sees and nobody closes.
 * @param text The text that the image was made of, if it was compiled before: kernels of the same share one module, and so its variables.
 */
export function loadKernel(image: ModuleImage, device: Device, wanted: WantedKernel, text?: string): KernelImpl {
  const known = text === undefined ? undefined : modules.get(device)?.get(text)?.deref()
  const code = known ?? loadCodeOf(wanted.name, image, device)
  if (text !== undefined && known === undefined) {
    const loaded = modules.get(device) ?? new Map<string, WeakRef<ModuleImpl>>()
    modules.set(device, loaded.set(text, new WeakRef(code)))
  }
  return kernelIn(code, wanted)
}

function loadCodeOf(kernel: string, image: ModuleImage, device: Device): ModuleImpl {
  try {
    return loadCode(image, device)
  } catch (error) {
    if (!(error instanceof CudaError && error.number === CUresult.UNSUPPORTED_PTX_VERSION)) throw error
    throw fromCaller(() => explained(error, tooNew(kernel, image)))
  }
}

function tooNew(kernel: string, image: ModuleImage): string {
  const text = ArrayBuffer.isView(image) ? new TextDecoder().decode(image.subarray(0, 4096)) : ''
  const version = /^\s*\.version\s+(\S+)/m.exec(text)?.[1] ?? ''
  return `${printable(kernel)} is PTX of version ${version}, which is newer than the driver: update the driver, or make the PTX with an older compiler, or by cuda-streams/cu, which writes the oldest version that the code allows`
}

/** A variable of the module of a kernel. */
export function variableIn({ code }: KernelImpl, name: string, owner: object): DeviceBuffer {
  checkText(name, 'name', 'the name of a variable')
  let found: { readonly pointer: number; readonly byteLength: number }
  try {
    found = code.driver.kernels.variable(code.handle, name)
  } catch (error) {
    throw missing(
      error,
      () =>
        `The code has no variable '${printable(name)}': check the name, and declare it as __device__ or __constant__ outside of namespaces; a variable that no kernel uses is not in the code`,
    )
  }
  return DeviceBuffer.from(found.pointer, found.byteLength, { device: code.device, owner })
}

const loadCode = (image: ModuleImage, device: Device): ModuleImpl =>
  new ModuleImpl('Module', device, driverOf(device).kernels.load(image, contextOf(device)))

function kernelIn(code: ModuleImpl, { name, inModule = name, parameters, nanoseconds }: WantedKernel): KernelImpl {
  let handle: KernelHandle
  try {
    handle = code.driver.kernels.kernel(code.handle, inModule, parameters.map(passedAs), (index) => {
      const parameter = parameters[index]
      return parameter === undefined ? `argument ${index}` : describeParameter(parameter, index)
    })
  } catch (error) {
    throw missing(error, () => notFound(inModule, code.driver.kernels.names(code.handle)))
  }
  return new KernelImpl(code, name, parameters, handle, nanoseconds)
}

/** The driver's error, with what the code lacks. */
const missing = (error: unknown, what: () => string): unknown =>
  error instanceof CudaError && error.number === CUresult.NOT_FOUND ? fromCaller(() => explained(error, what())) : error

/** The most names that a message lists. */
const MOST_LISTED = 8

function notFound(name: string, names: readonly string[]): string {
  const meant = nearest(name, names)
  const listed = meant === undefined ? names.slice(0, MOST_LISTED) : [meant]
  const but = listed.length === 0 ? '' : `, but '${listed.map(printable).join("', '")}'`
  const others = meant === undefined && names.length > MOST_LISTED ? ' and others' : ''
  return `The code has no kernel '${printable(name)}'${but}${others}: check the name, and declare it as extern "C" __global__, since C++ changes the names of others`
}

const implOf = (module: unknown): ModuleImpl =>
  (module instanceof Module ? module[implementation] : undefined) ?? refuseReceiver('a Module', module)

/** The implementation of a kernel, which launches work with. */
export class KernelImpl implements LaunchedKernel {
  /** The name in reports, timelines and errors. */
  readonly name: string
  readonly label: string
  readonly #shapes: Shapes
  /** The handle of a condition is such a value. */
  readonly #takesConditions: boolean
  #limits: KernelLimits | undefined

  constructor(
    readonly code: ModuleImpl,
    /** The name in the module. */
    readonly moduleName: string,
    readonly uses: readonly Parameter[],
    readonly handle: KernelHandle,
    readonly nanoseconds: number | undefined,
  ) {
    this.name = printable(moduleName)
    this.label = `kernel '${this.name}'`
    this.#shapes = new Shapes(this.name, () => this.limits.maxThreads)
    this.#takesConditions = uses.some(({ passed, access }) => passed === 'u64' && access === undefined)
  }

  /** What the code leaves for launches. */
  get limits(): KernelLimits {
    this.#limits ??= this.code.driver.kernels.limits(this.handle)
    return this.#limits
  }

  checkOpen(): void {
    if (!this.code.isClosed) return
    const site = placeOfClosing(this.code)
    const since = site === undefined ? 'is closed' : `was closed at ${site}`
    throw stateError('ERR_CLOSED', `The ${this.label} cannot be used any more: its module ${since}`)
  }

  #checkDevice(stream: StreamImpl): void {
    const { device } = this.code
    this.checkOpen()
    if (stream.device === device) return
    const what = `The ${this.label} is on ${device}, and ${stream} on ${elsewhere(stream.device, device)}`
    const way = 'launch it on a stream of its own device, or load its code on that of the stream, too, by { device }'
    throw stateError('ERR_DEVICE_MISMATCH', `${what}: ${way}`)
  }

  /** `kernel` is the object that the program launches, and `given` the arguments that it passes. */
  launch(stream: StreamImpl, config: unknown, args: unknown[], kernel: object, given: readonly unknown[] = args): void {
    // Before anything is opened: a getter of the configuration may close it.
    const shape = this.#shapes.of(config as LaunchConfig)
    this.#checkDevice(stream)
    const conditions = this.#takesConditions ? args.flatMap((given) => conditionImplOf(given) ?? []) : NO_CONDITIONS
    // The arguments are changed into what is launched: a node tells what the program gave.
    const captured = capturesUnderWay() ? [...given] : NO_ARGUMENTS
    const checked = checkArguments(this.name, this.uses, args)
    stream.reserve(1)
    this.checkOpen()
    for (const condition of conditions) condition.checkCapture(recordOf(stream)?.root, stream)
    const { driver } = stream
    checkMemoryOpen(this.name, this.uses, checked, driver)
    if (shape.attributes !== undefined) refuseAttributes(stream.device, shape.attributes)
    if (isEmpty(shape)) return
    const work = beginWork(stream, checked)
    try {
      driver.work.queue({ kind: 'kernel', stream: stream.handle, kernel: this, shape, args: checked })
    } catch (error) {
      throw explainLimits(error, this, stream.device, shape)
    }
    if (work !== undefined) endWork(stream, work, { kernel, shape, args: captured })?.retained.add(this.code)
    stream.lastWork = this.label
  }

  /** Gives a node of a graph these arguments. Returns the memory among them. */
  update(target: LaunchNode, config: unknown, args: unknown[]): readonly OpenMemory[] {
    const shape = this.#shapes.of(config as LaunchConfig)
    if (isEmpty(shape)) throw outOfRange(`${this.name}: config.threads`, 'from 1, for a node of a graph', 0, NO_NODE)
    const checked = checkArguments(this.name, this.uses, args)
    // A getter of the configuration may have closed them.
    this.checkOpen()
    target.checkOpen()
    checkUpdate(target, shape)
    const { driver, exec, node, context } = target
    checkMemoryOpen(this.name, this.uses, checked, driver)
    const memory = memoryIn(checked)
    enablePeerAccess(memory, target)
    try {
      driver.graphs.updateNode(exec, node, context, { kind: 'kernel', kernel: this, shape, args: checked })
    } catch (error) {
      throw explainLimits(error, this, target.device, shape)
    }
    return memory
  }

  toString(): string {
    return `Kernel(${this.name}, ${this.code.device})`
  }
}

/** The options of `Kernel.from()`. */
export interface ForeignKernelOptions {
  /** The device that the kernel is loaded on; -1: not known. Default: the current device. */
  readonly device?: Device | number | undefined
  /** An object that is kept reachable while the kernel is, such as the one that keeps it loaded. */
  readonly owner?: object | undefined
}

/** A kernel for `stream.launch(kernel, config, ...args)`, on streams of its module's device. */
export class Kernel<out S extends readonly ParameterType[] = readonly ParameterType[]> extends LibraryObject {
  /** The kernel's name in the module. */
  readonly name: string
  /** The module that the kernel is in. The kernel can be launched while the module is open. */
  readonly module: Module
  /** @internal */
  declare readonly [implementation]: KernelImpl

  /** @internal Only a type: the arguments that a launch takes. Declarations have it as `out S`. */
  declare readonly args: ArgumentsOf<S>

  /** Use `module.kernel(name, signature)`. */
  private constructor(impl: KernelImpl, module: Module) {
    super()
    checkMade(impl, KernelImpl, 'Kernel', 'module.kernel(name, signature)')
    this.module = module
    this.name = impl.moduleName
    this[implementation] = impl
  }

  /** @internal */
  static [construct]<S extends readonly ParameterType[]>(impl: KernelImpl, module: Module): Kernel<S> {
    return new Kernel<S>(impl, module)
  }

  /**
   * Wraps a kernel that another library has loaded, such as one of Triton, CuPy or Numba (`cuFuncGetModule`, `cuFuncGetName`, and
   * `cuKernelGetFunction` of a CUkernel), to be launched on streams and captured in graphs of this one. It is never unloaded here; that
   * library keeps it loaded as long as it is used.
   * @param handle The CUfunction or CUkernel, as a bigint or number.
   * @param signature The kernel's parameters in order, as for `module.kernel()`. Their sizes are compared with those that the driver reports.
   * @param options `device`: the device that it is loaded on, which CUDA does not report (default: the current device). `owner`: an object that
   * is kept reachable while the kernel is.
   * @throws {Error} ERR_INVALID_HANDLE for a handle of no kernel; ERR_INVALID_ARG_VALUE if the parameters are not the kernel's own, or one is not
   * a parameter type; ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE
   * @example
   * ```ts
   * const add = Kernel.from(handle, ['in f32*', 'out f32*', 'i32'], { owner })
   * stream.launch(add, { grid: 4, block: 128, sharedMemory: 1024 }, x, y, 512)
   * ```
   */
  static from<const S extends readonly ParameterType[]>(
    handle: bigint | number,
    signature: S,
    options?: ForeignKernelOptions,
  ): Kernel<S> {
    const given = readOptions(options, ['device', 'owner'])
    const address = checkPointer(handle, 'handle', 'a CUfunction or a CUkernel (a bigint or a safe integer)')
    const parameters = parseSignature(signature)
    const owner = checkOwner(given.owner)
    const device = deviceForHandle(address, given.device)
    const wrapped = driverOf(device).kernels.wrap(address, contextOf(device))
    const { name } = wrapped
    const code = new WrappedModule(device, wrapped, owner)
    try {
      return Kernel[construct]<S>(kernelIn(code, { name, parameters, nanoseconds: undefined }), Module[construct](code))
    } catch (error) {
      code.close()
      throw error
    }
  }

  /**
   * The CUfunction, for calls of other libraries. It keeps nothing alive: hold the kernel and its module as long as they use it.
   * @throws {Error} ERR_CLOSED if the module is closed
   */
  get handle(): bigint {
    const impl = kernelImpl(this)
    impl.checkOpen()
    return BigInt(impl.code.driver.kernels.functionOf(impl.handle))
  }

  /**
   * The number of blocks that one multiprocessor runs at once (`cuOccupancyMaxActiveBlocksPerMultiprocessor`).
   * @param blockSize Threads of each block.
   * @param sharedMemory Dynamic shared memory of each block, in bytes. Default 0. More than 48 KiB together with what the kernel declares counts as for
   * a launch, which asks CUDA for it. With more than the device has the number is 0.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE, ERR_CLOSED if the module is closed
   * @throws {CudaError} if the driver refuses
   */
  activeBlocks(blockSize: number, sharedMemory = 0): number {
    const impl = kernelImpl(this)
    checkExtent(blockSize, 'blockSize')
    checkSharedMemory(sharedMemory, 'sharedMemory')
    impl.checkOpen()
    return impl.code.driver.kernels.activeBlocks(impl.handle, blockSize, sharedMemory)
  }

  /** @internal */
  [launchOn](stream: StreamImpl, config: unknown, args: unknown[]): void {
    kernelImpl(this).launch(stream, config, args, this)
  }

  /** @internal */
  [updateNode](target: LaunchNode, config: unknown, args: unknown[]): readonly OpenMemory[] {
    return kernelImpl(this).update(target, config, args)
  }

  get [Symbol.toStringTag](): string {
    return 'Kernel'
  }
}

/** Has the launch no threads? Then it has no blocks either. */
const isEmpty = ({ grid }: LaunchShape): boolean => grid[0] === 0 || grid[1] === 0 || grid[2] === 0

const NO_NODE = 'exec.setEnabled(node, false) lets it do nothing'

const NO_CONDITIONS: readonly ConditionImpl[] = []
const NO_ARGUMENTS: readonly unknown[] = []

const kernelImpl = (kernel: unknown): KernelImpl =>
  (kernel instanceof Kernel ? kernel[implementation] : undefined) ?? refuseReceiver('a Kernel', kernel)

/**
 * Caches the shape of the latest launch, which the next one mostly has too, or one that differs in its blocks alone: checking it
 * again is a good part of a launch's cost.
 */
export class Shapes {
  readonly #kernel: string
  /** The most threads that a block of the kernel has. */
  readonly #mostThreads: () => number
  #latest: SizedShape | undefined

  constructor(kernel: string, mostThreads = (): number => LIMITS_OF_ANY.maxThreads) {
    this.#kernel = kernel
    this.#mostThreads = mostThreads
  }

  of(config: LaunchConfig): LaunchShape {
    const latest = this.#latest
    if (latest !== undefined && isPlain(config) && hasSameBlock(latest, config)) {
      if (isSameGrid(latest, config)) return latest.shape
      const resized = withOtherGrid(latest, config, this.#mostThreads)
      if (resized !== undefined) {
        this.#latest = resized
        return resized.shape
      }
    }
    const sized = shapeOf(readConfig(config, this.#kernel), this.#kernel, this.#mostThreads)
    // Special launches are checked each time.
    const { cooperative, cluster, attributes } = sized.shape
    this.#latest = !cooperative && cluster === undefined && attributes === undefined ? sized : undefined
    return sized.shape
  }
}

/** A shape, and what it was computed from. */
interface SizedShape {
  readonly shape: LaunchShape
  /** The number of threads; undefined if the configuration has the grid itself. */
  readonly threads: Extents | undefined
  readonly hasBlock: boolean
}

/** Has a configuration nothing but what plain launches have? */
function isPlain(config: LaunchConfig): boolean {
  if (typeof config !== 'object' || config === null) return false
  for (const key in config) if (!isConfigName(key)) return false
  return config.cooperative === undefined && config.cluster === undefined
}

const hasSameBlock = ({ shape, hasBlock }: SizedShape, { block, sharedMemory = 0 }: LaunchConfig): boolean =>
  (hasBlock ? isExtent(shape.block, block) : block === undefined) && sharedMemory === shape.sharedMemory

const isSameGrid = ({ shape, threads }: SizedShape, config: LaunchConfig): boolean =>
  threads === undefined
    ? isExtent(shape.grid, config.grid) && config.threads === undefined
    : isExtent(threads, config.threads) && config.grid === undefined

/** The shape of before with the blocks of this configuration; undefined if they are not simply right. */
function withOtherGrid(
  { shape, hasBlock }: SizedShape,
  { grid, threads }: LaunchConfig,
  mostThreads: () => number,
): SizedShape | undefined {
  if (grid !== undefined && threads !== undefined) return undefined
  const asked = plainExtents(grid ?? threads)
  if (asked === undefined) return undefined
  const { block, attributes, sharedMemory, cooperative, cluster } = shape
  // A block that the configuration does not name depends on the directions that there are blocks in.
  if (!hasBlock && !isExtent(block, defaultBlock(asked, threads, mostThreads))) return undefined
  const blocks = grid === undefined ? blocksFor(asked, block) : asked
  if (blocks[0] > LARGEST_EXTENT || blocks[1] > LARGEST_EXTENT || blocks[2] > LARGEST_EXTENT) return undefined
  return {
    shape: { attributes, sharedMemory, grid: blocks, block, cooperative, cluster },
    threads: grid === undefined ? asked : undefined,
    hasBlock,
  }
}

const blocksFor = (threads: Extents, block: Extents): Extents => [
  Math.ceil(threads[0] / block[0]),
  Math.ceil(threads[1] / block[1]),
  Math.ceil(threads[2] / block[2]),
]

/** Reads up to three positive integers; undefined for all else. */
function plainExtents(given: unknown): Extents | undefined {
  if (typeof given === 'number') return isCount(given) ? [given, 1, 1] : undefined
  if (!Array.isArray(given) || given.length < 1 || given.length > 3) return undefined
  const [x, y, z] = [given[0], axisOf(given, 1), axisOf(given, 2)]
  return isCount(x) && isCount(y) && isCount(z) ? [x, y, z] : undefined
}

const isCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 1

function isExtent([x, y, z]: Extents, given: Extent | undefined): boolean {
  if (typeof given === 'number') return given === x && y === 1 && z === 1
  if (!Array.isArray(given) || given.length < 1 || given.length > 3) return false
  return given[0] === x && axisOf(given, 1) === y && axisOf(given, 2) === z
}

function axisOf(extent: readonly unknown[], axis: number): unknown {
  const given = axis < extent.length ? extent[axis] : undefined
  return given === undefined ? 1 : given
}

const ATTRIBUTES = [
  'programmatic',
  'priority',
  'sharedMemoryCarveout',
  'memorySyncDomain',
  'clusterScheduling',
  'preferredCluster',
] as const
const CONFIG = ['grid', 'threads', 'block', 'sharedMemory', 'cooperative', 'cluster', ...ATTRIBUTES] as const
/** CUclusterSchedulingPolicy. */
const POLICIES = { spread: 1, loadBalancing: 2 } as const
const NEED_CAPABILITY = ['memorySyncDomain', 'clusterScheduling', 'preferredCluster'] as const
/** Is the key an option of plain launches? This is faster than searching the list at each launch. */
const isConfigName = (key: string): boolean =>
  key === 'grid' ||
  key === 'threads' ||
  key === 'block' ||
  key === 'sharedMemory' ||
  key === 'cooperative' ||
  key === 'cluster'
type GivenConfig = Given<LaunchConfig, (typeof CONFIG)[number]>

function readConfig(config: LaunchConfig, kernel: string): GivenConfig {
  if (isOptionsObject(config)) return readOptions(config, CONFIG, 'config', `${kernel}: `)
  const way = "the configuration comes before the kernel's arguments, as in launch(kernel, { threads: n }, ...args)"
  throw invalidType(`${kernel}: config`, 'an object such as { grid, block } or { threads }', config, way)
}

/** The driver's error, with the limit that the shape exceeds. */
function explainLimits(error: unknown, kernel: KernelImpl, device: Device, shape: LaunchShape): unknown {
  if (!(error instanceof CudaError) || error.number !== CUresult.INVALID_VALUE) return error
  const why = exceededLimit(device, shape) ?? exceededBound(kernel.limits, device, shape)
  return why === undefined ? error : fromCaller(() => explained(error, `The launch of ${kernel.name} has ${why}`))
}

/** Describes the limit of the kernel's own code that a shape exceeds. */
function exceededBound(limits: KernelLimits, device: Device, shape: LaunchShape): string | undefined {
  const { maxThreads, requiredBlock, staticSharedBytes } = limits
  const { sharedMemory, block } = shape
  const threads = block[0] * block[1] * block[2]
  const asked = `${threads} threads in each block (config.block is ${block.join(' x ')})`
  if (threads > maxThreads) {
    const way = 'pass a smaller config.block, or { threads } without one'
    return `${asked}; its code takes at most ${maxThreads}, by its launch bounds or its registers: ${way}`
  }
  const inAll = sharedMemory + staticSharedBytes
  const most = device.attribute('maxSharedMemoryPerBlockOptin')
  if (inAll > most) {
    const parts = `config.sharedMemory is ${sharedMemory}, and its code declares ${staticSharedBytes}`
    return `${inAll} bytes of shared memory (${parts}); ${device} takes at most ${most}`
  }
  if (requiredBlock === undefined) return undefined
  const required = block.map((_, axis) => requiredBlock[axis] ?? 1).join(' x ')
  return `${asked}; its code requires blocks of ${required} (.reqntid): pass that as config.block`
}

/** Throws ERR_UNSUPPORTED if the device lacks an attribute. The simulated device has the abilities of an H200. */
function refuseAttributes(device: Device, attributes: LaunchAttributes): void {
  const named = attributes.programmatic
    ? 'programmatic'
    : NEED_CAPABILITY.find((name) => attributes[name] !== undefined)
  if (named !== undefined) needsHopper(device, `config.${named}`)
}

/** Describes the limit of the device that a shape exceeds. */
function exceededLimit(device: Device, { grid, block, sharedMemory }: LaunchShape): string | undefined {
  const [x, y, z] = block
  const asked: readonly (readonly [what: string, count: number, limit: DeviceAttribute])[] = [
    [`threads in each block (config.block is ${block.join(' x ')})`, x * y * z, 'maxThreadsPerBlock'],
    ['threads of config.block in x', x, 'maxBlockDimX'],
    ['threads of config.block in y', y, 'maxBlockDimY'],
    ['threads of config.block in z', z, 'maxBlockDimZ'],
    ['blocks of config.grid in x', grid[0], 'maxGridDimX'],
    ['blocks of config.grid in y', grid[1], 'maxGridDimY'],
    ['blocks of config.grid in z', grid[2], 'maxGridDimZ'],
    ['bytes of config.sharedMemory', sharedMemory, 'maxSharedMemoryPerBlockOptin'],
  ]
  for (const [what, count, limit] of asked) {
    const most = device.attribute(limit)
    if (count > most) return `${count} ${what}; ${device} takes at most ${most}, its '${limit}'`
  }
  return undefined
}

/** Checks a launch's configuration. */
function shapeOf(given: GivenConfig, kernel: string, mostThreads: () => number): SizedShape {
  const name = `${kernel}: config`
  const sharedMemory =
    given.sharedMemory === undefined ? 0 : checkSharedMemory(given.sharedMemory, `${name}.sharedMemory`)
  const { grid: blocks, threads: count } = given
  if (blocks === undefined && count === undefined) {
    throw invalidValue(`${name} must have grid, the number of blocks, or threads, that of all threads`)
  }
  if (blocks !== undefined && count !== undefined) {
    throw invalidValue(`${name}.grid and threads exclude each other: threads says how many blocks there are`)
  }
  const threads = count === undefined ? undefined : extentOf(count, `${name}.threads`, Number.MAX_SAFE_INTEGER, 0)
  const asked = threads ?? extentOf(blocks, `${name}.grid`)
  const hasBlock = given.block !== undefined
  const block = hasBlock ? extentOf(given.block, `${name}.block`) : defaultBlock(asked, threads, mostThreads)
  const cooperative = checkBoolean(given.cooperative, `${name}.cooperative`, false)
  const cluster = given.cluster === undefined ? undefined : extentOf(given.cluster, `${name}.cluster`)
  const grid = threads === undefined ? asked : gridFor(threads, block, cluster, `${name}.threads`)
  if (cluster?.some((blocks, axis) => (grid[axis] ?? 0) % blocks !== 0)) {
    const way = 'round it up, or pass { threads } in its place'
    throw invalidValue(
      `${name}.grid must be whole clusters in each direction: ${grid} blocks are none of ${cluster}: ${way}`,
    )
  }
  const isSpecial = ATTRIBUTES.some((each) => given[each] !== undefined)
  const attributes = isSpecial ? attributesOf(given, grid, cluster, name) : undefined
  return { shape: { attributes, sharedMemory, grid, block, cooperative, cluster }, threads, hasBlock }
}

/**
 * Blocks of 256 threads, whose warps are rows of 32: neighbours in x read neighbours in memory. Blocks are smaller if the kernel takes no
 * 256 and the launch says how many threads it needs. A launch that says how many blocks counts on their size.
 */
function defaultBlock([, y, z]: Extents, threads: unknown, mostThreads: () => number): Extents {
  const most = threads === undefined ? 256 : mostThreads()
  if (most < 32) return [Math.max(most, 1), 1, 1]
  const rows = Math.min(8, Math.floor(most / 32))
  if (z > 1) return rows > 1 ? [32, Math.min(4, Math.floor(rows / 2)), 2] : [32, 1, 1]
  return y > 1 ? [32, rows, 1] : [32 * rows, 1, 1]
}

/** The blocks that have at least so many threads, in whole clusters. */
function gridFor(threads: Extents, block: Extents, cluster: Extents = [1, 1, 1], name: string): Extents {
  const along = (axis: 0 | 1 | 2): number => {
    const blocks = Math.ceil(threads[axis] / (block[axis] * cluster[axis])) * cluster[axis]
    if (blocks <= LARGEST_EXTENT) return blocks
    throw outOfRange(name, `those of at most ${LARGEST_EXTENT} blocks of ${block[axis]}`, threads[axis])
  }
  return [along(0), along(1), along(2)]
}

type Extents = LaunchShape['grid']

function attributesOf(given: GivenConfig, grid: Extents, cluster: Extents | undefined, name: string): LaunchAttributes {
  const { programmatic, priority, sharedMemoryCarveout: carveout, memorySyncDomain, clusterScheduling } = given
  const { preferredCluster } = given
  return {
    programmatic: checkBoolean(programmatic, `${name}.programmatic`, false),
    priority: priority === undefined ? undefined : checkPriority(priority, `${name}.priority`),
    sharedMemoryCarveout:
      carveout === undefined ? undefined : checkInteger(carveout, `${name}.sharedMemoryCarveout`, 0, 100),
    memorySyncDomain: checkMemorySyncDomain(memorySyncDomain, `${name}.memorySyncDomain`),
    clusterScheduling: oneOf(clusterScheduling, POLICIES, `${name}.clusterScheduling`),
    preferredCluster: preferredCluster === undefined ? undefined : preferredOf(preferredCluster, grid, cluster, name),
  }
}

/** Checks a preferred cluster here, since the driver does not report why it refuses one. */
function preferredOf(extent: unknown, grid: Extents, cluster: Extents | undefined, config: string): Extents {
  const name = `${config}.preferredCluster`
  const preferred = extentOf(extent, name)
  if (cluster === undefined) throw invalidValue(`${name} needs config.cluster, of which it is a multiple`)
  for (const [axis, blocks] of preferred.entries()) {
    const [part, whole] = [cluster[axis] ?? 1, grid[axis] ?? 1]
    if (axis === 2 ? blocks === part : blocks % part === 0 && whole % blocks === 0) continue
    const rule = axis === 2 ? `${part} in z` : `a multiple of ${part} that divides ${whole} in ${'xy'[axis]}`
    throw invalidValue(`${name} must be ${rule}, for config.cluster and config.grid, and is ${blocks}`)
  }
  return preferred
}

function extentOf(extent: unknown, name: string, most = LARGEST_EXTENT, least = 1): readonly [number, number, number] {
  if (typeof extent === 'number') return [checkExtent(extent, name, most, least), 1, 1]
  const expected = 'a number, or an array of up to three'
  const given = checkArray(extent, name, expected)
  if (given.length < 1 || given.length > 3) throw invalidType(name, expected, extent)
  const [x, y = 1, z = 1] = given
  const along = (value: unknown, axis: number): number => checkExtent(value, `${name}[${axis}]`, most, least)
  return [along(x, 0), along(y, 1), along(z, 2)]
}

function checkExtent(value: unknown, name: string, most = LARGEST_EXTENT, least = 1): number {
  if (typeof value === 'number' && !Number.isInteger(value)) {
    const way = /threads(?:\[\d\])?$/.test(name)
      ? undefined
      : 'round up, as in Math.ceil(n / block), or pass { threads: n } in place of the grid'
    throw invalidType(name, 'an integer', value, way)
  }
  const range = `from ${least} to ${most}`
  const expected = (): string =>
    value === 0 ? `${range} (skip the launch where there is nothing to do, or pass { threads: 0 })` : range
  return checkInteger(value, name, least, most, expected)
}

const checkSharedMemory = (bytes: unknown, name: string): number =>
  checkInteger(bytes, name, 0, LARGEST_EXTENT, () => `bytes from 0 to ${LARGEST_EXTENT}`)

function imageOf(code: unknown): Uint8Array {
  if (typeof code !== 'string' && !types.isUint8Array(code)) {
    throw invalidType('code', 'a Uint8Array, or PTX as text', code)
  }
  const path = typeof code === 'string' ? /^[^\n]*\.(?:ptx|cubin|fatbin|cu)$/.exec(code)?.[0] : undefined
  if (path !== undefined) {
    const way = path.endsWith('.cu') ? 'Program.compile(source) compiles CUDA C++' : 'Module.load(await readFile(path))'
    throw invalidValue(`code is '${path}', which is a path and no code: ${way}`)
  }
  const image = typeof code === 'string' ? encoded(code) : bytesOf(code, 'code')
  if (image.length === 0) throw outOfRange('code.length', 'more than 0', 0)
  return image
}

/** The text that was loaded last, until a garbage collection: a long one that is loaded again is not encoded again. */
let latest: WeakRef<{ readonly text: string; readonly image: Uint8Array }> | undefined

/** A text as bytes, which no driver writes to. */
function encoded(text: string): Uint8Array {
  const known = latest?.deref()
  if (known?.text === text) return known.image
  const image = new TextEncoder().encode(text)
  latest = new WeakRef({ text, image })
  return image
}

/** The options of `Program.compile()`. */
export interface CompileOptions {
  /** The architecture to compile for, such as 'sm_90', for NVRTC's `--gpu-architecture`. Default: the device's own. */
  readonly arch?: string | undefined
  /** More options for NVRTC, such as '--use_fast_math'. */
  readonly options?: readonly string[] | undefined
  /** The device to load the module on. Default: the current device. */
  readonly device?: Device | number | undefined
  /** The name of the source in the compiler's messages. Default 'program.cu'. */
  readonly name?: string | undefined
}

/**
 * Compiles CUDA C++ with NVRTC, on a thread of its own, and loads the result; only the loading blocks, as that of
 * `Module.load()`. Kernels that are looked up by name need `extern "C"`.
 * @param source CUDA C++ as text.
 * @param options `arch` (default: the device's own), more `options` for NVRTC, `device` (default: the current device)
 * and `name` of the source in messages (default 'program.cu')
 * @throws {Error} (as a rejection) ERR_COMPILATION, with the compiler's log in the message; ERR_UNSUPPORTED without
 * NVRTC, which needs no GPU (CUDA_STREAMS_NVRTC names the file or its folder); ERR_INVALID_ARG_TYPE; ERR_OUT_OF_RANGE
 * for a device that does not exist
 * @throws {CudaError} (as a rejection) for code that the device cannot run
 * @example
 * ```ts
 * const module = await Program.compile('extern "C" __global__ void one(int* x) { x[threadIdx.x] = 1; }')
 * stream.launch(module.kernel('one', ['out i32*']), { grid: 1, block: 32 }, x)
 * ```
 */
async function compile(source: string, options?: CompileOptions): Promise<Module> {
  const given = readOptions(options, ['arch', 'options', 'device', 'name'])
  checkText(source, 'source', 'CUDA C++ as text')
  const { options: texts = [], name = 'program.cu' } = given
  const more = checkArray(texts, 'options.options', 'an array of texts').map((text, index) =>
    checkText(text, `options.options[${index}]`, 'a text'),
  )
  checkText(name, 'options.name', 'a text')
  const device = resolveDevice(given.device)
  const { major, minor } = device.computeCapability
  const { arch = `sm_${major}${minor}` } = given
  checkText(arch, 'options.arch', "a text such as 'sm_90'")
  const nvrtc = [`--gpu-architecture=${arch}`, ...more]
  const code: KernelSource = { text: source, ptx: undefined, file: name, options: nvrtc, host: undefined }
  return loadModule(await driverOf(device).kernels.compile(code), device)
}

/** CUDA C++ as text: `Program.compile(source, options)` compiles it and loads the result as a Module. */
export const Program = { compile } as const
