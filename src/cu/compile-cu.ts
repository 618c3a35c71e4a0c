/** A file of CUDA C++ as a module of JavaScript: its kernels, compiled once, each with the signature that the compiler and the code say. */
import { readFileSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import type { Access, ParameterType, StructPointer, TensorMapType } from '../core/kernels/kernel-signature.js'
import { checkText, readOptions } from '../foundation/base/arguments.js'
import type { FieldType, Struct } from '../foundation/base/element-layout.js'
import { invalidValue, messageOf } from '../foundation/base/errors.js'
import { TENSOR_MAP_BYTES } from '../foundation/driver/tensor-maps.js'
import {
  type CompiledSource,
  compileCuda,
  compileCudaNow,
  compilerLog,
  cudaHeaderFolders,
  libraryHeaderFolders,
} from '../foundation/native/nvrtc.js'
import { type KernelFacts, MOST_STATIC_SHARED, type ParameterFacts, readKernelFacts } from '../ptx/ptx.js'
import { Attempts, type NamesOfFiles, PRELUDE } from './attempts.js'
import type { CompiledCu, CuKernel } from './compiled-cu.js'
import { declarationText, isReserved, moduleText } from './cu-module.js'
import { CU_OPTIONS, type CuOptions, readCuOptions, refusedOption } from './cu-options.js'
import { CuTypes } from './cu-types.js'
import { partsOf } from './cuda-parts.js'
import { DeviceSources } from './device-source.js'
import { type CuDiagnostic, diagnostic, refuse } from './diagnostics.js'
import type { LeftOut, SourceKernel } from './found-in-sources.js'
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
import { MISSING_HEADER, standardHeaders } from './standard-headers.js'
import { isType, type TemplateParameter } from './template-arguments.js'
import { withPackage, withWayOut } from './ways-out.js'

/** Macros that nvcc has by the compiler of the host, and words that are that compiler's alone. */
const LIKE_NVCC = '#define __extension__\n#ifndef __linux__\n#define __linux__ 1\n#define __unix__ 1\n#endif\n'
/** Headers that a file gets without including them, as by nvcc. */
const IMPLICIT_HEADERS = ['stdint.h', 'math.h', 'stdlib.h', 'string.h', 'time.h']
/** Headers of the same kind whose stand-ins need C++17, which is NVRTC's default. */
const IMPLICIT_SINCE_17 = ['algorithm', 'limits', 'type_traits', 'utility']

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
  const attempts = attemptsOf(file, options)
  let next = attempts.next()
  while (next.done !== true) {
    const { source, output } = next.value
    next = attempts.next(await compileCuda(source, output).then(made, failed))
  }
  return next.value
}

/**
 * Does the same as `compileCu()`, but blocks until the file is compiled: for callers that cannot await, such as hooks of Node's
 * modules.
 * @param file The path of the file.
 * @param options as for `compileCu()`
 * @throws {Error} as `compileCu()`
 */
export function compileCuNow(file: string, options?: CuOptions): CompiledCu {
  const attempts = attemptsOf(file, options)
  let next = attempts.next()
  while (next.done !== true) next = attempts.next(madeNow(next.value))
  return next.value
}

/** What comes of a run of the compiler. */
type Outcome = { readonly code: Uint8Array } | { readonly error: unknown }

const made = (code: Uint8Array): Outcome => ({ code })
const failed = (error: unknown): Outcome => ({ error })

function madeNow({ source, output }: Step): Outcome {
  try {
    return made(compileCudaNow(source, output))
  } catch (error) {
    return failed(error)
  }
}

/** Compiles a file, and again without what the compiler refuses of it that kernels may not need, until there is nothing of that. */
function* attemptsOf(file: string, options: CuOptions | undefined): Generator<Step, CompiledCu, Outcome> {
  const attempts = new Attempts()
  for (;;) {
    const unit = unitOf(file, options, attempts.leftOut)
    const codes: Uint8Array[] = []
    let refused: { readonly step: Step; readonly error: unknown } | undefined
    for (const step of unit.steps) {
      const known = knownCode(step)
      const outcome: Outcome = known === undefined ? yield step : made(known)
      if ('error' in outcome) {
        refused = { step, error: outcome.error }
        break
      }
      codes.push(known ?? keptCode(step, outcome.code))
    }
    if (refused === undefined) return finish(unit, codes, attempts)
    const log = compilerLog(refused.error)
    if (log === undefined || !attempts.goOn(log, unit.sources, namesOf(unit)))
      explain(unit, refused.step, refused.error, attempts)
  }
}

