/** What a soak says of memory and the like that grew, and when it says nothing. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BOUNDS, FIGURES, type Figures, failuresOf, growthOf, type Sample } from './figures.js'
import { judge } from './month.js'
import { slopeOf } from './slopes.js'

const NONE: Figures = { process: 100, heap: 10, outside: 5, device: 32, locked: 1, threads: 11, files: 20, left: 0 }

/** Samples in which one figure rises with the operations by so much for 100 000. */
function rising(figure: keyof Figures, rise: number, most: number): Sample[] {
  return [0, 1, 2, 3, 4, 5].map((index) => {
    const operations = (most * index) / 5
    return { operations, figures: { ...NONE, [figure]: (NONE[figure] ?? 0) + (rise * operations) / 100_000 } }
  })
}

describe('the figures of a soak', () => {
  for (const figure of FIGURES) {
    const { more, rise } = BOUNDS[figure]
    const from = NONE[figure] ?? 0

    it(`fail where there is too much of ${figure} at the end`, () => {
      const growthTo = (to: number): string[] =>
        failuresOf(growthOf(rising(figure, 0, 1000), { ...NONE, [figure]: to }))
      assert.deepEqual(growthTo(from + more), [])
      assert.deepEqual(growthTo(from - 1), [])
      const [failure] = growthTo(from + more + 1)
      assert.match(
        failure ?? '',
        new RegExp(`^${figure} grew from ${from} to ${from + more + 1}, by more than ${more}$`),
      )
    })

    it(`fail where ${figure} rises in a long run, though little of it is left at the end`, () => {
      assert.deepEqual(failuresOf(growthOf(rising(figure, rise, 200_000), NONE)), [])
      assert.deepEqual(failuresOf(growthOf(rising(figure, 2 * rise, 50_000), NONE)), [])
      const [failure] = failuresOf(growthOf(rising(figure, 2 * rise, 200_000), NONE))
      assert.match(failure ?? '', new RegExp(`^${figure} rises by ${2 * rise}(\\.0)? for 100 000 operations`))
    })
  }

  it('leave out what the system does not tell of', () => {
    const figures = { ...NONE, device: undefined }
    const growth = growthOf([{ operations: 1, figures }], { ...NONE, device: 1e6 })
    assert.deepEqual(failuresOf(growth), [])
    assert.ok(!growth.some(({ figure }) => figure === 'device'))
  })
})

describe('a slope', () => {
  it('is that of the line of least squares, with its fit', () => {
    const line = slopeOf([0, 1000, 2000].map((operations) => ({ operations, value: 7 + operations / 1000 })))
    assert.deepEqual(line, { rise: 100, fit: 1, operations: 2000 })
    const upAndDown = slopeOf([1, 3, 1].map((value, index) => ({ operations: 1000 * index, value })))
    assert.deepEqual(upAndDown, { rise: 0, fit: 0, operations: 2000 })
    assert.equal(slopeOf([{ operations: 0, value: 1 }]), undefined)
  })
})

describe('a month', () => {
  it('fails for what rises beyond what workers that do nothing leave', () => {
    assert.deepEqual(judge({ process: 2.5, files: 0.1 }, { process: 2 }), [])
    assert.deepEqual(judge({ process: 2.5 }, { process: -7 }), [
      'process rises by 2.50 for 100 000 requests, which is not below 1',
    ])
    assert.match(judge({ left: 3 }, {})[0] ?? '', /^left rises/)
  })
})
