/**
 * Values that are wrong for a parameter, by the kind of parameter. fast-check looks at what it generates, which hostile
 * values do not bear: they stay wrapped as `Later` until the call.
 */
import { inspect } from 'node:util'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'

/** What a hostile value throws; it may come through instead of an error of the library. */
export class Hostility extends Error {}

/** A value that is made when it is needed. */
class Later {
  readonly make: () => unknown
  constructor(make: () => unknown) {
    this.make = make
  }
}

/** The value itself. */
export const resolved = (value: unknown): unknown => (value instanceof Later ? value.make() : value)

/** A value for a message; never throws. */
export function shown(value: unknown): string {
  try {
    return inspect(resolved(value), { customInspect: false, depth: 2, breakLength: Number.POSITIVE_INFINITY })
  } catch {
    return 'what cannot be looked at'
  }
}

const hostile = (): never => {
  throw new Hostility('do not touch')
}

/** An object whose every named property throws when read. */
function withThrowingGetters(...names: readonly PropertyKey[]): object {
  const object = {}
  for (const name of names) Object.defineProperty(object, name, { get: hostile, enumerable: true })
  return object
}

export const oneOf = (...values: readonly unknown[]): fc.Arbitrary<unknown> => fc.constantFrom(...values)
const lazily = (make: () => unknown): fc.Arbitrary<unknown> => fc.constant(new Later(make))
export const either = (...arbitraries: readonly fc.Arbitrary<unknown>[]): fc.Arbitrary<unknown> =>
  fc.oneof(...arbitraries)

const strings = either(oneOf('', 'x', '0', '0x10', 'stream', '__proto__'), fc.string())
const symbols = oneOf(Symbol('s'), Symbol.iterator, Symbol.for('cuda.stream'))
const booleans = oneOf(true, false)
const functions = oneOf(
  () => {},
  function named() {},
  class Thing {},
  Math.max,
)
const arrays = either(
  oneOf([], [undefined], [0, 0], Object.freeze([1n])),
  fc.array(fc.anything({ maxDepth: 1 }), { maxLength: 3 }),
)
const notFinite = oneOf(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY)
const notIntegers = either(notFinite, oneOf(0.5, -0.5, 2 ** 53, 1e300, Number.MIN_VALUE, Number.MAX_VALUE))
const bigints = either(oneOf(0n, 1n, -1n, 2n ** 64n, 2n ** 200n, -(2n ** 200n)), fc.bigInt())
const numbers = either(notIntegers, fc.integer(), oneOf(-0))

function detached(make: (buffer: ArrayBuffer) => ArrayBufferView | ArrayBuffer): object {
  const buffer = new ArrayBuffer(8)
  const made = make(buffer)
  structuredClone(buffer, { transfer: [buffer] })
  return made
}

/** Objects that are made unusable, or come from another realm. */
const strange = either(
  ...[1, 'x', true, 1n, Symbol('s')].map((primitive) => lazily(() => Object(primitive))),
  lazily(() => detached((buffer) => buffer)),
  lazily(() => detached((buffer) => new Uint8Array(buffer))),
  lazily(() => detached((buffer) => new DataView(buffer))),
  ...['({})', '[]', '[0, 0]', 'new Map()', 'new Error("x")', 'new Uint8Array(7)', 'new ArrayBuffer(7)'].map((code) =>
    lazily(() => runInNewContext(code)),
  ),
  lazily(() => Object.assign([], { length: 2 ** 32 - 1 })),
)

/** Objects that are nothing in particular. */
const objects = either(
  strange,
  lazily(() => ({})),
  lazily(() => Object.create(null)),
  oneOf(new Date(0), /x/, new Map(), new Uint8Array(3), new Error('x'), Promise.resolve(), new WeakMap()),
)
const primitives = either(oneOf(null), strings, symbols, booleans, numbers, bigints)

/** Neither an options object nor undefined. */
export const noOptions = either(primitives, functions, arrays)
export const nothingOfOurs = either(primitives, functions, arrays, objects)
export const noFunction = either(oneOf(undefined), primitives, arrays, objects)
export const noBoolean = either(
  oneOf(null, 0, 1, 'true', 'false'),
  strings,
  symbols,
  numbers,
  bigints,
  functions,
  objects,
)
export const noInteger = either(
  oneOf(null),
  strings,
  symbols,
  booleans,
  notIntegers,
  bigints,
  functions,
  arrays,
  objects,
)
/** Any integer is a priority: it is clamped to the range of the device. */
export const noPriority = noInteger.filter((value) => !Number.isInteger(value))
export const noOwner = primitives
export const noSignal = either(
  primitives,
  functions,
  arrays,
  objects,
  oneOf({ aborted: false, addEventListener() {}, removeEventListener() {}, throwIfAborted() {} }),
)
export const noDuration = either(
  oneOf(null, undefined),
  strings,
  symbols,
  booleans,
  notFinite,
  bigints,
  objects,
  oneOf(2 ** 53, Number.MAX_VALUE),
  oneOf(-1),
)
export const noResult = either(noInteger, oneOf(0, -0, -1, -700))
export const noBytes = either(
  primitives,
  functions,
  arrays,
  objects,
  fc.uint8Array({ maxLength: 200 }).filter((bytes) => bytes.length !== 64),
  oneOf(new ArrayBuffer(64), new Uint16Array(64), Array(64).fill(0)),
)
/** Of the right length, but shared by no process. */
export const foreignBytes = fc.uint8Array({ minLength: 64, maxLength: 64 })

