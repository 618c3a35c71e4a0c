/** Which lines of a stack are the program's own, also in a bundle, where the library's files are the program's. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import * as own from '../../src/base/stack.js'
import { root } from '../helpers/root.js'

type Stacks = Pick<typeof own, 'programLines'>

/** As the stacks of this run time name files: by their URLs, or by their paths. */
const named = (url: string): string => (/at .*file:/.test(String(new Error().stack)) ? url : fileURLToPath(url))
const BASE = named(new URL('../../src/base/', import.meta.url).href)

test('the lines of the library are told by its folder, or by that of a development server; in a bundle without a source map none are', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'bundle-'))
  context.after(() => rmSync(folder, { recursive: true, force: true }))
  const bundle = join(folder, 'bundle.mjs')
  const compiled = readFileSync(join(root, 'dist', 'src', 'base', 'stack.js'), 'utf8')
  const fileOf = (name: string): string => `'${new URL(`../../src/base/${name}.js`, import.meta.url)}'`
  const alone = compiled.replace(/'\.\/([\w-]+)\.js'/g, (_, name) => fileOf(name))
  writeFileSync(bundle, alone)
  const bundled = (await import(pathToFileURL(bundle).href)) as Stacks
  const deps = pathToFileURL(join(folder, '.vite', 'deps')).href
  mkdirSync(fileURLToPath(deps), { recursive: true })
  writeFileSync(fileURLToPath(`${deps}/cuda-streams.js`), alone)
  const served = (await import(`${deps}/cuda-streams.js`)) as Stacks

  const program = 'at work (file:///app/program.js:3:5)'
  const rows: readonly (readonly [stacks: Stacks, line: string, isShown: boolean])[] = [
    [own, program, true],
    [own, `at check (${BASE}errors.js:1:1)`, false],
    [own, 'at node:internal/timers:1:1', false],
    [bundled, program, true],
    [bundled, `at fill (${named(pathToFileURL(bundle).href)}:1:1)`, true],
    [served, program, true],
    [served, `at fill (${named(`${deps}/chunk-1.js`)}:1:1)`, false],
  ]
  for (const [stacks, line, isShown] of rows) {
    const shown = stacks.programLines(`Error\n    ${line}`)
    assert.deepEqual(shown, isShown ? [line] : [], `${stacks === own ? 'own' : 'bundled'}: ${line}`)
  }
})
