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
  const usedWhenClosed = async (close: (buffer: DeviceBuffer, home: Stream) => void): Promise<void> => {
    const home = bench.stream()
    using reader = bench.stream()
    using result = device.allocPinned(LENGTH)
    const buffer = device.alloc(LENGTH, { stream: home })
    using latch = bench.latch(home)
    home.fill(buffer, 7)
    home.copy(result, buffer)
    const done = home.record()
    close(buffer, home)
    // Whoever gets the memory next must not do so before the work above is done.
    using next = device.alloc(LENGTH, { stream: reader })
    reader.fill(next, 9)
    latch.open()
    await done.finished()
    await reader.finished()
    assert.ok(result.bytes.every((byte) => byte === 7))
    home.close()
  }

  test('M9 closed while its allocation stream works', () => usedWhenClosed((buffer) => buffer.close()))

  test('M9 closed after its allocation stream', () =>
    usedWhenClosed((buffer, home) => {
      home.close()
      buffer.close()
    }))

  test('M9 its allocation stream is dropped, and collected while the memory is still used', async () => {
    const dropped = () => {
      const home = bench.stream()
      const buffer = device.alloc(LENGTH, { stream: home })
      home.fill(buffer, 7)
      return { buffer, filled: home.record(), stream: new WeakRef(home) }
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
    usedWhenClosed((buffer, home) => {
      buffer.close()
      home.close()
    }))

  test('M9 closed while its allocation stream captures: it is freed when the capture is over, and is no part of the graph', () =>
    usedWhenClosed((buffer, home) => {
      const graph = home.capture(() => buffer.close())
      assert.equal(graph.nodeCount, 0)
    }))

  test('M9 closed after its allocation stream, which was closed while it captured', () =>
    usedWhenClosed((buffer, home) => {
      home.beginCapture()
      home.close()
      buffer.close()
    }))

  test('M9 closed while its allocation stream captures, which is then closed', async () => {
    await usedWhenClosed((buffer, home) => {
      home.beginCapture()
      buffer.close()
      home.close()
    })
    await device.finished()
  })

  test('M9 closed after its allocation stream, which was closed while it was part of another capture', async () => {
    await usedWhenClosed((buffer, home) => {
      using origin = bench.stream()
      const graph = origin.capture(() => {
        home.wait(origin)
        home.close()
        buffer.close()
      })
      assert.equal(graph.nodeCount, 0)
    })
    await device.finished()
  })

  test('M9 closed while its allocation stream is part of another capture, in which that is closed', async () => {
    await usedWhenClosed((buffer, home) => {
      using origin = bench.stream()
      const graph = origin.capture(() => {
        home.wait(origin)
        buffer.close()
        home.close()
      })
      assert.equal(graph.nodeCount, 0)
    })
    await device.finished()
  })

  /** Twice as much memory as the device has goes through buffers that `close` closes, each time after another's work was waited for. */
  const allAreFreed = async (home: () => Stream, close: (buffers: readonly DeviceBuffer[], home: Stream) => void) => {
    const byteLength = Math.floor(device.memory.total / 500)
    for (let round = 0; round < 10; round += 1) {
      const stream = home()
      const buffers = Array.from({ length: 100 }, () => device.alloc(byteLength, { stream }))
      close(buffers, stream)
      await device.finished()
    }
  }
  const closeAll = (buffers: readonly DeviceBuffer[]): void => {
    for (const buffer of buffers) buffer.close()
  }
  const newHome = (): Stream => bench.stream()

  test('M9 a thousand buffers of closed streams are freed', () =>
    allAreFreed(newHome, (buffers, home) => {
      home.close()
      closeAll(buffers)
    }))

  test('M9 a thousand buffers of streams that were closed while they captured are freed', () =>
    allAreFreed(newHome, (buffers, home) => {
      home.beginCapture()
      closeAll(buffers.slice(50))
      home.close()
      closeAll(buffers)
    }))

  test('M9 a thousand buffers of streams that were closed in the capture of another are freed', () =>
    allAreFreed(newHome, (buffers, home) => {
      using origin = bench.stream()
      origin.beginCapture()
      home.wait(origin)
      closeAll(buffers.slice(50))
      home.close()
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
