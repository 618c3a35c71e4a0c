/** Kernels of CUDA C++ that NVRTC compiles now, with options of its own: what its version of today makes of them runs. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileCudaNow } from '../../src/native/nvrtc.js'
import { lacksNvrtc } from '../helpers/cuda-toolkit.js'
import { faultOf } from './faults.js'
import { integers, Machine, type NumericArray, type TestLaunch } from './machine.js'

const skip = lacksNvrtc()

interface SourceCase {
  /** What is guaranteed. */
  readonly title: string
  readonly source: string
  readonly launch: TestLaunch
  readonly parameters: () => readonly NumericArray[]
  /** Given the arrays as the kernel left them. */
  readonly check: (...after: readonly NumericArray[]) => void
  readonly options?: readonly string[]
  /** Those that have the instructions. Default: all. */
  readonly architectures?: readonly string[]
}

const numbers = (count: number): Int32Array => new Int32Array(count)
const all = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))
const values = (array: NumericArray | undefined): unknown[] => [...(array ?? [])]

const CASES: readonly SourceCase[] = [
  {
    title: 'integers of 128 bits divide: a subtraction leaves the flag that addc takes',
    options: ['--device-int128'],
    source: `__global__ void k(const unsigned long long* a, unsigned long long* out) {
      const unsigned long long* x = a + 3 * threadIdx.x;
      unsigned __int128 n = ((unsigned __int128)x[0] << 64) | x[1], q = n / x[2], r = n % x[2];
      out[3 * threadIdx.x] = q >> 64; out[3 * threadIdx.x + 1] = q; out[3 * threadIdx.x + 2] = r;
    }`,
    launch: { block: 32 },
    parameters: () => [
      BigUint64Array.from(integers(96, 2 ** 31), (each, i) => BigInt(each) ** 2n * (i % 3 === 2 ? 1n : 3n) + 1n),
      new BigUint64Array(96),
    ],
    check: (a, out) => {
      const given = values(a) as bigint[]
      const expected = all(32, (i) => {
        const [high = 0n, low = 0n, by = 1n] = given.slice(3 * i)
        const whole = (high << 64n) | low
        return [BigInt.asUintN(64, (whole / by) >> 64n), BigInt.asUintN(64, whole / by), whole % by]
      })
      assert.deepEqual(values(out), expected.flat())
    },
  },
  {
    title: 'a block that looks for a flag between barriers lets the block run that sets it',
    source: `__global__ void k(int* flags, int* out) {
      __shared__ int seen;
      while (blockIdx.x + 1 < gridDim.x) {
        if (threadIdx.x == 0) seen = ((volatile int*)flags)[blockIdx.x + 1];
        __syncthreads();
        if (seen) break;
        __syncthreads();
      }
      __syncthreads();
      if (threadIdx.x == 0) { out[blockIdx.x] = blockIdx.x; __threadfence(); ((volatile int*)flags)[blockIdx.x] = 1; }
    }`,
    launch: { grid: 12, block: 64 },
    parameters: () => [numbers(12), numbers(12)],
    check: (_flags, out) =>
      assert.deepEqual(
        values(out),
        all(12, (i) => i),
      ),
  },
  {
    title: 'warps that look for a flag with shuffles let each other run',
    source: `__global__ void k(int* out) {
      __shared__ volatile int flag;
      if (threadIdx.x == 0) flag = 0;
      __syncthreads();
      int warp = threadIdx.x / 32, v;
      for (int i = 0; i < 5; i++) {
        do { v = threadIdx.x % 32 == 0 ? flag : 0; v = __shfl_sync(~0u, v, 0); } while (v % 2 != warp);
        if (threadIdx.x % 32 == 0) flag = v + 1;
        __syncwarp();
      }
      __syncthreads();
      out[threadIdx.x] = flag;
    }`,
    launch: { block: 64 },
    parameters: () => [numbers(64)],
    check: (out) => assert.ok(values(out).every((each) => each === 10)),
  },
  {
    title: 'a loop that waits through a call lets the thread run that it waits for',
    source: `__device__ __noinline__ int look(volatile int* flag) { return *flag; }
    __device__ __noinline__ void await(volatile int* flag, int value) { while (look(flag) != value) {} }
    __global__ void k(int* flags, int* out) {
      int i = threadIdx.x;
      if (i < 63) await(flags + i + 1, i + 2);
      out[i] = i;
      __threadfence();
      ((volatile int*)flags)[i] = i + 1;
    }`,
    launch: { block: 64 },
    parameters: () => [numbers(64), numbers(64)],
    check: (_flags, out) =>
      assert.deepEqual(
        values(out),
        all(64, (i) => i),
      ),
  },
  {
    title: 'activemask in a function has the lanes of its caller, not those of another branch',
    source: `__device__ __noinline__ unsigned active() { return __activemask(); }
    __global__ void k(const int* in, int* out) {
      if (in[threadIdx.x] % 3) out[threadIdx.x] = active();
      else out[threadIdx.x] = ~active();
    }`,
    launch: { block: 32 },
    parameters: () => [Int32Array.from(all(32, (i) => i)), numbers(32)],
    check: (_in, out) => {
      // Both branches write the lanes whose number is no multiple of 3.
      const mask = all(32, (i) => (i % 3 === 0 ? 0 : 1 << i)).reduce((a, b) => a | b)
      assert.ok(values(out).every((each) => each === mask))
    },
  },
  {
    title: 'the arrival of asynchronous copies is awaited besides, unless it says noinc',
    architectures: ['sm_80', 'sm_90'],
    source: `__global__ void k(const int* in, int* out) {
      __shared__ unsigned long long barrier;
      __shared__ int stage[32];
      unsigned at = __cvta_generic_to_shared(&barrier), to = __cvta_generic_to_shared(stage + threadIdx.x), over = 0;
      if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"(at));
      __syncthreads();
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(in + threadIdx.x));
      asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(at));
      asm volatile("{.reg .b64 s; mbarrier.arrive.shared.b64 s, [%0];}" :: "r"(at));
      while (!over)
        asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
          : "=r"(over) : "r"(at) : "memory");
      asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 1; selp.u32 %0, 1, 0, p;}"
        : "=r"(over) : "r"(at) : "memory");
      out[threadIdx.x] = stage[31 - threadIdx.x] + 1000 * over;
    }`,
    launch: { block: 32 },
    parameters: () => [Int32Array.from(all(32, (i) => i)), numbers(32)],
    check: (_in, out) =>
      assert.deepEqual(
        values(out),
        all(32, (i) => 31 - i),
      ),
  },
  {
    title: 'the shared memory that CUDA reserves for its headers belongs to the block, beside its own',
    architectures: ['sm_80', 'sm_90'],
    source: `__global__ void k(int* out) {
      __shared__ int own[32];
      unsigned at;
      asm volatile("mov.u32 %0, %%reserved_smem_offset_1;" : "=r"(at));
      own[threadIdx.x] = threadIdx.x;
      asm volatile("st.shared.u32 [%0], %1;" :: "r"(at + 4 * threadIdx.x), "r"(7 * threadIdx.x) : "memory");
      __syncthreads();
      int v;
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at + 4 * (31 - threadIdx.x)));
      out[threadIdx.x] = v + own[threadIdx.x];
    }`,
    launch: { block: 32 },
    parameters: () => [numbers(32)],
    check: (out) =>
      assert.deepEqual(
        values(out),
        all(32, (i) => 7 * (31 - i) + i),
      ),
  },
  {
    title: 'minima and maxima that are at least zero run, as NVRTC writes them',
    architectures: ['sm_75', 'sm_90'],
    source: `__global__ void k(const int* in, int* out) {
      int a = in[threadIdx.x] - 500, b = in[31 - threadIdx.x] - 500;
      out[2 * threadIdx.x] = __viaddmax_s32_relu(a, b, -3);
      out[2 * threadIdx.x + 1] = __vimin_s16x2_relu((a << 16) | (b & 65535), (b << 16) | 5);
    }`,
    launch: { block: 32 },
    parameters: () => [integers(32, 1000), numbers(64)],
    check: (given, out) => {
      const a = (i: number): number => Number(given?.[i]) - 500
      const least = (x: number, y: number): number => Math.max(0, Math.min(x, y))
      const expected = all(32, (i) => {
        const [x, y] = [a(i), a(31 - i)]
        return [Math.max(0, x + y), (least(x, y) << 16) | least(y, 5)]
      })
      assert.deepEqual(values(out), expected.flat())
    },
  },
]

