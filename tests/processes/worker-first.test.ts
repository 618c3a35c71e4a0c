/** The native library stays in memory: Node would unmap it with the last thread that loaded it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runChild } from '../torture/run-child.js'

const skip = process.platform === 'linux' ? false : 'the addon is kept loaded on Linux only'

test('workers that use the library before the main thread has end without a crash', { skip }, async () => {
  const { code, signal, stdout, stderr } = await runChild('../processes/children/worker-first.js', [], 20)
  assert.deepEqual(
    { code, signal, stdout: stdout.trim() },
    { code: 0, signal: null, stdout: 'the workers are gone' },
    stderr,
  )
})

test('workers leave no file open', { skip }, async () => {
  const { code, stdout, stderr } = await runChild('../processes/children/many-timers.js', [], 20)
  assert.deepEqual({ code, stdout: stdout.trim() }, { code: 0, stdout: '0' }, stderr)
})
