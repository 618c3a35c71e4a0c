/** What streams are called in a timeline. */
import { cudaHandleOf, type Driver, isDefaultStream } from '../driver/driver.js'
import { givenName } from '../driver/stream-names.js'
import type { TimelineLane } from './lanes.js'

export function laneName(driver: Driver, { id, handle }: Omit<TimelineLane, 'name'>): string {
  const given = givenName(driver, handle, id)
  if (given !== undefined) return given
  if (!isDefaultStream(handle)) return `stream ${id}`
  return cudaHandleOf(handle) === 2 ? 'per-thread stream' : 'null stream'
}
