import { checkFunction, checkNanoseconds, checkText, checkThis, readOptions } from '../base/arguments.js'
import { inspectAsPrinted, invalidType, invalidValue, printed } from '../base/errors.js'
import { notCloneable } from '../base/identity.js'
import { printable } from '../base/printable.js'
import { type Device, driverOf, isDevice } from '../device.js'
import type { HostKernel, KernelSource, LaunchShape, ModuleImage, ScalarType } from '../driver/driver.js'
import type { OpenMemory } from '../memory/buffer-core.js'
import type { StreamCore } from '../streams/stream-core.js'
import { CHECKED_THREADS, checkedViews } from './checked-views.js'
import { type KernelCore, loadKernel } from './kernel.js'
import { type ArgumentsOf, type Parameter, type ParameterType, parseSignature, typeOf } from './kernel-signature.js'
import { type LaunchNode, launchOn, updateNode } from './launchable.js'
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
  readonly #source: string
  readonly #parameters: readonly Parameter[]
  /** For the simulator, which takes it for compiled code. */
  readonly #host: HostKernel
  /** It is compiled and loaded for these: a device may be a simulated one, which is collected with its simulation. */
  readonly #kernels = new WeakMap<Device, KernelCore>()
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
    this.#source = checkText(given.source, 'definition.source', 'CUDA C++ as text')
    if (simulate !== undefined) checkFunction(simulate, 'definition.simulate')
    if (simulateGrid !== undefined) checkFunction(simulateGrid, 'definition.simulateGrid')
    if ((simulate === undefined) === (simulateGrid === undefined)) {
      throw invalidValue('A kernel needs either definition.simulate or definition.simulateGrid, and not both')
    }
    checkNanoseconds(nanoseconds, 'definition.nanoseconds')
    const parameters = parseSignature(signature)
    const argumentNames = parameters.map((parameter, index) => `argument ${index}, '${typeOf(parameter)}'`)
    this.#parameters = parameters
    const shownName = printable(this.name)
    const run = (
      { grid, block, sharedMemory }: LaunchShape,
      given: readonly (number | bigint | Uint8Array)[],
    ): void => {
      const args = hostArguments(parameters, given) as unknown as TwinArguments<S>
      simulateGrid?.({ gridDim: grid, blockDim: block, sharedMemory }, ...args)
      if (simulate === undefined) return
      const longest = lengthOfLongest(args)
      let checked: TwinArguments<S> | undefined
      runThreads(grid, block, sharedMemory, (thread) => {
        const beyond = thread.globalX - longest
        if (!(beyond >= 0 && beyond < CHECKED_THREADS)) return simulate(thread, ...args)
        checked ??= checkedViews(shownName, args, argumentNames)
        return simulate(thread, ...checked)
      })
    }
    this.#host = { nanoseconds, argumentNames, run }
  }

  /**
   * Compiles the kernel for a device ahead of its first launch there, on a thread of its own, and loads it. Only the
   * loading blocks, as that of `Module.load()`. Does nothing where the kernel is loaded already. The simulator compiles
   * nothing, and takes the twin.
   * @param device The device to compile for.
   * @returns a promise of this kernel
   * @throws {Error} (as a rejection) ERR_COMPILATION, with the compiler's log in the message; ERR_UNSUPPORTED without
   * NVRTC; ERR_INVALID_ARG_VALUE where the signature is not that of the source; ERR_INVALID_ARG_TYPE
   * @throws {CudaError} (as a rejection) 500 where the source has no such kernel
   */
  async prepare(device: Device): Promise<this> {
    const kernel = checkThis(this, isDefinedKernel, 'a DefinedKernel')
    if (!isDevice(device)) throw invalidType('device', 'a Device', device)
    if (!kernel.#kernels.has(device)) {
      kernel.#keep(device, await driverOf(device).kernels.compile(kernel.#sourceFor(device)))
    }
    return this
  }

  /** @internal */
  [launchOn](stream: StreamCore, config: unknown, args: unknown[]): void {
    DefinedKernel.#on(this, stream).launch(stream, config, args, this)
  }

  /** @internal */
  [updateNode](place: LaunchNode, config: unknown, args: unknown[]): readonly OpenMemory[] {
    return DefinedKernel.#on(this, place).update(place, config, args)
  }

  toString(): string {
    return isDefinedKernel(this) ? `DefinedKernel(${printable(this.name)})` : printed(this)
  }

  /** The kernel on a device. Compiles it where `prepare()` was not called, which blocks meanwhile. */
  static #on(value: DefinedKernel, place: StreamCore | LaunchNode): KernelCore {
    const kernel = checkThis(value, isDefinedKernel, 'a DefinedKernel')
    const { device } = place
    const known = kernel.#kernels.get(device)
    return known ?? kernel.#keep(device, driverOf(device).kernels.compileNow(kernel.#sourceFor(device)))
  }

  #keep(device: Device, image: ModuleImage): KernelCore {
    const kernel = loadKernel(image, device, this.name, this.#parameters)
    this.#kernels.set(device, kernel)
    return kernel
  }

  #sourceFor({ computeCapability: { major, minor } }: Device): KernelSource {
    const options = [`--gpu-architecture=sm_${major}${minor}`]
    return { text: this.#source, file: `${this.name}.cu`, options, host: new Map([[this.name, this.#host]]) }
  }

  static {
    isDefinedKernel = (value): value is DefinedKernel =>
      typeof value === 'object' && value !== null && #kernels in value
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

/** Elements of the longest view; without any, more than there are threads. */
function lengthOfLongest(args: readonly unknown[]): number {
  const lengths = args.map((value) => (ArrayBuffer.isView(value) ? (value as unknown as ArrayLike<unknown>).length : 0))
  return args.some(ArrayBuffer.isView) ? Math.max(...lengths) : Number.POSITIVE_INFINITY
}

/** The arguments as a program's function takes them. */
function hostArguments(parameters: readonly Parameter[], given: readonly (number | bigint | Uint8Array)[]): unknown[] {
  return parameters.map(({ type }, index) => {
    const value = given[index] ?? 0
    if (typeof value !== 'object') return hostValue(type, value)
    const View = VIEWS[type]
    const length = Math.floor(value.byteLength / View.BYTES_PER_ELEMENT)
    return new View(value.buffer as ArrayBuffer, value.byteOffset, length)
  })
}

/** A value as a GPU gets it: a float has 24 bits, and an integer no negative zero. */
function hostValue(type: ScalarType, value: number | bigint): number | bigint {
  if (type === 'i64' || type === 'u64') return BigInt(value)
  if (type === 'f32') return Math.fround(Number(value))
  return type === 'f64' ? Number(value) : Number(value) + 0
}
