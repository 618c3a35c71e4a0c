/**
 * libcuda, the library of the NVIDIA driver: finding out whether this machine has one, loading it, declaring its functions, starting it, and
 * asking it why it refused a call.
 */
import { existsSync, mkdtempSync, readFileSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isWholeProcess, VARIABLES } from '../../foundation/base/environment-variables.js'
import { explained, messageOf, stateError } from '../../foundation/base/errors.js'
import { warnOnce } from '../../foundation/base/warnings.js'
import { askDriverWhy, CUresult, cudaError, isContextLost, noteLoss } from '../../foundation/driver/cuda-results.js'
import { type CFunction, own } from '../../foundation/native/c-functions.js'
import { injectionFile, isMusl, layer } from '../../foundation/native/layer.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import { foldersOnPath } from '../../foundation/native/pythons.js'
import { fileOf, SharedLibrary } from '../../foundation/native/shared-library.js'
import { ThreadMemory } from '../../foundation/native/thread-memory.js'
import { type OwnedKinds, ownedHandles } from './owned-handles.js'
import {
  type DriverFunction,
  NEWER_FUNCTIONS,
  type OptionalFunction,
  REPLACED_FUNCTIONS,
  SIGNATURES,
} from './signatures.js'

/** The functions of the driver, each of which returns a CUresult. */
export type Library = { readonly [name in Exclude<DriverFunction, OptionalFunction>]: CFunction } & {
  readonly [name in OptionalFunction]: CFunction | undefined
}

/** The same functions, each of which throws a CudaError unless its result is success. */
export type CheckedLibrary = { readonly [name in DriverFunction]: (...args: number[]) => void }

/** Throws the result of a driver function, unless it is success. */
export function check(call: string, result: number): void {
  if (result !== 0) throw cudaError(call, result)
}

export function checked(library: Library): CheckedLibrary {
  const functions = Object.keys(SIGNATURES).map((name) => {
    const call = name.replace(/_v\d+$/, '')
    const run = (...args: number[]): void => check(call, library[name as DriverFunction]?.(...args) ?? NOT_SUPPORTED)
    return [name, run] as const
  })
  return Object.fromEntries(functions) as CheckedLibrary
}

/** Ignores a lost context: what is destroyed in it is gone either way, and the fault was reported elsewhere, or will be. */
export function checkDestroyed(call: string, result: number): void {
  if (isContextLost(result)) noteLoss(result)
  else check(call, result)
}

const failedCleanups = new Set<string>()

/**
 * Checks the result of a call that destroys or frees what the library has kept, when no call of the program is near that could
 * throw. Warns once for each call and result. A lost context is reported by the program's own calls.
 */
export function checkCleanup(call: string, handle: number, result: number): void {
  if (result === 0) return
  noteLoss(result)
  const key = `${call} ${result}`
  if (isContextLost(result) || result === CUresult.DEINITIALIZED || failedCleanups.has(key)) return
  failedCleanups.add(key)
  warnOnce('CUDA_STREAMS_CLEANUP', notCleaned(handle, cudaError(call, result).message))
}

const notCleaned = (handle: number, why: string): string =>
  `The library could not give back 0x${handle.toString(16)}, which it no longer needs and which stays until the process ends: ${why}. Code outside of the library may have destroyed it; if none has, please report this. The next failure of the same kind gives no warning`

const NAMES: Readonly<Partial<Record<NodeJS.Platform, string>>> = { linux: 'libcuda.so.1', win32: 'nvcuda.dll' }
/** Folders that the system's loader may not know. */
const FOLDERS = [
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu',
  '/usr/lib64',
  '/usr/lib/wsl/lib',
  '/usr/local/nvidia/lib64',
  '/run/opengl-driver/lib',
]
/** Files of the driver's half in the kernel. A container without a GPU sees the first, of its host. The last is a Jetson's. */
const KERNEL_FILES = ['/proc/driver/nvidia/version', '/dev/nvidiactl', '/dev/nvmap']

/** The oldest CUDA that the library works with, and the first driver for it. */
export const OLDEST_CUDA = 12050
const OLDEST = `CUDA ${versionText(OLDEST_CUDA)} or later is needed, so update the driver to 555 or later`
const NOT_INITIALIZED = 3
const NO_DEVICE = 100
const NOT_SUPPORTED = 801
/** The most hardware queues that the driver gives. Streams that share one hold each other up. */
const MOST_CONNECTIONS = 32

