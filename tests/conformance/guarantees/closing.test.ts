/** S2, M17: closing ends no work, and lets nobody wait for anybody. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('closing', (bench) => {
  const { device } = bench

  test('S2 the work of a stream is done though the stream is closed', async () => {
    using other = bench.stream()
    using buffer = device.alloc(4, { stream: other })
    await other.finished()
    const stream = bench.stream()
    using latch = bench.latch(stream)
    stream.fill(buffer, 3)
    other.wait(stream)
    stream.close()
    const bytes = other.download(buffer)
    await turns()
    assert.equal(other.query(), false)
    latch.open()
    assert.deepEqual([...(await bytes)], [3, 3, 3, 3])
  })

  test('S2 a wait for an event holds though the event is closed', async () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    using latch = bench.latch(stream)
    const event = stream.record()
    waiting.wait(event)
    event.close()
    await turns()
    assert.equal(waiting.query(), false)
    latch.open()
    await waiting.finished()
  })

  test('M17 closing a buffer lets no stream wait for another that uses it', async () => {
    using stream = bench.stream()
    using user = bench.stream()
    const buffer = device.alloc(4, { stream })
    using other = device.alloc(4, { stream })
    await stream.finished()
    using latch = bench.latch(user)
    user.fill(buffer, 1)
    buffer.close()
    stream.fill(other, 1).synchronize()
    assert.equal(user.query(), false)
    latch.open()
    await user.finished()
  })
})
