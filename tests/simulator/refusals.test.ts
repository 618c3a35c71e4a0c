/**
 * Whichever call of the driver is refused, in whichever public call: the error is the driver's, what it says holds, the
 * same call succeeds when it is made again, and nothing is left behind.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CudaError } from 'cuda-streams'
import { type Simulation, simulate } from 'cuda-streams/sim'
import { FAILING_CALLS } from '../../src/driver/sim/fault-plan.js'
import { type Attempt, CALLS, type Stage } from './public-calls.js'
import { backendIn, isNoMore, left, stageIn } from './stage.js'

const INVALID_VALUE = 1
/** So many calls of one name no public call makes. */
const MOST = 100

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
