/** The number of simulated devices and their memory, apart from what only the simulator reads. */
import { process } from '../foundation/base/node-modules.js'

/** The bytes of an H200 (nominally). */
export const H200_MEMORY = 141e9

let machine: { readonly bytes: number | undefined } | undefined

/**
 * The bytes of memory of this machine, or of the container that the process runs in, if that has a limit. Undefined if the process may not ask: Deno
 * needs a permission. The number is read once, since that takes longer than an allocation.
 */
export function machineMemory(): number | undefined {
  machine ??= { bytes: readMemory() }
  return machine.bytes
}

function readMemory(): number | undefined {
  try {
    const total = process.getBuiltinModule('node:os').totalmem()
    // The number is 0, or more than any machine has, if there is no limit. Deno and old versions of Node lack the function.
    return Math.min(total, process.constrainedMemory?.() || total)
  } catch {
    return undefined
  }
}

/** The bytes assumed for a machine that does not say how many it has, such as a browser's. */
const UNKNOWN_MACHINE = 2 ** 33
/** The step in which pools take memory from a device. */
export const STEP = 2 ** 25
/** The least bytes of each device, however many devices share the machine. */
const LEAST_MEMORY = 8 * STEP

/**
 * The bytes of each device unless the program says otherwise: an equal part of half of the machine's memory, and no more than an H200 has. Beyond
 * that an allocation fails, as on a GPU; the system would end the process.
 */
export function defaultMemory(devices: number): number {
  const share = Math.floor((machineMemory() ?? UNKNOWN_MACHINE) / 2 / devices / STEP) * STEP
  return Math.min(H200_MEMORY, Math.max(LEAST_MEMORY, share))
}

/** The bytes of pinned memory that a simulation has: a quarter of the machine's memory. */
export const pinnedMemory = (): number => Math.floor((machineMemory() ?? UNKNOWN_MACHINE) / 4)
