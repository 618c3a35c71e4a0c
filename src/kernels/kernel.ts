import { inspect, types } from 'node:util'
import {
  bytesOf,
  checkArray,
  checkBoolean,
  checkInteger,
  checkText,
  checkThis,
  type Given,
  isInstance,
  readOptions,
} from '../base/arguments.js'
import { inspected, invalidType, outOfRange, printed, stateError } from '../base/errors.js'
import { destroyWhenUnreachable, type NativeResource, release } from '../base/finalization.js'
import { nextSerial } from '../base/identity.js'
import { contextOf, type Device, driverOf, isDevice, resolveDevice } from '../device.js'
import type { ContextHandle, Driver, KernelHandle, LaunchShape, ModuleHandle } from '../driver/driver.js'
import { queueWith } from '../memory/queue-with-memory.js'
import { openStream, queuedLast, type Stream } from '../stream.js'
import { type ArgumentMemory, type LaunchValues, openArguments } from './kernel-arguments.js'
import {
  type ArgumentsOf,
  checkArguments,
  type Parameter,
  type ParameterType,
  parseSignature,
  passedAs,
} from './kernel-signature.js'
import { type Launchable, launchOn } from './launchable.js'

/**
 * A number of blocks or threads: in one direction, or in up to three; y and z are 1 unless given. Whole numbers, at
 * least 1.
 */
export type Extent = number | readonly [x: number, y?: number, z?: number]

/** How many threads run a kernel, and how they stand together. */
export interface LaunchConfig {
  /** Blocks of the grid. CUDA allows 2 ** 31 - 1 in x, and 65535 in y and z. */
  readonly grid: Extent
  /** Threads of each block; CUDA allows 1024 in all. */
  readonly block: Extent
  /** Dynamic shared memory of each block, in bytes. Default 0. */
  readonly sharedMemory?: number | undefined
  /** All blocks run at one time, so that they can wait for each other. Default false. The simulator pays it no heed. */
  readonly cooperative?: boolean | undefined
  /**
   * Blocks of a thread block cluster (compute capability 9.0 and later). Default: no clusters. The simulator pays it no
   * heed.
   */
  readonly cluster?: Extent | undefined
}

const LARGEST_EXTENT = 2 ** 31 - 1
const NO_MEMORY: readonly ArgumentMemory[] = []

class ModuleRemains implements NativeResource {
  readonly #driver: Driver
  readonly #module: ModuleHandle
  readonly #context: ContextHandle
  gone = false
  registered = false

  constructor(driver: Driver, module: ModuleHandle, context: ContextHandle) {
    this.#driver = driver
    this.#module = module
    this.#context = context
  }

  destroy(): void {
    this.#driver.kernels.unload(this.#module, this.#context)
  }
}

let isModule: (value: unknown) => value is Module
/** Is it a Kernel, and not merely an heir to one, as a proxy is? */
let isKernel: (value: unknown) => value is Kernel

/** GPU code, loaded on a device. */
export class Module implements Disposable {
  /** The device it is loaded on. */
  readonly device: Device
  /** Which object it is: no other of this thread has the number. */
  readonly serial: number = nextSerial()
  readonly #driver: Driver
  readonly #handle: ModuleHandle
  readonly #remains: ModuleRemains

