/** A matrix product in JavaScript: what cuBLAS computes, for the simulated GPU. Slow and plain. */
import { FLOAT_ELEMENTS, viewOf } from '../float-formats.js'
import type { GemmShape, Layout } from './gemm-shape.js'
import { CUBLAS_TYPES } from './library.js'

/** Computes C from the bytes of A, B and C. */
export function multiply(shape: GemmShape, [bytesA, bytesB, bytesC]: readonly Uint8Array[]): void {
  if (bytesA === undefined || bytesB === undefined || bytesC === undefined) return
  const { type, m, n, k, transposeA, transposeB, alpha, beta } = shape
  const [a, b, c] = [viewOf(bytesA), viewOf(bytesB), viewOf(bytesC)]
  const { get, set } = FLOAT_ELEMENTS[type]
  const round = type === 'f64' ? (value: number): number => value : Math.fround
  for (let batch = 0; batch < shape.batchCount; batch += 1) {
    const inA = placesIn(shape, shape.a, batch, transposeA)
    const inB = placesIn(shape, shape.b, batch, transposeB)
    const inC = placesIn(shape, shape.c, batch, false)
    for (let row = 0; row < m; row += 1) {
      for (let column = 0; column < n; column += 1) {
        let sum = 0
        for (let i = 0; i < k; i += 1) sum = round(sum + round(get(a, inA(row, i)) * get(b, inB(i, column))))
        const at = inC(row, column)
        // With beta 0 the old C is not looked at: it may be anything, NaN included.
        const old = beta === 0 ? 0 : round(beta * get(c, at))
        set(c, at, round(round(alpha * sum) + old))
      }
    }
  }
}

/** At which byte of a matrix the element in a row and column, as they are multiplied, begins. */
function placesIn(
  { type, order }: GemmShape,
  { leading, stride }: Layout,
  batch: number,
  transposed: boolean,
): (row: number, column: number) => number {
  const { bytes } = CUBLAS_TYPES[type]
  const [first, line] = [batch * stride * bytes, leading * bytes]
  const rowsAreLines = (order === 'row') !== transposed
  return rowsAreLines
    ? (row, column) => first + row * line + column * bytes
    : (row, column) => first + column * line + row * bytes
}
