/** A file of Python as a module of JavaScript: its Triton kernels, compiled once, each with the signature that the file declares. */
import { createHash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import type { Access, ParameterType, ScalarType } from '../../core/kernels/kernel-signature.js'
import type { TritonVariant } from '../../core/kernels/triton-kernel.js'
import { checkText, readOptions } from '../../foundation/base/arguments.js'
import { invalidValue, messageOf, stateError } from '../../foundation/base/errors.js'
import { cacheFolder } from '../../foundation/native/cache-folder.js'
import { type KernelFacts, type ParameterFacts, readKernelFacts } from '../../ptx/ptx.js'
import { type CuDiagnostic, diagnostic, refuse } from '../diagnostics.js'
import { readCached, writeCached } from '../ptx-cache.js'
import { type Answer, type BuiltKernel, type BuiltVariant, parseAnswer } from './answer.js'
import { COMPILE_KERNELS } from './compile-kernels.js'
import type { CompiledTriton, CompiledTritonKernel, TritonOptions } from './compiled-triton.js'
import { type Printed, pythonFor, runPython, runPythonNow, WAY_OUT } from './find-python.js'
import { freeName, tritonDeclarationText, tritonModuleText } from './triton-module.js'
import { tritonPtx } from './triton-ptx.js'

const TRITON_OPTIONS = ['arch', 'python'] as const

const DEFAULT_ARCH = 'compute_80'

/** Is the text a file with kernels of Triton? Others that end in .py are left alone. */
export const hasTritonKernels = (text: string): boolean =>
  /\btriton\b/.test(text) && /^[ \t]*@(?:\w+\.)*jit\b/m.test(text)

/**
 * Compiles the Triton kernels of a file: by Triton's own compiler, in a process of Python, without a GPU, or not at all if the file was compiled before
 * with the same options. Of the file only those statements are run that its kernels need; PyTorch is not needed.
 * @param file The path of the file.
 * @param options `arch`, the architecture (default: 'compute_80'), and `python`, the Python that has Triton
 * @throws {Error} (as a rejection) ERR_COMPILATION, a `CuError` with places and code frames, for mistakes in the source, and for kernels
 * whose types nothing says; ERR_UNSUPPORTED without Triton; ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE
 * @example
 * ```ts
 * const { module, declaration } = await compileTriton('kernels/softmax.py')
 * ```
 */
export async function compileTriton(file: string, options?: TritonOptions): Promise<CompiledTriton> {
  const unit = unitOf(file, options)
  return finish(unit, unit.known() ?? unit.answered(await runPython(unit.python(), unit.request)))
}

/**
 * Does the same as `compileTriton()`, but blocks until the file is compiled: for callers that cannot await, such as hooks of Node's modules.
 * @param file The path of the file.
 * @param options as for `compileTriton()`
 * @throws {Error} as `compileTriton()`
 */
export function compileTritonNow(file: string, options?: TritonOptions): CompiledTriton {
  const unit = unitOf(file, options)
  return finish(unit, unit.known() ?? unit.answered(runPythonNow(unit.python(), unit.request)))
}

/** A file with everything that its compilation needs. */
interface Unit {
  readonly file: string
  readonly text: string
  readonly request: string
  readonly python: () => string
  /** What was answered before, if nothing has changed since. */
  readonly known: () => Answer | undefined
  /** What Python says, which is kept. */
  readonly answered: (printed: Printed) => Answer
}

/** An answer in the cache, with what it depends on besides the request. */
interface Kept {
  readonly files: readonly { readonly path: string; readonly stamp: string }[]
  readonly answer: Answer
}

function unitOf(path: string, options: TritonOptions | undefined): Unit {
  const file = resolve(checkText(path, 'file', 'the path of a file of Python'))
  const given = readOptions(options, TRITON_OPTIONS)
  const arch = architecture(given.arch ?? DEFAULT_ARCH)
  const named = given.python === undefined ? undefined : checkText(given.python, 'options.python', 'a path')
  const text = textOfFile(file)
  const triton = cacheFolder('triton')
  const threads = Math.min(MOST_THREADS, availableParallelism())
  const cache = 'folder' in triton ? triton.folder : ''
  const request = JSON.stringify({ file, arch, cache, threads })
  const python = (): string => pythonFor(file, named)
  const kept = cache === '' ? undefined : `${cache}/${keyOf(file, text, arch, python)}.json`
  return {
    file,
    text,
    request,
    python,
    known: () => readKept(kept),
    answered: (printed) => {
      const answer = checkedAnswer(file, printed)
      if (answer.diagnostics.length === 0) keep(kept, answer)
      return answer
    },
  }
}

const MOST_THREADS = 8

function architecture(given: unknown): number {
  const text = checkText(given, 'options.arch', "a text such as 'compute_80'")
  const [, number] = /^(?:compute_|sm_)?(\d{2,3})[af]?$/.exec(text) ?? []
  if (number !== undefined) return Number(number)
  throw invalidValue(`options.arch is '${text}': it must be such as 'compute_80' or 'compute_90'`)
}

function textOfFile(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw invalidValue(`file is '${file}', which cannot be read (${messageOf(error)}): name a file of Python`)
  }
}

