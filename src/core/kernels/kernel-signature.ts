/** A kernel's parameters, as the caller states them, and its arguments: checked by TypeScript, and again at each launch. */
import { checkArray, isOptionsObject } from '../../foundation/base/arguments.js'
import {
  didYouMean,
  type ElementLayout,
  namedLayout,
  nameFor,
  type Struct,
  scalarLayout,
  structLayout,
  TYPE_NAMES,
  type ValueOf,
  writeElement,
} from '../../foundation/base/element-layout.js'
import { dataViewOf, SCALAR_ACCESS, type ScalarType, type VectorType } from '../../foundation/base/element-types.js'
import { invalidType, invalidValue, outOfRange, stateError } from '../../foundation/base/errors.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { PassedType } from '../../foundation/driver/kernel-driver.js'
import { TENSOR_MAP_BYTES } from '../../foundation/driver/tensor-maps.js'
import type { Access } from '../../foundation/driver/touched-memory.js'
import { BufferImpl, bufferImplOf } from '../memory/buffer.js'
import type { DeviceBuffer } from '../memory/device-buffer.js'
import type { PinnedBuffer } from '../memory/pinned-buffer.js'
import { type TensorMap, tensorMapImplOf } from '../memory/tensor-map.js'
import { objectImplOf, type SurfaceObject, type TextureObject } from '../memory/texture-object.js'
import { type Condition, conditionImplOf } from './condition.js'

export type { ScalarType, VectorType } from '../../foundation/base/element-types.js'
export type { Access } from '../../foundation/driver/touched-memory.js'

/** A pointer to structs, with the kernel's access to their memory: `{ in: Particle }` is 'in Particle*'. */
export type StructPointer<S extends Struct = Struct> =
  | { readonly in: S }
  | { readonly out: S }
  | { readonly inout: S }
  | { readonly atomic: S }

/**
 * A value such as 'f32', 'f32x4' (`float4`) or a struct, or a pointer with the kernel's access to its memory, such as 'in f32*' or
 * `{ in: Particle }`. 'atomic f32*', in full 'inout atomic f32*', is for memory that the kernel touches by atomic operations alone.
 */
export type ParameterType =
  | ScalarType
  | VectorType
  | Struct
  | `${Access | 'inout atomic'} ${ScalarType | VectorType}*`
  | TensorMapType
  | StructPointer

/** A tensor map, with the kernel's access to the tensor: `const __grid_constant__ CUtensorMap`. */
export type TensorMapType = 'in tensorMap' | 'out tensorMap' | 'inout tensorMap'

/**
 * Memory as an argument for a pointer: a buffer on a device, a pinned one, or an address. An address is passed without
 * a check: its memory does not count as used, so that closing the buffer does not wait for the kernel, and the
 * sanitizer does not see it. On the simulator it is refused, with ERR_INVALID_ARG_TYPE.
 */
export type MemoryArgument = DeviceBuffer | PinnedBuffer | bigint | number

/** An array of the elements of a vector: `[1, 0, 0, 1]`, or a typed array of that length. */
export type VectorArgument<V extends VectorType> = V extends `${'i64' | 'u64'}x${string}`
  ? ValueOf<V> | BigInt64Array | BigUint64Array
  : ValueOf<V> | (ArrayBufferView & ArrayLike<number>)

/** The caller's argument for a parameter of this type. */
export type ArgumentOf<P extends ParameterType> =
  P extends Struct<infer V>
    ? V
    : P extends StructPointer | `${string}*`
      ? MemoryArgument
      : P extends TensorMapType
        ? TensorMap
        : P extends VectorType
          ? VectorArgument<P>
          : P extends 'i64' | 'u64'
            ? bigint | number | (P extends 'u64' ? Condition | SurfaceObject | TextureObject : never)
            : P extends 'bool'
              ? boolean
              : number

/** The caller's arguments for all parameters. */
export type ArgumentsOf<S extends readonly ParameterType[]> = { readonly [I in keyof S]: ArgumentOf<S[I]> }

export interface Parameter {
  /** The parameter's name in the source; undefined if the caller has not given it. */
  readonly name: string | undefined
  /** How the kernel uses the memory of a pointer; undefined for a value. */
  readonly access: Access | undefined
  /**
   * The layout of a value, or of what the pointer points to. The memory of a pointer begins at a multiple of the alignment.
   */
  readonly element: ElementLayout
  /** The type in which the parameter is passed: a pointer as 64 bits, and a float of 16 bits as those. */
  readonly passed: PassedType
  /** The type in messages, such as 'in f32*'. */
  readonly text: string
}

