/** Which lines of a stack are the program's own, also in a bundle, where the library's files are the program's. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import * as own from '../../../src/foundation/base/stack.js'
import { root } from '../../helpers/root.js'

type Stacks = Pick<typeof own, 'programLines'>

/** As the stacks of this run time name files: by their URLs, or by their paths. */
const named = (url: string): string => (/at .*file:/.test(String(new Error().stack)) ? url : fileURLToPath(url))
const BASE = named(new URL('../../../src/foundation/base/', import.meta.url).href)

test('the lines of installed packages are left out, with the built-in functions that they call, unless there are no others', () => {
  const program = 'at work (file:///app/program.js:3:5)'
  const caller = 'at main (file:///app/node_modules_of_mine/main.js:3:5)'
  const runner = 'at run (file:///app/node_modules/jest-circus/build/run.js:1:1)'
  const onWindows = 'at run (C:\\app\\node_modules\\mocha\\lib\\runner.js:1:1)'
  const map = 'at Array.map (<anonymous>)'
  const node = 'at process.processTicksAndRejections (node:internal/process/task_queues:95:5)'
  const rows: readonly (readonly [stack: readonly string[], shown: readonly string[]])[] = [
    [
      [program, map, caller, runner, map, runner, node],
      [program, map, caller],
    ],
    [[program, map, runner, onWindows], [program]],
    [
      [runner, program, onWindows, caller],
      [program, caller],
    ],
    [
      [runner, map, onWindows, node],
      [runner, map, onWindows],
    ],
    [
      [program, map],
      [program, map],
    ],
    [[node], []],
  ]
  for (const [stack, shown] of rows) {
    const text = ['Error', ...stack.map((line) => `    ${line}`)].join('\n')
    assert.deepEqual(own.programLines(text), shown, text)
  }
})

test('lines of Python and of compiled code are the program, but for packages of Python, its own modules and those of this library', () => {
  const [loader, main, typed] = ['at load (/app/train.py:19)', 'at <module> (train.py:41)', 'at <module> (<stdin>:1)']
  const packages = [
    'at __new__ (/opt/venv/lib/python3.12/site-packages/torch/cuda/streams.py:43)',
    'at zeros (/usr/lib/python3/dist-packages/cupy/_creation/basic.py:252)',
    'at run (/usr/lib/python3.12/threading.py:1010)',
    'at _run_module_code (<frozen runpy>:98)',
    'at call (<cuda-streams>:12)',
  ]
  const compiled = ['at ? (plain+0x1848)', 'at main (plain+0x13c4)']
  const text = (...lines: readonly string[]): string => ['', ...lines.map((line) => `    ${line}`)].join('\n')
  assert.deepEqual(own.programLines(text(...packages, loader, ...packages, main, typed)), [loader, main, typed])
  assert.deepEqual(own.programLines(text(...packages)), packages)
  assert.deepEqual(own.programLines(text(...compiled)), compiled)
  assert.equal(own.isOfPackages(text(...packages)), true)
  assert.equal(own.isOfPackages(text(...packages, loader)), false)
  assert.deepEqual(own.placeInPython(loader), { path: '/app/train.py', row: 19 })
  for (const line of ['at open (file:///app/video.js:12:18)', 'at <anonymous>', ...compiled])
    assert.equal(own.placeInPython(line), undefined)
  assert.deepEqual([loader, ...compiled].map(own.isCompiled), [false, true, true])
})

test('the lines of the library are told by its folder, or by that of a development server; in a bundle without a source map none are', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'bundle-'))
  context.after(() => rmSync(folder, { recursive: true, force: true }))
  const bundle = join(folder, 'bundle.mjs')
  const compiled = readFileSync(join(root, 'dist', 'src', 'foundation', 'base', 'stack.js'), 'utf8')
  const fileOf = (name: string): string => `'${new URL(`../../../src/foundation/base/${name}.js`, import.meta.url)}'`
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
