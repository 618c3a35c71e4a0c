/** Kernels of Triton, compiled before: launches choose the code by the arguments, and supply what the code expects besides them. */
import {
  checkArray,
  checkInteger,
  checkText,
  checkThis,
  isObject,
  isOptionsObject,
  readOptions,
} from '../../foundation/base/arguments.js'
import { invalidType, invalidValue, stateError } from '../../foundation/base/errors.js'
import { implementation, LibraryObject, notCloneable } from '../../foundation/base/library-object.js'
import { printable } from '../../foundation/base/printable.js'
import type { KernelSource, ModuleImage } from '../../foundation/driver/kernel-driver.js'
import { type Device, driverOf, isDevice } from '../device.js'
import type { Event } from '../event.js'
import { BufferImpl, type OpenMemory } from '../memory/buffer.js'
import { allocateOn, type DeviceBuffer } from '../memory/device-buffer.js'
import { type StreamBase, type StreamImpl, streamImplOf } from '../streams/stream-impl.js'
import { type Extent, type KernelImpl, type LaunchConfig, type LaunchConfigOptions, loadKernel } from './kernel.js'
import {
  type ArgumentsOf,
  type CheckedArgument,
  checkArguments,
  type Parameter,
  type ParameterType,
  parseSignature,
} from './kernel-signature.js'
import { type LaunchNode, launchOn, updateNode } from './launchable.js'

/** A configuration of a Triton kernel: its `tl.constexpr` values by their names, and `num_warps` and `num_stages`. */
export type TritonMeta = Readonly<Record<string, number | boolean | string | null>>

/** The code of a Triton kernel for arguments of one kind. */
export interface TritonVariant {
  /** The code. Its entry has the kernel's name. */
  readonly ptx: string
  /** The parameters, counted from 0, that are multiples of 16: integers, or addresses. Default: none. */
  readonly divisible?: readonly number[] | undefined
  /** The parameters, counted from 0, that are 1, which the code does not take. Default: none. */
  readonly ones?: readonly number[] | undefined
  /** Warps of each block, of 32 threads. */
  readonly warps: number
  /** Dynamic shared memory of each block, in bytes. Default: 0. */
  readonly sharedMemory?: number | undefined
  /** Blocks of a cluster, Triton's `num_ctas`. Default: 1, which is none. */
  readonly cluster?: number | undefined
  /** Whether all blocks run at the same time. Default: false. */
  readonly cooperative?: boolean | undefined
  /** Whether the kernel may begin before the one before it has ended, Triton's `launch_pdl`. Default: false. */
  readonly programmatic?: boolean | undefined
  /** Bytes of global memory that each block needs for the time of a launch. Default: 0. */
  readonly globalScratch?: number | undefined
  /** Bytes of global memory that each block needs for Triton's profiler. Default: 0. */
  readonly profileScratch?: number | undefined
  /** Pointers to such memory that the code takes behind its parameters, also where it needs none: 1 in Triton 3.4. Default: 2. */
  readonly scratchPointers?: number | undefined
}

/** A kernel of Triton, as `cuda-streams compile softmax.py` writes it. */
export interface TritonKernelDefinition<S extends readonly ParameterType[], M extends TritonMeta> {
  /** The kernel's name, which is that of the entries of its code. */
  readonly name: string
  /** The kernel's parameters in order, without those that are `tl.constexpr`, such as 'in f32*'. */
  readonly signature: S
  /** The names of the parameters in the source, for error messages. Default: messages count them from 0. */
  readonly parameterNames?: readonly string[] | undefined
  /** The parameters of `@triton.autotune(key=…)`, counted from 0. Default: none. */
  readonly key?: readonly number[] | undefined
  /**
   * The configurations that the kernel was compiled for, the default first. Of the variants of one a launch takes the first whose
   * conditions its arguments meet.
   */
  readonly configs: readonly { readonly meta: M; readonly variants: readonly TritonVariant[] }[]
}

