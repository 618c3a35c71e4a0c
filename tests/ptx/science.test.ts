/** Physics, finance, graphs and random numbers, against plain loops. */
import assert from 'node:assert/strict'
import { kernelTest } from './kernel-test.js'
import { floats, integers, randomNumbers } from './machine.js'

const { fround } = Math

kernelTest('science', 'axpy', ({ launch }) => {
  const [x, y] = [floats(1000, 1), floats(1000, 2)]
  // a * x + y is fused: the product is exact in f64, and the sum of these numbers is rounded once.
  const expected = x.map((value, index) => fround(fround(2.5) * value + (y[index] ?? 0)))
  launch({ grid: 4, block: 256 }, 2.5, x, y, 1000)
  assert.deepEqual(y, expected)
})

kernelTest('science', 'stencil', ({ launch }) => {
  const [w, h] = [50, 40]
  const values = Float64Array.from(integers(w * h, 1 << 20), (value) => value / 1024)
  const out = new Float64Array(w * h)
  launch({ grid: [4, 5, 1], block: [16, 8, 1] }, values, out, w, h)
  const at = (index: number): number => values[index] ?? 0
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const i = y * w + x
      const inside = x > 0 && y > 0 && x < w - 1 && y < h - 1
      assert.equal(out[i], inside ? 0.5 * at(i) + 0.125 * (at(i - 1) + at(i + 1) + at(i - w) + at(i + w)) : 0)
    }
  }
})

kernelTest('science', 'black_scholes', ({ launch }) => {
  const n = 200
  const random = randomNumbers(4)
  const make = (low: number, high: number): Float32Array =>
    Float32Array.from({ length: n }, () => low + (high - low) * random())
  const [price, strike, years] = [make(5, 30), make(1, 100), make(0.25, 10)]
  const [call, put] = [new Float32Array(n), new Float32Array(n)]
  launch({ grid: 2, block: 128 }, call, put, price, strike, years, 0.02, 0.3, n)
  const normal = (d: number): number => {
    const k = 1 / (1 + 0.2316419 * Math.abs(d))
    const poly = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    const c = 0.39894228 * Math.exp(-0.5 * d * d) * poly
    return d > 0 ? 1 - c : c
  }
  for (let i = 0; i < n; i++) {
    const [s = 0, x = 0, t = 0] = [price[i], strike[i], years[i]]
    const d1 = (Math.log(s / x) + (0.02 + 0.045) * t) / (0.3 * Math.sqrt(t))
    const d2 = d1 - 0.3 * Math.sqrt(t)
    const e = Math.exp(-0.02 * t)
    assert.ok(Math.abs((call[i] ?? 0) - (s * normal(d1) - x * e * normal(d2))) < 1e-4)
    assert.ok(Math.abs((put[i] ?? 0) - (x * e * (1 - normal(d2)) - s * (1 - normal(d1)))) < 1e-4)
  }
})

kernelTest('science', 'nbody', ({ launch }) => {
  const n = 256
  const [bodies, forces] = [floats(4 * n), new Float32Array(4 * n)]
  launch({ grid: 2, block: 128 }, bodies, forces, n)
  for (let i = 0; i < n; i++) {
    const sum = [0, 0, 0]
    for (let j = 0; j < n; j++) {
      const delta = [0, 1, 2].map((axis) => (bodies[4 * j + axis] ?? 0) - (bodies[4 * i + axis] ?? 0))
      const inverse = 1 / Math.sqrt(delta.reduce((total, d) => total + d * d, 0.01))
      delta.forEach((d, axis) => {
        sum[axis] = (sum[axis] ?? 0) + d * (bodies[4 * j + 3] ?? 0) * inverse ** 3
      })
    }
    sum.forEach((expected, axis) => {
      assert.ok(Math.abs((forces[4 * i + axis] ?? 0) - expected) < 1e-3 * (1 + Math.abs(expected)))
    })
  }
})

kernelTest('science', 'spmv', ({ launch }) => {
  const n = 100
  const counts = integers(n, 6)
  const rows = Int32Array.from({ length: n + 1 }, (_, row) => counts.slice(0, row).reduce((a, b) => a + b, 0))
  const total = rows[n] ?? 0
  const columns = integers(total, n, 3)
  const values = Float64Array.from(integers(total, 1000, 4), (value) => value / 8)
  const [x, y] = [Float64Array.from(integers(n, 1000, 5)), new Float64Array(n)]
  launch({ grid: 2, block: 64 }, rows, columns, values, x, y, n)
  for (let row = 0; row < n; row++) {
    let sum = 0
    for (let i = rows[row] ?? 0; i < (rows[row + 1] ?? 0); i++) sum += (values[i] ?? 0) * (x[columns[i] ?? 0] ?? 0)
    assert.equal(y[row], sum)
  }
})

