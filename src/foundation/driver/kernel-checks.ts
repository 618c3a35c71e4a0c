/** What both backends check of a kernel: how a signature fits it, and how much local memory it needs. */
import { ELEMENT_TYPES } from '../base/element-types.js'
import { explained, invalidValue } from '../base/errors.js'
import { CUresult, cudaError } from './cuda-results.js'
import type { DescribeParameter, PassedType } from './kernel-driver.js'

export const bytesOfPassed = (type: PassedType): number => (typeof type === 'number' ? type : ELEMENT_TYPES[type].bytes)

/** Throws ERR_INVALID_ARG_VALUE unless the types have the sizes of the kernel's parameters. */
export function checkParameterSizes(
  kernel: string,
  types: readonly PassedType[],
  sizes: readonly number[],
  describe: DescribeParameter = (index) => `argument ${index}`,
): void {
  const given = types.map(bytesOfPassed)
  if (String(sizes) === String(given)) return
  const what = `The signature of kernel '${kernel}' has parameters of ${given.join(', ') || 'no'} bytes, but the kernel's have ${sizes.join(', ') || 'no'}`
  const first = given.findIndex((bytes, index) => bytes !== sizes[index])
  const differs =
    given.length === sizes.length
      ? `${describe(first)}, has ${given[first]} bytes, and ${sizes[first]} in the code: give it the type that it has in the source`
      : `there are ${given.length}, and ${sizes.length} in the code: name the type of each that the source has, in its order`
  throw invalidValue(`${what}: ${differs}`)
}

/** 512 KiB less what the driver has for itself (H200, 580.159). */
export const MOST_LOCAL = 523_712

/**
 * The error of a GPU, whose stack for each thread CUDA cannot make so large: a kernel that needs more local memory loads, and is refused when it is
 * looked up.
 */
export function tooMuchLocalMemory(kernel: string, bytes: number): Error {
  const why = `Kernel '${kernel}' declares ${bytes} bytes of local memory for a thread, with the functions that it calls, and a GPU gives at most ${MOST_LOCAL}: use smaller arrays, or memory of the device in their place`
  return explained(cudaError('cuCtxSetLimit', CUresult.INVALID_VALUE), why)
}
