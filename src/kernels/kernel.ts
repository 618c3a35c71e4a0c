import { inspect, types } from 'node:util'
import {
  bytesOf,
  checkArray,
  checkBoolean,
  checkInteger,
  checkText,
  type Given,
  isInstance,
  readOptions,
} from '../base/arguments.js'
import { inspected, invalidReceiver, invalidType, outOfRange, printed, stateError } from '../base/errors.js'
import { destroyWhenUnreachable } from '../base/finalization.js'
import { contextOf, type Device, driverOf, resolveDevice } from '../device.js'
import type { KernelHandle, LaunchShape, ModuleHandle } from '../driver/driver.js'
import { queueWith } from '../memory/queue-with-memory.js'
import type { StreamCore } from '../streams/stream-core.js'
import { HandleCore } from './handle-core.js'
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

let moduleCoreOf: (value: unknown) => HandleCore<ModuleHandle> | undefined
let kernelCoreOf: (value: unknown) => KernelCore | undefined

/** GPU code, loaded on a device. */
export class Module implements Disposable {
  /** The device it is loaded on. */
  readonly device: Device
  /** Which object it is: no other of this thread has the number. */
  readonly serial: number
  readonly #core: HandleCore<ModuleHandle>

  /** Use `Module.load()`. */
  private constructor(core: HandleCore<ModuleHandle>) {
    if (!isInstance(core, HandleCore)) throw invalidType('Module', 'had from Module.load(code)', 'new Module()')
    this.device = core.device
    this.serial = core.serial
    this.#core = core
    destroyWhenUnreachable(this, core)
  }

  /**
   * Loads a cubin, a fatbin or PTX (`cuModuleLoadData`); PTX may be text. Default device: the current one. Blocks: CUDA
   * waits for the whole device, so host functions that are pending run first.
   * @throws CudaError for code that this device cannot run; ERR_DEADLOCK inside a host function; ERR_UNSUPPORTED on the
   * simulator, which runs no GPU code; ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE for no bytes, or for a device that does
   * not exist
   */
  static load(code: Uint8Array | string, options?: { readonly device?: Device | number | undefined }): Module {
    const given = readOptions(options, ['device'])
    const image = imageOf(code)
    const device = resolveDevice(given.device)
    const handle = driverOf(device).kernels.load(image, contextOf(device))
    return new Module(new HandleCore('Module', device, handle, unload))
  }

  /** Was it closed? Its kernels cannot be launched then. */
  get closed(): boolean {
    return coreOf(this).gone
  }

  /**
   * A kernel of this module, with its parameters (`cuModuleGetFunction`). They are held against the sizes that the
   * driver knows.
   * @throws CudaError 500 where the module has no such kernel; ERR_INVALID_ARG_VALUE where the parameters are not its
   * own, or one is none; ERR_INVALID_ARG_TYPE, ERR_CLOSED
   */
  kernel<const S extends readonly ParameterType[]>(name: string, signature: S): Kernel<S> {
    const core = coreOf(this)
    core.checkOpen()
    checkText(name, 'name', 'the name of a kernel')
    const parameters = parseSignature(signature)
    // A getter of the signature may have closed it.
    core.checkOpen()
    const handle = core.driver.kernels.kernel(core.handle, name, parameters.map(passedAs))
    return new Kernel<S>(new KernelCore(this, core, name, parameters, handle))
  }

  /**
   * Unloads it (`cuModuleUnload`): no launch of its kernels may be under way. CUDA waits for the whole device in that,
   * so it is put off while host functions are pending. May be called twice.
   */
  close(): void {
    coreOf(this).release()
  }

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    coreOf(this)
    this.close()
  }

  get [Symbol.toStringTag](): string {
    return 'Module'
  }

  toString(): string {
    return moduleCoreOf(this)?.toString() ?? printed(this)
  }

  [inspect.custom](): string {
    return inspected(this)
  }

  static {
    moduleCoreOf = (value) => (typeof value === 'object' && value !== null && #core in value ? value.#core : undefined)
  }
}

