/** What held a program up, said in a sentence: a program for each cause, whose times are known to the nanosecond. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { type Device, Stream } from 'cuda-streams'
import { busy, simulate } from 'cuda-streams/sim'
import { nameStream, type Stall, type StallKind, Timeline } from 'cuda-streams/timeline'
import type { ContextHandle, StreamHandle } from '../../../src/foundation/driver/handle-types.js'
import { analyse } from '../../../src/tools/timeline/analysis.js'
import { EventKind, KIND_NAMES } from '../../../src/tools/timeline/kinds.js'
import { describeStall, type StallFacts } from '../../../src/tools/timeline/stalls.js'
import type { Trace } from '../../../src/tools/timeline/trace.js'
import type { StreamTrack } from '../../../src/tools/timeline/tracks.js'

interface Bench {
  readonly device: Device
  readonly a: Stream
  readonly b: Stream
  /** A stream that the null stream orders. */
  readonly blocking: Stream
}

interface Case {
  readonly kind: StallKind
  /** Of one of the stalls; LINE stands for a line of this file. */
  readonly says: string
  readonly advises: RegExp
  readonly seed?: number
  /** The facts by which the advice differs, beside the usual ones. */
  readonly facts?: Partial<StallFacts>
  readonly run: (bench: Bench) => unknown
}

/** A copy of so many bytes takes 10 µs, at 50 bytes a nanosecond. */
const BYTES = 500_000
/** Virtual nanoseconds that each call takes. */
const CALL = 100

async function threeTimes(a: Stream, b: Stream, wait: () => unknown): Promise<void> {
  for (let i = 0; i < 3; i += 1) {
    busy(b, 100)
    busy(a, 2_000_000)
    await wait()
  }
}

function callFor(nanoseconds: number, stream: Stream): void {
  for (let spent = 0; spent < nanoseconds; spent += 2 * CALL) stream.record()
}

