/**
 * Files of CUDA C++ as other people write them, for nvcc: what it brings without being asked, and the host's half. Each has a kernel that
 * nothing of that concerns, or one that uses it as far as code for the GPU can.
 */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import { type CompiledCu, type CuOptions, compileCu } from 'cuda-streams/cu'
import { typeText } from '../../src/cu/cu-module.js'
import { KernelMacros } from '../../src/cu/kernel-macros.js'
import { libraryHeaderFolders } from '../../src/foundation/native/nvrtc.js'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { scratchFolder } from '../helpers/scratch.js'

const skip = lacksNvrtc()
const folder = scratchFolder('cu-projects')
process.env['XDG_CACHE_HOME'] = join(folder, 'cache')
let count = 0

/** Writes files, of which the first is compiled. */
function compile(files: Readonly<Record<string, string>>, options?: CuOptions): Promise<CompiledCu> {
  const own = join(folder, `${count++}`)
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(own, name)), { recursive: true })
    writeFileSync(join(own, name), text)
  }
  return compileCu(join(own, Object.keys(files)[0] ?? ''), options)
}

const signaturesOf = ({ kernels, structs }: CompiledCu): readonly string[] =>
  kernels.map(({ name, signature }) => `${name}(${signature.map((type) => typeText(type, structs)).join(', ')})`)

const PLAIN = '__global__ void plain(int *a) { a[threadIdx.x] = 1; }'

