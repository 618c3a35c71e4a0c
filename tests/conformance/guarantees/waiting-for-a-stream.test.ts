/** O4: waiting for a stream is waiting for the work that it holds at the call. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('waiting for a stream', (bench) => {
  const { device } = bench

  test('O4 a stream that waits for another runs after its work', async () => {
    using producer = bench.stream()
    using consumer = bench.stream()
    using buffer = device.alloc(4, { stream: producer })
    await producer.finished()
    using latch = bench.latch(producer)
    producer.fill(buffer, 7)
    consumer.wait(producer)
    const bytes = consumer.download(buffer)
    await turns()
    assert.equal(consumer.query(), false)
    latch.open()
    assert.deepEqual([...(await bytes)], [7, 7, 7, 7])
  })

  test('O4 it does not wait for what is queued there later', async () => {
    using producer = bench.stream()
    using consumer = bench.stream()
    consumer.wait(producer)
    using latch = bench.latch(producer)
    consumer.synchronize()
    assert.equal(producer.query(), false)
    latch.open()
    await producer.finished()
  })

  test('O4 the order is passed on: what waits for the stream that waits comes after both', async () => {
    using first = bench.stream()
    using second = bench.stream()
    using third = bench.stream()
    using latch = bench.latch(first)
    second.wait(first)
    third.wait(second)
    await turns()
    assert.equal(third.query(), false)
    latch.open()
    await third.finished()
  })

  test('O4 nothing is ordered the other way round', async () => {
    using first = bench.stream()
    using second = bench.stream()
    using buffer = device.alloc(4, { stream: first })
    await first.finished()
    using latch = bench.latch(second)
    second.wait(first)
    first.fill(buffer, 1).synchronize()
    assert.equal(second.query(), false)
    latch.open()
    await second.finished()
  })
})
