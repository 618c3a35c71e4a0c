/** N1: a non-blocking stream and the null stream have no order, unless one waits for the other. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Stream } from 'cuda-streams'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('a non-blocking stream', (bench) => {
  const { device } = bench
  const { defaultStream } = device

  test('N1 it does not wait for the null stream', async () => {
    using stream = new Stream({ device })
    using buffer = device.alloc(4, { stream })
    await device.finished()
    using latch = bench.latch(defaultStream)
    stream.fill(buffer, 1).synchronize()
    assert.equal(defaultStream.query(), false)
    latch.open()
    await device.finished()
  })

  test('N1 the null stream does not wait for it', async () => {
    using stream = new Stream({ device })
    using buffer = device.alloc(4, { stream: defaultStream })
    await device.finished()
    using latch = bench.latch(stream)
    using done = defaultStream.fill(buffer, 1).record()
    done.synchronize()
    assert.equal(stream.query(), false)
    latch.open()
    await stream.finished()
  })

  test('N1 each waits for the other where the program says so', async () => {
    using stream = new Stream({ device })
    using other = new Stream({ device })
    await device.finished()
    using latch = bench.latch(stream)
    defaultStream.wait(stream)
    other.wait(defaultStream)
    await turns()
    assert.deepEqual([defaultStream.query(), other.query()], [false, false])
    latch.open()
    await other.finished()
  })
})
