/** Functions of the mathematical library and intrinsics, against Node's and against exact fractions. */
import assert from 'node:assert/strict'
import {
  add,
  decodeFloat,
  divide,
  encodeFloat,
  FORMATS,
  fraction,
  multiply,
  negate,
  type Rounding,
  squareRoot,
  type Value,
} from './forms/exact.js'
import { kernelTest } from './kernel-test.js'
import { floats, randomNumbers } from './machine.js'
import { bf16BitsOf, halfBitsOf, halfValue } from './small-floats.js'

const gamma = (x: number): number => {
  if (x < 0.5) return Math.PI / (Math.sin(Math.PI * x) * gamma(1 - x))
  // Lanczos.
  const factors = [
    676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406, 12.507343278686905,
    -0.13857109526572012, 9.984369578019572e-6, 1.5056327351493116e-7,
  ]
  const t = x + 6.5
  const sum = factors.reduce((total, factor, index) => total + factor / (x + index), 0.9999999999998099)
  return Math.sqrt(2 * Math.PI) * t ** (x - 0.5) * Math.exp(-t) * sum
}

/** By a series in which nothing cancels. */
const erf = (z: number): number => {
  let [term, sum] = [z, z]
  for (let n = 1; n < 250; n++) {
    term *= (2 * z * z) / (2 * n + 1)
    sum += term
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-z * z) * sum
}

const even = (x: number): number => {
  const floor = Math.floor(x)
  return x - floor > 0.5 || (x - floor === 0.5 && floor % 2 !== 0) ? floor + 1 : floor
}

const FUNCTIONS: readonly (readonly [name: string, of: (x: number) => number])[] = [
  ['sin', Math.sin],
  ['cos', Math.cos],
  ['tan', Math.tan],
  ['exp', Math.exp],
  ['exp2', (x) => 2 ** x],
  ['log', (x) => Math.log(Math.abs(x))],
  ['log2', (x) => Math.log2(Math.abs(x))],
  ['log10', (x) => Math.log10(Math.abs(x))],
  ['sqrt', (x) => Math.sqrt(Math.abs(x))],
  ['rsqrt', (x) => 1 / Math.sqrt(Math.abs(x))],
  ['cbrt', Math.cbrt],
  ['atan', Math.atan],
  ['atan2', (x) => Math.atan2(x, 2)],
  ['sinh', Math.sinh],
  ['cosh', Math.cosh],
  ['tanh', Math.tanh],
  ['erf', erf],
  ['erfc', (x) => 1 - erf(x)],
  ['tgamma', gamma],
  ['lgamma', (x) => Math.log(Math.abs(gamma(x)))],
  ['pow', (x) => Math.abs(x) ** 1.7],
  ['fmod', (x) => x % 0.7],
  ['remainder', (x) => x - 0.7 * even(x / 0.7)],
  ['hypot', (x) => Math.hypot(x, 3)],
  ['floor', Math.floor],
  ['ceil', Math.ceil],
  ['trunc', Math.trunc],
  ['rint', even],
  ['round', (x) => Math.sign(x) * Math.floor(Math.abs(x) + 0.5)],
  ['log1p', (x) => Math.log1p(Math.abs(x))],
  ['expm1', Math.expm1],
  ['asinh', Math.asinh],
]

function checkFunctions(inputs: ArrayLike<number>, out: ArrayLike<number>, relative: number, absolute: number): void {
  const n = inputs.length
  FUNCTIONS.forEach(([name, of], index) => {
    for (let i = 0; i < n; i++) {
      const [x, actual] = [inputs[i] ?? 0, out[n * index + i] ?? Number.NaN]
      const expected = of(x)
      const error = Math.abs(actual - expected)
      assert.ok(
        error <= relative * Math.abs(expected) + absolute,
        `${name}(${x}) gives ${actual} instead of ${expected}`,
      )
    }
  })
}

kernelTest('maths', 'maths_float', ({ launch }) => {
  const inputs = floats(64, 3, 6)
  const out = new Float32Array(64 * 32)
  launch({ block: 64 }, inputs, out, 64)
  // 0.7 as f32 is another number: fmod and remainder are compared with that.
  const fraction7 = Math.fround(0.7)
  const replaced = FUNCTIONS.map(([name]) => name)
  const own = new Float32Array(out)
  for (const [index, x] of inputs.entries()) {
    const at = (name: string): number => 64 * replaced.indexOf(name) + index
    assert.equal(out[at('fmod')], x % fraction7)
    own[at('fmod')] = x % 0.7
    own[at('remainder')] = FUNCTIONS[replaced.indexOf('remainder')]?.[1](x) ?? 0
  }
  checkFunctions(inputs, own, 3e-5, 3e-6)
})

