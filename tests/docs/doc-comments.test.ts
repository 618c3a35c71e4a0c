/**
 * Every export of every entry point, and every member of it, has a doc comment, with a `@param` for each parameter and codes that
 * docs/reference/errors.md and CUDA know in each `@throws`.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { cudaResultName } from '../../src/foundation/driver/cuda-results.js'
import { root } from '../helpers/root.js'

/** Printing, which all have, and what launches use among themselves. */
const SAYS_ENOUGH = new Set(['toString', '[Symbol.toStringTag]', '[inspect.custom]', '[launchOn]'])

const KNOWN_CODES = new Set(readFileSync(join(root, 'docs', 'reference', 'errors.md'), 'utf8').match(/\bERR_\w+/g))

const DECLARATION = /^(?:export )?(?:declare )?(?:abstract )?(?:class|interface|type|function|const|let|enum) (\w+)/
const MEMBER = /^(?:(?:static|readonly|abstract|get|set) )*(\[[\w.]+\]|\w+)\??(?:[(<:]| =)/

/** The entry point's name and the file of its declarations. */
function entryPoints(): readonly (readonly [name: string, path: string])[] {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    readonly exports: Readonly<Record<string, string | { readonly types: string }>>
  }
  // An entry point that registers something exports nothing.
  return Object.entries(exports).flatMap(([name, target]) =>
    typeof target === 'string' || /register$/.test(name) ? [] : [[name, join(root, target.types)] as const],
  )
}

/** For each file of declarations, which of its names the entry point lets out. */
function exportsOf(entryPoint: string): ReadonlyMap<string, ReadonlySet<string>> {
  const text = readFileSync(entryPoint, 'utf8')
  const own = text
    .split('\n')
    .flatMap((line) => (line.startsWith('export ') ? (DECLARATION.exec(line)?.[1] ?? []) : []))
  const found = new Map([[entryPoint, new Set(own)]])
  for (const [, list = '', from = ''] of text.matchAll(/export (?:type )?\{([^}]*)\} from '(\.[^']*)'/g)) {
    const path = join(dirname(entryPoint), from.replace(/\.js$/, '.d.ts'))
    const names = list.replace(/\btype /g, '').match(/\w+/g) ?? []
    found.set(path, new Set([...(found.get(path) ?? []), ...names]))
  }
  for (const [, from = ''] of text.matchAll(/^import '(\.[^']*)'/gm)) {
    const path = join(dirname(entryPoint), from.replace(/\.js$/, '.d.ts'))
    found.set(path, found.get(path) ?? new Set())
  }
  return found
}

/** What has no comment among the names given, their members, and what the file adds to classes of other files. */
export function undocumented(text: string, names: ReadonlySet<string>): readonly string[] {
  const missing: string[] = []
  let open: { readonly name: string; readonly indent: number } | undefined
  let previous = ''
  let last = ''
  for (const line of text.split('\n')) {
    const indent = line.search(/\S/)
    const code = line.trim()
    const commented = previous.endsWith('*/')
    const declared = DECLARATION.exec(code)?.[1]
    if (open === undefined && declared !== undefined && (indent > 0 || names.has(declared))) {
      if (indent === 0 && !commented && last !== declared) missing.push(declared)
      if (/\b(class|interface) .*\{$/.test(code)) open = { name: declared, indent }
      last = declared
    } else if (open !== undefined && indent === open.indent && code.startsWith('}')) {
      open = undefined
    } else if (open !== undefined && indent === open.indent + 4) {
      const member = MEMBER.exec(code)?.[1]
      const isOverload = member !== undefined && last === `${open.name}.${member}`
      if (member !== undefined) last = `${open.name}.${member}`
      if (member !== undefined && !commented && !isOverload && !SAYS_ENOUGH.has(member)) missing.push(last)
    }
    previous = code
  }
  return missing
}

/** The names of a signature's parameters, from the text of its declaration on. */
export function parametersOf(declaration: string): readonly string[] {
  const names: string[] = []
  let depth = 0
  let parameter = ''
  // The arrow of a function type closes nothing.
  for (const character of declaration.slice(declaration.indexOf('(')).replaceAll('=>', '  ')) {
    if ('([{<'.includes(character)) depth += 1
    if (')]}>'.includes(character)) depth -= 1
    if (depth === 0 || (depth === 1 && character === ',')) {
      const name = /^\W*(\w+)\??:/.exec(parameter)?.[1]
      if (name !== undefined) names.push(name)
      parameter = ''
    } else parameter += character
    if (depth === 0) break
  }
  return names
}

/** What a doc comment of a function or method, which stands before this declaration, leaves out or gets wrong. */
export function faultsOf(comment: string, declaration: string): readonly string[] {
  const tags = comment
    .replace(/\s*\*\/$/, '')
    .split(/^\s*\* @/m)
    .map((tag) => tag.replace(/\s*\n\s*\* ?/g, ' '))
  const described = tags.flatMap((tag) => /^param (\w+) \w|^param (\w+) `/.exec(tag)?.slice(1).filter(Boolean) ?? [])
  const parameters = parametersOf(declaration)
  const wrong = tags.flatMap((tag) => {
    const [, type, said = ''] = /^throws(?: \{(\w+)\})? (.*)/.exec(tag) ?? []
    if (said === '') return []
    const codes = said.match(/\bERR_\w+/g) ?? []
    const unknown = codes.filter((code) => !KNOWN_CODES.has(code))
    if (type === 'Error')
      return codes.length > 0 || / as `/.test(` ${said}`) ? unknown : [`@throws of no code: ${said}`]
    if (type !== 'CudaError')
      return ['LibraryError', 'PythonError'].includes(type ?? '') ? unknown : [`@throws of no class: ${said}`]
    const results = said.match(/\b\d+\b/g) ?? []
    return [...unknown, ...results.filter((result) => /_\d+$/.test(cudaResultName(Number(result))))]
  })
  const strangers = described.filter((name) => !parameters.includes(name)).map((name) => `@param ${name} of nothing`)
  const missing = parameters.filter((name) => !described.includes(name)).map((name) => `no @param ${name}`)
  return [...missing, ...strangers, ...wrong]
}

