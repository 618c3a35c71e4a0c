/** The trace file: it keeps the format's rules, and a reader that is not ours finds in it what was recorded. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, Stream } from 'cuda-streams'
import { busy, type Simulation, simulate } from 'cuda-streams/sim'
import { nameStream, Timeline, type TraceEvent } from 'cuda-streams/timeline'
import fc from 'fast-check'
import { programs, runProgram } from '../properties/program.js'
import { checkTraceFile } from './trace-format.js'

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
