/** What streams are called in a timeline. */
import { driverOf } from '../device.js'
import { cudaHandleOf, type Driver, isDefaultStream } from '../driver/driver.js'
import { invalidType } from '../errors.js'
import { isStream, type Stream } from '../stream.js'
import type { Lane } from './lanes.js'

const names = new WeakMap<Driver, Map<string, string>>()

/**
 * Gives a stream a name for timelines. It is the stream's, and not the object's: other wrappers of the stream have it too.
 * @throws ERR_INVALID_ARG_TYPE, ERR_CLOSED; CudaError while the stream captures
 */
export function nameStream<S extends Stream>(stream: S, name: string): S {
  if (!isStream(stream)) throw invalidType('stream', 'a Stream', stream)
  if (typeof name !== 'string') throw invalidType('name', 'a text', name)
  const driver = driverOf(stream.device)
  const known = names.get(driver) ?? new Map<string, string>()
  known.set(`${stream.device.ordinal} ${stream.id}`, name)
  names.set(driver, known)
  return stream
}

export function laneName(driver: Driver, { device, id, handle }: Lane): string {
  const given = names.get(driver)?.get(`${device} ${id}`)
  if (given !== undefined) return given
  if (!isDefaultStream(handle)) return `stream ${id}`
  return cudaHandleOf(handle) === 2 ? 'per-thread stream' : 'null stream'
}
