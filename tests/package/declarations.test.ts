/**
 * The declarations that the package ships: an editor shows what they name. They name nothing that is not public, claim no
 * member that objects lack, and need neither @types/node nor the type arguments that typed arrays have since TypeScript 5.7.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { compilerUnavailable } from '../docs/guide-compiler.js'
import { root } from '../helpers/root.js'

const entryPoints = Object.entries(
  (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly exports: Record<string, Target> })
    .exports,
).flatMap(([, target]) => (typeof target === 'string' ? [] : [target]))
type Target = string | { readonly types: string; readonly default: string }

/** Fields of objects, which no prototype has. */
const FIELDS: Readonly<Record<string, string>> = {
  Stream: 'device serial',
  ExternalStream: '',
  Event: 'device timing blockingSync interprocess serial',
  Device: 'ordinal',
  DeviceBuffer: '',
  PinnedBuffer: '',
  TensorMap: 'device',
  Memory: 'device byteLength serial',
  HandleObject: 'device serial',
  Graph: 'device serial',
  GraphExec: 'device serial',
  GreenContext: 'device multiprocessors serial',
  Session: 'device inputs outputs serial',
  MemoryPool: 'device maxBytes serial',
  OpaqueArray: 'device shape format channels byteLength serial',
  TextureObject: 'source device handle serial',
  SurfaceObject: 'source device handle serial',
  StreamPool: 'device size serial',
  StreamLane: 'serial',
  Condition: 'handle serial',
  Module: 'device serial',
  Kernel: 'name module',
  DefinedKernel: 'name',
  TritonKernel: 'name configs',
  CudaError: 'code number call',
  Python: 'version library executable',
  PythonError: 'type traceback',
  LibraryError: 'code number call',
  HandleOwner: 'device serial',
  DLPackTensor: 'pointer versioned device',
  Communicator: 'device rank size serial',
  Sanitizer: 'mode',
  SanitizerError: 'code reports',
  Timeline: 'streams',
  TimelineSession: '',
}
/** Bases of public classes and types: they are not exported, and their members are public. */
const BASES = [
  'LibraryObject',
  'ClosableObject',
  'HandleObject',
  'HandleOwner',
  'Memory',
  'StreamBase',
  'WhichFail',
  'AnyNode',
]
/** The constants that a union of names is made of, a type for Uint8Array<ArrayBuffer>, and the function of `Program`. */
const SPELLED = ['DEVICE_ATTRIBUTES', 'ELEMENT_TYPES', 'FAILING_CALLS', 'KIND_NAMES', 'NCCL_OPERATIONS']
const HELPERS = [
  'ElementTypeName',
  'OwnBytes',
  'SharedKind',
  'Tracer',
  'CUresult',
  'Tuple',
  'PointedStruct',
  'PointerView',
]
/** Of the language, of browsers and Node alike. */
const GLOBALS = [
  ...['ArrayLike', 'Iterable'],
  ...['AbortSignal', 'ArrayBuffer', 'ArrayBufferLike', 'ArrayBufferView', 'AsyncDisposable', 'Disposable', 'Error'],
  ...['BigInt64Array', 'BigUint64Array', 'Float32Array', 'Float64Array', 'Int16Array', 'Int32Array', 'Int8Array'],
  ...[
    'Uint16Array',
    'Uint32Array',
    'Uint8Array',
    'Exclude',
    'Omit',
    'Pick',
    'Promise',
    'PromiseLike',
    'Readonly',
    'Record',
    'Symbol',
  ],
  ...['ReadableStream', 'RegExp', 'WritableStream'],
]

/** All files of declarations that the entry points lead to. */
const files = new Map<string, string>()
const waiting = entryPoints.map(({ types }) => join(root, types))
for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
  if (files.has(path)) continue
  // What programs can read: neither comments nor strings.
  const text = readFileSync(path, 'utf8').replaceAll(/\/\*[\s\S]*?\*\//g, '')
  files.set(path, text)
  for (const [, from = ''] of text.matchAll(/(?:from|import|import\(|module) ?'(\.[^']*)\.js'/g)) {
    waiting.push(join(dirname(path), `${from}.d.ts`))
  }
}

