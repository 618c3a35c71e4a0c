/**
 * The guides and the examples of doc comments are true: each block of a guide, pasted into an empty file of a strict project,
 * compiles, runs on the simulator and prints what the page says; members exist, and links lead somewhere.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { inspect } from 'node:util'
import { Device, DeviceBuffer, Event, ExternalStream, PinnedBuffer, Stream } from 'cuda-streams'
import { foreignStream, simulate } from 'cuda-streams/sim'
import { implementation } from '../../src/foundation/base/library-object.js'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { lackOf } from '../helpers/python.js'
import { root } from '../helpers/root.js'
import { lacksOnnxRuntime } from '../libraries/onnx/runtime.js'
import { compilerUnavailable, GuideCompiler } from './guide-compiler.js'
import {
  type Block,
  CONTINUES,
  examplesOf,
  NEEDS,
  NEEDS_NVRTC,
  NEEDS_ONNX_RUNTIME,
  NEEDS_PYTHON,
  type Page,
  parsePage,
  placeOf,
  programsOf,
  readExamples,
  readPages,
  titleOf,
} from './guide-pages.js'
import { asShown, runPrograms } from './guide-runner.js'

const skip = compilerUnavailable() ?? false
if (typeof skip === 'string') console.log(`skipped: ${skip}`)

const WRONG = ['```ts', 'const a: number = 1', "a.synchronise('')", '```'].join('\n')
/** More would make the pages hard to paste from. */
const MOST_CONTINUED = 7

