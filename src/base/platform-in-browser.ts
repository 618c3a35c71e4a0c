/**
 * What platform.ts exports, in a browser. There is no AsyncLocalStorage: what `run(value, fn)` makes current stays so until
 * the promise that `fn` returns is settled, for everything that runs meanwhile; of those that overlap, the latest counts.
 */
import { inspect as nodeInspect } from 'node-inspect-extracted'
import type {
  AsyncScope,
  Channel,
  ContextStorage,
  Hook,
  HookCallbacks,
  InspectOptions,
  Process,
  Terminal,
  Turn,
  Types,
  WebStreams,
} from './platform.js'
import { printableLines } from './printable.js'

export type {
  AsyncScope,
  Channel,
  ContextStorage,
  Hook,
  HookCallbacks,
  InspectOptions,
  Process,
  Terminal,
  Turn,
  Types,
  WebStreams,
}

function unsupported(what: string): never {
  throw Object.assign(new Error(`${what} cannot be had in a browser`), { code: 'ERR_UNSUPPORTED' })
}

/** What a function that has been called, or a promise that it returned, makes current. */
interface Frame<T> {
  value: T | undefined
}

class Frames<T> implements ContextStorage<T> {
  /** Those of functions that are not over; the first is of the program as a whole. */
  readonly #frames: Frame<T>[] = [{ value: undefined }]

  getStore(): T | undefined {
    return this.#frames.at(-1)?.value
  }

  enterWith(value: T): void {
    const innermost = this.#frames.at(-1)
    if (innermost !== undefined) innermost.value = value
  }

  run<R>(value: T, fn: () => R): R {
    return this.within(value, fn)
  }

  within<R>(value: T | undefined, fn: () => R): R {
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

/** Calls `end` when the result is there. A promise is the caller's to handle, so that a rejection is told of where it is not. */
function afterwards<R>(result: R, end: () => void): R
function afterwards(result: unknown, end: () => void): unknown {
  if (types.isPromise(result)) return result.finally(end)
  end()
  return result
}

const storages: Frames<unknown>[] = []

export function newContextStorage<T>(): ContextStorage<T> {
  const frames = new Frames<T>()
  storages.push(frames as Frames<unknown>)
  return frames
}

/** A function that runs others with what is current now. */
function here(): <R>(fn: () => R) => R {
  const values = storages.map((frames) => frames.getStore())
  return (fn) => storages.reduce<typeof fn>((inner, frames, index) => () => frames.within(values[index], inner), fn)()
}

class Scope implements AsyncScope {
  readonly #within = here()

  runInAsyncScope<A, B>(fn: (first: A, second: B) => void, _self: undefined, first: A, second: B): void {
    this.#within(() => fn(first, second))
  }
}

export const newAsyncScope = (_type: string): AsyncScope => new Scope()
export const isAsyncScope = (value: object): boolean => value instanceof Scope

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

/** Of all that the event loop may be asked for, timers are told of: those that are set while a hook is enabled. */
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

const { setTimeout: later } = globalThis

export const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => void later(resolve, milliseconds))

const turns: (() => void)[] = []
const { port1, port2 } = new MessageChannel()
/** A port of Node, on which bundles for browsers run too, keeps a process alive by listening. */
const held: typeof port1 & { ref?(): void; unref?(): void } = port1
Reflect.set(port1, 'onmessage', () => {
  const turn = turns.shift()
  if (turns.length === 0) held.unref?.()
  turn?.()
})
held.unref?.()

/** A message: timers of browsers come after milliseconds. */
export function atNextTurn(fn: () => void): Turn {
  turns.push(fn)
  held.ref?.()
  port2.postMessage(undefined)
  const turn: Turn = { hasRef: () => true, unref: () => turn }
  return turn
}

export const nextTurn = (): Promise<void> => new Promise((resolve) => void atNextTurn(resolve))

export function every(milliseconds: number, fn: () => void): () => void {
  const timer = setInterval(fn, milliseconds)
  return () => clearInterval(timer)
}

export const inspect: (value: unknown, options: InspectOptions) => string = nodeInspect
export const CUSTOM_INSPECT: symbol = nodeInspect.custom

const tagOf = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)?.get
const kindOf = (value: unknown): unknown => tagOf?.call(value)

/**
 * True if this getter or method of a class, which reads nothing but the object's internal state, accepts the object
 * as one of its class.
 */
function takes(value: unknown, prototype: object, name: string): boolean {
  try {
    Object.getOwnPropertyDescriptor(prototype, name)?.get?.call(value)
    return true
  } catch {
    return false
  }
}

