/**
 * Ten kernels of Triton with arguments, and what JavaScript says that they make: on one of tests/cu/triton/files each. What an H200 made
 * of the same is in recorded.json.br; Triton 3.6 made the same bits there from the sources, but for the last ones in attention.
 */

export type Numbers = Float32Array | Int32Array | Uint8Array | Uint16Array

/** An array that the kernel gets, or a value. */
export type Argument = Numbers | number

export interface Case {
  /** What tells it from the other cases. */
  readonly name: string
  readonly file: string
  readonly kernel: string
  /** The configuration of an autotuned kernel that is launched. Default: the first. */
  readonly config?: number
  /** Which variant fits the arguments. */
  readonly variant: number
  readonly grid: readonly [number, number, number]
  readonly arguments: readonly Argument[]
  /** The arguments that are written, with what they hold then. */
  readonly expected: ReadonlyMap<number, ArrayLike<number>>
  /** Whether the array is of halves, in 16 bits each. */
  readonly ofHalves?: boolean
  /** The largest difference from JavaScript: 0 where no instruction approximates. */
  readonly error: number
  /** The largest difference from a GPU. Default: 0, the same bits. Tensor cores add in another order, and some functions are approximations. */
  readonly gpuError?: number
}

/** Numbers that are the same on each machine: the same seed gives the same. */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

function floats(length: number, seed: number, least = -1, most = 1): Float32Array {
  const next = random(seed)
  return Float32Array.from({ length }, () => least + (most - least) * next())
}

/** The number that a half is. */
export function fromF16(bits: number): number {
  const exponent = (bits >> 10) & 31
  const mantissa = (bits & 1023) / 1024
  const size = exponent === 0 ? mantissa * 2 ** -14 : (1 + mantissa) * 2 ** (exponent - 15)
  return bits & 0x8000 ? -size : size
}

/** The half that is nearest to a number of ordinary size, of two the even one. */
function toF16(value: number): number {
  const size = Math.abs(value)
  const step = 2 ** (Math.max(-14, Math.floor(Math.log2(size || 1))) - 10)
  const steps = size / step
  const down = Math.floor(steps)
  const rest = steps - down
  const rounded = rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? down + 1 : down
  const exponent = Math.round(Math.log2(step)) + 10
  const bits = rounded < 1024 ? rounded : rounded - 1024 + ((exponent + 15) << 10)
  return bits | (value < 0 ? 0x8000 : 0)
}

const halves = (values: Float32Array): Uint16Array => Uint16Array.from(values, toF16)
const ofHalves = (values: Uint16Array): Float32Array => Float32Array.from(values, fromF16)

/** A number of 8 bits: with `exponent` bits of exponent. 5: e5m2, 4: e4m3. */
function ofBits8(bits: number, exponent: 4 | 5): number {
  const mantissaBits = 7 - exponent
  const bias = 2 ** (exponent - 1) - 1
  const sign = bits & 0x80 ? -1 : 1
  const e = (bits & 0x7f) >> mantissaBits
  const mantissa = (bits & (2 ** mantissaBits - 1)) / 2 ** mantissaBits
  return sign * (e === 0 ? mantissa * 2 ** (1 - bias) : (1 + mantissa) * 2 ** (e - bias))
}

/** Bits of numbers from -2 to 2. */
function bits8(length: number, seed: number): Uint8Array {
  const next = random(seed)
  return Uint8Array.from({ length }, () => (Math.floor(next() * 2) << 7) | Math.floor(next() * 0x40))
}

const add = (name: string, n: number, variant: number): Case => {
  const [x, y] = [floats(n, 1), floats(n, 2)]
  return {
    name,
    file: 'add.py',
    kernel: 'add',
    variant,
    grid: [Math.ceil(n / 1024), 1, 1],
    arguments: [x, y, new Float32Array(n), n],
    expected: new Map([[2, x.map((value, at) => value + (y[at] ?? 0))]]),
    error: 0,
  }
}

