/** What a hook of require() does to the modules that the library loads at their first use. tsx has such a hook. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { root } from '../../helpers/root.js'

/** As hooks for TypeScript do, it reads each `.js` file itself. What it would make of an ES module is a second copy. */
const HOOK = `
const { Module } = require('node:module')
const load = Module._extensions['.js']
Module._extensions['.ts'] = load
Module._extensions['.js'] = (module, path) => {
  console.log('the hook loads', path)
  load(module, path)
}
`
const RACE = `
import { Stream } from ${JSON.stringify(join(root, 'dist', 'src', 'entry-points', 'index.js'))}
const [a, b] = [new Stream(), new Stream()]
const buffer = a.device.alloc(16, { stream: a })
a.fill(buffer, 1)
b.fill(buffer, 2)
`

describe('behind a hook of require()', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hook-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'hook.cjs'), HOOK)
  writeFileSync(join(folder, 'race.mjs'), RACE)
  const run = (variables: NodeJS.ProcessEnv): string => {
    const env = { ...process.env, NODE_OPTIONS: '', CUDA_STREAMS_DRIVER: 'sim', ...variables }
    const { stdout, stderr } = spawnSync(process.execPath, ['--require', './hook.cjs', 'race.mjs'], {
      cwd: folder,
      encoding: 'utf8',
      env,
    })
    return stdout + stderr
  }

  it('the driver is loaded once, and no file by the hook', () => {
    assert.doesNotMatch(run({}), /the hook loads/)
  })

  it('the sanitizer that a variable asks for sees the calls', () => {
    const output = run({ CUDA_STREAMS_SANITIZER: 'print' })
    assert.doesNotMatch(output, /the hook loads/)
    assert.match(output, /Race: nothing orders two accesses/)
  })
})
