/**
 * Mistakes as they are made: in a file of CUDA C++, in its configuration, in a launch. Each message says where (the file, line and column;
 * or the option; or kernel and parameter, and then the first line of the stack is the caller's), what was passed or found, and the way out.
 */
import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { type DefinedKernel, type Device, type DeviceBuffer, defineKernel, Stream } from 'cuda-streams'
import { compileCu, compileCuNow, cuEsbuild, cuRollup } from 'cuda-streams/cu'
import { simulate } from 'cuda-streams/sim'
import { fileOf, skip as lacksFakeDriver, run } from '../fake-driver/play.js'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { root } from '../helpers/root.js'
import { scratchFolder } from '../helpers/scratch.js'

const skip = lacksNvrtc()
const folder = scratchFolder('cu-mistakes')
process.env['XDG_CACHE_HOME'] = join(folder, 'cache')
let count = 0

type Patterns = readonly [where: RegExp, what: RegExp, wayOut: RegExp]

function written(text: string, others: Readonly<Record<string, string>> = {}): string {
  const own = join(folder, `${count++}`)
  mkdirSync(own)
  for (const [name, content] of Object.entries({ ...others, 'own.cu': text })) writeFileSync(join(own, name), content)
  return join(own, 'own.cu')
}

function judge(error: unknown, [where, what, wayOut]: Patterns): Error {
  assert.ok(error instanceof Error, 'there is an error')
  assert.match(error.message, where, 'where')
  assert.match(error.message, what, 'what')
  assert.match(error.message, wayOut, 'the way out')
  return error
}

async function errorOf(made: () => unknown): Promise<unknown> {
  try {
    await made()
  } catch (error) {
    return error
  }
  return undefined
}

/** The first frame of the stack is in this file: frames of the library come neither before it nor at all. */
function isCallers({ stack = '' }: Error): void {
  const first = stack.split('\n').find((line) => /^\s+at /.test(line)) ?? ''
  assert.ok(first.includes('mistakes.test.js'), `the first line of the stack is the caller's, not '${first.trim()}'`)
}

/** The compiler's messages of the language have no more of a way out than the mark at the place. */
const MARKED = /^ +\| +\^$/m

