/** N1: the per-thread default stream is a blocking stream. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Stream } from 'cuda-streams'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('the per-thread default stream', (bench) => {
  const { device } = bench
  const { defaultStream } = device
  const perThread = device.run(() => Stream.perThread)

  test('N1 its work waits for the null stream', async () => {
    using buffer = device.alloc(4, { stream: perThread })
    await device.finished()
    using latch = bench.latch(defaultStream)
    perThread.fill(buffer, 1)
    await turns()
    assert.equal(perThread.query(), false)
    latch.open()
    await perThread.finished()
  })

  test('N1 the null stream waits for it', async () => {
    await device.finished()
    using latch = bench.latch(perThread)
    using done = defaultStream.record()
    await turns()
    assert.equal(done.query(), false)
    latch.open()
    await done.finished()
  })

  test('N1 it does not wait for other blocking streams', async () => {
    using blocking = bench.stream({ nonBlocking: false })
    using buffer = device.alloc(4, { stream: perThread })
    await device.finished()
    using latch = bench.latch(blocking)
    perThread.fill(buffer, 1).synchronize()
    assert.equal(blocking.query(), false)
    latch.open()
    await blocking.finished()
  })
})
