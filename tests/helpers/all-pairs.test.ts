import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { allPairs } from './all-pairs.js'

test('any two values of two axes stand together in a combination, and there are far fewer than in the product', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 }), (sizes) => {
      const found = allPairs(sizes)
      for (const [a, width] of sizes.entries()) {
        for (const [b, height] of sizes.entries()) {
          if (a >= b) continue
          const met = new Set(found.map((choice) => `${choice[a]} ${choice[b]}`))
          assert.equal(met.size, width * height)
        }
      }
      for (const choice of found) {
        assert.equal(choice.length, sizes.length)
        for (const [axis, value] of choice.entries()) assert.ok(value >= 0 && value < (sizes[axis] ?? 0))
      }
      const [largest = 1, second = 1] = sizes.toSorted((a, b) => b - a)
      assert.ok(found.length <= 3 * largest * second, `${found.length} for ${sizes}`)
    }),
  )
})

test('the first combination has the first value of each axis', () => {
  assert.deepEqual(allPairs([3, 4, 2])[0], [0, 0, 0])
  assert.deepEqual(allPairs([3]), [[0], [1], [2]])
  assert.deepEqual(allPairs([]), [[0]])
})
