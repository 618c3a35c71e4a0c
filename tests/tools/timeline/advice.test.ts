/** Advice is true: programs that are slow in ten ways, what is advised, and the same programs changed as the advice says, in the simulator's time. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, defineKernel } from 'cuda-streams'
import { fault, type Simulation, simulate } from 'cuda-streams/sim'
import { type Stall, Timeline, type TimelineSummary } from 'cuda-streams/timeline'
import { type AdviceProgram, named, ONE, programs, ROUNDS, times } from '../../../bench/advice-programs.js'
import { busy } from '../../../bench/busy-kernel.js'

const [compute, late] = [busy('compute', 150), busy('late', 250)]

async function timed(simulation: Simulation, run: () => unknown): Promise<number> {
  const began = simulation.now
  await run()
  return simulation.now - began
}

interface Outcome {
  readonly stall: Stall
  readonly verdict: string
  readonly before: number
  readonly after: number
}

async function followed({ prepare }: AdviceProgram): Promise<Outcome> {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const run = prepare(device)
  await device.finished()
  let before = 0
  const { summary } = await Timeline.record(
    async () => {
      before = await timed(simulation, () => run(false))
    },
    { simulation },
  )
  const after = await timed(simulation, () => run(true))
  const [stall] = summary.stalls
  assert.ok(stall !== undefined, 'something is advised')
  return { stall, verdict: summary.verdict, before, after }
}

describe('advice is true', () => {
  const outcomes = new Map<AdviceProgram, Outcome>()
  for (const one of programs) {
    it(`${one.title}: it is advised, and does not lose`, async (context) => {
      const outcome = await followed(one)
      outcomes.set(one, outcome)
      const { stall, verdict, before, after } = outcome
      context.diagnostic(
        `${stall.message}; ${stall.advice}: said ${stall.isAtMost ? 'at most ' : ''}${stall.gain} of ${before}, gained ${before - after}`,
      )
      assert.equal(stall.kind, one.kind)
      assert.match(stall.advice, one.advises)
      assert.match(verdict, one.verdict)
      assert.ok(after <= before, `it took ${before}, and now takes ${after}`)
    })
  }

  it('the gain is within a third of what was said in at least eight of the ten', () => {
    assert.equal(outcomes.size, programs.length)
    const near = [...outcomes].filter(([, { stall, before, after }]) => {
      const gain = stall.gain ?? Number.NaN
      return Math.abs(before - after - gain) <= gain / 3
    })
    assert.ok(near.length >= 8, `only those of ${near.map(([{ title }]) => title).join(', ')}`)
  })
})

describe('nothing is advised that gains nothing', () => {
  const summaryOf = async (prepare: (device: Device) => () => Promise<unknown>): Promise<TimelineSummary> => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const run = prepare(device)
    await device.finished()
    return (await Timeline.record(run, { simulation })).summary
  }

  it('a wait that is needed, behind a stream that is never idle', async () => {
    const { stalls, verdict } = await summaryOf((device) => {
      const [a, b] = [named(device, 'a'), named(device, 'b')]
      const buffers = times(ROUNDS, () => device.alloc(64))
      return async () => {
        for (const buffer of buffers) {
          a.launch(late, ONE, buffer)
          b.wait(a)
          b.launch(compute, ONE, buffer)
        }
        await b.finished()
      }
    })
    const wait = stalls.find(({ kind }) => kind === 'wait')
    assert.deepEqual([wait?.count, wait?.advice], [ROUNDS - 1, ''])
    assert.ok(wait?.gain !== undefined && wait.gain < 1000, `${wait?.gain}`)
    assert.match(
      verdict,
      /^4\.15 ms, of which 'a' was busy 96 %: nothing that waits can gain 1 %; −19 % by 'late' in 20 % less time$/,
    )
  })

  it('a wait for kernels of which it is not known what they touch', async () => {
    const unknown = defineKernel({
      name: 'unknown',
      source: 'extern "C" __global__ void unknown() {}',
      signature: [],
      nanoseconds: 250_000,
      simulate() {},
    })
    const { stalls } = await summaryOf((device) => {
      const [a, b] = [named(device, 'a'), named(device, 'b')]
      return async () => {
        for (let round = 0; round < ROUNDS; round += 1) {
          a.launch(unknown, ONE)
          b.wait(a)
          b.launch(unknown, ONE)
          a.wait(b)
        }
        await b.finished()
      }
    })
    for (const { kind, gain, advice } of stalls.filter(({ gaps }) => gaps.length > 0))
      assert.deepEqual([kind, gain, advice], ['wait', undefined, ''])
  })

  it('of what comes behind the first twenty thousand event records; the verdict says so', async () => {
    const { predicted, verdict } = await summaryOf((device) => {
      const [a, b] = [named(device, 'a'), named(device, 'b')]
      const memory = device.alloc(64)
      return async () => {
        for (let round = 0; round < 11_000; round += 1) {
          if (round % 100 === 0) await a.finished()
          a.fill(memory, 0)
          b.wait(a)
        }
        await device.finished()
      }
    })
    assert.equal(predicted?.isAll, false)
    assert.ok(predicted.operations > 5000 && predicted.operations <= 20_000, `${predicted.operations}`)
    assert.match(verdict, /, by the first [\d,]+ operations/)
  })

  it('of a run whose GPU faulted', async () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const stream = named(device, 'a')
    const { summary } = await Timeline.record(
      async () => {
        fault(stream, 700)
        await assert.rejects(stream.finished())
      },
      { simulation },
    )
    assert.equal(summary.predicted, undefined)
    assert.ok(summary.stalls.every(({ gain, advice }) => gain === undefined && advice === ''))
  })
})