kernelTest('maths', 'maths_double', ({ launch }) => {
  const inputs = Float64Array.from(floats(64, 4, 6))
  const out = new Float64Array(64 * 32)
  launch({ block: 64 }, inputs, out, 64)
  checkFunctions(inputs, out, 1e-12, 1e-14)
})

kernelTest('maths', 'rounding', ({ launch }) => {
  const n = 64
  const random = randomNumbers(3)
  const make = (): Float32Array =>
    Float32Array.from({ length: n }, () => (random() - 0.5) * 2 ** Math.floor(random() * 60 - 30))
  const [a, b, out] = [make(), make(), new Float32Array(n * 16)]
  launch({ block: n }, a, b, out, n)
  const f32 = FORMATS.f32
  const words = new Uint32Array(1)
  const single = new Float32Array(words.buffer)
  const bitsOf = (x: number): bigint => {
    single[0] = x
    return BigInt(words[0] ?? 0)
  }
  const rounded = (value: Value, rounding: Rounding): number => {
    words[0] = Number(encodeFloat(value, f32, rounding))
    return single[0] ?? 0
  }
  for (let i = 0; i < n; i++) {
    const [x, y] = [decodeFloat(bitsOf(a[i] ?? 0), f32), decodeFloat(bitsOf(b[i] ?? 0), f32)]
    const size = x.kind !== 'nan' && x.negative ? negate(x) : x
    const fused = add(multiply(x, y), x)
    const expected = [
      ...(['rm', 'rp', 'rz'] as const).map((r) => rounded(add(x, y), r)),
      ...(['rm', 'rp', 'rz'] as const).map((r) => rounded(multiply(x, y), r)),
      ...(['rm', 'rp', 'rz'] as const).map((r) => rounded(divide(x, y), r)),
      rounded(squareRoot(size), 'rm'),
      rounded(squareRoot(size), 'rp'),
      rounded(fused, 'rm'),
      rounded(fused, 'rp'),
      rounded(divide(fraction(1n, 1n), x), 'rz'),
      rounded(add(multiply(x, y), negate(x)), 'rn'),
      Math.min(1, Math.max(0, a[i] ?? 0)),
    ]
    assert.deepEqual(
      expected.map((_, k) => out[n * k + i]),
      expected,
    )
  }
})

kernelTest('maths', 'conversions', ({ launch }) => {
  const n = 64
  const inputs = Float32Array.from(floats(n, 5, 1), (value, index) => value * 2 ** (index % 40))
  const out = new Int32Array(n * 16)
  launch({ block: n }, inputs, out, n)
  const clamp = (value: number, least: number, most: number): number => Math.min(most, Math.max(least, value))
  for (let i = 0; i < n; i++) {
    const x = inputs[i] ?? 0
    const of = (k: number): number => out[n * k + i] ?? 0
    const int = (value: number): number => clamp(value, -(2 ** 31), 2 ** 31 - 1)
    assert.deepEqual(
      [of(0), of(1), of(2), of(3)].map((v) => v + 0),
      [even(x), Math.trunc(x), Math.floor(x), Math.ceil(x)].map((v) => int(v) + 0),
    )
    assert.equal(of(4) >>> 0, clamp(Math.trunc(x), 0, 2 ** 32 - 1) + 0)
    assert.equal(of(5), Number(BigInt.asIntN(32, BigInt(even(x)))))
    assert.equal(of(6), halfBitsOf(x))
    assert.equal(of(9), bf16BitsOf(x))
    assert.equal(of(13), int(even(x * 1.5)) + 0)
    const view = new DataView(new ArrayBuffer(8))
    view.setFloat64(0, x)
    assert.equal(of(14), view.getInt32(0))
    view.setFloat64(0, x / 3)
    assert.equal(of(15), view.getInt32(4))
  }
})

