/** What is recorded of a program on the simulator, whose times are exact. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, defineKernel, Stream } from 'cuda-streams'
import { busy, fault, latch, type Simulation, simulate } from 'cuda-streams/sim'
import { nameStream, Timeline, type TimelineOperation, TimelineSession } from 'cuda-streams/timeline'
import fc from 'fast-check'
import { driverOf } from '../../../src/core/device.js'
import type { TimelineInterceptor } from '../../../src/tools/timeline/timeline-interceptor.js'
import { collectUntil, follow, refused, rejected, turns } from '../../conformance/expect.js'
import { programs, runProgram } from '../../properties/ordered-play.js'

/** Virtual nanoseconds that each call to the simulated driver takes. */
const CALL = 100

function machine(): { simulation: Simulation; device: Device; a: Stream; b: Stream } {
  const simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  return { simulation, device, a: new Stream({ device }), b: new Stream({ device }) }
}

/** The operations, each as far as a story needs it. */
const story = (operations: readonly TimelineOperation[]): unknown[] =>
  operations.map(({ kind, name, stream, start, end }) => [kind, name, stream.name, start, end])

describe('recording on the simulator', () => {
  it('knows when each operation was queued, began and ended, to the nanosecond', async () => {
    const { simulation, a } = machine()
    nameStream(a, 'a')
    const timeline = await Timeline.record(
      () => {
        busy(a, 1000)
        busy(a, 500)
      },
      { simulation },
    )
    assert.equal(timeline.clock, 'virtual')
    assert.equal(timeline.driver, 'sim')
    assert.deepEqual(
      timeline.operations.map(({ called, start, end }) => ({ called, start, end })),
      [
        { called: CALL, start: CALL, end: CALL + 1000 },
        { called: 2 * CALL, start: CALL + 1000, end: CALL + 1500 },
      ],
    )
    assert.equal(timeline.operations[0]?.stream.name, 'a')
    assert.equal(timeline.duration, CALL + 1500)
    assert.deepEqual(timeline.calibrations, [])
  })

  it('shows work of streams of green contexts side by side, with the share of each in its name', async () => {
    const { simulation, device, a } = machine()
    const [small, rest] = device.split({ multiprocessors: [16] })
    const [one, other] = [new Stream({ context: small }), new Stream({ context: rest })]
    const timeline = await Timeline.record(
      () => {
        for (const stream of [one, other, a]) busy(stream, 1000)
      },
      { simulation },
    )
    assert.deepEqual(
      timeline.operations.map(({ stream, start, end }) => [stream.multiprocessors, start, end]),
      [
        [16, 100, 1100],
        [116, 200, 1200],
        [undefined, 300, 1300],
      ],
    )
    const names = timeline.operations.map(({ stream }) => stream.name)
    assert.deepEqual(names, [
      `stream ${one.id} (16 multiprocessors)`,
      `stream ${other.id} (116 multiprocessors)`,
      `stream ${a.id}`,
    ])
    assert.match(timeline.toText(), /\(16 multiprocessors\)/)
  })

  it('shows a wait from when its stream gets there until the record is done', async () => {
    const { simulation, a, b } = machine()
    nameStream(a, 'a')
    nameStream(b, 'b')
    const timeline = await Timeline.record(
      () => {
        busy(a, 1000)
        b.wait(a)
        busy(b, 100)
      },
      { simulation },
    )
    assert.deepEqual(story(timeline.operations), [
      ['kernel', 'busy', 'a', 100, 1100],
      ['record', 'record', 'a', 1100, 1100],
      ['wait', 'wait', 'b', 300, 1100],
      ['kernel', 'busy', 'b', 1100, 1200],
    ])
    const [, record, wait] = timeline.operations
    assert.equal(wait?.record, record?.id)
  })

  it('ties a wait to the record that was latest when it was queued', async () => {
    const { simulation, device, a, b } = machine()
    const event = device.createEvent()
    const timeline = await Timeline.record(
      () => {
        busy(a, 1000)
        a.record(event)
        b.wait(event)
        busy(a, 1000)
        a.record(event)
      },
      { simulation },
    )
    const wait = timeline.operations.find(({ kind }) => kind === 'wait')
    const records = timeline.operations.filter(({ kind }) => kind === 'record')
    assert.equal(wait?.record, records[0]?.id)
    assert.equal(wait?.end, records[0]?.end)
  })

  it('knows kernels by their names, and copies and fills by their bytes', async () => {
    const { simulation, device, a } = machine()
    const scale = defineKernel({
      name: 'scale',
      source: '',
      signature: ['inout f32*'],
      nanoseconds: 700,
      simulateGrid() {},
    })
    const buffer = device.alloc(4096, { stream: a })
    const pinned = device.allocPinned(4096)
    const timeline = await Timeline.record(
      () => {
        a.copy(buffer, pinned)
        a.launch(scale, { grid: 1, block: 32 }, buffer)
        a.fill(buffer, 0)
        buffer.close()
      },
      { simulation },
    )
    const work = timeline.operations.filter(({ kind }) => kind !== 'record' && kind !== 'wait')
    assert.deepEqual(
      work.map(({ kind, name, byteLength }) => [kind, name, byteLength]),
      [
        ['copy', 'copy', 4096],
        ['kernel', 'scale', undefined],
        ['fill', 'fill', 4096],
        ['free', 'free', undefined],
      ],
    )
    const kernel = work[1]
    assert.equal((kernel?.end ?? 0) - (kernel?.start ?? 0), 700)
  })

  it('has none of what the library records for itself, and its waits are for what they are about', async () => {
    const { simulation, device, a, b } = machine()
    const timeline = await Timeline.record(
      async () => {
        const buffer = device.alloc(64, { stream: a })
        const pinned = device.allocPinned(64)
        b.copy(buffer, pinned)
        await b.finished()
        buffer.close()
        const other = device.alloc(64, { stream: a })
        b.copy(other, pinned)
        other.close()
        pinned.close()
      },
      { simulation },
    )
    const { operations } = timeline
    const kindOf = (id: number | undefined): string | undefined => operations.find((one) => one.id === id)?.kind
    assert.deepEqual(
      operations.map(({ kind, stream, record }) => [kind, stream.index, kindOf(record)]),
      [
        ['allocate', 0, undefined],
        ['wait', 1, 'allocate'],
        ['copy', 1, undefined],
        ['free', 0, undefined],
        ['allocate', 0, undefined],
        ['wait', 1, 'allocate'],
        // The second free comes after work of another stream that is not done, so that it is in the order of none.
        ['copy', 1, undefined],
      ],
    )
  })

  it('has host functions, with what they call', async () => {
    const { simulation, a, b } = machine()
    const timeline = await Timeline.record(
      async () => {
        busy(a, 1000)
        a.launchHostFunc(() => void b.record())
        a.addCallback(() => {}, undefined)
        await a.finished()
      },
      { simulation },
    )
    const [, host, callback, record] = timeline.operations
    assert.equal(host?.name, 'host function')
    assert.equal(callback?.name, 'callback')
    assert.equal(host?.start, 1100)
    assert.equal(record?.kind, 'record')
    assert.ok(host !== undefined && record !== undefined)
    assert.ok((host.start ?? 0) <= record.called && record.returned <= (host.end ?? 0), 'the call is inside')
    assert.deepEqual(
      timeline.calls.map(({ name, awaits }) => ({ name, awaits })),
      [{ name: 'stream.finished()', awaits: true }],
    )
  })

  it('has a launch of a graph with its nodes, and nothing of the capture', async () => {
    const { simulation, a, b } = machine()
    const timeline = await Timeline.record(
      () => {
        const graph = a.capture(() => {
          busy(a, 1000)
          b.wait(a)
          busy(b, 3000)
          busy(a, 2000)
          a.launchHostFunc(() => {})
          a.wait(b)
        })
        const exec = graph.instantiate()
        a.launch(exec)
        busy(a, 10)
        a.synchronize()
      },
      { simulation },
    )
    const [graph, ...rest] = timeline.operations
    assert.ok(graph?.kind === 'graph')
    const from = graph.start ?? 0
    assert.deepEqual(
      rest.map(({ kind, graph: parent, start, end }) => [kind, parent, (start ?? 0) - from, (end ?? 0) - from]),
      [
        ['kernel', graph.id, 0, 1000],
        ['kernel', graph.id, 1000, 4000],
        ['kernel', graph.id, 1000, 3000],
        ['hostFunction', graph.id, 3000, 3000],
        ['kernel', undefined, 4000, 4010],
      ],
    )
    assert.equal(graph.end, from + 4000)
    assert.deepEqual(
      timeline.calls.map(({ name, stream }) => [name, stream?.id]),
      [['stream.synchronize()', a.id]],
    )
  })

  it('shows work that waits for a free copy engine when it runs, not when it is ready', async () => {
    const { simulation, device, a, b } = machine()
    const [to, from] = [device.alloc(500_000), device.allocPinned(500_000)]
    const other = device.alloc(500_000)
    const timeline = await Timeline.record(
      () => {
        a.copy(to, from)
        b.copy(other, from)
      },
      { simulation },
    )
    const [first, second] = timeline.operations.filter(({ kind }) => kind === 'copy')
    assert.equal((first?.end ?? 0) - (first?.start ?? 0), 10_000)
    assert.equal(second?.start, first?.end)
  })

  it('leaves out what the driver refused', async () => {
    const { simulation, a } = machine()
    const timeline = await Timeline.record(
      () => {
        a.beginCapture()
        refused(() => a.addCallback(() => {}, undefined), 'CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED')
        a.endCapture().close()
        busy(a, 10)
      },
      { simulation },
    )
    assert.deepEqual(
      timeline.operations.map(({ kind }) => kind),
      ['kernel'],
    )
  })

  it('has the call sites on demand', async () => {
    const { simulation, a } = machine()
    const timeline = await Timeline.record(() => void a.record(), { simulation, callSites: true })
    assert.match(timeline.operations[0]?.callSite ?? '', /recording\.test\.js:\d+:\d+$/)
    const without = await Timeline.record(() => void a.record(), { simulation })
    assert.equal(without.operations[0]?.callSite, undefined)
  })

  it('what is not done when it is stopped has no end; what never ran has no beginning', () => {
    const { simulation, a } = machine()
    const recording = Timeline.start({ simulation })
    const held = latch(a)
    busy(a, 10)
    const timeline = recording.stopNow()
    held.open()
    assert.deepEqual(
      timeline.operations.map(({ kind, start, end }) => [kind, start, end]),
      [
        ['latch', 100, undefined],
        ['kernel', undefined, undefined],
      ],
    )
  })

  it('a graph that runs when it is stopped has begun, and has no end', () => {
    const { simulation, a } = machine()
    const exec = a.capture(() => void busy(a, 1000)).instantiate()
    const recording = Timeline.start({ simulation })
    a.launch(exec)
    assert.deepEqual(
      recording.stopNow().operations.map(({ kind, start, end }) => [kind, start, end]),
      [
        ['graph', CALL, undefined],
        ['kernel', CALL, undefined],
      ],
    )
  })

  it('a promise that has not settled when it is stopped returned when it was called', () => {
    const { simulation, a } = machine()
    const held = latch(a)
    const timeline = Timeline.start({ simulation })
    void a.finished()
    const recorded = timeline.stopNow()
    held.open()
    assert.deepEqual(
      recorded.calls.map(({ called, returned }) => returned - called),
      [0],
    )
    assert.ok(recorded.duration >= 0)
  })

  it('waits for what was recorded, without being asked to', async () => {
    const { simulation, a } = machine()
    const held = latch(a)
    const timeline = await Timeline.record(
      () => {
        busy(a, 1_000_000)
        setImmediate(() => held.open())
      },
      { simulation },
    )
    assert.equal(timeline.operations[0]?.end, (timeline.operations[0]?.start ?? 0) + 1_000_000)
  })

  it('waits while a stream captures, and leaves the capture as it is', async () => {
    const { simulation, device, a, b } = machine()
    const buffer = device.alloc(16, { stream: a })
    const recording = Timeline.start({ simulation })
    busy(b, 1_000_000)
    a.beginCapture()
    a.fill(buffer, 1)
    const { operations } = await recording.stop()
    const graph = a.endCapture()
    assert.equal(graph.nodeCount, 1)
    assert.deepEqual(
      operations.map(({ kind, start, end }) => [kind, (end ?? 0) - (start ?? 0)]),
      [['kernel', 1_000_000]],
    )
  })

  it('waits for what was recorded, and for nothing else', async () => {
    const { simulation, a, b } = machine()
    const held = latch(b)
    const recording = Timeline.start({ simulation })
    busy(a, 1000)
    const stopped = recording.stop()
    const waiting = follow(stopped)
    await turns()
    const { settled } = waiting
    held.open()
    assert.ok(settled)
    const { operations } = await stopped
    assert.deepEqual(
      operations.map(({ start, end }) => (end ?? 0) - (start ?? 0)),
      [1000],
    )
  })

  it('goes on where the device is lost', async () => {
    const { simulation, a } = machine()
    const timeline = await Timeline.record(
      async () => {
        fault(a)
        busy(a, 10)
        await rejected(() => a.finished(), 'CUDA_ERROR_ILLEGAL_ADDRESS')
      },
      { simulation },
    )
    assert.deepEqual(
      timeline.operations.map(({ kind, start }) => [kind, start]),
      [
        ['fault', 100],
        ['kernel', undefined],
      ],
    )
  })

  it('recordings overlap, each with its own beginning and end', async () => {
    const { simulation, a } = machine()
    const outer = Timeline.start({ simulation })
    busy(a, 1000)
    const inner = Timeline.start({ simulation })
    busy(a, 2000)
    const first = await outer.stop()
    busy(a, 3000)
    const second = await inner.stop()
    const lengths = (timeline: Timeline): number[] =>
      timeline.operations.map(({ start, end }) => (end ?? 0) - (start ?? 0))
    assert.deepEqual(lengths(first), [1000, 2000])
    assert.deepEqual(lengths(second), [2000, 3000])
    assert.equal(second.operations[0]?.called, CALL)
  })

  it('a recording that begins while operations of an earlier one still run mixes nothing up', async () => {
    const { simulation, a, b } = machine()
    const first = Timeline.start({ simulation })
    busy(a, 5000)
    first.stopNow()
    const timeline = await Timeline.record(() => busy(b, 10_000), { simulation })
    const [only, ...none] = timeline.operations
    assert.deepEqual(none, [])
    assert.equal((only?.end ?? 0) - (only?.start ?? 0), 10_000)
  })

  it('a recording that waits in stop() is not cut off by another that ends', async () => {
    const { simulation, a } = machine()
    const first = Timeline.start({ simulation })
    const second = Timeline.start({ simulation })
    const held = latch(a)
    busy(a, 1000)
    const stopped = first.stop()
    second.stopNow()
    held.open()
    const { operations } = await stopped
    assert.deepEqual(
      operations.map(({ kind, start, end }) => [kind, start, end]),
      [
        ['latch', CALL, 2 * CALL],
        ['kernel', 2 * CALL, 2 * CALL + 1000],
      ],
    )
  })

  it('nor by one that begins meanwhile, and has nothing of what follows', async () => {
    const { simulation, device, a, b } = machine()
    const front = driverOf(device)
    const first = Timeline.start({ simulation })
    const { writer } = front.interceptors[0] as TimelineInterceptor
    const held = latch(a)
    busy(a, 1000)
    const stopped = first.stop()
    assert.deepEqual(front.interceptors, [], 'nothing more passes through it')
    busy(b, 1000)
    const second = Timeline.start({ simulation })
    const third = second.stop()
    const last = Timeline.start({ simulation })
    busy(b, 500)
    last.stopNow()
    busy(b, 500)
    held.open()
    const { operations } = await stopped
    assert.deepEqual((await third).operations, [])
    assert.deepEqual(
      operations.map(({ kind, end }) => [kind, end !== undefined]),
      [
        ['latch', true],
        ['kernel', true],
      ],
    )
    assert.equal(writer.table.length, operations.length)
  })

  it('leaves nothing behind where each recording begins before the one before is over', async () => {
    const { simulation, device, a } = machine()
    const front = driverOf(device)
    let recording = Timeline.start({ simulation })
    const tables: WeakRef<object>[] = []
    for (let i = 0; i < 5; i += 1) {
      tables.push(new WeakRef((front.interceptors[0] as TimelineInterceptor).writer.table))
      busy(a, 10)
      const stopped = recording.stop()
      recording = Timeline.start({ simulation })
      await stopped
    }
    const isGone = await collectUntil(() => tables.every((table) => table.deref() === undefined))
    recording.stopNow()
    assert.ok(isGone)
  })

  it('tells apart streams that had the same handle', async () => {
    const { simulation, device } = machine()
    const timeline = await Timeline.record(
      () => {
        const first = new Stream({ device })
        busy(first, 10)
        first.synchronize()
        first.close()
        const second = new Stream({ device })
        assert.equal(second.handle, first.handle)
        busy(second, 10)
      },
      { simulation },
    )
    assert.equal(timeline.streams.length, 2)
  })

  it('stops at its limit, and says how much is missing', async () => {
    const { simulation, a } = machine()
    const timeline = await Timeline.record(
      () => {
        for (let i = 0; i < 5; i += 1) a.record()
      },
      { simulation, limit: 3 },
    )
    assert.equal(timeline.operations.length, 3)
    assert.equal(timeline.dropped, 2)
  })

  it('keeps to its limit whatever is queued, alone and beside a recording that has more room', async () => {
    const { simulation, device, a, b } = machine()
    const buffer = device.alloc(16, { stream: a })
    const graph = a.capture(() => void a.fill(buffer, 1).fill(buffer, 2).fill(buffer, 3)).instantiate()
    const programs: Record<string, { readonly limit: number; readonly run: () => void; readonly counts: number[] }> = {
      fills: {
        limit: 5,
        run: () => {
          for (let i = 0; i < 20; i += 1) a.fill(buffer, i)
        },
        counts: [5, 15],
      },
      'the simulator’s own entry point': {
        limit: 5,
        run: () => {
          for (let i = 0; i < 20; i += 1) busy(a, 10)
        },
        counts: [5, 15],
      },
      'a record without its wait': { limit: 3, run: () => void a.wait(b).wait(b).wait(b), counts: [3, 3] },
      'a graph without some of its nodes': { limit: 6, run: () => void a.launch(graph).launch(graph), counts: [6, 2] },
      'graphs with theirs': { limit: 8, run: () => void a.launch(graph).launch(graph).launch(graph), counts: [8, 1] },
    }
    for (const [what, { limit, run, counts }] of Object.entries(programs)) {
      const alone = await Timeline.record(run, { simulation, limit })
      assert.deepEqual([alone.operations.length, alone.dropped], counts, what)
      const wider = Timeline.start({ simulation })
      const beside = Timeline.start({ simulation, limit })
      run()
      const stopped = beside.stop()
      run()
      const { operations, dropped } = await stopped
      wider.stopNow()
      assert.deepEqual([operations.length, dropped], counts, `${what}, beside another`)
      const kinds = (of: readonly TimelineOperation[]): unknown[] =>
        of.map(({ kind, end }) => [kind, end !== undefined])
      assert.deepEqual(kinds(operations), kinds(alone.operations))
    }
  })

  it('counts nothing that comes when it is stopped', async () => {
    const { simulation, a } = machine()
    const other = Timeline.start({ simulation, limit: 3 })
    const recording = Timeline.start({ simulation, limit: 1 })
    const held = latch(a)
    const stopped = recording.stop()
    for (let i = 0; i < 5; i += 1) a.record()
    held.open()
    assert.equal((await stopped).dropped, 0)
    assert.equal(other.stopNow().dropped, 3)
  })

  it('leaves the driver as it was, also where the function throws', async () => {
    const { simulation, device } = machine()
    const front = driverOf(device)
    await assert.rejects(
      Timeline.record(
        () => {
          throw new Error('mine')
        },
        { simulation },
      ),
      /mine/,
    )
    assert.deepEqual(front.interceptors, [])
    await Timeline.record(async () => assert.equal(front.interceptors.length, 1), { simulation })
    assert.deepEqual(front.interceptors, [])
  })

  it('rejects with what the function throws, also where that has stopped the recording itself', async () => {
    const { simulation } = machine()
    const mine = new Error('mine')
    const recorded = Timeline.record(
      async () => {
        await Timeline.stop()
        throw mine
      },
      { simulation },
    )
    await assert.rejects(recorded, (error) => error === mine)
    await rejected(() => Timeline.stop(), 'ERR_CLOSED')
  })

  it('changes nothing of what is recorded: every program runs as without it, to the nanosecond', async () => {
    const seeds = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2 ** 31 - 1 }))
    await fc.assert(
      fc.asyncProperty(programs(['nonBlocking', 'blocking', 'null']), seeds, async (program, seed) => {
        const recorded = runProgram(program, seed, (simulation, run) => Timeline.record(run, { simulation }))
        assert.deepEqual(await recorded, await runProgram(program, seed))
      }),
      { seed: 20_251_120, numRuns: 200 },
    )
  })

  it('in every program, streams do one thing at a time and waits end with their records', async () => {
    const seeds = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2 ** 31 - 1 }))
    await fc.assert(
      fc.asyncProperty(programs(['nonBlocking', 'blocking', 'null']), seeds, async (program, seed) => {
        await runProgram(program, seed, async (simulation, run) => {
          const { operations } = await Timeline.record(run, { simulation })
          const until = new Map<unknown, number>()
          for (const { kind, stream, called, start, end, record } of operations) {
            assert.ok(start !== undefined && end !== undefined && called <= start && start <= end)
            if (kind !== 'record') assert.ok(start >= (until.get(stream) ?? 0), `${kind} overlaps`)
            until.set(stream, Math.max(end, until.get(stream) ?? 0))
            const waited = operations.find(({ id }) => id === record)
            if (waited !== undefined) assert.ok((waited.end ?? 0) <= end)
          }
        })
      }),
      { seed: 20_251_120, numRuns: 100 },
    )
  })
})

