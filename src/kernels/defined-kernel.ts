/** Kernels that are defined as CUDA C++ and as a host implementation in JavaScript. */
import { checkFunction, checkNanoseconds, checkText, checkThis, readOptions } from '../base/arguments.js'
import { ELEMENT_TYPES, type ScalarType } from '../base/element-types.js'
import { invalidType, invalidValue } from '../base/errors.js'
import { implementation, LibraryObject, notCloneable } from '../base/library-object.js'
import { printable } from '../base/printable.js'
import { type Device, driverOf, isDevice } from '../device.js'
import type { Driver, LaunchArgument, LaunchShape, Pointer, Twin } from '../driver/driver.js'
import { memoryAmong } from '../driver/driver.js'
import type { OpenMemory } from '../memory/buffer.js'
import { beginWork, enablePeerAccess, endWork } from '../memory/queue-with-memory.js'
import type { StreamImpl } from '../streams/stream-impl.js'
import type { SimulatedGrid, SimulatedThread } from './host-implementation.js'
import { CHECKED_THREADS, checkedViews, runThreads } from './host-implementation.js'
import { explainLimits, type Kernel, type LaunchConfig, Module, refuseAttributes, Shapes } from './kernel.js'
import type { ArgumentsOf, CheckedArgument, Parameter, ParameterType } from './kernel-signature.js'
import { checkArguments, checkMemoryOpen, memoryIn, parseSignature, typeOf } from './kernel-signature.js'
import { checkUpdate, type LaunchNode, launchOn, updateNode } from './launchable.js'

/** The host implementation's view of a pointer's memory, by the type of its elements: the memory itself. */
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

/** The host implementation's argument for a parameter: a view of the memory for a pointer, a number or bigint for a value. */
export type TwinArgument<P extends ParameterType> = P extends `inout atomic ${infer T extends ScalarType}*`
  ? ViewOf[T]
  : P extends `${string} ${infer T extends ScalarType}*`
    ? ViewOf[T]
    : P extends 'i64' | 'u64'
      ? bigint
      : number

/** The host implementation's arguments for all parameters. */
export type TwinArguments<S extends readonly ParameterType[]> = { readonly [I in keyof S]: TwinArgument<S[I]> }

/** A kernel as CUDA C++ and as JavaScript. */
export interface KernelDefinition<S extends readonly ParameterType[]> {
  /** The name of the `extern "C"` kernel in the source. Reports and timelines use it, too. */
  readonly name: string
  /** CUDA C++. It is compiled by NVRTC at the first launch on a device of the NVIDIA driver, or by `prepare()`. */
  readonly source: string
  /** Its parameters in order, such as 'in f32*'. */
  readonly signature: S
  /**
   * The work of one thread, in JavaScript. A generator function may `yield` at each `__syncthreads()` of the source:
   * each thread of the block then waits for the others. An error that it throws is an uncaught exception.
   */
  readonly simulate?: ((thread: SimulatedThread, ...args: TwinArguments<S>) => unknown) | undefined
  /**
   * The work of all threads together, in place of `simulate`. Faster. An error that it throws is an uncaught exception.
   */
  readonly simulateGrid?: ((grid: SimulatedGrid, ...args: TwinArguments<S>) => void) | undefined
  /** Virtual nanoseconds that a launch takes on the simulator: from 0 to 2 ** 53 - 1. Default 10 000. */
  readonly nanoseconds?: number | undefined
}

const DEFAULT_NANOSECONDS = 10_000

const DEFINITION = ['name', 'source', 'signature', 'simulate', 'simulateGrid', 'nanoseconds'] as const

/**
 * One kernel for both drivers: GPU source, compiled for each device at its first use there, and a host implementation in
 * JavaScript for the simulator.
 */
