/** The script that says what becomes of a folder of other people's CUDA code counts each file once, by what came of it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { CACHED, lacksNvrtc } from '../helpers/nvrtc.js'
import { root } from '../helpers/root.js'
import { scratchFolder } from '../helpers/scratch.js'
import { cuFile } from './cu-files.js'

const skip = lacksNvrtc() || (process.versions['bun'] !== undefined && "the script is Node's")

test('a table by project, and why files are refused', { skip }, () => {
  const folder = scratchFolder('public-kernels')
  const put = (name: string, text: string): void => {
    mkdirSync(join(folder, name, '..'), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  put('first/src/wrong.cu', '#include "elsewhere.h"\n__global__ void k(int *a) { *a = unknown; }')
  put('first/include/elsewhere.h', 'const int N = 3;\n')
  put('first/src/right.cu', '#include "elsewhere.h"\n__global__ void k(int *a) { *a = N; }')
  put('first/src/host.cu', 'int main() { return 0; }')
  put('second/others.cu', '#include <another/library.h>\n__global__ void k(Another *a) { *a = 1; }')
  put('second/faulty.cu', '__global__ void k(int **a) { **a = 1; }')
  copyFileSync(cuFile('saxpy.cu'), join(folder, 'second', 'saxpy.cu'))
  const env = { CUDA_STREAMS_NVRTC: join(CACHED, 'lib'), ...process.env, XDG_CACHE_HOME: join(folder, 'cache') }
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [join(root, 'scripts', 'public-kernels.mjs'), folder, '--jobs', '1', '--seconds', '600'],
    { encoding: 'utf8', env },
  )
  assert.equal(status, 0, stderr)
  const rows = stdout.split('\n').map((line) => line.trim().split(/\s+/).join(' '))
  assert.equal(rows[0], 'project files no kernel alone compiled others compiled kernels loaded ran')
  assert.equal(rows[1], 'first 3 1 2 1 50 % 0 0 1 1 100 % 1')
  assert.match(rows[2] ?? '', /^second 3 0 2 2 100 % 1 0 \d+ \d+ 100 % \d+$/)
  assert.match(stdout, /need nothing else:\n +1 {2}identifier "unknown" is undefined {2}\(first\/src\/wrong\.cu\)/)
  assert.match(stdout, /need what is not here:\n +1 {2}identifier "Another" is undefined {2}\(second\/others\.cu\)/)
})