/** What comes of each: the kernels' signatures. */
const FILES: Readonly<Record<string, readonly [text: string, ...kernels: string[]]>> = {
  "the system's names of integers": [
    '__global__ void k(uint a, ushort b, ulong *c, ssize_t d, u_char e, time_t f) { *c = a + b + d + e + f; }',
    'k(u32, u16, out u64*, i64, u8, i64)',
  ],
  'typedefs of the same names': ['typedef unsigned int uint;\n__global__ void k(uint *a) { *a = 1; }', 'k(out u32*)'],
  'std without an include': [
    '__global__ void k(float *a, size_t n) { std::uint8_t b = 3; *a = std::max(1.f, std::min(a[1], 2.f)) + std::numeric_limits<float>::max() + b; static_assert(std::is_same<float, std::remove_const_t<const float>>::value, ""); }',
    'k(inout f32*, u64)',
  ],
  'std::move, forward, pair, memset and memcpy': [
    '#include <utility>\n#include <cstring>\ntemplate <class T> __device__ T same(T &&x) { return std::forward<T>(x); }\n__global__ void k(float *a) { float t[2]; std::memset(t, 0, sizeof t); std::memcpy(t, a, 4); float x = std::move(t[1]); std::pair<int, float> p = std::make_pair(1, x); *a = same(p.second) + t[0]; }',
    'k(inout f32*)',
  ],
  'variables of the host': [
    `const char *name = "x", *const other = "y"; char *names[] = {0, 0}; static const char *texts[2] = {"a", "b"};
     extern const char *version; extern const int limit; extern int counters[]; unsigned long long total;
     static float table[3] = {1, 2, 3}; double (*pointer)(double); std::mutex lock; static std::string text("x");
     pthread_mutex_t guard; FILE *log_file; std::map<int, std::vector<float>> memory; dim3 grid(1, 2);
     struct Options { int width; } options, *current = &options; static struct { int x; } unnamed; enum Mode { fast } mode = fast;
     const double scale = compute(3); const std::string greeting = "hello";
     ${PLAIN}`,
    'plain(out i32*)',
  ],
  'constants, which kernels use': [
    'const int N = 3; static const float weights[] = {1, 2}; constexpr int M = N + 1; struct Sizes { static const int most = 4; static constexpr int least = 2; };\n__global__ void k(float *a) { *a = N + M + weights[threadIdx.x] + Sizes::most + Sizes::least; }',
    'k(out f32*)',
  ],
  'constants that are made of others': [
    'const float scale = 1.5f; static const double inverse = 1.0 / scale, other = -inverse;\nnamespace n { const float twice = 2 * scale; }\n__global__ void k(float *a) { *a = inverse * other + n::twice; }',
    'k(out f32*)',
  ],
  'members of the host': [
    `struct Counter { static int total; static std::string name; static void add() { total++; } int own = 3; };
     int Counter::total = 0; std::string Counter::name = "x";
     template <class T> class Body { public: virtual ~Body() = default; Body(const Body &) = delete; Body &operator=(const Body &) = default;
       virtual void load(const std::string &name) = 0; virtual T step(T dt) const { return dt; } static T most; };
     template <class T> T Body<T>::most = 0;
     class Derived : public Body<float> { void load(const std::string &) override {} std::vector<int> all; friend std::ostream &operator<<(std::ostream &, const Derived &); };
     ${PLAIN}`,
    'plain(out i32*)',
  ],
  'structs of the host, of types that are not here': [
    `struct Window { GLuint buffer; cv::Mat image; std::thread worker; }; typedef GLuint Buffer; using Image = cv::Mat; using namespace cv;
     namespace fs = std::filesystem; static Window window; template <class T> struct Holder : std::vector<T> { using std::vector<T>::vector; };
     ${PLAIN}`,
    'plain(out i32*)',
  ],
  'what is for both sides, and needs the host': [
    `__host__ __device__ void tell(int x) { std::cout << x; } constexpr const char *text() { return std::getenv("x"); }\n${PLAIN}`,
    'plain(out i32*)',
  ],
  __extension__: [
    '__extension__ typedef long long wide;\n__global__ void k(wide *a) { *a = __extension__ 3; }',
    'k(out i64*)',
  ],
  "cuBLAS's types": [
    '#include <cublas_v2.h>\nstruct Context { cublasHandle_t handle; cublasStatus_t status; cublasLtHandle_t lt; };\n__global__ void k(__nv_bfloat16 *a, half *b, cuComplex *c) { *a = __float2bfloat16(1.f); *b = __float2half(1.f); *c = cuCmulf(*c, *c); }',
    'k(out bf16*, out f16*, inout f32x2*)',
  ],
  'types of other libraries': [
    `#include <cufft.h>\n#include <nccl.h>\n#include <cudnn.h>\n#include <cusparse.h>\n#include <cusolverDn.h>\n#include <cuda.h>\n#include <mpi.h>
     struct All { ncclComm_t a; ncclUniqueId b; cudnnTensorDescriptor_t c; cusparseSpMatDescr_t d; cusolverDnHandle_t e; CUdeviceptr f; MPI_Comm g; cufftHandle h; curandGenerator_t i; };
     __global__ void k(cufftComplex *a, cufftDoubleReal *b) { a->x *= 2; *b = 1; }`.replace(
      '#include <mpi.h>',
      '#include <mpi.h>\n#include <curand.h>',
    ),
    'k(inout f32x2*, out f64*)',
  ],
  "CUB's header of everything": [
    '#include <cub/cub.cuh>\n__global__ void k(int *a) { typedef cub::WarpReduce<int> Reduce; __shared__ Reduce::TempStorage t; int s = Reduce(t).Sum(a[threadIdx.x]); if (threadIdx.x == 0) a[0] = s; }\nvoid host() { cub::DeviceScan::ExclusiveSum(0, 1); }',
    'k(inout i32*)',
  ],
  'complex numbers, pairs and tuples of Thrust': [
    '#include <thrust/device_vector.h>\n#include <thrust/complex.h>\n#include <thrust/tuple.h>\n#include <thrust/pair.h>\n__global__ void k(thrust::complex<float> *a, float *b) { a[0] *= a[1]; thrust::pair<int, float> p(1, 2.f); thrust::tuple<int, float> t = thrust::make_tuple(1, p.second); *b = thrust::get<1>(t); }\nvoid host() { thrust::device_vector<int> v; }',
    'k(inout u8*, out f32*)',
  ],
  'arrays, tuples and sequences of std': [
    '#include <array>\n#include <tuple>\ntemplate <int... I> __device__ int sum(std::integer_sequence<int, I...>) { return (I + ...); }\n__global__ void k(float *a) { std::array<float, 2> b = {1, 2}; std::tuple<int, float> t = std::make_tuple(1, 2.f); *a = b[1] + std::get<1>(t) + sum(std::make_integer_sequence<int, 4>()); }',
    'k(out f32*)',
  ],
  'partial specializations': [
    `template <int M, class T> struct policy; template <class T> struct policy<1, T> { static const int value = 1; };
     template <class T> __global__ void copy(const T *x, T *y, long n) { y[threadIdx.x] = x[threadIdx.x]; }
     template <class T> static void run(const T *x, T *y, long n) { copy<<<1, n>>>(x, y, n); }
     void host(float *p) { run(p, p, 3); }`,
    'copy_float(in f32*, out f32*, i64)',
  ],
  'kernels that macros make': [
    `#define KERNEL(name, op) __global__ void name##_all(float *a) { a[threadIdx.x] = a[threadIdx.x] op 2; }
     KERNEL(twice, *)
     KERNEL(half_of, /);
     template <class T, int N> __global__ void fill(T *a) { *a = N; }
     #define MAKE(T, ...) template __global__ void fill<T, __VA_ARGS__>(T *);
     #define FOR_ALL(X) X(int, 3) \\
       X(float, 4)
     FOR_ALL(MAKE)
     __global__ void last(int *a) { *a = 1; }`,
    'twice_all(inout f32*)',
    'half_of_all(inout f32*)',
    'fill_int_3(out i32*)',
    'fill_float_4(out f32*)',
    'last(out i32*)',
  ],
}

