/**
 * What the library needs of Node, outside of the driver of real GPUs. In a program that is bundled for browsers
 * platform-in-browser.ts takes this file's place, by the condition `browser` in package.json: each has what the other has.
 */
import { AsyncLocalStorage, AsyncResource, createHook as createNodeHook } from 'node:async_hooks'
import { createRequire } from 'node:module'
import { setTimeout as time, setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import util from 'node:util'
import worker from 'node:worker_threads'
import { printableLines } from './printable.js'

/** Which value is current, in each chain of calls, promises and callbacks. */
export interface ContextStorage<T> {
  getStore(): T | undefined
  enterWith(value: T): void
  run<R>(value: T, fn: () => R): R
}

/** The chain in which it was made, to run a function in. */
export interface AsyncScope {
  runInAsyncScope<A, B>(fn: (first: A, second: B) => void, self: undefined, first: A, second: B): void
}

/** What is called as the event loop comes to what was asked of it; each request has a number. */
export interface HookCallbacks {
  init?(id: number, type: string, trigger: number, resource: object): void
  before?(id: number): void
  after?(id: number): void
  destroy?(id: number): void
  promiseResolve?(id: number): void
}

export interface Hook {
  enable(): Hook
  disable(): Hook
}

/** One turn of the event loop that was asked for. */
export interface Turn {
  hasRef(): boolean
  unref(): Turn
}

export interface Channel {
  readonly hasSubscribers: boolean
  publish(message: unknown): void
}

export interface InspectOptions {
  readonly depth?: number
  readonly maxArrayLength?: number
  readonly maxStringLength?: number
  readonly breakLength?: number
  readonly compact?: number
  readonly sorted?: boolean
  readonly customInspect?: boolean
}

/** Of a value of any kind, whatever its prototype and properties say. */
export interface Types {
  isAnyArrayBuffer(value: unknown): value is ArrayBufferLike
  isMap(value: unknown): value is Map<unknown, unknown>
  isNativeError(value: unknown): value is Error
  isPromise(value: unknown): value is Promise<unknown>
  isSet(value: unknown): value is Set<unknown>
  isTypedArray(value: unknown): boolean
  isUint8Array(value: unknown): value is Uint8Array
}

export type WebStreams = Pick<typeof import('node:stream/web'), 'ReadableStream' | 'WritableStream'>

export interface Terminal {
  readonly columns: number
  write(text: string): unknown
}

/** What the process is, and what it does with text for people. */
export interface Process {
  readonly env: Record<string, string | undefined>
  readonly pid: number
  readonly stdout: { write(text: string): unknown }
  exitCode?: number | string | null | undefined
  cwd(): string
  emit(event: 'warning', warning: Error): boolean
  emitWarning(message: string, options: { type: string; code: string; detail: string }): void
  kill(pid: number, signal: NodeJS.Signals): boolean
  listenerCount(event: string): number
  nextTick(fn: () => void): void
  on(event: string, listener: (signal: NodeJS.Signals) => void): unknown
  off(event: string, listener: (signal: NodeJS.Signals) => void): unknown
  once(event: string, listener: () => void): unknown
}

export const process: Process = globalThis.process

export const newContextStorage = <T>(): ContextStorage<T> => new AsyncLocalStorage<T>()

export const newAsyncScope = (type: string): AsyncScope => new AsyncResource(type)

export const isAsyncScope = (value: object): boolean => value instanceof AsyncResource

export const createHook = (callbacks: HookCallbacks): Hook => createNodeHook(callbacks)

export const inspect: (value: unknown, options: InspectOptions) => string = util.inspect

/** The name of a method that says how an object is shown. */
export const CUSTOM_INSPECT: symbol = util.inspect.custom

export const types: Types = util.types

export const isMainThread: boolean = worker.isMainThread
export const threadId: number = worker.threadId

/**
 * Makes a function that returns true once, in one of all the threads of the process. To be called when a module is
 * loaded, so that threads that are started later share the state.
 */
export function onceInAllThreads(name: string): () => boolean {
  const inherited = worker.getEnvironmentData(name)
  const flag = inherited instanceof SharedArrayBuffer ? inherited : new SharedArrayBuffer(4)
  if (flag !== inherited) worker.setEnvironmentData(name, flag)
  return () => Atomics.exchange(new Int32Array(flag), 0, 1) === 0
}

/** Calls a function at the next turn of the event loop. Tests that put fake timers in its place mean the program's own. */
export const atNextTurn: (fn: () => void) => Turn = globalThis.setImmediate

/** Resolves at the next turn of the event loop. */
export const nextTurn: () => Promise<void> = turn

export const sleep: (milliseconds: number) => Promise<void> = time

export const channel = (name: string | symbol): Channel => diagnostics().channel(name)
export const subscribe = (name: string | symbol, listener: (message: unknown) => void): void =>
  diagnostics().subscribe(name, listener)
export const unsubscribe = (name: string | symbol, listener: (message: unknown) => void): boolean =>
  diagnostics().unsubscribe(name, listener)

/** The most elements that a typed array can have. */
export const LONGEST_ARRAY: number = globalThis.process.getBuiltinModule('node:buffer').constants.MAX_LENGTH

// Loaded at the first use: most programs need none of it, and some take milliseconds.
const diagnostics = () => globalThis.process.getBuiltinModule('node:diagnostics_channel')
const files = () => globalThis.process.getBuiltinModule('node:fs')
const zlib = () => globalThis.process.getBuiltinModule('node:zlib')

/** The classes of web streams; those in globalThis may be the program's own. */
export const webStreams = (): WebStreams => globalThis.process.getBuiltinModule('node:stream/web')

/** From the first, and less than the second. */
export const randomInteger = (least: number, limit: number): number =>
  globalThis.process.getBuiltinModule('node:crypto').randomInt(least, limit)

/** Keeps an ArrayBuffer from being transferred. False where this cannot be done. */
export function markAsUntransferable(buffer: object): boolean {
  worker.markAsUntransferable?.(buffer)
  return typeof worker.markAsUntransferable === 'function'
}

/** False where that cannot be told. */
export function isMarkedAsUntransferable(buffer: object): boolean {
  const ask: unknown = Reflect.get(worker, 'isMarkedAsUntransferable')
  return typeof ask === 'function' && ask(buffer) === true
}

/**
 * Bytes of memory of this machine, or of the container that the process runs in, if that has a limit. Undefined if the
 * process may not ask: Deno needs a permission.
 */
export function machineMemory(): number | undefined {
  try {
    const total = globalThis.process.getBuiltinModule('node:os').totalmem()
    // Without a limit it is 0, or more than any machine has. Deno and old versions of Node lack the function.
    return Math.min(total, globalThis.process.constrainedMemory?.() || total)
  } catch {
    return undefined
  }
}

export const hostname = (): string => globalThis.process.getBuiltinModule('node:os').hostname()

/**
 * The terminal that standard error is; undefined where it is none. Its file is asked, and not for a property, which a stream
 * that is no terminal lacks.
 */
export const openTerminal = (): Terminal | undefined =>
  globalThis.process.getBuiltinModule('node:tty').isatty(2) ? globalThis.process.stderr : undefined

/** One line, or several, on standard error. */
export function printError(text: string): void {
  globalThis.process.stderr.write(`${printableLines(printableLines(text))}\n`)
}

export const readText = (path: string): string => files().readFileSync(path, 'utf8')
export const writeFile = (path: string, contents: string | Uint8Array): Promise<void> =>
  files().promises.writeFile(path, contents)
export const writeFileNow = (path: string, contents: string | Uint8Array): void => files().writeFileSync(path, contents)
export const absolutePath = (path: string): string => globalThis.process.getBuiltinModule('node:path').resolve(path)
/** Of a `file:` address. */
export const pathOf = (address: string): string => fileURLToPath(address)

export const gzip = (text: string): Uint8Array => zlib().gzipSync(text)
/** Of the parts one behind the other. */
export const deflateToBase64 = (parts: readonly Uint8Array[]): string =>
  zlib().deflateSync(Buffer.concat(parts)).toString('base64')

export const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0

/** Calls a function again and again; it keeps no program alive. The result ends it. */
export function every(milliseconds: number, fn: () => void): () => void {
  const timer = setInterval(fn, milliseconds).unref()
  return () => clearInterval(timer)
}

/** Loads a file of the library that most programs do not need; `from` is the caller's `import.meta.url`. */
export const loadLate = (from: string, file: string): unknown => createRequire(from)(file)
