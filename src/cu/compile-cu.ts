/** A file of CUDA C++ as a module of JavaScript: its kernels, compiled once, each with the signature that the compiler and the code say. */
import { readFileSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import type { Access, ParameterType, StructPointer } from '../core/kernels/kernel-signature.js'
import { checkText, readOptions } from '../foundation/base/arguments.js'
import type { FieldType, Struct } from '../foundation/base/element-layout.js'
import { invalidValue, messageOf } from '../foundation/base/errors.js'
import {
  type CompiledSource,
  compileCuda,
  compileCudaNow,
  compilerLog,
  cudaHeaderFolders,
} from '../foundation/native/nvrtc.js'
import { type KernelFacts, MOST_STATIC_SHARED, type ParameterFacts, readKernelFacts } from '../ptx/ptx.js'
import type { CompiledCu, CuKernel } from './compiled-cu.js'
import { declarationText, isReserved, moduleText } from './cu-module.js'
import { CU_OPTIONS, type CuOptions, readCuOptions, refusedOption } from './cu-options.js'
import { CuTypes } from './cu-types.js'
import { DeviceSources, type SourceKernel } from './device-source.js'
import { type CuDiagnostic, diagnostic, diagnosticsIn, refuse } from './diagnostics.js'
import { foldersIn, type Includes, includesOf } from './includes.js'
import { cachedFile, readCached, writeCached } from './ptx-cache.js'
import { forOldDrivers, renamed, withoutPlaces, withoutUnusedVariables } from './ptx-text.js'
import {
  type Probed,
  type ProbedType,
  probeDeclarations,
  readProbes,
  withoutProbes,
  withoutVariables,
} from './signature-probe.js'
import { positionOf, spaced } from './source-text.js'
import { standardHeaders } from './standard-headers.js'
import { isType, type TemplateParameter } from './template-arguments.js'

/** Headers that a file gets without including them, as by nvcc. */
const IMPLICIT_HEADERS = ['stdint.h', 'math.h']
const IMPLICIT = IMPLICIT_HEADERS.map((name) => `#include <${name}>\n`).join('')

/**
 * Compiles a file of CUDA C++ by NVRTC, on a thread of its own: all of its kernels at once, or not at all if it was compiled before with
 * the same options. Functions of the host that the file has are left out; headers that NVRTC lacks, such as cuda_runtime.h and stdio.h,
 * are replaced.
 * @param file The path of the file.
 * @param options `arch`, the lowest architecture (default: 'compute_75'), `cubins`, the architectures for which it is machine code, too, and
 * more `options` for NVRTC
 * @throws {Error} (as a rejection) ERR_COMPILATION, a `CuError` with places and code frames, for mistakes in the source, and for
 * parameters that no signature can have, such as a union by value; ERR_UNSUPPORTED without NVRTC, which needs no GPU;
 * ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE
 * @example
 * ```ts
 * const { module, declaration } = await compileCu('kernels/axpy.cu')
 * ```
 */
export async function compileCu(file: string, options?: CuOptions): Promise<CompiledCu> {
  const unit = unitOf(file, options)
  const codes: Uint8Array[] = []
  for (const step of unit.steps) {
    try {
      codes.push(knownCode(step) ?? keptCode(step, await compileCuda(step.source, step.output)))
    } catch (error) {
      explain(unit, step, error)
    }
  }
  return finish(unit, codes)
}

/**
 * Does the same as `compileCu()`, but blocks until the file is compiled: for callers that cannot await, such as hooks of Node's
 * modules.
 * @param file The path of the file.
 * @param options as for `compileCu()`
 * @throws {Error} as `compileCu()`
 */
export function compileCuNow(file: string, options?: CuOptions): CompiledCu {
  const unit = unitOf(file, options)
  const codes = unit.steps.map((step) => {
    try {
      return knownCode(step) ?? keptCode(step, compileCudaNow(step.source, step.output))
    } catch (error) {
      return explain(unit, step, error)
    }
  })
  return finish(unit, codes)
}

const knownCode = ({ source, output }: Step): Uint8Array | undefined => readCached(cachedFile(source, output))

function keptCode({ source, output }: Step, code: Uint8Array): Uint8Array {
  writeCached(cachedFile(source, output), code)
  return code
}

/** A run of the compiler. */
interface Step {
  /** The architecture in the form that the compiler's options use. */
  readonly architecture: string
  readonly output: 'cubin' | 'ptx'
  readonly source: CompiledSource
}

/** A file with everything that its compilation needs. */
interface Unit {
  readonly file: string
  readonly sources: DeviceSources
  readonly includes: Includes
  /** The name that the compiler has for the file. */
  readonly name: string
  /**
   * The runs of the compiler: first for the PTX, then for each architecture with a cubin one for its PTX, which describes the
   * kernels, and one for the cubin.
   */
  readonly steps: readonly Step[]
  /** The texts of the project's files, as people wrote them, by path. */
  readonly texts: ReadonlyMap<string, string>
}

function unitOf(path: string, options: CuOptions | undefined): Unit {
  const file = resolve(checkText(path, 'file', 'the path of a file of CUDA C++'))
  const { arch, cubins, more } = readCuOptions(readOptions(options, CU_OPTIONS))
  const text = textOfFile(file)
  const includes = includesOf(file, text, foldersIn(more, process.cwd()), cudaHeaderFolders())
  const sources = new DeviceSources()
  const headers = new Map([...standardHeaders(IMPLICIT_HEADERS), ...includes.standIns])
  for (const { name, file: header, text: content } of includes.own) headers.set(name, sources.add(header, content))
  const name = basename(file)
  const own = sources.add(file, text)
  const probes = probeDeclarations(
    sources.structs.map(({ members, refused }) => (refused === undefined ? members : [])),
  )
  const code = `${IMPLICIT}${probes}#line 1 "${name}"\n${own}`
  const step = (architecture: string, output: Step['output'], own: readonly string[]): Step => {
    const target = output === 'ptx' ? architecture.replace('sm_', 'compute_') : architecture
    const all = [`--gpu-architecture=${target}`, ...own, '-diag-suppress=177', ...more]
    return { architecture, output, source: { text: code, file: name, options: all, headers } }
  }
  const steps = [
    step(arch, 'ptx', ['-lineinfo']),
    ...cubins.flatMap((sm) => [
      step(sm, 'ptx', ['-lineinfo']),
      // Line tables of machine code name where headers lie on this machine.
      step(sm, 'cubin', withoutVariables),
    ]),
  ]
  const texts = new Map([[file, text], ...includes.own.map(({ file, text }): [string, string] => [file, text])])
  return { file, name, sources, includes, steps, texts }
}

function textOfFile(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw invalidValue(`file is '${file}', which cannot be read (${messageOf(error)}): name a file of CUDA C++`)
  }
}

