/**
 * Whichever call of the driver is refused, in whichever public call: the error is the driver's, what it says holds, the
 * same call succeeds when it is made again, and nothing is left behind.
 */
import assert from 'node:assert/strict'
import { before, describe, it, mock } from 'node:test'
import { CudaError } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { internalStream } from '../../src/core/memory/stream-uses.js'
import { FAILING_CALLS } from '../../src/simulator/machine/fault-plan.js'
import type { Lab } from '../catalogue/lab.js'
import { turns } from '../conformance/expect.js'
import { byEffort } from '../helpers/effort.js'
import { ofTheDay } from '../helpers/of-the-day.js'
import {
  type Attempt,
  attemptIn,
  backendIn,
  isNoMore,
  labIn,
  left,
  movesMuch,
  type Variant,
  variants,
} from './stage.js'

const isNightly = byEffort({ quick: false, normal: false, nightly: true })
const INVALID_VALUE = 1
const ILLEGAL_ADDRESS = 700
/** After so many rounds of refusals there must be no more left than after the one before. */
const ROUNDS = 3
/** Milliseconds. */
const LONGEST = 60_000
/** Of a call that moves bytes by the million, one in so many calls of the driver is refused. */
const FEW_OF_MANY = 12
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

async function strike(machine: Parameters<typeof backendIn>[0], { call, nth, result }: Refusal, { act }: Attempt) {
  const { faults } = backendIn(machine).machine
  const takeBack = faults.add({ call, operation: undefined, after: nth - 1, times: 1, probability: 1, result })
  let [thrown, value]: readonly unknown[] = []
  try {
    value = await act()
  } catch (error) {
    thrown = error
  }
  const struck = faults.empty
  takeBack()
  return { thrown, struck, value }
}

