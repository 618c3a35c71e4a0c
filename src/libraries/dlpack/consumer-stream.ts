/** Streams by the numbers that DLPack and __cuda_array_interface__ have for them. */
import { invalidType, invalidValue, stateError } from '../../base/errors.js'
import { type Device, elsewhere } from '../../device.js'
import { cudaHandleOf, isNullStream } from '../../driver/driver.js'
import type { Stream } from '../../stream.js'
import { StreamCore, streamCoreOf } from '../../streams/stream-core.js'

/** A stream, or the number that a protocol has for it: 1 is the null stream, 2 the per-thread one, others are handles. */
export type ProtocolStream = Stream | bigint | number

/** 0 would be the null stream's handle, and is not allowed: it reads as "none" in C. */
export function numberOf(stream: StreamCore): number {
  stream.handOut()
  return isNullStream(stream.handle) ? 1 : cudaHandleOf(stream.handle)
}

/** @throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE for 0, and as `new ExternalStream(handle)` */
export function streamOfNumber(given: unknown, device: Device, name: string): StreamCore {
  const known = streamCoreOf(given)
  if (known !== undefined) return known
  if (typeof given !== 'number' && typeof given !== 'bigint') {
    throw invalidType(name, 'a Stream, or the number of one as the protocol has it', given)
  }
  if (Number(given) === 0) throw invalidValue(`${name} must not be 0: the null stream is 1, and no stream is null`)
  return StreamCore.wrap(given, { device })
}

/**
 * Opens a stream of the memory's device that is to come after work of others, which cannot be captured.
 * @throws ERR_CLOSED, ERR_DEVICE_MISMATCH, ERR_UNSUPPORTED
 */
export function openOn(device: Device, stream: StreamCore, what: string): StreamCore {
  stream.makeRoom(0)
  if (stream.device !== device) {
    const where = elsewhere(stream.device, device)
    throw stateError('ERR_DEVICE_MISMATCH', `${stream} is on ${where}, and the memory on ${device}`)
  }
  if (!stream.isCapturing) return stream
  throw stateError('ERR_UNSUPPORTED', `${what} cannot be captured: ${stream} captures. Do it before the capture begins`)
}
