/** Is a handle that other code hands over the stream it meant before? If not, what is known of it has to be forgotten. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Contexts } from '../../../../src/driver/cuda/libcuda/contexts.js'
import { StreamCalls } from '../../../../src/driver/cuda/libcuda/stream-calls.js'
import type { ContextHandle, StreamHandle } from '../../../../src/driver/driver.js'

const context = 1 as ContextHandle
const stream = 4096 as StreamHandle

it('a stream of our own is always the same, until it is destroyed', () => {
  const calls = new StreamCalls({} as Contexts)
  calls.created(stream, context)
  assert.equal(calls.adopt(stream, context, 7), false)
  assert.equal(calls.adopt(stream, context, undefined), false)
  calls.forget(stream)
  assert.equal(calls.adopt(stream, context, 8), true)
  calls.created(stream, context)
  assert.equal(calls.adopt(stream, context, 9), false)
})

it('one that another library owns is told by the driver’s number for it', () => {
  const calls = new StreamCalls({} as Contexts)
  assert.equal(calls.adopt(stream, context, 7), true)
  assert.equal(calls.adopt(stream, context, 7), false)
  assert.equal(calls.adopt(stream, context, 8), true, 'destroyed, and another made there')
  assert.equal(calls.adopt(stream, context, undefined), true, 'it cannot be told')
  assert.equal(calls.adopt(stream, context, undefined), true)
})
