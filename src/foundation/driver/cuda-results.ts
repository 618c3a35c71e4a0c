import { CudaError, cudaErrorFromCaller, isFault } from '../base/errors.js'

/**
 * CUresult numbers and their names, as in cuda.h 13.0. One table for both backends: the simulator must speak as the
 * driver does.
 */
const RESULT_NAMES: Readonly<Record<number, string>> = {
  0: 'CUDA_SUCCESS',
  1: 'CUDA_ERROR_INVALID_VALUE',
  2: 'CUDA_ERROR_OUT_OF_MEMORY',
  3: 'CUDA_ERROR_NOT_INITIALIZED',
  4: 'CUDA_ERROR_DEINITIALIZED',
  5: 'CUDA_ERROR_PROFILER_DISABLED',
  6: 'CUDA_ERROR_PROFILER_NOT_INITIALIZED',
  7: 'CUDA_ERROR_PROFILER_ALREADY_STARTED',
  8: 'CUDA_ERROR_PROFILER_ALREADY_STOPPED',
  34: 'CUDA_ERROR_STUB_LIBRARY',
  36: 'CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER',
  46: 'CUDA_ERROR_DEVICE_UNAVAILABLE',
  47: 'CUDA_ERROR_MULTICAST_RESOURCE_FULL',
  100: 'CUDA_ERROR_NO_DEVICE',
  101: 'CUDA_ERROR_INVALID_DEVICE',
  102: 'CUDA_ERROR_DEVICE_NOT_LICENSED',
  200: 'CUDA_ERROR_INVALID_IMAGE',
  201: 'CUDA_ERROR_INVALID_CONTEXT',
  202: 'CUDA_ERROR_CONTEXT_ALREADY_CURRENT',
  205: 'CUDA_ERROR_MAP_FAILED',
  206: 'CUDA_ERROR_UNMAP_FAILED',
  207: 'CUDA_ERROR_ARRAY_IS_MAPPED',
  208: 'CUDA_ERROR_ALREADY_MAPPED',
  209: 'CUDA_ERROR_NO_BINARY_FOR_GPU',
  210: 'CUDA_ERROR_ALREADY_ACQUIRED',
  211: 'CUDA_ERROR_NOT_MAPPED',
  212: 'CUDA_ERROR_NOT_MAPPED_AS_ARRAY',
  213: 'CUDA_ERROR_NOT_MAPPED_AS_POINTER',
  214: 'CUDA_ERROR_ECC_UNCORRECTABLE',
  215: 'CUDA_ERROR_UNSUPPORTED_LIMIT',
  216: 'CUDA_ERROR_CONTEXT_ALREADY_IN_USE',
  217: 'CUDA_ERROR_PEER_ACCESS_UNSUPPORTED',
  218: 'CUDA_ERROR_INVALID_PTX',
  219: 'CUDA_ERROR_INVALID_GRAPHICS_CONTEXT',
  220: 'CUDA_ERROR_NVLINK_UNCORRECTABLE',
  221: 'CUDA_ERROR_JIT_COMPILER_NOT_FOUND',
  222: 'CUDA_ERROR_UNSUPPORTED_PTX_VERSION',
  223: 'CUDA_ERROR_JIT_COMPILATION_DISABLED',
  224: 'CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY',
  225: 'CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC',
  226: 'CUDA_ERROR_CONTAINED',
  227: 'CUDA_ERROR_INSUFFICIENT_LOADER_VERSION',
  300: 'CUDA_ERROR_INVALID_SOURCE',
  301: 'CUDA_ERROR_FILE_NOT_FOUND',
  302: 'CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND',
  303: 'CUDA_ERROR_SHARED_OBJECT_INIT_FAILED',
  304: 'CUDA_ERROR_OPERATING_SYSTEM',
  400: 'CUDA_ERROR_INVALID_HANDLE',
  401: 'CUDA_ERROR_ILLEGAL_STATE',
  402: 'CUDA_ERROR_LOSSY_QUERY',
  500: 'CUDA_ERROR_NOT_FOUND',
  600: 'CUDA_ERROR_NOT_READY',
  700: 'CUDA_ERROR_ILLEGAL_ADDRESS',
  701: 'CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES',
  702: 'CUDA_ERROR_LAUNCH_TIMEOUT',
  703: 'CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING',
  704: 'CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED',
  705: 'CUDA_ERROR_PEER_ACCESS_NOT_ENABLED',
  708: 'CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE',
  709: 'CUDA_ERROR_CONTEXT_IS_DESTROYED',
  710: 'CUDA_ERROR_ASSERT',
  711: 'CUDA_ERROR_TOO_MANY_PEERS',
  712: 'CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED',
  713: 'CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED',
  714: 'CUDA_ERROR_HARDWARE_STACK_ERROR',
  715: 'CUDA_ERROR_ILLEGAL_INSTRUCTION',
  716: 'CUDA_ERROR_MISALIGNED_ADDRESS',
  717: 'CUDA_ERROR_INVALID_ADDRESS_SPACE',
  718: 'CUDA_ERROR_INVALID_PC',
  719: 'CUDA_ERROR_LAUNCH_FAILED',
  720: 'CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE',
  721: 'CUDA_ERROR_TENSOR_MEMORY_LEAK',
  800: 'CUDA_ERROR_NOT_PERMITTED',
  801: 'CUDA_ERROR_NOT_SUPPORTED',
  802: 'CUDA_ERROR_SYSTEM_NOT_READY',
  803: 'CUDA_ERROR_SYSTEM_DRIVER_MISMATCH',
  804: 'CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE',
  805: 'CUDA_ERROR_MPS_CONNECTION_FAILED',
  806: 'CUDA_ERROR_MPS_RPC_FAILURE',
  807: 'CUDA_ERROR_MPS_SERVER_NOT_READY',
  808: 'CUDA_ERROR_MPS_MAX_CLIENTS_REACHED',
  809: 'CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED',
  810: 'CUDA_ERROR_MPS_CLIENT_TERMINATED',
  811: 'CUDA_ERROR_CDP_NOT_SUPPORTED',
  812: 'CUDA_ERROR_CDP_VERSION_MISMATCH',
  900: 'CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED',
  901: 'CUDA_ERROR_STREAM_CAPTURE_INVALIDATED',
  902: 'CUDA_ERROR_STREAM_CAPTURE_MERGE',
  903: 'CUDA_ERROR_STREAM_CAPTURE_UNMATCHED',
  904: 'CUDA_ERROR_STREAM_CAPTURE_UNJOINED',
  905: 'CUDA_ERROR_STREAM_CAPTURE_ISOLATION',
  906: 'CUDA_ERROR_STREAM_CAPTURE_IMPLICIT',
  907: 'CUDA_ERROR_CAPTURED_EVENT',
  908: 'CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD',
  909: 'CUDA_ERROR_TIMEOUT',
  910: 'CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE',
  911: 'CUDA_ERROR_EXTERNAL_DEVICE',
  912: 'CUDA_ERROR_INVALID_CLUSTER_SIZE',
  913: 'CUDA_ERROR_FUNCTION_NOT_LOADED',
  914: 'CUDA_ERROR_INVALID_RESOURCE_TYPE',
  915: 'CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION',
  916: 'CUDA_ERROR_KEY_ROTATION',
  917: 'CUDA_ERROR_STREAM_DETACHED',
  918: 'CUDA_ERROR_GRAPH_RECAPTURE_FAILURE',
  919: 'CUDA_ERROR_FABRIC_NOT_READY',
  999: 'CUDA_ERROR_UNKNOWN',
}