/** Pages whose expressions between backticks are all of this library. */
const TABLES = new Set([
  'docs/guides/coming-from.md',
  'docs/concepts/default-streams.md',
  'docs/reference/cuda-runtime.md',
])
const EXPRESSION =
  /^(?:(?:await )?using \w+ = |new |(?:await |!)?(?:stream|event|device|buffer|pinned|pool|graph|exec|context|wrapped|other|Stream|Event|Device|DeviceBuffer|PinnedBuffer)\.|(?:to|from)(?:DLPack|CudaArrayInterface)\()/

/** Programs read those of the first page; examples, tests and benchmarks those of the others. */
const WITH_VARIABLES = new Set(['docs/reference/environment.md', 'examples/ranks/README.md', 'tests/README.md'])

/** The expressions between backticks in a page, as one block in which each stands on its line of the page. */
function expressionsOf({ path, codeSpans }: Page): Block {
  const lines: string[] = []
  for (const { line, code } of codeSpans) {
    if (!EXPRESSION.test(code)) continue
    lines[line - 1] = `${lines[line - 1] ?? ''}{ ${code.replace('…', '{}')} } `
  }
  return { page: path, line: 1, language: 'ts', code: Array.from(lines, (line) => line ?? '').join('\n') }
}

async function compileAndRun() {
  const pages = readPages()
  const programs = pages.flatMap(programsOf)
  const fragments = [...readExamples(), ...pages.filter(({ path }) => TABLES.has(path)).map(expressionsOf)]
  const compiler = new GuideCompiler()
  const pasted = compiler.pasted([...programs, ...parsePage('wrong.md', WRONG).blocks])
  const compiled = [...pasted, ...compiler.fragments(fragments)]
  const lacking = lacksNvrtc()
  if (lacking !== false) console.log(`skipped: what compiles CUDA C++: ${lacking}`)
  const noPython = lackOf('numpy')
  if (noPython !== undefined) console.log(`skipped: what needs Python: ${noPython}`)
  const noOnnxRuntime = lacksOnnxRuntime()
  if (noOnnxRuntime !== false) console.log(`skipped: what needs ONNX Runtime: ${noOnnxRuntime}`)
  const needs = [
    NEEDS,
    ...(lacking === false ? [] : [NEEDS_NVRTC]),
    ...(noPython === undefined ? [] : [NEEDS_PYTHON]),
    ...(noOnnxRuntime === false ? [] : [NEEDS_ONNX_RUNTIME]),
  ]
  const runnable = pasted.filter(
    ({ block, errors }) => !needs.some((each) => each.test(block.code)) && errors.length === 0,
  )
  const folder = compiler.emptyProject()
  const runs = await runPrograms(
    runnable.map(({ script }) => script),
    folder,
    'sim',
  )
  return { pages, programs, fragments, compiler, compiled, runs }
}

const code = skip === false ? await compileAndRun() : undefined

describe('the code in the guides', { skip }, () => {
  if (code === undefined) return
  const { pages, programs, fragments, compiler, compiled, runs } = code
  after(() => compiler.remove())

  it('is found', () => {
    assert.ok(programs.length > 40, `${programs.length} programs`)
    assert.ok(fragments.length > 20, `${fragments.length} examples`)
    const source = ['/**', ' * @example', ' * ```ts', ' *   stream.use()', ' * ```', ' */', 'use(): this {', '}'].join(
      '\n',
    )
    const example = { page: 'src/it.ts', line: 4, language: 'ts', code: '  stream.use()' }
    assert.deepEqual(examplesOf('src/it.ts', source), [example])
    const printed = ['```js', 'print(1)', '```', 'prints', '```text', '1', '```'].join('\n')
    assert.equal(parsePage('it.md', printed).blocks[0]?.output, '1')
  })

  it('stands for itself, but for a few blocks that say what they continue', () => {
    const continued = pages.flatMap(({ blocks }) => blocks).filter(({ code }) => CONTINUES.test(code))
    assert.ok(continued.length <= MOST_CONTINUED, continued.map(titleOf).join(', '))
  })

  for (const { block, errors, script } of compiled) {
    if (block.page === 'wrong.md') continue
    it(`${titleOf(block)} compiles`, () => {
      assert.equal(errors.length, 0, errors.join('\n'))
    })
    const run = runs.get(script)
    if (run === undefined) continue
    it(`${titleOf(block)} runs${block.output === undefined ? '' : ', and prints what the page says'}`, () => {
      assert.equal(run.trouble, '')
      if (block.output !== undefined) assert.equal(asShown(run.output.trimEnd(), block.output), block.output)
    })
  }

  it('is told where it does not compile, with its line', () => {
    const found = compiled.find(({ block }) => block.page === 'wrong.md')
    assert.match(found?.errors.join('\n') ?? '', /^wrong\.md\(3,3\): error TS\d+: .*synchronise/)
  })
})

describe('the links in the guides', { skip }, () => {
  if (skip !== false) return
  const pages = readPages()
  const anchorsOf = new Map(pages.map(({ path, anchors }) => [path, anchors]))

  for (const { path, links } of pages) {
    const within = links.flatMap(({ line, target }) => {
      const place = placeOf(path, target)
      return place === undefined ? [] : [{ line, target, place }]
    })
    if (within.length === 0) continue
    it(path, () => {
      for (const { line, target, place } of within) {
        const [file, anchor] = place
        assert.ok(existsSync(join(root, file)), `${path}:${line}: ${target} is not there`)
        if (anchor === undefined) continue
        assert.ok(anchorsOf.get(file)?.has(anchor), `${path}:${line}: ${file} has no heading #${anchor}`)
      }
    })
  }
})

it('docs/index.md names every guide', { skip }, () => {
  const pages = readPages()
  const index = pages.find(({ path }) => path === 'docs/index.md')
  const linked = new Set(index?.links.map(({ target }) => placeOf(index.path, target)?.[0]))
  const guides = pages.map(({ path }) => path).filter((path) => path.startsWith('docs/') && path !== index?.path)
  assert.deepEqual(
    guides.filter((path) => !linked.has(path)),
    [],
  )
})

/** Every name of this form in the library's own code. */
function namesIn(folder: string, form: RegExp): readonly string[] {
  const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.js'),
  )
  const found = names.flatMap((name) => readFileSync(join(root, folder, name), 'utf8').match(form) ?? [])
  return [...new Set(found)].sort()
}

