/** Objects of Python, as JavaScript has them, and the values that pass between the two languages. */

import { isMemory, type ViewConstructor } from '../../core/memory/buffer.js'
import { Stream } from '../../core/stream.js'
import { cudaStream, type PythonStreamLike } from '../../core/streams/stream-options.js'
import { isObject, isOptionsObject } from '../../foundation/base/arguments.js'
import { bytesOf } from '../../foundation/base/bytes.js'
import { ELEMENT_TYPES, type ElementTypeName, elementType } from '../../foundation/base/element-types.js'
import { invalidType, refuseReceiver } from '../../foundation/base/errors.js'
import { destroyWhenUnreachable } from '../../foundation/base/finalization.js'
import { ClosableObject, checkMade, construct, implementation } from '../../foundation/base/library-object.js'
import { Buffer } from '../../foundation/base/node-modules.js'
import { own } from '../../foundation/native/c-functions.js'
import { layer } from '../../foundation/native/layer.js'
import type { CudaArray, CudaArrayInterface } from '../dlpack/array-interface.js'
import { type DLPackCapsule, type DLPackProducer, type DLPackRequest, DLPackTensor } from '../dlpack/exchange.js'
import type { ScalarDType } from '../dlpack/tensor.js'
import { HeldObject, type Interpreter, type Wire } from './interpreter.js'

/** A value of Python as `value()` makes it: what has no counterpart in JavaScript is a PythonObject. */
export type PythonValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | PythonObject
  | readonly PythonValue[]
  | { readonly [key: string]: PythonValue }

/**
 * What Python can be given: null and undefined become None, a whole number an int, another number a float, a bigint an int, an array a list, a
 * plain object a dict. A typed array becomes a memoryview of a copy, which `numpy.asarray()` takes without another. A Stream becomes an
 * object with `__cuda_stream__`, which keeps it alive. A DLPackTensor becomes a capsule, once.
 */
export type PythonArgument =
  | undefined
  | null
  | boolean
  | number
  | bigint
  | string
  | PythonObject
  | Stream
  | DLPackTensor
  | CudaArrayInterface
  | ArrayBufferView
  | readonly PythonArgument[]
  | { readonly [key: string]: PythonArgument }

/** Arguments by their names. */
export interface PythonKeywords {
  readonly [name: string]: PythonArgument
}

/** The elements of an array of Python, such as NumPy's. */
export interface PythonArray<V extends ArrayBufferView> {
  /** The elements, row after row. */
  readonly data: V
  /** The type of the elements: those of 'f16' and 'bool' are in a Uint16Array and a Uint8Array. */
  readonly dtype: ScalarDType
  /** Elements in each direction. */
  readonly shape: readonly number[]
  /** Python asks that they are not written. Nothing enforces that. */
  readonly readOnly: boolean
}

/** Releases the memory of arrays whose typed arrays cannot be reached any more. */
const views = new FinalizationRegistry((release: () => void) => release())

const RECEIVER = 'a PythonObject'
const MOST_DEPTH = 200
const TYPES = Object.keys(ELEMENT_TYPES) as ElementTypeName[]
/** The formats of Python's memoryview for typed arrays. */
const FORMATS: Readonly<Record<string, string>> = {
  '[object Int8Array]': 'b',
  '[object Int16Array]': 'h',
  '[object Uint16Array]': 'H',
  '[object Int32Array]': 'i',
  '[object Uint32Array]': 'I',
  '[object BigInt64Array]': 'q',
  '[object BigUint64Array]': 'Q',
  '[object Float32Array]': 'f',
  '[object Float64Array]': 'd',
}

/**
 * An object of Python. It lives in Python as long as this is reachable or until it is closed. What its members return are objects again;
 * `number()`, `bigint()`, `text()`, `boolean()` and `value()` make values of JavaScript of them.
 *
 * It is a stream for this library if it is one in Python: `new ExternalStream(object)` and `stream.wait(object)` take streams of PyTorch, CuPy,
 * cuda.core, Numba and Warp. It is memory in the same way: `fromDLPack(object, { stream })` and `fromCudaArrayInterface(object, { stream })` of
 * cuda-streams/dlpack.
 * @example
 * ```ts
 * import { Python } from 'cuda-streams/python'
 *
 * const math = Python.start().import('math')
 * console.log(math.invoke('hypot', [3, 4]).number(), math.get('pi').number()) // 5 3.14…
 * ```
 */
