/** Memory among a kernel's arguments: opened for the launch. */

import { invalidValue } from '../base/errors.js'
import type { Driver } from '../driver/driver.js'
import type { BufferCore } from '../memory/buffer-core.js'
import type { CheckedArgument, Parameter } from './kernel-signature.js'

/**
 * Looks at the memory among checked arguments.
 * @throws ERR_CLOSED or ERR_DEVICE_MISMATCH for memory that cannot be used; ERR_INVALID_ARG_VALUE where it begins in
 * the middle of an element, which a GPU answers with a fault
 */
export function checkMemoryOpen(
  args: readonly CheckedArgument[],
  parameters: readonly Parameter[],
  driver: Driver,
): void {
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index]
    if (typeof argument !== 'object') continue
    const { pointer } = argument.openFor(driver)
    // By the last bits: V8 calls C for the remainder of a number beyond 32 bits.
    if ((pointer & ((parameters[index]?.bytes ?? 1) - 1)) !== 0) throw misaligned(argument, parameters[index], index)
  }
}

function misaligned(argument: BufferCore, parameter: Parameter | undefined, index: number): Error {
  const what = `a multiple of ${parameter?.bytes}, for ${parameter?.type}`
  return invalidValue(`Argument ${index}: ${argument} does not begin at ${what}`)
}

/** The memory among checked arguments. */
export const memoryIn = (args: readonly CheckedArgument[]): readonly BufferCore[] =>
  args.filter((argument) => typeof argument === 'object')
