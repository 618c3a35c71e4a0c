/**
 * Kernels of PTX on the simulated GPU: modules of them, and launches, which are operations like all others. The compiler behind it (src/ptx) has no
 * streams.
 */
import { loadPtx } from '#load-ptx'
import { dataViewOf, SCALAR_ACCESS } from '../foundation/base/element-types.js'
import { explained, messageOf, stateError } from '../foundation/base/errors.js'
import { monotonicTime } from '../foundation/base/event-loop.js'
import { process } from '../foundation/base/node-modules.js'
import { isLater } from '../foundation/base/versions.js'
import { warnOnce } from '../foundation/base/warnings.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import type { Pointer } from '../foundation/driver/handle-types.js'
import { checkParameterSizes, MOST_LOCAL, tooMuchLocalMemory } from '../foundation/driver/kernel-checks.js'
import {
  type DescribeParameter,
  type HostKernel,
  type HostModule,
  type LaunchArgument,
  type LaunchObserver,
  type LaunchShape,
  type PassedType,
  passedNumber,
  type SetConditional,
} from '../foundation/driver/kernel-driver.js'
import type { KernelProfile } from '../foundation/driver/kernel-profile.js'
import { checkParameterKinds, contradicts, ptxParameterTypes } from '../foundation/driver/ptx-parameters.js'
import type { KernelWork } from '../foundation/driver/queued-work.js'
import type * as Ptx from '../ptx/ptx.js'
import { type ComputeCapability, NEWEST_PTX, whyTargetIsRefused } from './compute-capability.js'
import { exactMemory } from './exact-memory.js'
import { compareWithHost, type KernelCode, type ModuleCode } from './host-kernels.js'
import { type ImageText, imageText } from './image-text.js'
import { KernelWorkers } from './launch-workers.js'
import type { SimDevice } from './machine/machine-state.js'
import type { Computation, Slice } from './machine/slice.js'
import { LaunchFault, type Touch, type Work } from './machine/work.js'
import { MULTIPROCESSORS } from './properties.js'
import type { Queued, SimMemory } from './sim-memory.js'
import type { SourceFiles } from './source-files.js'

/**
 * The lanes of a multiprocessor in the model of time. Each does so many instructions in a nanosecond, and memory moves so many bytes in one; a launch
 * takes a moment besides.
 */
const LANES = 128
const CYCLES_PER_NS = 1.755
const BYTES_PER_NS = 4000
const SHORTEST = 2000
/** The bytes that an access counts for in the time of a kernel that has not been run yet; its loops are counted once. */
const BYTES_OF_ACCESS = 4

const LOAD = 'cuModuleLoadData'
/** The most bytes of constant memory of a module. */
const MOST_CONSTANT = 64 * 1024

const MACHINE_CODE = [
  [0x7f, 0x45, 0x4c, 0x46],
  [0x50, 0xed, 0x55, 0xba],
] as const

/** The whole memory: a kernel that follows addresses in memory may touch any of it. */
const EVERYWHERE: Touch = { pointer: 0, byteLength: 2 ** 47, writes: true }

/** The parts of the machine that modules and kernels need. */
export interface PtxParts {
  readonly device: SimDevice
  readonly memory: SimMemory
  /** Picks one of so many blocks that could run next; undefined if they run in order. */
  readonly choose: ((count: number) => number) | undefined
  /** The most instructions of a launch; 0 for a limit that depends on the number of its threads. */
  readonly instructions: number
  /** The number of cores that a long launch uses. */
  readonly cores: number
  /** The accesses at which lanes of a warp go in step. */
  readonly inStep: Ptx.InStep
  /** The files in which inspectors step through kernels; undefined for code that is as fast as it can be. */
  readonly sources: SourceFiles | undefined
  /** The functions that are told what a launch did at each line; launches count that as long as there is one. */
  readonly profilers: ReadonlySet<(profile: KernelProfile) => void>
  /** The blocks that a multiprocessor has room for at the same time, and the part of its warps that they fill. */
  readonly occupancy: (block: LaunchShape['block'], sharedMemory: number) => Occupancy
  readonly setConditional: SetConditional
  /** The textures and surfaces of the machine. */
  readonly textures: Ptx.TextureObjects
  readonly computeCapability: ComputeCapability
}

