/** PTX of Triton and of Numba, against plain loops. */
import assert from 'node:assert/strict'
import { type KernelTestOptions, onEachMachine, type Scene } from './kernel-test.js'
import { architecturesOf, floats, integers, type NumericArray, type TestLaunch } from './machine.js'
import { halfBitsOf, halfValue } from './small-floats.js'

type Run<P> = (options: TestLaunch, ...parameters: (number | P)[]) => void

function triton(name: string, check: (run: Run<NumericArray>) => void, options: KernelTestOptions = {}): void {
  for (const architecture of architecturesOf(`triton_${name}`)) {
    // Two pointers to scratch memory stand behind the parameters.
    const play = ({ launch }: Scene): void =>
      check((given, ...parameters) => launch({ block: 128, ...given }, ...parameters, 0, 0))
    onEachMachine(`triton_${name}.sm_${architecture}`, undefined, architecture, play, options)
  }
}

/** An array as Numba passes it: no owner, no parent, counts, the data, the shape and the strides. */
class Shaped {
  constructor(
    readonly array: NumericArray,
    readonly shape: readonly number[],
  ) {}

  get parameters(): (number | NumericArray)[] {
    const size = this.array.BYTES_PER_ELEMENT
    const strides = this.shape.map((_, axis) => this.shape.slice(axis + 1).reduce((a, b) => a * b, size))
    return [0, 0, this.array.length, size, this.array, ...this.shape, ...strides]
  }
}

function numba(name: string, check: (run: Run<Shaped>) => void): void {
  for (const architecture of architecturesOf(`numba_${name}`)) {
    onEachMachine(`numba_${name}.sm_${architecture}`, undefined, architecture, ({ launch }) =>
      check((options, ...parameters) =>
        launch(options, ...parameters.flatMap((each) => (each instanceof Shaped ? each.parameters : [each]))),
      ),
    )
  }
}

const near = (actual: ArrayLike<number>, expected: readonly number[], error: number): void =>
  expected.forEach((value, index) => {
    assert.ok(
      Math.abs((actual[index] ?? Number.NaN) - value) <= error * (1 + Math.abs(value)),
      `${index}: ${actual[index]} instead of ${value}`,
    )
  })

triton('add', (run) => {
  const [x, y, o] = [floats(1000, 1), floats(1000, 2), new Float32Array(1000)]
  run({ grid: 4 }, x, y, o, 1000)
  assert.deepEqual(
    o,
    x.map((value, index) => value + (y[index] ?? 0)),
  )
})

triton('softmax', (run) => {
  const [x, o] = [floats(3 * 400, 1, 6), new Float32Array(1200)]
  run({ grid: 3, shared: 16 }, x, o, 400)
  for (let row = 0; row < 3; row++) {
    const powers = [...x.slice(400 * row, 400 * row + 400)].map(Math.exp)
    const sum = powers.reduce((a, b) => a + b)
    near(
      o.slice(400 * row, 400 * row + 400),
      powers.map((value) => value / sum),
      1e-6,
    )
  }
})

triton('matmul', (run) => {
  const [m, n, k] = [64, 64, 96]
  const halves = (count: number, seed: number): Uint16Array =>
    Uint16Array.from(integers(count, 33, seed), (value) => halfBitsOf((value - 16) / 8))
  const [a, b, c] = [halves(m * k, 1), halves(k * n, 2), new Float32Array(m * n)]
  run({ grid: [2, 2, 1], shared: 4096 }, a, b, c, m, n, k)
  for (let row = 0; row < m; row++) {
    for (let column = 0; column < n; column++) {
      let sum = 0
      for (let at = 0; at < k; at++) sum += halfValue(a[row * k + at] ?? 0) * halfValue(b[at * n + column] ?? 0)
      assert.equal(c[row * n + column], sum)
    }
  }
})

triton('layernorm', (run) => {
  const [x, w, o] = [floats(2 * 200, 1, 4), floats(200, 2), new Float32Array(400)]
  run({ grid: 2, shared: 16 }, x, w, o, 200, 1e-5)
  for (let row = 0; row < 2; row++) {
    const values = [...x.slice(200 * row, 200 * row + 200)]
    const mean = values.reduce((a, b) => a + b) / 200
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 200
    near(
      o.slice(200 * row),
      values.map((value, index) => ((value - mean) / Math.sqrt(variance + 1e-5)) * (w[index] ?? 0)),
      1e-5,
    )
  }
})