/** Faults in the doc comments of functions and methods, among the names given and what is added to other files' classes. */
export function faults(text: string, names: ReadonlySet<string>): readonly string[] {
  const found: string[] = []
  let outer = ''
  let comment = ''
  const lines = text.split('\n')
  for (const [index, line] of lines.entries()) {
    const code = line.trim()
    if (code.startsWith('/**')) comment = code
    else if (code.startsWith('*')) comment += `\n${line}`
    else {
      const declared = DECLARATION.exec(code)?.[1]
      const member = declared === undefined ? MEMBER.exec(code)?.[1] : undefined
      if (declared !== undefined) outer = line === code && !names.has(declared) ? '' : declared
      const isFunction = declared === undefined ? /^[^:]*\(/.test(code) : code.includes(`function ${declared}`)
      // A constructor that programs cannot call says what to call instead.
      if (isFunction && outer !== '' && comment !== '' && !comment.startsWith('/** Use `')) {
        const name = member === undefined ? outer : `${outer}.${member}`
        found.push(...faultsOf(comment, lines.slice(index).join('\n')).map((fault) => `${name}: ${fault}`))
      }
      comment = ''
    }
  }
  return found
}

describe('doc comments', () => {
  for (const [name, entryPoint] of entryPoints()) {
    it(`of the entry point ${name}`, () => {
      const files = [...exportsOf(entryPoint)]
      assert.ok(files.reduce((sum, [, names]) => sum + names.size, 0) > 0, 'nothing is exported')
      const missing = files.flatMap(([path, names]) => undocumented(readFileSync(path, 'utf8'), names))
      assert.deepEqual(missing, [], 'these have no doc comment')
      const wrong = files.flatMap(([path, names]) => faults(readFileSync(path, 'utf8'), names))
      assert.deepEqual(wrong, [], 'parameters and errors')
    })
  }

  it('are missed where there is none', () => {
    const text = `/** Yes. */
export declare class Seen {
    #private;
    readonly bare: number;
    /** Yes. */
    static from(a: number): Seen;
    static from(a: string): Seen;
    get bareToo(): string;
    readonly given = "a";
}
export interface Bare {
}
interface Inner {
    hidden: number;
}
declare module './other.js' {
    interface Other {
        added(): void;
    }
}`
    assert.deepEqual(undocumented(text, new Set(['Seen', 'Bare'])), [
      'Seen.bare',
      'Seen.bareToo',
      'Seen.given',
      'Bare',
      'Other.added',
    ])
  })

  it('are held against the parameters and the known errors', () => {
    const text = `export declare class Seen {
    /** Use \`Seen.from()\`. */
    constructor(core: never);
    /**
     * Yes.
     * @param a The first.
     * @param options \`b\`: the second
     * @returns more
     * @throws {Error} ERR_CLOSED; as \`close()\`
     * @throws {CudaError} 900 while it captures
     */
    static good<T>(a: (of: T, and: T) => void, options?: {
        readonly b?: number;
    }): Seen;
    /**
     * No.
     * @param c Nothing.
     * @throws ERR_CLOSED
     * @throws {Error} where it fails
     * @throws {Error} ERR_NEVER
     * @throws {CudaError} 899
     */
    bad(a: number, ...rest: number[]): void;
}
/** Not let out. */
export declare function inner(a: number): void;
/** Let out. */
export declare function outer(a: number): void;`
    assert.deepEqual(faults(text, new Set(['Seen', 'outer'])), [
      'Seen.bad: no @param a',
      'Seen.bad: no @param rest',
      'Seen.bad: @param c of nothing',
      'Seen.bad: @throws of no class: ERR_CLOSED',
      'Seen.bad: @throws of no code: where it fails',
      'Seen.bad: ERR_NEVER',
      'Seen.bad: 899',
      'outer: no @param a',
    ])
  })
})
