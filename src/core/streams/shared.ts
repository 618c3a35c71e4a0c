/**
 * Streams, events and buffers that wrappers and other threads share. Each thread has modules of its own, so another thread
 * gets a token, a plain object of names and numbers. A registration in native memory says whether the owner still has the
 * object open, and which object it is: a made-up handle would reach the driver otherwise, which crashes on some.
 */
import { type Given, isObject, readProperties } from '../../foundation/base/arguments.js'
import { describe, invalidType, invalidValue, stateError } from '../../foundation/base/errors.js'
import { memoize } from '../../foundation/base/memoize.js'
import { process, threadId } from '../../foundation/base/node-modules.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { EventHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import { sharingEnds, unwatchedBegins } from '../../foundation/driver/watched-threads.js'
import { Device, driverOf } from '../device.js'

type SharedKind = 'stream' | 'event' | 'buffer'

/** A plain object that `postMessage` and `structuredClone` can copy. Its contents are for `from()` of the same class. */
export interface SharedObject {
  /** The kind of object that it describes. */
  readonly cudaStreams: SharedKind
  /** The driver of the object. */
  readonly driver: 'cuda' | 'sim'
  /** The process that shared it, by a name that no other has. */
  readonly process: string
  /** The thread that shared it. */
  readonly thread: number
  /** The number of the object in the thread that shared it. */
  readonly key: number
  /** The address of its registration: words in memory that say whether the object is still open, and which it is. */
  readonly registration: number
  /** The ordinal of its device. */
  readonly device: number
  /** The memory in which the threads keep what they know of the object, on the simulator. */
  readonly simulated?: object
  /** The memory in which the sanitizers of the threads keep what they know of the object, if a sanitizer watches it. */
  readonly watched?: object
}

/** The result of `stream.share()`: for `Stream.from()` in another thread. */
export interface SharedStream extends SharedObject {
  /** The kind of the object that the token describes: a stream. */
  readonly cudaStreams: 'stream'
  /** The CUstream. */
  readonly handle: bigint
  /** The driver's own number for the stream, which no other stream ever has. */
  readonly id: bigint
}

/** The result of `event.share()`: for `Event.from()` in another thread. */
export interface SharedEvent extends SharedObject {
  /** The kind of the object that the token describes: an event. */
  readonly cudaStreams: 'event'
  /** The CUevent. */
  readonly handle: bigint
  /** The event's `timing`. */
  readonly timing: boolean
  /** The event's `blockingSync`. */
  readonly blockingSync: boolean
  /** The event's `interprocess`. */
  readonly interprocess: boolean
}

/** The result of `buffer.share()`: for `DeviceBuffer.from()` in another thread. */
export interface SharedBuffer extends SharedObject {
  /** The kind of the object that the token describes: device memory. */
  readonly cudaStreams: 'buffer'
  /** The address at which the shared part begins. */
  readonly pointer: bigint
  /** The offset of the shared part, in bytes from the beginning of the whole buffer. */
  readonly byteOffset: number
  /** The length of the shared part, in bytes. */
  readonly byteLength: number
  /** An event that is done once the memory can be used; 0 if it can be used already. */
  readonly ready: bigint
}

const MOST_KEY = 2 ** 48 - 1
const KINDS: readonly SharedKind[] = ['stream', 'event', 'buffer']
const COMMON = [
  'cudaStreams',
  'driver',
  'process',
  'thread',
  'key',
  'registration',
  'device',
  'simulated',
  'watched',
] as const

/** Numbers that say which object was shared, by its kind. Other threads compare a token with them. */
type Facts = readonly number[]

interface Registration {
  readonly owner: object
  readonly device: Device
  readonly shared: SharedObject
  readonly facts: Facts
}

/** The registrations by implementation object, and by key. Both keep the shared object reachable until it is closed. */
const registrations = new Map<object, Registration>()
const registrationsByKey = new Map<number, Registration>()