/** The shape of a launch of a Triton kernel, whose threads and shared memory are the compiler's. */
export interface TritonLaunchConfig<M extends TritonMeta = TritonMeta>
  extends Pick<
    LaunchConfigOptions,
    'programmatic' | 'priority' | 'sharedMemoryCarveout' | 'memorySyncDomain' | 'clusterScheduling'
  > {
  /**
   * Programs in each direction, as in Triton: a number, up to three, or a function of the kernel's configuration, as
   * `({ BLOCK }) => Math.ceil(n / BLOCK)`.
   */
  readonly grid: Extent | ((meta: M) => Extent)
}

/** A configuration that was chosen for some launches of a Triton kernel: plain data, which a program may store. */
export interface TritonChoice<M extends TritonMeta = TritonMeta> {
  /** The configuration, one of the kernel's `configs`. */
  readonly meta: M
  /** The values of the parameters of `@triton.autotune(key=…)` that it is for. Undefined: all. */
  readonly key?: readonly number[] | undefined
  /** What the median launch took, in nanoseconds, in the order of `configs`; undefined if nothing was measured. */
  readonly nanoseconds?: readonly number[] | undefined
}

/** What `kernel.tune()` uses of a stream: a Stream is one. */
export interface TunedStream extends StreamBase {
  /**
   * Records an event behind the work that is queued.
   * @param options The event has a time.
   */
  record(options: { readonly timing: true }): Event
  /**
   * Lets later work begin only when a promise has settled.
   * @param promise The promise to wait for.
   */
  wait(promise: Promise<unknown>): unknown
}

const DEFINITION = ['name', 'signature', 'parameterNames', 'key', 'configs'] as const
const CHOICE = ['meta', 'key', 'nanoseconds'] as const
const CONFIG = [
  'grid',
  'programmatic',
  'priority',
  'sharedMemoryCarveout',
  'memorySyncDomain',
  'clusterScheduling',
] as const
/** What the compiler has decided, and other kernels are launched with. */
const DECIDED = ['block', 'threads', 'sharedMemory', 'cooperative', 'cluster', 'preferredCluster'] as const
const WARP = 32
const DIVISOR = 16
const ROUNDS = 9
const SCRATCH_POINTERS = 2
const NO_MEMORY = 0n

/** One piece of code, and its kernel on each device. */
interface Variant {
  readonly given: TritonVariant
  readonly parameters: readonly Parameter[]
  readonly kernels: WeakMap<Device, KernelImpl>
}

interface Config<M> {
  readonly meta: M
  readonly variants: readonly Variant[]
}

/** A kernel of Triton for `stream.launch(kernel, { grid }, ...args)`, on both drivers. */
export class TritonKernel<
  out S extends readonly ParameterType[] = readonly ParameterType[],
  out M extends TritonMeta = TritonMeta,
