/**
 * Files of kernels as modules. Each is the text that the library's own plug-ins make of a file, of the kernels that were compiled before; of PTX that
 * is typed its entries are exported, with the types that the source gives them, or else those that PTX declares.
 */
import type { Access, ParameterType, ScalarType, VectorType } from 'cuda-streams'
import type { CuKernel } from '../../../../dist/src/cu/compiled-cu.js'
import { declarationText, isReserved, moduleText, typeText } from '../../../../dist/src/cu/cu-module.js'
import { namedLayout } from '../../../../dist/src/foundation/base/element-layout.js'
import { type KernelFacts, type ParameterFacts, readKernelFacts } from '../../../../dist/src/ptx/ptx.js'
import { KERNELS, PTX } from '../../lessons/kernel-files.js'
import { load, type Require } from './compile.js'
import type { Declared, KernelTexts } from './messages.js'

interface KernelFile {
  readonly ptx: string
  readonly kernels: readonly CuKernel[]
  /** Why entries are not exported, by their names. */
  readonly left: ReadonlyMap<string, string>
}

/**
 * The module of a file.
 * @param typed PTX in place of that which the page was built with
 */
export function kernelModule(name: string, typed: string | undefined, require: Require): object {
  const { ptx, kernels, left } = fileOf(name, typed)
  const exports = load(moduleText({ file: name, ptx, cubins: {}, kernels, structs: [] }), name, require)
  const isThere = (key: string | symbol): boolean => typeof key === 'symbol' || key in exports || NOT_NAMED.has(key)
  return new Proxy(exports, {
    get: (target, key) => {
      // An import of what is not there is no program; that TypeScript's types are taken out of a text finds this out no sooner.
      if (!isThere(key)) throw new SyntaxError(noExport(name, String(key), kernels, left))
      return Reflect.get(target, key)
    },
  })
}

/** What is asked of each module that is imported as a whole, or that a promise is resolved with. */
const NOT_NAMED = new Set(['__esModule', 'default', 'then', 'toJSON', 'constructor', 'hasOwnProperty'])

function noExport(file: string, wanted: string, kernels: readonly CuKernel[], left: KernelFile['left']): string {
  const why = left.get(wanted)
  if (why !== undefined) return `'./${file}' does not export ${wanted}: ${why}`
  const names = kernels.map(({ name }) => name).join(', ')
  return `'./${file}' exports no ${wanted}: ${names === '' ? 'it has no kernel that can be launched' : `its kernels are ${names}`}`
}

/** What each of these texts exports. */
export function declared(texts: KernelTexts): Readonly<Record<string, Declared>> {
  return Object.fromEntries(Object.entries(texts).map(([name, ptx]) => [name, declaredOf(name, ptx)]))
}

function declaredOf(name: string, typed: string): Declared {
  try {
    const { ptx, kernels, left } = fileOf(name, typed)
    const names = kernels.map(callText)
    const said = [
      names.length === 0 ? 'It exports no kernel.' : `It exports ${names.join(', ')}.`,
      ...[...left].map(([entry, why]) => `Not exported: ${entry}, ${why}.`),
    ]
    return {
      declaration: declarationText({ file: name, ptx, cubins: {}, kernels, structs: [] }),
      said: said.join(' '),
    }
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  }
}

const callText = ({ name, signature, parameterNames }: CuKernel): string =>
  `${name}(${signature.map((type, at) => `${parameterNames[at]}: ${typeText(type, [])}`).join(', ')})`

function fileOf(name: string, typed: string | undefined): KernelFile {
  const built = PTX[name]
  const ptx = typed ?? built
  if (ptx === undefined) throw new Error(`There is no file ${name} with kernels: write its PTX in the tab of that name`)
  const known = KERNELS[name] ?? []
  if (typed === undefined || typed === built) return { ptx, kernels: known, left: new Map() }
  const sources = built === undefined ? new Map<string, KernelFacts | Error>() : readKernelFacts(built)
  const kernels: CuKernel[] = []
  const left = new Map<string, string>()
  for (const [entry, facts] of readKernelFacts(ptx)) {
    const source = known.find((one) => one.name === entry)
    const made = kernelOf(name, ptx, entry, facts, source, sources.get(entry))
    if (typeof made === 'string') left.set(entry, made)
    else kernels.push(made)
  }
  return { ptx, kernels, left }
}

