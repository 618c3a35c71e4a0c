/** C1 to C3: asking never waits, a promise resolves once the work queued before is done, and only synchronize() blocks. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { follow, turns } from '../expect.js'

onEveryBackend('completion', (bench) => {
  test('C3 finished() resolves once the work is done, and not before', async () => {
    using stream = bench.stream()
    using latch = bench.latch(stream)
    const done = stream.finished()
    const state = follow(done)
    await turns()
    assert.equal(state.settled, false)
    latch.open()
    await done
    assert.equal(stream.query(), true)
  })

  test('C3 it is for the work queued before the call', async () => {
    using stream = bench.stream()
    bench.busy(stream, 10_000)
    const done = stream.finished()
    using latch = bench.latch(stream)
    await done
    assert.equal(stream.query(), false)
    latch.open()
    await stream.finished()
  })

  test('C1 query() says that work is not done, without waiting for it', async () => {
    using stream = bench.stream()
    using latch = bench.latch(stream)
    using event = stream.record()
    assert.deepEqual([stream.query(), event.query()], [false, false])
    latch.open()
    await stream.finished()
    assert.deepEqual([stream.query(), event.query()], [true, true])
  })

  test('C2 synchronize() returns when the work is done', () => {
    using stream = bench.stream()
    using event = bench.stream().record()
    for (const waiting of [stream, event, bench.device]) {
      bench.busy(stream, 100_000)
      stream.record(event)
      waiting.synchronize()
      assert.deepEqual([stream.query(), event.query()], [true, true])
    }
  })
})
