/** What cuda.h says, read from the toolkit's own file: prototypes, the names they are exported by, and enums. */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export interface Parameter {
  readonly type: string
  readonly name: string
}

export interface Prototype {
  readonly name: string
  readonly result: string
  readonly parameters: readonly Parameter[]
}

export interface CudaHeader {
  readonly path: string
  /** Such as 13000. */
  readonly version: number
  /** By the name that libcuda exports; what callers of the header get when they write the plain name. */
  readonly current: ReadonlyMap<string, Prototype>
  /** Was the header of the profiler's functions beside it? */
  readonly hasProfiler: boolean
  /** By exported name: what libcuda still exports for programs compiled with older headers. */
  readonly old: ReadonlyMap<string, Prototype>
  /** The names by which the header's plain names are exported, where they differ. */
  readonly renamed: ReadonlyMap<string, string>
  /** The number that a macro is defined as. */
  define(name: string): number
  /** The enumerators of `typedef enum ... { }` by the tag that follows `enum`. */
  enumerators(tag: string): ReadonlyMap<string, number>
  /** Is this a `typedef enum`, or another name of one? */
  isEnum(type: string): boolean
  /** Is this a `typedef struct X_st *` or another pointer by name? */
  isHandle(type: string): boolean
}

export function readCudaHeader(path: string): CudaHeader {
  const text = withoutComments(readFileSync(path, 'utf8'))
  // Two functions of libcuda are declared beside it, in a header that not every installation has.
  const beside = join(dirname(path), 'cudaProfiler.h')
  const profiler = existsSync(beside) ? withoutComments(readFileSync(beside, 'utf8')) : ''
  // From here on the header declares what older headers called by the plain names, for the library's own compilation.
  const oldPart = text.indexOf('#if defined(__CUDA_API_VERSION_INTERNAL)\n', text.indexOf('cuGetProcAddress'))
  if (oldPart < 0) throw new Error(`${path} does not end in old declarations, as cuda.h does`)
  const renamed = renamings(text.slice(0, oldPart))
  const current = new Map<string, Prototype>()
  for (const prototype of [...prototypes(text.slice(0, oldPart)), ...prototypes(profiler)]) {
    const name = renamed.get(prototype.name) ?? prototype.name
    current.set(name, { ...prototype, name })
  }
  return {
    path,
    hasProfiler: profiler !== '',
    version: define(text, 'CUDA_VERSION'),
    current,
    old: new Map(prototypes(text.slice(oldPart)).map((prototype) => [prototype.name, prototype])),
    renamed,
    define: (name) => define(text, name),
    enumerators: (tag) => enumerators(text, tag),
    isEnum: (type) => {
      const meant = new RegExp(`\\btypedef (\\w+) ${type}\\s*;`).exec(text)?.[1] ?? type
      return new RegExp(`\\btypedef enum \\w*\\s*\\{[^}]*\\}\\s*${meant}\\s*;`).test(text)
    },
    isHandle: (type) => new RegExp(`\\btypedef struct \\w+\\s*\\*\\s*${type}\\s*;`).test(text),
  }
}

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, ' ').replaceAll(/\/\/[^\n]*/g, ' ')
}

/** `#define cuX cuX_v2`, and `__CUDA_API_PTSZ(cuX_v2)` where the compilation does not ask for per-thread streams. */
function renamings(text: string): Map<string, string> {
  const renamed = new Map<string, string>()
  for (const [, plain = '', first = '', wrapped = ''] of text.matchAll(
    /^[ \t]*#define[ \t]+(cu\w+)[ \t]+(\w+)(?:\((\w+)\))?[ \t]*$/gm,
  )) {
    const target = first.startsWith('__CUDA_API_PT') ? wrapped : first
    if (target.startsWith('cu') && target !== plain) renamed.set(plain, target)
  }
  return renamed
}

function prototypes(text: string): Prototype[] {
  return Array.from(
    text.matchAll(/\b(CUresult)\s+CUDAAPI\s+(\w+)\s*\(([^;]*?)\)\s*;/g),
    ([, result = '', name = '', list = '']) => ({
      result,
      name,
      parameters: parametersOf(list),
    }),
  )
}

/** One function as C writes it, without CUDAAPI. */
export function parsePrototype(text: string): Prototype {
  const match = /^(CUresult)\s+(\w+)\s*\((.*)\)$/s.exec(text.trim())
  if (match === null) throw new Error(`'${text}' is no prototype`)
  const [, result = '', name = '', list = ''] = match
  return { result, name, parameters: parametersOf(list) }
}

function parametersOf(list: string): Parameter[] {
  const text = list.replaceAll(/__dv\([^)]*\)/g, '').trim()
  if (text === '' || text === 'void') return []
  return text.split(',').map((parameter) => {
    const match = /^(.*?)(\w+)\s*$/s.exec(parameter.trim())
    const [, type = '', name = ''] = match ?? []
    return { type: normalised(type), name }
  })
}

/** One space between words, none before a star. */
function normalised(type: string): string {
  return type
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ ?\* ?/g, '*')
    .trim()
}

export function written({ result, name, parameters }: Prototype): string {
  return `${result} ${name}(${parameters.map((parameter) => `${parameter.type} ${parameter.name}`).join(', ')})`
}

function define(text: string, name: string): number {
  return Number(new RegExp(`^[ \\t]*#define[ \\t]+${name}[ \\t]+(\\d+)`, 'm').exec(text)?.[1])
}

function enumerators(text: string, tag: string): Map<string, number> {
  const body = new RegExp(`\\btypedef enum ${tag}\\s*\\{([^}]*)\\}`).exec(text)?.[1]
  if (body === undefined) throw new Error(`there is no enum ${tag}`)
  const values = new Map<string, number>()
  let next = 0
  for (const entry of body.split(',').map((part) => part.trim())) {
    if (entry === '') continue
    const [name = '', value] = entry.split('=').map((part) => part.trim())
    if (value !== undefined) next = Number(value)
    if (!Number.isInteger(next)) throw new Error(`${name} is '${value}', which is no number`)
    values.set(name, next)
    next += 1
  }
  return values
}
