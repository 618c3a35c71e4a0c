/** Memory among a kernel's arguments: opened for the launch. */
import type { Driver } from './driver/driver.js'
import type { CheckedArgument } from './kernel-signature.js'
import { type OpenMemory, openMemory } from './memory.js'

export interface OpenArguments {
  /** As they are passed: memory by its address. */
  readonly values: readonly (number | bigint)[]
  /** Undefined where no argument is memory. */
  readonly memory: readonly OpenMemory[] | undefined
}

/** Throws ERR_CLOSED or ERR_DEVICE_MISMATCH for memory that cannot be used. Takes the array over. */
export function openArguments(args: CheckedArgument[], driver: Driver): OpenArguments {
  let memory: OpenMemory[] | undefined
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index]
    if (typeof argument !== 'object') continue
    const open = openMemory(argument, driver)
    args[index] = open.pointer
    if (memory === undefined) memory = [open]
    else memory.push(open)
  }
  return { values: args as (number | bigint)[], memory }
}