export class PythonObject extends ClosableObject implements PythonStreamLike, DLPackProducer, CudaArray {
  /** @internal */
  declare readonly [implementation]: HeldObject

  /** Use `python.import()`, `python.evaluate()`, or members of another object. */
  private constructor(impl: HeldObject) {
    super()
    checkMade(impl, HeldObject, 'PythonObject', 'python.import(), python.evaluate() or another object')
    this[implementation] = impl
    if (impl.number !== undefined) destroyWhenUnreachable(this, impl)
  }

  /** @internal */
  static [construct](impl: HeldObject): PythonObject {
    return new PythonObject(impl)
  }

  /** The name of its type, such as 'int' or 'torch.Tensor'. */
  get type(): string {
    return heldOf(this).type
  }

  /** Is it None? */
  get isNone(): boolean {
    return heldOf(this).wire === null
  }

  /**
   * An attribute, as `object.name` in Python.
   * @param name Its name.
   * @throws {PythonError} AttributeError if there is none
   * @throws {Error} ERR_CLOSED, ERR_INVALID_ARG_TYPE
   */
  get(name: string): PythonObject {
    return objectFrom(heldOf(this), 'get', checkName(name))
  }

  /**
   * Sets an attribute, as `object.name = value` in Python.
   * @param name Its name.
   * @param value What it is set to.
   * @throws {PythonError} what Python raises
   * @throws {Error} ERR_CLOSED, ERR_INVALID_ARG_TYPE
   */
  set(name: string, value: PythonArgument): void {
    ask(heldOf(this), 'set', checkName(name), encode(interpreterOf(this), value))
  }

  /**
   * An item, as `object[key]` or `object[key, key]` in Python. For a slice pass `python.evaluate('slice(1, None)')`.
   * @param keys A key or an index; several for an array of several directions.
   * @throws {PythonError} KeyError or IndexError if there is none
   * @throws {Error} ERR_CLOSED, ERR_INVALID_ARG_TYPE
   */
  item(...keys: readonly PythonArgument[]): PythonObject {
    const impl = heldOf(this)
    return objectFrom(impl, 'item', ...keys.map((key) => encode(impl.interpreter, key)))
  }

  /**
   * Sets an item, as `object[key] = value` in Python.
   * @param key A key or an index; `python.evaluate('(0, 1)')` is a tuple of two.
   * @param value What it is set to.
   * @throws {PythonError} what Python raises
   * @throws {Error} ERR_CLOSED, ERR_INVALID_ARG_TYPE
   */
  setItem(key: PythonArgument, value: PythonArgument): void {
    ask(heldOf(this), 'set item', encode(interpreterOf(this), key), encode(interpreterOf(this), value))
  }

  /**
   * Calls it, as `object(*args, **keywords)` in Python. The event loop waits until it returns: let a thread of Python do what takes long.
   * @param args The arguments by position.
   * @param keywords The arguments by name.
   * @throws {PythonError} what Python raises
   * @throws {Error} ERR_CLOSED, ERR_INVALID_ARG_TYPE
   */
  call(args: readonly PythonArgument[] = [], keywords: PythonKeywords = {}): PythonObject {
    return objectFrom(heldOf(this), 'call', ...encodeCall(this, args, keywords))
  }

  /**
   * Calls a method, as `object.name(*args, **keywords)` in Python.
   * @param name The method's name, or a function's in a module.
   * @param args The arguments by position.
   * @param keywords The arguments by name.
   * @throws {PythonError} what Python raises
   * @throws {Error} ERR_CLOSED, ERR_INVALID_ARG_TYPE
   */
  invoke(name: string, args: readonly PythonArgument[] = [], keywords: PythonKeywords = {}): PythonObject {
    return objectFrom(heldOf(this), 'invoke', checkName(name), ...encodeCall(this, args, keywords))
  }

  /**
   * The number that it is, or that Python's `float()` makes of it.
   * @throws {PythonError} TypeError if it is none; OverflowError for an int of more than 53 bits, for which there is `bigint()`
   * @throws {Error} ERR_CLOSED
   */
  number(): number {
    return Number(decodeNumber(ask(heldOf(this), 'number')))
  }

