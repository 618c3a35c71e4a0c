/** What Warp's tests ask of streams, events and asynchronous copies and fills, asked of ours. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { Device, DeviceBuffer, type PinnedBuffer, Stream } from 'cuda-streams'
import { ONE_DEVICE, refused, refusedByDriver, secondDevice, stillWorks } from '../conformance/expect.js'
import { onEveryBackend } from '../helpers/suite.js'
import { add, BYTES, filled, GRID, holds, increased, incrementInto, LENGTH, prepareKernels } from './arrays.js'

/** Three streams: what two of them make of what the first made, it adds up. */
interface Streams {
  readonly first: Stream
  readonly left: Stream
  readonly right: Stream
}

/** How they wait for one another. */
interface Order {
  readonly fork: () => void
  readonly join: () => void
}

onEveryBackend('Warp streams', (bench) => {
  const { device } = bench
  before(() => prepareKernels([device]))

  test('a stream that is set is the current one, until the old one is set again', () => {
    using stream = bench.stream()
    const old = Stream.current(device)
    stream.use()
    assert.equal(Stream.current(device), stream)
    old.use()
    assert.equal(Stream.current(device), old)
  })

  for (const own of [true, false]) {
    test(`kernels and copies of one stream take turns: ${own ? 'the stream is named' : 'the stream is current'}`, async () => {
      using old = bench.stream()
      using stream = bench.stream()
      using a = filled(old, 0)
      using b = filled(old, 42)
      using c = device.alloc(BYTES, { stream: old })
      stream.wait(old)
      const on = (): Stream => (own ? stream : Stream.current(device))
      const work = (): void => {
        increased(on(), a)
        on().copy(b, a)
        increased(on(), a)
        on().copy(c, a)
        increased(on(), a)
      }
      if (own) work()
      else stream.run(work)
      old.wait(stream)
      for (const [array, value] of [
        [a, 3],
        [b, 1],
        [c, 2],
      ] as const)
        await holds(old, array, value)
    })
  }

  const ways: readonly (readonly [string, (streams: Streams) => Order])[] = [
    [
      'by synchronize()',
      ({ first, left, right }) => ({
        fork: () => first.synchronize(),
        join: () => {
          left.synchronize()
          right.synchronize()
        },
      }),
    ],
    [
      'by events that are used again',
      ({ first, left, right }) => {
        const [one, two, three] = [device.createEvent(), device.createEvent(), device.createEvent()]
        return {
          fork: () => {
            first.record(one)
            left.wait(one)
            right.wait(one)
          },
          join: () => {
            left.record(two)
            right.record(three)
            first.wait(two).wait(three)
          },
        }
      },
    ],
    [
      'by waiting for streams',
      ({ first, left, right }) => ({
        fork: () => {
          left.wait(first)
          right.wait(first)
        },
        join: () => void first.wait(left).wait(right),
      }),
    ],
    [
      'by waiting for streams with the cached event',
      ({ first, left, right }) => ({
        fork: () => {
          left.wait(first, { event: first.cachedEvent })
          right.wait(first, { event: first.cachedEvent })
        },
        join: () => {
          first.wait(left, { event: left.cachedEvent })
          first.wait(right, { event: right.cachedEvent })
        },
      }),
    ],
  ]
  for (const [way, order] of ways) {
    for (const current of [false, true]) {
      test(`two streams use what a first one made, and it what they made: ${way}${current ? ', in blocks' : ''}`, async () => {
        using first = bench.stream()
        using left = bench.stream()
        using right = bench.stream()
        const within = (stream: Stream, act: (on: Stream) => void): void => {
          if (current) stream.run(() => act(Stream.current(device)))
          else act(stream)
        }
        const { fork, join } = order({ first, left, right })
        using a = filled(first, 0)
        using b = filled(first, 0)
        using c = filled(first, 0)
        using d = filled(first, 0)
        for (let round = 1; round <= 5; round += 1) {
          bench.busy(first, 50_000)
          within(first, (on) => increased(on, a))
          fork()
          bench.busy(left, 50_000)
          within(left, (on) => on.launch(incrementInto, GRID, a, b, LENGTH))
          within(right, (on) => on.launch(incrementInto, GRID, a, c, LENGTH))
          join()
          within(first, (on) => on.launch(add, GRID, b, c, d, LENGTH))
        }
        for (const [array, value] of [
          [a, 5],
          [b, 6],
          [c, 6],
          [d, 12],
        ] as const)
          await holds(first, array, value)
      })
    }
  }

  test('an event stands for the copies before it, and not for those behind', async () => {
    using stream = bench.stream()
    using a = filled(stream, 17)
    using b = filled(stream, 42)
    using hostA = device.allocPinned(BYTES)
    using hostB = device.allocPinned(BYTES)
    using after = stream.copy(hostA, a).record()
    const latch = bench.latch(stream)
    try {
      using last = stream.copy(hostB, b).record()
      after.synchronize()
      assert.deepEqual(new Set(hostA.view(Float32Array)), new Set([17]))
      assert.equal(last.query(), false)
      latch.open()
      last.synchronize()
      assert.deepEqual(new Set(hostB.view(Float32Array)), new Set([42]))
    } finally {
      latch.open()
    }
  })

  test('a priority is 0 unless given, clamped to the range, and an integer', () => {
    const { least, greatest } = device.priorityRange
    using standard = bench.stream()
    using high = bench.stream({ priority: -100 })
    using low = bench.stream({ priority: 100 })
    assert.deepEqual([standard.priority, high.priority, low.priority], [0, greatest, least])
    for (const wrong of [0.5, Number.NaN, Number.POSITIVE_INFINITY, '0', null, 0n]) {
      refused(() => bench.stream({ priority: wrong as never }), 'ERR_INVALID_ARG_TYPE', /priority/)
    }
  })

  test('done or not: a stream and an event that is recorded again and again', () => {
    using stream = bench.stream()
    using event = device.createEvent()
    assert.deepEqual([stream.query(), event.query()], [true, true])
    for (let round = 0; round < 5; round += 1) {
      const latch = bench.latch(stream)
      try {
        bench.busy(stream, 1000)
        stream.record(event)
        assert.deepEqual([stream.query(), event.query()], [false, false])
      } finally {
        latch.open()
      }
      stream.synchronize()
      assert.deepEqual([stream.query(), event.query()], [true, true])
    }
  })

  test('events and streams on what is no device of CUDA are refused', () => {
    for (const wrong of ['cpu', -2, 0.5, {}] as unknown as Device[]) {
      for (const act of [() => new Stream({ device: wrong }), () => Stream.current(wrong)]) {
        assert.throws(act, (error: { code?: unknown }) =>
          ['ERR_INVALID_ARG_TYPE', 'ERR_OUT_OF_RANGE'].includes(String(error.code)),
        )
      }
    }
  })

  test('an heir to the prototype is no stream and no event, and does no harm', () => {
    const heir = Object.create(Stream.prototype) as Stream
    assert.throws(() => heir.record(), TypeError)
    assert.throws(() => heir.close(), TypeError)
    using stream = bench.stream()
    assert.equal(stream.equals(heir), false)
    refused(() => stream.wait(heir), 'ERR_INVALID_ARG_TYPE')
    stillWorks(bench, stream)
  })
})

