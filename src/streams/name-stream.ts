/** Names for streams, which two doors offer: cuda-streams/sanitizer and cuda-streams/timeline. */

import { invalidType } from '../base/errors.js'
import { driverOf } from '../device.js'
import { giveName } from '../driver/stream-names.js'
import { openStream, type StreamBase, streamCoreOf } from './stream-core.js'

/**
 * Gives a stream a name, for reports of the sanitizer and for timelines. The name is the stream's, and not the
 * object's: other wrappers of the stream have it too.
 * @param stream The stream.
 * @param name Any text.
 * @returns the stream
 * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_CLOSED
 * @throws {CudaError} 900 while the stream captures, unless `id` was asked before
 * @example
 * ```ts
 * import { nameStream } from 'cuda-streams/timeline'
 *
 * const copies = nameStream(new Stream(), 'copies')
 * ```
 */
export function nameStream<S extends StreamBase>(stream: S, name: string): S {
  if (streamCoreOf(stream) === undefined) throw invalidType('stream', 'a Stream', stream)
  if (typeof name !== 'string') throw invalidType('name', 'a string', name)
  const { device, handle, ordinal, id } = openStream(stream)
  giveName({ driver: driverOf(device), stream: handle, device: ordinal, id, name })
  return stream
}
