/**
 * NVRTC, CUDA's compiler as a library: found and loaded at the first compilation, which runs on a thread of its own.
 */
import { stateError } from '../../../base/errors.js'
import { loadLibrary, type WantedLibrary } from './find-library.js'
import { NativeMemory } from './native.js'
import { oneShotSignals } from './one-shot-signals.js'

const P = 'uintptr_t'

export const NVRTC: WantedLibrary = {
  title: "NVRTC, CUDA's compiler,",
  names: {
    linux: ['libnvrtc.so.13', 'libnvrtc.so.12', 'libnvrtc.so'],
    win32: ['nvrtc64_130_0.dll', 'nvrtc64_120_0.dll'],
  },
  variable: 'CUDA_STREAMS_NVRTC',
  wayOut: 'Install it, set CUDA_HOME, or load code that is compiled already',
}

type CFunction = (...args: (number | bigint | string)[]) => number
interface CompileFunction {
  (program: number, count: number, options: readonly string[]): number
  async(...args: unknown[]): void
}

type Nvrtc = ReturnType<typeof load>

let loaded: Nvrtc | undefined

/**
 * Compiles CUDA C++ to a cubin, on a thread of its own.
 * @throws ERR_UNSUPPORTED where NVRTC is not found; ERR_COMPILATION, with the compiler's log, for a source with mistakes
 */
export async function compileCuda(source: string, name: string, options: readonly string[]): Promise<Uint8Array> {
  using program = new Compilation(source, name)
  const result = await new Promise<number>((resolve, reject) => {
    program.nvrtc.compileProgram.async(program.handle, options.length, options, (error: unknown, status: number) =>
      error ? reject(error) : resolve(status),
    )
  })
  program.nvrtc.mendSignals()
  return program.result(result)
}

/** As compileCuda, and blocks until it is done. */
export function compileCudaNow(source: string, name: string, options: readonly string[]): Uint8Array {
  using program = new Compilation(source, name)
  const result = program.nvrtc.compileProgram(program.handle, options.length, options)
  program.nvrtc.mendSignals()
  return program.result(result)
}

class Compilation implements Disposable {
  readonly nvrtc: Nvrtc
  readonly #memory = new NativeMemory(64)

  constructor(
    source: string,
    private readonly name: string,
  ) {
    loaded ??= load()
    this.nvrtc = loaded
    const result = this.nvrtc.createProgram(this.#memory.address, source, name, 0, 0, 0)
    if (result !== 0)
      throw stateError('ERR_UNSUPPORTED', `nvrtcCreateProgram failed: ${this.nvrtc.errorString(result)}`)
  }

  get handle(): number {
    return this.#memory.pointerAt(0)
  }

  /** The code, or the compiler's log as an error. */
  result(result: number): Uint8Array {
    const { nvrtc } = this
    if (result === 0) return this.#bytes(nvrtc.cubinSize, nvrtc.cubin)
    const log = Buffer.from(this.#bytes(nvrtc.logSize, nvrtc.log)).toString('utf8').replace(/\0$/, '').trim()
    throw stateError('ERR_COMPILATION', `${this.name} does not compile (${nvrtc.errorString(result)}):\n${log}`)
  }

  [Symbol.dispose](): void {
    this.nvrtc.destroyProgram(this.#memory.address)
    this.#memory.free()
  }

  #bytes(size: CFunction, read: CFunction): Uint8Array {
    size(this.handle, this.#memory.address + 8)
    const length = this.#memory.pointerAt(8)
    const target = new NativeMemory(Math.max(8, Math.ceil(length / 8) * 8))
    try {
      read(this.handle, target.address)
      return target.bytes.slice(0, length)
    } finally {
      target.free()
    }
  }
}

function load() {
  const library = loadLibrary(NVRTC)
  const func = (name: string, args: string[], result = 'int'): CFunction =>
    library.func(name, result, args) as CFunction
  const compile = library.func('nvrtcCompileProgram', 'int', [P, 'int', 'const char **'])
  return {
    /** To be called after a compilation. */
    mendSignals: oneShotSignals(),
    createProgram: func('nvrtcCreateProgram', [P, 'str', 'str', 'int', P, P]),
    destroyProgram: func('nvrtcDestroyProgram', [P]),
    compileProgram: compile as CompileFunction,
    logSize: func('nvrtcGetProgramLogSize', [P, P]),
    log: func('nvrtcGetProgramLog', [P, P]),
    cubinSize: func('nvrtcGetCUBINSize', [P, P]),
    cubin: func('nvrtcGetCUBIN', [P, P]),
    errorString: library.func('nvrtcGetErrorString', 'str', ['int']) as (result: number) => string,
  }
}
