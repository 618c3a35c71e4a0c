/** The trace file: it keeps the format's rules, and a reader that is not ours finds in it what was recorded. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, Stream } from 'cuda-streams'
import { busy, type Simulation, simulate } from 'cuda-streams/sim'
import { nameStream, Timeline, type TraceEvent, type TraceFile } from 'cuda-streams/timeline'
import fc from 'fast-check'
import { programs, runProgram } from '../../properties/ordered-play.js'
import { checkTraceFile } from './trace-format.js'
import { readAsPerfetto, readAsSpeedscope, type Shown } from './trace-readers.js'

/** DevTools' own reader, which a machine without npm does not have. */
const READER = '@paulirish/trace_engine/models/trace/trace.js'

interface Read {
  readonly name: string
  readonly ts: number
  readonly dur: number
}
interface Reader {
  readonly TraceModel: {
    readonly Model: {
      createWithAllHandlers(): {
        parse(events: readonly TraceEvent[], config: object): Promise<void>
        parsedTrace(): {
          readonly data: {
            readonly Renderer: {
              readonly processes: ReadonlyMap<
                number,
                { readonly threads: ReadonlyMap<number, { readonly name: string; readonly entries: readonly Read[] }> }
              >
            }
          }
        }
      }
    }
  }
}

async function openReader(): Promise<Reader | string> {
  try {
    return (await import(READER)) as Reader
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

function machine(): { simulation: Simulation; device: Device; a: Stream; b: Stream } {
  const simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const stream = (name: string): Stream => nameStream(new Stream({ device }), name)
  return { simulation, device, a: stream('a'), b: stream('b') }
}

async function everything(): Promise<Timeline> {
  const { simulation, device, a, b } = machine()
  const buffer = device.alloc(4096)
  const pinned = device.allocPinned(4096)
  return Timeline.record(
    async () => {
      a.copy(buffer, pinned)
      b.wait(a)
      busy(b, 1234)
      b.launchHostFunc(() => void a.record())
      await b.finished()
      const graph = a.capture(() => {
        busy(a, 100)
        b.wait(a)
        busy(b, 300)
        busy(a, 200)
        a.wait(b)
      })
      a.launch(graph.instantiate())
      a.fill(buffer, 0)
      a.synchronize()
      busy(device.defaultStream, 10)
      device.synchronize()
    },
    { simulation, callSites: true },
  )
}

/** Each operation that takes time, and each call, as the recording has it and as a reader shows it. */
function assertShown(timeline: Timeline, read: (events: readonly TraceEvent[]) => Shown[]): void {
  const { traceEvents } = JSON.parse(timeline.toJson()) as TraceFile
  const shown = read(traceEvents)
  const text = (name: string, pid: number | string, start: number, duration: number): string =>
    `${name} ${pid} ${Math.round(start)} ${Math.round(duration)}`
  const onStreams = shown.filter(({ event }) => event.pid < 64)
  assert.deepEqual(
    onStreams.map(({ event, start, duration }) => text(event.name, event.pid, start, duration)).sort(),
    timeline.operations
      .filter(({ kind, start = 0, end = 0 }) => end > start || !['record', 'wait', 'allocate', 'free'].includes(kind))
      .map(({ name, stream, start = 0, end = 0 }) => text(name, stream.device, start, end - start))
      .sort(),
  )
  const blocking = shown.filter(({ event }) => event.cat === 'cuda_runtime')
  assert.deepEqual(
    blocking.map(({ event, start, duration }) => text(event.name, '', start, duration)).sort(),
    timeline.calls
      .filter(({ awaits }) => !awaits)
      .map(({ name, called, returned }) => text(name, '', called, returned - called))
      .sort(),
  )
}

const readers = { speedscope: readAsSpeedscope, Perfetto: readAsPerfetto }

const reader = await openReader()

describe('a trace file', () => {
  it('keeps the rules of the format', async () => {
    checkTraceFile((await everything()).toJson())
  })

  it('keeps them for every program', async () => {
    const seeds = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2 ** 31 - 1 }))
    await fc.assert(
      fc.asyncProperty(programs(['nonBlocking', 'blocking', 'null']), seeds, async (program, seed) => {
        await runProgram(program, seed, async (simulation, run) => {
          checkTraceFile((await Timeline.record(run, { simulation })).toJson())
        })
      }),
      { seed: 20_251_120, numRuns: 100 },
    )
  })

  it('is the same as text and as an object', async () => {
    const timeline = await everything()
    assert.deepEqual(JSON.parse(timeline.toJson()), timeline.toTraceEvents())
  })

  it('has a slice for each operation, with its device, stream and bytes, and an arrow from its call', async () => {
    const timeline = await everything()
    const { traceEvents } = timeline.toTraceEvents()
    const copy = traceEvents.find(({ cat }) => cat === 'gpu_memcpy')
    const recorded = timeline.operations.find(({ kind }) => kind === 'copy')
    assert.equal(copy?.pid, 0)
    assert.equal(copy?.ts, (recorded?.start ?? 0) / 1000)
    assert.equal(copy?.args?.['bytes'], 4096)
    assert.equal(copy?.args?.['stream'], Number(recorded?.stream.id))
    const arrow = traceEvents.find(({ ph, cat, ts }) => ph === 'f' && cat === 'ac2g' && ts === copy?.ts)
    const start = traceEvents.find(({ ph, id }) => ph === 's' && id === arrow?.id)
    assert.equal(start?.ts, (recorded?.called ?? 0) / 1000)
    assert.notEqual(start?.pid, copy?.pid)
  })

  it('has an arrow from what was recorded to what waited', async () => {
    const { simulation, a, b } = machine()
    const timeline = await Timeline.record(
      () => {
        busy(a, 1000)
        b.wait(a)
        busy(b, 500)
      },
      { simulation },
    )
    const { traceEvents } = timeline.toTraceEvents()
    const [start, end] = traceEvents.filter(({ cat, ph }) => cat === 'wait' && (ph === 's' || ph === 'f'))
    const [first, second] = traceEvents.filter(({ cat }) => cat === 'kernel')
    assert.equal(start?.tid, first?.tid)
    assert.equal(end?.tid, second?.tid)
    assert.equal(end?.ts, second?.ts)
    assert.equal(start?.ts, Number(((first?.ts ?? 0) + (first?.dur ?? 0) - 0.001).toFixed(3)))
  })

  for (const [name, read] of Object.entries(readers)) {
    it(`is shown by ${name} with the times of the recording, in every program`, async () => {
      assertShown(await everything(), read)
      const seeds = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2 ** 31 - 1 }))
      await fc.assert(
        fc.asyncProperty(programs(['nonBlocking', 'blocking', 'null']), seeds, async (program, seed) => {
          await runProgram(program, seed, async (simulation, run) => {
            assertShown(await Timeline.record(run, { simulation }), read)
          })
        }),
        { seed: 20_251_120, numRuns: 50 },
      )
    })

    it(`is shown by ${name} with work that follows without a gap, however late: fractions add up to more`, async () => {
      for (const late of [1, 12_345_678_901, 86_400_000_000_007]) {
        const { simulation, a } = machine()
        const timeline = await Timeline.record(
          async () => {
            busy(a, late)
            for (let length = 1; length < 600; length += 1) busy(a, length % 7 === 0 ? 0 : length * 7)
            await a.finished()
          },
          { simulation },
        )
        assertShown(timeline, read)
      }
    })

    it(`is shown by ${name} with calls inside host functions inside calls that end together`, async () => {
      const { simulation, a, b } = machine()
      const timeline = await Timeline.record(
        () => {
          for (let i = 0; i < 50; i += 1) {
            busy(b, 33)
            a.launchHostFunc(() => {
              busy(a, 7)
              b.synchronize()
            })
            a.synchronize()
          }
        },
        { simulation },
      )
      assertShown(timeline, read)
    })
  }

  it('is read by the engine behind Chrome’s performance panel', {
    skip: typeof reader === 'string' && `no trace_engine here: ${reader}`,
  }, async () => {
    assert.ok(typeof reader !== 'string')
    const timeline = await everything()
    const { traceEvents } = timeline.toTraceEvents()
    const model = reader.TraceModel.Model.createWithAllHandlers()
    await model.parse(traceEvents, { metadata: {} })
    const { processes } = model.parsedTrace().data.Renderer
    const found = [...processes].flatMap(([pid, { threads }]) =>
      [...threads].flatMap(([tid, { name, entries }]) =>
        entries.map((entry) => `${pid}/${tid} ${name}: ${entry.name} ${entry.ts} ${entry.dur}`),
      ),
    )
    const names = new Map(
      traceEvents
        .filter(({ name }) => name === 'thread_name')
        .map(({ pid, tid, args }) => [`${pid}/${tid}`, args?.['name']]),
    )
    const written = traceEvents
      .filter(({ ph }) => ph === 'X')
      .map(({ pid, tid, name, ts, dur }) => `${pid}/${tid} ${names.get(`${pid}/${tid}`)}: ${name} ${ts} ${dur}`)
    assert.ok(written.length > 20)
    assert.deepEqual(found.sort(), written.sort())
  })
})
