/**
 * Operations on matrices that a warp holds in its registers: mma, wmma, ldmatrix, stmatrix and movmatrix. Integers and f64 are exact, and sums of
 * products of narrower floats are those of an H200 (tensor-sums.ts).
 */
import type { Decoded } from './decoding.js'
import {
  bf16Value,
  E4M3,
  E5M2,
  fma32,
  fma64,
  halfBits,
  halfValue,
  ROUNDINGS,
  roundToHalf,
  smallValue,
  tf32Value,
} from './numbers.js'
import { type FloatProduct, sumsOfFloats } from './tensor-sums.js'
import { bitsOfFloat32, floatOfBits, type Gathering } from './warp-operations.js'

export interface MatrixMemory {
  /** Reads a value of 1, 2 or 4 bytes as an integer, or one of 8 bytes as f64. The address is in the space that the opcode names. */
  read(lane: number, address: number, bytes: number, decoded: Decoded): number
  write(lane: number, address: number, bytes: number, value: number, decoded: Decoded): void
}

type MatrixOperation = (gathering: Gathering, memory: MatrixMemory) => void

export const MATRIX_OPERATIONS: Readonly<Record<string, MatrixOperation>> = {
  mma: (gathering) => multiply(gathering, ofQuads(gathering.decoded) ?? MMA_LAYOUT),
  'wmma.mma': (gathering) => multiply(gathering, WMMA_LAYOUT),
  'wmma.load': loadFragment,
  'wmma.store': storeFragment,
  ldmatrix: loadMatrices,
  stmatrix: storeMatrices,
  movmatrix: transposeMatrix,
}

const TYPE_BITS: Readonly<Record<string, number>> = {
  f64: 64,
  f32: 32,
  s32: 32,
  tf32: 32,
  f16: 16,
  bf16: 16,
  s8: 8,
  u8: 8,
  e4m3: 8,
  e5m2: 8,
  s4: 4,
  u4: 4,
  b1: 1,
}

const scratch = new DataView(new ArrayBuffer(8))

function doubleOf(low: number, high: number): number {
  scratch.setInt32(0, low, true)
  scratch.setInt32(4, high, true)
  return scratch.getFloat64(0, true)
}

/** The value of one element among those of a word. */
function elementOf(word: number, index: number, type: string): number {
  switch (type) {
    case 'f32':
      return floatOfBits(word)
    case 'tf32':
      return tf32Value(word)
    case 'f16':
      return halfValue((word >>> (16 * index)) & 0xffff)
    case 'bf16':
      return bf16Value((word >>> (16 * index)) & 0xffff)
    case 's8':
      return (word << (24 - 8 * index)) >> 24
    case 'u8':
      return (word >>> (8 * index)) & 255
    case 'e4m3':
      return smallValue((word >>> (8 * index)) & 255, E4M3)
    case 'e5m2':
      return smallValue((word >>> (8 * index)) & 255, E5M2)
    case 's4':
      return (word << (28 - 4 * index)) >> 28
    case 'u4':
      return (word >>> (4 * index)) & 15
    case 'b1':
      return (word >>> index) & 1
    default:
      return word
  }
}

interface Shape {
  readonly m: number
  readonly n: number
  readonly k: number
}

function shapeOf({ modifiers }: Decoded): Shape {
  const [, m = 0, n = 0, k = 0] = (/^m(\d+)n(\d+)k(\d+)$/.exec(modifiers['shape'] ?? '') ?? []).map(Number)
  return { m, n, k }
}

/** The row and the column of each element of a fragment, given the lane and the number of the element in the lane's registers. */
interface Layout {
  a(
    lane: number,
    element: number,
    shape: Shape,
    perWord: number,
    perLane: number,
  ): readonly [row: number, column: number]
  b(
    lane: number,
    element: number,
    shape: Shape,
    perWord: number,
    perLane: number,
  ): readonly [row: number, column: number]
  c(
    lane: number,
    element: number,
    shape: Shape,
    perLane: number,
    perWord: number,
  ): readonly [row: number, column: number]
  /** How many products stand below each other, each of a part of the lanes; the columns of b stand beside each other. */
  readonly products: number
}