> extends LibraryObject {
  /** The kernel's name. */
  readonly name: string
  /** The configurations that the kernel was compiled for, the default first. */
  readonly configs: readonly M[]
  /** @internal Refuses to be copied to another thread. */
  protected readonly cloning: symbol = notCloneable()
  /** @internal */
  declare readonly [implementation]: readonly Parameter[]
  readonly #configs: readonly Config<M>[]
  readonly #key: readonly number[]
  readonly #chosen = new Map<string, Config<M>>()
  /** @internal Only a type: the arguments that a launch takes. Declarations have it as `out S`. */
  declare readonly args: ArgumentsOf<S>

  /**
   * Use `defineTritonKernel(definition)`.
   * @param definition As for `defineTritonKernel`.
   */
  constructor(definition: TritonKernelDefinition<S, M>) {
    super()
    if (definition === undefined) throw invalidType('definition', 'what cuda-streams compile has written', definition)
    const given = readOptions(definition, DEFINITION, 'definition')
    this.name = checkText(given.name, 'definition.name', 'the name of a kernel')
    const names = checkArray(given.parameterNames ?? [], 'definition.parameterNames', 'an array of texts')
    const parameters = parseSignature(
      given.signature,
      names.map((each, index) => checkText(each, `definition.parameterNames[${index}]`, 'a text')),
    )
    const isParameter = (index: unknown, name: string): number => checkInteger(index, name, 0, parameters.length - 1)
    this.#key = checkArray(given.key ?? [], 'definition.key', 'an array of numbers').map((each, index) =>
      isParameter(each, `definition.key[${index}]`),
    )
    const configs = checkArray(given.configs, 'definition.configs', 'an array of configurations')
    if (configs.length === 0) throw invalidValue('definition.configs has no configuration: compile the kernel again')
    this.#configs = definition.configs.map(({ meta, variants }, at) => {
      const name = `definition.configs[${at}].variants`
      if (checkArray(variants, name, 'an array of variants').length === 0)
        throw invalidValue(`${name} is empty: compile the kernel again`)
      return {
        meta: Object.freeze({ ...meta }),
        variants: variants.map((each, number) => variantOf(each, parameters, `${name}[${number}]`)),
      }
    })
    this.configs = Object.freeze(this.#configs.map(({ meta }) => meta))
    this[implementation] = parameters
  }

  /**
   * Compiles the kernel's code for a device ahead of its first launch there, and loads it (`cuModuleLoadData`): all variants of the default
   * configuration, and of those that were chosen.
   * @param device The device to compile for.
   * @returns a promise of this kernel
   * @throws {CudaError} (as a rejection) for code that the device cannot run
   * @throws {Error} (as a rejection) ERR_INVALID_ARG_TYPE
   */
  async prepare(device: Device): Promise<this> {
    const kernel = checkThis(this, isTritonKernel, 'a TritonKernel')
    if (!isDevice(device)) throw invalidType('device', 'a Device', device)
    for (const config of new Set([kernel.#byDefault(), ...kernel.#chosen.values()])) {
      for (const variant of config.variants) {
        if (variant.kernels.has(device)) continue
        const source = sourceOf(kernel.name, variant)
        add(kernel.name, variant, device, await driverOf(device).kernels.compile(source))
      }
    }
    return this
  }

  /**
   * Measures each configuration with these arguments, as `@triton.autotune` does in Python, and takes the fastest for launches whose key has the
   * same values. Each runs ten times: pass memory that may be written. On the simulator, whose times are those of a simple model, nothing is
   * measured, nor chosen.
   * @param stream The stream to measure on, which does not capture.
   * @param config The shape of the launch, whose `grid` is mostly a function of the configuration.
   * @param args One argument for each parameter of the kernel.
   * @returns a promise of the choice, with what was measured; `choose()` takes it in another process
   * @throws {Error} (as a rejection) as `stream.launch()`
   * @example
   * ```ts
   * import { matmul } from './matmul.py'
   * const choice = await matmul.tune(stream, { grid: ({ BLOCK }) => (512 / BLOCK) ** 2 }, x, x, y, 512)
   * ```
   */
  async tune(stream: TunedStream, config: TritonLaunchConfig<M>, ...args: ArgumentsOf<S>): Promise<TritonChoice<M>> {
    const kernel = checkThis(this, isTritonKernel, 'a TritonKernel')
    const impl = streamImplOf(stream)
    if (impl === undefined) throw invalidType('stream', 'a Stream', stream)
    const given: readonly unknown[] = args
    const key = kernel.#keyOf(kernel.#check([...given]))
    if (impl.driver.name === 'sim') return { meta: kernel.#configFor(key).meta as M, key }
    const nanoseconds: number[] = []
    for (const each of kernel.#configs) {
      const launch = (): void => kernel.#launch(impl, each, config, [...given], this)
      launch()
      // The stream stands until all is queued: otherwise short kernels would be measured with the time in which the host queues the next.
      let start: () => void = () => {}
      stream.wait(new Promise<void>((resolve) => (start = resolve)))
      const events: Event[] = []
      try {
        events.push(stream.record({ timing: true }))
        for (let round = 0; round < ROUNDS; round += 1) {
          launch()
          events.push(stream.record({ timing: true }))
        }
      } finally {
        start()
      }
      await events.at(-1)?.finished()
      nanoseconds.push(medianOf(events.slice(1).map((event, round) => event.elapsedSince(events[round] ?? event))))
      for (const event of events) event.close()
    }
    const best = kernel.#configs[nanoseconds.indexOf(Math.min(...nanoseconds))] ?? kernel.#byDefault()
    kernel.#chosen.set(String(key), best)
    return { meta: best.meta as M, key, nanoseconds }
  }

  /**
   * Chooses a configuration for later launches.
   * @param choice `meta`: one of `configs`. `key`: the values of the parameters of `@triton.autotune(key=…)` that it is for (default: all that
   * have no choice of their own). What `tune()` has returned is one.
   * @throws {Error} ERR_INVALID_ARG_VALUE for a configuration that the kernel was not compiled for, and a key of another length;
   * ERR_INVALID_ARG_TYPE
   */
  choose(choice: TritonChoice): this {
    const kernel = checkThis(this, isTritonKernel, 'a TritonKernel')
    if (!isOptionsObject(choice)) throw invalidType('choice', 'an object such as { meta, key }', choice)
    const { meta, key } = readOptions(choice, CHOICE, 'choice')
    if (!isObject(meta)) throw invalidType('choice.meta', 'one of kernel.configs', meta)
    const found = kernel.#configs.find((each) => isSameMeta(each.meta, meta as TritonMeta))
    if (found === undefined)
      throw invalidValue(
        `choice.meta is ${JSON.stringify(meta)}, and ${kernel.name} was compiled for ${kernel.configs.map((each) => JSON.stringify(each)).join(', ')}`,
      )
    const values = key === undefined ? undefined : checkArray(key, 'choice.key', 'an array of numbers')
    if (values !== undefined && values.length !== kernel.#key.length)
      throw invalidValue(`choice.key has ${values.length} values, and the key of ${kernel.name} ${kernel.#key.length}`)
    kernel.#chosen.set(values === undefined ? DEFAULT_KEY : String(values), found)
    return this
  }

  /** @internal */
  [launchOn](stream: StreamImpl, config: unknown, args: unknown[]): void {
    const kernel = checkThis(this, isTritonKernel, 'a TritonKernel')
    const checked = kernel.#check([...args])
    kernel.#launch(stream, kernel.#configFor(kernel.#keyOf(checked)), config, args, this, checked)
  }

  /** @internal */
  [updateNode](target: LaunchNode, config: unknown, args: unknown[]): readonly OpenMemory[] {
    const kernel = checkThis(this, isTritonKernel, 'a TritonKernel')
    const checked = kernel.#check([...args])
    const chosen = kernel.#configFor(kernel.#keyOf(checked))
    const variant = kernel.#variantFor(chosen, checked)
    if (scratchOf(variant) !== 0)
      throw stateError(
        'ERR_UNSUPPORTED',
        `${kernel.name} uses scratch memory, which belongs to its captured launch: capture another graph`,
      )
    const { name } = kernel
    const shape = shapeFor(name, variant, chosen.meta, withoutCaptured(config, target))
    return kernelOn(name, variant, target.device).update(target, shape, passed(variant, args, NO_MEMORY, NO_MEMORY))
  }

  get [Symbol.toStringTag](): string {
    return 'TritonKernel'
  }

  override toString(): string {
    return isTritonKernel(this) ? `TritonKernel(${printable(this.name)})` : super.toString()
  }

  #check(args: unknown[]): CheckedArgument[] {
    return checkArguments(this.name, this[implementation], args)
  }

  #keyOf(args: readonly CheckedArgument[]): readonly number[] {
    return this.#key.map((index) => Number(args[index]))
  }

  #byDefault(): Config<M> {
    const [first] = this.#configs
    if (first === undefined) throw new TypeError('A kernel without a configuration')
    return this.#chosen.get(DEFAULT_KEY) ?? first
  }

  #configFor(key: readonly number[]): Config<M> {
    return (this.#chosen.size === 0 ? undefined : this.#chosen.get(String(key))) ?? this.#byDefault()
  }

  /** The first variant whose conditions the arguments meet. */
  #variantFor({ variants }: Config<M>, args: readonly CheckedArgument[]): Variant {
    const found = variants.find(({ given }) => unmet(given, args) === undefined)
    if (found !== undefined) return found
    const { index = 0, must = '' } = unmet(variants.at(-1)?.given, args) ?? {}
    const { name, text } = this[implementation][index] ?? {}
    const what = name === undefined ? `argument ${index} ('${text}')` : `parameter \`${name}\` (${text})`
    const value = args[index]
    const shown = value instanceof BufferImpl ? `begins at 0x${value.pointer.toString(16)}` : `is ${value}`
    throw invalidValue(
      `${this.name}: ${what} ${shown}, and must be ${must}, as its declaration in the source says: take the hint away there, or add a declaration without it`,
    )
  }

  #launch(
    stream: StreamImpl,
    chosen: Config<M>,
    config: unknown,
    args: unknown[],
    kernel: object,
    checked: readonly CheckedArgument[] = this.#check([...args]),
  ): void {
    const variant = this.#variantFor(chosen, checked)
    const shape = shapeFor(this.name, variant, chosen.meta, config)
    const impl = kernelOn(this.name, variant, stream.device)
    const given = [...args]
    const { globalScratch, profileScratch } = variant.given
    const blocks = blocksOf(shape.grid)
    const memory: DeviceBuffer[] = []
    const scratch = (bytes = 0): DeviceBuffer | bigint => {
      if (bytes === 0) return NO_MEMORY
      const buffer = allocateOn(stream, stream.device, bytes * blocks)
      memory.push(buffer)
      return buffer
    }
    try {
      const [global, profile] = [scratch(globalScratch), scratch(profileScratch)]
      impl.launch(stream, shape, passed(variant, args, global, profile), kernel, given)
    } finally {
      // It is freed behind the launch.
      for (const buffer of memory) buffer.close()
    }
  }
}

