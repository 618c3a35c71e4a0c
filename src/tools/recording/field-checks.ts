/**
 * Checks of values that a recording's lines have, by which the types of these values are known, too. A file may be damaged, or written by another
 * program.
 */
import { isObject } from '../../foundation/base/arguments.js'
import type { Pointer } from '../../foundation/driver/handle-types.js'
import type { Access, MemoryRows, TouchedMemory } from '../../foundation/driver/touched-memory.js'

/** Whether a value is one of this type. */
export type Check<T = unknown> = (value: unknown) => value is T
/** The type that a check finds. */
export type Checked<C> = C extends Check<infer T> ? T : never
/** The checks of an object's fields. */
export type Checks = Readonly<Record<string, Check>>
/** An object whose fields are as the checks say. */
export type CheckedFields<F extends Checks> = { readonly [N in keyof F]: Checked<F[N]> }

/** A number of bytes that no machine has, so that what is computed with such numbers stays exact. */
export const MOST_BYTES = 2 ** 50
/** A number of arguments that no kernel of CUDA has. */
const MOST_ARGUMENTS = 2 ** 16

export const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)
export const isText = (value: unknown): value is string => typeof value === 'string'
export const isFlag = (value: unknown): value is boolean => typeof value === 'boolean'
/** Decimal digits of a number that JSON may not hold exactly. */
export const isDigits = (value: unknown): value is string => typeof value === 'string' && /^\d{1,40}$/.test(value)
export const isSize = (value: unknown): value is number =>
  isNumber(value) && Number.isInteger(value) && value >= 0 && value <= MOST_BYTES
export const isPointer = (value: unknown): value is Pointer => isNumber(value)

export const isOneOf =
  <T>(values: readonly T[]): Check<T> =>
  (value): value is T =>
    values.some((each) => each === value)
export const isOptional =
  <T>(check: Check<T>): Check<T | undefined> =>
  (value): value is T | undefined =>
    value === undefined || check(value)
export const isList =
  <T>(check: Check<T>): Check<readonly T[]> =>
  (value): value is readonly T[] =>
    Array.isArray(value) && value.every((each) => check(each))
export const isEither =
  <T, U>(one: Check<T>, other: Check<U>): Check<T | U> =>
  (value): value is T | U =>
    one(value) || other(value)

/** Whether all fields that the checks name are there and valid, as fields of the object itself and not of its prototype. */
export const has =
  <F extends Checks>(checks: F): Check<CheckedFields<F>> =>
  (value): value is CheckedFields<F> =>
    isObject(value) && Object.entries(checks).every(([name, check]) => check(ownOf(value, name)))

export const ownOf = (value: object, name: string): unknown =>
  Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined

/** The three dimensions of a grid or a block. */
export const isShape = (value: unknown): value is readonly [number, number, number] =>
  isList(isSize)(value) && value.length === 3

export const isRows: Check<MemoryRows> = has({
  ...{ rowLength: isSize, rows: isSize, rowDistance: isSize, matrices: isSize, matrixDistance: isSize },
})
const isArgument = (value: unknown): value is number => isSize(value) && value < MOST_ARGUMENTS
const ACCESSES: readonly Access[] = ['in', 'out', 'inout', 'atomic']

/** The memory that work touches. */
export const isMemory: Check<readonly TouchedMemory[]> = isList(
  has({
    pointer: isPointer,
    byteLength: isSize,
    access: isOneOf(ACCESSES),
    argument: isOptional(isArgument),
    rows: isOptional(isRows),
  }),
)
