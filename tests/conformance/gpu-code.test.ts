/** Code of GPUs, PTX and CUDA C++: what launches of it compute, order and print is the same on the simulator and on a GPU. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type DefinedKernel, defineKernel, type Kernel, Module, Program, Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { collectingUncaught } from '../../src/foundation/base/uncaught.js'
import { compileCudaNow } from '../../src/foundation/native/nvrtc.js'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { onEveryBackend } from '../helpers/suite.js'

const COMPILES = { skip: lacksNvrtc() }
const HEAD = '.version 7.0\n.target sm_70\n.address_size 64\n'
const VARIABLE = `${HEAD}
.visible .global .align 4 .b8 numbers[16];
.visible .entry add(.param .u64 out) {
  .reg .u64 %from, %out;
  .reg .u32 %one, %i;
  ld.param.u64 %out, [out];
  mov.u32 %i, %tid.x;
  mul.wide.u32 %from, %i, 4;
  add.u64 %out, %out, %from;
  mov.u64 %from, numbers;
  ld.global.u32 %one, [%from+4];
  add.u32 %one, %one, %i;
  st.global.u32 [%out], %one;
  ret;
}
`

/** Takes 3 from a number, and sets a condition to what is left. */
const COUNT_DOWN = `${HEAD}
.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);
.visible .entry count_down(.param .u64 again, .param .u64 count) {
  .reg .u64 %again, %count;
  .reg .u32 %left, %x;
  .reg .pred %others;
  mov.u32 %x, %tid.x;
  setp.ne.u32 %others, %x, 0;
  @%others bra done;
  ld.param.u64 %again, [again];
  ld.param.u64 %count, [count];
  ld.global.u32 %left, [%count];
  sub.u32 %left, %left, 3;
  st.global.u32 [%count], %left;
  {
    .param .b64 handle;
    .param .b32 value;
    st.param.b64 [handle], %again;
    st.param.b32 [value], %left;
    call.uni cudaGraphSetConditional, (handle, value);
  }
done:
  ret;
}
`

