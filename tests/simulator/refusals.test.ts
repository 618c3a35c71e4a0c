/**
 * Whichever call of the driver is refused, in whichever public call: the error is the driver's, what it says holds, the
 * same call succeeds when it is made again, and nothing is left behind.
 */
import assert from 'node:assert/strict'
import { describe, it, mock } from 'node:test'
import { CudaError } from 'cuda-streams'
import { type Simulation, simulate } from 'cuda-streams/sim'
import { FAILING_CALLS } from '../../src/driver/sim/machine/fault-plan.js'
import { internalStream } from '../../src/memory/stream-uses.js'
import { turns } from '../conformance/expect.js'
import { type Attempt, CALLS, type Stage } from './public-calls.js'
import { backendIn, isNoMore, left, stageIn } from './stage.js'

const INVALID_VALUE = 1
const ILLEGAL_ADDRESS = 700
const MOVES_MUCH = /more than/
/** So many calls of one name no public call makes. */
const MOST = 100
/** Those that a program can let fail, and those that ask or end something. */
const DRIVER_CALLS: readonly string[] = [
  ...FAILING_CALLS,
  ...['cuStreamIsCapturing', 'cuStreamGetId', 'cuStreamGetFlags', 'cuStreamGetPriority'],
  'cuStreamSetAttribute',
  ...['cuMemAlloc', 'cuStreamEndCapture', 'cuGraphUpload'],
]

interface Refusal {
  readonly call: string
  readonly nth: number
  readonly result: number
}

async function strike(simulation: Simulation, { call, nth, result }: Refusal, { act }: Attempt) {
  const { faults } = backendIn(simulation).machine
  const takeBack = faults.add({ call, operation: undefined, after: nth - 1, times: 1, probability: 1, result })
  let thrown: unknown
  try {
    await act()
  } catch (error) {
    thrown = error
  }
  const struck = faults.empty
  takeBack()
  return { thrown, struck }
}

/** Those that a public call makes: the others need not be refused. */
async function driverCallsOf(prepare: (stage: Stage) => Attempt): Promise<readonly string[]> {
  const simulation = simulate()
  const { faults } = backendIn(simulation).machine
  const attempt = prepare(stageIn(simulation))
  const made = new Set<string>()
  // The plan is asked about each call as long as there is a fault in it.
  const never = { call: undefined, operation: undefined, after: 0, times: 1, probability: 0, result: INVALID_VALUE }
  const takeBack = faults.add(never)
  const asked = mock.method(faults, 'ofCall', (call: string) => {
    made.add(call)
    return 0
  })
  try {
    await attempt.act()
  } finally {
    asked.mock.restore()
    takeBack()
  }
  return DRIVER_CALLS.filter((call) => made.has(call))
}

describe('a refusal by the driver', () => {
  for (const [name, prepare] of Object.entries(CALLS)) {
    it(`in ${name} leaves everything as it was`, async () => {
      const simulation = simulate()
      // What the library makes once for a device, and keeps: also for memory that a dropped graph keeps longer than its stream.
      for (const device of simulation.devices) internalStream(device)
      await run(simulation, prepare)
      const before = await left(simulation)
      let strikes = 0
      for (const call of await driverCallsOf(prepare)) {
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
  fault?: Refusal,
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

describe('a refusal by which the devices are lost', () => {
  for (const [name, prepare] of Object.entries(CALLS)) {
    if (MOVES_MUCH.test(name)) continue
    it(`in ${name} leaves no promise and no host function pending, and all can be closed`, async () => {
      for (const call of await driverCallsOf(prepare)) {
        for (let nth = 1; nth < MOST; nth += 1) {
          const simulation = simulate()
          const stage = stageIn(simulation)
          const attempt = prepare(stage)
          const { other, stream, own, theirs, device } = stage
          const statuses: number[] = []
          other.addCallback((_stream, status) => statuses.push(status), undefined)
          const promises = [stream.finished(), other.finished(), device.finished(), stream.download(own)]
          const settled = Promise.allSettled(promises)
          const { thrown, struck } = await strike(simulation, { call, nth, result: ILLEGAL_ADDRESS }, attempt)
          if (!struck) break
          const what = `${call}, no. ${nth}`
          if (thrown !== undefined) assert.equal((thrown as CudaError).number, ILLEGAL_ADDRESS, `${what}: ${thrown}`)
          for (const { status } of (await settled).slice(0, 3))
            assert.ok(status === 'rejected' || status === 'fulfilled')
          for (const each of [own, theirs, stream, other]) each.close()
          await assert.rejects(device.finished(), { number: ILLEGAL_ADDRESS })
          // Callbacks are told of the fault in turns of the event loop.
          await turns()
          const { machine } = backendIn(simulation)
          assert.deepEqual([machine.hostFunctionsPending, machine.waitsPending], [0, 0], what)
          assert.deepEqual(statuses.length, 1, what)
        }
      }
    })
  }
})