/** Those that a public call makes: the others need not be refused. */
async function driverCallsOf(variant: Variant): Promise<readonly string[]> {
  const simulation = simulate()
  const { faults } = backendIn(simulation).machine
  const attempt = await attemptIn(await labIn(simulation), variant)
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

/** What the call lacks on the simulator of this machine, if anything. */
const lackOf = async (lab: Lab, { call }: Variant): Promise<string | undefined> =>
  await call.lacks?.({ lab, bench: lab.bench })

/** In so many days each call has its turn. */
const DAYS = 3

describe('a refusal by the driver', () => {
  const simulation = simulate()
  const refusedCalls = new Set<string>()
  let lab: Lab
  let kept: Awaited<ReturnType<typeof left>>

  before(async () => {
    // What the library makes once for a device, and keeps: also for memory that a dropped graph keeps longer than its stream.
    for (const device of simulation.devices) internalStream(device)
    lab = await labIn(simulation)
    for (const variant of variants) if ((await lackOf(lab, variant)) === undefined) await run(lab, variant)
    kept = await left(simulation)
  })

  const today = ofTheDay(variants, DAYS)
  for (const variant of today) {
    it(`in ${variant.name} leaves everything as it was`, { timeout: LONGEST }, async (context) => {
      const lack = await lackOf(lab, variant)
      if (lack !== undefined) return context.skip(lack)
      return leavesAllAsItWas(variant, await driverCallsOf(variant))
    })
  }

  async function leavesAllAsItWas(variant: Variant, driverCalls: readonly string[]): Promise<void> {
    for (const call of driverCalls) refusedCalls.add(call)
    // Of the pieces of such a call one is as the next.
    const step = movesMuch(variant) && !isNightly ? FEW_OF_MANY : 1
    // Pools of events grow with what is used at one time, and then no more.
    for (let round = 0; round < ROUNDS; round += 1) {
      let strikes = 0
      for (const call of driverCalls) {
        for (let nth = 1; nth <= MOST; nth += step) {
          assert.ok(nth < MOST)
          if (!(await run(lab, variant, { call, nth, result: INVALID_VALUE }))) break
          strikes += 1
        }
      }
      const { counts } = backendIn(simulation)
      const after = isNoMore(counts, kept) ? counts : await left(simulation, (now) => isNoMore(now, kept))
      if (isNoMore(after, kept)) return
      const words = `${JSON.stringify(kept)} before, ${JSON.stringify(after)} after ${strikes} refusals`
      kept = after
      assert.ok(round + 1 < ROUNDS, words)
    }
  }

  const missing = (): readonly string[] => FAILING_CALLS.filter((call) => !refusedCalls.has(call))

  it('was tried of every call that a program can let fail', { timeout: 10 * LONGEST }, async () => {
    // Of the variants of other days, those are tried today as well that reach what today's do not.
    for (const variant of variants) {
      if (missing().length === 0) break
      if (today.includes(variant) || (await lackOf(lab, variant)) !== undefined) continue
      const driverCalls = await driverCallsOf(variant)
      if (driverCalls.some((call) => missing().includes(call))) await leavesAllAsItWas(variant, driverCalls)
    }
    assert.deepEqual(missing(), [])
  })
})

async function run(lab: Lab, variant: Variant, fault?: Refusal): Promise<boolean> {
  const what = fault === undefined ? `${variant.name} without a fault` : `${fault.call}, no. ${fault.nth}`
  const attempt = await attemptIn(lab, variant)
  let isStruck = false
  try {
    let value: unknown
    if (fault !== undefined) {
      const { thrown, struck, ...first } = await strike(lab.bench, fault, attempt)
      value = first.value
      isStruck = struck
      if (thrown !== undefined) {
        assert.ok(thrown instanceof CudaError, `${what}: ${String(thrown)}`)
        assert.deepEqual([thrown.call, thrown.number], [fault.call, INVALID_VALUE], what)
        attempt.refused()
        value = await attempt.act()
      }
    } else value = await attempt.act()
    await lab.device.finished()
    await attempt.check(value)
  } catch (error) {
    throw new Error(`${what}: ${String(error)}`, { cause: error })
  } finally {
    attempt.end()
  }
  lab.settle()
  return isStruck
}

const shared = labIn(simulate())
/** With each kind of memory and with all options a call makes other calls of the driver, but it is lost in the same way. */
const lost = variants.filter(
  (variant, index) => !movesMuch(variant) && (isNightly || variants[index - 1]?.call !== variant.call),
)

describe('a refusal by which the devices are lost', () => {
  for (const variant of ofTheDay(lost, DAYS)) {
    it(`in ${variant.name} leaves no promise and no host function pending, and all can be closed`, {
      timeout: LONGEST,
    }, async (context) => {
      const lack = await lackOf(await shared, variant)
      if (lack !== undefined) return context.skip(lack)
      for (const call of await driverCallsOf(variant)) {
        for (let nth = 1; nth < MOST; nth += 1) {
          const simulation = simulate()
          const lab = await labIn(simulation)
          const other = lab.bench.stream()
          const attempt = await attemptIn(lab, variant)
          const { device } = lab
          const statuses: number[] = []
          other.addCallback((_stream, status) => statuses.push(status), undefined)
          const promises = [attempt.stream.finished(), other.finished(), device.finished()]
          const settled = Promise.allSettled(promises)
          const { thrown, struck } = await strike(simulation, { call, nth, result: ILLEGAL_ADDRESS }, attempt)
          if (!struck) break
          const what = `${call}, no. ${nth}`
          if (thrown !== undefined) assert.equal((thrown as CudaError).number, ILLEGAL_ADDRESS, `${what}: ${thrown}`)
          await settled
          attempt.end()
          other.close()
          await assert.rejects(device.finished(), { number: ILLEGAL_ADDRESS })
          // Callbacks are told of the fault in turns of the event loop.
          await turns()
          const { machine } = backendIn(simulation)
          assert.deepEqual([machine.hostFunctionsPending, machine.waitsPending], [0, 0], what)
          assert.deepEqual(statuses.length, 1, what)
        }
      }
      return undefined
    })
  }
})
