/** Arrays of programs, as bytes. */
import { types } from '#platform'
import { bytesOf } from '../base/arguments.js'
import { invalidType } from '../base/errors.js'

/** Bytes of an ordinary array: a typed array, a DataView, a Buffer, or a whole ArrayBuffer, shared or not. */
export type Bytes = ArrayBufferView | ArrayBufferLike

export const isBytes = (value: unknown): value is Bytes => ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)

/** @throws ERR_INVALID_ARG_TYPE where it is no array of bytes */
export function checkSource(source: unknown, name: string): Uint8Array {
  if (isBytes(source)) return bytesOf(source, name)
  throw invalidType(name, 'a typed array, a DataView or an ArrayBuffer', source)
}
