/** Files of CUDA C++ whose kernels take structs, vectors and floats of 16 bits, imported and run on every backend. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type DefinedKernel, elements, type Struct } from 'cuda-streams'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { onEveryBackend } from '../helpers/suite.js'
import { importCu } from './cu-files.js'
import { close, machine, ramp } from './machine.js'

const skip = lacksNvrtc()

type Vec2 = readonly [number, number]
type Vec3 = readonly [number, number, number]
type Vec4 = readonly [number, number, number, number]

onEveryBackend('structs, vectors and floats of 16 bits of CUDA C++', (bench) => {
  test('an image filter with its parameters as a struct, and pixels of float4', { skip }, async () => {
    interface FilterParams {
      readonly size: Vec2
      readonly gain: Vec4
      readonly kernel: readonly (readonly number[])[]
      readonly threshold: number
      readonly clampAlpha: boolean
    }
    const { sharpen, FilterParams } = await importCu<{
      sharpen: DefinedKernel<['in f32x4*', 'out f32x4*', Struct<FilterParams>, 'f32x4']>
      FilterParams: Struct<FilterParams>
    }>('sharpen.cu')
    assert.deepEqual([FilterParams.byteLength, FilterParams.alignment], [80, 16])
    const { stream, put } = machine(bench)
    const [width, height] = [13, 7]
    const image = ramp(4 * width * height, (i) => ((i * 37) % 64) / 64)
    const kernel = [
      [1, 2, 1],
      [2, 4, 2],
      [1, 2, 1],
    ].map((row) => row.map((weight) => weight / 16))
    const gain = [1, 2, 0.5, 8] as const
    const background = [0.25, 0.5, 0.75, 1] as const
    const params = { size: [width, height], gain, kernel, threshold: 0.125, clampAlpha: true } as const
    const out = put(new Float32Array(image.length))
    stream.launch(sharpen, { threads: [width, height], block: [16, 8] }, put(image), out, params, background)
    const expected = Array.from(image, (pixel, at) => {
      const [channel, x, y] = [at % 4, Math.floor(at / 4) % width, Math.floor(at / 4 / width)]
      let blurred = 0
      for (const dy of [-1, 0, 1]) {
        for (const dx of [-1, 0, 1]) {
          const inside = x + dx >= 0 && x + dx < width && y + dy >= 0 && y + dy < height
          const other = inside ? image[4 * ((y + dy) * width + x + dx) + channel] : background[channel]
          blurred += (kernel[dy + 1]?.[dx + 1] ?? 0) * (other ?? 0)
        }
      }
      const sharp = Math.abs(pixel - blurred) < 0.125 ? pixel : pixel + (gain[channel] ?? 0) * (pixel - blurred)
      return channel === 3 ? Math.min(1, Math.max(0, sharp)) : sharp
    })
    close(await stream.download(out, Float32Array), expected, 1e-6)
    // A message says which part of which parameter is wrong.
    const launch = (wrong: object): void => {
      const shape = { threads: [width, height] } as const
      stream.launch(sharpen, shape, out, out, { ...params, ...wrong }, background)
    }
    assert.throws(() => launch({ gain: [1, 2, 'x', 4] }), {
      code: 'ERR_INVALID_ARG_TYPE',
      message: "sharpen: parameter `params.gain[2]` (f32) must be a number, not 'x'",
    })
    assert.throws(() => launch({ threshold: undefined }), {
      code: 'ERR_INVALID_ARG_TYPE',
      message: 'sharpen: parameter `params.threshold` (f32) must be a number, not undefined',
    })
    assert.throws(() => launch({ kernel: [[1, 2, 3]] }), {
      code: 'ERR_INVALID_ARG_VALUE',
      message: /^sharpen: parameter `params\.kernel` \(f32\[3\]\[3\]\) must be an array of 3 elements/,
    })
  })

  test('particles, in a buffer of structs that a header declares', { skip }, async () => {
    interface Particle {
      readonly position: Vec3
      readonly mass: number
      readonly velocity: Vec3
      readonly hits: number
    }
    interface Box {
      readonly least: Vec3
      readonly most: Vec3
    }
    interface World {
      readonly box: Box
      readonly gravity: Vec3
      readonly restitution: number
      readonly tick: bigint
    }
    const { step, total_energy, place, Particle, Box } = await importCu<{
      step: DefinedKernel<[{ inout: Struct<Particle> }, Struct<World>, 'f32', 'i32']>
      total_energy: DefinedKernel<[{ in: Struct<Particle> }, 'out f64*', 'i32']>
      place: DefinedKernel<[{ out: Struct<Particle> }, { in: Struct<Box> }, 'i32x2']>
      Particle: Struct<Particle>
      Box: Struct<Box>
    }>('particles.cu')
    const { stream, put } = machine(bench)
    const box: Box = { least: [-1, -1, -1], most: [1, 1, 1] }
    const particles = put(
      Particle.pack([
        { position: [0, 0, 0], mass: 2, velocity: [1, 0, 0], hits: 0 },
        { position: [0.75, 0.5, 0], mass: 1, velocity: [1, -0.5, 0.25], hits: 7 },
      ]),
    )
    assert.equal(particles.byteLength, 64)
    const world: World = { box, gravity: [0, -2, 0], restitution: 0.5, tick: 2n ** 40n }
    stream.launch(step, { threads: 2 }, particles, world, 0.5, 2)
    assert.deepEqual(Particle.unpack(await stream.download(particles)), [
      { position: [0.5, -0.5, 0], mass: 2, velocity: [1, -1, 0], hits: 0 },
      { position: [1, -0.25, 0.125], mass: 1, velocity: [-0.5, -1.5, 0.25], hits: 8 },
    ])
    const energy = put(new Float64Array(1))
    stream.launch(total_energy, { grid: 1, block: 1 }, particles, energy, 2)
    assert.deepEqual([...(await stream.download(energy, Float64Array))], [2 + 0.5 * (0.25 + 2.25 + 0.0625)])
    stream.launch(place, { grid: 1, block: 2 }, particles, put(Box.pack([box])), [2, 1])
    assert.deepEqual(
      Particle.unpack(await stream.download(particles)).map(({ position, mass, hits }) => [...position, mass, hits]),
      [
        [-1, -1, 0, 1, 0],
        [0, -1, 0, 1, 0],
      ],
    )
    assert.throws(() => stream.launch(step, { threads: 1 }, particles.subarray(0, 40), world, 0.5, 1), {
      code: 'ERR_INVALID_ARG_VALUE',
      message: /^step: parameter `particles` \(inout struct\*\): DeviceBuffer\(.*\) is not whole structs of 32 bytes$/,
    })
    assert.throws(() => stream.launch(step, { threads: 1 }, particles.subarray(8, 40), world, 0.5, 1), {
      code: 'ERR_INVALID_ARG_VALUE',
      message: /does not begin at a multiple of 16, for struct$/,
    })
  })

  test('norms and sums of half precision and bfloat16, by number', { skip }, async () => {
    type Norm<T extends 'f16' | 'bf16'> = DefinedKernel<[`in ${T}*`, `in ${T}*`, `out ${T}*`, 'i32', 'f32']>
    type Axpy<T extends 'f16' | 'bf16'> = DefinedKernel<[T, `in ${T}*`, `inout ${T}*`, 'i32']>
    const all = await importCu<{
      rms_norm_half_64: Norm<'f16'>
      rms_norm___nv_bfloat16_64: Norm<'bf16'>
      axpy_half: Axpy<'f16'>
      axpy___nv_bfloat16: Axpy<'bf16'>
      axpy_half2: DefinedKernel<['f16x2', 'in f16x2*', 'inout f16x2*', 'i32']>
    }>('rmsnorm-half.cu')
    const { stream, put } = machine(bench)
    const [rows, columns] = [3, 100]
    const values = Array.from({ length: rows * columns }, (_, i) => ((i * 13) % 32) / 8 - 2)
    const weights = Array.from({ length: columns }, (_, i) => 1 + (i % 4) / 4)
    const expected = values.map((value, i) => {
      const row = values.slice(i - (i % columns), i - (i % columns) + columns)
      const mean = row.reduce((sum, each) => sum + each * each, 0) / columns
      return (value / Math.sqrt(mean + 1e-5)) * (weights[i % columns] ?? 0)
    })
    const [f16, bf16] = [elements('f16'), elements('bf16')]
    const out = put(new Uint16Array(values.length))
    const shape = { grid: rows, block: 64 }
    stream.launch(all.rms_norm_half_64, shape, put(f16.pack(values)), put(f16.pack(weights)), out, columns, 1e-5)
    close(f16.unpack(await stream.download(out)), expected, 2e-3)
    const [x, w] = [put(bf16.pack(values)), put(bf16.pack(weights))]
    stream.launch(all.rms_norm___nv_bfloat16_64, shape, x, w, out, columns, 1e-5)
    close(bf16.unpack(await stream.download(out)), expected, 2e-2)
    // 0.1 is no value of these types: it is rounded as the GPU rounds it.
    for (const [codec, launch] of [
      [f16, (one: typeof x, y: typeof x) => stream.launch(all.axpy_half, { threads: 3 }, 0.1, one, y, 3)],
      [bf16, (one: typeof x, y: typeof x) => stream.launch(all.axpy___nv_bfloat16, { threads: 3 }, 0.1, one, y, 3)],
    ] as const) {
      const y = put(codec.pack([0, 0, 0]))
      launch(put(codec.pack([1, 2, -4])), y)
      const [tenth = 0] = codec.unpack(codec.pack([0.1]))
      assert.notEqual(tenth, 0.1)
      assert.deepEqual(codec.unpack(await stream.download(y)), [tenth, 2 * tenth, -4 * tenth])
    }
    const y = put(f16.pack([1, 1, 1, 1]))
    stream.launch(all.axpy_half2, { threads: 2 }, [2, -0.5], put(f16.pack([1, 2, 3, 4])), y, 2)
    assert.deepEqual(f16.unpack(await stream.download(y)), [3, 0, 7, -1])
  })

  test('products of 8-bit integers, four at a time, in blocks with a scale', { skip }, async () => {
    interface Block {
      readonly d: number
      readonly qs: readonly number[]
    }
    const { quantize_q8_0, mul_mat_vec_q8_0, matvec_i8, unpack_rgba, block_q8_0 } = await importCu<{
      quantize_q8_0: DefinedKernel<['in f32*', { out: Struct<Block> }, 'i64']>
      mul_mat_vec_q8_0: DefinedKernel<[{ in: Struct<Block> }, { in: Struct<Block> }, 'out f32*', 'i32']>
      matvec_i8: DefinedKernel<['in i8x4*', 'in i8x4*', 'i8x4', 'out i32*', 'i32']>
      unpack_rgba: DefinedKernel<['in u8x4*', 'out f32x4*', 'u8x4', 'i32']>
      block_q8_0: Struct<Block>
    }>('matvec-q8.cu')
    const { device, stream, put } = machine(bench)
    assert.equal(block_q8_0.byteLength, 34)
    const [rows, columns] = [3, 96]
    const matrix = ramp(rows * columns, (i) => Math.sin(i))
    const vector = ramp(columns, (i) => Math.cos(3 * i))
    const quantized = (from: Float32Array) => {
      const to = device.alloc((from.length / 32) * block_q8_0.byteLength, { stream })
      stream.launch(quantize_q8_0, { threads: from.length / 32, block: 32 }, put(from), to, from.length / 32)
      return to
    }
    const [m, v] = [quantized(matrix), quantized(vector)]
    const [first] = block_q8_0.unpack(await stream.download(v))
    const most = Math.max(...vector.subarray(0, 32).map(Math.abs))
    assert.ok(Math.abs((first?.d ?? 0) - most / 127) < 1e-5)
    assert.deepEqual(
      first?.qs,
      Array.from(vector.subarray(0, 32), (value) => Math.round(value / (most / 127)) + 0),
    )
    const out = put(new Float32Array(rows))
    stream.launch(mul_mat_vec_q8_0, { grid: rows, block: 32 }, m, v, out, columns)
    const products = Array.from({ length: rows }, (_, row) =>
      vector.reduce((sum, value, column) => sum + value * (matrix[row * columns + column] ?? 0), 0),
    )
    close(await stream.download(out, Float32Array), products, 0.2)
    const [weights, x] = [Int8Array.of(1, -2, 3, -4, 127, -128, 5, 6), Int8Array.of(10, 20, 30, 40)]
    const sums = put(new Int32Array(2))
    stream.launch(matvec_i8, { grid: 1, block: 2 }, put(weights), put(x), [1, 0, -1, -40], sums, 1)
    assert.deepEqual([...(await stream.download(sums, Int32Array))], [11 - 40 + 3 * 29, 127 * 11 - 128 * 20 + 5 * 29])
    const pixels = put(Uint8Array.of(255, 0, 51, 255, 10, 20, 30, 255))
    const unpacked = put(new Float32Array(8))
    stream.launch(unpack_rgba, { threads: 2 }, pixels, unpacked, Uint8Array.of(10, 20, 30, 0), 2)
    close(
      await stream.download(unpacked, Float32Array),
      [1, 0, 0.2, 1, ...[10, 20, 30].map((each) => each / 255), 0],
      1e-6,
    )
    assert.throws(() => stream.launch(matvec_i8, { threads: 1 }, pixels, pixels, [1, 0, 0, 200], sums, 1), {
      code: 'ERR_OUT_OF_RANGE',
      message: 'matvec_i8: parameter `bias[3]` (i8) must be from -128 to 127, not 200',
    })
  })
})
