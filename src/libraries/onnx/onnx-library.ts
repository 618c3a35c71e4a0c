/** ONNX Runtime as a C library: finding it, its functions, and its errors. */

import { type Device, driverOf } from '../../core/device.js'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { LibraryError, stateError } from '../../foundation/base/errors.js'
import { nextTurn } from '../../foundation/base/event-loop.js'
import { bindAll, type CFunction, declaration } from '../../foundation/native/c-functions.js'
import { layer } from '../../foundation/native/layer.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import { OwnedKind, Trait } from '../../foundation/native/owned-handles.js'
import { loadLibrary, type SharedLibrary } from '../../foundation/native/shared-library.js'
import { ThreadMemory } from '../../foundation/native/thread-memory.js'
import { onnxRuntimeFiles } from './places.js'

/** The version of its C interface that has all of these functions: ONNX Runtime 1.16. */
const API_VERSION = 16

/** A place in OrtApi, a struct of pointers to functions to whose end new versions add, and the parameters as its header has them. */
type Row = readonly [place: number, parameters: string]

const PROVIDER_VALUES =
  'const char *const *provider_options_keys, const char *const *provider_options_values, size_t num_keys'

/** Functions that return an OrtStatus, which is 0 where they succeed. */
export const ORT_FUNCTIONS = {
  CreateEnv: [3, 'OrtLoggingLevel log_severity_level, const char *logid, OrtEnv **out'],
  CreateSession: [7, 'const OrtEnv *env, const char *model_path, const OrtSessionOptions *options, OrtSession **out'],
  CreateSessionFromArray: [
    8,
    'const OrtEnv *env, const void *model_data, size_t model_data_length, const OrtSessionOptions *options, OrtSession **out',
  ],
  CreateSessionOptions: [10, 'OrtSessionOptions **options'],
  SetIntraOpNumThreads: [24, 'OrtSessionOptions *options, int intra_op_num_threads'],
  SessionGetInputCount: [30, 'const OrtSession *session, size_t *out'],
  SessionGetOutputCount: [31, 'const OrtSession *session, size_t *out'],
  SessionGetInputTypeInfo: [33, 'const OrtSession *session, size_t index, OrtTypeInfo **type_info'],
  SessionGetOutputTypeInfo: [34, 'const OrtSession *session, size_t index, OrtTypeInfo **type_info'],
  SessionGetInputName: [36, 'const OrtSession *session, size_t index, OrtAllocator *allocator, char **value'],
  SessionGetOutputName: [37, 'const OrtSession *session, size_t index, OrtAllocator *allocator, char **value'],
  CreateRunOptions: [39, 'OrtRunOptions **out'],
  CreateTensorWithDataAsOrtValue: [
    49,
    'const OrtMemoryInfo *info, void *p_data, size_t p_data_len, const int64_t *shape, size_t shape_len, ONNXTensorElementDataType type, OrtValue **out',
  ],
  CastTypeInfoToTensorInfo: [55, 'const OrtTypeInfo *type_info, const OrtTensorTypeAndShapeInfo **out'],
  GetOnnxTypeFromTypeInfo: [56, 'const OrtTypeInfo *type_info, ONNXType *out'],
  GetTensorElementType: [60, 'const OrtTensorTypeAndShapeInfo *info, ONNXTensorElementDataType *out'],
  GetDimensionsCount: [61, 'const OrtTensorTypeAndShapeInfo *info, size_t *out'],
  GetDimensions: [62, 'const OrtTensorTypeAndShapeInfo *info, int64_t *dim_values, size_t dim_values_length'],
  GetSymbolicDimensions: [
    63,
    'const OrtTensorTypeAndShapeInfo *info, const char **dim_params, size_t dim_params_length',
  ],
  CreateMemoryInfo: [68, 'const char *name, OrtAllocatorType type, int id, OrtMemType mem_type, OrtMemoryInfo **out'],
  AllocatorFree: [76, 'OrtAllocator *ort_allocator, void *p'],
  GetAllocatorWithDefaultOptions: [78, 'OrtAllocator **out'],
  GetAvailableProviders: [125, 'char ***out_ptr, int *provider_length'],
  ReleaseAvailableProviders: [126, 'char **ptr, int providers_length'],
  RunWithBinding: [133, 'OrtSession *session, const OrtRunOptions *run_options, const OrtIoBinding *binding_ptr'],
  CreateIoBinding: [134, 'OrtSession *session, OrtIoBinding **out'],
  BindInput: [136, 'OrtIoBinding *binding_ptr, const char *name, const OrtValue *val_ptr'],
  BindOutput: [137, 'OrtIoBinding *binding_ptr, const char *name, const OrtValue *val_ptr'],
  AddRunConfigEntry: [165, 'OrtRunOptions *options, const char *config_key, const char *config_value'],
  SessionOptionsAppendExecutionProvider_TensorRT_V2: [
    170,
    'OrtSessionOptions *options, const OrtTensorRTProviderOptionsV2 *tensorrt_options',
  ],
  CreateTensorRTProviderOptions: [171, 'OrtTensorRTProviderOptionsV2 **out'],
  UpdateTensorRTProviderOptions: [172, `OrtTensorRTProviderOptionsV2 *tensorrt_options, ${PROVIDER_VALUES}`],
  SessionOptionsAppendExecutionProvider_CUDA_V2: [
    204,
    'OrtSessionOptions *options, const OrtCUDAProviderOptionsV2 *cuda_options',
  ],
  CreateCUDAProviderOptions: [205, 'OrtCUDAProviderOptionsV2 **out'],
  UpdateCUDAProviderOptions: [206, `OrtCUDAProviderOptionsV2 *cuda_options, ${PROVIDER_VALUES}`],
  UpdateTensorRTProviderOptionsWithValue: [
    261,
    'OrtTensorRTProviderOptionsV2 *tensorrt_options, const char *key, void *value',
  ],
  UpdateCUDAProviderOptionsWithValue: [263, 'OrtCUDAProviderOptionsV2 *cuda_options, const char *key, void *value'],
} as const satisfies Readonly<Record<string, Row>>

