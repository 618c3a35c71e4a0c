/** A kernel's parameters, as the caller states them: checked by TypeScript, and again at each launch. */

import { checkArray } from '../base/arguments.js'
import { invalidType, invalidValue, outOfRange } from '../base/errors.js'
import { type Access, SCALAR_BYTES, type ScalarType } from '../driver/driver.js'
import { bufferCoreOf } from '../memory/buffer.js'
import type { BufferCore } from '../memory/buffer-core.js'
import type { DeviceBuffer } from '../memory/device-buffer.js'
import type { PinnedBuffer } from '../memory/pinned-buffer.js'

export type { Access, ScalarType } from '../driver/driver.js'
/**
 * A scalar such as 'f32', or a pointer with the kernel's access to its memory, such as 'in f32*'. 'atomic f32*', in full
 * 'inout atomic f32*', is for memory that the kernel touches by atomic operations alone.
 */
export type ParameterType = ScalarType | `${Access | 'inout atomic'} ${ScalarType}*`

/**
 * Memory as an argument for a pointer: a buffer on a device, a pinned one, or an address. An address is passed without
 * a check: its memory does not count as used, so that closing the buffer does not wait for the kernel, and the
 * sanitizer does not see it. On the simulator it is refused, with ERR_INVALID_ARG_TYPE.
 */
export type MemoryArgument = DeviceBuffer | PinnedBuffer | bigint | number

/** The caller's argument for a parameter of this type. */
export type ArgumentOf<P extends ParameterType> = P extends `${string}*`
  ? MemoryArgument
  : P extends 'i64' | 'u64'
    ? bigint | number
    : P extends 'bool'
      ? boolean
      : number

/** The caller's arguments for all parameters. */
export type ArgumentsOf<S extends readonly ParameterType[]> = { readonly [I in keyof S]: ArgumentOf<S[I]> }

export interface Parameter {
  readonly type: ScalarType
  /** Set for a pointer. */
  readonly access: Access | undefined
  /** Of a value of that type: what a pointer points to begins at a multiple of them. */
  readonly bytes: 1 | 2 | 4 | 8
}

const POINTER = /^(in|out|inout|(?:inout )?atomic) ([a-z0-9]+)\*$/

/** Integer ranges; i64 and u64 as bigints. */
const RANGES: Readonly<Partial<Record<ScalarType, readonly [number | bigint, number | bigint]>>> = {
  i8: [-128, 127],
  u8: [0, 255],
  i16: [-32768, 32767],
  u16: [0, 65535],
  i32: [-2147483648, 2147483647],
  u32: [0, 4294967295],
  i64: [-(2n ** 63n), 2n ** 63n - 1n],
  u64: [0n, 2n ** 64n - 1n],
}

export function parseSignature(signature: unknown): readonly Parameter[] {
  return checkArray(signature, 'signature', "an array such as ['in f32*', 'i32']").map((text, index) => {
    if (typeof text !== 'string') throw invalidType(`signature[${index}]`, "a type such as 'in f32*' or 'i32'", text)
    const [, access, pointed] = POINTER.exec(text) ?? []
    const type = pointed ?? text
    if (!isScalar(type)) {
      const scalars = Object.keys(SCALAR_BYTES).join(', ')
      throw invalidValue(
        `signature[${index}] is '${text}': it must be one of ${scalars}, or for a pointer 'in', 'out', 'inout' or 'atomic', then one of them and *`,
      )
    }
    const way = (access === 'inout atomic' ? 'atomic' : access) as Access | undefined
    return { type, access: way, bytes: SCALAR_BYTES[type] }
  })
}

/** A parameter as the caller states it. */
export const typeOf = ({ type, access }: Parameter): ParameterType =>
  access === undefined ? type : `${access} ${type}*`

/** The type by which a parameter is passed: a pointer is 64 bits. */
export const passedAs = ({ type, access }: Parameter): ScalarType => (access === undefined ? type : 'u64')

/** An argument that is checked: a scalar or an address as it is passed, or memory, which may be closed. */
export type CheckedArgument = number | bigint | BufferCore

/** Checks the arguments of a launch, in place: returns the same array. */
export function checkArguments(parameters: readonly Parameter[], args: unknown[]): CheckedArgument[] {
  if (args.length !== parameters.length) {
    throw invalidValue(`The kernel takes ${parameters.length} argument(s), and ${args.length} were given`)
  }
  for (let index = 0; index < args.length; index += 1) {
    const parameter = parameters[index]
    if (parameter !== undefined) args[index] = checkArgument(parameter, args[index], index)
  }
  return args as CheckedArgument[]
}

/** What most launches have: V8 inlines short functions alone. */
function checkArgument({ type, access }: Parameter, value: unknown, index: number): CheckedArgument {
  if (access !== undefined) return bufferCoreOf(value) ?? checkAddress(value, index)
  if (typeof value === 'number') {
    if (type === 'f32' || type === 'f64') return value
    if (type === 'i32' && (value | 0) === value) return value
    if (type === 'u32' && value >>> 0 === value) return value
  }
  return checkScalar(type, value, index)
}

function checkScalar(type: ScalarType, value: unknown, index: number): number | bigint {
  if (type === 'bool') {
    if (typeof value !== 'boolean') throw invalidType(`Argument ${index}`, 'true or false', value)
    return value ? 1 : 0
  }
  if (typeof value === 'bigint' && (type === 'i64' || type === 'u64')) return inRange(type, value, index)
  if (typeof value !== 'number') throw invalidType(`Argument ${index}`, `a number, for ${type}`, value)
  if (!Number.isInteger(value)) throw invalidType(`Argument ${index}`, `an integer, for ${type}`, value)
  if (Number.isSafeInteger(value)) return inRange(type, value, index)
  const [least, most] = RANGES[type] ?? []
  const beyond = typeof most === 'bigint' ? ', and a bigint where it is not a safe integer' : ''
  throw outOfRange(`Argument ${index}`, `from ${least} to ${most}, for ${type}${beyond}`, value)
}

function inRange(type: ScalarType, value: number | bigint, index: number): number | bigint {
  const [least, most] = RANGES[type] ?? [value, value]
  if (value < least || value > most)
    throw outOfRange(`Argument ${index}`, `from ${least} to ${most}, for ${type}`, value)
  return value
}

function checkAddress(value: unknown, index: number): number | bigint {
  if (typeof value === 'bigint') {
    if (BigInt.asUintN(64, value) === value) return value
  } else if (typeof value !== 'number' || !Number.isInteger(value)) {
    throw invalidType(`Argument ${index}`, 'a DeviceBuffer, a PinnedBuffer, or an address', value)
  } else if (value >= 0 && Number.isSafeInteger(value)) return value
  throw outOfRange(`Argument ${index}`, 'a pointer of 64 bits', value)
}

function isScalar(text: string): text is ScalarType {
  return Object.hasOwn(SCALAR_BYTES, text)
}
