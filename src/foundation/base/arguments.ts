/** Argument checks. Each throws the Node-style error that docs/reference/errors.md describes, or returns the value with its type. */
import { describe, invalidReceiver, invalidType, invalidValue, outOfRange } from './errors.js'
import { printable } from './printable.js'

/** A sparse array may claim four billion elements: no call takes so many. */
const MOST_ELEMENTS = 2 ** 20

/** User-space pointers have 47 bits on every platform that CUDA runs on. */
const POINTER_LIMIT = 2 ** 47

/** Objects that are often passed in place of an options object that has them as a member, by their tag. */
const OPTION_FOR: ReadonlyMap<string, string> = new Map([
  ['[object AbortSignal]', 'signal'],
  ['[object Device]', 'device'],
  ['[object Event]', 'event'],
  ['[object ExternalStream]', 'stream'],
  ['[object Stream]', 'stream'],
])

/** Options that were read: each of these names with the value that was given. */
export type Given<T extends object, K extends keyof T> = { readonly [Name in K]: T[Name] | undefined }

/**
 * The options of these names, each read once. Call it before anything is opened: a getter may close what the call uses.
 * The message for an unknown option begins with `before`.
 * @throws ERR_INVALID_ARG_TYPE for an object that is no options object, such as an AbortSignal; ERR_INVALID_ARG_VALUE for
 * an option of another name; any error of a getter
 */
export function readOptions<T extends object, K extends keyof T>(
  options: T | undefined,
  names: readonly K[],
  name = 'options',
  before = '',
): Given<T, K> {
  if (options === undefined) return {} as Given<T, K>
  return readProperties(options, names, name, false, before)
}

/** Reads options as `readOptions()` does, from an object that may have more properties than these. */
export function readProperties<T extends object, K extends keyof T>(
  options: T,
  names: readonly K[],
  name: string,
  mayHaveMore = true,
  before = '',
): Given<T, K> {
  if (mayHaveMore) checkOptionsObject(options, name)
  else checkNames(options, names, name, before)
  const read = {} as { [Name in K]: T[Name] | undefined }
  for (const each of names) read[each] = options[each]
  return read
}

const NO_OPTIONS = Object.freeze({})

/**
 * Checks options as `readOptions()` does, and copies none: for calls that programs make millions of. The caller reads each option once, all of
 * them at the place of this call.
 */
export function checkOptions<T extends object, K extends keyof T>(
  options: T | undefined,
  names: readonly K[],
): Given<T, K> {
  if (options === undefined) return NO_OPTIONS as Given<T, K>
  checkNames(options, names, 'options', '')
  return options
}

function checkNames(options: object, names: readonly PropertyKey[], name: string, before: string): void {
  checkOptionsObject(options, name)
  for (const key in options) if (!isOneOf(names, key)) refuseName(options, key, names, name, before)
}

const isOneOf = (names: readonly PropertyKey[], key: PropertyKey): boolean => names.includes(key)

/** Throws for an unknown option, whatever its value. Objects with a prototype of their own may have more properties. */
function refuseName(options: object, key: string, names: readonly PropertyKey[], name: string, before: string): void {
  const prototype: unknown = Object.getPrototypeOf(options)
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null
  if (!isPlain || !Object.hasOwn(options, key)) return
  const meant = nearest(key, names.map(String))
  const way = meant === undefined ? `the options are '${names.join("', '")}'` : `did you mean '${meant}'?`
  throw invalidValue(`${before}unknown option '${printable(key)}' in ${name}: ${way}`)
}

/** Names in other programs, such as gridDim and blockSize, have the same beginning. */
const LEAST_IN_COMMON = 4

/**
 * The name that was probably meant: at most a third of its letters differ, or one begins with the other. Undefined for one of
 * the names, which is not misspelt: it is refused for another reason.
 */
export function nearest(given: string, names: readonly string[]): string | undefined {
  if (names.includes(given)) return undefined
  const begins = (long: string, short: string): boolean =>
    short.length >= LEAST_IN_COMMON && long.toLowerCase().startsWith(short.toLowerCase())
  const extended = names.filter((name) => begins(given, name) || begins(name, given))
  const apart = (name: string): number => Math.abs(name.length - given.length)
  if (extended.length > 0) return extended.reduce((best, name) => (apart(name) < apart(best) ? name : best))
  const distances = names.map((name) => editDistance(given.toLowerCase(), name.toLowerCase()))
  const least = Math.min(...distances)
  const name = names[distances.indexOf(least)]
  return name !== undefined && least <= name.length / 3 ? name : undefined
}

/** The number of letters to change, insert or delete that makes one word of the other. */
function editDistance(a: string, b: string): number {
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

/** Is the value an options object? An object with a tag of its own, such as a Map, is none. */
export const isOptionsObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && Object.prototype.toString.call(value) === '[object Object]'

function checkOptionsObject(options: unknown, name: string): void {
  if (isOptionsObject(options)) return
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalidType(name, 'an object', options)
  }
  const option = OPTION_FOR.get(Object.prototype.toString.call(options))
  throw invalidType(
    name,
    option === undefined ? 'an object of options' : `an object of options, as in { ${option} }`,
    options,
  )
}

