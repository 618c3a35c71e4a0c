/** Layers of neural networks, against the same formulas in f64: within the error of f32, or of the approximations used. */
import assert from 'node:assert/strict'
import { kernelTest } from './kernel-test.js'
import { floats, integers } from './machine.js'
import { bf16BitsOf, bf16Value, halfBitsOf, halfValue } from './small-floats.js'

function near(actual: ArrayLike<number>, expected: ArrayLike<number>, relative: number, absolute = 0): void {
  assert.equal(actual.length, expected.length)
  for (let index = 0; index < actual.length; index++) {
    const [a, e] = [actual[index] ?? Number.NaN, expected[index] ?? Number.NaN]
    const error = Math.abs(a - e)
    assert.ok(error <= relative * Math.abs(e) + absolute, `${index}: ${a} instead of ${e}`)
  }
}

const rowsOf = (values: ArrayLike<number>, columns: number): number[][] =>
  Array.from({ length: values.length / columns }, (_, row) =>
    Array.from(values).slice(row * columns, (row + 1) * columns),
  )

kernelTest('neural', 'softmax', ({ launch }) => {
  const [values, out] = [floats(4 * 300, 1, 8), new Float32Array(1200)]
  launch({ grid: 4, block: 128 }, values, out, 300)
  const expected = rowsOf(values, 300).flatMap((row) => {
    const best = Math.max(...row)
    const powers = row.map((value) => Math.exp(value - best))
    const sum = powers.reduce((a, b) => a + b)
    return powers.map((value) => value / sum)
  })
  near(out, expected, 1e-5)
})

const normal = (row: readonly number[]): { mean: number; variance: number; squares: number } => {
  const mean = row.reduce((a, b) => a + b) / row.length
  return {
    mean,
    variance: row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length,
    squares: row.reduce((sum, value) => sum + value ** 2, 0) / row.length,
  }
}

kernelTest('neural', 'layer_norm', ({ launch }) => {
  const [values, gain, bias, out] = [floats(3 * 256, 1, 3), floats(256, 2), floats(256, 3), new Float32Array(768)]
  launch({ grid: 3, block: 64 }, values, gain, bias, out, 256)
  const expected = rowsOf(values, 256).flatMap((row) => {
    const { mean, variance } = normal(row)
    return row.map(
      (value, index) => ((value - mean) / Math.sqrt(variance + 1e-5)) * (gain[index] ?? 0) + (bias[index] ?? 0),
    )
  })
  near(out, expected, 1e-5, 2e-6)
})

kernelTest('neural', 'rms_norm_half', ({ launch }) => {
  const values = Uint16Array.from(floats(256, 1, 2), halfBitsOf)
  const gain = Uint16Array.from(floats(128, 2), halfBitsOf)
  const out = new Uint16Array(256)
  launch({ grid: 2, block: 64 }, values, gain, out, 128)
  const expected = rowsOf(Array.from(values, halfValue), 128).flatMap((row) => {
    const scale = 1 / Math.sqrt(normal(row).squares + 1e-6)
    return row.map((value, index) => value * scale * halfValue(gain[index] ?? 0))
  })
  near(Array.from(out, halfValue), expected, 2e-3, 1e-6)
})

kernelTest('neural', 'rms_norm_bf16', ({ launch }) => {
  const [values, out] = [Uint16Array.from(floats(256, 1, 2), bf16BitsOf), new Uint16Array(256)]
  launch({ grid: 2, block: 64 }, values, out, 128)
  const expected = rowsOf(Array.from(values, bf16Value), 128).flatMap((row) => {
    const scale = 1 / Math.sqrt(normal(row).squares + 1e-6)
    return row.map((value) => value * scale)
  })
  near(Array.from(out, bf16Value), expected, 5e-3)
})

kernelTest('neural', 'gelu', ({ launch }) => {
  const [values, out] = [floats(500, 1, 5), new Float32Array(500)]
  launch({ grid: 2, block: 256 }, values, out, 500)
  near(
    out,
    Array.from(values, (x) => 0.5 * x * (1 + Math.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))),
    1e-4,
    1e-6,
  )
})

kernelTest('neural', 'silu_mul_half2', ({ launch }) => {
  const [gate, up] = [Uint16Array.from(floats(200, 1, 4), halfBitsOf), Uint16Array.from(floats(200, 2, 4), halfBitsOf)]
  const out = new Uint16Array(200)
  launch({ block: 128 }, gate, up, out, 100)
  const expected = Array.from(gate, (bits, index) => {
    const g = halfValue(bits)
    return (g / (1 + Math.exp(-g))) * halfValue(up[index] ?? 0)
  })
  near(Array.from(out, halfValue), expected, 1e-3, 1e-6)
})

