/** A matrix product: the call of cuBLAS, its host implementation for the simulator, and its kind. */
import { dataViewOf, ELEMENT_TYPES, FLOAT_ACCESS } from '../../base/element-types.js'
import { alignmentOf } from '../handle-library.js'
import type { UsedMemory } from '../library-call.js'
import { CUBLAS_GEMM_DEFAULT, CUBLAS_OP, cublas } from './cublas-library.js'
import type { GemmShape, Layout } from './gemm-shape.js'

export type GemmFunction = 'cublasGemmEx' | 'cublasGemmStridedBatchedEx'

/** Queues the product on a stream, by CUDA's own handle. `memory` is A, B, C and, if there is one, the workspace. */
export function callGemm(
  address: number,
  name: GemmFunction,
  shape: GemmShape,
  memory: readonly UsedMemory[],
  stream: number,
): void {
  const [a, b, c, workspace] = memory
  if (a === undefined || b === undefined || c === undefined) return
  cublas.call('cublasSetStream_v2', address, stream)
  if (workspace !== undefined) {
    // cublasSetStream has replaced it by cuBLAS's own.
    const { pointer, byteLength } = workspace
    cublas.call('cublasSetWorkspace_v2', address, pointer, byteLength)
  }
  const { data, compute } = ELEMENT_TYPES[shape.type].cublas
  const [alpha, beta] = writeFactors(shape)
  const left = { pointer: a.pointer, layout: shape.a, operation: shape.transposeA ? CUBLAS_OP.T : CUBLAS_OP.N }
  const right = { pointer: b.pointer, layout: shape.b, operation: shape.transposeB ? CUBLAS_OP.T : CUBLAS_OP.N }
  // To cuBLAS a row-major matrix is its transpose, and the transpose of A · B is that of B times that of A.
  const isRows = shape.order === 'row'
  const [first, second] = isRows ? [right, left] : [left, right]
  const [m, n] = isRows ? [shape.n, shape.m] : [shape.m, shape.n]
  const head = [address, first.operation, second.operation, m, n, shape.k, alpha] as const
  const [lda, ldb, ldc] = [first.layout.leading, second.layout.leading, shape.c.leading]
  if (name === 'cublasGemmEx') {
    cublas.call(
      name,
      ...head,
      ...[first.pointer, data, lda, second.pointer, data, ldb],
      ...[beta, c.pointer, data, ldc, compute, CUBLAS_GEMM_DEFAULT],
    )
  } else {
    cublas.call(
      name,
      ...head,
      ...[first.pointer, data, lda, first.layout.stride, second.pointer, data, ldb, second.layout.stride],
      ...[beta, c.pointer, data, ldc, shape.c.stride, shape.batchCount, compute, CUBLAS_GEMM_DEFAULT],
    )
  }
}

/**
 * Writes alpha and beta to memory, in the type in which sums are kept. Returns their addresses. cuBLAS reads them during the call,
 * also in a capture.
 */
function writeFactors({ type, alpha, beta }: GemmShape): readonly [alpha: number, beta: number] {
  const { address, bytes } = cublas.memory
  const view = dataViewOf(bytes)
  const { set } = FLOAT_ACCESS[type === 'f64' ? 'f64' : 'f32']
  set(view, 0, alpha)
  set(view, 8, beta)
  return [address, address + 8]
}

/** Computes C from the bytes of A, B and C, as cuBLAS does: slow and plain. */
export function multiply(shape: GemmShape, [bytesA, bytesB, bytesC]: readonly Uint8Array[]): void {
  if (bytesA === undefined || bytesB === undefined || bytesC === undefined) return
  const { type, m, n, k, transposeA, transposeB, alpha, beta } = shape
  const [a, b, c] = [dataViewOf(bytesA), dataViewOf(bytesB), dataViewOf(bytesC)]
  const { get, set } = FLOAT_ACCESS[type]
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
        // If beta is 0 the old C is not read: it may be anything, NaN included.
        const old = beta === 0 ? 0 : round(beta * get(c, at))
        set(c, at, round(round(alpha * sum) + old))
      }
    }
  }
}

/** The byte at which the element in a row and column of a matrix, as it is multiplied, begins. */
function placesIn(
  { type, order }: GemmShape,
  { leading, stride }: Layout,
  batch: number,
  transposed: boolean,
): (row: number, column: number) => number {
  const { bytes } = ELEMENT_TYPES[type]
  const [first, line] = [batch * stride * bytes, leading * bytes]
  const rowsAreLines = (order === 'row') !== transposed
  return rowsAreLines
    ? (row, column) => first + row * line + column * bytes
    : (row, column) => first + column * line + row * bytes
}

/** All by which cuBLAS may choose its kernels: products of one kind are computed by the same code. */
export function kindOf(shape: GemmShape, memory: readonly UsedMemory[]): string {
  const { type, m, n, k, transposeA, transposeB, alpha, beta, order, batchCount, a, b, c } = shape
  const [first, second, result, workspace] = memory
  const sizes = `${type} ${order} ${m} ${n} ${k} ${transposeA} ${transposeB} ${batchCount}`
  const places = `${placeOf(a, first)} ${placeOf(b, second)} ${placeOf(c, result)} ${workspace?.byteLength}`
  return `${sizes} ${places} ${alpha === 0} ${beta === 0 || beta === 1 ? beta : 'other'}`
}

const placeOf = ({ leading, stride }: Layout, memory: UsedMemory | undefined): string =>
  `${leading}+${stride}@${alignmentOf(memory)}`
