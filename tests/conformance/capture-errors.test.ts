/** R1 to R6: every error that a capture can end in, 900 to 908, as the driver gives it; the streams work afterwards. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { CudaError, defineKernel, ExternalStream, type LaunchConfig, Stream } from 'cuda-streams'
import { onEveryBackend } from '../helpers/suite.js'
import { refusedByDriver, stillWorks } from './expect.js'
import { standingAtValue } from './stands.js'

const nothing = defineKernel({
  name: 'nothing',
  source: 'extern "C" __global__ void nothing() {}',
  signature: [],
  simulateGrid() {},
})

function promised(): { readonly promise: Promise<void>; resolve(): void } {
  let resolve = (): void => {}
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}

onEveryBackend('errors of captures', (bench) => {
  const { device } = bench

  /** Two streams that have each run something, since a kernel is loaded at its first launch. */
  const two = (): [Stream, Stream] => {
    const streams: [Stream, Stream] = [bench.stream(), bench.stream()]
    for (const stream of streams) stillWorks(bench, stream)
    return streams
  }
  const usable = (...streams: readonly Stream[]): void => {
    for (const stream of streams) {
      assert.equal(stream.isCapturing, false)
      stillWorks(bench, stream)
      stream.close()
    }
  }

  test('R1 900: launching or uploading a graph on a capturing stream is refused, and invalidates the capture', () => {
    const [stream, other] = two()
    using exec = stream.capture(() => bench.busy(stream, 1000)).instantiate()
    for (const call of [() => exec.launch(stream), () => exec.upload(stream)]) {
      stream.beginCapture()
      refusedByDriver(call, 900)
      refusedByDriver(() => stream.endCapture(), 901)
    }
    exec.launch(stream).launch(other)
    usable(stream, other)
  })

  test('R5 900: the null stream cannot be captured, the per-thread stream can', () => {
    const { defaultStream } = device
    const error = refusedByDriver(() => defaultStream.beginCapture(), 900)
    assert.match(error.message, /a stream that you made/)
    assert.doesNotMatch(error.message, /end the capture/)
    stillWorks(bench, defaultStream)
    const perThread = device.run(() => Stream.perThread)
    assert.equal(perThread.capture(() => {}).nodeCount, 0)
    stillWorks(bench, perThread)
  })

  test('R2 901: once it is invalidated a capture takes no work, and ends with that', () => {
    const [stream, other] = two()
    const outside = other.record()
    stream.beginCapture()
    refusedByDriver(() => stream.query(), 900)
    refusedByDriver(() => stream.record(), 901)
    refusedByDriver(() => stream.wait(outside, { external: true }), 901)
    refusedByDriver(() => stream.launchHostFunc(() => assert.fail('it ran')), 901)
    refusedByDriver(() => stream.query(), 900)
    refusedByDriver(() => stream.endCapture(), 901)
    usable(stream, other)
  })

  test('R2 901: a launch that the driver refuses invalidates the capture of its stream, and no other', async () => {
    const [stream, other] = two()
    await nothing.prepare(device)
    stream.launch(nothing, { grid: 1, block: 1 }).synchronize()
    const shapes: readonly LaunchConfig[] = [
      { grid: 1, block: [1, 1, 65] },
      { grid: 1, block: 1025 },
      { grid: [1, 65536], block: 1 },
    ]
    for (const shape of shapes) {
      stream.beginCapture()
      other.beginCapture()
      refusedByDriver(() => stream.launch(nothing, shape), 1)
      assert.equal(stream.isCapturing, true)
      refusedByDriver(() => stream.launchHostFunc(() => assert.fail('it ran')), 901)
      refusedByDriver(() => stream.launch(nothing, { grid: 1, block: 1 }), 901)
      refusedByDriver(() => stream.endCapture(), 901)
      other.endCapture().close()

      // What joined is in the same capture.
      stream.beginCapture()
      other.wait(stream)
      refusedByDriver(() => other.launch(nothing, shape), 1)
      refusedByDriver(() => stream.endCapture(), 901)

      // Beside a capture it is a refusal and nothing more.
      stream.beginCapture('relaxed')
      refusedByDriver(() => other.launch(nothing, shape), 1)
      stream.endCapture().close()
    }
    usable(stream, other)
  })

  test('R3 902: a wait between two captures invalidates both', () => {
    const [stream, other] = two()
    stream.beginCapture()
    other.beginCapture()
    const event = stream.record()
    refusedByDriver(() => other.wait(event), 902)
    refusedByDriver(() => other.endCapture(), 901)
    refusedByDriver(() => stream.endCapture(), 901)
    usable(stream, other)
  })

  test('R1 900: a call that no capture allows beside it invalidates every capture', () => {
    const [stream, other] = two()
    const old = bench.stream()
    stillWorks(bench, old)
    for (const forbidden of [() => old.query(), () => device.synchronize()]) {
      stream.beginCapture('global')
      other.beginCapture('global')
      refusedByDriver(forbidden, 900)
      refusedByDriver(() => stream.endCapture(), 901)
      refusedByDriver(() => other.endCapture(), 901)
    }
    usable(stream, other, old)
  })

  test('R4 903: only the stream that began a capture can end it', () => {
    const [stream, joined] = two()
    stream.beginCapture()
    joined.wait(stream)
    refusedByDriver(() => joined.endCapture(), 903)
    refusedByDriver(() => stream.endCapture(), 901)
    usable(stream, joined)
  })

  test('R4 904: a stream that joined, has work, and is not waited for', () => {
    const [stream, joined] = two()
    stream.beginCapture()
    joined.wait(stream)
    bench.busy(joined, 1000)
    refusedByDriver(() => stream.endCapture(), 904)
    usable(stream, joined)
  })

  test('R3 905: waiting for an event from outside, unless it is external', () => {
    const [stream, other] = two()
    const outside = other.record()
    stream.beginCapture()
    refusedByDriver(() => stream.wait(outside), 905)
    refusedByDriver(() => stream.endCapture(), 901)
    usable(stream, other)
  })

  test('R5 906: work on the null stream while a blocking stream captures', () => {
    const stream = bench.stream({ nonBlocking: false })
    stillWorks(bench, stream)
    stream.beginCapture()
    refusedByDriver(() => device.defaultStream.record(), 906)
    refusedByDriver(() => stream.endCapture(), 901)
    usable(stream)
  })

  test('R5 906 invalidates the capture of every blocking stream, and of no other', () => {
    const blocking = [bench.stream({ nonBlocking: false }), bench.stream({ nonBlocking: false })]
    const [other] = two()
    for (const stream of blocking) stillWorks(bench, stream)
    for (const stream of [...blocking, other]) stream.beginCapture('relaxed')
    refusedByDriver(() => device.defaultStream.record(), 906)
    for (const stream of blocking) refusedByDriver(() => stream.endCapture(), 901)
    other.endCapture().close()
    usable(...blocking, other)
  })

  for (const call of ['record', 'record external', 'wait external'] as const) {
    test(`R5 906 invalidates the capture while host functions are pending too: ${call}`, async () => {
      const stream = bench.stream({ nonBlocking: false })
      const [held] = two()
      using event = device.createEvent({ timing: true })
      using done = held.record({ timing: true })
      using latch = bench.latch(held)
      held.launchHostFunc(() => {})
      stream.beginCapture('relaxed')
      const { defaultStream } = device
      const calls = {
        record: () => defaultStream.record(event),
        'record external': () => defaultStream.record(event, { external: true }),
        'wait external': () => defaultStream.wait(done, { external: true }),
      }
      refusedByDriver(calls[call], 906)
      refusedByDriver(() => stream.endCapture(), 901)
      latch.open()
      await held.finished()
      usable(stream, held)
    })
  }

  /** What pends on another stream, and what lets it go on. */
  const PENDING: Readonly<Record<string, (held: Stream) => () => void>> = {
    nothing: () => () => {},
    'a host function': (held) => {
      const latch = bench.latch(held)
      held.launchHostFunc(() => {})
      return () => latch.open()
    },
    'a promise': (held) => {
      const { promise, resolve } = promised()
      held.wait(promise)
      return resolve
    },
    'a value': (held) => standingAtValue(held, (flags) => held.waitValue(flags, 1)),
    'another library’s wait': (held) => bench.latch(held).open,
    'a promise and a callback': (held) => {
      const { promise, resolve } = promised()
      held.addCallback(() => {}, undefined).wait(promise)
      return resolve
    },
  }
  for (const [what, pend] of Object.entries(PENDING)) {
    for (const where of ['another', 'null'] as const) {
      test(`R2 a stream whose capture is invalidated answers the same while there is ${what} on ${where === 'null' ? 'the null stream' : 'another stream'}`, async () => {
        const { defaultStream } = device
        const [other, done] = two()
        const held = where === 'null' ? defaultStream : other
        const stream = bench.stream({ nonBlocking: false })
        const event = done.record()
        const letGo = pend(held)
        try {
          stream.beginCapture('relaxed')
          const taken = stream.record()
          refusedByDriver(() => defaultStream.record(), 906)
          const calls: readonly (readonly [number, () => unknown])[] = [
            [900, () => stream.synchronize()],
            [900, () => stream.query()],
            [901, () => stream.record(event)],
            [901, () => stream.wait(event)],
            [901, () => stream.wait(done)],
            [901, () => stream.launchHostFunc(() => {})],
            [900, () => stream.wait(device)],
            [900, () => device.synchronize()],
            [1, () => taken.query()],
            [1, () => taken.synchronize()],
            [1, () => done.wait(taken)],
          ]
          for (const [number, call] of calls) refusedByDriver(call, number)
          await assert.rejects(stream.finished(), { number: 900 })
          assert.equal(stream.isCapturing, true)
          refusedByDriver(() => stream.endCapture(), 901)
        } finally {
          letGo()
        }
        await held.finished()
        usable(stream, done, other)
      })
    }
  }

  test('R5 906 is the answer of a null stream that is asked whether it captures, which invalidates nothing', () => {
    const stream = bench.stream({ nonBlocking: false })
    stillWorks(bench, stream)
    stream.beginCapture()
    refusedByDriver(() => device.defaultStream.isCapturing, 906)
    stream.endCapture().close()
    usable(stream)
  })

  test('R8 a null stream tells its properties beside the capture of a blocking stream, also if none was read before', () => {
    const stream = bench.stream({ nonBlocking: false })
    const facts = ({ id, priority, nonBlocking }: Stream): unknown => ({ id, priority, nonBlocking })
    const before = facts(new ExternalStream(0n, { device }))
    stream.beginCapture()
    const beside = new ExternalStream(1n, { device })
    assert.deepEqual(facts(beside), before)
    assert.equal(Stream.from(beside.share()), beside)
    stream.endCapture().close()
    usable(stream)
  })

  test('R1 900: an event for other processes is recorded or waited for in a capture only as external', () => {
    const [stream, outside] = two()
    for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
      for (const wasRecorded of [false, true]) {
        using event = device.createEvent({ interprocess: true })
        if (wasRecorded) outside.record(event).synchronize()
        // A record that is refused leaves the capture as it is.
        stream.beginCapture(mode)
        refusedByDriver(() => stream.record(event), 900)
        refusedByDriver(() => stream.wait(stream, { event }), 900)
        stream.record(event, { external: true })
        stream.wait(event, { external: true })
        using graph = stream.endCapture()
        assert.equal(graph.nodeCount, 2)

        stream.beginCapture(mode)
        refusedByDriver(() => stream.wait(event), 900)
        refusedByDriver(() => stream.record(event, { external: true }), 901)
        refusedByDriver(() => stream.endCapture(), 901)
      }
    }
    usable(stream, outside)
  })

  test('R2 901 and R5 906 come before what is wrong with a launch', async () => {
    const [stream, other] = two()
    await nothing.prepare(device)
    stream.launch(nothing, { grid: 1, block: 1 }).synchronize()
    for (const wrong of [
      { grid: 1, block: 1025 },
      { grid: 1, block: [1, 1, 65] },
      { grid: [1, 65536], block: 1 },
    ]) {
      stream.beginCapture()
      refusedByDriver(() => stream.query(), 900)
      refusedByDriver(() => stream.launch(nothing, wrong as LaunchConfig), 901)
      refusedByDriver(() => stream.endCapture(), 901)

      const blocking = bench.stream({ nonBlocking: false })
      blocking.beginCapture('relaxed')
      refusedByDriver(() => device.defaultStream.launch(nothing, wrong as LaunchConfig), 906)
      refusedByDriver(() => blocking.endCapture(), 901)
      blocking.close()
    }
    usable(stream, other)
  })

  test('R5 906: a graph is neither launched nor uploaded on the null stream beside the capture of a blocking stream', () => {
    const [stream, blocking] = [bench.stream(), bench.stream({ nonBlocking: false })]
    using exec = stream.capture(() => bench.busy(stream, 1000)).instantiate()
    for (const call of [() => exec.launch(device.defaultStream), () => exec.upload(device.defaultStream)]) {
      blocking.beginCapture('relaxed')
      refusedByDriver(call, 906)
      refusedByDriver(() => blocking.endCapture(), 901)
    }
    usable(stream, blocking)
  })

  test('R2 other code is not called where CUDA would refuse what it queues', () => {
    const [stream, other] = two()
    const foreign = { name: 'work of other code', simulate() {} }
    const called = (): void => assert.fail('it was called')
    stream.beginCapture()
    other.wait(stream)
    refusedByDriver(() => stream.query(), 900)
    for (const member of [stream, other]) refusedByDriver(() => member.external(foreign, called), 901)
    refusedByDriver(() => stream.endCapture(), 901)

    // The capture goes on: nothing was queued.
    const blocking = bench.stream({ nonBlocking: false })
    blocking.beginCapture()
    refusedByDriver(() => device.defaultStream.external(foreign, called), 906)
    blocking.endCapture().close()
    usable(stream, other, blocking)
  })

  test('R6 907: an event of a capture has no work to wait for; once the capture is over it is no record at all', () => {
    const [stream, other] = two()
    stream.beginCapture('relaxed')
    const event = stream.record()
    refusedByDriver(() => event.query(), 907)
    refusedByDriver(() => stream.endCapture(), 901)

    stream.beginCapture('relaxed')
    stream.record(event)
    stream.endCapture().close()
    refusedByDriver(() => event.query(), 1)
    refusedByDriver(() => event.synchronize(), 1)
    refusedByDriver(() => other.wait(event), 1)
    other.record(event)
    event.synchronize()
    usable(stream, other)
  })

  test('R6 an event whose record went with a capture is refused with that reason, and what to do', async () => {
    const [stream, other] = two()
    using buffer = device.alloc(16, { stream })
    using event = device.createEvent({ timing: true })
    using outside = other.record(device.createEvent({ timing: true }))
    await other.finished()
    const says = /in a capture.*\{ external: true \}/
    using graph = stream.capture(() => void stream.fill(buffer, 1).record(event))
    for (const use of [
      () => event.query(),
      () => event.synchronize(),
      () => other.wait(event),
      () => other.run(() => event.wait()),
      () => event.elapsedSince(outside),
      () => outside.elapsedSince(event),
      () => event.elapsedSince(event),
    ]) {
      assert.throws(use, (error) => error instanceof CudaError && says.test(error.message))
    }
    await assert.rejects(event.finished(), says)
    using exec = graph.instantiate()
    exec.launch(stream)
    // A launch records nothing either.
    assert.throws(() => event.query(), says)
    other.record(event)
    event.synchronize()
    assert.equal(typeof event.elapsedSince(outside), 'number')
    usable(stream, other)
  })

  for (const within of [false, true]) {
    test(`G9 an event that is captured, and that a launch${within ? ' of a graph within a graph' : ''} records then, can be awaited`, async () => {
      using stream = bench.stream()
      using other = bench.stream()
      using event = device.createEvent()
      using inner = other.capture(() => void other.record(event, { external: true }))
      using outer = other.capture(() => void other.launch(inner))
      using exec = (within ? outer : inner).instantiate()
      stream.beginCapture('relaxed')
      stream.record(event)
      await assert.rejects(event.finished(), { number: 907 })
      other.launch(exec)
      assert.equal(await event.finished(), undefined)
      using graph = stream.endCapture()
      assert.equal(graph.nodeCount, 0)
    })
  }

  test('R6 1: an event whose record went with a capture is not waited for, though a graph that was launched right then records it', async () => {
    const [stream, other] = two()
    stream.beginCapture('relaxed')
    const event = stream.record()
    stream.endCapture().close()
    using exec = other.capture(() => void other.record(event, { external: true })).instantiate()
    await assert.rejects(event.finished(), { number: 1 })
    const finished = event.finished()
    other.launch(exec)
    await assert.rejects(finished, { number: 1 })
    await event.finished()
    usable(stream, other)
  })

  test('R4 908: another thread cannot end it, and it is over by that; in relaxed mode it can', async (context) => {
    if (bench.name === 'sim') {
      context.skip('on the simulator only the thread that captures a stream uses it: ERR_UNSUPPORTED')
      return
    }
    for (const [mode, expected] of [
      ['global', 908],
      ['threadLocal', 908],
      ['relaxed', 0],
    ] as const) {
      const stream = bench.stream()
      stillWorks(bench, stream)
      stream.beginCapture(mode)
      const worker = new Worker(fileURLToPath(new URL('./children/end-capture.js', import.meta.url)), {
        workerData: stream.handle,
      })
      const exited = once(worker, 'exit')
      const [answer]: unknown[] = await once(worker, 'message')
      assert.equal(answer, expected, mode)
      await exited
      refusedByDriver(() => stream.endCapture(), 401)
      usable(stream)
    }
  })

  test('R4 a joined stream that is closed leaves the capture as it was; the first one ends it', () => {
    const [stream, joined] = two()
    stream.beginCapture()
    joined.wait(stream)
    joined.close()
    assert.equal(stream.endCapture().nodeCount, 0)

    const second = bench.stream()
    stillWorks(bench, second)
    stream.beginCapture()
    second.wait(stream)
    assert.equal(second.isCapturing, true)
    stream.close()
    assert.equal(second.isCapturing, false)
    refusedByDriver(() => second.endCapture(), 401)
    usable(second)
  })
})
