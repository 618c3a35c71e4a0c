/** Atomics of all kinds, against the same operations one after the other. */
import assert from 'node:assert/strict'
import { kernelTest } from './kernel-test.js'
import { halfValue } from './small-floats.js'

kernelTest('atomics', 'atomics_int', ({ launch }) => {
  const start = [10, 10, -100, 100, -1, 0, 0, 0]
  const [i, u, l, ul] = [
    Int32Array.from(start),
    Uint32Array.from([0, 5, 0, 0xffffffff]),
    new BigInt64Array(2),
    new BigUint64Array(3),
  ]
  launch({ block: 64 }, i, u, l, ul)
  const [es, eu] = [Int32Array.from(start), Uint32Array.from([0, 5, 0, 0xffffffff])]
  const [el, eul] = [
    [0n, 0n],
    [0n, 0n, 0n],
  ] as [[bigint, bigint], [bigint, bigint, bigint]]
  for (let t = 0; t < 64; t++) {
    const mixed = ((t * 7) % 61) - 30
    const product = Math.imul(t, 2654435761) >>> 0
    es[0] = (es[0] ?? 0) + t
    es[1] = (es[1] ?? 0) - t
    es[2] = Math.max(es[2] ?? 0, mixed)
    es[3] = Math.min(es[3] ?? 0, mixed)
    es[4] = (es[4] ?? 0) & ~(1 << (t & 31))
    es[5] = (es[5] ?? 0) | (1 << (t & 15))
    es[6] = (es[6] ?? 0) ^ t
    es[7] = 5
    eu[0] = (eu[0] ?? 0) >= 40 ? 0 : (eu[0] ?? 0) + 1
    eu[1] = eu[1] === 0 || (eu[1] ?? 0) > 40 ? 40 : (eu[1] ?? 0) - 1
    eu[2] = Math.max(eu[2] ?? 0, product)
    eu[3] = Math.min(eu[3] ?? 0, product)
    const long = BigInt(t - 20) << 33n
    if (long > el[0]) el[0] = long
    if (long < el[1]) el[1] = long
    eul[0] += 1n << 33n
    eul[1] |= 1n << BigInt(t)
    eul[2] = 77n
  }
  assert.deepEqual([i, u, [...l], [...ul]], [es, eu, el, eul])
})

kernelTest('atomics', 'atomics_float', ({ launch }) => {
  const [f, d, h] = [new Float32Array(1), new Float64Array(1), new Uint16Array(2)]
  launch({ block: 64 }, f, d, h)
  assert.deepEqual([f[0], d[0], halfValue(h[0] ?? 0), halfValue(h[1] ?? 0)], [32, 16, 64, 128])
})

kernelTest('atomics', 'atomics_by_cas', ({ launch }) => {
  const d = new Float64Array(1)
  launch({ grid: 2, block: 64 }, d)
  assert.equal(d[0], 2016)
})

kernelTest('atomics', 'atomics_shared', ({ launch }) => {
  const out = new Int32Array(96)
  launch({ block: 96 }, out)
  for (let t = 0; t < 96; t++) assert.equal(out[t], t + 95 + 192)
})

kernelTest('atomics', 'atomics_return', ({ launch }) => {
  const out = new Int32Array(50)
  launch({ block: 50 }, Int32Array.from([7]), out)
  assert.deepEqual(
    [...out].sort((a, b) => a - b),
    Array.from({ length: 50 }, (_, t) => 7 + 3 * t),
  )
})
