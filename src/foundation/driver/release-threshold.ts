/**
 * The number of bytes that pools keep for later allocations, unless the program sets another. Both backends use it
 * for new pools.
 */
import { VARIABLES } from '../base/environment-variables.js'

let threshold: number | undefined

/**
 * Bytes; Infinity unless the variable says otherwise: CUDA's own 0 gives memory back to the device at each wait of the host,
 * and takes it again at the next allocation.
 */
export function releaseThreshold(): number {
  threshold ??= VARIABLES.releaseThreshold.read()
  return threshold
}
