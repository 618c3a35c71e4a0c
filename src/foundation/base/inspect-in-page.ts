/** `inspect()` for messages in a page: values as Node prints them in one line, without classes' own ways of printing. */

interface Limits {
  /** The depth to which objects within objects are written out. Default: 2. */
  readonly depth?: number
  /** The largest number of elements that are written. Default: 100. */
  readonly maxArrayLength?: number
  /** The order of properties. Default: by insertion. */
  readonly sorted?: boolean
}

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/

export function inspect(value: unknown, limits: Limits = {}): string {
  return textOf(value, limits, limits.depth ?? 2, [])
}

/** The symbol under which objects have a function of their own for `console.log()` on Node. */
inspect.custom = Symbol.for('nodejs.util.inspect.custom')

function textOf(value: unknown, limits: Limits, depth: number, within: readonly object[]): string {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'bigint') return `${value}n`
  if (Object.is(value, -0)) return '-0'
  if (typeof value === 'function') return `[Function: ${value.name || '(anonymous)'}]`
  if (typeof value !== 'object' || value === null) return String(value)
  if (within.includes(value)) return '[Circular *1]'
  if (value instanceof Error) return `[${value.name}: ${value.message}]`
  const name = nameOf(value)
  if (depth < 0) return Array.isArray(value) ? '[Array]' : `[${name}]`
  const inner = (each: unknown): string => textOf(each, limits, depth - 1, [...within, value])
  const entry = (key: unknown, each: unknown): string =>
    `${typeof key === 'string' && IDENTIFIER.test(key) ? key : inner(key)}: ${inner(each)}`
  if (Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView)))
    return `${prefixOf(value, name)}${list(Array.from(value as ArrayLike<unknown>), limits, inner)}`
  if (value instanceof Set) return `Set(${value.size}) ${braces([...value].map(inner))}`
  if (value instanceof Map)
    return `Map(${value.size}) ${braces([...value].map(([key, each]) => `${inner(key)} => ${inner(each)}`))}`
  if (value instanceof ArrayBuffer) return `${name} ${list(Array.from(new Uint8Array(value)), limits, inner)}`
  if (ArrayBuffer.isView(value)) return `${name} { byteLength: ${value.byteLength} }`
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString()
  if (value instanceof RegExp) return String(value)
  if (value instanceof Promise) return 'Promise {}'
  const entries = Object.entries(value)
  if (limits.sorted === true) entries.sort(([a], [b]) => (a < b ? -1 : 1))
  const text = braces(entries.map(([key, each]) => entry(key, each)))
  return name === 'Object' ? text : `${name} ${text}`
}

function nameOf(value: object): string {
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === null) return '[Object: null prototype]'
  return String(Reflect.get(Object(Reflect.get(Object(prototype), 'constructor')), 'name') || 'Object')
}

const prefixOf = (value: object, name: string): string =>
  Array.isArray(value) ? '' : `${name}(${String(Reflect.get(value, 'length'))}) `

const braces = (parts: readonly string[]): string => (parts.length === 0 ? '{}' : `{ ${parts.join(', ')} }`)

function list(items: readonly unknown[], { maxArrayLength = 100 }: Limits, inner: (each: unknown) => string): string {
  const shown = items.slice(0, maxArrayLength).map(inner)
  const more = items.length - shown.length
  const all = more > 0 ? [...shown, `... ${more} more item${more === 1 ? '' : 's'}`] : shown
  return all.length === 0 ? '[]' : `[ ${all.join(', ')} ]`
}

function quoted(text: string): string {
  const quote = ["'", '"', '`'].find((each) => !text.includes(each)) ?? "'"
  const escaped = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"')
  return `${quote}${escaped.replaceAll(quote, `\\${quote}`)}${quote}`
}
