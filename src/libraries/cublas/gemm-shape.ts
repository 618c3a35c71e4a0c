/** The sizes of matrices that are multiplied or added, checked, and their layout in memory. */
import { checkBoolean, checkChoice, checkInteger, type Given, readOptions } from '../../foundation/base/arguments.js'
import { type ELEMENT_TYPES, type ElementTypeName, elementTypesWith } from '../../foundation/base/element-types.js'
import { invalidType, outOfRange } from '../../foundation/base/errors.js'

/** The types of elements that can be multiplied. Sums are kept in f32, those of f64 in f64. */
export type GemmType = {
  [T in ElementTypeName]: (typeof ELEMENT_TYPES)[T] extends { readonly cublas: object } ? T : never
}[ElementTypeName]

/** How the matrices of a call lie in memory. */
export interface MatrixLayout {
  /**
   * The order of the elements in memory: row after row, as in C and NumPy, or column after column, as in BLAS and Fortran.
   * Default 'row'.
   */
  readonly order?: 'row' | 'column' | undefined
  /** Elements from one row of A (column, with order 'column') in memory to the next. Default: no gap. */
  readonly lda?: number | undefined
  /** Elements from one row of B (column, with order 'column') in memory to the next. Default: no gap. */
  readonly ldb?: number | undefined
  /** Elements from one row of C (column, with order 'column') in memory to the next. Default: no gap. */
  readonly ldc?: number | undefined
}

/** The matrices of `cublas.gemm()`. */
export interface GemmOptions extends MatrixLayout {
  /** The type of the elements of all three matrices. */
  readonly type: GemmType
  /** Rows of C, and of A as it is multiplied: from 0 to 2 ** 31 - 1, as `n`. If C has no elements nothing is queued. */
  readonly m: number
  /** The number of columns of C, and of B as it is multiplied. */
  readonly n: number
  /** The number of columns of A and of rows of B, as they are multiplied. With 0 C is multiplied by `beta`, or filled with 0. */
  readonly k: number
  /** Memory has the transpose of A, k rows of m. Default false. */
  readonly transposeA?: boolean | undefined
  /** Memory has the transpose of B, n rows of k. Default false. */
  readonly transposeB?: boolean | undefined
  /** The factor of A · B. Default 1. */
  readonly alpha?: number | undefined
  /** The factor of the previous contents of C. Default 0: they are ignored, even if they are NaN. */
  readonly beta?: number | undefined
}

/** The matrices of `cublas.gemmStridedBatched()`. */
export interface StridedBatchOptions extends GemmOptions {
  /** The number of products. Of 0 nothing is queued. */
  readonly batchCount: number
  /** Elements from one A to the next; 0 uses the same A for all. Default: no gap. */
  readonly strideA?: number | undefined
  /** Elements from one B to the next; 0 uses the same B for all. Default: no gap. */
  readonly strideB?: number | undefined
  /**
   * Elements from one C to the next. Default: no gap. Less than a whole C if all of them lie side by side within `ldc`,
   * as those of attention heads do.
   */
  readonly strideC?: number | undefined
}

/** The layout of one of the three matrices in memory. */
export interface Layout {
  /** The number of its lines: rows, or columns with order 'column'. */
  readonly lines: number
  /** Elements of one line. */
  readonly length: number
  /** Elements from one line to the next. */
  readonly leading: number
  /** Elements from one matrix of a batch to the next. */
  readonly stride: number
  /** Elements from the first to the last, over the whole batch. */
  readonly elements: number
}

/** The matrices of a call, which makes C of A and B. */
export interface MatrixShape<T extends GemmType = GemmType> {
  readonly type: T
  readonly m: number
  readonly n: number
  readonly transposeA: boolean
  readonly transposeB: boolean
  readonly alpha: number
  readonly beta: number
  readonly order: 'row' | 'column'
  readonly batchCount: number
  readonly a: Layout
  readonly b: Layout
  readonly c: Layout
}

export interface GemmShape extends MatrixShape {
  readonly k: number
}

