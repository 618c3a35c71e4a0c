/** A stream is its record: what was known of one that is gone is not taken for what is known of the next with its handle. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type StreamRecord, StreamRecords } from '../../../src/cuda/handles/stream-records.js'
import { StreamFlag } from '../../../src/foundation/driver/driver-constants.js'
import { type ContextHandle, defaultStream, type StreamHandle } from '../../../src/foundation/driver/handle-types.js'
import { refusedByDriver } from '../../conformance/expect.js'

const CONTEXT = 1 as ContextHandle
const STREAM = 0x1000 as StreamHandle
const records = (): StreamRecords => new StreamRecords({ primary: () => CONTEXT, deviceOf: () => 0 })
const found = (id: number | undefined) => ({ context: CONTEXT, id, green: undefined })

/** What is known of a stream beside its handle and context, and what it was made with. */
function learn(record: StreamRecord): void {
  record.hasEscaped = true
  record.isBlocking = true
  record.green = { context: CONTEXT, multiprocessors: 8 }
  record.launchStream = STREAM
  record.reuse = []
  record.capture = { id: 1n, joins: 0, into: undefined, isLeft: false }
  record.semaphore = {} as NonNullable<StreamRecord['semaphore']>
  record.comesAfter = new Map()
  record.entries = 1
  record.entriesSinceSemaphore = 1
}

it('a stream that is made where another stood begins with nothing of what was known of that', () => {
  const streams = records()
  const fresh = streams.created(STREAM, CONTEXT, StreamFlag.NON_BLOCKING)
  const before = { ...fresh }
  learn(fresh)
  for (const [name, value] of Object.entries(fresh))
    assert.ok(value !== undefined || name === 'id', `this test has no value for ${name}`)
  streams.remove(fresh)
  assert.deepEqual([fresh.isGone, streams.get(STREAM)], [true, undefined])
  assert.deepEqual({ ...streams.created(STREAM, CONTEXT, StreamFlag.NON_BLOCKING) }, before)
})

it('another library’s stream with the handle of one that was destroyed does so too, but for who has its handle', () => {
  const streams = records()
  const before = streams.foreign(STREAM, found(7))
  learn(before)
  const now = streams.foreign(STREAM, found(8))
  assert.deepEqual([before.isGone, streams.get(STREAM)], [true, now])
  const { hasEscaped, ...rest } = now
  const { hasEscaped: _, ...others } = records().foreign(STREAM, found(8))
  assert.equal(hasEscaped, true)
  assert.deepEqual(rest, others)
})

it('if it may be another stream with the same handle, it still comes after what the first came after', () => {
  const streams = records()
  const before = streams.foreign(STREAM, found(undefined))
  learn(before)
  const now = streams.foreign(STREAM, found(undefined))
  assert.notEqual(now, before)
  assert.deepEqual([now.comesAfter, now.semaphore, now.entries], [before.comesAfter, undefined, 0])
})

it('a record that was replaced is not taken for the one that replaced it when it is removed', () => {
  const streams = records()
  const before = streams.foreign(STREAM, found(7))
  const own = streams.created(STREAM, CONTEXT, StreamFlag.NON_BLOCKING)
  streams.remove(before)
  assert.equal(streams.get(STREAM), own)
})

it('both names of a null stream are one stream, which exists before anyone made it', () => {
  const streams = records()
  assert.equal(streams.get(defaultStream(1, 0)), streams.get(defaultStream(1, 1)))
  assert.notEqual(streams.get(defaultStream(1, 0)), streams.get(defaultStream(1, 2)))
  refusedByDriver(() => streams.of(STREAM), 400)
})

it('streams of other libraries are queried only while a wrapper is open and the handle check finds them alive', () => {
  const streams = records()
  streams.foreign(STREAM, found(7))
  const wrapper = streams.openWrapper(STREAM)
  const wrapped = (isStill = true): number => [...streams.wrapped(() => isStill)].length
  assert.deepEqual([wrapped(), wrapped(false)], [1, 0])
  wrapper.isOpen = false
  assert.equal(wrapped(), 0)
  streams.openWrapper(STREAM)
  assert.equal(wrapped(), 1)
  streams.foreign(STREAM, found(8))
  assert.equal(wrapped(), 0, 'a wrapper of the stream that stood there before')
})