function softmaxOf(x: Float32Array, rows: number, stride: number, n: number): Float32Array {
  const out = new Float32Array(rows * stride)
  for (let row = 0; row < rows; row++) {
    const values = x.subarray(row * stride, row * stride + n)
    const most = Math.max(...values)
    const powers = Float64Array.from(values, (value) => Math.exp(value - most))
    const sum = powers.reduce((a, b) => a + b, 0)
    out.set(
      powers.map((power) => power / sum),
      row * stride,
    )
  }
  return out
}

const softmax = (name: string, stride: number, n: number, variant: number): Case => {
  const x = floats(3 * stride, 3, -4, 4)
  return {
    name,
    file: 'softmax.py',
    kernel: 'softmax',
    variant,
    grid: [3, 1, 1],
    arguments: [new Float32Array(3 * stride), x, stride, n],
    expected: new Map([[0, softmaxOf(x, 3, stride, n)]]),
    error: 1e-7,
    gpuError: 2e-9,
  }
}

function softmaxOfHalves(): Case {
  const x = halves(floats(4 * 208, 4, -4, 4))
  return {
    name: 'softmax of halves',
    file: 'softmax.py',
    kernel: 'softmax_f16',
    variant: 0,
    grid: [4, 1, 1],
    arguments: [new Uint16Array(4 * 208), x, 208, 192],
    expected: new Map([[0, softmaxOf(ofHalves(x), 4, 208, 192)]]),
    ofHalves: true,
    error: 2e-5,
  }
}

function layerNorm(): Case {
  const [rows, n, eps] = [3, 700, 1e-5]
  const [x, weight, bias] = [floats(rows * n, 5, 0, 3), floats(n, 6), floats(n, 7)]
  const [out, mean, rstd] = [new Float32Array(rows * n), new Float32Array(rows), new Float32Array(rows)]
  for (let row = 0; row < rows; row++) {
    const values = Float64Array.from(x.subarray(row * n, row * n + n))
    const average = values.reduce((a, b) => a + b, 0) / n
    const inverse = 1 / Math.sqrt(values.reduce((a, b) => a + (b - average) ** 2, 0) / n + eps)
    mean[row] = average
    rstd[row] = inverse
    for (const [at, value] of values.entries())
      out[row * n + at] = (value - average) * inverse * (weight[at] ?? 0) + (bias[at] ?? 0)
  }
  const empty = (length: number): Float32Array => new Float32Array(length)
  return {
    name: 'layer norm',
    file: 'layer_norm.py',
    kernel: 'layer_norm',
    variant: 1,
    grid: [rows, 1, 1],
    arguments: [empty(rows * n), x, weight, bias, empty(rows), empty(rows), n, n, eps],
    expected: new Map([
      [0, out],
      [4, mean],
      [5, rstd],
    ]),
    error: 2e-6,
    gpuError: 3e-7,
  }
}

function product(a: ArrayLike<number>, b: ArrayLike<number>, m: number, n: number, k: number): Float32Array {
  const c = new Float32Array(m * n)
  for (let row = 0; row < m; row++)
    for (let column = 0; column < n; column++) {
      let sum = 0
      for (let at = 0; at < k; at++) sum += (a[row * k + at] ?? 0) * (b[at * n + column] ?? 0)
      c[row * n + column] = sum
    }
  return c
}

interface Product {
  readonly kernel: string
  readonly m: number
  readonly n: number
  readonly k: number
  readonly a: Numbers
  readonly b: Numbers
  readonly values: readonly [ArrayLike<number>, ArrayLike<number>]
  readonly error: number
  readonly config?: number
  readonly blocks?: readonly [number, number]
}

