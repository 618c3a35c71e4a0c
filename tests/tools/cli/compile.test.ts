/** The command `cuda-streams compile`. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { lacksNvrtc } from '../../helpers/nvrtc.js'
import { root } from '../../helpers/root.js'
import { scratchFolder } from '../../helpers/scratch.js'

const skip = lacksNvrtc()
const command = join(root, 'dist', 'src', 'tools', 'cli', 'main.js')
const SOURCE = `#include "own.h"
__global__ void scale(float *data, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= FACTOR * factor;
}
int main() { scale<<<1, 1>>>(0, 1, 0); }
`

/** A project of its own, in which the package is installed. */
function project() {
  const folder = scratchFolder('compile')
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(root, join(folder, 'node_modules', 'cuda-streams'), 'dir')
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  writeFileSync(join(folder, 'scale.cu'), SOURCE)
  writeFileSync(join(folder, 'own.h'), '#define FACTOR 10\n')
  const env = { ...process.env, CUDA_STREAMS_DRIVER: 'sim', XDG_CACHE_HOME: join(folder, 'cache') }
  const run = (...args: string[]) => spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' })
  return { folder, env, run }
}

test('a file of somebody else, compiled and run without a GPU', { skip }, () => {
  const { folder, run } = project()
  const { stdout, stderr, status } = run(command, 'compile', 'scale.cu', '--ptx')
  assert.deepEqual([status, stderr], [0, ''])
  assert.equal(
    stdout,
    'scale.cu -> scale.d.cu.ts, scale.cu.js, scale.cu.d.ts, scale.ptx\n  scale(data: inout f32*, factor: f32, n: i32)\n',
  )
  writeFileSync(
    join(folder, 'main.js'),
    `import { Device, Stream } from 'cuda-streams'
import { scale } from './scale.cu.js'
const stream = new Stream({ device: Device.get() })
const data = stream.device.alloc(12, { stream })
void stream.upload(data, Float32Array.of(1, 2, 3))
stream.launch(scale, { grid: 1, block: 32 }, data, 0.5, 3)
console.log(await stream.download(data, Float32Array))
`,
  )
  assert.deepEqual(run('main.js').stdout, 'Float32Array(3) [ 5, 10, 15 ]\n')
})

test('other folders, only declarations, and options for NVRTC', { skip }, () => {
  const { folder, run } = project()
  const made = ['compile', 'scale.cu', '--out', 'build/kernels', '--types', '--arch', 'sm_80', '--', '-DUNUSED=1']
  assert.equal(run(command, ...made).status, 0)
  assert.deepEqual(readdirSync(join(folder, 'build', 'kernels')), ['scale.d.cu.ts'])
})

test('machine code for the architectures that are named', { skip }, () => {
  const { folder, run } = project()
  const { status, stderr } = run(command, 'compile', 'scale.cu', '--cubin', 'sm_80', '--cubin', 'sm_90')
  assert.deepEqual([status, stderr], [0, ''])
  const module = readFileSync(join(folder, 'scale.cu.js'), 'utf8')
  assert.deepEqual(
    [...module.matchAll(/^ {2}(sm_\d+): 'f0VM/gm)].map(([, architecture]) => architecture),
    ['sm_80', 'sm_90'],
  )
})

test('mistakes are shown in the source, and the others are compiled', { skip }, () => {
  const { folder, run } = project()
  writeFileSync(join(folder, 'wrong.cu'), '__global__ void k(int *x) {\n  *x = unknown;\n}\n')
  const { stdout, stderr, status } = run(command, 'compile', 'wrong.cu', 'scale.cu')
  assert.equal(status, 1)
  assert.match(
    stderr,
    /wrong\.cu:2:8: identifier "unknown" is undefined\n {2}1 \| .*\n> 2 \| {3}\*x = unknown;\n {4}\| {8}\^/,
  )
  assert.match(stdout, /^scale\.cu -> /)
})

test('wrong arguments are explained', () => {
  const { run } = project()
  for (const [args, message] of [
    [['compile'], /compile needs a file/],
    [['compile', 'scale.cu', '--json'], /compile has no option --json/],
    [['doctor', '--watch'], /doctor has no option --watch/],
    [['compiel', 'scale.cu'], /There is no command 'compiel': did you mean 'compile'\?/],
  ] as const) {
    const { stderr, status } = run(command, ...args)
    assert.equal(status, 2)
    assert.match(stderr, message)
  }
})

test('it compiles again when a file or a header changes', { skip, timeout: 60_000 }, async () => {
  const { folder, env } = project()
  const child = spawn(process.execPath, [command, 'compile', 'scale.cu', '--watch'], { cwd: folder, env })
  try {
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
    const errors = createInterface(child.stderr)[Symbol.asyncIterator]()
    assert.match((await lines.next()).value ?? '', /^scale\.cu -> /)
    await lines.next()
    writeFileSync(join(folder, 'own.h'), '#define FACTOR unknown\n')
    assert.match((await errors.next()).value ?? '', /scale\.cu does not compile/)
    writeFileSync(join(folder, 'own.h'), '#define FACTOR 5\n')
    assert.match((await lines.next()).value ?? '', /^scale\.cu -> /)
  } finally {
    child.kill()
    await once(child, 'close')
  }
})
