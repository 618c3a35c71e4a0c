/**
 * The setup file for Jest, `setupFiles: ['cuda-streams/jest']`. Jest loads modules by code of its own. Where it runs tests as CommonJS,
 * it loads no ES modules, so this rewrites the library's files as CommonJS when a test requires them. Where it runs ES modules, it
 * cannot load one without waiting before Node 24.9, so this loads before each test file what the library loads when it is first used.
 */
import fs = require('node:fs')
import path = require('node:path')
import url = require('node:url')
import vm = require('node:vm')

type Exports = Readonly<Record<string, unknown>>
type Import = (specifier: string) => Exports

/** Jest has this module for every file, whether it is installed or not. */
// biome-ignore lint/correctness/noUndeclaredDependencies: Jest has it built in.
const globals: { jest: { mock(file: string, make: () => Exports): void } } = require('@jest/globals')

interface Package {
  readonly exports: Readonly<Record<string, unknown>>
  readonly imports: Readonly<Record<string, { readonly default: string }>>
}
const { exports: entries, imports: inners }: Package = require('../../../package.json')
/** Entry points of the package that a test can import: those of the bundlers and loaders are a level deeper, and this one is './jest'. */
const ENTRY_POINTS = Object.keys(entries)
  .filter((name) => /^\.(\/\w+)?$/.test(name) && name !== './jest')
  .map((name) => `entry-points/${name.slice(2) || 'index'}`)
/** What the library loads when it is first needed, by `createRequire()`, which Jest replaces too. */
const LOADED_LATER = [
  'cuda/open',
  'simulator/sim-driver',
  'ptx/ptx',
  'tools/sanitizer/sanitizer-variable',
  'tools/timeline/timeline-variable',
  'tools/recording/recording-variable',
  'tools/recording/trace-variable',
]

const IMPORT = /^import (?:(?:\{ (?<names>.*?),? \}|\* as (?<all>\w+)|(?<only>\w+)) from )?'(?<from>.+)';$/
const EXPORT_LIST = /^export \{(?<names>.*?),? ?\}(?: from '(?<from>.+)')?;$/
const EXPORT = /^export (?<declaration>(?:async )?(?:function\*?|class|const|let) (?<name>[\w$]+).*)/

/** The names of `a, b as c`, each with its other name. */
function pairsIn(names: string): readonly (readonly [name: string, other: string])[] {
  return names
    .split(',')
    .filter((name) => name.trim() !== '')
    .map((name) => {
      const [first = '', second = first] = name.trim().split(' as ')
      return [first, second]
    })
}

/**
 * Rewrites a file that the compiler made as the body of a function of `exports`, `importModule` and `moduleUrl`, line by line: the compiler
 * writes each import and export into a line of its own, and no two files import each other in a circle.
 */
function asCommonJs(text: string): string {
  const getters: string[] = []
  const rewritten = (line: string): string => {
    const { names, all, only, from } = IMPORT.exec(line)?.groups ?? {}
    if (from !== undefined) {
      // Of Node's modules, whose default is what require() returns.
      const target = all ?? only ?? (names && `{ ${pairsIn(names).map((pair) => pair.join(': '))} }`)
      return `${target === undefined ? '' : `const ${target} = `}importModule('${from}');`
    }
    const list = EXPORT_LIST.exec(line)?.groups
    if (list !== undefined) {
      const source = list['from'] === undefined ? '' : `source${getters.length}`
      for (const [name, other] of pairsIn(list['names'] ?? '')) {
        getters.push(`${other}: () => ${source === '' ? name : `${source}.${name}`}`)
      }
      return source === '' ? '' : `const ${source} = importModule('${list['from']}');`
    }
    const { declaration, name } = EXPORT.exec(line)?.groups ?? {}
    if (declaration === undefined) return line
    getters.push(`${name}: () => ${name}`)
    return declaration
  }
  const code = text.split('\n').map(rewritten).join('\n').replaceAll('import.meta.url', 'moduleUrl')
  const define = 'Object.defineProperty(exports, name, { get, enumerable: true })'
  return `'use strict'; for (const [name, get] of Object.entries({ ${getters.join(', ')} })) ${define}; ${code}`
}

const loaded = new Map<string, Exports>()

function load(file: string): Exports {
  const known = loaded.get(file)
  if (known !== undefined) return known
  const exports = {}
  const moduleUrl = url.pathToFileURL(file).href
  const code = `(function (exports, importModule, moduleUrl) { ${asCommonJs(fs.readFileSync(file, 'utf8'))}\n})\n//# sourceURL=${moduleUrl}`
  const importModule: Import = (specifier) => {
    const inner = inners[specifier]
    if (inner !== undefined) return load(path.join(__dirname, '..', '..', '..', inner.default))
    return specifier.startsWith('.') ? load(path.join(path.dirname(file), specifier)) : require(specifier)
  }
  // Indirectly, so that the code sees the globals of the test, whose classes its objects are to have, and keeps its line numbers.
  // biome-ignore lint/security/noGlobalEval: files of this package, which Jest would evaluate otherwise.
  const evaluate: (exports: object, importModule: Import, moduleUrl: string) => void = globalThis.eval(code)
  evaluate(exports, importModule, moduleUrl)
  loaded.set(file, exports)
  return exports
}

const fileOf = (name: string): string => path.join(__dirname, '..', `${name}.js`)

/** Returns what loads the same again without waiting. */
function loadedBefore(file: string): Promise<() => Exports> {
  const fail = (error: unknown) => (): never => {
    throw error
  }
  return import(url.pathToFileURL(file).href).then((exports: Exports) => () => exports, fail)
}

/** Jest calls it before each file of tests, and waits for it. */
async function setUp(): Promise<void> {
  const { prototype } = Object(Reflect.get(vm, 'SourceTextModule'))
  const loadsEsModules = prototype !== undefined
  // Jest itself asks this: where modules know whether they have to be waited for, it loads them synchronously, too.
  if (loadsEsModules && 'hasAsyncGraph' in prototype) return
  for (const file of [...ENTRY_POINTS, ...LOADED_LATER].map(fileOf)) {
    globals.jest.mock(file, loadsEsModules ? await loadedBefore(file) : () => load(file))
  }
}

export = setUp
