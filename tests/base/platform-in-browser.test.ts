/**
 * The platform for browsers, in Node: it has what Node's has, and the conformance suite passes on it. That the same programs
 * come to the same in a real page is tested there: site/playground/tests.
 */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import * as ofNode from '../../src/base/platform.js'
import * as ofBrowsers from '../../src/base/platform-in-browser.js'
import { root } from '../helpers/root.js'
import { runsTestFile } from '../helpers/run-time.js'
import { whatFailed } from '../helpers/test-output.js'

/** Files of the conformance suite that cannot pass there, or would say nothing. */
const NOT_PLAYED: Readonly<Record<string, string>> = {
  'blocking-calls': 'CUDA_STREAMS_SYNC: a page has no variables of the environment',
  'driver-choice': 'CUDA_STREAMS_DRIVER and its like: a page has no variables of the environment',
  'foreign-capture': 'it needs a GPU',
  matrix: 'it takes minutes; on 22 November 2026 all of it passed there',
  'silent-waits': 'CUDA_STREAMS_WARN_AFTER, and the warnings of a process',
}
/** What only Node needs to compile, and why. The files of a page name the types of some. */
const OF_NODE: Readonly<Record<string, string>> = {
  'base/platform.ts': 'what Node has',
  'base/recheck-timer.ts': 'for the CUDA driver and DLPack',
  'base/stack.ts': "V8's own properties of Error, which other engines leave undefined",
  'driver/cuda/': 'a page has no GPU',
  'native/': 'a page has no native code, and only its types are read',
  'sanitizer/sanitizer.ts': 'the type of a signal',
  'timeline/cupti/': 'a page has no GPU',
}
/** Milliseconds after which a process hangs. */
const LONGEST = 120_000

const skip = 'bun' in process.versions || 'deno' in process.versions ? '--conditions is an option of Node' : false

const fileOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const files = readdirSync(fileOf('../conformance')).flatMap((name) => /^(.*)\.test\.js$/.exec(name)?.[1] ?? [])

function run(args: readonly string[]): Promise<{ readonly code: unknown; readonly output: string }> {
  const child = spawn(process.execPath, ['--conditions=browser', ...args], {
    env: {
      ...process.env,
      NODE_TEST_CONTEXT: undefined,
      CUDA_STREAMS_DRIVER: 'sim',
      CUDA_STREAMS_TEST_EFFORT: 'quick',
    },
    timeout: LONGEST,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)))
  return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code: signal ?? code, output })))
}

test('each exports what the other does', () => {
  const kinds = (platform: object): Record<string, string> =>
    Object.fromEntries(Object.entries(platform).map(([name, value]) => [name, typeof value]))
  assert.deepEqual(kinds(ofBrowsers), kinds(ofNode))
})

test('what a page loads names nothing that only Node has, and takes timers for numbers', (t) => {
  if (!existsSync(join(root, 'src', 'index.ts'))) return t.skip('the sources are not here')
  // In the package: `imports` of package.json lead to sources only from there.
  const folder = mkdtempSync(join(root, 'dist', 'types-in-browser-'))
  after(() => rmSync(folder, { recursive: true }))
  const project = {
    extends: join(root, 'tsconfig.json'),
    compilerOptions: {
      ...{ noEmit: true, rootDir: root, types: [], customConditions: ['browser'] },
      lib: ['ES2023', 'ESNext.Disposable', 'DOM', 'DOM.Iterable'],
    },
    include: [],
    files: ['index', 'sim', 'sanitizer', 'timeline'].map((entryPoint) => join(root, 'src', `${entryPoint}.ts`)),
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(project))
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const { stdout } = spawnSync(process.execPath, [compiler, '-p', folder], { encoding: 'utf8', cwd: root })
  const complaints = stdout.split('\n').filter((line) => /^src\/.*: error TS/.test(line))
  // Those of Node's platform: the compiler has looked.
  assert.ok(
    complaints.some((line) => line.startsWith('src/base/platform.ts')),
    stdout.slice(0, 2000),
  )
  const ofNode = Object.keys(OF_NODE)
  assert.deepEqual(
    complaints.filter((line) => !ofNode.some((path) => line.startsWith(`src/${path}`))),
    [],
  )
})

test('what is not played is a file of the conformance suite', () => {
  assert.deepEqual(
    Object.keys(NOT_PLAYED).filter((name) => !files.includes(name)),
    [],
  )
})

describe('on the platform for browsers', { skip, concurrency: 2 }, () => {
  test('there is no process, and what is current does not follow an await', async () => {
    const program = `
      import { Device, Stream } from 'cuda-streams'
      const [a, b] = [new Stream(), new Stream()]
      const found = await Promise.all([a, b].map((own) => own.run(async () => { await null; return Stream.current() })))
      console.log(found[0] === b && found[1] === b, Device.get().name)`
    const { code, output } = await run(['--input-type=module', '-e', program])
    assert.equal(code, 0, output)
    assert.match(output, /^true /m)
    assert.match(output, /CUDA_STREAMS_SIMULATED/, 'the variable CUDA_STREAMS_DRIVER is not read')
  })

  test('memory of the program is refused where it cannot be kept in place, also where a page has no SharedArrayBuffer', async () => {
    const program = `
      Reflect.deleteProperty(globalThis, 'SharedArrayBuffer')
      const { PinnedBuffer } = await import('cuda-streams')
      try { PinnedBuffer.from(new Uint8Array(8)) } catch (error) { console.log(error.code) }`
    const { code, output } = await run(['--input-type=module', '-e', program])
    assert.equal(code, 0, output)
    assert.match(output, /^ERR_UNSUPPORTED$/m)
  })

  for (const name of files.filter((file) => NOT_PLAYED[file] === undefined)) {
    test(`conformance/${name}`, async () => {
      const { code, output } = await run(runsTestFile(fileOf(`../conformance/${name}.test.js`)))
      assert.equal(code, 0, whatFailed(output))
    })
  }
})