function matmul({
  kernel,
  m,
  n,
  k,
  a,
  b,
  values,
  error,
  config = 0,
  blocks: [rows, columns] = [32, 32],
}: Product): Case {
  return {
    name: `${kernel} ${m} x ${n} x ${k}, configuration ${config}`,
    file: 'matmul.py',
    kernel,
    config,
    variant: [m, n, k].every((each) => each % 16 === 0) ? 0 : 1,
    grid: [Math.ceil(m / rows), Math.ceil(n / columns), 1],
    arguments: [a, b, new Float32Array(m * n), m, n, k, k, 1, n, 1, n],
    expected: new Map([[2, product(...values, m, n, k)]]),
    error,
    gpuError: kernel === 'matmul_e4m3' ? 0 : 2e-6,
  }
}

function matmulOfHalves(m: number, n: number, k: number, config: number, blocks: readonly [number, number]): Case {
  const [a, b] = [halves(floats(m * k, 8)), halves(floats(k * n, 9))]
  return matmul({
    kernel: 'matmul_f16',
    m,
    n,
    k,
    a,
    b,
    values: [ofHalves(a), ofHalves(b)],
    error: 2e-6,
    config,
    blocks,
  })
}

function matmulTf32(): Case {
  const [m, n, k] = [40, 33, 50]
  const [a, b] = [floats(m * k, 10), floats(k * n, 11)]
  return matmul({ kernel: 'matmul_tf32', m, n, k, a, b, values: [a, b], error: 1e-2 })
}

function matmulOf8(kernel: string, exponent: 4 | 5): Case {
  const [m, n, k] = [48, 32, 64]
  const [a, b] = [bits8(m * k, 12), bits8(k * n, 13)]
  const values = [a, b].map((bits) => Float32Array.from(bits, (each) => ofBits8(each, exponent)))
  const [of = a, other = b] = values
  return matmul({ kernel, m, n, k, a, b, values: [of, other], error: 1e-5 })
}

/** Random bits by Philox, of four words with a key of two, as Triton computes them. */
function philox(seed: number, offset: number): number {
  let [c0, c1, c2, c3] = [offset >>> 0, 0, 0, 0]
  let [k0, k1] = [seed >>> 0, 0]
  const high = (a: number, b: number): number => Number((BigInt(a) * BigInt(b)) >> 32n)
  for (let round = 0; round < 10; round++) {
    const [a, b] = [0xd2511f53, 0xcd9e8d57]
    const [next0, next2]: [number, number] = [(high(b, c2) ^ c1 ^ k0) >>> 0, (high(a, c0) ^ c3 ^ k1) >>> 0]
    ;[c1, c3] = [Math.imul(b, c2) >>> 0, Math.imul(a, c0) >>> 0]
    ;[c0, c2] = [next0, next2]
    k0 = (k0 + 0x9e3779b9) >>> 0
    k1 = (k1 + 0xbb67ae85) >>> 0
  }
  return c0
}

/** A number from 0 to 1 of random bits. */
function uniform(bits: number): number {
  const signed = bits | 0
  return Math.fround((signed < 0 ? -signed - 1 : signed) * Math.fround(4.6566127342e-10))
}

function dropout(): Case {
  const [n, p, seed] = [1000, 0.25, 1234]
  const x = floats(n, 14, 1, 2)
  return {
    name: 'dropout',
    file: 'dropout.py',
    kernel: 'dropout',
    variant: 1,
    grid: [4, 1, 1],
    arguments: [x, new Float32Array(n), n, p, seed],
    expected: new Map([[1, x.map((value, at) => (uniform(philox(seed, at)) > p ? value / 0.75 : 0))]]),
    error: 3e-7,
  }
}