/** The kernel of an entry; or why JavaScript cannot launch it. */
function kernelOf(
  file: string,
  ptx: string,
  entry: string,
  facts: KernelFacts | Error,
  source: CuKernel | undefined,
  asBuilt: KernelFacts | Error | undefined,
): CuKernel | string {
  if (facts instanceof Error) return facts.message
  if (!/^[A-Za-z_$][\w$]*$/.test(entry)) return 'since JavaScript has no such name'
  const { parameters } = facts
  if (source !== undefined && typesIn(asBuilt) === typesIn(facts)) {
    const signature = source.signature.map((type, at) => withAccess(type, parameters[at]))
    return { ...source, signature }
  }
  const types = parameters.map(typeOf)
  const wrong = types.indexOf(undefined)
  if (wrong >= 0) {
    const { name, byteLength } = parameters[wrong] ?? { name: '', byteLength: 0 }
    return `since ${name} is ${byteLength} bytes by value, and PTX does not say of what`
  }
  return {
    name: isReserved(entry) ? `${entry}_` : entry,
    mangledName: entry,
    signature: types.filter((type) => type !== undefined),
    parameterNames: parameters.map(({ name }) => name.replace(/[^\w$]/g, '_')),
    file,
    ...placeOf(ptx, entry),
    comment: '',
  }
}

const typesIn = (facts: KernelFacts | Error | undefined): string =>
  facts === undefined || facts instanceof Error
    ? 'unknown'
    : facts.parameters.map(({ type, byteLength }) => `${type} ${byteLength}`).join()

function placeOf(ptx: string, entry: string): { readonly line: number; readonly column: number } {
  const before = ptx.slice(0, ptx.search(new RegExp(`\\.entry\\s+${entry.replaceAll('$', '\\$')}(?![\\w$])`)))
  return { line: before.split('\n').length, column: before.length - before.lastIndexOf('\n') }
}

const POINTER = /^\S.* (\w+)\*$/
const isElement = (name: string): name is ScalarType | VectorType => namedLayout(name) !== undefined

/** The type of the source, with the access that the code has now. */
function withAccess(type: ParameterType, facts: ParameterFacts | undefined): ParameterType {
  const [, element = ''] = typeof type === 'string' ? (POINTER.exec(type) ?? []) : []
  const access = facts === undefined ? undefined : accessIn(facts)
  return isElement(element) && access !== undefined ? `${access} ${element}*` : type
}

/** What the code does with the memory of a pointer; undefined if that is not known. */
function accessIn({ use, onlyAtomic }: ParameterFacts): Access | undefined {
  if (use === 'unknown') return undefined
  if (onlyAtomic) return 'atomic'
  return use === 'read-write' ? 'inout' : use === 'write' ? 'out' : 'in'
}

/** By the number of bits, those that PTX does not say the kind of are unsigned. */
const SCALARS: Readonly<Record<string, ScalarType>> = {
  ...{ s8: 'i8', s16: 'i16', s32: 'i32', s64: 'i64' },
  ...{ u8: 'u8', u16: 'u16', u32: 'u32', u64: 'u64' },
  ...{ b8: 'u8', b16: 'u16', b32: 'u32', b64: 'u64' },
  ...{ f16: 'f16', f32: 'f32', f64: 'f64' },
}

/** Memory is bytes: PTX does not say of what. Undefined for a struct. */
function typeOf(facts: ParameterFacts): ParameterType | undefined {
  const access = accessIn(facts) ?? 'inout'
  if (facts.tensorMap) return access === 'atomic' ? 'inout tensorMap' : `${access} tensorMap`
  const scalar = SCALARS[facts.type]
  if (scalar === undefined || namedLayout(scalar)?.byteLength !== facts.byteLength) return undefined
  const isPointer = facts.byteLength === 8 && (facts.pointer || facts.use === 'unknown')
  return isPointer ? `${access} u8*` : scalar
}