/** What to do about the results of cuInit, apart from NO_DEVICE. */
const WAYS_OUT: Readonly<Record<number, string>> = {
  34: "It is the CUDA toolkit's stub, which is for linking: take its folder off LD_LIBRARY_PATH",
  101: 'A device cannot be used: see nvidia-smi, and CUDA_VISIBLE_DEVICES if it is set',
  304: 'The system refused to open the device: look at the permissions of /dev/nvidia*',
  802: 'If the GPUs are linked by NVSwitch, the fabric manager must run: see systemctl status nvidia-fabricmanager',
  803: 'The driver in the kernel is of another version: restart the machine after an update, or the container',
  804: 'The package cuda-compat does not work with this GPU: take its folder off LD_LIBRARY_PATH, or update the driver',
  805: 'The MPS daemon does not answer: start it, or unset CUDA_MPS_PIPE_DIRECTORY',
  999: 'The kernel module nvidia_uvm may be missing (sudo nvidia-modprobe -u), or the driver was updated: restart the machine',
}

export interface StartedLibcuda {
  readonly library: Library
  readonly kinds: OwnedKinds
  /** The number of hardware queues that it was started with. */
  readonly connections: number
  /** The address of a function that other threads call. */
  addressOf(name: 'cuCtxSetCurrent' | 'cuEventQuery' | 'cuThreadExchangeStreamCaptureMode'): number
}

/**
 * Starts the driver. Returns undefined when this machine has no NVIDIA driver.
 * @throws ERR_NO_DRIVER when it has one that does not work
 */
export function startLibcuda(): StartedLibcuda | undefined {
  const loaded = loadLibcuda()
  if (loaded === undefined) return undefined
  const version = cudaVersion(loaded)
  if (version !== undefined && version < OLDEST_CUDA) throw unusable(loaded, `is too old: ${OLDEST}`)
  const { library, kinds } = declare(loaded)
  const connections = askForConnections(library)
  traceIfAsked()
  const result = library.cuInit(0)
  if (result !== 0) {
    const wayOut = result === NO_DEVICE ? wayToADevice() : (WAYS_OUT[result] ?? 'nvidia-smi may print more')
    const cause = explained(cudaError('cuInit', result), wayOut)
    throw unusable(loaded, `does not start: ${cause.message}`, cause)
  }
  const { cuLogsCurrent, cuLogsDumpToMemory } = library
  if (cuLogsCurrent !== undefined && cuLogsDumpToMemory !== undefined) {
    const log = new DriverLog(cuLogsCurrent, cuLogsDumpToMemory)
    askDriverWhy((call, refused) => log.why(call, refused))
  }
  return { library, kinds, connections, addressOf: (name) => loaded.addressOf(name) }
}

function unusable(libcuda: SharedLibrary, problem: string, cause?: unknown): Error {
  const version = cudaVersion(libcuda)
  const file = fileOf(libcuda, 'cuInit') ?? 'libcuda'
  const name = version === undefined ? file : `${file}, for CUDA ${versionText(version)},`
  return noDriver(`The NVIDIA driver of this machine cannot be used: ${name} ${problem}`, cause)
}

/** The version of CUDA that a driver is for, such as 13000; undefined when it does not say, as a stub does not. */
export function cudaVersion(libcuda: SharedLibrary): number | undefined {
  const memory = new NativeMemory(8)
  try {
    const { cuDriverGetVersion } = libcuda.functions({ cuDriverGetVersion: SIGNATURES.cuDriverGetVersion })
    return cuDriverGetVersion(memory.address) === 0 ? memory.int32[0] : undefined
  } catch {
    return undefined
  } finally {
    memory.free()
  }
}

/** The text for a version: '13.0' for 13000. */
export function versionText(cuda: number): string {
  return `${Math.floor(cuda / 1000)}.${(cuda % 1000) / 10}`
}

function wayToADevice(): string {
  const { CUDA_VISIBLE_DEVICES: visible } = process.env
  if (visible !== undefined) return `CUDA_VISIBLE_DEVICES is '${visible}', which may hide all devices: unset it`
  if (process.platform === 'win32' || existsSync('/dev/nvidiactl'))
    return 'nvidia-smi -L lists the devices; a device in MIG mode needs an instance'
  return 'Without /dev/nvidia* there is no device: start a container with --gpus all, in Kubernetes with a limit for nvidia.com/gpu; outside of one, load the kernel module (sudo modprobe nvidia)'
}

function declare(libcuda: SharedLibrary): { readonly library: Library; readonly kinds: OwnedKinds } {
  const present = Object.entries(SIGNATURES).filter(([name]) => {
    if (libcuda.find(name) !== undefined) return true
    const replacement: string | undefined = REPLACED_FUNCTIONS[name as keyof typeof REPLACED_FUNCTIONS]
    if (name in NEWER_FUNCTIONS || (replacement !== undefined && libcuda.find(replacement) !== undefined)) return false
    throw unusable(libcuda, `lacks ${name}: ${OLDEST}`)
  })
  const { kinds, owning } = ownedHandles(libcuda)
  return { library: libcuda.functions(Object.fromEntries(present), owning) as Library, kinds }
}

