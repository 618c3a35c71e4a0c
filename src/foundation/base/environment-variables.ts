/**
 * The library's environment variables, in one table: those who read them, the doctor and docs/reference/environment.md have them from here
 * (scripts/environment-table.mjs writes the page).
 */
import { nearest } from './arguments.js'
import { invalidValue } from './errors.js'
import { process } from './node-modules.js'
import { onceInAllThreads } from './once-in-all-threads.js'

/** A limit that is larger than the number of devices of any machine; a mistyped number should not fill the memory. */
export const MOST_DEVICES = 64
/** A limit that is larger than the memory of any device, in bytes. */
export const MOST_MEMORY = 2 ** 46

interface Row<T> {
  /** The values that it may have, as an error message names them: words in quotes. */
  readonly values: string
  /** What applies if it is not set, or empty. */
  readonly default: T
  /** The same in docs/reference/environment.md, if it differs. */
  readonly defaultText?: string
  /** Returns the meaning of a text that is not empty; undefined for a wrong one. */
  readonly parse: (text: string) => T | undefined
  /** What it does, in the Markdown of docs/reference/environment.md. */
  readonly doc: string
}

export class EnvironmentVariable<T> {
  constructor(
    readonly name: string,
    readonly row: Row<T>,
  ) {}

  /** @throws ERR_INVALID_ARG_VALUE if it has another value than those of the table */
  read(): T {
    warnOfMisspelt()
    const text = process.env[this.name]
    if (text === undefined || text === '') return this.row.default
    const value = this.row.parse(text)
    if (value === undefined) throw invalidValue(`${this.name} must be ${this.row.values}, not '${text}'`)
    return value
  }
}

const oneOf =
  <W extends string>(...words: readonly W[]) =>
  (text: string): W | undefined =>
    words.find((word) => word === text)

const wholeNumber =
  (least: number, most: number) =>
  (text: string): number | undefined => {
    const value = Number(text)
    return /^\d+$/.test(text) && value >= least && value <= most ? value : undefined
  }

const milliseconds =
  (least: 'more than 0' | 'or 0') =>
  (text: string): number | undefined => {
    const value = Number(text)
    return Number.isFinite(value) && (value > 0 || (value === 0 && least === 'or 0')) ? value : undefined
  }

/** 0 or 1. */
const flag = (text: string): boolean | undefined => (text === '1' ? true : text === '0' ? false : undefined)

const text = (given: string): string => given
/** An empty text if it is switched off. */
const textUnless0 = (given: string): string => (given === '0' ? '' : given)

/** The working directory if it is switched on, and an empty text if it is switched off. */
const folderOrFlag = (given: string): string => (given === '1' ? '.' : textUnless0(given))

/** The names that a library's file has, in order of preference. */
export interface FileNames {
  readonly linux: readonly string[]
  /** A `*` stands for the number of a version. None where there is no such library for Windows. */
  readonly windows: readonly string[]
}

/** A library that is loaded when it is first used. */
export interface KnownLibrary {
  /** The library's name in error messages, such as 'cuBLAS'. */
  readonly title: string
  readonly names: FileNames
  /** What a program can do when the library is missing. */
  readonly wayOut: string
}

/** The variable that names the file of a library, or its folder. */
export class LibraryVariable extends EnvironmentVariable<string> {
  constructor(
    name: string,
    doc: string,
    readonly library: KnownLibrary,
  ) {
    const defaultText = '[see below](#where-cudas-libraries-are-looked-for)'
    super(name, { values: 'a file or a folder', default: '', defaultText, parse: text, doc })
  }
}

/** The file names of an NVIDIA library. The versions are those in the names of the files of CUDA 13 and 12. */
const fileNames = (name: string, versions: readonly number[], windows: (version: number) => string): FileNames => ({
  linux: [...versions.map((version) => `lib${name}.so.${version}`), `lib${name}.so`],
  windows: versions.map(windows),
})

/** A library of the CUDA toolkit that has an entry point and a guide of its name. `versions` are those of its file, of CUDA 13 and 12. */
function ofToolkit(title: string, versions: readonly number[]): LibraryVariable {
  const name = title.toLowerCase()
  return new LibraryVariable(`CUDA_STREAMS_${title.toUpperCase()}`, `[${title}](../guides/${name}.md)`, {
    title,
    names: fileNames(name, versions, (version) => `${name}64_${version}.dll`),
    wayOut: `Install it with the CUDA toolkit or by pip (nvidia-${name}), set CUDA_HOME`,
  })
}

/** The compute capabilities that the simulator can have: those of the GPUs that a driver for CUDA 13.0 knows. */
export const COMPUTE_CAPABILITIES = [
  ...['5.0', '5.2', '5.3', '6.0', '6.1', '6.2', '7.0', '7.2', '7.5', '8.0', '8.2', '8.6', '8.7', '8.8', '8.9', '9.0'],
  ...['10.0', '10.1', '10.3', '11.0', '12.0', '12.1'],
]