kernelTest('maths', 'halves', ({ launch }) => {
  const n = 64
  const make = (seed: number): Uint16Array => Uint16Array.from(floats(n, seed, 8), halfBitsOf)
  const [a, b, out] = [make(1), make(2), new Uint16Array(n * 16)]
  launch({ block: n }, a, b, out, n)
  for (let i = 0; i < n; i++) {
    const [x, y] = [halfValue(a[i] ?? 0), halfValue(b[i] ?? 0)]
    const of = (k: number): number => halfValue(out[n * k + i] ?? 0)
    const half = (value: number): number => halfValue(halfBitsOf(value))
    // Sums and products of halves are exact in f64.
    const expected: readonly (readonly [number, number])[] = [
      [0, half(x + y)],
      [1, half(x - y)],
      [2, half(x * y)],
      [4, half(x * y + x)],
      [5, -x],
      [6, Math.abs(x)],
      [7, Math.min(x, y)],
      [8, Math.max(x, y)],
      [9, x < y ? x : y],
      [11, Math.floor(x)],
      [12, Math.min(1, Math.max(0, half(x + y)))],
      [13, half(i * 37)],
      [14, Math.max(0, half(x * y + x))],
      [15, even(x)],
    ]
    for (const [k, value] of expected) assert.equal(of(k) + 0, value + 0, `${k} of ${x} and ${y}`)
    for (const [k, value] of [
      [3, x / y],
      [10, Math.sqrt(Math.abs(x))],
    ] as const) {
      assert.ok(Math.abs(of(k) - value) <= 2 ** -10 * Math.abs(value) + 2 ** -24)
    }
  }
})

kernelTest('maths', 'bits', ({ launch }) => {
  const n = 64
  const random = randomNumbers(9)
  const values = Uint32Array.from({ length: n }, () => random() * 2 ** 32)
  const out = new Uint32Array(n * 24)
  launch({ block: n }, values, out, n)
  const ones = (x: bigint): number => x.toString(2).replaceAll('0', '').length
  const parts = (x: number, width: number, signed: boolean): number[] =>
    Array.from({ length: 32 / width }, (_, at) => {
      const part = Math.floor(x / 2 ** (at * width)) % 2 ** width
      return signed && part >= 2 ** (width - 1) ? part - 2 ** width : part
    })
  const join = (list: readonly number[], width: number): number =>
    list.reduce((sum, part, at) => sum + (((part % 2 ** width) + 2 ** width) % 2 ** width) * 2 ** (at * width), 0)
  for (let i = 0; i < n; i++) {
    const [x, y] = [values[i] ?? 0, values[(i + 1) % n] ?? 0]
    const [sx, sy] = [x | 0, y | 0]
    const [X, Y] = [BigInt(x), BigInt(y)]
    const pairwise = (width: number, signed: boolean, f: (p: number, q: number) => number): number => {
      const other = parts(y, width, signed)
      return join(
        parts(x, width, signed).map((part, at) => f(part, other[at] ?? 0)),
        width,
      )
    }
    const bytes = [...parts(x, 8, false), ...parts(y, 8, false)]
    const both = (Y << 32n) | X
    const expected = [
      ones(X),
      Math.clz32(x),
      x === 0 ? 0 : 32 - Math.clz32(x & -x),
      Number.parseInt([...x.toString(2).padStart(32, '0')].reverse().join(''), 2),
      join(
        [0, 4, 2, 6].map((at) => bytes[at] ?? 0),
        8,
      ),
      Number(((both << BigInt(i & 31)) >> 32n) & 0xffffffffn),
      Number(both >> 32n),
      Number((X * Y) >> 32n),
      Number(BigInt.asUintN(32, (BigInt(sx) * BigInt(sy)) >> 32n)),
      (Math.abs(sx - sy) + 5) % 2 ** 32,
      (Math.abs(x - y) + 5) % 2 ** 32,
      Number(BigInt.asUintN(32, (X & 0xffffffn) * (Y & 0xffffffn))),
      Number(BigInt.asUintN(32, BigInt.asIntN(24, X) * BigInt.asIntN(24, Y))),
      Math.floor((sx + sy) / 2) >>> 0,
      Math.floor((x + y) / 2),
      pairwise(8, false, (p, q) => p + q),
      pairwise(8, false, (p, q) => Math.abs(p - q)),
      pairwise(16, true, Math.max),
      pairwise(8, false, (p, q) => Math.floor((p + q + 1) / 2)),
      pairwise(8, false, (p, q) => (p > q ? 255 : 0)),
      parts(x, 8, true).reduce((sum, part, at) => sum + Math.abs(part - (parts(y, 8, true)[at] ?? 0)), 0),
      ones(both),
      64 - BigInt.asUintN(64, Y << 3n).toString(2).length - (y === 0 ? -1 : 0),
      ((x & y) ^ (~x | (y >>> 3))) >>> 0,
    ]
    assert.deepEqual(
      expected.map((_, k) => out[n * k + i]),
      expected,
    )
  }
})
