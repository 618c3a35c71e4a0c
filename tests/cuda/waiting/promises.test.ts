/** Waits by promise, on fake events. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Completions } from '../../../src/cuda/waiting/promises.js'
import { UsualWaits } from '../../../src/cuda/waiting/usual-waits.js'
import type { EventHandle } from '../../../src/foundation/driver/handle-types.js'

const EVENT = 7 as EventHandle
/** CUDA_ERROR_NOT_READY. */
const NOT_READY = 600

test('a wait that continues with another event, because its own is recorded again, can be cancelled: it is pending once, and ends once', () => {
  const waits = new Completions({ cuEventQuery: () => NOT_READY }, new UsualWaits())
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
  const waits = new Completions({ cuEventQuery: () => NOT_READY }, new UsualWaits())
  waits.add(EVENT, EVENT, () => assert.fail('it was cancelled'))()
  assert.equal(waits.take(EVENT), undefined)
  assert.equal(waits.pending, 0)
})

test('waits of one group that have ended are settled in order by few queries, however many there are', () => {
  const COUNT = 100
  for (const done of [0, 1, 2, 37, 98, 99, COUNT]) {
    let queries = 0
    const library = {
      cuEventQuery(event: unknown) {
        queries += 1
        return Number(event) < done ? 0 : NOT_READY
      },
    }
    const waits = new Completions(library, new UsualWaits())
    const settled: number[] = []
    const all = Array.from({ length: COUNT }, (_, nth) => nth)
    const cancels = all.map((nth) => waits.add(EVENT, nth as EventHandle, () => settled.push(nth)))
    // One that was cancelled is passed over.
    cancels[1]?.()
    assert.equal(waits.poll(), done > 0)
    assert.deepEqual(
      settled,
      all.slice(0, done).filter((nth) => nth !== 1),
    )
    assert.ok(queries <= 2 + Math.ceil(Math.log2(COUNT)), `${queries} queries for ${done} of ${COUNT}`)
    assert.equal(waits.pending, COUNT - 1 - settled.length)
    assert.equal(waits.groups, done === COUNT ? 0 : 1)
  }
})

test('the waits of a thousand streams that end at once are settled in many turns, each once, and those behind come first in the next', () => {
  const COUNT = 1000
  const done = new Set<number>(Array.from({ length: COUNT }, (_, nth) => nth))
  const waits = new Completions<number>(
    { cuEventQuery: (event) => (done.has(Number(event)) ? 0 : NOT_READY) },
    new UsualWaits(),
  )
  const settled: number[] = []
  const add = (nth: number): void => void waits.add(nth, nth as EventHandle, () => settled.push(nth))
  for (const nth of done) add(nth)
  const mostInATurn = 64
  assert.equal(waits.poll(), true)
  assert.equal(settled.length, mostInATurn)
  // What goes on waits again, behind the others.
  for (const nth of settled) add(nth)
  let turns = 1
  for (; settled.length < COUNT; turns += 1) {
    const before = settled.length
    waits.poll()
    assert.ok(settled.length - before <= mostInATurn)
  }
  assert.equal(turns, Math.ceil(COUNT / mostInATurn))
  const first = settled.slice(0, COUNT)
  assert.equal(new Set(first).size, COUNT, 'each of the first ones was settled once before another was settled twice')
  // One that is done is found in one call, wherever the round is.
  done.clear()
  while (waits.groups > 0 && waits.poll());
  for (let nth = 0; nth < COUNT; nth += 1) add(nth)
  for (const only of [700, 3, 999, 0]) {
    done.add(only)
    assert.equal(waits.poll(), true)
    assert.equal(settled.at(-1), only)
    assert.equal(waits.poll(), false)
  }
})
