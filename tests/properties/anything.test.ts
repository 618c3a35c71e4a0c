/** Any value as any argument of any function: the call works, or there is an error with a code. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { SEED } from './wrong-arguments.js'

const script = fileURLToPath(new URL('./anything-child.js', import.meta.url))

test(`anything, passed to everything, ends well or with a code (fast-check seed ${SEED})`, { timeout: 300_000 }, () => {
  const env = { ...process.env, NODE_OPTIONS: '', CUDA_STREAMS_DRIVER: 'sim', CUDA_STREAMS_SIM_DEVICES: '2' }
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8', env })
  assert.equal(status, 0, `${signal} ${stderr}`)
  const said = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as {
    readonly made: number
    readonly functions: number
    readonly surprises: readonly string[]
  }
  console.log(`${said.made} calls of ${said.functions} functions`)
  assert.ok(said.functions > 200)
  assert.deepEqual(said.surprises, [])
})
