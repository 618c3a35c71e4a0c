/** Waits by promise, on fake events. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Completions } from '../../../../src/driver/cuda/waiting/promises.js'
import type { EventHandle } from '../../../../src/driver/driver.js'

const EVENT = 7 as EventHandle
/** CUDA_ERROR_NOT_READY. */
const NOT_READY = 600

test('a wait that continues with another event, because its own is recorded again, can be cancelled: it is pending once, and ends once', () => {
  const waits = new Completions({ cuEventQuery: () => NOT_READY })
  const settled: string[] = []
  const cancel = waits.add(EVENT, EVENT, () => settled.push('first'))
  waits.add(EVENT, EVENT, () => settled.push('second'))
  const settle = waits.take(EVENT)
  assert.equal(waits.pending, 2, 'both wait for the old record still')
  assert.equal(waits.has(EVENT), false)
  cancel()
  assert.equal(waits.pending, 1)
  settle?.(undefined)
  assert.deepEqual(settled, ['second'])
  assert.equal(waits.pending, 0)
  cancel()
  settle?.(undefined)
  assert.deepEqual([settled.length, waits.pending], [1, 0])
})

test('where all waits of an event are cancelled nothing is handed on', () => {
  const waits = new Completions({ cuEventQuery: () => NOT_READY })
  waits.add(EVENT, EVENT, () => assert.fail('it was cancelled'))()
  assert.equal(waits.take(EVENT), undefined)
  assert.equal(waits.pending, 0)
})
