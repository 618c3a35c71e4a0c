/** docs/tutorials/first-stream.md leads from an empty folder to the outputs that it shows. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { compiler, compilerUnavailable } from '../docs/guide-compiler.js'
import { installPacked, packInto } from './packed.js'
import { follow } from './quickstart.js'

const skip = compilerUnavailable() ?? false
if (typeof skip === 'string') console.log(`skipped: ${skip}`)

const INSTALLED: Readonly<Record<string, readonly string[]>> = {
  'npm install cuda-streams': [],
  'npm install --save-dev typescript @types/node': ['typescript', '@typescript', '@types', 'undici-types'],
}

test('docs/tutorials/first-stream.md leads from an empty folder to the outputs that it shows', { skip }, (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'quickstart-'))
  const project = mkdtempSync(join(tmpdir(), 'quickstart-'))
  context.after(() => {
    for (const each of [folder, project]) rmSync(each, { recursive: true, force: true })
  })
  const packages: string[] = []
  follow(project, (command) => {
    const installed = INSTALLED[command]
    assert.ok(installed, `The page installs something else: ${command}`)
    packages.push(...installed)
    if (packages.length < Object.values(INSTALLED).flat().length) return
    installPacked(project, packInto(folder), packages)
    const programs = join(project, 'node_modules', '.bin')
    mkdirSync(programs)
    symlinkSync(compiler(), join(programs, 'tsc'))
  })
})