export const VARIABLES = {
  driver: new EnvironmentVariable<'cuda' | 'sim' | 'auto'>('CUDA_STREAMS_DRIVER', {
    values: "'cuda', 'sim' or 'auto'",
    default: 'auto',
    parse: oneOf('cuda', 'sim', 'auto'),
    doc: 'the NVIDIA driver or `ERR_NO_DRIVER`; the simulator; [either](#what-auto-takes), with a warning if it is the simulator',
  }),
  simDevices: new EnvironmentVariable('CUDA_STREAMS_SIM_DEVICES', {
    values: `a whole number from 1 to ${MOST_DEVICES}`,
    default: 1,
    parse: wholeNumber(1, MOST_DEVICES),
    doc: 'how many devices the default simulator has',
  }),
  simSeed: new EnvironmentVariable('CUDA_STREAMS_SIM_SEED', {
    values: `a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`,
    default: 0,
    parse: wholeNumber(0, Number.MAX_SAFE_INTEGER),
    doc: 'which [order](../guides/exploration.md#without-exploring) the default simulator takes',
  }),
  simMemory: new EnvironmentVariable('CUDA_STREAMS_SIM_MEMORY', {
    values: `a whole number from 1 to ${MOST_MEMORY}`,
    /** The reader computes it. */
    default: 0,
    defaultText: "[a part](memory.md#on-the-simulator) of this machine's",
    parse: wholeNumber(1, MOST_MEMORY),
    doc: 'bytes of memory of each device of the default simulator',
  }),
  simInstructions: new EnvironmentVariable('CUDA_STREAMS_SIM_INSTRUCTIONS', {
    values: `a whole number from 1 to ${Number.MAX_SAFE_INTEGER}`,
    /** The compiler of kernels decides by the number of threads. */
    default: 0,
    defaultText: '10¹⁰, and 10⁶ more for each thread',
    parse: wholeNumber(1, Number.MAX_SAFE_INTEGER),
    doc: 'instructions of all threads after which the simulator ends a launch with CUDA_ERROR_LAUNCH_TIMEOUT',
  }),
  simComputeCapability: new EnvironmentVariable('CUDA_STREAMS_SIM_COMPUTE_CAPABILITY', {
    values: 'a compute capability, such as 8.6 or 10.0',
    default: '9.0',
    parse: oneOf(...COMPUTE_CAPABILITIES),
    doc: '[which GPU](../guides/kernels.md#modules) the default simulator is',
  }),
  simInStep: new EnvironmentVariable<'volatile' | 'shared'>('CUDA_STREAMS_SIM_IN_STEP', {
    values: "'volatile' or 'shared'",
    default: 'volatile',
    parse: oneOf('volatile', 'shared'),
    doc: 'at which accesses [lanes of a warp go in step](../guides/kernels.md#lanes-in-step)',
  }),
  simSourceMaps: new EnvironmentVariable('CUDA_STREAMS_SIM_SOURCE_MAPS', {
    values: '0, 1 or a folder',
    default: '',
    defaultText: '0',
    parse: folderOrFlag,
    doc: '1: inspectors [step through kernels](../guides/kernels.md#stepping-through-a-kernel); or the folder with their sources',
  }),
  simCores: new EnvironmentVariable('CUDA_STREAMS_SIM_CORES', {
    values: 'a whole number from 1 to 64',
    /** The reader counts them. */
    default: 0,
    defaultText: "this machine's, at most 8",
    parse: wholeNumber(1, 64),
    doc: 'on how many cores the simulator runs a long launch',
  }),
  releaseThreshold: new EnvironmentVariable('CUDA_STREAMS_RELEASE_THRESHOLD', {
    values: 'a number of bytes, such as 1073741824',
    default: Number.POSITIVE_INFINITY,
    defaultText: 'everything',
    parse: wholeNumber(0, Number.MAX_SAFE_INTEGER),
    doc: "bytes that [pools](memory.md#pools) of device memory keep when the host waits; CUDA's own is 0",
  }),
  allocationSites: new EnvironmentVariable('CUDA_STREAMS_ALLOCATION_SITES', {
    values: '0 or 1',
    default: false,
    defaultText: '0',
    parse: flag,
    doc: '1: [the error](memory.md#out-of-memory) says where memory was allocated',
  }),
  deadlockTimeout: new EnvironmentVariable('CUDA_STREAMS_DEADLOCK_TIMEOUT', {
    values: 'a number of milliseconds',
    default: 10_000,
    parse: milliseconds('more than 0'),
    doc: 'when a [wait without progress](errors.md#waiting-and-never-forever) is `ERR_DEADLOCK`; how long [the end of a worker](memory.md#making-it) waits',
  }),
  warnAfter: new EnvironmentVariable('CUDA_STREAMS_WARN_AFTER', {
    values: 'a number of milliseconds',
    default: 5000,
    parse: milliseconds('or 0'),
    doc: 'when [a wait that cannot end by itself](errors.md#waits-that-cannot-end-by-themselves) gives a warning; 0: never',
  }),
  watchdog: new EnvironmentVariable('CUDA_STREAMS_WATCHDOG', {
    values: '0 or 1',
    default: true,
    defaultText: '1',
    parse: flag,
    doc: "0: no [watchdog](errors.md#the-watchdog) for other libraries' blocking calls",
  }),
  sync: new EnvironmentVariable<'warn' | 'throw' | '0'>('CUDA_STREAMS_SYNC', {
    values: "'warn', 'throw' or 0",
    default: '0',
    parse: oneOf('warn', 'throw', '0'),
    doc: 'what a call that [blocks the event loop](#calls-that-block-the-event-loop) does',
  }),
  sanitizer: new EnvironmentVariable('CUDA_STREAMS_SANITIZER', {
    values: "1, 'print', 'throw', 'collect' or 0, and other words after commas",
    default: '',
    defaultText: '0',
    parse: textUnless0,
    doc: 'how [the sanitizer](../guides/sanitizer.md) reports; 1, or `true`, is `print`; [other words](#words-of-cuda_streams_sanitizer)',
  }),
  trace: new EnvironmentVariable('CUDA_STREAMS_TRACE', {
    values: 'a folder',
    default: '',
    defaultText: '',
    parse: text,
    doc: 'where a process leaves [what all of its libraries do](../guides/whole-process.md); set by `npx cuda-streams sanitize`',
  }),
  traceHost: new EnvironmentVariable('CUDA_STREAMS_TRACE_HOST', {
    values: "'exact', 'sampled' or 'off'",
    default: '',
    defaultText: '',
    parse: text,
    doc: 'how closely [what the host does](../guides/whole-process.md#the-host) is watched there (`--host`)',
  }),
  traceTimes: new EnvironmentVariable('CUDA_STREAMS_TRACE_TIMES', {
    values: '0 or 1',
    default: false,
    defaultText: '0',
    parse: flag,
    doc: '1: with [times](../guides/whole-process.md#times) there (`npx cuda-streams record`)',
  }),
  timeline: new EnvironmentVariable('CUDA_STREAMS_TIMELINE', {
    values: "a file ending in '.html', '.json', '.json.gz', '.svg' or '.txt', or 0",
    default: '',
    defaultText: '0',
    parse: textUnless0,
    doc: 'where [a timeline](../guides/timeline.md#recording) of the process is written; `%p` is its number',
  }),
  timelineSites: new EnvironmentVariable('CUDA_STREAMS_TIMELINE_SITES', {
    values: '0 or 1',
    default: false,
    defaultText: '0',
    parse: flag,
    doc: '1: the option `callSites` of that timeline',
  }),
  record: new EnvironmentVariable('CUDA_STREAMS_RECORD', {
    values: 'a file, or 0',
    default: '',
    defaultText: '0',
    parse: textUnless0,
    doc: 'where [a recording](../guides/recording.md) is written; `,stacks=all` or `,stacks=none` may follow',
  }),
  nvrtc: new LibraryVariable('CUDA_STREAMS_NVRTC', '[NVRTC](../guides/kernels.md)', {
    title: "NVRTC, CUDA's compiler,",
    names: fileNames('nvrtc', [13, 12], (version) => `nvrtc64_${version}0_0.dll`),
    wayOut:
      'Install it by pip (nvidia-cuda-nvrtc) or with the CUDA toolkit, set CUDA_HOME, or load code that is compiled already',
  }),
  cublas: ofToolkit('cuBLAS', [13, 12]),
  cufft: ofToolkit('cuFFT', [12, 11]),
  curand: ofToolkit('cuRAND', [10]),
  nvjpeg: ofToolkit('nvJPEG', [13, 12]),
  nccl: new LibraryVariable('CUDA_STREAMS_NCCL', '[NCCL](../guides/nccl.md)', {
    title: 'NCCL',
    names: { linux: ['libnccl.so.2', 'libnccl.so'], windows: [] },
    wayOut: 'Install it as a package of the system or by pip (nvidia-nccl-cu13)',
  }),
  onnxruntime: new LibraryVariable('CUDA_STREAMS_ONNXRUNTIME', '[ONNX Runtime](../guides/onnx.md)', {
    title: 'ONNX Runtime',
    names: { linux: ['libonnxruntime.so.1', 'libonnxruntime.so'], windows: ['onnxruntime.dll'] },
    wayOut: 'Install it by pip (onnxruntime-gpu; for the simulator onnxruntime will do) or by npm (onnxruntime-node)',
  }),
  python: new EnvironmentVariable('CUDA_STREAMS_PYTHON', {
    values: 'a Python executable or a libpython',
    default: '',
    defaultText: "the shell's",
    parse: text,
    doc: 'what [cuda-streams/python](../guides/python.md#which-python) starts, and [Triton](../guides/triton.md) runs in',
  }),
  nvml: new LibraryVariable('CUDA_STREAMS_NVML', '[NVML](../guides/performance.md#figures-of-the-device)', {
    title: "NVML, NVIDIA's management library,",
    names: { linux: ['libnvidia-ml.so.1', 'libnvidia-ml.so'], windows: ['nvml.dll'] },
    wayOut: 'It comes with the NVIDIA driver: let the container have it (NVIDIA_DRIVER_CAPABILITIES=compute,utility)',
  }),
  cupti: new LibraryVariable('CUDA_STREAMS_CUPTI', '[CUPTI](../guides/timeline.md#work-of-other-libraries)', {
    title: "CUPTI, which tells of other libraries' work,",
    names: { ...fileNames('cupti', [13, 12], String), windows: ['cupti64_*.dll'] },
    wayOut: 'Install it with the CUDA toolkit or by pip (nvidia-cuda-cupti), or record without `everything`',
  }),
} as const

