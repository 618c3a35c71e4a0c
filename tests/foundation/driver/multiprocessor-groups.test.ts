/** How parts of different sizes are made of groups that are alike. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { multiprocessorGroups } from '../../../src/foundation/driver/multiprocessor-groups.js'

describe('groups of multiprocessors', () => {
  const onHopper = (wanted: readonly number[]) => multiprocessorGroups(wanted, 8, 8)

  it('are as large as one part, or as all parts where those are alike', () => {
    assert.deepEqual(onHopper([1]), { size: 8, counts: [1] })
    assert.deepEqual(onHopper([16]), { size: 16, counts: [1] })
    assert.deepEqual(onHopper([17]), { size: 24, counts: [1] })
    assert.deepEqual(onHopper([9, 16, 12]), { size: 16, counts: [1, 1, 1] })
  })

  it('are otherwise the largest of which all parts are whole numbers', () => {
    assert.deepEqual(onHopper([16, 32]), { size: 16, counts: [1, 2] })
    assert.deepEqual(onHopper([8, 16, 40]), { size: 8, counts: [1, 2, 5] })
    assert.deepEqual(onHopper([64, 48]), { size: 16, counts: [4, 3] })
  })

  it('have at least as many as the device gives, in its steps', () => {
    // Compute capability 8.x: at least 4, in steps of 2.
    assert.deepEqual(multiprocessorGroups([1], 4, 2), { size: 4, counts: [1] })
    assert.deepEqual(multiprocessorGroups([5], 4, 2), { size: 6, counts: [1] })
    assert.deepEqual(multiprocessorGroups([4, 6], 4, 2), { size: 4, counts: [1, 2] })
    assert.deepEqual(multiprocessorGroups([2, 3], 2, 2), { size: 2, counts: [1, 2] })
  })
})