function keyOf(file: string, text: string, arch: number, python: () => string): string {
  const variables = Object.entries(process.env).filter(([name]) => /^(?:TRITON_|PYTHONPATH$)/.test(name))
  const given = JSON.stringify([COMPILE_KERNELS, file, text, arch, python(), variables.sort()])
  return createHash('sha256').update(given).digest('hex')
}

/** What changes with a file: its text, or for Triton, which is large, its size and time. */
function stampOf(path: string, isTriton: boolean): string {
  if (!isTriton) return createHash('sha256').update(readFileSync(path)).digest('hex')
  const { size, mtimeMs } = statSync(path)
  return `${size} ${mtimeMs}`
}

function readKept(path: string | undefined): Answer | undefined {
  const bytes = readCached(path)
  if (bytes === undefined) return undefined
  try {
    const { files, answer }: Kept = JSON.parse(new TextDecoder().decode(bytes))
    const isSame = files.every(({ path, stamp }, index) => stampOf(path, index === 0) === stamp)
    return isSame ? answer : undefined
  } catch {
    // A file that it depends on is gone.
    return undefined
  }
}

function keep(path: string | undefined, answer: Answer): void {
  if (answer.triton === null) return
  const files = [answer.triton.file, ...answer.includes].map((path, index) => ({
    path,
    stamp: stampOf(path, index === 0),
  }))
  writeCached(path, new TextEncoder().encode(JSON.stringify({ files, answer } satisfies Kept)))
}

const MOST_LINES = 12

function checkedAnswer(file: string, { output, complaints }: Printed): Answer {
  const answer = parseAnswer(output)
  if (answer === undefined) {
    const last = complaints.trimEnd().split('\n').slice(-MOST_LINES).join('\n')
    throw stateError('ERR_COMPILATION', `Python ended while it compiled ${file}:\n${last}`)
  }
  if (answer.missing === null) return answer
  throw stateError(
    'ERR_UNSUPPORTED',
    `${file} is compiled by Triton, which ${answer.executable} lacks (${answer.missing}): ${WAY_OUT}`,
  )
}

function finish(
  { file, text }: Unit,
  { diagnostics, kernels: built, includes, notes, triton }: Answer,
): CompiledTriton {
  const texts = new Map([[file, text]])
  const textOf = (path: string): string => texts.get(path) ?? textOfFile(path)
  if (diagnostics.length > 0) {
    const said = diagnostics.map(({ file: path, message, ...at }) => diagnostic(path, textOf(path), at, message))
    refuse(`${file} does not compile`, said, includes)
  }
  if (built.length === 0) {
    const nothing = diagnostic(
      file,
      text,
      { line: 1, column: 1 },
      'There is no kernel in this file: a function with @triton.jit is one',
    )
    refuse(`${file} has nothing to launch`, [nothing], includes, notes.join('\n'))
  }
  const library = (triton?.file ?? '').replace(/[/\\][^/\\]*$/, '')
  const isOwn = (path: string): boolean => !path.startsWith(library)
  const mistakes: CuDiagnostic[] = []
  const own: string[] = [...notes]
  const names = new Set<string>()
  const kernels = built.map((each): CompiledTritonKernel => {
    const name = freeName(each.name)
    const at = { line: each.line, column: each.column }
    if (names.has(name))
      mistakes.push(
        diagnostic(
          file,
          text,
          at,
          `two kernels are exported as ${name}: give one another name, as in '# cuda-streams: other = ${each.name}(…)'`,
        ),
      )
    names.add(name)
    const configs = each.configs.map(({ meta, variants }) => ({
      meta,
      variants: variantsOf(variants, name, each.parameters.length, isOwn),
    }))
    const facts = each.configs.flatMap(({ variants }, index) =>
      (configs[index]?.variants ?? []).map((variant): Known => {
        const found = readKernelFacts(variant.ptx).get(name)
        const why = found instanceof Error ? found.message : found?.whyNotRun
        if (why !== undefined) own.push(`${name} does not run on the simulator: ${why}`)
        return { facts: found instanceof Error ? undefined : found, ones: variants[0]?.ones ?? [] }
      }),
    )
    const signature = each.parameters.map(({ name: parameter, type }, index): ParameterType => {
      const found = typeOf(
        type,
        facts.map((known) => parameterOf(known, index)),
      )
      if (found !== undefined) return found
      const message = `'${parameter}: ${type}' of ${name} is a type that JavaScript has no value for: pass a pointer, or make it in the kernel`
      mistakes.push(diagnostic(file, text, at, message))
      return 'i32'
    })
    return {
      name,
      signature,
      parameterNames: each.parameters.map((parameter) => parameter.name),
      configs,
      key: keyIndexes(each),
      file,
      ...at,
      comment: each.comment,
    }
  })
  if (mistakes.length > 0) refuse(`${file} has kernels that cannot be launched from JavaScript`, mistakes, includes)
  const made = { file, kernels, includes, notes: [...new Set(own)] }
  return { ...made, module: tritonModuleText(made), declaration: tritonDeclarationText(made) }
}

