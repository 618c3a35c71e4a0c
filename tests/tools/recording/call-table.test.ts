/** The table of driver calls and the interceptors that follow it, or that are written by hand. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simulate } from 'cuda-streams/sim'
import { driverOf } from '../../../src/core/device.js'
import { checkSyncAsEnvironmentSays } from '../../../src/core/sync-check.js'
import { type Interceptor, PARTS } from '../../../src/foundation/driver/wrappable-driver.js'
import { argumentsOf, CALLS_BY_NAME, callsOf, OTHER_CALLS } from '../../../src/tools/recording/call-table.js'
import { TimelineInterceptor } from '../../../src/tools/timeline/timeline-interceptor.js'

const rows = PARTS.flatMap(callsOf)
const namesOf = (calls: typeof rows): readonly string[] => calls.map(({ part, method }) => `${part}.${method}`)
const handledBy = (interceptor: Interceptor): typeof rows =>
  rows.filter(({ part, method }) => Object.hasOwn(interceptor[part] ?? {}, method))
const blocking = rows.filter(({ row }) => row.written === 'blocks')

test('no two rows have the same name, by which a reader finds them', () => {
  assert.equal(CALLS_BY_NAME.size, rows.length)
  for (const name of Object.keys(OTHER_CALLS)) assert.ok(!CALLS_BY_NAME.has(name), name)
})

test('each field of a row is an argument or the result, but in calls that the recorder describes itself', () => {
  const others = rows.filter(({ row }) =>
    row.fields.some((field) => field !== row.result && !argumentsOf(row).includes(field)),
  )
  assert.deepEqual(namesOf(others), [
    ...['streams.create', 'streams.wrap', 'memory.allocatePinned', 'memory.registerPinned'],
    ...['graphs.end', 'graphs.addToBody'],
  ])
})

test('what blocks in the table is what the check of synchronous calls reports, and what a timeline draws', () => {
  const [device] = simulate().devices
  assert.ok(device !== undefined)
  const driver = driverOf(device)
  process.env['CUDA_STREAMS_SYNC'] = 'warn'
  checkSyncAsEnvironmentSays(driver)
  const [check] = driver.interceptors
  assert.ok(check !== undefined)
  assert.deepEqual(namesOf(blocking), [
    ...['devices.synchronize', 'streams.synchronize', 'events.synchronize', 'work.drainHostFunctions'],
  ])
  for (const each of [check, new TimelineInterceptor(driver, 0)]) {
    const handled = namesOf(handledBy(each))
    assert.deepEqual(
      namesOf(blocking).filter((name) => !handled.includes(name)),
      [],
    )
  }
})
