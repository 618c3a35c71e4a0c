/**
 * Streams, events and buffers that one thread shares with another. Each thread has modules of its own, so the other gets a
 * token, a plain object of names and numbers. A mark in native memory says whether the owner still has the object open, and
 * which object it is: a made-up handle would reach the driver otherwise, which crashes on some.
 */
import { randomInteger, threadId } from '#platform'
import { type Given, isObject, readProperties } from '../base/arguments.js'
import { describe, invalidType, invalidValue, stateError } from '../base/errors.js'
import { processName } from '../base/process-name.js'
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
  /** The address of the words in memory that say whether the object is still open, and which it is. */
  readonly mark: number
  /** The ordinal of its device. */
  readonly device: number
}

/** The result of `stream.share()`: for `Stream.from()` in another thread. */
export interface SharedStream extends SharedObject {
  /** It describes a stream. */
  readonly cudaStreams: 'stream'
  /** The CUstream. */
  readonly handle: bigint
  /** The driver's own number for the stream, which no other stream ever has. */
  readonly id: bigint
}

/** The result of `event.share()`: for `Event.from()` in another thread. */
export interface SharedEvent extends SharedObject {
  /** It describes an event. */
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
  /** It describes device memory. */
  readonly cudaStreams: 'buffer'
  /** The address at which the shared part begins. */
  readonly pointer: bigint
  /** Where the shared part begins, in bytes from the beginning of the whole buffer. */
  readonly byteOffset: number
  /** The length of the shared part, in bytes. */
  readonly byteLength: number
  /** An event that is done once the memory can be used; 0 where it can be used already. */
  readonly ready: bigint
}

const KEYS = 2 ** 48 - 1
const KINDS: readonly SharedKind[] = ['stream', 'event', 'buffer']
const COMMON = ['cudaStreams', 'driver', 'process', 'thread', 'key', 'mark', 'device'] as const

/** Numbers that say which object was shared, by its kind. Other threads compare a token with them. */
type Facts = readonly number[]

interface Announcement {
  readonly owner: object
  readonly device: Device
  readonly shared: SharedObject
  readonly facts: Facts
}

/** By core, and by key. Both keep the shared object reachable until it is closed. */
const announcements = new Map<object, Announcement>()
const announcementsByKey = new Map<number, Announcement>()

/** Describes an object to other threads, and keeps it reachable until `withdraw`. */
export function announce<K extends SharedKind>(
  core: object,
  owner: object,
  kind: K,
  device: Device,
  facts: Facts,
): SharedObject & { readonly cudaStreams: K } {
  let known = announcements.get(core)
  if (known === undefined) {
    const key = randomInteger(1, KEYS)
    const { driver, ordinal } = device
    const mark = driverOf(device).sharing.raiseMark([key, KINDS.indexOf(kind), ordinal, ...facts])
    const shared = { cudaStreams: kind, driver, process: processName(), thread: threadId, key, mark, device: ordinal }
    known = { owner, device, shared, facts }
    announcements.set(core, known)
    announcementsByKey.set(key, known)
  }
  return { ...known.shared, cudaStreams: kind }
}

/** To be called when an object is closed that may have been shared. */
export function withdraw(core: object): void {
  if (announcements.size === 0) return
  const known = announcements.get(core)
  if (known === undefined) return
  announcements.delete(core)
  announcementsByKey.delete(known.shared.key)
  driverOf(known.device).sharing.lowerMark(known.shared.mark)
}

/** Does the value look like a result of `share()`? */
export function isShared(value: unknown): value is SharedObject {
  return isObject(value) && 'cudaStreams' in value
}

/** A token that was accepted. */
export interface Received<T extends object, K extends keyof T> {
  /** The object itself, in the thread that shared it. */
  readonly owner: object | undefined
  /** The device on which it is to be wrapped in another. */
  readonly device: Device
  /** The facts about the object. */
  readonly facts: Facts
  /** The token's own statements, each read once, to be compared with the facts. */
  readonly said: Given<T, K>
  /** Tells whether the thread that shared it has closed it; undefined in that thread. */
  readonly lifetime: { readonly isOver: boolean } | undefined
}

/**
 * The object that a token stands for in this thread. Throws where the object cannot be used here, is closed, or was
 * made up.
 */
export function receive<T extends SharedObject, K extends keyof T>(
  shared: T,
  kind: SharedKind,
  names: readonly K[],
): Received<T, K> {
  if (!isShared(shared)) throw notShared(kind, shared)
  const said = readProperties<T, K | (typeof COMMON)[number]>(shared, [...COMMON, ...names], 'shared')
  if (said.cudaStreams !== kind) throw notShared(kind, shared)
  const thread = checkNumber(said.thread, 'thread')
  const key = checkNumber(said.key, 'key')
  const mark = checkNumber(said.mark, 'mark')
  const ordinal = checkNumber(said.device, 'device')
  if (said.process !== processName()) throw otherProcess(kind)
  if (thread === threadId) {
    const known = announcementsByKey.get(key)
    if (known === undefined) throw closedElsewhere(kind)
    checkFact(kind, 'cudaStreams', known.shared.cudaStreams)
    checkFact(ordinal, 'device', known.shared.device)
    return { owner: known.owner, device: known.device, facts: known.facts, said, lifetime: undefined }
  }
  if (said.driver === 'sim') {
    const how = 'use the cuda driver, or share it within the thread'
    throw stateError(
      'ERR_UNSUPPORTED',
      `Each thread has a simulator of its own, which cannot share ${article(kind)}: ${how}`,
    )
  }
  const device = Device.get(ordinal)
  if (device.driver !== said.driver) {
    const what = `The ${kind} was shared by the driver ${describe(said.driver)}, and this thread uses '${device.driver}'`
    throw stateError('ERR_DEVICE_MISMATCH', `${what}: start both with the same CUDA_STREAMS_DRIVER`)
  }
  const { sharing } = driverOf(device)
  const words = sharing.readMark(mark, key)
  if (words === undefined) throw closedElsewhere(kind)
  const [whichKind = -1, whichDevice, ...facts] = words
  checkFact(kind, 'cudaStreams', KINDS[whichKind])
  checkFact(ordinal, 'device', whichDevice)
  return { owner: undefined, device, facts, said, lifetime: sharing.watchMark(mark, key) }
}

function checkNumber(value: unknown, name: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw notAsShared(name, value)
}

/** Throws ERR_INVALID_ARG_VALUE where a token contradicts a fact. */
export function checkFact(said: unknown, name: string, fact: unknown): void {
  if (said !== fact) throw notAsShared(name, said)
}

export function notAsShared(name: string, value: unknown): Error {
  return invalidValue(`shared.${name} is ${describe(value)}: pass the object that share() returned on as it is`)
}

const article = (kind: SharedKind): string => (kind === 'event' ? 'an event' : `a ${kind}`)

const notShared = (kind: SharedKind, given: unknown): Error =>
  invalidType('shared', `the object that the share() of ${article(kind)} returned`, given)

function otherProcess(kind: SharedKind): Error {
  const how =
    kind === 'stream' ? 'share an interprocess event by its ipcHandle() instead' : 'use ipcHandle() between processes'
  return stateError('ERR_INVALID_HANDLE', `The ${kind} belongs to another process: ${how}`)
}

const closedElsewhere = (kind: SharedKind): Error =>
  stateError('ERR_CLOSED', `The ${kind} has been closed by the thread that shared it`)
