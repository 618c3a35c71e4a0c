/** NVRTC, CUDA's compiler as a library. It is loaded at the first compilation, and each compilation runs on a thread of its own. */
import { VARIABLES } from '../base/environment-variables.js'
import { stateError } from '../base/errors.js'
import { nextTurn } from '../base/event-loop.js'
import { pollUntil } from '../base/polling.js'
import { type CFunction, own } from './c-functions.js'
import { headerOptions, installedFolders } from './cuda-headers.js'
import { NativeMemory } from './native-memory.js'
import { NativeThread } from './native-thread.js'
import { loadLibrary } from './shared-library.js'

/** How long a blocked thread sleeps between two checks whether a compilation has completed. */
const NAP_MICROSECONDS = 200

type Nvrtc = ReturnType<typeof load>

let loaded: Nvrtc | undefined
/** The options for CUDA's headers, once a source has included something. */
let headers: readonly string[] | undefined

const INCLUDES = /^\s*#\s*include\b/m
/** NVRTC declares this function only for code that is to be linked, where nvcc declares it always. */
const SET_CONDITIONAL = 'cudaGraphSetConditional'
const DECLARATION_FILE = 'cuda_streams_conditional.h'
const DECLARATION = `extern "C" __device__ void ${SET_CONDITIONAL}(unsigned long long handle, unsigned int value);\n`

/** CUDA C++, the name that it has in messages, and NVRTC's options. */
export interface CompiledSource {
  readonly text: string
  readonly file: string
  readonly options: readonly string[]
  /** Headers by the name that an #include has for them. They come before files of that name. Default: none. */
  readonly headers?: ReadonlyMap<string, string>
}

/**
 * The folders with CUDA's own headers, which a source that includes something gets.
 * @throws ERR_UNSUPPORTED when NVRTC is not found
 */
export function cudaHeaderFolders(): readonly string[] {
  return headerOptionsOf(nvrtc()).map((option) => option.replace(/^--include-path=/, ''))
}

/**
 * The folders that may have headers of CUDA's libraries, such as cuRAND's: those of toolkits and wheels that are here.
 * @throws ERR_UNSUPPORTED when NVRTC is not found
 */
export const libraryHeaderFolders = (): readonly string[] => installedFolders(nvrtc().library)

/** The version of NVRTC, such as '13.5'. Throws ERR_UNSUPPORTED when it is not found. */
export const nvrtcVersion = (): string => nvrtc().version()

function nvrtc(): Nvrtc {
  loaded ??= load()
  return loaded
}

function headerOptionsOf({ library, version }: Nvrtc): readonly string[] {
  headers ??= headerOptions(library, version())
  return headers
}

/**
 * Compiles CUDA C++: to a cubin, which needs an architecture such as 'sm_90' among the options, or to PTX, which ends in a zero.
 * @throws ERR_UNSUPPORTED when NVRTC is not found; ERR_COMPILATION, with the compiler's log, for a source with mistakes
 */
export async function compileCuda(source: CompiledSource, output: 'cubin' | 'ptx'): Promise<Uint8Array> {
  const program = new Compilation(source, output)
  try {
    const thread = program.compile()
    // The code is loaded in a later turn, however fast the compiler is, so that everything that this turn settles is settled by then.
    await nextTurn()
    return program.result(await pollUntil(() => thread.result))
  } finally {
    program[Symbol.dispose]()
  }
}

/** Does the same as `compileCuda`, but blocks until the compilation has completed. */
export function compileCudaNow(source: CompiledSource, output: 'cubin' | 'ptx'): Uint8Array {
  const program = new Compilation(source, output)
  try {
    const thread = program.compile()
    while (thread.result === undefined) own().nap(NAP_MICROSECONDS)
    return program.result(thread.result)
  } finally {
    program[Symbol.dispose]()
  }
}

class Compilation implements Disposable {
  readonly #nvrtc: Nvrtc
  /** The program's handle, then a length. */
  readonly #memory = new NativeMemory(16)
  readonly #options: readonly NativeMemory[]
  /** Pointers to the options. */
  readonly #list: NativeMemory

  readonly #file: string

