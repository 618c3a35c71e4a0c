/** The places of fields in memory that threads share: one behind the other, and none over another. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { placing } from '../../../src/foundation/base/placing.js'

test('fields lie one behind the other, and a length of zero asks how many words there are', () => {
  const place = placing()
  assert.deepEqual([place(1), place(2), place(3), place(0), place(1), place(0)], [0, 1, 3, 6, 6, 7])
  assert.equal(placing()(4), 0)
})
