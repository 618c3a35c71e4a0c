/** TypeScript sees the kernels of a file of CUDA C++: right launches compile, and wrong ones do not. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { compileCu } from 'cuda-streams/cu'
import { compiler, compilerUnavailable } from '../docs/guide-compiler.js'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { root } from '../helpers/root.js'
import { scratchFolder } from '../helpers/scratch.js'
import { cuFile } from './cu-files.js'

const skip = compilerUnavailable() ?? lacksNvrtc()

/** A project with the declarations of these files. */
async function projectWith(files: readonly string[]): Promise<string> {
  const project = scratchFolder('cu-types')
  mkdirSync(join(project, 'node_modules', '@types'), { recursive: true })
  symlinkSync(root, join(project, 'node_modules', 'cuda-streams'), 'dir')
  symlinkSync(join(root, 'node_modules', '@types', 'node'), join(project, 'node_modules', '@types', 'node'), 'dir')
  for (const name of files) {
    const { declaration } = await compileCu(cuFile(`${name}.cu`))
    writeFileSync(join(project, `${name}.d.cu.ts`), declaration)
  }
  const options = {
    strict: true,
    noEmit: true,
    module: 'nodenext',
    target: 'es2022',
    lib: ['es2023', 'esnext.disposable'],
  }
  writeFileSync(
    join(project, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: { ...options, allowArbitraryExtensions: true, types: ['node'], skipLibCheck: true },
    }),
  )
  return project
}

