/** Where the elements of a tensor lie: its shape and its strides, both in elements. */
import { checkIntegers } from '../../base/arguments.js'
import { invalidValue, outOfRange } from '../../base/errors.js'

/** NumPy's most, with which others go along. */
export const MOST_DIMENSIONS = 64

export interface Layout {
  readonly shape: readonly number[]
  readonly strides: readonly number[]
}

/** Which elements are touched, in elements from the first, whose indices are all zero. */
export interface Span {
  /** Zero or less. */
  readonly least: number
  /** The one behind the last; `least` where there are no elements. */
  readonly end: number
}

/** @throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_OUT_OF_RANGE */
export function checkLayout(shape: unknown, strides: unknown): Layout {
  const extents = checkIntegers(shape, 'options.shape', 'an array of extents', 0)
  if (extents.length > MOST_DIMENSIONS) {
    throw outOfRange('options.shape', `at most ${MOST_DIMENSIONS} extents long`, extents.length)
  }
  if (strides === undefined) return { shape: extents, strides: rowMajor(extents) }
  const given = checkIntegers(strides, 'options.strides', 'an array of strides, in elements', 0)
  if (given.length === extents.length) return { shape: extents, strides: given }
  throw invalidValue(
    `options.strides must be as many as options.shape, which is ${extents.length}, not ${given.length}`,
  )
}

/** Strides without gaps, the last axis the densest. */
export function rowMajor(shape: readonly number[]): readonly number[] {
  const strides = shape.map(() => 1)
  for (let axis = shape.length - 2; axis >= 0; axis -= 1) {
    strides[axis] = (strides[axis + 1] ?? 1) * Math.max(1, shape[axis + 1] ?? 1)
  }
  return strides
}

export function spanOf({ shape, strides }: Layout): Span {
  if (shape.includes(0)) return { least: 0, end: 0 }
  let least = 0
  let last = 0
  for (const [axis, extent] of shape.entries()) {
    const reach = (extent - 1) * (strides[axis] ?? 0)
    if (reach < 0) least += reach
    else last += reach
  }
  return { least, end: last + 1 }
}