function namesOf({ file, name, includes }: Unit): NamesOfFiles {
  const files = new Map([[name, file], ...includes.own.map(({ name, file }): [string, string] => [name, file])])
  return { main: file, fileOf: (each) => files.get(each) ?? each }
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
  /** The texts of the project's files, by path, as people wrote them but for macros that make kernels. */
  readonly texts: ReadonlyMap<string, string>
}

function unitOf(path: string, options: CuOptions | undefined, leftOut: LeftOut): Unit {
  const file = resolve(checkText(path, 'file', 'the path of a file of CUDA C++'))
  const { arch, cubins, more } = readCuOptions(readOptions(options, CU_OPTIONS))
  const text = textOfFile(file)
  const includes = includesOf(file, text, {
    project: foldersIn(more, process.cwd()),
    cuda: cudaHeaderFolders(),
    libraries: libraryHeaderFolders,
  })
  const sources = new DeviceSources(leftOut)
  const written = new Map([...includes.own.map(({ file, text }): [string, string] => [file, text]), [file, text]])
  const edited = new Map([...written].map(([path, text]) => [path, sources.add(path, text, includes.names.get(path))]))
  const texts = new Map([...written.keys()].map((path): [string, string] => [path, sources.textOf(path)]))
  const name = basename(file)
  const probes = probeDeclarations(
    sources.structs.map(({ members, refused }) => (refused === undefined ? members : [])),
  )
  const parts = partsOf([...includes.cuda, ...includes.replaced], [...edited.values()], cudaHeaderFolders())
  const include = (names: readonly string[]): string => names.map((each) => `#include <${each}>\n`).join('')
  const implicit = `${include(IMPLICIT_HEADERS)}#if __cplusplus >= 201703L\n${include(IMPLICIT_SINCE_17)}#endif\n${include(parts.needed)}`
  const standIns = standardHeaders([...IMPLICIT_HEADERS, ...IMPLICIT_SINCE_17, ...parts.needed, ...includes.replaced])
  const headers = new Map([
    ...[...standIns].filter(([each]) => !parts.kept.has(each)),
    ...includes.missing.map((each): [string, string] => [each, MISSING_HEADER]),
    ...parts.replaced,
    ...includes.own.map(({ name, file }): [string, string] => [name, edited.get(file) ?? '']),
    [PRELUDE, `${LIKE_NVCC}${implicit}${parts.before}${probes}`],
  ])
  const code = `#include "${PRELUDE}"\n#line 1 "${name}"\n${edited.get(file) ?? ''}`
  const folders = includes.folders.map((folder) => `--include-path=${folder}`)
  const step = (architecture: string, output: Step['output'], own: readonly string[]): Step => {
    const target = output === 'ptx' ? architecture.replace('sm_', 'compute_') : architecture
    const all = [`--gpu-architecture=${target}`, '-default-device', ...own, '-diag-suppress=177', ...more, ...folders]
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

/** Throws what the compiler found, with places. */
function explain(unit: Unit, { architecture }: Step, error: unknown, attempts: Attempts): never {
  const { file, includes, texts, sources } = unit
  const log = compilerLog(error) ?? ''
  const found = attempts.mistakes(log, sources, namesOf(unit))
  if (found.length === 0) throw refusedOption(log, architecture) ?? error
  const { missing } = includes
  const note =
    missing.length === 0
      ? ''
      : `Not found, and taken for empty: ${missing.map(withPackage).join(', ')}. If the kernels need them, name their folder by the option -I`
  const said = found.map((each) => withWayOut(each, texts))
  return refuse(`${file} does not compile`, said, filesOf(includes), note)
}

/** A kernel of the source, and what the compiler says of it. */
interface Found {
  readonly kernel: SourceKernel
  readonly probed: Probed
}

function finish(unit: Unit, codes: readonly Uint8Array[], attempts: Attempts): CompiledCu {
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
  const found = sources.kernels.flatMap((kernel): Found[] => {
    const probed = probes.get(kernel.probe)
    // One kernel may have two names in the source, such as scale<float> and, by a typedef, scale<real>.
    const isFirst = sources.kernels.find(({ probe }) => probes.get(probe)?.name === probed?.name) === kernel
    return probed === undefined || !isFirst ? [] : [{ kernel, probed }]
  })
  const isOverloaded = ({ kernel }: Found): boolean =>
    found.filter((each) => each.kernel.expression === kernel.expression && isSamePath(each.kernel, kernel)).length > 1
  const named = found.filter((each) => !isOverloaded(each))
  const names = exportNames(named.map(({ kernel }) => kernel))
  const inPtx = new Map(named.map(({ kernel, probed }) => [probed.name, names.get(kernel) ?? probed.name]))
  const ptx = forOldDrivers(withoutUnusedVariables(withoutPlaces(renamed(withoutProbes(compiled), inPtx))))
  const facts = readKernelFacts(ptx)
  const types = new CuTypes(sources.structs, texts, names.values())
  const mistakes: CuDiagnostic[] = []
  const unusable: CuDiagnostic[] = []
  const kernels = found.flatMap(({ kernel, probed }): CuKernel[] => {
    const name = names.get(kernel) ?? probed.name
    const text = texts.get(kernel.file) ?? ''
    const known = [facts.get(name), ...otherFacts.map((each) => each.get(probed.name))].map((each) =>
      each instanceof Error ? undefined : each,
    )
    const shared = Math.max(...known.map((each) => each?.staticSharedBytes ?? 0))
    if (shared > MOST_STATIC_SHARED) mistakes.push(tooMuchShared(kernel, text, shared))
    const { signature, wrong } = signatureOf(kernel, probed, types, known)
    const why = isOverloaded({ kernel, probed })
      ? [{ start: kernel.start, message: overloaded(kernel.expression) }]
      : wrong
    for (const { start, message } of why) unusable.push(diagnostic(kernel.file, text, positionOf(text, start), message))
    if (why.length > 0) return []
    return [
      {
        name,
        mangledName: probed.name,
        signature,
        parameterNames: parameterNames(kernel, probed),
        file: kernel.file,
        ...positionOf(text, kernel.start),
        comment: kernel.comment,
      },
    ]
  })
  const refused = attempts.refused.map(({ kernel: { file, start, expression }, why }) => {
    const text = texts.get(file) ?? ''
    return diagnostic(file, text, positionOf(text, start), `${expression} cannot be made: ${why}`)
  })
  const launching = attempts.launching.map((each) => withWayOut(each, texts))
  const isNothingElse = kernels.length === 0 && unusable.length + refused.length + launching.length > 0
  if (mistakes.length > 0 || isNothingElse) {
    const all = [...mistakes, ...(isNothingElse ? [...launching, ...refused, ...unusable] : [])]
    refuse(`${file} has kernels that cannot be launched from JavaScript`, all, filesOf(includes))
  }
  const notes = [
    ...[...launching, ...refused, ...unusable].map(
      ({ file, line, column, message }) => `${file}:${line}:${column}: not exported: ${message}`,
    ),
    ...unusedTemplates(sources, texts),
    ...[...facts.keys()]
      .filter((name) => ![...inPtx.values()].includes(name) && found.every((each) => each.probed.name !== name))
      .map(madeByMacro),
    ...[...facts].flatMap(([name, known]) => {
      const why = known instanceof Error ? known.message : known.whyNotRun
      return why === undefined ? [] : [`${name} does not run on the simulator: ${why}`]
    }),
    ...types.structs.flatMap(({ name, addresses }) => addresses.map((member) => isAddress(name, member))),
    ...(includes.missing.length === 0
      ? []
      : [`Not found, and taken for empty: ${includes.missing.map(withPackage).join(', ')}`]),
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
    const known = facts.map((each) => each?.parameters[index])
    if (isTensorMap(written?.text ?? '', known)) return tensorMapOf(type, known)
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

const isSamePath = (a: SourceKernel, b: SourceKernel): boolean => String(a.path) === String(b.path)

const overloaded = (name: string): string =>
  `there are several kernels ${name}, which only their parameters tell apart: give each a name of its own`

/** Whether a parameter is a tensor map: by its type in the source, or since the kernel copies tiles by it. */
const isTensorMap = (text: string, known: readonly (ParameterFacts | undefined)[]): boolean =>
  /\bCUtensorMap\b/.test(text) || known.some((each) => each?.tensorMap === true && each.byteLength === TENSOR_MAP_BYTES)

function tensorMapOf(type: ProbedType, known: readonly (ParameterFacts | undefined)[]): TensorMapType {
  const [access = 'inout', ...others] = new Set(known.map((each) => accessOf(type, each)))
  return others.length > 0 || access === 'atomic' ? 'inout tensorMap' : `${access} tensorMap`
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
