/** Kernel templates that are launched without their arguments: which are found by the types of what is passed, and what the others are told. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { compileCu } from 'cuda-streams/cu'
import { DeviceSources } from '../../src/cu/device-source.js'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { scratchFolder } from '../helpers/scratch.js'

const TEMPLATES = `
template <typename T> __global__ void scale(T *x, T factor, int n) { x[n] *= factor; }
template <int Block, typename T> __global__ void reduce(const T *__restrict__ in, T *out) { out[0] = in[Block]; }
template <class T, int Width = 4> __global__ void fill(T *x) { x[0] = Width; }
template <typename T> struct Complex { T re, im; };
template <typename T> __global__ void square(Complex<T> *x) { x[0].re *= x[0].re; }
template <typename T> __global__ void byValue(T x, int *out) {}
template <typename T> __global__ void nested(typename T::type x) {}
template <typename... Ts> __global__ void pack(Ts... x) {}
typedef float real;
namespace outer { struct AddOne { float k; }; }
`

/** What a body of a function launches. */
function launched(body: string, parameters = '', before = ''): readonly string[] {
  const sources = new DeviceSources()
  sources.add('own.cu', `${TEMPLATES}${before}\nvoid host(${parameters}) {\n${body}\n}`)
  return sources.kernels.map(({ expression }) => expression)
}

test('the types of parameters and variables say the arguments of a template', () => {
  const rows: readonly (readonly [body: string, parameters: string, expected: string])[] = [
    ['scale<<<(n + 255) / 256, 256>>>(x, 2.0f, n);', 'float *x, int n', 'scale<float>'],
    ['scale<<<dim3(1, 2), 256, 0, stream>>>(x + n * 2, y, n);', 'double* x, double y, int n', 'scale<double>'],
    ['unsigned *a = nullptr, *x; scale<<<1, 1>>>(x, 2u, 1);', '', 'scale<unsigned int>'],
    ['std::vector<float> v; const auto f = v[0]; scale<<<1, 1>>>(x, f, 1);', 'real *x', 'scale<real>'],
    ['scale<<<1, 1>>>((short *)x, f, 1);', 'void *x', 'scale<short>'],
    ['scale<<<1, 1>>>(reinterpret_cast<unsigned char *>(x) + 4, f, 1);', 'void *x', 'scale<unsigned char>'],
    ['scale<<<1, 1>>>(all[i], f, 1);', 'float **all, int i', 'scale<float>'],
    ['scale<<<1, 1>>>(v.data(), 2.0, 1);', 'Vector &v', 'scale<double>'],
    ['reduce<128><<<1, 128>>>(x, y);', 'const int *x, int *y', 'reduce<128, int>'],
    ['fill<<<1, 1>>>(x);', 'float x[4]', 'fill<float>'],
    ['square<<<1, 1>>>(x);', 'Complex<float> *x', 'square<float>'],
    ['square<<<1, 1>>>(x);', 'outer::Complex<float> *x', 'square<float>'],
    ['byValue<<<1, 1>>>(float(n), y);', 'int n, int *y', 'byValue<float>'],
    ['byValue<<<1, 1>>>(x, y);', 'const float *x, int *y', 'byValue<const float *>'],
    ['byValue<<<1, 1>>>(outer::AddOne{2.f, {1}}, y);', 'int *y', 'byValue<outer::AddOne>'],
    ['byValue<<<1, 1>>>(x, y);', 'const float x, int *y', 'byValue<float>'],
    ['for (float x = 0; x < 4; x++) byValue<<<1, 1>>>(x, y);', 'int *y', 'byValue<float>'],
    ['cudaFuncSetAttribute(fill<int, 8>, attribute, 1);', '', 'fill<int, 8>'],
    ['auto kernel = &reduce<64, real>; kernel<<<1, 64>>>(x, y);', '', 'reduce<64, real>'],
  ]
  for (const [body, parameters, expected] of rows) assert.deepEqual(launched(body, parameters), [expected], body)
})

