/**
 * PTX, compiled to WebAssembly: modules, their kernels, and launches of them. This file is what the rest of the library
 * uses of this folder, besides block-machine.ts for workers; docs/internals/ptx.md says what runs and how.
 */
import type { BlockResult, BlockRun, BlockTask, BlockWorkers, RestOfLaunch, WorkerKernel } from './block-workers.js'
import type { Decoded } from './decoding.js'
import { DeviceMemory, OutOfMachineMemory } from './device-memory.js'
import { type KernelFacts, MOST_STATIC_SHARED, type ParameterFacts } from './facts.js'
import { KernelFault, type KernelFinding } from './faults.js'
import type { InStep } from './in-step.js'
import { KernelCode } from './kernel-code.js'
import type { LaneUse } from './lane-shapes.js'
import { KernelLaunch } from './launch.js'
import type { LineCounts } from './launch-counts.js'
import type { LaunchOptions } from './launch-options.js'
import { FUNCTION_WINDOW, type LaunchConfiguration } from './layout.js'
import { functionNumber } from './program.js'
import type { ByteRange, RecordedAccesses } from './recorded-accesses.js'
import {
  DEFAULT_IN_STEP,
  DEFAULT_STACK_BYTES,
  type OverlargeKernel,
  type SharedText,
  sharedText,
} from './shared-text.js'
import type { FindSource } from './source-map.js'
import { type PtxText, ptxError, type Variable } from './syntax.js'
import { encodeTensorMap, TENSOR_ELEMENTS } from './tensor-map.js'
import type { BoundTexture, TextureObjects } from './textures.js'

export {
  type BlockResult,
  type BlockRun,
  type BlockTask,
  type BlockWorkers,
  type BoundTexture,
  type ByteRange,
  DeviceMemory,
  encodeTensorMap,
  type FindSource,
  type InStep,
  type KernelFacts,
  KernelFault,
  type KernelFinding,
  KernelLaunch,
  type LaunchConfiguration,
  type LaunchOptions,
  type LineCounts,
  MOST_STATIC_SHARED,
  OutOfMachineMemory,
  type OverlargeKernel,
  type ParameterFacts,
  type RecordedAccesses,
  type RestOfLaunch,
  TENSOR_ELEMENTS,
  type TextureObjects,
  type WorkerKernel,
}

export interface ModuleHost {
  /** The memory of the machine that the module is loaded on. */
  readonly memory: DeviceMemory
  /**
   * Chooses an address for a variable of the module, as for an allocation: a multiple of `alignment`, below ENGINE_BEGIN. The module adds it to the
   * memory, and removes it with `close`.
   */
  allocate(byteLength: number, alignment: number, name: string): number
  /** Frees the address of a variable. */
  release?(address: number): void
}

export interface CodeOptions {
  /** Records which bytes a launch reads and writes, and finds reads of bytes that nothing wrote. */
  readonly recorded?: boolean
  /** Finds races within shared memory. */
  readonly checked?: boolean
  /** Counts what warps do at each line; the code takes many times as long. */
  readonly counted?: boolean
  /** Runs threads as lanes of SIMD: where that takes less time, wherever they can, or never. Default: 'paying'; tests compare all. */
  readonly lanes?: LaneUse
  /**
   * The stack of a thread, in bytes, for kernels whose functions call each other in a circle or through pointers. Default:
   * 16384; others have what they need.
   */
  readonly stackBytes?: number
  /** The accesses before which lanes of a warp come together. Default: volatile ones. */
  readonly inStep?: InStep
  /** Finds the files that `.loc` names: the code is made for stepping, with a source map, and takes several times as long. Default: it is not. */
  readonly findSource?: FindSource | undefined
}

const DEFAULT_LANES: LaneUse = 'paying'
/**
 * A module of PTX that is loaded on a machine. The text is read at once, the bodies of a long one when they are used first (shared-text.ts); a kernel
 * is compiled when it is used first, so that a form that is not supported makes only those kernels unusable that can reach it.
 */
