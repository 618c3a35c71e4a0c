import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isContextLost } from '../../../src/foundation/driver/cuda-results.js'

test('a context is lost by a fault, and not by a launch or a call that is refused', () => {
  const found = (results: readonly number[]): readonly number[] => results.filter(isContextLost)
  const faults = [700, 702, 709, 710, 714, 715, 716, 717, 718, 719]
  const refusals = [0, 1, 600, 701, 704, 705, 708, 711, 712, 713, 720, 801, 900]
  assert.deepEqual([found(faults), found(refusals)], [faults, []])
})