/** The layout that PTX specifies for mma: a group of four lanes has a row of a, and a column of b. */
const MMA_LAYOUT: Layout = {
  a: (lane, element, _, perWord) => {
    const register = Math.floor(element / perWord)
    const column = (lane & 3) * perWord + (element % perWord) + (register >> 1) * 4 * perWord
    return [(lane >> 2) + 8 * (register & 1), column]
  },
  b: (lane, element, _, perWord) => {
    const register = Math.floor(element / perWord)
    return [(lane & 3) * perWord + (element % perWord) + register * 4 * perWord, lane >> 2]
  },
  c: (lane, element) => [(lane >> 2) + 8 * (element >> 1), (lane & 3) * 2 + (element & 1)],
  products: 1,
}

/**
 * The layout of mma.m8n8k4 for f16, which is four products: lanes 0 to 3 and 16 to 19 have the first, the next four of each half the second, and so
 * on. Undefined for other shapes and types.
 */
function ofQuads({ modifiers }: Decoded): Layout | undefined {
  if (modifiers['shape'] !== 'm8n8k4' || modifiers['X'] !== 'f16') return undefined
  const first = (lane: number): number => 8 * ((lane & 15) >> 2)
  const upper = (lane: number): number => (lane < 16 ? 0 : 4)
  return {
    a: (lane, element) =>
      modifiers['A'] === 'row'
        ? [first(lane) + (lane & 3) + upper(lane), element]
        : [first(lane) + element + upper(lane), lane & 3],
    b: (lane, element) =>
      modifiers['B'] === 'row'
        ? [lane & 3, first(lane) + element + upper(lane)]
        : [element, first(lane) + (lane & 3) + upper(lane)],
    c: (lane, element, _, __, perWord) =>
      perWord === 2
        ? [first(lane) + (lane & 3) + upper(lane), element]
        : [first(lane) + (lane & 1) + (element & 2) + upper(lane), (element & 4) + (lane & 2) + (element & 1)],
    products: 4,
  }
}

/** The layout for wmma, whose fragments PTX leaves open: lanes have one element after the other. */
const WMMA_LAYOUT: Layout = {
  a: (lane, element, { m, k }, _, perLane) => place(lane, element, perLane, m, k),
  b: (lane, element, { n, k }, _, perLane) => place(lane, element, perLane, k, n),
  c: (lane, element, { m, n }, perLane) => place(lane, element, perLane, m, n),
  products: 1,
}

function place(
  lane: number,
  element: number,
  perLane: number,
  rows: number,
  columns: number,
): readonly [number, number] {
  // If the registers have more room than the matrix has elements, several lanes have the same element.
  const index = (lane * perLane + element) % (rows * columns)
  return [Math.floor(index / columns), index % columns]
}

function wordsOf(type: string): number {
  return type === 'f64' ? 1 : 32 / (TYPE_BITS[type] ?? 32)
}

/** The values of a fragment as a matrix. */
function gather(
  gathering: Gathering,
  name: string,
  type: string,
  columns: number,
  rows: number,
  at: (lane: number, element: number, perWord: number, perLane: number) => readonly [number, number],
): Float64Array {
  const matrix = new Float64Array(rows * columns)
  const perWord = wordsOf(type)
  const registers = gathering.countOf(name)
  const perLane = registers * perWord
  for (const lane of gathering.lanes) {
    for (let element = 0; element < perLane; element++) {
      const register = Math.floor(element / perWord)
      const [row, column] = at(lane, element, perWord, perLane)
      const low = gathering.source(lane, name, register)
      const value =
        type === 'f64'
          ? doubleOf(low, gathering.source(lane, name, register, 1))
          : elementOf(low, element % perWord, type)
      matrix[row * columns + column] = value
    }
  }
  return matrix
}