test('what is not certain is not deduced', () => {
  const rows: readonly (readonly [body: string, parameters: string, before?: string])[] = [
    ['scale<<<1, 1>>>(v.data(), f, 1);', 'Vector &v, Number &f'],
    ['auto x = make(); scale<<<1, 1>>>(x, f, 1);', ''],
    // Which of the two it is depends on the block.
    ['{ double *x; } scale<<<1, 1>>>(x, f, 1);', 'float *x'],
    ['run([](double *x) { scale<<<1, 1>>>(x, f, 1); });', 'float *x'],
    ['auto [x, f] = both(); scale<<<1, 1>>>(x, f, 1);', ''],
    // In C++ it is an error.
    ['scale<<<1, 1>>>(x, 2.0, 1);', 'float *x'],
    ['reduce<<<1, 1>>>(x, y);', 'float *x, float *y'],
    ['reduce<64><<<1, 1>>>(x.get(), y.get());', 'Memory x, Memory y'],
    ['nested<<<1, 1>>>(x);', 'Outer::type x'],
    ['pack<<<1, 1>>>(x);', 'int x'],
    ['scale<<<1, 1>>>(x, f, 1);', 'float *x', 'template <typename T> __global__ void scale(T *x, T *y, int n) {}'],
    ['byValue<<<1, 1>>>(f(n), y);', 'int n, int *y'],
    ['byValue<<<1, 1>>>(outer::AddOne{1} + outer::AddOne{2}, y);', 'int *y'],
    // What T is here is said nowhere.
    ['using T = int; T *x; scale<<<1, 1>>>(x, 1, 1);', ''],
  ]
  for (const [body, parameters, before] of rows) assert.deepEqual(launched(body, parameters, before), [], body)
})

test('wrappers that are templates pass on what they are called with', () => {
  const wrappers = `
template <typename T> void run(T *x, int n) { scale<<<1, n>>>(x, T(1), n); }
template <typename T, int N> void outer(const Vector<T> &v) { T *x; run(x, N); fill<T, N><<<1, 1>>>(x); }
template <typename T> void unused(T *x) { square<<<1, 1>>>((Complex<T> *)x); }
`
  assert.deepEqual(launched('run(x, n);', 'float *x, int n', wrappers), ['scale<float>'])
  assert.deepEqual(launched('outer<short, 4>(v);', '', wrappers), ['scale<short>', 'fill<short, 4>'])
  const deduced = `${wrappers}template void run(double *, int);`
  assert.deepEqual(launched('', '', deduced), ['scale<double>'])
  const kernel = `template __global__ void scale(int *, int, int);\ntemplate <> __global__ void square(Complex<half> *x) {}`
  assert.deepEqual(launched('', '', kernel), ['scale<int>', 'square<half>'])
})

test('a member of a class launches as a function does, and the constants of an enum are arguments', () => {
  const more = `
namespace img { enum class Border { clamp, wrap }; template <Border B> __global__ void blur(int *x) {} }
template <img::Border B> void run() { img::blur<B><<<1, 1>>>(nullptr); }
class Solver { template <typename T> static void start(T *x) { scale<<<1, 1>>>(x, T(0), 1); } void step(int *x) { fill<<<1, 1>>>(x); } };
`
  assert.deepEqual(launched('Solver::start(x); run<img::Border::wrap>();', 'float *x', more), [
    'fill<int>',
    'scale<float>',
    'blur<img::Border::wrap>',
  ])
})

const skip = lacksNvrtc()

async function compiled(text: string) {
  const file = join(scratchFolder('deduced'), 'own.cu')
  writeFileSync(file, text)
  const { kernels, notes } = await compileCu(file)
  return { names: kernels.map(({ name }) => name), notes: notes.map((note) => note.replaceAll(file, 'own.cu')) }
}

