/** The call of cuBLAS that a matrix product is. */
import { NativeMemory } from '../../driver/cuda/libcuda/native-memory.js'
import type { UsedMemory } from '../library-memory.js'
import type { GemmShape } from './gemm-shape.js'
import type { CublasHandle } from './handle.js'
import { CUBLAS_GEMM_DEFAULT, CUBLAS_OP, CUBLAS_TYPES, checkCublas } from './library.js'

export type GemmFunction = 'cublasGemmEx' | 'cublasGemmStridedBatchedEx'

/** Host memory for alpha and beta: cuBLAS reads them within the call, also in a capture. */
let factors: NativeMemory | undefined

/** Queues it on CUDA's own handle of a stream. `memory` is A, B, C and, where there is one, the workspace. */
export function callGemm(
  handle: CublasHandle,
  name: GemmFunction,
  shape: GemmShape,
  memory: readonly UsedMemory[],
  stream: number,
): void {
  const [a, b, c, workspace] = memory
  if (a === undefined || b === undefined || c === undefined) return
  const { library, address } = handle
  checkCublas('cublasSetStream', library.cublasSetStream_v2(address, stream))
  if (workspace !== undefined) {
    // cublasSetStream has put cuBLAS's own in its place.
    const { pointer, byteLength } = workspace
    checkCublas('cublasSetWorkspace', library.cublasSetWorkspace_v2(address, pointer, byteLength))
  }
  const { data, compute } = CUBLAS_TYPES[shape.type]
  const [alpha, beta] = factorsOf(shape)
  const left = { pointer: a.pointer, layout: shape.a, operation: shape.transposeA ? CUBLAS_OP.T : CUBLAS_OP.N }
  const right = { pointer: b.pointer, layout: shape.b, operation: shape.transposeB ? CUBLAS_OP.T : CUBLAS_OP.N }
  // To cuBLAS a matrix that lies row after row is its transpose, and the transpose of A · B is that of B times that of A.
  const isRows = shape.order === 'row'
  const [first, second] = isRows ? [right, left] : [left, right]
  const [m, n] = isRows ? [shape.n, shape.m] : [shape.m, shape.n]
  const head = [address, first.operation, second.operation, m, n, shape.k, alpha] as const
  const [lda, ldb, ldc] = [first.layout.leading, second.layout.leading, shape.c.leading]
  const status =
    name === 'cublasGemmEx'
      ? library.cublasGemmEx(
          ...head,
          ...[first.pointer, data, lda, second.pointer, data, ldb],
          ...[beta, c.pointer, data, ldc, compute, CUBLAS_GEMM_DEFAULT],
        )
      : library.cublasGemmStridedBatchedEx(
          ...head,
          ...[first.pointer, data, lda, first.layout.stride, second.pointer, data, ldb, second.layout.stride],
          ...[beta, c.pointer, data, ldc, shape.c.stride, shape.batchCount, compute, CUBLAS_GEMM_DEFAULT],
        )
  checkCublas(name, status)
}

/** Writes alpha and beta down, in the type that the sums are kept in. Returns where. */
function factorsOf({ type, alpha, beta }: GemmShape): readonly [alpha: number, beta: number] {
  factors ??= new NativeMemory(16)
  const view = new DataView(factors.bytes.buffer)
  if (type === 'f64') {
    view.setFloat64(0, alpha, true)
    view.setFloat64(8, beta, true)
  } else {
    view.setFloat32(0, alpha, true)
    view.setFloat32(8, beta, true)
  }
  return [factors.address, factors.address + 8]
}
