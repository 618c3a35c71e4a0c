/** Fourier transforms: the numbers, their order among other work, captures, threads of execution, and what is refused. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import type { DeviceBuffer, Graph, Stream } from 'cuda-streams'
import { Fft, type FftType } from 'cuda-streams/cufft'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { explore } from 'cuda-streams/sim'
import { insideHostFunction, refused, refusedByDriver } from '../../conformance/expect.js'
import { onEveryBackend } from '../../helpers/suite.js'
import { simWorkbench, type Workbench } from '../../helpers/workbench.js'

const pairsOf = (type: FftType): boolean => type === 'z2z' || type === 'd2z' || type === 'z2d'
const arrayOf = (type: FftType) => (pairsOf(type) ? Float64Array : Float32Array)

/** Numbers between -1 and 1, each time the same. */
function numbers(length: number, seed = 1): number[] {
  let state = seed
  return Array.from({ length }, () => {
    state = (state * 48_271) % 2_147_483_647
    return Math.round((state / 2_147_483_647) * 2048 - 1024) / 1024
  })
}

/** The definition: one sum for each element of the result. */
function definition(values: readonly number[], sizes: readonly number[], sign: 1 | -1): number[] {
  const count = sizes.reduce((product, size) => product * size, 1)
  const result: number[] = []
  for (let k = 0; k < count; k += 1) {
    let [re, im] = [0, 0]
    for (let j = 0; j < count; j += 1) {
      let turns = 0
      let [restK, restJ] = [k, j]
      for (const size of sizes.toReversed()) {
        turns += ((restK % size) * (restJ % size)) / size
        restK = Math.floor(restK / size)
        restJ = Math.floor(restJ / size)
      }
      const angle = sign * 2 * Math.PI * turns
      const [x, y] = [values[2 * j] ?? 0, values[2 * j + 1] ?? 0]
      re += x * Math.cos(angle) - y * Math.sin(angle)
      im += x * Math.sin(angle) + y * Math.cos(angle)
    }
    result.push(re, im)
  }
  return result
}

const complexOf = (reals: readonly number[]): number[] => reals.flatMap((each) => [each, 0])

/** Of a whole spectrum, what the transform of real numbers stores. */
function halfOf(spectrum: readonly number[], sizes: readonly number[]): number[] {
  const last = sizes.at(-1) ?? 1
  return spectrum.filter((_, index) => Math.floor(index / 2) % last <= Math.floor(last / 2))
}

/** The error relative to the largest number, which for f32 grows with the logarithm of the size. */
function assertNear(got: readonly number[], expected: readonly number[], type: FftType, what: string): void {
  assert.equal(got.length, expected.length, what)
  const largest = expected.reduce((most, each) => Math.max(most, Math.abs(each)), 1e-3)
  const worst = got.reduce((most, each, index) => Math.max(most, Math.abs(each - (expected[index] ?? 0))), 0)
  const allowed = pairsOf(type) ? 1e-13 : 2e-6
  assert.ok(worst / largest < allowed, `${what}: off by ${worst / largest}`)
}

const SIZES: readonly (readonly number[])[] = [
  ...[[1], [2], [8], [64], [3], [5], [7], [12], [97], [100], [4, 8], [3, 5], [8, 7], [2, 3, 4], [3, 4, 5], [1, 6, 1]],
]

async function upload(stream: Stream, type: FftType, values: readonly number[]): Promise<DeviceBuffer> {
  const array = arrayOf(type).from(values)
  const buffer = stream.device.alloc(array.byteLength, { stream })
  await stream.upload(buffer, array)
  return buffer
}

async function download(stream: Stream, type: FftType, buffer: DeviceBuffer): Promise<number[]> {
  return pairsOf(type)
    ? [...(await stream.download(buffer, Float64Array))]
    : [...(await stream.download(buffer, Float32Array))]
}

