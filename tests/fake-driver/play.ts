/** Plays test files of other folders on a fake GPU, each in a process of its own. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { runsTestFile } from '../helpers/run-time.js'
import { howItEnded } from '../helpers/test-output.js'
import { type Age, fakeCuda } from './fake-cuda.js'

/**
 * Waits that pass through the event loop, which is each run time's own. CI plays these on all of them; the other files it
 * plays on one.
 */
export const WAITING: readonly string[] = [
  ...['completion', 'deadlocks', 'draining', 'host-functions', 'ordering', 'process-life', 'promises', 'values'].map(
    (name) => `conformance/${name}`,
  ),
  'processes/worker-first',
]
/** Milliseconds after which a process hangs: many times what the longest takes on a quiet machine. */
const LONGEST = 200_000

const fake = fakeCuda()
export const skip = typeof fake === 'string' ? fake : false

export function run(
  args: readonly string[],
  more: NodeJS.ProcessEnv = {},
  age: Age = 'now',
): Promise<{ readonly code: unknown; readonly output: string }> {
  const driver = fakeCuda(age)
  assert.ok(typeof driver !== 'string')
  const child = spawn(process.execPath, args, {
    env: { ...driver.env, ...more },
    timeout: LONGEST,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)))
  return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code: signal ?? code, output })))
}

export const fileOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

/** What is not played on Windows, and why. */
const NOT_ON_WINDOWS: Readonly<Record<string, string>> = {
  'conformance/allocation-streams': 'in Wine its tenth test does not end, and it is not known why',
  'conformance/matrix': 'it removes files that are open, which Windows does not do',
}

/** A test for each: paths below tests/, without `.test.js`. `more` are variables of the fake driver. */
export function playEach(paths: readonly string[], age: Age = 'now', more: NodeJS.ProcessEnv = {}): void {
  for (const path of paths) {
    const skip = process.platform === 'win32' && (NOT_ON_WINDOWS[path] ?? false)
    test(path, { skip }, async () => {
      const ended = await run(runsTestFile(fileOf(`../${path}.test.js`)), more, age)
      assert.equal(ended.code, 0, howItEnded(ended))
      if (path.startsWith('conformance')) assert.match(ended.output, /Fake GPU/)
    })
  }
}
