/** Memory among a kernel's arguments: opened for the launch, and written down as used by its stream. */
import type { Driver } from './driver/driver.js'
import type { CheckedArgument } from './kernel-signature.js'
import { type OpenMemory, openMemory } from './memory.js'
import type { StreamUse } from './uses.js'

export interface OpenArguments {
  /** As they are passed: memory by its address. */
  readonly values: readonly (number | bigint)[]
  readonly memory: readonly OpenMemory[]
}

/** Throws ERR_CLOSED or ERR_DEVICE_MISMATCH for memory that cannot be used. */
export function openArguments(args: readonly CheckedArgument[], driver: Driver): OpenArguments {
  const memory: OpenMemory[] = []
  const values = args.map((argument) => {
    if (typeof argument !== 'object') return argument
    const open = openMemory(argument, driver)
    memory.push(open)
    return open.pointer
  })
  return { values, memory }
}

/** Queues something that uses memory. What is captured runs when its graph is launched: nothing is used yet. */
export function queueWith(use: StreamUse, memory: readonly OpenMemory[], queue: () => void): void {
  const runs = memory.length > 0 && !use.driver.streamIsCapturing(use.handle)
  if (runs) for (const { allocation } of memory) allocation.beforeUse(use)
  queue()
  if (runs) for (const { allocation } of memory) allocation.afterUse(use)
}
