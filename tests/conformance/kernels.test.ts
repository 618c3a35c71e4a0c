/** Kernels: GPU code is loaded, its signature is its own, and what does not fit is refused before it is queued. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineKernel, Module, type ParameterType, Program, struct } from 'cuda-streams'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { onEveryBackend } from '../helpers/suite.js'
import { ONE_DEVICE, refused, secondDevice } from './expect.js'

const SOURCE = `
extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void everything(bool b, signed char i8, unsigned short u16, long long i64, double f64, double* out) {
  out[0] = b; out[1] = i8; out[2] = u16; out[3] = (double)i64; out[4] = f64;
}
extern "C" __global__ void shared(unsigned* out) {
  extern __shared__ unsigned words[];
  words[threadIdx.x * 1000] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = words[24 * 1000];
}
extern "C" __global__ void nothing() {}
`
const PTX = `
.version 7.0
.target sm_70
.address_size 64
.visible .entry store(.param .u64 where, .param .u32 what) {
  .reg .u64 %where;
  .reg .u32 %what;
  ld.param.u64 %where, [where];
  ld.param.u32 %what, [what];
  st.global.u32 [%where], %what;
  ret;
}
`
/** `.b32` may be either, and so may what is declared as one and loaded as the other. */
const FLOATS = `
.version 7.0
.target sm_70
.address_size 64
// .visible .entry floats(.param .u64 where, .param .u32 what)
.visible .entry floats(
  .param .u64 .ptr .global .align 4 floats_0, /* (the result) */
  .param .f32 floats_1,
  .param .f64 floats_2,
  .param .b32 floats_3
)
{
  .reg .u64 %where;
  .reg .b32 %what;
  ld.param.u64 %where, [floats_0];
  ld.param.b32 %what, [floats_1];
  st.global.b32 [%where], %what;
  ret;
}
.visible .entry written(.param .u32 written_0)
{
  .reg .f32 %what;
  ld.param.f32 %what, [written_0];
  ret;
}
`
const AXPY = ['f32', 'in f32*', 'inout f32*', 'i32'] as const

/** Of tests that compile CUDA C++. */
const COMPILES = { skip: lacksNvrtc() }