function multiply(gathering: Gathering, layout: Layout): void {
  const { decoded } = gathering
  const { modifiers } = decoded
  const shape = shapeOf(decoded)
  const { n, k } = shape
  const m = shape.m * layout.products
  const columns = n * layout.products
  const [resultType, sumType] = [modifiers['D'] ?? 'f32', modifiers['C'] ?? 'f32']
  const [aType, bType] = [modifiers['X'] ?? 'f16', modifiers['Y'] ?? 'f16']
  const a = gather(gathering, 'a', aType, k, m, (lane, element, perWord, perLane) =>
    layout.a(lane, element, shape, perWord, perLane),
  )
  const b = gather(gathering, 'b', bType, columns, k, (lane, element, perWord, perLane) =>
    layout.b(lane, element, shape, perWord, perLane),
  )
  const c = gather(gathering, 'c', sumType, n, m, (lane, element, perWord, perLane) =>
    layout.c(lane, element, shape, perLane, perWord),
  )
  const isDouble = resultType === 'f64'
  const given: Matrices = { m, n, k, columns, a, b, c, types: [aType, bType, resultType], rowsOfProduct: shape.m }
  const d = isDouble || resultType === 's32' ? exactProduct(given, modifiers) : roundedProduct(given, layout)
  const perWord = wordsOf(resultType)
  const registers = gathering.countOf('d')
  const perLane = registers * perWord
  const saturates = modifiers['satfinite'] !== undefined
  for (const lane of gathering.lanes) {
    for (let register = 0; register < registers; register++) {
      let word = 0
      for (let part = 0; part < perWord; part++) {
        const [row, column] = layout.c(lane, register * perWord + part, shape, perLane, perWord)
        const value = d[row * n + column] ?? 0
        if (isDouble) {
          scratch.setFloat64(0, value, true)
          gathering.result(lane, register, scratch.getInt32(4, true), 1)
          word = scratch.getInt32(0, true)
        } else if (resultType === 'f32') word = bitsOfFloat32(saturates ? finite(value, 3.4028234663852886e38) : value)
        else if (resultType === 'f16') {
          word |= halfBits(roundToHalf(saturates ? finite(value, 65504) : value)) << (16 * part)
        } else
          word =
            modifiers['satfinite'] === undefined ? wrapped(value) : Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, value))
      }
      gathering.result(lane, register, word)
    }
  }
}

/** Matrices as values, row by row: `columns` is the number of columns of b, and `rowsOfProduct` that of the rows which the same columns of b meet. */
interface Matrices extends Shape {
  readonly columns: number
  readonly rowsOfProduct: number
  readonly a: Float64Array
  readonly b: Float64Array
  readonly c: Float64Array
  readonly types: readonly [a: string, b: string, result: string]
}

/** The product of matrices of integers, bits or f64. */
function exactProduct(matrices: Matrices, modifiers: Decoded['modifiers']): Float64Array {
  const { m, n, k, columns, rowsOfProduct, a, b, c, types } = matrices
  const d = new Float64Array(m * n)
  const direction = ROUNDINGS[(modifiers['rnd'] ?? modifiers['rounded'] ?? 'rn') as keyof typeof ROUNDINGS]
  for (let row = 0; row < m; row++) {
    const firstColumn = Math.floor(row / rowsOfProduct) * n
    for (let column = 0; column < n; column++) {
      let sum = c[row * n + column] ?? 0
      for (let at = 0; at < k; at++) {
        const [x, y] = [a[row * k + at] ?? 0, b[at * columns + firstColumn + column] ?? 0]
        if (types[0] === 'b1') sum += modifiers['op'] === 'and' ? x & y : x ^ y
        else if (types[2] === 'f64') sum = fma64(x, y, sum, direction)
        else sum += x * y
      }
      d[row * n + column] = sum
    }
  }
  return d
}

/** The product of matrices of narrow floats, with the sums that an H200 makes for a form. */
function roundedProduct(matrices: Matrices, layout: Layout): ArrayLike<number> {
  const { n, k, columns, a, b, c, types } = matrices
  const [aType, bType, type] = types
  if (layout.products > 1) return productOfQuads(matrices)
  const across = Float64Array.from({ length: n * k }, (_, at) => b[(at % k) * columns + Math.floor(at / k)] ?? 0)
  const product = { columns: n, k, aType, bType, type, a, b: across, sums: c }
  if (aType.startsWith('e')) return productOfEight(product)
  // wmma takes four tf32 after four, mma eight at once.
  if (layout === WMMA_LAYOUT && aType === 'tf32') return inTurns(product, (at) => at >> 2)
  return sumsOfFloats(product)
}

