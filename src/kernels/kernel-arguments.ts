/** Memory among a kernel's arguments: opened for the launch. */

import { invalidValue } from '../base/errors.js'
import type { Driver, KernelMemory } from '../driver/driver.js'
import { openMemory } from '../memory/buffer.js'
import type { OpenMemory } from '../memory/buffer-core.js'
import type { CheckedArgument, Parameter } from './kernel-signature.js'

export interface ArgumentMemory extends OpenMemory, KernelMemory {}

/** Arguments as they are passed: memory by its address. */
export type LaunchValues = readonly (number | bigint)[]

/**
 * Replaces memory by its address, so that the arguments are LaunchValues, and returns that memory; undefined where
 * there is none.
 * @throws ERR_CLOSED or ERR_DEVICE_MISMATCH for memory that cannot be used; ERR_INVALID_ARG_VALUE where it begins in
 * the middle of an element, which a GPU answers with a fault
 */
export function openArguments(
  args: CheckedArgument[],
  parameters: readonly Parameter[],
  driver: Driver,
): readonly ArgumentMemory[] | undefined {
  let memory: ArgumentMemory[] | undefined
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index]
    const parameter = parameters[index]
    if (typeof argument !== 'object' || parameter?.access === undefined) continue
    const { allocation, pointer } = openMemory(argument, driver)
    const { byteLength } = argument
    const { type, access, bytes } = parameter
    // By the last bits: V8 calls C for the remainder of a number beyond 32 bits.
    if ((pointer & (bytes - 1)) !== 0) {
      throw invalidValue(`Argument ${index}: ${argument} does not begin at a multiple of ${bytes}, for ${type}`)
    }
    args[index] = pointer
    memory ??= []
    memory.push({
      allocation,
      pointer,
      byteLength,
      access,
      argument: index,
      rows: undefined,
    })
  }
  return memory
}
