/** Copies of rows: how long the rows are, how many there are, and where they lie at either end. */
import { checkArray, checkInteger, checkIntegers, type Given } from '../base/arguments.js'
import { invalidValue, outOfRange } from '../base/errors.js'
import { extentOf, type MemoryRows } from '../driver/driver.js'
import type { BufferCore } from './buffer-core.js'

/** What is copied of two buffers, in bytes. Where it begins, slices say. */
export interface CopyOptions {
  /** Rows and the bytes of each, or planes, rows of each and bytes of each row. */
  readonly shape:
    | readonly [rows: number, rowLength: number]
    | readonly [planes: number, rows: number, rowLength: number]
  /**
   * From the beginning of one row of the destination to the next, behind that from one plane to the next: as many numbers as
   * `shape` has but for one. Default: without gaps.
   */
  readonly destinationStrides?: readonly number[] | undefined
  /** The same of the source. */
  readonly sourceStrides?: readonly number[] | undefined
}

export const COPY_OPTIONS = ['shape', 'destinationStrides', 'sourceStrides'] as const

/** Where the rows lie at both ends; undefined where there are none. */
export function readRows(
  given: Given<CopyOptions, (typeof COPY_OPTIONS)[number]>,
): { readonly to: MemoryRows; readonly from: MemoryRows } | undefined {
  const expected = '[rows, rowLength] or [planes, rows, rowLength]'
  const shape = checkIntegers(given.shape, 'options.shape', expected, 0)
  if (shape.length !== 2 && shape.length !== 3)
    throw invalidValue(`options.shape must be ${expected}, not (${shape.join(', ')})`)
  const [rowLength = 0, rows = 0, matrices = 1] = [...shape].reverse()
  const end = (strides: unknown, name: string): MemoryRows => {
    const { rowDistance, matrixDistance } = readStrides(strides, name, shape.length - 1, rowLength, rows)
    return { rowLength, rows, rowDistance, matrices, matrixDistance }
  }
  const to = end(given.destinationStrides, 'options.destinationStrides')
  const from = end(given.sourceStrides, 'options.sourceStrides')
  return shape.includes(0) ? undefined : { to, from }
}

function readStrides(
  strides: unknown,
  name: string,
  count: number,
  rowLength: number,
  rows: number,
): Pick<MemoryRows, 'rowDistance' | 'matrixDistance'> {
  if (strides === undefined) return { rowDistance: rowLength, matrixDistance: rows * rowLength }
  const given = checkArray(strides, name, 'an array of distances in bytes')
  if (given.length !== count)
    throw invalidValue(`${name} must have ${count} number(s), as options.shape has one more, not ${given.length}`)
  const rowAt = count - 1
  const rowDistance = checkInteger(given[rowAt], `${name}[${rowAt}]`, rowLength)
  if (count === 1) return { rowDistance, matrixDistance: rows * rowDistance }
  const matrixDistance = checkInteger(given[0], `${name}[0]`, rows * rowDistance)
  if (rowDistance === 0 || matrixDistance % rowDistance === 0) return { rowDistance, matrixDistance }
  throw invalidValue(
    `${name}[0] must be a whole number of rows' distances of ${rowDistance} bytes, not ${matrixDistance}`,
  )
}

/** @throws ERR_OUT_OF_RANGE where they do not lie within the buffer */
export function checkRowsFit(core: BufferCore, rows: MemoryRows, name: string): void {
  const end = extentOf(rows)
  if (end <= core.byteLength) return
  throw outOfRange(`The end of the rows of the ${name}`, `at most ${core.byteLength}, where ${core} ends`, end)
}