test('the notes say which launch makes no kernel, why, and an instantiation that compiles', { skip }, async () => {
  const text = `
template <typename T, int N, bool B = false> __global__ void k(const T *x, T *y, int n = N) { y[n] = B ? x[0] : x[N]; }
template <typename T> __global__ void waits(T *x) { x[0] = 1; }
template <typename T> __global__ void some(T *x) { x[0] = 1; }
template <typename T> void never(T *x) { waits<<<1, 1>>>(x); }
void host(float *x, Vector &v) {
  some<<<1, 1>>>(x);
  some<<<1, 1>>>(v.data());
  k<float, 4><<<1, 1>>>(x, x);
}
void other(Vector &v) { unclear<<<1, 1>>>(v.data()); }`
  const unclear = 'template <typename T, int N> __global__ void unclear(const T *x, T y = 1) {}'
  const { names, notes } = await compiled(`${unclear}${text}`)
  assert.deepEqual(names, ['some_float', 'k_float_4'])
  const why = 'it names no template arguments, and what it passes has no type that is declared in that function'
  const instantiations = [
    'template __global__ void unclear<float, 256>(const float *x, float y);',
    'template __global__ void waits<float>(float *x);',
    'template __global__ void some<float>(float *x);',
  ]
  assert.deepEqual(notes, [
    `own.cu:1:46: the template unclear makes no kernel (launched at own.cu:11:25: ${why}): instantiate it in the source, as in '${instantiations[0]}'`,
    `own.cu:3:39: the template waits makes no kernel (launched at own.cu:5:42: nothing instantiates never, which launches it): instantiate it in the source, as in '${instantiations[1]}'`,
    `own.cu:4:39: the template some makes no kernel for some of its launches (launched at own.cu:8:3: ${why}): instantiate it in the source, as in '${instantiations[2]}'`,
  ])
  // As they say.
  const mended = await compiled(`${unclear}${text}\n${instantiations.join('\n')}`)
  assert.deepEqual(mended.notes, [])
  assert.deepEqual(mended.names, ['some_float', 'k_float_4', 'unclear_float_256', 'waits_float'])
})

test('a kernel that the source has under two names is exported once', { skip }, async () => {
  const { names } = await compiled(`typedef float real;
template <typename T> __global__ void k(T *x) { x[0] = 1; }
void host(float *x, real *y) { k<<<1, 1>>>(x); k<<<1, 1>>>(y); k<real><<<1, 1>>>(nullptr); }`)
  assert.deepEqual(names, ['k_float'])
})

test('the compiler finds what a class or a function with `using` launches', { skip }, async () => {
  const { names, notes } = await compiled(`
namespace sim { namespace inner {
enum class Mode { slow, fast };
using real = float;
template <Mode M, typename T> __global__ void k(T *x) { x[0] = M == Mode::fast; }
} }
struct Outer {
  class Solver {
    void step(float *x) {
      using namespace sim::inner;
      k<Mode::fast><<<1, 1>>>(x);
    }
  };
  template <typename T> static void start(T *x) {
    using sim::inner::k;
    k<sim::inner::Mode::slow><<<1, 1>>>(x);
  }
};
void host(double *x) {
  using namespace sim::inner;
  Outer::start(x);
  auto kernel = &k<Mode::fast, real>;
  k<Mode::slow, real><<<1, 1>>>(nullptr);
}`)
  assert.deepEqual(notes, [])
  assert.deepEqual(names, ['k_Mode_fast_float', 'k_sim_inner_Mode_slow_double', 'k_Mode_slow_real'])
})

test('names that only a class has, or another namespace, do not reach the compiler where it does not know them', {
  skip,
}, async () => {
  const { names, notes } = await compiled(`
template <typename T> __global__ void k(T *x) { x[0] = T(); }
template <typename T, typename U> __global__ void two(T *x, U y) { x[0] = T(y); }
struct Solver {
  struct Inner { int n; };
  using value_type = float;
  void step(Inner *x, value_type *y) { k<<<1, 1>>>(x); k<value_type><<<1, 1>>>(y); }
};
namespace a { namespace b {
using real = float;
template <typename T> void run(T *x) { two<T, real><<<1, 1>>>(x, 1); }
} }
void host(int *x, Solver::Inner *y) { a::b::run(x); k<<<1, 1>>>(y); }`)
  assert.deepEqual(names, ['two_int_real', 'k_Solver_Inner'])
  assert.match(notes.join(), /the template k makes no kernel for some of its launches \(launched at own\.cu:7:\d+: /)
})
