/** What host functions streams come after, on a driver that is pretended. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Dependencies } from '../../../../src/driver/cuda/host-functions/dependencies.js'
import type { GateCall } from '../../../../src/driver/cuda/host-functions/gates.js'
import type { StreamHandle } from '../../../../src/driver/driver.js'

it('what a stream is like is asked once, and anew where another stream has its handle', () => {
  let asked = 0
  let isBlocking: boolean | undefined
  const dependencies = new Dependencies(
    () => {
      asked += 1
      return isBlocking
    },
    () => 0,
  )
  const stream = 0x1000 as StreamHandle
  const queued = (): number => {
    dependencies.queued(stream, { lane: {}, sequence: 1 } as unknown as GateCall)
    dependencies.clear()
    return asked
  }
  assert.deepEqual([queued(), queued()], [1, 2], 'a stream that captures has no answer, which is not kept')
  isBlocking = true
  assert.deepEqual([queued(), queued()], [3, 3])
  dependencies.forgetStream(stream)
  assert.deepEqual([queued(), queued()], [4, 4])
  dependencies.streamAdopted(stream)
  assert.deepEqual([queued(), queued()], [5, 5])
})
