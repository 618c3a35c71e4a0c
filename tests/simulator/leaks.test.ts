/** What public calls leave behind when all that they made is closed: nothing, however often they are made. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { type Device, Event, ExternalStream, Stream } from 'cuda-streams'
import {
  busy,
  destroyForeignStream,
  explore,
  fault,
  foreignStream,
  latch,
  type Simulation,
  simulate,
} from 'cuda-streams/sim'
import { nameStream, Timeline } from 'cuda-streams/timeline'
import type { Lab } from '../catalogue/lab.js'
import { collectUntil } from '../conformance/expect.js'
import { byEffort, runs } from '../helpers/effort.js'
import { ofTheDay } from '../helpers/of-the-day.js'
import { attemptIn, backendIn, isNoMore, labIn, left, variants } from './stage.js'

/** Rounds, and bytes of JavaScript's memory that each may take: what the engine learns meanwhile takes some. */
const ROUNDS = runs({ quick: 50, normal: 50, nightly: 100 })
const FEW = 400

// Optimized code, and what the engine notes for it, would be among the bytes, and makes each collection take three times as long.
setFlagsFromString('--no-opt')

type Round = (simulation: Simulation, device: Device, lab: Lab) => unknown

const isNightly = byEffort({ quick: false, normal: false, nightly: true })
const seen = new Set<string>()
/** One of each member, or of each call. Of slow ones many are the first of their kind, and kept; threads of libraries have pools. */
const tried = variants.filter(({ call }) => {
  const { slow, hasThreads, members } = call
  const key = isNightly ? call.name : members[0]
  if (slow === true || hasThreads === true || key === undefined || key.includes('[Symbol') || seen.has(key))
    return false
  seen.add(key)
  return true
})
const called = tried.map((variant): [string, Round] => [
  variant.name,
  async (_simulation, _device, lab) => {
    if ((await variant.call.lacks?.({ lab, bench: lab.bench })) !== undefined) return
    const { act, end } = await attemptIn(lab, variant)
    await act()
    await lab.device.finished()
    end()
    lab.settle()
  },
])

const OTHERS: Readonly<Record<string, Round>> = {
  'a simulation that is closed, with a foreign stream, a latch and a name': () => {
    const simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const stream = nameStream(new Stream({ device }), 'a stream of a simulation that is closed')
    latch(stream)
    new ExternalStream(foreignStream(device))
    simulation.close()
  },
  'a simulation whose devices are lost': async () => {
    const [device] = simulate().devices
    assert.ok(device)
    const stream = new Stream({ device })
    fault(stream)
    stream.launchHostFunc(() => {})
    await assert.rejects(stream.finished())
  },
  'a foreign stream, wrapped, named and destroyed': (_simulation, device) => {
    const handle = foreignStream(device)
    const stream = nameStream(new ExternalStream(handle), 'a stream of another library')
    busy(stream, 10)
    stream.synchronize()
    stream.close()
    destroyForeignStream(handle)
  },
  'faults that strike, and faults that are taken back': (simulation, device) => {
    simulation.inject({ call: 'cuEventCreate', result: 2 })
    assert.throws(() => new Event({ device }), { number: 2 })
    simulation.inject({ call: 'cuEventCreate', nth: 1000, result: 2 })[Symbol.dispose]()
  },
  'graphs of external events, closed in every order': (_simulation, device) => {
    const [stream, event] = [new Stream({ device }), new Event({ device })]
    stream.record(event)
    const graph = stream.capture(() => {
      stream.wait(event, { external: true }).launchHostFunc(() => {})
      stream.record(event, { external: true })
    })
    const exec = graph.instantiate()
    event.close()
    exec.launch(stream)
    graph.close()
    stream.synchronize()
    stream.close()
    exec.close()
  },
  'a capture that is given up': (_simulation, device) => {
    const [stream, joined] = [new Stream({ device }), new Stream({ device })]
    stream.beginCapture()
    joined.wait(stream).launchHostFunc(() => {})
    const inside = joined.record()
    stream.close()
    joined.close()
    inside.close()
  },
  'a timeline of streams that come and go': async (simulation, device) => {
    await Timeline.record(
      () => {
        const stream = nameStream(new Stream({ device }), 'recorded')
        busy(stream, 10)
        stream.close()
      },
      { simulation },
    )
  },
  'an exploration': async () => {
    await explore(
      ({ devices: [device] }) => {
        const [one, other] = [new Stream({ device }), new Stream({ device })]
        for (const stream of [one, other]) stream.launchHostFunc(() => {})
        return device?.finished()
      },
      { maxRuns: 3 },
    )
  },
}

/** In so many days each call has its turn. */
const DAYS = 3

describe('again and again', () => {
  for (const [name, round] of ofTheDay([...called, ...Object.entries(OTHERS)], DAYS)) {
    it(`${name}: nothing is left`, async () => {
      const simulation = simulate()
      const [device] = simulation.devices
      assert.ok(device)
      const lab = await labIn(simulation)
      const rounds = async (): Promise<void> => {
        for (let nth = 0; nth < ROUNDS; nth += 1) await round(simulation, device, lab)
      }
      // What the library makes once and keeps, and what the engine compiles.
      await rounds()
      let heap = await heapAfterGarbage()
      const before = backendIn(simulation).counts
      const each: number[] = []
      // The engine takes memory, and gives it back, in steps of some hundred thousand bytes: among more rounds these are little,
      // and what is kept is not. Where the first ones took much, the second series begins after them.
      while (each.length < 24 && (each.at(-1) ?? FEW) >= FEW) {
        await rounds()
        const now = await heapAfterGarbage()
        each.push((now - heap) / (ROUNDS * ((each.length % 12) + 1)))
        if (each.length === 12) heap = now
      }
      assert.ok((each.at(-1) ?? FEW) < FEW, `bytes more in each round: ${each.map(Math.round)}`)
      const { counts } = backendIn(simulation)
      const after = isNoMore(counts, before) ? counts : await left(simulation, (now) => isNoMore(now, before))
      assert.ok(isNoMore(after, before), `${JSON.stringify(before)}, then ${JSON.stringify(after)}`)
      assert.equal(backendIn(simulation).machine.hostFunctionsPending, 0)
    })
  }
})

/** Bytes of JavaScript's memory when garbage was collected twice: what is destroyed by that is garbage then. */
async function heapAfterGarbage(): Promise<number> {
  let times = 0
  await collectUntil(() => {
    times += 1
    return times === 2
  })
  return process.memoryUsage().heapUsed
}
