/** The door of cuBLAS: matrix products on our streams. */
import './shortcuts.js'

export { LibraryError } from './base/errors.js'
export { Cublas, type CublasOptions } from './libraries/cublas/cublas.js'
export type { GemmOptions, GemmType, StridedBatchOptions } from './libraries/cublas/gemm-shape.js'
