/** Kernels that are defined as CUDA C++ and as a host implementation in JavaScript. */
import { checkFunction, checkNanoseconds, checkText, checkThis, readOptions } from '../base/arguments.js'
import { ELEMENT_TYPES, type ScalarType } from '../base/element-types.js'
import { invalidType, invalidValue } from '../base/errors.js'
import { implementation, LibraryObject, notCloneable } from '../base/library-object.js'
import { printable } from '../base/printable.js'
import { type Device, driverOf, isDevice } from '../device.js'
import type { HostKernel, KernelSource, LaunchShape, ModuleImage } from '../driver/driver.js'
import type { OpenMemory } from '../memory/buffer.js'
import type { StreamImpl } from '../streams/stream-impl.js'
import type { SimulatedGrid, SimulatedThread } from './host-implementation.js'
import { CHECKED_THREADS, checkedViews, runThreads } from './host-implementation.js'
import { type KernelImpl, loadKernel } from './kernel.js'
import { type ArgumentsOf, type Parameter, type ParameterType, parseSignature, typeOf } from './kernel-signature.js'
import { type LaunchNode, launchOn, updateNode } from './launchable.js'

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
export type HostArgument<P extends ParameterType> = P extends `inout atomic ${infer T extends ScalarType}*`
  ? ViewOf[T]
  : P extends `${string} ${infer T extends ScalarType}*`
    ? ViewOf[T]
    : P extends 'i64' | 'u64'
      ? bigint
      : number

