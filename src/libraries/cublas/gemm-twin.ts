/** A matrix product in JavaScript: what cuBLAS computes, for the simulated GPU. Slow and plain. */
import { fromBf16, fromF16, toBf16, toF16 } from './float-formats.js'
import type { GemmShape, GemmType, Layout } from './gemm-shape.js'

interface Elements {
  get(index: number): number
  set(index: number, value: number): void
}

/** Computes C from the bytes of A, B and C. */
export function multiply(shape: GemmShape, [bytesA, bytesB, bytesC]: readonly Uint8Array[]): void {
  if (bytesA === undefined || bytesB === undefined || bytesC === undefined) return
  const { type, m, n, k, transposeA, transposeB, alpha, beta, order } = shape
  const [a, b, c] = [elementsOf(type, bytesA), elementsOf(type, bytesB), elementsOf(type, bytesC)]
  const round = type === 'f64' ? (value: number): number => value : Math.fround
  for (let batch = 0; batch < shape.batchCount; batch += 1) {
    const inA = indexer(shape.a, batch, order, transposeA)
    const inB = indexer(shape.b, batch, order, transposeB)
    const inC = indexer(shape.c, batch, order, false)
    for (let row = 0; row < m; row += 1) {
      for (let column = 0; column < n; column += 1) {
        let sum = 0
        for (let i = 0; i < k; i += 1) sum = round(sum + round(a.get(inA(row, i)) * b.get(inB(i, column))))
        const at = inC(row, column)
        // With beta 0 the old C is not looked at: it may be anything, NaN included.
        const old = beta === 0 ? 0 : round(beta * c.get(at))
        c.set(at, round(round(alpha * sum) + old))
      }
    }
  }
}

/** Where the element in a row and column, as they are multiplied, lies. */
function indexer(
  { leading, stride }: Layout,
  batch: number,
  order: 'row' | 'column',
  transposed: boolean,
): (row: number, column: number) => number {
  const first = batch * stride
  const rowsAreLines = (order === 'row') !== transposed
  return rowsAreLines
    ? (row, column) => first + row * leading + column
    : (row, column) => first + column * leading + row
}

function elementsOf(type: GemmType, bytes: Uint8Array): Elements {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  switch (type) {
    case 'f32':
      return {
        get: (index) => view.getFloat32(index * 4, true),
        set: (index, value) => view.setFloat32(index * 4, value, true),
      }
    case 'f64':
      return {
        get: (index) => view.getFloat64(index * 8, true),
        set: (index, value) => view.setFloat64(index * 8, value, true),
      }
    default: {
      const [from, to] = type === 'f16' ? [fromF16, toF16] : [fromBf16, toBf16]
      return {
        get: (index) => from(view.getUint16(index * 2, true)),
        set: (index, value) => view.setUint16(index * 2, to(value), true),
      }
    }
  }
}