const DEFAULT_KEY = 'default'

const isTritonKernel = (value: unknown): value is TritonKernel =>
  value instanceof TritonKernel && value[implementation] !== undefined

/**
 * Defines a kernel of Triton, of code that was compiled before: what a module of `cuda-streams compile softmax.py`, and the import of
 * './softmax.py', calls. Nothing is loaded yet.
 * @param definition `name`, `signature` and `parameterNames`; `configs`, each a `meta` with its `variants`; `key`, the parameters by which
 * configurations are chosen
 * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_INVALID_ARG_VALUE for an unknown parameter type, and without a variant; ERR_OUT_OF_RANGE for
 * parameters that there are not
 * @example
 * ```ts
 * import { softmax } from './softmax.py'
 * stream.launch(softmax, { grid: 64 }, y, x, 1024, 1000)
 * ```
 */
export function defineTritonKernel<const S extends readonly ParameterType[], const M extends TritonMeta>(
  definition: TritonKernelDefinition<S, M>,
): TritonKernel<S, M> {
  return new TritonKernel(definition)
}

function variantOf(given: TritonVariant, parameters: readonly Parameter[], name: string): Variant {
  checkText(given.ptx, `${name}.ptx`, 'PTX as text')
  checkInteger(given.warps, `${name}.warps`, 1, WARP)
  for (const each of [...(given.divisible ?? []), ...(given.ones ?? [])])
    checkInteger(each, `${name}.divisible and ones`, 0, parameters.length - 1)
  const pointers = checkInteger(
    given.scratchPointers ?? SCRATCH_POINTERS,
    `${name}.scratchPointers`,
    0,
    SCRATCH_POINTERS,
  )
  const memory = [given.globalScratch, given.profileScratch].slice(0, pointers)
  const scratch = parseSignature(memory.map((bytes) => (bytes ? 'inout u8*' : 'u64')))
  const own = parameters.filter((_, index) => given.ones?.includes(index) !== true)
  return { given, parameters: [...own, ...scratch], kernels: new WeakMap() }
}

