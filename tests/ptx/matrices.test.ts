/** Products of matrices, plain and on tensor cores, against plain loops. */
import assert from 'node:assert/strict'
import { kernelTest } from './kernel-test.js'
import { floats, integers } from './machine.js'
import { bf16BitsOf, bf16Value, halfBitsOf, halfValue, roundedHalf } from './small-floats.js'

const { fround } = Math

/** fma in f32, exact where the sum in f64 is: products of small multiples of 1/16 are. */
function product(a: Float32Array, b: Float32Array, n: number): Float32Array {
  const c = new Float32Array(n * n)
  for (let y = 0; y < n; y++) {
    for (let x = 0; x < n; x++) {
      let sum = 0
      for (let k = 0; k < n; k++) sum = fround((a[y * n + k] ?? 0) * (b[k * n + x] ?? 0) + sum)
      c[y * n + x] = sum
    }
  }
  return c
}

const coarse = (count: number, seed: number): Float32Array =>
  Float32Array.from(integers(count, 129, seed), (value) => (value - 64) / 16)

for (const [kernel, options] of [
  ['matmul_plain', { grid: [3, 5, 1], block: [16, 10, 1] }],
  ['matmul_tiled', { grid: [3, 3, 1], block: [16, 16, 1] }],
] as const) {
  kernelTest('matrices', kernel, ({ launch }) => {
    const n = 48
    const [a, b, c] = [coarse(n * n, 1), coarse(n * n, 2), new Float32Array(n * n)]
    launch(options, a, b, c, n)
    assert.deepEqual(c, product(a, b, n))
  })
}

kernelTest('matrices', 'transpose', ({ launch }) => {
  const n = 64
  const [values, out] = [floats(n * n), new Float32Array(n * n)]
  launch({ grid: [2, 2, 1], block: [32, 8, 1] }, values, out, n)
  for (let index = 0; index < n * n; index++) assert.equal(out[index], values[(index % n) * n + Math.floor(index / n)])
})

const halves = (count: number, seed: number): Uint16Array =>
  Uint16Array.from(integers(count, 33, seed), (value) => halfBitsOf((value - 16) / 4))

kernelTest('matrices', 'matvec_half2', ({ launch }) => {
  const [rows, columns] = [8, 128]
  const [a, x, y] = [halves(rows * columns, 1), halves(columns, 2), new Float32Array(rows)]
  launch({ grid: rows, block: 32 }, a, x, y, columns)
  for (let row = 0; row < rows; row++) {
    let sum = 0
    for (let k = 0; k < columns; k++) sum += roundedHalf(halfValue(a[row * columns + k] ?? 0) * halfValue(x[k] ?? 0))
    assert.equal(y[row], sum)
  }
})

kernelTest('matrices', 'matvec_int8', ({ launch }) => {
  const words = 20
  const [a, x, y] = [
    Int8Array.from(integers(64 * words * 4, 256)),
    Int8Array.from(integers(words * 4, 256, 2)),
    new Int32Array(64),
  ]
  launch({ grid: 2, block: 32 }, a, x, y, words)
  for (let row = 0; row < 64; row++) {
    let sum = 0
    for (let k = 0; k < words * 4; k++) sum += (a[row * words * 4 + k] ?? 0) * (x[k] ?? 0)
    assert.equal(y[row], sum)
  }
})

kernelTest('matrices', 'matvec_int4', ({ launch }) => {
  const columns = 64
  const weights = Uint32Array.from(integers(32 * 8, 2 ** 31), (value) => value * 2 + 1)
  const [scale, x, y] = [coarse(32, 3), coarse(columns, 4), new Float32Array(32)]
  launch({ block: 32 }, weights, scale, x, y, columns)
  for (let row = 0; row < 32; row++) {
    let sum = 0
    for (let k = 0; k < columns; k++) {
      const four = ((weights[row * 8 + (k >> 3)] ?? 0) >>> (4 * (k & 7))) & 15
      sum = fround((four - 8) * (x[k] ?? 0) + sum)
    }
    assert.equal(y[row], fround(sum * (scale[row] ?? 0)))
  }
})

