/**
 * What was measured on an H200 of CUDA's locks and waits, the pretended libcuda does: a call that waits for the device while
 * a stream stands at a host function hangs, and one about a handle that was destroyed aborts. So the CUDA driver is tried on
 * every machine, with one thread and with several.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { pretendedCuda } from './pretend.js'

/** Those that ask for nothing that it has not: no faults, no code for a GPU, no second process. */
const CONFORMANCE = [
  ...['captures', 'closing', 'completion', 'current', 'device', 'draining', 'foreign-handles'],
  ...['foreign-streams', 'heard', 'homes', 'host-functions', 'identity', 'memory', 'options', 'ordering'],
  ...['process-life', 'sharing', 'stream-protocol', 'streams', 'transfers'],
]
const PROCESSES = ['threads', 'worker-first']
/** Milliseconds after which a process hangs. */
const LONGEST = 120_000

const pretended = pretendedCuda()
const skip = typeof pretended === 'string' ? pretended : false

function run(args: readonly string[]): Promise<{ readonly code: unknown; readonly output: string }> {
  assert.ok(typeof pretended !== 'string')
  const child = spawn(process.execPath, ['--expose-gc', ...args], { env: pretended.env, timeout: LONGEST })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)))
  return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code: signal ?? code, output })))
}

const fileOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

describe('on a pretended GPU', { skip, concurrency: 2 }, () => {
  after(() => {
    if (typeof pretended !== 'string') pretended.remove()
  })

  for (const path of [...CONFORMANCE.map((name) => `conformance/${name}`), ...PROCESSES.map((n) => `processes/${n}`)]) {
    test(path, async () => {
      const { code, output } = await run(['--test-reporter=tap', fileOf(`../${path}.test.js`)])
      assert.equal(code, 0, output.slice(-4000))
      if (path.startsWith('conformance')) assert.match(output, /Pretended GPU/)
    })
  }

  test('five threads make streams, queue host functions and fill queues', async () => {
    const { code, output } = await run([fileOf('./rounds.js')])
    assert.equal(code, 0, output.slice(-4000))
    assert.match(output, /750 rounds on Pretended GPU/)
  })
})