const IN_SOURCE: Readonly<Record<string, readonly [text: string, ...Patterns]>> = {
  'a semicolon is missing': ['__global__ void k(int *x) {\n  *x = 1\n}\n', /own\.cu:3:1/, /expected a ";"/, MARKED],
  'a brace is missing': [
    '__global__ void k(int *x) {\n  *x = 1;\n',
    /own\.cu:2:9/,
    /expected a "}"/,
    /to match this "\{" of line 1/,
  ],
  'a semicolon is missing, and so is a name behind it': [
    '__global__ void k(int *x) {\n  int a = 0\n  for (; a < 3; ++a) *x = a;\n  const int b = 2;\n  *x = b;\n}\n',
    /own\.cu:3:3/,
    /expected a ";"/,
    MARKED,
  ],
  'a parenthesis is missing, and so is a name behind it': [
    '__global__ void k(int *x) {\n  if (*x > 1 {\n    const int b = 2;\n    *x = b;\n  }\n}\n',
    /own\.cu:2:14/,
    /expected a "\)"/,
    MARKED,
  ],
  'a name is unknown': ['__global__ void k(int *x) { *x = y; }\n', /own\.cu:1:34/, /"y" is undefined/, MARKED],
  'a value has another type': [
    '__global__ void k(int *x) {\n  *x = "a";\n}\n',
    /own\.cu:2:6/,
    /"const char \*" cannot be assigned to an entity of type "int"/,
    MARKED,
  ],
  'a function of the host is called': [
    'int twice(int x) { return 2 * x; }\n__global__ void k(int *x) {\n  *x = twice(1);\n}\n',
    /own\.cu:3:8/,
    /"twice" is undefined/,
    /function of the host.*mark it __device__/,
  ],
  'a header is not found': [
    '#include "nowhere.h"\n__global__ void k(Nowhere *x) { *x = 1; }\n',
    /own\.cu:2:19/,
    /Not found.*nowhere\.h/,
    /name their folder by the option -I/,
  ],
  'a kernel returns something': [
    '__global__ int k(int *x) { return 1; }\n',
    /own\.cu:1:1/,
    /a __global__ function must have/,
    /a void return type/,
  ],
  'there is no kernel': [
    '__device__ int f() { return 1; }\n',
    /own\.cu:1:1/,
    /There is no kernel in this file/,
    /nothing to launch/,
  ],
  'a template has no instance': [
    'template <class T> __global__ void k(T *x) { *x = 1; }\n',
    /own\.cu:1:36/,
    /the template k makes no kernel/,
    /instantiate it in the source, as in 'template __global__ void k<float>/,
  ],
  'two kernels are told apart by their parameters': [
    '__global__ void k(int *x) { *x = 1; }\n__global__ void k(float *x) { *x = 2; }\n',
    /own\.cu:2:17/,
    /several kernels k/,
    /give each a name of its own/,
  ],
  'a kernel is there twice': [
    '__global__ void k(int *x) { *x = 1; }\n__global__ void k(int *x) { *x = 2; }\n',
    /own\.cu:2:17/,
    /"k" has already been defined/,
    /previous definition at line 1/,
  ],
  'a parameter is a reference': [
    '__global__ void k(int &x, int *y) {\n  x = *y;\n}\n',
    /own\.cu:1:19/,
    /'int &x' of k is a reference, by which no kernel gets a value/,
    /write a pointer, and '\*x' where it is used, for memory of the device; without the & it is passed by value/,
  ],
  'a parameter is a reference to a constant': [
    'struct P { float s; };\n__global__ void k(float *y, const P &p) { *y = p.s; }\n',
    /own\.cu:2:29/,
    /'const P &p' of k is a reference/,
    /without the & it is passed by value/,
  ],
  'a macro is to be given by an option': [
    '#ifndef TILE\n#error "TILE is not defined: pass -DTILE=32"\n#endif\n__global__ void k(int *x) { *x = TILE; }\n',
    /own\.cu:2:2/,
    /#error directive/,
    /pass -DTILE=32/,
  ],
  'shared memory is too large': [
    '__global__ void k(int *x) {\n  __shared__ int all[20000];\n  all[*x] = 1;\n  __syncthreads();\n  *x = all[0];\n}\n',
    /own\.cu:1:17/,
    /k has 80000 bytes of __shared__ memory, and a source may have 49152/,
    /extern __shared__.*config\.sharedMemory/,
  ],
}

describe('in a file of CUDA C++', { skip }, () => {
  for (const [name, [text, ...patterns]] of Object.entries(IN_SOURCE)) {
    test(name, async () => {
      const file = written(text)
      judge(await errorOf(() => compileCu(file)), patterns)
      // Hooks of Node have no other stack to show than that of the import.
      isCallers(judge(await errorOf(() => compileCuNow(file)), patterns))
    })
  }

  test('in a header of the project', async () => {
    const file = written('#include "own.h"\n__global__ void k(int *x) { *x = f(); }\n', {
      'own.h': '#pragma once\n__device__ int f() { return y; }\n',
    })
    judge(await errorOf(() => compileCu(file)), [/own\.h:2:29/, /"y" is undefined/, MARKED])
  })
})

const FINE = '__global__ void k(int *x) { *x = 1; }\n'

/** The options are as a program has them that no compiler checks. */
const compiledWith = (options: object) => () => compileCuNow(written(FINE), options)