/** Explanations of the most frequent results, with what the caller can do. */
const EXPLANATIONS: Readonly<Record<number, string>> = {
  1: 'An argument is not one this call takes in the present state',
  2: 'The device or the host is out of memory: close what is no longer used',
  201: 'The handle belongs to no live context: was it destroyed?',
  209: 'The code is machine code for another GPU: compile it for this one, or to PTX, which runs on later ones too',
  222: 'The PTX is of a version that is newer than the driver: update the driver, or make the PTX with an older compiler',
  400: 'The handle is not a live object of this context: was it destroyed, made in another context, or lacks it a flag that this call needs?',
  401: 'The object is in a state that does not allow this: a capture begun twice, or ended without being begun',
  600: 'The work is not done yet: wait for it first',
  700: 'A kernel used an address that is not its own. The context is lost: every later call on this device fails the same way until the process is restarted',
  709: 'The context is gone: its device was reset, or another library released it',
  712: 'The memory, or a part of it, is registered: use the PinnedBuffer that it has, or close that one and wait for the work with it',
  719: 'A kernel failed. The context is lost: every later call on this device fails the same way until the process is restarted',
  720: 'All blocks of a cooperative launch run at the same time, and there is no room for so many: kernel.activeBlocks() says how many a multiprocessor runs, and stream.context how many multiprocessors there are',
  900: 'This cannot be done while a stream captures: end the capture first, or do it before',
  901: 'An earlier mistake has invalidated the capture: end it and begin another',
  902: 'The event belongs to another capture, and two captures cannot become one: wait with { external: true } for an event that work outside of both records',
  903: 'The stream only joined the capture: end it on the stream that began it',
  904: 'A stream joined this capture and was never waited for: let the stream that began the capture wait for it before the end',
  905: 'The event was recorded outside the capture: record it inside, or wait with { external: true }',
  906: 'The null stream would wait for a stream that is capturing: use a non-blocking stream',
  907: 'The event was last recorded inside a capture: it stands for a point in the graph, not for work that runs. An event that is recorded with { external: true } is recorded by each launch',
  908: 'Another thread began the capture: end it there, or begin it in the mode "relaxed"',
  910: 'The graph has other operations than the instance, another order between them, or copies between other kinds of memory. The instance is as it was: graph.instantiate() makes one of the new graph',
  912: 'A cluster has at most eight blocks',
  915: 'The device has not so many multiprocessors: each part is rounded up to whole groups, of 8 from compute capability 9.0 on, and some must be left for the rest',
}