/** Does a value of CUDA_STREAMS_SANITIZER ask for the calls of all libraries of the process? */
export const isWholeProcess = (value: string): boolean => value.split(',').includes('process')

/** The words that CUDA_STREAMS_SANITIZER takes besides a mode, with commas between them. */
export const SANITIZER_WORDS = {
  fix: { form: 'fix', option: 'fix: true', doc: 'queues missing waits' },
  causal: {
    form: 'causal',
    option: 'causal: true',
    doc: "JavaScript's waits order [only what comes of them](../guides/sanitizer.md#waits-that-order-by-chance)",
  },
  'at-once': {
    form: 'at-once',
    option: 'atOnce: true',
    doc: 'findings are printed when found, not at the end',
  },
  'exit-code': {
    form: 'exit-code=…',
    option: 'exitCode: 66',
    doc: 'exit code if there is an error that was not fixed',
  },
  stacks: {
    form: 'stacks=…',
    option: "stacks: 'all'",
    doc: 'of which calls [the stack](../guides/sanitizer.md#what-it-costs) is taken: `sampled`, `all` or `none`',
  },
  suppressions: {
    form: 'suppressions=FILE',
    option: 'suppress: […]',
    doc: 'what is [not reported](../guides/sanitizer.md#starting-it), but listed at the end',
  },
  process: {
    form: 'process',
    option: '–',
    doc: 'on a GPU, the work of [all libraries of the process](../guides/whole-process.md)',
  },
  possible: {
    form: 'possible',
    option: '–',
    doc: 'with `process`, also [possible races](../guides/whole-process.md#certain-and-possible)',
  },
} as const