/** The declarations of these names, each as text, with what other files add to classes. */
const DECLARED =
  /^ *(?:export )?(?:declare )?(?:abstract )?(?:class|interface|type|function|const) (\w+)(?:[^{;\n]*\{\n[\s\S]*?\n\}|[^\n]*)/gm

const exported = new Set<string>()
for (const { types } of entryPoints) {
  const text = files.get(join(root, types)) ?? ''
  for (const [, list = ''] of text.matchAll(/export (?:type )?\{([^}]*)\}/g)) {
    for (const name of list.replaceAll(/\btype /g, '').match(/\w+/g) ?? []) exported.add(name)
  }
  for (const [, name = ''] of text.matchAll(DECLARED)) exported.add(name)
}
const declarations = [...files.values()].flatMap((text) =>
  [...text.replaceAll(/^declare module '[^']*' \{\n([\s\S]*?)^\}/gm, '$1').matchAll(DECLARED)]
    .map(([whole, name = '']) => ({ name, whole: whole.replaceAll(/'[^'\n]*'|`[^`]*`/g, "''") }))
    .filter(({ name }) => exported.has(name) || BASES.includes(name)),
)

test('declarations name nothing that is not public', () => {
  assert.ok(exported.size > 130 && declarations.length > exported.size, `${exported.size} exports`)
  const known = new Set([...exported, ...GLOBALS, ...BASES, ...SPELLED, ...HELPERS])
  const leaks = declarations.flatMap(({ name, whole }) => {
    // Of a private or protected constructor nothing is called.
    const text = whole.replaceAll(/^ *protected constructor\(.*$/gm, '')
    const own = [...text.matchAll(/<(?:const |in |out )*(\w+)(?: extends|[,>= ])|\[(\w+) in |infer (\w+)/g)]
    const parameters = new Set(own.flatMap((match) => match.slice(1)))
    const names = text.match(/(?<![\w.#])[A-Z]\w*[a-z]\w*/g) ?? []
    return names.filter((each) => !known.has(each) && !parameters.has(each)).map((each) => `${name}: ${each}`)
  })
  assert.deepEqual([...new Set(leaks)], [])
})

test('errors of the driver and of libraries come from the main entry point, and are of one class wherever they are exported', async () => {
  const modules = (await Promise.all(entryPoints.map(({ default: path }) => import(join(root, path))))) as readonly {
    readonly [name: string]: unknown
  }[]
  const main: unknown = await import('cuda-streams')
  for (const name of ['CudaError', 'LibraryError']) {
    const classes = modules.flatMap((module) => (name in module ? [module[name]] : []))
    assert.deepEqual(new Set(classes), new Set([Reflect.get(Object(main), name)]))
    assert.equal(typeof classes[0], 'function')
  }
})

test('declarations have the members that objects have, and no protected one', async () => {
  const modules = (await Promise.all(
    entryPoints.map(({ default: path }) => import(join(root, path))),
  )) as readonly object[]
  const exports = new Map(modules.flatMap((module) => Object.entries(module)))
  const wrong: string[] = []
  let members = 0
  for (const { name, whole } of declarations) {
    const isClass = /\bclass /.test(whole.split('\n', 1)[0] ?? '')
    const value: unknown =
      exports.get(name) ?? (name === 'Memory' ? Object.getPrototypeOf(exports.get('DeviceBuffer')) : undefined)
    if (typeof value !== 'function' || !(isClass || whole.includes('interface'))) continue
    const there = new Set<string>((FIELDS[name] ?? '').split(' '))
    for (const start of [value, value.prototype as object]) {
      for (let at: object | null = start; at !== null; at = Object.getPrototypeOf(at)) {
        for (const key of Reflect.ownKeys(at)) there.add(typeof key === 'symbol' ? '' : key)
      }
    }
    const indent = whole.search(/\S/) + 4
    for (const line of whole.split('\n').slice(1, -1)) {
      const [, spaces = '', modifiers = '', member] = /^( *)((?:\w+ )*?)(\[[\w.]+\]|#?\w+)\??[(<:;]/.exec(line) ?? []
      if (member === undefined || spaces.length !== indent) continue
      members += 1
      const isSymbol = /^\[(Symbol\.(asyncDispose|dispose|toStringTag)|cudaStream)\]$/.test(member)
      const isHidden = member === '#private' || member === 'constructor'
      if (!isHidden && !isSymbol && !there.has(member)) wrong.push(`${name}.${member}`)
      if (modifiers.includes('protected') && member !== 'constructor') wrong.push(`protected ${name}.${member}`)
    }
    if (/constructor\(.*\bnever\b/.test(whole)) wrong.push(`new ${name}(never)`)
  }
  assert.ok(members > 200, `only ${members} members were found`)
  assert.deepEqual(wrong, [])
})

test('declarations need no other package, and no type arguments of typed arrays', () => {
  const wrong = [...files].flatMap(([path, text]) => {
    const packages = [...text.matchAll(/(?:from |import |import\()'([^.'][^']*)'/g)].map(([, name = '']) => name)
    const generic = text.match(/\b(?:Int|Uint|Float|Big)\w*Array</g) ?? []
    const ofNode = text.match(/\bNodeJS\b|\bBuffer\./g) ?? []
    const allowed = path.endsWith('spans.d.ts') ? ['@opentelemetry/api'] : []
    return [...packages, ...generic, ...ofNode]
      .filter((each) => !allowed.includes(each))
      .map((each) => `${path.slice(root.length)}: ${each}`)
  })
  assert.deepEqual(wrong, [])
})

test('no declarations are in dist/ but those that entry points lead to', () => {
  const folder = join(root, 'dist', 'src')
  const built = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => /\.d\.c?ts$/.test(name))
  // TypeScript finds the types of Jest's setup file beside it; the playground imports inner files.
  assert.deepEqual(
    new Set(built.map((name) => join(folder, name))),
    new Set([
      ...files.keys(),
      join(folder, 'entry-points', 'jest.d.cts'),
      join(folder, 'foundation', 'base', 'uncaught.d.ts'),
      join(folder, 'cu', 'cu-module.d.ts'),
    ]),
  )
})

const script = join(root, 'scripts', 'types-matrix.mjs')
const unavailable = compilerUnavailable() ?? (existsSync(script) ? undefined : 'scripts/ is not here')
if (unavailable !== undefined) console.log(`skipped: ${unavailable}`)

test('a program compiles against the package, its declarations checked too, with @types/node and without', {
  skip: unavailable ?? false,
}, () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, '--quick'], { encoding: 'utf8' })
  assert.equal(status, 0, `${stdout}${stderr}`)
  console.log(stdout.trim())
})
