/** The library's timers and clocks are those of its first import: no file takes another. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../../helpers/root.js'

/** Globals and methods that fake timers replace, and the modules that have them. */
const REPLACED = new Set([
  ...['setTimeout', 'setInterval', 'setImmediate', 'clearTimeout', 'clearInterval', 'clearImmediate'],
  ...['queueMicrotask', 'nextTick', 'hrtime', 'performance', 'Date'],
])
const MODULES = /^node:(timers|timers\/promises|perf_hooks)$/
/** Files that may: the one place, what stands for Node in a page, and the page of the timeline, which is a program of its own. */
const ALLOWED =
  /^foundation\/base\/(event-loop(-in-page)?|(inspect|node-modules)-in-page)\.ts$|^tools\/timeline\/page\//

/** Comments, strings, and names: what is between backquotes counts as code. */
const PARTS = /\/\*[\s\S]*?\*\/|\/\/.*|'(?<string>(?:\\.|[^'\\\n])*)'|(?<name>[A-Za-z_$][\w$]*)/g

const used = (text: string): string[] =>
  [...text.matchAll(PARTS)].flatMap(({ groups: { string, name } = {} }) =>
    name !== undefined && REPLACED.has(name) ? name : string !== undefined && MODULES.test(string) ? string : [],
  )

test('timers and clocks are those of foundation/base/event-loop.ts', () => {
  const src = join(root, 'src')
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => /\.c?ts$/.test(file) && !ALLOWED.test(file))
  assert.ok(files.length > 100)
  const wrong = files.flatMap((file) => used(readFileSync(join(src, file), 'utf8')).map((name) => `${file}: ${name}`))
  assert.deepEqual(wrong, [])
})

test('a use of any other is found', () => {
  const uses = ["import { setTimeout } from 'node:timers/promises'", 'process.nextTick(fn)', 'const now = Date.now()']
  assert.deepEqual(uses.map(used), [['setTimeout', 'node:timers/promises'], ['nextTick'], ['Date']])
  assert.deepEqual(used("/** setTimeout */ const text = 'setTimeout' // Date"), [])
})
