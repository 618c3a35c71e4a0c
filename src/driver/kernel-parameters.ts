/** How a signature fits a kernel. */
import { ELEMENT_TYPES, type ScalarType } from '../base/element-types.js'
import { invalidValue } from '../base/errors.js'

/** Throws ERR_INVALID_ARG_VALUE unless the types have the sizes of the kernel's parameters. */
export function checkParameterSizes(kernel: string, types: readonly ScalarType[], sizes: readonly number[]): void {
  const given = types.map((type) => ELEMENT_TYPES[type].bytes)
  if (String(sizes) === String(given)) return
  throw invalidValue(
    `The signature of kernel '${kernel}' has parameters of ${given.join(', ') || 'no'} bytes, but the kernel's have ${sizes.join(', ') || 'no'}`,
  )
}
