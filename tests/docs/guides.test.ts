/** The guides are true: their code compiles, their programs run, their members exist, and their links lead somewhere. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { after, describe, it } from 'node:test'
import { inspect } from 'node:util'
import { Device, DeviceBuffer, Event, ExternalStream, PinnedBuffer, Stream } from 'cuda-streams'
import { foreignStream, simulate } from 'cuda-streams/sim'
import { root } from '../helpers/root.js'
import { compilerUnavailable, GuideCompiler } from './guide-compiler.js'
import { type Block, type Page, parsePage, readPages } from './guide-pages.js'

const skip = compilerUnavailable() ?? false
if (typeof skip === 'string') console.log(`skipped: ${skip}`)

const WRONG = ['```ts', 'stream.synchronise()', '```'].join('\n')

/** Pages whose expressions between backticks are all of this library. */
const TABLES = new Set(['docs/coming-from.md', 'docs/default-streams.md'])
const EXPRESSION =
  /^(?:(?:await )?using \w+ = |new |(?:await |!)?(?:stream|event|device|buffer|graph|wrapped|Stream|Event|Device)\.)/

/** The expressions between backticks in a page, as one block in which each stands on its line of the page. */
function expressionsOf({ path, codeSpans }: Page): Block {
  const lines: string[] = []
  for (const { line, code } of codeSpans) {
    if (!EXPRESSION.test(code)) continue
    lines[line - 1] = `${lines[line - 1] ?? ''}{ ${code.replace('…', '{}')} } `
  }
  return { page: path, line: 1, code: Array.from(lines, (line) => line ?? '').join('\n') }
}

/** Programs, which need nothing from outside: they bring their own simulated machine, or check what comes of them. */
function isProgram({ code }: Block): boolean {
  return code.includes("from 'cuda-streams/sim'") || code.includes("from 'node:assert/strict'")
}

function titleOf({ page, line }: Block): string {
  return `${page}:${line}`
}

describe('the code in the guides', { skip }, () => {
  if (skip !== false) return
  const pages = readPages()
  const blocks = pages.flatMap((page) => page.blocks)
  const expressions = pages.filter(({ path }) => TABLES.has(path)).map(expressionsOf)
  const wrong = parsePage('wrong.md', WRONG).blocks
  const compiler = new GuideCompiler()
  const compiled = compiler.compile([...blocks, ...expressions, ...wrong])
  after(() => compiler.remove())

  it('is found', () => {
    assert.ok(blocks.length > 10, `${blocks.length} blocks`)
    assert.ok(blocks.filter(isProgram).length > 3, 'programs')
  })

  for (const { block, errors, script } of compiled) {
    if (block.page === 'wrong.md') continue
    it(`${titleOf(block)} compiles`, () => {
      const way = 'Mend the block, or declare what it uses in it or in tests/docs/guide-prelude.ts'
      assert.equal(errors.length, 0, `${errors.join('\n')}\n${way}`)
    })
    if (!isProgram(block)) continue
    it(`${titleOf(block)} runs`, () => {
      const env = { ...process.env, NODE_OPTIONS: '', CUDA_STREAMS_DRIVER: 'sim' }
      const { status, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8', timeout: 60_000, env })
      assert.equal(status, 0, stderr)
      assert.equal(stderr, '')
    })
  }

  it('is told where it does not compile, with its line', () => {
    const found = compiled.find(({ block }) => block.page === 'wrong.md')
    assert.match(found?.errors.join('\n') ?? '', /^wrong\.md\(2,8\): error TS\d+: .*synchronise/)
  })
})

describe('the links in the guides', { skip }, () => {
  if (skip !== false) return
  const pages = readPages()
  const anchorsOf = new Map(pages.map(({ path, anchors }) => [path, anchors]))

  for (const { path, links } of pages) {
    const relative = links.filter(({ target }) => !/^[a-z]+:/.test(target))
    if (relative.length === 0) continue
    it(path, () => {
      for (const { line, target } of relative) {
        const [file = '', anchor] = target.split('#')
        const found = file === '' ? path : normalize(join(dirname(path), file))
        assert.ok(existsSync(join(root, found)), `${path}:${line}: ${target} is not there`)
        if (anchor === undefined) continue
        assert.ok(anchorsOf.get(found)?.has(anchor), `${path}:${line}: ${found} has no heading #${anchor}`)
      }
    })
  }
})

it('docs/index.md names every guide', { skip }, () => {
  const pages = readPages()
  const linked = pages.find(({ path }) => path === 'docs/index.md')?.links.map(({ target }) => `docs/${target}`) ?? []
  const guides = pages.map(({ path }) => path).filter((path) => path.startsWith('docs/') && path !== 'docs/index.md')
  assert.deepEqual(linked.filter((path) => path.startsWith('docs/') && !path.includes('/../')).sort(), guides)
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

  it('no code of an error, and docs/errors.md names none that does not exist', () => {
    const form = /\bERR_[A-Z_]+\b/g
    const documented = [...new Set(spansOf((path) => path === 'docs/errors.md').match(form))].sort()
    assert.deepEqual(documented, namesIn('dist/src', form))
  })

  it('no environment variable, and docs/environment.md names none of ours that does not exist', () => {
    const folders = ['src', 'bench', 'examples', 'tests'].map((name) => join('dist', name))
    const read = folders.flatMap((folder) => [
      ...namesIn(folder, /(?<=\benv\[')\w+(?='\])/g),
      ...namesIn(folder, /(?<=\bconst \{)[^}]*(?=\} = process\.env\b)/g).flatMap(
        (list) => list.match(/\b[A-Z_]+\b/g) ?? [],
      ),
    ])
    const ours = /\b(?:CUDA_STREAMS|BENCH)_[A-Z_]+\b/g
    // The code of a warning.
    const variables = new Set(
      [...read, ...namesIn('dist/src', ours)].filter((name) => name !== 'CUDA_STREAMS_SIMULATED'),
    )
    assert.ok(variables.has('CUDA_STREAMS_DRIVER') && variables.has('HOME') && variables.has('BENCH_PYTHON'))
    const documented = spansOf((path) => path === 'docs/environment.md')
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
  const own = Reflect.ownKeys(type).filter((key) => !common.has(key))
  const inherited: (string | symbol)[] = []
  for (let object: object | null = made; object !== null && object !== Object.prototype; ) {
    inherited.push(...Reflect.ownKeys(object).filter((key) => key !== 'constructor'))
    object = Reflect.getPrototypeOf(object)
  }
  return [...new Set([...own, ...inherited])]
}

describe('docs/coming-from.md', { skip }, () => {
  if (skip !== false) return
  const [device] = simulate().devices
  assert.ok(device)
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
    graph: new Stream({ device }).capture(() => undefined),
    pinned: device.allocPinned(16),
    stream: new Stream({ device }),
    wrapped: new ExternalStream(foreignStream(device), { device }),
  }
  const page = (): Page => {
    const found = readPages().find(({ path }) => path === 'docs/coming-from.md')
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
      assert.deepEqual(missing, [], `docs/coming-from.md says nothing of these members of ${name}`)
    })
  }
})
