/** `node --import cuda-streams/cu/register`: a static import of a file of CUDA C++. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { CACHED, lacksNvrtc } from '../helpers/nvrtc.js'
import { root } from '../helpers/root.js'
import { scratchFolder } from '../helpers/scratch.js'
import { cuFile } from './cu-files.js'

test('a program imports kernels, and a mistake in them ends it with its place', { skip: lacksNvrtc() }, () => {
  const folder = scratchFolder('cu-register')
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(root, join(folder, 'node_modules', 'cuda-streams'), 'dir')
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  copyFileSync(cuFile('histogram.cu'), join(folder, 'histogram.cu'))
  writeFileSync(join(folder, 'wrong.cu'), '__global__ void k(int *x) { *x = unknown; }\n')
  writeFileSync(
    join(folder, 'main.js'),
    `import { Device, Stream } from 'cuda-streams'
import { count_launches } from './histogram.cu'
const stream = new Stream({ device: Device.get() })
const count = stream.device.alloc(4, { stream })
console.log(await stream.launch(count_launches, { grid: 1, block: 1 }, count).download(count, Uint32Array))
await import('./wrong.cu')
`,
  )
  const { stdout, stderr, status } = spawnSync(process.execPath, ['--import', 'cuda-streams/cu/register', 'main.js'], {
    cwd: folder,
    env: { ...process.env, CUDA_STREAMS_DRIVER: 'sim' },
    encoding: 'utf8',
  })
  assert.equal(stdout, 'Uint32Array(1) [ 0 ]\n', stderr)
  assert.match(stderr, /wrong\.cu:1:34: identifier "unknown" is undefined/)
  assert.equal(status, 1)
})

test('NVRTC is found in a virtual environment beside the program, which is not active', {
  skip: existsSync(CACHED) ? false : 'scripts/cuda-toolkit.mjs has not brought NVRTC',
}, () => {
  const folder = scratchFolder('cu-register')
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(root, join(folder, 'node_modules', 'cuda-streams'), 'dir')
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  copyFileSync(cuFile('histogram.cu'), join(folder, 'histogram.cu'))
  writeFileSync(join(folder, 'main.js'), "console.log(Object.keys(await import('./histogram.cu')).length > 0)\n")
  const packages = join(folder, '.venv', 'lib', 'python3.12', 'site-packages')
  mkdirSync(packages, { recursive: true })
  symlinkSync(dirname(CACHED), join(packages, 'nvidia'), 'dir')
  const { stdout, stderr } = spawnSync(process.execPath, ['--import', 'cuda-streams/cu/register', 'main.js'], {
    cwd: folder,
    // No Python is there, and no environment is active.
    env: { CUDA_STREAMS_DRIVER: 'sim', HOME: folder, PATH: folder },
    encoding: 'utf8',
  })
  assert.equal(stdout, 'true\n', stderr)
})
