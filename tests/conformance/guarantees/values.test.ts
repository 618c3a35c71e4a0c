/** W1 to W3: a stream waits until a word in memory has a value, whoever writes it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PinnedBuffer } from 'cuda-streams'
import { onEveryBackend } from '../../helpers/suite.js'
import { turns } from '../expect.js'

onEveryBackend('values', (bench) => {
  const { device } = bench
  const cleared = (): PinnedBuffer => {
    const flags = device.allocPinned(64)
    flags.bytes.fill(0)
    return flags
  }

  test('W1 a stream that waits for a value runs after the work before its write by another stream', async () => {
    using flags = cleared()
    using writer = bench.stream()
    using waiter = bench.stream()
    using buffer = device.alloc(4, { stream: writer })
    await writer.finished()
    using latch = bench.latch(writer)
    writer.fill(buffer, 7).writeValue(flags, 1)
    const bytes = waiter.waitValue(flags, 1).download(buffer)
    await turns()
    assert.deepEqual([waiter.query(), flags.bytes[0]], [false, 0])
    latch.open()
    assert.deepEqual([...(await bytes)], [7, 7, 7, 7])
  })

  test('W1 JavaScript may write the value', async () => {
    using flags = cleared()
    using stream = bench.stream()
    const done = stream.waitValue(flags, 1).finished()
    await turns()
    assert.equal(stream.query(), false)
    flags.view(Uint32Array)[0] = 1
    await done
  })

  test('W2 without another comparison a higher value will do, and a lower one will not', async () => {
    using flags = cleared()
    using stream = bench.stream()
    const words = flags.view(Uint32Array)
    words[0] = 4
    stream.waitValue(flags, 5)
    await turns()
    assert.equal(stream.query(), false)
    words[0] = 6
    stream.synchronize()
  })

  test('W2 eq waits for that value alone', async () => {
    using flags = cleared()
    using stream = bench.stream()
    const words = flags.view(Uint32Array)
    words[0] = 6
    stream.waitValue(flags, 5, { compare: 'eq' })
    await turns()
    assert.equal(stream.query(), false)
    words[0] = 5
    stream.synchronize()
  })

  test('W3 captured, each launch waits, and each launch writes', async () => {
    using flags = cleared()
    using stream = bench.stream()
    const words = flags.view(Uint32Array)
    using exec = stream.capture(() => void stream.waitValue(flags, 1).writeValue(flags, 0)).instantiate()
    for (let launch = 0; launch < 2; launch += 1) {
      stream.launch(exec)
      await turns()
      assert.equal(stream.query(), false)
      words[0] = 1
      await stream.finished()
      assert.equal(words[0], 0)
    }
  })
})
