/** CUPTI as a C library: its file, its functions, its numbers. A test compares them with NVIDIA's headers. */
import { VARIABLES } from '../../../foundation/base/environment-variables.js'
import { LibraryError, stateError } from '../../../foundation/base/errors.js'
import type { CFunction } from '../../../foundation/native/c-functions.js'
import { layer } from '../../../foundation/native/layer.js'
import { NativeMemory } from '../../../foundation/native/native-memory.js'
import { loadLibrary } from '../../../foundation/native/shared-library.js'

/** The parameters of CUPTI's functions, each of which returns a CUptiResult. */
export const CUPTI_SIGNATURES = {
  cuptiActivityDisable: 'CUpti_ActivityKind kind',
  cuptiActivityEnable: 'CUpti_ActivityKind kind',
  cuptiActivityEnableDriverApi: 'uint32_t cbid, uint8_t enable',
  cuptiActivityEnableRuntimeApi: 'uint32_t cbid, uint8_t enable',
  cuptiActivityFlushAll: 'uint32_t flag',
  cuptiActivityGetNextRecord: 'uint8_t *buffer, size_t validBufferSizeBytes, CUpti_Activity **record',
  cuptiActivityGetNumDroppedRecords: 'CUcontext context, uint32_t streamId, size_t *dropped',
  cuptiActivityRegisterCallbacks:
    'CUpti_BuffersCallbackRequestFunc funcBufferRequested, CUpti_BuffersCallbackCompleteFunc funcBufferCompleted',
  cuptiGetResultString: 'CUptiResult result, const char **str',
  cuptiGetStreamIdEx: 'CUcontext context, CUstream stream, uint8_t perThreadStream, uint32_t *streamId',
  cuptiGetTimestamp: 'uint64_t *timestamp',
  cuptiGetVersion: 'uint32_t *version',
  cuptiSubscribe: 'CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *userdata',
  cuptiUnsubscribe: 'CUpti_SubscriberHandle subscriber',
} as const satisfies Readonly<Record<string, string>>

type CuptiFunction = keyof typeof CUPTI_SIGNATURES
export type CuptiLibrary = Readonly<Record<CuptiFunction, CFunction>>

/** The numbers of CUpti_ActivityKind. */
export const ActivityKind = { MEMCPY: 1, MEMSET: 2, DRIVER: 4, RUNTIME: 5, CONCURRENT_KERNEL: 10, MEMCPY2: 22 } as const

/** Whether the records of a version are known: CUPTI of CUDA 12.5 has version 23, that of 12.9 has 28, that of 13.0 has 130001. */
const isKnown = (version: number): boolean => (version >= 23 && version < 1000) || Math.floor(version / 10_000) === 13

const EXPLANATIONS: Readonly<Record<number, string>> = {
  35: 'The system lets this process not trace the GPU: ask its administrator',
  39: 'Another tool uses CUPTI: a profiler of PyTorch, Nsight, or a recording of another thread. One at a time can',
}

let loaded: CuptiLibrary | undefined

/**
 * Opens CUPTI.
 * @throws ERR_UNSUPPORTED, with the places tried, or for a version that is not known
 */
export function openCupti(): CuptiLibrary {
  loaded ??= declare()
  return loaded
}

function declare(): CuptiLibrary {
  const file = loadLibrary(VARIABLES.cupti)
  const missing = Object.keys(CUPTI_SIGNATURES).find((name) => file.find(name) === undefined)
  if (missing !== undefined)
    throw stateError('ERR_UNSUPPORTED', `This CUPTI lacks ${missing}. ${VARIABLES.cupti.library.wayOut}`)
  const library = file.functions(CUPTI_SIGNATURES)
  const memory = new NativeMemory(8)
  checkCupti('cuptiGetVersion', library.cuptiGetVersion(memory.address))
  const version = memory.uint32[0] ?? 0
  memory.free()
  checkCuptiVersion(version)
  return library
}

/**
 * Checks a version of CUPTI.
 * @throws ERR_UNSUPPORTED for a version whose records are not known
 */
export function checkCuptiVersion(version: number): void {
  if (isKnown(version)) return
  throw stateError(
    'ERR_UNSUPPORTED',
    `This CUPTI is of version ${version}; those of CUDA 12.5 to 13 are known (23 to 28, and 13xxxx). ${VARIABLES.cupti.library.wayOut}`,
  )
}

/** Throws a LibraryError for a result that is not success. */
export function checkCupti(call: string, result: number): void {
  if (result === 0) return
  const memory = new NativeMemory(8)
  const isNamed = loaded?.cuptiGetResultString(result, memory.address) === 0
  const name = isNamed ? layer().text(memory.pointerAt(0)) : `CUptiResult ${result}`
  memory.free()
  throw new LibraryError(call, result, name, EXPLANATIONS[result])
}
