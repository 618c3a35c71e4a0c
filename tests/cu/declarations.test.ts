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

test('launches are typed, with the names of the parameters', { skip, timeout: 120_000 }, async () => {
  const project = scratchFolder('cu-types')
  mkdirSync(join(project, 'node_modules', '@types'), { recursive: true })
  symlinkSync(root, join(project, 'node_modules', 'cuda-streams'), 'dir')
  symlinkSync(join(root, 'node_modules', '@types', 'node'), join(project, 'node_modules', '@types', 'node'), 'dir')
  const { declaration } = await compileCu(cuFile('saxpy.cu'))
  writeFileSync(join(project, 'saxpy.d.cu.ts'), declaration)
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
