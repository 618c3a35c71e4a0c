import { checkFunction, checkNanoseconds, checkText, checkThis, readOptions } from '../base/arguments.js'
import { inspectAsPrinted, invalidType, invalidValue, printed } from '../base/errors.js'
import { notCloneable } from '../base/identity.js'
import { printable } from '../base/printable.js'
import { type Device, driverOf, isDevice } from '../device.js'
import {
  type Driver,
  type LaunchArgument,
  type LaunchShape,
  memoryAmong,
  type Pointer,
  type ScalarType,
  type Twin,
} from '../driver/driver.js'
import type { OpenMemory } from '../memory/buffer-core.js'
import { admitAll, beginWork, endWork } from '../memory/queue-with-memory.js'
import type { StreamCore } from '../streams/stream-core.js'
import { CHECKED_THREADS, checkedViews } from './checked-views.js'
import { explainLimits, type Kernel, type LaunchConfig, Module, refuseAttributes, Shapes } from './kernel.js'
import { checkMemoryOpen, memoryIn } from './kernel-arguments.js'
import {
  type ArgumentsOf,
  type CheckedArgument,
  checkArguments,
  type Parameter,
  type ParameterType,
  parseSignature,
  typeOf,
} from './kernel-signature.js'
import { checkUpdate, type LaunchNode, launchOn, updateNode } from './launchable.js'
import { runThreads, type SimulatedGrid, type SimulatedThread } from './twin-threads.js'

/** The twin's view of a pointer's memory, by the type of its elements: the memory itself, from the address on. */
export interface ViewOf {
  /** `bool`: a byte each, 0 or 1. */
  readonly bool: Uint8Array
  /** `signed char`. */
  readonly i8: Int8Array
  /** `unsigned char`. */
  readonly u8: Uint8Array
  /** `short`. */
  readonly i16: Int16Array
  /** `unsigned short`. */
  readonly u16: Uint16Array
  /** `int`. */
  readonly i32: Int32Array
  /** `unsigned int`. */
  readonly u32: Uint32Array
  /** `long long`, as bigints. */
  readonly i64: BigInt64Array
  /** `unsigned long long`, as bigints. */
  readonly u64: BigUint64Array
  /** `float`. */
  readonly f32: Float32Array
  /** `double`. */
  readonly f64: Float64Array
}

/** The twin's argument for a parameter: a view of the memory for a pointer, a number or bigint for a value. */
export type TwinArgument<P extends ParameterType> = P extends `inout atomic ${infer T extends ScalarType}*`
  ? ViewOf[T]
  : P extends `${string} ${infer T extends ScalarType}*`
    ? ViewOf[T]
    : P extends 'i64' | 'u64'
      ? bigint
      : number

/** The twin's arguments for all parameters. */
export type TwinArguments<S extends readonly ParameterType[]> = { readonly [I in keyof S]: TwinArgument<S[I]> }

/** A kernel as CUDA C++ and as JavaScript. */
export interface KernelDefinition<S extends readonly ParameterType[]> {
  /** The kernel's name in the source, where it is `extern "C"`. Reports and timelines use it, too. */
  readonly name: string
  /** CUDA C++. It is compiled by NVRTC at the first launch on a device of the NVIDIA driver, or by `prepare()`. */
  readonly source: string
  /** Its parameters in order, such as 'in f32*'. */
  readonly signature: S
  /**
   * The work of one thread, in JavaScript. A generator function may `yield` where the source has `__syncthreads()`:
   * each thread of the block then waits for the others. An error that it throws is an uncaught exception.
   */
  readonly simulate?: ((thread: SimulatedThread, ...args: TwinArguments<S>) => unknown) | undefined
  /**
   * Instead of `simulate`: the work of all threads together. Faster. An error that it throws is an uncaught exception.
   */
  readonly simulateGrid?: ((grid: SimulatedGrid, ...args: TwinArguments<S>) => void) | undefined
  /** Virtual nanoseconds that a launch takes on the simulator: from 0 to 2 ** 53 - 1. Default 10 000. */
  readonly nanoseconds?: number | undefined
}

