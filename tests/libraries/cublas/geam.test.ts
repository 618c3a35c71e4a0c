/** Sums and transpositions: the numbers, where C may lie, their order among other work, captures, and what is refused before. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { DeviceBuffer, Stream } from 'cuda-streams'
import { Cublas, type GeamOptions } from 'cuda-streams/cublas'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'
import { refused } from '../../conformance/expect.js'
import { onEveryBackend } from '../../helpers/suite.js'
import { simWorkbench, type Workbench } from '../../helpers/workbench.js'
import { decode, encode, type Product, wholeNumbers } from '../matrices.js'

type Sum = Omit<Product, 'k'>

/** alpha · A + beta · B, from elements that lie without gaps. A matrix whose factor is 0 is ignored. */
function sum({ m, n, transposeA, transposeB, alpha, beta, order }: Sum, a: readonly number[], b: readonly number[]) {
  const at = (rows: number, columns: number, row: number, column: number): number =>
    order === 'row' ? row * columns + column : column * rows + row
  const scaled = (factor: number, of: readonly number[], transposed: boolean, row: number, column: number): number =>
    factor === 0 ? 0 : factor * (of[transposed ? at(n, m, column, row) : at(m, n, row, column)] ?? 0)
  const result = Array<number>(m * n).fill(0)
  for (let row = 0; row < m; row += 1) {
    for (let column = 0; column < n; column += 1) {
      const value = scaled(alpha, a, transposeA, row, column) + scaled(beta, b, transposeB, row, column)
      result[at(m, n, row, column)] = value + 0
    }
  }
  return result
}

const FACTORS: readonly Pick<Sum, 'alpha' | 'beta'>[] = [
  { alpha: 1, beta: 1 },
  { alpha: 2, beta: -3 },
  { alpha: 1, beta: -1 },
  { alpha: 0.5, beta: 0 },
  { alpha: 0, beta: 2 },
  { alpha: 0, beta: 0 },
]
const nothing = (count: number): number[] => Array(count).fill(Number.NaN)
const floats = (count: number): Float32Array =>
  Float32Array.from({ length: count }, (_, index) => Math.sin(index + 1) * 10 ** ((index % 9) - 4))

