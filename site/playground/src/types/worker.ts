/** TypeScript's language service, on one file, with the declarations of the library. */
import ts from 'typescript'
import type { Answer, Question } from './messages.js'

const PROGRAM = '/program.ts'
const AMBIENT = '/ambient.d.ts'
/** What programs find in the page and in Node both. */
const GLOBALS = `
declare const console: Record<'log' | 'info' | 'debug' | 'warn' | 'error' | 'table', (...values: unknown[]) => void>
declare function setTimeout(fn: () => void, milliseconds?: number): unknown
declare function clearTimeout(timer: unknown): void
declare function setInterval(fn: () => void, milliseconds?: number): unknown
declare function clearInterval(timer: unknown): void
declare function setImmediate(fn: () => void): unknown
declare function queueMicrotask(fn: () => void): void
declare const performance: { now(): number }
interface AbortSignal { readonly aborted: boolean }
declare module 'node:timers/promises' {
  export function setTimeout<T>(milliseconds: number, value?: T): Promise<T>
  export function setImmediate<T>(value?: T): Promise<T>
}
declare module 'node:assert/strict' {
  function assert(value: unknown, message?: string): asserts value
  namespace assert {
    function ok(value: unknown, message?: string): asserts value
    function equal(actual: unknown, expected: unknown, message?: string): void
    function deepEqual(actual: unknown, expected: unknown, message?: string): void
  }
  export default assert
}
`
const MOST_OFFERED = 200

let code = ''
let version = 0
const files = new Map<string, string>([[AMBIENT, GLOBALS]])
const loaded = fetch(new URL('declarations.json', self.location.href))
  .then((response): Promise<Record<string, string>> => response.json())
  .then((found) => {
    for (const [name, text] of Object.entries(found)) files.set(name, text)
  })

/** The declarations of PTX that is typed, by path. */
let declared = new Map<string, string>()

const textOf = (name: string): string | undefined => (name === PROGRAM ? code : (declared.get(name) ?? files.get(name)))

const options: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
  types: [],
  strict: true,
  skipLibCheck: true,
  noEmit: true,
  allowArbitraryExtensions: true,
  paths: { 'cuda-streams': ['/library/entry-points/index.d.ts'], 'cuda-streams/*': ['/library/entry-points/*.d.ts'] },
}

const service = ts.createLanguageService({
  getCompilationSettings: () => options,
  // With other files in this list imports are looked for again.
  getScriptFileNames: () => [PROGRAM, AMBIENT, ...declared.keys()],
  getScriptVersion: (name) => (name === PROGRAM ? String(version) : (declared.get(name) ?? '')),
  getScriptSnapshot: (name) => {
    const text = textOf(name)
    return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text)
  },
  getCurrentDirectory: () => '/',
  getDefaultLibFileName: () => '/lib/lib.es2023.d.ts',
  fileExists: (name) => textOf(name) !== undefined,
  readFile: textOf,
  directoryExists: (name) => name === '/' || [...files.keys()].some((file) => file.startsWith(`${name}/`)),
})

self.addEventListener('message', ({ data }: MessageEvent<Question & { id: number }>) => {
  void loaded.then(() => self.postMessage({ id: data.id, ...answer(data) }))
})

function answer({ what, code: text, at, declarations, name = '' }: Question): Answer {
  // Declarations of axpy.cu are those that TypeScript finds in axpy.d.cu.ts.
  declared = new Map(Object.entries(declarations).map(([name, one]) => [`/${name.replace(/\.cu$/, '.d.cu.ts')}`, one]))
  if (text !== code) {
    code = text
    version += 1
  }
  if (what === 'check') return { diagnostics: diagnostics() }
  if (what === 'complete') return { completions: completions(at) }
  if (what === 'signature') {
    const signature = signatureAt(at)
    return signature === undefined ? {} : { signature }
  }
  if (what === 'detail') {
    const detail = detailOf(at, name)
    return detail === undefined ? {} : { detail }
  }
  const about = describe(at)
  return about === undefined ? {} : { about }
}

function diagnostics(): NonNullable<Answer['diagnostics']> {
  const found = [...service.getSyntacticDiagnostics(PROGRAM), ...service.getSemanticDiagnostics(PROGRAM)]
  return found.map(({ start = 0, length = 1, messageText }) => ({
    from: Math.min(start, code.length),
    to: Math.min(start + length, code.length),
    severity: 'error',
    message: ts.flattenDiagnosticMessageText(messageText, '\n'),
  }))
}

const KINDS: Readonly<Record<string, string>> = {
  method: 'method',
  property: 'property',
  getter: 'property',
  function: 'function',
  class: 'class',
  interface: 'interface',
  keyword: 'keyword',
  const: 'constant',
  let: 'variable',
  module: 'namespace',
}

function completions(at: number): NonNullable<Answer['completions']> {
  const found = service.getCompletionsAtPosition(PROGRAM, at, {})
  const sorted = [...(found?.entries ?? [])].sort((a, b) => a.sortText.localeCompare(b.sortText))
  return sorted
    .filter(({ name }) => !name.startsWith('__'))
    .slice(0, MOST_OFFERED)
    .map(({ name, kind, sortText }) => ({
      label: name,
      type: KINDS[kind] ?? 'text',
      boost: sortText <= '11' ? 1 : sortText >= '15' ? -1 : 0,
    }))
}

function detailOf(at: number, name: string): Answer['detail'] {
  const details = service.getCompletionEntryDetails(PROGRAM, at, name, undefined, undefined, undefined, undefined)
  if (details === undefined) return undefined
  return {
    text: ts.displayPartsToString(details.displayParts),
    documentation: ts.displayPartsToString(details.documentation),
  }
}

function describe(at: number): Answer['about'] {
  const info = service.getQuickInfoAtPosition(PROGRAM, at)
  if (info === undefined) return undefined
  const { start, length } = info.textSpan
  return {
    from: start,
    to: start + length,
    text: ts.displayPartsToString(info.displayParts),
    documentation: ts.displayPartsToString(info.documentation),
  }
}

function signatureAt(at: number): Answer['signature'] {
  const help = service.getSignatureHelpItems(PROGRAM, at, {})
  const item = help?.items[help.selectedItemIndex]
  if (help === undefined || item === undefined) return undefined
  const text = (parts: readonly ts.SymbolDisplayPart[]): string => parts.map((part) => part.text).join('')
  const between = text(item.separatorDisplayParts)
  const last = item.parameters.length - 1
  const parameter = item.parameters[Math.min(help.argumentIndex, last)]
  return {
    from: help.applicableSpan.start,
    before: text(item.prefixDisplayParts),
    parameters: item.parameters.map(({ displayParts }, nth) => text(displayParts) + (nth === last ? '' : between)),
    after: text(item.suffixDisplayParts),
    at: item.isVariadic ? Math.min(help.argumentIndex, last) : help.argumentIndex,
    documentation: text(parameter?.documentation ?? []),
  }
}