describe('files of other projects compile as they are', { skip }, () => {
  for (const [name, [text, ...kernels]] of Object.entries(FILES)) {
    test(name, async () => {
      const made = await compile({ 'own.cu': text })
      assert.deepEqual(signaturesOf(made), kernels)
      assert.deepEqual(
        made.notes.filter((note) => !/is a pointer, and passed as an address/.test(note)),
        [],
      )
    })
  }

  test('a header has one `#pragma once`, whatever its name in an #include', async () => {
    const made = await compile({
      'own.cu': '#include "sub/common.cuh"\n#include "sub/other.cuh"\n__global__ void k(int *a) { *a = one() + N; }',
      'sub/other.cuh': '#pragma once\n#include "common.cuh"\n#include "../sub/common.cuh"\n#include "../up.h"\n',
      'sub/common.cuh': '#pragma once\n__device__ inline int one() { return 1; }\n',
      'up.h': '#pragma once\nconst int N = 2;\n',
    })
    assert.deepEqual(signaturesOf(made), ['k(out i32*)'])
    assert.equal(made.includes.length, 3)
  })

  test('two headers of one name are two', async () => {
    const made = await compile({
      'own.cu': '#include "a/all.h"\n#include "b/all.h"\n__global__ void k(int *a) { *a = A + B; }',
      'a/all.h': '#include "own.h"\n',
      'b/all.h': '#include "own.h"\n',
      'a/own.h': 'const int A = 1;\n',
      'b/own.h': 'const int B = 2;\n',
    })
    assert.deepEqual(signaturesOf(made), ['k(out i32*)'])
  })

  test("CUDA's own folder may be named by -I", async (t) => {
    const include = libraryHeaderFolders()[0]
    if (include === undefined) return t.skip('there is none')
    const text = `#include <cuda_runtime.h>\n#include <cuda_fp16.h>\n#include <stdio.h>\n__global__ void k(half *a) { *a = 1; }`
    const made = await compile({ 'own.cu': text }, { options: ['-I', include] })
    assert.deepEqual(signaturesOf(made), ['k(out f16*)'])
    assert.deepEqual(made.includes, [])
  })
})

