/** Random numbers: the same as cuRAND's, their order among other work, and what is refused. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import type { Stream } from 'cuda-streams'
import { RandomGenerator } from 'cuda-streams/curand'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { insideHostFunction, refused } from '../../conformance/expect.js'
import { onEveryBackend } from '../../helpers/suite.js'
import { simWorkbench, type Workbench } from '../../helpers/workbench.js'
import {
  FIRST_BITS,
  FIRST_LOG_NORMAL,
  FIRST_NORMAL,
  FIRST_NORMAL_F64,
  FIRST_UNIFORM,
  FIRST_UNIFORM_F64,
  SEQUENCES,
} from './sequences.js'

const SEED = 1234

/** The numbers of a call, on a new generator. */
async function first<T extends Float32Array | Float64Array | Uint32Array>(
  stream: Stream,
  array: T,
  generate: (generator: RandomGenerator, buffer: ReturnType<Stream['device']['alloc']>) => unknown,
): Promise<number[]> {
  using generator = new RandomGenerator({ seed: SEED, device: stream.device })
  using buffer = stream.device.alloc(array.byteLength, { stream })
  generate(generator, buffer)
  await stream.download(buffer, array)
  return [...array]
}

/** CUDA's fast sine and cosine of f32 are off by 5e-7, and the radius of these numbers is less than 7. */
function assertNear(got: readonly number[], expected: readonly number[], allowed: number): void {
  assert.equal(got.length, expected.length)
  for (const [index, value] of got.entries()) {
    const off = Math.abs(value - (expected[index] ?? Number.NaN))
    assert.ok(off <= allowed * Math.max(1, Math.abs(value)), `number ${index}: ${value}, not ${expected[index]}`)
  }
}

