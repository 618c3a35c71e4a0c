/** The error where a device has no more memory: what there is, and who holds it. */
import { CudaError, explained } from '../base/errors.js'
import type { Device } from '../device.js'
import { CUresult } from '../driver/cuda-results.js'
import type { Driver, PoolHandle } from '../driver/driver.js'
import { inBytes, largestHolders } from './holders.js'

/** What was asked for: of which pool, if not the device's, and the most that it may have. */
interface Wanted {
  readonly device: Device
  readonly byteLength: number
  readonly pool: { readonly handle: PoolHandle; readonly maxBytes: number | undefined } | undefined
}

/** Any other error is returned as it is. */
export function outOfMemory(error: unknown, driver: Driver, wanted: Wanted): unknown {
  if (!(error instanceof CudaError) || error.number !== CUresult.OUT_OF_MEMORY) return error
  return explained(error, explanation(driver, wanted))
}

function explanation(driver: Driver, { device, byteLength, pool }: Wanted): string {
  const sentences = [`There are no ${inBytes(byteLength)} left`]
  try {
    const { free, total } = driver.pools.info(device.ordinal)
    const { used, reserved } = driver.pools.usage(pool?.handle ?? driver.pools.current(device.ordinal))
    const limit = pool?.maxBytes === undefined ? '' : `, of at most ${inBytes(pool.maxBytes)}`
    sentences.push(
      `${device} has ${inBytes(free)} free of ${inBytes(total)}`,
      `The pool has reserved ${inBytes(reserved)}${limit}, and ${inBytes(used)} of them are in use`,
    )
    if (reserved > used)
      sentences.push('What is not in use may be behind work that is not done: await device.finished()')
  } catch {
    // The device has faulted since: the next call reports that.
  }
  if (driver.name === 'sim' && pool?.maxBytes === undefined)
    sentences.push('simulate({ memory }) or CUDA_STREAMS_SIM_MEMORY gives simulated devices more')
  const holders = largestHolders(device)
  if (holders !== undefined) sentences.push(`This thread has allocated most on: ${holders}`)
  return `${sentences.join('. ')}. Close what is no longer used, and try again`
}