const POINTER = /^(in|out|inout|(?:inout )?atomic) ([a-z0-9]+)\*$/
const ACCESSES = ['in', 'out', 'inout', 'atomic'] as const

/** @param names Those of the parameters in the source, as far as they are known. */
export function parseSignature(signature: unknown, names: readonly string[] = []): readonly Parameter[] {
  const types = checkArray(signature, 'signature', "an array such as ['in f32*', 'i32']")
  return types.map((type, index) => {
    const parsed = typeof type === 'string' ? parseName(type) : parseStruct(type)
    if (parsed !== undefined) return { name: names[index], ...parsed }
    if (typeof type !== 'string' && !isOptionsObject(type)) {
      throw invalidType(`signature[${index}]`, "a type such as 'in f32*' or 'i32'", type)
    }
    const what = typeof type === 'string' ? `'${type}'` : 'an object that is no struct'
    throw invalidValue(
      `signature[${index}] is ${what}: it must be one of ${TYPE_NAMES}; for a pointer 'in', 'out', 'inout' or 'atomic', then one of them and *; 'in tensorMap'; or struct({ scale: 'f32' }), and for a pointer { in: struct({ scale: 'f32' }) }${didYouMean(typeMeantBy(type))}`,
    )
  })
}

/** The type that was probably meant by one in the words of CUDA C++, or without a direction; undefined if none is likely. */
function typeMeantBy(type: unknown): string | undefined {
  if (typeof type !== 'string') return undefined
  const [, access, constant, name = '', pointer] =
    /^(?:(in|out|inout|atomic)\s+)?(const\s+)?([\w ]*?)\s*(\*)?$/.exec(type.trim()) ?? []
  const element = namedLayout(name) === undefined ? nameFor(name) : name
  if (element === undefined) return undefined
  if (access === undefined && pointer === undefined) return element
  return `${access ?? (constant === undefined ? 'inout' : 'in')} ${element}*`
}

type Parsed = Omit<Parameter, 'name'>

const TENSOR_MAP = /^(in|out|inout) tensorMap$/
const BYTE = scalarLayout('u8')

function parseName(text: string): Parsed | undefined {
  const [, ofMap] = TENSOR_MAP.exec(text) ?? []
  if (ofMap !== undefined) return { access: ofMap as Access, element: BYTE, passed: TENSOR_MAP_BYTES, text }
  const [, access, pointed] = POINTER.exec(text) ?? []
  const element = namedLayout(pointed ?? text)
  if (element === undefined) return undefined
  if (access === undefined) return byValue(element)
  return pointerTo(element, access === 'inout atomic' ? 'atomic' : (access as Access))
}

function parseStruct(type: unknown): Parsed | undefined {
  const element = structLayout(type)
  if (element !== undefined) return byValue(element)
  if (!isOptionsObject(type)) return undefined
  const [access, ...more] = ACCESSES.filter((each) => each in type)
  const pointed = access === undefined ? undefined : structLayout(Reflect.get(type, access))
  if (access === undefined || pointed === undefined || more.length > 0) return undefined
  return pointerTo(pointed, access)
}

const pointerTo = (element: ElementLayout, access: Access): Parsed => ({
  access,
  element,
  passed: 'u64',
  text: `${access} ${element.text}*`,
})

function byValue(element: ElementLayout): Parsed {
  const { scalar, text, byteLength } = element
  const number = scalar === 'f16' || scalar === 'bf16' ? 'u16' : scalar
  const passed = scalar === text && number !== undefined ? number : byteLength
  return { access: undefined, element, passed, text }
}

/** The type by which a parameter is passed: a pointer is 64 bits. */
export const passedAs = ({ passed }: Parameter): PassedType => passed

/** A checked argument: a scalar or an address as it is passed, the bytes of a struct or vector, or memory, which may be closed. */
export type CheckedArgument = number | bigint | Uint8Array | BufferImpl

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
  const types = parameters.length === 0 ? '' : `, ${parameters.map((one) => `'${one.text}'`).join(', ')}`
  const way = args.length === 1 && Array.isArray(args[0]) ? ': pass them one by one, not as an array' : ''
  return invalidValue(`${kernel} takes ${takes}${types}, and ${args.length} were given${way}`)
}