/** Sets CUDA_DEVICE_MAX_CONNECTIONS, unless the user set it or CUDA was started before. Returns the number of hardware queues. */
function askForConnections(library: Library): number {
  const memory = new NativeMemory(8)
  const started = library.cuDeviceGetCount(memory.address) !== NOT_INITIALIZED
  memory.free()
  const set = Number(process.env['CUDA_DEVICE_MAX_CONNECTIONS'])
  if (Number.isInteger(set) && set > 0) return Math.min(set, MOST_CONNECTIONS)
  const byDefault = 8
  if (started) return byDefault
  setVariable('CUDA_DEVICE_MAX_CONNECTIONS', String(MOST_CONNECTIONS))
  return MOST_CONNECTIONS
}

/** CUDA reads the variables that name the library which traces the process when it is initialised. */
function traceIfAsked(): void {
  if (!isWholeProcess(VARIABLES.sanitizer.read()) || VARIABLES.trace.read() !== '') return
  const { trace, traceHost } = VARIABLES
  const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-trace-'))
  setVariable('CUDA_INJECTION64_PATH', injectionFile())
  setVariable(trace.name, folder)
  // Without LD_PRELOAD no page loses a permission, and samples of what is copied are compared.
  setVariable(traceHost.name, 'sampled')
  // A worker has variables of its own.
  process.env[trace.name] = folder
}

/** Sets a variable of the process that C libraries read, from any thread. */
function setVariable(...nameAndValue: readonly [string, string]): void {
  const texts = nameAndValue.map((text) => NativeMemory.ofText(text))
  const [name = 0, value = 0] = texts.map(({ address }) => address)
  own().setVariable(name, value)
  for (const text of texts) text.free()
}

/**
 * Loads libcuda; undefined when this machine has no NVIDIA driver.
 * @throws ERR_NO_DRIVER when it has one that cannot be loaded
 */
export function loadLibcuda(): SharedLibrary | undefined {
  const name = NAMES[process.platform]
  if (name === undefined) return undefined
  try {
    return loadFirst(name)
  } catch (error) {
    const traces = driverTraces()
    if (traces.length === 0) return undefined
    throw noDriver(
      `The NVIDIA driver of this machine (${traces.join(', ')}) cannot be used: ${messageOf(error)}`,
      error,
    )
  }
}

function loadFirst(name: string): SharedLibrary {
  layer()
  const reasons: string[] = []
  for (const path of pathsOf(name)) {
    try {
      return SharedLibrary.open(path)
    } catch (error) {
      if (path !== name) reasons.push(messageOf(error))
    }
  }
  if (reasons.length === 0)
    throw new Error(
      `${name} is not here. Install the driver's libraries for computing; a container is given them by --gpus all, with 'compute' among NVIDIA_DRIVER_CAPABILITIES`,
    )
  if (isMusl()) reasons.push("this is musl (Alpine), and NVIDIA's libraries need glibc: take another image")
  throw new Error(reasons.join('; '))
}

/** The name alone comes first: it finds the copy that other libraries of this process use. */
function* pathsOf(name: string): Iterable<string> {
  yield name
  yield* libcudaFiles()
}

/** The files of libcuda, including those that the loader does not find or cannot load. */
function libcudaFiles(): readonly string[] {
  const name = NAMES[process.platform]
  if (name === undefined) return []
  if (process.platform === 'win32') {
    const { SystemRoot } = process.env
    const system = SystemRoot ? [join(SystemRoot, 'System32')] : []
    return [...system, ...foldersOnPath()].map((folder) => join(folder, name)).filter(isThere)
  }
  const named = (process.env['LD_LIBRARY_PATH'] ?? '').split(':').filter((folder) => folder !== '')
  const folders = [...named, ...FOLDERS]
  const cached = contents('/etc/ld.so.cache').match(/\/[^\0]*\/libcuda\.so\.1(?=\0)/g) ?? []
  return [...new Set([...folders.map((folder) => join(folder, name)), ...cached])].filter(isThere)
}

/**
 * The files that show that this machine has an NVIDIA driver; none when it has none.
 * @throws ERR_NO_DRIVER when the process is not permitted to look for them
 */
export function driverTraces(): readonly string[] {
  return [...libcudaFiles(), ...(process.platform === 'linux' ? KERNEL_FILES.filter(isThere) : [])]
}

