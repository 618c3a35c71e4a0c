/** What the language of kernels has: calls of all kinds, structures, printing, assertions, address spaces. */
import assert from 'node:assert/strict'
import { faultOf } from './faults.js'
import { kernelTest, Value } from './kernel-test.js'
import { floats, integers } from './machine.js'

const { fround } = Math

kernelTest('language', 'function_pointers', ({ launch }) => {
  const [which, a, b, out] = [integers(64, 3), floats(64, 1, 3), floats(64, 2, 5).map(Math.abs), new Float32Array(64)]
  launch({ block: 64 }, which, a, b, out)
  for (let i = 0; i < 64; i++) {
    const [x, y] = [a[i] ?? 0, b[i] ?? 0]
    let power = 1
    for (let k = 0; k < Math.trunc(y); k++) power = fround(power * x)
    assert.equal(out[i], [fround(x + y), fround(x * y), power][which[i] ?? 0])
  }
})

kernelTest('language', 'recursion', ({ launch }) => {
  const out = new Int32Array(16)
  launch({ block: 8 }, out)
  for (let i = 0; i < 8; i++) {
    assert.equal(out[i], 2 * i + 3)
    assert.equal(out[8 + i], 2 ** i - 1)
  }
})

kernelTest('language', 'structures', ({ launch }) => {
  // struct Particle: double, float3, short[5], char: 40 bytes.
  const make = (index: number, into: DataView, at: number): void => {
    into.setFloat64(at, index + 0.5, true)
    for (let axis = 0; axis < 3; axis++) into.setFloat32(at + 8 + 4 * axis, index + axis, true)
    for (let tag = 0; tag < 5; tag++) into.setInt16(at + 20 + 2 * tag, 10 * tag + index, true)
    into.setInt8(at + 30, 65 + index)
  }
  const [all, given] = [new Uint8Array(7 * 32), new Uint8Array(32)]
  const view = new DataView(all.buffer)
  for (let index = 0; index < 7; index++) make(index, view, 32 * index)
  make(3, new DataView(given.buffer), 0)
  launch({ block: 8 }, all, new Value(given), 7)
  for (let index = 0; index < 7; index++) {
    assert.equal(view.getFloat64(32 * index, true), 2 * index + 1)
    const position = [0, 1, 2].map((axis) => view.getFloat32(32 * index + 8 + 4 * axis, true))
    assert.deepEqual(position, [2 * index, index + 1 + 4, index + 3])
    for (let tag = 0; tag < 5; tag++) {
      assert.equal(view.getInt16(32 * index + 20 + 2 * tag, true), tag === index % 5 ? 65 + index : 10 * tag + index)
    }
  }
})

kernelTest('language', 'virtual_functions', ({ launch }) => {
  const out = new Float32Array(16)
  launch({ block: 16 }, out)
  for (let i = 0; i < 16; i++) assert.equal(out[i], i & 1 ? 3 * i * i : 2 * i)
})

kernelTest('language', 'templates', ({ launch }) => {
  const [values, out, area] = [Float64Array.from(integers(40, 1000)), new Float64Array(8), new Float32Array(8)]
  launch({ block: 8 }, values, out, area, 2)
  for (let i = 0; i < 8; i++) {
    assert.equal(
      out[i],
      values.slice(i, i + 7).reduce((a, b) => a + b),
    )
    assert.ok(Math.abs((area[i] ?? 0) - (2 * i ** 3) / 3) < 0.002 * i ** 3 + 1e-9)
  }
})

kernelTest(
  'language',
  'printing',
  ({ launch }) => {
    let text = ''
    const print = (part: string): void => {
      text += part
    }
    launch({ block: 4, print }, Uint8Array.from([104, 195, 164, 33, 0]), 3.25)
    assert.equal(text, 'hello thread from 1\n-7  3.25|hä!   |z ff 1099511627776 3.250000e+00 3.25 %\n')
  },
  { gpu: 'not played' },
)

kernelTest(
  'language',
  'asserting',
  ({ launch }) => {
    let text = ''
    const print = (part: string): void => {
      text += part
    }
    launch({ block: 4, print }, Int32Array.from([1, 2, 3, 4]))
    const fault = faultOf(() => launch({ block: 4, print }, Int32Array.from([1, 2, 30, 4])))
    assert.equal(fault.code, 'CUDA_ERROR_ASSERT')
    assert.equal(fault.number, 710)
    assert.deepEqual(fault.thread, [2, 0, 0])
    assert.match(
      text,
      /^language\.cu:\d+: void asserting\(const int \*\): block: \[0,0,0\], thread: \[2,0,0\] Assertion `.*` failed\.\n$/,
    )
  },
  { gpu: 'not played' },
)