export class DefinedKernel<out S extends readonly ParameterType[] = readonly ParameterType[]> extends LibraryObject {
  /** The kernel's name in the source. */
  readonly name: string
  /** @internal Refuses to be copied to another thread. */
  protected readonly cloning: symbol = notCloneable()
  /** @internal */
  declare readonly [implementation]: object
  /** The name in reports, timelines and errors. */
  readonly #shownName: string
  readonly #source: string
  readonly #signature: readonly ParameterType[]
  readonly #nanoseconds: number
  /** Runs the host implementation. */
  readonly #run: (shape: LaunchShape, args: readonly unknown[]) => void
  readonly #parameters: readonly Parameter[]
  /** The names of the arguments in errors, and of those among them that are memory. */
  readonly #names: readonly string[]
  readonly #memoryNames: readonly string[]
  readonly #compiled = new Map<Device, Kernel>()
  /** Simulated devices for which the kernel counts as loaded. */
  readonly #loaded = new WeakSet<Device>()
  readonly #shapes = new Shapes()
  /** @internal Only a type: the arguments that a launch takes. Declarations have it as `out S`. */
  declare readonly args: ArgumentsOf<S>

  /**
   * Use `defineKernel(definition)`.
   * @param definition As for `defineKernel`.
   */
  constructor(definition: KernelDefinition<S>) {
    super()
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
    this[implementation] = this.#parameters
  }

  /**
   * Compiles the kernel for a device ahead of its first launch there, on another thread, and loads it. Only the
   * loading blocks, as that of `Module.load()`. Does nothing on the simulator, and if the kernel is compiled already.
   * @param device The device to compile for.
   * @returns a promise of this kernel
   * @throws {Error} (as a rejection) ERR_COMPILATION, with the compiler's log in the message; ERR_UNSUPPORTED without
   * NVRTC; ERR_INVALID_ARG_VALUE if the signature is not that of the source; ERR_INVALID_ARG_TYPE
   * @throws {CudaError} (as a rejection) 500 if the source has no such kernel
   */
  async prepare(device: Device): Promise<this> {
    const kernel = checkThis(this, isDefinedKernel, 'a DefinedKernel')
    if (!isDevice(device)) throw invalidType('device', 'a Device', device)
    const driver = driverOf(device)
    if (driver.name === 'sim') kernel.#loaded.add(device)
    else if (!kernel.#compiled.has(device)) {
      this.#addCompiled(device, await driver.kernels.compile(this.#source, `${this.name}.cu`, optionsFor(device)))
    }
    return this
  }

  /** @internal */
  [launchOn](stream: StreamImpl, config: unknown, args: unknown[]): void {
    checkThis(this, isDefinedKernel, 'a DefinedKernel')
    if (stream.device.driver === 'cuda') this.#compiledFor(stream.device)[launchOn](stream, config, args, this)
    else this.#launchOnHost(stream, config as LaunchConfig, args)
  }

