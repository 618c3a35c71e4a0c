/** Checks of arguments. Each throws the Node-style error of docs/errors.md, or returns the value typed. */
import { types } from '#platform'
import { describe, invalidReceiver, invalidType, invalidValue, outOfRange } from './errors.js'
import { printable } from './printable.js'

/** No call has so many things to name; an array may have four billion places with nothing in them. */
const MOST_ELEMENTS = 2 ** 20

/** User-space pointers on every platform that CUDA runs on. */
const POINTER_LIMIT = 2 ** 47

/** Objects that people pass instead of an options bag with them in it, by their tag. */
const OPTION_FOR: ReadonlyMap<string, string> = new Map([
  ['[object AbortSignal]', 'signal'],
  ['[object Device]', 'device'],
  ['[object Event]', 'event'],
  ['[object ExternalStream]', 'stream'],
  ['[object Stream]', 'stream'],
])

/** Options that were read: each of these names, with the value that was given. */
export type Given<T extends object, K extends keyof T> = { readonly [Name in K]: T[Name] | undefined }

/** Options are read into one of these: a missing option is not found on a prototype either. */
class Bag {}
Object.setPrototypeOf(Bag.prototype, null)
const NOTHING = Object.freeze(new Bag())

/**
 * The options of these names, each read once. Read them before anything is opened: a getter may close it. They may be
 * inherited, but not from Object.prototype, where any library of the program may have put something.
 * @throws ERR_INVALID_ARG_TYPE for an object that is no bag of options, such as an AbortSignal; ERR_INVALID_ARG_VALUE
 * for a name that is not among these; any error of a getter
 */
export function readOptions<T extends object, K extends keyof T>(
  options: T | undefined,
  names: readonly K[],
  name = 'options',
): Given<T, K> {
  if (options === undefined) return NOTHING as Given<T, K>
  return readProperties(options, names, name, false)
}

/** The same, unless told otherwise of an object that may have more properties than these. */
export function readProperties<T extends object, K extends keyof T>(
  options: T,
  names: readonly K[],
  name: string,
  mayHaveMore = true,
): Given<T, K> {
  try {
    checkBag(options, name)
    if (!mayHaveMore) for (const key in options) if (!isOneOf(names, key)) refuseName(options, key, names, name)
    const read = new Bag() as { [Name in K]: T[Name] | undefined }
    const prototype = prototypeOf(options)
    if (prototype !== Object.prototype && prototype !== null) readInherited(options, names, read)
    else for (const each of names) if (Object.hasOwn(options, each)) read[each] = options[each]
    return read
  } catch (error) {
    throw isRevoked(options) ? invalidType(name, 'an object', options) : error
  }
}

function readInherited<T extends object, K extends keyof T>(
  options: T,
  names: readonly K[],
  read: { [Name in K]: T[Name] | undefined },
): void {
  for (const each of names) read[each] = propertyOf(options, each) as T[K] | undefined
}

/** An own or inherited property, unless all objects have it. A revoked proxy has no properties. */
export function propertyOf(object: object, key: PropertyKey): unknown {
  if (isRevoked(object)) return undefined
  for (let holder: object | null = object; holder !== null; holder = prototypeOf(holder)) {
    if (!Object.hasOwn(holder, key)) continue
    // The Object.prototype of this realm or another has no prototype itself.
    if (holder !== object && prototypeOf(holder) === null) return undefined
    break
  }
  return Reflect.get(object, key)
}

const isOneOf = (names: readonly PropertyKey[], key: PropertyKey): boolean => names.includes(key)

/**
 * Throws for an option of another name, whatever its value. An object of a class, or one that inherits from a bag, may
 * have more properties.
 */
function refuseName(options: object, key: string, names: readonly PropertyKey[], name: string): void {
  const prototype = prototypeOf(options)
  const isPlain = prototype === null || prototypeOf(prototype) === null
  if (!isPlain || !Object.hasOwn(options, key)) return
  const meant = nearest(key, names.map(String))
  const way = meant === undefined ? `the options are '${names.join("', '")}'` : `did you mean '${meant}'?`
  throw invalidValue(`unknown option '${printable(key)}' in ${name}: ${way}`)
}

/** The name that was probably meant: at most a third of its letters are wrong. */
function nearest(given: string, names: readonly string[]): string | undefined {
  const distances = names.map((name) => distance(given.toLowerCase(), name.toLowerCase()))
  const least = Math.min(...distances)
  const name = names[distances.indexOf(least)]
  return name !== undefined && least <= name.length / 3 ? name : undefined
}

