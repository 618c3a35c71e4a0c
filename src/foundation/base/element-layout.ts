/** How values lie in the memory of a kernel: numbers, vectors, structs and arrays in them, as CUDA C++ lays them out. */
import { checkInteger, isObject, isOptionsObject, nearest, readOptions } from './arguments.js'
import { type Bytes, checkSource, type OwnBytes } from './bytes.js'
import {
  dataViewOf,
  ELEMENT_TYPES,
  elementType,
  SCALAR_ACCESS,
  SCALAR_TYPES,
  type ScalarType,
  type VectorType,
} from './element-types.js'
import { describe, invalidType, invalidValue, outOfRange } from './errors.js'

/** The type of a struct's member: a number, a vector, another struct, or an array of one of them, such as `['f32', 9]`. */
export type FieldType = ScalarType | VectorType | Struct | readonly [type: FieldType, length: number]

/** The members of a struct by name, in the order of its declaration. */
export interface StructFields {
  readonly [name: string]: FieldType
}

type Tuple<T, N> = N extends '2' ? readonly [T, T] : N extends '3' ? readonly [T, T, T] : readonly [T, T, T, T]

/** What a value of a type is in JavaScript: a vector is an array, and a struct an object. Integers of 64 bits are bigints. */
export type ValueOf<T extends FieldType> =
  T extends Struct<infer V>
    ? V
    : T extends readonly [infer E extends FieldType, number]
      ? readonly ValueOf<E>[]
      : T extends `${infer E extends ScalarType}x${infer N}`
        ? Tuple<ValueOf<E>, N>
        : T extends 'bool'
          ? boolean
          : T extends 'i64' | 'u64'
            ? bigint
            : number

/** What a struct with these fields is in JavaScript. */
export type StructValue<F extends StructFields> = { readonly [Name in keyof F]: ValueOf<F[Name]> }

/** Turns values of a type into bytes and back, as a kernel has them in memory. */
export interface Elements<V> {
  /** The bytes of one element: `sizeof`. */
  readonly byteLength: number
  /** What its address must be a multiple of: `alignof`. */
  readonly alignment: number
  /**
   * The values one after another, as bytes to upload. Padding is 0. Floats are rounded to the nearest, ties to even.
   * @param values An array of them, or what else can be iterated.
   * @throws {Error} ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE, ERR_INVALID_ARG_VALUE for a value that is not of the type: the message names
   * the value and the field
   */
  pack(values: Iterable<V>): OwnBytes
  /**
   * The values in bytes that were downloaded.
   * @param bytes Whole elements: a typed array or an ArrayBuffer.
   * @throws {Error} ERR_INVALID_ARG_VALUE unless they are whole elements; ERR_INVALID_ARG_TYPE
   */
  unpack(bytes: Bytes): V[]
}

/** A struct of CUDA C++: a type of parameters, and of the memory that pointers point to. `struct(fields)` makes it. */
export interface Struct<V extends object = object> extends Elements<V> {
  /** The struct's members by name, in their order. */
  readonly fields: StructFields
}

/** A number or bool somewhere in an element. */
export interface Leaf {
  readonly offset: number
  readonly type: ScalarType
  /** The path to the number within its element, such as '.velocity[1]'. */
  readonly path: string
}

/** A value that is not of its type. */
interface Wrong {
  readonly path: string
  /** The type of the part that is wrong. */
  readonly type: string
  /** @param name What the message calls it. */
  readonly error: (name: string) => Error
}

export interface ElementLayout {
  readonly byteLength: number
  readonly alignment: number
  /** What messages call the type. */
  readonly text: string
  /** What a number and a vector are made of; undefined for a struct and an array. */
  readonly scalar: ScalarType | undefined
  /** All numbers of an element. */
  readonly leaves: readonly Leaf[]
  /** Checks the value and writes its bytes; returns what is wrong with it. */
  write(view: DataView, at: number, value: unknown): Wrong | undefined
  read(view: DataView, at: number): unknown
}

class ScalarLayout implements ElementLayout {
  readonly byteLength: number
  readonly alignment: number
  readonly text: string

  constructor(readonly scalar: ScalarType) {
    this.byteLength = ELEMENT_TYPES[scalar].bytes
    this.alignment = this.byteLength
    this.text = scalar
  }