/** A product in two turns, of which each adds half of the products: `turnOf` says which, by the place along k. */
function inTurns(product: FloatProduct, turnOf: (at: number) => number): Float32Array {
  const { k } = product
  const half = (from: Float64Array, turn: number): Float64Array => from.filter((_, at) => turnOf(at % k) === turn)
  const part = (turn: number, sums: FloatProduct['sums']): Float32Array =>
    sumsOfFloats({ ...product, k: k / 2, a: half(product.a, turn), b: half(product.b, turn), sums })
  return part(1, part(0, product.sums))
}

/** The product of a warp's matrices of eight bits, which become f16: first two elements of each four, then the others, and then the sum before. */
function productOfEight(product: FloatProduct): Float32Array {
  const { sums } = product
  const asHalves = { ...product, aType: 'f16', bType: 'f16', sums: new Float32Array(sums.length) }
  return inTurns(asHalves, (at) => (at >> 1) & 1).map((sum, at) => sum + (sums[at] ?? 0))
}

/** The product of m8n8k4 in f16, which a GPU from sm_75 on makes of multiplications and additions in f32, the sum before at last. */
function productOfQuads({ m, n, k, columns, rowsOfProduct, a, b, c, types }: Matrices): Float32Array {
  const d = new Float32Array(m * n)
  for (let at = 0; at < d.length; at++) {
    const row = Math.floor(at / n)
    const column = Math.floor(row / rowsOfProduct) * n + (at % n)
    // A sum in f32 begins with a zero, which takes the sign from another zero.
    let sum = Math.fround((a[row * k] ?? 0) * (b[column] ?? 0)) + (types[2] === 'f32' ? 0 : -0)
    for (let next = 1; next < k; next++) sum = fma32(a[row * k + next] ?? 0, b[next * columns + column] ?? 0, sum)
    d[at] = sum + (c[at] ?? 0)
  }
  return d
}

/** The value that `.satfinite` gives: infinity becomes the largest number, and NaN zero. */
function finite(value: number, largest: number): number {
  return Number.isNaN(value) ? 0 : Math.min(largest, Math.max(-largest, value))
}

function wrapped(value: number): number {
  return Number(BigInt.asIntN(32, BigInt(value)))
}

/** The numbers of rows and columns of the matrix that a fragment of wmma holds. */
function fragmentShape({ m, n, k }: Shape, which: string): readonly [rows: number, columns: number] {
  return which === 'a' ? [m, k] : which === 'b' ? [k, n] : [m, n]
}

/** The distance of an element from the start of a matrix in memory, in elements. */
function distanceOf(
  gathering: Gathering,
  lane: number,
  strideName: string,
  [rows, columns]: readonly [number, number],
  [row, column]: readonly [number, number],
): number {
  const rowMajor = gathering.decoded.modifiers['layout'] === 'row'
  const stride = gathering.has(lane, strideName) ? gathering.source(lane, strideName) : rowMajor ? columns : rows
  return rowMajor ? row * stride + column : column * stride + row
}

function loadFragment(gathering: Gathering, memory: MatrixMemory): void {
  const { decoded, lanes } = gathering
  const type = decoded.modifiers['T'] ?? 'f16'
  const size = fragmentShape(shapeOf(decoded), decoded.modifiers['m'] ?? 'a')
  const perWord = wordsOf(type)
  const registers = gathering.countOf('d')
  const bits = TYPE_BITS[type] ?? 32
  for (const lane of lanes) {
    const base = gathering.address(lane, 'a')
    for (let register = 0; register < registers; register++) {
      let word = 0
      for (let part = 0; part < perWord; part++) {
        const at = place(lane, register * perWord + part, registers * perWord, ...size)
        const distance = distanceOf(gathering, lane, 'b', size, at) * bits
        const address = base + Math.floor(distance / 8)
        if (bits === 64) {
          scratch.setFloat64(0, memory.read(lane, address, 8, decoded), true)
          gathering.result(lane, register, scratch.getInt32(4, true), 1)
          word = scratch.getInt32(0, true)
        } else if (bits < 8) {
          const value = (memory.read(lane, address, 1, decoded) >>> (distance % 8)) & (2 ** bits - 1)
          word |= value << (bits * part)
        } else word |= memory.read(lane, address, bits / 8, decoded) << (bits === 32 ? 0 : bits * part)
      }
      gathering.result(lane, register, word)
    }
  }
}

