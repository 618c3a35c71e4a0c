/** M9: memory lives until the work is done that uses it on its home stream, also when that is closed or captures. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DeviceBuffer, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'

const LENGTH = 1 << 20

onEveryBackend('memory and its home', (bench) => {
  const { device } = bench

  /** Queues a fill and a copy to the host behind a latch; `close` then closes the buffer in its own way. */
  const usedWhenClosed = async (close: (buffer: DeviceBuffer, home: Stream) => void): Promise<void> => {
    const home = bench.stream()
    using reader = bench.stream()
    using result = device.allocPinned(LENGTH)
    const buffer = device.alloc(LENGTH, { stream: home })
    const latch = bench.latch(home)
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

  test('closed while its home works', () => usedWhenClosed((buffer) => buffer.close()))

  test('closed after its home', () =>
    usedWhenClosed((buffer, home) => {
      home.close()
      buffer.close()
    }))

  test('closed before its home', () =>
    usedWhenClosed((buffer, home) => {
      buffer.close()
      home.close()
    }))

  test('closed while its home captures: it is freed when the capture is over, and is no part of the graph', () =>
    usedWhenClosed((buffer, home) => {
      const graph = home.capture(() => buffer.close())
      assert.equal(graph.nodeCount, 0)
    }))

  test('closed after its home, which was closed while it captured', () =>
    usedWhenClosed((buffer, home) => {
      home.beginCapture()
      home.close()
      buffer.close()
    }))

  test('closed while its home captures, which is then closed', async () => {
    await usedWhenClosed((buffer, home) => {
      home.beginCapture()
      buffer.close()
      home.close()
    })
    await device.finished()
  })

  test('a thousand buffers of closed streams are freed', async () => {
    for (let round = 0; round < 10; round += 1) {
      const home = bench.stream()
      const buffers = Array.from({ length: 100 }, () => device.alloc(256 * 1024 * 1024, { stream: home }))
      home.close()
      for (const buffer of buffers) buffer.close()
      await device.finished()
    }
  })
})