/** Registers an object for other threads, and keeps it reachable until `unregister()`. Returns what all tokens have. */
export function register<K extends SharedKind>(
  impl: object,
  owner: object,
  kind: K,
  device: Device,
  facts: Facts,
): SharedObject & { readonly cudaStreams: K } {
  let known = registrations.get(impl)
  if (known === undefined) {
    const key = process.getBuiltinModule('node:crypto').randomInt(1, MOST_KEY)
    const { driver, ordinal } = device
    const { sharing } = driverOf(device)
    const words = [key, KINDS.indexOf(kind), ordinal, ...facts] as const
    const registered = sharing.register(words)
    const watched = sharing.watchShared(words)
    if (watched === undefined) unwatchedBegins()
    const shared = {
      cudaStreams: kind,
      driver,
      process: processName(),
      thread: threadId,
      key,
      device: ordinal,
      ...registered,
      ...(watched === undefined ? {} : { watched }),
    }
    known = { owner, device, shared, facts }
    registrations.set(impl, known)
    registrationsByKey.set(key, known)
  }
  return { ...known.shared, cudaStreams: kind }
}

/** Called when an object is closed that may have been shared. */
export function unregister(impl: object): void {
  if (registrations.size === 0) return
  const known = registrations.get(impl)
  if (known === undefined) return
  registrations.delete(impl)
  registrationsByKey.delete(known.shared.key)
  driverOf(known.device).sharing.unregister(known.shared.registration)
  sharingEnds(known.shared.watched)
}

/** Does the value look like a result of `share()`? */
export const isShared = (value: unknown): value is SharedObject => isObject(value) && 'cudaStreams' in value

/** A token that was accepted. */
export interface Received<T extends object, K extends keyof T> {
  /** The object itself, in the thread that shared it. */
  readonly owner: object | undefined
  /** The device on which it is to be wrapped in another thread. */
  readonly device: Device
  /** The facts about the object. */
  readonly facts: Facts
  /** What the token says, each property read once, to be compared with the facts. */
  readonly claims: Given<T, K>
  /**
   * Follows the object from now on, for a wrapper of it: reports whether the thread that shared it has closed it. Undefined in that thread.
   */
  follow(): WrappedLifetime | undefined
}

/**
 * The object that a token stands for in this thread. Throws if the object cannot be used here, is closed, or was made up.
 */
export function receive<T extends SharedObject, K extends keyof T>(
  shared: T,
  kind: SharedKind,
  names: readonly K[],
): Received<T, K> {
  if (!isShared(shared)) throw notShared(kind, shared)
  const claims = readProperties<T, K | (typeof COMMON)[number]>(shared, [...COMMON, ...names], 'shared')
  if (claims.cudaStreams !== kind) throw notShared(kind, shared)
  const [thread, key] = [checkNumber(claims.thread, 'thread'), checkNumber(claims.key, 'key')]
  const [registration, ordinal] = [
    checkNumber(claims.registration, 'registration'),
    checkNumber(claims.device, 'device'),
  ]
  if (claims.process !== processName()) {
    const byEvent = 'share an interprocess event by its ipcHandle() instead'
    const way = kind === 'stream' ? byEvent : 'use ipcHandle() between processes'
    throw stateError('ERR_INVALID_HANDLE', `The ${kind} belongs to another process: ${way}`)
  }
  if (thread === threadId) {
    const known = registrationsByKey.get(key)
    if (known === undefined) throw closedElsewhere(kind)
    checkFact(kind, 'cudaStreams', known.shared.cudaStreams)
    checkFact(ordinal, 'device', known.shared.device)
    return { owner: known.owner, device: known.device, facts: known.facts, claims, follow: () => undefined }
  }
  const device = Device.get(ordinal)
  if (device.driver !== claims.driver) {
    const what = `The ${kind} was shared by the driver ${describe(claims.driver)}, and this thread uses '${device.driver}'`
    throw stateError('ERR_DEVICE_MISMATCH', `${what}: start both with the same CUDA_STREAMS_DRIVER`)
  }
  const { sharing } = driverOf(device)
  const words = sharing.readRegistration(registration, key, claims.simulated)
  if (words === undefined) throw closedElsewhere(kind)
  const [whichKind = -1, whichDevice, ...facts] = words
  checkFact(kind, 'cudaStreams', KINDS[whichKind])
  checkFact(ordinal, 'device', whichDevice)
  if (!sharing.watchReceived([key, ...words], claims.watched) && claims.watched !== undefined) {
    unwatchedBegins(claims.watched)
  }
  return {
    owner: undefined,
    device,
    facts,
    claims,
    follow: () => sharing.watchRegistration(registration, key, claims.simulated),
  }
}