  get leaves(): readonly Leaf[] {
    return [{ offset: 0, type: this.scalar, path: '' }]
  }

  write(view: DataView, at: number, value: unknown): Wrong | undefined {
    if (isScalarValue(this.scalar, value)) {
      SCALAR_ACCESS[this.scalar].set(view, at, typeof value === 'boolean' ? Number(value) : value)
      return undefined
    }
    return { path: '', type: this.text, error: (name) => wrongScalar(this.scalar, value, name) }
  }

  read(view: DataView, at: number): unknown {
    const value = SCALAR_ACCESS[this.scalar].get(view, at)
    return this.scalar === 'bool' ? value !== 0 : value
  }
}

/** A vector, or an array in a struct. */
class SequenceLayout implements ElementLayout {
  readonly byteLength: number

  constructor(
    readonly text: string,
    private readonly element: ElementLayout,
    private readonly count: number,
    readonly alignment: number,
    readonly scalar: ScalarType | undefined,
  ) {
    this.byteLength = element.byteLength * count
  }

  get leaves(): readonly Leaf[] {
    const { byteLength } = this.element
    const own = this.element.leaves
    return Array.from({ length: this.count }, (_, index) =>
      own.map(({ offset, type, path }) => ({ offset: index * byteLength + offset, type, path: `[${index}]${path}` })),
    ).flat()
  }

  write(view: DataView, at: number, value: unknown): Wrong | undefined {
    const { count, element } = this
    if (!isSequence(value) || value.length !== count) {
      return { path: '', type: this.text, error: (name) => wrongSequence(value, count, element.text, name) }
    }
    for (let index = 0; index < count; index += 1) {
      const wrong = element.write(view, at + index * element.byteLength, value[index])
      if (wrong !== undefined) return { ...wrong, path: `[${index}]${wrong.path}` }
    }
    return undefined
  }

  read(view: DataView, at: number): unknown {
    const { element, count } = this
    return Array.from({ length: count }, (_, index) => element.read(view, at + index * element.byteLength))
  }
}

interface Field {
  readonly name: string
  readonly offset: number
  readonly layout: ElementLayout
}

class StructLayout implements ElementLayout {
  readonly byteLength: number
  readonly alignment: number
  readonly text = 'struct'
  readonly scalar = undefined
  readonly fields: readonly Field[]

  constructor(fields: ReadonlyMap<string, ElementLayout>, least: number) {
    let [end, alignment] = [0, least]
    this.fields = Array.from(fields, ([name, layout]) => {
      const offset = roundUp(end, layout.alignment)
      end = offset + layout.byteLength
      alignment = Math.max(alignment, layout.alignment)
      return { name, offset, layout }
    })
    this.alignment = alignment
    this.byteLength = roundUp(end, alignment)
  }

  get leaves(): readonly Leaf[] {
    return this.fields.flatMap(({ name, offset: at, layout }) =>
      layout.leaves.map(({ offset, type, path }) => ({ offset: at + offset, type, path: `.${name}${path}` })),
    )
  }

  write(view: DataView, at: number, value: unknown): Wrong | undefined {
    if (!isObject(value)) return { path: '', type: this.text, error: (name) => this.#wrongObject(value, name) }
    for (const { name, offset, layout } of this.fields) {
      const given: unknown = Reflect.get(value, name)
      const wrong = layout.write(view, at + offset, given)
      if (wrong === undefined) continue
      const error = given === undefined ? this.#missing(value, name, wrong) : wrong.error
      return { ...wrong, error, path: `.${name}${wrong.path}` }
    }
    return undefined
  }

  read(view: DataView, at: number): unknown {
    return Object.fromEntries(this.fields.map(({ name, offset, layout }) => [name, layout.read(view, at + offset)]))
  }

  #wrongObject(value: unknown, name: string): Error {
    const expected = `an object such as { ${this.fields.map((field) => field.name).join(', ')} }`
    return invalidType(name, expected, value)
  }

  /** The error for a field that is not there, with the name that was probably meant. */
  #missing(value: object, field: string, { error }: Wrong): Wrong['error'] {
    const others = Object.keys(value).filter((key) => this.fields.every((known) => known.name !== key))
    const meant = nearest(field, others)
    return meant === undefined ? error : (name) => invalidValue(`${name} is missing: the object has '${meant}'`)
  }
}

