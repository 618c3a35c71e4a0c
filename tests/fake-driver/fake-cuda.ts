/** The library's CUDA driver on a fake libcuda: libcuda.c beside this file, compiled by the C compiler of the machine. */
import { join } from 'node:path'
import { cLibrary } from '../helpers/c-library.js'
import { makeLibrary, withFolderOf } from '../helpers/compiler.js'
import { DRIVER_FILE } from '../helpers/driver-file.js'
import { root } from '../helpers/root.js'
import { scratchFolder } from '../helpers/scratch.js'

const FAKE = 'FAKE_CUDA'
const SOURCES = join(root, 'tests', 'fake-driver')
/** Both have threads of their own, and stay in memory until the process ends. */
const OPTIONS = ['-O2', '-pthread', '-Wl,-z,nodelete']

/** Does this process run on a fake GPU? */
export const isFakeDriver = (): boolean => process.env[FAKE] !== undefined

interface Fake {
  readonly env: NodeJS.ProcessEnv
}

/** Which functions it has: those of CUDA 13.2, of the oldest that the library works with, or without those that CUDA means to drop. */
export type Age = 'now' | 'oldest' | 'future'
const DEFINED: Readonly<Record<Age, readonly string[]>> = { now: [], oldest: ['-DOLDEST'], future: ['-DFUTURE'] }

/** The environment of a process that takes the fake libcuda for the NVIDIA driver; or why there is none. */
export function fakeCuda(age: Age = 'now'): Fake | string {
  const library = libraryOf(age)
  if (typeof library === 'string') return library
  const env = {
    ...withFolderOf(library.file, process.env),
    CUDA_STREAMS_DRIVER: 'cuda',
    CUDA_STREAMS_NVRTC: library.file,
    [FAKE]: '1',
    // Whatever could wait does.
    FAKE_BLOCK: '1',
  }
  Reflect.deleteProperty(env, 'NODE_TEST_CONTEXT')
  return { env }
}

function libraryOf(age: Age): { readonly file: string } | string {
  const source = join(SOURCES, 'libcuda.c')
  if (process.platform === 'linux') return cLibrary(DRIVER_FILE, [source], [...OPTIONS, ...DEFINED[age]])
  if (process.platform !== 'win32') return 'the fake libcuda is for Linux and Windows'
  return { file: makeLibrary(source, join(scratchFolder('fake'), DRIVER_FILE), DEFINED[age]) }
}

/** The file of a fake CUPTI, which tells of that libcuda. */
export function fakeCupti(): string {
  const options = [...OPTIONS, '-Wall', '-Wextra', '-Werror']
  const library = cLibrary('libcupti.so', [join(SOURCES, 'libcupti.c')], options)
  if (typeof library === 'string') throw new Error(library)
  return library.file
}
