/**
 * A stack that runs over ("Maximum call stack size exceeded") in the midst of a public call: the call has done nothing
 * where it throws, and what it has done it has done whole where it does not.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { simulate } from 'cuda-streams/sim'
import { attempt } from './end-of-stack.js'
import { CALLS } from './public-calls.js'
import { left } from './stage.js'

const PADDINGS = 8
/** Node complains on stderr of promises that are rejected at the end of the stack. */
const RETURNS_A_PROMISE = /finished|load/

describe('a stack that runs over', () => {
  for (const name of Object.keys(CALLS)) {
    if (RETURNS_A_PROMISE.test(name)) continue
    it(`in ${name} leaves the machine in order, and the call whole or not made`, { timeout: 20_000 }, async () => {
      const simulation = simulate()
      await attempt(simulation, name, -1)
      const before = await left(simulation, () => false)
      for (let padding = 0; padding < PADDINGS; padding += 1) await attempt(simulation, name, padding)
      const after = await left(simulation, ({ bytes }) => bytes <= before.bytes)
      // Events of the library's own may be left, and what was made for an attempt that then failed; memory must not.
      if (/close/.test(name)) assert.ok(after.bytes <= before.bytes, `${after.bytes} bytes are left`)
    })
  }

  it('does so too where functions are called for the first time, and where promises are returned', async () => {
    const child = fileURLToPath(new URL('./children/end-of-stack.js', import.meta.url))
    const env = { ...process.env, CUDA_STREAMS_DRIVER: 'sim', NODE_TEST_CONTEXT: undefined }
    const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', child], { env, maxBuffer: 2 ** 26 })
    assert.deepEqual(JSON.parse(stdout), {})
  })
})
