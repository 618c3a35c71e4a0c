/**
 * The sums of products that a tensor core makes. NVIDIA does not specify them; these are the rules of an H200, found in its answers.
 *
 * Products are exact. All products of a sum and the sum before are brought to one unit, which lies a fixed number of bits below the greatest exponent
 * among them, where the exponent of a product is the sum of its factors' exponents, and what lies below the unit is cut off from each. Then they are
 * added exactly, and the sum is cut off to an f32, or rounded to the nearest f16.
 */

import { bf16Value, E4M3, E5M2, halfBits, halfValue, smallValue, tf32Value } from './numbers.js'
import { sumsInLanes } from './tensor-sum-lanes.js'
import { floatOfBits } from './warp-operations.js'

export interface Factor {
  readonly type: string
  /** The elements, those of each row of a or column of b together. */
  readonly bytes: Uint8Array
  readonly isNegative: boolean
}

export interface Product {
  readonly columns: number
  /** The number of products in a sum. */
  readonly k: number
  /** The type of the sums. */
  readonly type: string
  /** Whether sums of integers end at the least and the greatest. */
  readonly saturates: boolean
  readonly a: Factor
  readonly b: Factor
  /** The sums before, as bits, row by row. */
  readonly sums: Int32Array
}

/** The sums of a product, as bits, row by row. */
export function productOf(product: Product): Int32Array {
  const { type } = product.a
  if (type === 'b1') return productOfBits(product)
  return product.type === 's32' ? productOfIntegers(product) : productOfFloats(product)
}

