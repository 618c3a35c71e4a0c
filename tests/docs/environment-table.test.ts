/** docs/reference/environment.md has the table of the code. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { it } from 'node:test'
import { root } from '../helpers/root.js'

it('the tables of docs/reference/environment.md are those that scripts/environment-table.mjs writes', () => {
  const script = join(root, 'scripts', 'environment-table.mjs')
  const { status, stderr } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
})
