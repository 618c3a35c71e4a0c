/**
 * The sums of a product of matrices of floats in WebAssembly, four columns at a time: what tensor-sums.ts says of them, without infinities and NaN. For a
 * row of a and four columns of b the greatest exponent of each sum is found first, and then the products are scaled, cut off, and added.
 */
import { FunctionBody, i32, i64, type LocalType, ModuleBuilder, memory128, set, tee } from './wasm-encoder.js'
import { compileWasm, instantiateWasm, isValidWasm, newMemory, PAGE_BYTES, type WasmFunction } from './web-assembly.js'

/** The memory of the sums of a warpgroup: its greatest matrices take less. */
const PAGES = 8
/** The columns that are added together. */
const COLUMNS = 4

const PARAMETERS: readonly LocalType[] = Array.from({ length: 11 }, () => 'i32' as const)
const [ROWS_LEFT, COLUMNS_OF_ALL, K, X, X_EXPONENTS, Y, Y_EXPONENTS] = [0, 1, 2, 3, 4, 5, 6]
const [SUMS, FRACTION, LEAST, LEAST_TOP] = [7, 8, 9, 10]

/** Takes the low words of the lanes of two values of two lanes. */
const LOW_WORDS = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27]

function bodyOfSums(): Uint8Array {
  const body = new FunctionBody(PARAMETERS)
  const word = (): number => body.local('i32')
  const [column, left, x, y, xAt, yAt] = [word(), word(), word(), word(), word(), word()]
  const lanes = (): number => body.local('v128')
  const [before0, before1, sum0, sum1] = [lanes(), lanes(), lanes(), lanes()]
  const [scale0, scale1, back0, back1] = [lanes(), lanes(), lanes(), lanes()]
  const [top, value] = [lanes(), lanes()]
  /** Pushes the words of two values of two lanes each that `write` makes of these. */
  const wordsOf = (write: (from: number) => void): void => {
    write(before0)
    write(before1)
    body.shuffle(LOW_WORDS)
  }
  const forEachOfK = (write: () => void): void => {
    body.write(K, set(left))
    body.loop()
    write()
    body.write(left, i32(1), 'i32.sub', tee(left))
    body.brIf(0)
    body.end()
  }
  const add = (pointer: number, write: () => void): void => {
    body.get(pointer)
    write()
    body.write('i32.add', set(pointer))
  }
  const bytesOfColumns = (size: number): void => body.write(COLUMNS_OF_ALL, i32(Math.log2(size)), 'i32.shl')
  /** Makes powers of two of the exponents in `value`, two for each of the locals. */
  const powers = (first: number, second: number): void => {
    for (const [half, local] of [['low', first] as const, ['high', second] as const]) {
      body.write(value, `i64x2.extend_${half}_i32x4_u`, i32(52), 'i64x2.shl', set(local))
    }
  }
  body.loop()
  body.write(i32(0), set(column))
  body.loop()
  // The exponents of the sums before: a zero has the least that counts.
  body.write(SUMS, memory128('v128.load'), set(before0), SUMS, memory128('v128.load', 16), set(before1))
  body.write(LEAST_TOP, 'i32x4.splat')
  wordsOf((from) =>
    body.write(
      from,
      i32(52),
      'i64x2.shr_u',
      i64(0x7ffn),
      'i64x2.splat',
      'v128.and',
      i64(1023n),
      'i64x2.splat',
      'i64x2.sub',
    ),
  )
  body.write(LEAST, 'i32x4.splat', 'i32x4.max_s')
  wordsOf((from) => body.write(from, i64(0n), 'i64x2.splat', 'f64x2.eq'))
  body.write('v128.bitselect', set(top))
  body.write(X_EXPONENTS, set(xAt), Y_EXPONENTS, column, i32(2), 'i32.shl', 'i32.add', set(yAt))
  forEachOfK(() => {
    body.write(
      top,
      xAt,
      memory128('v128.load32_splat'),
      yAt,
      memory128('v128.load'),
      'i32x4.add',
      'i32x4.max_s',
      set(top),
    )
    add(xAt, () => body.i32(4))
    add(yAt, () => bytesOfColumns(4))
  })
  body.write(FRACTION, 'i32x4.splat', top, 'i32x4.sub', tee(top))
  body.write(i32(1023), 'i32x4.splat', 'i32x4.add', set(value))
  powers(scale0, scale1)
  body.write(i32(1023), 'i32x4.splat', top, 'i32x4.sub', set(value))
  powers(back0, back1)
  for (const [sum, before, scale] of [
    [sum0, before0, scale0],
    [sum1, before1, scale1],
  ] as const) {
    body.write(before, scale, 'f64x2.mul', 'f64x2.trunc', set(sum))
  }
  body.write(X, set(x), Y, column, i32(3), 'i32.shl', 'i32.add', set(y))
  forEachOfK(() => {
    body.write(x, memory128('v128.load64_splat'), set(value))
    for (const [sum, scale, offset] of [
      [sum0, scale0, 0],
      [sum1, scale1, 16],
    ] as const) {
      body.write(sum, value, y, memory128('v128.load', offset), 'f64x2.mul', scale, 'f64x2.mul', 'f64x2.trunc')
      body.write('f64x2.add', set(sum))
    }
    add(x, () => body.i32(8))
    add(y, () => bytesOfColumns(8))
  })
  body.write(SUMS, sum0, back0, 'f64x2.mul', memory128('v128.store'))
  body.write(SUMS, sum1, back1, 'f64x2.mul', memory128('v128.store', 16))
  add(SUMS, () => body.i32(8 * COLUMNS))
  add(column, () => body.i32(COLUMNS))
  body.write(column, COLUMNS_OF_ALL, 'i32.lt_u')
  body.brIf(0)
  body.end()
  add(X, () => body.write(K, i32(3), 'i32.shl'))
  add(X_EXPONENTS, () => body.write(K, i32(2), 'i32.shl'))
  body.write(ROWS_LEFT, i32(1), 'i32.sub', tee(ROWS_LEFT))
  body.brIf(0)
  body.end()
  return body.encode()
}