/** The message for a machine that has no driver. */
export function absence(): string {
  const name = NAMES[process.platform]
  if (name === undefined) return `NVIDIA has no driver for ${process.platform}`
  const where = process.platform === 'linux' ? `, nor in ${FOLDERS.join(', ')}; none of ${KERNEL_FILES.join(', ')}` : ''
  return `This machine has no NVIDIA driver: no ${name} where the loader searches${where}`
}

/** The version of the driver's half in the kernel, such as '580.159.04', if it says so. */
export const kernelDriverVersion = (): string | undefined =>
  /\d+\.\d+(\.\d+)?(?= )/.exec(contents('/proc/driver/nvidia/version'))?.[0]

export const noDriver = (problem: string, cause?: unknown): Error =>
  stateError('ERR_NO_DRIVER', `${problem}. To have the simulated GPU instead, set CUDA_STREAMS_DRIVER=sim`, cause)

/** The contents of a file; empty when there is no such file. */
function contents(path: string): string {
  return isThere(path) ? readFileSync(path, 'latin1') : ''
}

function isThere(path: string): boolean {
  try {
    return statSync(path) !== undefined
  } catch (error) {
    // An error of the system says that there is no such file. An error of Node's or Deno's permissions names no system call. It need be
    // no instance of this `Error`: Jest runs tests in a realm of their own, and Node's modules outside of it.
    if (Reflect.has(Object(error), 'syscall')) return false
    const hint = 'Allow it (Node: --allow-fs-read=*, Deno: --allow-all)'
    throw noDriver(
      `Cannot find out whether this machine has an NVIDIA driver: access to ${path} is not permitted. ${hint}`,
      error,
    )
  }
}

/** The version of the C library of this process, if that is glibc. */
export function glibcVersion(): string | undefined {
  const { header } = JSON.parse(JSON.stringify(process.report.getReport()))
  return header.glibcVersionRuntime
}

/** The driver's log keeps a hundred entries, and never returns more bytes. */
const MOST_BYTES = 25_600
/** An entry of the log: `[time][thread][CUDA][E] text`. */
const ENTRY = /^\[[^\]]*\]\[(?<thread>\d+)\]\[CUDA\]\[\w\] (?<text>.*)$/
const RETURNS = /^Returning (?<result>\d+) \(\w+\) from (?<call>\w+?)(_v\d+)?(_ptsz|_ptds)?$/
/** The call that was made instead of the one that an error names. */
const MADE_BY: Readonly<Record<string, string>> = {
  cuLaunchHostFunc: 'cuStreamBatchMemOp',
  cuStreamAddCallback: 'cuStreamBatchMemOp',
}
/** A text that says no more than the result does. */
const SAYS_NOTHING = 'Sticky error detected'

/**
 * The log in which the driver says why it refused a call (CUDA 12.9 and later). It is read when a call has failed, from where it was read
 * last. The driver could also call a function for each entry, but on any thread, where JavaScript cannot be called.
 */
class DriverLog {
  /** The iterator, then the number of bytes. */
  readonly #state = new ThreadMemory(16)
  #text: ThreadMemory | undefined

  constructor(
    private readonly current: CFunction,
    private readonly dump: CFunction,
  ) {
    current(this.#state.address, 0)
  }

  /** Why the driver refused the latest call of this name; undefined when the log does not say. */
  why(call: string, result: number): string | undefined {
    return whyRefused(this.#news(), call, result)
  }

  #news(): string {
    this.#text ??= new ThreadMemory(MOST_BYTES)
    const { uint64, address } = this.#state
    uint64[1] = BigInt(MOST_BYTES)
    if (this.dump(address, this.#text.address, address + 8, 0) !== 0) {
      // The entries in between are lost.
      this.current(address, 0)
      return ''
    }
    return Buffer.from(this.#text.bytes.subarray(0, Number(uint64[1]))).toString('utf8')
  }
}

interface Entry {
  readonly thread: string
  readonly text: string
}

/** The entries of one thread that come directly before the latest entry which says that the call returned this result. */
export function whyRefused(log: string, call: string, result: number): string | undefined {
  const entries = log.split('\n').map((line): Entry => {
    const { thread = '', text = '' } = ENTRY.exec(line)?.groups ?? {}
    return { thread, text }
  })
  const made = MADE_BY[call] ?? call
  const at = entries.findLastIndex(({ text }) => {
    const returned = RETURNS.exec(text)?.groups
    return returned !== undefined && Number(returned['result']) === result && returned['call'] === made
  })
  const before = entries.slice(0, Math.max(at, 0)).filter(({ thread }) => thread === entries[at]?.thread)
  const from = before.findLastIndex(({ text }) => RETURNS.test(text)) + 1
  const said = before.slice(from).flatMap(({ text }) => (text === '' || text === SAYS_NOTHING ? [] : [text]))
  return said.length === 0 ? undefined : said.join('; ')
}