const OF_A_CAPTURE =
  'The event was last recorded in a capture that is over: that record is part of the graph, and no work that runs. Record the event with { external: true } in the capture, so that each launch records it, or again outside'

/** Explanations of results that these calls give for one reason alone. */
const EXPLANATIONS_OF_CALLS: Readonly<Record<string, string>> = {
  'cuEventQuery 1': OF_A_CAPTURE,
  'cuEventSynchronize 1': OF_A_CAPTURE,
  'cuStreamWaitEvent 1': OF_A_CAPTURE,
}

export const cudaResultName = (result: number): string => RESULT_NAMES[result] ?? `CUDA_ERROR_${result}`
const cudaResultExplanation = (call: string, result: number): string | undefined =>
  EXPLANATIONS_OF_CALLS[`${call} ${result}`] ?? EXPLANATIONS[result]

export const CUresult = {
  SUCCESS: 0,
  INVALID_VALUE: 1,
  OUT_OF_MEMORY: 2,
  DEINITIALIZED: 4,
  INVALID_CONTEXT: 201,
  INVALID_PTX: 218,
  UNSUPPORTED_PTX_VERSION: 222,
  INVALID_HANDLE: 400,
  ILLEGAL_STATE: 401,
  NOT_FOUND: 500,
  NOT_READY: 600,
  ILLEGAL_ADDRESS: 700,
  LAUNCH_TIMEOUT: 702,
  PEER_ACCESS_ALREADY_ENABLED: 704,
  CONTEXT_IS_DESTROYED: 709,
  HOST_MEMORY_ALREADY_REGISTERED: 712,
  HOST_MEMORY_NOT_REGISTERED: 713,
  COOPERATIVE_LAUNCH_TOO_LARGE: 720,
  NOT_SUPPORTED: 801,
  STREAM_CAPTURE_UNSUPPORTED: 900,
  STREAM_CAPTURE_INVALIDATED: 901,
  STREAM_CAPTURE_MERGE: 902,
  STREAM_CAPTURE_UNMATCHED: 903,
  STREAM_CAPTURE_UNJOINED: 904,
  STREAM_CAPTURE_ISOLATION: 905,
  STREAM_CAPTURE_IMPLICIT: 906,
  CAPTURED_EVENT: 907,
  STREAM_CAPTURE_WRONG_THREAD: 908,
  GRAPH_EXEC_UPDATE_FAILURE: 910,
  INVALID_CLUSTER_SIZE: 912,
  INVALID_RESOURCE_CONFIGURATION: 915,
} as const