kernelTest('matrices', 'wmma_half', ({ launch }) => {
  const [a, b, c] = [halves(16 * 64, 1), halves(16 * 64, 2), new Float32Array(256)]
  launch({ block: 32 }, a, b, c)
  for (let row = 0; row < 16; row++) {
    for (let column = 0; column < 16; column++) {
      let sum = 0
      for (let k = 0; k < 64; k++) sum += halfValue(a[row * 64 + k] ?? 0) * halfValue(b[column * 64 + k] ?? 0)
      assert.equal(c[row * 16 + column], 2 * sum)
    }
  }
})

kernelTest('matrices', 'wmma_half_sum', ({ launch }) => {
  const [a, b, c] = [halves(512, 1), halves(128, 2), new Uint16Array(256)]
  launch({ block: 32 }, a, b, c)
  for (let row = 0; row < 32; row++) {
    for (let column = 0; column < 8; column++) {
      let sum = 1
      for (let k = 0; k < 16; k++) sum += halfValue(a[row * 16 + k] ?? 0) * halfValue(b[k * 8 + column] ?? 0)
      assert.equal(halfValue(c[row * 8 + column] ?? 0), roundedHalf(sum))
    }
  }
})

kernelTest('matrices', 'wmma_int8', ({ launch }) => {
  const [a, b, c] = [Int8Array.from(integers(256, 256)), Int8Array.from(integers(256, 256, 2)), new Int32Array(256)]
  launch({ block: 32 }, a, b, c)
  for (let row = 0; row < 16; row++) {
    for (let column = 0; column < 16; column++) {
      let sum = 7
      for (let k = 0; k < 16; k++) sum += (a[row * 16 + k] ?? 0) * (b[column * 16 + k] ?? 0)
      assert.equal(c[column * 16 + row], sum)
    }
  }
})

kernelTest('matrices', 'mma_half', ({ launch }) => {
  const [a, b, c] = [halves(256, 1), halves(128, 2), new Float32Array(128)]
  launch({ block: 32 }, a, b, c)
  for (let row = 0; row < 16; row++) {
    for (let column = 0; column < 8; column++) {
      let sum = 0.5
      for (let k = 0; k < 16; k++) sum += halfValue(a[row * 16 + k] ?? 0) * halfValue(b[column * 16 + k] ?? 0)
      assert.equal(c[row * 8 + column], sum)
    }
  }
})

kernelTest('matrices', 'ldmatrix_copy', ({ launch }) => {
  const [values, out] = [Uint16Array.from(integers(256, 65536)), new Uint32Array(192)]
  launch({ block: 32 }, values, out)
  for (let lane = 0; lane < 32; lane++) {
    const [row, column] = [lane >> 2, 2 * (lane & 3)]
    for (let matrix = 0; matrix < 4; matrix++) {
      const at = 64 * matrix + 8 * row + column
      assert.equal(out[6 * lane + matrix], ((values[at] ?? 0) | ((values[at + 1] ?? 0) << 16)) >>> 0)
    }
    for (let matrix = 0; matrix < 2; matrix++) {
      const at = 64 * matrix + 8 * column + row
      assert.equal(out[6 * lane + 4 + matrix], ((values[at] ?? 0) | ((values[at + 8] ?? 0) << 16)) >>> 0)
    }
  }
})

kernelTest('matrices', 'wmma_int4', ({ launch }) => {
  const random = (seed: number): Uint32Array => Uint32Array.from(integers(32, 2 ** 31, seed), (value) => value * 2 + 1)
  const [a, b, c] = [random(1), random(2), new Int32Array(64)]
  launch({ block: 32 }, a, b, c)
  const at = (matrix: Uint32Array, index: number): number => ((matrix[index >> 3] ?? 0) << (28 - 4 * (index & 7))) >> 28
  for (let row = 0; row < 8; row++) {
    for (let column = 0; column < 8; column++) {
      let sum = 0
      for (let k = 0; k < 32; k++) sum += at(a, 32 * row + k) * at(b, 32 * column + k)
      assert.equal(c[8 * row + column], sum)
    }
  }
})

