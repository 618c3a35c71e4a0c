/**
 * The CUDA driver of the library against the simulator, on a machine without a GPU: the fake libcuda moves bytes in the order
 * that streams force, and refuses what captures forbid.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { fakeCuda } from '../fake-driver/fake-cuda.js'
import { runs } from '../helpers/effort.js'
import { encode, type Program } from './steps.js'

const SEED = process.env['CUDA_STREAMS_TEST_SEED'] ?? '1'
const RUNS = runs({ quick: 40, normal: 40, nightly: 1000 })
/** Seconds. */
const LONGEST = 3600

const COPY: Program = {
  edition: 4,
  devices: 1,
  streams: [{ origin: 'own', priority: 0, device: 0 }],
  events: [{ timing: false, device: 0 }],
  ending: 'blocking',
  steps: [{ what: 'copy', stream: 0, buffer: 0, at: 0, source: 1, from: 0, cells: 0, guarded: 1 }],
}

const fake = fakeCuda()
const skip = typeof fake === 'string' ? fake : false

async function run(args: readonly string[], more: NodeJS.ProcessEnv = {}): Promise<{ code: unknown; output: string }> {
  assert.ok(typeof fake !== 'string')
  // Streams of other libraries are made while host functions stand: the driver has as many places for them as a GPU.
  const env = { ...fake.env, FAKE_BLOCK: undefined, ...more }
  const file = fileURLToPath(new URL('./run.js', import.meta.url))
  const child = spawn(process.execPath, [file, '--seconds', String(LONGEST), ...args], { env })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)))
  return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code: signal ?? code, output })))
}

describe('on a fake GPU', { skip, timeout: 1000 * LONGEST }, () => {
  test(`the library does what the simulator does (${RUNS} programs, seed ${SEED})`, async () => {
    const { code, output } = await run(['--programs', String(RUNS), '--seed', SEED, '--batch', String(RUNS)])
    assert.equal(code, 0, output.slice(-8000))
    assert.match(output, new RegExp(`: ${RUNS} programs, .* 0 differ in 0 way\\(s\\), 0 hang\\n$`))
  })

  test('copies that do not arrive are found', async () => {
    const only = ['--only', JSON.stringify(encode(COPY))]
    assert.equal((await run(only)).code, 0)
    const { code, output } = await run(only, { FAKE_FORGETS: '1' })
    assert.equal(code, 1, output)
    // It does not arrive where the buffers are looked at, either.
    assert.match(output, /buffer 0\n/)
  })
})
