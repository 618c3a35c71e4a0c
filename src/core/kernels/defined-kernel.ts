/** Kernels that are defined as CUDA C++ and as a host implementation in JavaScript. */
import {
  checkArray,
  checkChoice,
  checkFunction,
  checkNanoseconds,
  checkText,
  checkThis,
  readOptions,
} from '../../foundation/base/arguments.js'
import {
  type ElementView,
  MemoryElements,
  type Struct,
  scalarLayout,
  type ValueOf,
} from '../../foundation/base/element-layout.js'
import {
  dataViewOf,
  elementType,
  fromBf16,
  fromF16,
  type ScalarType,
  type VectorType,
} from '../../foundation/base/element-types.js'
import { invalidType, invalidValue } from '../../foundation/base/errors.js'
import { implementation, LibraryObject, notCloneable } from '../../foundation/base/library-object.js'
import { printable } from '../../foundation/base/printable.js'
import { deadlockIn } from '../../foundation/driver/deadlocks.js'
import type {
  HostKernel,
  KernelSource,
  LaunchShape,
  ModuleImage,
  SetConditional,
} from '../../foundation/driver/kernel-driver.js'
import { type Device, driverOf, isDevice } from '../device.js'
import type { OpenMemory } from '../memory/buffer.js'
import type { DeviceBuffer } from '../memory/device-buffer.js'
import type { StreamImpl } from '../streams/stream-impl.js'
import { cubinFor, readCubins } from './cubins.js'
import type { SimulatedGrid, SimulatedThread } from './host-implementation.js'
import { CHECKED_THREADS, checkedViews, runThreads } from './host-implementation.js'
import { type KernelImpl, loadKernel, variableIn } from './kernel.js'
import {
  type ArgumentsOf,
  describeParameter,
  type Parameter,
  type ParameterType,
  parseSignature,
  type StructPointer,
} from './kernel-signature.js'
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
  /** `half`, as numbers: JavaScript has no array of them everywhere. */
  readonly f16: ElementView<number>
  /** `__nv_bfloat16`, as numbers. */
  readonly bf16: ElementView<number>
}

/** A view of the elements that a pointer points to. Vectors lie there number by number. */
type PointerView<T extends string> = T extends ScalarType
  ? ViewOf[T]
  : T extends `${infer E extends ScalarType}x${2 | 3 | 4}`
    ? ViewOf[E]
    : never

type PointedStruct<P> = P extends { readonly [A in 'in' | 'out' | 'inout' | 'atomic']?: infer S } ? S : never

/**
 * The host implementation's argument for a parameter: a view of the memory for a pointer, a number or bigint for a value, an array for a
 * vector and an object for a struct.
 */
export type HostArgument<P extends ParameterType> =
  P extends Struct<infer V>
    ? V
    : P extends StructPointer
      ? PointedStruct<P> extends Struct<infer V>
        ? ElementView<V>
        : never
      : P extends `inout atomic ${infer T}*`
        ? PointerView<T>
        : P extends `${string} ${infer T}*`
          ? PointerView<T>
          : P extends VectorType
            ? ValueOf<P>
            : P extends 'i64' | 'u64'
              ? bigint
              : number

/** The host implementation's arguments for all parameters. */
export type HostArguments<S extends readonly ParameterType[]> = { readonly [I in keyof S]: HostArgument<S[I]> }