onEveryBackend('cuRAND', (bench: Workbench) => {
  const stream = bench.stream()
  after(() => stream.close())

  it('the first numbers of a seed are those of cuRAND', async () => {
    assert.deepEqual(await first(stream, new Uint32Array(16), (one, buffer) => one.bits(stream, buffer)), FIRST_BITS)
    assert.deepEqual(
      await first(stream, new Float32Array(8), (one, buffer) => one.uniform(stream, buffer)),
      FIRST_UNIFORM.map(Math.fround),
    )
    assert.deepEqual(
      await first(stream, new Float64Array(8), (one, buffer) => one.uniform(stream, buffer, { type: 'f64' })),
      FIRST_UNIFORM_F64,
    )
    const normal = await first(stream, new Float32Array(8), (one, buffer) => one.normal(stream, buffer))
    assertNear(normal, FIRST_NORMAL, 4e-6)
    const wide = await first(stream, new Float64Array(8), (one, buffer) => one.normal(stream, buffer, { type: 'f64' }))
    assertNear(wide, FIRST_NORMAL_F64, 1e-14)
    const logarithmic = await first(stream, new Float32Array(8), (one, buffer) => one.logNormal(stream, buffer))
    assertNear(logarithmic, FIRST_LOG_NORMAL, 4e-6)
  })

  for (const { offset, calls, hash } of SEQUENCES) {
    it(`every bit of ${calls} from ${offset} on is that of cuRAND`, async () => {
      using generator = new RandomGenerator({ seed: SEED, offset, device: stream.device })
      let got = 0
      for (const call of calls.split(' ')) {
        const count = Number(call.slice(1))
        using buffer = stream.device.alloc(count * (call.startsWith('U') ? 8 : 4), { stream })
        if (call.startsWith('b')) generator.bits(stream, buffer)
        else generator.uniform(stream, buffer, { type: call.startsWith('U') ? 'f64' : 'f32' })
        for (const word of await stream.download(buffer, Uint32Array)) got = (Math.imul(got, 31) + word) >>> 0
      }
      assert.equal(got.toString(16), hash.toString(16))
    })
  }

  it('mean and deviation are those that are given', async () => {
    const count = 20_000
    for (const type of ['f32', 'f64'] as const) {
      const array = type === 'f32' ? new Float32Array(count) : new Float64Array(count)
      const numbers = await first(stream, array, (one, buffer) =>
        one.normal(stream, buffer, { type, mean: 10, stddev: 2 }),
      )
      const mean = numbers.reduce((sum, value) => sum + value, 0) / count
      const deviation = Math.sqrt(numbers.reduce((sum, value) => sum + (value - mean) ** 2, 0) / count)
      assert.ok(Math.abs(mean - 10) < 0.1 && Math.abs(deviation - 2) < 0.1, `${type}: ${mean}, ${deviation}`)
      const logNormal = await first(stream, array, (one, buffer) =>
        one.logNormal(stream, buffer, { type, mean: 1, stddev: 0 }),
      )
      assertNear(logNormal.slice(0, 4), Array(4).fill(Math.E), 1e-6)
    }
  })

  it('numbers are work of the stream, one call behind the other, and the buffer can be closed at once', async () => {
    using generator = new RandomGenerator({ seed: SEED, device: stream.device })
    using all = stream.device.alloc(64, { stream })
    stream.fill(all, 1)
    const parts = [all.subarray(0, 12), all.subarray(12, 48), all.subarray(48, 64)]
    for (const part of parts) generator.bits(stream, part)
    const gone = stream.device.alloc(64, { stream })
    generator.bits(stream, gone)
    gone.close()
    generator.close()
    assert.deepEqual([...(await stream.download(all, Uint32Array))], FIRST_BITS)
    refused(() => generator.bits(stream, all), 'ERR_CLOSED', /RandomGenerator/)
  })

  it('numbers come in the order of the calls, whichever streams they are queued on', async () => {
    using other = bench.stream()
    using third = bench.stream()
    using generator = new RandomGenerator({ seed: SEED, device: stream.device })
    using buffer = stream.device.alloc(64, { stream })
    const parts = [0, 16, 32, 48].map((begin) => buffer.subarray(begin, begin + 16))
    const [a, b, c, d] = parts
    assert.ok(a && b && c && d)
    // The first of a kind may load code, for which it waits for the whole device.
    using before = new RandomGenerator({ device: stream.device })
    for (const part of [a, ...parts]) before.bits(stream, part)
    generator.bits(stream, a)
    other.wait(stream)
    third.wait(stream)
    const latch = bench.latch(other)
    generator.bits(other, b).bits(third, c).bits(third, d)
    await stream.finished()
    assert.equal(third.query(), false, 'a call waits for the one before, on another stream')
    latch.open()
    stream.wait(third)
    assert.deepEqual([...(await stream.download(buffer, Uint32Array))], FIRST_BITS)
    other.close()
    generator.bits(stream, buffer)
    await stream.finished()
  })

  it('is refused on a stream that captures, and the capture goes on', () => {
    using generator = new RandomGenerator({ device: stream.device })
    using buffer = stream.device.alloc(64, { stream })
    stream.beginCapture()
    refused(() => generator.uniform(stream, buffer), 'ERR_UNSUPPORTED', /captures, and uniform\(\) cannot be captured/)
    stream.endCapture().close()
  })

  it('refuses what gives no numbers, and says why', () => {
    refused(() => new RandomGenerator({ seed: -1, device: stream.device }), 'ERR_OUT_OF_RANGE', /options.seed/)
    refused(() => new RandomGenerator({ seed: 2 ** 53, device: stream.device }), 'ERR_OUT_OF_RANGE', /options.seed/)
    refused(() => new RandomGenerator({ offset: 0.5, device: stream.device }), 'ERR_INVALID_ARG_TYPE', /options.offset/)
    refused(
      () => new RandomGenerator({ stream } as never),
      'ERR_INVALID_ARG_VALUE',
      /generator\.uniform\(stream, buffer\)/,
    )
    refused(() => new RandomGenerator(stream as never), 'ERR_INVALID_ARG_TYPE', /generator\.uniform\(stream, buffer\)/)
    refused(() => new RandomGenerator({ device: {} as never }), 'ERR_INVALID_ARG_TYPE', /options.device/)
    using generator = new RandomGenerator({ device: stream.device })
    using buffer = stream.device.alloc(64, { stream })
    refused(() => generator.bits(stream, {} as never), 'ERR_INVALID_ARG_TYPE', /buffer/)
    refused(() => generator.bits(stream, buffer.subarray(0, 6)), 'ERR_INVALID_ARG_VALUE', /whole number/)
    refused(() => generator.bits(stream, buffer.subarray(2, 10)), 'ERR_INVALID_ARG_VALUE', /middle/)
    refused(
      () => generator.uniform(stream, buffer, { type: 'u32' as never }),
      'ERR_INVALID_ARG_VALUE',
      /'f32' or 'f64'/,
    )
    refused(
      () => generator.uniform(stream, buffer.subarray(4, 20), { type: 'f64' }),
      'ERR_INVALID_ARG_VALUE',
      /8 bytes/,
    )
    refused(() => generator.normal(stream, buffer.subarray(0, 12)), 'ERR_INVALID_ARG_VALUE', /3 elements.*even/)
    refused(() => generator.normal(stream, buffer, { stddev: -1 }), 'ERR_OUT_OF_RANGE', /options.stddev/)
    refused(() => generator.normal(stream, buffer, { mean: Number.NaN }), 'ERR_OUT_OF_RANGE', /options.mean/)
    refused(() => generator.normal(stream, buffer, { mean: '1' as never }), 'ERR_INVALID_ARG_TYPE', /options.mean/)
    generator.bits(stream, buffer.subarray(0, 0))
  })
})

describe('cuRAND on the simulator', () => {
  const bench = simWorkbench()

  it('numbers that another stream reads too early are a race', async () => {
    const [stream, other] = [bench.stream(), bench.stream()]
    using generator = new RandomGenerator({ device: stream.device })
    using buffer = stream.device.alloc(64, { stream })
    other.wait(stream)
    const sanitizer = Sanitizer.start({ device: stream.device, mode: 'collect' })
    generator.uniform(stream, buffer)
    await other.download(buffer)
    sanitizer.stop()
    assert.deepEqual(
      sanitizer.reports.map(({ message }) => /curandGenerateUniform/.test(message)),
      [true],
    )
  })

  it('inside a host function a new generator, and its first numbers, are ERR_DEADLOCK; later ones are not', () => {
    const stream = bench.stream()
    using generator = new RandomGenerator({ device: stream.device })
    using buffer = stream.device.alloc(24, { stream })
    const inside = (act: () => void): void => insideHostFunction(stream, act)
    inside(() => refused(() => new RandomGenerator({ device: stream.device }), 'ERR_DEADLOCK'))
    inside(() => refused(() => generator.bits(stream, buffer), 'ERR_DEADLOCK'))
    generator.bits(stream, buffer).bits(stream, buffer)
    inside(() => void generator.bits(stream, buffer))
    using another = new RandomGenerator({ device: stream.device })
    inside(() => refused(() => another.bits(stream, buffer), 'ERR_DEADLOCK'))
  })
})