/** Functions that return before their body has run to its end, by the tags of their prototypes, which `bind()` keeps. */
const FUNCTIONS_THAT_GO_ON: ReadonlyMap<string, string> = new Map([
  ['[object AsyncFunction]', 'an async function'],
  ['[object GeneratorFunction]', 'a generator function'],
  ['[object AsyncGeneratorFunction]', 'an async generator function'],
])

/**
 * Refuses, before it is called, a function whose body has not run when it returns. `why` says what ends with the function.
 * Code that was compiled to older JavaScript has no such functions: what they return is refused by `refusePromise()`.
 */
export function checkSynchronous(value: unknown, name: string, why: string): void {
  checkFunction(value, name)
  const kind = FUNCTIONS_THAT_GO_ON.get(Object.prototype.toString.call(value))
  if (kind !== undefined) throw invalidValue(`${name} must not be ${kind}: ${why}. It was not called`)
}

/** Refuses what a function that must be synchronous has returned, if it is a promise. */
export function refusePromise(returned: unknown, name: string, why: string): void {
  if (!isThenable(returned)) return
  // No caller gets the promise, so its rejection must not end the process. Other thenables may begin their work in then().
  if (returned instanceof Promise) returned.catch(() => {})
  throw invalidValue(`${name} must not return a promise: ${why}`)
}

export const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  isObject(value) && 'then' in value && typeof value.then === 'function'

/** Can the value have properties? */
export const isObject = (value: unknown): value is object =>
  (typeof value === 'object' && value !== null) || typeof value === 'function'

/** The object that a member is called on. Throws ERR_INVALID_ARG_TYPE if it is not of the member's class. */
export function checkThis<T>(value: unknown, isOne: (value: unknown) => value is T, expected: string): T {
  if (isOne(value)) return value
  throw invalidReceiver(expected, value)
}

/** A copy of an array. */
export function checkArray(value: unknown, name: string, expected: string): readonly unknown[] {
  if (!Array.isArray(value)) throw invalidType(name, expected, value)
  checkInteger(value.length, `${name}.length`, 0, MOST_ELEMENTS)
  return [...(value as readonly unknown[])]
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

/** A duration on the simulator's clock, which counts nanoseconds. */
export function checkNanoseconds(value: unknown, name: string): number {
  if (typeof value !== 'number') throw invalidType(name, 'a number', value)
  if (!(value >= 0 && value < 2 ** 53)) throw outOfRange(name, 'from 0 to 2 ** 53 - 1 nanoseconds', value)
  return value
}

/** Text for C, which ends at a NUL. */
export function checkText(value: unknown, name: string, expected: string): string {
  if (typeof value !== 'string') throw invalidType(name, expected, value)
  if (value.includes('\0')) throw invalidValue(`${name} must not contain a NUL: C takes that for the end of the text`)
  return value
}

export function checkFunction(value: unknown, name: string): void {
  if (typeof value !== 'function') throw invalidType(name, 'a function', value)
}

/** An object to be kept reachable: any that a WeakRef can hold. */
export function checkOwner(owner: unknown): object | undefined {
  if (owner === undefined || isObject(owner)) return owner
  throw invalidType('options.owner', 'an object', owner)
}

export function checkSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal
  throw invalidType('options.signal', 'an AbortSignal', signal)
}

/** A raw handle: a bigint or a safe integer in the range of pointers. */
export function checkPointer(value: unknown, name: string, expected: string): number {
  if (typeof value !== 'bigint' && !(typeof value === 'number' && Number.isSafeInteger(value))) {
    throw invalidType(name, expected, value)
  }
  if (value < 0 || value >= POINTER_LIMIT) throw outOfRange(name, 'a pointer of 47 bits', value)
  return Number(value)
}

/** The value that a name stands for in a table; undefined if no name is given. */
export function oneOf<V>(value: unknown, table: Readonly<Record<string, V>>, name: string): V | undefined {
  if (value === undefined) return undefined
  const names = Object.keys(table)
  if (typeof value !== 'string') throw invalidType(name, listed(names), value)
  return table[checkChoice(value, name, names)]
}

/** Returns the value if it is one of these names; throws ERR_INVALID_ARG_VALUE otherwise. */
export function checkChoice<T extends string>(value: unknown, name: string, choices: readonly T[]): T {
  const choice = choices.find((one) => one === value)
  if (choice !== undefined) return choice
  throw invalidValue(`${name} must be ${listed(choices)}, not ${describe(value)}`)
}

/** A list of names for an error message: "'a', 'b' or 'c'". */
const listed = (names: readonly string[]): string => `'${names.join("', '")}'`.replace(/, (?='[^']*'$)/, ' or ')