function ones(word: number): number {
  let count = word - ((word >>> 1) & 0x55555555)
  count = (count & 0x33333333) + ((count >>> 2) & 0x33333333)
  return Math.imul((count + (count >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

function productOfBits({ columns, k, a, b, sums }: Product): Int32Array {
  const [x, y] = [new Int32Array(a.bytes.buffer), new Int32Array(b.bytes.buffer)]
  const words = k / 32
  const result = new Int32Array(sums.length)
  for (let at = 0; at < sums.length; at++) {
    const row = Math.floor(at / columns) * words
    const column = (at % columns) * words
    let sum = sums[at] ?? 0
    for (let index = 0; index < words; index++) sum += ones((x[row + index] ?? 0) & (y[column + index] ?? 0))
    result[at] = sum
  }
  return result
}

const integersOf = ({ type, bytes }: Factor): Int32Array =>
  Int32Array.from(type === 's8' ? new Int8Array(bytes.buffer) : bytes)

function productOfIntegers({ columns, k, a, b, sums, saturates }: Product): Int32Array {
  const [x, y] = [integersOf(a), integersOf(b)]
  const result = new Int32Array(sums.length)
  for (let at = 0; at < sums.length; at++) {
    const row = Math.floor(at / columns) * k
    const column = (at % columns) * k
    let sum = 0
    for (let index = 0; index < k; index++) sum += Math.imul(x[row + index] ?? 0, y[column + index] ?? 0)
    sum += sums[at] ?? 0
    result[at] = saturates ? Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, sum)) : sum
  }
  return result
}

/** The elements of a matrix where sums are made of them, with their exponents: that of a denormal number is the least one, and that of zero lies below all. */
interface Numbers {
  readonly values: Float64Array
  readonly exponents: Int32Array
}

/** The exponent of an infinity or a NaN. */
const BEYOND = 1024
/** The exponent of a factor that is zero. */
const NONE = -4096
/** The least that the greatest exponent of a sum counts as. */
const LEAST_TOP = -133

interface FloatType {
  readonly bytes: 1 | 2 | 4
  readonly leastExponent: number
  value(bits: number): number
}

/** A function of so many bits as a table, which is made when it is needed first. */
function tabled(values: number, of: (bits: number) => number): (bits: number) => number {
  let table: Float64Array | undefined
  return (bits) => {
    table ??= Float64Array.from({ length: values }, (_, at) => of(at))
    return table[bits] ?? 0
  }
}

const FLOAT_TYPES: Readonly<Record<string, FloatType>> = {
  f32: { bytes: 4, leastExponent: -126, value: floatOfBits },
  tf32: { bytes: 4, leastExponent: -126, value: tf32Value },
  f16: { bytes: 2, leastExponent: -14, value: tabled(65_536, halfValue) },
  bf16: { bytes: 2, leastExponent: -126, value: bf16Value },
  e4m3: { bytes: 1, leastExponent: -6, value: tabled(256, (bits) => smallValue(bits, E4M3)) },
  e5m2: { bytes: 1, leastExponent: -14, value: tabled(256, (bits) => smallValue(bits, E5M2)) },
}

function floatType(name: string): FloatType {
  const type = FLOAT_TYPES[name]
  if (type === undefined) throw new Error(`There are no products of ${name}`)
  return type
}

/** The bytes of an element. */
export function bytesOf(type: string): number {
  return FLOAT_TYPES[type]?.bytes ?? 1
}

const double = new Float64Array(1)
const wordsOfDouble = new Uint32Array(double.buffer)

/** The exponent of a number; a zero has one below all. */
function exponentOf(value: number): number {
  double[0] = value
  return (((wordsOfDouble[1] ?? 0) >>> 20) & 0x7ff) - 1023
}

function valuesOf({ type: name, bytes, isNegative }: Factor): Float64Array {
  const { bytes: size, value } = floatType(name)
  const bits = size === 1 ? bytes : size === 2 ? new Uint16Array(bytes.buffer) : new Int32Array(bytes.buffer)
  const values = new Float64Array(bits.length)
  for (let index = 0; index < bits.length; index++) {
    const own = value(bits[index] ?? 0)
    values[index] = isNegative ? -own : own
  }
  return values
}

/**
 * Puts the elements of a matrix, of which those of each sum are together, where sums are made of them: in that order, or all at one place along k together.
 * Returns the rows of a, or columns of b, that have an infinity or a NaN.
 */
function placeNumbers(
  from: Float64Array,
  type: string,
  k: number,
  { values, exponents }: Numbers,
  isAcross: boolean,
): ReadonlySet<number> {
  const { leastExponent } = floatType(type)
  const special = new Set<number>()
  const lines = from.length / k
  for (let line = 0, index = 0; line < lines; line++) {
    for (let along = 0; along < k; along++, index++) {
      const value = from[index] ?? 0
      const at = isAcross ? along * lines + line : index
      const exponent = exponentOf(value)
      values[at] = value
      exponents[at] = value === 0 ? NONE : Math.max(exponent, leastExponent)
      if (exponent === BEYOND) special.add(line)
    }
  }
  return special
}

function halvesOf(sums: Int32Array): Float32Array {
  const { value } = floatType('f16')
  const halves = new Float32Array(sums.length)
  for (let at = 0; at < sums.length; at++) halves[at] = value(sums[at] ?? 0)
  return halves
}

function productOfFloats({ columns, k, type, a, b, sums }: Product): Int32Array {
  const factors = { a: valuesOf(a), b: valuesOf(b), aType: a.type, bType: b.type }
  // Factors of eight bits have a shorter sum, and so has the result.
  const fraction = bytesOf(a.type) === 1 ? FRACTION_OF_EIGHT : FRACTION
  const before = type === 'f16' ? halvesOf(sums) : new Float32Array(sums.buffer)
  const results = sumsOfFloats({ ...factors, columns, k, type, fraction, sums: before })
  const bits = new Int32Array(results.buffer)
  for (let at = 0; at < bits.length; at++) {
    if (type === 'f16') bits[at] = halfBits(results[at] ?? 0)
    else if (((bits[at] ?? 0) & 0x7fffffff) > 0x7f800000) bits[at] = 0x7fffffff
  }
  return bits
}

/** The bits below the greatest exponent that count where a warpgroup multiplies factors of eight bits, and elsewhere. */
const FRACTION_OF_EIGHT = 13
const FRACTION = 25

export interface FloatProduct {
  readonly columns: number
  readonly k: number
  /** The types of a and b, and that of the sums: f32 or f16. */
  readonly aType: string
  readonly bType: string
  readonly type: string
  /** The elements of each row of a together, and those of each column of b. */
  readonly a: Float64Array
  readonly b: Float64Array
  /** The sums before, row by row. */
  readonly sums: Float32Array | Float64Array
  /** The bits below the greatest exponent that count: 25 if nothing is given. */
  readonly fraction?: number
}

/** The sums of products of floats, row by row. */
export function sumsOfFloats(product: FloatProduct): Float32Array {
  const { columns, k, type, sums, fraction = FRACTION } = product
  const rows = sums.length / columns
  const lanes = sumsInLanes(rows, columns, k)
  const isAcross = lanes !== undefined
  const place = (length: number): Numbers => ({ values: new Float64Array(length), exponents: new Int32Array(length) })
  const x: Numbers = lanes ? { values: lanes.x, exponents: lanes.xExponents } : place(rows * k)
  const y: Numbers = lanes ? { values: lanes.y, exponents: lanes.yExponents } : place(columns * k)
  const xSpecial = placeNumbers(product.a, product.aType, k, x, false)
  const ySpecial = placeNumbers(product.b, product.bType, k, y, isAcross)
  const { leastExponent } = floatType(type)
  const exact = lanes?.sums ?? new Float64Array(sums.length)
  exact.set(sums)
  if (lanes !== undefined) lanes.run(fraction, leastExponent, LEAST_TOP)
  else sumOneByOne(exact, x, y, columns, k, fraction, leastExponent)
  if (xSpecial.size > 0 || ySpecial.size > 0 || !areFinite(sums)) {
    for (let at = 0; at < exact.length; at++) {
      const [row, column] = [Math.floor(at / columns), at % columns]
      const before = sums[at] ?? 0
      if (!xSpecial.has(row) && !ySpecial.has(column) && Number.isFinite(before)) continue
      let sum = before
      for (let index = 0; index < k; index++)
        sum += (product.a[row * k + index] ?? 0) * (product.b[column * k + index] ?? 0)
      exact[at] = sum
    }
  }
  return type === 'f16' ? nearestHalves(exact) : cutOff(exact, fraction < FRACTION ? ~0x3ff : -1)
}

function areFinite(values: FloatProduct['sums']): boolean {
  for (let at = 0; at < values.length; at++) if (!Number.isFinite(values[at])) return false
  return true
}

/** Replaces sums by those with the products added, as `sumsInLanes` does four at a time. The elements of each column are together. */
function sumOneByOne(
  sums: Float64Array,
  { values: xs, exponents: xExponents }: Numbers,
  { values: ys, exponents: yExponents }: Numbers,
  columns: number,
  k: number,
  fraction: number,
  leastExponent: number,
): void {
  for (let at = 0; at < sums.length; at++) {
    const left = Math.floor(at / columns) * k
    const right = (at % columns) * k
    const before = sums[at] ?? 0
    let top = before === 0 ? LEAST_TOP : Math.max(exponentOf(before), leastExponent)
    for (let index = 0; index < k; index++) {
      const exponent = (xExponents[left + index] ?? 0) + (yExponents[right + index] ?? 0)
      if (exponent > top) top = exponent
    }
    const scale = powerOfTwo(fraction - top)
    let sum = Math.trunc(before * scale)
    // A scaled product is less than 2^28, and fits into 32 bits.
    for (let index = 0; index < k; index++) sum += ((xs[left + index] ?? 0) * (ys[right + index] ?? 0) * scale) | 0
    sums[at] = sum / scale
  }
}

const POWERS = Float64Array.from({ length: 1024 }, (_, index) => 2 ** (index - 512))
const powerOfTwo = (exponent: number): number => POWERS[exponent + 512] ?? 0

/** The f32 to which sums are cut off, of which the bits in `kept` count: a zero has no sign, and a sum beyond all f32 is infinite. */
function cutOff(exact: Float64Array, kept: number): Float32Array {
  const results = new Float32Array(exact)
  const bits = new Int32Array(results.buffer)
  for (let at = 0; at < exact.length; at++) {
    const size = Math.abs(exact[at] ?? 0)
    const own = bits[at] ?? 0
    if (size === 0) bits[at] = 0
    else if (size < 2 ** 128) bits[at] = (Math.abs(results[at] ?? 0) > size ? own - 1 : own) & kept
    if (bits[at] === -(2 ** 31)) bits[at] = 0
  }
  return results
}

/** The f16 next to sums, of two the even one: a zero has no sign. */
function nearestHalves(exact: Float64Array): Float32Array {
  const results = new Float32Array(exact)
  for (let at = 0; at < exact.length; at++) {
    const value = exact[at] ?? 0
    if (!Number.isFinite(value)) continue
    // A sum with a number whose last bit is that of the f16 is rounded there.
    const shift = 1.5 * powerOfTwo(Math.max(exponentOf(value), -14) + 42)
    const nearest = value + shift - shift
    results[at] = Math.abs(nearest) > 65504 ? Math.sign(nearest) * Number.POSITIVE_INFINITY : nearest + 0
  }
  return results
}