const textIn = (ptx: Uint8Array): string => new TextDecoder().decode(ptx).replace(/\0$/, '')

/** What the compiler misses may be what was left out. */
function withWayOut(found: CuDiagnostic, texts: ReadonlyMap<string, string>): CuDiagnostic {
  const [, name] = /^identifier "(\w+)" is undefined$/.exec(found.message) ?? []
  if (name === undefined) return found
  const definition = new RegExp(`\\b${name}\\s*\\([^;{}]*\\)\\s*\\{`)
  if (![...texts.values()].some((text) => definition.test(text))) return found
  const way = `'${name}' is a function of the host, which the compiler does not get: mark it __device__`
  return { ...found, message: `${found.message}: ${way}` }
}

/** Throws what the compiler found, with places. */
function explain({ file, name, includes, texts }: Unit, { architecture }: Step, error: unknown): never {
  const files = new Map([[name, file], ...includes.own.map(({ name, file }): [string, string] => [name, file])])
  const log = compilerLog(error) ?? ''
  const found = diagnosticsIn(log, file, (name) => files.get(name) ?? name).map((each) => withWayOut(each, texts))
  if (found.length === 0) throw refusedOption(log, architecture) ?? error
  const { missing } = includes
  const note =
    missing.length === 0
      ? ''
      : `Not found, and taken for empty: ${missing.join(', ')}. If the kernels need them, name their folder by the option -I`
  return refuse(`${file} does not compile`, found, filesOf(includes), note)
}

