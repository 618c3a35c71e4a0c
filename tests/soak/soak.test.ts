/** A short soak, and that each kind of mistake is found: what passes has not passed for want of looking. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openCudaWorkbench } from '../helpers/cuda-workbench.js'
import { byEffort } from '../helpers/effort.js'
import { type Outcome, runChild } from '../torture/run-child.js'
import { INJECTED_BUGS, type InjectedBug } from './options.js'
import { FAILED, LOST, PASSED } from './watchdog.js'

const cuda = openCudaWorkbench()
const withoutCuda = typeof cuda === 'string' ? `no NVIDIA driver here: ${cuda}` : undefined
/** With none, one and two workers. */
const STEPS = byEffort({ quick: [100, 60, 40], normal: [100, 60, 40], nightly: [300, 200, 120] })
/** Of the whole process: it ends itself sooner. */
const SECONDS = 120
const timeout = { timeout: (SECONDS + 10) * 1000 }

const soak = (args: string): Promise<Outcome> => runChild('../soak/main.js', args.split(' '), SECONDS)
const saidBy = ({ stdout, stderr }: Outcome): string => `\n${stdout}\n${stderr}`

async function assertPasses(args: string): Promise<void> {
  const outcome = await soak(args)
  assert.equal(outcome.code, PASSED, saidBy(outcome))
  assert.match(outcome.stdout, /^PASSED$/m)
}

describe('a soak of the simulator', () => {
  // In an even seed the null stream is used, in an odd one blocking streams capture, and in the third workers come first.
  for (const workers of [0, 1, 2]) {
    const args = `--steps ${STEPS[workers]} --seed ${workers + 1} --workers ${workers}`
    it(`finds nothing wrong: ${args}`, timeout, () => assertPasses(`${args} --driver sim`))
  }
})

describe('a soak of a GPU', { skip: withoutCuda ?? false }, () => {
  for (const args of ['--seconds 5 --seed 1 --workers 0', '--seconds 5 --seed 2 --workers 2']) {
    it(`finds nothing wrong: ${args}`, timeout, () => assertPasses(`${args} --driver cuda`))
  }
})

/** What a soak says of each mistake that it is told to make, and its exit code. */
const FOUND: Readonly<Record<InjectedBug, readonly [code: number, says: RegExp]>> = {
  byte: [FAILED, /^FAILURE: main thread, a download of .* bytes? differ/m],
  order: [FAILED, /^FAILURE: main thread, .*host function \d+ of/m],
  error: [FAILED, /^FAILURE: main thread, an uncaught exception: Error: a mistake in a host function/m],
  kept: [FAILED, /^FAILURE: main thread, of \d+ things that were let go of there are still Stream/m],
  memory: [FAILED, /^FAILURE: process grew from [\d.]+ to [\d.]+, by more than 300$/m],
  files: [FAILED, /^FAILURE: files grew from \d+ to \d+, by more than 8$/m],
  promise: [LOST, /^HUNG: nothing heard of the main thread, client \d[\s\S]*a promise that is never settled/m],
  crash: [LOST, /^CRASHED: the process ended with SIGSEGV[\s\S]*makes a mistake: crash/m],
  block: [LOST, /^HUNG: nothing heard of the main thread[\s\S]*makes a mistake: block/m],
  stall: [LOST, /^HUNG: the process does not end/m],
}

/** Seconds that a hang takes to be noticed here: long enough for a busy machine. */
const SILENCE = 8

// Those that hang do nothing meanwhile.
describe('a soak', { concurrency: 4 }, () => {
  for (const inject of INJECTED_BUGS) {
    it(`finds a mistake that it makes itself: ${inject}`, timeout, async () => {
      const [code, says] = FOUND[inject]
      const silence = code === LOST ? `--silence ${SILENCE} ` : ''
      const outcome = await soak(`--steps 60 --seed 5 --workers 0 --driver sim ${silence}--inject ${inject}`)
      assert.equal(outcome.code, code, saidBy(outcome))
      assert.match(outcome.stdout, says)
      assert.match(outcome.stdout, /^.*Again: npm run soak -- --steps 60 --seed 5 .*--inject \w+$/m)
    })
  }

  it('serves a short month', timeout, async () => {
    const outcome = await soak('--month --requests 40 --workers 4 --driver sim --kind requests')
    assert.equal(outcome.code, PASSED, saidBy(outcome))
    assert.match(outcome.stdout, /^requests: process: .* at the end; too few operations for a slope$/m)
    assert.match(outcome.stdout, /^PASSED$/m)
  })

  it('says which option is wrong', timeout, async () => {
    const outcome = await soak('--seed x')
    assert.equal(outcome.code, FAILED)
    assert.match(outcome.stderr, /--seed must be a number from 0 on, not 'x'/)
  })
})
