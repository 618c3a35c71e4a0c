/** U1 to U4: which stream a call without a stream uses, and how long. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Stream } from 'cuda-streams'
import { onEveryBackend } from '../../helpers/suite.js'
import { ONE_DEVICE, secondDevice, turns } from '../expect.js'

onEveryBackend('current streams', (bench) => {
  const { device } = bench

  test('U1 an event without a stream is recorded and waited for on the current one', async () => {
    using stream = bench.stream()
    using waiting = bench.stream()
    using event = device.createEvent()
    using latch = bench.latch(stream)
    stream.run(() => event.record())
    waiting.run(() => event.wait())
    await turns()
    assert.deepEqual([event.query(), waiting.query()], [false, false])
    latch.open()
    await waiting.finished()
  })

  test('U2 run() makes a stream current for its function, and none afterwards', () => {
    using stream = bench.stream()
    const before = Stream.current(device)
    assert.equal(
      stream.run(() => Stream.current(device)),
      stream,
    )
    assert.equal(Stream.current(device), before)
    assert.equal(before, device.defaultStream)
  })

  test('U3 a stream is current for its own device alone', (t) => {
    const second = secondDevice(bench)
    if (second === undefined) return t.skip(ONE_DEVICE)
    using stream = bench.stream()
    stream.run(() => assert.deepEqual([Stream.current(device), Stream.current(second)], [stream, second.defaultStream]))
  })

  test('U4 the end of an enter() ends its own scope', () => {
    using outer = bench.stream()
    using inner = bench.stream()
    const before = Stream.current(device)
    {
      using _outer = outer.enter()
      {
        using _inner = inner.enter()
        assert.equal(Stream.current(device), inner)
      }
      assert.equal(Stream.current(device), outer)
    }
    assert.equal(Stream.current(device), before)
  })
})