test('launches are typed, with the names of the parameters', { skip, timeout: 120_000 }, async () => {
  const project = await projectWith(['saxpy'])
  writeFileSync(
    join(project, 'main.ts'),
    `import { type DeviceBuffer, type Stream } from 'cuda-streams'
import { saxpy } from './saxpy.cu'
export function run(stream: Stream, x: DeviceBuffer, y: DeviceBuffer): void {
  stream.launch(saxpy, { grid: 1, block: 32 }, 10, 2, x, y)
  // @ts-expect-error: the scalar comes before the memory
  stream.launch(saxpy, { grid: 1, block: 32 }, 10, x, 2, y)
  // @ts-expect-error: one is missing
  stream.launch(saxpy, { grid: 1, block: 32 }, 10, 2, x)
}
`,
  )
  const { stdout, status } = spawnSync(process.execPath, [compiler(), '-p', project], { encoding: 'utf8' })
  assert.equal(`${stdout}${status}`, '0')
  // An editor shows a label for each argument: those are the labels of the tuple, which a declaration shows, too.
  const labels = `import { saxpy } from './saxpy.cu'
import type { ArgumentsOf, DefinedKernel } from 'cuda-streams'
type Signature = typeof saxpy extends DefinedKernel<infer S> ? S : never
export const launch = (...args: ArgumentsOf<Signature>): unknown => args
const wrong: [label: boolean] = launch
`
  writeFileSync(join(project, 'main.ts'), labels)
  const { stdout: wrong } = spawnSync(process.execPath, [compiler(), '-p', project], { encoding: 'utf8' })
  assert.match(wrong, /\(n: number, a: number, x: MemoryArgument, y: MemoryArgument\) => unknown/)
  // What is wrong is said of the call, and not of the other things that can be launched.
  const calls = `import { type GraphExec, type Stream } from 'cuda-streams'
import { saxpy } from './saxpy.cu'
declare const stream: Stream
declare const exec: GraphExec
stream.launch(saxpy, { threads: 10 }, 10, 2, 0)
stream.launch(saxpy, { threads: 10 }, 10, '2', 0, 0)
stream.launch(saxpy, { thread: 10 }, 10, 2, 0, 0)
stream.launch(exec, { threads: 10 })
`
  writeFileSync(join(project, 'main.ts'), calls)
  const { stdout: said } = spawnSync(process.execPath, [compiler(), '-p', project], { encoding: 'utf8' })
  assert.deepEqual(
    said.match(/(?<=main\.ts\()\d+|(?<=error TS\d+: ).*/gm),
    [
      ['5', 'Expected 6 arguments, but got 5.'],
      ['6', "Argument of type 'string' is not assignable to parameter of type 'number'."],
      [
        '7',
        "Object literal may only specify known properties, but 'thread' does not exist in type 'LaunchConfig'. Did you mean to write 'threads'?",
      ],
      ['8', 'Expected 1 arguments, but got 2.'],
    ].flat(),
    said,
  )
})

test('structs, vectors and floats of 16 bits are typed as they are in the source', {
  skip,
  timeout: 120_000,
}, async () => {
  const project = await projectWith(['sharpen', 'particles', 'rmsnorm-half', 'matvec-q8'])
  writeFileSync(
    join(project, 'main.ts'),
    `import { type DeviceBuffer, type Stream, type Struct } from 'cuda-streams'
import { FilterParams, sharpen } from './sharpen.cu'
import { type Box, Particle, place, step, total_energy, type World } from './particles.cu'
import { axpy_half, axpy_half2, rms_norm_half_64 } from './rmsnorm-half.cu'
import { block_q8_0, matvec_i8, mul_mat_vec_q8_0, quantize_q8_0, unpack_rgba } from './matvec-q8.cu'

export async function filter(stream: Stream, image: DeviceBuffer): Promise<void> {
  const params: FilterParams = {
    size: [640, 480], gain: [1, 1, 1, 0], kernel: [[0, 0, 0], [0, 1, 0], [0, 0, 0]], threshold: 0.5, clampAlpha: true,
  }
  stream.launch(sharpen, { threads: [640, 480] }, image, image, params, [0, 0, 0, 1])
  stream.launch(sharpen, { threads: [640, 480] }, image, image, params, new Float32Array(4))
  // @ts-expect-error: a float4 has four numbers
  stream.launch(sharpen, { threads: 1 }, image, image, params, [0, 0, 0])
  // @ts-expect-error: a bool is no number
  stream.launch(sharpen, { threads: 1 }, image, image, { ...params, clampAlpha: 1 }, [0, 0, 0, 1])
  // @ts-expect-error: there is no such member
  const wrong: FilterParams = { ...params, sigma: 1 }
  const described: Struct<FilterParams> = FilterParams
  void [wrong, described]
}

export async function simulate(stream: Stream, particles: DeviceBuffer, energy: DeviceBuffer): Promise<readonly number[]> {
  const box: Box = { least: [0, 0, 0], most: [1, 1, 1] }
  const world: World = { box, gravity: [0, -9.81, 0], restitution: 0.5, tick: 1n }
  await stream.upload(particles, Particle.pack([{ position: [0, 0, 0], mass: 1, velocity: [0, 0, 0], hits: 0 }]))
  stream.launch(step, { threads: 1 }, particles, world, 0.01, 1).launch(total_energy, { grid: 1 }, particles, energy, 1)
  stream.launch(place, { threads: 1 }, particles, energy, [1, 2])
  // @ts-expect-error: a long long is a bigint
  stream.launch(step, { threads: 1 }, particles, { ...world, tick: 1 }, 0.01, 1)
  // @ts-expect-error: structs in memory are memory
  stream.launch(step, { threads: 1 }, [], world, 0.01, 1)
  // @ts-expect-error: a particle has a velocity
  Particle.pack([{ position: [0, 0, 0], mass: 1, hits: 0 }])
  const first: Particle | undefined = Particle.unpack(await stream.download(particles))[0]
  const [x = 0, y = 0, z = 0] = first?.position ?? []
  return [x, y, z]
}

export function halves(stream: Stream, x: DeviceBuffer, y: DeviceBuffer): void {
  stream.launch(axpy_half, { threads: 1 }, 0.5, x, y, 1).launch(axpy_half2, { threads: 1 }, [0.5, 1], x, y, 1)
  stream.launch(rms_norm_half_64, { grid: 1, block: 64 }, x, x, y, 1, 1e-5)
  // @ts-expect-error: a half2 has two numbers
  stream.launch(axpy_half2, { threads: 1 }, 0.5, x, y, 1)
}

export function bytes(stream: Stream, x: DeviceBuffer, y: DeviceBuffer): void {
  stream.launch(matvec_i8, { threads: 1 }, x, x, [1, 2, 3, 4], y, 1).launch(quantize_q8_0, { threads: 1 }, x, y, 1n)
  stream.launch(mul_mat_vec_q8_0, { grid: 1, block: 32 }, x, x, y, 32).launch(unpack_rgba, { threads: 1 }, x, y, [0, 0, 0, 0], 1)
  // @ts-expect-error: quants are an array
  block_q8_0.pack([{ d: 1, qs: 1 }])
}
`,
  )
  const { stdout, status } = spawnSync(process.execPath, [compiler(), '-p', project], { encoding: 'utf8' })
  assert.equal(`${stdout}${status}`, '0')
  // An editor shows the struct by its name.
  writeFileSync(
    join(project, 'main.ts'),
    `import { step } from './particles.cu'
import type { ArgumentsOf, DefinedKernel } from 'cuda-streams'
type Signature = typeof step extends DefinedKernel<infer S> ? S : never
export const launch = (...args: ArgumentsOf<Signature>): unknown => args
const wrong: [label: boolean] = launch
`,
  )
  const { stdout: wrong } = spawnSync(process.execPath, [compiler(), '-p', project], { encoding: 'utf8' })
  assert.match(wrong, /\(particles: MemoryArgument, world: World, dt: number, n: number\) => unknown/)
})

/** What an engineer writes who translates the declarations of the kernels by hand. */
const BY_HAND = `import type { DefinedKernel, Struct } from 'cuda-streams'
import * as gelu from './gelu-half.cu'
import * as histogram from './histogram.cu'
import * as image from './image-filter.cu'
import * as layernorm from './layernorm.cu'
import * as mandelbrot from './mandelbrot.cu'
import * as matmul from './matmul.cu'
import * as matvec from './matvec-q8.cu'
import * as nbody from './nbody.cu'
import * as particles from './particles.cu'
import * as reduction from './reduction.cu'
import * as rmsnorm from './rmsnorm-half.cu'
import * as saxpy from './saxpy.cu'
import * as sharpen from './sharpen.cu'
import * as softMax from './soft-max.cu'
import * as spmv from './spmv.cu'
import * as stencil from './stencil.cu'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(is: Same<A, B>): Same<A, B> => is
type Vec2 = readonly [x: number, y: number]
type Vec3 = readonly [x: number, y: number, z: number]
type Vec4 = readonly [x: number, y: number, z: number, w: number]

same<typeof gelu.gelu_half, DefinedKernel<readonly [in_: 'in f16*', out: 'out f16*', scale: 'f16', n: 'i64', negate: 'bool']>>(true)
same<typeof gelu.gelu_vector, DefinedKernel<readonly [values: 'inout f32x4*', n: 'u32']>>(true)
same<typeof histogram.histogram, DefinedKernel<readonly [data: 'in u8*', bins: 'atomic u32*', n: 'u64']>>(true)
same<typeof histogram.count_launches, DefinedKernel<readonly [out: 'out u32*']>>(true)
same<typeof image.rgba_to_grey, DefinedKernel<readonly [rgba: 'in u8x4*', grey: 'out u8*', rows: 'i32', columns: 'i32']>>(true)
same<typeof image.filter, DefinedKernel<readonly [in_: 'in u8*', out: 'out u8*', rows: 'i32', columns: 'i32']>>(true)
same<
  typeof layernorm.layernorm_forward_kernel,
  DefinedKernel<
    readonly [out: 'out f32*', mean: 'out f32*', rstd: 'out f32*', inp: 'in f32*', weight: 'in f32*', bias: 'in f32*', N: 'i32', C: 'i32']
  >
>(true)
same<
  typeof mandelbrot.mandelbrot,
  DefinedKernel<
    readonly [counts: 'out u16*', width: 'i32', height: 'i32', left: 'f64', top: 'f64', scale: 'f64', most: 'i16']
  >
>(true)
type MatMul = DefinedKernel<
  readonly [a: 'in f32*', b: 'in f32*', c: 'inout f32*', m: 'i32', n: 'i32', k: 'i32', alpha: 'f32', beta: 'f32']
>
same<typeof matmul.matmul_false, MatMul>(true)
same<typeof matmul.matmul_true, MatMul>(true)
interface Q8 { readonly d: number; readonly qs: readonly number[] }
same<matvec.block_q8_0, Q8>(true)
type Blocks = Struct<matvec.block_q8_0>
same<typeof matvec.quantize_q8_0, DefinedKernel<readonly [x: 'in f32*', y: { readonly out: Blocks }, blocks: 'i64']>>(true)
same<
  typeof matvec.mul_mat_vec_q8_0,
  DefinedKernel<readonly [m: { readonly in: Blocks }, v: { readonly in: Blocks }, dst: 'out f32*', ncols: 'i32']>
>(true)
same<
  typeof matvec.matvec_i8,
  DefinedKernel<readonly [weights: 'in i8x4*', x: 'in i8x4*', bias: 'i8x4', out: 'out i32*', quads: 'i32']>
>(true)
same<
  typeof nbody.integrateBodies_float,
  DefinedKernel<
    readonly [
      newPos: 'out f32x4*', oldPos: 'in f32x4*', vel: 'inout f32x4*', deviceOffset: 'u32', deviceNumBodies: 'u32',
      deltaTime: 'f32', damping: 'f32', numTiles: 'i32',
    ]
  >
>(true)
interface Box { readonly least: Vec3; readonly most: Vec3 }
interface Particle { readonly position: Vec3; readonly mass: number; readonly velocity: Vec3; readonly hits: number }
interface World { readonly box: Box; readonly gravity: Vec3; readonly restitution: number; readonly tick: bigint }
same<particles.Box, Box>(true)
same<particles.Particle, Particle>(true)
same<particles.World, World>(true)
same<
  typeof particles.step,
  DefinedKernel<readonly [particles: { readonly inout: Struct<Particle> }, world: Struct<World>, dt: 'f32', n: 'i32']>
>(true)
same<
  typeof particles.total_energy,
  DefinedKernel<readonly [particles: { readonly in: Struct<Particle> }, energy: 'out f64*', n: 'i32']>
>(true)
same<
  typeof particles.place,
  DefinedKernel<readonly [particles: { readonly out: Struct<Particle> }, box: { readonly in: Struct<Box> }, counts: 'i32x2']>
>(true)
same<typeof reduction.reduce_int_128, DefinedKernel<readonly [g_idata: 'in i32*', g_odata: 'out i32*', n: 'u32']>>(true)
same<typeof reduction.reduce_double_64, DefinedKernel<readonly [g_idata: 'in f64*', g_odata: 'out f64*', n: 'u32']>>(true)
type Norm<T extends 'f16' | 'bf16'> = DefinedKernel<
  readonly [x: \`in \${T}*\`, weight: \`in \${T}*\`, out: \`out \${T}*\`, columns: 'i32', epsilon: 'f32']
>
same<typeof rmsnorm.rms_norm_half_64, Norm<'f16'>>(true)
same<typeof rmsnorm.rms_norm___nv_bfloat16_64, Norm<'bf16'>>(true)
same<typeof rmsnorm.axpy_half, DefinedKernel<readonly [a: 'f16', x: 'in f16*', y: 'inout f16*', n: 'i32']>>(true)
same<typeof rmsnorm.axpy_half2, DefinedKernel<readonly [a: 'f16x2', x: 'in f16x2*', y: 'inout f16x2*', pairs: 'i32']>>(true)
same<typeof saxpy.saxpy, DefinedKernel<readonly [n: 'i32', a: 'f32', x: 'in f32*', y: 'inout f32*']>>(true)
interface FilterParams {
  readonly size: Vec2
  readonly gain: Vec4
  readonly kernel: readonly (readonly number[])[]
  readonly threshold: number
  readonly clampAlpha: boolean
}
same<sharpen.FilterParams, FilterParams>(true)
same<
  typeof sharpen.sharpen,
  DefinedKernel<readonly [in_: 'in f32x4*', out: 'out f32x4*', params: Struct<FilterParams>, background: 'f32x4']>
>(true)
interface SoftMax {
  readonly nheads: bigint
  readonly n_head_log2: number
  readonly ncols: bigint
  readonly nrows_x: bigint
  readonly scale: number
  readonly max_bias: number
  readonly m0: number
  readonly m1: number
}
same<
  typeof softMax.soft_max_f32_true_64_32_float,
  DefinedKernel<readonly [x: 'in f32*', mask: 'in f32*', dst: 'out f32*', p: Struct<SoftMax>]>
>(true)
type Spmv<I extends 'i32' | 'i64', V extends 'f32' | 'f64'> = DefinedKernel<
  readonly [rows: I, row_offsets: \`in \${I}*\`, columns: \`in \${I}*\`, values: \`in \${V}*\`, x: \`in \${V}*\`, y: \`out \${V}*\`]
>
same<typeof spmv.spmv_csr_int32_t_float, Spmv<'i32', 'f32'>>(true)
same<typeof spmv.spmv_csr_int64_t_double, Spmv<'i64', 'f64'>>(true)
same<
  typeof stencil.step,
  DefinedKernel<readonly [next: 'out f64*', now: 'in f64*', width: 'u64', height: 'u64', boundary: 'i32']>
>(true)
// The test sees a difference.
same<typeof saxpy.saxpy, DefinedKernel<readonly [n: 'i32', a: 'f32', x: 'in f32*', y: 'out f32*']>>(false)
`

test('the declarations of sixteen files are those that one writes by hand', { skip, timeout: 120_000 }, async () => {
  const all = readdirSync(cuFile('')).flatMap((name) => /^(.*)\.cu$/.exec(name)?.[1] ?? [])
  // Those of tensor maps have a test of their own, tiles.test.ts.
  const files = all.filter((name) => name !== 'tiles')
  assert.deepEqual(files.sort(), [...BY_HAND.matchAll(/'\.\/(.*)\.cu'/g)].map(([, name]) => name).sort())
  const project = await projectWith(files)
  writeFileSync(join(project, 'main.ts'), BY_HAND)
  const { stdout, status } = spawnSync(process.execPath, [compiler(), '-p', project], { encoding: 'utf8' })
  assert.equal(`${stdout}${status}`, '0')
})