  /**
   * The integer that it is, such as a handle or a pointer.
   * @throws {PythonError} TypeError if it is none
   * @throws {Error} ERR_CLOSED
   */
  bigint(): bigint {
    return BigInt(decodeNumber(ask(heldOf(this), 'bigint')))
  }

  /**
   * The object as text: `str()` of it.
   * @throws {PythonError} what `str()` raises
   * @throws {Error} ERR_CLOSED
   */
  text(): string {
    return String(ask(heldOf(this), 'text'))
  }

  /**
   * Whether Python takes it for true: `bool()` of it.
   * @throws {PythonError} what `bool()` raises
   * @throws {Error} ERR_CLOSED
   */
  boolean(): boolean {
    return ask(heldOf(this), 'boolean') === true
  }

  /**
   * The object as values of JavaScript: None becomes null; an int a number, or a bigint if it has more than 53 bits; lists and
   * tuples arrays; dicts whose keys are texts objects; bytes a Uint8Array; NumPy's numbers numbers. Anything else is a
   * PythonObject, also within.
   * @throws {PythonError} RecursionError for a list that contains itself
   * @throws {Error} ERR_CLOSED
   */
  value(): PythonValue {
    return decode(interpreterOf(this), ask(heldOf(this), 'value'))
  }

  /**
   * The elements of an array of the host in the memory where they are, by Python's buffer protocol: NumPy's arrays, bytearray, array.array,
   * tensors of PyTorch and arrays of JAX on the CPU. Nothing is copied: what one language writes the other reads. Python keeps the
   * memory until the typed array cannot be reached any more, also if this object is closed.
   * @param type The constructor of typed arrays for the type of the elements, such as Float32Array.
   * @throws {PythonError} BufferError if the elements do not lie one behind the other: `arrayCopy()` takes those; TypeError if it is no array of
   * the host, or of a type that JavaScript does not have
   * @throws {Error} ERR_INVALID_ARG_TYPE if the elements have another type; ERR_CLOSED
   */
  arrayView<V extends ArrayBufferView>(type: ViewConstructor<V>): PythonArray<V> {
    return takeArray(heldOf(this), type, false)
  }

  /**
   * A copy of the elements of an array of the host, row after row, whatever their layout is.
   * @param type The constructor of typed arrays for the type of the elements, such as Float32Array.
   * @throws {PythonError} TypeError if it is no array of the host, or of a type that JavaScript does not have
   * @throws {Error} ERR_INVALID_ARG_TYPE if the elements have another type; ERR_CLOSED
   */
  arrayCopy<V extends ArrayBufferView>(type: ViewConstructor<V>): PythonArray<V> {
    return takeArray(heldOf(this), type, true)
  }

  /**
   * The handle of a stream: from its own `__cuda_stream__`, or else from `cuda_stream`, `ptr` or `handle`, as the class of a stream has it.
   * @throws {PythonError} TypeError if it is no stream; what its `__cuda_stream__` raises
   * @throws {Error} ERR_CLOSED
   */
  __cuda_stream__(): readonly [version: number, handle: number] {
    const reply = decode(interpreterOf(this), ask(heldOf(this), 'stream'))
    // The library checks it, as it does the reply of any object with this method.
    return reply as unknown as readonly [number, number]
  }

  /**
   * Exports its memory by DLPack, for `fromDLPack()`.
   * @param request The stream that will use it, and the latest version that is understood.
   * @throws {PythonError} what its `__dlpack__` raises
   * @throws {Error} ERR_CLOSED
   */
  __dlpack__(request: DLPackRequest): DLPackCapsule {
    const impl = heldOf(this)
    if (!isOptionsObject(request)) throw invalidType('request', '{ stream, max_version }', request)
    const { stream, max_version: version } = request
    const [pointer, versioned] = listOf(ask(impl, 'dlpack', stream ?? null, [...version]))
    return { pointer: Number(pointer), versioned: versioned === true }
  }

  /**
   * The device of its memory, by DLPack.
   * @throws {PythonError} what its `__dlpack_device__` raises
   * @throws {Error} ERR_CLOSED
   */
  __dlpack_device__(): readonly [type: number, id: number] {
    return pairOf(ask(heldOf(this), 'dlpack device'))
  }