export const types: Types = {
  isAnyArrayBuffer: (value): value is ArrayBufferLike =>
    takes(value, ArrayBuffer.prototype, 'byteLength') ||
    (typeof SharedArrayBuffer === 'function' && takes(value, SharedArrayBuffer.prototype, 'byteLength')),
  isMap: (value): value is Map<unknown, unknown> => takes(value, Map.prototype, 'size'),
  isNativeError: (value): value is Error => value instanceof Error,
  isPromise: (value): value is Promise<unknown> => value instanceof Promise,
  isSet: (value): value is Set<unknown> => takes(value, Set.prototype, 'size'),
  isTypedArray: (value) => kindOf(value) !== undefined,
  isUint8Array: (value): value is Uint8Array => kindOf(value) === 'Uint8Array',
}

export function randomInteger(least: number, limit: number): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2))
  return least + (((high % 2 ** 20) * 2 ** 32 + low) % (limit - least))
}

/** Where pages come from: places in them are told without it. */
const origin = String(Reflect.get(Reflect.get(globalThis, 'location') ?? {}, 'origin') ?? '')

export const process: Process = {
  stdout: { write: (text) => console.log(text) },
  env: {},
  // Workers have modules of their own, and nothing by which the library knows that they belong together.
  pid: randomInteger(1, 2 ** 31),
  cwd: () => origin,
  emit: (_event, { name, message }) => {
    console.warn(`${name}: ${message}`)
    return true
  },
  emitWarning: (message, { type, code, detail }) => console.warn(`[${code}] ${type}: ${message}\n${detail}`),
  kill: () => unsupported('A signal'),
  listenerCount: () => 0,
  nextTick: (fn) => queueMicrotask(fn),
  on: () => {},
  off: () => {},
  once: () => {},
}

export const isMainThread = true
export const threadId = 0

export function onceInAllThreads(_name: string): () => boolean {
  let isFirst = true
  return () => {
    const was = isFirst
    isFirst = false
    return was
  }
}

class Subscribers implements Channel {
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

const channels = new Map<string | symbol, Subscribers>()

function subscribersOf(name: string | symbol): Subscribers {
  const found = channels.get(name) ?? new Subscribers()
  channels.set(name, found)
  return found
}

export const channel = (name: string | symbol): Channel => subscribersOf(name)
export const subscribe = (name: string | symbol, listener: (message: unknown) => void): void =>
  void subscribersOf(name).listeners.add(listener)
export const unsubscribe = (name: string | symbol, listener: (message: unknown) => void): boolean =>
  subscribersOf(name).listeners.delete(listener)

/** As many as all browsers allow. */
export const LONGEST_ARRAY = 2 ** 32

export const webStreams = (): WebStreams => globalThis

export const markAsUntransferable = (_buffer: object): boolean => false
export const isMarkedAsUntransferable = (_buffer: object): boolean => false

/** Browsers do not say. */
export const machineMemory = (): number | undefined => undefined

export const hostname = (): string => 'browser'
export const openTerminal = (): Terminal | undefined => undefined

export function printError(text: string): void {
  console.error(printableLines(text))
}

export const readText = (path: string): string => unsupported(`The file ${path}`)
export const writeFile = async (path: string, _contents: string | Uint8Array): Promise<void> =>
  unsupported(`The file ${path}`)
export const writeFileNow = (path: string, _contents: string | Uint8Array): void => unsupported(`The file ${path}`)
export const absolutePath = (path: string): string => path
export const pathOf = (address: string): string => address
export const gzip = (_text: string): Uint8Array => unsupported('A compressed file')

/** Most bytes of a block, and the modulus of the sum, of the format. */
const BLOCK = 65_535
const ADLER = 65_521

/** Writes the data in uncompressed blocks, because browsers compress only asynchronously. */
export function deflateToBase64(parts: readonly Uint8Array[]): string {
  const pieces: string[] = ['\x78\x01']
  const put = (...bytes: number[]): void => void pieces.push(String.fromCharCode(...bytes))
  let [a, b] = [1, 0]
  for (const part of parts) {
    for (let at = 0; at < part.length; at += BLOCK) {
      const block = part.subarray(at, at + BLOCK)
      const [low, high] = [block.length & 255, block.length >> 8]
      put(0, low, high, ~low & 255, ~high & 255)
      for (const byte of block) {
        a = (a + byte) % ADLER
        b = (b + a) % ADLER
      }
      for (let from = 0; from < block.length; from += 4096) put(...block.subarray(from, from + 4096))
    }
  }
  put(1, 0, 0, 255, 255, b >> 8, b & 255, a >> 8, a & 255)
  return btoa(pieces.join(''))
}

export const sameBytes = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, index) => byte === b[index])

export const loadLate = (_from: string, file: string): unknown => unsupported(file)