const DEFAULT_NANOSECONDS = 10_000

const DEFINITION = ['name', 'source', 'signature', 'simulate', 'simulateGrid', 'nanoseconds'] as const

const VIEWS = {
  bool: Uint8Array,
  i8: Int8Array,
  u8: Uint8Array,
  i16: Int16Array,
  u16: Uint16Array,
  i32: Int32Array,
  u32: Uint32Array,
  i64: BigInt64Array,
  u64: BigUint64Array,
  f32: Float32Array,
  f64: Float64Array,
} as const

let isDefinedKernel: (value: unknown) => value is DefinedKernel

/**
 * One kernel for both drivers: GPU source, compiled for each device at its first use there, and a twin in JavaScript.
 */
export class DefinedKernel<out S extends readonly ParameterType[] = readonly ParameterType[]> {
  /** The kernel's name in the source. */
  readonly name: string
  /** @internal Keeps the object from being copied to another thread. */
  protected readonly cloning: symbol = notCloneable()
  /** In reports, timelines and errors. */
  readonly #shownName: string
  readonly #source: string
  readonly #signature: readonly ParameterType[]
  readonly #nanoseconds: number
  /** Runs the twin. */
  readonly #run: (shape: LaunchShape, args: readonly unknown[]) => void
  readonly #parameters: readonly Parameter[]
  /** What errors call the arguments, and those among them that are memory. */
  readonly #names: readonly string[]
  readonly #memoryNames: readonly string[]
  readonly #compiled = new Map<Device, Kernel>()
  /** Simulated devices that the twin was loaded for. */
  readonly #loaded = new WeakSet<Device>()
  readonly #shapes = new Shapes()
  /** @internal Only a type: the arguments that a launch takes. Declarations have it as `out S`. */
  declare readonly args: ArgumentsOf<S>

  /**
   * Use `defineKernel(definition)`.
   * @param definition As for `defineKernel`.
   */
  constructor(definition: KernelDefinition<S>) {
    if (definition === undefined) {
      throw invalidType('definition', 'an object such as { name, source, signature, simulate }', definition)
    }
    const given = readOptions(definition, DEFINITION, 'definition')
    const { signature, simulate, simulateGrid, nanoseconds = DEFAULT_NANOSECONDS } = given
    this.name = checkText(given.name, 'definition.name', 'the name of a kernel')
    this.#shownName = printable(this.name)
    this.#source = checkText(given.source, 'definition.source', 'CUDA C++ as text')
    if (simulate !== undefined) checkFunction(simulate, 'definition.simulate')
    if (simulateGrid !== undefined) checkFunction(simulateGrid, 'definition.simulateGrid')
    if ((simulate === undefined) === (simulateGrid === undefined)) {
      throw invalidValue('A kernel needs either definition.simulate or definition.simulateGrid, and not both')
    }
    this.#run = ({ grid, block, sharedMemory }, values) => {
      const args = values as unknown as TwinArguments<S>
      simulateGrid?.({ gridDim: grid, blockDim: block, sharedMemory }, ...args)
      if (simulate === undefined) return
      const longest = lengthOfLongest(args)
      let checked: TwinArguments<S> | undefined
      runThreads(grid, block, sharedMemory, (thread) => {
        const beyond = thread.globalX - longest
        if (!(beyond >= 0 && beyond < CHECKED_THREADS)) return simulate(thread, ...args)
        checked ??= checkedViews(this.#shownName, args, this.#names)
        return simulate(thread, ...checked)
      })
    }
    this.#nanoseconds = checkNanoseconds(nanoseconds, 'definition.nanoseconds')
    this.#parameters = parseSignature(signature)
    this.#signature = this.#parameters.map(typeOf)
    this.#names = this.#signature.map((type, index) => `argument ${index}, '${type}'`)
    this.#memoryNames = this.#names.filter((_, index) => this.#parameters[index]?.access !== undefined)
  }

