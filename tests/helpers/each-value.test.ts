/** The combinations that the tests of the matrix try on a fake GPU. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eachValue } from './each-value.js'

for (const sizes of [[3], [22, 2, 13, 13], [4, 2, 1], [1, 1], [13, 13, 13], [2, 6, 4]]) {
  for (const turn of [0, 1, 7, 100]) {
    test(`each value of axes of ${sizes.join(', ')} has its turn, with turn ${turn}`, () => {
      const found = eachValue(sizes, turn)
      assert.deepEqual(
        found[0],
        sizes.map(() => 0),
      )
      assert.ok(found.length <= Math.max(...sizes) + 1, `${found.length} combinations`)
      for (const [axis, size] of sizes.entries()) {
        assert.deepEqual(
          [...new Set(found.map((indices) => indices[axis]))].sort((a, b) => Number(a) - Number(b)),
          Array.from({ length: size }, (_, index) => index),
        )
      }
    })
  }
}

test('other turns let other values meet: after all of them any two have', () => {
  const met = new Set(
    Array.from({ length: 13 }, (_, turn) => eachValue([22, 13], turn)).flatMap((each) => each.map(String)),
  )
  assert.equal(met.size, 22 * 13)
})

test('no axis has one combination', () => {
  assert.deepEqual(eachValue([], 3), [[]])
})