export class PtxModule {
  readonly #shared: SharedText
  readonly #addresses = new Map<string, number>()
  readonly #codes = new Map<string, KernelCode>()

  /**
   * @param isWhole Whether all bodies are read now. Default: unless the text is long
   * @throws ERR_COMPILATION for text that is no PTX; ERR_UNSUPPORTED for 32-bit addresses; each with `line`
   */
  constructor(
    private readonly text: string,
    private readonly host: ModuleHost,
    isWhole?: boolean,
  ) {
    this.#shared = withCode(() => sharedText(text, isWhole))
  }

  get #text(): PtxText {
    return this.#shared.parsed
  }

  /** The PTX version that the text gives, such as '8.7'. */
  get version(): string {
    return this.#text.version
  }

  /** The target that the text gives, such as 'sm_90a'. */
  get target(): string {
    return this.#text.target
  }

  /** Whether all bodies were read when the module was loaded, and not only those that are used, when they are used. */
  get isWhole(): boolean {
    return this.#shared.isWhole
  }

  /**
   * The reason why an assembler refuses the text, or what a kernel reaches, if one is named, since the text's version or target lacks something that
   * is used, or an operand cannot be where it is; undefined if it does not.
   * @throws ERR_COMPILATION for a body that is no PTX
   */
  refusal(kernel?: string): string | undefined {
    return withCode(() => this.#shared.refusal(kernel))
  }

  /**
   * The first kernel, or the named one, that declares more shared memory than any GPU has; undefined if there is none.
   * @throws ERR_COMPILATION for a kernel that is wrong
   */
  overlarge(kernel?: string): OverlargeKernel | undefined {
    return withCode(() => (kernel === undefined ? this.#shared.overlarge() : this.#shared.overlargeKernel(kernel)))
  }

  /** The bytes of all variables in constant memory together. */
  get constantBytes(): number {
    return [...this.#text.variables.values()]
      .filter(({ space, external }) => !external && space === 'const')
      .reduce((sum, { byteLength }) => sum + byteLength, 0)
  }

  /** The names of the kernels. */
  get kernels(): readonly string[] {
    return this.#shared.kernels
  }

  /** The names of the variables in global and constant memory. */
  get globals(): readonly string[] {
    return [...this.#text.variables.values()]
      .filter(({ space, external }) => !external && (space === 'global' || space === 'const'))
      .map(({ name }) => name)
  }

  /**
   * The facts about a kernel.
   * @throws ERR_UNSUPPORTED, ERR_COMPILATION, as `code` does
   */
  facts(kernel: string): KernelFacts {
    return withCode(() => this.#shared.facts(kernel))
  }

  /**
   * The compiled code of a kernel.
   * @throws ERR_UNSUPPORTED for a form that the simulator does not run, with its line and the way out; ERR_COMPILATION for a kernel that does not
   * exist, and for code that is wrong; OutOfMachineMemory
   */
  code(kernel: string, options: CodeOptions = {}): KernelCode {
    const { recorded = false, checked = false, counted = false, lanes = DEFAULT_LANES } = options
    const { stackBytes = DEFAULT_STACK_BYTES, inStep = DEFAULT_IN_STEP, findSource } = options
    const isStepped = findSource !== undefined
    const sources = findSource && {
      find: findSource,
      ptx: { url: `cuda-streams:///${kernel}.ptx`, text: this.text },
    }
    const key = `${recorded},${checked},${counted},${lanes},${stackBytes},${inStep},${isStepped},${kernel}`
    const known = this.#codes.get(key)
    if (known !== undefined) return known
    const code = withCode(() => {
      const address = (variable: string, decoded: Decoded): bigint => BigInt(this.#addressOf(variable, decoded))
      return new KernelCode(
        this.#shared.program(kernel, { stackBytes, inStep, isStepped }),
        this.host.memory,
        { recorded, checked, counted, lanes, sources },
        address,
      )
    })
    this.#codes.set(key, code)
    return code
  }

  /** A launch, which does nothing until `run` is called. Throws as `code` does. */
  launch(kernel: string, configuration: LaunchConfiguration, options: LaunchOptions & CodeOptions = {}): KernelLaunch {
    return new KernelLaunch(this.code(kernel, options), configuration, options)
  }

  /** The address and the length of a variable; undefined if the module has none of that name. */
  global(name: string): { readonly address: number; readonly byteLength: number } | undefined {
    const variable = this.#text.variables.get(name)
    if (variable === undefined || (variable.space !== 'global' && variable.space !== 'const')) return undefined
    return { address: this.#addressOf(name, undefined), byteLength: variable.byteLength }
  }

  /** Frees the memory of the code and of the variables. No launch may run any more. */
  close(): void {
    for (const code of this.#codes.values()) code.close()
    for (const address of this.#addresses.values()) {
      this.host.memory.remove(address)
      this.host.release?.(address)
    }
    this.#codes.clear()
    this.#addresses.clear()
  }

  #addressOf(name: string, decoded: Decoded | undefined): number {
    const known = this.#addresses.get(name)
    if (known !== undefined) return known
    const variable = this.#text.variables.get(name)
    if (variable === undefined || variable.external) {
      const place = decoded?.instruction ?? { line: variable?.line ?? 1 }
      throw ptxError('ERR_COMPILATION', `The variable '${name}' is not in this module: link it in`, place)
    }
    const byteLength = Math.max(1, variable.byteLength)
    const address = this.host.allocate(byteLength, Math.max(32, variable.alignment), name)
    this.#addresses.set(name, address)
    this.host.memory.add(address, byteLength, { load: (bytes) => this.#initialise(variable, bytes) })
    return address
  }

  #initialise(variable: Variable, bytes: Uint8Array): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    for (const { offset, bytes: width, value, symbol } of variable.initial) {
      if (offset + width > bytes.byteLength) break
      let whole = value
      if (symbol !== undefined) {
        const fn = this.#text.functions.get(this.#text.aliases.get(symbol) ?? symbol)
        if (fn !== undefined) whole += FUNCTION_WINDOW + BigInt(16 * functionNumber(this.#text, fn.name))
        else whole += BigInt(this.#addressOf(symbol, undefined))
      }
      if (width === 8) view.setBigInt64(offset, BigInt.asIntN(64, whole), true)
      else if (width === 4) view.setInt32(offset, Number(BigInt.asIntN(32, whole)), true)
      else if (width === 2) view.setInt16(offset, Number(BigInt.asIntN(16, whole)), true)
      else view.setInt8(offset, Number(BigInt.asIntN(8, whole)))
    }
  }
}

/**
 * The facts about each kernel of a text, without a machine to load it on; keys are the kernels' names. A kernel that does not run here has the error
 * that `PtxModule.code` throws.
 * @throws ERR_COMPILATION, ERR_UNSUPPORTED, as `new PtxModule` does
 */
export function readKernelFacts(text: string): ReadonlyMap<string, KernelFacts | Error> {
  const shared = withCode(() => sharedText(text, true))
  const facts = (kernel: string): KernelFacts | Error => {
    try {
      return withCode(() => shared.facts(kernel))
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error))
    }
  }
  return new Map(shared.kernels.map((name) => [name, facts(name)]))
}

/** Runs the compiler; an error of its own on strange text, such as a stack overflow, becomes an error of the text. */
function withCode<T>(run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (error instanceof Error && 'code' in error) throw error
    const why = error instanceof Error ? error.message : String(error)
    throw Object.assign(ptxError('ERR_COMPILATION', `This PTX cannot be compiled (${why})`, { line: 1 }), {
      cause: error,
    })
  }
}