/** The name of an argument, or of a part of it, in error messages. */
function nameOf(kernel: string, { name, text }: Parameter, index: number, path = '', type = text): string {
  if (name !== undefined) return `${kernel}: parameter \`${name}${path}\` (${type})`
  return `${kernel}: argument ${index}${path} ('${type}')`
}

/** An argument as host implementations' errors name it. */
export const describeParameter = ({ name, text }: Parameter, index: number): string =>
  name === undefined ? `argument ${index}, '${text}'` : `\`${name}\`, '${text}'`

/** The common cases, kept short so that V8 inlines them. */
function checkArgument(kernel: string, parameter: Parameter, value: unknown, index: number): CheckedArgument {
  const { passed, access } = parameter
  if (access !== undefined) {
    return passed === 'u64'
      ? (bufferImplOf(value) ?? checkAddress(kernel, parameter, value, index))
      : checkTensorMap(kernel, parameter, value, index)
  }
  if (typeof value === 'number') {
    if (passed === 'f32' || passed === 'f64') return value
    if (passed === 'i32' && (value | 0) === value) return value
    if (passed === 'u32' && value >>> 0 === value) return value
  }
  return checkValue(kernel, parameter, value, index)
}

function checkValue(kernel: string, parameter: Parameter, value: unknown, index: number): CheckedArgument {
  const { passed, element } = parameter
  const condition = passed === 'u64' ? conditionImplOf(value) : undefined
  if (condition !== undefined) return condition.handle
  const object = passed === 'u64' ? objectImplOf(value) : undefined
  if (object !== undefined) return object
  // Of its own for each launch, since a queued launch keeps it.
  const bytes = new Uint8Array(element.byteLength)
  const view = dataViewOf(bytes)
  writeElement(element, view, 0, value, (path, type) => nameOf(kernel, parameter, index, path, type))
  return typeof passed === 'number' ? bytes : SCALAR_ACCESS[passed].get(view, 0)
}

function checkTensorMap(kernel: string, parameter: Parameter, value: unknown, index: number): BufferImpl {
  const impl = tensorMapImplOf(value)
  if (impl !== undefined) return impl
  const way = bufferImplOf(value) === undefined ? undefined : 'buffer.tensorMap(options) makes one of a buffer'
  throw invalidType(nameOf(kernel, parameter, index), 'a TensorMap', value, way)
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
      if (ArrayBuffer.isView(argument)) continue
      if (argument.isClosed) throw closedArgument(nameOf(kernel, parameter, index), argument)
      if (argument.allocation.driver !== driver)
        throw argument.ofAnotherDriver(driver, `${nameOf(kernel, parameter, index)}: `)
      const { pointer } = argument
      // V8 calls C for the remainder of a number beyond 32 bits.
      if ((pointer & (parameter.element.alignment - 1)) !== 0) {
        throw misaligned(nameOf(kernel, parameter, index), String(argument), parameter)
      }
      if (parameter.element.scalar === undefined) checkWhole(kernel, parameter, index, argument)
    } else if (parameter.access !== undefined && Number(BigInt(argument) & 127n) % parameter.element.alignment !== 0) {
      throw misaligned(nameOf(kernel, parameter, index), `memory at the address ${argument}`, parameter)
    }
  }
}

const closedArgument = (name: string, argument: BufferImpl): Error =>
  stateError('ERR_CLOSED', `${name}: ${argument} cannot be used any more${argument.closedAt}`)

const misaligned = (name: string, what: string, { element }: Parameter): Error =>
  invalidValue(`${name}: ${what} does not begin at a multiple of ${element.alignment}, for ${element.text}`)

/** Memory of structs is whole structs: otherwise the program and the kernel differ about the size of one. */
function checkWhole(kernel: string, parameter: Parameter, index: number, memory: BufferImpl): void {
  const { byteLength } = parameter.element
  if (memory.byteLength % byteLength === 0) return
  const name = nameOf(kernel, parameter, index)
  throw invalidValue(`${name}: ${memory} is not whole structs of ${byteLength} bytes`)
}

/** The memory among checked arguments. */
export const memoryIn = (args: readonly CheckedArgument[]): readonly BufferImpl[] =>
  args.filter((argument) => argument instanceof BufferImpl)
