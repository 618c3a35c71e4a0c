/** How a signature fits a kernel. */
import { ELEMENT_TYPES } from '../base/element-types.js'
import { invalidValue } from '../base/errors.js'
import type { PassedType } from './kernel-driver.js'

export const bytesOfPassed = (type: PassedType): number => (typeof type === 'number' ? type : ELEMENT_TYPES[type].bytes)

/** Throws ERR_INVALID_ARG_VALUE unless the types have the sizes of the kernel's parameters. */
export function checkParameterSizes(kernel: string, types: readonly PassedType[], sizes: readonly number[]): void {
  const given = types.map(bytesOfPassed)
  if (String(sizes) === String(given)) return
  throw invalidValue(
    `The signature of kernel '${kernel}' has parameters of ${given.join(', ') || 'no'} bytes, but the kernel's have ${sizes.join(', ') || 'no'}`,
  )
}
