/** The library's CUDA driver on a fake libcuda: libcuda.c beside this file, compiled by the C compiler of the machine. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const FAKE = 'FAKE_CUDA'
const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..')

/** Does this process run on a fake GPU? */
export const isFakeDriver = (): boolean => process.env[FAKE] !== undefined

interface Fake {
  readonly env: NodeJS.ProcessEnv
  readonly remove: () => void
}

/** Which functions it has: those of CUDA 13.2, of the oldest that the library works with, or without those that CUDA means to drop. */
export type Age = 'now' | 'oldest' | 'future'
const DEFINED: Readonly<Record<Age, readonly string[]>> = { now: [], oldest: ['-DOLDEST'], future: ['-DFUTURE'] }

/** The environment of a process that takes the fake libcuda for the NVIDIA driver; or why there is none. */
export function fakeCuda(age: Age = 'now'): Fake | string {
  if (process.platform !== 'linux') return 'the fake libcuda is for Linux'
  const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-fake-'))
  const library = join(folder, 'libcuda.so.1')
  const source = join(ROOT, 'tests', 'fake-driver', 'libcuda.c')
  // It has a thread of its own, and stays in memory until the process ends.
  const options = ['-shared', '-fPIC', '-O2', '-pthread', '-Wl,-z,nodelete', ...DEFINED[age]]
  const compiled = spawnSync('cc', [...options, '-o', library, source], { encoding: 'utf8' })
  if (compiled.error !== undefined) return `no C compiler here: ${compiled.error.message}`
  if (compiled.status !== 0) throw new Error(compiled.stderr)
  const env = {
    ...process.env,
    LD_LIBRARY_PATH: folder,
    CUDA_STREAMS_DRIVER: 'cuda',
    CUDA_STREAMS_NVRTC: library,
    [FAKE]: '1',
    // Whatever could wait does.
    FAKE_BLOCK: '1',
  }
  Reflect.deleteProperty(env, 'NODE_TEST_CONTEXT')
  return { env, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

/** The file of a fake CUPTI, beside that libcuda. */
export function fakeCupti({ env }: Fake): string {
  const library = join(env['LD_LIBRARY_PATH'] ?? '', 'libcupti.so')
  const source = join(ROOT, 'tests', 'fake-driver', 'libcupti.c')
  const options = ['-shared', '-fPIC', '-O2', '-pthread', '-Wall', '-Wextra', '-Werror', '-Wl,-z,nodelete']
  const compiled = spawnSync('cc', [...options, '-o', library, source, '-ldl'], { encoding: 'utf8' })
  if (compiled.status !== 0) throw new Error(compiled.stderr)
  return library
}