type Occupancy = Pick<KernelProfile, 'activeBlocks' | 'occupancy'>

/** A module of PTX that is loaded on a device. */
export class PtxModule implements ModuleCode {
  readonly #module: Ptx.PtxModule
  readonly #kernels = new Map<string, PtxKernel>()
  readonly #image: ImageText

  /** Loads a module. Throws ERR_UNSUPPORTED for machine code, and the error of cuModuleLoadData for text that is no PTX. */
  constructor(
    image: Uint8Array,
    private readonly host: HostModule | undefined,
    private readonly parts: PtxParts,
  ) {
    const { memory, device } = parts
    if (MACHINE_CODE.some((magic) => magic.every((byte, index) => image[index] === byte))) throw isMachineCode()
    const variables = new Map<number, () => void>()
    const machine: Ptx.ModuleHost = {
      memory: memory.kernelMemory(),
      allocate: (byteLength) => {
        const { pointer, free } = memory.allocateVariable(byteLength, device)
        variables.set(pointer, free)
        return pointer
      },
      release: (address) => variables.get(address)?.(),
    }
    this.#image = imageText(image)
    this.#module = refusedByLoader(() => new (loadPtx().PtxModule)(this.#image.text, machine))
    const { version, target, constantBytes } = this.#module
    if (isLater(version, NEWEST_PTX)) {
      const why = `The code is PTX ${version}, and drivers for CUDA 13 know PTX up to 9.x, this one, for 13.0, up to ${NEWEST_PTX}: compile it with an older toolkit`
      throw explained(cudaError(LOAD, CUresult.UNSUPPORTED_PTX_VERSION), why)
    }
    const whyNot = whyTargetIsRefused(version, target, parts.computeCapability) ?? this.#refusalAtLoad()
    if (whyNot !== undefined) throw explained(cudaError(LOAD, CUresult.INVALID_PTX), whyNot)
    if (constantBytes > MOST_CONSTANT) {
      throw tooLarge(`The module has ${constantBytes} bytes of constant memory, and at most ${MOST_CONSTANT} fit`)
    }
    if (this.#module.isWhole) refuseTooMuchShared(refusedByLoader(() => this.#module.overlarge()))
  }

  #refusalAtLoad(): string | undefined {
    return this.#module.isWhole ? refusedByLoader(() => this.#module.refusal()) : undefined
  }

