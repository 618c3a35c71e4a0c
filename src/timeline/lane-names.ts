/** What streams are called in a timeline. */
import { cudaHandleOf, type Driver, isDefaultStream } from '../driver/driver.js'
import { givenName } from '../driver/given-names.js'
import type { Lane } from './lanes.js'

export function laneName(driver: Driver, { device, id, handle }: Lane): string {
  const given = givenName(driver, device, id)
  if (given !== undefined) return given
  if (!isDefaultStream(handle)) return `stream ${id}`
  return cudaHandleOf(handle) === 2 ? 'per-thread stream' : 'null stream'
}