function storeFragment(gathering: Gathering, memory: MatrixMemory): void {
  const { decoded, lanes } = gathering
  const type = decoded.modifiers['T'] ?? 'f32'
  const size = fragmentShape(shapeOf(decoded), 'd')
  const perWord = wordsOf(type)
  const registers = gathering.countOf('b')
  const bytes = (TYPE_BITS[type] ?? 32) / 8
  for (const lane of lanes) {
    const base = gathering.address(lane, 'a')
    for (let register = 0; register < registers; register++) {
      const word = gathering.source(lane, 'b', register)
      for (let part = 0; part < perWord; part++) {
        const at = place(lane, register * perWord + part, registers * perWord, ...size)
        const address = base + distanceOf(gathering, lane, 'c', size, at) * bytes
        if (bytes === 8) {
          memory.write(lane, address, 8, doubleOf(word, gathering.source(lane, 'b', register, 1)), decoded)
        } else memory.write(lane, address, bytes, bytes === 2 ? (word >>> (16 * part)) & 0xffff : word, decoded)
      }
    }
  }
}

function matrixCount({ modifiers }: Decoded): number {
  return Number((modifiers['num'] ?? 'x1').slice(1))
}

/** Eight lanes give the addresses of the rows of each matrix; each lane gets two elements of a row of it. */
function loadMatrices(gathering: Gathering, memory: MatrixMemory): void {
  const { decoded, lanes } = gathering
  for (let matrix = 0; matrix < matrixCount(decoded); matrix++) {
    const elements = new Uint16Array(64)
    for (let row = 0; row < 8; row++) {
      const lane = 8 * matrix + row
      const address = gathering.address(lane, 'a')
      for (let column = 0; column < 8; column++) {
        elements[8 * row + column] = memory.read(lane, address + 2 * column, 2, decoded)
      }
    }
    for (const lane of lanes)
      gathering.result(lane, matrix, pairOf(elements, lane, decoded.modifiers['trans'] !== undefined))
  }
}

function pairOf(elements: Uint16Array, lane: number, transposed: boolean): number {
  const [group, pair] = [lane >> 2, 2 * (lane & 3)]
  const at = (index: number): number => elements[transposed ? 8 * index + group : 8 * group + index] ?? 0
  return at(pair) | (at(pair + 1) << 16)
}

function spread(elements: Uint16Array, lane: number, word: number, transposed: boolean): void {
  const [group, pair] = [lane >> 2, 2 * (lane & 3)]
  for (const [index, value] of [word & 0xffff, word >>> 16].entries()) {
    elements[transposed ? 8 * (pair + index) + group : 8 * group + pair + index] = value
  }
}

function storeMatrices(gathering: Gathering, memory: MatrixMemory): void {
  const { decoded, lanes } = gathering
  for (let matrix = 0; matrix < matrixCount(decoded); matrix++) {
    const elements = new Uint16Array(64)
    for (const lane of lanes) {
      spread(elements, lane, gathering.source(lane, 'b', matrix), decoded.modifiers['trans'] !== undefined)
    }
    for (let row = 0; row < 8; row++) {
      const lane = 8 * matrix + row
      const address = gathering.address(lane, 'a')
      for (let column = 0; column < 8; column++) {
        memory.write(lane, address + 2 * column, 2, elements[8 * row + column] ?? 0, decoded)
      }
    }
  }
}

function transposeMatrix(gathering: Gathering): void {
  const elements = new Uint16Array(64)
  for (const lane of gathering.lanes) spread(elements, lane, gathering.source(lane, 'a'), false)
  for (const lane of gathering.lanes) gathering.result(lane, 0, pairOf(elements, lane, true))
}
