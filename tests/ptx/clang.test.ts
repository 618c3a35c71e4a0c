/** PTX of clang, optimised and not: what is not optimised has all in local memory, through generic addresses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { floats, integers, Machine, ptxOf } from './machine.js'

for (const level of ['o0', 'o2']) {
  const scene = () => {
    const machine = new Machine()
    return { machine, module: machine.load(ptxOf(`clang_${level}`)) }
  }

  test(`clang -${level}: axpy`, () => {
    const { machine, module } = scene()
    const [x, y] = [floats(300, 1), floats(300, 2)]
    const at = machine.put(y)
    machine.run(module, 'axpy', { grid: 3, block: 128 }, [2, machine.put(x), at, 300])
    assert.deepEqual(
      machine.get(at, y),
      y.map((value, index) => 2 * (x[index] ?? 0) + value),
    )
  })

  test(`clang -${level}: a sum through shared memory`, () => {
    const { machine, module } = scene()
    const [values, out] = [integers(512, 100), machine.put(new Int32Array(1))]
    machine.run(module, 'sum', { grid: 4, block: 128 }, [machine.put(values), out])
    assert.equal(
      machine.get(out, new Int32Array(1))[0],
      values.reduce((a, b) => a + b),
    )
  })

  test(`clang -${level}: structures by value, and recursion`, () => {
    const { machine, module } = scene()
    const bytes = new Uint8Array(12 * 24)
    const view = new DataView(bytes.buffer)
    for (let t = 0; t < 12; t++) {
      view.setFloat64(24 * t, t + 0.5, true)
      view.setBigInt64(24 * t + 8, BigInt(t) << 33n, true)
    }
    const [pairs, out] = [machine.put(bytes), machine.put(new Int32Array(12))]
    machine.run(module, 'calls', { block: 12 }, [pairs, out])
    const result = new DataView(machine.get(pairs, bytes).buffer)
    for (let t = 0; t < 12; t++) {
      assert.equal(result.getFloat64(24 * t, true), (t + 0.5) * (t + 1))
      assert.equal(result.getBigInt64(24 * t + 8, true), (BigInt(t) << 33n) + BigInt(t + 1))
      assert.equal(result.getInt8(24 * t + 16 + ((t + 1) % 3)), t + 1)
    }
    assert.deepEqual([...machine.get(out, new Int32Array(12))], [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
  })

  test(`clang -${level}: an array in local memory`, () => {
    const { machine, module } = scene()
    const data = integers(64 * 11, 1000)
    const at = machine.put(data)
    machine.run(module, 'sorted', { block: 64 }, [at, 11])
    const result = machine.get(at, data)
    for (let t = 0; t < 64; t++)
      assert.deepEqual(result.slice(11 * t, 11 * t + 11), data.slice(11 * t, 11 * t + 11).sort())
  })

  test(`clang -${level}: shuffles of floats`, () => {
    const { machine, module } = scene()
    const [values, out] = [Float32Array.from(integers(64, 100)), machine.put(new Float32Array(64))]
    machine.run(module, 'warp_sum', { block: 64 }, [machine.put(values), out])
    const sums = [0, 32].map((from) => values.slice(from, from + 32).reduce((a, b) => a + b))
    assert.deepEqual(
      machine.get(out, new Float32Array(64)),
      Float32Array.from({ length: 64 }, (_, t) => sums[t >> 5] ?? 0),
    )
  })

  test(`clang -${level}: a switch, and integers of 64 bits`, () => {
    const { machine, module } = scene()
    const [values, out] = [integers(64, 14), machine.put(new BigInt64Array(64))]
    machine.run(module, 'switched', { block: 64 }, [machine.put(values), out])
    const result = machine.get(out, new BigInt64Array(64))
    values.forEach((value, t) => {
      const expected =
        [10n, 1n << 40n, 0n, 3000009n % 17n, 63n, 61n][value] ?? (value > 9 ? BigInt(value * value) : -1n)
      assert.equal(result[t], expected)
    })
  })
}
