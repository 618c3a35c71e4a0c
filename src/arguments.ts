/** Checks of what callers pass. Each throws the Node-style error of docs/errors.md, or returns the value typed. */
import { describe, invalidType, invalidValue, outOfRange } from './errors.js'

/** User-space pointers on every platform that CUDA runs on. */
const POINTER_LIMIT = 2 ** 47

/** What people pass where it belongs into an options bag, by its tag. */
const OPTION_FOR: Readonly<Record<string, string>> = {
  AbortSignal: 'signal',
  Device: 'device',
  Event: 'event',
  ExternalStream: 'stream',
  Stream: 'stream',
}

/** An options bag, or nothing. An object that is something in itself, as an AbortSignal or a Stream, is none. */
export function checkOptions<T extends object>(options: T | undefined, name = 'options'): T | undefined {
  if (options === undefined) return undefined
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalidType(name, 'an object', options)
  }
  if (Symbol.toStringTag in options) throw noOptions(options, name)
  return options
}

function noOptions(given: { readonly [Symbol.toStringTag]: unknown }, name: string): Error {
  const option = OPTION_FOR[String(given[Symbol.toStringTag])]
  return invalidType(name, option === undefined ? 'an object of options' : `options, as in { ${option} }`, given)
}

export function checkBoolean(value: boolean | undefined, name: string, byDefault: boolean): boolean {
  if (value === undefined) return byDefault
  if (typeof value !== 'boolean') throw invalidType(name, 'true or false', value)
  return value
}

export function checkInteger(value: number, name: string): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw invalidType(name, 'an integer', value)
  return value
}

/** A duration of the simulator's clock: what it can count to the nanosecond. */
export function checkNanoseconds(value: number, name: string): number {
  if (typeof value !== 'number') throw invalidType(name, 'a number', value)
  if (!(value >= 0 && value < 2 ** 53)) throw outOfRange(name, 'from 0 to 2 ** 53 - 1 nanoseconds', value)
  return value
}

export function checkFunction(value: unknown, name: string): void {
  if (typeof value !== 'function') throw invalidType(name, 'a function', value)
}

/** An object whose lifetime is tied to something: anything a WeakRef could hold. */
export function checkOwner(owner: unknown): object | undefined {
  if (owner === undefined) return undefined
  if ((typeof owner !== 'object' && typeof owner !== 'function') || owner === null) {
    throw invalidType('options.owner', 'an object', owner)
  }
  return owner
}

export function checkSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (signal === undefined) return undefined
  if (!(signal instanceof AbortSignal)) throw invalidType('options.signal', 'an AbortSignal', signal)
  return signal
}

/** A raw handle: a bigint or a safe integer that a pointer can be. */
export function checkPointer(value: unknown, name: string, expected: string): number {
  if (typeof value !== 'bigint' && !(typeof value === 'number' && Number.isSafeInteger(value))) {
    throw invalidType(name, expected, value)
  }
  if (value < 0 || value >= POINTER_LIMIT) throw outOfRange(name, 'a pointer of 47 bits', value)
  return Number(value)
}

/** Bytes of a stated length. */
export function checkBytes(bytes: Uint8Array, name: string, length: number): Uint8Array {
  if (!(bytes instanceof Uint8Array)) throw invalidType(name, `a Uint8Array of ${length} bytes`, bytes)
  if (bytes.length !== length) throw invalidValue(`${name} must have ${length} bytes, not ${bytes.length}`)
  return bytes
}

export function checkChoice<T extends string>(value: unknown, name: string, choices: readonly T[]): T {
  const choice = choices.find((one) => one === value)
  if (choice !== undefined) return choice
  throw invalidValue(`${name} must be one of '${choices.join("', '")}', not ${describe(value)}`)
}

/** Text that C takes: it ends at the first zero there, so it must have none. */
export function checkText(value: unknown, name: string, expected: string): string {
  if (typeof value !== 'string') throw invalidType(name, expected, value)
  if (value.includes('\0')) throw invalidValue(`${name} must not have a zero character in it: ${describe(value)}`)
  return value
}