/**
 * Values of every kind: wrong for most parameters, right for some. Options objects have these names; `ours` are objects
 * of the library. Some getters of the options close one of these.
 */
export function anything(
  names: readonly string[],
  ours: () => readonly object[],
  close: (one: object) => void,
): fc.Arbitrary<unknown> {
  const own = fc.nat().map((nth) => new Later(() => ours()[nth % ours().length]))
  // Called with a bigint it throws by itself, and no library can give that a code.
  const callbacks = functions.filter((value) => value !== Math.max)
  const plain = either(oneOf(undefined), primitives, callbacks, arrays, objects, own, own)
  const member = fc.tuple(fc.constantFrom(...names), either(plain, own), fc.nat(5), fc.nat())
  const optionsObjects = fc.array(member, { maxLength: 4 }).map((members) => {
    return new Later(() => {
      const object: object = members.length % 2 === 0 ? {} : Object.create(null)
      for (const [name, value, way, nth] of members) {
        const get = (): unknown => {
          if (way === 1) hostile()
          if (way === 2) close(ours()[nth % ours().length] as object)
          return resolved(value)
        }
        const descriptor = way > 2 ? { value: resolved(value), writable: true } : { get }
        Object.defineProperty(object, name, { ...descriptor, configurable: true, enumerable: true })
      }
      return object
    })
  })
  return either(plain, optionsObjects)
}

/** Neither an ordinal of a device nor a Device. */
export const noDevice = either(noInteger, oneOf(-2, 64, 4096, 2 ** 31, -(2 ** 31), Number.MIN_SAFE_INTEGER))
export const noOrdinal = either(
  noInteger.filter((value) => value !== undefined),
  oneOf(-1, -2, 64, 4096, 2 ** 31),
)
export const noAttribute = either(
  oneOf(undefined, null, 'MAX_THREADS_PER_BLOCK', 'warpsize', 'toString', 'constructor', '__proto__'),
  strings,
  symbols,
  numbers,
  bigints,
  functions,
  objects,
)

/** Numbers that are no handle of anything: too small for an address, unmapped, or beyond all addresses. */
export const noHandleNumber = either(
  fc.integer({ min: 3, max: 65_535 }),
  fc.bigInt({ min: 3n, max: 65_535n }),
  oneOf(
    -1,
    -1n,
    2 ** 47,
    2n ** 47n,
    2n ** 64n,
    2n ** 200n,
    -(2n ** 200n),
    Number.MIN_SAFE_INTEGER,
    Number.MAX_SAFE_INTEGER,
  ),
  notIntegers,
)
/** Event handles have no default ones among the small numbers. */
export const noEventHandle = either(noHandleNumber, oneOf(0, 0n, -0, 1, 2n), noHandleType())

function noHandleType(): fc.Arbitrary<unknown> {
  return either(oneOf(null, undefined), strings, symbols, booleans, arrays, objects, functions)
}

/** Objects with a stream protocol that do not keep to it. `live` is a handle that would be right. */
export function brokenProtocols(live: () => bigint): fc.Arbitrary<unknown> {
  const replies = either(
    lazily(() => [1, live()]),
    lazily(() => ['0', live()]),
    lazily(() => [0]),
    lazily(() => [0, live(), 0]),
    lazily(() => ({ 0: 0, 1: live(), length: 2 })),
    lazily(() => Promise.resolve([0, live()])),
    lazily(live),
    oneOf(
      undefined,
      null,
      [],
      [0, null],
      [0, undefined],
      [0, 'x'],
      [0, Number.NaN],
      [0, -1],
      [0, 2n ** 200n],
      [0, Symbol('s')],
    ),
    fc.tuple(fc.constant(0), noHandleNumber),
  )
  return either(
    replies.map((reply) => ({ __cuda_stream__: () => resolved(reply) })),
    replies.map((reply) => ({ [Symbol.for('cuda.stream')]: () => resolved(reply) })),
    replies.map((reply) => Object.assign(() => {}, { __cuda_stream__: () => resolved(reply) })),
    lazily(() => ({ __cuda_stream__: hostile })),
    lazily(() => ({ [Symbol.for('cuda.stream')]: hostile, __cuda_stream__: () => [0, live()] })),
    lazily(() => withThrowingGetters('__cuda_stream__')),
    oneOf({ __cuda_stream__: 1n }, { [Symbol.for('cuda.stream')]: [0, 0n] }, { cuda_stream: 0 }),
  )
}

/** What no stream can be wrapped from. */
export function noSource(live: () => bigint): fc.Arbitrary<unknown> {
  return either(noHandleNumber, noHandleType(), brokenProtocols(live))
}

/** What no stream can wait for; a handle must be wrapped first. */
export function noWaitTarget(live: () => bigint): fc.Arbitrary<unknown> {
  const values = either(primitives, oneOf(undefined), arrays, objects, functions, brokenProtocols(live), lazily(live))
  // A stream waits for a promise, too.
  return values.filter((value) => !(value instanceof Promise))
}

/** Options objects in which one member is wrong, and the others are missing or right. */
export function wrongOptions(members: Readonly<Record<string, fc.Arbitrary<unknown>>>): fc.Arbitrary<unknown> {
  const names = Object.keys(members)
  const objects = Object.entries(members).map(([name, wrong]) =>
    wrong.map((value) => new Later(() => ({ [name]: resolved(value) }))),
  )
  return either(
    noOptions,
    ...objects,
    ...objects,
    lazily(() => withThrowingGetters(...names)),
  )
}
