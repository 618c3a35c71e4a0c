/** What bundlers warn of is in none of the files that programs import. scripts/bundlers.mjs runs the bundlers themselves. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../helpers/root.js'

test("no module uses the top level's `this`, as the compiler's helpers for `using` do: Rollup warns of each", () => {
  const folder = join(root, 'dist', 'src')
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'))
  assert.ok(files.length > 200)
  // The command is not bundled.
  const warned = files.filter(
    (name) => !name.startsWith('cli') && /\(this && this\./.test(readFileSync(join(folder, name), 'utf8')),
  )
  assert.deepEqual(warned, [])
})
