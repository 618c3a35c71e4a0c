/** The example as it is run where there is no GPU: it says what it cannot show, shows the rest, and ends well. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { EXCHANGES } from '../../examples/python/exchanges.js'

const MAIN = fileURLToPath(new URL('../../examples/python/main.js', import.meta.url))

function run(...args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  const env = { ...process.env, CUDA_STREAMS_DRIVER: 'sim', NODE_TEST_CONTEXT: undefined }
  return spawnSync(process.execPath, [MAIN, ...args], { encoding: 'utf8', timeout: 120_000, env })
}

test('without a GPU it tells its story on the simulator', () => {
  const { status, stdout, stderr } = run('2')
  assert.equal(status, 0, stdout + stderr)
  assert.match(stdout, /Cannot show PyTorch, CuPy, cuda\.core and Numba here: needs a GPU/)
  for (const { title } of EXCHANGES) {
    const line = stdout.split('\n').find((text) => text.includes(title))
    assert.match(line ?? `no line of: ${title}`, /2\/2 +too early/)
  }
  assert.match(stdout, /100\/100 rounds right/)
  assert.match(stdout, /All as expected\./)
})

test('a wrong number of tries ends with status 2', () => {
  const { status, stderr } = run('many')
  assert.equal(status, 2)
  assert.match(stderr, /positive integer, not 'many'/)
})
