/** CUPTI as a C library: finding it, its functions, its numbers. A test holds them against NVIDIA's headers. */
import { LibraryError, stateError } from '../../base/errors.js'
import { loadLibrary, type WantedLibrary } from '../../driver/cuda/libcuda/find-library.js'
import { koffi, NativeMemory } from '../../driver/cuda/libcuda/native.js'

export const CUPTI: WantedLibrary = {
  title: "CUPTI, which tells of other libraries' work,",
  names: { linux: ['libcupti.so.13', 'libcupti.so.12', 'libcupti.so'] },
  variable: 'CUDA_STREAMS_CUPTI',
  wayOut: 'Install it with the CUDA toolkit or by pip (nvidia-cuda-cupti), or record without `everything`',
}

const P = 'uintptr_t'
/** koffi's names for the arguments; each function returns a CUptiResult. */
export const CUPTI_SIGNATURES = {
  cuptiActivityDisable: ['int'],
  cuptiActivityEnable: ['int'],
  cuptiActivityEnableDriverApi: ['uint32_t', 'uint8_t'],
  cuptiActivityEnableRuntimeApi: ['uint32_t', 'uint8_t'],
  cuptiActivityFlushAll: ['uint32_t'],
  cuptiActivityGetNextRecord: [P, 'size_t', P],
  cuptiActivityGetNumDroppedRecords: [P, 'uint32_t', P],
  cuptiActivityRegisterCallbacks: [P, P],
  cuptiGetResultString: ['int', P],
  cuptiGetStreamIdEx: [P, P, 'uint8_t', P],
  cuptiGetTimestamp: [P],
  cuptiGetVersion: [P],
  cuptiSubscribe: [P, P, P],
  cuptiUnsubscribe: [P],
} as const satisfies Readonly<Record<string, readonly string[]>>

type CuptiFunction = keyof typeof CUPTI_SIGNATURES
export type CuptiLibrary = Readonly<Record<CuptiFunction, (...args: number[]) => number>>

/** CUpti_ActivityKind. */
export const ActivityKind = { MEMCPY: 1, MEMSET: 2, DRIVER: 4, RUNTIME: 5, CONCURRENT_KERNEL: 10, MEMCPY2: 22 } as const

/** CUPTI of CUDA 12.5 has version 23, of 12.9 it is 28; 13.0 has 130001. */
const isKnown = (version: number): boolean => (version >= 23 && version < 1000) || Math.floor(version / 10_000) === 13

const EXPLANATIONS: Readonly<Record<number, string>> = {
  35: 'The system lets this process not trace the GPU: ask its administrator',
  39: 'Another tool uses CUPTI: a profiler of PyTorch, Nsight, or a recording of another thread. One at a time can',
}

let loaded: CuptiLibrary | undefined

/** @throws ERR_UNSUPPORTED, with the places tried, or for a version that is not known */
export function openCupti(): CuptiLibrary {
  loaded ??= declare()
  return loaded
}

function declare(): CuptiLibrary {
  const file = loadLibrary(CUPTI)
  const functions: Partial<Record<CuptiFunction, (...args: number[]) => number>> = {}
  for (const [name, args] of Object.entries(CUPTI_SIGNATURES)) {
    try {
      functions[name as CuptiFunction] = file.func(name, 'int', [...args])
    } catch (cause) {
      throw stateError('ERR_UNSUPPORTED', `This CUPTI lacks ${name}. ${CUPTI.wayOut}`, cause)
    }
  }
  const library = functions as CuptiLibrary
  const memory = new NativeMemory(8)
  checkCupti('cuptiGetVersion', library.cuptiGetVersion(memory.address))
  const version = memory.uint32[0] ?? 0
  memory.free()
  checkCuptiVersion(version)
  return library
}

/** @throws ERR_UNSUPPORTED for a version whose records are not known */
export function checkCuptiVersion(version: number): void {
  if (isKnown(version)) return
  throw stateError(
    'ERR_UNSUPPORTED',
    `This CUPTI is of version ${version}; those of CUDA 12.5 to 13 are known (23 to 28, and 13xxxx). ${CUPTI.wayOut}`,
  )
}

/** Throws a LibraryError for a result that is not success. */
export function checkCupti(call: string, result: number): void {
  if (result === 0) return
  const memory = new NativeMemory(8)
  const isNamed = loaded?.cuptiGetResultString(result, memory.address) === 0
  const name = isNamed ? koffi().decode(memory.pointerAt(0), 'char', -1) : `CUptiResult ${result}`
  memory.free()
  throw new LibraryError(call, result, name, EXPLANATIONS[result])
}