  /**
   * Compiles the kernel for a device ahead of its first launch there, on a thread of its own, and loads it. Only the
   * loading blocks, as that of `Module.load()`. Does nothing on the simulator, and where the kernel is compiled
   * already.
   * @param device The device to compile for.
   * @returns a promise of this kernel
   * @throws {Error} (as a rejection) ERR_COMPILATION, with the compiler's log in the message; ERR_UNSUPPORTED without
   * NVRTC; ERR_INVALID_ARG_VALUE where the signature is not that of the source; ERR_INVALID_ARG_TYPE
   * @throws {CudaError} (as a rejection) 500 where the source has no such kernel
   */
  async prepare(device: Device): Promise<this> {
    const kernel = checkThis(this, isDefinedKernel, 'a DefinedKernel')
    if (!isDevice(device)) throw invalidType('device', 'a Device', device)
    const driver = driverOf(device)
    if (driver.name === 'sim') kernel.#loaded.add(device)
    else if (!kernel.#compiled.has(device)) {
      this.#keep(device, await driver.kernels.compile(this.#source, `${this.name}.cu`, optionsFor(device)))
    }
    return this
  }

  /** @internal */
  [launchOn](stream: StreamCore, config: unknown, args: unknown[]): void {
    checkThis(this, isDefinedKernel, 'a DefinedKernel')
    if (stream.device.driver === 'cuda') this.#compiledFor(stream.device)[launchOn](stream, config, args, this)
    else this.#launchTwin(stream, config as LaunchConfig, args)
  }