  constructor(
    { text, file, options, headers: given = new Map() }: CompiledSource,
    private readonly output: 'cubin' | 'ptx',
  ) {
    this.#file = file
    this.#nvrtc = nvrtc()
    const declares = [text, ...given.values()].some((each) => each.includes(SET_CONDITIONAL))
    const headers = declares ? new Map([...given, [DECLARATION_FILE, DECLARATION]]) : given
    const own = declares ? [`--pre-include=${DECLARATION_FILE}`] : []
    // Those of the program are searched first.
    const more = INCLUDES.test(text) ? headerOptionsOf(this.#nvrtc) : []
    const all = [...options, ...more, ...own]
    this.#options = all.map((option) => NativeMemory.ofText(option))
    this.#list = new NativeMemory(8 * Math.max(1, all.length))
    this.#list.uint64.set(this.#options.map(({ address }) => BigInt(address)))
    const texts = [text, file, ...headers.values(), ...headers.keys()].map((each) => NativeMemory.ofText(each))
    const [sourceAt = 0, nameAt = 0, ...pointers] = texts.map(({ address }) => address)
    // Pointers to the headers' texts, then to their names.
    const list = new NativeMemory(8 * Math.max(1, pointers.length))
    list.uint64.set(pointers.map(BigInt))
    const names = list.address + 8 * headers.size
    const result = this.#nvrtc.nvrtcCreateProgram(
      this.#memory.address,
      sourceAt,
      nameAt,
      headers.size,
      headers.size === 0 ? 0 : list.address,
      headers.size === 0 ? 0 : names,
    )
    for (const each of [...texts, list]) each.free()
    if (result === 0) return
    this.#free()
    throw stateError('ERR_UNSUPPORTED', `nvrtcCreateProgram failed: ${this.#nvrtc.nvrtcGetErrorString(result)}`)
  }

  /** Starts the compilation. */
  compile(): NativeThread {
    return new NativeThread(this.#nvrtc.compileProgram, this.#handle, this.#options.length, this.#list.address)
  }

  /** Returns the code, or throws the compiler's log. */
  result(result: number): Uint8Array {
    const { nvrtcGetCUBIN, nvrtcGetCUBINSize, nvrtcGetPTX, nvrtcGetPTXSize } = this.#nvrtc
    const { nvrtcGetProgramLog, nvrtcGetProgramLogSize } = this.#nvrtc
    own().restoreSignals()
    if (result === 0 && this.output === 'ptx') return this.#bytes(nvrtcGetPTXSize, nvrtcGetPTX)
    if (result === 0) return this.#bytes(nvrtcGetCUBINSize, nvrtcGetCUBIN)
    const log = this.#bytes(nvrtcGetProgramLogSize, nvrtcGetProgramLog)
    const text = Buffer.from(log).toString('utf8').replace(/\0$/, '').trim()
    const error = stateError(
      'ERR_COMPILATION',
      `${this.#file} does not compile (${this.#nvrtc.nvrtcGetErrorString(result)}):\n${text}`,
    )
    logs.set(error, text)
    throw error
  }

  [Symbol.dispose](): void {
    this.#nvrtc.nvrtcDestroyProgram(this.#memory.address)
    this.#free()
  }

  #free(): void {
    for (const memory of [this.#memory, this.#list, ...this.#options]) memory.free()
  }

  get #handle(): number {
    return this.#memory.pointerAt(0)
  }

  #bytes(size: CFunction, read: CFunction): Uint8Array {
    size(this.#handle, this.#memory.address + 8)
    const length = this.#memory.pointerAt(8)
    const target = new NativeMemory(Math.max(8, Math.ceil(length / 8) * 8))
    try {
      read(this.#handle, target.address)
      return target.bytes.slice(0, length)
    } finally {
      target.free()
    }
  }
}

const logs = new WeakMap<object, string>()

/** The compiler's own text behind an error that compileCuda threw; undefined for other errors. */
export const compilerLog = (error: unknown): string | undefined =>
  typeof error === 'object' && error !== null ? logs.get(error) : undefined

const COMPILE = 'nvrtcCompileProgram'

function load() {
  const library = loadLibrary(VARIABLES.nvrtc)
  const functions = library.functions({
    nvrtcCreateProgram:
      'nvrtcProgram *prog, const char *src, const char *name, int numHeaders, const char *const *headers, const char *const *includeNames',
    nvrtcDestroyProgram: 'nvrtcProgram *prog',
    nvrtcGetCUBIN: 'nvrtcProgram prog, char *cubin',
    nvrtcGetCUBINSize: 'nvrtcProgram prog, size_t *cubinSizeRet',
    nvrtcGetPTX: 'nvrtcProgram prog, char *ptx',
    nvrtcGetPTXSize: 'nvrtcProgram prog, size_t *ptxSizeRet',
    nvrtcGetProgramLog: 'nvrtcProgram prog, char *log',
    nvrtcGetProgramLogSize: 'nvrtcProgram prog, size_t *logSizeRet',
    nvrtcVersion: 'int *major, int *minor',
  })
  const compileProgram = library.find(COMPILE)
  if (compileProgram === undefined) throw new Error(`There is no function ${COMPILE}`)
  own().noteSignals()
  const version = (): string => {
    const memory = new NativeMemory(8)
    functions.nvrtcVersion(memory.address, memory.address + 4)
    const [major, minor] = memory.int32
    memory.free()
    return `${major}.${minor}`
  }
  const texts = library.texts({ nvrtcGetErrorString: 'nvrtcResult result' })
  return { ...functions, ...texts, compileProgram, library, version }
}
