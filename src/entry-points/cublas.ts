/** cuda-streams/cublas: matrix products, sums and transpositions on streams. */
import '../core/shortcuts.js'

export { LibraryError } from '../foundation/base/errors.js'
export type { GeamOptions } from '../libraries/cublas/geam.js'
export type { GemmOptions, GemmType, MatrixLayout, StridedBatchOptions } from '../libraries/cublas/gemm-shape.js'
export { Cublas, type CublasOptions } from '../libraries/cublas/matrix-products.js'
