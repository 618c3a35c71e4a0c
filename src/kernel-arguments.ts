/** Memory among a kernel's arguments: opened for the launch. */
import type { Driver } from './driver/driver.js'
import type { KernelMemory } from './driver/kernel-driver.js'
import type { CheckedArgument, Parameter } from './kernel-signature.js'
import { type OpenMemory, openMemory } from './memory.js'

export interface OpenArguments {
  /** As they are passed: memory by its address. */
  readonly values: readonly (number | bigint)[]
  /** The memory among them, in their order. */
  readonly memory: readonly (OpenMemory & KernelMemory)[]
}

const NO_MEMORY: readonly never[] = []

/** Throws ERR_CLOSED or ERR_DEVICE_MISMATCH for memory that cannot be used. Takes the array over. */
export function openArguments(
  args: CheckedArgument[],
  parameters: readonly Parameter[],
  driver: Driver,
): OpenArguments {
  let memory: (OpenMemory & KernelMemory)[] | undefined
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index]
    if (typeof argument !== 'object') continue
    const { allocation, pointer } = openMemory(argument, driver)
    const { byteLength } = argument
    args[index] = pointer
    memory ??= []
    memory.push({ allocation, pointer, byteLength, access: parameters[index]?.access ?? 'inout' })
  }
  return { values: args as (number | bigint)[], memory: memory ?? NO_MEMORY }
}
