/** Buffers as arguments of a library's functions: checked when they are given, opened when the work is queued. */
import { invalidType, invalidValue, stateError } from '../base/errors.js'
import { driverOf, elsewhere } from '../device.js'
import type { Access, MemoryRows, TouchedMemory } from '../driver/driver.js'
import { openMemory } from '../memory/buffer.js'
import type { OpenMemory } from '../memory/buffer-core.js'
import { type DeviceBuffer, isDeviceBuffer } from '../memory/device-buffer.js'
import type { Stream } from '../stream.js'
import type { StreamCore } from '../streams/stream-core.js'

/** A buffer that a call is given, and how the call uses it. */
export interface GivenMemory {
  readonly buffer: DeviceBuffer
  readonly access: Access
  /** Bytes that are touched, from the buffer's beginning. */
  readonly byteLength: number
  /** Only these of them are; undefined: all. */
  readonly rows: MemoryRows | undefined
}

/** All of a buffer. */
export const wholeOf = (buffer: DeviceBuffer, access: Access): GivenMemory => ({
  buffer,
  access,
  byteLength: buffer.byteLength,
  rows: undefined,
})

/**
 * Is it memory of the stream's device that elements of so many bytes can lie in?
 * @throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_DEVICE_MISMATCH
 */
export function checkDeviceBuffer(buffer: DeviceBuffer, name: string, width: number, stream: Stream): DeviceBuffer {
  if (!isDeviceBuffer(buffer)) throw invalidType(name, 'a DeviceBuffer', buffer)
  if (buffer.device !== stream.device) {
    const what = `${name} is on ${buffer.device}, and the work on ${elsewhere(stream.device, buffer.device)}`
    const isNear = driverOf(buffer.device) === driverOf(stream.device)
    throw stateError('ERR_DEVICE_MISMATCH', isNear ? `${what}: copy it there` : what)
  }
  if (Number(buffer.pointer) % width !== 0) {
    throw invalidValue(`${name} begins in the middle of an element of ${width} bytes: ${buffer}`)
  }
  return buffer
}

export type UsedMemory = OpenMemory & TouchedMemory

/** Throws ERR_CLOSED or ERR_DEVICE_MISMATCH. */
export function openGiven(given: readonly GivenMemory[], use: StreamCore): readonly UsedMemory[] {
  return given.map(({ buffer, access, byteLength, rows }) => {
    const { allocation, pointer } = openMemory(buffer, use.driver)
    return { allocation, pointer, byteLength, access, rows, argument: undefined }
  })
}
