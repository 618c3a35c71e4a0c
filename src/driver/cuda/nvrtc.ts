/** NVRTC, CUDA's compiler as a library: found and loaded at the first compilation, which runs on a thread of its own. */
import { stateError } from '../../errors.js'
import { koffi, NativeMemory } from './native.js'

const P = 'uintptr_t'

const NAMES: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  linux: ['libnvrtc.so.13', 'libnvrtc.so.12', 'libnvrtc.so'],
  win32: ['nvrtc64_130_0.dll', 'nvrtc64_120_0.dll'],
}
const FOLDERS: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  linux: ['lib64', 'targets/x86_64-linux/lib', 'targets/sbsa-linux/lib'],
  win32: ['bin', 'bin/x64'],
}

type CFunction = (...args: (number | bigint | string)[]) => number
type AsyncFunction = (...args: unknown[]) => void

interface Nvrtc {
  readonly createProgram: CFunction
  readonly destroyProgram: CFunction
  readonly compileProgram: AsyncFunction
  readonly logSize: CFunction
  readonly log: CFunction
  readonly cubinSize: CFunction
  readonly cubin: CFunction
  readonly errorString: (result: number) => string
}

let loaded: Nvrtc | undefined

/**
 * Compiles CUDA C++ to a cubin.
 * @throws ERR_UNSUPPORTED where NVRTC is not found; ERR_COMPILATION, with the compiler's log, for a source with mistakes
 */
export async function compileCuda(source: string, name: string, options: readonly string[]): Promise<Uint8Array> {
  loaded ??= load()
  const nvrtc = loaded
  const memory = new NativeMemory(64)
  const program = (): number => memory.pointerAt(0)
  demand('nvrtcCreateProgram', nvrtc.createProgram(memory.address, source, name, 0, 0, 0), nvrtc)
  try {
    const result = await new Promise<number>((resolve, reject) => {
      nvrtc.compileProgram(program(), options.length, options, (error: unknown, status: number) =>
        error ? reject(error) : resolve(status),
      )
    })
    if (result !== 0) {
      const log = textOf(nvrtc.logSize, nvrtc.log, program(), memory)
      throw compilationError(name, nvrtc.errorString(result), log)
    }
    return bytesOf(nvrtc.cubinSize, nvrtc.cubin, program(), memory)
  } finally {
    nvrtc.destroyProgram(memory.address)
    memory.free()
  }
}

function load(): Nvrtc {
  const library = loadLibrary()
  const func = (name: string, args: string[], result = 'int'): CFunction =>
    library.func(name, result, args) as CFunction
  const compile = library.func('nvrtcCompileProgram', 'int', [P, 'int', 'const char **'])
  return {
    createProgram: func('nvrtcCreateProgram', [P, 'str', 'str', 'int', P, P]),
    destroyProgram: func('nvrtcDestroyProgram', [P]),
    compileProgram: compile.async as AsyncFunction,
    logSize: func('nvrtcGetProgramLogSize', [P, P]),
    log: func('nvrtcGetProgramLog', [P, P]),
    cubinSize: func('nvrtcGetCUBINSize', [P, P]),
    cubin: func('nvrtcGetCUBIN', [P, P]),
    errorString: library.func('nvrtcGetErrorString', 'str', ['int']) as (result: number) => string,
  }
}

function loadLibrary(): ReturnType<typeof import('koffi').load> {
  const roots = [process.env['CUDA_HOME'], process.env['CUDA_PATH'], '/usr/local/cuda'].filter((root) => root)
  const names = NAMES[process.platform] ?? []
  const folders = FOLDERS[process.platform] ?? []
  const paths = [
    ...names,
    ...roots.flatMap((root) => folders.flatMap((folder) => names.map((name) => `${root}/${folder}/${name}`))),
  ]
  for (const path of paths) {
    try {
      return koffi().load(path)
    } catch {
      // The next place may have it.
    }
  }
  throw stateError(
    'ERR_UNSUPPORTED',
    `NVRTC, CUDA's compiler, was not found: tried ${paths.join(', ')}. Install it, set CUDA_HOME, or load code that is compiled already`,
  )
}

function demand(call: string, result: number, nvrtc: Nvrtc): void {
  if (result !== 0) throw stateError('ERR_UNSUPPORTED', `${call} failed: ${nvrtc.errorString(result)}`)
}

function bytesOf(size: CFunction, read: CFunction, program: number, memory: NativeMemory): Uint8Array {
  size(program, memory.address + 8)
  const length = memory.pointerAt(8)
  const target = new NativeMemory(Math.max(8, Math.ceil(length / 8) * 8))
  try {
    read(program, target.address)
    return target.bytes.slice(0, length)
  } finally {
    target.free()
  }
}

function textOf(size: CFunction, read: CFunction, program: number, memory: NativeMemory): string {
  return Buffer.from(bytesOf(size, read, program, memory))
    .toString('utf8')
    .replace(/\0$/, '')
    .trim()
}

function compilationError(name: string, why: string, log: string): Error {
  return stateError('ERR_COMPILATION', `${name} does not compile (${why}):\n${log}`)
}
