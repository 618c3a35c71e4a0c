/** N1: work of the null stream and work of blocking streams wait for each other. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('the null stream', (bench) => {
  const { device } = bench
  const { defaultStream } = device

  test('N1 work on a blocking stream waits for the null stream', async () => {
    using blocking = bench.stream({ nonBlocking: false })
    using buffer = device.alloc(4, { stream: blocking })
    await device.finished()
    using latch = bench.latch(defaultStream)
    blocking.fill(buffer, 1)
    await turns()
    assert.equal(blocking.query(), false)
    latch.open()
    await blocking.finished()
  })

  test('N1 work on the null stream waits for a blocking stream', async () => {
    using blocking = bench.stream({ nonBlocking: false })
    using buffer = device.alloc(4, { stream: defaultStream })
    await device.finished()
    using latch = bench.latch(blocking)
    using done = defaultStream.fill(buffer, 1).record()
    await turns()
    assert.equal(done.query(), false)
    latch.open()
    await done.finished()
  })

  test('N1 two blocking streams do not wait for each other, until work is queued on the null stream between', async () => {
    using first = bench.stream({ nonBlocking: false })
    using second = bench.stream({ nonBlocking: false })
    using buffer = device.alloc(4, { stream: second })
    await device.finished()
    using latch = bench.latch(first)
    second.fill(buffer, 1).synchronize()
    defaultStream.record()
    second.fill(buffer, 2)
    await turns()
    assert.equal(second.query(), false)
    latch.open()
    await second.finished()
  })

  test('N1 a wait on a blocking stream does not wait for the null stream', async () => {
    using blocking = bench.stream({ nonBlocking: false })
    using other = bench.stream()
    await device.finished()
    using event = other.record()
    using latch = bench.latch(defaultStream)
    blocking.wait(event).synchronize()
    assert.equal(blocking.query(), true)
    latch.open()
    await device.finished()
  })
})
