/** What holds of a recording on either driver: on a GPU the times come from events, and those may disturb nothing. */
import assert from 'node:assert/strict'
import { before, it } from 'node:test'
import { ExternalStream, type Stream } from 'cuda-streams'
import { Timeline } from 'cuda-streams/timeline'
import { ONE, SPIN, spin } from '../../helpers/spin.js'
import { onEveryBackend } from '../../helpers/suite.js'

const launch = (stream: Stream, nanoseconds = SPIN): Stream => stream.launch(spin, ONE, nanoseconds)

onEveryBackend('Timeline', (bench) => {
  const { device } = bench
  const isReal = bench.name === 'cuda'
  /** What a GPU’s clock may be off by, and what it takes to begin. On the simulator only fractions are rounded. */
  const slack = isReal ? 100_000 : 1

  before(async () => {
    await spin.prepare(device)
    // The first launch of a process takes long.
    launch(device.defaultStream)
    await device.finished()
  })

  it('times what a kernel takes, and puts it between its call and the end of the wait for it', async (context) => {
    const stream = bench.stream()
    const timeline = await Timeline.record(
      async () => {
        launch(stream)
        launch(stream)
        await stream.finished()
      },
      { device },
    )
    const kernels = timeline.operations.filter(({ kind }) => kind === 'kernel')
    assert.equal(kernels.length, 2)
    let until = 0
    for (const { name, called, start, end } of kernels) {
      assert.equal(name, 'spin')
      assert.ok(start !== undefined && end !== undefined)
      const took = end - start
      assert.ok(took >= SPIN - slack && took < (isReal ? 3 * SPIN : SPIN + 1), `${took} ns`)
      assert.ok(called <= start + slack && start >= until)
      until = end
    }
    const [wait] = timeline.calls
    assert.equal(wait?.name, 'stream.finished()')
    assert.ok((wait?.returned ?? 0) + slack >= until, `settled at ${wait?.returned}, and done at ${until}`)
    for (const { device: on, uncertainty, drift, cost } of timeline.calibrations) {
      context.diagnostic(
        `device ${on}: uncertainty ${uncertainty.map(Math.round)} ns, drift ${drift} ppm, cost ${cost / 1e6} ms`,
      )
      assert.ok(uncertainty[0] < 1e6)
    }
    assert.equal(timeline.calibrations.length, isReal ? 1 : 0)
  })

  it('counts what kernels do on the simulator alone, and says so elsewhere', async () => {
    const record = (): Promise<unknown> => Timeline.record(() => {}, { device, profile: true })
    if (!isReal) return void (await record())
    await assert.rejects(record, {
      code: 'ERR_UNSUPPORTED',
      message: /options\.profile is true, and only the simulator counts.*record a device of simulate\(\), or/,
    })
    await Timeline.record(() => {}, { device, profile: false })
  })

  it('shows that what waits begins after what it waits for', async () => {
    const [a, b] = [bench.stream(), bench.stream()]
    const timeline = await Timeline.record(
      async () => {
        // Still runs when the rest is queued, also on a machine that is busy.
        launch(a, 25 * SPIN)
        b.wait(a)
        launch(b)
        await b.finished()
      },
      { device },
    )
    const [first, second] = timeline.operations.filter(({ kind }) => kind === 'kernel')
    const wait = timeline.operations.find(({ kind }) => kind === 'wait')
    assert.ok((second?.start ?? 0) >= (first?.end ?? Number.POSITIVE_INFINITY))
    assert.equal(timeline.operations.find(({ id }) => id === wait?.record)?.stream, first?.stream)
    const [gap] = timeline.gaps.filter(({ reason }) => reason === 'wait')
    assert.equal(gap, undefined, 'b had done nothing before')
    assert.deepEqual(
      timeline.criticalPath.map(({ id }) => id),
      [first?.id, second?.id],
    )
  })

  it('has host functions between the work before and behind them', async () => {
    const stream = bench.stream()
    const timeline = await Timeline.record(
      async () => {
        launch(stream).launchHostFunc(() => {})
        launch(stream)
        await stream.finished()
      },
      { device },
    )
    const [before, host, behind] = timeline.operations
    assert.deepEqual([before?.kind, host?.kind, behind?.kind], ['kernel', 'hostFunction', 'kernel'])
    assert.ok((before?.end ?? Number.NaN) <= (host?.start ?? 0))
    assert.ok((host?.end ?? Number.NaN) <= (behind?.start ?? 0))
  })

  it('puts nothing into a graph that is captured meanwhile, and invalidates no capture', async () => {
    const [a, b] = [bench.stream(), bench.stream()]
    const work = (): void => {
      launch(a)
      b.wait(a)
      launch(b)
      a.launchHostFunc(() => {})
      a.wait(b)
    }
    const bare = a.capture(work).nodeCount
    for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
      const timeline = await Timeline.record(
        async () => {
          const graph = a.capture(
            () => {
              launch(bench.stream())
              work()
            },
            { mode },
          )
          assert.equal(graph.nodeCount, bare)
          const exec = graph.instantiate()
          a.launch(exec)
          await a.finished()
          exec.close()
        },
        { device },
      )
      // On a GPU the kernel writes to a buffer, for whose allocation a stream waits at its first use.
      const top = timeline.operations.filter(({ graph, kind }) => graph === undefined && kind !== 'wait')
      assert.deepEqual(
        top.map(({ kind }) => kind),
        ['kernel', 'graph'],
      )
      const graph = top[1]
      const took = (graph?.end ?? Number.NaN) - (graph?.start ?? 0)
      assert.ok(took >= 2 * SPIN - slack, `the graph took ${took} ns`)
    }
  })

  it('is begun and stopped while a stream captures, and invalidates no capture', () => {
    const [a, b] = [bench.stream(), bench.stream()]
    for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
      const outer = Timeline.start({ device })
      launch(b)
      b.synchronize()
      a.beginCapture(mode)
      launch(a)
      const inner = Timeline.start({ device })
      launch(b)
      inner.stopNow()
      const timeline = outer.stopNow()
      const graph = a.endCapture()
      assert.equal(graph.nodeCount, 1, mode)
      graph.close()
      const [first] = timeline.operations
      assert.ok((first?.end ?? Number.NaN) - (first?.start ?? 0) >= SPIN - slack, mode)
      b.synchronize()
    }
  })

  it('thousands of launches behind one host function do not hang while they are recorded', async () => {
    const stream = bench.stream()
    const many = 5000
    let ran = false
    const timeline = await Timeline.record(
      async () => {
        stream.launchHostFunc(() => {
          ran = true
        })
        for (let i = 0; i < many; i += 1) stream.launch(spin, ONE, 0)
        await stream.finished()
      },
      { device },
    )
    assert.equal(ran, true)
    const kernels = timeline.operations.filter(({ kind }) => kind === 'kernel')
    assert.equal(kernels.length, many)
    assert.ok(kernels.every(({ end }) => end !== undefined))
  })

  it('has the streams of other libraries, by the driver’s number', async () => {
    const handle = bench.foreignStream(device)
    const stream = new ExternalStream(handle, { device })
    const timeline = await Timeline.record(
      async () => {
        launch(stream)
        await stream.finished()
      },
      { device },
    )
    assert.equal(timeline.operations[0]?.stream.id, stream.id)
    stream.close()
    bench.destroyForeignStream(handle)
  })

  it('has copies and fills with their times', async () => {
    const stream = bench.stream()
    const length = 16 * 1024 * 1024
    const [buffer, pinned] = [device.alloc(length), device.allocPinned(length)]
    const timeline = await Timeline.record(
      async () => {
        stream.copy(buffer, pinned).fill(buffer, 7)
        await stream.finished()
      },
      { device },
    )
    for (const kind of ['copy', 'fill']) {
      const found = timeline.operations.find((one) => one.kind === kind)
      assert.equal(found?.byteLength, length)
      assert.ok((found?.end ?? 0) > (found?.start ?? 0), kind)
    }
    buffer.close()
    pinned.close()
  })
})