describe('the guides leave out', { skip }, () => {
  if (skip !== false) return
  const pages = readPages()
  const spansOf = (wanted: (path: string) => boolean): string =>
    pages
      .flatMap(({ path, codeSpans }) => (wanted(path) ? codeSpans : []))
      .map(({ code }) => code)
      .join(' ')

  it('no code of an error, and docs/reference/errors.md names none that does not exist', () => {
    const form = /\bERR_[A-Z_]+\b/g
    const documented = [...new Set(spansOf((path) => path === 'docs/reference/errors.md').match(form))].sort()
    assert.deepEqual(documented, namesIn('dist/src', form))
  })

  it('no environment variable, and the pages that have them name none of ours that does not exist', () => {
    const folders = ['src', 'bench', 'examples', 'tests'].map((name) => join('dist', name))
    const read = folders.flatMap((folder) => [
      ...namesIn(folder, /(?<=\benv\[')\w+(?='\])/g),
      ...namesIn(folder, /(?<=\bconst \{)[^}]*(?=\} = process\.env\b)/g).flatMap(
        (list) => list.match(/\b[A-Z_]+\b/g) ?? [],
      ),
    ])
    const ours = /\b(?:CUDA_STREAMS|BENCH)_[A-Z_]+\b/g
    const warnings = /(?<=\bcode: '|\bwarnOnce\(\s*'|\[)CUDA_STREAMS_[A-Z_]+(?='|\])/g
    const codes = namesIn('dist/src', warnings)
    assert.deepEqual(
      codes,
      [
        ...new Set(
          spansOf((path) => path === 'docs/reference/errors.md').match(new RegExp(`\\b(?:${codes.join('|')})\\b`, 'g')),
        ),
      ].sort(),
    )
    const variables = new Set([...read, ...namesIn('dist/src', ours)].filter((name) => !codes.includes(name)))
    assert.ok(variables.has('CUDA_STREAMS_DRIVER') && variables.has('HOME') && variables.has('CUDA_VISIBLE_DEVICES'))
    const documented = spansOf((path) => WITH_VARIABLES.has(path))
    const missing = [...variables].filter((name) => !new RegExp(`\\b${name}\\b`).test(documented))
    assert.deepEqual(missing, [])
    const known = new Set(folders.flatMap((folder) => namesIn(folder, ours)))
    assert.deepEqual(
      documented.match(ours)?.filter((name) => !known.has(name)),
      [],
    )
  })
})

/** All that a class offers, without what every object has. */
function membersOf(type: abstract new (...args: never) => object, made: object): readonly (string | symbol)[] {
  const common = new Set<string | symbol>(['constructor', 'prototype', 'length', 'name'])
  // What the copies of the package know each other's objects by is for no program.
  const inner = new Set<string | symbol>(['constructor', implementation, Symbol.for('cuda-streams.copy')])
  const own = Reflect.ownKeys(type).filter((key) => !common.has(key))
  const inherited: (string | symbol)[] = []
  for (let object: object | null = made; object !== null && object !== Object.prototype; ) {
    inherited.push(...Reflect.ownKeys(object).filter((key) => !inner.has(key)))
    object = Reflect.getPrototypeOf(object)
  }
  return [...new Set([...own, ...inherited])]
}

describe('docs/guides/coming-from.md', { skip }, () => {
  if (skip !== false) return
  const [device] = simulate().devices
  assert.ok(device)
  const own = new Stream({ device })
  const captured = own.capture(() => undefined)
  const [context] = device.split({ multiprocessors: [16] })
  const made: Readonly<Record<string, object>> = {
    Device,
    DeviceBuffer,
    Event,
    ExternalStream,
    PinnedBuffer,
    Stream,
    buffer: device.alloc(16),
    device,
    event: new Event({ device }),
    context,
    exec: captured.instantiate(),
    graph: captured,
    pinned: device.allocPinned(16),
    pool: device.memoryPool,
    stream: own,
    wrapped: new ExternalStream(foreignStream(device), { device }),
  }
  const page = (): Page => {
    const found = readPages().find(({ path }) => path === 'docs/guides/coming-from.md')
    assert.ok(found)
    return found
  }
  /** Such as `stream.record(event)`, but not `wp.Device.stream`. */
  const mentioned = (): readonly (readonly [receiver: string, member: string])[] =>
    page().codeSpans.flatMap(({ code }) =>
      [...code.matchAll(/(?<![\w.$])([A-Za-z]+)\.([A-Za-z]\w*)/g)].flatMap(([, receiver = '', member = '']) =>
        receiver in made ? [[receiver, member] as const] : [],
      ),
    )

  it('names only members that exist', () => {
    const names = mentioned()
    assert.ok(names.length > 100, `${names.length} found`)
    for (const [receiver, member] of names) {
      const object = made[receiver]
      assert.ok(object !== undefined && member in object, `${receiver}.${member} does not exist`)
    }
  })

  const classes = [
    ['Stream', Stream, 'stream'],
    ['ExternalStream', ExternalStream, 'wrapped'],
    ['Event', Event, 'event'],
  ] as const
  for (const [name, type, receiver] of classes) {
    it(`names every member of ${name}`, () => {
      const names = new Set(mentioned().map((pair) => pair.join('.')))
      const symbols = page()
        .codeSpans.map(({ code }) => code)
        .join(' ')
      const receivers = name === 'ExternalStream' ? ['Stream', 'stream', 'ExternalStream', 'wrapped'] : [name, receiver]
      const object = made[receiver]
      assert.ok(object)
      const missing = membersOf(type, object).filter((member) => {
        if (typeof member === 'string') return !receivers.some((prefix) => names.has(`${prefix}.${member}`))
        if (member === inspect.custom) return !symbols.includes('inspect.custom')
        return !symbols.includes((member.description ?? '').replace(/^nodejs\./, 'Symbol.'))
      })
      assert.deepEqual(missing, [], `docs/guides/coming-from.md says nothing of these members of ${name}`)
    })
  }
})
