/** What PyTorch’s tests ask of the lifetime of memory across streams, asked of ours. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DeviceBuffer, PinnedBuffer } from 'cuda-streams'
import { collectUntil, ONE_DEVICE, secondDevice } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'

onEveryBackend('PyTorch memory across streams', (bench) => {
  const { device } = bench

  test('a copy to or from pinned memory does not block, slices included', async () => {
    using stream = bench.stream()
    const size = 1_000_000
    using pinned = device.allocPinned(size)
    using there = device.alloc(size, { stream })
    using base = device.allocPinned(size)
    pinned.bytes.fill(3)
    base.bytes.fill(0)
    using latch = bench.latch(stream)
    stream.copy(there, pinned)
    stream.copy(base.subarray(1, size), there.subarray(0, size - 1))
    assert.equal(stream.query(), false)
    assert.equal(base.bytes[1], 0)
    latch.open()
    using event = stream.record()
    event.synchronize()
    assert.deepEqual([base.bytes[0], base.bytes[1], base.bytes[size - 1]], [0, 3, 3])
    assert.equal(base.bytes.indexOf(0, 1), -1)
  })

  test('a download is a copy of its own, there when its promise is done', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(1000, { stream })
    stream.fill(buffer, 1)
    const first = stream.download(buffer)
    stream.fill(buffer, 2)
    const second = stream.download(buffer)
    buffer.close()
    assert.deepEqual([(await first)[999], (await second)[999]], [1, 2])
  })

  for (const kind of ['whole', 'slice'] as const) {
    test(`memory closed while another stream uses it is not used again before that is over: ${kind}`, async () => {
      using allocationStream = bench.stream()
      using user = bench.stream()
      using result = device.allocPinned(64)
      const memory = device.alloc(64, { stream: allocationStream })
      allocationStream.fill(memory, 1)
      user.wait(allocationStream)
      using latch = bench.latch(user)
      if (kind === 'whole') user.copy(result, memory)
      else user.copy(result.subarray(32, 64), memory.subarray(32, 64))
      memory.close()
      // The same memory again, or other memory: either way its bytes come after the copy.
      using next = device.alloc(64, { stream: allocationStream })
      allocationStream.fill(next, 2)
      latch.open()
      await device.finished()
      assert.deepEqual([...(await allocationStream.download(next))], Array(64).fill(2))
      assert.deepEqual([...result.bytes.subarray(32)], Array(32).fill(1))
    })

    test(`pinned memory closed while a copy is pending is not used again before: ${kind}`, async () => {
      for (const on of bench.devices) {
        using stream = on.createStream()
        using there = on.alloc(64, { stream })
        using later = on.alloc(64, { stream })
        await stream.finished()
        using latch = bench.latch(stream)
        const pinned = on.allocPinned(64)
        pinned.bytes.fill(1)
        if (kind === 'whole') stream.copy(there, pinned)
        else
          stream
            .copy(there.subarray(0, 32), pinned.subarray(0, 32))
            .copy(there.subarray(32, 64), pinned.subarray(32, 64))
        pinned.close()
        using again = on.allocPinned(64)
        again.bytes.fill(2)
        stream.copy(later, again)
        latch.open()
        assert.deepEqual([...(await stream.download(there))], Array(64).fill(1))
        assert.deepEqual([...(await stream.download(later))], Array(64).fill(2))
      }
    })
  }

  test('memory that the program cannot reach any more is freed after the work that uses it', async () => {
    using allocationStream = bench.stream()
    using user = bench.stream()
    using result = device.allocPinned(64)
    using latch = bench.latch(user)
    const weak = (() => {
      const memory = device.alloc(64, { stream: allocationStream })
      allocationStream.fill(memory, 1)
      user.wait(allocationStream)
      user.copy(result, memory)
      return new WeakRef(memory)
    })()
    assert.ok(await collectUntil(() => weak.deref() === undefined))
    using next = device.alloc(64, { stream: allocationStream })
    allocationStream.fill(next, 2)
    latch.open()
    await device.finished()
    assert.deepEqual([...(await allocationStream.download(next))], Array(64).fill(2))
    assert.deepEqual([...result.bytes], Array(64).fill(1))
  })

  test('memory that a second stream uses goes round: far more than there is, one piece after the other', async (context) => {
    if (bench.name === 'sim') return context.skip('bytes that are touched here are bytes of the host')
    using allocationStream = bench.stream()
    using user = bench.stream()
    const piece = 8 * 2 ** 30
    for (let round = 0; round < 100; round += 1) {
      using memory = device.alloc(piece, { stream: allocationStream })
      const part = memory.subarray(0, 64)
      allocationStream.fill(part, round)
      user.wait(allocationStream)
      user.fill(part, round + 1)
    }
    await device.finished()
  })

  test('copies between streams of two devices keep to the stream that makes them', async (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    using here = bench.stream()
    using there = other.createStream()
    using x = device.alloc(256, { stream: here })
    using more = device.alloc(256, { stream: here })
    using y = other.alloc(256, { stream: there })
    here.fill(x, 5).fill(more, 6)
    await here.finished()
    await there.finished()
    using latch = bench.latch(here)
    using slow = here.record()
    there.wait(slow).copy(y, more)
    there.copy(y, x)
    latch.open()
    assert.deepEqual(new Set(await there.download(y)), new Set([5]))
  })

  test('buffers are what they say', () => {
    using memory = device.alloc(8)
    using pinned = device.allocPinned(8)
    assert.ok(memory instanceof DeviceBuffer && pinned instanceof PinnedBuffer)
    assert.ok(memory.subarray(0, 4) instanceof DeviceBuffer && pinned.subarray(0, 4) instanceof PinnedBuffer)
  })
})