const PREFIX = /^CUDA_STREAMS?_?/
const NAMES: readonly string[] = Object.values(VARIABLES).map(({ name }) => name)
const ENDINGS = NAMES.map((name) => name.replace(PREFIX, ''))
/** The prefix of the library's names, without those that its tests have besides. */
const OURS = /^CUDA_STREAM(?!S_TEST_)/

/** A variable that is set and has a name like those of the library, but is none. */
export interface MisspeltVariable {
  readonly name: string
  /** Says which one was probably meant. */
  readonly message: string
}

export function misspeltVariables(): readonly MisspeltVariable[] {
  const set = Object.keys(process.env).filter((name) => OURS.test(name) && !NAMES.includes(name))
  return set.map((name) => {
    const ending = name.replace(PREFIX, '')
    // Only the prefix may be misspelt.
    const meant = ENDINGS.includes(ending) ? ending : nearest(ending, ENDINGS)
    const wayOut =
      meant === undefined
        ? 'docs/reference/environment.md has those that there are'
        : `did you mean CUDA_STREAMS_${meant}?`
    return { name, message: `There is no environment variable ${name}: ${wayOut}` }
  })
}

/** Threads have modules of their own: the first that has to warn does so for all. */
const mustWarn = onceInAllThreads('cuda-streams: warned of misspelt environment variables')
let isChecked = false

function warnOfMisspelt(): void {
  if (isChecked) return
  isChecked = true
  let misspelt: readonly MisspeltVariable[]
  try {
    misspelt = misspeltVariables()
  } catch {
    // Deno may permit single variables, and not their list.
    return
  }
  if (misspelt.length === 0 || !mustWarn()) return
  for (const { message } of misspelt) {
    const detail = 'It has no effect.'
    process.emitWarning(message, { type: 'CudaStreamsWarning', code: 'CUDA_STREAMS_VARIABLE', detail })
  }
}
