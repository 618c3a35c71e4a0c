/** Pictures, against plain loops. */
import assert from 'node:assert/strict'
import { kernelTest } from './kernel-test.js'
import { floats, integers } from './machine.js'

const { fround } = Math
const bytes = (count: number, seed: number): Uint8Array => Uint8Array.from(integers(count, 256, seed))
const clamp = (value: number, least: number, most: number): number => Math.min(Math.max(value, least), most)

kernelTest('images', 'nv12_to_rgb', ({ launch }) => {
  const [w, h] = [32, 18]
  const [luma, chroma, out] = [bytes(w * h, 1), bytes((w * h) / 2, 2), new Uint8Array(4 * w * h)]
  launch({ grid: [2, 3, 1], block: [16, 8, 1] }, luma, chroma, out, w, h)
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const row = (y >> 1) * w
      const [l, u, v] = [
        1.164 * ((luma[y * w + x] ?? 0) - 16),
        (chroma[row + (x & ~1)] ?? 0) - 128,
        (chroma[row + (x | 1)] ?? 0) - 128,
      ]
      const colours = [l + 1.596 * v, l - 0.813 * v - 0.391 * u, l + 2.018 * u]
      colours.forEach((colour, index) => {
        // The last bit of f32 may decide which way a fraction is cut.
        assert.ok(Math.abs((out[4 * (y * w + x) + index] ?? 0) - clamp(colour, 0, 255)) < 1.0001)
      })
      assert.equal(out[4 * (y * w + x) + 3], 255)
    }
  }
})

kernelTest('images', 'resize', ({ launch }) => {
  const [w, h, ow, oh] = [20, 15, 33, 27]
  const [values, out] = [bytes(w * h, 1), new Uint8Array(ow * oh)]
  launch({ grid: [3, 4, 1], block: [16, 8, 1] }, values, out, w, h, ow, oh)
  for (let y = 0; y < oh; y++) {
    for (let x = 0; x < ow; x++) {
      const [sx, sy] = [((x + 0.5) * w) / ow - 0.5, ((y + 0.5) * h) / oh - 0.5]
      const [fx, fy] = [sx - Math.floor(sx), sy - Math.floor(sy)]
      const at = (i: number, j: number): number => values[clamp(j, 0, h - 1) * w + clamp(i, 0, w - 1)] ?? 0
      const [x0, y0] = [Math.floor(sx), Math.floor(sy)]
      const top = at(x0, y0) * (1 - fx) + at(x0 + 1, y0) * fx
      const bottom = at(x0, y0 + 1) * (1 - fx) + at(x0 + 1, y0 + 1) * fx
      assert.ok(Math.abs((out[y * ow + x] ?? 0) - (top * (1 - fy) + bottom * fy)) <= 0.5001)
    }
  }
})

kernelTest('images', 'convolve', ({ launch, machine, module }) => {
  const [w, h] = [40, 30]
  const [values, out, filter] = [floats(w * h, 1), new Float32Array(w * h), floats(25, 2)]
  const symbol = module.global('filter')
  assert.equal(symbol?.byteLength, 100)
  machine.set(symbol?.address ?? 0, filter)
  launch({ grid: [3, 4, 1], block: [16, 8, 1] }, values, out, w, h)
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      let sum = 0
      for (let j = -2; j <= 2; j++) {
        for (let i = -2; i <= 2; i++) {
          const value = values[clamp(y + j, 0, h - 1) * w + clamp(x + i, 0, w - 1)] ?? 0
          // A product of two f32 is exact in f64; the sum is rounded twice, which matters to no value here.
          sum = fround((filter[(j + 2) * 5 + i + 2] ?? 0) * value + sum)
        }
      }
      assert.equal(out[y * w + x], sum)
    }
  }
})

kernelTest('images', 'sobel', ({ launch }) => {
  const [w, h] = [37, 21]
  const [values, out] = [bytes(w * h, 1), new Uint8Array(w * h)]
  launch({ grid: [3, 2, 1], block: [16, 16, 1] }, values, out, w, h)
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const at = (i: number, j: number): number => values[clamp(y + j, 0, h - 1) * w + clamp(x + i, 0, w - 1)] ?? 0
      const gx = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1)
      const gy = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1)
      assert.equal(out[y * w + x], Math.min(255, Math.trunc(fround(Math.sqrt(gx * gx + gy * gy)))))
    }
  }
})

kernelTest('images', 'mandelbrot', ({ launch }) => {
  const [w, h, limit] = [64, 48, 200]
  const out = new Int32Array(w * h)
  launch({ grid: [4, 6, 1], block: [16, 8, 1] }, out, w, h, limit)
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const [cr, ci] = [-2 + (3 * x) / w, -1 + (2 * y) / h]
      let [r, i, n] = [0, 0, 0]
      for (; n < limit && r * r + i * i <= 4; n++) [r, i] = [r * r - i * i + cr, 2 * r * i + ci]
      assert.equal(out[y * w + x], n)
    }
  }
})

kernelTest('images', 'nms', ({ launch }) => {
  const n = 100
  const corners = floats(n * 2, 1, 10).map(Math.abs)
  const boxes = Float32Array.from({ length: 4 * n }, (_, index) => {
    const corner = corners[2 * (index >> 2) + (index & 1)] ?? 0
    return index & 2 ? corner + 3 : corner
  })
  const mask = new BigUint64Array(n * 2)
  launch({ grid: [2, 2, 1], block: 64 }, boxes, mask, n, 0.5)
  const box = (index: number): number[] => [...boxes.slice(4 * index, 4 * index + 4)]
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      const [a0 = 0, a1 = 0, a2 = 0, a3 = 0] = box(i)
      const [b0 = 0, b1 = 0, b2 = 0, b3 = 0] = box(j)
      const both = Math.max(Math.min(a2, b2) - Math.max(a0, b0), 0) * Math.max(Math.min(a3, b3) - Math.max(a1, b1), 0)
      const share = both / ((a2 - a0) * (a3 - a1) + (b2 - b0) * (b3 - b1) - both)
      if (Math.abs(share - 0.5) < 1e-5) continue
      const bit = ((mask[2 * i + (j >> 6)] ?? 0n) >> BigInt(j & 63)) & 1n
      assert.equal(bit, j > i && share > 0.5 ? 1n : 0n)
    }
  }
})