const roundUp = (bytes: number, alignment: number): number => Math.ceil(bytes / alignment) * alignment

const isSequence = (value: unknown): value is ArrayLike<unknown> =>
  Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView))

function wrongSequence(value: unknown, count: number, element: string, name: string): Error {
  const expected = `an array of ${count} elements (${element})`
  if (!isSequence(value)) return invalidType(name, expected, value)
  return invalidValue(`${name} must be ${expected}, and ${value.length} were given`)
}

/** Is the value, as the program gives it, of this type? */
function isScalarValue(type: ScalarType, value: unknown): value is number | bigint | boolean {
  if (type === 'bool') return typeof value === 'boolean'
  const { range } = elementType(type)
  if (range === undefined) return typeof value === 'number'
  if (typeof value === 'bigint') return (type === 'i64' || type === 'u64') && value >= range[0] && value <= range[1]
  return Number.isSafeInteger(value) && Number(value) >= range[0] && Number(value) <= range[1]
}

/** The error for a value that is not of this type. */
function wrongScalar(type: ScalarType, value: unknown, name: string): Error {
  if (type === 'bool') return invalidType(name, 'true or false', value)
  const { range } = elementType(type)
  const isLong = type === 'i64' || type === 'u64'
  if (typeof value !== 'number' && !(isLong && typeof value === 'bigint')) return invalidType(name, 'a number', value)
  if (typeof value === 'number' && !Number.isInteger(value)) return invalidType(name, 'an integer', value)
  const beyond = isLong && typeof value === 'number' ? ', and a bigint where it is not a safe integer' : ''
  return outOfRange(name, `from ${range?.[0]} to ${range?.[1]}${beyond}`, value)
}

const SCALARS: ReadonlyMap<string, ScalarLayout> = new Map(
  SCALAR_TYPES.map((type): [string, ScalarLayout] => [type, new ScalarLayout(type)]),
)

const VECTORS: ReadonlyMap<string, SequenceLayout> = new Map(
  [...SCALARS.values()].flatMap((element) =>
    (elementType(element.scalar).lanes ?? []).map((lanes): [string, SequenceLayout] => {
      // Three of them are a struct to CUDA, and the largest access of a GPU is 16 bytes.
      const alignment = lanes === 3 ? element.byteLength : Math.min(16, lanes * element.byteLength)
      const text = `${element.text}x${lanes}`
      return [text, new SequenceLayout(text, element, lanes, alignment, element.scalar)]
    }),
  ),
)

/** The names of all numbers and vectors, for messages. */
export const TYPE_NAMES = `${SCALAR_TYPES.join(', ')}, or a vector of them such as f32x4`

/** Names of types in CUDA C++, NumPy and PyTorch, which are written by mistake. */
const OTHER_NAMES: ReadonlyMap<string, string> = new Map([
  ['char', 'i8'],
  ['signed char', 'i8'],
  ['unsigned char', 'u8'],
  ['uchar', 'u8'],
  ['short', 'i16'],
  ['unsigned short', 'u16'],
  ['ushort', 'u16'],
  ['int', 'i32'],
  ['unsigned', 'u32'],
  ['unsigned int', 'u32'],
  ['uint', 'u32'],
  ['long', 'i64'],
  ['long long', 'i64'],
  ['unsigned long', 'u64'],
  ['unsigned long long', 'u64'],
  ['size_t', 'u64'],
  ['float', 'f32'],
  ['double', 'f64'],
  ['half', 'f16'],
  ['__half', 'f16'],
  ['__nv_bfloat16', 'bf16'],
  ['bfloat16', 'bf16'],
  ['boolean', 'bool'],
])

/** The type that such a name, or that of a vector such as `float4`, stands for; undefined for any other value. */
export function nameFor(type: unknown): string | undefined {
  if (typeof type !== 'string') return undefined
  const [, kind, bits] = /^(int|uint|float)(8|16|32|64)(?:_t)?$/.exec(type) ?? []
  const sized = `${kind?.slice(0, 1)}${bits}`
  if (namedLayout(sized) !== undefined) return sized
  const [, base = '', lanes] = /^([a-z_ ]+?(?:16)?)([234]?)$/.exec(type) ?? []
  const scalar = OTHER_NAMES.get(base)
  const name = lanes === '' ? scalar : `${scalar}x${lanes}`
  return name !== undefined && namedLayout(name) !== undefined ? name : undefined
}