/** The letters to be changed, put in or left out to make one word of the other. */
function distance(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (const [row, letter] of [...a].entries()) {
    const line = [row + 1]
    for (const [at, other] of [...b].entries()) {
      const changed = (above[at] ?? 0) + (letter === other ? 0 : 1)
      line.push(Math.min(changed, (above[at + 1] ?? 0) + 1, (line[at] ?? 0) + 1))
    }
    above = line
  }
  return above.at(-1) ?? 0
}

/** Is it a bag of options? An object with a tag of its own, such as a Map, is none. */
export function isBag(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || isRevoked(value)) return false
  const tag = Object.prototype.toString.call(value)
  // A tag that every object has been given says nothing.
  return tag === '[object Object]' || tag === Object.prototype.toString.call(new Object())
}

function checkBag(options: unknown, name: string): void {
  if (isBag(options)) return
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalidType(name, 'an object', options)
  }
  const option = OPTION_FOR.get(Object.prototype.toString.call(options))
  throw invalidType(name, option === undefined ? 'an object of options' : `options, as in { ${option} }`, options)
}

const prototypeOf = (object: object): object | null => Object.getPrototypeOf(object) as object | null

/** A revoked proxy throws at every question, this one too. */
export function isRevoked(value: unknown): boolean {
  try {
    Array.isArray(value)
    return false
  } catch {
    return true
  }
}

/** A bag of options for foreign code, such as Node's: it has these own properties, and inherits none. */
export const bare = <T extends object>(own: T): T => Object.assign(Object.create(null) as object, own) as T

/** Does it look like a promise? */
export const isThenable = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && typeof propertyOf(value, 'then') === 'function'

/** `instanceof` for arguments: where it throws, as for a revoked proxy, the answer is no. */
export function isInstance<T>(value: unknown, of: abstract new (...args: never[]) => T): value is T {
  try {
    return value instanceof of
  } catch {
    return false
  }
}

/** The object that a member is called on. Throws ERR_INVALID_ARG_TYPE where it is none of the member's class. */
export function checkThis<T>(value: unknown, isOne: (value: unknown) => value is T, expected: string): T {
  if (isOne(value)) return value
  throw invalidReceiver(expected, value)
}

/** A copy of an array: the caller's may change, or answer differently the next time. */
export function checkArray(value: unknown, name: string, expected: string): readonly unknown[] {
  if (isRevoked(value) || !Array.isArray(value)) throw invalidType(name, expected, value)
  const length = checkInteger(value.length, `${name}.length`, 0, MOST_ELEMENTS)
  const elements: unknown[] = []
  for (let index = 0; index < length; index += 1) elements.push(value[index])
  return elements
}

export function checkBoolean(value: unknown, name: string, byDefault: boolean): boolean {
  if (value === undefined) return byDefault
  if (typeof value !== 'boolean') throw invalidType(name, 'true or false', value)
  return value
}

/** An integer in this range. A fraction or NaN is ERR_INVALID_ARG_TYPE; an unsafe integer is ERR_OUT_OF_RANGE. */
export function checkInteger(
  value: unknown,
  name: string,
  least: number = Number.MIN_SAFE_INTEGER,
  most: number = Number.MAX_SAFE_INTEGER,
  expected?: () => string,
): number {
  if (typeof value !== 'number' || !Number.isInteger(value)) throw invalidType(name, 'an integer', value)
  if (value >= least && value <= most) return value
  const isTooLittle = value < least && most === Number.MAX_SAFE_INTEGER
  throw outOfRange(name, expected?.() ?? (isTooLittle ? `at least ${least}` : `from ${least} to ${most}`), value)
}

/** An array of integers, each at least `least`. */
export const checkIntegers = (value: unknown, name: string, expected: string, least?: number): readonly number[] =>
  checkArray(value, name, expected).map((each, index) => checkInteger(each, `${name}[${index}]`, least))

/** A duration of the simulator's clock, which counts to the nanosecond. */
export function checkNanoseconds(value: unknown, name: string): number {
  if (typeof value !== 'number') throw invalidType(name, 'a number', value)
  if (!(value >= 0 && value < 2 ** 53)) throw outOfRange(name, 'from 0 to 2 ** 53 - 1 nanoseconds', value)
  return value
}