const cases: readonly Case[] = [
  {
    kind: 'blockingCall',
    says: '`stream.synchronize()` at summary.test.js:LINE held 2 streams back 4 times, 4.00 ms',
    advises: /`stream\.wait\(other\)`.*`stream\.finished\(\)`/,
    run: ({ a, b }) => threeTimes(a, b, () => a.synchronize()),
  },
  {
    kind: 'blockingCall',
    says: '`event.synchronize()` at summary.test.js:LINE held 2 streams back 4 times, 4.00 ms',
    advises: /`stream\.wait\(event\)`.*`event\.finished\(\)`/,
    run: ({ a, b }) => threeTimes(a, b, () => a.record().synchronize()),
  },
  {
    kind: 'blockingCall',
    says: '`device.synchronize()` at summary.test.js:LINE held 2 streams back 4 times, 4.00 ms',
    advises: /the one stream whose results are read/,
    run: ({ a, b, device }) => threeTimes(a, b, () => device.synchronize()),
  },
  {
    kind: 'blockingCall',
    says: '`device.drainHostFunctions()` at summary.test.js:LINE held 2 streams back 4 times, 4.00 ms',
    advises: /before a blocking call of another library/,
    run: ({ a, b, device }) =>
      threeTimes(a, b, () => {
        a.launchHostFunc(() => {})
        device.drainHostFunctions()
      }),
  },
  {
    kind: 'await',
    says: "`await stream.finished()` on 'a' held 2 streams back 4 times, 4.00 ms",
    advises: /two items are under way at a time/,
    run: ({ a, b }) => threeTimes(a, b, () => a.finished()),
  },
  {
    kind: 'await',
    says: "`await event.finished()` on 'a' held 2 streams back 4 times, 4.00 ms",
    advises: /two items/,
    run: ({ a, b }) => threeTimes(a, b, () => a.record().finished()),
  },
  {
    kind: 'await',
    says: '`await device.finished()` held 2 streams back 4 times, 4.00 ms',
    advises: /two items/,
    run: ({ a, b, device }) => threeTimes(a, b, () => device.finished()),
  },
  {
    kind: 'hostLate',
    says: "The program was late to queue work on 'b' once, 20.0 µs",
    advises: /Queue further ahead.*one graph/,
    run: ({ a, b }) => {
      busy(b, 100)
      callFor(20_000, a)
      busy(b, 100)
    },
  },
  {
    kind: 'fullQueue',
    says: "The hardware queue of 'a' was full, and the host waited for room before it queued work on 'b' once, 1.08 ms",
    advises: /Queue less ahead/,
    run: ({ a, b }) => {
      busy(b, 100)
      busy(a, 1_000_000)
      const [memory, pinned] = [a.device.alloc(4, { stream: a }), a.device.allocPinned(4)]
      for (let i = 0; i < 1100; i += 1) a.copy(memory, pinned)
      busy(b, 100)
    },
  },
  {
    kind: 'hostFunctionDue',
    says: "JavaScript was busy while a host function of 'b' was due once, 20.0 µs",
    advises: /a worker thread/,
    run: ({ a, b }) => {
      busy(b, 100)
      b.launchHostFunc(() => {})
      callFor(20_000, a)
    },
  },
  {
    kind: 'hostFunction',
    says: "'b' waited for a host function of 'a' once, 5.00 µs",
    advises: /no GPU work come behind JavaScript/,
    run: ({ a, b }) => {
      busy(b, 100)
      busy(a, 5000)
      a.launchHostFunc(() => {})
      b.wait(a)
      busy(b, 100)
    },
  },
  {
    kind: 'hostFunction',
    says: "'b' waited for a host function of 'a' once, 5.10 µs",
    advises: /no GPU work come behind JavaScript/,
    run: async ({ a, b }) => {
      busy(b, 100)
      busy(a, 5000)
      a.launchHostFunc(() => busy(b, 100))
      await a.finished()
    },
  },
  {
    kind: 'hostFunction',
    says: "'b' waited for a host function of its own 2 times, 100 µs",
    advises: /no GPU work come behind JavaScript/,
    run: ({ a, b }) => {
      for (let i = 0; i < 3; i += 1) {
        busy(b, 100)
        b.launchHostFunc(() => callFor(50_000, a))
      }
    },
  },
  {
    kind: 'staging',
    says: "'a' waited for the host to copy bytes to or from an ordinary array once, 669 µs",
    advises: /`device\.allocPinned\(byteLength\)`/,
    run: async ({ a, b, device }) => {
      const bytes = 24 * 2 ** 20
      const memory = device.alloc(bytes, { stream: a })
      const uploaded = a.upload(memory, new Uint8Array(bytes))
      callFor(1_000_000, b)
      await uploaded
    },
  },
  {
    kind: 'nullStreamWaited',
    says: "'null stream' waited for 'blocking', as the null stream does for every blocking stream, once, 9.00 µs",
    advises: /make 'blocking' with `\{ nonBlocking: true \}`/,
    facts: { by: "'blocking'" },
    run: ({ blocking, device }) => {
      busy(device.defaultStream, 100)
      busy(blocking, 9000)
      busy(device.defaultStream, 100)
    },
  },
  {
    kind: 'nullStreamAwaited',
    says: "'blocking' waited for 'null stream', as every blocking stream does for the null stream, once, 9.00 µs",
    advises: /Make 'blocking' with `\{ nonBlocking: true \}`/,
    facts: { held: "'blocking'" },
    run: ({ blocking, device }) => {
      busy(blocking, 100)
      busy(device.defaultStream, 9000)
      busy(blocking, 100)
    },
  },
  {
    kind: 'wait',
    says: "'b' waited for 'a' 2 times, 19.8 µs",
    advises: /Record an event on 'a' as soon as what is needed is done/,
    run: ({ a, b }) => {
      for (let i = 0; i < 3; i += 1) {
        busy(a, 10_000)
        b.wait(a)
        busy(b, 100)
      }
    },
  },
  {
    kind: 'memoryNotAllocated',
    says: "'b' waited for memory that 'a' had not allocated yet once, 10.0 µs",
    advises: /allocate on 'b'/,
    run: ({ a, b, device }) => {
      busy(b, 100)
      busy(a, 10_000)
      b.fill(device.alloc(1000, { stream: a }), 0)
    },
  },
  {
    kind: 'copyEngine',
    says: "Copies of 'b' waited for the copy engine that 'a' had once, 10.3 µs",
    advises: /one after the other, on any stream/,
    run: ({ a, b, device }) => {
      const [one, two, from] = [device.alloc(BYTES), device.alloc(BYTES), device.allocPinned(BYTES)]
      busy(b, 100)
      a.copy(one, from)
      b.copy(two, from)
    },
  },
  {
    kind: 'computeEngine',
    says: "Kernels of 'b' waited for room on the device that kernels of 'a' had once, 99.0 µs",
    advises: /`\{ priority: -1 \}`/,
    run: ({ a, b, device }) => crowd(b, a, device),
  },
  {
    kind: 'computeEngine',
    says: "Kernels of 'urgent' waited for room on the device that kernels of 'a' had once, 99.0 µs",
    advises:
      /^Launch smaller grids on 'a': the priority of 'urgent' is higher already, but it stops no block that runs$/,
    facts: { held: "'urgent'", heldPriority: -5 },
    run: ({ a, device }) => crowd(nameStream(device.createStream({ priority: -5 }), 'urgent'), a, device),
  },
  {
    kind: 'computeEngine',
    says: "Kernels of 'b' waited for room on the device that kernels of 'urgent' had once, 99.0 µs",
    advises: /give 'b' a higher priority than 'urgent', which has -2: lower numbers go first$/,
    facts: { by: "'urgent'", byPriority: -2 },
    run: ({ b, device }) => crowd(b, nameStream(device.createStream({ priority: -2 }), 'urgent'), device),
  },
  {
    kind: 'sameInstance',
    says: "Graphs on 'b' waited for a launch of the same instance on 'a' once, 10.0 µs",
    advises: /an instance for each stream, with `graph\.instantiate\(\)`/,
    run: ({ a, b }) => {
      const exec = a.capture(() => busy(a, 10_000)).instantiate()
      busy(b, 100)
      exec.launch(a)
      exec.launch(b)
    },
  },
  {
    kind: 'unseen',
    says: "'b' stood idle for nothing that was recorded 8 times, 50.2 µs",
    advises: /What is not recorded may have run there/,
    seed: 7,
    run: ({ b }) => {
      for (let i = 0; i < 20; i += 1) busy(b, 100)
    },
  },
  {
    kind: 'oneStream',
    says: "Copies and kernels of 'a' came one after the other 5 times: 30.0 µs could overlap at most",
    advises: /Copy on a second stream/,
    run: ({ a, device }) => {
      const [memory, pinned] = [device.alloc(BYTES), device.allocPinned(BYTES)]
      for (let i = 0; i < 3; i += 1) {
        a.copy(memory, pinned)
        busy(a, 10_000)
      }
    },
  },
]