export type OrtFunction = keyof typeof ORT_FUNCTIONS

/** Functions that return nothing, or an int. */
export const ORT_RELEASES = {
  GetErrorCode: [1, 'const OrtStatus *status'],
  ReleaseStatus: [93, 'OrtStatus *input'],
  ReleaseMemoryInfo: [94, 'OrtMemoryInfo *input'],
  ReleaseSession: [95, 'OrtSession *input'],
  ReleaseValue: [96, 'OrtValue *input'],
  ReleaseRunOptions: [97, 'OrtRunOptions *input'],
  ReleaseTypeInfo: [98, 'OrtTypeInfo *input'],
  ReleaseSessionOptions: [100, 'OrtSessionOptions *input'],
  ReleaseIoBinding: [135, 'OrtIoBinding *input'],
  ReleaseTensorRTProviderOptions: [174, 'OrtTensorRTProviderOptionsV2 *input'],
  ReleaseCUDAProviderOptions: [208, 'OrtCUDAProviderOptionsV2 *input'],
} as const satisfies Readonly<Record<string, Row>>

/** The functions that release what a thread keeps for longer than a call, with what is true of it: a session waits for the device, and goes first. */
const OWNED_RELEASES = { ReleaseSession: Trait.WAITS, ReleaseRunOptions: 1, ReleaseMemoryInfo: 1 } as const
type OwnedRelease = keyof typeof OWNED_RELEASES
const isOwnedRelease = (name: OrtRelease): name is OwnedRelease => name in OWNED_RELEASES

export type OrtRelease = Exclude<keyof typeof ORT_RELEASES, 'GetErrorCode'>

export const ORT_TEXTS = { GetErrorMessage: [2, 'const OrtStatus *status'] } as const satisfies Readonly<
  Record<string, Row>
>

const LAST_PLACE = 263

