/**
 * Whichever call of the driver is refused, in whichever public call: the error is the driver's, what it says holds, the
 * same call succeeds when it is made again, and nothing is left behind.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CudaError, Stream } from 'cuda-streams'
import { busy, type Simulation, simulate } from 'cuda-streams/sim'
import { driverOf } from '../../src/device.js'
import { backendOf } from '../../src/driver/front.js'
import { FAILING_CALLS } from '../../src/driver/sim/fault-plan.js'
import { SimDriver } from '../../src/driver/sim/sim-driver.js'
import { collectUntil } from '../conformance/expect.js'
import { type Attempt, CALLS, type Stage } from './public-calls.js'

const INVALID_VALUE = 1
/** So many calls of one name no public call makes. */
const MOST = 100

function backendIn({ devices: [device] }: Simulation): SimDriver {
  assert.ok(device)
  const backend = backendOf(driverOf(device))
  assert.ok(backend instanceof SimDriver)
  return backend
}

function stageIn({ devices: [device] }: Simulation): Stage {
  assert.ok(device)
  const [stream, other] = [new Stream({ device }), new Stream({ device })]
  const [own, theirs] = [device.alloc(64, { stream }), device.alloc(64, { stream: other })]
  stream.fill(own, 1)
  other.fill(theirs, 2)
  busy(other, 1000)
  stream.wait(other)
  return { device, stream, other, own, theirs, ran: { count: 0 } }
}

async function strike(simulation: Simulation, fault: Parameters<Simulation['inject']>[0], { act }: Attempt) {
  using _ = simulation.inject(fault)
  let thrown: unknown
  try {
    await act()
  } catch (error) {
    thrown = error
  }
  return { thrown, struck: backendIn(simulation).machine.faults.empty }
}

describe('a refusal by the driver', () => {
  for (const [name, prepare] of Object.entries(CALLS)) {
    it(`in ${name} leaves everything as it was`, async () => {
      const simulation = simulate()
      // What the library makes once for a device, and keeps.
      await run(simulation, prepare)
      const before = await left(simulation, () => false)
      let strikes = 0
      for (const call of FAILING_CALLS) {
        for (let nth = 1; nth <= MOST; nth += 1) {
          assert.ok(nth < MOST)
          const what = `${call}, no. ${nth}`
          const struck = await run(simulation, prepare, { call, nth, result: INVALID_VALUE }, what)
          if (!struck) break
          strikes += 1
        }
      }
      const after = await left(simulation, (now) => isNoMore(now, before))
      const inWords = `${JSON.stringify(before)} before, ${JSON.stringify(after)} after ${strikes} refusals`
      assert.ok(isNoMore(after, before), inWords)
    })
  }
})

type Counts = SimDriver['counts']

const isNoMore = (some: Counts, others: Counts): boolean =>
  some.streams <= others.streams && some.events <= others.events && some.bytes <= others.bytes

/** What is left when garbage was collected a few times, or when it is enough. */
async function left(simulation: Simulation, isEnough: (counts: Counts) => boolean): Promise<Counts> {
  const backend = backendIn(simulation)
  let rounds = 0
  await collectUntil(() => {
    simulation.devices[0]?.synchronize()
    rounds += 1
    return rounds === 5 || isEnough(backend.counts)
  })
  return backend.counts
}

async function run(
  simulation: Simulation,
  prepare: (stage: Stage) => Attempt,
  fault?: Parameters<Simulation['inject']>[0],
  what = 'without a fault',
): Promise<boolean> {
  const stage = stageIn(simulation)
  const attempt = prepare(stage)
  let isStruck = false
  try {
    if (fault !== undefined) {
      const { thrown, struck } = await strike(simulation, fault, attempt)
      isStruck = struck
      if (thrown !== undefined) {
        assert.ok(thrown instanceof CudaError, `${what}: ${String(thrown)}`)
        assert.deepEqual([thrown.call, thrown.number], [fault.call, INVALID_VALUE], what)
        attempt.refused?.()
        await attempt.act()
      }
    } else await attempt.act()
    await stage.device.finished()
    await attempt.check?.()
    await attempt.end?.()
  } catch (error) {
    throw new Error(`${what}: ${String(error)}`, { cause: error })
  }
  for (const each of [stage.own, stage.theirs, stage.stream, stage.other]) each.close()
  stage.device.synchronize()
  return isStruck
}