/** A kernel as CUDA C++, and as JavaScript if that is wanted. */
export interface KernelDefinition<S extends readonly ParameterType[]> {
  /** The name of the `extern "C"` kernel in the source. Reports and timelines use it, too. */
  readonly name: string
  /**
   * CUDA C++. NVRTC compiles it at the first launch on a device, or in `prepare()`; on the simulator too, unless there is
   * JavaScript. A kernel has a source or `ptx`.
   */
  readonly source?: string | undefined
  /** The kernel as PTX, made before: then no NVRTC is needed where it runs. `nvcc --ptx`, or NVRTC, makes it. */
  readonly ptx?: string | undefined
  /**
   * Machine code besides the `ptx`, by the architecture that it is for, as base64: `{ sm_90: readFileSync('axpy.cubin', 'base64') }`. A
   * GPU takes the latest of those that it runs (its major compute capability, and no later minor one), so that the driver has nothing to
   * compile; other GPUs and the simulator take the PTX.
   */
  readonly cubins?: Readonly<Record<string, string>> | undefined
  /** The kernel's name in the cubins, where it is not `extern "C"` there: C++ changes it, to such as '_Z4axpyifPKfPf'. Default: `name`. */
  readonly mangledName?: string | undefined
  /** More options for NVRTC, such as '--use_fast_math' or '-lineinfo'. Default: none. */
  readonly options?: readonly string[] | undefined
  /** The kernel's parameters in order, such as 'in f32*', 'f32x4', or a struct. */
  readonly signature: S
  /** The names of the parameters in the source, for error messages. Default: messages count them from 0. */
  readonly parameterNames?: readonly string[] | undefined
  /**
   * The work of one thread in JavaScript, for the simulator. A generator function may `yield` at each `__syncthreads()` of the source:
   * each thread of the block then waits for the others. An error that it throws is an uncaught exception.
   */
  readonly simulate?: ((thread: SimulatedThread, ...args: HostArguments<S>) => unknown) | undefined
  /**
   * The work of all threads together, in place of `simulate`. Faster. An error that it throws is an uncaught exception.
   */
  readonly simulateGrid?: ((grid: SimulatedGrid, ...args: HostArguments<S>) => void) | undefined
  /**
   * What the simulator runs: 'source', the CUDA C++, which NVRTC compiles to PTX; 'simulate', the JavaScript; or 'both', each
   * on the same memory, of which what the source wrote stays. Where the two differ, a launch ends in an uncaught exception
   * that names the element; numbers of 32 bits may differ by a 100 000th, and numbers of 64 bits by a 10 ** 12th of the larger.
   * Default: 'simulate' if there is JavaScript, else 'source'.
   */
  readonly runs?: 'source' | 'simulate' | 'both' | undefined
  /**
   * Virtual nanoseconds that a launch takes on the simulator: from 0 to 2 ** 53 - 1. Default: 10 000 for JavaScript; for the
   * source what a simple model of the device says (docs/internals/ptx.md).
   */
  readonly nanoseconds?: number | undefined
}

const DEFAULT_NANOSECONDS = 10_000

const DEFINITION = [
  'name',
  'source',
  'ptx',
  'cubins',
  'mangledName',
  'options',
  'signature',
  'parameterNames',
  'simulate',
  'simulateGrid',
  'runs',
  'nanoseconds',
] as const
const RUNS = ['source', 'simulate', 'both'] as const

