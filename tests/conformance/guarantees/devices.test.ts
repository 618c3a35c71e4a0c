/** O3, O8, D4: streams of two devices wait for each other as those of one do; waiting for a device is waiting for that alone. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { ONE_DEVICE, secondDevice, turns } from '../expect.js'

onEveryBackend('devices', (bench) => {
  const { device } = bench

  test('O3 a stream waits for an event of another device', async (t) => {
    const second = secondDevice(bench)
    if (second === undefined) return t.skip(ONE_DEVICE)
    using here = bench.stream()
    using there = second.createStream()
    using latch = bench.latch(there)
    using event = there.record()
    here.wait(event)
    await turns()
    assert.equal(here.query(), false)
    latch.open()
    await here.finished()
  })

  test('O8 a stream that waits for a device runs after the work of all its streams', async () => {
    using first = bench.stream()
    using second = bench.stream({ nonBlocking: false })
    using waiting = bench.stream()
    using one = bench.latch(first)
    using two = bench.latch(second)
    waiting.wait(device)
    for (const latch of [one, two]) {
      await turns()
      assert.equal(waiting.query(), false)
      latch.open()
    }
    await waiting.finished()
  })

  test('D4 synchronize() and finished() of a device do not wait for another', async (t) => {
    const second = secondDevice(bench)
    if (second === undefined) return t.skip(ONE_DEVICE)
    using there = second.createStream()
    using latch = bench.latch(there)
    device.synchronize()
    await device.finished()
    assert.equal(there.query(), false)
    latch.open()
    await second.finished()
  })

  test('N1 the null streams of two devices do not wait for each other', async (t) => {
    const second = secondDevice(bench)
    if (second === undefined) return t.skip(ONE_DEVICE)
    using there = second.createStream({ nonBlocking: false })
    await second.finished()
    using latch = bench.latch(device.defaultStream)
    second.defaultStream.wait(there).synchronize()
    using done = there.record()
    done.synchronize()
    assert.equal(device.defaultStream.query(), false)
    latch.open()
    await device.finished()
  })
})