/** OrtErrorCode */
export const ORT_ERRORS: Readonly<Record<string, number>> = {
  ORT_OK: 0,
  ORT_FAIL: 1,
  ORT_INVALID_ARGUMENT: 2,
  ORT_NO_SUCHFILE: 3,
  ORT_NO_MODEL: 4,
  ORT_ENGINE_ERROR: 5,
  ORT_RUNTIME_EXCEPTION: 6,
  ORT_INVALID_PROTOBUF: 7,
  ORT_MODEL_LOADED: 8,
  ORT_NOT_IMPLEMENTED: 9,
  ORT_INVALID_GRAPH: 10,
  ORT_EP_FAIL: 11,
}

/** ORT_LOGGING_LEVEL_FATAL: it would print what it returns as an error, too. */
const LOG_LEVEL = 4
/** The longest time in milliseconds that a call on another thread waits for host functions before it begins. */
const PATIENCE = 10_000
/** `AddressCall` of native/threads.c: the function, eight arguments, then the result. */
const CALL_BYTES = 80
const CALL_RESULT = 72

export class OrtLibrary {
  /** The version of ONNX Runtime, such as '1.32.0'. */
  readonly version: string
  readonly #functions: Readonly<Record<OrtFunction, CFunction>>
  readonly #releases: Readonly<Record<keyof typeof ORT_RELEASES, CFunction>>
  readonly #texts: Readonly<Record<keyof typeof ORT_TEXTS, CFunction>>
  readonly #struct: NativeMemory
  /** Receives what a function returns by a pointer. */
  readonly #result = new ThreadMemory(8)
  readonly #names = new Map<string, number>()
  readonly #owned = new Map<OwnedRelease, OwnedKind>()
  /** The OrtEnv, which is one for the process. */
  readonly env: number

  /** Use `openOrt()`. */
  constructor(library: SharedLibrary) {
    const { version, structOf } = baseOf(library)
    this.version = version
    const address = structOf(API_VERSION)
    if (address === 0) {
      throw stateError('ERR_UNSUPPORTED', `This is ONNX Runtime ${this.version}, and 1.16 or later is needed`)
    }
    this.#struct = new NativeMemory(8 * (LAST_PLACE + 1), address)
    this.#functions = this.#bound(ORT_FUNCTIONS, 'address8')
    this.#releases = this.#bound(ORT_RELEASES, 'call1')
    this.#texts = this.#bound(ORT_TEXTS, 'address4')
    this.env = this.made('CreateEnv', LOG_LEVEL, this.text('cuda-streams'))
  }

  /** Calls a function. Throws a LibraryError with what ONNX Runtime says. */
  call(name: OrtFunction, ...args: readonly number[]): void {
    this.#check(name, this.#functions[name](...args))
  }

