/**
 * M9, M17: a close makes no stream wait for another, whatever memory it is of, however it was used, and whoever closes it; and the
 * memory is there again when its uses are done. Streams are held by latches, so that nothing depends on a clock.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Device, type DeviceBuffer, ExternalStream, MemoryPool, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { collectUntil, secondDevice, turns, until } from './expect.js'

const LENGTH = 4096

/** A use of the buffer by a stream that is held, after the stream of its allocation was waited for. */
const USES: Readonly<Record<string, (user: Stream, buffer: DeviceBuffer, other: DeviceBuffer) => void>> = {
  fill: (user, buffer) => void user.fill(buffer, 3),
  'copy from': (user, buffer, other) => void user.copy(other, buffer),
  'copy to': (user, buffer, other) => void user.copy(buffer, other),
  'use of a slice': (user, buffer) => void user.fill(buffer.subarray(16, 32), 3),
  download: (user, buffer) => void user.download(buffer),
  upload: (user, buffer) => void user.upload(buffer, new Uint8Array(LENGTH)),
  'declared work': (user, buffer) =>
    user.external({ name: 'theirs', memory: [{ buffer }], simulate: () => {} }, () => {}),
  'launch of a graph': (user, buffer, other) => {
    using graph = user.capture(() => void user.copy(other, buffer))
    using exec = graph.instantiate()
    user.launch(exec)
  },
}

interface Scene {
  readonly device: Device
  readonly pool: MemoryPool
  /** A stream that stays open. All streams are made before one is held: to make one may wait for the device. */
  readonly stream: Stream
  readonly blocking: Stream
  /** A stream to close, and the handle of another library's. */
  readonly own: Stream
  readonly theirs: bigint
  /** Uses the buffer, by a stream that is held. */
  use(buffer: DeviceBuffer): void
}

/** Kinds of memory, and ways in which it is closed. */
const CLOSES: Readonly<Record<string, (scene: Scene) => void | Promise<void>>> = {
  'by close()': ({ device, pool, stream, use }) => {
    const buffer = device.alloc(LENGTH, { stream, pool })
    use(buffer)
    buffer.close()
  },
  'after a slice of it': ({ device, pool, stream, use }) => {
    const buffer = device.alloc(LENGTH, { stream, pool })
    const slice = buffer.subarray(0, 8)
    use(buffer)
    slice.close()
    buffer.close()
  },
  'of the null stream': ({ device, pool, use }) => {
    const buffer = device.alloc(LENGTH, { stream: device.defaultStream, pool })
    use(buffer)
    buffer.close()
  },
  'of a blocking stream': ({ device, pool, blocking, use }) => {
    const buffer = device.alloc(LENGTH, { stream: blocking, pool })
    use(buffer)
    buffer.close()
  },
  'with its stream closed before': ({ device, pool, own, use }) => {
    const buffer = device.alloc(LENGTH, { stream: own, pool })
    use(buffer)
    own.close()
    buffer.close()
  },
  'with its stream closed after': ({ device, pool, own, use }) => {
    const buffer = device.alloc(LENGTH, { stream: own, pool })
    use(buffer)
    buffer.close()
    own.close()
  },
  "of another library's stream": ({ device, pool, theirs, use }) => {
    using wrapper = new ExternalStream(theirs, { device })
    const buffer = device.alloc(LENGTH, { stream: wrapper, pool })
    use(buffer)
    buffer.close()
  },
  'while its stream captures': ({ device, pool, stream, use }) => {
    const buffer = device.alloc(LENGTH, { stream, pool })
    use(buffer)
    stream.capture(() => buffer.close()).close()
  },
  'when a graph retains it': ({ device, pool, stream, use }) => {
    const buffer = device.alloc(LENGTH, { stream, pool })
    use(buffer)
    const graph = stream.capture(() => void stream.fill(buffer, 1))
    const exec = graph.instantiate()
    buffer.close()
    graph.close()
    exec.close()
  },
  'with its pool closed before': ({ device, stream, use }) => {
    const own = new MemoryPool({ device })
    const buffer = device.alloc(LENGTH, { stream, pool: own })
    use(buffer)
    own.close()
    buffer.close()
  },
  'by the garbage collector': async ({ device, pool, stream, use }) => {
    const drop = (): WeakRef<object> => {
      const buffer = device.alloc(LENGTH, { stream, pool })
      use(buffer)
      return new WeakRef(buffer)
    }
    const dropped = drop()
    assert.ok(await collectUntil(() => dropped.deref() === undefined))
  },
}