/** Results from 700 to 799 that refuse one call and leave the context as it is. */
const REFUSALS: ReadonlySet<number> = new Set([
  701, // LAUNCH_OUT_OF_RESOURCES
  CUresult.PEER_ACCESS_ALREADY_ENABLED,
  705, // PEER_ACCESS_NOT_ENABLED
  708, // PRIMARY_CONTEXT_ACTIVE
  711, // TOO_MANY_PEERS
  CUresult.HOST_MEMORY_ALREADY_REGISTERED,
  CUresult.HOST_MEMORY_NOT_REGISTERED,
  CUresult.COOPERATIVE_LAUNCH_TOO_LARGE,
])

/** True for the results of calls in a context that is lost or destroyed. */
export const isContextLost = (result: number): boolean =>
  result >= CUresult.ILLEGAL_ADDRESS && result < 800 && !REFUSALS.has(result)

let lost = false

/**
 * True once a call of this thread has failed because its context was lost. After that the driver is queried where a cached answer
 * or a pool would do otherwise.
 */
export const hasLostContext = (): boolean => lost

/**
 * Records whether a result is that of a lost context. Called with each result that is not success, even if the result is no
 * error.
 */
export function noteLoss(result: number): void {
  if (isContextLost(result)) lost = true
}

let whyRefused: (call: string, result: number) => string | undefined = () => undefined

/** Sets the function that queries the driver's log, if it has one, for the reason of each error. */
export function askDriverWhy(ask: (call: string, result: number) => string | undefined): void {
  whyRefused = ask
}

const MOST_LAUNCHES = 4
/** The kernels that this thread launched last on a GPU, which does not say which of them has faulted. */
const launched: string[] = []
let launches = 0

/** Notes a launch on a GPU. */
export function noteLaunch(kernel: string): void {
  launched[launches % MOST_LAUNCHES] = kernel
  launches += 1
}

/** What may have faulted: the latest launches, the last of them first. Empty where none is known. */
function candidates(): readonly string[] {
  const names = launched.map((_, index) => launched[(launches - 1 - index) % MOST_LAUNCHES])
  return names.length === 0 ? [] : [`The latest launches of this thread: ${[...new Set(names)].join(', ')}`]
}

/** The error of `waitForStream()` (`ShortCalls`). */
export const waitRefused = (result: number): CudaError =>
  result < 0 ? cudaError('cuEventRecord', -result) : cudaError('cuStreamWaitEvent', result)

/** The error for a result that is not success. Every driver call that fails ends here, on either backend. */
export function cudaError(call: string, result: number): CudaError {
  noteLoss(result)
  const why = whyRefused(call, result)
  const said = why === undefined ? [] : [`The driver says: ${why}`]
  const suspects = isFault(result) ? candidates() : []
  const explanation = [cudaResultExplanation(call, result) ?? [], suspects, said].flat().join('. ')
  const make = (): CudaError => new CudaError(call, result, cudaResultName(result), explanation || undefined)
  // Every later call fails so: which one of the program's it was is all that its stack can tell.
  return isContextLost(result) ? cudaErrorFromCaller(make) : make()
}
