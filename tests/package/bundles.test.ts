/** What bundlers warn of is in none of the files that programs import. scripts/bundlers.mjs runs the bundlers themselves. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { root } from '../helpers/root.js'

const folder = join(root, 'dist', 'src')
/** The command and the hooks of Node are not bundled. */
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
  (name) => name.endsWith('.js') && !/^tools.cli\b|register/.test(name),
)
const filesWith = (pattern: RegExp): readonly string[] =>
  files.filter((name) => pattern.test(readFileSync(join(folder, name), 'utf8')))

test("no module uses the top level's `this`, as the compiler's helpers for `using` do: Rollup warns of each", () => {
  assert.ok(files.length > 200)
  assert.deepEqual(filesWith(/\(this && this\./), [])
})

test('no module names a file by `new URL(…, import.meta.url)`: webpack takes it along, or warns where it does not know it', () => {
  assert.deepEqual(filesWith(/new URL\([^;]*\bimport\.meta\.url\)/), [])
})

test('what is imported for its effect alone is among the files that bundlers keep for that', () => {
  const { sideEffects } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { sideEffects: string[] }
  const kept = sideEffects.map((pattern) => new RegExp(`^${pattern.replaceAll('.', '\\.').replaceAll('*', '[^/]*')}$`))
  const isKept = (file: string): boolean => kept.some((pattern) => pattern.test(`./dist/src/${file}`))
  const imported = readdirSync(folder, { recursive: true, encoding: 'utf8' }).flatMap((name) =>
    name.endsWith('.js')
      ? [...readFileSync(join(folder, name), 'utf8').matchAll(/^import '(\.[^']+)'/gm)].map(([, path = '']) =>
          join(dirname(name), path),
        )
      : [],
  )
  assert.ok(imported.length > 10)
  assert.deepEqual(
    [...new Set(imported)].filter((file) => !isKept(file)),
    [],
  )
  assert.deepEqual(
    kept
      .filter(
        (pattern) =>
          !readdirSync(folder, { recursive: true, encoding: 'utf8' }).some((name) =>
            pattern.test(`./dist/src/${name}`),
          ),
      )
      .map(String),
    [],
  )
  assert.equal(isKept('entry-points/index.js'), false)
})
