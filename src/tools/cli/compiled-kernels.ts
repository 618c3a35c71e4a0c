/** The kernels in a file: a module of `cuda-streams compile`, a bundle, PTX or a cubin. */
import { isElf, readCubin } from './cubin-elf.js'

/** Machine code for one architecture. */
export interface CompiledCubin {
  readonly code: Uint8Array
  /** The architecture that the code is made for, as the cubin says. */
  readonly architecture: string
}

export interface CompiledKernels {
  /** The PTX; undefined for machine code alone. */
  readonly ptx: string | undefined
  /** The names of the kernels. */
  readonly kernels: readonly string[]
  /** The architecture that the PTX is compiled for, such as 'sm_75'. */
  readonly arch: string | undefined
  /** The cubins; keys are the architectures that the program has them under, such as 'sm_90a'. */
  readonly cubins: ReadonlyMap<string, CompiledCubin>
}

/** Kernels that were found in a file, with their place in it. */
interface Found extends CompiledKernels {
  readonly start: number
  readonly cubins: Map<string, CompiledCubin>
}

/** The header of PTX. Lines end by an escape, too, since a literal of JavaScript may contain it. A comment is read to the end of its line, and can be read in one way only. */
const HEADER =
  /\.version(?:\s|\\+t)+\d+\.\d+(?:\s|\\+[nr]|\/\/[^\n\\]*(?=[\n\\]))+\.target(?:\s|\\+t)+(?<arch>sm_\w+?)(?=[\s,]|\\+[nr])/g
const ENTRY = /\.entry\s+([\w$]+)/g
const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' }

/** A cubin as base64, and the property that it is the value of, if it is one: `sm_90: 'f0VMR…'`. */
const CUBIN = /(?:\b(?<key>sm_\d{2,3}[af]?)(?:\\?["'])?\s*:\s*\\?["'`])?(?<base64>f0VMR[A-Za-z0-9+/]{32,}={0,2})/g
/** The properties of a definition that say by which name a kernel is known, and which C++ gives it. */
const NAMES = /\b(?<property>name|mangledName)(?:\\?["'])?\s*:\s*\\?["'`](?<name>[\w$]+)/g

/**
 * The kernels in a file, found in a time that grows with its length.
 * @throws ERR_INVALID_ARG_VALUE for a cubin that is damaged
 */
export function kernelsIn(bytes: Uint8Array): readonly CompiledKernels[] {
  if (isElf(bytes)) return [aloneOf(undefined, bytes, 0)]
  const text = new TextDecoder().decode(bytes)
  const headers = [...text.matchAll(HEADER)]
  let quote: Quote | undefined
  const found = headers.map(({ index, groups = {} }, number): Found => {
    // Of one literal with several headers each has what comes before the next.
    quote = quoteBefore(text, index, headers[number - 1]?.index ?? 0) ?? quote
    const ptx = ptxOf(text.slice(index, headers[number + 1]?.index), quote)
    const kernels = [...ptx.matchAll(ENTRY)].map(([, name = '']) => name)
    return { start: index, ptx, kernels, arch: groups['arch'], cubins: new Map() }
  })
  const names = definedNames(text)
  for (const { index, groups = {} } of text.matchAll(CUBIN)) {
    const { key, base64 = '' } = groups
    const alone = aloneOf(key, Buffer.from(base64, 'base64'), index)
    const own = key === undefined ? undefined : definitionOf(alone, found, key, names)
    if (own === undefined) found.push(alone)
    else for (const [architecture, cubin] of alone.cubins) own.cubins.set(architecture, cubin)
  }
  return found
}

function aloneOf(key: string | undefined, code: Uint8Array, start: number): Found {
  const { architecture, kernels } = readCubin(code)
  return {
    start,
    ptx: undefined,
    kernels,
    arch: undefined,
    cubins: new Map([[key ?? architecture, { code, architecture }]]),
  }
}

/**
 * The kernels that a cubin is defined with: those of the last before it that have its kernels, by their own names or by those that C++ gives them.
 * Bundlers rename variables, and put values in their place, and keep the order of a module.
 */
function definitionOf(
  cubin: Found,
  all: readonly Found[],
  key: string,
  names: ReadonlyMap<string, ReadonlySet<string>>,
): Found | undefined {
  const own = new Set(cubin.kernels.flatMap((name) => [name, ...(names.get(name) ?? [])]))
  const those = all.filter(({ kernels, cubins }) => !cubins.has(key) && kernels.some((name) => own.has(name)))
  return those.findLast(({ start }) => start < cubin.start) ?? those[0]
}

/** The names that definitions give kernels; keys are the names that C++ gives them. */
function definedNames(text: string): ReadonlyMap<string, ReadonlySet<string>> {
  const names = new Map<string, Set<string>>()
  let last = ''
  for (const { groups = {} } of text.matchAll(NAMES)) {
    const { property, name = '' } = groups
    if (property === 'name') last = name
    else names.set(name, (names.get(name) ?? new Set()).add(last))
  }
  return names
}

/** The beginning of a literal. */
interface Quote {
  readonly quote: string
  /** Whether it is itself in a literal, as of eval("…"). */
  readonly isEscaped: boolean
}

/** The last quote before `start`, and not before `from`. PTX begins with comments, which have no quotes in them. */
function quoteBefore(text: string, start: number, from: number): Quote | undefined {
  for (let at = start - 1; at >= from; at -= 1) {
    const quote = text[at] ?? ''
    if ('`\'"'.includes(quote)) return { quote, isEscaped: text[at - 1] === '\\' }
  }
  return undefined
}

/** The text up to the end of the literal that it is in, without its escapes; all of it if it is in none. */
function ptxOf(text: string, opened: Quote | undefined): string {
  if (opened === undefined) return text
  const { quote, isEscaped } = opened
  if (isEscaped) return ptxOf(unescaped(text), { quote, isEscaped: false })
  let end = 0
  while (end < text.length && text[end] !== quote) end += text[end] === '\\' ? 2 : 1
  const ptx = unescaped(text.slice(0, end))
  return /^\.version[^\n]*\\/.test(ptx) ? unescaped(ptx) : ptx
}

const unescaped = (text: string): string =>
  text.replace(/\\([\s\S])/g, (_, letter: string) => ESCAPES[letter] ?? letter)