function finish(unit: Unit, codes: readonly Uint8Array[]): CompiledCu {
  const { file, sources, includes, steps, texts } = unit
  const cubins = Object.fromEntries(
    steps.flatMap(({ architecture, output }, index): [string, Uint8Array][] => {
      const code = codes[index]
      return output === 'cubin' && code !== undefined ? [[architecture, code]] : []
    }),
  )
  const [compiled = '', ...others] = codes.filter((_, index) => steps[index]?.output === 'ptx').map(textIn)
  const otherFacts = others.map((each) => readKernelFacts(withoutProbes(each)))
  const probes = readProbes(compiled)
  const found = sources.kernels.flatMap((kernel) => {
    const probed = probes.get(kernel.probe)
    // One kernel may have two names in the source, such as scale<float> and, by a typedef, scale<real>.
    const isFirst = sources.kernels.find(({ probe }) => probes.get(probe)?.name === probed?.name) === kernel
    return probed === undefined || !isFirst ? [] : [{ kernel, probed }]
  })
  const names = exportNames(found.map(({ kernel }) => kernel))
  const inPtx = new Map(found.map(({ kernel, probed }) => [probed.name, names.get(kernel) ?? probed.name]))
  const ptx = forOldDrivers(withoutUnusedVariables(withoutPlaces(renamed(withoutProbes(compiled), inPtx))))
  const facts = readKernelFacts(ptx)
  const types = new CuTypes(sources.structs, texts, names.values())
  const mistakes: CuDiagnostic[] = []
  const kernels = found.map(({ kernel, probed }): CuKernel => {
    const name = names.get(kernel) ?? probed.name
    const text = texts.get(kernel.file) ?? ''
    const known = [facts.get(name), ...otherFacts.map((each) => each.get(probed.name))].map((each) =>
      each instanceof Error ? undefined : each,
    )
    const { signature, wrong } = signatureOf(kernel, probed, types, known)
    const shared = Math.max(...known.map((each) => each?.staticSharedBytes ?? 0))
    if (shared > MOST_STATIC_SHARED) mistakes.push(tooMuchShared(kernel, text, shared))
    for (const { start, message } of wrong)
      mistakes.push(diagnostic(kernel.file, text, positionOf(text, start), message))
    return {
      name,
      mangledName: probed.name,
      signature,
      parameterNames: parameterNames(kernel, probed),
      file: kernel.file,
      ...positionOf(text, kernel.start),
      comment: kernel.comment,
    }
  })
  if (mistakes.length > 0)
    refuse(`${file} has kernels that cannot be launched from JavaScript`, mistakes, filesOf(includes))
  const notes = [
    ...unusedTemplates(sources, texts),
    ...[...facts].filter(([name]) => kernels.every((each) => each.name !== name)).map(([name]) => madeByMacro(name)),
    ...[...facts].flatMap(([name, known]) =>
      known instanceof Error ? [`${name} does not run on the simulator: ${known.message}`] : [],
    ),
    ...types.structs.flatMap(({ name, addresses }) => addresses.map((member) => isAddress(name, member))),
    ...(includes.missing.length === 0 ? [] : [`Not found, and taken for empty: ${includes.missing.join(', ')}`]),
  ]
  if (kernels.length === 0) {
    const mistake = diagnostic(file, texts.get(file) ?? '', { line: 1, column: 1 }, 'There is no kernel in this file')
    refuse(`${file} has nothing to launch`, [mistake], filesOf(includes), notes.join('\n'))
  }
  const made = { file, ptx, cubins, kernels, structs: types.structs, includes: filesOf(includes), notes }
  return { ...made, module: moduleText(made), declaration: declarationText(made) }
}

const filesOf = ({ own }: Includes): readonly string[] => own.map(({ file }) => file)

/** The largest number of launches that a note names. */
const MOST_LAUNCHES = 2

function unusedTemplates(sources: DeviceSources, texts: ReadonlyMap<string, string>): readonly string[] {
  const place = (file: string, start: number): string => {
    const { line, column } = positionOf(texts.get(file) ?? '', start)
    return `${file}:${line}:${column}`
  }
  return sources.unused.map((template) => {
    const { name, file, start, launches, isUsed } = template
    const launched = launches
      .slice(0, MOST_LAUNCHES)
      .map((launch) => ` (launched at ${place(launch.file, launch.start)}: ${launch.why})`)
    const what = isUsed ? 'makes no kernel for some of its launches' : 'makes no kernel'
    return `${place(file, start)}: the template ${name} ${what}${launched.join('')}: instantiate it in the source, as in '${exampleOf(template)}'`
  })
}

/** An instantiation with arguments that may not be those that are wanted. */
function exampleOf({ name, template, parameters }: DeviceSources['unused'][number]): string {
  const values = new Map(
    template.map((parameter) => [parameter.name, isType(parameter) ? 'float' : exampleValue(parameter)]),
  )
  const filled = parameters.map(({ text }) =>
    text.replace(/\s*=.*/, '').replace(/[A-Za-z_]\w*/g, (word) => values.get(word) ?? word),
  )
  return `template __global__ void ${name}<${[...values.values()].join(', ')}>(${filled.join(', ')});`
}

function exampleValue({ kind }: TemplateParameter): string {
  if (kind.includes('bool')) return 'true'
  const isNumber = kind.every((word) =>
    /^(?:const|unsigned|signed|short|int|long|u?int\d+_t|size_t|std|::)$/.test(word),
  )
  return isNumber ? '256' : `${spaced(kind)}(0)`
}

const isAddress = (struct: string, member: string): string =>
  `${struct}.${member} is a pointer, and passed as an address: its memory does not count as used. Where that matters, make it a parameter of the kernel`