/** A kernel of `held` finds no room until that of `by` ends. */
function crowd(held: Stream, by: Stream, device: Device): void {
  busy(held, 100)
  busy(by, 99_000)
  for (let i = 1; i < 128; i += 1) busy(device.createStream(), 200_000)
  busy(held, 100)
}

async function stalls(run: Case['run'], seed = 0, callSites = false): Promise<readonly Stall[]> {
  using simulation = simulate({ seed })
  const [device] = simulation.devices
  assert.ok(device)
  const stream = (name: string, nonBlocking = true): Stream => nameStream(new Stream({ device, nonBlocking }), name)
  const bench = { device, a: stream('a'), b: stream('b'), blocking: stream('blocking', false) }
  const { summary } = await Timeline.record(() => run(bench), { simulation, callSites })
  return summary.stalls
}

/** The stalls by gaps, the costliest first. */
const byTime = (all: readonly Stall[]): readonly Stall[] =>
  all.filter(({ gaps }) => gaps.length > 0).sort((a, b) => b.time - a.time)

describe('what held a stream up', () => {
  for (const { kind, says, advises, seed, facts: given = {}, run } of cases) {
    it(`is named: ${kind}, ${says}`, async () => {
      const found = await stalls(run, seed)
      const said = found.map((stall) => ({
        ...stall,
        message: stall.message.replace(/\S*(summary\.test\.js):\d+/, '$1:LINE'),
      }))
      const stall = said.find((one) => one.kind === kind && one.message === says)
      assert.ok(stall, said.map(({ message }) => message).join('; '))
      if (stall.advice !== '') assert.match(stall.advice, advises)
      const facts = {
        held: "'b'",
        by: "'a'",
        call: /`(?:await )?([^`]*)`/.exec(says)?.[1] ?? '',
        place: '',
        on: '',
        often: '',
      }
      assert.match(describeStall(kind, { ...facts, heldPriority: 0, byPriority: 0, ...given }).advice, advises)
    })
  }

  it('is named with the line of the call, where that is recorded', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const [a, b, c] = ['a', 'b', 'c'].map((name) => nameStream(new Stream({ device }), name))
    assert.ok(a && b && c)
    const [one, two] = [device.alloc(1000, { stream: a }), device.alloc(1000, { stream: b })]
    const { summary } = await Timeline.record(
      async () => {
        b.fill(two, 0)
        a.fill(one, 0)
        await a.finished()
        b.fill(two, 0)
        callFor(20_000, c)
        b.fill(two, 0)
        busy(c, 30_000)
        b.wait(c)
        b.fill(two, 0)
      },
      { simulation, callSites: true },
    )
    const said = byTime(summary.stalls).map(({ message, advice, callSite = '' }) => {
      const [, path = '', line = ''] = /^(.*):(\d+):\d+$/.exec(callSite) ?? []
      assert.match(message, new RegExp(`at \\S*summary\\.test\\.js:${line} `))
      assert.doesNotMatch(advice, /callSites/)
      const code = readFileSync(path, 'utf8').split('\n')[Number(line) - 1]?.trim()
      return `${message.replace(/\S*summary\.test\.js:\d+/, 'LINE')}: ${code}`
    })
    assert.deepEqual(said, [
      "'b' waited at LINE for 'c' once, 29.1 µs: b.wait(c);",
      "The program was late to queue work at LINE on 'b' once, 19.1 µs: b.fill(two, 0);",
      "`await stream.finished()` at LINE held 'b' back once, 200 ns: await a.finished();",
    ])
  })

  it('is told of each place by itself, the costliest first, with the gaps that it caused', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const [a, b] = [new Stream({ device }), new Stream({ device })]
    const { summary, gaps } = await Timeline.record(
      () => {
        busy(b, 100)
        for (let i = 0; i < 2; i += 1) {
          busy(a, 1_500_000)
          a.synchronize()
          busy(b, 100)
          busy(a, 5_000_000)
          a.synchronize()
          busy(b, 100)
        }
      },
      { simulation },
    )
    const [slow, quick] = byTime(summary.stalls)
    assert.deepEqual([slow?.count, quick?.count], [3, 4], 'also the moments in which a had nothing to do')
    assert.notEqual(slow?.callSite, quick?.callSite)
    const times = (numbers: readonly number[] = []): number =>
      numbers.reduce((sum, at) => sum + (gaps[at]?.end ?? 0) - (gaps[at]?.begin ?? 0), 0)
    assert.deepEqual([slow?.time, quick?.time], [times(slow?.gaps), times(quick?.gaps)])
    assert.ok(slow !== undefined && slow.time > 2 * 5_000_000 - 1000, 'each place by itself')
  })

  it('names a place where only some of the calls had theirs recorded: the first long ones, and few of many', async () => {
    const often =
      (times: number, nanoseconds: number): Case['run'] =>
      ({ a, b }) => {
        for (let i = 0; i < times; i += 1) {
          busy(b, 100)
          busy(a, nanoseconds)
          a.synchronize()
        }
        busy(b, times * nanoseconds)
      }
    const said = async (times: number, nanoseconds: number): Promise<unknown> => {
      const [first] = byTime(await stalls(often(times, nanoseconds)))
      return [first?.message.replace(/\S*(summary\.test\.js):\d+/, 'LINE'), /callSites/.test(first?.advice ?? '')]
    }
    assert.deepEqual(await said(8, 1_100_000), [
      '`stream.synchronize()` at LINE held 2 streams back 15 times, 8.80 ms',
      false,
    ])
    assert.deepEqual(await said(80, 1_100_000), [
      "`stream.synchronize()` on 'a', such as at LINE, held 2 streams back 159 times, 88.0 ms",
      true,
    ])
    assert.deepEqual(await said(80, 900_000), [
      "`stream.synchronize()` on 'a' held 2 streams back 159 times, 72.0 ms",
      true,
    ])
  })

  /** What the simulator never does: a call that takes long, and a graph that begins late. Times in microseconds. */
  const made = [
    {
      kind: 'slowCall',
      says: "A call of the driver (copy) at app.js:12 took long, and held 'b' back once, 900 µs",
      advises: /`await kernel\.prepare\(device\)`; make fewer calls/,
      rows: [
        { kind: EventKind.KERNEL, track: 1, called: 0, returned: 5, start: 6, end: 100 },
        { kind: EventKind.COPY, track: 0, called: 5, returned: 995, start: 10, end: 990, site: 'app.js:12:3' },
        { kind: EventKind.KERNEL, track: 1, called: 996, returned: 999, start: 1000, end: 1100 },
      ],
    },
    {
      kind: 'graphLaunch',
      says: "Graphs on 'b' began late after their launch once, 800 µs",
      advises: /`exec\.upload\(stream\)`/,
      rows: [
        { kind: EventKind.KERNEL, track: 1, called: 0, returned: 5, start: 6, end: 100 },
        { kind: EventKind.GRAPH, track: 1, called: 20, returned: 25, start: 900, end: 1000 },
      ],
    },
  ]
  for (const { kind, says, advises, rows } of made) {
    it(`is named: ${kind}, ${says}`, () => {
      const { summary } = analyse(traceOf(rows))
      assert.deepEqual([summary.stalls[0]?.kind, summary.stalls[0]?.message], [kind, says])
      assert.match(summary.stalls[0]?.advice ?? '', advises)
    })
  }
})

describe('the gain of calls that take long', () => {
  it('is their own time, and not that which the program takes between its calls', () => {
    const { summary } = analyse(
      traceOf([
        { kind: EventKind.KERNEL, track: 1, called: 0, returned: 5, start: 6, end: 10 },
        { kind: EventKind.COPY, track: 0, called: 5, returned: 205, start: 10, end: 200, site: 'app.js:12:3' },
        { kind: EventKind.KERNEL, track: 1, called: 206, returned: 209, start: 210, end: 300 },
        { kind: EventKind.KERNEL, track: 1, called: 1100, returned: 1103, start: 1104, end: 1200 },
      ]),
    )
    const slow = summary.stalls.find((stall) => stall.kind === 'slowCall')
    assert.ok(slow !== undefined, summary.stalls.map(({ kind }) => kind).join())
    const { gain = 0 } = slow
    assert.ok(gain <= 200_000, `${gain} ns of calls that took 200 µs`)
  })
})

interface MadeRow {
  readonly kind: EventKind
  readonly track: number
  readonly called: number
  readonly returned: number
  readonly start: number
  readonly end: number
  readonly site?: string
}

/** A recording of a GPU with two streams, 'a' and 'b'. */
function traceOf(rows: readonly MadeRow[]): Trace {
  const { length } = rows
  const times = (of: (row: MadeRow) => number): Float64Array => Float64Array.from(rows, (row) => of(row) * 1000)
  const previous = rows.map(({ track }, at) => rows.findLastIndex((row, before) => before < at && row.track === track))
  const track = (index: number, name: string): StreamTrack => {
    const handle = (100 + index) as StreamHandle
    const context = 1 as ContextHandle
    return { index, handle, id: BigInt(index), device: 0, context, nonBlocking: true, priority: 0, name }
  }
  return {
    length,
    kind: Uint8Array.from(rows, ({ kind }) => kind),
    track: Uint32Array.from(rows, (row) => row.track),
    name: rows.map(({ kind }) => KIND_NAMES[kind] ?? ''),
    bytes: new Float64Array(length).fill(Number.NaN),
    called: times((row) => row.called),
    returned: times((row) => row.returned),
    start: times((row) => row.start),
    end: times((row) => row.end),
    hostFunctionTimes: new Map(),
    cause: new Int32Array(length).fill(-1),
    parent: new Int32Array(length).fill(-1),
    site: rows.map(({ site }) => site ?? ''),
    profiles: new Map(),
    facts: new Map(),
    foreign: new Uint8Array(length),
    previous: Int32Array.from(previous),
    implied: new Int32Array(length).fill(-1),
    tracks: [track(0, 'a'), track(1, 'b')],
    trackNames: ['a', 'b'],
    deviceNames: new Map([[0, 'GPU']]),
    driver: 'cuda',
    clock: 'host',
    duration: 1_200_000,
    epoch: 0,
    calibrations: [],
    dropped: 0,
  }
}

describe('the summary', () => {
  it('adds up what each stream and each device did, and what of it at once', async () => {
    using simulation = simulate({ devices: 2 })
    const [device, other] = simulation.devices
    assert.ok(device && other)
    const [a, b, c] = [device, device, other].map((on) => new Stream({ device: on }))
    assert.ok(a && b && c)
    const [memory, pinned] = [device.alloc(BYTES), device.allocPinned(BYTES)]
    const timeline = await Timeline.record(
      () => {
        a.copy(memory, pinned)
        busy(b, 4000)
        b.launchHostFunc(() => {})
        busy(b, 2000)
        b.wait(a)
        busy(b, 30_000)
        busy(c, 1000)
      },
      { simulation },
    )
    const { streams, devices, duration, stalls } = timeline.summary
    assert.equal(duration, timeline.duration)
    const copied = timeline.operations.find(({ kind }) => kind === 'copy')
    assert.equal((copied?.end ?? 0) - (copied?.start ?? 0), 10_000)
    assert.deepEqual(
      streams.map(({ stream, name, device: on, busy: time }) => [stream, name, on, time]),
      timeline.streams.map(({ index, name }) => [index, name, index === 2 ? 1 : 0, [10_000, 36_000, 1000][index]]),
    )
    for (const { busy: time, share } of streams) assert.equal(share, time / duration)
    assert.equal(
      streams[1]?.idle,
      timeline.gaps.reduce((sum, { begin, end }) => sum + end - begin, 0),
    )
    assert.deepEqual(devices, [
      { device: 0, name: 'Simulated GPU', busy: 40_000, copy: 10_000, compute: 36_000, overlap: 6000 },
      { device: 1, name: 'Simulated GPU', busy: 1000, copy: 0, compute: 1000, overlap: 0 },
    ])
    assert.deepEqual(
      byTime(stalls).map(({ kind }) => kind),
      ['wait'],
    )
  })
})
