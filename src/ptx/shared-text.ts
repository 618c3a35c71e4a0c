/**
 * Texts of PTX with all that was made of them. Modules of one text share it, whatever simulation they belong to: it is the same for all of them. Nothing
 * is kept for longer than a module has it and garbage collection leaves it.
 */
import { factsOf, type KernelFacts, MOST_STATIC_SHARED } from './facts.js'
import type { InStep } from './in-step.js'
import { whyOperandsAreRefused } from './operand-rules.js'
import { parseDeclarations, parsePtx } from './parser.js'
import { checkProgram, type KernelProgram, type ProgramOptions, prepareProgram } from './program.js'
import { whyFormsAreRefused } from './requirements.js'
import type { Operand, PtxFunction, PtxText } from './syntax.js'

/** The characters of the longest text that is read and checked whole when it is loaded: an assembler does so with every text. */
export const MOST_READ_AT_ONCE = 256 * 1024

export const DEFAULT_STACK_BYTES = 16384
export const DEFAULT_IN_STEP: InStep = 'volatile'
/** The program of a kernel as its code has it by default, so that facts and code share one. */
const FOR_FACTS: ProgramOptions = { stackBytes: DEFAULT_STACK_BYTES, inStep: DEFAULT_IN_STEP, isStepped: false }

/** The work that this thread has done on texts so far: what is shared is done once. */
export const textWork = { texts: 0, bodies: 0, programs: 0 }

/** A kernel that declares more shared memory than a GPU has for the variables of one. */
export interface OverlargeKernel {
  readonly name: string
  readonly staticSharedBytes: number
}

export class SharedText {
  readonly parsed: PtxText
  /** The names of the kernels. */
  readonly kernels: readonly string[]
  readonly #programs = new Map<string, KernelProgram>()
  readonly #facts = new Map<string, KernelFacts>()
  /** The refusals that are known: of kernels by their names, and of the whole text by none. */
  readonly #refusals = new Map<string | undefined, string | undefined>()
  /** The shared memory of kernels that were checked, by their names; undefined for one that does not run. */
  readonly #staticShared = new Map<string, number | undefined>()
  #overlarge: { readonly kernel: OverlargeKernel | undefined } | undefined

  /** @param isWhole Whether all bodies are read and checked, and not only those that are used, when they are used */
  constructor(
    text: string,
    readonly isWhole: boolean,
  ) {
    textWork.texts++
    this.parsed = isWhole ? parsePtx(text) : parseDeclarations(text, () => void textWork.bodies++)
    const functions = [...this.parsed.functions.values()]
    if (isWhole) textWork.bodies += functions.filter(({ isDefined }) => isDefined).length
    this.kernels = functions.filter(({ entry, isDefined }) => entry && isDefined).map(({ name }) => name)
  }

  /** The reason why an assembler refuses the text for its instructions, or what a kernel reaches, if one is named; undefined if it does not. */
  refusal(kernel: string | undefined): string | undefined {
    if (!this.#refusals.has(kernel)) {
      const functions = kernel === undefined ? [...this.parsed.functions.values()] : this.#reachedFrom(kernel)
      const why = whyFormsAreRefused(this.parsed, functions) ?? whyOperandsAreRefused(this.parsed, functions)
      this.#refusals.set(kernel, why)
    }
    return this.#refusals.get(kernel)
  }

  /** The first kernel that declares too much shared memory. A kernel that does not run is none. */
  overlarge(): OverlargeKernel | undefined {
    this.#overlarge ??= { kernel: this.kernels.map((name) => this.overlargeKernel(name)).find(Boolean) }
    return this.#overlarge.kernel
  }

  /** The kernel with this name if it declares too much shared memory. */
  overlargeKernel(name: string): OverlargeKernel | undefined {
    if (!this.#staticShared.has(name)) this.#staticShared.set(name, this.#staticSharedOf(name))
    const staticSharedBytes = this.#staticShared.get(name) ?? 0
    return staticSharedBytes > MOST_STATIC_SHARED ? { name, staticSharedBytes } : undefined
  }

  #staticSharedOf(name: string): number | undefined {
    try {
      return checkProgram(this.parsed, name, FOR_FACTS)
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ERR_UNSUPPORTED') return undefined
      throw error
    }
  }

  program(kernel: string, options: ProgramOptions): KernelProgram {
    const key = `${options.stackBytes},${options.inStep},${options.isStepped},${kernel}`
    let program = this.#programs.get(key)
    if (program === undefined) {
      textWork.programs++
      program = prepareProgram(this.parsed, kernel, options)
      this.#programs.set(key, program)
    }
    return program
  }

  facts(kernel: string): KernelFacts {
    let facts = this.#facts.get(kernel)
    if (facts === undefined) {
      facts = factsOf(this.program(kernel, FOR_FACTS))
      this.#facts.set(kernel, facts)
    }
    return facts
  }

  /** A kernel with all functions that its instructions and theirs name. */
  #reachedFrom(kernel: string): readonly PtxFunction[] {
    const reached = new Set<PtxFunction>()
    const visit = (operand: Operand): void => {
      if (operand.kind === 'list') operand.items.forEach(visit)
      else if (operand.kind === 'symbol') add(operand.name)
    }
    const add = (name: string): void => {
      const fn = this.parsed.functions.get(this.parsed.aliases.get(name) ?? name)
      if (fn?.isDefined === true) reached.add(fn)
    }
    add(kernel)
    // A set is walked to its end, with all that is added meanwhile.
    for (const { body = [] } of reached) for (const { operands } of body) operands.forEach(visit)
    return [...reached]
  }
}

const texts = new Map<string, WeakRef<SharedText>>()
const collected = new FinalizationRegistry(({ text, shared }: { text: string; shared: WeakRef<SharedText> }) => {
  if (texts.get(text) === shared) texts.delete(text)
})

/**
 * The text with what was made of it before.
 * @param isWhole Whether all bodies are read and checked now. Default: those of a text of usual length
 * @throws ERR_COMPILATION, ERR_UNSUPPORTED, as `parsePtx` does
 */
export function sharedText(text: string, isWhole = text.length <= MOST_READ_AT_ONCE): SharedText {
  const known = texts.get(text)?.deref()
  if (known?.isWhole === isWhole) return known
  const made = new SharedText(text, isWhole)
  const shared = new WeakRef(made)
  texts.set(text, shared)
  collected.register(made, { text, shared })
  return made
}

/** The number of texts that are kept. */
export const keptTexts = (): number => texts.size
