/** Files of CUDA C++ as people write them, imported and run on every backend. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type DefinedKernel, elements, type Struct } from 'cuda-streams'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { onEveryBackend } from '../helpers/suite.js'
import { simWorkbench } from '../helpers/workbench.js'
import { importCu } from './cu-files.js'
import { close, machine, ramp } from './machine.js'

const skip = lacksNvrtc()

onEveryBackend('files of CUDA C++', (bench) => {
  test('a first program, with main() and its checks', { skip }, async () => {
    const { saxpy } = await importCu<{ saxpy: DefinedKernel<['i32', 'f32', 'in f32*', 'inout f32*']> }>('saxpy.cu')
    const { stream, put } = machine(bench)
    const [x, y] = [put(ramp(1000, (i) => i)), put(ramp(1000, () => 1))]
    stream.launch(saxpy, { grid: 4, block: 256 }, 1000, 2, x, y)
    assert.deepEqual(
      await stream.download(y, Float32Array),
      ramp(1000, (i) => 2 * i + 1),
    )
  })

  test('templates that host code launches, and one that is instantiated', { skip }, async () => {
    const { reduce_int_128, reduce_double_64 } = await importCu<{
      reduce_int_128: DefinedKernel<['in i32*', 'out i32*', 'u32']>
      reduce_double_64: DefinedKernel<['in f64*', 'out f64*', 'u32']>
    }>('reduction.cu')
    const { stream, put } = machine(bench)
    const ints = Int32Array.from({ length: 5000 }, (_, i) => (i * 7919) % 1000)
    const sums = put(new Int32Array(4))
    stream.launch(reduce_int_128, { grid: 4, block: 128, sharedMemory: 4 * 128 }, put(ints), sums, ints.length)
    const total = (values: Iterable<number>): number => [...values].reduce((a, b) => a + b, 0)
    assert.equal(total(await stream.download(sums, Int32Array)), total(ints))
    const doubles = Float64Array.from({ length: 777 }, (_, i) => i / 4)
    const sum = put(new Float64Array(1))
    stream.launch(reduce_double_64, { grid: 1, block: 64, sharedMemory: 8 * 64 }, put(doubles), sum, doubles.length)
    assert.equal(total(await stream.download(sum, Float64Array)), total(doubles))
  })

  test('images, with a constant that the program uploads', { skip }, async () => {
    const { filter, rgba_to_grey } = await importCu<{
      filter: DefinedKernel<['in u8*', 'out u8*', 'i32', 'i32']>
      rgba_to_grey: DefinedKernel<['in u8*', 'out u8*', 'i32', 'i32']>
    }>('image-filter.cu')
    const { device, stream, put } = machine(bench)
    const [rows, columns] = [9, 17]
    const rgba = Uint8Array.from({ length: rows * columns * 4 }, (_, i) => (i * 31) % 256)
    const [grey, blurred] = [put(new Uint8Array(rows * columns)), put(new Uint8Array(rows * columns))]
    const shape = { grid: [2, 2], block: [16, 8] } as const
    stream.launch(rgba_to_grey, shape, put(rgba), grey, rows, columns)
    // Kernels of one file share its variables.
    await stream.upload(rgba_to_grey.global('weights', device), new Float32Array(9).fill(1 / 16))
    stream.launch(filter, shape, grey, blurred, rows, columns)
    const levels = await stream.download(grey, Uint8Array)
    const expected = Array.from(levels, (_, at) => {
      let sum = 0
      for (const dy of [-1, 0, 1]) {
        for (const dx of [-1, 0, 1]) {
          const y = Math.min(rows - 1, Math.max(0, Math.floor(at / columns) + dy))
          const x = Math.min(columns - 1, Math.max(0, (at % columns) + dx))
          sum += (levels[y * columns + x] ?? 0) / 16
        }
      }
      return Math.floor(sum)
    })
    assert.deepEqual(Array.from(await stream.download(blurred, Uint8Array)), expected)
  })

  test('a layer norm with headers of its own, and cooperative groups', { skip }, async () => {
    const { layernorm_forward_kernel } = await importCu<{
      layernorm_forward_kernel: DefinedKernel<
        ['out f32*', 'out f32*', 'out f32*', 'in f32*', 'in f32*', 'in f32*', 'i32', 'i32']
      >
    }>('layernorm.cu')
    const { stream, put } = machine(bench)
    const [rows, channels] = [5, 48]
    const [inp, weight] = [ramp(rows * channels, (i) => Math.sin(i)), ramp(channels, (i) => 1 + i / 100)]
    const bias = ramp(channels, (i) => i / 50)
    const out = put(new Float32Array(rows * channels))
    const [mean, rstd] = [put(new Float32Array(rows)), put(new Float32Array(rows))]
    const args = [out, mean, rstd, put(inp), put(weight), put(bias), rows, channels] as const
    stream.launch(layernorm_forward_kernel, { grid: 2, block: 128 }, ...args)
    const expected = Array.from(inp, (value, i) => {
      const row = [...inp.subarray(i - (i % channels), i - (i % channels) + channels)]
      const m = row.reduce((a, b) => a + b, 0) / channels
      const variance = row.reduce((a, b) => a + (b - m) ** 2, 0) / channels
      return ((value - m) / Math.sqrt(variance + 1e-5)) * (weight[i % channels] ?? 0) + (bias[i % channels] ?? 0)
    })
    close(await stream.download(out, Float32Array), expected, 1e-5)
  })

  test('a stencil in a namespace, with an enum', { skip }, async () => {
    const { step } = await importCu<{ step: DefinedKernel<['out f64*', 'in f64*', 'u64', 'u64', 'i32']> }>('stencil.cu')
    const { stream, put } = machine(bench)
    const [width, height] = [11, 10]
    const now = Float64Array.from({ length: width * height }, (_, i) => (i * i) % 23)
    const next = put(new Float64Array(width * height))
    stream.launch(step, { grid: [2, 2], block: [8, 8] }, next, put(now), width, height, 1)
    const at = (x: number, y: number): number =>
      now[((y + height) % height) * width + ((x + width) % width)] ?? Number.NaN
    const expected = Array.from(now, (_, i) => {
      const [x, y] = [i % width, Math.floor(i / width)]
      return at(x, y) + 0.25 * (at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1) - 4 * at(x, y))
    })
    // The last column of blocks holds fewer threads than the block has: the halo behind them is not loaded by the last of them.
    const found = await stream.download(next, Float64Array)
    for (const [i, value] of expected.entries()) if (i % width < 8 && i < 8 * width) assert.equal(found[i], value)
  })

  test('sparse matrices, by the instantiations that the file has', { skip }, async () => {
    const { spmv_csr_int32_t_float, spmv_csr_int64_t_double } = await importCu<{
      spmv_csr_int32_t_float: DefinedKernel<['i32', 'in i32*', 'in i32*', 'in f32*', 'in f32*', 'out f32*']>
      spmv_csr_int64_t_double: DefinedKernel<['i64', 'in i64*', 'in i64*', 'in f64*', 'in f64*', 'out f64*']>
    }>('spmv.cu')
    const { stream, put } = machine(bench)
    const [offsets, columns, values, x] = [
      [0, 2, 2, 5],
      [0, 2, 0, 1, 2],
      [1, 2, 3, 4, 5],
      [10, 20, 30],
    ]
    const shape = { grid: 1, block: 32 }
    const y = put(new Float32Array(3))
    const [ints, floats] = [(of: number[]) => put(Int32Array.from(of)), (of: number[]) => put(Float32Array.from(of))]
    stream.launch(spmv_csr_int32_t_float, shape, 3, ints(offsets), ints(columns), floats(values), floats(x), y)
    assert.deepEqual(await stream.download(y, Float32Array), Float32Array.of(70, 0, 260))
    const z = put(new Float64Array(3))
    const longs = (of: number[]) => put(BigInt64Array.from(of.map(BigInt)))
    const doubles = (of: number[]) => put(Float64Array.from(of))
    stream.launch(spmv_csr_int64_t_double, shape, 3n, longs(offsets), longs(columns), doubles(values), doubles(x), z)
    assert.deepEqual(await stream.download(z, Float64Array), Float64Array.of(70, 0, 260))
  })

  test('a histogram by atomics; a variable that both kernels of the file use', { skip }, async () => {
    const { histogram, count_launches } = await importCu<{
      histogram: DefinedKernel<['in u8*', 'atomic u32*', 'u64']>
      count_launches: DefinedKernel<['out u32*']>
    }>('histogram.cu')
    const { stream, put } = machine(bench)
    const data = Uint8Array.from({ length: 3000 }, (_, i) => (i * i) % 251)
    const [bins, launches] = [put(new Uint32Array(64)), put(new Uint32Array(1))]
    const device = put(data)
    for (let i = 0; i < 3; i++) stream.launch(histogram, { grid: 3, block: 64 }, device, bins, data.length)
    stream.launch(count_launches, { grid: 1, block: 1 }, launches)
    const expected = new Uint32Array(64)
    for (const value of data) expected[value % 64] = (expected[value % 64] ?? 0) + 3
    assert.deepEqual(await stream.download(bins, Uint32Array), expected)
    assert.deepEqual(await stream.download(launches, Uint32Array), Uint32Array.of(3))
  })

  test('a matrix product of an extension of PyTorch', { skip }, async () => {
    const { matmul_false, matmul_true } =
      await importCu<
        Record<
          'matmul_false' | 'matmul_true',
          DefinedKernel<['in f32*', 'in f32*', 'inout f32*', 'i32', 'i32', 'i32', 'f32', 'f32']>
        >
      >('matmul.cu')
    const { stream, put } = machine(bench)
    const [m, n, k] = [20, 18, 35]
    const [a, b] = [ramp(m * k, (i) => (i % 7) - 3), ramp(k * n, (i) => (i % 5) - 2)]
    const transposed = ramp(k * n, (i) => b[(i % k) * n + Math.floor(i / k)] ?? 0)
    const expected = ramp(m * n, (i) => {
      let sum = 0
      for (let at = 0; at < k; at++) sum += (a[Math.floor(i / n) * k + at] ?? 0) * (b[at * n + (i % n)] ?? 0)
      return sum
    })
    for (const [kernel, right] of [[matmul_false, b] as const, [matmul_true, transposed] as const]) {
      const c = put(new Float32Array(m * n))
      stream.launch(kernel, { grid: [2, 2], block: [16, 16] }, put(a), put(right), c, m, n, k, 1, 0)
      assert.deepEqual(await stream.download(c, Float32Array), expected)
    }
  })

  test('complex numbers of a struct that host and device share', { skip }, async () => {
    const { mandelbrot } = await importCu<{
      mandelbrot: DefinedKernel<['out u16*', 'i32', 'i32', 'f64', 'f64', 'f64', 'i16']>
    }>('mandelbrot.cu')
    const { stream, put } = machine(bench)
    const [width, height, most] = [24, 16, 100]
    const counts = put(new Uint16Array(width * height))
    stream.launch(mandelbrot, { grid: [3, 2], block: [8, 8] }, counts, width, height, -2, -1, 0.125, most)
    const expected = Uint16Array.from({ length: width * height }, (_, i) => {
      const [cr, ci] = [-2 + (i % width) / 8, -1 + Math.floor(i / width) / 8]
      let [re, im, count] = [0, 0, 0]
      for (; count < most && re * re + im * im <= 4; count++) [re, im] = [re * re - im * im + cr, 2 * re * im + ci]
      return count
    })
    assert.deepEqual(await stream.download(counts, Uint16Array), expected)
  })

  test('half precision, and vectors of floats', { skip }, async () => {
    const { gelu_half, gelu_vector } = await importCu<{
      gelu_half: DefinedKernel<['in f16*', 'out f16*', 'f16', 'i64', 'bool']>
      gelu_vector: DefinedKernel<['inout f32x4*', 'u32']>
    }>('gelu-half.cu')
    const { stream, put } = machine(bench)
    const halves = elements('f16')
    const out = put(new Uint16Array(4))
    stream.launch(gelu_half, { grid: 1, block: 32 }, put(halves.pack([1, -1, 0, 2])), out, 2, 4, true)
    const gelu = (x: number): number => 0.5 * x * (1 + Math.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))
    close(
      halves.unpack(await stream.download(out)),
      [1, -1, 0, 2].map((x) => -2 * gelu(x)),
      2e-3,
    )
    const values = ramp(8, (i) => i - 4)
    const vector = put(values)
    stream.launch(gelu_vector, { grid: 1, block: 32 }, vector, 2)
    close(await stream.download(vector, Float32Array), Array.from(values, gelu), 1e-6)
  })

  test('a soft max whose launches stand in a template of the host, with its parameters as a struct', {
    skip,
  }, async () => {
    interface Params {
      readonly nheads: bigint
      readonly n_head_log2: number
      readonly ncols: bigint
      readonly nrows_x: bigint
      readonly scale: number
      readonly max_bias: number
      readonly m0: number
      readonly m1: number
    }
    const { soft_max_f32_true_64_32_float, soft_max_f32_false_0_32_float } = await importCu<{
      soft_max_f32_true_64_32_float: DefinedKernel<['in f32*', 'in f32*', 'out f32*', Struct<Params>]>
      soft_max_f32_false_0_32_float: DefinedKernel<['in f32*', 'in f32*', 'inout f32*', Struct<Params>]>
    }>('soft-max.cu')
    const { stream, put } = machine(bench)
    for (const [columns, kernel] of [
      [64, soft_max_f32_true_64_32_float],
      [45, soft_max_f32_false_0_32_float],
    ] as const) {
      const rows = 3
      const [x, mask] = [ramp(rows * columns, (i) => Math.sin(3 * i)), ramp(columns, (i) => -(i % 5))]
      const params = { nheads: 2n, n_head_log2: 2, ncols: BigInt(columns), nrows_x: BigInt(rows), scale: 0.5 }
      const out = put(new Float32Array(rows * columns))
      const shape = { grid: rows, block: 32, sharedMemory: 4 * 64 }
      stream.launch(kernel, shape, put(x), put(mask), out, { ...params, max_bias: 8, m0: 0.5, m1: 0.25 })
      const expected = Array.from({ length: rows }, (_, row) => {
        const powers = Array.from(x.subarray(row * columns, (row + 1) * columns), (value, column) =>
          Math.exp(0.5 * value + 0.5 ** ((row % 2) + 1) * (mask[column] ?? 0)),
        )
        const sum = powers.reduce((a, b) => a + b, 0)
        return powers.map((power) => power / sum)
      }).flat()
      close(await stream.download(out, Float32Array), expected, 1e-6)
    }
  })

  test('bodies that attract each other, by types that a trait says and an instance that the host makes', {
    skip,
  }, async () => {
    const { integrateBodies_float } = await importCu<{
      integrateBodies_float: DefinedKernel<
        ['out f32x4*', 'in f32x4*', 'inout f32x4*', 'u32', 'u32', 'f32', 'f32', 'i32']
      >
    }>('nbody.cu')
    const { device, stream, put } = machine(bench)
    const count = 70
    const bodies = ramp(4 * count, (i) => (i % 4 === 3 ? 1 + (i % 3) : Math.sin(5 * i)))
    const [newer, speeds] = [put(new Float32Array(4 * count)), put(new Float32Array(4 * count))]
    await stream.upload(integrateBodies_float.global('softeningSquared', device), Float32Array.of(0.25))
    const shape = { grid: 3, block: 32, sharedMemory: 16 * 32 }
    stream.launch(integrateBodies_float, shape, newer, put(bodies), speeds, 0, count, 0.5, 0.75, 3)
    const at = (body: number, axis: number): number => bodies[4 * body + axis] ?? 0
    const expected = Array.from({ length: count }, (_, i) => {
      const pull = [0, 0, 0]
      for (let j = 0; j < count; j++) {
        const r = [0, 1, 2].map((axis) => at(j, axis) - at(i, axis))
        const s = at(j, 3) / (r.reduce((sum, each) => sum + each * each, 0) + 0.25) ** 1.5
        for (const [axis, each] of r.entries()) pull[axis] = (pull[axis] ?? 0) + each * s
      }
      return [...pull.map((each, axis) => at(i, axis) + each * 0.5 * 0.75 * 0.5), at(i, 3)]
    }).flat()
    close(await stream.download(newer, Float32Array), expected, 2e-4)
  })
})

// On a simulated GPU of its own, since the fault ends it.
test('a fault names the line of the source', { skip }, async () => {
  const { saxpy } = await importCu<{ saxpy: DefinedKernel<['i32', 'f32', 'in f32*', 'inout f32*']> }>('saxpy.cu')
  const { stream, put } = machine(simWorkbench())
  const [x, y] = [put(new Float32Array(8)), put(new Float32Array(4))]
  stream.launch(saxpy, { grid: 1, block: 32 }, 8, 2, x, y)
  await assert.rejects(stream.finished(), /saxpy\.cu:17/)
})
