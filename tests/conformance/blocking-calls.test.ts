/** C7: CUDA_STREAMS_SYNC, in processes of their own. children/blocking-calls.ts blocks in every way. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { onEveryBackend } from '../helpers/suite.js'

const CHILD = fileURLToPath(new URL('./children/blocking-calls.js', import.meta.url))
const CALLS = [
  'stream.synchronize()',
  'event.synchronize()',
  'device.synchronize()',
  'device.drainHostFunctions()',
  'queuing more work',
]

onEveryBackend('calls that block the event loop', (bench) => {
  if (bench.title.includes('seed 7')) return

  const run = (mode: string): { readonly code: number | null; readonly stdout: string; readonly stderr: string } => {
    const env = {
      ...process.env,
      NODE_TEST_CONTEXT: undefined,
      CUDA_STREAMS_DRIVER: bench.name,
      CUDA_STREAMS_SYNC: mode,
    }
    const { status, stdout, stderr } = spawnSync(process.execPath, [CHILD], { env, encoding: 'utf8', timeout: 60_000 })
    return { code: status, stdout, stderr }
  }

  test('C7 warn: once per place, with its stack, and the call goes on', () => {
    const { code, stdout, stderr } = run('warn')
    assert.equal(
      stdout,
      [...CALLS, 'end', ''].map((call) => (call === '' || call === 'end' ? call : `${call}: passed`)).join('\n'),
    )
    assert.equal(code, 0, stderr)
    for (const call of CALLS) {
      const said = stderr.split(`[CUDA_STREAMS_SYNC] CudaStreamsWarning: ${call} blocks the event loop`)
      assert.equal(said.length, 2, `${call} is told of once:\n${stderr}`)
      assert.match(said[1] ?? '', /^[^[]*at [^\n]*blocking-calls\.js:\d+/)
    }
  })

  test('C7 throw: ERR_BLOCKS_EVENT_LOOP with the way out, and nothing is done', () => {
    const { code, stdout, stderr } = run('throw')
    assert.equal(stdout, [...CALLS.map((call) => `${call}: ERR_BLOCKS_EVENT_LOOP`), 'end', ''].join('\n'), stderr)
    assert.equal(code, 0, stderr)
  })

  test('C7 off it says nothing, and another value is an error at the first use', () => {
    for (const mode of ['', '0']) assert.equal(run(mode).stderr.includes('CUDA_STREAMS_SYNC'), false)
    const { code, stderr } = run('yes')
    assert.equal(code, 1)
    assert.match(stderr, /CUDA_STREAMS_SYNC must be 'warn', 'throw' or 0, not 'yes'/)
  })
})