kernelTest('matrices', 'wmma_bits', ({ launch }) => {
  const random = (seed: number): Uint32Array => Uint32Array.from(integers(32, 2 ** 31, seed), (value) => value * 2 + 1)
  const [a, b, c] = [random(3), random(4), new Int32Array(64)]
  launch({ block: 32 }, a, b, c)
  for (let row = 0; row < 8; row++) {
    for (let column = 0; column < 8; column++) {
      let sum = 3
      for (let word = 0; word < 4; word++) {
        const different = ((a[4 * row + word] ?? 0) ^ (b[4 * column + word] ?? 0)) >>> 0
        sum += different.toString(2).replaceAll('0', '').length
      }
      assert.equal(c[8 * row + column], sum)
    }
  }
})

kernelTest(
  'matrices',
  'wmma_bf16',
  ({ launch }) => {
    const bf16 = (seed: number): Uint16Array =>
      Uint16Array.from(integers(256, 33, seed), (value) => bf16BitsOf((value - 16) / 4))
    const [a, b, c] = [bf16(1), bf16(2), Float32Array.from(integers(256, 10, 3))]
    const before = c.slice()
    launch({ block: 32 }, a, b, c)
    for (let row = 0; row < 16; row++) {
      for (let column = 0; column < 16; column++) {
        let sum = before[16 * row + column] ?? 0
        for (let k = 0; k < 16; k++) sum += bf16Value(a[16 * k + row] ?? 0) * bf16Value(b[16 * k + column] ?? 0)
        assert.equal(c[16 * row + column], sum)
      }
    }
  },
  { architectures: [90] },
)

kernelTest(
  'matrices',
  'wmma_tf32',
  ({ launch }) => {
    const [a, b, c] = [coarse(128, 1), coarse(128, 2), new Float32Array(256)]
    launch({ block: 32 }, a, b, c)
    for (let row = 0; row < 16; row++) {
      for (let column = 0; column < 16; column++) {
        let sum = 0
        for (let k = 0; k < 8; k++) sum += (a[8 * row + k] ?? 0) * (b[8 * column + k] ?? 0)
        assert.equal(c[16 * row + column], sum)
      }
    }
  },
  { architectures: [90] },
)

kernelTest(
  'matrices',
  'wmma_double',
  ({ launch }) => {
    const doubles = (count: number, seed: number): Float64Array => Float64Array.from(coarse(count, seed))
    const [a, b, c] = [doubles(32, 1), doubles(32, 2), doubles(64, 3)]
    const before = c.slice()
    launch({ block: 32 }, a, b, c)
    for (let row = 0; row < 8; row++) {
      for (let column = 0; column < 8; column++) {
        let sum = before[8 * row + column] ?? 0
        for (let k = 0; k < 4; k++) sum += (a[4 * row + k] ?? 0) * (b[4 * column + k] ?? 0)
        assert.equal(c[8 * row + column], sum)
      }
    }
  },
  { architectures: [90] },
)

kernelTest(
  'matrices',
  'matrix_moves',
  ({ launch }) => {
    const values = Uint32Array.from(integers(32, 2 ** 31), (value) => value * 2 + 1)
    const out = new Uint32Array(96)
    launch({ block: 32 }, values, out)
    // A lane has two elements of a row, four lanes a row.
    const at = (row: number, column: number): number =>
      ((values[4 * row + (column >> 1)] ?? 0) >>> (16 * (column & 1))) & 0xffff
    for (let lane = 0; lane < 32; lane++) {
      const [row, column] = [lane >> 2, 2 * (lane & 3)]
      const transposed = (at(column, row) | (at(column + 1, row) << 16)) >>> 0
      assert.equal(out[lane], transposed)
      assert.equal(out[32 + lane], values[lane])
      assert.equal(out[64 + lane], transposed)
    }
  },
  { architectures: [90] },
)