onEveryBackend('a close', (bench) => {
  const { device } = bench
  interface Streams {
    readonly stream: Stream
    readonly blocking: Stream
    readonly between: Stream
    readonly held: Stream
    readonly theirs: bigint
    readonly words: DeviceBuffer
  }
  let made: Streams | undefined

  /**
   * The streams of all tests here. Streams share hardware queues, and what stands in one holds up the others there: so one to hold is
   * chosen that lets the rest go on.
   */
  const streams = async (): Promise<Streams> => {
    if (made !== undefined) return made
    const [stream, blocking, between] = [{}, { nonBlocking: false }, {}].map((each) => bench.stream(each))
    assert.ok(stream && blocking && between)
    const words = device.alloc(4 * 4, { stream })
    stream.synchronize()
    const all = [device.defaultStream, stream, blocking, between]
    const goOn = async (): Promise<boolean> => {
      for (const [index, each] of all.entries()) each.fill(words.subarray(4 * index, 4 * index + 4), 1)
      for (let rounds = 0; rounds < 100 && !all.every((each) => each.query()); rounds += 1) await turns()
      return all.every((each) => each.query())
    }
    for (let tries = 0; tries < 40; tries += 1) {
      const held = bench.stream()
      const latch = bench.latch(held)
      // If the machine is busy, the next one is taken for no reason.
      const isApart = await goOn()
      latch.open()
      device.synchronize()
      if (!isApart) continue
      made = { stream, blocking, between, held, theirs: bench.foreignStream(device), words }
      return made
    }
    return assert.fail('each stream is held up by any other')
  }

  /** Work that is queued on the stream now is done, though another stream is held: otherwise this never ends. */
  const goesOn = (stream: Stream, word: DeviceBuffer): Promise<void> => stream.fill(word, 1).finished()

  const plays = (
    title: string,
    user: () => Promise<Stream | undefined>,
    uses: readonly string[],
    closes: readonly string[],
  ) => {
    for (const close of closes)
      for (const use of uses) {
        test(`M17 ${close} holds nobody, and its memory comes back: ${title}, ${use}`, async (context) => {
          const held = await user()
          if (held === undefined) {
            context.skip('this machine has only one device')
            return
          }
          const { stream, blocking, theirs, words } = await streams()
          using own = bench.stream()
          using pool = new MemoryPool({ device })
          using other = device.alloc(LENGTH, { stream })
          stream.synchronize()
          {
            using _held = bench.latch(held)
            await CLOSES[close]?.({
              device,
              pool,
              stream,
              blocking,
              own,
              theirs,
              use: (buffer) => USES[use]?.(held, buffer, other),
            })
            const all = [stream, device.defaultStream, blocking] as const
            for (const [index, each] of all.entries()) await goesOn(each, words.subarray(4 * index, 4 * index + 4))
            assert.equal(held.query(), false, 'the use is not over')
          }
          await held.finished()
          await until(() => pool.used === 0)
        })
      }
  }

  const [first = '', ...otherUses] = Object.keys(USES)
  plays('another stream', async () => (await streams()).held, [first], Object.keys(CLOSES))
  plays('another stream', async () => (await streams()).held, otherUses, ['by close()', 'of the null stream'])
  // A download that is under way keeps its buffer reachable.
  const collectable = otherUses.filter((use) => use !== 'download')
  plays('another stream', async () => (await streams()).held, collectable, ['by the garbage collector'])
  const second = secondDevice(bench)
  plays(
    'a stream of another device',
    async () => second && new Stream({ device: second }),
    ['copy from'],
    ['by close()', 'of the null stream', 'with its stream closed before'],
  )

  test('M17 a close of memory whose uses are done is work of its stream, which waits for what the stream waits for', async () => {
    const { stream, blocking, held } = await streams()
    using other = device.alloc(LENGTH, { stream })
    for (const user of [stream, blocking]) {
      const buffer = device.alloc(LENGTH, { stream: blocking })
      user.wait(blocking).copy(other, buffer)
      device.synchronize()
      using latch = bench.latch(held)
      // A wait of the null stream holds up the work of blocking streams, and not their queries.
      device.defaultStream.wait(held)
      assert.equal(blocking.query(), true)
      buffer.close()
      assert.equal(blocking.query(), false)
      assert.equal(stream.query(), true)
      latch.open()
      await blocking.finished()
      assert.equal(blocking.query(), true)
    }
  })

  test('M17 what has used memory has used it when a close whose uses are done frees it', async () => {
    const { stream, between } = await streams()
    using pool = new MemoryPool({ device })
    using copy = device.alloc(LENGTH, { stream: between })
    for (let round = 1; round <= 10; round += 1) {
      const buffer = device.alloc(LENGTH, { stream, pool })
      stream.fill(buffer, round)
      between.wait(stream).copy(copy, buffer)
      // Calls take time, and none of them asks whether the copy is done.
      for (let nth = 0; nth < 100 * round; nth += 1) stream.record()
      buffer.close()
      device.alloc(LENGTH, { stream, pool }).close()
      const bytes = await between.download(copy)
      assert.ok(bytes.every((byte) => byte === round))
    }
  })

  test('M17 a program that lets the other stream go on after the close ends', async () => {
    const { stream: a, held: b } = await streams()
    using flags = device.alloc(4, { interprocess: true })
    const x = device.alloc(LENGTH, { stream: a })
    using y = device.alloc(LENGTH, { stream: b })
    a.fill(flags, 0).fill(x, 1)
    b.wait(a).waitValue(flags, 1)
    b.copy(y, x)
    x.close()
    a.writeValue(flags, 1)
    await Promise.all([a.finished(), b.finished()])
  })

  test('M17 memory of which the allocation stream has waited for the uses is there again at once', async () => {
    const { device } = bench
    using a = bench.stream()
    using b = bench.stream()
    using pool = new MemoryPool({ device })
    using between = bench.stream()
    using y = device.alloc(LENGTH, { stream: b })
    a.wait(b)
    const ways: readonly (() => void)[] = [
      () => void a.wait(b),
      () => void a.wait(b.record()),
      () => void a.wait(between.wait(b)),
      () => void a.wait(between.wait(b).record()),
    ]
    // None of it is done before the end: only order says that the memory may be used again.
    using latch = bench.latch(b)
    for (const way of ways) {
      for (let round = 0; round < 5; round += 1) {
        const x = device.alloc(LENGTH, { stream: a, pool })
        a.fill(x, round)
        b.wait(a).copy(y, x)
        way()
        x.close()
        assert.equal(pool.used, 0)
      }
    }
    assert.equal(pool.peakUsed, LENGTH)
    latch.open()
    await b.finished()
  })

  test('M17 a wait before the use, and one in a capture, are no order for the free', async () => {
    const { stream: a, held: b, between: c } = await streams()
    using pool = new MemoryPool({ device })
    const early = device.alloc(LENGTH, { stream: a, pool })
    const captured = device.alloc(LENGTH, { stream: a, pool })
    const before = b.fill(early, 1).record()
    using latch = bench.latch(b)
    b.fill(early, 2)
    a.wait(before)
    early.close()
    b.fill(captured, 2)
    c.beginCapture()
    a.wait(c)
    b.wait(c)
    a.wait(b)
    c.wait(a)
    c.endCapture().close()
    captured.close()
    assert.equal(pool.used, 2 * LENGTH)
    latch.open()
    await b.finished()
    await until(() => pool.used === 0)
  })

  test('M17 what is closed while its uses are under way is no reason to be out of memory', async () => {
    const piece = 2 ** 25
    const { stream: a, held: b } = await streams()
    using pool = new MemoryPool({ device, maxBytes: 2 * piece })
    {
      using _held = bench.latch(b)
      for (let round = 0; round < 6; round += 1) {
        const x = device.alloc(piece, { stream: a, pool })
        b.fill(x, round)
        x.close()
      }
      assert.ok(pool.reserved <= 2 * piece)
    }
    await Promise.all([a.finished(), b.finished()])
    await until(() => pool.used === 0)
  })

  test('M17 uses by more streams than have an event each', async () => {
    const { stream: a, held, words } = await streams()
    using pool = new MemoryPool({ device })
    const x = device.alloc(LENGTH, { stream: a, pool })
    const users = Array.from({ length: 40 }, () => bench.stream())
    {
      using _held = bench.latch(held)
      held.fill(x, 1)
      for (const [count, user] of users.entries()) user.fill(x, count)
      x.close()
      assert.equal(pool.used, LENGTH)
      await goesOn(a, words.subarray(0, 4))
    }
    await held.finished()
    await until(() => pool.used === 0)
    for (const user of users) user.close()
  })
})