onEveryBackend('sums by cuBLAS', (bench: Workbench) => {
  const stream = bench.stream()
  after(() => stream.close())
  const bufferOf = (type: 'f32' | 'f64', values: readonly number[]): DeviceBuffer =>
    stream.bufferFrom(encode(type, values))

  for (const type of ['f32', 'f64'] as const) {
    it(`${type}: every order, transposition, alpha and beta gives the sum of the definition`, async () => {
      using cublas = new Cublas({ device: stream.device })
      const [m, n] = [5, 7]
      let seed = 1
      for (const order of ['row', 'column'] as const) {
        for (const transposeA of [false, true]) {
          for (const transposeB of [false, true]) {
            for (const { alpha, beta } of FACTORS) {
              const s: Sum = { m, n, transposeA, transposeB, alpha, beta, order }
              const [a, b] = [wholeNumbers(m * n, seed), wholeNumbers(m * n, seed + 1)]
              seed += 2
              using A = bufferOf(type, alpha === 0 ? nothing(m * n) : a)
              using B = bufferOf(type, beta === 0 ? nothing(m * n) : b)
              using C = bufferOf(type, nothing(m * n))
              cublas.geam(stream, A, B, C, { type, ...s })
              assert.deepEqual(decode(type, await stream.download(C)), sum(s, a, b), JSON.stringify(s))
            }
          }
        }
      }
    })
  }

  it('alpha and beta are 1 by default, and without B beta is 0', async () => {
    using cublas = new Cublas({ device: stream.device })
    using A = bufferOf('f32', [1, 2, 3, 4])
    using B = bufferOf('f32', [10, 20, 30, 40])
    using C = bufferOf('f32', nothing(4))
    cublas.geam(stream, A, B, C, { type: 'f32', m: 2, n: 2 })
    assert.deepEqual(decode('f32', await stream.download(C)), [11, 22, 33, 44])
    cublas.geam(stream, A, undefined, C, { type: 'f32', m: 2, n: 2, alpha: 3 })
    assert.deepEqual(decode('f32', await stream.download(C)), [3, 6, 9, 12])
  })

  it('f32: factors are rounded to f32 first, and the sum is', async () => {
    using cublas = new Cublas({ device: stream.device })
    using A = bufferOf('f32', [9, 2 ** 24])
    using B = bufferOf('f32', [0, 1])
    using C = bufferOf('f32', nothing(2))
    cublas.geam(stream, A, undefined, C, { type: 'f32', m: 1, n: 2, alpha: 0.1 })
    const rounded = [9, 2 ** 24].map((value) => Math.fround(Math.fround(0.1) * value))
    assert.notEqual(rounded[0], Math.fround(0.1 * 9))
    assert.deepEqual(decode('f32', await stream.download(C)), rounded)
    cublas.geam(stream, A, B, C, { type: 'f32', m: 1, n: 2 })
    assert.deepEqual(decode('f32', await stream.download(C)), [9, 2 ** 24])
  })

  it('a transposition keeps every bit, and two of them give the matrix again', async () => {
    using cublas = new Cublas({ device: stream.device })
    // Pixels with three colours each, and the planes of the colours.
    const [pixels, colours] = [35 * 21, 3]
    const values = floats(pixels * colours)
    using hwc = stream.bufferFrom(values)
    using chw = stream.device.alloc(values.byteLength, { stream })
    using again = stream.device.alloc(values.byteLength, { stream })
    cublas.geam(stream, hwc, undefined, chw, { type: 'f32', m: colours, n: pixels, transposeA: true })
    cublas.geam(stream, chw, undefined, again, { type: 'f32', m: pixels, n: colours, transposeA: true })
    const planes = Float32Array.from(values, (_, at) => values[(at % pixels) * colours + Math.floor(at / pixels)] ?? 0)
    assert.deepEqual(await stream.download(chw, Float32Array), planes)
    assert.deepEqual(await stream.download(again, Float32Array), values)
  })

  it('rows may lie apart: what is between them is left alone', async () => {
    using cublas = new Cublas({ device: stream.device })
    using A = bufferOf('f32', [1, 2, 99, 3, 4])
    using B = bufferOf('f32', [10, 30, 99, 99, 20, 40])
    using C = bufferOf('f32', [0, 0, 77, 77, 77, 0, 0])
    cublas.geam(stream, A, B, C, { type: 'f32', m: 2, n: 2, lda: 3, ldb: 4, ldc: 5, transposeB: true })
    assert.deepEqual(decode('f32', await stream.download(C)), [11, 22, 77, 77, 77, 33, 44])
    cublas.geam(stream, A, undefined, C, { type: 'f32', m: 2, n: 2, lda: 3, ldc: 5, order: 'column', transposeA: true })
    assert.deepEqual(decode('f32', await stream.download(C)), [1, 3, 77, 77, 77, 2, 4])
  })

  it('C may be A or B as it is, and nothing else that has elements in common with them', async () => {
    using cublas = new Cublas({ device: stream.device })
    const size = { type: 'f32', m: 2, n: 2 } as const
    using other = bufferOf('f32', [10, 20, 30, 40])
    using data = bufferOf('f32', [1, 2, 3, 4, 9, 9])
    cublas.geam(stream, data, other, data, { ...size, transposeB: true })
    assert.deepEqual(decode('f32', await stream.download(data)), [11, 32, 23, 44, 9, 9])
    cublas.geam(stream, other, data, data, { ...size, beta: -1 })
    assert.deepEqual(decode('f32', await stream.download(data)), [-1, -12, 7, -4, 9, 9])
    cublas.geam(stream, data, data, data, size)
    cublas.geam(stream, data, undefined, data, { ...size, alpha: 0.5 })
    assert.deepEqual(decode('f32', await stream.download(data)), [-1, -12, 7, -4, 9, 9])
    const part = data.subarray(4, 24)
    for (const [letter, act] of [
      ['A', () => cublas.geam(stream, data, other, data, { ...size, transposeA: true })],
      ['A', () => cublas.geam(stream, data, undefined, data, { ...size, transposeA: true })],
      ['A', () => cublas.geam(stream, data, other, data, { ...size, lda: 3 })],
      ['A', () => cublas.geam(stream, part, other, data, size)],
      ['B', () => cublas.geam(stream, other, data, data, { ...size, transposeB: true })],
      ['B', () => cublas.geam(stream, other, data, data, { ...size, ldc: 3 })],
      ['B', () => cublas.geam(stream, other, data, part, { ...size, beta: 0 })],
    ] as const) {
      refused(act, 'ERR_INVALID_ARG_VALUE', new RegExp(`^${letter} and C have elements in common: C can be ${letter}`))
    }
    // Two halves of one matrix of 2 x 3, each with its rows between those of the other.
    cublas.geam(stream, data, undefined, data.subarray(8, 24), { type: 'f32', m: 2, n: 1, lda: 3, ldc: 3 })
    assert.deepEqual(decode('f32', await stream.download(data)), [-1, -12, -1, -4, 9, -4])
  })

  it('another stream sees the sum only after a wait, and without one what was there before', async () => {
    using cublas = new Cublas({ device: stream.device })
    using other = bench.stream()
    using A = bufferOf('f32', [1, 2, 3])
    using C = bufferOf('f32', [0, 0, 0])
    using seen = stream.device.alloc(12, { stream: other })
    const options: GeamOptions = { type: 'f32', m: 3, n: 1 }
    // The first of a kind may wait for the device, which would wait for the latch.
    cublas.geam(stream, A, A, C, options)
    for (const waits of [false, true]) {
      stream.fill(C, 0)
      stream.synchronize()
      using latch = bench.latch(stream)
      cublas.geam(stream, A, A, C, options)
      if (waits) other.wait(stream)
      other.copy(seen, C)
      const bytes = other.download(seen)
      if (!waits) assert.deepEqual(decode('f32', await bytes), [0, 0, 0])
      latch.open()
      assert.deepEqual(decode('f32', await bytes), waits ? [2, 4, 6] : [0, 0, 0])
      await stream.finished()
    }
  })

  it('is captured with its factors, and runs with each launch', async () => {
    using workspace = stream.device.alloc(32 * 1024 * 1024, { stream })
    using cublas = new Cublas({ device: stream.device, workspace })
    using A = bufferOf('f32', [3, 4])
    using C = bufferOf('f32', [1, 1])
    const options: GeamOptions = { type: 'f32', m: 2, n: 1, alpha: 2, beta: 1 }
    cublas.geam(stream, A, C, C, options)
    stream.synchronize()
    using graph = stream.capture(() => {
      cublas.geam(stream, A, C, C, options)
    })
    // The factors are read during the call: those of a later one are not taken.
    cublas.geam(stream, A, C, C, { ...options, alpha: 100 })
    assert.deepEqual(decode('f32', await stream.download(C)), [307, 409], 'a capture computes nothing')
    using exec = graph.instantiate()
    exec.launch(stream)
    exec.launch(stream)
    assert.deepEqual(decode('f32', await stream.download(C)), [319, 425])
  })

  it('buffers may be closed at once: their memory is given back after the sum', async () => {
    using cublas = new Cublas({ device: stream.device })
    using other = bench.stream()
    using C = bufferOf('f32', [0])
    for (let round = 1; round <= 20; round += 1) {
      const [A, B] = [other.bufferFrom(Float32Array.of(round)), other.bufferFrom(Float32Array.of(2))]
      await other.finished()
      bench.busy(stream, 50_000)
      cublas.geam(stream, A, B, C, { type: 'f32', m: 1, n: 1 })
      A.close()
      B.close()
      // These would take the memory of A and B, were it free already.
      using next = stream.device.alloc(4, { stream: other })
      using after = stream.device.alloc(4, { stream: other })
      other.fill(next, 255).fill(after, 255)
      assert.deepEqual(decode('f32', await stream.download(C)), [round + 2])
    }
  })

  it('refuses wrong arguments by name, and queues nothing', async () => {
    using cublas = new Cublas({ device: stream.device })
    using A = bufferOf('f32', [1, 2, 3, 4])
    using C = bufferOf('f32', [9, 9, 9, 9])
    const ok: GeamOptions = { type: 'f32', m: 2, n: 2 }
    const geam = (options: unknown, { a = A, b = A, c = C }: { a?: unknown; b?: unknown; c?: unknown } = {}): unknown =>
      cublas.geam(stream, a as DeviceBuffer, b as DeviceBuffer, c as DeviceBuffer, options as GeamOptions)
    refused(() => geam(undefined), 'ERR_INVALID_ARG_TYPE', /options.*\{ type, m, n \}/)
    refused(() => geam({ ...ok, k: 2 }), 'ERR_INVALID_ARG_VALUE', /k/)
    for (const type of ['f16', 'bf16', 'f8']) {
      refused(
        () => geam({ ...ok, type }),
        'ERR_INVALID_ARG_VALUE',
        new RegExp(`options\\.type.*'f32' or 'f64'.*${type}`),
      )
    }
    refused(() => geam({ ...ok, m: -1 }), 'ERR_OUT_OF_RANGE', /options\.m/)
    refused(() => geam({ ...ok, n: 2 ** 31 }), 'ERR_OUT_OF_RANGE', /options\.n/)
    refused(() => geam({ ...ok, n: 3 }), 'ERR_OUT_OF_RANGE', /^A must be 24 bytes.*not 16/)
    refused(() => geam({ ...ok, ldb: 1 }), 'ERR_OUT_OF_RANGE', /options\.ldb.*at least 2/)
    refused(() => geam({ ...ok, m: 1, n: 3, ldb: 2, transposeA: true }), 'ERR_OUT_OF_RANGE', /options\.ldb.*at least 3/)
    refused(() => geam({ ...ok, ldb: 3 }), 'ERR_OUT_OF_RANGE', /^B must be 20 bytes/)
    refused(() => geam({ ...ok, ldc: 3 }), 'ERR_OUT_OF_RANGE', /^C must be 20 bytes/)
    refused(() => geam({ ...ok, order: 'rows' }), 'ERR_INVALID_ARG_VALUE', /options\.order/)
    refused(() => geam({ ...ok, transposeB: 1 }), 'ERR_INVALID_ARG_TYPE', /options\.transposeB/)
    refused(() => geam({ ...ok, beta: '1' }), 'ERR_INVALID_ARG_TYPE', /options\.beta/)
    refused(() => geam(ok, { a: 5 }), 'ERR_INVALID_ARG_TYPE', /^A must be a DeviceBuffer/)
    refused(() => geam(ok, { b: null }), 'ERR_INVALID_ARG_TYPE', /^B must be a DeviceBuffer/)
    refused(() => geam(ok, { b: A.subarray(2, 14) }), 'ERR_INVALID_ARG_VALUE', /^B begins in the middle/)
    refused(() => geam(ok, { b: simWorkbench().device.alloc(16) }), 'ERR_DEVICE_MISMATCH', /^B is on/)
    const closed = stream.device.alloc(16, { stream })
    closed.close()
    refused(() => geam(ok, { b: closed }), 'ERR_CLOSED')
    refused(() => geam({ ...ok, beta: 0 }, { b: closed }), 'ERR_CLOSED')
    refused(
      () => cublas.geam(stream, A, undefined, C, { ...ok, beta: 1 }),
      'ERR_INVALID_ARG_VALUE',
      /^options\.beta.*not 1$/,
    )
    cublas.close()
    refused(() => geam(ok), 'ERR_CLOSED')
    assert.deepEqual(decode('f32', await stream.download(C)), [9, 9, 9, 9])
  })

  it('memory of another library is taken too', async () => {
    using cublas = new Cublas({ device: stream.device })
    using A = bufferOf('f32', [7])
    using theirs = DeviceBuffer.from(A.pointer, 4, { device: bench.device })
    using C = bufferOf('f32', [0])
    cublas.geam(stream, theirs, theirs, C, { type: 'f32', m: 1, n: 1 })
    assert.deepEqual(decode('f32', await stream.download(C)), [14])
  })
})