  /** Calls a function whose last parameter receives a pointer, a size or an enum. Throws a LibraryError. */
  made(name: OrtFunction, ...args: readonly number[]): number {
    this.#result.setPointer(0, 0)
    this.call(name, ...args, this.#result.address)
    return this.#result.pointerAt(0)
  }

  release(name: OrtRelease, address: number): void {
    if (isOwnedRelease(name)) this.#owned.get(name)?.remove(address)
    this.#releases[name](address)
  }

  /** The address of text for C, which is kept: for the names of options and of what models read and write. */
  text(text: string): number {
    const known = this.#names.get(text)
    if (known !== undefined) return known
    const { address } = NativeMemory.ofText(text)
    this.#names.set(text, address)
    return address
  }

  /**
   * Calls a function that takes its time: on a GPU, where it may wait for the device, on a thread of its own. On the simulator it is called in the next
   * turn of the event loop, since a program that is explored must see as many turns each time. Rejects with a LibraryError.
   */
  async callSlowly(device: Device, name: OrtFunction, ...args: readonly number[]): Promise<void> {
    if (device.driver === 'sim') {
      await nextTurn()
      this.call(name, ...args)
      return
    }
    const frame = new NativeMemory(CALL_BYTES)
    try {
      const words = [this.#addressOf(ORT_FUNCTIONS[name]), ...args]
      for (const [index, word] of words.entries()) frame.setPointer(8 * index, word)
      const call = layer().functions['callForAddress'] ?? 0
      await driverOf(device).libraries.callOnThread(call, frame.address, PATIENCE)
      this.#check(name, frame.pointerAt(CALL_RESULT))
    } finally {
      frame.free()
    }
  }

  /** Has what this function releases be released once this thread has ended, unless it was before. */
  own(name: OwnedRelease, address: number): void {
    let kind = this.#owned.get(name)
    if (kind === undefined) {
      kind = new OwnedKind(this.#addressOf(ORT_RELEASES[name]), name, Trait.NO_RESULT | OWNED_RELEASES[name])
      this.#owned.set(name, kind)
    }
    kind.add(address)
  }

  /** Releases a session, on a GPU on a thread of its own, since that waits for the device. */
  async releaseSession(device: Device, address: number): Promise<void> {
    if (device.driver === 'sim') {
      this.release('ReleaseSession', address)
      return
    }
    this.#owned.get('ReleaseSession')?.remove(address)
    await driverOf(device).libraries.callOnThread(this.#addressOf(ORT_RELEASES.ReleaseSession), address, PATIENCE)
  }

  /** The names of the providers that this build has. */
  get providers(): readonly string[] {
    const memory = new NativeMemory(16)
    try {
      this.call('GetAvailableProviders', memory.address, memory.address + 8)
      const [list, count] = [memory.pointerAt(0), memory.int32[2] ?? 0]
      const pointers = new NativeMemory(8 * count, list)
      const names = Array.from({ length: count }, (_, index) => layer().text(pointers.pointerAt(8 * index)))
      this.call('ReleaseAvailableProviders', list, count)
      return names
    } finally {
      memory.free()
    }
  }

  #check(call: string, status: number): void {
    if (status === 0) return
    const number = this.#releases.GetErrorCode(status)
    const said = layer().text(this.#texts.GetErrorMessage(status))
    this.#releases.ReleaseStatus(status)
    const code = Object.keys(ORT_ERRORS).find((key) => ORT_ERRORS[key] === number) ?? `OrtErrorCode_${number}`
    throw new LibraryError(call, number, code, said)
  }

  #addressOf([place]: Row): number {
    return this.#struct.pointerAt(8 * place)
  }

  #bound<N extends string>(rows: Readonly<Record<N, Row>>, shape: 'address4' | 'address8' | 'call1') {
    const names = Object.keys(rows) as N[]
    return bindAll(names.map((name) => declaration(name, this.#addressOf(rows[name]), rows[name][1], shape)))
  }
}

/** The name of the one function that the library exports. */
export const ORT_BASE = 'OrtGetApiBase'

/** OrtApiBase: the version, and the address of OrtApi for a version of the interface, 0 where the library is older. */
export function baseOf(library: SharedLibrary): { readonly version: string; structOf(version: number): number } {
  const base = new NativeMemory(16, library.addresses({ [ORT_BASE]: 'void' })[ORT_BASE]())
  const { GetApi, GetVersionString } = bindAll([
    declaration('GetApi', base.pointerAt(0), 'uint32_t version', 'address4'),
    declaration('GetVersionString', base.pointerAt(8), 'void', 'address4'),
  ])
  return { version: layer().text(GetVersionString()), structOf: (version) => GetApi(version) }
}

/** Throws ERR_UNSUPPORTED, with the places tried, if ONNX Runtime is not found. */
export const loadOrt = (): SharedLibrary => loadLibrary(VARIABLES.onnxruntime, onnxRuntimeFiles)

let loaded: OrtLibrary | undefined

/** Throws ERR_UNSUPPORTED, with the places tried, if ONNX Runtime is not found, and if it is older than 1.16. */
export function openOrt(): OrtLibrary {
  loaded ??= new OrtLibrary(loadOrt())
  return loaded
}
