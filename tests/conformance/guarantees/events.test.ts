/** O1: a wait for an event means its record that is the latest at the call, and the work queued before that record. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('events', (bench) => {
  const { device } = bench

  test('O1 a stream that waits for an event runs after the work before its record', async () => {
    using producer = bench.stream()
    using consumer = bench.stream()
    using buffer = device.alloc(4, { stream: producer })
    await producer.finished()
    using latch = bench.latch(producer)
    producer.fill(buffer, 7)
    using event = producer.record()
    consumer.wait(event)
    const bytes = consumer.download(buffer)
    await turns()
    assert.deepEqual([event.query(), consumer.query()], [false, false])
    latch.open()
    assert.deepEqual([...(await bytes)], [7, 7, 7, 7])
  })

  test('O1 it does not wait for work after the record', async () => {
    using producer = bench.stream()
    using consumer = bench.stream()
    using event = producer.record()
    using latch = bench.latch(producer)
    consumer.wait(event)
    consumer.synchronize()
    assert.equal(producer.query(), false)
    latch.open()
    await producer.finished()
  })

  test('O1 a wait after a second record is for that', async () => {
    using first = bench.stream()
    using second = bench.stream()
    using consumer = bench.stream()
    using event = first.record()
    using latch = bench.latch(second)
    second.record(event)
    consumer.wait(event)
    await turns()
    assert.equal(consumer.query(), false)
    latch.open()
    await consumer.finished()
  })

  test('O1 a second record after the wait changes nothing for it', async () => {
    using held = bench.stream()
    using consumer = bench.stream()
    using event = bench.stream().record()
    await event.finished()
    consumer.wait(event)
    using latch = bench.latch(held)
    held.record(event)
    consumer.synchronize()
    assert.equal(event.query(), false)
    latch.open()
    await event.finished()
  })
})
