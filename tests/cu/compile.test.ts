/** What `compileCu()` makes of a file: kernels with their signatures, errors with their places, and what it leaves out. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { type CompiledCu, type CuError, type CuOptions, compileCu, compileCuNow } from 'cuda-streams/cu'
import { typeText } from '../../src/cu/cu-module.js'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { scratchFolder } from '../helpers/scratch.js'
import { cuFile } from './cu-files.js'

const skip = lacksNvrtc()
const folder = scratchFolder('cu')
process.env['XDG_CACHE_HOME'] = join(folder, 'cache')
let count = 0

/** Writes files, of which the first is compiled. */
function written(files: Readonly<Record<string, string>>): string {
  const own = join(folder, `${count++}`)
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(own, name)), { recursive: true })
    writeFileSync(join(own, name), text)
  }
  return join(own, Object.keys(files)[0] ?? '')
}

const compile = (text: string, options?: CuOptions): Promise<CompiledCu> =>
  compileCu(written({ 'own.cu': text }), options)

/** Each kernel as 'name(parameter: type, …)'. */
const signaturesOf = ({ kernels, structs }: CompiledCu): readonly string[] =>
  kernels.map(({ name, signature, parameterNames }) => {
    const parameters = signature.map((type, index) => `${parameterNames[index]}: ${typeText(type, structs)}`)
    return `${name}(${parameters.join(', ')})`
  })

async function errorOf(compiled: Promise<CompiledCu>): Promise<CuError> {
  try {
    await compiled
  } catch (error) {
    assert.ok(error instanceof Error && 'code' in error && 'diagnostics' in error)
    assert.equal(error.code, 'ERR_COMPILATION')
    return error as CuError
  }
  return assert.fail('it compiles')
}

test('what is read and written is what the code does, and not what the types allow', { skip }, async () => {
  const made = await compile(`
    __device__ void store(float *to, float value);
    __device__ __noinline__ void store(float *to, float value) { *to = value; }
    __global__ void k(float *read, float *written, float *both, int *counted, const float *unread, float *passed, int *mixed) {
      int i = threadIdx.x;
      written[i] = read[i];
      both[i] += 1;
      atomicAdd(counted, 1);
      if (*mixed > 0) atomicAdd(mixed, 1);
      store(passed + i, 2);
    }`)
  assert.deepEqual(signaturesOf(made), [
    'k(read: in f32*, written: out f32*, both: inout f32*, counted: atomic i32*, unread: in f32*, passed: inout f32*, mixed: inout i32*)',
  ])
})

test('types are those that the compiler sees behind typedefs, templates and macros', { skip }, async () => {
  const made = await compile(`
    #include <stdint.h>
    #include <cuda_bf16.h>
    #define ARGUMENTS const real *values, unsigned length
    typedef double real;
    using Index = decltype(sizeof(int));
    struct Particle { float x; int id; };
    enum Mode : unsigned char { slow, fast };
    template <class T> struct of { typedef T type; };
    __global__ void scalars(bool a, char b, signed char c, unsigned char d, short e, unsigned short f, int g, unsigned h, long i,
                            unsigned long j, long long k, uint64_t l, float m, real n, Index o, Mode p, half q, __nv_bfloat16 r,
                            const int s, cudaTextureObject_t t, of<int8_t>::type) {}
    __global__ void pointers(const real *__restrict__ a, int b[], const uchar4 *const c, half2 *d, Particle *e, void *f, float **g,
                             volatile int *h, const float *const *i, Mode *j) {}
    __global__ void from_macro(ARGUMENTS) {}`)
  assert.deepEqual(signaturesOf(made), [
    'scalars(a: bool, b: i8, c: i8, d: u8, e: i16, f: u16, g: i32, h: u32, i: i64, j: u64, k: i64, l: u64, m: f32, n: f64, o: u64, p: u8, q: f16, r: bf16, s: i32, t: u64, argument20: i8)',
    'pointers(a: in f64*, b: in i32*, c: in u8x4*, d: in f16x2*, e: in Particle*, f: in u8*, g: in u64*, h: in i32*, i: in u64*, j: in u8*)',
    'from_macro(argument0: in f64*, argument1: u32)',
  ])
})