triton('cumsum', (run) => {
  const [x, o] = [integers(256, 100), new Int32Array(256)]
  run({ shared: 32 }, x, o)
  let sum = 0
  for (let index = 0; index < 256; index++) {
    sum += x[index] ?? 0
    assert.equal(o[index], sum)
  }
})

triton('histogram', (run) => {
  const [x, o] = [integers(1000, 20), new Int32Array(20)]
  run({ grid: 4 }, x, o, 1000)
  assert.deepEqual(
    [...o],
    Array.from({ length: 20 }, (_, bin) => x.filter((value) => value === bin).length),
  )
})

triton('gelu', (run) => {
  const [x, o] = [Uint16Array.from(floats(500, 1, 3), halfBitsOf), new Uint16Array(500)]
  run({ grid: 2 }, x, o, 500)
  // The integral of the bell curve, by its series.
  const erf = (z: number): number => {
    let [term, sum] = [z, z]
    for (let n = 1; n < 60; n++) {
      term *= (-z * z) / n
      sum += term / (2 * n + 1)
    }
    return (2 / Math.sqrt(Math.PI)) * sum
  }
  const expected = Array.from(x, (bits) => 0.5 * halfValue(bits) * (1 + erf(halfValue(bits) / Math.SQRT2)))
  near(Array.from(o, halfValue), expected, 2e-3)
})

triton('dropout', (run) => {
  const [x, o] = [floats(1000, 1).map((value) => value + 2), new Float32Array(1000)]
  run({ grid: 4 }, x, o, 1000, 1234, 0.25)
  const kept = o.filter((value) => value !== 0)
  assert.ok(kept.length > 680 && kept.length < 820)
  o.forEach((value, index) => {
    assert.ok(value === 0 || Math.abs(value - (x[index] ?? 0) / 0.75) < 1e-5)
  })
})

triton('transpose', (run) => {
  const [x, o] = [floats(1024), new Float32Array(1024)]
  run({ shared: 4096 }, x, o, 32)
  for (let index = 0; index < 1024; index++) assert.equal(o[index], x[(index % 32) * 32 + (index >> 5)])
})

triton('argmax', (run) => {
  const [x, o] = [floats(3 * 200), new Int32Array(3)]
  run({ grid: 3, shared: 32 }, x, o, 200)
  for (let row = 0; row < 3; row++) {
    const values = x.slice(200 * row, 200 * row + 200)
    assert.equal(o[row], values.indexOf(Math.max(...values)))
  }
})

// For sm_90 its products are those of warpgroups. Its results were not recorded.
triton(
  'attention',
  (run) => {
    const [n, width, scale] = [128, 64, 0.125]
    const halves = (seed: number): Uint16Array => Uint16Array.from(floats(n * width, seed, 2), halfBitsOf)
    const [q, k, v, o] = [halves(1), halves(2), halves(3), new Float32Array(n * width)]
    run({ grid: n / 64, shared: 65536 }, q, k, v, o, n, scale)
    const at = (from: Uint16Array, row: number, column: number): number => halfValue(from[row * width + column] ?? 0)
    const rows = Array.from({ length: n }, (_, row) => row)
    const columns = Array.from({ length: width }, (_, column) => column)
    const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
    const expected = rows.flatMap((row) => {
      const weights = rows.map((other) => Math.exp(scale * sum(columns.map((c) => at(q, row, c) * at(k, other, c)))))
      const total = sum(weights)
      return columns.map((c) => sum(weights.map((weight, other) => weight * at(v, other, c))) / total)
    })
    near(o, expected, 1e-3)
  },
  { gpu: 'any order' },
)

triton('sort', (run) => {
  const [x, o] = [integers(128, 1000), new Int32Array(128)]
  run({ shared: 512 }, x, o)
  assert.deepEqual(o, x.slice().sort())
})

numba('saxpy', (run) => {
  const [x, y] = [floats(300, 1), floats(300, 2)]
  const expected = [...y].map((value, index) => 2.5 * (x[index] ?? 0) + value)
  run({ grid: 3, block: 128 }, 2.5, new Shaped(x, [300]), new Shaped(y, [300]))
  near(y, expected, 1e-6)
})