function attention(): Case {
  const [heads, length, width, scale] = [2, 80, 32, 0.125]
  const [q, k, v] = [15, 16, 17].map((seed) => halves(floats(heads * length * width, seed, -2, 2)))
  const [query = [], key = [], value = []] = [q, k, v].map((each) => ofHalves(each ?? new Uint16Array()))
  const out = new Float32Array(heads * length * width)
  for (let head = 0; head < heads; head++)
    for (let row = 0; row < length; row++) {
      const at = (index: number, along: number): number => (head * length + index) * width + along
      const scores = Float64Array.from({ length }, (_, column) => {
        let sum = 0
        for (let along = 0; along < width; along++) sum += (query[at(row, along)] ?? 0) * (key[at(column, along)] ?? 0)
        return sum * scale
      })
      const most = Math.max(...scores)
      const powers = scores.map((score) => Math.exp(score - most))
      const sum = powers.reduce((a, b) => a + b, 0)
      for (let along = 0; along < width; along++)
        out[at(row, along)] =
          powers.reduce((all, power, column) => all + power * (value[at(column, along)] ?? 0), 0) / sum
    }
  return {
    name: 'attention',
    file: 'attention.py',
    kernel: 'attention',
    variant: 0,
    grid: [Math.ceil(length / 32), heads, 1],
    arguments: [q, k, v, new Float32Array(out.length), scale, length].filter((each) => each !== undefined),
    expected: new Map([[3, out]]),
    error: 2e-3,
    gpuError: 3e-7,
  }
}

function scan(): Case {
  const [rows, n] = [4, 500]
  const next = random(18)
  const x = Int32Array.from({ length: rows * n }, () => Math.floor(2000 * next()) - 500)
  const [sums, most] = [new Int32Array(rows * n), new Int32Array(rows * n)]
  for (let at = 0; at < rows * n; at++) {
    const isFirst = at % n === 0
    sums[at] = (isFirst ? 0 : (sums[at - 1] ?? 0)) + (x[at] ?? 0)
    most[at] = isFirst ? (x[at] ?? 0) : Math.max(most[at - 1] ?? 0, x[at] ?? 0)
  }
  return {
    name: 'scan',
    file: 'scan.py',
    kernel: 'scan',
    variant: 1,
    grid: [rows, 1, 1],
    arguments: [x, new Int32Array(rows * n), new Int32Array(rows * n), n],
    expected: new Map([
      [1, sums],
      [2, most],
    ]),
    error: 0,
  }
}

function histogram(): Case {
  const next = random(19)
  const x = Uint8Array.from({ length: 5000 }, () => Math.floor(256 * next() * next()))
  const counts = new Int32Array(256)
  for (const each of x) counts[each] = (counts[each] ?? 0) + 1
  return {
    name: 'histogram',
    file: 'histogram.py',
    kernel: 'histogram',
    variant: 1,
    grid: [5, 1, 1],
    arguments: [x, new Int32Array(256), x.length],
    expected: new Map([[1, counts]]),
    error: 0,
  }
}

function persistent(): Case {
  const [m, n, k] = [128, 96, 64]
  const [a, b] = [halves(floats(m * k, 20)), halves(floats(k * n, 21))]
  return {
    name: 'persistent product',
    file: 'persistent.py',
    kernel: 'persistent',
    variant: 0,
    grid: [3, 1, 1],
    arguments: [a, b, new Uint16Array(m * n), m, n, k],
    expected: new Map([[2, product(ofHalves(a), ofHalves(b), m, n, k)]]),
    ofHalves: true,
    error: 4e-3,
    gpuError: 1e-3,
  }
}

export const CASES: readonly Case[] = [
  add('sum of multiples of 16', 4112, 0),
  add('sum of any number', 5001, 1),
  softmax('softmax of rows of multiples of 16', 784, 768, 0),
  softmax('softmax of any rows', 784, 781, 1),
  softmaxOfHalves(),
  layerNorm(),
  matmulOfHalves(64, 96, 64, 0, [32, 32]),
  matmulOfHalves(64, 96, 64, 1, [64, 32]),
  matmulOfHalves(64, 96, 64, 2, [16, 64]),
  matmulOfHalves(40, 33, 50, 0, [32, 32]),
  matmulTf32(),
  matmulOf8('matmul_e5m2', 5),
  matmulOf8('matmul_e4m3', 4),
  dropout(),
  attention(),
  scan(),
  histogram(),
  persistent(),
]
