/** cuBLAS as a C library: finding it, its functions, numbers and handles. A test compares them with cublas_api.h. */
import { VARIABLES } from '../../base/environment-variables.js'
import { LibraryError } from '../../base/errors.js'
import { NativeResource } from '../../base/finalization.js'
import { memoize } from '../../base/memoize.js'
import { contextOf, type Device, driverOf } from '../../device.js'
import type { CFunction } from '../../native/c-functions.js'
import { NativeMemory } from '../../native/native-memory.js'
import { loadLibrary, type WantedLibrary } from '../../native/shared-library.js'
import { declareFunctions } from '../library-call.js'

/** @internal */
export const CUBLAS: WantedLibrary = {
  title: 'cuBLAS',
  names: ['libcublas.so.13', 'libcublas.so.12', 'libcublas.so'],
  variable: VARIABLES.cublas,
  wayOut: 'Install it with the CUDA toolkit or by pip, set CUDA_HOME',
}

export const CUBLAS_SIGNATURES = {
  cublasCreate_v2: 'cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)',
  cublasGetVersion_v2: 'cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version)',
  cublasSetStream_v2: 'cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t streamId)',
  cublasSetWorkspace_v2:
    'cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t workspaceSizeInBytes)',
  cublasGemmEx:
    'cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, const void *alpha, const void *A, cudaDataType Atype, int lda, const void *B, cudaDataType Btype, int ldb, const void *beta, void *C, cudaDataType Ctype, int ldc, cublasComputeType_t computeType, cublasGemmAlgo_t algo)',
  cublasGemmStridedBatchedEx:
    'cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, const void *alpha, const void *A, cudaDataType Atype, int lda, long long int strideA, const void *B, cudaDataType Btype, int ldb, long long int strideB, const void *beta, void *C, cudaDataType Ctype, int ldc, long long int strideC, int batchCount, cublasComputeType_t computeType, cublasGemmAlgo_t algo)',
} as const satisfies Readonly<Record<string, string>>

/** cublasStatus_t. */
export const CUBLAS_STATUS: Readonly<Record<string, number>> = {
  CUBLAS_STATUS_SUCCESS: 0,
  CUBLAS_STATUS_NOT_INITIALIZED: 1,
  CUBLAS_STATUS_ALLOC_FAILED: 3,
  CUBLAS_STATUS_INVALID_VALUE: 7,
  CUBLAS_STATUS_ARCH_MISMATCH: 8,
  CUBLAS_STATUS_MAPPING_ERROR: 11,
  CUBLAS_STATUS_EXECUTION_FAILED: 13,
  CUBLAS_STATUS_INTERNAL_ERROR: 14,
  CUBLAS_STATUS_NOT_SUPPORTED: 15,
  CUBLAS_STATUS_LICENSE_ERROR: 16,
}
/** cublasOperation_t. */
export const CUBLAS_OP = { N: 0, T: 1 } as const
/** CUBLAS_GEMM_DEFAULT: cuBLAS chooses. */
export const CUBLAS_GEMM_DEFAULT = -1

const EXPLANATIONS: Readonly<Record<number, string>> = {
  1: 'CUDA is not started, or the device has no room left for cuBLAS',
  3: 'The device or the host is out of memory: close what is no longer used',
  7: 'cuBLAS does not accept these sizes or leading dimensions',
  8: 'This device does not support the types',
  13: 'The work could not be queued: the GPU may have faulted, or a capture does not allow it',
  15: 'cuBLAS has no kernel for these types, sizes or alignments',
}

export type CublasLibrary = Readonly<Record<keyof typeof CUBLAS_SIGNATURES, CFunction>>

let loaded: CublasLibrary | undefined

/** Throws ERR_UNSUPPORTED, with the places tried, if cuBLAS is not found. */
export function openCublas(): CublasLibrary {
  loaded ??= declareFunctions(loadLibrary(CUBLAS), CUBLAS_SIGNATURES)
  return loaded
}

/** Throws a LibraryError for a status that is not success. */
export function checkCublas(call: string, status: number): void {
  if (status === 0) return
  const name = Object.keys(CUBLAS_STATUS).find((key) => CUBLAS_STATUS[key] === status)
  throw new LibraryError(call, status, name ?? `CUBLAS_STATUS_${status}`, EXPLANATIONS[status])
}

/**
 * Handles that are not in use. Destroying one waits for the whole device, in native code where no host function can run, so
 * they are reused instead. There are as many as were ever in use at once.
 */
const spareHandles = memoize((_device: Device): number[] => [])
/** Takes the place of a handle on the simulator, which does not call cuBLAS. */
const SIMULATED = 0

export class CublasHandle extends NativeResource {
  readonly address: number

  /** Reuses a handle, or makes one (`cublasCreate`). */
  constructor(private readonly device: Device) {
    super()
    this.address = spareHandles(device).pop() ?? create(device)
  }

  get library(): CublasLibrary {
    return openCublas()
  }

  /** CUBLAS_VERSION, such as 130100; 0 on the simulator. */
  get version(): number {
    if (this.address === SIMULATED) return 0
    return withResult((memory) => {
      checkCublas('cublasGetVersion', this.library.cublasGetVersion_v2(this.address, memory.address))
      return memory.int32[0] ?? 0
    })
  }

  override destroy(): void {
    spareHandles(this.device).push(this.address)
  }
}

function create(device: Device): number {
  const { libraries } = driverOf(device)
  const context = contextOf(device)
  if (device.driver === 'sim') return libraries.call(context, () => SIMULATED)
  const library = openCublas()
  return withResult((memory) => {
    const status = libraries.call(context, () => library.cublasCreate_v2(memory.address))
    checkCublas('cublasCreate', status)
    return memory.pointerAt(0)
  })
}

/** Calls the function with memory for its result. */
function withResult<R>(call: (memory: NativeMemory) => R): R {
  const memory = new NativeMemory(8)
  try {
    return call(memory)
  } finally {
    memory.free()
  }
}