  /** Checks a kernel of a long text, with all that it reaches, as all of a shorter one is checked when it is loaded. */
  #check(name: string): void {
    const whyNot = refusedByLoader(() => this.#module.refusal(name))
    if (whyNot !== undefined) throw explained(cudaError(LOAD, CUresult.INVALID_PTX), whyNot)
    refuseTooMuchShared(refusedByLoader(() => this.#module.overlarge(name)))
  }

  /**
   * Looks up a kernel.
   * @throws ERR_UNSUPPORTED for a kernel that the simulator cannot run, the error of `cuModuleGetFunction` if there is none, and that of
   * cuModuleLoadData for one of a long text that is no PTX
   */
  kernel(name: string): PtxKernel {
    const known = this.#kernels.get(name)
    if (known !== undefined) return known
    if (!this.#module.kernels.includes(name)) throw cudaError('cuModuleGetFunction', CUresult.NOT_FOUND)
    if (!this.#module.isWhole) this.#check(name)
    const { localBytes } = ofKernel(name, () => refusedByLoader(() => this.#module.facts(name)))
    if (localBytes > MOST_LOCAL) throw tooMuchLocalMemory(name, localBytes)
    // The kernel is compiled here and not at the first launch, so that a form that does not run is reported at once.
    ofKernel(name, () => this.#module.code(name, codeOptions(this.parts)))
    const kernel = new PtxKernel(name, this.#module, this.#image.text, this.host?.get(name), this.parts)
    this.#kernels.set(name, kernel)
    return kernel
  }

  variable(name: string): { readonly pointer: Pointer; readonly byteLength: number } {
    const found = this.#module.global(name)
    if (found === undefined) throw cudaError('cuModuleGetGlobal', CUresult.NOT_FOUND)
    return { pointer: found.address as Pointer, byteLength: found.byteLength }
  }

  get names(): readonly string[] {
    return this.#module.kernels
  }

  unload(): void {
    const { memory, device } = this.parts
    memory.whenDone(device, 'unload', () => {
      for (const kernel of this.#kernels.values()) kernel.close()
      this.#module.close()
    })
  }
}

/** A kernel of PTX. */
export class PtxKernel implements KernelCode {
  readonly facts: Ptx.KernelFacts
  /** The instructions of a thread, as far as is known: from the text, and then from the latest launch. */
  #instructions: number
  #bytes = 0
  readonly #pace: Pace = { part: FIRST_PART }
  readonly #workers: KernelWorkers | undefined

  constructor(
    readonly name: string,
    private readonly module: Ptx.PtxModule,
    private readonly text: string,
    /** The host implementation to compare with. */
    private readonly host: HostKernel | undefined,
    private readonly parts: PtxParts,
  ) {
    this.facts = module.facts(name)
    this.#instructions = this.facts.instructions
    for (const { use } of this.facts.parameters) if (use !== 'none') this.#bytes += BYTES_OF_ACCESS
    // Workers have inspectors of their own.
    if (parts.cores > 1 && parts.sources === undefined) {
      const { inStep } = parts
      const addresses = (): ReadonlyMap<string, number> => module.code(name, codeOptions(parts)).variables
      this.#workers = new KernelWorkers(parts.cores, () => ({
        text,
        kernel: name,
        addresses: addresses(),
        inStep,
      }))
    }
  }

  close(): void {
    this.#workers?.close()
  }

  /** Throws ERR_INVALID_ARG_VALUE if these are not the types of the kernel's parameters. */
  checkParameters(types: readonly PassedType[], describe?: DescribeParameter): void {
    const { parameters } = this.facts
    checkParameterSizes(
      this.name,
      types,
      parameters.map(({ byteLength }) => byteLength),
      describe,
    )
    if (parameters.every(({ type }, index) => !contradicts(types[index], type))) return
    checkParameterKinds(this.name, types, ptxParameterTypes(this.text).get(this.name) ?? [], describe)
  }

  /**
   * The work of a launch, and the virtual nanoseconds that it takes where the program says so: else the work has its duration.
   * @throws ERR_UNSUPPORTED for a kernel that is loaded, and has instructions that the simulator does not run
   */
  queued(work: KernelWork, types: readonly PassedType[], multiprocessors = MULTIPROCESSORS): Queued {
    const { shape, args, kernel, observer } = work
    if (this.facts.whyNotRun !== undefined)
      throw stateError('ERR_UNSUPPORTED', `Kernel '${this.name}' cannot be launched: ${this.facts.whyNotRun}`)
    if (observer !== undefined) {
      observer.isTold = true
      this.parts.memory.recordKernels()
    }
    const touches = this.#touchesOf(work)
    const held = touches.map(({ pointer }) => this.parts.memory.heldAt(pointer as Pointer))
    const parameters = this.#parametersOf(args, types)
    const compare = this.host === undefined ? undefined : compareWithHost(this.host, work, this.parts.memory)
    const begin = (): Computation =>
      asFaults(this.parts.memory, () => this.#begin(shape, parameters, observer, touches))
    const { nanoseconds = 0 } = kernel
    const duration = kernel.nanoseconds === undefined ? () => this.#durationOf(shape, multiprocessors) : undefined
    return { nanoseconds, work: new PtxWork(kernel.name, touches, held, begin, compare, duration) }
  }

  #begin(
    shape: LaunchShape,
    parameters: Uint8Array,
    observer: LaunchObserver | undefined,
    touches: readonly Touch[],
  ): Computation {
    const { grid, block, sharedMemory, cooperative, cluster = this.facts.requiredCluster } = shape
    const mistakes: Ptx.KernelFinding[] = []
    const mayWrite = (begin: number, bytes: number): boolean =>
      touches.some(
        ({ pointer, byteLength, writes }) => writes && pointer < begin + bytes && begin < pointer + byteLength,
      )
    const report = (found: Ptx.KernelFinding): void => void mistakes.push(found)
    const checks = { recorded: true, checked: true, report, mayWrite }
    const configuration = { grid, block, parameters, dynamicSharedBytes: sharedMemory, cooperative, cluster }
    const { choose, instructions: instructionLimit } = this.parts
    const profilers = [...this.parts.profilers]
    const launch = this.module.launch(this.name, configuration, {
      ...codeOptions(this.parts),
      counted: profilers.length > 0,
      print: (text) => void process.stdout.write(text),
      setConditional: this.parts.setConditional,
      textures: this.parts.textures,
      ...(instructionLimit === 0 ? {} : { instructionLimit }),
      ...(choose === undefined ? {} : { choose }),
      ...(observer === undefined ? { workers: this.#workers } : checks),
    })
    return new LaunchComputation(launch, this.parts.memory, this.#pace, observer !== undefined, (isComplete) => {
      observer?.ran(exactMemory(launch.accesses()), mistakes)
      if (launch.isCheckedInPart) warnOnce('CUDA_STREAMS_CHECKED_IN_PART', checkedInPart(this.name))
      if (!isComplete) return
      if (profilers.length > 0) {
        const profile = this.#profileOf(shape, launch.lines())
        for (const tell of profilers) tell(profile)
      }
      const { instructions, bytes, threads } = launch.statistics
      this.#instructions = instructions / threads
      this.#bytes = bytes / threads
    })
  }

  #profileOf({ grid, block, sharedMemory }: LaunchShape, counts: readonly Ptx.LineCounts[]): KernelProfile {
    const occupancy = this.parts.occupancy(block, sharedMemory + this.facts.staticSharedBytes)
    const lines = counts.map(({ file, line, instructions, threads, ...others }) => ({
      ...{ file, line, instructions, activeThreads: instructions === 0 ? 0 : threads / instructions },
      ...others,
    }))
    return { kernel: this.name, grid, block, ...occupancy, lines }
  }

  #durationOf({ grid, block }: LaunchShape, multiprocessors: number): number {
    const blocks = grid[0] * grid[1] * grid[2]
    const threads = blocks * block[0] * block[1] * block[2]
    const busy = Math.min(blocks, multiprocessors) * LANES * CYCLES_PER_NS
    return Math.ceil(SHORTEST + Math.max((threads * this.#instructions) / busy, (threads * this.#bytes) / BYTES_PER_NS))
  }

  /** The memory that a launch may read and write: from each pointer to the end of the allocation there, and its module's variables. */
  #touchesOf({ args, kernel }: KernelWork): readonly Touch[] {
    const touches: Touch[] = []
    for (const [index, { use, pointer: isPointer }] of this.facts.parameters.entries()) {
      const given = args[index]
      const access = kernel.uses[index]?.access
      if (typeof given === 'object' && !ArrayBuffer.isView(given) && given.object !== undefined) {
        const { pointer, byteLength, object } = given
        touches.push({ pointer, byteLength, writes: object.access !== 'in' })
        continue
      }
      if (use === 'none' || given === undefined || (access === undefined && !isPointer)) continue
      for (const pointer of addressesIn(given)) {
        const byteLength = this.parts.memory.bytesBehind(pointer)
        if (byteLength === 0) continue
        // Where the code does not show what it does, the signature is not believed: it may say `in` of memory that another function writes.
        touches.push({ pointer, byteLength, writes: use !== 'read' })
      }
    }
    if (this.facts.variables) {
      for (const name of this.module.globals) {
        const { address = 0, byteLength = 0 } = this.module.global(name) ?? {}
        touches.push({ pointer: address, byteLength, writes: true })
      }
    }
    return this.facts.otherMemory ? [...touches, EVERYWHERE] : touches
  }

  /** The arguments in the layout that the code expects. */
  #parametersOf(args: readonly LaunchArgument[], types: readonly PassedType[]): Uint8Array {
    const bytes = new Uint8Array(this.facts.parameterBytes)
    const view = dataViewOf(bytes)
    for (const [index, { offset }] of this.facts.parameters.entries()) {
      const given = args[index]
      const type = types[index]
      if (given === undefined || type === undefined) continue
      if (ArrayBuffer.isView(given)) bytes.set(given, offset)
      else if (typeof type === 'string') {
        SCALAR_ACCESS[type].set(view, offset, typeof given === 'object' ? passedNumber(given) : given)
      } else if (typeof given === 'object' && given.encoded !== undefined) bytes.set(given.encoded, offset)
    }
    return bytes
  }
}

/** The options of all code of the machine. */
const codeOptions = ({
  inStep,
  sources,
}: PtxParts): { inStep: Ptx.InStep; findSource: Ptx.FindSource | undefined } => ({
  inStep,
  findSource: sources?.find,
})

const checkedInPart = (kernel: string): string =>
  `The sanitizer has looked for races in global memory at a part of a launch of kernel '${kernel}' only: its warps pass more than four million barriers and releases. Check a smaller launch: fewer blocks, or fewer turns of its loops`

/** The addresses in an argument: it may be an address itself, and a struct may have some among its members. */
function addressesIn(given: LaunchArgument): readonly Pointer[] {
  if (typeof given !== 'object') return [Number(given) as Pointer]
  if (!ArrayBuffer.isView(given)) return [given.pointer]
  const view = dataViewOf(given)
  return Array.from(
    { length: Math.floor(given.byteLength / 8) },
    (_, word) => Number(view.getBigUint64(8 * word, true)) as Pointer,
  )
}

/** The instructions of the first part of a kernel's first launch, and the milliseconds that each later part is to take. */
const FIRST_PART = 100_000
const PART_MS = 1

/** How fast a kernel is, as its latest launch has shown. */
interface Pace {
  /** The instructions of the next part. */
  part: number
}

/** A launch that is computed in parts. */
class LaunchComputation implements Computation {
  constructor(
    private readonly launch: Ptx.KernelLaunch,
    private readonly memory: SimMemory,
    private readonly pace: Pace,
    /** Whether the accesses of the launch are recorded, which those of another one must not mix with. */
    readonly excludesOthers: boolean,
    /** Called when the launch has ended, or has failed. */
    private readonly ended: (isComplete: boolean) => void,
  ) {}

  run(slice?: Slice): boolean {
    let isComplete = false
    let rests = false
    try {
      rests = asFaults(this.memory, () => (slice === undefined ? this.launch.run() === 'more' : !this.#runIn(slice)))
      isComplete = !rests
    } finally {
      if (!rests) this.ended(isComplete)
    }
    return isComplete
  }

  drop(): void {
    this.launch.close()
  }

  #runIn(slice: Slice): boolean {
    for (let before = monotonicTime(); this.launch.run(this.pace.part, slice.left) === 'more'; ) {
      const now = monotonicTime()
      // Parts of a fast kernel grow, as each has a price.
      if (now - before < PART_MS) this.pace.part *= 2
      else this.pace.part = Math.max(1, Math.round((this.pace.part * PART_MS) / (now - before)))
      if (slice.isOver) return false
      before = now
    }
    return true
  }
}

class PtxWork implements Work {
  readonly engine = undefined
  readonly byteLength = undefined
  readonly shape = undefined

  constructor(
    readonly name: string,
    readonly touches: readonly Touch[],
    /** Objects that stay reachable until the launch is done. */
    readonly held: readonly unknown[],
    private readonly begin: () => Computation,
    /** Begins the comparison with a host implementation, and returns the function that ends it. */
    private readonly compare: (() => (() => void) | undefined) | undefined,
    readonly duration: (() => number) | undefined,
  ) {}

  get what(): string {
    return `kernel ${this.name}`
  }

  effect(): void {
    const check = this.compare?.()
    this.begin().run()
    check?.()
  }

  compute(): Computation | undefined {
    // What a host implementation is compared with must not change between the parts.
    return this.compare === undefined ? this.begin() : undefined
  }
}

/** Runs a part of a launch. Faults of the kernel become those of the machine. */
function asFaults<R>(memory: SimMemory, run: () => R): R {
  try {
    return run()
  } catch (error) {
    const { KernelFault, OutOfMachineMemory } = loadPtx()
    if (error instanceof KernelFault) {
      const text = `${textOf(error)}${ofFreed(memory, error.address)}`
      throw new LaunchFault(error.number, text, `Kernel '${error.kernel}'`)
    }
    if (error instanceof OutOfMachineMemory) throw tooMuchMemory(error.message)
    throw error
  }
}

/** The end of the text of a fault at memory that the program has freed. */
function ofFreed(memory: SimMemory, address: number | undefined): string {
  const block = address === undefined ? undefined : memory.blockAt(address as Pointer, 1)
  return block?.freed === true
    ? `. It is byte ${Number(address) - block.pointer} of ${block.byteLength} that were freed before: close the buffer after that work, or pass the buffer in place of its address: it is kept until the work is done`
    : ''
}

/** Loads a module. An error of the text gets the code that a GPU's loader returns, and the message says what is wrong. */
function refusedByLoader<R>(load: () => R): R {
  try {
    return load()
  } catch (error) {
    if (codeOf(error) !== 'ERR_COMPILATION') throw error
    throw explained(cudaError(LOAD, CUresult.INVALID_PTX), messageOf(error))
  }
}

/** Looks at the code of a kernel. The error of an instruction that is not simulated says which kernel has it, and what can run in its place. */
function ofKernel<R>(kernel: string, look: () => R): R {
  try {
    return look()
  } catch (error) {
    if (codeOf(error) !== 'ERR_UNSUPPORTED' || !(error instanceof Error && 'line' in error && 'source' in error))
      throw error
    const { message, line, source } = error
    const way = 'Or let the simulator run JavaScript in its place: simulate in defineKernel()'
    throw Object.assign(stateError('ERR_UNSUPPORTED', `Kernel '${kernel}': ${message}. ${way}`), { line, source })
  }
}

/** The text of a fault. If only the line of the PTX is known, it says how to get that of the source. */
function textOf({ message, line, source }: Ptx.KernelFault): string {
  const lacksSource = source === undefined && line > 0
  return lacksSource
    ? `${message} (compiled with options: ['-lineinfo'], the code has the line of the source)`
    : message
}

const tooLarge = (why: string): Error => explained(cudaError(LOAD, CUresult.INVALID_PTX), why)

function refuseTooMuchShared(kernel: Ptx.OverlargeKernel | undefined): void {
  if (kernel === undefined) return
  const { name, staticSharedBytes } = kernel
  throw tooLarge(
    `Kernel '${name}' declares ${staticSharedBytes} bytes of shared memory, and at most ${loadPtx().MOST_STATIC_SHARED} fit: make it extern __shared__, with its size as config.sharedMemory`,
  )
}

const codeOf = (error: unknown): unknown => (error instanceof Error && 'code' in error ? error.code : undefined)

const tooMuchMemory = (what: string): Error =>
  stateError(
    'ERR_UNSUPPORTED',
    `${what}: the kernels of a simulated machine use at most 4 GiB together. Close buffers, or try a smaller problem`,
  )

const isMachineCode = (): Error =>
  stateError(
    'ERR_UNSUPPORTED',
    'The simulator runs PTX, and this is machine code of a GPU (a cubin or fatbin): load the PTX, as `nvcc --ptx` makes it, or use Program.compile()',
  )
