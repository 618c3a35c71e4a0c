/** What is no race: atomic operations among each other, and matrices whose rows lie between each other's. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type DeviceBuffer, defineKernel, Stream } from 'cuda-streams'
import { Cublas, type GemmOptions, type StridedBatchOptions } from 'cuda-streams/cublas'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { type Simulation, simulate } from 'cuda-streams/sim'

async function kindsOf(program: (simulation: Simulation) => unknown): Promise<readonly string[]> {
  using simulation = simulate()
  using sanitizer = Sanitizer.start({ device: simulation.devices[0] })
  await program(simulation)
  return sanitizer.reports.map(({ kind }) => kind)
}

describe('words of a signature', () => {
  type Launch = (stream: Stream, data: DeviceBuffer) => unknown
  const shape = { grid: 1, block: 1 }
  const launchOf = (word: 'in' | 'out' | 'inout' | 'atomic'): Launch => {
    const simulate = (_: unknown, words: Uint32Array): void => void words.fill(1)
    const kernel = defineKernel({ name: word, source: 'not compiled', signature: [`${word} u32*`], simulate })
    return (stream, data) => stream.launch(kernel, shape, data)
  }
  const long = defineKernel({
    name: 'long',
    source: 'not compiled',
    signature: ['inout atomic u32*'],
    simulate(_, words) {
      words[0] = (words[0] ?? 0) + 1
    },
  })
  const count = launchOf('atomic')
  const kernels: Readonly<Record<string, Launch>> = {
    in: launchOf('in'),
    out: launchOf('out'),
    inout: launchOf('inout'),
    atomic: count,
    'inout atomic': (stream, data) => stream.launch(long, shape, data),
  }
  const isAtomic = (word: string): boolean => word.endsWith('atomic')

  for (const [one, first] of Object.entries(kernels)) {
    for (const [other, second] of Object.entries(kernels)) {
      const racy = !(one === 'in' && other === 'in') && !(isAtomic(one) && isAtomic(other))
      it(`'${one}' and '${other}' ${racy ? 'race' : 'do not race'}`, async () => {
        const kinds = await kindsOf(({ devices: [device] }) => {
          assert.ok(device)
          const data = device.alloc(4)
          device.synchronize()
          for (const launch of [first, second]) launch(new Stream({ device }), data)
        })
        assert.deepEqual(kinds, racy ? ['race'] : [])
      })
    }
  }

  it('a write that waits for one of two atomic operations races with the other', async () => {
    const kinds = await kindsOf(({ devices: [device] }) => {
      assert.ok(device)
      const data = device.alloc(4)
      device.synchronize()
      const [one, other, later] = [new Stream({ device }), new Stream({ device }), new Stream({ device })]
      for (const stream of [one, other]) count(stream, data)
      later.wait(other).fill(data, 0)
    })
    assert.deepEqual(kinds, ['race'])
  })

  it("may be said of a library's work", async () => {
    const kinds = await kindsOf(({ devices: [device] }) => {
      assert.ok(device)
      const data = device.alloc(4)
      device.synchronize()
      const memory = [{ buffer: data, access: 'atomic' as const }]
      for (let count = 0; count < 2; count += 1) {
        new Stream({ device }).external({ name: 'count', memory, simulate: () => {} }, () => {})
      }
    })
    assert.deepEqual(kinds, [])
  })
})

describe('a matrix with gaps between its rows', () => {
  const SIZE = 4
  const all = SIZE * SIZE
  /** A product into a part of a matrix of four by four. */
  type Part = { readonly at: number; readonly options: Partial<StridedBatchOptions & GemmOptions> }
  const half = (at: number): Part => ({ at, options: { m: 4, n: 2, ldc: SIZE } })
  const quarter = (at: number): Part => ({ at, options: { m: 2, n: 2, ldc: SIZE } })
  const heads = (at: number): Part => ({ at, options: { m: 4, n: 1, ldc: SIZE, batchCount: 2, strideC: 2 } })
  const whole: Part = { at: 0, options: { m: 4, n: 4 } }

  const multiply = (stream: Stream, one: DeviceBuffer, to: DeviceBuffer, { at, options }: Part): void => {
    const c = to.subarray(4 * at, 4 * at + 4 * (all - at))
    const cublas = new Cublas({ device: stream.device })
    const shape = { type: 'f32' as const, m: 1, n: 1, k: 1, ...options }
    if (options.batchCount === undefined) cublas.gemm(stream, one, one, c, shape)
    else cublas.gemmStridedBatched(stream, one, one, c, { batchCount: 1, ...shape })
  }

  /** Which elements a part has, found by looking at what a product writes. */
  async function elementsOf(part: Part): Promise<readonly boolean[]> {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const stream = new Stream({ device })
    const [one, to] = [device.alloc(4 * all), device.alloc(4 * all)]
    stream.upload(one, new Float32Array(all).fill(1))
    stream.fill(to, 0)
    multiply(stream, one, to, part)
    return [...new Float32Array((await stream.download(to)).buffer)].map((value) => value !== 0)
  }

  const parts: Readonly<Record<string, Part>> = {
    'left half': half(0),
    'middle half': half(1),
    'right half': half(2),
    'upper left quarter': quarter(0),
    'upper right quarter': quarter(2),
    'lower left quarter': quarter(8),
    'even columns': heads(0),
    'odd columns': heads(1),
    whole,
  }
  for (const [one, first] of Object.entries(parts)) {
    for (const [other, second] of Object.entries(parts)) {
      it(`${one} and ${other}`, async () => {
        const [these, those] = [await elementsOf(first), await elementsOf(second)]
        const racy = these.some((is, index) => is && those[index])
        const kinds = await kindsOf(({ devices: [device] }) => {
          assert.ok(device)
          const [ones, to] = [device.alloc(4 * all), device.alloc(4 * all)]
          device.synchronize()
          for (const part of [first, second]) multiply(new Stream({ device }), ones, to, part)
        })
        assert.equal(kinds.length > 0, racy)
      })
    }
  }

  it('does not take the place of what it leaves as it was', async () => {
    const kinds = await kindsOf(({ devices: [device] }) => {
      assert.ok(device)
      const [ones, to] = [device.alloc(4 * all), device.alloc(4 * all)]
      device.synchronize()
      const [left, right, later] = [new Stream({ device }), new Stream({ device }), new Stream({ device })]
      multiply(left, ones, to, half(0))
      right.wait(left)
      multiply(right, ones, to, half(2))
      // Ordered with neither: with the left half, which the right one has not written over, it races too.
      multiply(later, ones, to, half(0))
    })
    assert.deepEqual(kinds, ['race'])
  })

  it('is as much to remember after many products as after a few', () => {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using sanitizer = Sanitizer.start({ device })
    const [ones, to] = [device.alloc(4 * all), device.alloc(4 * all)]
    device.synchronize()
    const stream = new Stream({ device })
    const round = (): number => {
      for (const part of [half(0), half(2), heads(1)]) multiply(stream, ones, to, part)
      return sanitizer.statistics.ranges
    }
    for (let count = 0; count < 4; count += 1) round()
    const few = round()
    for (let count = 0; count < 500; count += 1) round()
    assert.ok(round() <= few)
  })
})