  /**
   * The dict of its `__cuda_array_interface__`, for `fromCudaArrayInterface()`.
   * @throws {PythonError} AttributeError if it has none
   * @throws {Error} ERR_CLOSED
   */
  get __cuda_array_interface__(): CudaArrayInterface {
    // fromCudaArrayInterface() checks it, as it does a dict of any program.
    return decode(interpreterOf(this), ask(heldOf(this), 'array interface')) as unknown as CudaArrayInterface
  }

  /** Lets Python collect it. May be called twice. */
  close(): void {
    heldOf(this).dispose()
  }

  get [Symbol.toStringTag](): string {
    return 'PythonObject'
  }
}

const isPythonObject = (value: unknown): value is PythonObject =>
  value instanceof PythonObject && value[implementation] !== undefined

const heldOf = (value: unknown): HeldObject =>
  isPythonObject(value) ? value[implementation] : refuseReceiver(RECEIVER, value)

const interpreterOf = (value: unknown): Interpreter => heldOf(value).interpreter

function ask(impl: HeldObject, operation: string, ...given: readonly Wire[]): Wire {
  impl.checkOpen()
  return impl.interpreter.ask(operation, impl.wire, ...given)
}

const objectFrom = (impl: HeldObject, operation: string, ...given: readonly Wire[]): PythonObject =>
  objectOf(impl.interpreter, ask(impl, operation, ...given))

function checkName(name: unknown): string {
  if (typeof name === 'string') return name
  throw invalidType('name', 'a string', name)
}

/** The object of a reply. */
export function objectOf(interpreter: Interpreter, wire: Wire): PythonObject {
  return PythonObject[construct](new HeldObject(interpreter, typeOf(wire), wireOf(wire)))
}

/** The type of a value that is not held, and of one that is. */
function typeOf(wire: Wire): string {
  if (wire === null) return 'NoneType'
  if (typeof wire === 'boolean') return 'bool'
  if (typeof wire === 'string') return 'str'
  if (typeof wire === 'number') return Number.isInteger(wire) ? 'int' : 'float'
  return 't' in wire ? String(wire['t']) : 'f' in wire ? 'float' : 'int'
}

const wireOf = (wire: Wire): Wire =>
  typeof wire === 'object' && wire !== null && 'o' in wire ? { o: wire['o'] ?? null } : wire

const listOf = (wire: Wire): readonly Wire[] => (Array.isArray(wire) ? wire : [])

function pairOf(wire: Wire): readonly [number, number] {
  const [first, second] = listOf(wire)
  return [Number(first), Number(second)]
}

const numberOfFloat = (text: string): number => Number(text.replace('inf', 'Infinity'))

/** A number of Python. */
function decodeNumber(wire: Wire): number | bigint {
  if (typeof wire === 'number') return wire
  if (typeof wire !== 'object' || wire === null) return Number.NaN
  if ('i' in wire) {
    const digits = String(wire['i'])
    return digits.startsWith('-') ? -BigInt(`0x${digits.slice(1)}`) : BigInt(`0x${digits}`)
  }
  return numberOfFloat('f' in wire ? String(wire['f']) : '')
}

function decode(interpreter: Interpreter, wire: Wire): PythonValue {
  if (wire === null || typeof wire !== 'object') return wire
  if (Array.isArray(wire)) return wire.map((each: Wire) => decode(interpreter, each))
  const [[kind, given] = ['', null]] = Object.entries(wire)
  if (kind === 'o') return objectOf(interpreter, wire)
  if (kind === 'b') return new Uint8Array(Buffer.from(String(given), 'base64'))
  if (kind !== 'd') return decodeNumber(wire)
  return Object.fromEntries(Object.entries(given ?? {}).map(([key, each]) => [key, decode(interpreter, each)]))
}

/** A value for the next request. `depth` is how many arrays and objects it is in. */
function encode(interpreter: Interpreter, value: PythonArgument, depth = 0): Wire {
  if (depth > MOST_DEPTH) throw invalidType('An argument', `at most ${MOST_DEPTH} arrays and objects deep`, value)
  if (value === undefined || value === null) return null
  if (typeof value === 'boolean' || typeof value === 'string') return value
  if (typeof value === 'number') return encodeNumber(value)
  if (typeof value === 'bigint') return { i: value.toString(16) }
  if (Array.isArray(value)) return value.map((each: PythonArgument) => encode(interpreter, each, depth + 1))
  const special = isObject(value) ? encodeObject(interpreter, value) : undefined
  if (special !== undefined) return special
  if (isPlain(value)) return { d: encodeEntries(interpreter, value, depth + 1) }
  throw notAnArgument(value)
}