/** Text for C, which ends at a NUL. */
export function checkText(value: unknown, name: string, expected: string): string {
  if (typeof value !== 'string') throw invalidType(name, expected, value)
  if (value.includes('\0')) throw invalidValue(`${name} must not have a NUL in it, where C takes it to end`)
  return value
}

export function checkFunction(value: unknown, name: string): void {
  if (typeof value !== 'function' || isRevoked(value)) throw invalidType(name, 'a function', value)
}

/** An object that is to be kept reachable: any that a WeakRef could hold. */
export function checkOwner(owner: unknown): object | undefined {
  if (owner === undefined) return undefined
  if ((typeof owner !== 'object' && typeof owner !== 'function') || owner === null) {
    throw invalidType('options.owner', 'an object', owner)
  }
  return owner
}

export function checkSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined) return undefined
  if (!isSignal(signal)) throw invalidType('options.signal', 'an AbortSignal', signal)
  return signal
}

/** An object that merely inherits from AbortSignal cannot say whether it is aborted. */
function isSignal(value: unknown): value is AbortSignal {
  try {
    return value instanceof AbortSignal && typeof Reflect.get(AbortSignal.prototype, 'aborted', value) === 'boolean'
  } catch (error) {
    // A stack that runs over says nothing about the value.
    if (error instanceof RangeError) throw error
    return false
  }
}

/** A raw handle: a bigint or a safe integer that a pointer can be. */
export function checkPointer(value: unknown, name: string, expected: string): number {
  if (typeof value !== 'bigint' && !(typeof value === 'number' && Number.isSafeInteger(value))) {
    throw invalidType(name, expected, value)
  }
  if (value < 0 || value >= POINTER_LIMIT) throw outOfRange(name, 'a pointer of 47 bits', value)
  return Number(value)
}

/** A copy of bytes of one of these lengths. */
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

/** The genuine accessors: a caller's array may have properties of the same names. */
const TYPED_ARRAY = membersOf(Object.getPrototypeOf(Uint8Array.prototype))
const DATA_VIEW = membersOf(DataView.prototype)
const VALUES: (this: ArrayBufferView) => unknown = Object.getPrototypeOf(Uint8Array.prototype).values

/** The bytes themselves, not a copy, of a typed array, a DataView or an ArrayBuffer, shared or not. */
export function bytesOf(source: ArrayBufferView | ArrayBufferLike, name: string): Uint8Array {
  try {
    if (!ArrayBuffer.isView(source)) return new Uint8Array(source)
    const isTyped = types.isTypedArray(source)
    const { buffer, byteOffset, byteLength } = isTyped ? TYPED_ARRAY : DATA_VIEW
    const length = byteLength.call(source) as number
    // One that its ArrayBuffer has become too short for says 0, where a DataView throws.
    if (isTyped && length === 0) VALUES.call(source)
    return new Uint8Array(buffer.call(source) as ArrayBufferLike, byteOffset.call(source) as number, length)
  } catch {
    throw invalidValue(`${name} has been detached or shortened: its bytes are somewhere else, or gone`)
  }
}

type Getter = (this: ArrayBufferView) => unknown

function membersOf(prototype: object): Readonly<Record<'buffer' | 'byteOffset' | 'byteLength', Getter>> {
  const getter = (name: string): Getter => {
    const found = Object.getOwnPropertyDescriptor(prototype, name)?.get
    if (found === undefined) throw new TypeError(`${name} is no getter`)
    return found
  }
  return { buffer: getter('buffer'), byteOffset: getter('byteOffset'), byteLength: getter('byteLength') }
}

export function checkChoice<T extends string>(value: unknown, name: string, choices: readonly T[]): T {
  const choice = choices.find((one) => one === value)
  if (choice !== undefined) return choice
  throw invalidValue(`${name} must be one of '${choices.join("', '")}', not ${describe(value)}`)
}

/** The number that a name stands for. */
export function oneOf(value: unknown, numbers: Readonly<Record<string, number>>, name: string): number | undefined {
  if (value === undefined) return undefined
  const names = Object.keys(numbers).map((each) => `'${each}'`)
  const expected = names.join(' or ')
  if (typeof value !== 'string') throw invalidType(name, expected, value)
  if (!Object.hasOwn(numbers, value)) throw invalidValue(`${name} must be ${expected}, not ${describe(value)}`)
  return numbers[value]
}