onEveryBackend('cuFFT', (bench: Workbench) => {
  const stream = bench.stream()
  after(() => stream.close())

  for (const type of ['c2c', 'z2z'] as const) {
    for (const [way, sign] of [['forward', -1] as const, ['inverse', 1] as const]) {
      it(`${type}: ${way}() of each size is what the definition says, in place as well`, async () => {
        for (const shape of SIZES) {
          const count = shape.reduce((product, size) => product * size, 1)
          const batch = 2
          using fft = new Fft({ type, shape, batch, device: stream.device })
          const values = numbers(2 * count * batch)
          const expected = [0, 1].flatMap((index) =>
            definition(values.slice(2 * count * index, 2 * count * (index + 1)), shape, sign),
          )
          using from = await upload(stream, type, values)
          using to = stream.device.alloc(fft.outputBytes, { stream })
          fft[way](stream, from, to)
          assertNear(await download(stream, type, to), expected, type, `[${shape}]`)
          assert.deepEqual(await download(stream, type, from), values, 'the input is left alone')
          fft[way](stream, from)
          assertNear(await download(stream, type, from), expected, type, `[${shape}] in place`)
        }
      })
    }
  }

  for (const [there, back] of [
    ['r2c', 'c2r'],
    ['d2z', 'z2d'],
  ] as const) {
    it(`${there} and ${back}: half of the spectrum, and back from it`, async () => {
      for (const shape of SIZES) {
        const count = shape.reduce((product, size) => product * size, 1)
        using forward = new Fft({ type: there, shape, device: stream.device })
        using inverse = new Fft({ type: back, shape, device: stream.device })
        assert.equal(forward.inputBytes, inverse.outputBytes)
        assert.equal(forward.outputBytes, inverse.inputBytes)
        const values = numbers(count)
        using signal = await upload(stream, there, values)
        using spectrum = stream.device.alloc(forward.outputBytes, { stream })
        forward.forward(stream, signal, spectrum)
        const expected = halfOf(definition(complexOf(values), shape, -1), shape)
        assertNear(await download(stream, there, spectrum), expected, there, `[${shape}]`)
        stream.fill(signal, 0)
        inverse.inverse(stream, spectrum, signal)
        const scaled = values.map((value) => value * count)
        assertNear(await download(stream, there, signal), scaled, there, `back from [${shape}]`)
      }
    })
  }

  it('a transform is work of its stream: it comes behind what is before, and before what is behind', async () => {
    using fft = new Fft({ type: 'c2c', shape: [4], device: stream.device })
    using data = await upload(stream, 'c2c', numbers(8))
    stream.fill(data, 0).fill(data.subarray(0, 4), 0x3f800000, { width: 4 })
    fft.forward(stream, data)
    stream.fill(data.subarray(8, 16), 0)
    assert.deepEqual(await download(stream, 'c2c', data), [1, 0, 0, 0, 1, 0, 1, 0])
  })

  it('buffers and the plan can be closed as soon as it is queued', async () => {
    using other = bench.stream()
    const data = await upload(other, 'c2c', numbers(16))
    const result = stream.device.alloc(64, { stream: other })
    const fft = new Fft({ type: 'c2c', shape: [8], device: stream.device })
    stream.wait(other)
    fft.forward(stream, data, result)
    fft.close()
    data.close()
    other.wait(stream)
    assertNear(await download(other, 'c2c', result), definition(numbers(16), [8], -1), 'c2c', 'after the close')
    result.close()
    assert.equal(fft.closed, true)
  })

  it('one plan serves two streams at the same time: each has its own memory to work in', async () => {
    using other = bench.stream()
    using fft = new Fft({ type: 'c2c', shape: [97], device: stream.device })
    const run = async (on: Stream, seed: number): Promise<void> => {
      using data = await upload(on, 'c2c', numbers(2 * 97, seed))
      fft.forward(on, data)
      assertNear(await download(on, 'c2c', data), definition(numbers(2 * 97, seed), [97], -1), 'c2c', `of ${seed}`)
    }
    await Promise.all([run(stream, 1), run(other, 2)])
    // What a closed stream had is freed when the next stream needs some.
    const third = bench.stream()
    await run(third, 3)
    third.close()
    await run(bench.stream(), 4)
  })

  it('a captured transform is computed by each launch, after the plan was closed too', async () => {
    const fft = new Fft({ type: 'c2c', shape: [4], device: stream.device })
    using data = await upload(stream, 'c2c', [1, 0, 0, 0, 0, 0, 0, 0])
    fft.forward(stream, data)
    const graph: Graph = stream.capture(() => fft.forward(stream, data))
    fft.close()
    using exec = graph.instantiate()
    graph.close()
    await stream.upload(data, Float32Array.of(1, 0, 0, 0, 0, 0, 0, 0))
    stream.launch(exec).launch(exec)
    assert.deepEqual(await download(stream, 'c2c', data), [4, 0, 0, 0, 0, 0, 0, 0])
  })

  it('on a stream that captures, a plan that has not worked there is refused, and the capture goes on', () => {
    using capturing = bench.stream()
    // cuFFT needs no memory to work in for some sizes: for a large prime it does.
    using fft = new Fft({ type: 'c2c', shape: [4099], device: capturing.device })
    using data = stream.device.alloc(fft.inputBytes, { stream: capturing })
    capturing.beginCapture()
    refused(() => fft.forward(capturing, data), 'ERR_UNSUPPORTED', /transform once on this stream before the capture/)
    assert.equal(capturing.endCapture().nodeCount, 0)
  })

  for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
    it(`no plan is made while a blocking stream captures, and the capture goes on: ${mode}`, () => {
      using blocking = bench.stream({ nonBlocking: false })
      const make = (): Fft => new Fft({ type: 'c2c', shape: [8], device: stream.device })
      blocking.beginCapture(mode)
      const { code, message } = refusedByDriver(make, 906)
      assert.equal(code, 'CUDA_ERROR_STREAM_CAPTURE_IMPLICIT')
      assert.match(message, /make the Fft before the capture begins/)
      assert.equal(blocking.endCapture().nodeCount, 0)
      make().close()
    })
  }

  it('refuses what is no transform, and says what is', () => {
    const make = (options: object) => () => new Fft(options as never)
    refused(make({ shape: [4] }), 'ERR_INVALID_ARG_VALUE', /options.type.*undefined/)
    refused(make({ type: 'c2d', shape: [4] }), 'ERR_INVALID_ARG_VALUE', /'c2c'/)
    refused(make({ type: 'c2c', shape: [] }), 'ERR_OUT_OF_RANGE', /one to 3 sizes/)
    refused(make({ type: 'c2c', shape: [1, 1, 1, 1] }), 'ERR_OUT_OF_RANGE', /one to 3 sizes/)
    refused(make({ type: 'c2c', shape: 4 }), 'ERR_INVALID_ARG_TYPE', /options.shape/)
    refused(make({ type: 'c2c', shape: [4, 0] }), 'ERR_OUT_OF_RANGE', /options.shape\[1\]/)
    refused(make({ type: 'c2c', shape: [4], batch: 0 }), 'ERR_OUT_OF_RANGE', /options.batch/)
    refused(() => new Fft(undefined as never), 'ERR_INVALID_ARG_TYPE', /options/)
    using fft = new Fft({ type: 'r2c', shape: [6], device: stream.device })
    using both = new Fft({ type: 'z2z', shape: [2], device: stream.device })
    using input = stream.device.alloc(24, { stream })
    using output = stream.device.alloc(40, { stream })
    refused(() => fft.inverse(stream, input, output), 'ERR_UNSUPPORTED', /make an Fft of type 'c2r' for inverse\(\)/)
    refused(() => fft.forward(stream, input), 'ERR_INVALID_ARG_TYPE', /output/)
    refused(
      () => fft.forward(stream, input.subarray(0, 16), output),
      'ERR_OUT_OF_RANGE',
      /input.*24 bytes.*1 x r2c of 6/,
    )
    refused(() => fft.forward(stream, input, output.subarray(0, 24)), 'ERR_OUT_OF_RANGE', /output.*32 bytes/)
    refused(() => fft.forward(stream, output.subarray(4, 40), output), 'ERR_INVALID_ARG_VALUE', /input.*8 bytes/)
    refused(() => fft.forward(stream, output.subarray(8, 32), output), 'ERR_INVALID_ARG_VALUE', /overlap/)
    refused(() => fft.forward(stream, output, output), 'ERR_INVALID_ARG_VALUE', /overlap/)
    refused(() => both.forward(stream, output.subarray(8, 40)), 'ERR_INVALID_ARG_VALUE', /input.*16 bytes/)
    refused(() => fft.forward(stream, {} as never, output), 'ERR_INVALID_ARG_TYPE', /input/)
    const closed = new Fft({ type: 'c2c', shape: [2], device: stream.device })
    closed.close()
    closed.close()
    refused(() => closed.forward(stream, output), 'ERR_CLOSED', /Fft/)
  })
})

