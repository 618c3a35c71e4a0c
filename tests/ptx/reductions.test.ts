/** Reductions, scans, histograms, and what warps do together, against plain loops. */
import assert from 'node:assert/strict'
import { kernelTest } from './kernel-test.js'
import { floats, integers } from './machine.js'

kernelTest('reductions', 'sum_tree', ({ launch }) => {
  const n = 1000
  const [values, out] = [floats(n, 3), new Float32Array(4)]
  launch({ grid: 4, block: 256 }, values, out, n)
  for (let block = 0; block < 4; block++) {
    let part = Array.from({ length: 256 }, (_, index) => values[256 * block + index] ?? 0)
    while (part.length > 1) {
      const half = part.length / 2
      part = part.slice(0, half).map((value, index) => Math.fround(value + (part[half + index] ?? 0)))
    }
    assert.equal(out[block], part[0])
  }
})

kernelTest('reductions', 'sum_warp', ({ launch }) => {
  const [values, out] = [integers(5000, 100), new Int32Array(1)]
  launch({ grid: 20, block: 256 }, values, out, values.length)
  assert.equal(
    out[0],
    values.reduce((sum, value) => sum + value),
  )
})

kernelTest('reductions', 'max_double', ({ launch }) => {
  const [values, out] = [Float64Array.from(floats(999, 5)), new Float64Array(1)]
  launch({ block: 128 }, values, out, values.length)
  assert.equal(out[0], Math.max(...values))
})

kernelTest('reductions', 'scan_blelloch', ({ launch }) => {
  const [values, out] = [Uint32Array.from(integers(1024, 1000)), new Uint32Array(1024)]
  launch({ grid: 2, block: 256 }, values, out)
  let sum = 0
  for (let index = 0; index < 1024; index++) {
    if (index === 512) sum = 0
    assert.equal(out[index], sum)
    sum += values[index] ?? 0
  }
})

kernelTest('reductions', 'scan_warp', ({ launch }) => {
  const [values, out] = [integers(96, 1000), new Int32Array(96)]
  launch({ block: 96 }, values, out)
  let sum = 0
  for (let index = 0; index < 96; index++) {
    sum = index % 32 === 0 ? (values[index] ?? 0) : sum + (values[index] ?? 0)
    assert.equal(out[index], sum)
  }
})

for (const seed of [0, 1, 2]) {
  kernelTest('reductions', 'scan_lookback', ({ launch }) => {
    const n = 5000
    const [values, out] = [Uint32Array.from(integers(n, 100)), new Uint32Array(n)]
    let state = seed
    const choose = (count: number): number => {
      state = (state * 1103515245 + 12345) % 2147483648
      return Math.floor((state / 2147483648) * count)
    }
    launch(
      { grid: 20, block: 256, ...(seed === 0 ? {} : { choose }) },
      values,
      out,
      new Uint32Array(20),
      new Uint32Array(1),
      n,
    )
    let sum = 0
    for (let index = 0; index < n; index++) {
      sum += values[index] ?? 0
      assert.equal(out[index], sum)
    }
  })
}

kernelTest('reductions', 'histogram', ({ launch }) => {
  const [values, out] = [Uint8Array.from(integers(10000, 256)), new Uint32Array(256)]
  launch({ grid: 8, block: 256 }, values, out, values.length)
  const expected = new Uint32Array(256)
  for (const value of values) expected[value] = (expected[value] ?? 0) + 1
  assert.deepEqual(out, expected)
})

kernelTest(
  'reductions',
  'compact',
  ({ launch }) => {
    const n = 1000
    const [values, out, count] = [integers(n, 1000), new Int32Array(n), new Int32Array(1)]
    launch({ grid: 8, block: 128 }, values, out, count, n)
    const kept = values.filter((value) => value % 3 === 0)
    assert.equal(count[0], kept.length)
    assert.deepEqual(out.slice(0, kept.length).sort(), kept.sort())
  },
  { gpu: 'any order' },
)

kernelTest('reductions', 'votes', ({ launch }) => {
  const [values, out] = [integers(64, 100, 9), new Uint32Array(64 * 6)]
  launch({ block: 64 }, values, out)
  for (let thread = 0; thread < 64; thread++) {
    const warp = [...values.slice(thread & 32, (thread & 32) + 32)]
    const mask = (holds: (value: number, lane: number) => boolean): number =>
      warp.reduce((bits, value, lane) => (holds(value, lane) ? bits | (1 << lane) : bits), 0) >>> 0
    const own = values[thread] ?? 0
    const expected = [
      warp.every((value) => value > 0) ? 1 : 0,
      warp.some((value) => value > 90) ? 1 : 0,
      mask((value) => (value & 3) === (own & 3)),
      0xffffffff,
      1,
      thread & 1 ? mask((value, lane) => (lane & 1) === 1 && (value & 4) !== 0) : 0,
    ]
    assert.deepEqual([...out.slice(6 * thread, 6 * thread + 6)], expected)
  }
})

kernelTest('reductions', 'shuffles', ({ launch }) => {
  const [values, out] = [integers(64, 1000), new Int32Array(384)]
  launch({ block: 64 }, values, out)
  for (let thread = 0; thread < 64; thread++) {
    const lane = thread & 31
    const of = (from: number): number => values[(thread & 32) + from] ?? 0
    assert.equal(out[thread], of(lane ^ 5))
    assert.equal(out[64 + thread], of((lane & 7) >= 3 ? lane - 3 : lane))
    assert.equal(out[128 + thread], of((lane & 15) < 14 ? lane + 2 : lane))
    assert.equal(out[192 + thread], of((thread * 7) & 31))
    assert.equal(out[256 + thread], Math.trunc(of((lane & ~3) | 3) * 1.5))
    assert.equal(out[320 + thread], thread & 2 ? of(lane ^ 1) : 0)
  }
})

kernelTest('reductions', 'barrier_counts', ({ launch }) => {
  const [values, out] = [integers(100, 100), new Int32Array(100)]
  launch({ block: 100 }, values, out)
  const count = values.filter((value) => value > 50).length
  assert.deepEqual(out, new Int32Array(100).fill(count * 4 + 2))
})

kernelTest('reductions', 'last_block', ({ launch }) => {
  const [values, out] = [integers(1200, 100), new Int32Array(1)]
  launch({ grid: 10, block: 128 }, values, new Int32Array(10), out, values.length)
  assert.equal(
    out[0],
    values.reduce((sum, value) => sum + value),
  )
})
