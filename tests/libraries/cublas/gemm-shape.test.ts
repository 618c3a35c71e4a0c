/** The sizes of matrix products: how large they may be, and which matrices share elements. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  type GemmShape,
  type Layout,
  matricesOverlap,
  type StridedBatchOptions,
  shapeOfBatch,
  shapeOfGemm,
} from '../../../src/libraries/cublas/gemm-shape.js'
import { refused } from '../../conformance/expect.js'

const MOST = 2 ** 31 - 1

/** Where the elements of each matrix of a batch lie, seen from the first of the first. */
function elementsOf({ lines, length, leading, stride }: Layout, batchCount: number): number[][] {
  const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index)
  return range(batchCount).map((matrix) =>
    range(lines).flatMap((line) => range(length).map((at) => matrix * stride + line * leading + at)),
  )
}

describe('sizes of matrix products', () => {
  it('matrices may have more than four million elements', () => {
    const { a, b, c } = shapeOfGemm({ type: 'f16', m: 4096, n: 4097, k: 4098 })
    assert.deepEqual([a.elements, b.elements, c.elements], [4096 * 4098, 4098 * 4097, 4096 * 4097])
    const batch = shapeOfBatch({ type: 'f32', m: 4096, n: 4096, k: 4096, batchCount: 1000 })
    assert.equal(batch.c.elements, 4096 * 4096 * 1000)
  })

  it('sizes and leading dimensions go to what a C int holds, strides and elements to what a number holds exactly', () => {
    const one = { type: 'f32', m: 1, n: 1, k: 1 } as const
    const { a, c } = shapeOfGemm({ ...one, m: 4, lda: MOST, ldc: MOST })
    assert.deepEqual([a.elements, c.elements], [3 * MOST + 1, 3 * MOST + 1])
    for (const name of ['m', 'n', 'k', 'lda', 'ldb', 'ldc'] as const) {
      refused(
        () => shapeOfGemm({ ...one, [name]: MOST + 1 }),
        'ERR_OUT_OF_RANGE',
        new RegExp(`options\\.${name}.*${MOST}`),
      )
    }
    refused(() => shapeOfBatch({ ...one, batchCount: MOST + 1 }), 'ERR_OUT_OF_RANGE', /options\.batchCount/)
    const far = Number.MAX_SAFE_INTEGER - 1
    const two = shapeOfBatch({ ...one, batchCount: 2, strideA: far, strideB: far, strideC: far })
    assert.equal(two.c.elements, Number.MAX_SAFE_INTEGER)
    refused(
      () => shapeOfGemm({ ...one, m: MOST, k: MOST }),
      'ERR_OUT_OF_RANGE',
      /^The elements .* of A must be at most/,
    )
    for (const letter of ['A', 'B', 'C']) {
      refused(
        () => shapeOfBatch({ ...one, batchCount: 3, [`stride${letter}`]: far }),
        'ERR_OUT_OF_RANGE',
        new RegExp(`^The elements from the first to the last of ${letter} must be at most 9007199254740991`),
      )
      refused(
        () => shapeOfBatch({ ...one, batchCount: 3, [`stride${letter}`]: 2 ** 53 }),
        'ERR_OUT_OF_RANGE',
        new RegExp(`options\\.stride${letter}`),
      )
    }
  })

  it('the matrices that are written may lie one behind the other or side by side, and never overlap', () => {
    const verdicts = new Set<string>()
    for (const order of ['row', 'column'] as const) {
      for (let ldc = 2; ldc <= 9; ldc += 1) {
        for (let strideC = 0; strideC <= 20; strideC += 1) {
          for (const batchCount of [1, 2, 3, 4]) {
            const options: StridedBatchOptions = { type: 'f32', m: 2, n: 2, k: 1, order, batchCount, ldc, strideC }
            let shape: GemmShape | undefined
            try {
              shape = shapeOfBatch(options)
            } catch {
              refused(() => shapeOfBatch(options), 'ERR_OUT_OF_RANGE', /^options\.strideC .*overlap/)
            }
            const layout = { lines: 2, length: 2, leading: ldc, stride: strideC, elements: 0 }
            const elements = elementsOf(layout, batchCount).flat()
            const areApart = new Set(elements).size === elements.length
            const what = JSON.stringify(options)
            if (shape !== undefined) {
              assert.ok(areApart, what)
              assert.equal(shape.c.elements, Math.max(...elements) + 1, what)
            }
            const isUsual = strideC >= ldc + 2 || (strideC >= 2 && (batchCount - 1) * strideC + 2 <= ldc)
            if (batchCount > 1) assert.equal(shape !== undefined, isUsual, what)
            verdicts.add(`${areApart} ${shape !== undefined}`)
          }
        }
      }
    }
    // Between the two ways are others, of no use, in which they happen to miss each other.
    assert.deepEqual(verdicts, new Set(['true true', 'false false', 'true false']))
  })

  it('says what a stride may be', () => {
    const options = { type: 'f32', m: 2, n: 2, k: 2, batchCount: 3, strideC: 1 } as const
    refused(
      () => shapeOfBatch({ ...options, ldc: 9 }),
      'ERR_OUT_OF_RANGE',
      /at least 11, or from 2 to 3 to lie side by side/,
    )
    refused(() => shapeOfBatch({ ...options, ldc: 5 }), 'ERR_OUT_OF_RANGE', /at least 7: the matrices/)
    refused(
      () => shapeOfBatch({ ...options, strideC: -1 }),
      'ERR_OUT_OF_RANGE',
      /options\.strideC must be at least 0, not -1/,
    )
  })
})

describe('matrices that share elements', () => {
  const layout = (lines: number, length: number, leading: number, stride: number, batchCount: number): Layout => ({
    ...{ lines, length, leading, stride },
    elements: (batchCount - 1) * stride + (lines - 1) * leading + length,
  })

  it('are found wherever they lie, and others are not', () => {
    const layouts = (batchCount: number): Layout[] =>
      [1, 3].flatMap((lines) =>
        [2, 5].flatMap((leading) =>
          [1, 2].flatMap((length) =>
            (batchCount === 1 ? [0] : [0, 4, 11]).map((stride) => layout(lines, length, leading, stride, batchCount)),
          ),
        ),
      )
    const seen = new Set<boolean>()
    for (const batchCount of [1, 3]) {
      for (const a of layouts(batchCount)) {
        const read = new Set(elementsOf(a, batchCount).flat())
        for (const c of layouts(batchCount)) {
          const written = elementsOf(c, batchCount).flat()
          for (let distance = -c.elements - 1; distance <= a.elements + 1; distance += 1) {
            const expected = written.some((at) => read.has(at + distance))
            seen.add(expected)
            if (matricesOverlap(a, c, distance, batchCount) === expected) continue
            assert.fail(`${JSON.stringify([a, c])}, ${distance} apart, ${batchCount} of them: ${expected} was expected`)
          }
        }
      }
    }
    assert.equal(seen.size, 2)
  })

  it('are looked for in a bounded time: what is too entangled passes', () => {
    const million = 2 ** 20
    const a = layout(million, 1, 7, 3, million)
    const c = layout(million, 1, 8, 8 * million, million)
    assert.equal(matricesOverlap(a, c, 0, million), true)
    assert.equal(
      matricesOverlap(layout(million, 1, 6, 6, million), layout(million, 1, 12, 12 * million, million), 1, million),
      false,
    )
  })
})