/** The end of a message about a name; empty if nothing is likely to be meant. */
export const didYouMean = (name: string | undefined): string => (name === undefined ? '' : `; did you mean '${name}'?`)

/** The layout of a number or vector; undefined for any other name. */
export const namedLayout = (name: string): ElementLayout | undefined => SCALARS.get(name) ?? VECTORS.get(name)

export const scalarLayout = (type: ScalarType): ElementLayout => SCALARS.get(type) ?? new ScalarLayout(type)

const structs = new WeakMap<object, StructLayout>()

/** The layout of what `struct()` has made; undefined for any other value. */
export const structLayout = (value: unknown): ElementLayout | undefined =>
  isObject(value) ? structs.get(value) : undefined

/** The offsets in bytes at which the members of a struct begin, in their order. */
export const fieldOffsets = (of: Struct): readonly number[] => structs.get(of)?.fields.map(({ offset }) => offset) ?? []

/** Throws the error for a value that is wrong, by the name that the part has. */
export function writeElement(
  layout: ElementLayout,
  view: DataView,
  at: number,
  value: unknown,
  nameOf: (path: string, type: string) => string,
): void {
  const wrong = layout.write(view, at, value)
  if (wrong !== undefined) throw wrong.error(nameOf(wrong.path, wrong.type))
}

function elementsBy<V>(layout: ElementLayout): Elements<V> {
  const { byteLength, alignment } = layout
  return {
    byteLength,
    alignment,
    pack(values) {
      if (!isObject(values) || !(Symbol.iterator in values)) {
        throw invalidType('values', `an array of values (${layout.text})`, values)
      }
      const all = [...values]
      const bytes = new Uint8Array(all.length * byteLength)
      const view = dataViewOf(bytes)
      for (const [index, value] of all.entries()) {
        writeElement(
          layout,
          view,
          index * byteLength,
          value,
          (path, type) => `values[${index}]${path}${path === '' ? '' : ` (${type})`}`,
        )
      }
      return bytes
    },
    unpack(given) {
      const bytes = checkSource(given, 'bytes')
      if (bytes.length % byteLength !== 0) {
        throw invalidValue(`bytes must be whole elements of ${byteLength} (${layout.text}), and are ${bytes.length}`)
      }
      const view = dataViewOf(bytes)
      return Array.from({ length: bytes.length / byteLength }, (_, index) => layout.read(view, index * byteLength) as V)
    },
  }
}

/**
 * Elements of a number or vector type as bytes: for the types that JavaScript has no arrays of, such as 'bf16'.
 * @param type A type such as 'f16' or 'i8x4'.
 * @throws {Error} ERR_INVALID_ARG_VALUE for a type that does not exist
 * @example
 * ```ts
 * await stream.upload(buffer, elements('bf16').pack([1, 0.5, -2]))
 * const values = elements('bf16').unpack(await stream.download(buffer))
 * ```
 */
export function elements<T extends ScalarType | VectorType>(type: T): Elements<ValueOf<T>> {
  const layout = namedLayout(type)
  if (layout === undefined) {
    throw invalidValue(`type is ${describe(type)}: it must be one of ${TYPE_NAMES}${didYouMean(nameFor(type))}`)
  }
  return Object.freeze(elementsBy<ValueOf<T>>(layout))
}

/** The options of `struct()`. */
export interface StructOptions {
  /** The alignment that the source gives it by `__align__(n)` or `alignas(n)`. Default: the greatest of its members'. */
  readonly alignment?: number | undefined
}

const GREATEST_ALIGNMENT = 128
const LONGEST_FIELD = 2 ** 20

/**
 * A struct of CUDA C++, laid out as the compiler does: a type for signatures, `Particle` by value and `{ inout: Particle }` for a pointer to
 * such structs, and for buffers of them.
 * @param fields The types of its members by name, in the order of their declaration.
 * @param options `alignment`, if the source gives it one
 * @throws {Error} ERR_INVALID_ARG_VALUE for a type or a name that does not exist in CUDA C++; ERR_INVALID_ARG_TYPE
 * @example
 * ```ts
 * const Particle = struct({ position: 'f32x3', velocity: 'f32x3', mass: 'f32' })
 * await stream.upload(buffer, Particle.pack([{ position: [0, 0, 0], velocity: [1, 0, 0], mass: 2 }]))
 * const [first] = Particle.unpack(await stream.download(buffer))
 * ```
 */
