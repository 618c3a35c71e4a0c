/** Matrices for the tests: numbers as bytes of each type, back again, and their product as the definition has it. */
import type { GemmType } from 'cuda-streams/cublas'
import { fromBf16, fromF16, toBf16, toF16 } from '../../src/foundation/base/element-types.js'

export function encode(type: GemmType, values: readonly number[]): Uint8Array {
  switch (type) {
    case 'f32':
      return bytesOf(Float32Array.from(values))
    case 'f64':
      return bytesOf(Float64Array.from(values))
    default:
      return bytesOf(Uint16Array.from(values, type === 'f16' ? toF16 : toBf16))
  }
}

/** A negative zero reads as zero: which of the two a sum gives depends on how it is begun. */
export function decode(type: GemmType, bytes: Uint8Array): number[] {
  return decoded(type, bytes).map((value) => value + 0)
}

function decoded(type: GemmType, bytes: Uint8Array): number[] {
  const { buffer } = bytes.slice()
  switch (type) {
    case 'f32':
      return [...new Float32Array(buffer)]
    case 'f64':
      return [...new Float64Array(buffer)]
    default:
      return Array.from(new Uint16Array(buffer), type === 'f16' ? fromF16 : fromBf16)
  }
}

function bytesOf(view: Float32Array | Float64Array | Uint16Array): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
}

/** Whole numbers from -3 to 3: their sums of products are exact in every type, whatever the order of summation. */
export function wholeNumbers(count: number, seed: number): number[] {
  let state = seed | 1
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return ((state >>> 16) % 7) - 3
  })
}

export interface Product {
  readonly m: number
  readonly n: number
  readonly k: number
  readonly transposeA: boolean
  readonly transposeB: boolean
  readonly alpha: number
  readonly beta: number
  readonly order: 'row' | 'column'
}

/** alpha · A · B + beta · C, from elements that lie without gaps. */
export function product(p: Product, a: readonly number[], b: readonly number[], c: readonly number[]): number[] {
  const at = (rows: number, columns: number, row: number, column: number): number =>
    p.order === 'row' ? row * columns + column : column * rows + row
  const ofA = (row: number, i: number): number => (p.transposeA ? at(p.k, p.m, i, row) : at(p.m, p.k, row, i))
  const ofB = (i: number, column: number): number => (p.transposeB ? at(p.n, p.k, column, i) : at(p.k, p.n, i, column))
  const result = [...c]
  for (let row = 0; row < p.m; row += 1) {
    for (let column = 0; column < p.n; column += 1) {
      let sum = 0
      for (let i = 0; i < p.k; i += 1) sum += (a[ofA(row, i)] ?? 0) * (b[ofB(i, column)] ?? 0)
      const to = at(p.m, p.n, row, column)
      result[to] = p.alpha * sum + (p.beta === 0 ? 0 : p.beta * (c[to] ?? 0)) + 0
    }
  }
  return result
}
