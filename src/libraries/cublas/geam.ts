/** Sums and transpositions of matrices: their options, the call of cuBLAS, and its host implementation for the simulator. */
import { dataViewOf, ELEMENT_TYPES, FLOAT_ACCESS } from '../../foundation/base/element-types.js'
import { invalidValue } from '../../foundation/base/errors.js'
import { implementedInParts } from '../../foundation/driver/library-driver.js'
import type { UsedMemory } from '../library-call.js'
import { cublas } from './cublas-library.js'
import { kindOf, type MatrixCall, operationOf, placesIn, roundingOf, writeFactors } from './gemm-call.js'
import { MATRICES, type MatrixLayout, type MatrixShape, readMatrices, SINGLE, shapeOfMatrices } from './gemm-shape.js'

/** The matrices of `cublas.geam()`. */
export interface GeamOptions extends MatrixLayout {
  /** The type of the elements of all three matrices. */
  readonly type: 'f32' | 'f64'
  /** Rows of C, and of A and B as they are added: from 0 to 2 ** 31 - 1, as `n`. If C has no elements nothing is queued. */
  readonly m: number
  /** The number of columns of C, and of A and B as they are added. */
  readonly n: number
  /** Memory has the transpose of A, n rows of m. Default false. */
  readonly transposeA?: boolean | undefined
  /** Memory has the transpose of B, n rows of m. Default false. */
  readonly transposeB?: boolean | undefined
  /** The factor of A. Default 1. With 0 A is not read. */
  readonly alpha?: number | undefined
  /** The factor of B. Default 1; without B it is 0. With 0 B is not read. */
  readonly beta?: number | undefined
}

/** The function of each type. */
const FUNCTIONS = { f32: 'cublasSgeam', f64: 'cublasDgeam' } as const
const TYPES = Object.keys(FUNCTIONS) as (keyof typeof FUNCTIONS)[]

type GeamShape = MatrixShape<keyof typeof FUNCTIONS>

/**
 * The call for these options. Without B, A stands in its place with a factor of 0.
 * @throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE or ERR_OUT_OF_RANGE for sizes, types and factors that no sum can have
 */
export function sumOf(options: GeamOptions, hasB: boolean): MatrixCall {
  const given = readMatrices(options, MATRICES, '{ type, m, n }')
  const sizesOf = (m: number, n: number) => ({ a: [m, n], b: [m, n] }) as const
  const whole = shapeOfMatrices(given, SINGLE, { types: TYPES, beta: hasB ? 1 : 0, sizesOf })
  const { type, m, n, alpha, beta } = whole
  if (!hasB && beta !== 0) throw invalidValue(`options.beta must be 0 or left out where B is undefined, not ${beta}`)
  const shape = hasB ? whole : { ...whole, transposeB: whole.transposeA, b: whole.a }
  const reads = [...(alpha === 0 ? [] : (['A'] as const)), ...(beta === 0 ? [] : (['B'] as const))]
  return {
    name: FUNCTIONS[type],
    shape,
    reads,
    mayBeInPlace: true,
    kind: (memory) => kindOfSum(shape, memory),
    call: (address, memory) => callGeam(address, shape, memory),
    host: implementedInParts(durationOf(m * n * (reads.length + 1), type), (contents) => add(shape, contents)),
  }
}

/** The virtual nanoseconds in which so many elements are read or written: about the time of a GPU of 3 TB/s. */
const durationOf = (elements: number, type: GeamShape['type']): number =>
  2000 + Math.round((elements * ELEMENT_TYPES[type].bytes) / 3000)

function kindOfSum(shape: GeamShape, memory: readonly UsedMemory[]): string {
  const [first, second, result] = memory.map(({ pointer }) => pointer)
  return `${kindOf(shape, memory)} ${shape.alpha === 1} ${first === result} ${second === result}`
}

function callGeam(address: number, shape: GeamShape, [first, second, result]: readonly UsedMemory[]): void {
  if (first === undefined || second === undefined || result === undefined) return
  const { type, transposeA, transposeB, order, a, b, c } = shape
  const [alpha, beta] = writeFactors(shape)
  // To cuBLAS row-major matrices are their transposes, whose sum is the transpose of C.
  const [m, n] = order === 'row' ? [shape.n, shape.m] : [shape.m, shape.n]
  cublas.call(
    FUNCTIONS[type],
    ...[address, operationOf(transposeA), operationOf(transposeB), m, n],
    ...[alpha, first.pointer, a.leading, beta, second.pointer, b.leading],
    ...[result.pointer, c.leading],
  )
}

/** Computes C from the bytes of A and B, of which those that are not read may be missing. Each product and the sum is rounded. */
function* add(shape: GeamShape, [bytesA, bytesB, bytesC]: readonly Uint8Array[]): Generator<undefined, void> {
  if (bytesA === undefined || bytesB === undefined || bytesC === undefined) return
  const { type, m, n, transposeA, transposeB, alpha, beta } = shape
  const [a, b, c] = [dataViewOf(bytesA), dataViewOf(bytesB), dataViewOf(bytesC)]
  const { get, set } = FLOAT_ACCESS[type]
  const round = roundingOf(type)
  const inA = placesIn(shape, shape.a, 0, transposeA)
  const inB = placesIn(shape, shape.b, 0, transposeB)
  const inC = placesIn(shape, shape.c, 0, false)
  const scaledA = (row: number, column: number): number => round(alpha * get(a, inA(row, column)))
  const scaledB = (row: number, column: number): number => round(beta * get(b, inB(row, column)))
  // A function of its own: engines do not optimize a generator while it runs.
  const addRow = (row: number): void => {
    for (let column = 0; column < n; column += 1) {
      let value = 0
      if (beta === 0) value = alpha === 0 ? 0 : scaledA(row, column)
      else value = alpha === 0 ? scaledB(row, column) : round(scaledA(row, column) + scaledB(row, column))
      set(c, inC(row, column), value)
    }
  }
  for (let row = 0; row < m; row += 1) {
    addRow(row)
    yield
  }
}
