/** Matrix products: the numbers, their order among other work, captures, and everything that is refused before. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { DeviceBuffer, type Stream } from 'cuda-streams'
import { Cublas, type GemmOptions, type GemmType, LibraryError } from 'cuda-streams/cublas'
import { refused } from '../../conformance/expect.js'
import { onEveryBackend } from '../../helpers/suite.js'
import { simWorkbench, type Workbench } from '../../helpers/workbench.js'
import { decode, encode, type Product, product, wholeNumbers } from '../matrices.js'

const TYPES: readonly GemmType[] = ['f32', 'f16', 'bf16', 'f64']

async function onDevice(stream: Stream, bytes: Uint8Array): Promise<DeviceBuffer> {
  const buffer = stream.device.alloc(bytes.length, { stream })
  void stream.upload(buffer, bytes)
  await stream.finished()
  return buffer
}

onEveryBackend('cuBLAS', (bench: Workbench) => {
  const stream = bench.stream()
  after(() => stream.close())

  for (const type of TYPES) {
    it(`${type}: every order, transposition, alpha and beta gives the product of the definition`, async () => {
      using cublas = new Cublas({ device: stream.device })
      let seed = 1
      for (const order of ['row', 'column'] as const) {
        for (const [transposeA, transposeB] of [
          [false, false],
          [true, false],
          [false, true],
          [true, true],
        ] as const) {
          for (const [alpha, beta] of [
            [1, 0],
            [2, -1],
          ] as const) {
            const p: Product = { m: 5, n: 7, k: 9, transposeA, transposeB, alpha, beta, order }
            const [a, b, c] = [wholeNumbers(45, seed), wholeNumbers(63, seed + 1), wholeNumbers(35, seed + 2)]
            seed += 3
            const before = beta === 0 ? c.map(() => Number.NaN) : c
            using A = await onDevice(stream, encode(type, a))
            using B = await onDevice(stream, encode(type, b))
            using C = await onDevice(stream, encode(type, before))
            cublas.gemm(stream, A, B, C, { type, ...p })
            const got = decode(type, await stream.download(C))
            assert.deepEqual(got, product(p, a, b, c), JSON.stringify(p))
          }
        }
      }
    })

    it(`${type}: sums are kept in more than 16 bits`, async () => {
      using cublas = new Cublas({ device: stream.device })
      // 4096 products of 1/4: in f16 itself a sum of 512 and more has steps of 1/2 and would stand still.
      const k = 4096
      const quarter = encode(type, Array(k).fill(0.5))
      using A = await onDevice(stream, quarter)
      using B = await onDevice(stream, quarter)
      using C = await onDevice(stream, encode(type, [0]))
      cublas.gemm(stream, A, B, C, { type, m: 1, n: 1, k })
      assert.deepEqual(decode(type, await stream.download(C)), [1024])
    })

    it(`${type}: a batch, with a stride of its own and one matrix for all`, async () => {
      using cublas = new Cublas({ device: stream.device })
      const p: Product = { m: 3, n: 4, k: 2, transposeA: false, transposeB: true, alpha: 1, beta: 1, order: 'row' }
      const [a, b] = [wholeNumbers(6, 5), wholeNumbers(3 * 11, 6)]
      const c = wholeNumbers(3 * 12, 7)
      using A = await onDevice(stream, encode(type, a))
      using B = await onDevice(stream, encode(type, b))
      using C = await onDevice(stream, encode(type, c))
      cublas.gemmStridedBatched(stream, A, B, C, { type, ...p, batchCount: 3, strideA: 0, strideB: 11 })
      const expected = [0, 1, 2].flatMap((i) =>
        product(p, a, b.slice(i * 11, i * 11 + 8), c.slice(i * 12, i * 12 + 12)),
      )
      assert.deepEqual(decode(type, await stream.download(C)), expected)
    })
  }

  it('rows may lie apart: what is between them is left alone', async () => {
    using cublas = new Cublas({ device: stream.device })
    const [m, n, k] = [2, 3, 2]
    using A = await onDevice(stream, encode('f32', [1, 2, 99, 3, 4]))
    using B = await onDevice(stream, encode('f32', [1, 0, 1, 99, 0, 1, 1]))
    using C = await onDevice(stream, encode('f32', [0, 0, 0, 77, 77, 0, 0, 0]))
    cublas.gemm(stream, A, B, C, { type: 'f32', m, n, k, lda: 3, ldb: 4, ldc: 5 })
    assert.deepEqual(decode('f32', await stream.download(C)), [1, 2, 3, 77, 77, 3, 4, 7])
  })

  it('alpha and beta are rounded to f32 before they are multiplied by, unless the elements are f64', async () => {
    using cublas = new Cublas({ device: stream.device })
    const factor = 0.1
    const rounded = Math.fround(factor)
    using one = stream.bufferFrom(Float32Array.of(1))
    using zero = stream.bufferFrom(Float32Array.of(0))
    const seen: boolean[] = []
    for (const x of [3, 9, 13, 4093]) {
      using X = stream.bufferFrom(Float32Array.of(x))
      const options: GemmOptions = { type: 'f32', m: 1, n: 1, k: 1 }
      using byAlpha = stream.bufferFrom(Float32Array.of(0))
      cublas.gemm(stream, X, one, byAlpha, { ...options, alpha: factor })
      using byBeta = stream.bufferFrom(Float32Array.of(x))
      cublas.gemm(stream, zero, one, byBeta, { ...options, beta: factor })
      const expected = Math.fround(rounded * x)
      assert.deepEqual(decode('f32', await stream.download(byAlpha)), [expected], `alpha ${x}`)
      assert.deepEqual(decode('f32', await stream.download(byBeta)), [expected], `beta ${x}`)
      seen.push(expected !== Math.fround(factor * x))
    }
    assert.ok(seen.includes(true), 'each is the same with a factor of f64')
    using X = stream.bufferFrom(Float64Array.of(3))
    using one64 = stream.bufferFrom(Float64Array.of(1))
    using C = stream.bufferFrom(Float64Array.of(0))
    cublas.gemm(stream, X, one64, C, { type: 'f64', m: 1, n: 1, k: 1, alpha: factor })
    assert.deepEqual(decode('f64', await stream.download(C)), [factor * 3])
  })

  it('a matrix may have more elements than four million', async () => {
    using cublas = new Cublas({ device: stream.device })
    const k = 2049
    using A = stream.device.alloc(k * k * 4, { stream })
    using B = await onDevice(stream, encode('f32', Array(k).fill(1)))
    using C = stream.device.alloc(k * 4, { stream })
    const one = new Uint32Array(Float32Array.of(1).buffer)[0] ?? 0
    stream.fill(A, one, { width: 4 })
    cublas.gemm(stream, A, B, C, { type: 'f32', m: k, n: 1, k })
    assert.deepEqual(decode('f32', await stream.download(C)), Array(k).fill(k))
  })

  for (const order of ['row', 'column'] as const) {
    it(`${order}: the matrices of a batch may lie side by side, as those of attention heads do`, async () => {
      using cublas = new Cublas({ device: stream.device })
      const p: Product = { m: 4, n: 4, k: 3, transposeA: false, transposeB: false, alpha: 1, beta: 1, order }
      const [heads, apart] = [3, 13]
      const [a, b] = [wholeNumbers(heads * 12, 11), wholeNumbers(heads * 12, 12)]
      // Each line has those of all heads, and an element more that nobody has.
      const c = wholeNumbers(3 * apart + heads * 4, 13)
      using A = await onDevice(stream, encode('f32', a))
      using B = await onDevice(stream, encode('f32', b))
      using C = await onDevice(stream, encode('f32', c))
      cublas.gemmStridedBatched(stream, A, B, C, { type: 'f32', ...p, batchCount: heads, ldc: apart, strideC: 4 })
      const expected = [...c]
      for (let head = 0; head < heads; head += 1) {
        const at = (line: number, index: number): number => line * apart + head * 4 + index
        const old = Array.from({ length: 16 }, (_, index) => c[at(index >> 2, index & 3)] ?? 0)
        const result = product(p, a.slice(head * 12, head * 12 + 12), b.slice(head * 12, head * 12 + 12), old)
        for (const [index, value] of result.entries()) expected[at(index >> 2, index & 3)] = value
      }
      assert.deepEqual(decode('f32', await stream.download(C)), expected)
      const short = C.subarray(0, C.byteLength - 4)
      refused(
        () =>
          cublas.gemmStridedBatched(stream, A, B, short, {
            type: 'f32',
            ...p,
            batchCount: heads,
            ldc: apart,
            strideC: 4,
          }),
        'ERR_OUT_OF_RANGE',
        /^C must be 204 bytes/,
      )
    })
  }

  it('comes after what its stream did before, and before what follows', async () => {
    using cublas = new Cublas({ device: stream.device })
    using A = stream.device.alloc(4, { stream })
    using C = stream.device.alloc(4, { stream })
    using copy = stream.device.alloc(4, { stream })
    for (let round = 1; round <= 50; round += 1) {
      bench.busy(stream, 20_000)
      void stream.upload(A, Float32Array.of(round))
      cublas.gemm(stream, A, A, C, { type: 'f32', m: 1, n: 1, k: 1 })
      stream.copy(copy, C)
      assert.deepEqual(decode('f32', await stream.download(copy)), [round * round])
    }
  })

  it('another stream sees the product only after a wait, and without one what was there before', async () => {
    using cublas = new Cublas({ device: stream.device })
    using other = bench.stream()
    const n = 8
    const options: GemmOptions = { type: 'f32', m: n, n, k: n }
    using A = await onDevice(stream, encode('f32', Array(n * n).fill(1)))
    using C = await onDevice(stream, encode('f32', Array(n * n).fill(1)))
    using seen = stream.device.alloc(n * n * 4, { stream: other })
    // The first product of a kind may wait for the device, which would wait for the latch.
    cublas.gemm(stream, A, A, C, options)
    for (const waits of [false, true]) {
      stream.fill(C, 0)
      stream.synchronize()
      using latch = bench.latch(stream)
      cublas.gemm(stream, A, A, C, options)
      if (waits) other.wait(stream)
      other.copy(seen, C)
      const bytes = other.download(seen)
      if (!waits) assert.deepEqual(decode('f32', await bytes), Array(n * n).fill(0))
      latch.open()
      assert.deepEqual(decode('f32', await bytes), Array(n * n).fill(waits ? n : 0))
      await stream.finished()
    }
  })

  it('buffers may be closed at once: their memory is given back after the product', async () => {
    using cublas = new Cublas({ device: stream.device })
    using other = bench.stream()
    const C = await onDevice(other, encode('f32', [0]))
    for (let round = 1; round <= 20; round += 1) {
      const A = await onDevice(other, encode('f32', [round]))
      bench.busy(stream, 50_000)
      cublas.gemm(stream, A, A, C, { type: 'f32', m: 1, n: 1, k: 1 })
      A.close()
      // This would take the memory of A, were it free already.
      using next = stream.device.alloc(4, { stream: other })
      other.fill(next, 255)
      assert.deepEqual(decode('f32', await stream.download(C)), [round * round])
    }
    C.close()
  })

  it('is captured, and runs with each launch', async () => {
    using workspace = stream.device.alloc(32 * 1024 * 1024, { stream })
    using cublas = new Cublas({ device: stream.device, workspace })
    using A = await onDevice(stream, encode('f32', [3]))
    using C = await onDevice(stream, encode('f32', [1]))
    const options: GemmOptions = { type: 'f32', m: 1, n: 1, k: 1, beta: 1 }
    cublas.gemm(stream, A, A, C, options)
    stream.synchronize()
    using graph = stream.capture(() => cublas.gemm(stream, A, A, C, options) && undefined)
    assert.ok(graph.nodeCount >= 1)
    assert.deepEqual(decode('f32', await stream.download(C)), [10], 'a capture computes nothing')
    using exec = graph.instantiate()
    exec.launch(stream)
    exec.launch(stream)
    assert.deepEqual(decode('f32', await stream.download(C)), [28])
  })

  it('one serves all streams, each in its own order', async () => {
    using cublas = new Cublas({ device: bench.device })
    using other = bench.stream()
    using A = await onDevice(stream, encode('f32', [2]))
    using C = await onDevice(stream, encode('f32', [0]))
    using D = await onDevice(stream, encode('f32', [0]))
    const one: GemmOptions = { type: 'f32', m: 1, n: 1, k: 1 }
    cublas.gemm(stream, A, A, C, one)
    stream.fill(C, 0)
    other.wait(stream)
    using gate = { latch: bench.latch(stream), [Symbol.dispose]: () => gate.latch.open() }
    cublas.gemm(stream, A, A, C, one).gemm(other, A, A, D, one)
    assert.deepEqual(decode('f32', await other.download(D)), [4])
    assert.equal(stream.query(), false, 'the product stands behind the latch')
    gate.latch.open()
    assert.deepEqual(decode('f32', await stream.download(C)), [4])
  })

  it('is given the stream with each call, and says so where it is not', () => {
    using cublas = new Cublas({ device: bench.device })
    using A = bench.device.alloc(4, { stream })
    const old = (...args: unknown[]): unknown => Reflect.apply(cublas.gemm, cublas, args)
    refused(
      () => old(A, A, A, { type: 'f32', m: 1, n: 1, k: 1 }),
      'ERR_INVALID_ARG_TYPE',
      /stream must be a Stream, not DeviceBuffer.*comes first/,
    )
    refused(() => old(undefined, A, A, A, {}), 'ERR_INVALID_ARG_TYPE', /Stream\.current\(\)/)
    refused(
      () => new Cublas(stream as never),
      'ERR_INVALID_ARG_TYPE',
      /each call, as in cublas\.gemm\(stream, a, b, c, options\)/,
    )
    refused(() => new Cublas({ stream } as never), 'ERR_INVALID_ARG_VALUE', /each call, as in cublas\.gemm\(stream/)
    using elsewhere = simWorkbench().stream()
    refused(() => cublas.gemm(elsewhere, A, A, A, { type: 'f32', m: 1, n: 1, k: 1 }), 'ERR_DEVICE_MISMATCH', /Cublas/)
  })

  it('can be queued behind host functions, more of them than a hardware queue holds', async () => {
    using cublas = new Cublas({ device: stream.device })
    using A = await onDevice(stream, encode('f32', [1]))
    using C = await onDevice(stream, encode('f32', [0]))
    let ran = 0
    for (let count = 0; count < 400; count += 1) {
      stream.launchHostFunc(() => {
        ran += 1
      })
      cublas.gemm(stream, A, A, C, { type: 'f32', m: 1, n: 1, k: 1, beta: 1 })
    }
    assert.deepEqual(decode('f32', await stream.download(C)), [400])
    assert.equal(ran, 400)
  })

  it('can be made and used while a stream stands at a host function', async () => {
    using held = bench.stream()
    let ran = 0
    held.launchHostFunc(() => {
      ran += 1
    })
    using first = new Cublas({ device: stream.device })
    using A = await onDevice(stream, encode('f64', [5]))
    held.launchHostFunc(() => {
      ran += 1
    })
    // A product of a size that was never computed before: cuBLAS may load code for it.
    using C = stream.device.alloc(8 * 11 * 13, { stream })
    first.gemm(stream, A, A, C.subarray(0, 8), { type: 'f64', m: 1, n: 1, k: 1 })
    assert.deepEqual(decode('f64', await stream.download(C.subarray(0, 8))), [25])
    await held.finished()
    assert.equal(ran, 2)
  })

  it('queues nothing for a product without elements, and checks what it is given', async () => {
    using cublas = new Cublas({ device: stream.device })
    using A = await onDevice(stream, encode('f32', [1, 2, 3, 4]))
    using C = await onDevice(stream, encode('f32', [9, 9, 9, 9]))
    using none = stream.device.alloc(0, { stream })
    const ok: GemmOptions = { type: 'f32', m: 2, n: 2, k: 2 }
    using graph = stream.capture(() => {
      // A graph without nodes would be warned of.
      stream.fill(C, 0)
      for (const order of ['row', 'column'] as const) {
        for (const [transposeA, transposeB] of [
          [false, false],
          [true, true],
        ] as const) {
          const how = { ...ok, order, transposeA, transposeB, beta: 2 }
          cublas.gemm(stream, none, A, none, { ...how, m: 0 })
          cublas.gemm(stream, A, none, none, { ...how, n: 0 })
          cublas.gemm(stream, A, A, C, { ...how, m: 0, n: 0 })
          cublas.gemmStridedBatched(stream, none, none, none, { ...how, batchCount: 0 })
          cublas.gemmStridedBatched(stream, none, A, none, { ...how, m: 0, batchCount: 3, strideB: 0 })
          cublas.gemmStridedBatched(stream, A, A, C, { ...how, batchCount: 0, strideA: 0 })
        }
      }
      cublas.geam(stream, none, none, none, { type: 'f32', m: 0, n: 2 })
      cublas.geam(stream, A, undefined, C, { type: 'f64', m: 2, n: 0, transposeA: true })
    })
    assert.equal(graph.nodeCount, 1)
    refused(() => cublas.gemm(stream, none, A, none, { ...ok, m: 0, k: 3 }), 'ERR_OUT_OF_RANGE', /^B must be 24 bytes/)
    refused(() => cublas.gemm(stream, none, A, none, { ...ok, m: 0, ldb: 1 }), 'ERR_OUT_OF_RANGE', /options\.ldb/)
    const closed = stream.device.alloc(16, { stream })
    closed.close()
    refused(() => cublas.gemm(stream, none, closed, none, { ...ok, m: 0 }), 'ERR_CLOSED')
    const gone = new Cublas({ device: stream.device })
    gone.close()
    refused(() => gone.gemm(stream, none, A, none, { ...ok, m: 0 }), 'ERR_CLOSED')
    assert.deepEqual(decode('f32', await stream.download(C)), [9, 9, 9, 9])
  })

  it('multiplies C by beta, or fills it with 0, in a product of no columns and rows', async () => {
    using cublas = new Cublas({ device: stream.device })
    using none = stream.device.alloc(0, { stream })
    for (const order of ['row', 'column'] as const) {
      for (const [beta, expected] of [
        [0, [0, 0, 0, 0]],
        [1, [1, 2, 3, 4]],
        [2, [2, 4, 6, 8]],
      ] as const) {
        using C = await onDevice(stream, encode('f32', [1, 2, 3, 4]))
        cublas.gemm(stream, none, none, C, { type: 'f32', m: 2, n: 2, k: 0, beta, order })
        assert.deepEqual(decode('f32', await stream.download(C)), expected)
      }
    }
  })

  it('refuses wrong arguments by name, and queues nothing', async () => {
    using cublas = new Cublas({ device: stream.device })
    using A = await onDevice(stream, encode('f32', [1, 2, 3, 4]))
    using C = await onDevice(stream, encode('f32', [9, 9, 9, 9]))
    const ok: GemmOptions = { type: 'f32', m: 2, n: 2, k: 2 }
    const gemm = (options: unknown, a: unknown = A, c: unknown = C): unknown =>
      cublas.gemm(stream, a as DeviceBuffer, A, c as DeviceBuffer, options as GemmOptions)
    refused(() => gemm(undefined), 'ERR_INVALID_ARG_TYPE', /options/)
    refused(() => gemm({ ...ok, type: 'f8' }), 'ERR_INVALID_ARG_VALUE', /options\.type.*f8/)
    refused(() => gemm({ ...ok, m: -1 }), 'ERR_OUT_OF_RANGE', /options\.m/)
    refused(() => gemm({ ...ok, k: -1 }), 'ERR_OUT_OF_RANGE', /options\.k/)
    refused(() => gemm({ ...ok, n: 1.5 }), 'ERR_INVALID_ARG_TYPE', /options\.n/)
    refused(() => gemm({ ...ok, k: 2 ** 31 }), 'ERR_OUT_OF_RANGE', /options\.k/)
    refused(() => gemm({ ...ok, k: 3 }), 'ERR_OUT_OF_RANGE', /^A must be 24 bytes.*not 16/)
    refused(() => gemm({ ...ok, lda: 1 }), 'ERR_OUT_OF_RANGE', /options\.lda.*at least 2/)
    refused(() => gemm({ ...ok, lda: 3 }), 'ERR_OUT_OF_RANGE', /^A must be 20 bytes/)
    refused(() => gemm({ ...ok, order: 'rows' }), 'ERR_INVALID_ARG_VALUE', /options\.order/)
    refused(() => gemm({ ...ok, transposeA: 1 }), 'ERR_INVALID_ARG_TYPE', /options\.transposeA/)
    refused(() => gemm({ ...ok, alpha: '1' }), 'ERR_INVALID_ARG_TYPE', /options\.alpha/)
    refused(() => gemm(ok, C.subarray(0, 12)), 'ERR_OUT_OF_RANGE', /^A must be/)
    refused(() => gemm(ok, C, C.subarray(2, 14)), 'ERR_INVALID_ARG_VALUE', /^C begins in the middle/)
    refused(() => gemm(ok, 5), 'ERR_INVALID_ARG_TYPE', /^A must be a DeviceBuffer/)
    using pinned = bench.device.allocPinned(16)
    refused(() => gemm(ok, pinned), 'ERR_INVALID_ARG_TYPE', /^A must be a DeviceBuffer/)
    const foreign = simWorkbench().device.alloc(16)
    refused(() => gemm(ok, foreign), 'ERR_DEVICE_MISMATCH', /^A is on/)
    const closed = stream.device.alloc(16, { stream })
    closed.close()
    refused(() => gemm(ok, closed), 'ERR_CLOSED')
    const batch = { ...ok, m: 1, n: 1, k: 1, batchCount: 4 }
    const batched = (options: unknown): unknown => cublas.gemmStridedBatched(stream, A, A, C, options as typeof batch)
    refused(() => batched({ ...batch, batchCount: -1 }), 'ERR_OUT_OF_RANGE', /options\.batchCount/)
    refused(() => batched({ ...batch, batchCount: 5 }), 'ERR_OUT_OF_RANGE', /^A must be 20 bytes/)
    refused(() => batched({ ...batch, strideA: -1 }), 'ERR_OUT_OF_RANGE', /options\.strideA/)
    refused(() => batched({ ...batch, strideC: 0 }), 'ERR_OUT_OF_RANGE', /options\.strideC.*overlap/)
    refused(() => batched(undefined), 'ERR_INVALID_ARG_TYPE', /options/)
    refused(() => new Cublas('x' as never), 'ERR_INVALID_ARG_TYPE', /options/)
    refused(
      () => new Cublas({ device: stream.device, workspace: A.subarray(4, 12) }),
      'ERR_INVALID_ARG_VALUE',
      /options\.workspace/,
    )
    assert.deepEqual(decode('f32', await stream.download(C)), [9, 9, 9, 9])
  })

  it('C must not be where A or B are, and may lie between their rows', async () => {
    using cublas = new Cublas({ device: stream.device })
    using whole = await onDevice(stream, encode('f32', [1, 2, 9, 9, 3, 4, 9, 9]))
    using B = await onDevice(stream, encode('f32', [1, 1, 0, 1]))
    const [left, right] = [whole.subarray(0, 24), whole.subarray(8, 32)]
    const options: GemmOptions = { type: 'f32', m: 2, n: 2, k: 2 }
    const halves: GemmOptions = { ...options, lda: 4, ldc: 4 }
    refused(() => cublas.gemm(stream, B, B, B, options), 'ERR_INVALID_ARG_VALUE', /^A and C have elements in common/)
    refused(() => cublas.gemm(stream, left, B, B, halves), 'ERR_OUT_OF_RANGE')
    refused(
      () => cublas.gemm(stream, left, B, B, { ...halves, ldc: 2 }),
      'ERR_INVALID_ARG_VALUE',
      /^B and C have elements/,
    )
    refused(() => cublas.gemm(stream, left, B, whole.subarray(4, 28), halves), 'ERR_INVALID_ARG_VALUE', /^A and C have/)
    refused(() => cublas.gemm(stream, left, B, whole.subarray(16, 32), { ...options, lda: 4 }), 'ERR_INVALID_ARG_VALUE')
    cublas.gemm(stream, left, B, right, halves)
    assert.deepEqual(decode('f32', await stream.download(whole)), [1, 2, 1, 3, 3, 4, 3, 7])
  })

  it('once closed it is refused, and the next one works', async () => {
    const cublas = new Cublas({ device: stream.device })
    using A = await onDevice(stream, encode('f32', [3]))
    using C = await onDevice(stream, encode('f32', [0]))
    cublas.close()
    cublas.close()
    assert.equal(cublas.closed, true)
    assert.match(String(cublas), /closed/)
    refused(() => cublas.gemm(stream, A, A, C, { type: 'f32', m: 1, n: 1, k: 1 }), 'ERR_CLOSED')
    using next = new Cublas({ device: stream.device })
    next.gemm(stream, A, A, C, { type: 'f32', m: 1, n: 1, k: 1 })
    assert.deepEqual(decode('f32', await stream.download(C)), [9])
    const gone = bench.stream()
    gone.close()
    refused(() => next.gemm(gone, A, A, C, { type: 'f32', m: 1, n: 1, k: 1 }), 'ERR_CLOSED', /Stream/)
  })

  it('memory of another library is taken too', async () => {
    using cublas = new Cublas({ device: stream.device })
    using A = await onDevice(stream, encode('f32', [7]))
    using theirs = DeviceBuffer.from(A.pointer, 4, { device: bench.device })
    using C = await onDevice(stream, encode('f32', [0]))
    cublas.gemm(stream, theirs, theirs, C, { type: 'f32', m: 1, n: 1, k: 1 })
    assert.deepEqual(decode('f32', await stream.download(C)), [49])
  })

  it('a LibraryError says which call, which result and what to do', () => {
    const error = new LibraryError('cublasGemmEx', 15, 'CUBLAS_STATUS_NOT_SUPPORTED', 'Take other sizes')
    assert.equal(`${error}`, 'LibraryError: cublasGemmEx failed: CUBLAS_STATUS_NOT_SUPPORTED (15). Take other sizes')
    assert.ok(error instanceof Error)
  })
})
