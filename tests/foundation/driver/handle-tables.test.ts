/** Tables whose keys come again: they answer as V8's own, and what they do for a key does not grow with how often it came. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { HandleMap, HandleSet } from '../../../src/foundation/driver/handle-tables.js'

test('a table of handles answers as a Map does, whatever is set and deleted', () => {
  const key = fc.nat(200)
  const step = fc.oneof(
    fc.record({ what: fc.constant('set' as const), key, value: fc.nat(9) }),
    fc.record({ what: fc.constant('delete' as const), key, value: fc.constant(0) }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 1500 }), (steps) => {
      const table = new HandleMap<number, number>()
      const model = new Map<number, number>()
      for (const { what, key, value } of steps) {
        if (what === 'set') {
          table.set(key, value)
          model.set(key, value)
        } else assert.equal(table.delete(key), model.delete(key))
        assert.equal(table.size, model.size)
        assert.deepEqual([table.has(key), table.get(key)], [model.has(key), model.get(key)])
      }
      const byKey = (one: readonly [number, number], other: readonly [number, number]): number => one[0] - other[0]
      assert.deepEqual([...table].sort(byKey), [...model].sort(byKey))
    }),
  )
})

test('a value of false is a value, and a set forgets what was deleted', () => {
  const table = new HandleMap<number, boolean>()
  table.set(1, false)
  assert.deepEqual([table.has(1), table.size, table.delete(1), table.has(1)], [true, 1, true, false])
  const set = new HandleSet<number>()
  set.add(7)
  set.delete(7)
  set.delete(7)
  assert.equal(set.has(7), false)
  set.add(7)
  assert.equal(set.has(7), true)
})

test('what is left in a table is there, however many keys came once and went', () => {
  const table = new HandleMap<number, number>()
  const left: [number, number][] = []
  for (let key = 0; key < 10_000; key += 1) {
    table.set(key, -key)
    if (key % 10 === 0) left.push([key, -key])
    else table.delete(key)
  }
  assert.deepEqual([...table], left)
  assert.equal(table.size, left.length)
})
