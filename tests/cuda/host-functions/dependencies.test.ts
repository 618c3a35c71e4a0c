/** What host functions streams come after, on streams that are made up. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { StreamRecord } from '../../../src/cuda/handles/stream-records.js'
import { Dependencies } from '../../../src/cuda/host-functions/dependencies.js'
import type { PendingCall } from '../../../src/cuda/host-functions/semaphores.js'
import { type ContextHandle, defaultStream, type EventHandle } from '../../../src/foundation/driver/handle-types.js'
import { anyStream } from '../fake-parts.js'

const EVENT = 7 as EventHandle
const call = { semaphore: {}, sequence: 1 } as unknown as PendingCall

it('a stream comes after what it waited for, until nothing is pending', () => {
  const dependencies = new Dependencies(() => false)
  const [stream, other] = [anyStream(1), anyStream(2)]
  dependencies.queued(stream, call)
  dependencies.recorded(EVENT, stream)
  assert.equal(dependencies.streamComesAfter(other)(call), false)
  dependencies.waitedForEvent(other, EVENT)
  assert.deepEqual(
    [dependencies.streamComesAfter(other)(call), dependencies.eventComesAfter(EVENT)(call)],
    [true, true],
  )
  dependencies.clear()
  assert.equal(dependencies.streamComesAfter(other)(call), false)
})

it('a new stream with the handle of one that is gone comes after nothing that the other came after', () => {
  const dependencies = new Dependencies(() => false)
  dependencies.queued(anyStream(), call)
  assert.equal(dependencies.streamComesAfter(anyStream())(call), false)
})

it('the null stream comes after the blocking streams of its device alone, and they after it', () => {
  const context = 1 as ContextHandle
  const dependencies = new Dependencies(({ isBlocking }) => isBlocking)
  const nullOf = (device: number): StreamRecord => new StreamRecord(defaultStream(device, 0), context, device, 'cuda')
  const [blocking, other] = [anyStream(1), anyStream(2)]
  blocking.isBlocking = true
  other.isBlocking = false
  for (const [queued, after, expected] of [
    [blocking, nullOf(0), true],
    [blocking, nullOf(1), false],
    [other, nullOf(0), false],
    [nullOf(0), blocking, true],
    [nullOf(0), other, false],
    [nullOf(1), blocking, false],
  ] as const) {
    dependencies.queued(queued, call)
    assert.equal(dependencies.streamComesAfter(after)(call), expected)
    dependencies.clear()
  }
})
