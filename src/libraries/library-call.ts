/** What the calls of libraries have in common: how their functions are declared, and how buffers become arguments. */

import { type Device, driverOf, elsewhere } from '../core/device.js'
import { type OpenMemory, openMemory } from '../core/memory/buffer.js'
import { type DeviceBuffer, isDeviceBuffer } from '../core/memory/device-buffer.js'
import type { StreamImpl } from '../core/streams/stream-impl.js'
import { invalidType, invalidValue, stateError } from '../foundation/base/errors.js'
import type { Access, MemoryRows, TouchedMemory } from '../foundation/driver/touched-memory.js'
import type { CFunction } from '../foundation/native/c-functions.js'
import { OwnedKind, type Owning, Trait } from '../foundation/native/owned-handles.js'
import type { SharedLibrary } from '../foundation/native/shared-library.js'

/** The parameters of a prototype in C, such as 'int *version'. */
export const parametersOf = (prototype: string): string => /\((.*)\)$/.exec(prototype)?.[1] ?? ''

/**
 * What functions of a library make: by the name of the function, that of the function which destroys it, and the position of the parameter that points
 * to where the handle is written. It is destroyed, too, once the thread has ended.
 */
export type MadeByLibrary = Readonly<Record<string, readonly [destroyedBy: string, argument: number, isInt?: boolean]>>

/** @internal Declares functions that return a status, by their prototypes. Throws an Error if the library lacks one. */
export function declareFunctions<N extends string>(
  library: SharedLibrary,
  prototypes: Readonly<Record<N, string>>,
  made: MadeByLibrary = {},
): Readonly<Record<N, CFunction>> {
  const rows = Object.entries<string>(prototypes).map(([name, prototype]) => [name, parametersOf(prototype)])
  const owning = new Map<string, Owning>()
  for (const [name, [destroyedBy, argument, isInt = false]] of Object.entries(made)) {
    // The destruction of some waits for the device, and of none is it known not to.
    const traits = Trait.WAITS | (isInt ? Trait.IS_INT : 0)
    const kind = new OwnedKind(library.addressOf(destroyedBy), destroyedBy, traits)
    owning.set(name, { kind, role: 'made', argument })
    owning.set(destroyedBy, { kind, role: 'destroyed', argument: 0 })
  }
  return library.functions(Object.fromEntries(rows) as Record<N, string>, owning)
}

/** A buffer that a call gets, and how the call uses it: checked at once, and opened when the work is queued. */
export interface GivenMemory {
  readonly buffer: DeviceBuffer
  readonly access: Access
  /** The bytes that are touched, from the buffer's beginning. */
  readonly byteLength: number
  /** The rows among them that are touched; undefined: all bytes. */
  readonly rows: MemoryRows | undefined
}

/** The whole memory of a buffer, with an access. */
export const wholeOf = (buffer: DeviceBuffer, access: Access): GivenMemory => ({
  buffer,
  access,
  byteLength: buffer.byteLength,
  rows: undefined,
})

/** A buffer on the device of the work that elements of so many bytes can be in. */
export function checkDeviceBuffer(
  buffer: unknown,
  name: string,
  width: number,
  { device }: { readonly device: Device },
): DeviceBuffer {
  if (!isDeviceBuffer(buffer)) throw invalidType(name, 'a DeviceBuffer', buffer)
  if (buffer.device !== device) {
    const what = `${name} is on ${buffer.device}, and the work on ${elsewhere(device, buffer.device)}`
    const isNear = driverOf(buffer.device) === driverOf(device)
    throw stateError('ERR_DEVICE_MISMATCH', isNear ? `${what}: copy it there` : what)
  }
  if (Number(buffer.pointer) % width === 0) return buffer
  throw invalidValue(`${name} begins in the middle of an element of ${width} bytes: ${buffer}`)
}

export type UsedMemory = OpenMemory & TouchedMemory

/** Opens the buffers. Throws ERR_CLOSED or ERR_DEVICE_MISMATCH. */
export function openGiven(given: readonly GivenMemory[], use: StreamImpl): readonly UsedMemory[] {
  return given.map(({ buffer, access, byteLength, rows }) => {
    const { allocation, pointer } = openMemory(buffer, use.driver)
    return { allocation, pointer, byteLength, access, rows, argument: undefined }
  })
}