describe('a kernel that JavaScript cannot call costs itself alone', { skip }, () => {
  const CASES: Readonly<Record<string, readonly [text: string, note: RegExp]>> = {
    'a union': [
      'union U { int i; float f; };\n__global__ void bad(float *a, U u) { *a = u.f; }',
      /own\.cu:2:31: .*is a union/,
    ],
    'a base class': [
      'struct A { int x; }; struct B : A { int y; };\n__global__ void bad(int *a, B b) { *a = b.y; }',
      /own\.cu:2:29: .*has a base class/,
    ],
    'private members': [
      'class P { int x; public: __device__ int get() const { return x; } };\n__global__ void bad(int *a, P p) { *a = p.get(); }',
      /has private members/,
    ],
    'a reference': ['__global__ void bad(int &a) { a = 1; }', /is a reference/],
    overloads: [
      '__global__ void bad(int *a) { *a = 1; }\n__global__ void bad(float *a) { *a = 2; }',
      /own\.cu:1:17: .*several kernels bad, which only their parameters tell apart: give each a name of its own/,
    ],
    'a launch within a kernel': [
      '__global__ void child(int *a) { *a = 1; }\n__global__ void bad(int *a) { child<<<1, 32>>>(a); }',
      /own\.cu:2:31: .*launch the other from JavaScript, behind this one in the same stream/,
    ],
  }
  for (const [name, [text, note]] of Object.entries(CASES)) {
    test(name, async () => {
      const made = await compile({ 'own.cu': `${text}\n${PLAIN}` })
      assert.equal(signaturesOf(made).at(-1), 'plain(out i32*)')
      assert.ok(made.kernels.every((each) => each.name !== 'bad'))
      assert.match(made.notes.join('\n'), note)
    })
  }

  test('nothing that is empty is refused: C++ gives it a byte', async () => {
    const made = await compile({
      'own.cu': `#include <type_traits>\nstruct Empty {}; struct Base {}; struct Derived : Base {};
        __global__ void k(float *a, Empty e, std::bool_constant<true> b, Derived d, std::integral_constant<int, 3> n) { *a = b ? n : 2; }`,
    })
    assert.deepEqual(signaturesOf(made), ['k(out f32*, u8, u8, u8, u8)'])
  })
})

describe('the true mistake comes first, with the way out', { skip }, () => {
  const CASES: Readonly<Record<string, readonly [text: string, first: RegExp, count: number]>> = {
    'a type that is not known': [
      '__global__ void k(Unknown *a, int n) { a[n] = 1; }',
      /^own\.cu:1:19: identifier "Unknown" is undefined$/m,
      1,
    ],
    'a struct of a type that is not known, which a kernel takes': [
      'struct P { Missing m; int n; };\n__global__ void k(P *p) { p->n = 1; }',
      /^own\.cu:1:12: identifier "Missing" is undefined$/m,
      2,
    ],
    'a texture reference': [
      'texture<float, 2, cudaReadModeElementType> t;\n__global__ void k(float *a) { *a = tex2D(t, 0.f, 1.f); }',
      /^own\.cu:2:42: identifier "t" is undefined: texture and surface references were removed by CUDA 12/m,
      1,
    ],
    'a shuffle without a mask': [
      '__global__ void k(int *a) { *a = __shfl_down(*a, 1); }',
      /CUDA has removed it: write __shfl_down_sync\(mask, …\)/,
      1,
    ],
    'a macro of the build': [
      '__global__ void k(int *a) { *a = TILE_SIZE; }',
      /"TILE_SIZE" is undefined: if it is a macro of the build, give it by the option -DTILE_SIZE=…/,
      1,
    ],
    half: [
      '__global__ void k(half *a) { *a = 1; }',
      /"half" is undefined: it is declared in cuda_fp16\.h: include it/,
      1,
    ],
  }
  for (const [name, [text, first, mistakes]] of Object.entries(CASES)) {
    test(name, async () => {
      await assert.rejects(compile({ 'own.cu': text }), (error) => {
        assert.ok(error instanceof Error && 'diagnostics' in error && Array.isArray(error.diagnostics))
        const [told] = error.diagnostics
        assert.match(`own.cu:${told.line}:${told.column}: ${told.message.split('\n')[0]}`, first)
        assert.equal(error.diagnostics.length, mistakes, error.message)
        return true
      })
    })
  }
})

test('a macro that conditions define in several ways is left to the compiler', () => {
  const macros = new KernelMacros()
  const text = `#if A\n#define M(x) __global__ void x() {}\n#else\n#define M(x) __global__ void x##2() {}\n#endif\nM(k)`
  macros.read(text)
  assert.equal(macros.expanded(text), text)
})

test('what a macro stands for moves no line', () => {
  const macros = new KernelMacros()
  const text = `#define M(x, y) __global__ void x(int *a) { \\\n  *a = y; }\nM(k,\n  3)\n__device__ int behind;`
  macros.read(text)
  const lines = macros.expanded(text).split('\n')
  assert.equal(lines.length, text.split('\n').length)
  assert.match(lines[2] ?? '', /^__global__ void k\(int \*a\)/)
  assert.equal(lines.at(-1), '__device__ int behind;')
})
