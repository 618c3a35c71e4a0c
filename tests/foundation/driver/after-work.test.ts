/** Things that are given up when the GPU is done with them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AfterWork } from '../../../src/foundation/driver/after-work.js'
import type { EventHandle } from '../../../src/foundation/driver/handle-types.js'

function scene(giveUp: (thing: string) => void) {
  const done = new Set<EventHandle>()
  const recycled: EventHandle[] = []
  const driver = {
    memory: { isDone: (event: EventHandle) => done.has(event) },
    events: { recycle: (_: unknown, event: EventHandle) => void recycled.push(event) },
  }
  const work = new AfterWork(driver, giveUp)
  const event = (number: number) => ({ context: 1, event: number }) as Parameters<typeof work.add>[1][number]
  return { work, done, recycled, event }
}

test('each is given up once, when all its events are done', () => {
  const gone: string[] = []
  const { work, done, recycled, event } = scene((thing) => gone.push(thing))
  work.add('a', [event(1), event(2)])
  work.add('b', [])
  done.add(event(1).event)
  work.sweep()
  assert.deepEqual(gone, ['b'])
  done.add(event(2).event)
  work.sweep()
  work.sweep()
  assert.deepEqual(gone, ['b', 'a'])
  assert.deepEqual(recycled, [1, 2])
  assert.equal(work.pending, false)
})

test('one that throws takes none of those behind along', () => {
  const gone: string[] = []
  const { work } = scene((thing) => {
    gone.push(thing)
    if (thing === 'a') throw new Error(thing)
  })
  for (const thing of ['a', 'b', 'c']) work.add(thing, [])
  assert.throws(() => work.sweep(), { message: 'a' })
  assert.deepEqual(gone, ['a', 'b', 'c'])
  assert.equal(work.pending, false)
})

test('what may not go yet stays, also where the one before it has made it so', () => {
  const gone: string[] = []
  let mayGo = true
  const { work } = scene((thing) => {
    gone.push(thing)
    mayGo = false
  })
  for (const thing of ['a', 'b']) work.add(thing, [])
  work.sweep(() => mayGo)
  assert.deepEqual(gone, ['a'])
  assert.equal(work.pending, true)
  mayGo = true
  work.sweep(() => mayGo)
  assert.deepEqual(gone, ['a', 'b'])
})
