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
    const parameter = parameters[index]
    if (argument === undefined || parameter === undefined) continue
    if (typeof argument === 'object') {
      const { pointer } = argument.openFor(driver)
      // V8 calls C for the remainder of a number beyond 32 bits.
      if ((pointer & (parameter.bytes - 1)) !== 0) throw misaligned(String(argument), parameter, index)
    } else if (parameter.access !== undefined && Number(BigInt(argument) & 7n) % parameter.bytes !== 0) {
      throw misaligned(`memory at the address ${argument}`, parameter, index)
    }
  }
}

function misaligned(what: string, { bytes, type }: Parameter, index: number): Error {
  return invalidValue(`Argument ${index}: ${what} does not begin at a multiple of ${bytes}, for ${type}`)
}

/** The memory among checked arguments. */
export const memoryIn = (args: readonly CheckedArgument[]): readonly BufferCore[] =>
  args.filter((argument) => typeof argument === 'object')
