/** Which text of a file reaches the compiler for the GPU. No compiler is needed. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, test } from 'node:test'
import { DeviceSources } from '../../src/cu/device-source.js'
import { commentAbove, tokensOf } from '../../src/cu/source-text.js'
import { Random } from '../../src/simulator/machine/random.js'
import { runs } from '../helpers/effort.js'
import { root } from '../helpers/root.js'

/** The lines that are not blank, without probes and the marks of structs. */
function kept(text: string): readonly string[] {
  const device = new DeviceSources().add('own.cu', text)
  assert.equal(device.split('\n').length, text.split('\n').length, 'lines stay where they were')
  return device
    .replace(/ cuda_streams_probe\(.*$/gm, '')
    .replace(/ (?:extern "C\+\+" \{ |friend )__device__ ::cuda_streams::number<\d+> [^;]*;(?: \})? /g, '')
    .split('\n')
    .filter((line) => line.trim() !== '')
}

test('functions of the host go, in whatever form', () => {
  const host = [
    'int main() { return 0; }',
    'void launch(float *x);',
    'static inline int twice(int x) { if (x) { return 2 * x; } return 0; }',
    'template <class T, int N = (3 > 2)> std::vector<T> make(T x) noexcept { return {x}; }',
    'Grid::Grid(int n) : n(n), data{new int[n]}, more(f(n)) { fill(); }',
    'bool Grid::operator==(const Grid &other) const { return n == other.n; }',
    'bool Grid::operator()(int a) const { return a; }',
    'Grid::~Grid() {}',
    'auto f(int x) -> decltype(x) { return x; }',
    'extern "C" void call(void) { k<<<1, 2>>>(3); }',
    '__host__ void onlyHost() {}',
    'PYBIND11_MODULE(name, m) { m.def("f", &f, "text with } and { and \\" in it"); }',
    'int counter = 0;',
    'std::string text = R"x(} not the end )" )x";',
    "char brace = '}';",
    'float *a, *b;',
    'using Clock = std::chrono::steady_clock;',
    'using std::vector;',
  ]
  for (const text of host) assert.deepEqual(kept(text), [], text)
})

const MUTANTS = runs({ quick: 200, normal: 1000, nightly: 30_000 })
const PIECES = [
  '<',
  '>',
  '(',
  ')',
  '{',
  '}',
  '"',
  "'",
  'R"x(',
  '/*',
  '//',
  '\\',
  '#if',
  '#endif',
  '\n',
  ';',
  ',',
  'template',
  '<<<',
]
const folder = join(root, 'tests', 'cu', 'files')
const TEXTS = readdirSync(folder).filter((name) => name.endsWith('.cu'))

/** Changes a text in one to six places: a part that is lost, doubled, moved or repeated, a piece of the language, an early end. */
function damaged(whole: string, seed: number): string {
  const random = new Random(seed)
  const below = (count: number): number => Math.floor(random.next() * count)
  let text = whole
  for (let left = 1 + below(6); left > 0; left -= 1) {
    const at = below(text.length + 1)
    const end = Math.min(text.length, at + 1 + below(80))
    const piece = PIECES[below(PIECES.length)] ?? ''
    const [before, part, after] = [text.slice(0, at), text.slice(at, end), text.slice(end)]
    const kinds = [
      before + after,
      before + part + part + after,
      part + before + after,
      before + piece + part + after,
      before + piece.repeat(below(400)) + part + after,
      before + part.repeat(below(40)) + after,
      before + String.fromCharCode(below(0x300)) + after,
      before,
    ]
    text = kinds[below(kinds.length)] ?? text
  }
  return text
}

test('a damaged text is read with its lines in their places, or is an error with a code', () => {
  for (let seed = 0; seed < MUTANTS; seed += 1) {
    const name = TEXTS[seed % TEXTS.length] ?? ''
    const text = damaged(readFileSync(join(folder, name), 'utf8'), seed)
    const sources = new DeviceSources()
    try {
      assert.equal(sources.add(name, text).split('\n').length, text.split('\n').length)
      assert.ok(sources.unused.length >= 0)
    } catch (error) {
      const code = error instanceof Error && Reflect.get(error, 'code')
      assert.equal(
        code,
        'ERR_COMPILATION',
        `mutant ${seed} of ${name}: ${error instanceof Error ? error.stack : error}`,
      )
    }
  }
})

test('an instantiation of several lines moves no line behind it', () => {
  const text = `template <class A, class B> __global__ void k(A *a, B *b) {}
template __global__ void k<int, // the first
  float>(int *, float *);
__device__ int behind = 1;`
  const lines = new DeviceSources().add('own.cu', text).split('\n')
  assert.equal(lines.length, 4)
  assert.match(lines[2] ?? '', /cuda_streams_probe\(0, k<int, float>\)$/)
  assert.equal(lines[3], '__device__ int behind = 1;')
})

test('what is for the GPU stays', () => {
  const device = [
    '__device__ float f(float x) { return x; }',
    '__host__ __device__ inline int both(int x) { return x; }',
    'template <class T> __device__ T square(T x) { return x * x; }',
    '__constant__ float weights[9];',
    '__device__ int counter = 0;',
    'const int N = 3;',
    'static constexpr float PI = 3.14f;',
    'typedef float real;',
    'using real = double;',
    'struct Particle { float x, y; };',
    'enum class Mode : int { slow, fast };',
    'using namespace std;',
    '#define HD __host__ __device__',
    'extern __shared__ float words[];',
    'CUTLASS_DEVICE int g() { return 1; }',
  ]
  for (const text of device) assert.deepEqual(kept(text), [text], text)
  assert.deepEqual(kept('#define HD __host__ __device__\nHD int both() { return 1; }'), [
    '#define HD __host__ __device__',
    'HD int both() { return 1; }',
  ])
})

test('constexpr functions are for both sides, as nvcc has it by an option', () => {
  const text = 'template <class T> constexpr T twice(T x) { return 2 * x; }'
  assert.deepEqual(kept(text), [text])
})

test('of classes the members for the GPU stay, and conditions around and within', () => {
  const text = `struct Grid {
#if WIDE
  long n;
#else
  int n;
#endif
  Grid(int n) : n(n) {}
  __device__ int at(int i) const { return i * n; }
  std::vector<int> data;
  Grid() = default;
 private:
  void print() const;
};
#ifdef HOST
void f() {
#define INSIDE 1
}
#endif`
  assert.deepEqual(
    kept(text).map((line) => line.trim()),
    `struct Grid {|#if WIDE|long n;|#else|int n;|#endif|__device__ int at(int i) const { return i * n; }|Grid() = default;|private:|};|#ifdef HOST|#define INSIDE 1|#endif`.split(
      '|',
    ),
  )
})

test('a file whose brackets have no partners goes to the compiler as it is', () => {
  const text = '#if A\nvoid f() {\n#else\nvoid g() {\n#endif\n}\n__global__ void k(int *x) {}'
  assert.deepEqual(kept(text), text.split('\n'))
})

test('kernels are found with the names of their parameters and the comment above', () => {
  const sources = new DeviceSources()
  sources.add(
    'own.cu',
    `namespace outer { namespace inner {
// Adds.
// Twice.
template <class T>
__global__ void __launch_bounds__(256, 2) add(const T *__restrict__ a, T b[4], int n = f(1, 2), Pair<int, float> p, int) {}
template __global__ void add<float>(const float *, float *, int, Pair<int, float>, int);
void run() { add<double><<<1, 1>>>(a, b, 1, p, 2); add<Local><<<1, 1>>>(a, b, 1, p, 2); }
}}
// __global__ void in_comment(int x) {}
const char *source = "__global__ void in_text(int x) {}";
#define MAKE __global__ void in_macro(int x) {}`,
  )
  assert.deepEqual(
    sources.kernels.map(({ expression, path, parameters, comment }) => ({
      expression,
      path: path.join('::'),
      parameters: parameters.map(({ name }) => name),
      comment,
    })),
    ['add<float>', 'add<double>'].map((expression) => ({
      expression,
      path: 'outer::inner',
      parameters: ['a', 'b', 'n', 'p', undefined],
      comment: 'Adds.\nTwice.',
    })),
  )
})

test('tokens have their places, and brackets their partners', () => {
  const text = 'a /* ( */ b("}") // {\n#define C {\n [x]'
  const { tokens, closing, directives, balanced } = tokensOf(text)
  assert.deepEqual(
    tokens.map((token) => token.text),
    ['a', 'b', '(', '"}"', ')', '[', 'x', ']'],
  )
  assert.ok(tokens.every(({ text: own, start, end }) => text.slice(start, end) === own))
  assert.deepEqual(
    [...closing],
    [
      [2, 4],
      [5, 7],
    ],
  )
  assert.deepEqual(
    directives.map((directive) => directive.text),
    ['#define C {'],
  )
  assert.ok(balanced)
  assert.equal(commentAbove('/** One.\n * Two. */\nint x', 20), 'One.\nTwo.')
  assert.equal(commentAbove('// One.\n\nint x', 9), '')
})

test('structs are found with the names of their members, and with what JavaScript has no value for', () => {
  const sources = new DeviceSources()
  sources.add(
    'own.cu',
    `namespace outer {
// Where it is.
struct Particle { float3 position, velocity; float mass = 1; int counts[4]; static const int N = 3; void move(); struct Inner { int a; } inner; };
}
typedef struct { float x; } Plain;
typedef struct Tagged { float x; } Alias;
template <class T> struct Range { T least, most; };
class Mixed { int own; public: int shared; };
class Open { public: int shared; Open(int shared) : shared(shared) {} };
union Word { int i; float f; };
struct Flags { unsigned a : 3; };
struct Derived : Plain { int y; };
struct Calls { void (*call)(int); };
struct Virtual { virtual void f(); };
struct OfHost { std::vector<int> all; int n; };
struct Unnamed { union { int i; float f; }; };
template <> struct Range<bool> { bool all; };
enum class Kind { a, b };
struct Outer::Inner { int n; };
struct API Exported { int n; };
struct Unclear ALIGNED { int n; };
struct Declared;`,
  )
  const structs = sources.structs.map(({ path, name, members, refused, comment }) => {
    const why = refused === undefined ? '' : ` ${refused}`
    return `${[...path, name].join('::')} { ${members.join(' ')} }${why}${comment === '' ? '' : ` // ${comment}`}`
  })
  assert.deepEqual(structs, [
    'outer::Particle::Inner { a }',
    'outer::Particle { position velocity mass counts inner } // Where it is.',
    'Plain { x }',
    'Tagged { x }',
    'Range { least most }',
    'Mixed { own shared } has private members',
    'Open { shared }',
    'Word { i f } is a union',
    'Flags { a } has a bit field',
    'Derived { y } has a base class',
    'Calls {  } has a pointer to a function',
    'Virtual {  } has virtual functions',
    'OfHost { all n } has members of the host',
    'Unnamed {  } has a union without a name',
    'Exported { n }',
  ])
})

describe('texts that are no CUDA C++', () => {
  /** A search to the end of the text for each piece would take minutes. */
  const MANY = 60_000
  const TEXTS: Readonly<Record<string, string>> = {
    'angle brackets that nothing closes': 'f<'.repeat(MANY),
    'angle brackets in a function': `void g() { ${'f<'.repeat(MANY)} }`,
    'raw strings that nothing ends': 'R"x('.repeat(MANY),
    'comments in directives that nothing ends': '#/*'.repeat(MANY),
  }
  for (const [name, text] of Object.entries(TEXTS)) {
    it(`are read in a time that grows with their length: ${name}`, { timeout: 60_000 }, () => {
      assert.equal(new DeviceSources().add('own.cu', text).length, text.length)
    })
  }

  for (const scope of ['namespace a', 'struct a', 'extern "C"'])
    it(`are refused with their line where scopes lie in each other without end: ${scope}`, () => {
      const text = `\n${`${scope} {`.repeat(3000)}${'};'.repeat(3000)}`
      assert.throws(() => new DeviceSources().add('own.cu', text), {
        code: 'ERR_UNSUPPORTED',
        message: 'own.cu:2: more than 256 scopes lie in each other: take out some',
      })
    })
})
