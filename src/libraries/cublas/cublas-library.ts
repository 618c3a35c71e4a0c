/** cuBLAS as a C library: where it is found, its functions, numbers and handles. A test compares them with cublas_api.h. */
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { HandleLibrary, type HandleLife, type LibraryHandle } from '../handle-library.js'

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
  cublasSgeam:
    'cublasStatus_t cublasSgeam(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, const float *alpha, const float *A, int lda, const float *beta, const float *B, int ldb, float *C, int ldc)',
  cublasDgeam:
    'cublasStatus_t cublasDgeam(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, const double *alpha, const double *A, int lda, const double *beta, const double *B, int ldb, double *C, int ldc)',
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

export const cublas = new HandleLibrary({
  variable: VARIABLES.cublas,
  signatures: CUBLAS_SIGNATURES,
  results: CUBLAS_STATUS,
  explanations: EXPLANATIONS,
  made: { cublasCreate_v2: ['cublasDestroy_v2', 0] },
})

/** The life of cuBLAS handles: there are as many as were ever in use at once. */
export const CUBLAS_HANDLES: HandleLife = {
  make() {
    cublas.call('cublasCreate_v2', cublas.memory.address)
    return cublas.memory.pointerAt(0)
  },
  destroy: undefined,
}

/** CUBLAS_VERSION, such as 130100; 0 on the simulator. */
export function versionOf(handle: LibraryHandle): number {
  if (handle.isSimulated) return 0
  cublas.call('cublasGetVersion_v2', handle.address, cublas.memory.address)
  return cublas.memory.int32[0] ?? 0
}