test('kernels keep their names, with those of their namespaces where two have the same', { skip }, async () => {
  const made = await compile(`
    namespace a { __global__ void step(int *x) { *x = 1; } namespace inner { __global__ void alone(int *x) { *x = 3; } } }
    namespace b { __global__ void step(int *x) { *x = 2; } }
    static __global__ void hidden(int *x) { *x = 4; }
    extern "C" __global__ void yield(int *x) { *x = 5; }
    template <int N, class T = float> __global__ void filled(T *x) { x[threadIdx.x] = N; }
    template __global__ void filled<3>(float *);
    template <> __global__ void filled<4, double>(double *x) { x[0] = 4; }`)
  assert.deepEqual(
    made.kernels.map(({ name }) => name),
    ['a_step', 'alone', 'b_step', 'hidden', 'yield_', 'filled_3', 'filled_4_double'],
  )
  // The PTX has those names, too: reports and timelines have them from there.
  const entries = [...made.ptx.matchAll(/\.entry (\w+)\s*\(/g)].map(([, name]) => name)
  assert.deepEqual(entries.sort(), made.kernels.map(({ name }) => name).sort())
  assert.doesNotMatch(made.ptx, /cuda_streams/)
})

test('a template of the host makes the kernels that it launches, for the arguments that it is used with', {
  skip,
}, async () => {
  const made = await compile(`
    template <class T, int N> __global__ void filled(T *x) { x[threadIdx.x] = N; }
    template <class T, int N = 4> __device__ T twice(T x) { return N * x; }
    template __device__ float twice<float, 2>(float);
    template <typename T, int Size = 7>
    void fill(T *x) { filled<T, 1><<<1, 32>>>(x); filled<T, Size><<<1, 32>>>(x); }
    template <typename V> struct vector { V *data; };
    template <typename T> void both(vector<T> x) { fill<T, 2>(x.data); filled<T, 5><<<1, 32>>>(x.data); }
    template void fill<float, 3>(float *x);
    template void both<unsigned int>(vector<unsigned int> x);
    int main() { fill<double, 4>(nullptr); }`)
  assert.deepEqual(
    made.kernels.map(({ name }) => name),
    [
      'filled_float_1',
      'filled_float_3',
      'filled_unsigned_int_1',
      'filled_unsigned_int_2',
      'filled_unsigned_int_5',
      'filled_double_1',
      'filled_double_4',
    ],
  )
})

test('structs and vectors by value are what the compiler lays out', { skip }, async () => {
  const made = await compile(`
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    namespace a { struct Vec { float x, y; }; }
    struct Vec { double x, y; };
    typedef struct { float weights[3][2]; short n; a::Vec at; Vec d; uchar4 colour; bool on; half h; enum Mode { slow, fast } *mode; } WithPointer;
    typedef struct { float weights[3][2]; short n; a::Vec at; Vec d; uchar4 colour; bool on; half h; int *unused[0 + 1]; } WithPointers;
    template <class T, int N> struct Range { T bounds[N]; };
    struct __align__(16) Aligned { float3 v; };
    struct Outer { struct Inner { char c; long long l; }; Inner inner; const int fixed; };
    class Mat { public: float m[4][4]; __device__ float at(int i) const { return m[0][i]; } Mat() {} private: void f(); };
    #if 0
    struct Conditional { float lost; };
    #else
    struct Conditional {
      #ifdef NOWHERE
      int lost;
      #endif
      int kept;
    };
    #endif
    extern "C" { struct InC { int n; }; struct AlsoInC { float f; }; }
    namespace { struct Hidden { int n; }; }
    struct Outside { struct Inside; };
    struct Outside::Inside { float f; };
    struct stat { int size; };
    __device__ int stat(int n) { return n; }
    #define API
    struct API Exported { int n; };
    struct Empty {};
    enum class Colour : short { red };
    __global__ void structs(a::Vec v, Vec w, Range<float, 2> r, const Range<int, 3> *s, Aligned al, Outer o, Mat m, Conditional c, InC d, AlsoInC e,
                            Hidden h, Colour colour, const Aligned *as, struct stat st, const Outside::Inside *in_out, Exported ex, WithPointer *wp, WithPointers *wps, Empty *none) {}
    __global__ void vectors(float4 a, uchar4 b, char2 c, longlong2 d, half2 e, __nv_bfloat162 f, dim3 g, float1 h, double3 i) {}`)
  assert.deepEqual(signaturesOf(made), [
    'structs(v: a_Vec, w: Vec, r: Range, s: in Range_2*, al: Aligned, o: Outer, m: Mat, c: Conditional, d: InC, e: AlsoInC, h: Hidden, colour: u16, as: in Aligned*, st: stat, in_out: in u8*, ex: Exported, wp: in u8*, wps: in WithPointers*, none: in u8*)',
    'vectors(a: f32x4, b: u8x4, c: i8x2, d: i64x2, e: f16x2, f: bf16x2, g: u32x3, h: f32, i: f64x3)',
  ])
})

test('a member is where the compiler lays it out, also where its & is not its address', { skip }, async () => {
  const made = await compile(`
    struct Odd { int v; __device__ int *operator&() { return nullptr; } };
    struct P { char first; Odd odd; double last[2]; };
    __global__ void k(P p) {}`)
  assert.deepEqual(signaturesOf(made), ['k(p: P)'])
  assert.deepEqual(
    made.structs.map(({ name, struct: { byteLength } }) => [name, byteLength]),
    [
      ['Odd', 4],
      ['P', 24],
    ],
  )
})

test('a pointer in a struct is an address, and said to be one', { skip }, async () => {
  const made = await compile(
    'struct Node { Node *next; float v; }; struct P { const float *from; int n; int *to[2]; }; __global__ void k(P p, Node *all) { p.to[0][0] = p.from[p.n] + all->v; }',
  )
  assert.deepEqual(signaturesOf(made), ['k(p: P, all: in Node*)'])
  assert.deepEqual(
    made.structs.map(({ name, struct: { fields }, addresses }) => [name, fields, addresses]),
    [
      ['P', { from: 'u64', n: 'i32', to: ['u64', 2] }, ['from', 'to']],
      ['Node', { next: 'u64', v: 'f32' }, ['next']],
    ],
  )
  assert.match(made.notes.join('\n'), /^P\.from is a pointer, and passed as an address: .*\nP\.to is .*\nNode\.next is/)
  assert.match(
    made.declaration,
    /\/\*\* A pointer as an address, .*\n {2}readonly from: bigint\n {2}readonly n: number\n/,
  )
})

test('what has no value in JavaScript is refused at its place, with the way out', { skip }, async () => {
  const file = written({
    'own.cu': `union Word { int i; float f; };
struct Params { int width; void (*data)(int); };
__device__ int fine(int x) { return x; }
__global__ void scaled(float *image, Params p,
                       Word w) { image[0] = p.width + w.f; }
class Own { int n; public: __device__ int get() { return n; } };
struct Flags { unsigned a : 3, b : 5; };
struct Derived : Params { int more; };
struct Nested { Params inner; };
template <class T> __device__ T twice(T x) { return x + x; }
template <int N> struct Hidden;
__global__ void more(Own a, Flags b, Derived c, Nested d) {}
`,
  })
  const { message, diagnostics } = await errorOf(compileCu(file))
  assert.deepEqual(
    diagnostics.map(({ line, column, message: text }) => `${line}:${column} ${/: it (.*?): pass/.exec(text)?.[1]}`),
    [
      '4:38 has a pointer to a function',
      '5:24 is a union',
      '12:22 has private members',
      '12:29 has a bit field',
      '12:38 has a base class',
      '12:49 has a member inner that has a pointer to a function',
    ],
  )
  assert.match(message, /own\.cu:4:38: 'Params p' of scaled is passed by value.*pass its members as parameters/)
  assert.match(message, /> 4 \| __global__ void scaled\(float \*image, Params p,\n {4}\| {38}\^/)
})

test('mistakes have their places, in headers of the project, too', { skip }, async () => {
  const file = written({
    'own.cu':
      '#include "inner/own.h"\n\nint main() { return wrong; }\n__global__ void k(int *x) {\n  *x = unknown + twice(1);\n}\n',
    'inner/own.h': '#include "more.h"\n__device__ int twice(int x) {\n\treturn 2 * y;\n}\n',
    'inner/more.h': '#pragma once\n',
  })
  const { message, diagnostics } = await errorOf(compileCu(file))
  assert.deepEqual(
    diagnostics.map(({ file: at, line, column }) => [at.slice(dirname(file).length + 1), line, column]),
    [
      ['inner/own.h', 3, 13],
      ['own.cu', 5, 8],
    ],
  )
  assert.match(
    message,
    /identifier "unknown" is undefined\n[\s\S]*> 5 \| {3}\*x = unknown \+ twice\(1\);\n {4}\| {8}\^/,
  )
  assert.throws(() => compileCuNow(file), { code: 'ERR_COMPILATION' })
})

test('a header that is not here is named where the compiler needs something of it', { skip }, async () => {
  const used = '#include <nowhere/types.h>\n__global__ void k(Nowhere *x) { x->value = 1; }'
  assert.match((await errorOf(compile(used))).message, /Not found, and taken for empty: nowhere\/types\.h/)
  const { notes } = await compile('#include <nowhere/types.h>\n__global__ void k(int *x) { *x = 1; }')
  assert.deepEqual(notes, ['Not found, and taken for empty: nowhere/types.h'])
})

test('what makes no kernel is said', { skip }, async () => {
  const { diagnostics, message } = await errorOf(compile('template <class T> __global__ void k(T *x) { *x = 1; }'))
  assert.equal(diagnostics[0]?.message, 'There is no kernel in this file')
  assert.match(message, /own\.cu:1:36: the template k makes no kernel: instantiate it/)
  const made = await compile(`
    #define MAKE(name) extern "C" __global__ void name##_kernel(int *x) { *x = 1; }
    MAKE(first)
    __global__ void second(int *x) { *x = 1; }`)
  assert.deepEqual(signaturesOf(made), ['first_kernel(x: out i32*)', 'second(x: out i32*)'])
  const unclear = await compile(`
    #if WIDE
    #define MAKE(name) extern "C" __global__ void name##_kernel(long *x) { *x = 1; }
    #else
    #define MAKE(name) extern "C" __global__ void name##_kernel(int *x) { *x = 1; }
    #endif
    MAKE(first)
    __global__ void second(int *x) { *x = 1; }`)
  assert.deepEqual(signaturesOf(unclear), ['second(x: out i32*)'])
  assert.match(unclear.notes.join(), /first_kernel is in the PTX, and not in the source/)
})

test('names in headers, options and conditions are those of the compiler', { skip }, async () => {
  const file = written({
    'a/own.cu': `#include <kernels.cuh>
      #if WIDE
      __global__ void k(double *x) { *x = N; }
      #else
      __global__ void k(float *x) { *x = N; }
      #endif`,
    'include/kernels.cuh':
      '#pragma once\ntemplate <class T> __global__ void zero(T *x) { *x = 0; }\ntemplate __global__ void zero<int>(int *);',
  })
  const include = join(dirname(dirname(file)), 'include')
  const narrow = await compileCu(file, { options: ['-I', include, '-DN=3'] })
  assert.deepEqual(signaturesOf(narrow), ['zero_int(x: out i32*)', 'k(x: out f32*)'])
  assert.deepEqual(narrow.includes, [join(include, 'kernels.cuh')])
  const wide = await compileCu(file, { options: [`-I${include}`, '-DN=3', '-DWIDE=1'], arch: 'sm_90' })
  assert.deepEqual(signaturesOf(wide), ['zero_int(x: out i32*)', 'k(x: out f64*)'])
  assert.match(wide.ptx, /^\.target sm_90$/m)
  await assert.rejects(compileCu(file, { arch: 'hopper' }), { code: 'ERR_INVALID_ARG_VALUE' })
})

test('the source may be of any standard of C++ since 2011', { skip }, async () => {
  const text = 'struct P { float scale; int2 size[2]; }; __global__ void k(P p, float *x) { *x = p.scale; }'
  for (const standard of ['11', '14', '17', '20']) {
    const made = await compile(text, { options: [`-std=c++${standard}`] })
    assert.deepEqual(signaturesOf(made), ['k(p: P, x: out f32*)'], standard)
  }
})

test('machine code is added for the architectures that are named', { skip }, async () => {
  const text = `
    namespace a { template <int N> __global__ void filled(float *x) { x[threadIdx.x] = N; } }
    void host(float *x) { a::filled<3><<<1, 32>>>(x); }
    extern "C" __global__ void plain(int *x, int *y) {
    #if __CUDA_ARCH__ >= 900
      *y = *x;
    #endif
      *x = 1;
    }`
  const file = written({ 'own.cu': text })
  const options = { cubins: ['sm_80', 'sm_90'], options: ['-I', dirname(file)] }
  const { cubins, kernels, module, ptx } = await compileCu(file, options)
  assert.deepEqual(Object.keys(cubins), ['sm_80', 'sm_90'])
  assert.deepEqual(
    kernels.map(({ name, mangledName }) => [name, mangledName]),
    [
      ['filled_3', '_ZN1a6filledILi3EEEvPf'],
      ['plain', 'plain'],
    ],
  )
  // For one of them it reads and writes more.
  assert.deepEqual(kernels[1]?.signature, ['inout i32*', 'inout i32*'])
  for (const [architecture, code] of Object.entries(cubins)) {
    const content = Buffer.from(code)
    assert.equal(content.toString('latin1', 1, 4), 'ELF', architecture)
    for (const { mangledName } of kernels) assert.ok(content.includes(`.text.${mangledName}\0`), mangledName)
    // Neither what says the types nor where files lie.
    assert.ok(!content.includes('cuda_streams') && !content.includes(dirname(file)), architecture)
    assert.ok(module.includes(`  ${architecture}: '${content.toString('base64')}',\n`))
  }
  assert.match(module, /^export const filled_3 = .* ptx, cubins, mangledName: '_ZN1a6filledILi3EEEvPf', signature/m)
  assert.match(module, /^export const plain = .* ptx, cubins, signature/m)
  const alone = await compileCu(file, { options: options.options })
  assert.deepEqual([alone.cubins, alone.ptx], [{}, ptx])
  assert.doesNotMatch(alone.module, /cubins/)
  assert.deepEqual((await compileCu(file, options)).cubins, compileCuNow(file, options).cubins)
})

test('nothing is compiled twice, and each change is', { skip }, async () => {
  const files = {
    'own.cu': '#include "own.h"\n__global__ void k(int *x) { *x = VALUE; }',
    'own.h': '#define VALUE 1\n',
  }
  const file = written(files)
  const [first, second] = [compileCuNow(file), await compileCu(file)]
  assert.deepEqual(second, first)
  writeFileSync(join(dirname(file), 'own.h'), '#define VALUE 77\n')
  assert.notEqual((await compileCu(file)).ptx, first.ptx)
})

test('drivers of CUDA 12.5 read the PTX unless the code needs a later version', { skip }, async () => {
  const version = async (text: string, arch: string): Promise<number> =>
    Number(/^\.version (\S+)$/m.exec((await compile(text, { arch })).ptx)?.[1])
  const plain = '__global__ void k(float4 *x) { x[1] = x[0]; }'
  for (const arch of ['compute_75', 'compute_90']) assert.ok((await version(plain, arch)) <= 8.5, arch)
  assert.ok((await version(plain, 'compute_100')) > 8.5)
})

test('the module and its declarations', { skip }, async () => {
  const { module, declaration } = await compileCu(cuFile('saxpy.cu'))
  assert.match(
    module,
    /^export const saxpy = defineKernel\(\{ name: 'saxpy', ptx, signature: \['i32', 'f32', 'in f32\*', 'inout f32\*'\], parameterNames: \['n', 'a', 'x', 'y'\] \}\)$/m,
  )
  assert.equal(
    declaration,
    `// Made of saxpy.cu by cuda-streams. Changes here are lost.
import type { DefinedKernel } from 'cuda-streams'

/**
 * y = a * x + y
 * saxpy.cu, line 15
 */
export declare const saxpy: DefinedKernel<readonly [n: 'i32', a: 'f32', x: 'in f32*', y: 'inout f32*']>
`,
  )
})

test('the declarations of structs are interfaces, as one would write them', { skip }, async () => {
  const { module, declaration } = await compileCu(cuFile('sharpen.cu'))
  assert.equal(
    declaration,
    `// Made of sharpen.cu by cuda-streams. Changes here are lost.
import type { DefinedKernel, Struct } from 'cuda-streams'

/**
 * How an image is sharpened.
 * sharpen.cu, line 9
 */
export interface FilterParams {
  readonly size: readonly [x: number, y: number]
  readonly gain: readonly [x: number, y: number, z: number, w: number]
  readonly kernel: readonly (readonly number[])[]
  readonly threshold: number
  readonly clampAlpha: boolean
}
export declare const FilterParams: Struct<FilterParams>

/**
 * Unsharp mask.
 * sharpen.cu, line 25
 */
export declare const sharpen: DefinedKernel<
  readonly [in_: 'in f32x4*', out: 'out f32x4*', params: Struct<FilterParams>, background: 'f32x4']
>
`,
  )
  assert.ok(module.includes("import { defineKernel, struct } from 'cuda-streams'\n"))
  assert.ok(
    module.includes(
      "export const FilterParams = struct({ size: 'u32x2', gain: 'f32x4', kernel: [['f32', 3], 3], threshold: 'f32', clampAlpha: 'bool' })\n",
    ),
  )
  const { module: particles } = await compileCu(cuFile('particles.cu'))
  assert.match(particles, /^export const Particle = struct\(\{ .* \}, \{ alignment: 16 \}\)$/m)
  assert.match(
    particles,
    /^export const World = struct\(\{ box: Box, gravity: 'f32x3', restitution: 'f32', tick: 'i64' \}\)$/m,
  )
  const { declaration: long } = await compile(
    '__global__ void k(const float *first_of_all, const float *second_of_all, const float *third_of_all, float *fourth_of_all, int n) {}',
  )
  assert.match(
    long,
    /DefinedKernel<\n {2}readonly \[\n {4}first_of_all: 'in f32\*',\n.*\n[\s\S]* {4}n: 'i32',\n {2}\]\n>\n$/,
  )
})

test('each standard header that is replaced compiles alone', { skip }, async () => {
  const headers =
    'stdint.h cstdint math.h cmath limits limits.h climits float.h cfloat algorithm type_traits utility vector iostream complex'
  for (const header of headers.split(' ')) {
    const { kernels } = await compile(`#include <${header}>\n__global__ void k(int *x) { *x = 1; }`)
    assert.equal(kernels.length, 1, header)
  }
})

test('a template of an alias stays, since kernels may use it', { skip }, async () => {
  const { kernels } = await compile(`
    template <typename T> using Ptr = T *__restrict__;
    template <typename T> using Made = std::unique_ptr<T>;
    __global__ void k(Ptr<float> x) { x[0] = 1; }`)
  assert.deepEqual(kernels[0]?.signature, ['out f32*'])
})

test('an operator without members, as reductions take it by value, is a byte', { skip }, async () => {
  const { kernels } = await compile(`
    struct Sum { template <typename T> __device__ T operator()(T a, T b) const { return a + b; } };
    template <typename Op> __global__ void k(float *x, Op op, int n) { x[0] = op(x[0], x[n]); }
    void host(float *x) { Sum sum; k<<<1, 1>>>(x, sum, 1); }`)
  assert.deepEqual(kernels[0]?.name, 'k_Sum')
  assert.deepEqual(kernels[0]?.signature, ['inout f32*', 'u8', 'i32'])
})