const scratchOf = ({ given: { globalScratch = 0, profileScratch = 0 } }: Variant): number =>
  globalScratch + profileScratch

/** The condition of a variant that the arguments do not meet. */
function unmet(
  { divisible = [], ones = [] }: Partial<TritonVariant> = {},
  args: readonly CheckedArgument[],
): { readonly index: number; readonly must: string } | undefined {
  const other = ones.find((index) => Number(args[index]) !== 1)
  if (other !== undefined) return { index: other, must: '1' }
  const odd = divisible.find((index) => !isDivisible(args[index]))
  return odd === undefined ? undefined : { index: odd, must: `a multiple of ${DIVISOR}` }
}

function isDivisible(argument: CheckedArgument | undefined): boolean {
  if (typeof argument === 'bigint') return argument % BigInt(DIVISOR) === 0n
  return (argument instanceof BufferImpl ? argument.pointer : Number(argument)) % DIVISOR === 0
}

/** The arguments that the code takes. */
function passed({ given }: Variant, args: readonly unknown[], global: unknown, profile: unknown): unknown[] {
  const scratch = [global, profile].slice(0, given.scratchPointers ?? SCRATCH_POINTERS)
  return [...args.filter((_, index) => given.ones?.includes(index) !== true), ...scratch]
}

function shapeFor(
  kernel: string,
  { given }: Variant,
  meta: TritonMeta,
  config: unknown,
): LaunchConfig & { readonly grid: readonly [number, number, number] } {
  if (!isOptionsObject(config))
    throw invalidType(`${kernel}: config`, 'an object such as { grid }', config, 'it comes before the arguments')
  const decided = DECIDED.find((name) => Reflect.get(config, name) !== undefined)
  if (decided !== undefined)
    throw invalidValue(
      `${kernel}: config.${decided} is decided where the kernel is compiled (num_warps is ${given.warps}, and shared memory ${given.sharedMemory ?? 0} bytes): leave it out, and pass config.grid, the number of programs`,
    )
  const { grid, programmatic, ...more } = readOptions<TritonLaunchConfig, (typeof CONFIG)[number]>(
    config as TritonLaunchConfig,
    CONFIG,
    'config',
    `${kernel}: `,
  )
  if (grid === undefined) throw invalidValue(`${kernel}: config must have grid, the number of programs`)
  const extent: unknown = typeof grid === 'function' ? grid(meta) : grid
  const [x, y = 1, z = 1] = Array.isArray(extent) ? extent : [extent]
  const { warps, sharedMemory = 0, cluster = 1, cooperative = false } = given
  return {
    ...more,
    grid: [cluster === 1 ? x : Number(x) * cluster, y, z],
    block: [WARP * warps, 1, 1],
    sharedMemory,
    cooperative,
    cluster: cluster === 1 ? undefined : [cluster, 1, 1],
    programmatic: programmatic ?? (given.programmatic || undefined),
  }
}