/**
 * A kernel for both drivers: CUDA C++, compiled for each device at its first use there, and if wanted a host implementation in
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
  readonly #ptx: string | undefined
  readonly #cubins: ReadonlyMap<string, string>
  readonly #mangledName: string
  readonly #options: readonly string[]
  /** The host implementation, which the simulator runs as if it were compiled code. */
  readonly #host: HostKernel | undefined
  readonly #compares: boolean
  readonly #nanoseconds: number | undefined
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
      throw invalidType('definition', 'an object such as { name, source, signature }', definition)
    }
    const given = readOptions(definition, DEFINITION, 'definition')
    const { signature, simulate, simulateGrid, nanoseconds } = given
    this.name = checkText(given.name, 'definition.name', 'the name of a kernel')
    const { source, ptx } = given
    if ((source === undefined) === (ptx === undefined)) {
      throw invalidValue('A kernel has definition.source, its CUDA C++, or definition.ptx, and not both')
    }
    this.#source = source === undefined ? '' : checkText(source, 'definition.source', 'CUDA C++ as text')
    this.#ptx = ptx === undefined ? undefined : checkText(ptx, 'definition.ptx', 'PTX as text')
    if (ptx === undefined && given.cubins !== undefined)
      throw invalidValue(
        'definition.cubins needs definition.ptx, for the simulator and for GPUs that none of them is for',
      )
    this.#cubins = readCubins(given.cubins ?? {}, 'definition.cubins')
    this.#mangledName = checkText(given.mangledName ?? this.name, 'definition.mangledName', 'the name of a kernel')
    this.#options = checkArray(given.options ?? [], 'definition.options', 'an array of texts').map((option, index) =>
      checkText(option, `definition.options[${index}]`, 'a text'),
    )
    if (simulate !== undefined) checkFunction(simulate, 'definition.simulate')
    if (simulateGrid !== undefined) checkFunction(simulateGrid, 'definition.simulateGrid')
    if (simulate !== undefined && simulateGrid !== undefined) {
      throw invalidValue('A kernel takes definition.simulate or definition.simulateGrid, and not both')
    }
    const hasHost = simulate !== undefined || simulateGrid !== undefined
    const runs = given.runs === undefined ? undefined : checkChoice(given.runs, 'definition.runs', RUNS)
    if (!hasHost && runs !== undefined && runs !== 'source') {
      throw invalidValue(
        `definition.runs is '${runs}', and there is neither definition.simulate nor definition.simulateGrid`,
      )
    }
    if (nanoseconds !== undefined) checkNanoseconds(nanoseconds, 'definition.nanoseconds')
    const names = checkArray(given.parameterNames ?? [], 'definition.parameterNames', 'an array of texts')
    const parameters = parseSignature(
      signature,
      names.map((each, index) => checkText(each, `definition.parameterNames[${index}]`, 'a text')),
    )
    if (names.length > 0 && names.length !== parameters.length) {
      throw invalidValue(
        `definition.parameterNames has ${names.length} names, and definition.signature ${parameters.length} parameters`,
      )
    }
    const argumentNames = parameters.map(describeParameter)
    const shownName = printable(this.name)
    const run = (
      { grid, block, sharedMemory }: LaunchShape,
      given: readonly (number | bigint | Uint8Array)[],
      setConditional: SetConditional,
    ): void => {
      const args = hostArguments(shownName, parameters, given) as unknown as HostArguments<S>
      simulateGrid?.({ gridDim: grid, blockDim: block, sharedMemory, setConditional }, ...args)
      if (simulate === undefined) return
      const longest = lengthOfLongest(parameters, args)
      let checked: HostArguments<S> | undefined
      runThreads(grid, block, sharedMemory, setConditional, (thread) => {
        const beyond = thread.globalX - longest
        if (!(beyond >= 0 && beyond < CHECKED_THREADS)) return simulate(thread, ...args)
        checked ??= checkedViews(shownName, args, argumentNames)
        return simulate(thread, ...checked)
      })
    }
    const host = { nanoseconds: nanoseconds ?? DEFAULT_NANOSECONDS, argumentNames, run }
    this.#host = hasHost && runs !== 'source' ? host : undefined
    this.#compares = runs === 'both'
    this.#nanoseconds = nanoseconds
    this[implementation] = parameters
  }

  /**
   * Compiles the kernel for a device ahead of its first launch there, on another thread, and loads it. Only the
   * loading blocks, as that of `Module.load()`. Does nothing if the kernel is loaded already. The simulator
   * compiles nothing where it runs JavaScript.
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
      const source = kernel.#sourceFor(device)
      kernel.#addKernel(device, source, await driverOf(device).kernels.compile(source))
    }
    return this
  }

  /**
   * A variable of the kernel's code, `__device__` or `__constant__`, as a buffer on a device (`cuModuleGetGlobal`). Kernels that are
   * defined by the same `ptx` share their variables; a kernel with a `source` has its own. Loads the kernel, and blocks meanwhile,
   * unless `prepare()` has.
   * @param name The variable's name in the source.
   * @param device The device whose variable it is.
   * @throws {Error} ERR_INVALID_ARG_TYPE, and what the first launch on that device would throw
   * @throws {CudaError} 500 if the code has no such variable
   * @example
   * ```ts
   * await stream.upload(filter.global('weights', device), Float32Array.of(0.25, 0.5, 0.25))
   * ```
   */
  global(name: string, device: Device): DeviceBuffer {
    const kernel = checkThis(this, isDefinedKernel, 'a DefinedKernel')
    if (!isDevice(device)) throw invalidType('device', 'a Device', device)
    return variableIn(DefinedKernel.#of(kernel, device), name, kernel)
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
    return DefinedKernel.#of(kernel, place.device)
  }

  static #of(kernel: DefinedKernel, device: Device): KernelImpl {
    const known = kernel.#kernels.get(device)
    if (known !== undefined) return known
    const source = kernel.#sourceFor(device)
    try {
      return kernel.#addKernel(device, source, driverOf(device).kernels.compileNow(source))
    } catch (error) {
      throw deadlockIn(error, ({ endless }) => {
        const loading = 'loading it here, for which CUDA waits for the whole device, would wait forever'
        const way = 'Await its prepare(device) beforehand'
        return `Kernel '${printable(kernel.name)}' is not loaded on ${device} yet, and ${loading}: ${endless.why}. ${way}`
      })
    }
  }

  #addKernel(device: Device, source: KernelSource, image: ModuleImage): KernelImpl {
    const isMachineCode = ArrayBuffer.isView(image) && image === source.cubin
    const compiled = isMachineCode ? cubinFor(this.#cubins, device.computeCapability) : this.#ptx
    const text = this.#host === undefined ? compiled : undefined
    const wanted = {
      name: this.name,
      inModule: isMachineCode ? this.#mangledName : this.name,
      parameters: this[implementation],
      nanoseconds: this.#nanoseconds,
    }
    const kernel = loadKernel(image, device, wanted, text)
    this.#kernels.set(device, kernel)
    return kernel
  }

  #sourceFor({ computeCapability }: Device): KernelSource {
    const { major, minor } = computeCapability
    const code = cubinFor(this.#cubins, computeCapability)
    const cubin = code === undefined ? undefined : Uint8Array.from(atob(code), (letter) => letter.charCodeAt(0))
    const options = [`--gpu-architecture=sm_${major}${minor}`, ...this.#options]
    const text = this.#source
    const ptx = this.#ptx === undefined ? undefined : new TextEncoder().encode(this.#ptx)
    const host = this.#host === undefined ? undefined : new Map([[this.name, this.#host]])
    return { text, ptx, cubin, file: `${this.name}.cu`, options, host, compares: this.#compares }
  }
}

const isDefinedKernel = (value: unknown): value is DefinedKernel =>
  value instanceof DefinedKernel && value[implementation] !== undefined

/**
 * Defines a kernel for both drivers: `stream.launch(kernel, config, ...args)` runs it on the driver of the stream. Nothing is
 * compiled yet. The definition is read once, here: a later change of it has no effect.
 * @param definition `name`, `source` in CUDA C++ (or `ptx`, with `cubins` if wanted) and `signature`; `options` for NVRTC; a host implementation in JavaScript: `simulate` for
 * one thread or `simulateGrid` for all, what the simulator `runs`, and the `nanoseconds` that a launch takes there
 * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for an unknown parameter type, with both `simulate` and
 * `simulateGrid`, and for `runs` that needs one of them; ERR_OUT_OF_RANGE for `nanoseconds`
 * @example
 * ```ts
 * const scale = defineKernel({
 *   name: 'scale',
 *   source: 'extern "C" __global__ void scale(float f, float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= f; }',
 *   signature: ['f32', 'inout f32*'],
 * })
 * stream.launch(scale, { grid: 4, block: 256 }, 2, x)
 * ```
 */
export function defineKernel<const S extends readonly ParameterType[]>(
  definition: KernelDefinition<S>,
): DefinedKernel<S> {
  return new DefinedKernel(definition)
}

/** The elements of the longest memory; Infinity if there is no memory. */
function lengthOfLongest(parameters: readonly Parameter[], args: readonly unknown[]): number {
  const lengths = parameters.flatMap(({ access, element }, index) => {
    if (access === undefined) return []
    const { length } = args[index] as ArrayLike<unknown>
    return element.scalar === undefined ? length : Math.ceil((length * bytesOf(element.scalar)) / element.byteLength)
  })
  return lengths.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...lengths)
}

