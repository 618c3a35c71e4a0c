/** C7: CUDA_STREAMS_SYNC, in processes of their own. children/blocking-calls.ts blocks in every way. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { onEveryBackend } from '../helpers/suite.js'

const CHILD = fileURLToPath(new URL('./children/blocking-calls.js', import.meta.url))
const FIRST_LAUNCH = 'loading a kernel at its first launch'
const NEVER = ['a kernel that was prepared', 'two kernels prepared at once']
const CALLS = [
  FIRST_LAUNCH,
  'loading code, which waits for the whole device,',
  'stream.synchronize()',
  'event.synchronize()',
  'device.synchronize()',
  'device.drainHostFunctions()',
  'queuing more work',
]

onEveryBackend('calls that block the event loop', (bench) => {
  if (bench.title.includes('seed 7')) return

  const said = (came: string): string =>
    [
      `${FIRST_LAUNCH}: ${came} while the program starts`,
      ...NEVER.map((call) => `${call}: never`),
      ...CALLS.map((call) => `${call}: ${came}`),
      'end',
      '',
    ].join('\n')
  const run = (
    mode: string,
    ...args: readonly string[]
  ): { readonly code: number | null; readonly stdout: string; readonly stderr: string } => {
    const env = {
      ...process.env,
      NODE_TEST_CONTEXT: undefined,
      CUDA_STREAMS_DRIVER: bench.name,
      CUDA_STREAMS_SYNC: mode,
    }
    const { status, stdout, stderr } = spawnSync(process.execPath, [CHILD, ...args], {
      env,
      encoding: 'utf8',
      timeout: 60_000,
    })
    return { code: status, stdout, stderr }
  }

  test('C7 warn: once per place, with its stack, and the call goes on', () => {
    const { code, stdout, stderr } = run('warn')
    assert.equal(stdout, said('passed'), stderr)
    assert.equal(code, 0, stderr)
    for (const call of CALLS) {
      const warnings = stderr.split(`[CUDA_STREAMS_SYNC] CudaStreamsWarning: ${call} blocks the event loop`)
      const places = call === FIRST_LAUNCH ? 2 : 1
      assert.equal(warnings.length, 1 + places, `${call} is told of once at each place:\n${stderr}`)
      assert.match(warnings[1] ?? '', /^[^[]*at [^\n]*blocking-calls\.js:\d+/)
    }
  })

  test('C7 throw: ERR_BLOCKS_EVENT_LOOP with the way out, and nothing is done', () => {
    const { code, stdout, stderr } = run('throw')
    assert.equal(stdout, said('ERR_BLOCKS_EVENT_LOOP'), stderr)
    assert.equal(code, 0, stderr)
  })

  test('C7 code that is loaded before any work is queued has nothing to wait for', () => {
    const { stdout, stderr } = run('throw', 'early')
    assert.equal(stdout, 'loaded\n', stderr)
  })

  test('C7 off it says nothing, and another value is an error at the first use', () => {
    for (const mode of ['', '0']) assert.equal(run(mode).stderr.includes('CUDA_STREAMS_SYNC'), false)
    const { code, stderr } = run('yes')
    assert.equal(code, 1)
    assert.match(stderr, /CUDA_STREAMS_SYNC must be 'warn', 'throw' or 0, not 'yes'/)
  })
})
