/** M9: memory lives until the work is done that uses it on its allocation stream, also when that is closed or captures. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DeviceBuffer, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { collectUntil } from './expect.js'

const LENGTH = 1 << 20

onEveryBackend('memory and its allocation stream', (bench) => {
  const { device } = bench

  /** Queues a fill and a copy to the host behind a latch; `close` then closes the buffer in its own way. */
  const usedWhenClosed = async (close: (buffer: DeviceBuffer, allocationStream: Stream) => void): Promise<void> => {
    const allocationStream = bench.stream()
    using reader = bench.stream()
    using result = device.allocPinned(LENGTH)
    const buffer = device.alloc(LENGTH, { stream: allocationStream })
    using latch = bench.latch(allocationStream)
    allocationStream.fill(buffer, 7)
    allocationStream.copy(result, buffer)
    const done = allocationStream.record()
    close(buffer, allocationStream)
    // Whoever gets the memory next must not do so before the work above is done.
    using next = device.alloc(LENGTH, { stream: reader })
    reader.fill(next, 9)
    latch.open()
    await done.finished()
    await reader.finished()
    assert.ok(result.bytes.every((byte) => byte === 7))
    allocationStream.close()
  }

  test('M9 closed while its allocation stream works', () => usedWhenClosed((buffer) => buffer.close()))

  test('M9 closed after its allocation stream', () =>
    usedWhenClosed((buffer, allocationStream) => {
      allocationStream.close()
      buffer.close()
    }))

  test('M9 its allocation stream is dropped, and collected while the memory is still used', async () => {
    const dropped = () => {
      const allocationStream = bench.stream()
      const buffer = device.alloc(LENGTH, { stream: allocationStream })
      allocationStream.fill(buffer, 7)
      return { buffer, filled: allocationStream.record(), stream: new WeakRef(allocationStream) }
    }
    const { buffer, filled, stream } = dropped()
    assert.ok(await collectUntil(() => stream.deref() === undefined))
    using reader = bench.stream()
    reader.wait(filled)
    const bytes = await reader.download(buffer)
    assert.ok(bytes.every((byte) => byte === 7))
    buffer.close()
    await reader.finished()
  })

  test('M9 closed before its allocation stream', () =>
    usedWhenClosed((buffer, allocationStream) => {
      buffer.close()
      allocationStream.close()
    }))

  test('M9 closed while its allocation stream captures: it is freed when the capture is over, and is no part of the graph', () =>
    usedWhenClosed((buffer, allocationStream) => {
      const graph = allocationStream.capture(() => buffer.close())
      assert.equal(graph.nodeCount, 0)
    }))

  test('M9 closed after its allocation stream, which was closed while it captured', () =>
    usedWhenClosed((buffer, allocationStream) => {
      allocationStream.beginCapture()
      allocationStream.close()
      buffer.close()
    }))

  test('M9 closed while its allocation stream captures, which is then closed', async () => {
    await usedWhenClosed((buffer, allocationStream) => {
      allocationStream.beginCapture()
      buffer.close()
      allocationStream.close()
    })
    await device.finished()
  })

  test('M9 closed after its allocation stream, which was closed while it was part of another capture', async () => {
    await usedWhenClosed((buffer, allocationStream) => {
      using origin = bench.stream()
      const graph = origin.capture(() => {
        allocationStream.wait(origin)
        allocationStream.close()
        buffer.close()
      })
      assert.equal(graph.nodeCount, 0)
    })
    await device.finished()
  })

  test('M9 closed while its allocation stream is part of another capture, in which that is closed', async () => {
    await usedWhenClosed((buffer, allocationStream) => {
      using origin = bench.stream()
      const graph = origin.capture(() => {
        allocationStream.wait(origin)
        buffer.close()
        allocationStream.close()
      })
      assert.equal(graph.nodeCount, 0)
    })
    await device.finished()
  })

  /** Twice as much memory as the device has goes through buffers that `close` closes, each time after another's work was waited for. */
  const allAreFreed = async (
    allocationStream: () => Stream,
    close: (buffers: readonly DeviceBuffer[], allocationStream: Stream) => void,
  ) => {
    const byteLength = Math.floor(device.memory.total / 500)
    for (let round = 0; round < 10; round += 1) {
      const stream = allocationStream()
      const buffers = Array.from({ length: 100 }, () => device.alloc(byteLength, { stream }))
      close(buffers, stream)
      await device.finished()
    }
  }
  const closeAll = (buffers: readonly DeviceBuffer[]): void => {
    for (const buffer of buffers) buffer.close()
  }
  const newStream = (): Stream => bench.stream()

  test('M9 a thousand buffers of closed streams are freed', () =>
    allAreFreed(newStream, (buffers, allocationStream) => {
      allocationStream.close()
      closeAll(buffers)
    }))

  test('M9 a thousand buffers of streams that were closed while they captured are freed', () =>
    allAreFreed(newStream, (buffers, allocationStream) => {
      allocationStream.beginCapture()
      closeAll(buffers.slice(50))
      allocationStream.close()
      closeAll(buffers)
    }))

  test('M9 a thousand buffers of streams that were closed in the capture of another are freed', () =>
    allAreFreed(newStream, (buffers, allocationStream) => {
      using origin = bench.stream()
      origin.beginCapture()
      allocationStream.wait(origin)
      closeAll(buffers.slice(50))
      allocationStream.close()
      closeAll(buffers)
      origin.endCapture().close()
    }))

  test('M9 a thousand buffers of the null stream that were closed while a blocking stream captured are freed', () =>
    allAreFreed(
      () => device.defaultStream,
      (buffers) => {
        using blocking = bench.stream({ nonBlocking: false })
        blocking.beginCapture()
        closeAll(buffers)
        blocking.endCapture().close()
      },
    ))
})
