import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ofTheDay } from './of-the-day.js'

test('each row of a table has its day within so many, and a day plays no more than its part', () => {
  for (const count of [1, 2, 3, 7, 30]) {
    const rows = Array.from({ length: count }, (_, index) => index)
    const played = [20_785, 20_786, 20_787].map((today) => ofTheDay(rows, 3, today))
    assert.deepEqual(
      [...new Set(played.flat())].sort((a, b) => a - b),
      rows,
    )
    for (const part of played) assert.ok(part.length >= 1)
  }
})
