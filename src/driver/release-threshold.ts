/**
 * The number of bytes that pools keep for later allocations, unless the program sets another. Both backends use it
 * for new pools.
 */
import { variable } from '../base/environment-variables.js'
import { invalidValue } from '../base/errors.js'

const VARIABLE = 'CUDA_STREAMS_RELEASE_THRESHOLD'

let threshold: number | undefined

/**
 * Bytes; Infinity unless the variable says otherwise: CUDA's own 0 gives memory back to the device at each wait of the host,
 * and takes it again at the next allocation.
 */
export function releaseThreshold(): number {
  threshold ??= read()
  return threshold
}

function read(): number {
  const wanted = variable(VARIABLE)
  if (wanted === undefined) return Number.POSITIVE_INFINITY
  const bytes = Number(wanted)
  if (/^\d+$/.test(wanted) && Number.isSafeInteger(bytes)) return bytes
  throw invalidValue(`${VARIABLE} must be a number of bytes, such as 1073741824, not '${wanted}'`)
}