describe('cuFFT on the simulator', () => {
  const bench = simWorkbench()

  it('the input of a transform to real numbers is overwritten, as on a GPU it may be', async () => {
    const stream = bench.stream()
    using fft = new Fft({ type: 'c2r', shape: [2, 2], device: stream.device })
    using input = await upload(stream, 'c2r', Array(8).fill(1))
    using output = stream.device.alloc(fft.outputBytes, { stream })
    fft.inverse(stream, input, output)
    assert.ok((await download(stream, 'c2r', input)).every(Number.isNaN))
  })

  it('a graph and its plan, used at the same time, are a race in the memory that both work in', async () => {
    const [stream, other] = [bench.stream(), bench.stream()]
    const { device } = stream
    using fft = new Fft({ type: 'c2c', shape: [8], device: stream.device })
    using first = device.alloc(64, { stream })
    using second = device.alloc(64, { stream })
    stream.fill(first, 0).fill(second, 0)
    fft.forward(stream, first)
    const sanitizer = Sanitizer.start({ device, mode: 'collect' })
    using graph = stream.capture(() => fft.forward(stream, first))
    using exec = graph.instantiate()
    other.wait(stream)
    stream.launch(exec)
    fft.forward(stream, second)
    assert.equal(sanitizer.reports.length, 0, 'on one stream they come one after the other')
    other.launch(exec)
    await Promise.all([stream.finished(), other.finished()])
    sanitizer.stop()
    assert.deepEqual(
      sanitizer.reports.map(({ message }) => /cufftExecC2C/.test(message)),
      [true],
    )
  })

  it('two streams that use one plan have nothing in common: there is only one order', async () => {
    const result = await explore(async ({ devices: [device] }) => {
      assert.ok(device)
      const [a, b] = [device.createStream(), device.createStream()]
      using fft = new Fft({ type: 'c2c', shape: [2], device })
      const [x, y] = [device.alloc(16, { stream: a }), device.alloc(16, { stream: b })]
      a.fill(x, 0x3f, { width: 1 })
      b.fill(y, 0x3f, { width: 1 })
      fft.forward(a, x)
      fft.forward(b, y)
      assert.deepEqual(await a.download(x), await b.download(y))
    })
    assert.equal(result.runs, 1)
  })

  it('inside a host function the first of a kind is ERR_DEADLOCK, and later ones are not', () => {
    const stream = bench.stream()
    using fft = new Fft({ type: 'c2c', shape: [6], device: stream.device })
    using data = stream.device.alloc(48, { stream })
    const inside = (act: () => void): void => insideHostFunction(stream, act)
    inside(() => refused(() => new Fft({ type: 'c2c', shape: [5], device: stream.device }), 'ERR_DEADLOCK'))
    inside(() => refused(() => fft.forward(stream, data), 'ERR_DEADLOCK'))
    fft.forward(stream, data)
    inside(() => void fft.forward(stream, data))
  })
})