  /** @internal */
  [updateNode](place: LaunchNode, config: unknown, args: unknown[]): readonly OpenMemory[] {
    checkThis(this, isDefinedKernel, 'a DefinedKernel')
    if (place.device.driver === 'cuda') return this.#compiledFor(place.device)[updateNode](place, config, args)
    this.#load(place.device)
    const shape = this.#shapes.of(config as LaunchConfig)
    const checked = checkArguments(this.#parameters, args)
    place.checkOpen()
    checkUpdate(place, shape)
    const { driver, exec, node } = place
    checkMemoryOpen(checked, this.#parameters, driver)
    const memory = memoryIn(checked)
    admitAll(memory, place)
    try {
      driver.graphs.updateTwin(exec, node, this.#twin(shape, checked, driver))
    } catch (error) {
      throw explainLimits(error, place.device, shape)
    }
    return memory
  }

  toString(): string {
    return isDefinedKernel(this) ? `DefinedKernel(${this.#shownName})` : printed(this)
  }

  /** Compiles where `prepare()` was not called, which blocks meanwhile. */
  #compiledFor(device: Device): Kernel {
    const known = this.#compiled.get(device)
    if (known !== undefined) return known
    const { kernels } = driverOf(device)
    return this.#keep(device, kernels.compileNow(this.#source, `${this.name}.cu`, optionsFor(device)))
  }

  /** A program that loads code where a real GPU could not is told so on the simulator, too. */
  #load(device: Device): void {
    if (this.#loaded.has(device)) return
    driverOf(device).kernels.loadTwin()
    this.#loaded.add(device)
  }

  #keep(device: Device, image: Uint8Array): Kernel {
    const kernel: Kernel = Module.load(image, { device }).kernel(this.name, this.#signature)
    this.#compiled.set(device, kernel)
    return kernel
  }

  #launchTwin(stream: StreamCore, config: LaunchConfig, given: unknown[]): void {
    this.#load(stream.device)
    const shape = this.#shapes.of(config)
    const args = checkArguments(this.#parameters, given)
    stream.makeRoom(1)
    const { driver, handle } = stream
    checkMemoryOpen(args, this.#parameters, driver)
    const twin = this.#twin(shape, args, driver)
    if (shape.attributes !== undefined) refuseAttributes(stream.device, shape.attributes)
    const work = beginWork(stream, args)
    try {
      driver.kernels.launchTwin(handle, twin)
    } catch (error) {
      throw explainLimits(error, stream.device, shape)
    }
    if (work !== undefined) endWork(stream, work, { kernel: this, shape })
    stream.last = `kernel '${this.#shownName}'`
  }

  #twin(shape: LaunchShape, given: readonly CheckedArgument[], { kernels }: Driver): Twin {
    const args = given.map((each, index): LaunchArgument => {
      if (typeof each === 'object' || this.#parameters[index]?.access === undefined) return each
      const pointer = Number(each) as Pointer
      return { pointer, byteLength: kernels.bytesFrom(pointer) }
    })
    const memory = memoryAmong(args, this.#parameters)
    // Not the buffers: a graph keeps the twin.
    const scalars = args.map((each) => (typeof each === 'object' ? undefined : each))
    const run = (bytes: readonly Uint8Array[]): void => {
      this.#run(shape, twinArguments(this.#parameters, scalars, bytes))
    }
    return { name: this.#shownName, memory, memoryNames: this.#memoryNames, nanoseconds: this.#nanoseconds, run, shape }
  }

  static {
    isDefinedKernel = (value): value is DefinedKernel =>
      typeof value === 'object' && value !== null && #compiled in value
  }
}
inspectAsPrinted(DefinedKernel)

/**
 * One kernel for both drivers: `stream.launch(kernel, config, ...args)` runs it on the driver of the stream. Nothing is
 * compiled yet. The definition is read once, here: a later change of it has no effect.
 * @param definition `name`, `source` in CUDA C++ and `signature`, with a twin in JavaScript: `simulate` for one thread
 * or `simulateGrid` for all, and the `nanoseconds` that a launch takes on the simulator (default 10 000)
 * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for a parameter type that is none, and without `simulate`
 * and `simulateGrid` or with both; ERR_OUT_OF_RANGE for `nanoseconds`
 * @example
 * ```ts
 * const scale = defineKernel({
 *   name: 'scale',
 *   source: 'extern "C" __global__ void scale(float f, float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= f; }',
 *   signature: ['f32', 'inout f32*'],
 *   simulate: ({ globalX }, factor, x) => (x[globalX] = factor * (x[globalX] ?? 0)),
 * })
 * stream.launch(scale, { grid: 4, block: 256 }, 2, x)
 * ```
 */
export function defineKernel<const S extends readonly ParameterType[]>(
  definition: KernelDefinition<S>,
): DefinedKernel<S> {
  return new DefinedKernel(definition)
}

function optionsFor(device: Device): readonly string[] {
  const { major, minor } = device.computeCapability
  return [`--gpu-architecture=sm_${major}${minor}`]
}

/** Elements of the longest view; without any, more than there are threads. */
function lengthOfLongest(args: readonly unknown[]): number {
  const lengths = args.map((value) => (ArrayBuffer.isView(value) ? (value as unknown as ArrayLike<unknown>).length : 0))
  return args.some(ArrayBuffer.isView) ? Math.max(...lengths) : Number.POSITIVE_INFINITY
}

function twinArguments(
  parameters: readonly Parameter[],
  scalars: readonly (number | bigint | undefined)[],
  bytes: readonly Uint8Array[],
): unknown[] {
  let next = 0
  return parameters.map(({ type }, index) => {
    const value = scalars[index]
    if (value !== undefined) return twinValue(type, value)
    const piece = bytes[next] ?? new Uint8Array(0)
    next += 1
    const View = VIEWS[type]
    return new View(
      piece.buffer as ArrayBuffer,
      piece.byteOffset,
      Math.floor(piece.byteLength / View.BYTES_PER_ELEMENT),
    )
  })
}

/** A value as a GPU gets it: a float has 24 bits, and an integer no negative zero. */
function twinValue(type: ScalarType, value: number | bigint): number | bigint {
  if (type === 'i64' || type === 'u64') return BigInt(value)
  if (type === 'f32') return Math.fround(Number(value))
  return type === 'f64' ? Number(value) : Number(value) + 0
}
