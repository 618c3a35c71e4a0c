/** Finds libcuda, declares each function once, and starts the driver. Nothing here knows what the functions are for. */
import { stateError } from '../../../base/errors.js'
import { cudaError, isContextLost } from '../../cuda-results.js'
import { koffi, NativeMemory } from './native.js'
import {
  type ArgumentType,
  argumentTypesOf,
  type DriverFunction,
  NEWER_FUNCTIONS,
  type NewerFunction,
  SIGNATURES,
} from './signatures.js'

type CFunction = (...args: (number | object)[]) => number
export type Library = { readonly [name in Exclude<DriverFunction, NewerFunction>]: CFunction } & {
  readonly [name in NewerFunction]: CFunction | undefined
}

const CANDIDATES: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  linux: [
    'libcuda.so.1',
    '/usr/lib/x86_64-linux-gnu/libcuda.so.1',
    '/usr/lib/aarch64-linux-gnu/libcuda.so.1',
    '/usr/lib64/libcuda.so.1',
    '/usr/lib/wsl/lib/libcuda.so.1',
    '/usr/local/nvidia/lib64/libcuda.so.1',
  ],
  win32: ['nvcuda.dll'],
}
const OLDEST_DRIVER = 12050
const NOT_INITIALIZED = 3
/** As many hardware queues as the driver gives: streams that share one hold each other up. */
const MOST_CONNECTIONS = 32

/** The declared functions of the driver, started, and the number of hardware queues it was started with. */
export function startLibrary(): { readonly library: Library; readonly connections: number } {
  const library = declare(loadCudaLibrary())
  const connections = askForConnections(library)
  const result = library.cuInit(0)
  if (result !== 0) {
    const cause = cudaError('cuInit', result)
    throw stateError('ERR_NO_DRIVER', `The NVIDIA driver is installed but does not start: ${cause.message}`, cause)
  }
  return { library, connections }
}

function loadCudaLibrary(): ReturnType<typeof import('koffi').load> {
  const candidates = CANDIDATES[process.platform] ?? []
  const reasons = new Set<string>()
  for (const path of candidates) {
    try {
      return koffi().load(path)
    } catch (error) {
      reasons.add(error instanceof Error ? error.message : String(error))
    }
  }
  const tried =
    candidates.length === 0
      ? `CUDA does not exist for ${process.platform}`
      : `tried ${candidates.join(', ')} (${[...reasons].join('; ')})`
  throw stateError('ERR_NO_DRIVER', `The NVIDIA driver was not found: ${tried}`)
}

function declare(library: ReturnType<typeof import('koffi').load>): Library {
  const ipcHandle = koffi().struct({ reserved: koffi().array('uint8', 64) })
  const typeOf = (type: ArgumentType): string | typeof ipcHandle => (type.startsWith('CUipc') ? ipcHandle : type)
  const functions: Partial<Record<DriverFunction, CFunction>> = {}
  for (const [name, parameters] of Object.entries(SIGNATURES)) {
    try {
      const types = argumentTypesOf(parameters).map(typeOf)
      functions[name as DriverFunction] = library.func(name, 'int', types) as CFunction
    } catch (cause) {
      if (name in NEWER_FUNCTIONS) continue
      const version = `${Math.floor(OLDEST_DRIVER / 1000)}.${(OLDEST_DRIVER % 1000) / 10}`
      throw stateError(
        'ERR_NO_DRIVER',
        `The NVIDIA driver lacks ${name}: it must support CUDA ${version} or later`,
        cause,
      )
    }
  }
  // Built key by key it would be a dictionary to V8, and each call a look-up; a copy has a fixed shape.
  return { ...functions } as Library
}

/** Sets CUDA_DEVICE_MAX_CONNECTIONS where CUDA has not been started yet and the user set nothing. */
function askForConnections(library: Library): number {
  const memory = new NativeMemory(8)
  const started = library.cuDeviceGetCount(memory.address) !== NOT_INITIALIZED
  const set = Number(process.env['CUDA_DEVICE_MAX_CONNECTIONS'])
  if (Number.isInteger(set) && set > 0) return Math.min(set, MOST_CONNECTIONS)
  const byDefault = 8
  if (started || process.platform === 'win32') return byDefault
  // process.env of a worker is a copy that C does not see; setenv is what libcuda reads.
  const setenv = koffi().load(null).func('int setenv(const char *name, const char *value, int overwrite)')
  setenv('CUDA_DEVICE_MAX_CONNECTIONS', String(MOST_CONNECTIONS), 0)
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
  if (!isContextLost(result)) check(call, result)
}
