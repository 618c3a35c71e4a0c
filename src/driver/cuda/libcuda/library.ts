/** Declares each function of libcuda once, and starts the driver. Nothing here knows what the functions are for. */
import { existsSync } from 'node:fs'
import { explained } from '../../../base/errors.js'
import { askDriverWhy, cudaError, isContextLost, noteLoss } from '../../cuda-results.js'
import { type CFunction, own } from './c-functions.js'
import { DriverLog } from './driver-log.js'
import { fileOf } from './find-library.js'
import { loadLibcuda, noDriver } from './installed-driver.js'
import { NativeMemory } from './native.js'
import type { SharedLibrary } from './shared-library.js'
import {
  type DriverFunction,
  NEWER_FUNCTIONS,
  type OptionalFunction,
  REPLACED_FUNCTIONS,
  SIGNATURES,
} from './signatures.js'

export type Library = { readonly [name in Exclude<DriverFunction, OptionalFunction>]: CFunction } & {
  readonly [name in OptionalFunction]: CFunction | undefined
}

/** The CUDA that a driver must at least be for, and the first driver that was. */
export const OLDEST_CUDA = 12050
const OLDEST = `CUDA ${versionText(OLDEST_CUDA)} or later is needed, so update the driver to 555 or later`
const NOT_INITIALIZED = 3
/** As many hardware queues as the driver gives: streams that share one hold each other up. */
const MOST_CONNECTIONS = 32

const NO_DEVICE = 100
/** The way out of the other results of cuInit. */
const WAYS_OUT: Readonly<Record<number, string>> = {
  34: "It is the CUDA toolkit's stub, which is for linking: take its folder off LD_LIBRARY_PATH",
  101: 'A device cannot be used: see nvidia-smi, and CUDA_VISIBLE_DEVICES if it is set',
  304: 'The system refused to open the device: look at the permissions of /dev/nvidia*',
  802: 'Where GPUs are linked by NVSwitch, the fabric manager must run: see systemctl status nvidia-fabricmanager',
  803: 'The driver in the kernel is of another version: restart the machine after an update, or the container',
  804: 'The package cuda-compat does not work with this GPU: take its folder off LD_LIBRARY_PATH, or update the driver',
  805: 'The MPS daemon does not answer: start it, or unset CUDA_MPS_PIPE_DIRECTORY',
  999: 'The kernel module nvidia_uvm may be missing (sudo nvidia-modprobe -u), or the driver was updated: restart the machine',
}

/**
 * The functions of the driver, started, and the number of hardware queues it was started with; undefined where this
 * machine has no NVIDIA driver.
 * @throws ERR_NO_DRIVER where it has one that does not work
 */
export function startLibrary(): { readonly library: Library; readonly connections: number } | undefined {
  const loaded = loadLibcuda()
  if (loaded === undefined) return undefined
  const version = cudaVersion(loaded)
  if (version !== undefined && version < OLDEST_CUDA) throw unusable(loaded, `is too old: ${OLDEST}`)
  const library = declare(loaded)
  const connections = askForConnections(library)
  const result = library.cuInit(0)
  if (result !== 0) {
    const wayOut = result === NO_DEVICE ? wayToADevice() : (WAYS_OUT[result] ?? 'nvidia-smi may tell more')
    const cause = explained(cudaError('cuInit', result), wayOut)
    throw unusable(loaded, `does not start: ${cause.message}`, cause)
  }
  const { cuLogsCurrent, cuLogsDumpToMemory } = library
  if (cuLogsCurrent !== undefined && cuLogsDumpToMemory !== undefined) {
    const log = new DriverLog(cuLogsCurrent, cuLogsDumpToMemory)
    askDriverWhy((call, refused) => log.why(call, refused))
  }
  return { library, connections }
}

function unusable(libcuda: SharedLibrary, problem: string, cause?: unknown): Error {
  const version = cudaVersion(libcuda)
  const file = fileOf(libcuda, 'cuInit') ?? 'libcuda'
  const name = version === undefined ? file : `${file}, for CUDA ${versionText(version)},`
  return noDriver(`The NVIDIA driver of this machine cannot be used: ${name} ${problem}`, cause)
}

/** The CUDA that a driver is for, such as 13000; undefined where it does not tell, as a stub does not. */
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

/** 13000 is 13.0. */
export function versionText(cuda: number): string {
  return `${Math.floor(cuda / 1000)}.${(cuda % 1000) / 10}`
}

function wayToADevice(): string {
  const { CUDA_VISIBLE_DEVICES: visible } = process.env
  if (visible !== undefined) return `CUDA_VISIBLE_DEVICES is '${visible}', which may hide all devices: unset it`
  if (existsSync('/dev/nvidiactl')) return 'nvidia-smi -L lists the devices; a device in MIG mode needs an instance'
  return 'Without /dev/nvidia* there is no device: start a container with --gpus all, in Kubernetes with a limit for nvidia.com/gpu; outside of one, load the kernel module (sudo modprobe nvidia)'
}

function declare(libcuda: SharedLibrary): Library {
  const present = Object.entries(SIGNATURES).filter(([name]) => {
    if (libcuda.find(name) !== undefined) return true
    const replacement: string | undefined = REPLACED_FUNCTIONS[name as keyof typeof REPLACED_FUNCTIONS]
    if (name in NEWER_FUNCTIONS || (replacement !== undefined && libcuda.find(replacement) !== undefined)) return false
    throw unusable(libcuda, `lacks ${name}: ${OLDEST}`)
  })
  return libcuda.functions(Object.fromEntries(present)) as Library
}

/** Sets CUDA_DEVICE_MAX_CONNECTIONS where CUDA has not been started yet and the user set nothing. */
function askForConnections(library: Library): number {
  const memory = new NativeMemory(8)
  const started = library.cuDeviceGetCount(memory.address) !== NOT_INITIALIZED
  const set = Number(process.env['CUDA_DEVICE_MAX_CONNECTIONS'])
  if (Number.isInteger(set) && set > 0) return Math.min(set, MOST_CONNECTIONS)
  const byDefault = 8
  if (started) return byDefault
  const texts = ['CUDA_DEVICE_MAX_CONNECTIONS', String(MOST_CONNECTIONS)].map((text) => NativeMemory.ofText(text))
  const [name = 0, value = 0] = texts.map(({ address }) => address)
  own().setVariable(name, value)
  for (const text of texts) text.free()
  return MOST_CONNECTIONS
}

/** Throws the result of a driver function, unless it is success. */
export function check(call: string, result: number): void {
  if (result !== 0) throw cudaError(call, result)
}

/**
 * An object that is destroyed in a lost context is gone either way: the fault has been reported elsewhere, or will be.
 */
export function checkDestroyed(call: string, result: number): void {
  if (isContextLost(result)) noteLoss(result)
  else check(call, result)
}
