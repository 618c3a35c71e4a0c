// The conformance suite passes on what takes the place of Node in a page; here it is played in Node. That the same programs come to the
// same in a real page is tested there, by the other tests of this folder.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { describe, test } from 'node:test'
import ts from 'typescript'
import { ofTheDay } from '../../../dist/tests/helpers/of-the-day.js'
import { REPLACED, root, runsInPage } from '../in-place-of-node.mjs'

const AT_NIGHT = process.env.CUDA_STREAMS_TEST_EFFORT === 'nightly'
/** Files of the conformance suite that cannot pass there, or would say nothing. */
const NOT_PLAYED = {
  'blocking-calls': 'CUDA_STREAMS_SYNC: a page has no environment variables',
  'driver-choice': 'CUDA_STREAMS_DRIVER and its like: a page has no environment variables',
  'foreign-capture': 'it needs a GPU',
  'option-names': 'it has the options of cuda-streams/cu, too, which compiles in Node alone',
  matrix: 'it takes minutes; on 22 November 2026 all of it passed there',
  'silent-waits': 'CUDA_STREAMS_WARN_AFTER, and the warnings of a process',
}
/** Those about what has something else in its place in a page: the event loop, memory, what JavaScript collects. Each has its day of three; the others are played at night. */
const IN_TURN = [
  ...['callers', 'closing', 'completion', 'deadlocks', 'defined-kernels', 'draining', 'giving-back', 'host-functions'],
  ...['identity', 'kernels', 'memory', 'ordering', 'promises', 'sharing', 'streams', 'transfers', 'values'],
  ...['arrays', 'textures', 'tensor-maps'],
]
/** In files that are replaced. */
const isReplaced = (place) => REPLACED[place.replace(/\.ts: .*/s, '.js')] !== undefined
/** TypeScript's codes for a name that is not there; the other codes also say what types to install. */
const NO_SUCH_NAME = [2304, 2552, 2580, 2591]
const OPTIONS = {
  noEmit: true,
  types: [],
  strict: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
}
const sources = join(root, 'src')
const noSources = existsSync(sources) ? false : 'the sources are not here'

/** Milliseconds after which a process hangs. */
const LONGEST = 120_000

const folder = join(root, 'dist', 'tests', 'conformance')
const files = readdirSync(folder).flatMap((name) => /^(.*)\.test\.js$/.exec(name)?.[1] ?? [])
const hooks = new URL('./as-in-a-page.mjs', import.meta.url).href

function run(args) {
  const child = spawn(process.execPath, [`--import=${hooks}`, ...args], {
    env: {
      ...process.env,
      NODE_TEST_CONTEXT: undefined,
      NODE_OPTIONS: '',
      CUDA_STREAMS_DRIVER: 'sim',
      CUDA_STREAMS_TEST_EFFORT: 'quick',
    },
    cwd: root,
    timeout: LONGEST,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)))
  return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code: signal ?? code, output })))
}

const inPage = (program) => run(['--input-type=module', '-e', program])

test('what is played in turn, and what is not played, are files of the conformance suite', () => {
  assert.deepEqual(
    [...IN_TURN, ...Object.keys(NOT_PLAYED)].filter((name) => !files.includes(name)),
    [],
  )
})

test('what a page loads uses no global and no module that only Node has', {
  skip: noSources,
}, () => {
  const program = ts.createProgram(
    ['index', 'sim', 'sanitizer', 'timeline'].map((name) => join(sources, 'entry-points', `${name}.ts`)),
    { ...OPTIONS, lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'] },
  )
  const unknown = program.getSourceFiles().flatMap((file) => {
    const name = relative(sources, file.fileName)
    if (!runsInPage(join(root, 'dist', 'src', name.replace(/ts$/, 'js')))) return []
    const missing = program.getSemanticDiagnostics(file).filter(({ code }) => NO_SUCH_NAME.includes(code))
    return missing.map(({ start, length }) => `${name}: ${file.text.slice(start, start + length)}`)
  })
  // The compiler has looked.
  assert.ok(unknown.some((place) => place.startsWith('foundation/base/node-modules.ts: ')))
  assert.deepEqual(
    unknown.filter((place) => !isReplaced(place)),
    [],
  )
})

describe('the library, as in a page', { concurrency: 2 }, () => {
  test('has no process, and what is current does not follow an await', async () => {
    const { code, output } = await inPage(`
      import { Device, Stream } from 'cuda-streams'
      const [a, b] = [new Stream(), new Stream()]
      const found = await Promise.all([a, b].map((own) => own.run(async () => { await null; return Stream.current() })))
      console.log(found[0] === b && found[1] === b, Device.get().name)`)
    assert.equal(code, 0, output)
    assert.match(output, /^true /m)
    assert.doesNotMatch(output, /CUDA_STREAMS_SIMULATED/, 'there is no other driver to choose')
  })

  test('refuses memory of the program that cannot be kept in place, also if a page has no SharedArrayBuffer', async () => {
    const { code, output } = await inPage(`
      Reflect.deleteProperty(globalThis, 'SharedArrayBuffer')
      const { PinnedBuffer } = await import('cuda-streams')
      try { PinnedBuffer.from(new Uint8Array(8)) } catch (error) { console.log(error.code) }`)
    assert.equal(code, 0, output)
    assert.match(output, /^ERR_UNSUPPORTED$/m)
  })

  test('says that it cannot compile CUDA C++, and what to load instead', async () => {
    const { code, output } = await inPage(`
      import { inPlaceOf, compiled } from ${JSON.stringify(new URL('../in-place-of-node.mjs', import.meta.url).href)}
      const { compileCuda, compileCudaNow } = await import(inPlaceOf('../foundation/native/nvrtc.js', compiled + '/entry-points/index.js'))
      const said = ({ code, message }) => console.log(code, message)
      await compileCuda('', 'x.cu', []).catch(said)
      try { compileCudaNow('', 'x.cu', []) } catch (error) { said(error) }`)
    assert.equal(code, 0, output)
    assert.equal(
      output.match(/^ERR_UNSUPPORTED A page cannot run NVRTC.*nvcc --ptx.*Module\.load\(\)$/gm)?.length,
      2,
      output,
    )
  })

  const played = AT_NIGHT ? files.filter((name) => NOT_PLAYED[name] === undefined) : ofTheDay(IN_TURN, 3)
  for (const name of [...played.map((each) => `${each}.test`), 'guarantees/all']) {
    test(`passes conformance/${name}`, async () => {
      const { code, output } = await run(['--expose-gc', '--test-reporter=tap', join(folder, `${name}.js`)])
      assert.equal(
        code,
        0,
        output
          .split('\n')
          .filter((line) => !/^\s*ok /.test(line))
          .slice(0, 80)
          .join('\n'),
      )
    })
  }
})
