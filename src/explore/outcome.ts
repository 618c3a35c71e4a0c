/** The outcome of a run: all by which two orders can be told apart. */
import { inspect, types } from '#platform'

/** The outcome of a run of a program. Two that are equal in all of this agree. */
export interface Outcome {
  /** The program returned or threw; or it waits forever; or it was given up when `maxMilliseconds` were over. */
  readonly kind: 'returned' | 'threw' | 'deadlock' | 'unfinished'
  /** The returned or thrown value, as text; for a deadlock, the operations that it waits for. */
  readonly value: string
  /** The errors of host functions and twins, in that order. */
  readonly uncaught: readonly string[]
  /** Host functions that ran, each named by its stream and its place there. */
  readonly ran: readonly string[]
}

export function sameOutcome(a: Outcome, b: Outcome): boolean {
  return textOf(a) === textOf(b)
}

function textOf({ kind, value, uncaught, ran }: Outcome): string {
  return JSON.stringify([kind, value, uncaught, ran])
}

/** A value as it is now, as text: equal for values of the same structure. */
export function observed(value: unknown): string {
  return inspect(plain(value, new Map()), {
    depth: Number.POSITIVE_INFINITY,
    maxArrayLength: Number.POSITIVE_INFINITY,
    maxStringLength: Number.POSITIVE_INFINITY,
    breakLength: Number.POSITIVE_INFINITY,
    compact: 1000,
    sorted: true,
  })
}

/** An error by what does not depend on where it was made. */
export function observedError(error: unknown): string {
  if (!types.isNativeError(error)) return observed(error)
  const code: unknown = Reflect.get(error, 'code')
  return `${error.name}${code === undefined ? '' : ` ${String(code)}`}: ${error.message}`
}

function plain(value: unknown, seen: Map<object, unknown>): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (types.isNativeError(value)) return observedError(value)
  const known = seen.get(value)
  if (known !== undefined) return known
  if (Array.isArray(value)) {
    const copy: unknown[] = []
    seen.set(value, copy)
    for (const item of value) copy.push(plain(item, seen))
    return copy
  }
  if (types.isMap(value)) return new Map([...value].map(([key, item]) => [plain(key, seen), plain(item, seen)]))
  if (types.isSet(value)) return new Set([...value].map((item) => plain(item, seen)))
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return value
  const copy: Record<string, unknown> = {}
  seen.set(value, copy)
  for (const [key, item] of Object.entries(value)) copy[key] = plain(item, seen)
  return copy
}
