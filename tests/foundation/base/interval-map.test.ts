/** An interval map says of each address what one that keeps a value for each address would. */
import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { IntervalMap, upperBound } from '../../../src/foundation/base/interval-map.js'

const SPACE = 40
const RUNS = 500

type Change = readonly [start: number, length: number, value: number]

const changes: fc.Arbitrary<Change[]> = fc.array(
  fc.tuple(fc.nat({ max: SPACE - 1 }), fc.integer({ min: 0, max: 12 }), fc.integer({ min: 1, max: 4 })),
  { maxLength: 20 },
)

/** Both maps add the value of each change to what was there, and both are told the parts that had nothing apart. */
function applied(given: readonly Change[], joins: boolean): { map: IntervalMap<number>; cells: number[] } {
  const map = new IntervalMap<number>(joins ? (one, other) => one === other : undefined)
  const cells: number[] = new Array(SPACE + 12).fill(0)
  for (const [start, length, value] of given) {
    let covered = 0
    map.update(start, start + length, (old, from, to) => {
      ok(from >= start && to <= start + length && from < to)
      for (let at = from; at < to; at += 1) strictEqual(old ?? 0, cells[at])
      covered += to - from
      return (old ?? 0) + value
    })
    strictEqual(covered, length)
    for (let at = start; at < start + length; at += 1) cells[at] = (cells[at] ?? 0) + value
  }
  return { map, cells }
}

const intervalsOf = (map: IntervalMap<number>): { start: number; end: number; value: number }[] => [
  ...map.overlapping(0, Number.POSITIVE_INFINITY),
]

describe('IntervalMap', () => {
  for (const joins of [false, true]) {
    it(`has the value of each address${joins ? ', and joins neighbours that are the same' : ''}`, () => {
      fc.assert(
        fc.property(changes, (given) => {
          const { map, cells } = applied(given, joins)
          const found: number[] = new Array(cells.length).fill(0)
          let last = 0
          for (const { start, end, value } of intervalsOf(map)) {
            ok(start >= last && end > start)
            found.fill(value, start, end)
            last = end
          }
          deepStrictEqual(found, cells)
        }),
        { numRuns: RUNS },
      )
    })
  }

  it('names exactly the intervals that overlap', () => {
    fc.assert(
      fc.property(changes, fc.nat({ max: SPACE }), fc.nat({ max: 12 }), (given, start, length) => {
        const { map } = applied(given, true)
        const expected = intervalsOf(map).filter((one) => one.start < start + length && one.end > start)
        deepStrictEqual([...map.overlapping(start, start + length)], length === 0 ? [] : expected)
      }),
      { numRuns: RUNS },
    )
  })

  it('drops the intervals whose value is replaced by undefined', () => {
    const { map } = applied(
      [
        [0, 4, 1],
        [4, 4, 2],
        [8, 4, 3],
      ],
      true,
    )
    map.replaceAll((value) => (value === 2 ? undefined : value))
    deepStrictEqual(intervalsOf(map), [
      { start: 0, end: 4, value: 1 },
      { start: 8, end: 12, value: 3 },
    ])
    strictEqual(map.size, 2)
  })
})

describe('upperBound', () => {
  it('counts the numbers that are at most the limit', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 20 })), fc.nat({ max: 21 }), (numbers, limit) => {
        const sorted = [...numbers].sort((a, b) => a - b)
        const count = upperBound(sorted.length, (at) => sorted[at] ?? Number.NaN, limit)
        strictEqual(count, sorted.filter((number) => number <= limit).length)
      }),
      { numRuns: RUNS },
    )
  })
})