onEveryBackend('code of a GPU', (bench) => {
  const { device } = bench

  test('K10 a variable of a module is a buffer, which kernels of the module see', async () => {
    using module = Module.load(VARIABLE, { device })
    using stream = bench.stream()
    using numbers = module.global('numbers')
    using out = device.alloc(16, { stream })
    assert.equal(numbers.byteLength, 16)
    void stream.upload(numbers, new Uint32Array([1, 20, 3, 4]))
    stream.launch(module.kernel('add', ['out u32*']), { grid: 1, block: 4 }, out)
    const bytes = await stream.download(out)
    assert.deepEqual([...new Uint32Array(bytes.buffer, bytes.byteOffset, 4)], [20, 21, 22, 23])
    stream.fill(numbers, 7, { width: 4 })
    assert.deepEqual([...new Uint32Array((await stream.download(numbers)).buffer)], [7, 7, 7, 7])
    assert.throws(() => module.global('missing'), { number: 500 })
  })

  test('K10 a kernel that is defined by its source alone runs', COMPILES, async () => {
    const scale = defineKernel({
      name: 'scale',
      source: 'extern "C" __global__ void scale(float f, float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= f; }',
      signature: ['f32', 'inout f32*'],
    })
    using stream = bench.stream()
    using x = device.alloc(4 * 512, { stream })
    await scale.prepare(device)
    void stream.upload(x, new Float32Array(512).fill(1.5))
    stream.launch(scale, { grid: 2, block: 256 }, 3, x)
    const bytes = await stream.download(x)
    assert.ok(new Float32Array(bytes.buffer, bytes.byteOffset, 512).every((value) => value === 4.5))
  })

  test('K10 a kernel sets a condition of its graph by cudaGraphSetConditional, in PTX', async () => {
    using module = Module.load(COUNT_DOWN, { device })
    await playsLoop(module.kernel('count_down', ['u64', 'inout u32*']))
  })

  test('K10 a kernel sets a condition of its graph by cudaGraphSetConditional, in CUDA C++', COMPILES, async () => {
    const countDown = defineKernel({
      name: 'count_down',
      source: `extern "C" __global__ void count_down(cudaGraphConditionalHandle again, unsigned* count) {
          if (threadIdx.x > 0) return;
          *count -= 3;
          cudaGraphSetConditional(again, *count);
        }`,
      signature: ['u64', 'inout u32*'],
    })
    await countDown.prepare(device)
    await playsLoop(countDown)
  })

  /** The kernel takes 3 from a number, until it is 0. */
  async function playsLoop(
    countDown: Kernel<readonly ['u64', 'inout u32*']> | DefinedKernel<readonly ['u64', 'inout u32*']>,
  ) {
    using stream = bench.stream()
    using count = device.alloc(4, { stream })
    using turns = device.alloc(64, { stream })
    using before = device.alloc(60, { stream })
    using graph = stream.capture(() => {
      const again = stream.createCondition(1)
      stream.fill(turns, 0)
      stream.while(again, (body) => {
        body.copy(before, turns.subarray(0, 60)).copy(turns.subarray(4, 64), before).fill(turns.subarray(0, 4), 1)
        body.launch(countDown, { grid: 1, block: 32 }, again, count)
      })
    })
    using exec = graph.instantiate()
    void stream.upload(count, Uint32Array.of(12))
    exec.launch(stream)
    assert.equal((await stream.download(count, Uint32Array))[0], 0)
    assert.equal((await stream.download(turns, Uint32Array)).filter((word) => word !== 0).length, 4)
    device.synchronize()
  }

  test('K10 a kernel that is defined as PTX runs without a compiler', async () => {
    const add = defineKernel({ name: 'add', ptx: VARIABLE, signature: ['out u32*'] })
    using stream = bench.stream()
    using out = device.alloc(16, { stream })
    await add.prepare(device)
    stream.launch(add, { grid: 1, block: 4 }, out)
    const bytes = await stream.download(out)
    assert.deepEqual([...new Uint32Array(bytes.buffer, bytes.byteOffset, 4)], [0, 1, 2, 3])
    for (const wrong of [{}, { source: '', ptx: '' }]) {
      assert.throws(() => defineKernel({ name: 'f', signature: [], ...wrong }), { code: 'ERR_INVALID_ARG_VALUE' })
    }
  })

  test('K10 a kernel with machine code for this GPU runs that, and the PTX on the simulator', COMPILES, async () => {
    const { major, minor } = device.computeCapability
    const made = (text: string, output: 'cubin' | 'ptx') => {
      const architecture = output === 'ptx' ? 'compute_75' : `sm_${major}${minor}`
      return Buffer.from(compileCudaNow({ text, file: 'one.cu', options: [`-arch=${architecture}`] }, output))
    }
    // The compiler may be newer than the driver, which loads no PTX of its version.
    const forDriver = (ptx: Buffer): string =>
      ptx
        .toString()
        .replace('\0', '')
        .replace(/^\.version .*$/m, '.version 8.0')
    const one = defineKernel({
      name: 'one',
      ptx: forDriver(made('extern "C" __global__ void one(unsigned *x) { *x = 1; }', 'ptx')),
      cubins: {
        [`sm_${major}${minor}`]: made('__global__ void one(unsigned *x) { *x = 2; }', 'cubin').toString('base64'),
      },
      mangledName: '_Z3onePj',
      signature: ['out u32*'],
    })
    using stream = bench.stream()
    using out = device.alloc(4, { stream })
    stream.launch(one, { grid: 1, block: 1 }, out)
    assert.deepEqual(await stream.download(out, Uint32Array), Uint32Array.of(device.driver === 'sim' ? 1 : 2))
  })

  test('K10 headers of CUDA are found, and options reach the compiler', COMPILES, async () => {
    const half = defineKernel({
      name: 'half_of',
      source: `#include <cuda_fp16.h>
        #ifndef FACTOR
        #define FACTOR 0.0f
        #endif
        extern "C" __global__ void half_of(float* x) { x[0] = __half2float(__hmul(__float2half(x[0]), __float2half(FACTOR))); }`,
      options: ['-DFACTOR=0.5f'],
      signature: ['inout f32*'],
    })
    using stream = bench.stream()
    using x = device.alloc(4, { stream })
    void stream.upload(x, Float32Array.of(3))
    stream.launch(half, { grid: 1, block: 1 }, x)
    assert.deepEqual([...(await stream.download(x, Float32Array))], [1.5])
  })

  test('K10 work of other kinds and kernels see the same memory', COMPILES, async () => {
    using module = await Program.compile(
      'extern "C" __global__ void inc(unsigned char* to, const unsigned char* from) { to[threadIdx.x] = from[threadIdx.x] + 1; }',
      { device },
    )
    const inc = module.kernel('inc', ['out u8*', 'in u8*'])
    using stream = bench.stream()
    using pinned = device.allocPinned(64)
    using a = device.alloc(64, { stream })
    using b = device.alloc(64, { stream })
    stream.fill(a, 1).launch(inc, { grid: 1, block: 64 }, b, a).copy(a, b)
    stream.launch(inc, { grid: 1, block: 64 }, pinned, a)
    await stream.finished()
    assert.ok(pinned.bytes.every((byte) => byte === 3))
    pinned.bytes.fill(9)
    stream.launch(inc, { grid: 1, block: 64 }, a, pinned)
    assert.ok((await stream.download(a)).every((byte) => byte === 10))
    // A part of a buffer, and a launch in a graph.
    using graph = stream.capture(() => {
      stream.launch(inc, { grid: 1, block: 8 }, b.subarray(8, 16), a.subarray(0, 8))
    })
    using exec = graph.instantiate()
    stream.fill(b, 0)
    exec.launch(stream)
    const bytes = await stream.download(b)
    assert.deepEqual([bytes[7], bytes[8], bytes[15], bytes[16]], [0, 11, 11, 0])
  })

  test('K3 bounds of the code are the launch’s', COMPILES, async () => {
    using module = await Program.compile(
      `extern "C" __global__ void __launch_bounds__(64) few() {}
      extern "C" __global__ void much(int* out) { __shared__ int all[11 * 1024]; all[threadIdx.x] = 1; __syncthreads(); out[0] = all[0]; }`,
      { device },
    )
    using stream = bench.stream()
    using out = device.alloc(4, { stream })
    const [few, much] = [module.kernel('few', []), module.kernel('much', ['out i32*'])]
    stream.launch(few, { grid: 1, block: 64 })
    stream.launch(few, { threads: 1000 })
    assert.throws(() => stream.launch(few, { grid: 1, block: 96 }), { name: 'CudaError' })
    stream.launch(much, { grid: 1, block: 32 }, out)
    stream.launch(much, { grid: 1, block: 32, sharedMemory: 8192 }, out)
    stream.launch(much, { grid: 1, block: 32, sharedMemory: 64 * 1024 }, out)
    await stream.finished()
    assert.ok(much.activeBlocks(32) < few.activeBlocks(32))
  })

  /** Writes 7 by way of so many bytes of shared memory that it declares, in blocks of at most so many threads. */
  const declaring = (bytes: number, bound: string): string => `.version 7.0
.target sm_70
.address_size 64
.visible .entry declares(.param .u64 to) ${bound}
{
  .reg .u64 %a;
  .reg .u32 %v, %s;
  .shared .align 4 .b8 fixed[${bytes}];
  mov.u32 %s, fixed;
  st.shared.u32 [%s], 7;
  ld.shared.u32 %v, [%s];
  ld.param.u64 %a, [to];
  cvta.to.global.u64 %a, %a;
  st.global.u32 [%a], %v;
  ret;
}
`

  test('K3 a launch has as much shared memory as the device, together with what its code declares', async () => {
    using stream = bench.stream()
    using out = device.alloc(4, { stream })
    const most = device.attribute('maxSharedMemoryPerBlockOptin')
    const KIB = 1024
    for (const fixed of [4, KIB, 40 * KIB]) {
      // In each order: a limit that an earlier launch raised must not decide.
      const sizes = [0, 48 * KIB - fixed, 48 * KIB - fixed + 4, 48 * KIB, 48 * KIB + 4, most - fixed]
      for (const order of [sizes, [...sizes].reverse()]) {
        using module = Module.load(declaring(fixed, ''), { device })
        const kernel = module.kernel('declares', ['out u32*'])
        for (const sharedMemory of order) {
          stream.fill(out, 0).launch(kernel, { grid: 1, block: 1, sharedMemory }, out)
          assert.equal((await stream.download(out, Uint32Array))[0], 7, `${sharedMemory} and ${fixed}`)
        }
        const tooMuch = { grid: 1, block: 1, sharedMemory: most - fixed + 4 }
        assert.throws(() => stream.launch(kernel, tooMuch, out), {
          number: 1,
          message: new RegExp(`launch of declares has ${most + 4} bytes of shared memory .*declares ${fixed}`),
        })
        using graph = stream.capture(() => stream.launch(kernel, { grid: 1, block: 1 }, out))
        using exec = graph.instantiate()
        const [node] = graph.nodesOf(kernel)
        assert.ok(node)
        exec.update(node, { grid: 1, block: 1, sharedMemory: 48 * KIB }, out)
        stream.fill(out, 0).launch(exec)
        assert.equal((await stream.download(out, Uint32Array))[0], 7)
      }
    }
  })

  test('K3 a kernel with more local memory for a thread than the GPU has is refused where it is looked up', async () => {
    const local = (bytes: number): string => `.version 7.0
.target sm_70
.address_size 64
.visible .entry local_array()
{
  .local .align 8 .b8 array[${bytes}];
  .reg .u64 %a;
  mov.u64 %a, array;
  cvta.local.u64 %a, %a;
  st.volatile.u32 [%a], 1;
  ret;
}
`
    using tooMuch = Module.load(local(600_000), { device })
    assert.throws(() => tooMuch.kernel('local_array', []), {
      number: 1,
      message: /Kernel 'local_array' declares 600000 bytes of local memory for a thread.*: use smaller arrays/,
    })
    using stream = bench.stream()
    using enough = Module.load(local(100_000), { device })
    stream.launch(enough.kernel('local_array', []), { grid: 1, block: 1 })
    await stream.finished()
  })

  test('K3 a launch of so many threads takes a block that fits the kernel, and a block that does not is named', async () => {
    using stream = bench.stream()
    using out = device.alloc(4, { stream })
    for (const bound of [128, 100, 16]) {
      const kernel = defineKernel({
        name: 'declares',
        ptx: declaring(4, `.maxntid ${bound}, 1, 1`),
        signature: ['out u32*'],
      })
      await kernel.prepare(device)
      for (const threads of [1000, [100, 50], [10, 10, 10]] as const) {
        using graph = stream.capture(() => stream.launch(kernel, { threads }, out))
        const { block, grid } = graph.nodesOf(kernel)[0]?.config ?? {}
        const [[x, y, z], [a, b, c]] = [block, grid].map((extent) => {
          const [first = 1, second = 1, third = 1] = typeof extent === 'number' ? [extent] : (extent ?? [])
          return [first, second, third] as const
        }) as [readonly [number, number, number], readonly [number, number, number]]
        assert.ok(x * y * z <= bound, `${x} ${y} ${z}`)
        const [i, j = 1, k = 1] = typeof threads === 'number' ? [threads] : threads
        assert.deepEqual([a, b, c], [Math.ceil(i / x), Math.ceil(j / y), Math.ceil(k / z)])
        stream.fill(out, 0).launch(kernel, { threads }, out)
        assert.equal((await stream.download(out, Uint32Array))[0], 7)
      }
      for (const [config, block] of [
        [{ grid: 4 }, '256 x 1 x 1'],
        [{ threads: 1000, block: [32, 8] }, '32 x 8 x 1'],
      ] as const) {
        assert.throws(() => stream.launch(kernel, config, out), {
          number: 1,
          message: new RegExp(`declares has 256 threads in each block \\(config.block is ${block}.*at most ${bound}`),
        })
      }
    }
    const required = defineKernel({ name: 'declares', ptx: declaring(4, '.reqntid 64'), signature: ['out u32*'] })
    stream.launch(required, { threads: 100, block: 64 }, out)
    // CUDA tells of no kernel which block it requires, but in the driver's own words.
    for (const config of [{ threads: 100 }, { threads: 100, block: 32 }, { grid: 1, block: [64, 2] }] as const)
      assert.throws(() => stream.launch(required, config, out), { number: 1, message: /require[sd].*64/ })
    await stream.finished()
  })

  test('K3 a launch of no threads queues nothing, and is checked all the same', async () => {
    using stream = bench.stream()
    using out = device.alloc(4, { stream })
    const kernel = defineKernel({ name: 'declares', ptx: declaring(4, ''), signature: ['out u32*'] })
    await kernel.prepare(device)
    stream.fill(out, 1)
    for (const threads of [0, [0], [0, 5], [5, 0, 5]] as const) {
      assert.equal(stream.launch(kernel, { threads }, out), stream)
      assert.equal(stream.launch(kernel, { threads, block: 64 }, out), stream)
      using graph = stream.capture(() => stream.fill(out, 1).launch(kernel, { threads }, out))
      assert.equal(graph.nodeCount, 1)
    }
    assert.equal((await stream.download(out, Uint8Array))[0], 1)
    assert.throws(() => stream.launch(kernel, { threads: 0 }, 'x' as never), { code: 'ERR_INVALID_ARG_TYPE' })
    assert.throws(() => stream.launch(kernel, { threads: -1 }, out), { code: 'ERR_OUT_OF_RANGE' })
    assert.throws(() => stream.launch(kernel, { grid: 0 }, out), { code: 'ERR_OUT_OF_RANGE', message: /threads: 0/ })
    // A node cannot become a launch of nothing.
    using graph = stream.capture(() => stream.launch(kernel, { threads: 5 }, out))
    using exec = graph.instantiate()
    const [node] = graph.nodesOf(kernel)
    assert.ok(node)
    assert.throws(() => exec.update(node, { threads: 0 }, out), { code: 'ERR_OUT_OF_RANGE', message: /setEnabled/ })
    exec.update(node, { threads: 7 }, out)
    const module = Module.load(declaring(4, ''), { device })
    const closed = module.kernel('declares', ['out u32*'])
    module.close()
    assert.throws(() => stream.launch(closed, { threads: 0 }, out), { code: 'ERR_CLOSED' })
    assert.throws(() => stream.launch(closed, { threads: 9 }, out), { code: 'ERR_CLOSED' })
  })

  test('K8 what the source and the JavaScript of a kernel make of the same memory is compared', {
    skip: COMPILES.skip || (bench.name === 'cuda' && 'of the simulator'),
  }, async () => {
    const define = (factor: number) =>
      defineKernel({
        name: 'twice',
        source: 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }',
        signature: ['inout f32*'],
        simulate: ({ threadIdx: { x: i } }, x) => {
          x[i] = factor * (x[i] ?? 0)
        },
        runs: 'both',
      })
    using stream = bench.stream()
    using x = device.alloc(16, { stream })
    void stream.upload(x, Float32Array.of(1, 2, 3, 4))
    stream.launch(define(2), { grid: 1, block: 4 }, x)
    assert.deepEqual([...(await stream.download(x, Float32Array))], [2, 4, 6, 8])
    const thrown: unknown[] = []
    collectingUncaught(
      (error) => thrown.push(error),
      () => stream.launch(define(3), { grid: 1, block: 4 }, x).synchronize(),
    )
    assert.match(String(thrown[0]), /element 0 of argument 0, 'inout f32\*' the source has 4, and the JavaScript 6/)
    assert.deepEqual([...(await stream.download(x, Float32Array))], [4, 8, 12, 16])
  })

  test('K10 a kernel that cannot end is a fault with its line, and no hang', {
    skip: bench.name === 'cuda' && 'a GPU that runs a display ends it, and others never',
  }, () => {
    using simulation = simulate({ instructions: 1_000_000 })
    const [simulated] = simulation.devices
    assert.ok(simulated)
    using module = Module.load(
      `${HEAD}.visible .entry endless(.param .u64 at) {
        .reg .u64 %at; .reg .u32 %value; .reg .pred %again;
        ld.param.u64 %at, [at];
      look:
        ld.volatile.global.u32 %value, [%at];
        setp.eq.u32 %again, %value, 0;
        @%again bra look;
        ret;
      }`,
      { device: simulated },
    )
    const stream = new Stream({ device: simulated })
    const flag = simulated.alloc(4, { stream })
    stream.fill(flag, 0).launch(module.kernel('endless', ['in u32*']), { grid: 2, block: 64 }, flag)
    assert.throws(() => stream.synchronize(), {
      number: 702,
      message: /more than 1000000 instructions, in endless, block/,
    })
    assert.throws(() => simulate({ instructions: 0 }), { code: 'ERR_OUT_OF_RANGE' })
  })

  test('K4 code that the simulator cannot run is refused, with the reason', {
    skip: bench.name === 'cuda' && 'of the simulator',
  }, () => {
    const cubin = new Uint8Array([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1])
    assert.throws(() => Module.load(cubin, { device }), { code: 'ERR_UNSUPPORTED', message: /machine code.*PTX/ })
    const bulk = `${HEAD}.visible .entry fine() { ret; }
.visible .entry not() { tcgen05.wait::ld.sync.aligned; ret; }`
    using module = Module.load(bulk, { device })
    assert.equal(module.kernel('fine', []).name, 'fine')
    const message =
      /^Kernel 'not': .*tcgen05.*line \d+ of the PTX\. Or .* JavaScript in its place: simulate in defineKernel\(\)$/
    assert.throws(() => module.kernel('not', []), { code: 'ERR_UNSUPPORTED', message, line: bulk.split('\n').length })
  })

  test('K4 blocks of a cluster run together: they wait for each other, and know their rank', {
    skip: device.computeCapability.major < 9 && 'needs compute capability 9.0',
  }, async () => {
    const waiting = `${HEAD.replace('7.0', '8.0').replace('sm_70', 'sm_90')}.visible .entry ranks(.param .u64 to) {
  .reg .b64 %to; .reg .b64 %at; .reg .b32 %rank; .reg .b32 %block;
  barrier.cluster.arrive; barrier.cluster.wait;
  ld.param.u64 %to, [to]; mov.u32 %rank, %cluster_ctarank; mov.u32 %block, %ctaid.x;
  mul.wide.u32 %at, %block, 4; add.u64 %at, %at, %to; st.global.u32 [%at], %rank; ret;
}
.visible .entry pairs() .reqnctapercluster 2 { ret; }`
    using module = Module.load(waiting, { device })
    using stream = new Stream({ device })
    using ranks = device.alloc(16, { stream })
    const kernel = module.kernel('ranks', ['out u32*'])
    stream.launch(kernel, { grid: 4, block: 64 }, ranks)
    assert.deepEqual(await stream.download(ranks, Uint32Array), Uint32Array.of(0, 0, 0, 0))
    stream.launch(kernel, { grid: 4, block: 64, cluster: 2 }, ranks)
    assert.deepEqual(await stream.download(ranks, Uint32Array), Uint32Array.of(0, 1, 0, 1))
    const refused = { number: 912 }
    const pairs = module.kernel('pairs', [])
    stream.launch(pairs, { grid: 2, block: 64 })
    stream.launch(pairs, { grid: 2, block: 64, cluster: 2 })
    assert.throws(() => stream.launch(pairs, { grid: 3, block: 64 }), refused)
    assert.throws(() => stream.launch(pairs, { grid: 4, block: 64, cluster: 4 }), refused)
    await stream.synchronize()
  })

  test('K4 a kernel that uses textures in a way that the simulator lacks is loaded, and its launches are refused by name', async () => {
    const texture = `${HEAD}.global .texref image;
.visible .entry fine() { ret; }
.visible .entry sampled(.param .u64 at) {
  .reg .b64 %r; .reg .f32 %a<4>; .reg .f32 %x; ld.param.u64 %r, [at]; mov.f32 %x, 0f00000000;
  tex.1d.v4.f32.f32 {%a0, %a1, %a2, %a3}, [image, {%x}]; ret;
}
.func inner(.reg .b64 %s) { .reg .b32 %v; txq.num_mipmap_levels.b32 %v, [%s]; ret; }
.visible .entry asked(.param .u64 at) { .reg .b64 %r; ld.param.u64 %r, [at]; call inner, (%r); ret; }`
    using module = Module.load(texture, { device })
    using stream = new Stream({ device })
    stream.launch(module.kernel('fine', []), { grid: 1, block: 1 })
    const opcodes = { sampled: 'tex.1d.v4.f32.f32', asked: 'txq.num_mipmap_levels.b32' }
    for (const [name, opcode] of Object.entries(opcodes)) {
      const kernel = module.kernel(name, ['u64'])
      assert.equal(kernel.name, name)
      // On a GPU a handle of no texture faults.
      if (bench.name === 'cuda') continue
      const refused = {
        code: 'ERR_UNSUPPORTED',
        message: new RegExp(`'${name}'.*'${opcode}' at line \\d+.*texture and surface objects without mipmaps`),
      }
      assert.throws(() => stream.launch(kernel, { grid: 1, block: 1 }, 0n), refused)
      assert.throws(() => stream.capture(() => void stream.launch(kernel, { grid: 1, block: 1 }, 0n)), refused)
    }
    stream.launch(module.kernel('fine', []), { grid: 1, block: 1 })
    await stream.synchronize()
  })
})
