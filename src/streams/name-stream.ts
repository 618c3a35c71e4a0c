/** Names for streams, which two doors offer: cuda-streams/sanitizer and cuda-streams/timeline. */

import { invalidType } from '../base/errors.js'
import { driverOf } from '../device.js'
import { giveName } from '../driver/stream-names.js'
import type { Stream } from '../stream.js'
import { isStream, openStream } from './stream-core.js'

/**
 * Gives a stream a name, for reports of the sanitizer and for timelines. It is the stream's, and not the object's: other
 * wrappers of the stream have it too. Returns the stream.
 * @throws ERR_INVALID_ARG_TYPE, ERR_CLOSED; CudaError while the stream captures
 */
export function nameStream<S extends Stream>(stream: S, name: string): S {
  if (!isStream(stream)) throw invalidType('stream', 'a Stream', stream)
  if (typeof name !== 'string') throw invalidType('name', 'a string', name)
  const { device, handle, ordinal, id } = openStream(stream)
  giveName({ driver: driverOf(device), stream: handle, device: ordinal, id, name })
  return stream
}
