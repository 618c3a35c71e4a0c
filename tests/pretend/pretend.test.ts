/**
 * What was measured on an H200 of CUDA's locks and waits, the pretended libcuda does: a call that waits for the device while
 * a stream stands at a host function hangs, and one about a handle that was destroyed aborts. So the CUDA driver is tried on
 * every machine, with one thread and with several.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openQuickCalls } from '../../src/driver/cuda/libcuda/quick-calls.js'
import { runsTestFile } from '../helpers/run-time.js'
import { whatFailed } from '../helpers/test-output.js'
import { pretendedCuda } from './pretend.js'

const CONFORMANCE = [
  ...[
    'beside-captures',
    'blocking-calls',
    'capture-errors',
    'captures',
    'closing',
    'completion',
    'current',
    'deadlocks',
    'device',
    'draining',
    'foreign-capture',
    'foreign-handles',
    'foreign-streams',
    'giving-back',
    'gone-captures',
    'graph-keeps',
    'graph-nodes',
    'graphs',
    'green-contexts',
    'heard',
  ],
  ...[
    'allocation-streams',
    'host-functions',
    'identity',
    'matrix',
    'memory',
    'memory-pools',
    'option-names',
    'options',
    'ordering',
    'process-life',
    'promises',
    'sharing',
    'silent-waits',
  ],
  ...['stream-protocol', 'streams', 'transfers', 'values'],
]
/** What the pretended libcuda lacks for the others. */
const NOT_PLAYED: Readonly<Record<string, string>> = {
  'defined-kernels': 'code for a GPU',
  'driver-choice': 'it is about the driver of the machine',
  events: 'a second process',
  kernels: 'code for a GPU',
  'launch-attributes': 'code for a GPU',
  'large-file': 'gigabytes, for nothing that is about CUDA',
}
/** What of a file is not played there, and why: else a file lacks only what needs a second device, or real processes. */
const IN_PART: Readonly<Record<string, string>> = {
  'graph-keeps':
    'a kernel that reads a module’s own variable is a fill: of the code for a GPU it knows five kernels by name',
  matrix:
    'two of five places where a host function stands, each kind of memory in one situation, calls beside what stands on one kind of stream, no cuBLAS and no NCCL: tables of an hour with threads that sleep',
}
const OTHERS = ['processes/threads', 'processes/worker-first', 'driver/immediates']
/** Played also where koffi makes all calls. */
const CORE = ['closing', 'host-functions', 'ordering', 'streams']
const CALLS = ['koffi', ...(openQuickCalls().bind === undefined ? [] : ['slots'])]
/** Milliseconds after which a process hangs. */
const LONGEST = 240_000

const pretended = pretendedCuda()
const skip = typeof pretended === 'string' ? pretended : false

function run(
  args: readonly string[],
  more: NodeJS.ProcessEnv = {},
): Promise<{ readonly code: unknown; readonly output: string }> {
  assert.ok(typeof pretended !== 'string')
  const child = spawn(process.execPath, args, {
    env: { ...pretended.env, ...more },
    timeout: LONGEST,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)))
  return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code: signal ?? code, output })))
}

const fileOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

test('what is played in part there says so, with the reason', () => {
  const folder = fileOf('../conformance')
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.js'))
  const asking = files.filter((path) => readFileSync(join(folder, path), 'utf8').includes('isPretended()'))
  const names = new Set(asking.map((path) => path.replace(/(\.test\.js|\/.*)$/, '')))
  assert.deepEqual([...names].sort(), Object.keys(IN_PART).sort())
})

test('each file of the conformance suite is played, or there is a reason', () => {
  const files = readdirSync(fileOf('../conformance')).flatMap((name) => /^(.*)\.test\.js$/.exec(name)?.[1] ?? [])
  assert.deepEqual([...CONFORMANCE, ...Object.keys(NOT_PLAYED)].sort(), files.sort())
})

describe('on a pretended GPU', { skip, concurrency: 2 }, () => {
  after(() => {
    if (typeof pretended !== 'string') pretended.remove()
  })

  for (const path of [...CONFORMANCE.map((name) => `conformance/${name}`), ...OTHERS]) {
    test(path, async () => {
      const { code, output } = await run(runsTestFile(fileOf(`../${path}.test.js`)))
      assert.equal(code, 0, whatFailed(output))
      if (path.startsWith('conformance')) assert.match(output, /Pretended GPU/)
    })
  }

  for (const calls of CALLS) {
    test(`five threads make streams, queue host functions and fill queues [calls: ${calls}]`, async () => {
      const { code, output } = await run(['--expose-gc', fileOf('./rounds.js')], { CUDA_STREAMS_CALLS: calls })
      assert.equal(code, 0, whatFailed(output))
      assert.match(output, /750 rounds on Pretended GPU/)
    })
  }

  // The others take the addon where there is one.
  for (const name of CORE) {
    test(`conformance/${name} [calls: koffi]`, async () => {
      const args = runsTestFile(fileOf(`../conformance/${name}.test.js`))
      const { code, output } = await run(args, { CUDA_STREAMS_CALLS: 'koffi' })
      assert.equal(code, 0, whatFailed(output))
    })
  }

  for (const [calls, code] of Object.entries({ fast: 'ERR_INVALID_ARG_VALUE', koffi: undefined, auto: undefined })) {
    test(`CUDA_STREAMS_CALLS=${calls} is ${code ?? 'taken'}`, async () => {
      const program =
        "import { Device } from 'cuda-streams'; try { Device.get(0) } catch (error) { console.log(error.code) }"
      const { output } = await run(['--input-type=module', '-e', program], { CUDA_STREAMS_CALLS: calls })
      assert.equal(output.trim(), code ?? '')
    })
  }

  test('a wait inside a host function is no deadlock of the threads that wait for its stream', async () => {
    const { code, output } = await run(['--expose-gc', fileOf('./waits-inside.js')], {
      CUDA_STREAMS_DEADLOCK_TIMEOUT: '2000',
    })
    assert.equal(code, 0, whatFailed(output))
    assert.deepEqual(output.trim().split('\n').sort(), ['inside: ERR_DEADLOCK', 'outside: ended'])
  })
})
