/** Arrays of programs, as bytes. */
import { types } from '#platform'

/** Bytes of an ordinary array: a typed array, a DataView, a Buffer, or a whole ArrayBuffer, shared or not. */
export type Bytes = ArrayBufferView | ArrayBufferLike

export const isBytes = (value: unknown): value is Bytes => ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)