const TYPES = elementTypesWith('cublas')
const LARGEST = 2 ** 31 - 1
/** The options that all calls have. */
export const MATRICES = [
  ...(['type', 'm', 'n', 'transposeA', 'transposeB'] as const),
  ...(['alpha', 'beta', 'order', 'lda', 'ldb', 'ldc'] as const),
] as const
const BATCH = ['batchCount', 'strideA', 'strideB', 'strideC'] as const

type GivenMatrices<T extends GemmType> = Given<
  Omit<GemmOptions, 'type'> & { readonly type: T },
  (typeof MATRICES)[number]
>
type GivenBatch = Given<StridedBatchOptions, (typeof BATCH)[number]>
/** The batch options of a call for single matrices. */
export const SINGLE: GivenBatch = { batchCount: 1, strideA: undefined, strideB: undefined, strideC: undefined }

/** Throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE or ERR_OUT_OF_RANGE for sizes and types that no product can have. */
export function shapeOfGemm(options: GemmOptions): GemmShape {
  const given = readMatrices(options, [...MATRICES, 'k'], '{ type, m, n, k }')
  return shapeOf(given, given.k, SINGLE)
}

/** The shape of a batch. Throws as `shapeOfGemm()`. */
export function shapeOfBatch(options: StridedBatchOptions): GemmShape {
  const given = readMatrices(options, [...MATRICES, 'k', ...BATCH], '{ type, m, n, k }')
  return shapeOf(given, given.k, given)
}

/** The options, each read once. They have no default: `such` is what some could be. */
export function readMatrices<T extends object, K extends keyof T>(
  options: T,
  names: readonly K[],
  such: string,
): Given<T, K> {
  if (options === undefined) throw invalidType('options', `an object such as ${such}`, options)
  return readOptions(options, names)
}

function shapeOf(options: GivenMatrices<GemmType>, givenK: number | undefined, batch: GivenBatch): GemmShape {
  const k = checkCountOrNone(givenK, 'options.k')
  const sizesOf = (m: number, n: number): Sizes => ({ a: [m, k], b: [k, n] })
  return { ...shapeOfMatrices(options, batch, { types: TYPES, beta: 0, sizesOf }), k }
}

type Size = readonly [rows: number, columns: number]
/** The sizes of A and B as they are multiplied or added. */
interface Sizes {
  readonly a: Size
  readonly b: Size
}

/** What the options of one call may be. */
export interface MatrixRules<T extends GemmType> {
  readonly types: readonly T[]
  /** The default of beta. */
  readonly beta: number
  /** The sizes of A and B that go with a C of m by n. */
  sizesOf(m: number, n: number): Sizes
}

/** The shape, by the options that all calls have. Throws as `shapeOfGemm()`. */
export function shapeOfMatrices<T extends GemmType>(
  options: GivenMatrices<T>,
  batch: GivenBatch,
  rules: MatrixRules<T>,
): MatrixShape<T> {
  const batchCount = checkCountOrNone(batch.batchCount, 'options.batchCount')
  const type = checkChoice(options.type, 'options.type', rules.types)
  const { order: wanted = 'row' } = options
  const order = checkChoice(wanted, 'options.order', ['row', 'column'])
  const m = checkCountOrNone(options.m, 'options.m')
  const n = checkCountOrNone(options.n, 'options.n')
  const transposeA = checkBoolean(options.transposeA, 'options.transposeA', false)
  const transposeB = checkBoolean(options.transposeB, 'options.transposeB', false)
  const alpha = checkFactor(options.alpha, 'options.alpha', 1, type)
  const beta = checkFactor(options.beta, 'options.beta', rules.beta, type)
  const layout = (letter: 'A' | 'B' | 'C', [rows, columns]: Size, transposed: boolean): Layout => {
    const [lines, length] = (order === 'row') !== transposed ? [rows, columns] : [columns, rows]
    const ld = `ld${letter.toLowerCase()}` as 'lda' | 'ldb' | 'ldc'
    const leading = options[ld] === undefined ? Math.max(1, length) : checkCount(options[ld], `options.${ld}`)
    if (leading < length) {
      throw outOfRange(`options.${ld}`, `at least ${length}, the length of a ${order} of ${letter}`, leading)
    }
    const name = `stride${letter}` as const
    const stride = batch[name] === undefined ? lines * leading : checkInteger(batch[name], `options.${name}`, 0)
    const isEmpty = lines === 0 || length === 0 || batchCount === 0
    const elements = isEmpty ? 0 : (batchCount - 1) * stride + (lines - 1) * leading + length
    if (elements > Number.MAX_SAFE_INTEGER) {
      const most = `at most ${Number.MAX_SAFE_INTEGER}`
      throw outOfRange(`The elements from the first to the last of ${letter}`, most, elements)
    }
    if (letter === 'C' && !isEmpty) checkMatricesApart({ lines, length, leading, stride }, batchCount)
    return { lines, length, leading, stride, elements }
  }
  const sizes = rules.sizesOf(m, n)
  const a = layout('A', sizes.a, transposeA)
  const b = layout('B', sizes.b, transposeB)
  const c = layout('C', [m, n], false)
  return { type, m, n, transposeA, transposeB, alpha, beta, order, batchCount, a, b, c }
}