const tooMuchShared = ({ file, expression, start }: SourceKernel, text: string, bytes: number): CuDiagnostic =>
  diagnostic(
    file,
    text,
    positionOf(text, start),
    `${expression} has ${bytes} bytes of __shared__ memory, and a source may have ${MOST_STATIC_SHARED}: take it from 'extern __shared__', whose size is config.sharedMemory of a launch`,
  )

const madeByMacro = (name: string): string =>
  `${name} is in the PTX, and not in the source as it is written, since a macro makes it: it is not exported`

function exportNames(kernels: readonly SourceKernel[]): ReadonlyMap<SourceKernel, string> {
  const plain = (text: string): string => text.replace(/[^A-Za-z0-9_]+/g, '_').replace(/_+$/, '')
  const names = new Map<SourceKernel, string>()
  const short = kernels.map(({ expression }) => plain(expression))
  for (const [index, kernel] of kernels.entries()) {
    const own = short[index] ?? ''
    const isAmbiguous = short.filter((name) => name === own).length > 1
    const name = isAmbiguous ? plain([...kernel.path, own].join('_')) : own
    names.set(kernel, isReserved(name) ? `${name}_` : name)
  }
  return names
}

const parameterNames = ({ parameters }: SourceKernel, probed: Probed): readonly string[] =>
  probed.parameters.map((_, index) => {
    const isSame = parameters.length === probed.parameters.length
    return (isSame ? parameters[index]?.name : undefined) ?? `argument${index}`
  })

interface WrongParameter {
  readonly start: number
  readonly message: string
}

function signatureOf(
  kernel: SourceKernel,
  probed: Probed,
  types: CuTypes,
  facts: readonly (KernelFacts | undefined)[],
): { readonly signature: readonly ParameterType[]; readonly wrong: readonly WrongParameter[] } {
  const wrong: WrongParameter[] = []
  const signature = probed.parameters.map((type, index): ParameterType => {
    const written = kernel.parameters[index]
    const what = `'${written?.text ?? `parameter ${index}`}' of ${kernel.expression}`
    if (type.pointer === 'reference') {
      const name = written?.name ?? `argument${index}`
      const message = `${what} is a reference, by which no kernel gets a value: write a pointer, and '*${name}' where it is used, for memory of the device; without the & it is passed by value`
      wrong.push({ start: written?.start ?? kernel.start, message })
      return 'i32'
    }
    if (type.pointer !== 'none') {
      const known = facts.map((each) => each?.parameters[index])
      return pointerOf(type, types, known)
    }
    // An operator of CUB and the like: C++ gives it a byte, whose value is read by nobody.
    if (type.value.kind === 'struct' && type.value.members.length === 0 && type.value.byteLength === 1) return 'u8'
    const found = types.of(type.value)
    if ('type' in found && !isArray(found.type)) return found.type
    const why = 'wrong' in found ? `: it ${found.wrong}` : ''
    const way = 'pass its members as parameters of their own, or a pointer to it in device memory'
    const message = `${what} is passed by value, and JavaScript has no value for it${why}: ${way}`
    wrong.push({ start: written?.start ?? kernel.start, message })
    return 'i32'
  })
  return { signature, wrong }
}

const isArray = (type: FieldType): type is readonly [FieldType, number] => Array.isArray(type)

/** Memory that the library has no type for is bytes. */
function pointerOf(type: ProbedType, types: CuTypes, known: readonly (ParameterFacts | undefined)[]): ParameterType {
  // Code for a later architecture may do other things.
  const [access = 'inout', ...others] = new Set(known.map((each) => accessOf(type, each)))
  return typeOfPointer(type, types, others.length === 0 ? access : 'inout')
}

function typeOfPointer(type: ProbedType, types: CuTypes, access: Access): ParameterType {
  if (type.value.kind === 'pointer') return `${access} u64*`
  const found = types.of(type.value)
  const pointed = 'type' in found ? elementOf(found.type) : 'u8'
  return typeof pointed === 'string' ? `${access} ${pointed}*` : pointerTo(pointed, access)
}

/** An array is its elements, one after another. */
const elementOf = (type: FieldType): Exclude<FieldType, readonly [FieldType, number]> =>
  isArray(type) ? elementOf(type[0]) : type

function pointerTo(struct: Struct, access: Access): StructPointer {
  if (access === 'in') return { in: struct }
  if (access === 'out') return { out: struct }
  return access === 'inout' ? { inout: struct } : { atomic: struct }
}

/** The access of a pointer: what the code does with it, or, if the code does not show that, what its type allows. */
function accessOf({ pointer }: ProbedType, known: ParameterFacts | undefined): Access {
  if (known === undefined || known.use === 'unknown') return pointer === 'pointer to const' ? 'in' : 'inout'
  if (known.onlyAtomic) return 'atomic'
  return known.use === 'read-write' ? 'inout' : known.use === 'write' ? 'out' : 'in'
}
