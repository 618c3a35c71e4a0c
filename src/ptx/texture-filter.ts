/**
 * The arithmetic by which a GPU's texture units choose and mix elements, bit for bit as an H200 does it. Coordinates are fixed-point numbers with 8
 * bits behind the point, the weights of a mean are 256 in all, and its sum is made in two parts, one for each plane of an image. How each step rounds was found by comparing
 * with recorded answers, which tests/ptx/textures.test.ts holds it against.
 */
import type { EdgeMode } from './textures.js'

/** The place of a coordinate in one direction: two elements beside each other, and the part of the second in 256. The index -1 is the border. */
export interface Position {
  readonly first: number
  readonly second: number
  readonly part: number
}

const SMALLEST = 2 ** -126
/** Coordinates beyond this are all the same: no image is as large. */
const FARTHEST = 2 ** 30
const view = new DataView(new ArrayBuffer(8))

export function floatBits(value: number): number {
  view.setFloat32(0, value)
  return Number.isNaN(value) ? 0x7fffffff : view.getUint32(0)
}

/** The bits behind the point of a normalized coordinate, before it is multiplied by the size: more for large images. */
const bitsBehindPoint = (size: number): number => (size <= 8192 ? 21 : size <= 65536 ? 22 : 23)

/** Finds the elements of a coordinate in a direction of `size` elements. */
export function positionOf(
  coordinate: number,
  size: number,
  edge: EdgeMode,
  isNormalized: boolean,
  isLinear: boolean,
): Position {
  // Without normalized coordinates there is nothing that could be repeated.
  const mode = isNormalized || edge === 'border' ? edge : 'clamp'
  let at = Number.isNaN(coordinate) || Math.abs(coordinate) < SMALLEST ? 0 : coordinate
  let isFlipped = false
  if (isNormalized) {
    const one = 2 ** bitsBehindPoint(size)
    if (mode === 'wrap' || mode === 'mirror') {
      if (!Number.isFinite(at)) at = 0
      const whole = Math.floor(at)
      isFlipped = mode === 'mirror' && Math.abs(whole % 2) === 1
      at = (Math.floor((at - whole) * one) * size) / one
    } else if (Number.isFinite(at)) at = (Math.floor(at * one) * size) / one
  }
  at = Math.max(-FARTHEST, Math.min(FARTHEST, at))
  if (!isLinear) {
    const index = Math.floor(at)
    const first = indexOf(isFlipped ? size - 1 - index : index, size, mode)
    return { first, second: first, part: 0 }
  }
  const fixed = Math.floor(at * 256 + 0.5) - 128
  const whole = Math.floor(fixed / 256)
  // The part is that of the coordinate, also where the image is turned around.
  const [first, second] = isFlipped
    ? [indexOf(size - 1 - whole, size, mode), indexOf(size - 2 - whole, size, mode)]
    : [indexOf(whole, size, mode), indexOf(whole + 1, size, mode)]
  return { first, second, part: first === second ? 0 : fixed - 256 * whole }
}

/** The element of an index that may lie beside the image; -1 for the border. */
function indexOf(index: number, size: number, mode: EdgeMode): number {
  if (index >= 0 && index < size) return index
  if (mode === 'border') return -1
  if (mode === 'wrap') return ((index % size) + size) % size
  return index < 0 ? 0 : size - 1
}

/** The weights of the eight elements around a place, 256 together; the bits of an index say which of x, y and z are the second ones. */
export function weightsOf(x: number, y: number, z: number): readonly number[] {
  const weights = [0, 0, 0, 0, 0, 0, 0, 0]
  for (let plane = 0; plane < 2; plane++) {
    const all = plane === 0 ? 256 - z : z
    const right = (all * x + 128) >> 8
    const left = all - right
    // What lies half way goes up on the one side and down on the other, so that rows keep their sums.
    const [below, belowLeft] = [(right * y + 128) >> 8, (left * y + 127) >> 8]
    weights[4 * plane] = left - belowLeft
    weights[4 * plane + 1] = right - below
    weights[4 * plane + 2] = belowLeft
    weights[4 * plane + 3] = below
  }
  return weights
}

/** A mean of integers of 16 bits. */
export function mixedIntegers(weights: readonly number[], values: readonly number[]): number {
  let sum = 0
  for (let index = 0; index < 8; index++) {
    const weight = weights[index] ?? 0
    // Without a weight a value may be left from another mean.
    if (weight !== 0) sum += weight * (values[index] ?? 0)
  }
  return Math.floor(sum / 256 + 0.5)
}

