/** A fault is told by a later call, which has nothing to do with it: the error says what was waited for, and what was queued there. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CudaError, Stream } from 'cuda-streams'
import { fault, simulate } from 'cuda-streams/sim'
import { onEveryBackend } from '../helpers/suite.js'

/** What a call throws, or its promise rejects with. */
async function errorOf(call: () => unknown): Promise<CudaError> {
  try {
    await call()
  } catch (error) {
    assert.ok(error instanceof CudaError, String(error))
    return error
  }
  throw new Error('nothing was thrown')
}

describe('errors of waits', () => {
  test('A5 say whose work was waited for, and what was queued there last', async () => {
    const [device] = simulate().devices
    assert.ok(device)
    const stream = new Stream({ device })
    const idle = new Stream({ device })
    const buffer = device.alloc(16, { stream })
    fault(idle)
    stream.wait(idle)
    stream.fill(buffer, 1)
    const event = stream.record()
    stream.copy(buffer, device.allocPinned(16))
    const of: readonly (readonly [() => unknown, string])[] = [
      [() => stream.synchronize(), `${stream}; the last operation queued there was a copy`],
      [() => stream.query(), `${stream}; the last operation queued there was a copy`],
      [() => stream.finished(), `${stream}; the last operation queued there was a copy`],
      [() => event.synchronize(), `${event}, recorded behind a fill`],
      [() => event.query(), `${event}, recorded behind a fill`],
      [() => event.finished(), `${event}, recorded behind a fill`],
      [() => device.synchronize(), `${device}`],
      [() => device.finished(), `${device}`],
    ]
    for (const [call, whom] of of) {
      const error = await errorOf(call)
      assert.equal(error.code, 'CUDA_ERROR_ILLEGAL_ADDRESS')
      assert.ok(error.message.endsWith(`. Reported while waiting for ${whom}`), error.message)
      assert.match(error.message, /A kernel used an address/)
    }
  })
})

onEveryBackend('errors of waits', (bench) => {
  test('A5 name the call that was made, however often a stream was waited for before', async () => {
    using stream = bench.stream()
    stream.synchronize()
    stream.beginCapture('relaxed')
    const error = await errorOf(() => stream.synchronize())
    assert.equal(error.call, 'cuStreamSynchronize')
    await errorOf(() => stream.endCapture())
  })

  test('A5 say it where a stream captures, too', async () => {
    using stream = bench.stream()
    stream.beginCapture('relaxed')
    const error = await errorOf(() => stream.finished())
    stream.endCapture().close()
    assert.equal(error.number, 900)
    assert.ok(error.message.includes(`Reported while waiting for ${stream}`), error.message)
  })
})
