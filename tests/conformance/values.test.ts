/** W1 to W5: words in memory by which streams, JavaScript and threads signal each other. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { DeviceBuffer, PinnedBuffer, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { follow, refused, refusedByDriver, stillWorks, turns } from './expect.js'

onEveryBackend('values that streams wait for', (bench) => {
  const { device } = bench
  /** A stream that goes on while others stand: it shares no hardware queue with them. */
  const freeStream = async (): Promise<Stream> => {
    for (let tried = 0; tried < 8; tried += 1) {
      const stream = bench.stream()
      bench.busy(stream, 100)
      const begun = performance.now()
      while (performance.now() - begun < 200 && !stream.query()) await turns(5)
      if (stream.query()) return stream
    }
    return assert.fail('no stream goes on')
  }
  const cleared = (buffer: PinnedBuffer): PinnedBuffer => {
    buffer.bytes.fill(0)
    return buffer
  }

  /** How a stream comes to stand at a value. */
  const STANDS: Readonly<Record<string, (stream: Stream, flags: PinnedBuffer) => void>> = {
    'a wait': (stream, flags) => void stream.waitValue(flags, 1),
    'a launch that waits': (stream, flags) => {
      const graph = stream.capture(() => stream.waitValue(flags, 1))
      stream.launch(graph.instantiate())
    },
    'a launch of a graph with one within it that waits': (stream, flags) => {
      const graph = stream.capture(() => stream.waitValue(flags, 1))
      stream.launch(stream.capture(() => stream.launch(graph)).instantiate())
    },
    'a launch of an instance that waits since it was updated': (stream, flags) => {
      const exec = stream.capture(() => stream.writeValue(flags, 0)).instantiate()
      const graph = stream.capture(() => stream.waitValue(flags, 1))
      try {
        exec.update(graph)
        stream.launch(exec)
      } catch {
        // CUDA takes a write for a wait or refuses it: then the graph itself is launched.
        stream.launch(graph.instantiate())
      }
    },
  }
  for (const [how, stand] of Object.entries(STANDS)) {
    test(`W5 registered memory that is closed while a stream stands at a value is unlocked later, and so with all that waits for the device: nothing blocks: ${how}`, async () => {
      using stream = bench.stream()
      const flags = device.allocPinned(64)
      flags.bytes.fill(0)
      // What a page can register, too.
      const array = new Uint8Array(new SharedArrayBuffer(64))
      const parts = device.split({ multiprocessors: [16] })
      new Stream({ context: parts[0] }).close()
      bench.busy(stream, 5_000_000)
      PinnedBuffer.from(array, { device }).close()
      stand(stream, flags)
      await sleep(50)
      // So are the calls that make streams, for which CUDA may wait, and those that give code and memory back.
      const streams = Array.from({ length: 12 }, () => device.createStream())
      for (const each of streams) each.close()
      const [part, rest] = parts
      assert.ok(part !== undefined && rest !== undefined)
      for (let nth = 0; nth < 3; nth += 1) new Stream({ context: part }).close()
      device.allocPinned(257 * 1024 * 1024).close()
      await sleep(20)
      flags.bytes[0] = 1
      await stream.finished()
      flags.close()
      for (const each of parts) each.close()
    })
  }

  test('W1 work behind the wait comes after the write of another stream, and all before that', async () => {
    using waiter = bench.stream()
    using flags = cleared(device.allocPinned(64))
    using pinned = device.allocPinned(16)
    assert.equal(waiter.waitValue(flags, 1), waiter)
    using writer = await freeStream()
    using buffer = device.alloc(16, { stream: writer })
    waiter.copy(pinned, buffer)
    const done = waiter.finished()
    const state = follow(done)
    await turns(30)
    assert.equal(state.settled, false)
    assert.equal(writer.fill(buffer, 6).writeValue(flags, 1), writer)
    await done
    assert.deepEqual(pinned.bytes, new Uint8Array(16).fill(6))
    assert.equal(flags.view(Uint32Array)[0], 1)
    await writer.finished()
  })

  test('W1 JavaScript writes the value through a view', async () => {
    using stream = bench.stream()
    using flags = cleared(device.allocPinned(64))
    using pinned = device.allocPinned(4)
    stream.waitValue(flags, 3, { byteOffset: 8, compare: 'eq' }).fill(pinned, 9)
    const done = stream.finished()
    const state = follow(done)
    const words = flags.view(Uint32Array)
    words[0] = 3
    await sleep(20)
    assert.equal(state.settled, false)
    words[2] = 3
    await done
    assert.equal(pinned.bytes[0], 9)
  })

  test('W1 interprocess memory of the device, both ways, in the order of one stream too', async () => {
    using stream = bench.stream()
    using memory = device.alloc(64, { interprocess: true })
    stream
      .fill(memory, 0)
      .writeValue(memory, 7, { byteOffset: 4 })
      .waitValue(memory, 7, { byteOffset: 4, compare: 'eq' })
    await stream.finished()
    stream.waitValue(memory, 2n ** 40n, { byteOffset: 8 })
    using other = await freeStream()
    other.writeValue(memory, 2n ** 40n + 5n, { byteOffset: 8 })
    const words = new BigUint64Array((await stream.download(memory)).buffer)
    assert.equal(words[0], 7n << 32n)
    assert.equal(words[1], 2n ** 40n + 5n)
    await other.finished()
  })

  const comparisons: readonly (readonly [
    compare: 'geq' | 'eq' | 'and' | 'nor',
    value: number | bigint,
    held: number | bigint,
    meets: boolean,
  ])[] = [
    ['geq', 5, 5, true],
    ['geq', 5, 4, false],
    ['geq', 5, 0x80000004, true],
    ['geq', 0xfffffffe, 1, true],
    ['geq', 1, -1, false],
    ['eq', -1, 0xffffffff, true],
    ['eq', 5, 6, false],
    ['and', 6, 2, true],
    ['and', 6, 9, false],
    ['nor', 0xfffffffe, 2, true],
    ['nor', 0xfffffffe, 1, false],
    ['geq', 2n ** 63n, 2n ** 63n + 1n, true],
    ['geq', 1n, 2n ** 63n + 1n, false],
    ['geq', -1n, 0n, true],
    ['eq', 2n ** 40n, 2n ** 40n + 2n ** 33n, false],
    ['and', 2n ** 40n, 2n ** 41n + 2n ** 40n, true],
    ['nor', ~1n, 0n, true],
    ['nor', ~1n, 1n, false],
  ]
  test('W2 what a comparison means, of 32 bits and of 64', async () => {
    for (const [compare, value, held, meets] of comparisons) {
      using waiter = bench.stream()
      using flags = cleared(device.allocPinned(64))
      waiter.writeValue(flags, held)
      waiter.synchronize()
      waiter.waitValue(flags, value, { compare })
      const state = follow(waiter.finished())
      await (meets ? waiter.finished() : sleep(5))
      const what = `${held} ${compare} ${value}`
      assert.equal(state.settled || waiter.query(), meets, what)
      if (meets) continue
      using writer = await freeStream()
      writer.writeValue(flags, compare === 'nor' ? (typeof value === 'bigint' ? 0n : 0) : value)
      await waiter.finished()
      await writer.finished()
    }
  })

  test('W3 captured, each launch waits and writes', async () => {
    using stream = bench.stream()
    using flags = cleared(device.allocPinned(64))
    using graph = stream.capture(() => stream.waitValue(flags, 1, { compare: 'eq' }).writeValue(flags, 2))
    assert.equal(graph.nodeCount, 2)
    using exec = graph.instantiate()
    for (let launch = 0; launch < 3; launch += 1) {
      exec.launch(stream)
      using other = await freeStream()
      await other.writeValue(flags, 1).finished()
      await stream.finished()
      assert.equal(flags.view(Uint32Array)[0], 2)
    }
  })

  test('W4 memory of a pool, places that are not aligned or not there, and values that do not fit are refused', () => {
    using stream = bench.stream()
    using flags = cleared(device.allocPinned(64))
    using pooled = device.alloc(64, { stream })
    using foreign = DeviceBuffer.from(pooled.pointer, 64, { device })
    for (const call of ['waitValue', 'writeValue'] as const) {
      refused(() => stream[call](pooled, 1), 'ERR_UNSUPPORTED', /pool/, /allocPinned/, /interprocess/)
      refusedByDriver(() => stream[call](foreign, 1), 1)
      refused(() => stream[call](flags, 1, { byteOffset: 2 }), 'ERR_INVALID_ARG_VALUE', /multiple/)
      refused(() => stream[call](flags, 1n, { byteOffset: 4 }), 'ERR_INVALID_ARG_VALUE', /multiple/)
      refused(() => stream[call](flags, 1, { byteOffset: 64 }), 'ERR_OUT_OF_RANGE', /60/)
      refused(() => stream[call](flags, 1n, { byteOffset: 60 }), 'ERR_OUT_OF_RANGE', /56/)
      refused(
        () => stream[call](flags.subarray(0, 4), 1n),
        'ERR_OUT_OF_RANGE',
        /buffer must be at least 8 bytes.*not 4/,
      )
      refused(() => stream[call](flags.subarray(0, 0), 1), 'ERR_OUT_OF_RANGE', /at least 4 bytes/)
      refused(() => stream[call](flags, 2 ** 32), 'ERR_OUT_OF_RANGE', /bigint/)
      refused(() => stream[call](flags, 0.5), 'ERR_INVALID_ARG_TYPE')
      refused(() => stream[call](flags, 2n ** 64n), 'ERR_OUT_OF_RANGE')
      refused(() => stream[call](flags, '1' as never), 'ERR_INVALID_ARG_TYPE')
      refused(() => stream[call](flags.bytes as never, 1), 'ERR_INVALID_ARG_TYPE')
    }
    refused(() => stream.waitValue(flags, 1, { compare: 'gt' as never }), 'ERR_INVALID_ARG_VALUE', /geq/)
    refused(() => stream.waitValue(flags, 1, { compare: 1 as never }), 'ERR_INVALID_ARG_TYPE')
    refused(() => stream.writeValue(flags, 1, { compare: 'eq' } as never), 'ERR_INVALID_ARG_VALUE')
    const closed = device.allocPinned(64)
    closed.close()
    refused(() => stream.waitValue(closed, 0), 'ERR_CLOSED')
    stillWorks(bench, stream)
  })

  test('W4 memory that a standing wait uses is kept: it may be closed', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    const flags = cleared(device.allocPinned(64))
    other.writeValue(flags, 1)
    stream.waitValue(flags, 1)
    flags.close()
    await stream.finished()
    await other.finished()
  })

  test('V5 a blocking wait for a value that nothing writes is ERR_DEADLOCK on the simulator, and says which', async (t) => {
    if (bench.name !== 'sim') return t.skip('on a GPU another process may write it')
    using stream = bench.stream()
    using other = bench.stream()
    using flags = cleared(device.allocPinned(64))
    stream.waitValue(flags, 1)
    refused(() => stream.synchronize(), 'ERR_DEADLOCK', /a wait for a value on the stream/, /values\.test\.js:\d+/)
    // A host function may write it, and so may another stream.
    other.launchHostFunc(() => {
      flags.view(Uint32Array)[0] = 1
    })
    stream.synchronize()
    stream.waitValue(flags, 2)
    other.writeValue(flags, 2)
    stream.synchronize()
  })
})
