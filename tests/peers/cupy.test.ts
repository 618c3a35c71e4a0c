/** What CuPy’s tests ask of its streams, asked of ours. */
import assert from 'node:assert/strict'
import { AsyncResource } from 'node:async_hooks'
import { once } from 'node:events'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { Device, ExternalStream, Stream } from 'cuda-streams'
import { collectUntil, ONE_DEVICE, secondDevice, stillWorks } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'

const CALLBACKS = 100

/** Streams made current inside stay current no longer than this. */
function inOwnContext<R>(act: () => R): R {
  return new AsyncResource('Peer').runInAsyncScope(act)
}

onEveryBackend('CuPy streams', (bench) => {
  const { device } = bench

  for (const name of ['defaultStream', 'perThread'] as const) {
    const kept = (): Stream => (name === 'perThread' ? device.run(() => Stream.perThread) : device.defaultStream)

    test(`${name} equals every other spelling of itself, and nothing else`, () => {
      const handles: readonly bigint[] = name === 'perThread' ? [2n] : [0n, 1n]
      const others: readonly bigint[] = name === 'perThread' ? [0n, 1n] : [2n]
      using stream = bench.stream()
      for (const handle of handles) {
        using wrapped = new ExternalStream(handle, { device })
        assert.ok(wrapped.equals(kept()) && kept().equals(wrapped))
        assert.equal(Stream.compare(wrapped, kept()), 0)
      }
      for (const handle of others) {
        using wrapped = new ExternalStream(handle, { device })
        assert.ok(!wrapped.equals(kept()) && !kept().equals(wrapped))
      }
      assert.ok(!stream.equals(kept()))
    })

    test(`${name} comes back after nested blocks, and after use()`, () => {
      inOwnContext(() => {
        using first = bench.stream()
        using second = bench.stream()
        kept().use()
        {
          using _outer = first.enter()
          assert.equal(Stream.current(device), first)
          {
            using _inner = second.enter()
            assert.equal(Stream.current(device), second)
          }
          assert.equal(Stream.current(device), first)
        }
        assert.equal(Stream.current(device), kept())
        first.use()
        assert.equal(Stream.current(device), first)
        assert.equal(kept().use(), kept())
        assert.equal(Stream.current(device), kept())
      })
    })

    test(`${name} runs ${CALLBACKS} host functions in order, each with its own argument and its own copy`, async () => {
      const stream = kept()
      using source = device.alloc(4, { stream })
      const seen: number[][] = []
      for (let index = 0; index < CALLBACKS; index += 1) {
        const copy = device.allocPinned(4)
        stream.fill(source, index, { width: 4 }).copy(copy, source)
        stream.launchHostFunc(
          ([number, pinned]) => {
            seen.push([number, pinned.view(Uint32Array)[0] ?? -1])
            pinned.close()
          },
          [index, copy] as const,
        )
      }
      stream.synchronize()
      assert.deepEqual(
        seen,
        Array.from({ length: CALLBACKS }, (_, index) => [index, index]),
      )
    })
  }

  test('a stream is a key by its id, which wrappers of it share', () => {
    using first = bench.stream()
    using second = bench.stream()
    using again = Stream.from(first.handle, { device })
    const byId = new Map([first, second, again].map((stream) => [stream.id, stream]))
    assert.equal(byId.size, 2)
    assert.equal(byId.get(first.id), again)
    assert.notEqual(
      device.defaultStream.id,
      device.run(() => Stream.perThread.id),
    )
  })

  test('a stream that only the current context knows is not collected', async () => {
    await new AsyncResource('Peer').runInAsyncScope(async () => {
      const handle = (() => bench.stream().use().handle)()
      assert.equal(await collectUntil(() => Stream.current(device).handle !== handle), false)
      stillWorks(bench, Stream.current(device))
      Stream.current(device).close()
    })
  })

  test('a stream that is collected with work in its queue lets the work complete', async () => {
    using result = device.allocPinned(64)
    using blocker = bench.stream()
    using latch = bench.latch(blocker)
    const gone = new Set<number>()
    const registry = new FinalizationRegistry((index: number) => gone.add(index))
    result.bytes.fill(0)
    for (let index = 0; index < 16; index += 1) {
      const stream = bench.stream()
      registry.register(stream, index)
      stream.wait(blocker)
      stream.fill(result.subarray(4 * index, 4 * (index + 1)), index + 1, { width: 4 })
    }
    assert.ok(await collectUntil(() => gone.size >= 15))
    latch.open()
    await device.finished()
    assert.deepEqual(
      [...result.view(Uint32Array)],
      Array.from({ length: 16 }, (_, index) => index + 1),
    )
  })

  for (const kind of ['own', 'external'] as const) {
    test(`${CALLBACKS} callbacks of an ${kind} stream get it, status 0 and their argument, in order`, async () => {
      const handle = bench.foreignStream(device)
      const stream = kind === 'own' ? bench.stream() : new ExternalStream(handle, { device })
      const seen: [number, number][] = []
      const streams = new Set<Stream>()
      for (let index = 0; index < CALLBACKS; index += 1) {
        bench.busy(stream, 100)
        stream.addCallback((on, status, arg) => {
          streams.add(on)
          seen.push([status, arg])
        }, index)
      }
      stream.synchronize()
      assert.deepEqual(
        seen,
        Array.from({ length: CALLBACKS }, (_, index) => [0, index]),
      )
      assert.deepEqual([...streams], [stream])
      stream.close()
      bench.destroyForeignStream(handle)
    })
  }

  test('a block ends with what was current before it, whatever use() did inside', () => {
    inOwnContext(() => {
      using first = bench.stream()
      using second = bench.stream()
      using third = bench.stream()
      const before = Stream.current(device)
      {
        using _outer = first.enter()
        second.use()
        assert.equal(Stream.current(device), second)
        {
          using _inner = third.enter()
          assert.equal(Stream.current(device), third)
        }
        assert.equal(Stream.current(device), second)
      }
      assert.equal(Stream.current(device), before)
    })
  })

  test('a block of an async function ends for its caller too, also where several overlap', async () => {
    await new AsyncResource('Peer').runInAsyncScope(async () => {
      const before = Stream.current(device)
      const inBlock = async (turns: number): Promise<void> => {
        using stream = bench.stream()
        using _scope = stream.enter()
        for (let left = turns; left > 0; left -= 1) {
          await new Promise(setImmediate)
          assert.equal(Stream.current(device), stream)
        }
      }
      await inBlock(1)
      assert.equal(Stream.current(device), before)
      await Promise.all([inBlock(3), inBlock(1), inBlock(2)])
      assert.equal(Stream.current(device), before)
      const failing = async (): Promise<void> => {
        using _scope = bench.stream().enter()
        await null
        throw new Error('mine')
      }
      await assert.rejects(failing)
      assert.equal(Stream.current(device), before)
    })
  })

  test('a block that throws ends all the same', () => {
    using stream = bench.stream()
    const before = Stream.current(device)
    const mine = new Error('mine')
    const inBlock = (): void => {
      using _scope = stream.enter()
      throw mine
    }
    const inRun = (): void => stream.run(() => stream.run(() => assert.fail(mine)))
    for (const act of [inBlock, inRun]) {
      assert.throws(act, (error) => error === mine)
      assert.equal(Stream.current(device), before)
    }
  })

  test('each device has its own current stream', (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    using stream = bench.stream()
    device.run(() => {
      using _scope = stream.enter()
      assert.equal(Stream.current(), stream)
      other.run(() => {
        assert.equal(Stream.current(), other.defaultStream)
        assert.ok(!Stream.current().equals(stream))
        assert.equal(Stream.current(device), stream)
        assert.equal(Stream.current(device.ordinal), stream)
      })
      assert.equal(Stream.current(), stream)
    })
  })

  test('a stream of another device may be made current, and the current device stays', (context) => {
    const other = secondDevice(bench)
    if (other === undefined) return context.skip(ONE_DEVICE)
    using stream = bench.stream()
    other.run(() => {
      using _scope = stream.enter()
      assert.equal(Device.current(), other)
      assert.equal(Stream.current(), other.defaultStream)
      assert.equal(Stream.current(device), stream)
    })
  })

  test('what two threads make current, and let be collected, is their own', async () => {
    const env = { ...process.env, CUDA_STREAMS_DRIVER: bench.name }
    using mine = bench.stream()
    await mine.run(async () => {
      const workers = [1, 2].map(() => new Worker(new URL('./children/current.js', import.meta.url), { env }))
      const answers = await Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0]))
      for (const answer of answers) assert.deepEqual(answer, { kept: true, works: true, back: true })
      assert.equal(Stream.current(device), mine)
    })
    stillWorks(bench, mine)
  })

  test('flags are those asked for', () => {
    using plain = bench.stream({ nonBlocking: false })
    using free = bench.stream({ nonBlocking: true })
    using usual = bench.stream()
    assert.deepEqual(
      [plain, free, usual].map((stream) => stream.nonBlocking),
      [false, true, true],
    )
    assert.deepEqual([device.defaultStream.nonBlocking, device.run(() => Stream.perThread.nonBlocking)], [false, false])
  })

  test('priorities in the range are kept, and those beyond are clamped', () => {
    const { least, greatest } = device.priorityRange
    assert.ok(least >= greatest)
    for (const [asked, given] of [
      [0, 0],
      [-1, Math.max(-1, greatest)],
      [-3, Math.max(-3, greatest)],
      [-1000, greatest],
      [1000, least],
    ] as const) {
      using stream = bench.stream({ priority: asked })
      assert.equal(stream.priority, given, `priority ${asked}`)
      using wrapped = Stream.from(stream.handle, { device })
      assert.equal(wrapped.priority, given)
    }
  })

  test('transfers are made on streams of every kind, and wait for no other stream', async () => {
    const handle = bench.foreignStream(device)
    using holder = bench.stream()
    const kinds = {
      null: device.defaultStream,
      perThread: device.run(() => Stream.perThread),
      blocking: bench.stream({ nonBlocking: false }),
      urgent: bench.stream({ priority: device.priorityRange.greatest }),
      external: new ExternalStream(handle, { device }),
      usual: bench.stream(),
    }
    using latch = bench.latch(holder)
    const all = Object.entries(kinds).map(async ([name, stream], index) => {
      using buffer = device.alloc(1000, { stream })
      void stream.upload(buffer, new Uint8Array(1000).fill(index))
      assert.deepEqual(await stream.download(buffer), new Uint8Array(1000).fill(index), name)
    })
    await Promise.all(all)
    assert.equal(holder.query(), false)
    latch.open()
    await holder.finished()
    for (const stream of Object.values(kinds)) stream.close()
    bench.destroyForeignStream(handle)
  })

  test('blocking streams and the null stream wait for each other, others do not', async () => {
    using blocking = bench.stream({ nonBlocking: false })
    using free = bench.stream()
    const nullStream = device.defaultStream
    for (const [holder, other] of [
      [blocking, nullStream],
      [nullStream, blocking],
    ] as const) {
      const order: string[] = []
      using latch = bench.latch(holder)
      holder.launchHostFunc(() => order.push('first'))
      other.launchHostFunc(() => order.push('second'))
      free.launchHostFunc(() => order.push('free'))
      await free.finished()
      assert.equal(other.query(), false)
      latch.open()
      await other.finished()
      assert.deepEqual(order, ['free', 'first', 'second'])
    }
  })
})