describe('Timeline refuses', () => {
  it('what is no function, no device, no limit', async () => {
    const { simulation, device, a } = machine()
    await rejected(() => Timeline.record('x' as never), 'ERR_INVALID_ARG_TYPE')
    refused(() => Timeline.start({ simulation: {} as never }), 'ERR_INVALID_ARG_TYPE')
    refused(() => Timeline.start({ simulation, device }), 'ERR_INVALID_ARG_VALUE')
    refused(() => Timeline.start({ simulation, limit: 0 }), 'ERR_OUT_OF_RANGE')
    refused(() => Timeline.start({ simulation, callSites: 1 as never }), 'ERR_INVALID_ARG_TYPE')
    refused(() => nameStream(a, 1 as never), 'ERR_INVALID_ARG_TYPE')
    refused(() => nameStream({} as never, 'x'), 'ERR_INVALID_ARG_TYPE')
  })

  it('to be made by its constructor, as a TimelineSession does, and stops what was started all the same', async () => {
    const { simulation } = machine()
    const recording = Timeline.start({ simulation })
    refused(() => Reflect.construct(Timeline, []), 'ERR_INVALID_ARG_TYPE', /Timeline\.record/)
    refused(() => Reflect.construct(TimelineSession, []), 'ERR_INVALID_ARG_TYPE', /Timeline\.start/)
    await Timeline.stop()
    await rejected(() => recording.stop(), 'ERR_CLOSED')
  })

  it('to go on where a session was disposed of, which may be stopped before', async () => {
    const { simulation } = machine()
    {
      await using _whole = Timeline.start({ simulation })
      using _part = Timeline.start({ simulation })
      using stopped = Timeline.start({ simulation })
      stopped.stopNow()
    }
    await rejected(() => Timeline.stop(), 'ERR_CLOSED')
  })

  it('to stop twice, or what was not started, and files it cannot write', async () => {
    const { simulation } = machine()
    await rejected(() => Timeline.stop(), 'ERR_CLOSED')
    const recording = Timeline.start({ simulation })
    const timeline = await Timeline.stop()
    await rejected(() => recording.stop(), 'ERR_CLOSED')
    refused(() => recording.stopNow(), 'ERR_CLOSED')
    await rejected(
      () => timeline.save('timeline.gz'),
      'ERR_INVALID_ARG_VALUE',
      /\.html, \.json, \.json\.gz, \.svg or \.txt/,
    )
    refused(() => timeline.toSvg({ width: 3 }), 'ERR_OUT_OF_RANGE')
    refused(() => timeline.toSvg({ width: null as never }), 'ERR_INVALID_ARG_TYPE', /width/)
    for (const from of [Number.NaN, Number.NEGATIVE_INFINITY]) {
      refused(() => timeline.toSvg({ from }), 'ERR_OUT_OF_RANGE', /options\.from/)
    }
    refused(() => timeline.toSvg({ to: Number.POSITIVE_INFINITY }), 'ERR_OUT_OF_RANGE', /options\.to/)
    refused(() => timeline.toSvg({ from: 2, to: 1 }), 'ERR_OUT_OF_RANGE')
  })
})
