/** How many bytes pools keep for the next allocations where the program does not say: both backends begin with it. */
import { VARIABLES } from '../base/environment-variables.js'

let threshold: number | undefined

/**
 * Bytes; Infinity unless the variable says otherwise: CUDA's own 0 gives memory back to the device at each wait of the host,
 * and takes it anew at the next allocation.
 */
export function releaseThreshold(): number {
  threshold ??= VARIABLES.releaseThreshold.read()
  return threshold
}
