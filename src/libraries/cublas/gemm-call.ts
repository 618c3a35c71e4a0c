/** What cuBLAS is called for: what all its calls have in common, and matrix products with their host implementation for the simulator. */
import { dataViewOf, ELEMENT_TYPES, FLOAT_ACCESS } from '../../foundation/base/element-types.js'
import { type HostImplementation, implementedInParts } from '../../foundation/driver/library-driver.js'
import { alignmentOf } from '../handle-library.js'
import type { UsedMemory } from '../library-call.js'
import { CUBLAS_GEMM_DEFAULT, CUBLAS_OP, type CUBLAS_SIGNATURES, cublas } from './cublas-library.js'
import type { GemmShape, GemmType, Layout, MatrixShape } from './gemm-shape.js'

/** A call that makes C of A and B. Its memory is A, B, C and, if there is one, the workspace. */
export interface MatrixCall {
  /** The C function. */
  readonly name: keyof typeof CUBLAS_SIGNATURES
  readonly shape: MatrixShape
  /** The matrices that are read. Their bytes are untouched otherwise, but for those of C. */
  readonly reads: readonly ('A' | 'B' | 'C')[]
  /** May C lie where A or B does, if that is not transposed and has the same leading dimension? */
  readonly mayBeInPlace: boolean
  /** The properties by which cuBLAS may choose its kernels: calls of one kind run the same code. */
  kind(memory: readonly UsedMemory[]): string
  /** Makes the call, on a handle with its stream and workspace. */
  call(address: number, memory: readonly UsedMemory[]): void
  readonly host: HostImplementation
}

/** Makes the call on a stream, by CUDA's own handle. */
export function callOn(stream: number, address: number, call: MatrixCall, memory: readonly UsedMemory[]): void {
  const [, , , workspace] = memory
  cublas.call('cublasSetStream_v2', address, stream)
  if (workspace !== undefined) {
    // cublasSetStream has replaced it by cuBLAS's own.
    const { pointer, byteLength } = workspace
    cublas.call('cublasSetWorkspace_v2', address, pointer, byteLength)
  }
  call.call(address, memory)
}

export function productOf(name: GemmFunction, shape: GemmShape): MatrixCall {
  return {
    name,
    shape,
    reads: shape.beta === 0 ? ['A', 'B'] : ['A', 'B', 'C'],
    mayBeInPlace: false,
    kind: (memory) => `${kindOf(shape, memory)} ${shape.k}`,
    call: (address, memory) => callGemm(address, name, shape, memory),
    host: implementedInParts(durationOf(shape), (contents) => multiply(shape, contents)),
  }
}

/** The virtual nanoseconds of a product: about the time of a GPU of 50 TFLOP/s. */
const durationOf = ({ m, n, k, batchCount }: GemmShape): number =>
  2000 + Math.round((2 * m * n * k * batchCount) / 50_000)

export type GemmFunction = 'cublasGemmEx' | 'cublasGemmStridedBatchedEx'