export function struct<const F extends StructFields>(fields: F, options?: StructOptions): Struct<StructValue<F>> {
  const { alignment: given } = readOptions(options, ['alignment'])
  const alignment = given === undefined ? 1 : checkInteger(given, 'options.alignment', 1, GREATEST_ALIGNMENT)
  if (!Number.isInteger(Math.log2(alignment)))
    throw invalidValue(`options.alignment must be a power of two, not ${alignment}`)
  if (!isOptionsObject(fields)) throw invalidType('fields', "an object such as { scale: 'f32', size: 'i32x2' }", fields)
  const layouts = new Map<string, ElementLayout>()
  const copy: { [name: string]: FieldType } = {}
  for (const [name, type] of Object.entries(fields)) {
    if (!/^[A-Za-z_]\w*$/.test(name)) throw invalidValue(`fields has '${name}', which is no name of a member in C++`)
    layouts.set(name, fieldLayout(type, `fields.${name}`))
    copy[name] = type
  }
  if (layouts.size === 0) throw invalidValue('fields must have at least one member')
  const layout = new StructLayout(layouts, alignment)
  const made = Object.freeze({ fields: Object.freeze(copy), ...elementsBy<StructValue<F>>(layout) })
  structs.set(made, layout)
  return made
}

function fieldLayout(type: unknown, name: string): ElementLayout {
  const known = typeof type === 'string' ? namedLayout(type) : structLayout(type)
  if (known !== undefined) return known
  if (Array.isArray(type) && type.length === 2) {
    const element = fieldLayout(type[0], `${name}[0]`)
    const length = checkInteger(type[1], `${name}[1]`, 1, LONGEST_FIELD)
    return new SequenceLayout(`${element.text}[${length}]`, element, length, element.alignment, undefined)
  }
  const pointer = typeof type === 'string' && type.endsWith('*')
  const way = pointer
    ? ". A pointer is 'u64', an address whose memory is not tracked; a parameter of its own is tracked"
    : didYouMean(nameFor(type))
  const what = typeof type === 'string' ? `'${type}'` : 'no type'
  throw invalidValue(`${name} is ${what}: it must be ${TYPE_NAMES}, a struct, or an array such as ['f32', 9]${way}`)
}

/** Elements in memory, for host implementations of kernels: structs, and floats of 16 bits. */
export interface ElementView<V> extends Iterable<V> {
  /** How many there are. */
  readonly length: number
  /**
   * A copy of an element.
   * @param index Which, from 0.
   * @throws {Error} ERR_OUT_OF_RANGE for an index beyond the memory
   */
  get(index: number): V
  /**
   * Writes an element.
   * @param index Which, from 0.
   * @param value The new value.
   * @throws {Error} ERR_OUT_OF_RANGE for an index beyond the memory; as `pack()` for a value that is not of the type
   */
  set(index: number, value: V): void
}

/** The elements that fit into these bytes: the memory itself. Messages begin with `name`. */
export class MemoryElements<V> implements ElementView<V> {
  readonly length: number
  readonly #view: DataView

  constructor(
    bytes: Uint8Array,
    private readonly layout: ElementLayout,
    private readonly name: string,
  ) {
    this.#view = dataViewOf(bytes)
    this.length = Math.floor(bytes.byteLength / layout.byteLength)
  }

  get(index: number): V {
    return this.layout.read(this.#view, this.#offset(index)) as V
  }

  set(index: number, value: V): void {
    const nameOf = (path: string, type: string): string => `${this.name}: element ${index}${path} (${type})`
    writeElement(this.layout, this.#view, this.#offset(index), value, nameOf)
  }

  *[Symbol.iterator](): Iterator<V> {
    for (let index = 0; index < this.length; index += 1) yield this.get(index)
  }

  #offset(index: number): number {
    if (Number.isInteger(index) && index >= 0 && index < this.length) return index * this.layout.byteLength
    const wayOut = 'a thread that has no element has to return early: if (globalX >= n) return'
    throw outOfRange(`The index of an element of ${this.name}`, `from 0 to ${this.length - 1} (${wayOut})`, index)
  }
}