kernelTest(
  'language',
  'trapping',
  ({ launch }) => {
    const fault = faultOf(() => launch({ block: 4 }, Int32Array.from([1, 2, 3, 4])))
    assert.equal(fault.code, 'CUDA_ERROR_LAUNCH_FAILED')
    assert.deepEqual(fault.thread, [3, 0, 0])
    assert.match(fault.source?.file ?? '', /language\.cu$|cuda/)
  },
  { gpu: 'not played' },
)

kernelTest('language', 'switching', ({ launch }) => {
  const [values, out] = [integers(64, 12), new Int32Array(64)]
  launch({ block: 64 }, values, out)
  for (let i = 0; i < 64; i++) {
    const v = values[i] ?? 0
    const expected = [5, 3, -5, 77, 64, 80, -4, 1, 512][v] ?? -1
    assert.equal(out[i], expected)
  }
})

kernelTest('language', 'local_arrays', ({ launch }) => {
  const [values, out] = [integers(32, 40), new Int32Array(32)]
  launch({ block: 32 }, values, out)
  for (let t = 0; t < 32; t++) {
    const [a, n] = [Array.from({ length: 40 }, (_, i) => i * i), values[t] ?? 0]
    for (let i = 0; i < 40; i++) a[(i * 7 + n) % 40] = ((a[(i * 7 + n) % 40] ?? 0) + (a[i] ?? 0)) | 0
    let s = 0
    for (let i = 0; i < 40; i++) s = (Math.imul(s, 31) + (a[(i + n) % 40] ?? 0)) | 0
    assert.equal(out[t], s)
  }
})

kernelTest('language', 'globals', ({ launch, module, machine }) => {
  const out = new Float32Array(8)
  launch({ block: 8 }, out)
  assert.deepEqual([...out], [2.5, 7, 13, 2.5, 7, 13, 2.5, 7])
  const counter = module.global('counter')
  assert.deepEqual([...machine.get(counter?.address ?? 0, new Int32Array(1))], [108])
})

kernelTest('language', 'generic', ({ launch }) => {
  for (const which of [0, 1, 2]) {
    const [values, out] = [Int32Array.from([7, 8, 9, 10]), new Int32Array(32)]
    launch({ block: 32 }, values, out, which)
    for (let t = 0; t < 32; t++) {
      const at = t & 3
      const expected = [2000 + 7 + at, 1000 + 100 + at, 4000 + ([1, 2, 3, t][at] ?? 0)][which]
      assert.equal(out[t], expected)
    }
  }
})

kernelTest('language', 'barrier_in_function', ({ launch }) => {
  const out = new Int32Array(64)
  launch({ block: 64 }, out)
  for (let t = 0; t < 64; t++)
    assert.equal(
      out[t],
      [1, 2, 3, 4].reduce((sum, step) => sum + ((t + step) % 64), 0),
    )
})

kernelTest('language', 'heap', ({ launch }) => {
  const out = new Int32Array(8)
  launch({ block: 8 }, out, 100)
  for (let t = 0; t < 8; t++) assert.equal(out[t], 4950 * t)
})

kernelTest(
  'language',
  'special_registers',
  ({ launch }) => {
    const [grid, block] = [[2, 3, 2] as const, [5, 3, 4] as const]
    const out = new Uint32Array(12 * 60 * 4)
    launch({ grid, block }, out)
    for (let b = 0; b < 12; b++) {
      for (let t = 0; t < 60; t++) {
        const [lane, warp] = [t & 31, t >> 5]
        assert.deepEqual(
          [...out.slice((b * 60 + t) * 4, (b * 60 + t) * 4 + 4)],
          [
            (t % 5) | ((Math.floor(t / 5) % 3) << 8) | (Math.floor(t / 15) << 16),
            (b % 2) | ((Math.floor(b / 2) % 3) << 8) | (Math.floor(b / 6) << 16),
            lane | (warp << 8),
            lane === 31 ? 0xffffffff : 2 ** (lane + 1) - 1,
          ],
        )
      }
    }
  },
  { gpu: 'not played' },
)

kernelTest(
  'language',
  'clocks',
  ({ launch }) => {
    const out = new BigInt64Array(1)
    launch({}, out)
    assert.ok((out[0] ?? 0n) >= 10000n && (out[0] ?? 0n) < 1000000n)
  },
  { gpu: 'not played' },
)