kernelTest('neural', 'rope', ({ launch }) => {
  const [tokens, heads, size] = [5, 2, 32]
  const values = floats(tokens * heads * size)
  const expected = Array.from(values)
  const positions = Int32Array.from([0, 1, 7, 100, 1000])
  launch({ grid: [tokens, heads, 1], block: size / 2 }, values, positions, heads, size)
  for (let at = 0; at < expected.length; at += size) {
    for (let i = 0; i < size / 2; i++) {
      const angle = Math.fround(
        (positions[Math.floor(at / size / heads)] ?? 0) * Math.fround(10000 ** ((-2 * i) / size)),
      )
      const [a, b] = [expected[at + i] ?? 0, expected[at + i + size / 2] ?? 0]
      expected[at + i] = a * Math.cos(angle) - b * Math.sin(angle)
      expected[at + i + size / 2] = a * Math.sin(angle) + b * Math.cos(angle)
    }
  }
  near(values, expected, 1e-4, 1e-4)
})

kernelTest('neural', 'attention', ({ launch }) => {
  const tokens = 128
  const [q, k, v, o] = [
    floats(tokens * 64, 1),
    floats(tokens * 64, 2),
    floats(tokens * 64, 3),
    new Float32Array(tokens * 64),
  ]
  launch({ grid: tokens, block: 64 }, q, k, v, o, tokens)
  const [qs, ks, vs] = [rowsOf(q, 64), rowsOf(k, 64), rowsOf(v, 64)]
  const expected = qs.flatMap((query, at) => {
    const scores = ks
      .slice(0, at + 1)
      .map((key) => Math.exp(key.reduce((sum, value, d) => sum + value * (query[d] ?? 0), 0) / 8))
    const total = scores.reduce((a, b) => a + b)
    return query.map((_, d) => scores.reduce((sum, score, t) => sum + score * (vs[t]?.[d] ?? 0), 0) / total)
  })
  near(o, expected, 1e-4, 1e-6)
})

kernelTest('neural', 'embedding', ({ launch }) => {
  const width = 6
  const [tokens, table, out] = [integers(10, 20), floats(20 * width * 4), new Float32Array(10 * width * 4)]
  launch({ grid: 10, block: 4 }, tokens, table, out, width)
  for (let index = 0; index < out.length; index++) {
    const token = tokens[Math.floor(index / width / 4)] ?? 0
    assert.equal(out[index], table[token * width * 4 + (index % (width * 4))])
  }
})

kernelTest('neural', 'cross_entropy', ({ launch }) => {
  const [logits, labels, loss] = [floats(32 * 10, 1, 5), integers(32, 10), new Float32Array(32)]
  launch({ block: 32 }, logits, labels, loss, 10)
  const expected = rowsOf(logits, 10).map(
    (row, index) => Math.log(row.reduce((sum, value) => sum + Math.exp(value), 0)) - (row[labels[index] ?? 0] ?? 0),
  )
  near(loss, expected, 1e-5, 1e-5)
})

kernelTest('neural', 'adam', ({ launch }) => {
  const [w, g, m, v] = [floats(100, 1), floats(100, 2), floats(100, 3), floats(100, 4).map(Math.abs)]
  const before = { w: Array.from(w), m: Array.from(m), v: Array.from(v) }
  launch({ block: 128 }, w, g, m, v, 100, 0.01, 3)
  near(
    w,
    before.w.map((value, index) => {
      const gradient = g[index] ?? 0
      const first = 0.9 * (before.m[index] ?? 0) + 0.1 * gradient
      const second = 0.999 * (before.v[index] ?? 0) + 0.001 * gradient ** 2
      return value - (0.01 * (first / (1 - 0.9 ** 3))) / (Math.sqrt(second / (1 - 0.999 ** 3)) + 1e-8)
    }),
    1e-3,
    1e-5,
  )
})

kernelTest('neural', 'top_k', ({ launch }) => {
  const [values, out] = [floats(1000), new Int32Array(8)]
  launch({ block: 64 }, values, out, 1000, 8)
  const order = Array.from(values, (value, index) => ({ value, index })).sort((a, b) => b.value - a.value)
  assert.deepEqual(
    [...out],
    order.slice(0, 8).map(({ index }) => index),
  )
})