describe('what the sanitizer is told of a sum', () => {
  const size = { type: 'f32', m: 2, n: 2 } as const
  type Buffers = { readonly a: DeviceBuffer; readonly b: DeviceBuffer; readonly c: DeviceBuffer }
  type Add = (cublas: Cublas, stream: Stream, buffers: Buffers) => unknown

  /** How many races there are if another stream fills the first eight bytes of one buffer before the sum. */
  function racesWith(letter: keyof Buffers, add: Add, waits = false): number {
    using simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    using sanitizer = Sanitizer.start({ device })
    const [a, b, c] = [device.alloc(32), device.alloc(32), device.alloc(32)]
    const [stream, other] = [new Stream({ device }), new Stream({ device })]
    device.synchronize()
    other.fill({ a, b, c }[letter].subarray(0, 8), 0)
    if (waits) stream.wait(other)
    add(new Cublas({ device }), stream, { a, b, c })
    return sanitizer.reports.length
  }

  const both: Add = (cublas, stream, { a, b, c }) => cublas.geam(stream, a, b, c, size)
  for (const letter of ['a', 'b', 'c'] as const) {
    it(`a missing wait for what writes ${letter.toUpperCase()} is a race, and with the wait there is none`, () => {
      assert.equal(racesWith(letter, both), 1)
      assert.equal(racesWith(letter, both, true), 0)
    })
  }

  it('B is not read where it is undefined, nor A and B where their factor is 0', () => {
    assert.equal(
      racesWith('b', (cublas, stream, { a, c }) => cublas.geam(stream, a, undefined, c, { ...size, transposeA: true })),
      0,
    )
    assert.equal(
      racesWith('a', (cublas, stream, { a, c }) => cublas.geam(stream, a, undefined, c, { ...size, transposeA: true })),
      1,
    )
    assert.equal(
      racesWith('b', (cublas, stream, { a, b, c }) => cublas.geam(stream, a, b, c, { ...size, beta: 0 })),
      0,
    )
    assert.equal(
      racesWith('a', (cublas, stream, { a, b, c }) => cublas.geam(stream, a, b, c, { ...size, alpha: 0 })),
      0,
    )
  })

  it('of rows that lie apart only those are touched', () => {
    // Columns 2 and 3 of matrices of two by four: the fill is of columns 0 and 1.
    const right = (buffer: DeviceBuffer): DeviceBuffer => buffer.subarray(8, 32)
    const apart = { ...size, lda: 4, ldb: 4, ldc: 4 }
    const left: Add = (cublas, stream, { a, b, c }) => cublas.geam(stream, a, b, c, apart)
    const beside: Add = (cublas, stream, { a, b, c }) => cublas.geam(stream, right(a), right(b), right(c), apart)
    for (const letter of ['a', 'b', 'c'] as const) {
      assert.equal(racesWith(letter, left), 1)
      assert.equal(racesWith(letter, beside), 0)
    }
  })

  it('in place it races with others, and not with itself', () => {
    const inPlace: Add = (cublas, stream, { a, b }) => cublas.geam(stream, a, b, a, size)
    assert.equal(racesWith('a', inPlace), 1)
    assert.equal(racesWith('b', inPlace), 1)
    assert.equal(racesWith('c', inPlace), 0)
    assert.equal(racesWith('a', inPlace, true), 0)
  })
})
