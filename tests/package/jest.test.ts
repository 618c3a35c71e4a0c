/**
 * The setup file for Jest rewrites the library's files as CommonJS. scripts/test-runners.mjs runs it in Jest; this finds a file that
 * the rewriting does not understand, without Jest.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../helpers/root.js'
import { scratchFolder } from '../helpers/scratch.js'

/** Takes the place of Jest's own module. */
const FAKE_JEST = `
const files = new Map()
exports.files = files
exports.jest = { mock: (file, make) => files.set(file, make) }
`

const PROGRAM = `
const { files } = require('@jest/globals')
const { pathToFileURL } = require('node:url')
async function main() {
  await require(process.argv[2])()
  for (const [file, make] of files) {
    const expected = Object.keys(await import(pathToFileURL(file).href))
    console.log(JSON.stringify({ file, expected: expected.sort(), actual: Object.keys(make()).sort() }))
  }
}
main()
`

interface Line {
  readonly file: string
  readonly expected: readonly string[]
  readonly actual: readonly string[]
}

/** Jest runs on Node alone. */
const elsewhere = ('bun' in process.versions || 'deno' in process.versions) && 'Jest runs on Node'

test("each entry point has the same exports as CommonJS, in Jest's setup file", { skip: elsewhere }, () => {
  const folder = scratchFolder('jest')
  mkdirSync(join(folder, '@jest'))
  writeFileSync(join(folder, '@jest', 'package.json'), '{}')
  writeFileSync(join(folder, '@jest', 'globals.js'), FAKE_JEST)
  writeFileSync(join(folder, 'program.cjs'), PROGRAM)
  const setup = join(root, 'dist', 'src', 'entry-points', 'jest.cjs')
  const env = { ...process.env, NODE_PATH: folder, NODE_OPTIONS: '' }
  const printed = execFileSync(process.execPath, [join(folder, 'program.cjs'), setup], { encoding: 'utf8', env })
  const lines: readonly Line[] = printed
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  for (const { file, expected, actual } of lines) assert.deepEqual(actual, expected, file)

  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const isTool = (name: string): boolean => /jest|register|loader|package\.json/.test(name)
  const entryPoints = Object.keys(exports).filter((name) => !isTool(name))
  const found = lines.filter(({ file }) => /entry-points.[\w]+\.js$/.test(file))
  assert.equal(found.length, entryPoints.length, 'every entry point is there')
})

test('where ES modules cannot be loaded by require(), the first use says what to do in Jest', {
  skip: elsewhere,
}, () => {
  const program = "import { Device } from 'cuda-streams'; Device.get()"
  const { stderr } = spawnSync(
    process.execPath,
    ['--no-experimental-require-module', '--input-type=module', '-e', program],
    { encoding: 'utf8', cwd: root, env: { ...process.env, NODE_OPTIONS: '', CUDA_STREAMS_DRIVER: 'sim' } },
  )
  assert.match(stderr, /code: 'ERR_UNSUPPORTED'/)
  assert.match(
    stderr,
    /loads its drivers by require\(\), which .* With Jest, set `setupFiles: \['cuda-streams\/jest'\]`/,
  )
})

test('and so does the first kernel of a simulation, whose compiler is loaded then', { skip: elsewhere }, () => {
  const program = `
    import { Module } from 'cuda-streams'
    import { simulate } from 'cuda-streams/sim'
    Module.load('.version 8.0', { device: simulate().devices[0] })`
  const { stderr } = spawnSync(
    process.execPath,
    ['--no-experimental-require-module', '--input-type=module', '-e', program],
    { encoding: 'utf8', cwd: root, env: { ...process.env, NODE_OPTIONS: '' } },
  )
  assert.match(stderr, /code: 'ERR_UNSUPPORTED'/)
  assert.match(stderr, /loads the compiler of PTX by require\(\), which .* With Jest, set `setupFiles/)
})
