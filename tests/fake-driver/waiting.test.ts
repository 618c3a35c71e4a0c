/** What resumes a program once its GPU is done is the run time's event loop: so each run time is tried, without a GPU. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { withoutFakeTimers } from '../helpers/run-time.js'
import { howItEnded } from '../helpers/test-output.js'
import { fileOf, playEach, run, skip, WAITING } from './play.js'

describe('waiting on a fake GPU', { skip, concurrency: 2 }, () => playEach(WAITING))

for (const driver of ['sim', 'cuda'])
  test(`fake timers and clocks of a program stop no wait: ${driver}`, { skip: skip || withoutFakeTimers }, async () => {
    const { code, output } = await run([fileOf('./fake-timers.js')], {
      CUDA_STREAMS_DRIVER: driver,
      NODE_NO_WARNINGS: '1',
    })
    assert.equal(code, 0, howItEnded({ code, output }))
    assert.deepEqual(output.trim().split('\n'), [
      'a large download',
      'a host function',
      'an error of a host function',
      'a value that JavaScript writes',
      'a promise',
    ])
  })
