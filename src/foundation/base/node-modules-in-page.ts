/**
 * Takes the place of node-modules.ts in a page, and has its exports. There are no async contexts: what `run(value, fn)` makes current stays so until
 * the promise that `fn` returns is settled, for everything that runs meanwhile; of those that overlap, the latest counts.
 */
import { inspect } from './inspect-in-page.js'

export { inspect }

function unsupported(what: string): never {
  throw Object.assign(new Error(`${what} cannot be had in a browser`), { code: 'ERR_UNSUPPORTED' })
}

/** The value that a function which has been called, or a promise that it returned, makes current. */
interface Frame<T> {
  value: T | undefined
}

/** Runs a function with the values that were current at another time. */
type Within = <R>(fn: () => R) => R

/** One function for each storage: it returns what restores the value that is current now. */
const captures: (() => Within)[] = []

export class AsyncLocalStorage<T> {
  /** The frames of functions that have not returned; the first is that of the program as a whole. */
  readonly #frames: Frame<T>[] = [{ value: undefined }]

  constructor() {
    captures.push(() => {
      const value = this.getStore()
      return (fn) => this.#within(value, fn)
    })
  }

  getStore(): T | undefined {
    return this.#frames.at(-1)?.value
  }

  enterWith(value: T): void {
    const innermost = this.#frames.at(-1)
    if (innermost !== undefined) innermost.value = value
  }

  run<R>(value: T, fn: () => R): R {
    return this.#within(value, fn)
  }

  #within<R>(value: T | undefined, fn: () => R): R {
    const frame = { value }
    this.#frames.push(frame)
    const end = (): void => void this.#frames.splice(this.#frames.indexOf(frame), 1)
    let result: R
    try {
      result = fn()
    } catch (error) {
      end()
      throw error
    }
    return afterwards(result, end)
  }
}

/** Calls `end` when the result is there. The caller handles a promise, so that an unhandled rejection is reported. */
function afterwards<R>(result: R, end: () => void): R
function afterwards(result: unknown, end: () => void): unknown {
  if (types.isPromise(result)) return result.finally(end)
  end()
  return result
}

/** A function that runs others with what is current now. */
function here(): Within {
  const restores = captures.map((capture) => capture())
  return (fn) => restores.reduce<typeof fn>((inner, restore) => () => restore(inner), fn)()
}

export class AsyncResource {
  readonly #within = here()

  constructor(readonly type: string) {}

  runInAsyncScope<A extends readonly unknown[], R>(fn: (...args: A) => R, _self: undefined, ...args: A): R {
    return this.#within(() => fn(...args))
  }
}

/** The callbacks of a hook; each request has a number. */
interface HookCallbacks {
  init?(id: number, type: string, trigger: number, resource: object): void
  before?(id: number): void
  after?(id: number): void
}

interface Hook {
  enable(): Hook
  disable(): Hook
}

/** A timer, with the properties by which one of Node's tells of itself. */
class TimerResource {
  _destroyed = false
  constructor(
    readonly _idleTimeout: number,
    readonly _repeat: number | null,
  ) {}

  hasRef(): boolean {
    return !this._destroyed
  }
}

const hooks = new Set<HookCallbacks>()
const timers = new Map<unknown, TimerResource>()
let requests = 0
let restoreTimers = (): void => {}

/** Makes a hook. Of all requests to the event loop, it gets only timers: those that are set while a hook is enabled. */
export function createHook(callbacks: HookCallbacks): Hook {
  const hook: Hook = {
    enable: () => {
      if (hooks.size === 0) restoreTimers = watchTimers()
      hooks.add(callbacks)
      return hook
    },
    disable: () => {
      if (hooks.delete(callbacks) && hooks.size === 0) restoreTimers()
      return hook
    },
  }
  return hook
}

function watchTimers(): () => void {
  const { setTimeout, setInterval, clearTimeout, clearInterval } = globalThis
  const watched =
    (original: (fn: () => void, milliseconds: number) => unknown, repeats: boolean) =>
    (fn: () => void, wanted?: number, ...given: []) => {
      const milliseconds = Math.max(Number(wanted) || 0, 1)
      const resource = new TimerResource(milliseconds, repeats ? milliseconds : null)
      requests += 1
      const id = requests
      const within = here()
      for (const { init } of hooks) init?.(id, 'Timeout', 0, resource)
      const timer = original(() => {
        for (const { before } of hooks) before?.(id)
        try {
          within(() => fn(...given))
        } finally {
          for (const { after } of hooks) after?.(id)
          if (!repeats) forget(timer)
        }
      }, milliseconds)
      timers.set(timer, resource)
      return timer
    }
  const forget = (timer: unknown): void => {
    const resource = timers.get(timer)
    if (resource !== undefined) resource._destroyed = true
    timers.delete(timer)
  }
  const cleared = (original: typeof clearTimeout) => (timer: Parameters<typeof clearTimeout>[0]) => {
    forget(timer)
    original(timer)
  }
  Object.assign(globalThis, {
    setTimeout: watched(setTimeout, false),
    setInterval: watched(setInterval, true),
    clearTimeout: cleared(clearTimeout),
    clearInterval: cleared(clearInterval),
  })
  return () => Object.assign(globalThis, { setTimeout, setInterval, clearTimeout, clearInterval })
}