onEveryBackend('kernels', (bench) => {
  const { device } = bench
  const { pointer, bytes } = bench.mapped(1 << 16)
  const floats = new Float32Array(bytes)

  test('K1 a launch on a stream of another device is refused, and says what to launch it on or load it with', (t) => {
    const other = secondDevice(bench)
    if (other === undefined) return t.skip(ONE_DEVICE)
    using module = Module.load(PTX, { device })
    using theirs = other.createStream()
    const store = module.kernel('store', ['u64', 'u32'])
    const says = [
      /'store' is on Device\(0, /,
      /Stream\(.* on Device\(1, /,
      /a stream of its own device, or load its code on/,
    ]
    refused(() => theirs.launch(store, { grid: 1, block: 1 }, pointer, 1), 'ERR_DEVICE_MISMATCH', ...says)
  })

  test('K1 CUDA C++ is compiled, and a kernel computes with its arguments', COMPILES, async () => {
    using module = await Program.compile(SOURCE, { device })
    using stream = bench.stream()
    const axpy = module.kernel('axpy', AXPY)
    const n = 1000
    for (let i = 0; i < n; i += 1) {
      floats[i] = i
      floats[n + i] = 1
    }
    const result = stream.launch(axpy, { grid: Math.ceil(n / 256), block: 256 }, 2, pointer, pointer + 4n * 1000n, n)
    assert.equal(result, stream)
    await stream.finished()
    assert.deepEqual(
      Array.from(floats.subarray(n, 2 * n)),
      Array.from({ length: n }, (_, i) => 2 * i + 1),
    )
  })

  test('K2 every type of parameter arrives as it was given', COMPILES, async () => {
    using module = await Program.compile(SOURCE, { device })
    using stream = bench.stream()
    const kernel = module.kernel('everything', ['bool', 'i8', 'u16', 'i64', 'f64', 'out f64*'])
    const out = new Float64Array(bytes, 0, 5)
    stream.launch(kernel, { grid: [1], block: [1, 1, 1] }, true, -7, 65535, -(2n ** 40n), Math.PI, pointer)
    stream.synchronize()
    assert.deepEqual(Array.from(out), [1, -7, 65535, -(2 ** 40), Math.PI])
    stream.launch(kernel, { grid: 1, block: 1 }, false, 127, 0, -(2 ** 35) - 1, -0.5, Number(pointer))
    stream.synchronize()
    assert.deepEqual(Array.from(out), [0, 127, 0, -(2 ** 35) - 1, -0.5])
  })

  test('K1 PTX is loaded as text or bytes', () => {
    for (const code of [PTX, Buffer.from(PTX)]) {
      using module = Module.load(code, { device })
      using stream = bench.stream()
      stream.launch(module.kernel('store', ['out u32*', 'u32']), { grid: 1, block: 1 }, pointer, 4_000_000_000)
      stream.synchronize()
      assert.equal(new Uint32Array(bytes)[0], 4_000_000_000)
    }
  })

  test('K2 the refusal of a signature names the first argument that differs, or says how many there are', () => {
    using module = Module.load(PTX, { device })
    const WRONG: readonly (readonly [signature: readonly ParameterType[], says: RegExp])[] = [
      [['out u32*', 'f64'], /: argument 1, 'f64', has 8 bytes, and 4 in the code: give it the type .* in the source$/],
      [['u32', 'f64'], /: argument 0, 'u32', has 4 bytes, and 8 in the code/],
      [['out u32*'], /: there are 1, and 2 in the code: name the type of each/],
      [[], /parameters of no bytes, but the kernel's have 8, 4: there are 0, and 2 in the code/],
      [['out u32*', 'u32', 'u32'], /: there are 3, and 2 in the code/],
    ]
    for (const [signature, says] of WRONG)
      refused(() => module.kernel('store', signature), 'ERR_INVALID_ARG_VALUE', /'store'/, says)
    const KINDS: readonly (readonly [signature: readonly ParameterType[], says: RegExp])[] = [
      [
        ['out u32*', 'f32'],
        / has a float for what is .u32 in the code: argument 1, 'f32': give .* struct\(\{ bits: 'u32' \}\)$/,
      ],
      [['f64', 'u32'], / has a float for what is .u64 in the code: argument 0, 'f64': .* struct\(\{ bits: 'u64' \}\)$/],
    ]
    for (const [signature, says] of KINDS)
      refused(() => module.kernel('store', signature), 'ERR_INVALID_ARG_VALUE', /'store'/, says)
    using stream = bench.stream()
    const named = defineKernel({
      name: 'store',
      ptx: PTX,
      signature: ['out u32*', 'u8'],
      parameterNames: ['where', 'what'],
    })
    const launch = (): unknown => stream.launch(named, { grid: 1, block: 1 }, pointer, 1)
    refused(launch, 'ERR_INVALID_ARG_VALUE', /: `what`, 'u8', has 1 bytes, and 4 in the code/)
  })

  test('K2 a signature with an integer for a float of the code is refused; the bits of one go there as a struct', () => {
    using module = Module.load(FLOATS, { device })
    using stream = bench.stream()
    const WRONG: readonly (readonly [signature: readonly ParameterType[], says: RegExp])[] = [
      [['out f32*', 'u32', 'f64', 'i32'], / an integer for what is .f32 in the code: argument 1, 'u32': .*'u32' \}\)$/],
      [['out f32*', 'i32', 'f64', 'i32'], /argument 1, 'i32'/],
      [['out f32*', 'f32', 'u64', 'i32'], / an integer for what is .f64 in the code: argument 2, 'u64': .*'u64' \}\)$/],
      [['out f32*', 'f32', 'in f32*', 'i32'], /argument 2, 'in f32\*'/],
    ]
    for (const [signature, says] of WRONG)
      refused(() => module.kernel('floats', signature), 'ERR_INVALID_ARG_VALUE', /'floats'/, says)
    const one = { grid: 1, block: 1 }
    const bits = new Uint32Array(Float32Array.of(1.5).buffer)[0] ?? 0
    for (const untyped of ['f32', 'i32'] as const) {
      const kernel = module.kernel('floats', ['out f32*', struct({ bits: 'u32' }), 'f64', untyped])
      floats.fill(0)
      stream.launch(kernel, one, pointer, { bits }, 0, 0)
      stream.synchronize()
      assert.equal(floats[0], 1.5, 'the bits are those of 1.5')
    }
    for (const type of ['f32', 'u32'] as const) assert.equal(module.kernel('written', [type]).name, 'written')
  })

  test('K2 a signature that is not the kernel’s own is refused, by the sizes of its parameters', COMPILES, async () => {
    using module = await Program.compile(SOURCE, { device })
    const refused = { code: 'ERR_INVALID_ARG_VALUE' }
    assert.throws(() => module.kernel('axpy', ['f64', 'in f32*', 'inout f32*', 'i32']), {
      ...refused,
      message: /8, 8, 8, 4 bytes.*4, 8, 8, 4/,
    })
    assert.throws(() => module.kernel('axpy', ['f32', 'in f32*', 'inout f32*']), refused)
    assert.throws(() => module.kernel('nothing', ['i32']), refused)
    assert.throws(() => module.kernel('axpy', ['float' as 'f32']), { ...refused, message: /'float'/ })
    assert.throws(() => module.kernel('missing', []), {
      number: 500,
      message: /no kernel 'missing', but (?=.*'axpy')(?=.*'shared').*extern "C"/,
    })
    assert.equal(module.kernel('nothing', []).name, 'nothing')
  })

  test('K3 arguments that do not fit are refused, and nothing is queued', COMPILES, async () => {
    using module = await Program.compile(SOURCE, { device })
    using stream = bench.stream()
    const axpy = module.kernel('axpy', AXPY)
    const launch = (config: unknown, ...args: unknown[]): void => {
      Reflect.apply(stream.launch, stream, [axpy, config, ...args])
    }
    const one = { grid: 1, block: 1 }
    using latch = bench.latch(stream)
    latch.open()
    stream.synchronize()
    assert.throws(() => launch(one, 1, pointer, pointer), {
      code: 'ERR_INVALID_ARG_VALUE',
      message: /^axpy takes 4 arguments, .*, and 3 were given$/,
    })
    assert.throws(() => launch(one, '1', pointer, pointer, 1), {
      code: 'ERR_INVALID_ARG_TYPE',
      message: /^axpy: argument 0 \('f32'\) must be a number, not '1'$/,
    })
    assert.throws(() => launch(one, 1, 'x', pointer, 1), {
      code: 'ERR_INVALID_ARG_TYPE',
      message: /^axpy: argument 1 \('in f32\*'\) must be/,
    })
    assert.throws(() => launch(one, 1, pointer, pointer, 1.5), { code: 'ERR_INVALID_ARG_TYPE' })
    assert.throws(() => launch(one, 1, pointer, pointer, 2 ** 31), { code: 'ERR_OUT_OF_RANGE' })
    assert.throws(() => launch(one, 1, -1n, pointer, 1), { code: 'ERR_OUT_OF_RANGE' })
    assert.throws(() => launch(undefined, 1, pointer, pointer, 1), { code: 'ERR_INVALID_ARG_TYPE' })
    assert.throws(() => launch({ grid: 0, block: 1 }, 1, pointer, pointer, 1), { code: 'ERR_OUT_OF_RANGE' })
    assert.throws(() => launch({ grid: 'x', block: 1 }, 1, pointer, pointer, 1), { code: 'ERR_INVALID_ARG_TYPE' })
    assert.throws(() => launch({ grid: 1, block: 4096 }, 1, pointer, pointer, 1), { number: 1 })
    assert.equal(stream.query(), true)
    launch(one, 1, pointer, pointer, 0)
    await stream.finished()
  })

  test('K1 code that cannot run is refused, with the reason', COMPILES, async () => {
    assert.throws(() => Module.load('not PTX at all', { device }), { name: 'CudaError' })
    assert.throws(() => Module.load(new Uint8Array(0), { device }), { code: 'ERR_OUT_OF_RANGE' })
    assert.throws(() => Module.load(5 as unknown as string, { device }), { code: 'ERR_INVALID_ARG_TYPE' })
    const broken = Program.compile('extern "C" __global__ void f() { int x = undeclared; }', {
      device,
      name: 'broken.cu',
    })
    await assert.rejects(broken, { code: 'ERR_COMPILATION', message: /broken\.cu[\s\S]*undeclared/ })
    using stream = bench.stream()
    bench.busy(stream, 1000)
    await stream.finished()
  })

  test('K5 a name that the module does not have is refused with the names that it has', () => {
    using module = Module.load(PTX, { device })
    const get = (name: string) => (): unknown => module.kernel(name, [])
    assert.throws(get('stroe'), { number: 500, message: /no kernel 'stroe', but 'store': check/ })
    assert.throws(get(''), { number: 1 })
  })

  test('K5 a kernel of a closed module is ERR_CLOSED', async () => {
    const module = Module.load(PTX, { device })
    const store = module.kernel('store', ['out u32*', 'u32'])
    module.close()
    module.close()
    using stream = bench.stream()
    assert.throws(() => stream.launch(store, { grid: 1, block: 1 }, pointer, 1), { code: 'ERR_CLOSED' })
    assert.throws(() => module.kernel('store', ['out u32*', 'u32']), { code: 'ERR_CLOSED' })
    assert.throws(() => store.activeBlocks(32), { code: 'ERR_CLOSED' })
  })

  test(
    'K6 more than 48 KiB of dynamic shared memory, cooperative launches, clusters, occupancy',
    COMPILES,
    async () => {
      using module = await Program.compile(SOURCE, { device })
      using stream = bench.stream()
      const shared = module.kernel('shared', ['out u32*'])
      stream.launch(shared, { grid: 1, block: 25, sharedMemory: 100_000 }, pointer)
      stream.synchronize()
      assert.equal(new Uint32Array(bytes)[0], 24)
      const nothing = module.kernel('nothing', [])
      stream.launch(nothing, { grid: 2, block: 64, cooperative: true })
      if (device.computeCapability.major >= 9) stream.launch(nothing, { grid: [4, 1, 1], block: 64, cluster: 2 })
      await stream.finished()
      assert.ok(nothing.activeBlocks(256) > 0)
      assert.ok(nothing.activeBlocks(1024) < nothing.activeBlocks(32))
    },
  )

  test('K7 a kernel is captured into a graph, with the arguments it had then', async () => {
    using module = Module.load(PTX, { device })
    using stream = bench.stream()
    const store = module.kernel('store', ['out u32*', 'u32'])
    using graph = stream.capture(() => {
      stream.launch(store, { grid: 1, block: 1 }, pointer, 1)
      stream.launch(store, { grid: 1, block: 1 }, pointer + 4n, 2)
    })
    using exec = graph.instantiate()
    new Uint32Array(bytes).fill(0)
    stream.launch(exec)
    await stream.finished()
    assert.deepEqual(Array.from(new Uint32Array(bytes, 0, 2)), [1, 2])
  })

  test('K3 a wrong argument is an error of the compiler too', () => {
    using module = Module.load(PTX, { device })
    using stream = bench.stream()
    const store = module.kernel('store', ['out u32*', 'u32'])
    const one = { grid: 1, block: 1 }
    // @ts-expect-error an argument is missing
    assert.throws(() => stream.launch(store, one, pointer))
    // @ts-expect-error a text is no number
    assert.throws(() => stream.launch(store, one, pointer, '1'))
    // @ts-expect-error there is no such type
    assert.throws(() => module.kernel('store', ['u33']))
  })
})
