/** O9: the work of one stream runs in the order in which it was queued; work of two streams has no order by itself. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('the order of a stream', (bench) => {
  const { device } = bench

  test('O9 what is queued later runs later', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(4, { stream })
    await stream.finished()
    using latch = bench.latch(stream)
    using done = stream.fill(buffer, 1).record()
    await turns()
    assert.equal(done.query(), false)
    latch.open()
    await done.finished()
  })

  test('O9 each operation sees what those before it wrote', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(4, { stream })
    using copies = device.alloc(12, { stream })
    for (let value = 1; value <= 3; value += 1) {
      bench.busy(stream, 10_000)
      stream.fill(buffer, value).copy(copies.subarray(4 * (value - 1), 4 * value), buffer)
    }
    assert.deepEqual([...(await stream.download(copies))], [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3])
  })

  test('O9 a stream that stands holds up no other', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using buffer = device.alloc(4, { stream: other })
    await other.finished()
    using latch = bench.latch(stream)
    other.fill(buffer, 1).synchronize()
    assert.equal(stream.query(), false)
    latch.open()
    await stream.finished()
  })
})