kernelTest('science', 'bfs', ({ launch }) => {
  const n = 300
  const starts = Int32Array.from({ length: n + 1 }, (_, index) => 3 * index)
  const edges = integers(3 * n, n, 7)
  const level = new Int32Array(n).fill(-1)
  level[0] = 0
  const changed = new Int32Array(1)
  for (let now = 0; ; now++) {
    changed[0] = 0
    launch({ grid: 3, block: 128 }, starts, edges, level, now, changed, n)
    if (changed[0] === 0) break
  }
  const expected = new Int32Array(n).fill(-1)
  expected[0] = 0
  for (const queue = [0]; queue.length > 0; ) {
    const v = queue.shift() ?? 0
    for (const next of edges.slice(3 * v, 3 * v + 3)) {
      if (expected[next] !== -1) continue
      expected[next] = (expected[v] ?? 0) + 1
      queue.push(next)
    }
  }
  assert.deepEqual(level, expected)
})

kernelTest('science', 'random_numbers', ({ launch }) => {
  const out = new Uint32Array(4 * 100)
  launch({ block: 128 }, out, 1234, 100)
  const high = (a: number, b: number): number => Number((BigInt(a) * BigInt(b)) >> 32n)
  for (let i = 0; i < 100; i++) {
    let c = [i, 0, 0, 0]
    let [k0, k1] = [1234, 7]
    for (let round = 0; round < 10; round++) {
      const [x = 0, y = 0, z = 0, w = 0] = c
      const [h0, l0] = [high(0xd2511f53, x), Math.imul(0xd2511f53, x) >>> 0]
      const [h1, l1] = [high(0xcd9e8d57, z), Math.imul(0xcd9e8d57, z) >>> 0]
      c = [(h1 ^ y ^ k0) >>> 0, l1, (h0 ^ w ^ k1) >>> 0, l0]
      k0 = (k0 + 0x9e3779b9) >>> 0
      k1 = (k1 + 0xbb67ae85) >>> 0
    }
    assert.deepEqual([...out.slice(4 * i, 4 * i + 4)], c)
  }
})

kernelTest('science', 'pi_monte_carlo', ({ launch }) => {
  const inside = new BigUint64Array(1)
  launch({ grid: 4, block: 64 }, inside, 100)
  let expected = 0n
  for (let thread = 1; thread <= 256; thread++) {
    let s = thread
    const next = (): number => {
      s = (Math.imul(s, 1664525) + 1013904223) >>> 0
      return (s >>> 8) / 16777216
    }
    for (let i = 0; i < 100; i++) {
      const [x, y] = [next(), next()]
      if (fround(x * x + fround(y * y)) < 1) expected++
    }
  }
  assert.equal(inside[0], expected)
})

kernelTest('science', 'game_of_life', ({ launch }) => {
  const [w, h] = [30, 20]
  const [cells, out] = [Uint8Array.from(integers(w * h, 2)), new Uint8Array(w * h)]
  launch({ grid: [2, 3, 1], block: [16, 8, 1] }, cells, out, w, h)
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      let n = -(cells[y * w + x] ?? 0)
      for (let j = h - 1; j <= h + 1; j++)
        for (let i = w - 1; i <= w + 1; i++) n += cells[((y + j) % h) * w + ((x + i) % w)] ?? 0
      assert.equal(out[y * w + x], n === 3 || (n === 2 && cells[y * w + x] === 1) ? 1 : 0)
    }
  }
})

kernelTest('science', 'fft64', ({ launch }) => {
  const data = floats(128)
  const before = Array.from(data)
  launch({ block: 64 }, data)
  for (let k = 0; k < 64; k++) {
    let [re, im] = [0, 0]
    for (let t = 0; t < 64; t++) {
      const angle = (-2 * Math.PI * k * t) / 64
      const [a, b] = [before[2 * t] ?? 0, before[2 * t + 1] ?? 0]
      re += a * Math.cos(angle) - b * Math.sin(angle)
      im += a * Math.sin(angle) + b * Math.cos(angle)
    }
    assert.ok(Math.abs((data[2 * k] ?? 0) - re) < 1e-5 && Math.abs((data[2 * k + 1] ?? 0) - im) < 1e-5)
  }
})

kernelTest('science', 'kmeans_assign', ({ launch }) => {
  const [n, k] = [200, 5]
  const [points, centers] = [Float32Array.from(integers(2 * n, 100)), Float32Array.from(integers(2 * k, 100, 2))]
  const [out, sums] = [new Int32Array(n), new Float32Array(3 * k)]
  launch({ grid: 2, block: 128 }, points, centers, out, sums, n, k)
  const expected = new Float32Array(3 * k)
  for (let i = 0; i < n; i++) {
    const distances = Array.from({ length: k }, (_, c) =>
      [0, 1].reduce((sum, axis) => sum + ((points[2 * i + axis] ?? 0) - (centers[2 * c + axis] ?? 0)) ** 2, 0),
    )
    const which = distances.indexOf(Math.min(...distances))
    assert.equal(out[i], which)
    for (const [axis, value] of [points[2 * i], points[2 * i + 1], 1].entries())
      expected[3 * which + axis] = (expected[3 * which + axis] ?? 0) + (value ?? 0)
  }
  assert.deepEqual(sums, expected)
})