/** The matrices of a product where WebAssembly finds them. */
export interface SumsInLanes {
  /** The elements of each row of a together. */
  readonly x: Float64Array
  readonly xExponents: Int32Array
  /** The elements of all columns of b at one place along k together. */
  readonly y: Float64Array
  readonly yExponents: Int32Array
  /** The sums before, row by row, and then the sums. */
  readonly sums: Float64Array
  /** @param least The least exponent of a sum that is not zero; a zero counts as `leastTop` */
  run(fraction: number, least: number, leastTop: number): void
}

interface Machine {
  readonly buffer: ArrayBuffer
  readonly sums: WasmFunction
}

let machine: Machine | 'none' | undefined

function machineOf(): Machine | 'none' {
  if (machine !== undefined) return machine
  const module = new ModuleBuilder(PAGES)
  module.define(module.declare({ parameters: PARAMETERS, results: [] }, 'sums'), bodyOfSums())
  const bytes = module.encode()
  machine = 'none'
  // A run time without SIMD adds in JavaScript.
  if (isValidWasm(bytes)) {
    const memory = newMemory(PAGES, PAGES)
    const sums = instantiateWasm(compileWasm(bytes), { m: memory }).exports['sums']
    if (sums !== undefined) machine = { buffer: memory.buffer, sums }
  }
  return machine
}

const known = new Map<number, SumsInLanes>()

/** The place of the matrices of a product of this shape, until the next is asked for; undefined where lanes cannot add it. */
export function sumsInLanes(rows: number, columns: number, k: number): SumsInLanes | undefined {
  const key = (rows * 1024 + columns) * 1024 + k
  const found = known.get(key)
  if (found !== undefined) return found
  const lengths = [rows * k, k * columns, rows * columns]
  const [a = 0, b = 0, c = 0] = lengths
  const own = machineOf()
  if (own === 'none' || columns % COLUMNS !== 0 || k === 0 || 12 * (a + b) + 8 * c > PAGES * PAGE_BYTES) return
  const { buffer, sums } = own
  const [y, at, xExponents] = [8 * a, 8 * (a + b), 8 * (a + b + c)]
  const yExponents = xExponents + 4 * a
  const made: SumsInLanes = {
    x: new Float64Array(buffer, 0, a),
    y: new Float64Array(buffer, y, b),
    sums: new Float64Array(buffer, at, c),
    xExponents: new Int32Array(buffer, xExponents, a),
    yExponents: new Int32Array(buffer, yExponents, b),
    run: (fraction, least, leastTop) =>
      void sums(rows, columns, k, 0, xExponents, y, yExponents, at, fraction, least, leastTop),
  }
  known.set(key, made)
  return made
}
