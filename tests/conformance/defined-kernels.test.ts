/** Kernels with a host implementation: the same program gives the same bytes on a GPU and on the simulator. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type DeviceAttribute, defineKernel, type LaunchConfig, Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { onEveryBackend } from '../helpers/suite.js'
import { checkError, ONE_DEVICE, refused, refusedByDriver, secondDevice } from './expect.js'

const axpy = defineKernel({
  name: 'axpy',
  source: `extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
  }`,
  signature: ['f32', 'in f32*', 'inout f32*', 'i32'],
  simulate({ globalX: i }, a, x, y, n) {
    if (i < n) y[i] = a * (x[i] ?? 0) + (y[i] ?? 0)
  },
})

const reverse = defineKernel({
  name: 'reverse',
  source: `extern "C" __global__ void reverse(unsigned* data) {
    extern __shared__ unsigned words[];
    words[threadIdx.x] = data[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    data[blockIdx.x * blockDim.x + threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
  }`,
  signature: ['inout u32*'],
  *simulate({ threadIdx, blockDim, globalX, shared }, data) {
    const words = new Uint32Array(shared)
    words[threadIdx.x] = data[globalX] ?? 0
    yield
    data[globalX] = words[blockDim.x - 1 - threadIdx.x] ?? 0
  },
})

const square = defineKernel({
  name: 'square',
  source: `extern "C" __global__ void square(double* y, long long n, bool negate) {
    long long i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = negate ? -(double)(i * i) : (double)(i * i);
  }`,
  signature: ['out f64*', 'i64', 'bool'],
  simulateGrid(_grid, y, n, negate) {
    for (let i = 0; i < Number(n); i += 1) y[i] = negate ? -(i * i) : i * i
  },
})

const threads = defineKernel({
  name: 'threads',
  source: `extern "C" __global__ void threads(unsigned* count) { atomicAdd(count, 1); }`,
  signature: ['inout u32*'],
  simulate(_at, count) {
    count[0] = (count[0] ?? 0) + 1
  },
})

onEveryBackend('kernels with a host implementation', (bench) => {
  const { device } = bench

  test('H2 the first launch inside a host function is ERR_DEADLOCK, which names the kernel and what to await before', async () => {
    const late = defineKernel({
      name: 'late',
      source: 'extern "C" __global__ void late(unsigned* count) { *count = 1; }',
      signature: ['out u32*'],
      simulate(_at, count) {
        count[0] = 1
      },
    })
    using stream = bench.stream()
    using count = device.alloc(4, { stream })
    const launch = (): unknown => stream.launch(late, { grid: 1, block: 1 }, count)
    let thrown: unknown
    stream.launchHostFunc(function theHostFunction() {
      try {
        launch()
      } catch (error) {
        thrown = error
      }
    })
    await stream.finished()
    const says = [
      /^Kernel 'late' is not loaded on Device\(0, .*host function/,
      /Await its prepare\(device\) beforehand$/,
    ]
    const { stack = '' } = checkError(thrown, 'ERR_DEADLOCK', ...says)
    assert.match(stack.split('\n    at ')[1] ?? '', /launch .*defined-kernels\.test/)
    await late.prepare(device)
    stream.launchHostFunc(() => void launch())
    await stream.finished()
    assert.deepEqual([...new Uint32Array((await stream.download(count)).buffer)], [1])
  })
  const n = 1000
  const config = { grid: Math.ceil(n / 256), block: 256 }

  test('K8 a kernel works on device memory: uploaded, launched, downloaded', async () => {
    using stream = bench.stream()
    using x = device.alloc(4 * n)
    using y = device.alloc(4 * n)
    await axpy.prepare(device)
    void stream.upload(
      x,
      Float32Array.from({ length: n }, (_, i) => i),
    )
    void stream.upload(y, new Float32Array(n).fill(1))
    stream.launch(axpy, config, 2, x, y, n).launch(axpy, config, 1, x, y, n)
    const bytes = await stream.download(y)
    assert.deepEqual(
      Array.from(new Float32Array(bytes.buffer, bytes.byteOffset, n)),
      Array.from({ length: n }, (_, i) => 3 * i + 1),
    )
  })

  test('K8 threads of a block meet at a barrier, and share memory', async () => {
    using stream = bench.stream()
    using data = device.alloc(4 * 64)
    void stream.upload(
      data,
      Uint32Array.from({ length: 64 }, (_, i) => i),
    )
    stream.launch(reverse, { grid: 2, block: 32, sharedMemory: 4 * 32 }, data)
    const bytes = await stream.download(data)
    const expected = [...Array(64).keys()].map((i) => (i < 32 ? 31 - i : 95 - i))
    assert.deepEqual(Array.from(new Uint32Array(bytes.buffer, bytes.byteOffset, 64)), expected)
  })

  test('K8 a whole-grid host implementation, wide integers, booleans, and pinned memory', async () => {
    using stream = bench.stream()
    const pinned = device.allocPinned(8 * n)
    const values = pinned.view(Float64Array)
    for (const negate of [false, true]) {
      stream.launch(square, config, pinned, BigInt(n), negate)
      await stream.finished()
      assert.equal(values[999], negate ? -998001 : 998001)
    }
    pinned.close()
  })

  test('K7 it is captured into a graph', async () => {
    using stream = bench.stream()
    using x = device.alloc(4 * n)
    using y = device.alloc(4 * n)
    await axpy.prepare(device)
    void stream.upload(x, new Float32Array(n).fill(1))
    void stream.upload(y, new Float32Array(n))
    await stream.finished()
    using graph = stream.capture(() => stream.launch(axpy, config, 1, x, y, n) && undefined)
    using exec = graph.instantiate()
    for (let launch = 0; launch < 5; launch += 1) stream.launch(exec)
    const bytes = await stream.download(y)
    assert.equal(new Float32Array(bytes.buffer, bytes.byteOffset, n)[n - 1], 5)
  })

  test('K6 a launch has the shape that its configuration has at that moment', async () => {
    await threads.prepare(device)
    using stream = bench.stream()
    using count = device.allocPinned(4)
    const counted = (config: LaunchConfig): number => {
      count.view(Uint32Array)[0] = 0
      stream.launch(threads, config, count)
      stream.synchronize()
      return count.view(Uint32Array)[0] ?? 0
    }
    const changing = { grid: 2, block: 32, sharedMemory: 16, cooperative: false, cluster: undefined }
    assert.equal(counted(changing), 64)
    assert.equal(counted(changing), 64)
    changing.grid = 3
    assert.equal(counted(changing), 96)
    assert.equal(counted({ grid: 3, block: 32 }), 96)
    assert.equal(counted({ grid: 1, block: 32 }), 32)
    for (const wrong of [{ grid: 0 }, { block: 0 }, { sharedMemory: -1 }, { grid: 1.5 }]) {
      assert.throws(() => counted({ grid: 1, block: 32, ...wrong }), /config\./)
    }
    for (const wrong of [undefined, null, 1, 'x']) assert.throws(() => counted(wrong as never), TypeError)
    assert.equal(counted({ grid: 1, block: 32 }), 32)
    const extent: [number, number] = [2, 2]
    assert.equal(counted({ grid: extent, block: 8 }), 32)
    extent[1] = 3
    assert.equal(counted({ grid: extent, block: 8 }), 48)
    assert.equal(counted({ grid: 1, block: 32, cooperative: true }), 32)
    assert.equal(counted({ grid: 1, block: 32 }), 32)
  })

  test('M10 a kernel uses memory of another device', async (context) => {
    const second = secondDevice(bench)
    if (second === undefined) return context.skip(ONE_DEVICE)
    for (const [near, far] of [[device, second] as const, [second, device] as const]) {
      await threads.prepare(near)
      using stream = bench.stream({ device: near })
      using count = far.alloc(4)
      stream.fill(count, 0).launch(threads, { grid: 2, block: 32 }, count)
      assert.deepEqual(new Uint32Array((await stream.download(count)).buffer), Uint32Array.of(64))
    }
  })

  test('K3 memory that begins in the middle of an element is refused, and the device goes on', async () => {
    using stream = bench.stream()
    using x = device.alloc(64)
    using pinned = device.allocPinned(64)
    for (const memory of [x.subarray(1, 9), x.subarray(2, 2), pinned.subarray(6, 14)]) {
      const launch = (): unknown => stream.launch(axpy, { grid: 1, block: 1 }, 1, x, memory, 1)
      assert.throws(launch, {
        name: 'TypeError',
        code: 'ERR_INVALID_ARG_VALUE',
        message: /^axpy: argument 2 \('inout f32\*'\).*multiple of 4/,
      })
    }
    stream.fill(x, 0).launch(axpy, { grid: 1, block: 1 }, 1, x, x.subarray(4, 12), 2)
    await stream.finished()
  })

  test('K6 a launch of so many threads runs each of them, in whole blocks', async () => {
    using stream = bench.stream()
    using x = device.alloc(4 * 1000, { stream })
    using y = device.alloc(4 * 1000, { stream })
    void stream.upload(x, new Float32Array(1000).fill(3))
    stream.fill(y, 0).launch(axpy, { threads: 1000 }, 2, x, y, 1000)
    stream.launch(axpy, { threads: 1000, block: 96 }, 1, x, y, 999)
    const expected = new Float32Array(1000).fill(9)
    expected[999] = 6
    assert.deepEqual(await stream.download(y, Float32Array), expected)
    using count = device.alloc(8, { stream })
    stream.fill(count, 0).launch(threads, { threads: [100, 50] }, count.subarray(0, 4))
    stream.launch(threads, { threads: 1 }, count.subarray(4, 8))
    assert.deepEqual(await stream.download(count, Uint32Array), Uint32Array.of(4 * 7 * 256, 256))
  })

  test('K6 a captured launch of so many threads has its grid in the node, and takes other threads', async () => {
    using stream = bench.stream()
    await threads.prepare(device)
    using count = device.alloc(4, { stream })
    stream.fill(count, 0)
    using graph = stream.capture(() => void stream.launch(threads, { threads: 1000 }, count))
    const [node] = graph.nodesOf(threads)
    assert.deepEqual(node?.config, { grid: 4, block: 256, sharedMemory: 0 })
    using exec = graph.instantiate()
    exec.update(node, { threads: 512 }, count).launch(stream)
    assert.deepEqual(await stream.download(count, Uint32Array), Uint32Array.of(512))
  })

  test('K6 a launch that no device can run is CUDA_ERROR_INVALID_VALUE, and queues nothing', async () => {
    using stream = bench.stream()
    using x = device.alloc(4)
    await axpy.prepare(device)
    const shapes: readonly (readonly [LaunchConfig, limit: DeviceAttribute, asked: string])[] = [
      [{ grid: 1, block: 2048 }, 'maxThreadsPerBlock', '2048 threads in each block (config.block is 2048 x 1 x 1)'],
      [{ grid: 1, block: [32, 33] }, 'maxThreadsPerBlock', '1056 threads in each block (config.block is 32 x 33 x 1)'],
      [{ grid: 1, block: [1, 1, 65] }, 'maxBlockDimZ', '65 threads of config.block in z'],
      [{ grid: [1, 65536], block: 1 }, 'maxGridDimY', '65536 blocks of config.grid in y'],
      [{ grid: [1, 1, 65536], block: 1 }, 'maxGridDimZ', '65536 blocks of config.grid in z'],
      [{ grid: 1, block: 1, sharedMemory: 300_000 }, 'maxSharedMemoryPerBlockOptin', '300000 bytes of config.shared'],
    ]
    for (const [shape, limit, asked] of shapes) {
      const { message } = refusedByDriver(() => stream.launch(axpy, shape, 1, x, x, 0), 1)
      assert.ok(message.includes(` has ${asked}`), message)
      assert.ok(message.endsWith(`${device} takes at most ${device.attribute(limit)}, its '${limit}'`), message)
    }
    stream.launch(axpy, { grid: 1, block: [32, 32] }, 1, x, x, 0).launch(axpy, { grid: 65536, block: 1 }, 1, x, x, 0)
    await stream.finished()
  })

  test('K8 a float argument is one of 24 bits, also in the host implementation', async () => {
    using stream = bench.stream()
    using x = device.alloc(4)
    using y = device.alloc(4)
    stream.fill(x, 0x4b7fffff, { width: 4 }).fill(y, 0)
    stream.launch(axpy, { grid: 1, block: 1 }, 1.00000005, x, y, 1)
    const bytes = await stream.download(y)
    // As a float the factor is 1; as a double it would make 16777216 of it.
    assert.equal(new Float32Array(bytes.buffer, bytes.byteOffset, 1)[0], 16777215)
  })

  test('K8 a definition is read once, when the kernel is defined: what becomes of it later changes nothing', async () => {
    const reads: string[] = []
    const right = {
      name: 'seven',
      source: 'extern "C" __global__ void seven(unsigned* out) { *out = 7; }',
      signature: ['out u32*'] as ['out u32*'],
      simulate: (_thread: unknown, out: Uint32Array): void => void out.fill(7),
      nanoseconds: 5,
    }
    const watched = new Proxy(right, {
      get(target, property, receiver) {
        if (typeof property === 'string') reads.push(property)
        return reads.filter((read) => read === property).length > 1
          ? undefined
          : Reflect.get(target, property, receiver)
      },
    })
    const seven = defineKernel(watched)
    const once = [
      'cubins',
      'mangledName',
      'name',
      'nanoseconds',
      'options',
      'parameterNames',
      'ptx',
      'runs',
      'signature',
      'simulate',
      'simulateGrid',
      'source',
    ]
    assert.deepEqual(reads.sort(), once)
    const { signature } = right
    Object.assign(right, { name: 'other', source: '!', simulate: 3, nanoseconds: Number.NaN })
    signature.push('f32' as never)
    using stream = bench.stream()
    using out = device.alloc(4, { stream })
    await seven.prepare(device)
    stream.launch(seven, { grid: 1, block: 1 }, out)
    assert.deepEqual([...(await stream.download(out))], [7, 0, 0, 0])
    assert.equal(seven.name, 'seven')
    assert.deepEqual(reads.sort(), once, 'nothing is read again')
  })

  test('K3 what does not fit is refused: a closed buffer, another driver’s, a wrong argument', () => {
    using stream = bench.stream()
    using x = device.alloc(4 * n)
    const closed = device.alloc(4 * n)
    closed.close()
    assert.throws(() => stream.launch(axpy, config, 1, closed, x, n), { code: 'ERR_CLOSED' })
    const [other] = simulate().devices
    assert.ok(other)
    using foreign = other.alloc(4 * n)
    assert.throws(() => stream.launch(axpy, config, 1, foreign, x, n), { code: 'ERR_DEVICE_MISMATCH' })
    const launchWith = (...args: unknown[]): void => void Reflect.apply(stream.launch, stream, [axpy, ...args])
    const launch = (...args: unknown[]): void => launchWith(config, ...args)
    for (const [first, said] of [
      [x, /DeviceBuffer/],
      [undefined, /undefined/],
      [2, /2/],
      [[1, 256], /\[ 1, 256 \]/],
      [new Float32Array(1), /Float32Array/],
    ] as const) {
      const says = [
        /^axpy: config must be an object such as \{ grid, block \} or \{ threads \}, not /,
        said,
        /launch\(kernel, \{ threads: n \}/,
      ]
      refused(() => launchWith(first, x, x, n), 'ERR_INVALID_ARG_TYPE', ...says)
    }
    assert.throws(() => launch(1, x, x), { code: 'ERR_INVALID_ARG_VALUE', message: /4 argument/ })
    assert.throws(() => launch('1', x, x, n), { code: 'ERR_INVALID_ARG_TYPE' })
    assert.throws(() => launch(1, {}, x, n), { code: 'ERR_INVALID_ARG_TYPE', message: /DeviceBuffer/ })
    for (const nanoseconds of [-1, 2 ** 53, Number.MAX_VALUE, Number.NaN, Number.POSITIVE_INFINITY]) {
      const define = (): unknown => defineKernel({ name: 'f', source: '', signature: [], simulate() {}, nanoseconds })
      assert.throws(define, { name: 'RangeError', code: 'ERR_OUT_OF_RANGE' })
    }
    for (const runs of ['simulate', 'both', 'host'] as unknown as ['both']) {
      const define = (): unknown => defineKernel({ name: 'f', source: '', signature: [], runs })
      assert.throws(define, { code: 'ERR_INVALID_ARG_VALUE', message: /^definition\.runs/ })
    }
    const twice = { name: 'f', source: '', signature: [], simulate() {}, simulateGrid() {} } as const
    assert.throws(() => defineKernel(twice), { code: 'ERR_INVALID_ARG_VALUE' })
    assert.throws(() => defineKernel(undefined as never), { code: 'ERR_INVALID_ARG_TYPE', message: /^definition/ })
    stream.synchronize()
  })
})

test('K3 a device to prepare for that is none is ERR_INVALID_ARG_TYPE', async () => {
  await assert.rejects(Reflect.apply(axpy.prepare, axpy, [0]), { code: 'ERR_INVALID_ARG_TYPE' })
})

test('V1 on the simulator a missing wait gives wrong bytes under some seed, and the wait right ones under all', async () => {
  const run = async (seed: number, waits: boolean): Promise<number> => {
    using simulation = simulate({ seed })
    const [device] = simulation.devices
    assert.ok(device)
    const [first, second] = [new Stream({ device }), new Stream({ device })]
    using x = device.alloc(4)
    using y = device.alloc(4)
    first.fill(x, 0).fill(y, 0)
    second.wait(first)
    first.fill(x, 0x3f800000, { width: 4 })
    if (waits) second.wait(first)
    second.launch(axpy, { grid: 1, block: 1 }, 1, x, y, 1)
    const bytes = await second.download(y)
    return new Float32Array(bytes.buffer, bytes.byteOffset, 1)[0] ?? Number.NaN
  }
  let wrong = 0
  for (let seed = 1; seed <= 50; seed += 1) {
    assert.equal(await run(seed, true), 1, `with the wait, seed ${seed}`)
    if ((await run(seed, false)) !== 1) wrong += 1
  }
  assert.ok(wrong > 0, 'no seed of fifty showed the missing wait')
})