const unload = ({ driver, handle, context }: HandleCore<ModuleHandle>): void => driver.kernels.unload(handle, context)

function coreOf(module: unknown): HandleCore<ModuleHandle> {
  const core = moduleCoreOf(module)
  if (core === undefined) throw invalidReceiver('a Module', module)
  return core
}

/** A kernel as a launch works on it. */
class KernelCore {
  readonly label: string
  readonly shapes = new Shapes()

  constructor(
    readonly module: Module,
    readonly code: HandleCore<ModuleHandle>,
    readonly name: string,
    readonly parameters: readonly Parameter[],
    readonly handle: KernelHandle,
  ) {
    this.label = `kernel '${name}'`
  }

  checkOpen(): void {
    if (!this.code.gone) return
    throw stateError('ERR_CLOSED', `Kernel '${this.name}' cannot be used any more: its module is closed`)
  }

  checkDevice(stream: StreamCore): void {
    const { device } = this.code
    this.checkOpen()
    if (stream.device === device) return
    const where = `Kernel '${this.name}' is on ${device}, and ${stream} on ${stream.device}`
    throw stateError('ERR_DEVICE_MISMATCH', where)
  }
}

/** A kernel: what `stream.launch(kernel, config, ...args)` queues, on streams of its module's device. */
export class Kernel<S extends readonly ParameterType[] = readonly ParameterType[]> implements Launchable {
  /** Its name in the module. */
  readonly name: string
  /** What it is a part of, and is launched while that is open. */
  readonly module: Module
  readonly #core: KernelCore
  /** Only a type: the arguments that a launch takes. */
  declare readonly args: ArgumentsOf<S>

  /** Use `module.kernel(name, signature)`. */
  constructor(core: never)
  /** @internal */
  constructor(core: KernelCore)
  constructor(core: KernelCore) {
    if (!isInstance(core, KernelCore)) throw invalidType('Kernel', 'had from module.kernel(name, signature)', core)
    this.module = core.module
    this.name = core.name
    this.#core = core
  }

  /**
   * How many blocks of so many threads, each with so many bytes of dynamic shared memory, one multiprocessor runs at a
   * time (`cuOccupancyMaxActiveBlocksPerMultiprocessor`).
   * @throws ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE, ERR_CLOSED where the module is; CudaError
   */
  activeBlocks(blockSize: number, sharedMemory = 0): number {
    const core = kernelCore(this)
    checkExtent(blockSize, 'blockSize')
    checkSharedMemory(sharedMemory, 'sharedMemory')
    core.checkOpen()
    return core.code.driver.kernels.activeBlocks(core.handle, blockSize, sharedMemory)
  }

  [launchOn](stream: StreamCore, config: unknown, args: unknown[]): void {
    const core = kernelCore(this)
    // Before anything is opened: a getter of the configuration may close it.
    const shape = core.shapes.of(config as LaunchConfig)
    core.checkDevice(stream)
    const values = checkArguments(core.parameters, args)
    stream.makeRoom(1)
    core.checkOpen()
    const { driver, handle } = stream
    const memory = openArguments(values, core.parameters, driver) ?? NO_MEMORY
    const queue = (): void => driver.kernels.launch(core.handle, handle, shape, values as LaunchValues, memory)
    queueWith(stream, memory, queue)
    stream.last = core.label
  }

  toString(): string {
    const core = kernelCoreOf(this)
    return core === undefined ? printed(this) : `Kernel(${core.name}, ${core.code.device})`
  }

  [inspect.custom](): string {
    return inspected(this)
  }

  static {
    kernelCoreOf = (value) => (typeof value === 'object' && value !== null && #core in value ? value.#core : undefined)
  }
}

function kernelCore(kernel: unknown): KernelCore {
  const core = kernelCoreOf(kernel)
  if (core === undefined) throw invalidReceiver('a Kernel', kernel)
  return core
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
