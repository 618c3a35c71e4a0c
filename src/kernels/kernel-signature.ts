/** A kernel's parameters, as the caller states them, and its arguments: checked by TypeScript, and again at each launch. */
import { checkArray } from '../base/arguments.js'
import { ELEMENT_TYPES, elementType, elementTypesWith, type ScalarType } from '../base/element-types.js'
import { invalidType, invalidValue, outOfRange, stateError } from '../base/errors.js'
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

/** Checks the arguments of a launch of the kernel with this name, in place: returns the same array. */
export function checkArguments(kernel: string, parameters: readonly Parameter[], args: unknown[]): CheckedArgument[] {
  if (args.length !== parameters.length) throw wrongNumber(kernel, parameters, args)
  for (let index = 0; index < args.length; index += 1) {
    const parameter = parameters[index]
    if (parameter !== undefined) args[index] = checkArgument(kernel, parameter, args[index], index)
  }
  return args as CheckedArgument[]
}

function wrongNumber(kernel: string, parameters: readonly Parameter[], args: readonly unknown[]): Error {
  const takes = `${parameters.length} argument${parameters.length === 1 ? '' : 's'}`
  const types = parameters.length === 0 ? '' : `, ${parameters.map((one) => `'${typeOf(one)}'`).join(', ')}`
  const way = args.length === 1 && Array.isArray(args[0]) ? ': pass them one by one, not as an array' : ''
  return invalidValue(`${kernel} takes ${takes}${types}, and ${args.length} were given${way}`)
}

/** The name of an argument in error messages. */
const nameOf = (kernel: string, parameter: Parameter, index: number): string =>
  `${kernel}: argument ${index} ('${typeOf(parameter)}')`

/** The common cases, kept short so that V8 inlines them. */
function checkArgument(kernel: string, parameter: Parameter, value: unknown, index: number): CheckedArgument {
  const { type, access } = parameter
  if (access !== undefined) return bufferImplOf(value) ?? checkAddress(kernel, parameter, value, index)
  if (typeof value === 'number') {
    if (type === 'f32' || type === 'f64') return value
    if (type === 'i32' && (value | 0) === value) return value
    if (type === 'u32' && value >>> 0 === value) return value
  }
  return checkScalar(parameter, value, nameOf(kernel, parameter, index))
}

function checkScalar({ type }: Parameter, value: unknown, name: string): number | bigint {
  if (type === 'bool') {
    if (typeof value !== 'boolean') throw invalidType(name, 'true or false', value)
    return value ? 1 : 0
  }
  if (typeof value === 'bigint' && (type === 'i64' || type === 'u64')) return inRange(type, value, name)
  if (typeof value !== 'number') throw invalidType(name, 'a number', value)
  if (!Number.isInteger(value)) throw invalidType(name, 'an integer', value)
  if (Number.isSafeInteger(value)) return inRange(type, value, name)
  const [least, most] = elementType(type).range ?? []
  const beyond = typeof most === 'bigint' ? ', and a bigint where it is not a safe integer' : ''
  throw outOfRange(name, `from ${least} to ${most}${beyond}`, value)
}

function inRange(type: ScalarType, value: number | bigint, name: string): number | bigint {
  const [least, most] = elementType(type).range ?? [value, value]
  if (value < least || value > most) throw outOfRange(name, `from ${least} to ${most}`, value)
  return value
}

function checkAddress(kernel: string, parameter: Parameter, value: unknown, index: number): number | bigint {
  if (typeof value === 'bigint') {
    if (BigInt.asUintN(64, value) === value) return value
  } else if (typeof value !== 'number' || !Number.isInteger(value)) {
    const way = ArrayBuffer.isView(value) ? 'stream.bufferFrom(array) makes a buffer of an array' : undefined
    throw invalidType(nameOf(kernel, parameter, index), 'a DeviceBuffer, a PinnedBuffer, or an address', value, way)
  } else if (value >= 0 && Number.isSafeInteger(value)) return value
  throw outOfRange(nameOf(kernel, parameter, index), 'a pointer of 64 bits', value)
}

const isScalar = (text: string): text is ScalarType => SCALARS.some((scalar) => scalar === text)

/**
 * Throws for memory that is closed, of another driver, or begins in the middle of an element, which would be a fault of the
 * GPU.
 */
export function checkMemoryOpen(
  kernel: string,
  parameters: readonly Parameter[],
  args: readonly CheckedArgument[],
  driver: Driver,
): void {
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index]
    const parameter = parameters[index]
    if (argument === undefined || parameter === undefined) continue
    if (typeof argument === 'object') {
      if (argument.isClosed) throw closedArgument(nameOf(kernel, parameter, index), argument)
      const { pointer } = argument.openFor(driver)
      // V8 calls C for the remainder of a number beyond 32 bits.
      if ((pointer & (parameter.bytes - 1)) !== 0) {
        throw misaligned(nameOf(kernel, parameter, index), String(argument), parameter)
      }
    } else if (parameter.access !== undefined && Number(BigInt(argument) & 7n) % parameter.bytes !== 0) {
      throw misaligned(nameOf(kernel, parameter, index), `memory at the address ${argument}`, parameter)
    }
  }
}

const closedArgument = (name: string, argument: BufferImpl): Error =>
  stateError('ERR_CLOSED', `${name}: ${argument} cannot be used any more`)

const misaligned = (name: string, what: string, { bytes, type }: Parameter): Error =>
  invalidValue(`${name}: ${what} does not begin at a multiple of ${bytes}, for ${type}`)

/** The memory among checked arguments. */
export const memoryIn = (args: readonly CheckedArgument[]): readonly BufferImpl[] =>
  args.filter((argument) => typeof argument === 'object')