/**
 * Throws ERR_OUT_OF_RANGE if the matrices that are written overlap. Either each begins behind the one before it, or they lie
 * side by side: the first rows of all of them, then the second rows.
 */
function checkMatricesApart({ lines, length, leading, stride }: Omit<Layout, 'elements'>, batchCount: number): void {
  if (batchCount === 1) return
  const behind = (lines - 1) * leading + length
  const widest = Math.floor((leading - length) / (batchCount - 1))
  if (stride >= behind || (stride >= length && stride <= widest)) return
  const orBeside = widest < length ? '' : `, or from ${length} to ${widest} to lie side by side within options.ldc`
  throw outOfRange('options.strideC', `at least ${behind}${orBeside}: the matrices of a batch do not overlap`, stride)
}

const checkCount = (value: unknown, name: string): number => checkInteger(value, name, 1, LARGEST)
const checkCountOrNone = (value: unknown, name: string): number => checkInteger(value, name, 0, LARGEST)

/** The factor as cuBLAS gets it: in the type in which sums are kept. */
function checkFactor(value: number | undefined, name: string, byDefault: number, type: GemmType): number {
  if (value === undefined) return byDefault
  if (typeof value !== 'number') throw invalidType(name, 'a number', value)
  return type === 'f64' ? value : Math.fround(value)
}

/** The most places that are compared. Matrices so entangled that there are more are assumed to be apart. */
const MOST_PLACES = 65_536

/**
 * Does any matrix of batch A share an element with any of batch C, which begins `distance` elements later? Their rows may lie
 * between each other's, as those of two halves of one matrix do.
 */
export function matricesOverlap(a: Layout, c: Layout, distance: number, batchCount: number): boolean {
  if (distance >= a.elements || -distance >= c.elements) return false
  // If lines are equally far apart in both, the distance of two lines depends only on the difference of their numbers.
  const alike = a.leading === c.leading
  const lowest = alike ? 1 - a.lines : 0
  let places = 0
  for (const shift of shifts(a.stride, c.stride, batchCount)) {
    for (let line = 0; line < (alike ? 1 : a.lines); line += 1) {
      places += 1
      if (places > MOST_PLACES) return false
      const from = distance + shift - line * a.leading
      // The first line of C that does not end before this line of A begins.
      const index = Math.max(lowest, Math.floor((-c.length - from) / c.leading) + 1)
      if (index < c.lines && from + index * c.leading < a.length) return true
    }
  }
  return false
}

/** The distances of two matrices of the batches, relative to the distance of the first two. */
function* shifts(first: number, second: number, batchCount: number): Iterable<number> {
  yield 0
  for (let count = 1; count < batchCount; count += 1) {
    if (first === second) {
      yield count * second
      yield -count * second
      continue
    }
    if (first === 0) {
      yield count * second
      continue
    }
    for (let other = 0; other <= count; other += 1) {
      yield count * second - other * first
      if (other < count) yield other * second - count * first
    }
  }
}