onEveryBackend('Warp graphs', (bench) => {
  const { device } = bench
  before(() => prepareKernels(bench.devices))

  test('an event of two graphs orders their launches on two streams', async () => {
    using home = bench.stream()
    using other = bench.stream()
    using event = device.createEvent()
    using a = filled(home, 0)
    using b = filled(home, 0)
    using c = filled(home, 0)
    using writes = home.capture(() => {
      increased(home, a)
      increased(home, b)
      home.record(event, { external: true })
    })
    using reads = home.capture(() => {
      home.wait(event, { external: true })
      home.launch(add, GRID, a, b, c, LENGTH)
    })
    using writer = writes.instantiate()
    using reader = reads.instantiate()
    await home.finished()
    for (let round = 1; round <= 10; round += 1) {
      writer.launch(home)
      reader.launch(other)
    }
    other.wait(home)
    await holds(other, c, 20)
  })

  test('a graph and an instance that are closed inside a capture of another', async () => {
    using stream = bench.stream()
    using array = filled(stream, 0)
    for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
      const first = stream.capture(() => increased(stream, array))
      const one = first.instantiate()
      one.launch(stream)
      using second = stream.capture(
        () => {
          first.close()
          one.close()
          increased(stream, array)
        },
        { mode },
      )
      using two = second.instantiate()
      two.launch(stream)
    }
    await holds(stream, array, 6)
  })

  test('waiting for the device, the stream or an event of the capture is refused while capturing', () => {
    for (const [act, number] of [
      [() => device.synchronize(), 900],
      [(stream: Stream) => stream.synchronize(), 900],
      [(stream: Stream) => stream.record().synchronize(), 907],
    ] as const) {
      using stream = bench.stream()
      stream.beginCapture()
      refusedByDriver(() => act(stream), number)
      refusedByDriver(() => stream.endCapture(), 901)
      stillWorks(bench, stream)
    }
  })

  test('what fills on a stream that was forked into a capture belongs to the graph', async () => {
    for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
      using outer = bench.stream()
      using inner = bench.stream()
      using array = filled(outer, 0)
      using pinned = device.allocPinned(BYTES)
      await outer.finished()
      using graph = outer.capture(
        () => {
          using fork = outer.record()
          inner.wait(fork)
          inner.run(() => Stream.current(device).fill(array, 0x40e00000, { width: 4 }).copy(pinned, array))
          using join = inner.record()
          outer.wait(join)
        },
        { mode },
      )
      using exec = graph.instantiate()
      await holds(outer, array, 0)
      exec.launch(outer)
      await holds(outer, array, 7)
      assert.deepEqual(new Set(pinned.view(Float32Array)), new Set([7]))
    }
  })

  test('branches that two others left alone keep to themselves: the graph has the edges that were asked for', () => {
    using main = bench.stream()
    using one = bench.stream()
    using two = bench.stream()
    using a = filled(main, 0)
    using b = filled(main, 0)
    using graph = main.capture(() => {
      increased(main, a)
      one.wait(main)
      two.wait(main)
      increased(main, a)
      increased(one, a)
      increased(two, b)
      increased(two, b)
      main.wait(one).wait(two)
      increased(main, a)
    })
    assert.equal(graph.nodeCount, 6)
    assert.equal(graph.toDot().match(/->/g)?.length, 7)
  })

  for (const named of [true, false]) {
    test(`a graph over two devices: ${named ? 'streams are named' : 'streams are current'}`, async (context) => {
      const other = secondDevice(bench)
      if (other === undefined) return context.skip(ONE_DEVICE)
      using here = bench.stream()
      using there = other.createStream()
      using a = filled(here, 0)
      using b = filled(here, 0)
      using c = filled(here, 0)
      using remote = filled(there, 0)
      await Promise.all([here.finished(), there.finished()])
      using scope = named ? undefined : here.enter()
      void scope
      using graph = here.capture(() => {
        there.wait(here)
        increased(here, a)
        increased(there, remote)
        here.wait(there)
        // Memory of CUDA's pools cannot be copied between devices inside a graph unless the pools are open to each other.
        if (bench.name === 'sim') here.copy(b, remote)
        else increased(here, b)
        here.launch(add, GRID, a, b, c, LENGTH)
      })
      using exec = graph.instantiate()
      for (let launch = 0; launch < 10; launch += 1) here.launch(exec)
      await holds(here, c, 20)
      await holds(there, remote, 10)
    })
  }
})