const IN_CONFIGURATION: Readonly<Record<string, readonly [made: () => unknown, ...Patterns]>> = {
  'the file is not there': [
    () => compileCuNow(join(folder, 'nowhere.cu')),
    /^file is/,
    /nowhere\.cu', which cannot be read \(ENOENT/,
    /name a file of CUDA C\+\+/,
  ],
  'the file is a folder': [() => compileCuNow(folder), /^file is/, /EISDIR/, /name a file of CUDA C\+\+/],
  'an option is misspelt': [
    compiledWith({ architecture: 'compute_80' }),
    /in options/,
    /unknown option 'architecture'/,
    /did you mean 'arch'\?/,
  ],
  'the architecture has the name of a GPU': [
    compiledWith({ arch: 'hopper' }),
    /options\.arch/,
    /'hopper'/,
    /such as 'compute_75' or 'compute_90'/,
  ],
  'the architecture is a number': [
    compiledWith({ arch: 80 }),
    /options\.arch/,
    /not 80/,
    /a text such as 'compute_75'/,
  ],
  'NVRTC does not know the architecture': [
    compiledWith({ arch: 'compute_999' }),
    /options\.arch/,
    /'compute_999', for which NVRTC \d+\.\d+ cannot compile/,
    /such as 'compute_75'.*newer NVRTC/,
  ],
  'machine code is asked for by the name of a GPU': [
    compiledWith({ cubins: ['hopper'] }),
    /options\.cubins\[0\]/,
    /'hopper'/,
    /such as 'sm_80' or 'sm_90'/,
  ],
  'machine code is asked for in one text': [
    compiledWith({ cubins: 'sm_90' }),
    /options\.cubins/,
    /not 'sm_90'/,
    /an array of texts/,
  ],
  'NVRTC makes no machine code for the architecture': [
    compiledWith({ cubins: ['sm_999'] }),
    /options\.cubins/,
    /'sm_999', for which NVRTC \d+\.\d+ cannot compile/,
    /leave it out, since such GPUs run the PTX/,
  ],
  'the architecture is among the options': [
    compiledWith({ options: ['-arch=sm_90'] }),
    /options\.options/,
    /'-arch=sm_90'/,
    /the architecture is options\.arch/,
  ],
  'the options are one text': [
    compiledWith({ options: '--use_fast_math' }),
    /options\.options/,
    /not '--use_fast_math'/,
    /an array of texts/,
  ],
  'an option for NVRTC is misspelt': [
    compiledWith({ options: ['--fast-math'] }),
    /options\.options/,
    /'--fast-math'/,
    /did you mean '--use_fast_math'\?/,
  ],
  'an option is one of nvcc': [compiledWith({ options: ['-O3'] }), /options\.options/, /'-O3'/, /leave it out/],
  'an option lacks its value': [
    compiledWith({ options: ['-I'] }),
    /options\.options/,
    /'-I', which needs a value/,
    /add it as the next text/,
  ],
  'an option of a plug-in is misspelt': [
    () => cuEsbuild({ declaration: false } as object),
    /in options/,
    /unknown option 'declaration'/,
    /did you mean 'declarations'\?/,
  ],
  'a plug-in gets another architecture': [
    () => cuRollup({ arch: 'hopper' }),
    /options\.arch/,
    /'hopper'/,
    /such as 'compute_75'/,
  ],
  'a plug-in gets no list of options': [
    () => cuRollup({ options: '-DX' } as object),
    /options\.options/,
    /not '-DX'/,
    /an array of texts/,
  ],
}

describe('in the configuration', { skip }, () => {
  for (const [name, [made, ...patterns]] of Object.entries(IN_CONFIGURATION))
    test(name, async () => isCallers(judge(await errorOf(made), patterns)))
})

const AXPY = `__global__ void axpy(int n, float a, const float *x, float *y, bool adds, long long more) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && adds) y[i] += a * x[i] + more;
}
`

async function imported(): Promise<{ readonly axpy: DefinedKernel }> {
  const file = written(AXPY)
  mkdirSync(join(dirname(file), 'node_modules'))
  symlinkSync(root, join(dirname(file), 'node_modules', 'cuda-streams'), 'dir')
  writeFileSync(join(dirname(file), 'package.json'), '{ "type": "module" }')
  writeFileSync(join(dirname(file), 'own.cu.js'), (await compileCu(file)).module)
  return import(pathToFileURL(join(dirname(file), 'own.cu.js')).href)
}

const module = skip === false ? await imported() : undefined
const ptx = skip === false ? compileCuNow(written(AXPY)).ptx : ''
function machine(): Device {
  const [device] = simulate().devices
  assert.ok(device)
  return device
}

