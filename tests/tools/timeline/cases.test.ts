/** The cases that docs/guides/timeline.md names: nothing to record, a fault, too much, captures, graphs, older work. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, type GraphExec, Stream } from 'cuda-streams'
import { busy, fault, latch, type Simulation, simulate } from 'cuda-streams/sim'
import { nameStream, type OperationMessage, publish, Timeline, type TimelineOperation } from 'cuda-streams/timeline'
import { heard } from './heard.js'
import { checkTraceFile } from './trace-format.js'
import { readAsPerfetto, readAsSpeedscope } from './trace-readers.js'

interface Machine {
  readonly simulation: Simulation
  readonly device: Device
  readonly a: Stream
  readonly b: Stream
  /** Captured and made before the recording: two kernels beside each other, of 300 and 200 ns, behind one of 100. */
  readonly older: GraphExec
}

interface Case {
  readonly limit?: number
  readonly run: (machine: Machine) => unknown
  /** 'kind stream start end', with '-' for a time that there is not. */
  readonly operations: readonly string[]
  readonly dropped?: number
  /** Copy, compute and overlap of the device, busy times of the streams. */
  readonly times: readonly (readonly number[])[]
}

const failing = (call: () => unknown): void => assert.throws(call, { code: /^CUDA_ERROR/ })

const cases: Readonly<Record<string, Case>> = {
  nothing: { run: () => {}, operations: [], times: [] },
  'waits of the host for nothing': {
    run: async ({ device, a }) => {
      a.synchronize()
      await a.finished()
      device.synchronize()
    },
    operations: [],
    times: [[0, 0, 0], [0]],
  },
  'records and waits alone, which take no time': {
    run: ({ a, b }) => void b.wait(a.record()),
    operations: ['record a 200 200', 'wait b 400 400'],
    times: [
      [0, 0, 0],
      [0, 0],
    ],
  },
  'what a fault drops: it had begun and ends with the fault, or never begins': {
    run: async ({ a, b }) => {
      busy(a, 1000)
      fault(a)
      busy(a, 500)
      busy(b, 50_000)
      b.launchHostFunc(() => {})
      await assert.rejects(a.finished())
    },
    operations: ['kernel a 100 1100', 'fault a 1100 11100', 'kernel a - -', 'kernel b 400 11100', 'hostFunction b - -'],
    times: [
      [0, 11_000, 0],
      [1000, 10_700],
    ],
  },
  'what is refused after a fault: it is no operation': {
    run: async ({ a, b }) => {
      fault(a)
      await assert.rejects(a.finished())
      failing(() => busy(b, 10))
      failing(() => b.record())
      failing(() => b.wait(a))
    },
    operations: ['fault a 100 10100'],
    times: [
      [0, 0, 0],
      [0, 0],
    ],
  },
  'work that is captured: it takes no place and is not missing': {
    limit: 2,
    run: ({ a, b }) => {
      const capture = (): unknown =>
        a.capture(() => {
          for (let i = 0; i < 5; i += 1) b.wait(a.record())
          a.wait(b)
        })
      capture()
      busy(a, 10_000)
      busy(a, 20_000)
      capture()
      busy(a, 30_000)
    },
    operations: ['kernel a 3200 13200', 'kernel a 13200 33200'],
    dropped: 1,
    times: [
      [0, 30_000, 0],
      [30_000, 0],
    ],
  },
  'work that is refused: it takes no place either': {
    limit: 1,
    run: ({ device, a }) => {
      failing(() => device.alloc(2 ** 46, { stream: a }))
      a.record()
      a.record()
    },
    operations: ['record a 500 500'],
    dropped: 1,
    times: [[0, 0, 0], [0]],
  },
  'a graph: a launch, and its nodes, which count once': {
    run: ({ a, older }) => void a.launch(older).launch(older),
    operations: [
      'graph a 100 500',
      'kernel a 100 200',
      'kernel a 200 500',
      'kernel a 200 400',
      'graph a 500 900',
      'kernel a 500 600',
      'kernel a 600 900',
      'kernel a 600 800',
    ],
    times: [[0, 800, 0], [800]],
  },
  'work that was queued before: it is not there, and a wait for it lasts as long as it does': {
    run: ({ a, b }) => {
      b.wait(a)
      busy(b, 100)
    },
    operations: ['record a 5000 5000', 'wait b 200 5000', 'kernel b 5000 5100'],
    times: [
      [0, 100, 0],
      [0, 100],
    ],
  },
  'work that still runs when the recording is stopped at once': {
    run: ({ a }) => {
      latch(a)
      busy(a, 10)
    },
    operations: ['latch a 100 -', 'kernel a - -'],
    times: [[0, 0, 0], [0]],
  },
}

function machine(): Machine {
  const simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const [a, b] = ['a', 'b'].map((name) => nameStream(new Stream({ device }), name))
  assert.ok(a && b)
  const graph = a.capture(() => {
    busy(a, 100)
    b.wait(a)
    busy(b, 300)
    busy(a, 200)
    a.wait(b)
  })
  return { simulation, device, a, b, older: graph.instantiate() }
}

const told = ({ kind, stream, start, end }: TimelineOperation): string =>
  `${kind} ${stream.name} ${start ?? '-'} ${end ?? '-'}`

describe('a recording of', () => {
  for (const [name, { limit, run, operations, dropped = 0, times }] of Object.entries(cases)) {
    it(name, async () => {
      const bench = machine()
      const isOlder = name.startsWith('work that was queued before')
      if (isOlder) busy(bench.a, 5000)
      const recording = Timeline.start({ simulation: bench.simulation, limit })
      await run(bench)
      const timeline = name.endsWith('at once') ? recording.stopNow() : await recording.stop()
      assert.deepEqual(timeline.operations.map(told), operations)
      assert.equal(timeline.dropped, dropped)
      const { devices, streams } = timeline.summary
      assert.deepEqual(
        [
          ...devices.map(({ copy, compute, overlap }) => [copy, compute, overlap]),
          ...(streams.length === 0 ? [] : [streams.map(({ busy: time }) => time)]),
        ],
        times,
      )
      checkOutputs(timeline)
    })
  }
})

/** Every file can be made of it. */
function checkOutputs(timeline: Timeline): void {
  checkTraceFile(timeline.toJson())
  const { traceEvents } = timeline.toTraceEvents()
  assert.equal(readAsSpeedscope(traceEvents).length, readAsPerfetto(traceEvents).length)
  assert.match(timeline.toHtml(), /^<!doctype html>/)
  assert.match(timeline.toText(), /^What held them up\n {2}\S/m)
  assert.match(timeline.toSvg(), /^<svg /)
}

describe('publishing', () => {
  it('goes on past what a fault dropped, which is not told', async () => {
    const { device, a, b } = machine()
    const messages = await heard<OperationMessage>('cuda-streams:operation', async () => {
      using _publisher = publish({ device })
      fault(a)
      busy(a, 100)
      busy(b, 50)
      await assert.rejects(a.finished())
    })
    assert.deepEqual(
      messages.map(({ name, streamName }) => `${name} ${streamName}`),
      ['fault a', 'busy b'],
    )
  })
})