const bytesOf = (type: ScalarType): number => elementType(type).bytes

function hostArguments(
  kernel: string,
  parameters: readonly Parameter[],
  given: readonly (number | bigint | Uint8Array)[],
): unknown[] {
  return parameters.map((parameter, index) => {
    const { access, element } = parameter
    const value = given[index] ?? 0
    if (typeof value !== 'object') return hostValue(element.scalar, value)
    if (access === undefined) return element.read(dataViewOf(value), 0)
    const View = element.scalar === undefined ? undefined : elementType(element.scalar).array
    if (View === undefined) {
      const own = element.scalar === undefined ? element : scalarLayout(element.scalar)
      return new MemoryElements(value, own, `${describeParameter(parameter, index)} of kernel '${kernel}'`)
    }
    const length = Math.floor(value.byteLength / bytesOf(element.scalar ?? 'u8'))
    return new View(value.buffer as ArrayBuffer, value.byteOffset, length)
  })
}

/** A value as a GPU gets it: a float has 24 bits of mantissa, and an integer no negative zero. */
function hostValue(type: ScalarType | undefined, value: number | bigint): number | bigint {
  if (type === 'i64' || type === 'u64') return BigInt(value)
  if (type === 'f32') return Math.fround(Number(value))
  if (type === 'f16') return fromF16(Number(value))
  if (type === 'bf16') return fromBf16(Number(value))
  return type === 'f64' ? Number(value) : Number(value) + 0
}
