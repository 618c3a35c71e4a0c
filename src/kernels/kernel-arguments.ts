/** Memory among a kernel's arguments: opened for the launch. */

import { invalidValue } from '../base/errors.js'
import type { Driver } from '../driver/driver.js'
import type { BufferCore } from '../memory/buffer-core.js'
import type { CheckedArgument, Parameter } from './kernel-signature.js'

/** Throws for memory that is closed, of another driver, or begins in the middle of an element: a fault of the GPU. */
export function checkMemoryOpen(
  args: readonly CheckedArgument[],
  parameters: readonly Parameter[],
  driver: Driver,
): void {
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index]
    if (typeof argument !== 'object') continue
    const { pointer } = argument.openFor(driver)
    // V8 calls C for the remainder of a number beyond 32 bits.
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