/** The formats of floats: the bits of their fractions, and the exponents of their smallest normal numbers. */
export const FLOATS = {
  f32: { fraction: 23, least: -126 },
  f16: { fraction: 10, least: -14 },
} as const

type Float = (typeof FLOATS)[keyof typeof FLOATS]

/**
 * A mean of floats. In each plane the values are cut to four bits below the fraction of the largest one; the sum of both planes is rounded, half
 * away from zero. Denormal numbers of 32 bits count as zeros. `parts` are the fractions of x, y and z: an element counts, though its weight may be 0, if none of those
 * leaves it out.
 */
export function mixedFloats(
  weights: readonly number[],
  values: readonly number[],
  parts: readonly [number, number, number],
  float: Float,
): number {
  const special = specialMean(values, parts, float)
  if (special !== undefined) return special
  const [one, other] = [planeSum(weights, values, 0, float), planeSum(weights, values, 4, float)]
  let sum = one.sum + other.sum
  if (one.sum !== 0 && other.sum !== 0) {
    const grain = 2 ** (Math.max(one.exponent, other.exponent) - float.fraction - 14)
    sum = (Math.floor(one.sum / grain) + Math.floor(other.sum / grain)) * grain
  }
  return rounded(sum, float)
}

/** The mean where an infinity or NaN is among the values, or nothing but zeros; undefined otherwise. */
function specialMean(
  values: readonly number[],
  [x, y, z]: readonly [number, number, number],
  float: Float,
): number | undefined {
  let [infinite, isNegative, hasValue] = [0, true, false]
  for (let index = 0; index < 8; index++) {
    if (((index & 1) !== 0 && x === 0) || ((index & 2) !== 0 && y === 0) || ((index & 4) !== 0 && z === 0)) continue
    const value = values[index] ?? 0
    if (Number.isNaN(value) || (Math.abs(value) === Number.POSITIVE_INFINITY && infinite === -value)) return Number.NaN
    if (Math.abs(value) === Number.POSITIVE_INFINITY) infinite = value
    if (value > 0 || Object.is(value, 0)) isNegative = false
    if (isCounted(value, float)) hasValue = true
  }
  if (infinite !== 0) return infinite
  if (hasValue) return undefined
  return isNegative ? -0 : 0
}

const isCounted = (value: number, float: Float): boolean =>
  float === FLOATS.f32 ? Math.abs(value) >= SMALLEST : value !== 0

function planeSum(
  weights: readonly number[],
  values: readonly number[],
  begin: number,
  float: Float,
): { readonly exponent: number; readonly sum: number } {
  let exponent = Number.NEGATIVE_INFINITY
  for (let index = begin; index < begin + 4; index++) {
    const value = values[index] ?? 0
    if (weights[index] !== 0 && isCounted(value, float)) exponent = Math.max(exponent, exponentOf(value), float.least)
  }
  if (exponent === Number.NEGATIVE_INFINITY) return { exponent, sum: 0 }
  const scale = 2 ** (float.fraction + 4 - exponent)
  let sum = 0
  for (let index = begin; index < begin + 4; index++) {
    const value = values[index] ?? 0
    const weight = weights[index] ?? 0
    if (weight !== 0 && isCounted(value, float)) sum += weight * Math.trunc(value * scale)
  }
  return { exponent, sum: sum / 256 / scale }
}

/** The exponent of a number that is not zero. */
function exponentOf(value: number): number {
  view.setFloat64(0, value)
  return ((view.getUint16(0) >> 4) & 0x7ff) - 1023
}

function rounded(value: number, float: Float): number {
  if (value === 0) return 0
  const grain = 2 ** (Math.max(exponentOf(value), float.least) - float.fraction)
  const magnitude = Math.floor(Math.abs(value) / grain + 0.5) * grain
  const result = float === FLOATS.f32 && magnitude < SMALLEST ? 0 : magnitude
  return value < 0 ? -result : result
}

/** The value of a float of 16 bits. */
export function halfValue(bits: number): number {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023]
  const magnitude =
    exponent === 31
      ? fraction === 0
        ? Number.POSITIVE_INFINITY
        : Number.NaN
      : exponent === 0
        ? fraction * 2 ** -24
        : (1 + fraction / 1024) * 2 ** (exponent - 15)
  return bits >> 15 === 0 ? magnitude : -magnitude
}
