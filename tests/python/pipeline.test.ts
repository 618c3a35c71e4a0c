/** One buffer through all libraries, each on its own stream, a hundred rounds: right every time, and no thread waits for the GPU. */
import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import type { Device } from 'cuda-streams'
import type { Python } from 'cuda-streams/python'
import { holdOn } from '../../examples/hold.js'
import { delayOn } from '../../examples/python/delay.js'
import { COUNT } from '../../examples/python/exchanges.js'
import type { Library } from '../../examples/python/library.js'
import { Pipeline } from '../../examples/python/pipeline.js'
import { SimulatedLibrary } from '../../examples/python/simulated-library.js'
import { realPartners, simulatedDevice } from '../helpers/partners.js'

/** A hundred rounds are at most 900 entries of a hardware queue, which takes 1020 before it blocks. */
const ROUNDS = 100
/** How long the first stage is held. Queuing must be over by then, so the host has waited for none of it. */
const HELD_MS = 3000

function pipelineOf(title: string, device: Device, libraries: readonly Library[], python: Python | undefined): void {
  describe(title, { timeout: 300_000 }, () => {
    const late = { delay: delayOn(device), hold: holdOn(device) }

    /** PyTorch raises an error where it would wait for the GPU. */
    const strictly = async <R>(act: () => Promise<R>): Promise<R> => {
      const hasTorch = python !== undefined && libraries.some(({ name }) => name.startsWith('PyTorch'))
      if (!hasTorch) return act()
      python.run('import torch; torch.cuda.set_sync_debug_mode("error")')
      try {
        return await act()
      } finally {
        python.run('torch.cuda.set_sync_debug_mode("default")')
      }
    }

    it(`is right in each of ${ROUNDS} rounds, all of them queued before the first began`, async () => {
      const pipeline = new Pipeline(device, libraries, late, COUNT)
      assert.equal(pipeline.stages.length, libraries.length + 1)
      // Code is loaded at first use, and CUDA may stop all streams for that.
      assert.equal((await pipeline.run(3, 0)).firstWrong, undefined)
      const run = await strictly(() => pipeline.run(ROUNDS, HELD_MS))
      console.log(`${title}: ${pipeline.stages.join(' > ')}: ${ROUNDS} rounds queued in ${run.queuedIn.toFixed(0)} ms`)
      assert.equal(run.firstWrong, undefined)
      assert.equal(run.right, ROUNDS)
      assert.equal(run.heldToTheEnd, true, `queuing took ${run.queuedIn} ms, as long as the first stage was held`)
      pipeline.close()
    })

    it('is wrong without the waits between the stages', async () => {
      const pipeline = new Pipeline(device, libraries, late, COUNT)
      await pipeline.run(3, 0)
      const { right } = await pipeline.runWithoutWaits(ROUNDS)
      assert.equal(right, 0)
      pipeline.close()
    })
  })
}

const device = simulatedDevice()
pipelineOf(
  'a pipeline of four libraries [sim]',
  device,
  [
    new SimulatedLibrary(device, COUNT),
    new SimulatedLibrary(device, COUNT, []),
    new SimulatedLibrary(device, COUNT, ['computes']),
    new SimulatedLibrary(device, COUNT, []),
  ],
  undefined,
)

test('a stage that waits for the GPU is noticed', async () => {
  class Impatient extends SimulatedLibrary {
    override transform(value: number, length: number): void {
      super.transform(value, length)
      device.synchronize()
    }
  }
  const late = { delay: delayOn(device), hold: holdOn(device) }
  const pipeline = new Pipeline(device, [new Impatient(device, COUNT)], late, COUNT)
  const run = await pipeline.run(3, HELD_MS)
  assert.deepEqual([run.right, run.heldToTheEnd], [3, false])
  pipeline.close()
})

const real = realPartners()
if (typeof real === 'string') test('a pipeline of the Python libraries', { skip: real }, () => {})
else if (real.libraries.length === 0) test('a pipeline', () => assert.fail('no Python library is here'))
else pipelineOf('a pipeline of the Python libraries [cuda]', real.device, real.libraries, real.python)