const [device, other] = [machine(), machine()]
const stream = new Stream({ device })
const [x, y] = [device.alloc(400, { stream }), device.alloc(400, { stream })]
const FITS = { grid: 1, block: 128 }
const RIGHT = [100, 2, x, y, true, 1n]

/** Calls as programs make them that no compiler checks. */
const launchOn = (own: Stream, ...given: readonly unknown[]): unknown => Reflect.apply(own.launch, own, given)
const launch =
  (...given: readonly unknown[]) =>
  () =>
    launchOn(stream, ...given)

const shaped = (config: object): (() => unknown) => launch(module?.axpy, config, ...RIGHT)

/** With this in the place of the argument of that index. */
const passed = (index: number, value: unknown): (() => unknown) =>
  launch(module?.axpy, FITS, ...RIGHT.map((each, at) => (at === index ? value : each)))

const parameter = (index: number, name: string): RegExp =>
  new RegExp(`^axpy: (?:argument ${index} |(?:parameter )?\`${name}\`)`)

function closed(): DeviceBuffer {
  const buffer = device.alloc(400, { stream })
  buffer.close()
  return buffer
}

const IN_A_CALL: Readonly<Record<string, readonly [made: () => unknown, ...Patterns]>> = {
  'the grid is a fraction': [
    shaped({ grid: 100 / 256, block: 256 }),
    /^axpy: config\.grid/,
    /not 0\.390625/,
    /Math\.ceil\(n \/ block\), or pass \{ threads: n \}/,
  ],
  'the grid is empty': [shaped({ grid: 0, block: 256 }), /^axpy: config\.grid/, /not 0/, /skip the launch/],
  'the grid is a text': [shaped({ grid: '4' }), /^axpy: config\.grid/, /not '4'/, /a number, or an array/],
  'an option has the name that CUDA has for it': [
    shaped({ gridDim: 1 }),
    /^axpy: .*in config/,
    /unknown option 'gridDim'/,
    /did you mean 'grid'\?/,
  ],
  'there is no grid': [shaped({ block: 256 }), /^axpy: config/, /must have grid/, /or threads/],
  'grid and threads are given': [
    shaped({ grid: 1, threads: 100 }),
    /^axpy: config\.grid/,
    /exclude each other/,
    /threads says how many/,
  ],
  'the block is too large': [
    shaped({ grid: 1, block: 2048 }),
    /launch of axpy.*config\.block/,
    /2048 threads in each block/,
    /at most 1024/,
  ],
  'there is too much shared memory': [
    shaped({ ...FITS, sharedMemory: 1e6 }),
    /launch of axpy.*config\.sharedMemory/,
    /1000000 bytes/,
    /at most 232448/,
  ],
  'there is no configuration': [
    launch(module?.axpy, ...RIGHT),
    /^axpy: config/,
    /not 100/,
    /as in launch\(kernel, \{ threads: n \}, \.\.\.args\)/,
  ],
  'a fraction for an integer': [passed(0, 100.5), parameter(0, 'n'), /not 100\.5/, /must be an integer/],
  'an integer is out of range': [passed(0, 2 ** 31), parameter(0, 'n'), /not 2147483648/, /to 2147483647/],
  'a text for a number': [passed(1, '2'), parameter(1, 'a'), /not '2'/, /must be a number/],
  'a number for a boolean': [passed(4, 1), parameter(4, 'adds'), /not 1/, /must be true or false/],
  'a number that is no safe integer': [
    passed(5, 2 ** 60),
    parameter(5, 'more'),
    /not 1152921504606847000/,
    /a bigint where it is not a safe integer/,
  ],
  'an array for memory': [
    passed(2, new Float32Array(3)),
    parameter(2, 'x'),
    /not Float32Array\(3\)/,
    /stream\.bufferFrom\(array\)/,
  ],
  'two arguments are exchanged': [
    launch(module?.axpy, FITS, 100, x, 2, y, true, 1n),
    parameter(1, 'a'),
    /not DeviceBuffer\(/,
    /must be a number/,
  ],
  'arguments are missing': [launch(module?.axpy, FITS, 100, 2), /^axpy/, /2 were given/, /takes 6 arguments/],
  'there is one too many': [launch(module?.axpy, FITS, ...RIGHT, 3), /^axpy/, /7 were given/, /takes 6 arguments/],
  'a buffer is closed': [passed(2, closed()), parameter(2, 'x'), /DeviceBuffer\(.*closed/, /cannot be used any more/],
  'a buffer begins within an element': [
    passed(2, x.subarray(1, 10)),
    parameter(2, 'x'),
    /DeviceBuffer\(.*does not begin/,
    /at a multiple of 4/,
  ],
  'a buffer is of another machine': [
    passed(2, other.alloc(400, { stream: new Stream({ device: other }) })),
    parameter(2, 'x'),
    /DeviceBuffer\(.* belongs to another simulation than the stream it is used with/,
    /use memory of the stream's own device/,
  ],
  'the module has no such kernel': [
    launch((module as unknown as Record<string, unknown> | undefined)?.['apxy'], FITS, ...RIGHT),
    /^target/,
    /not undefined/,
    /a module exports its kernels by their names/,
  ],
  'the module is launched': [launch(module, FITS, ...RIGHT), /^target/, /\{ axpy:/, /name one of the kernels/],
  'the code has no such kernel': [
    () => launch(defineKernel({ name: 'apxy', ptx, signature: ['i32'] }), FITS, 1)(),
    /no kernel 'apxy'/,
    /CUDA_ERROR_NOT_FOUND/,
    /check the name/,
  ],
  'the signature is another one': [
    () => launch(defineKernel({ name: 'axpy', ptx, signature: ['i32'] }), FITS, 1)(),
    /signature of kernel 'axpy'/,
    /parameters of 4 bytes/,
    /the kernel's have 4, 4, 8, 8, 1, 8/,
  ],
  'the PTX is of a version that the simulator does not know': [
    () =>
      launch(
        defineKernel({ name: 'axpy', ptx: ptx.replace(/^\.version .*/m, '.version 10.1'), signature: ['i32'] }),
        FITS,
        1,
      )(),
    /axpy is PTX of version 10\.1/,
    /CUDA_ERROR_UNSUPPORTED_PTX_VERSION/,
    /make the PTX with an older compiler/,
  ],
  'the file has no such variable': [
    () => module?.axpy.global('weights', device),
    /variable 'weights'/,
    /CUDA_ERROR_NOT_FOUND/,
    /declare it as __device__ or __constant__/,
  ],
}

describe('in a call', { skip }, () => {
  for (const [name, [made, ...patterns]] of Object.entries(IN_A_CALL))
    test(name, async () => isCallers(judge(await errorOf(made), patterns)))

  test('a buffer is too small', async () => {
    const alone = machine()
    using own = new Stream({ device: alone })
    const [from, to] = [alone.alloc(400, { stream: own }), alone.alloc(400, { stream: own })]
    launchOn(own, module?.axpy, FITS, 128, 2, from, to, true, 1n)
    judge(await errorOf(() => own.finished()), [
      /in axpy, block \(0,0,0\), thread \(100,0,0\).*own\.cu:3/,
      /reads 4 bytes at 0x\w+, 0 bytes behind the end of the block/,
      /of 400 bytes/,
    ])
  })
})

describe('on a GPU', { skip: lacksFakeDriver }, () => {
  test('the PTX is of a version that the driver does not know', async () => {
    const { code, output } = await run([fileOf('../fake-driver/new-ptx.js')])
    assert.equal(code, 0, output)
    const [message = '', stack = ''] = output.trim().split('\n')
    assert.match(message, /^cuModuleLoadData .*CUDA_ERROR_UNSUPPORTED_PTX_VERSION.*axpy is PTX of version 10\.1/)
    assert.match(message, /newer than the driver: update the driver, or make the PTX with an older compiler/)
    assert.match(stack, /new-ptx\.js/, 'the first line of the stack is the caller’s')
  })
})

test('there are more than forty', () => {
  const all = [IN_SOURCE, IN_CONFIGURATION, IN_A_CALL].flatMap((table) => Object.keys(table))
  assert.ok(all.length > 40, `${all.length}`)
})
