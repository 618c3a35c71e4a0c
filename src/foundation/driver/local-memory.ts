/** A kernel that needs more local memory for a thread than a GPU gives loads, and is refused when it is looked up. */
import { explained } from '../base/errors.js'
import { CUresult, cudaError } from './cuda-results.js'

/** 512 KiB less what the driver has for itself (H200, 580.159). */
export const MOST_LOCAL = 523_712

/** The error of a GPU, whose stack for each thread CUDA cannot make so large. */
export function tooMuchLocalMemory(kernel: string, bytes: number): Error {
  const why = `Kernel '${kernel}' declares ${bytes} bytes of local memory for a thread, with the functions that it calls, and a GPU gives at most ${MOST_LOCAL}: use smaller arrays, or memory of the device in their place`
  return explained(cudaError('cuCtxSetLimit', CUresult.INVALID_VALUE), why)
}