const blocksOf = ([x, y, z]: readonly [number, number, number]): number => x * y * z

/** The configuration of a captured node, such as `node.config`, without what it has of the capture. */
function withoutCaptured(config: unknown, { shape }: LaunchNode): unknown {
  if (!isOptionsObject(config)) return config
  const captured: Readonly<Record<string, unknown>> = { ...shape }
  const own = Object.entries(config).filter(([name, value]) => {
    const isDecided = DECIDED.some((each) => each === name)
    return !isDecided || (value !== undefined && extentText(value) !== extentText(captured[name]))
  })
  return Object.fromEntries(own)
}

/** An extent in one form: 64, [64] and [64, 1, 1] are the same. */
const extentText = (extent: unknown): string => String(extent).replace(/(?:,1){1,2}$/, '')

const sourceOf = (name: string, { given }: Variant): KernelSource => ({
  text: '',
  ptx: new TextEncoder().encode(given.ptx),
  file: `${name}.ptx`,
  options: [],
  host: undefined,
})

/** The kernel on a device. Compiles it unless `prepare()` was called, and blocks meanwhile. */
const kernelOn = (name: string, variant: Variant, device: Device): KernelImpl =>
  variant.kernels.get(device) ??
  add(name, variant, device, driverOf(device).kernels.compileNow(sourceOf(name, variant)))

function add(name: string, variant: Variant, device: Device, image: ModuleImage): KernelImpl {
  const wanted = { name, parameters: variant.parameters, nanoseconds: undefined }
  const kernel = loadKernel(image, device, wanted, variant.given.ptx)
  variant.kernels.set(device, kernel)
  return kernel
}

const isSameMeta = (one: TritonMeta, other: TritonMeta): boolean =>
  [...new Set([...Object.keys(one), ...Object.keys(other)])].every((name) => one[name] === other[name])

function medianOf(milliseconds: readonly number[]): number {
  const sorted = [...milliseconds].sort((a, b) => a - b)
  return Math.round(1e6 * (sorted[Math.floor(sorted.length / 2)] ?? 0))
}
