/** TypeScript sees the kernels of a file of CUDA C++: right launches compile, and wrong ones do not. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
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