const keyIndexes = ({ key, parameters }: BuiltKernel): readonly number[] =>
  key.flatMap((name) => {
    const index = parameters.findIndex((parameter) => parameter.name === name && !parameter.type.startsWith('*'))
    return index < 0 ? [] : [index]
  })

/** The variants, without those whose code is that of one with fewer conditions. */
function variantsOf(
  built: readonly BuiltVariant[],
  name: string,
  parameters: number,
  isOwn: (file: string) => boolean,
): readonly TritonVariant[] {
  const variants = built.map((each): TritonVariant => {
    const scratchPointers = parametersIn(each.ptx) - (parameters - each.ones.length)
    const { divisible, ones, warps, shared, cluster, cooperative, programmatic, globalScratch, profileScratch } = each
    return {
      ptx: tritonPtx(each.ptx, each.entry, name, isOwn),
      warps,
      ...(divisible.length > 0 && { divisible }),
      ...(ones.length > 0 && { ones }),
      ...(shared > 0 && { sharedMemory: shared }),
      ...(cluster > 1 && { cluster }),
      ...(cooperative && { cooperative }),
      ...(programmatic && { programmatic }),
      ...(globalScratch > 0 && { globalScratch }),
      ...(profileScratch > 0 && { profileScratch }),
      ...(scratchPointers !== 2 && { scratchPointers }),
    }
  })
  return variants.filter(({ ptx }, index) => variants[index + 1]?.ptx !== ptx)
}

/** The number of parameters of the kernel, with those that Triton adds. */
const parametersIn = (ptx: string): number => /\.entry[^(]*\(([^)]*)\)/.exec(ptx)?.[1]?.split(',').length ?? 0

interface Known {
  readonly facts: KernelFacts | undefined
  readonly ones: readonly number[]
}

/** What the code says of a parameter; undefined if it does not take it. */
function parameterOf({ facts, ones }: Known, index: number): ParameterFacts | undefined {
  if (ones.includes(index)) return undefined
  return facts?.parameters[index - ones.filter((each) => each < index).length]
}

const TYPES: Readonly<Record<string, ScalarType>> = {
  i1: 'bool',
  u1: 'bool',
  i8: 'i8',
  i16: 'i16',
  i32: 'i32',
  i64: 'i64',
  u8: 'u8',
  u16: 'u16',
  u32: 'u32',
  u64: 'u64',
  fp16: 'f16',
  bf16: 'bf16',
  fp32: 'f32',
  fp64: 'f64',
}

function typeOf(type: string, known: readonly (ParameterFacts | undefined)[]): ParameterType | undefined {
  const name = type.replace(/^\*k?/, '')
  // JavaScript has no numbers of 8 bits with a fraction: they are bytes.
  const scalar = TYPES[name] ?? (/^fp8/.test(name) ? 'u8' : undefined)
  if (scalar === undefined || !type.startsWith('*')) {
    // Triton passes a half as the float that it was.
    const isWide = known.some((each) => each?.byteLength === 4)
    return isWide && (scalar === 'f16' || scalar === 'bf16') ? 'f32' : scalar
  }
  const [access = 'inout', ...others] = new Set(known.map(accessOf))
  return `${others.length === 0 ? access : 'inout'} ${scalar}*`
}

function accessOf(known: ParameterFacts | undefined): Access {
  if (known === undefined || known.use === 'unknown') return 'inout'
  if (known.onlyAtomic) return 'atomic'
  return known.use === 'read-write' ? 'inout' : known.use === 'write' ? 'out' : 'in'
}