const DEBUG = [[], ['-G']]

for (const { title, source, launch, parameters, check, options = [], architectures = ['sm_75', 'sm_90'] } of CASES) {
  for (const architecture of architectures) {
    for (const debug of DEBUG) {
      test(`${title} (${[architecture, ...debug]})`, { skip }, () => {
        const machine = new Machine()
        const module = machine.load(compiled(source, [`--gpu-architecture=${architecture}`, ...debug, ...options]))
        const arrays = parameters()
        const addresses = arrays.map((each) => machine.put(each))
        machine.run(module, 'k', launch, addresses)
        check(...arrays.map((each, index) => machine.get(addresses[index] ?? 0, each)))
      })
    }
  }
}

for (const [what, body] of [
  ['meets at barriers', '__syncthreads();'],
  ['shuffles', 'out[1] = __shfl_xor_sync(~0u, out[1], 1);'],
  ['calculates', 'out[1] = out[1] * 5 + 1;'],
] as const) {
  test(`a kernel that ${what} forever ends at the limit`, { skip }, () => {
    const machine = new Machine()
    const module = machine.load(
      compiled(`__global__ void k(volatile int* out) { while (out[0] == 0) { ${body} } }`, [
        '--gpu-architecture=sm_75',
      ]),
    )
    const out = machine.put(numbers(2))
    const fault = faultOf(() => machine.run(module, 'k', { grid: 2, block: 64, instructionLimit: 1e7 }, [out]))
    assert.equal(fault.code, 'CUDA_ERROR_LAUNCH_TIMEOUT')
  })
}

test('printf writes a null pointer as the C library does', { skip }, () => {
  const machine = new Machine()
  let text = ''
  const source = '__global__ void k() { printf("%p %p", (void*)0, (void*)18); }'
  const module = machine.load(compiled(source, ['--gpu-architecture=sm_75']))
  machine.run(module, 'k', { print: (more) => (text += more) }, [])
  assert.equal(text, '(nil) 0x12')
})

function compiled(source: string, options: readonly string[]): string {
  const text = `extern "C" ${source.includes('__device__') ? `{ ${source} }` : source}`
  const ptx = compileCudaNow({ text, file: 'program.cu', options }, 'ptx')
  return new TextDecoder().decode(ptx).replace(/\0$/, '')
}