type Place = 'pageable' | 'pinned' | 'device' | 'second device'
const PLACES: readonly Place[] = ['pageable', 'pinned', 'device', 'second device']

onEveryBackend('Warp copies', (bench) => {
  const { device } = bench
  const length = 100_000

  const memoryOf = (place: Place, stream: Stream): DeviceBuffer | PinnedBuffer =>
    place === 'pinned'
      ? device.allocPinned(2 * length)
      : (place === 'device' ? device : (secondDevice(bench) ?? device)).alloc(2 * length, {
          stream: place === 'device' ? stream : (secondDevice(bench) ?? device).defaultStream,
        })

  let offset = 0
  for (const from of PLACES) {
    for (const to of PLACES) {
      if (from === 'pageable' && to === 'pageable') continue
      for (const part of ['whole', 'slice'] as const) {
        for (const how of ['queued', 'captured'] as const) {
          if (how === 'captured' && (from === 'pageable' || to === 'pageable')) continue
          offset += 1
          const seed = offset
          test(`${from} to ${to}, ${part}, ${how}`, async (context) => {
            const second = secondDevice(bench)
            if (second === undefined && (from === 'second device' || to === 'second device')) {
              return context.skip(ONE_DEVICE)
            }
            if (bench.name === 'cuda' && how === 'captured' && [from, to].includes('second device')) {
              return context.skip('pools that are not open to each other cannot be copied between inside a graph')
            }
            using stream = bench.stream()
            const data = Uint8Array.from({ length: 2 * length }, (_, index) => (index * 7 + seed) & 255)
            const [start, count] = part === 'whole' ? [0, 2 * length] : [length - 3, length]
            const wanted = data.slice(start, start + count)
            using source = from === 'pageable' ? undefined : memoryOf(from, stream)
            using target = to === 'pageable' ? undefined : memoryOf(to, stream)
            if (source !== undefined) await stream.upload(source, data)
            if (target !== undefined) stream.fill(target, 0)
            await stream.finished()
            let got: Uint8Array
            if (target === undefined) {
              assert.ok(source)
              got = await stream.download(source.slice(start, count))
            } else {
              const into = target.slice(start, count)
              if (source === undefined) {
                const array = data.slice()
                void stream.upload(into, array.subarray(start, start + count))
                array.fill(0)
              } else if (how === 'queued') {
                stream.copy(into, source.slice(start, count))
              } else {
                using graph = stream.capture(() => void stream.copy(into, source.slice(start, count)))
                using exec = graph.instantiate()
                exec.launch(stream)
              }
              const all = await stream.download(target)
              got = all.subarray(start, start + count)
              const beside = [...all.subarray(0, start), ...all.subarray(start + count)]
              assert.ok(
                beside.every((byte) => byte === 0),
                'nothing beside the slice was written',
              )
            }
            assert.equal(Buffer.compare(got, wanted), 0)
          })
        }
      }
    }
  }

  test('copying to pinned memory returns at once; its bytes are there when the stream says so', async () => {
    using stream = bench.stream()
    using there = device.alloc(4 * length, { stream })
    using one = device.allocPinned(4 * length)
    using two = device.allocPinned(4 * length)
    one.bytes.fill(1)
    two.bytes.fill(0)
    const latch = bench.latch(stream)
    try {
      stream.copy(there, one).copy(two, there)
      assert.equal(two.bytes[0], 0)
    } finally {
      latch.open()
    }
    await stream.finished()
    assert.deepEqual(new Set(two.bytes), new Set([1]))
  })

  test('fills in a graph and beside it, whole arrays and parts', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(400, { stream })
    stream.fill(buffer, 1)
    await stream.finished()
    using graph = stream.capture(() => {
      stream.fill(buffer, 0).fill(buffer.slice(100, 200), 17).fill(buffer.slice(200, 4), -1, { width: 4 })
    })
    assert.equal(graph.nodeCount, 3)
    using exec = graph.instantiate()
    exec.launch(stream)
    const bytes = await stream.download(buffer)
    const expected = new Uint8Array(400).fill(17, 100, 300).fill(255, 200, 204)
    assert.equal(Buffer.compare(bytes, expected), 0)
  })

  test('memory of another library keeps its device and is copied like ours', async () => {
    using stream = bench.stream()
    using theirs = device.alloc(64, { stream })
    stream.fill(theirs, 9)
    await stream.finished()
    using wrapped = DeviceBuffer.from(theirs.pointer, 64, { device })
    using result = device.allocPinned(64)
    stream.copy(result, wrapped)
    await stream.finished()
    assert.deepEqual(new Set(result.bytes), new Set([9]))
    assert.equal(Device.get(0).ordinal, 0)
  })
})
