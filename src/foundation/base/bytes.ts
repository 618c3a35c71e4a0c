/** Arrays of the program, as bytes. */
import { invalidType, invalidValue } from './errors.js'
import { Buffer, constants, types } from './node-modules.js'

/**
 * A Uint8Array over an ArrayBuffer, as `new Blob([bytes])` wants it. TypeScript before 5.7 has no type arguments of typed
 * arrays, so declarations cannot say `Uint8Array<ArrayBuffer>`; this is that type in the versions that have it.
 */
export type OwnBytes = ReturnType<typeof Uint8Array.of>

/** Bytes of an ordinary array: a typed array, a DataView, a Buffer, or a whole ArrayBuffer, shared or not. */
export type Bytes = ArrayBufferView | ArrayBufferLike

/** The most elements that a typed array can have. */
export const LONGEST_ARRAY: number = constants.MAX_LENGTH

export const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0

export const isBytes = (value: unknown): value is Bytes => ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)

/**
 * The bytes themselves, not a copy, of an array.
 * @throws ERR_INVALID_ARG_VALUE if the array has been detached, or its ArrayBuffer has become too short for it
 */
export function bytesOf(source: Bytes, name: string): Uint8Array {
  try {
    if (!ArrayBuffer.isView(source)) return new Uint8Array(source)
    const { buffer, byteOffset, byteLength } = source
    // A typed array that has become too long for its ArrayBuffer has length 0, and only its iterators throw.
    if (byteLength === 0 && types.isTypedArray(source)) (source as Uint8Array).values()
    return new Uint8Array(buffer, byteOffset, byteLength)
  } catch {
    throw invalidValue(`${name} has been detached or shortened: its bytes are somewhere else, or gone`)
  }
}

/** The bytes of an argument that must be an array of bytes. */
export function checkSource(source: unknown, name: string): Uint8Array {
  if (isBytes(source)) return bytesOf(source, name)
  const way = Array.isArray(source)
    ? 'an array of numbers has no type: Float32Array.from(numbers) is one of floats'
    : undefined
  throw invalidType(name, 'a typed array, a DataView or an ArrayBuffer', source, way)
}

/** A copy of a Uint8Array that must have one of these lengths. */
export function checkBytes(
  value: unknown,
  name: string,
  lengths: readonly number[],
  expected: string = `${lengths.join(' or ')} bytes`,
): Uint8Array {
  if (!types.isUint8Array(value)) throw invalidType(name, `a Uint8Array of ${expected}`, value)
  const bytes = bytesOf(value, name)
  if (lengths.includes(bytes.length)) return bytes.slice()
  throw invalidValue(`${name} must be ${expected}, not ${bytes.length}`)
}