/** The host implementation's arguments for all parameters. */
export type HostArguments<S extends readonly ParameterType[]> = { readonly [I in keyof S]: HostArgument<S[I]> }

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
  readonly simulate?: ((thread: SimulatedThread, ...args: HostArguments<S>) => unknown) | undefined
  /**
   * The work of all threads together, in place of `simulate`. Faster. An error that it throws is an uncaught exception.
   */
  readonly simulateGrid?: ((grid: SimulatedGrid, ...args: HostArguments<S>) => void) | undefined
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
  declare readonly [implementation]: readonly Parameter[]
  readonly #source: string
  /** For the simulator, which takes it for compiled code. */
  readonly #host: HostKernel
  /** The devices for which it is compiled and loaded. Weak, since a simulated device is collected with its simulation. */
  readonly #kernels = new WeakMap<Device, KernelImpl>()
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
    this.#source = checkText(given.source, 'definition.source', 'CUDA C++ as text')
    if (simulate !== undefined) checkFunction(simulate, 'definition.simulate')
    if (simulateGrid !== undefined) checkFunction(simulateGrid, 'definition.simulateGrid')
    if ((simulate === undefined) === (simulateGrid === undefined)) {
      throw invalidValue('A kernel needs either definition.simulate or definition.simulateGrid, and not both')
    }
    checkNanoseconds(nanoseconds, 'definition.nanoseconds')
    const parameters = parseSignature(signature)
    const argumentNames = parameters.map((parameter, index) => `argument ${index}, '${typeOf(parameter)}'`)
    const shownName = printable(this.name)
    const run = (
      { grid, block, sharedMemory }: LaunchShape,
      given: readonly (number | bigint | Uint8Array)[],
    ): void => {
      const args = hostArguments(parameters, given) as unknown as HostArguments<S>
      simulateGrid?.({ gridDim: grid, blockDim: block, sharedMemory }, ...args)
      if (simulate === undefined) return
      const longest = lengthOfLongest(args)
      let checked: HostArguments<S> | undefined
      runThreads(grid, block, sharedMemory, (thread) => {
        const beyond = thread.globalX - longest
        if (!(beyond >= 0 && beyond < CHECKED_THREADS)) return simulate(thread, ...args)
        checked ??= checkedViews(shownName, args, argumentNames)
        return simulate(thread, ...checked)
      })
    }
    this.#host = { nanoseconds, argumentNames, run }
    this[implementation] = parameters
  }

  /**
   * Compiles the kernel for a device ahead of its first launch there, on another thread, and loads it. Only the
   * loading blocks, as that of `Module.load()`. Does nothing if the kernel is loaded already. The simulator compiles
   * nothing, and uses the host implementation.
   * @param device The device to compile for.
   * @returns a promise of this kernel
   * @throws {Error} (as a rejection) ERR_COMPILATION, with the compiler's log in the message; ERR_UNSUPPORTED without
   * NVRTC; ERR_INVALID_ARG_VALUE if the signature is not that of the source; ERR_INVALID_ARG_TYPE
   * @throws {CudaError} (as a rejection) 500 if the source has no such kernel
   */
  async prepare(device: Device): Promise<this> {
    const kernel = checkThis(this, isDefinedKernel, 'a DefinedKernel')
    if (!isDevice(device)) throw invalidType('device', 'a Device', device)
    if (!kernel.#kernels.has(device)) {
      kernel.#addKernel(device, await driverOf(device).kernels.compile(kernel.#sourceFor(device)))
    }
    return this
  }

  /** @internal */
  [launchOn](stream: StreamImpl, config: unknown, args: unknown[]): void {
    DefinedKernel.#on(this, stream).launch(stream, config, args, this)
  }

  /** @internal */
  [updateNode](target: LaunchNode, config: unknown, args: unknown[]): readonly OpenMemory[] {
    return DefinedKernel.#on(this, target).update(target, config, args)
  }

  get [Symbol.toStringTag](): string {
    return 'DefinedKernel'
  }

  override toString(): string {
    return isDefinedKernel(this) ? `DefinedKernel(${printable(this.name)})` : super.toString()
  }

  /** The kernel on a device. Compiles it unless `prepare()` was called, and blocks meanwhile. */
  static #on(value: DefinedKernel, place: StreamImpl | LaunchNode): KernelImpl {
    const kernel = checkThis(value, isDefinedKernel, 'a DefinedKernel')
    const { device } = place
    const known = kernel.#kernels.get(device)
    return known ?? kernel.#addKernel(device, driverOf(device).kernels.compileNow(kernel.#sourceFor(device)))
  }

  #addKernel(device: Device, image: ModuleImage): KernelImpl {
    const kernel = loadKernel(image, device, this.name, this[implementation])
    this.#kernels.set(device, kernel)
    return kernel
  }

  #sourceFor({ computeCapability: { major, minor } }: Device): KernelSource {
    const options = [`--gpu-architecture=sm_${major}${minor}`]
    return { text: this.#source, file: `${this.name}.cu`, options, host: new Map([[this.name, this.#host]]) }
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

/** The elements of the longest view; Infinity if there is no view. */
function lengthOfLongest(args: readonly unknown[]): number {
  const lengths = args.map((value) => (ArrayBuffer.isView(value) ? (value as unknown as ArrayLike<unknown>).length : 0))
  return args.some(ArrayBuffer.isView) ? Math.max(...lengths) : Number.POSITIVE_INFINITY
}

function hostArguments(parameters: readonly Parameter[], given: readonly (number | bigint | Uint8Array)[]): unknown[] {
  return parameters.map(({ type }, index) => {
    const value = given[index] ?? 0
    if (typeof value !== 'object') return hostValue(type, value)
    const View = ELEMENT_TYPES[type].array
    const length = Math.floor(value.byteLength / View.BYTES_PER_ELEMENT)
    return new View(value.buffer as ArrayBuffer, value.byteOffset, length)
  })
}

/** A value as a GPU gets it: a float has 24 bits of mantissa, and an integer no negative zero. */
function hostValue(type: ScalarType, value: number | bigint): number | bigint {
  if (type === 'i64' || type === 'u64') return BigInt(value)
  if (type === 'f32') return Math.fround(Number(value))
  return type === 'f64' ? Number(value) : Number(value) + 0
}
