/**
 * The rule of docs/reference/errors.md: before a blocking call of another library, drainHostFunctions(); and the watchdog, which
 * tells where it was forgotten.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { realPartners } from '../helpers/partners.js'
import { FEW_QUEUES } from '../helpers/run-time.js'

const CHILD = fileURLToPath(new URL('./children/blocking-call.js', import.meta.url))
/** Importing a library takes seconds; a process that hangs is ended then. */
const LONGEST_MS = 120_000
/** The streams have less than a tenth of a second of work: what still blocks after this long, blocks forever. */
const HANGS_MS = 5_000

const CALLS: readonly (readonly [library: string, code: string])[] = [
  ['PyTorch', 'import torch; torch.cuda.synchronize()'],
  ['PyTorch', 'import torch; assert torch.ones(1000, device="cuda").sum().item() == 1000; torch.cuda.synchronize()'],
  ['CuPy', 'import cupy; cupy.cuda.Device().synchronize()'],
  ['cuda.core', 'import cuda.core as c; d = c.Device(0); d.set_current(); d.sync()'],
  ['Numba', 'import numpy; numpy.row_stack = numpy.vstack; from numba import cuda; cuda.synchronize()'],
]

interface Ended {
  readonly code: number | null
  readonly output: string
  /** It said that it would block, and did not come back. */
  readonly hung: boolean
}

function run(how: 'drain' | 'plunge', code: string): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [CHILD, how, code], {
      env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...FEW_QUEUES, CUDA_STREAMS_WARN_AFTER: '1000' },
    })
    let output = ''
    let hung = false
    let patience = setTimeout(() => child.kill('SIGKILL'), LONGEST_MS)
    const hear = (text: Buffer): void => {
      output += text.toString()
      if (!output.includes('blocking') || hung) return
      clearTimeout(patience)
      patience = setTimeout(() => {
        hung = true
        child.kill('SIGKILL')
      }, HANGS_MS)
    }
    child.stdout.on('data', hear)
    child.stderr.on('data', hear)
    child.on('close', (status) => {
      clearTimeout(patience)
      resolve({ code: status, output, hung })
    })
  })
}

const real = realPartners()
const reason = typeof real === 'string' ? real : false
const here = typeof real === 'string' ? [] : real.libraries.map(({ name }) => name)
if (reason !== false) console.log(`skipped: ${reason}`)

describe('a blocking call of another library', { skip: reason, timeout: 900_000, concurrency: CALLS.length }, () => {
  for (const [library, code] of CALLS) {
    const missing = here.some((name) => name.startsWith(library)) ? false : `${library} is not here`

    it(`returns after drainHostFunctions(): ${code}`, { skip: missing }, async () => {
      const { code: status, output, hung } = await run('drain', code)
      assert.equal(hung, false, output)
      assert.equal(status, 0, output)
      assert.match(output, /ran 4\n/)
      assert.match(output, /done first of one, first of two, second of one, second of two\n/)
    })
  }

  for (const [library, code] of CALLS) {
    const missing = here.some((name) => name.startsWith(library)) ? false : `${library} is not here`

    it(`does not return without it, which the watchdog tells: ${code}`, { skip: missing }, async () => {
      const { output, hung } = await run('plunge', code)
      assert.match(output, /ran 0\nblocking\n/)
      assert.equal(hung, true, `it came back, so the rule is not needed: ${output}`)
      assert.match(output, /\[CUDA_STREAMS_BLOCKED_THREAD\].*The main thread .* \(queued at \S*blocking-call\.js:\d+/)
    })
  }
})
