/** What the promise of an upload hears of a GPU that has faulted without a call having told it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simulate } from 'cuda-streams/sim'
import { driverOf } from '../../src/device.js'
import { backendOf } from '../../src/driver/front.js'

test('upload() rejects where the GPU has faulted by the time when nothing is left aside', async (t) => {
  const [device] = simulate().devices
  assert.ok(device !== undefined)
  using stream = device.createStream()
  using buffer = device.alloc(64, { stream })
  const fault = new Error('the GPU has faulted')
  const backend = backendOf(driverOf(device))
  const check = t.mock.method(backend, 'contextCheck', () => {
    throw fault
  })
  await assert.rejects(stream.upload(buffer, new Uint8Array(64)), fault)
  check.mock.restore()
  await stream.upload(buffer, new Uint8Array(64))
})
