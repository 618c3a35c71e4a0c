/** O2: an event that was never recorded holds up nobody. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'

onEveryBackend('an event that was never recorded', (bench) => {
  const { device } = bench

  test('O2 a stream that waits for it goes on', async () => {
    using stream = bench.stream()
    using event = device.createEvent()
    using buffer = device.alloc(4, { stream })
    stream.wait(event)
    assert.deepEqual([...(await stream.fill(buffer, 1).download(buffer))], [1, 1, 1, 1])
  })

  test('O2 the host does not wait for it either', async () => {
    using event = device.createEvent()
    assert.equal(event.query(), true)
    event.synchronize()
    await event.finished()
  })

  test('O2 a record after the wait does not count', async () => {
    using stream = bench.stream()
    using held = bench.stream()
    using event = device.createEvent()
    using latch = bench.latch(held)
    stream.wait(event)
    held.record(event)
    stream.synchronize()
    assert.equal(event.query(), false)
    latch.open()
    await held.finished()
  })
})