/** A whole number is an int, but for -0 and those that are not exact. */
function encodeNumber(value: number): Wire {
  if (Object.is(value, -0)) return { f: '-0.0' }
  const isExact = Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value)
  return isExact ? value : { f: String(value) }
}

function encodeEntries(
  interpreter: Interpreter,
  object: PythonKeywords,
  depth: number,
): { readonly [key: string]: Wire } {
  return Object.fromEntries(Object.entries(object).map(([key, each]) => [key, encode(interpreter, each, depth)]))
}

/** An object that has a meaning of its own in Python. */
function encodeObject(interpreter: Interpreter, value: object): Wire | undefined {
  if (isPythonObject(value)) return heldOf(value).checkOpen().wire
  if (value instanceof DLPackTensor) {
    // From here on the capsule calls its deleter: a second one would, too.
    value[implementation].take()
    return { c: [Number(value.pointer), value.versioned] }
  }
  if (value instanceof Stream) {
    const [, handle] = value[cudaStream]()
    return { s: [interpreter.keep(value), Number(handle)] }
  }
  if (!ArrayBuffer.isView(value)) return undefined
  const bytes = bytesOf(value, 'An argument')
  return { m: [interpreter.pass(bytes), bytes.length, FORMATS[Object.prototype.toString.call(value)] ?? 'B'] }
}

const isPlain = (value: unknown): value is PythonKeywords => isOptionsObject(value)

function notAnArgument(value: unknown): Error {
  const expected =
    'null, a boolean, number, bigint, string, array, plain object, typed array, Stream, DLPackTensor or PythonObject'
  if (isMemory(value)) return invalidType('An argument', expected, value, 'use python.share(buffer, { dtype, shape })')
  const way = typeof value === 'function' ? 'Python cannot call functions of JavaScript' : undefined
  return invalidType('An argument', expected, value, way)
}

/** What `encode()` makes of arguments, for a call. */
function encodeCall(object: unknown, args: readonly PythonArgument[], keywords: PythonKeywords): readonly Wire[] {
  const { interpreter } = heldOf(object)
  if (!Array.isArray(args)) throw invalidType('args', 'an array of arguments', args)
  if (!isPlain(keywords)) throw invalidType('keywords', 'an object of arguments by name', keywords)
  return [args.map((each) => encode(interpreter, each)), encodeNames(interpreter, keywords)]
}

/** Values by their names. */
export const encodeNames = (interpreter: Interpreter, names: PythonKeywords): Wire => ({
  d: encodeEntries(interpreter, names, 0),
})

/** The typed array for elements of a type. JavaScript may lack one for 'f16', which then are 16 bits each. */
const arrayFor = (dtype: ElementTypeName): { readonly name: string } => elementType(dtype).array ?? Uint16Array

function takeArray<V extends ArrayBufferView>(
  impl: HeldObject,
  type: ViewConstructor<V>,
  isCopied: boolean,
): PythonArray<V> {
  const { interpreter } = impl
  const reply = ask(impl, 'array', isCopied)
  if (reply === null || typeof reply !== 'object' || Array.isArray(reply)) throw new TypeError('no array')
  const { type: name, shape, address, byteLength, readOnly, o } = reply as { readonly [key: string]: Wire }
  const [held, length, from] = [Number(o), Number(byteLength), Number(address)]
  let buffer: ArrayBuffer | undefined
  try {
    const dtype = TYPES.find((each) => each === name) ?? 'u8'
    const expected = arrayFor(dtype)
    if (type !== expected) throw invalidType('type', `${expected.name}, for elements of ${dtype}`, type)
    const memory = isCopied ? copyOf(from, length) : layer().view(from, length)
    buffer = memory
    const data = new type(memory, 0, length / type.BYTES_PER_ELEMENT)
    return { data, dtype, shape: listOf(shape ?? null).map(Number), readOnly: readOnly === true }
  } finally {
    if (buffer === undefined || isCopied) interpreter.release(held)
    else views.register(buffer, () => interpreter.releaseSoon(held))
  }
}

function copyOf(address: number, length: number): ArrayBuffer {
  const bytes = new Uint8Array(new ArrayBuffer(length))
  if (length > 0) own().copy(layer().addressOf(bytes), address, length)
  return bytes.buffer
}