const tagOf = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)?.get
const kindOf = (value: unknown): unknown => tagOf?.call(value)

/**
 * Does this getter or method of a class, which reads no more than the object, accept the value as an object of the class?
 */
function takes(value: unknown, prototype: object, name: string): boolean {
  try {
    Object.getOwnPropertyDescriptor(prototype, name)?.get?.call(value)
    return true
  } catch {
    return false
  }
}

export const types = {
  isAnyArrayBuffer: (value: unknown): value is ArrayBufferLike =>
    takes(value, ArrayBuffer.prototype, 'byteLength') ||
    (typeof SharedArrayBuffer === 'function' && takes(value, SharedArrayBuffer.prototype, 'byteLength')),
  isMap: (value: unknown): value is Map<unknown, unknown> => takes(value, Map.prototype, 'size'),
  isNativeError: (value: unknown): value is Error => value instanceof Error,
  isPromise: (value: unknown): value is Promise<unknown> => value instanceof Promise,
  isSet: (value: unknown): value is Set<unknown> => takes(value, Set.prototype, 'size'),
  isTypedArray: (value: unknown): boolean => kindOf(value) !== undefined,
  isUint8Array: (value: unknown): value is Uint8Array => kindOf(value) === 'Uint8Array',
}

function randomInt(least: number, limit: number): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2))
  return least + (((high % 2 ** 20) * 2 ** 32 + low) % (limit - least))
}

/** The modules that the library loads when it first needs them. */
const LATE_MODULES: Readonly<Record<string, object>> = {
  'node:crypto': { randomInt },
  'node:fs': {
    readFileSync: (path: string) => unsupported(`The file ${path}`),
    writeFileSync: (path: string) => unsupported(`The file ${path}`),
    promises: { writeFile: async (path: string) => unsupported(`The file ${path}`) },
  },
  'node:os': { hostname: () => 'browser', totalmem: () => unsupported('The size of the memory') },
  'node:path': { resolve: (path: string) => path },
  'node:stream/web': globalThis,
  'node:tty': { isatty: () => false },
}

/** The origin of the page: places in the program are reported without it. */
const origin = String(Reflect.get(Reflect.get(globalThis, 'location') ?? {}, 'origin') ?? '')
/** The environment variables of a page, in which there is no driver but the simulator. */
const env: Record<string, string | undefined> = { CUDA_STREAMS_DRIVER: 'sim' }

/** The global of Node, as far as the library uses it in a page. */
export const process = {
  env,
  // Workers have modules of their own, and nothing by which the library knows that they belong together.
  pid: randomInt(1, 2 ** 31),
  cwd: (): string => origin,
  emit: (_event: string, { name, message }: Error): boolean => {
    console.warn(`${name}: ${message}`)
    return true
  },
  emitWarning: (message: string, { type, code, detail }: { type: string; code: string; detail: string }): void =>
    console.warn(`[${code}] ${type}: ${message}\n${detail}`),
  getBuiltinModule: (name: string): object => LATE_MODULES[name] ?? unsupported(name),
  kill: (): never => unsupported('A signal'),
  listenerCount: (): number => 0,
  on: (): void => {},
  off: (): void => {},
  once: (): void => {},
  stdout: { write: (text: string): void => console.log(text.replace(/\n$/, '')) },
  stderr: { write: (text: string): void => console.error(text.replace(/\n$/, '')) },
}

/** The global of Node, as far as the library uses it in a page. */
export const Buffer = {
  compare: (a: Uint8Array, b: Uint8Array): number =>
    a.length === b.length && a.every((byte, index) => byte === b[index]) ? 0 : 1,
}

/** `MAX_LENGTH` elements are as many as all browsers allow. */
export const constants = { MAX_LENGTH: 2 ** 32 }

/** Places in the program are URLs. */
export const fileURLToPath = (address: string): string => address

export const isMainThread = true
export const threadId = 0

/** What a page knows of workers. Nothing keeps an ArrayBuffer of a page from being transferred. */
export const workerThreads = { isMainThread, threadId, markAsUntransferable: undefined }

export class Channel {
  readonly listeners = new Set<(message: unknown) => void>()

  get hasSubscribers(): boolean {
    return this.listeners.size > 0
  }

  publish(message: unknown): void {
    for (const listener of this.listeners) {
      try {
        listener(message)
      } catch (error) {
        queueMicrotask(() => {
          throw error
        })
      }
    }
  }
}

const channels = new Map<string | symbol, Channel>()

export function channel(name: string | symbol): Channel {
  const found = channels.get(name) ?? new Channel()
  channels.set(name, found)
  return found
}

export const subscribe = (name: string | symbol, listener: (message: unknown) => void): void =>
  void channel(name).listeners.add(listener)
export const unsubscribe = (name: string | symbol, listener: (message: unknown) => void): boolean =>
  channel(name).listeners.delete(listener)
