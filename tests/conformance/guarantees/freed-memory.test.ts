/** M4, M8, M9: memory is there for all work that was queued before its close, whichever streams use it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryPool } from 'cuda-streams'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('freed memory', (bench) => {
  const { device } = bench

  test('M9 a buffer that is closed is there for the work queued before', async () => {
    using stream = bench.stream()
    using latch = bench.latch(stream)
    const buffer = device.alloc(4, { stream })
    const bytes = stream.fill(buffer, 5).download(buffer)
    buffer.close()
    latch.open()
    assert.deepEqual([...(await bytes)], [5, 5, 5, 5])
  })

  test('M8 it is there for another stream that has still to use it', async () => {
    using stream = bench.stream()
    using user = bench.stream()
    using pool = new MemoryPool({ device })
    const buffer = device.alloc(4, { stream, pool })
    await stream.fill(buffer, 5).finished()
    using latch = bench.latch(user)
    const bytes = user.download(buffer)
    buffer.close()
    using next = device.alloc(4, { stream, pool })
    stream.fill(next, 6).synchronize()
    assert.notEqual(next.pointer, buffer.pointer)
    latch.open()
    assert.deepEqual([...(await bytes)], [5, 5, 5, 5])
  })

  test('M4 a use on another stream comes after the allocation', async () => {
    using stream = bench.stream()
    using user = bench.stream()
    using latch = bench.latch(stream)
    using buffer = device.alloc(4, { stream })
    const bytes = user.fill(buffer, 5).download(buffer)
    await turns()
    assert.equal(user.query(), false)
    latch.open()
    assert.deepEqual([...(await bytes)], [5, 5, 5, 5])
  })
})
