/** Graphs: what is captured runs at each launch, in the order of the capture, and not before. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ExternalStream, type Graph, type GraphExec, Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { AsyncLocalStorage } from '../helpers/context-storage.js'
import { onEveryBackend } from '../helpers/suite.js'
import { affine } from '../soak/kernels.js'
import { ONE_DEVICE, refused, refusedByDriver, secondDevice, turns } from './expect.js'

const LAUNCHES = 1000

onEveryBackend('graphs', (bench) => {
  const { device } = bench

  test('G1 what is captured runs at each launch, and not before', async () => {
    using stream = bench.stream()
    let ran = 0
    using graph = stream.capture(() => {
      bench.busy(stream, 1000)
      stream.launchHostFunc(() => {
        ran += 1
      })
      bench.busy(stream, 1000)
    })
    assert.equal(stream.isCapturing, false)
    assert.equal(graph.nodeCount, 3)
    await stream.finished()
    assert.equal(ran, 0)
    using exec = graph.instantiate()
    assert.equal(stream.launch(exec), stream)
    stream.synchronize()
    assert.equal(ran, 1)
    exec.upload(stream).launch(stream).launch(stream)
    await stream.finished()
    assert.equal(ran, 3)
  })

  test('G7 an instance that waits for an event of a capture that goes on is not launched, and the capture is left as it is', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using event = other.record()
    let ran = 0
    using within = stream.capture(() => {
      stream.wait(event, { external: true })
      stream.launchHostFunc(() => {
        ran += 1
      })
    })
    using around = stream.capture(() => stream.launch(within))
    const execs = [within, around].map((graph) => graph.instantiate())
    const launchAll = (): void => execs.forEach((exec) => void exec.launch(other))
    for (const { mode, how } of [
      { mode: 'relaxed', how: 'it ends' },
      { mode: 'threadLocal', how: 'it ends' },
      { mode: 'relaxed', how: 'the event is recorded again' },
      { mode: 'relaxed', how: 'the stream is closed' },
    ] as const) {
      const capturing = bench.stream()
      capturing.beginCapture(mode)
      capturing.record(event)
      for (const exec of execs) {
        const error = refusedByDriver(() => exec.launch(other), 900)
        assert.match(error.message, /waits for Event.*end that first/)
      }
      other.launchHostFunc(() => {
        ran += 1
      })
      if (how === 'the event is recorded again') {
        other.record(event)
        launchAll()
      }
      if (how === 'the stream is closed') capturing.close()
      else assert.equal(capturing.endCapture().nodeCount, 0, 'it was not invalidated')
      if (how !== 'the event is recorded again') launchAll()
      await other.finished()
      assert.equal(ran, 3, how)
      ran = 0
      capturing.close()
    }
    for (const exec of execs) exec.close()
  })

  test('G7 launches of one instance run one after another on any streams, also if they have nothing to do', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using within = stream.capture(() => {})
    const graphs = {
      'a graph that does something': stream.capture(() => bench.busy(stream, 1000)),
      'no nodes': stream.capture(() => {}),
      'a graph within it that has no nodes': stream.capture(() => stream.launch(within)),
    }
    for (const [name, graph] of Object.entries(graphs)) {
      using exec = graph.instantiate()
      exec.launch(stream).launch(other)
      await Promise.all([stream.finished(), other.finished()])
      const held = bench.latch(stream)
      exec.launch(stream).launch(other)
      const event = other.record()
      await turns()
      assert.deepEqual([event.query(), other.query()], [false, false], name)
      held.open()
      await other.finished()
      assert.equal(stream.query(), true, name)
      graph.close()
    }
  })

  test('G7 a launch on a blocking stream comes after the work of the null stream, also if it has nothing to do', async () => {
    using blocking = bench.stream({ nonBlocking: false })
    using graph = blocking.capture(() => {})
    using exec = graph.instantiate()
    using held = bench.latch(device.defaultStream)
    exec.launch(blocking)
    await turns()
    assert.equal(blocking.query(), false)
    held.open()
    await blocking.finished()
  })

  test('G7 an upload is work of its stream, in order with the launches of its instance', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using graph = stream.capture(() => bench.busy(stream, 1000))
    using exec = graph.instantiate()
    exec.launch(stream)
    await stream.finished()
    const pairs: readonly (() => void)[] = [
      () => exec.launch(stream).upload(other),
      () => exec.upload(stream).launch(other),
      () => exec.upload(stream).upload(other),
    ]
    for (const queue of pairs) {
      using held = bench.latch(stream)
      queue()
      await turns()
      assert.equal(other.query(), false)
      held.open()
      await other.finished()
      assert.equal(stream.query(), true)
    }
  })

  test('G10 an update pairs nodes that nothing comes after as the origin came to be behind them, not as they were captured', () => {
    using stream = bench.stream()
    const branches = [bench.stream(), bench.stream()] as const
    const [one, two] = branches
    using buffer = device.alloc(64, { stream })
    using pinned = device.allocPinned(64)
    const copy = (): Stream => one.copy(buffer.subarray(0, 16), pinned.subarray(0, 16))
    const fill = (): Stream => two.fill(buffer.subarray(16, 32), 1)
    const captured = (queue: () => void, joined: readonly Stream[]): Graph =>
      stream.capture(() => {
        for (const branch of branches) branch.wait(stream)
        queue()
        for (const branch of joined) stream.wait(branch)
      })
    using first = captured(() => void [copy(), fill()], [one, two])
    using fillFirst = captured(() => void [fill(), copy()], [one, two])
    using joinedLater = captured(() => void [copy(), fill()], [two, one])
    using through = captured(() => void [copy(), fill(), two.wait(one)], [two])
    using exec = first.instantiate()
    exec.update(fillFirst)
    exec.update(first)
    refusedByDriver(() => exec.update(joinedLater), 910)
    refusedByDriver(() => exec.update(through), 910)
    using another = joinedLater.instantiate()
    another.update(through)
    another.launch(stream)
    stream.synchronize()
    for (const branch of branches) branch.close()
  })

  test('G10 an update pairs nodes by what they come after, in the order in which they came to', () => {
    using stream = bench.stream()
    using other = bench.stream()
    using buffer = device.alloc(64, { stream })
    using pinned = device.allocPinned(64)
    const copy = (on: Stream): Stream => on.copy(buffer.subarray(0, 16), pinned.subarray(0, 16))
    const fill = (on: Stream): Stream => on.fill(buffer.subarray(16, 32), 1)
    // The last fill comes after the copy and the first fill: the order in which it came to differs.
    const first = stream.capture(() => {
      fill(stream)
      copy(other.wait(stream))
      fill(stream.wait(other))
    })
    const turned = stream.capture(() => {
      fill(stream)
      copy(other.wait(stream))
      fill(other.wait(stream))
      stream.wait(other)
    })
    // The same order, but what is captured first is another node.
    const [forth, back] = [false, true].map((copyFirst) =>
      stream.capture(() => {
        other.wait(stream)
        if (copyFirst) copy(other)
        fill(stream)
        if (!copyFirst) copy(other)
        fill(stream.wait(other))
      }),
    )
    if (forth === undefined || back === undefined) throw new Error('there are two')
    using exec = first.instantiate()
    refusedByDriver(() => exec.update(turned), 910)
    exec.update(first)
    using another = forth.instantiate()
    another.update(back)
    another.launch(stream).launch(stream)
    stream.synchronize()
    for (const graph of [first, turned, forth, back]) graph.close()
  })

  test(`H5 a host function in a graph runs once for each of ${LAUNCHES} launches, in stream order`, async () => {
    using stream = bench.stream()
    const seen: string[] = []
    let launch = 0
    using graph = stream.capture(() => {
      stream.launchHostFunc(() => seen.push(`graph ${launch}`))
    })
    using exec = graph.instantiate()
    for (let index = 0; index < LAUNCHES; index += 1) {
      stream.launchHostFunc(() => {
        launch = index
      })
      exec.launch(stream)
    }
    await stream.finished()
    assert.deepEqual(
      seen,
      Array.from({ length: LAUNCHES }, (_, index) => `graph ${index}`),
    )
  })

  test('G2 a capture spreads over streams through events, and joins again', async () => {
    using first = bench.stream()
    using second = bench.stream()
    using third = bench.stream()
    const order: string[] = []
    using graph = first.capture(() => {
      first.launchHostFunc(() => order.push('first'))
      second.wait(first)
      third.wait(first)
      assert.equal(second.isCapturing, true)
      second.launchHostFunc(() => order.push('branch'))
      third.launchHostFunc(() => order.push('branch'))
      first.wait(second)
      first.wait(third)
      first.launchHostFunc(() => order.push('last'))
    })
    assert.equal(second.isCapturing, false)
    using exec = graph.instantiate()
    for (let launch = 0; launch < 5; launch += 1) exec.launch(first)
    await first.finished()
    const once = ['first', 'branch', 'branch', 'last']
    assert.deepEqual(order, [...once, ...once, ...once, ...once, ...once])
  })

  test('G3 a stream that joined and was not waited for is 904, and all streams can be used again', async () => {
    using stream = bench.stream()
    using joined = bench.stream()
    stream.beginCapture()
    bench.busy(stream, 1000)
    joined.wait(stream)
    bench.busy(joined, 1000)
    assert.throws(() => stream.endCapture(), { code: 'CUDA_ERROR_STREAM_CAPTURE_UNJOINED', number: 904 })
    assert.equal(stream.isCapturing, false)
    bench.busy(stream, 1000)
    bench.busy(joined, 1000)
    await Promise.all([stream.finished(), joined.finished()])
  })

  test('G4 capture() ends also where the function throws, with that error, and refuses a promise', async () => {
    using stream = bench.stream()
    const cause = new Error('mine')
    const failing = (): void => {
      bench.busy(stream, 1000)
      throw cause
    }
    assert.throws(
      () => stream.capture(failing),
      (error) => error === cause,
    )
    assert.equal(stream.isCapturing, false)
    // @ts-expect-error the types refuse it, too
    assert.throws(() => stream.capture(async () => {}), { code: 'ERR_INVALID_ARG_VALUE', message: /async/ })
    assert.equal(stream.isCapturing, false)
    assert.throws(() => stream.capture(() => void stream.query()), { number: 900 })
    bench.busy(stream, 1000)
    await stream.finished()
  })

  test('G4 capture() ends the capture also where its function closes the wrapper that it was called on', () => {
    using stream = bench.stream()
    using buffer = device.alloc(16, { stream })
    const wrapper = new ExternalStream(stream.handle, { device })
    const graph = wrapper.capture(() => wrapper.fill(buffer, 1).close())
    assert.equal(stream.isCapturing, false)
    assert.equal(wrapper.closed, true)
    assert.equal(graph.nodeCount, 1)
    const failing = new ExternalStream(stream.handle, { device })
    const cause = new Error('mine')
    assert.throws(
      () =>
        failing.capture(() => {
          failing.close()
          throw cause
        }),
      (error) => error === cause,
    )
    assert.equal(stream.isCapturing, false)
    const owned = bench.stream()
    refused(() => owned.capture(() => owned.close()), 'ERR_CLOSED')
    stream.synchronize()
  })

  test('G4 an async or generator function is refused before it is called, and before the capture begins', () => {
    using stream = bench.stream()
    const never = (): never => assert.fail('it was called')
    const asynchronous = async (): Promise<void> => never()
    const wrong = [
      asynchronous,
      asynchronous.bind(undefined),
      function* () {
        yield never()
      },
      async function* () {
        yield never()
      },
    ]
    using into = stream.capture(() => bench.busy(stream, 1000))
    for (const fn of wrong as unknown as (() => void)[]) {
      refused(() => stream.capture(fn), 'ERR_INVALID_ARG_VALUE', /fn must not be an? (async|generator)/)
      refused(() => stream.capture(fn, { into }), 'ERR_INVALID_ARG_VALUE', /fn must not be an? (async|generator)/)
      assert.equal(stream.isCapturing, false)
      assert.equal(into.closed, false)
    }
  })

  test('G19 the stream that captures is current inside capture(fn), so that what takes the current stream is captured', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using buffer = device.alloc(64, { stream })
    using inner = stream.capture(() => void stream.fill(buffer, 1))
    using exec = inner.instantiate()
    await stream.finished()
    other.run(() => {
      using graph = stream.capture(() => {
        assert.equal(Stream.current(device), stream)
        Stream.current(device).fill(buffer, 2)
        device.createEvent().record()
      })
      assert.equal(graph.nodeCount, 1)
      assert.equal(Stream.current(device), other)
      assert.throws(() =>
        stream.capture(() => {
          assert.equal(Stream.current(device), stream)
          throw new Error('mine')
        }),
      )
      assert.equal(Stream.current(device), other)
      using wrapper = new ExternalStream(stream.handle, { device })
      using more = wrapper.capture(() => assert.equal(Stream.current(device), wrapper), { into: graph })
      assert.equal(more, graph)
      // As on the stream itself: no instance is launched into a capture.
      refusedByDriver(() => stream.capture(() => void exec.launch()), 900)
    })
    await stream.finished()
  })

  test('G19 a capture that records nothing gives one warning, with its line', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using buffer = device.alloc(64, { stream })
    await stream.finished()
    const warnings: Error[] = []
    const note = (warning: Error): void => void warnings.push(warning)
    process.on('warning', note)
    try {
      const expected = (count: number): void => {
        const given = warnings.splice(0)
        assert.equal(given.length, count, given.join('\n'))
        for (const warning of given) {
          assert.equal(Reflect.get(warning, 'code'), 'CUDA_STREAMS_EMPTY_CAPTURE')
          assert.match(warning.message, /graphs\.test\.[jt]s:\d+/)
        }
      }
      // Once for the line, however often it runs.
      for (let round = 0; round < 3; round += 1) stream.capture(() => void other.fill(buffer, 1)).close()
      expected(1)
      stream.capture(() => {}).close()
      expected(1)
      stream.beginCapture().endCapture().close()
      expected(1)
      using graph = stream.capture(() => void stream.fill(buffer, 1))
      expected(0)
      stream.capture(() => void other.fill(buffer, 1), { into: graph })
      expected(1)
      stream.capture(() => void stream.fill(buffer, 1), { into: graph })
      assert.throws(() => stream.capture(() => assert.fail()))
      expected(0)
    } finally {
      process.off('warning', note)
    }
    await other.finished()
  })

  test('G4 a promise that capture() refuses may reject later: the process goes on', async () => {
    using stream = bench.stream()
    const unhandled: unknown[] = []
    const note = (reason: unknown): void => void unhandled.push(reason)
    process.on('unhandledRejection', note)
    try {
      const failing = (): Promise<void> => {
        bench.busy(stream, 1000)
        return Promise.reject(new Error('inside'))
      }
      refused(() => stream.capture(failing as () => void), 'ERR_INVALID_ARG_VALUE', /promise/)
      // What begins its work where it is waited for is left alone.
      const lazy = new Map([['then', () => assert.fail('it was waited for')]])
      refused(() => stream.capture(() => Object.fromEntries(lazy)), 'ERR_INVALID_ARG_VALUE', /promise/)
      await turns()
      assert.deepEqual(unhandled, [])
    } finally {
      process.off('unhandledRejection', note)
    }
    assert.equal(stream.isCapturing, false)
    bench.busy(stream, 1000)
    await stream.finished()
  })

  test('G5 beginning twice, and ending what was not begun, is refused and invalidates nothing', () => {
    using stream = bench.stream()
    assert.throws(() => stream.endCapture(), { number: 401 })
    stream.beginCapture('relaxed')
    assert.throws(() => stream.beginCapture(), { number: 401 })
    bench.busy(stream, 1000)
    using graph = stream.endCapture()
    assert.equal(graph.nodeCount, 1)
    assert.throws(() => stream.beginCapture('nonsense' as 'global'), { code: 'ERR_INVALID_ARG_VALUE' })
    assert.throws(() => stream.beginCapture(1 as unknown as 'global'), { code: 'ERR_INVALID_ARG_TYPE' })
  })

  test('G5 a stream tells whether its capture is still a capture', async () => {
    using stream = bench.stream()
    using joined = bench.stream()
    const states = (): readonly string[] => [stream, joined].map(({ captureStatus }) => captureStatus)
    assert.deepEqual(states(), ['none', 'none'])
    stream.beginCapture()
    assert.deepEqual(states(), ['active', 'none'])
    joined.wait(stream)
    assert.deepEqual(states(), ['active', 'active'])
    refusedByDriver(() => stream.synchronize(), 900)
    assert.deepEqual(states(), ['invalidated', 'invalidated'])
    assert.equal(stream.isCapturing, true)
    refusedByDriver(() => stream.endCapture(), 901)
    assert.deepEqual(states(), ['none', 'none'])
    assert.equal(device.defaultStream.captureStatus, 'none')
  })

  test('G6 a graph survives its stream, and an instance its graph', async () => {
    let ran = 0
    const make = (): Graph => {
      using stream = bench.stream()
      return stream.capture(() => {
        stream.launchHostFunc(() => {
          ran += 1
        })
      })
    }
    const graph = make()
    const exec: GraphExec = graph.instantiate()
    graph.close()
    graph.close()
    using stream = bench.stream()
    exec.launch(stream)
    exec.close()
    await stream.finished()
    assert.equal(ran, 1)
    assert.throws(() => exec.launch(stream), { code: 'ERR_CLOSED' })
    assert.throws(() => graph.instantiate(), { code: 'ERR_CLOSED' })
    assert.throws(() => graph.nodeCount, { code: 'ERR_CLOSED' })
  })

  test('G7 two instances of one graph run beside each other, each with its own host functions', async () => {
    using one = bench.stream()
    using two = bench.stream()
    let ran = 0
    using graph = one.capture(() => {
      one.launchHostFunc(() => {
        ran += 1
      })
    })
    using first = graph.instantiate()
    using second = graph.instantiate()
    for (let launch = 0; launch < 50; launch += 1) {
      first.launch(one)
      second.launch(two)
    }
    one.synchronize()
    two.synchronize()
    assert.equal(ran, 100)
  })

  test('G8 an event recorded with external is recorded by each launch, for streams outside of the graph', async () => {
    using stream = bench.stream()
    using outside = bench.stream()
    using event = device.createEvent()
    const order: string[] = []
    using graph = stream.capture(() => {
      stream.launchHostFunc(() => order.push('graph'))
      stream.record(event, { external: true })
    })
    using exec = graph.instantiate()
    using latch = bench.latch(stream)
    exec.launch(stream)
    outside.wait(event)
    outside.launchHostFunc(() => order.push('outside'))
    assert.equal(outside.query(), false)
    latch.open()
    await outside.finished()
    assert.deepEqual(order, ['graph', 'outside'])
  })

  test('G8 an event that a graph records does not become another one when it is closed', async () => {
    using stream = bench.stream()
    using held = bench.stream()
    const side = bench.stream()
    const event = stream.record()
    const graph = stream.capture(() => {
      stream.record(event, { external: true })
      side.wait(stream)
      stream.wait(side, { external: true }) // by the event that side keeps
      stream.wait(side)
    })
    using exec = graph.instantiate()
    event.close()
    side.close()
    using latch = bench.latch(held)
    const others = Array.from({ length: 64 }, () => held.record())
    exec.launch(stream)
    await stream.finished()
    assert.deepEqual(
      others.filter((other) => other.query()),
      [],
      'a launch has recorded what stands for other work',
    )
    latch.open()
    await held.finished()
  })

  test('G9 a graph waits for an event recorded outside of it, with external', async () => {
    using stream = bench.stream()
    using outside = bench.stream()
    using event = device.createEvent()
    using graph = stream.capture(() => {
      stream.wait(event, { external: true })
      bench.busy(stream, 1000)
    })
    using exec = graph.instantiate()
    using latch = bench.latch(outside)
    outside.record(event)
    exec.launch(stream)
    assert.equal(stream.query(), false)
    latch.open()
    await stream.finished()
  })

  test('G10 update() puts in a graph of the same shape, and refuses another', async () => {
    using stream = bench.stream()
    const ran: string[] = []
    const graphOf = (name: string, more = 0): Graph =>
      stream.capture(() => {
        stream.launchHostFunc(() => ran.push(name))
        for (let index = 0; index < more; index += 1) bench.busy(stream, 1000)
      })
    using a = graphOf('a')
    using b = graphOf('b')
    using longer = graphOf('c', 2)
    using exec = a.instantiate()
    exec.launch(stream)
    stream.synchronize()
    assert.equal(exec.update(b), exec)
    exec.launch(stream)
    await stream.finished()
    assert.throws(() => exec.update(longer), { number: 910 })
    exec.launch(stream)
    await stream.finished()
    assert.deepEqual(ran, ['a', 'b', 'b'])
  })

  test('G10 update() leaves kernels and fills on their device, host functions on none', async (context) => {
    const second = secondDevice(bench)
    if (second === undefined) return context.skip(ONE_DEVICE)
    await affine.prepare(device)
    await affine.prepare(second)
    using here = bench.stream()
    using there = second.createStream()
    using buffer = device.alloc(64, { stream: here })
    there.wait(here)
    const works: Record<string, (stream: Stream) => unknown> = {
      kernel: (stream) => stream.launch(affine, { grid: 1, block: 64 }, buffer, 64, 2),
      fill: (stream) => stream.fill(buffer, 1),
      'host function': (stream) => stream.launchHostFunc(() => {}),
      'no node': () => {},
    }
    for (const [name, work] of Object.entries(works)) {
      for (const [from, to] of [
        [here, there],
        [there, here],
      ] as const) {
        using exec = from.capture(() => void work(from)).instantiate()
        using graph = to.capture(() => void work(to))
        const update = (): unknown => exec.update(graph)
        if (name === 'host function' || name === 'no node') update()
        else assert.match(refusedByDriver(update, 910).message, /kernels and fills on the same device/)
        exec.update(from.capture(() => void work(from))).launch(from)
      }
    }
    await Promise.all([here.finished(), there.finished()])
  })

  test('G10 update() puts a fill in the place of one that another library queued, and the other way round', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(64)
    const fills: Readonly<Record<string, (value: number) => void>> = {
      own: (value) => void stream.fill(buffer, value),
      'of another library': (value) =>
        void stream.external(
          { name: 'memset', memory: [{ buffer, access: 'out' }], simulate: ([bytes]) => void bytes?.fill(value) },
          (handle) => assert.equal(bench.foreignFill(handle, buffer, value), 0),
        ),
    }
    for (const before of Object.values(fills)) {
      for (const [name, after] of Object.entries(fills)) {
        using exec = stream.capture(() => before(1)).instantiate()
        using graph = stream.capture(() => after(7))
        exec.update(graph).launch(stream)
        const bytes = await stream.download(buffer)
        assert.ok(
          bytes.every((byte) => byte === 7),
          name,
        )
      }
    }
  })

  test('G10 update() changes what is copied or filled, but not between which kinds of memory', async () => {
    using stream = bench.stream()
    const four = <B>(make: () => B): B[] => [0, 1, 2, 3].map(make)
    const buffers = {
      device: four(() => device.alloc(64)),
      interprocess: four(() => device.alloc(64, { interprocess: true })),
      pinned: four(() => device.allocPinned(64)),
    }
    const kinds = ['device', 'interprocess', 'pinned'] as const
    const buffer = (kind: (typeof kinds)[number], at: number) =>
      buffers[kind][at] ?? assert.fail('there are four of each')
    const copies = kinds.flatMap((to) => kinds.map((from) => ({ to, from })))
    // Memory of a pool, or any other. The library copies within the host by a host function.
    const endsOf = ({ to, from }: (typeof copies)[number]): string =>
      to === 'pinned' && from === 'pinned' ? 'within the host' : `${to === 'device'}, ${from === 'device'}`
    const graphOf = ({ to, from }: (typeof copies)[number], at: number): Graph =>
      stream.capture(() => void stream.copy(buffer(to, at), buffer(from, at + 2)))
    for (const before of copies) {
      using exec = graphOf(before, 0).instantiate()
      for (const after of copies) {
        using graph = graphOf(after, 1)
        if (endsOf(before) === endsOf(after)) exec.update(graph)
        else refusedByDriver(() => exec.update(graph), 910)
      }
    }
    const fills = [1, 2, 4] as const
    for (const width of fills) {
      using exec = stream.capture(() => void stream.fill(buffer('device', 0), 1, { width })).instantiate()
      for (const other of fills) {
        using graph = stream.capture(() => void stream.fill(buffer('pinned', 0), 1, { width: other }))
        exec.update(graph)
      }
    }
    await stream.finished()
    for (const each of Object.values(buffers).flat()) each.close()
  })

  test('G10 update() refuses a graph of another driver before any driver sees it', async () => {
    using stream = bench.stream()
    const [device] = simulate().devices
    assert.ok(device)
    using other = new Stream({ device })
    using foreign = other.capture(() => {})
    using graph = stream.capture(() => {})
    using exec = graph.instantiate()
    const another = bench.name === 'sim' ? /another simulation/ : /another driver/
    refused(() => exec.update(foreign), 'ERR_DEVICE_MISMATCH', another)
    refused(() => exec.launch(other), 'ERR_DEVICE_MISMATCH', another)
    exec.update(graph).launch(stream)
    await stream.finished()
  })

  test('G12 an instance is launched and uploaded on a stream or on none, not on what is no stream', () => {
    using stream = bench.stream()
    using graph = stream.capture(() => {})
    using exec = graph.instantiate()
    for (const wrong of [null, 0, {}, 'stream']) {
      refused(() => Reflect.apply(exec.launch, exec, [wrong]), 'ERR_INVALID_ARG_TYPE', /a Stream/)
      refused(() => Reflect.apply(exec.upload, exec, [wrong]), 'ERR_INVALID_ARG_TYPE', /a Stream/)
    }
  })

  test('G12 a graph where its instance belongs is refused, with the call that makes one', () => {
    using stream = bench.stream()
    using graph = stream.capture(() => {})
    const launch = (target: unknown): unknown => Reflect.apply(stream.launch, stream, [target])
    refused(() => launch(graph), 'ERR_INVALID_ARG_TYPE', /^target .* not Graph\(.*: graph\.instantiate\(\) makes/)
    refused(() => launch({}), 'ERR_INVALID_ARG_TYPE', /^target must be a GraphExec or a Kernel, not \{\}$/)
  })

  test('G11 a graph is drawn as Graphviz takes it', () => {
    using stream = bench.stream()
    using graph = stream.capture(() => {
      bench.busy(stream, 1000)
      bench.busy(stream, 1000)
    })
    assert.match(graph.toDot(), /^digraph[\s\S]*->[\s\S]*\}\s*$/)
    assert.equal(graph.toDot({ verbose: false }), graph.toDot())
    const drawn = graph.toDot({ verbose: true })
    assert.match(drawn, /^digraph[\s\S]*->[\s\S]*\}\s*$/)
    assert.ok(drawn.length > graph.toDot().length)
    const draw = (options: unknown): unknown => Reflect.apply(graph.toDot, graph, [options])
    refused(() => draw({ verbose: 1 }), 'ERR_INVALID_ARG_TYPE', /^options\.verbose must be /)
  })

  test('G20 a node tells what it was captured with: addresses, values, arguments, the event; and what comes before and after it', async () => {
    using stream = bench.stream()
    using from = device.alloc(256, { stream })
    using to = device.alloc(256, { stream })
    using pinned = device.allocPinned(256)
    using event = stream.record()
    await stream.finished()
    using graph = stream.capture(() => {
      stream.copy(to.subarray(0, 128), from.subarray(64, 192))
      stream.copy(pinned.subarray(16, 80), to.subarray(32, 96))
      stream.fill(from.subarray(4), 0x1234, { width: 2 })
      stream.fill(from, -1, { width: 4 })
      stream.launch(affine, { grid: 2, block: 32 }, to, 64, 3)
      stream.wait(event, { external: true })
      stream.record(event, { external: true })
    })
    const [copy, download, fill, all, kernel, wait, record] = graph.nodes
    assert.ok(copy?.kind === 'copy' && download?.kind === 'copy')
    assert.deepEqual([copy.source, copy.destination, copy.byteLength], [from.pointer + 64n, to.pointer, 128])
    assert.deepEqual(
      [download.source, download.destination, download.byteLength],
      [to.pointer + 32n, pinned.pointer + 16n, 64],
    )
    assert.ok(fill?.kind === 'fill' && all?.kind === 'fill')
    assert.deepEqual([fill.destination, fill.value, fill.width, fill.byteLength], [from.pointer + 4n, 0x1234, 2, 252])
    assert.deepEqual([all.destination, all.value, all.width, all.byteLength], [from.pointer, 0xffff_ffff, 4, 256])
    assert.ok(kernel?.kind === 'kernel')
    assert.deepEqual(kernel.args?.slice(1), [64, 3])
    assert.equal(kernel.args?.[0], to)
    assert.ok(wait?.kind === 'eventWait' && record?.kind === 'eventRecord')
    assert.equal(wait.event, event)
    assert.equal(record.event, event)
    for (const [index, node] of graph.nodes.entries()) {
      assert.deepEqual(node.after, graph.nodes.slice(Math.max(index - 1, 0), index))
      assert.deepEqual(node.before, graph.nodes.slice(index + 1, index + 2))
    }
  })

  test('G20 whether a node of an instance is launched can be read, and the handle of the instance is CUDA’s', async () => {
    using stream = bench.stream()
    using buffer = stream.bufferFrom(new Int32Array(64))
    using graph = stream.capture(() => {
      stream.launch(affine, { grid: 2, block: 32 }, buffer, 64, 1).fill(buffer, 1)
      stream.launchHostFunc(() => {})
    })
    using exec = graph.instantiate()
    using other = graph.instantiate()
    assert.equal(typeof exec.handle, 'bigint')
    assert.notEqual(exec.handle, other.handle)
    const [kernel, fill, host] = graph.nodes
    assert.ok(kernel?.kind === 'kernel' && fill?.kind === 'fill')
    const states = (): readonly boolean[] => [exec.isEnabled(kernel), exec.isEnabled(fill), other.isEnabled(fill)]
    assert.deepEqual(states(), [true, true, true])
    exec.setEnabled(kernel, false)
    assert.deepEqual(states(), [false, true, true])
    exec.setEnabled(fill, false).setEnabled(kernel, true)
    assert.deepEqual(states(), [true, false, true])
    exec.setEnabled(fill, true)
    assert.deepEqual(states(), [true, true, true])
    const ask = (node: unknown): unknown => Reflect.apply(exec.isEnabled, exec, [node])
    refused(() => ask(host), 'ERR_INVALID_ARG_VALUE', /is always launched: only kernels, copies and fills/)
    refused(() => ask(graph), 'ERR_INVALID_ARG_TYPE', /^node must be a node of a graph/)
    exec.close()
    refused(() => exec.isEnabled(kernel), 'ERR_CLOSED', /GraphExec/)
  })

  test('H5 the per-thread stream of another device captures host functions too, and leaves the first device alone', async (context) => {
    const second = secondDevice(bench)
    if (second === undefined) return context.skip(ONE_DEVICE)
    const stream = second.run(() => Stream.perThread)
    let ran = 0
    const count = (): void => {
      ran += 1
    }
    using exec = stream.capture(() => void stream.launchHostFunc(count)).instantiate()
    exec.launch(stream)
    await stream.finished()
    assert.equal(ran, 1)
    await device.finished()
  })

  test('H1 a host function in a graph runs in the async context it was captured in', async () => {
    const request = new AsyncLocalStorage<string>()
    using stream = bench.stream()
    let seen: string | undefined
    using graph = request.run('captured', () =>
      stream.capture(() => {
        stream.launchHostFunc(() => {
          seen = request.getStore()
        })
      }),
    )
    using exec = graph.instantiate()
    await request.run('launched', () => exec.launch(stream).launch(stream) && stream.finished())
    assert.equal(seen, 'captured')
  })

  test('H2 a host function in a graph that waits for the stream it was launched on is ERR_DEADLOCK', async () => {
    using stream = bench.stream()
    let code: unknown
    using graph = stream.capture(() => {
      stream.launchHostFunc(() => {
        try {
          stream.synchronize()
        } catch (error) {
          code = (error as { code?: unknown }).code
        }
      })
    })
    using exec = graph.instantiate()
    exec.launch(stream)
    await stream.finished()
    assert.equal(code, 'ERR_DEADLOCK')
  })

  test('G2 a graph of a thousand nodes from three streams, with a host function and an external event', async () => {
    using main = bench.stream()
    using left = bench.stream()
    using right = bench.stream()
    using outside = bench.stream()
    using event = device.createEvent()
    let ran = 0
    using graph = main.capture(() => {
      for (let node = 0; node < 332; node += 1) bench.busy(main, 100)
      left.wait(main)
      right.wait(main)
      for (let node = 0; node < 333; node += 1) {
        bench.busy(left, 100)
        bench.busy(right, 100)
      }
      main.wait(left)
      main.wait(right)
      main.launchHostFunc(() => {
        ran += 1
      })
      main.record(event, { external: true })
    })
    assert.equal(graph.nodeCount, 1000)
    using exec = graph.instantiate()
    for (let launch = 1; launch <= LAUNCHES; launch += 1) {
      exec.launch(main)
      outside.wait(event)
      if (launch % 100 !== 0) continue
      await outside.finished()
      assert.equal(ran, launch)
    }
  })

  test('G12 launching on a stream of another device is ERR_DEVICE_MISMATCH', (context) => {
    const [, other] = bench.devices
    if (other === undefined) {
      context.skip('this machine has only one device')
      return
    }
    using stream = bench.stream()
    using graph = stream.capture(() => bench.busy(stream, 1000))
    using exec = graph.instantiate()
    using wrong = other.createStream()
    assert.throws(() => exec.launch(wrong), { code: 'ERR_DEVICE_MISMATCH' })
    assert.throws(() => wrong.launch(exec), { code: 'ERR_DEVICE_MISMATCH' })
    assert.equal(exec.launch(), exec, 'on the current stream of its device')
    Stream.current(device).synchronize()
  })
})