function callGemm(address: number, name: GemmFunction, shape: GemmShape, memory: readonly UsedMemory[]): void {
  const [a, b, c] = memory
  if (a === undefined || b === undefined || c === undefined) return
  const { data, compute } = ELEMENT_TYPES[shape.type].cublas
  const [alpha, beta] = writeFactors(shape)
  const left = { pointer: a.pointer, layout: shape.a, operation: operationOf(shape.transposeA) }
  const right = { pointer: b.pointer, layout: shape.b, operation: operationOf(shape.transposeB) }
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

export const operationOf = (transposed: boolean): number => (transposed ? CUBLAS_OP.T : CUBLAS_OP.N)

/**
 * Writes alpha and beta to memory, in the type in which sums are kept. Returns their addresses. cuBLAS reads them during the call,
 * also in a capture.
 */
export function writeFactors({ type, alpha, beta }: MatrixShape): readonly [alpha: number, beta: number] {
  const { address, bytes } = cublas.memory
  const view = dataViewOf(bytes)
  const { set } = FLOAT_ACCESS[type === 'f64' ? 'f64' : 'f32']
  set(view, 0, alpha)
  set(view, 8, beta)
  return [address, address + 8]
}

/** Computes C from the bytes of A, B and C, as cuBLAS does: plain, a row at a time. */
function* multiply(shape: GemmShape, [bytesA, bytesB, bytesC]: readonly Uint8Array[]): Generator<undefined, void> {
  if (bytesA === undefined || bytesB === undefined || bytesC === undefined) return
  const { type, m, n, k, transposeA, transposeB, alpha, beta } = shape
  const [a, b, c] = [dataViewOf(bytesA), dataViewOf(bytesB), dataViewOf(bytesC)]
  const { get, set } = FLOAT_ACCESS[type]
  const round = roundingOf(type)
  const { columns, row, sums, sum } = type === 'f64' ? sumsOfDoubles(k, n) : sumsOfFloats(k, n)
  for (let batch = 0; batch < shape.batchCount; batch += 1) {
    const inA = placesIn(shape, shape.a, batch, transposeA)
    const inB = placesIn(shape, shape.b, batch, transposeB)
    const inC = placesIn(shape, shape.c, batch, false)
    // Functions of their own: engines do not optimize a generator while it runs.
    const readColumn = (column: number): void => {
      for (let i = 0; i < k; i += 1) columns[column * k + i] = get(b, inB(i, column))
    }
    const multiplyRow = (nth: number): void => {
      for (let i = 0; i < k; i += 1) row[i] = get(a, inA(nth, i))
      sum()
      for (let column = 0; column < n; column += 1) {
        const at = inC(nth, column)
        // If beta is 0 the old C is not read: it may be anything, NaN included.
        const old = beta === 0 ? 0 : round(beta * get(c, at))
        set(c, at, round(round(alpha * (sums[column] ?? 0)) + old))
      }
    }
    for (let column = 0; column < n; column += 1) {
      readColumn(column)
      yield
    }
    for (let nth = 0; nth < m; nth += 1) {
      multiplyRow(nth)
      yield
    }
  }
}

/** A row of A and the columns of B, one behind the other, and what makes the sums of their products: each in the order of `i`. */
interface Sums {
  readonly columns: Float32Array | Float64Array
  readonly row: Float32Array | Float64Array
  readonly sums: Float32Array | Float64Array
  readonly sum: () => void
}

/*
 * Both are written out, for typed arrays of one kind each, and make four sums at a time, which do not wait for each other: a multiplication and an
 * addition take 0.5 ns, and 30 where one function sees both kinds.
 */

function sumsOfFloats(k: number, n: number): Sums {
  const [columns, row, sums] = [new Float32Array(k * n), new Float32Array(k), new Float32Array(n)]
  const { fround } = Math
  const sum = (): void => {
    for (let column = 0; column < n; column += 4) {
      const [at, last] = [column * k, (n - 1) * k]
      const [at1, at2, at3] = [Math.min(at + k, last), Math.min(at + 2 * k, last), Math.min(at + 3 * k, last)]
      let [sum0, sum1, sum2, sum3] = [fround(0), fround(0), fround(0), fround(0)]
      for (let i = 0; i < k; i += 1) {
        const value = row[i] ?? 0
        sum0 = fround(sum0 + fround(value * (columns[at + i] ?? 0)))
        sum1 = fround(sum1 + fround(value * (columns[at1 + i] ?? 0)))
        sum2 = fround(sum2 + fround(value * (columns[at2 + i] ?? 0)))
        sum3 = fround(sum3 + fround(value * (columns[at3 + i] ?? 0)))
      }
      sums[column] = sum0
      sums[column + 1] = sum1
      sums[column + 2] = sum2
      sums[column + 3] = sum3
    }
  }
  return { columns, row, sums, sum }
}

function sumsOfDoubles(k: number, n: number): Sums {
  const [columns, row, sums] = [new Float64Array(k * n), new Float64Array(k), new Float64Array(n)]
  const sum = (): void => {
    for (let column = 0; column < n; column += 4) {
      const [at, last] = [column * k, (n - 1) * k]
      const [at1, at2, at3] = [Math.min(at + k, last), Math.min(at + 2 * k, last), Math.min(at + 3 * k, last)]
      let [sum0, sum1, sum2, sum3] = [0, 0, 0, 0]
      for (let i = 0; i < k; i += 1) {
        const value = row[i] ?? 0
        sum0 += value * (columns[at + i] ?? 0)
        sum1 += value * (columns[at1 + i] ?? 0)
        sum2 += value * (columns[at2 + i] ?? 0)
        sum3 += value * (columns[at3 + i] ?? 0)
      }
      sums[column] = sum0
      sums[column + 1] = sum1
      sums[column + 2] = sum2
      sums[column + 3] = sum3
    }
  }
  return { columns, row, sums, sum }
}

/** Rounds as sums are. */
export const roundingOf = (type: GemmType): ((value: number) => number) =>
  type === 'f64' ? (value) => value : Math.fround

/** The byte at which the element in a row and column of a matrix, as it is multiplied or added, begins. */
export function placesIn(
  { type, order }: MatrixShape,
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

/** What the kinds of all calls are made of. */
export function kindOf(shape: MatrixShape, memory: readonly UsedMemory[]): string {
  const { type, m, n, transposeA, transposeB, alpha, beta, order, batchCount, a, b, c } = shape
  const [first, second, result, workspace] = memory
  const sizes = `${type} ${order} ${m} ${n} ${transposeA} ${transposeB} ${batchCount}`
  const places = `${placeOf(a, first)} ${placeOf(b, second)} ${placeOf(c, result)} ${workspace?.byteLength}`
  return `${sizes} ${places} ${alpha === 0} ${beta === 0 || beta === 1 ? beta : 'other'}`
}

const placeOf = ({ leading, stride }: Layout, memory: UsedMemory | undefined): string =>
  `${leading}+${stride}@${alignmentOf(memory)}`
