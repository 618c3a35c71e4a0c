/** docs/architecture.md is where a newcomer looks a file of the drivers up: it names them all, and none that is gone. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..')
const page = readFileSync(join(root, 'docs', 'architecture.md'), 'utf8')
const named = new Set(page.match(/(?<![*\w-])[a-z][\w-]*\.ts\b/g))
/** What was compiled from the sources, which not every place that runs the tests has. */
const compiled = join(root, 'dist', 'src')
const sourceOf = (file: string): string => file.replace(/\.js$/, '.ts')

test('it names every file of the drivers', () => {
  for (const folder of ['driver', 'driver/cuda', 'driver/sim']) {
    const files = readdirSync(join(compiled, folder))
      .filter((name) => name.endsWith('.js'))
      .map(sourceOf)
    assert.ok(files.length > 5)
    assert.deepEqual(
      files.filter((name) => !named.has(name)),
      [],
      folder,
    )
  }
})

test('it names no file that is not there', () => {
  const all = new Set(
    readdirSync(compiled, { recursive: true, encoding: 'utf8' }).map((path) =>
      sourceOf(path.split(/[\\/]/).at(-1) ?? ''),
    ),
  )
  assert.deepEqual(
    [...named].filter((name) => !all.has(name)),
    [],
  )
})
