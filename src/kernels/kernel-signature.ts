/** A kernel's parameters, as the caller states them, and its arguments: checked by TypeScript, and again at each launch. */
import { checkArray } from '../base/arguments.js'
import { ELEMENT_TYPES, elementType, elementTypesWith, type ScalarType } from '../base/element-types.js'
import { invalidType, invalidValue, outOfRange } from '../base/errors.js'
import type { Access, Driver } from '../driver/driver.js'
import { type BufferImpl, bufferImplOf } from '../memory/buffer.js'
import type { DeviceBuffer } from '../memory/device-buffer.js'
import type { PinnedBuffer } from '../memory/pinned-buffer.js'

export type { ScalarType } from '../base/element-types.js'
export type { Access } from '../driver/driver.js'

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
  /** The bytes of a value of that type. The memory of a pointer begins at a multiple of them. */
  readonly bytes: 1 | 2 | 4 | 8
}

const POINTER = /^(in|out|inout|(?:inout )?atomic) ([a-z0-9]+)\*$/

const SCALARS = elementTypesWith('array')

export function parseSignature(signature: unknown): readonly Parameter[] {
  return checkArray(signature, 'signature', "an array such as ['in f32*', 'i32']").map((text, index) => {
    if (typeof text !== 'string') throw invalidType(`signature[${index}]`, "a type such as 'in f32*' or 'i32'", text)
    const [, access, pointed] = POINTER.exec(text) ?? []
    const type = pointed ?? text
    if (!isScalar(type)) {
      const scalars = SCALARS.join(', ')
      throw invalidValue(
        `signature[${index}] is '${text}': it must be one of ${scalars}, or for a pointer 'in', 'out', 'inout' or 'atomic', then one of them and *`,
      )
    }
    const way = (access === 'inout atomic' ? 'atomic' : access) as Access | undefined
    return { type, access: way, bytes: ELEMENT_TYPES[type].bytes }
  })
}

/** A parameter as the caller states it. */
export const typeOf = ({ type, access }: Parameter): ParameterType =>
  access === undefined ? type : `${access} ${type}*`

/** The type by which a parameter is passed: a pointer is 64 bits. */
export const passedAs = ({ type, access }: Parameter): ScalarType => (access === undefined ? type : 'u64')

/** A checked argument: a scalar or an address as it is passed, or memory, which may be closed. */
export type CheckedArgument = number | bigint | BufferImpl

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

/** The common cases, kept short so that V8 inlines them. */
function checkArgument({ type, access }: Parameter, value: unknown, index: number): CheckedArgument {
  if (access !== undefined) return bufferImplOf(value) ?? checkAddress(value, index)
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
  const [least, most] = elementType(type).range ?? []
  const beyond = typeof most === 'bigint' ? ', and a bigint where it is not a safe integer' : ''
  throw outOfRange(`Argument ${index}`, `from ${least} to ${most}, for ${type}${beyond}`, value)
}

function inRange(type: ScalarType, value: number | bigint, index: number): number | bigint {
  const [least, most] = elementType(type).range ?? [value, value]
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

const isScalar = (text: string): text is ScalarType => SCALARS.some((scalar) => scalar === text)

/**
 * Throws for memory that is closed, of another driver, or begins in the middle of an element, which would be a fault of the
 * GPU.
 */
export function checkMemoryOpen(
  args: readonly CheckedArgument[],
  parameters: readonly Parameter[],
  driver: Driver,
): void {
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index]
    const parameter = parameters[index]
    if (argument === undefined || parameter === undefined) continue
    if (typeof argument === 'object') {
      const { pointer } = argument.openFor(driver)
      // V8 calls C for the remainder of a number beyond 32 bits.
      if ((pointer & (parameter.bytes - 1)) !== 0) throw misaligned(String(argument), parameter, index)
    } else if (parameter.access !== undefined && Number(BigInt(argument) & 7n) % parameter.bytes !== 0) {
      throw misaligned(`memory at the address ${argument}`, parameter, index)
    }
  }
}

const misaligned = (what: string, { bytes, type }: Parameter, index: number): Error =>
  invalidValue(`Argument ${index}: ${what} does not begin at a multiple of ${bytes}, for ${type}`)

/** The memory among checked arguments. */
export const memoryIn = (args: readonly CheckedArgument[]): readonly BufferImpl[] =>
  args.filter((argument) => typeof argument === 'object')