  /** @internal */
  [updateNode](target: LaunchNode, config: unknown, args: unknown[]): readonly OpenMemory[] {
    checkThis(this, isDefinedKernel, 'a DefinedKernel')
    if (target.device.driver === 'cuda') return this.#compiledFor(target.device)[updateNode](target, config, args)
    this.#load(target.device)
    const shape = this.#shapes.of(config as LaunchConfig)
    const checked = checkArguments(this.#parameters, args)
    target.checkOpen()
    checkUpdate(target, shape)
    const { driver, exec, node } = target
    checkMemoryOpen(checked, this.#parameters, driver)
    const memory = memoryIn(checked)
    enablePeerAccess(memory, target)
    try {
      driver.graphs.updateTwin(exec, node, this.#hostImplementation(shape, checked, driver))
    } catch (error) {
      throw explainLimits(error, target.device, shape)
    }
    return memory
  }

  get [Symbol.toStringTag](): string {
    return 'DefinedKernel'
  }

  override toString(): string {
    return isDefinedKernel(this) ? `DefinedKernel(${this.#shownName})` : super.toString()
  }

  /** Compiles it, unless `prepare()` was called, and blocks meanwhile. */
  #compiledFor(device: Device): Kernel {
    const known = this.#compiled.get(device)
    if (known !== undefined) return known
    const { kernels } = driverOf(device)
    return this.#addCompiled(device, kernels.compileNow(this.#source, `${this.name}.cu`, optionsFor(device)))
  }

  /** The simulator refuses to load code when a real GPU would. */
  #load(device: Device): void {
    if (this.#loaded.has(device)) return
    driverOf(device).kernels.loadTwin()
    this.#loaded.add(device)
  }

  #addCompiled(device: Device, image: Uint8Array): Kernel {
    const kernel: Kernel = Module.load(image, { device }).kernel(this.name, this.#signature)
    this.#compiled.set(device, kernel)
    return kernel
  }

  #launchOnHost(stream: StreamImpl, config: LaunchConfig, given: unknown[]): void {
    this.#load(stream.device)
    const shape = this.#shapes.of(config)
    const args = checkArguments(this.#parameters, given)
    stream.reserve(1)
    const { driver, handle } = stream
    checkMemoryOpen(args, this.#parameters, driver)
    const twin = this.#hostImplementation(shape, args, driver)
    if (shape.attributes !== undefined) refuseAttributes(stream.device, shape.attributes)
    const work = beginWork(stream, args)
    try {
      driver.kernels.launchTwin(handle, twin)
    } catch (error) {
      throw explainLimits(error, stream.device, shape)
    }
    if (work !== undefined) endWork(stream, work, { kernel: this, shape })
    stream.lastWork = `kernel '${this.#shownName}'`
  }

  #hostImplementation(shape: LaunchShape, given: readonly CheckedArgument[], { kernels }: Driver): Twin {
    const args = given.map((each, index): LaunchArgument => {
      if (typeof each === 'object' || this.#parameters[index]?.access === undefined) return each
      const pointer = Number(each) as Pointer
      return { pointer, byteLength: kernels.bytesFrom(pointer) }
    })
    const memory = memoryAmong(args, this.#parameters)
    // Without the buffers, since a graph retains the host implementation.
    const scalars = args.map((each) => (typeof each === 'object' ? undefined : each))
    const run = (bytes: readonly Uint8Array[]): void => {
      this.#run(shape, hostArguments(this.#parameters, scalars, bytes))
    }
    return { name: this.#shownName, memory, memoryNames: this.#memoryNames, nanoseconds: this.#nanoseconds, run, shape }
  }
}

const isDefinedKernel = (value: unknown): value is DefinedKernel =>
  value instanceof DefinedKernel && value[implementation] !== undefined

/**
 * One kernel for both drivers: `stream.launch(kernel, config, ...args)` runs it on the driver of the stream. Nothing is
 * compiled yet. The definition is read once, here: a later change of it has no effect.
 * @param definition `name`, `source` in CUDA C++ and `signature`, with a host implementation in JavaScript: `simulate` for
 * one thread or `simulateGrid` for all, and the `nanoseconds` that a launch takes on the simulator (default 10 000)
 * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for an unknown parameter type, and without `simulate`
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

/** The elements of the longest view; Infinity if there is no view. */
function lengthOfLongest(args: readonly unknown[]): number {
  const lengths = args.map((value) => (ArrayBuffer.isView(value) ? (value as unknown as ArrayLike<unknown>).length : 0))
  return args.some(ArrayBuffer.isView) ? Math.max(...lengths) : Number.POSITIVE_INFINITY
}

function hostArguments(
  parameters: readonly Parameter[],
  scalars: readonly (number | bigint | undefined)[],
  bytes: readonly Uint8Array[],
): unknown[] {
  let next = 0
  return parameters.map(({ type }, index) => {
    const value = scalars[index]
    if (value !== undefined) return hostValue(type, value)
    const piece = bytes[next] ?? new Uint8Array(0)
    next += 1
    const View = ELEMENT_TYPES[type].array
    return new View(
      piece.buffer as ArrayBuffer,
      piece.byteOffset,
      Math.floor(piece.byteLength / View.BYTES_PER_ELEMENT),
    )
  })
}

/** A value as a GPU gets it: a float has 24 bits of mantissa, and an integer no negative zero. */
function hostValue(type: ScalarType, value: number | bigint): number | bigint {
  if (type === 'i64' || type === 'u64') return BigInt(value)
  if (type === 'f32') return Math.fround(Number(value))
  return type === 'f64' ? Number(value) : Number(value) + 0
}