  /** Use `Module.load()`. */
  private constructor(image: Uint8Array, device: Device) {
    if (!isDevice(device)) throw invalidType('Module', 'had from Module.load(code)', 'new Module()')
    const driver = driverOf(device)
    const context = contextOf(device)
    this.device = device
    this.#driver = driver
    this.#handle = driver.kernels.load(imageOf(image), context)
    this.#remains = new ModuleRemains(driver, this.#handle, context)
    destroyWhenUnreachable(this, this.#remains)
  }

  /**
   * Loads a cubin, a fatbin or PTX (`cuModuleLoadData`); PTX may be text. Default device: the current one. Blocks: CUDA
   * waits for the whole device, so host functions that are pending run first.
   * @throws CudaError for code that this device cannot run; ERR_DEADLOCK inside a host function; ERR_UNSUPPORTED on the
   * simulator, which runs no GPU code; ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for no bytes, or for a device that does
   * not exist
   */
  static load(code: Uint8Array | string, options?: { readonly device?: Device | number | undefined }): Module {
    const { device } = readOptions(options, ['device'])
    return new Module(imageOf(code), resolveDevice(device))
  }

  /** Was it closed? Its kernels cannot be launched then. */
  get closed(): boolean {
    return checkThis(this, isModule, 'a Module').#remains.gone
  }

  /**
   * A kernel of this module, with its parameters (`cuModuleGetFunction`). They are held against the sizes that the
   * driver knows.
   * @throws CudaError 500 where the module has no such kernel; ERR_INVALID_ARG_VALUE where the parameters are not its
   * own, or one is none; ERR_INVALID_ARG_TYPE, ERR_CLOSED
   */
  kernel<const S extends readonly ParameterType[]>(name: string, signature: S): Kernel<S> {
    const module = checkThis(this, isModule, 'a Module')
    module.#checkOpen()
    checkText(name, 'name', 'the name of a kernel')
    const parameters = parseSignature(signature)
    // A getter of the signature may have closed it.
    module.#checkOpen()
    const handle = this.#driver.kernels.kernel(this.#handle, name, parameters.map(passedAs))
    return new Kernel<S>(new KernelSeed(this, name, parameters, handle) as never)
  }

  /**
   * Unloads it (`cuModuleUnload`): no launch of its kernels may be under way. CUDA waits for the whole device in that,
   * so it is put off while host functions are pending. May be called twice.
   */
  close(): void {
    const module = checkThis(this, isModule, 'a Module')
    if (!module.#remains.gone) release(module, module.#remains)
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    checkThis(this, isModule, 'a Module').close()
  }

  get [Symbol.toStringTag](): string {
    return 'Module'
  }

  toString(): string {
    if (!isModule(this)) return printed(this)
    return `Module(0x${this.#handle.toString(16)}, ${this.device}${this.closed ? ', closed' : ''})`
  }

  [inspect.custom](): string {
    return inspected(this)
  }

  #checkOpen(): void {
    if (this.#remains.gone) throw stateError('ERR_CLOSED', `${this} cannot be used any more`)
  }

  static {
    isModule = (value): value is Module => typeof value === 'object' && value !== null && #handle in value
  }
}

class KernelSeed {
  readonly module: Module
  readonly name: string
  readonly parameters: readonly Parameter[]
  readonly handle: KernelHandle

  constructor(module: Module, name: string, parameters: readonly Parameter[], handle: KernelHandle) {
    this.module = module
    this.name = name
    this.parameters = parameters
    this.handle = handle
  }
}

/** A kernel: what `stream.launch(kernel, config, ...args)` queues, on streams of its module's device. */
export class Kernel<S extends readonly ParameterType[] = readonly ParameterType[]> implements Launchable {
  /** Its name in the module. */
  readonly name: string
  /** What it is a part of, and is launched while that is open. */
  readonly module: Module
  readonly #parameters: readonly Parameter[]
  readonly #handle: KernelHandle
  readonly #shapes = new Shapes()
  readonly #label: string
  /** Only a type: the arguments that a launch takes. */
  declare readonly args: ArgumentsOf<S>

  /** Use `module.kernel(name, signature)`. */
  constructor(seed: never) {
    const given: unknown = seed
    if (!isInstance(given, KernelSeed)) throw invalidType('Kernel', 'had from module.kernel(name, signature)', given)
    const { module, name, parameters, handle } = given
    this.module = module
    this.name = name
    this.#label = `kernel '${name}'`
    this.#parameters = parameters
    this.#handle = handle
  }

  /**
   * How many blocks of so many threads, each with so many bytes of dynamic shared memory, one multiprocessor runs at a
   * time (`cuOccupancyMaxActiveBlocksPerMultiprocessor`).
   * @throws ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE, ERR_CLOSED where the module is; CudaError
   */
  activeBlocks(blockSize: number, sharedMemory = 0): number {
    const kernel = checkThis(this, isKernel, 'a Kernel')
    checkExtent(blockSize, 'blockSize')
    checkSharedMemory(sharedMemory, 'sharedMemory')
    kernel.#checkOpen()
    const driver = driverOf(kernel.module.device)
    return driver.kernels.activeBlocks(kernel.#handle, blockSize, sharedMemory)
  }

  [launchOn](stream: Stream, config: unknown, args: unknown[]): void {
    checkThis(this, isKernel, 'a Kernel')
    // Before anything is opened: a getter of the configuration may close it.
    const shape = this.#shapes.of(config as LaunchConfig)
    this.#checkHome(stream)
    const values = checkArguments(this.#parameters, args)
    const use = openStream(stream, 1)
    this.#checkOpen()
    const memory = openArguments(values, this.#parameters, use.driver) ?? NO_MEMORY
    const queue = (): void => use.driver.kernels.launch(this.#handle, use.handle, shape, values as LaunchValues, memory)
    queueWith(use, memory, queue)
    queuedLast(stream, this.#label)
  }

  #checkOpen(): void {
    if (!this.module.closed) return
    throw stateError('ERR_CLOSED', `Kernel '${this.name}' cannot be used any more: its module is closed`)
  }

  #checkHome(stream: Stream): void {
    const { module, name } = this
    this.#checkOpen()
    if (stream.device === module.device) return
    const where = `Kernel '${name}' is on ${module.device}, and ${stream} on ${stream.device}`
    throw stateError('ERR_DEVICE_MISMATCH', where)
  }

  toString(): string {
    return isKernel(this) ? `Kernel(${this.name}, ${this.module.device})` : printed(this)
  }

  [inspect.custom](): string {
    return inspected(this)
  }

  static {
    isKernel = (value): value is Kernel => typeof value === 'object' && value !== null && #handle in value
  }
}

declare module '../stream.js' {
  interface Stream {
    /**
     * Queues a kernel (`cuLaunchKernelEx`). Its arguments are checked against its signature; nothing is queued where
     * they do not fit. Buffers may be on another GPU that this one can reach, and may be closed as soon as this
     * returns, but for those of a launch that is captured. An address counts as no use of a buffer.
     * @throws ERR_INVALID_ARG_VALUE for another number of arguments, or memory that begins in the middle of an element;
     * ERR_INVALID_ARG_TYPE; ERR_OUT_OF_RANGE for a number that the parameter cannot hold, or no grid or block has;
     * ERR_CLOSED, of the module too; ERR_DEVICE_MISMATCH for a stream of another device or memory of another driver;
     * ERR_UNSUPPORTED for memory of a GPU that the stream's cannot reach; CudaError, mostly 1, for a shape that the
     * device cannot run
     */
    launch<S extends readonly ParameterType[]>(kernel: Kernel<S>, config: LaunchConfig, ...args: ArgumentsOf<S>): this
  }
}

/** The shape of the latest launch, which the next one mostly has too: to check it anew is a good part of a launch's cost. */
export class Shapes {
  #grid: Extent | undefined
  #block: Extent | undefined
  #sharedMemory: number | undefined
  #latest: LaunchShape | undefined

  of(config: LaunchConfig): LaunchShape {
    if (this.#latest !== undefined && this.#isSame(config)) return this.#latest
    const given = readConfig(config)
    const shape = shapeOf(given)
    const { grid, block, sharedMemory } = given
    // An array may have other numbers in it the next time, and what is special is checked each time.
    const isPlain = typeof grid === 'number' && typeof block === 'number' && !shape.cooperative
    this.#latest = isPlain && shape.cluster === undefined ? shape : undefined
    this.#grid = grid
    this.#block = block
    this.#sharedMemory = sharedMemory
    return shape
  }

  #isSame(config: LaunchConfig): boolean {
    try {
      return (
        typeof config === 'object' &&
        config !== null &&
        config.grid === this.#grid &&
        config.block === this.#block &&
        config.sharedMemory === this.#sharedMemory &&
        config.cooperative === undefined &&
        config.cluster === undefined
      )
    } catch {
      // It is read once more below, and throws there if it still does.
      return false
    }
  }
}

const CONFIG = ['grid', 'block', 'sharedMemory', 'cooperative', 'cluster'] as const
type GivenConfig = Given<LaunchConfig, (typeof CONFIG)[number]>

function readConfig(config: LaunchConfig): GivenConfig {
  if (config === undefined) throw invalidType('config', 'an object such as { grid, block }', config)
  return readOptions(config, CONFIG, 'config')
}

/** Checks a launch's configuration. */
function shapeOf({ grid, block, sharedMemory = 0, cooperative, cluster }: GivenConfig): LaunchShape {
  return {
    sharedMemory: checkSharedMemory(sharedMemory, 'config.sharedMemory'),
    grid: extentOf(grid, 'config.grid'),
    block: extentOf(block, 'config.block'),
    cooperative: checkBoolean(cooperative, 'config.cooperative', false),
    cluster: cluster === undefined ? undefined : extentOf(cluster, 'config.cluster'),
  }
}

function extentOf(extent: unknown, name: string): readonly [number, number, number] {
  if (typeof extent === 'number') return [checkExtent(extent, name), 1, 1]
  const expected = 'a number, or an array of up to three'
  const given = checkArray(extent, name, expected)
  if (given.length < 1 || given.length > 3) throw invalidType(name, expected, extent)
  const [x, y = 1, z = 1] = given
  return [checkExtent(x, `${name}[0]`), checkExtent(y, `${name}[1]`), checkExtent(z, `${name}[2]`)]
}

const checkExtent = (value: unknown, name: string): number => checkInteger(value, name, 1, LARGEST_EXTENT)

function checkSharedMemory(bytes: unknown, name: string): number {
  return checkInteger(bytes, name, 0, LARGEST_EXTENT, () => `bytes from 0 to ${LARGEST_EXTENT}`)
}

function imageOf(code: unknown): Uint8Array {
  if (typeof code !== 'string' && !types.isUint8Array(code)) {
    throw invalidType('code', 'a Uint8Array, or PTX as text', code)
  }
  const image = typeof code === 'string' ? Buffer.from(code) : bytesOf(code, 'code')
  if (image.length === 0) throw outOfRange('code.length', 'more than 0', 0)
  return image
}
