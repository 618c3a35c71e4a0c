/** T1, T4, T5: copies run in the order of their stream; an array may be reused once upload() has returned, pinned memory once the copy is done. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('copies', (bench) => {
  const { device } = bench

  test('T1 a copy to pinned memory is there once the stream is done, and not before', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(4, { stream })
    using pinned = device.allocPinned(4)
    pinned.bytes.fill(0)
    await stream.fill(buffer, 5).finished()
    using latch = bench.latch(stream)
    stream.copy(pinned, buffer)
    await turns()
    assert.deepEqual([...pinned.bytes], [0, 0, 0, 0])
    latch.open()
    await stream.finished()
    assert.deepEqual([...pinned.bytes], [5, 5, 5, 5])
  })

  test('T1 a copy from pinned memory reads it when the stream comes there', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(4, { stream })
    using pinned = device.allocPinned(4)
    pinned.bytes.fill(1)
    await stream.finished()
    using latch = bench.latch(stream)
    stream.copy(buffer, pinned)
    pinned.bytes.fill(2)
    latch.open()
    assert.deepEqual([...(await stream.download(buffer))], [2, 2, 2, 2])
  })

  test('T4 upload() takes the bytes of an array as they are at the call', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(4, { stream })
    using latch = bench.latch(stream)
    const array = Uint8Array.of(1, 2, 3, 4)
    const uploaded = stream.upload(buffer, array)
    array.fill(9)
    latch.open()
    await uploaded
    assert.deepEqual([...(await stream.download(buffer))], [1, 2, 3, 4])
  })

  test('T5 the copies of a stream that stands hold up none of another', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using buffer = device.alloc(4, { stream: other })
    using held = device.alloc(4, { stream })
    await other.fill(buffer, 5).finished()
    using latch = bench.latch(stream)
    const uploaded = stream.upload(held, new Uint8Array(4))
    assert.deepEqual([...(await other.download(buffer))], [5, 5, 5, 5])
    assert.equal(stream.query(), false)
    latch.open()
    await uploaded
  })
})