function checkNumber(value: unknown, name: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw changedToken(name, value)
}

/** Throws ERR_INVALID_ARG_VALUE if a token contradicts a fact. */
export function checkFact(claim: unknown, name: string, fact: unknown): void {
  if (claim !== fact) throw changedToken(name, claim)
}

export const changedToken = (name: string, value: unknown): Error =>
  invalidValue(`shared.${name} is ${describe(value)}: pass the object that share() returned on as it is`)

const article = (kind: SharedKind): string => (kind === 'event' ? 'an event' : `a ${kind}`)

const notShared = (kind: SharedKind, given: unknown): Error =>
  invalidType('shared', `the object that the share() of ${article(kind)} returned`, given)

const closedElsewhere = (kind: SharedKind): Error =>
  stateError('ERR_CLOSED', `The ${kind} has been closed by the thread that shared it`)

let ownName: string | undefined

/** A name of this process that no other process has, and that all its threads find alike. */
function processName(): string {
  const read = (path: string): string => {
    try {
      return process.getBuiltinModule('node:fs').readFileSync(path, 'utf8')
    } catch {
      // Not every platform has these virtual files.
      return ''
    }
  }
  if (ownName !== undefined) return ownName
  const machine = read('/proc/sys/kernel/random/boot_id').trim() || process.getBuiltinModule('node:os').hostname()
  // Numbers of processes are used again: the time of the start, in the kernel's ticks, tells them apart.
  const afterCommand = read('/proc/self/stat').split(') ').at(-1) ?? ''
  ownName = `${machine} ${process.pid} ${afterCommand.split(' ')[19] ?? ''}`
  return ownName
}

/** How long an object lives that others wrap by its handle: of another thread's object only whether it was closed there. */
export interface WrappedLifetime {
  readonly hasEnded: boolean
  /**
   * Called when another wrapper follows the lifetime, or a wrapper was closed. For this thread's own objects neither matters.
   */
  join?(): void
  leave?(): void
}

/**
 * How long a stream or event of this thread lives, for its wrappers: CUDA crashes for the handle of a destroyed object, or
 * has given it to another object by then.
 */
export class Lifetime implements WrappedLifetime {
  hasEnded = false
  /** The number of calls in which code of the program has the handle, from the object itself or from a wrapper. */
  users = 0
  /** Destroys what was closed during one of them. */
  whenUnused: (() => void) | undefined

  release(): void {
    this.users -= 1
    if (this.users > 0) return
    const end = this.whenUnused
    this.whenUnused = undefined
    end?.()
  }
}

/** The lifetimes of open streams and events whose handle was read, by handle. */
const lifetimesOn = memoize((_driver: Driver) => new Map<StreamHandle | EventHandle, Lifetime>())

/** The handle is read from now on, and may be wrapped. */
export function lifetimeBegins(driver: Driver, handle: StreamHandle | EventHandle): Lifetime {
  const lifetime = new Lifetime()
  lifetimesOn(driver).set(handle, lifetime)
  return lifetime
}

/** The lifetime of the object with this handle; undefined if it belongs to another library or thread. */
export const lifetimeOf = (driver: Driver, handle: StreamHandle | EventHandle): Lifetime | undefined =>
  lifetimesOn(driver).get(handle)

export function lifetimeEnds(driver: Driver, handle: StreamHandle | EventHandle, lifetime: Lifetime): void {
  lifetime.hasEnded = true
  const lifetimes = lifetimesOn(driver)
  if (lifetimes.get(handle) === lifetime) lifetimes.delete(handle)
}