numba('sum', (run) => {
  const [x, o] = [Float32Array.from(integers(300, 100)), new Float32Array(1)]
  run({ grid: 3, block: 128 }, new Shaped(x, [300]), new Shaped(o, [1]))
  assert.equal(
    o[0],
    x.reduce((a, b) => a + b),
  )
})

numba('matmul', (run) => {
  const whole = (count: number, seed: number): Float64Array => Float64Array.from(integers(count, 100, seed))
  const [a, b, c] = [whole(12 * 20, 1), whole(20 * 8, 2), new Float64Array(96)]
  run({ grid: [2, 2, 1], block: [8, 8, 1] }, new Shaped(a, [12, 20]), new Shaped(b, [20, 8]), new Shaped(c, [12, 8]))
  for (let i = 0; i < 12; i++) {
    for (let j = 0; j < 8; j++) {
      let sum = 0
      for (let k = 0; k < 20; k++) sum += (a[20 * i + k] ?? 0) * (b[8 * k + j] ?? 0)
      assert.equal(c[8 * i + j], sum)
    }
  }
})

numba('mandelbrot', (run) => {
  const [w, h, limit] = [40, 30, 100]
  const o = new Int32Array(w * h)
  run({ grid: [5, 4, 1], block: [8, 8, 1] }, new Shaped(o, [h, w]), w, h, limit)
  let different = 0
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const [cr, ci] = [-2 + (3 * x) / w, -1 + (2 * y) / h]
      let [r, i, n] = [0, 0, 0]
      for (; n < limit && r * r + i * i <= 4; n++) [r, i] = [r * r - i * i + cr, 2 * r * i + ci]
      if (o[y * w + x] !== n) different++
    }
  }
  // Fused products round otherwise; next to the border that may be seen.
  assert.ok(different <= 3)
})

numba('histogram', (run) => {
  const [x, h] = [integers(500, 10), new Int32Array(10)]
  run({ grid: 2, block: 64 }, new Shaped(x, [500]), new Shaped(h, [10]))
  assert.deepEqual(
    [...h],
    Array.from({ length: 10 }, (_, bin) => x.filter((value) => value === bin).length),
  )
})

numba('math', (run) => {
  const [x, o] = [Float64Array.from(floats(100, 1, 5)), new Float64Array(100)]
  run({ grid: 2, block: 64 }, new Shaped(x, [100]), new Shaped(o, [100]))
  near(
    o,
    Array.from(x, (v) => Math.sin(v) * Math.exp(v) + Math.sqrt(Math.abs(v)) + Math.abs(v) ** 1.5),
    1e-13,
  )
})

numba('scan', (run) => {
  const [x, o] = [integers(64, 100), new Int32Array(64)]
  run({ block: 64 }, new Shaped(x, [64]), new Shaped(o, [64]))
  let sum = 0
  for (let index = 0; index < 64; index++) {
    sum = index % 32 === 0 ? (x[index] ?? 0) : sum + (x[index] ?? 0)
    assert.equal(o[index], sum)
  }
})

numba('local', (run) => {
  const [x, o] = [BigInt64Array.from(integers(64, 1000), BigInt), new BigInt64Array(64)]
  run({ block: 64 }, new Shaped(x, [64]), new Shaped(o, [64]))
  for (let i = 0; i < 64; i++) {
    let sum = 0n
    for (let j = 0; j < 8; j++) sum += BigInt((j * 3 + i) % 8) * (x[i] ?? 0n) * BigInt(j)
    assert.equal(o[i], sum)
  }
})

numba('stencil', (run) => {
  const [x, o] = [Float32Array.from(integers(20 * 30, 100)), new Float32Array(600)]
  run({ grid: [3, 4, 1], block: [8, 8, 1] }, new Shaped(x, [20, 30]), new Shaped(o, [20, 30]))
  const at = (i: number, j: number): number => x[30 * i + j] ?? 0
  for (let i = 0; i < 20; i++) {
    for (let j = 0; j < 30; j++) {
      const inside = i > 0 && i < 19 && j > 0 && j < 29
      assert.equal(o[30 * i + j], inside ? (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1)) / 4 : 0)
    }
  }
})

numba('divide', (run) => {
  const [x, o] = [BigInt64Array.from([1n, -3n, 7n, 200n]), new BigInt64Array(4)]
  run({ block: 4 }, new Shaped(x, [4]), new Shaped(o, [4]))
  assert.deepEqual([...o], [100n, -34n, 14n, 0n])
})
