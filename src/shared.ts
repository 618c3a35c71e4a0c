/**
 * What one thread tells another of its streams, events and buffers. Each thread has modules of its own, so what crosses
 * over is a plain object of names and numbers; a mark in native memory says whether its owner still has it open.
 */
import { randomInt } from 'node:crypto'
import { threadId } from 'node:worker_threads'
import { Device, driverOf } from './device.js'
import { describe, invalidType, invalidValue, stateError } from './errors.js'
import { processName } from './process-name.js'

type Kind = 'stream' | 'event' | 'buffer'

/** A plain object that `postMessage` and `structuredClone` can copy. Its contents are for `from()` of the same class. */
export interface SharedObject {
  /** What it describes. */
  readonly cudaStreams: Kind
  /** The driver that has it. */
  readonly driver: 'cuda' | 'sim'
  /** The process that shared it, by a name that no other has. */
  readonly process: string
  /** The thread that shared it. */
  readonly thread: number
  /** What that thread knows it by. */
  readonly key: number
  /** The address of the word that says whether it is still open. */
  readonly mark: number
  /** The ordinal of its device. */
  readonly device: number
}

/** What `stream.share()` returns: for `Stream.from()` in another thread. */
export interface SharedStream extends SharedObject {
  /** It describes a stream. */
  readonly cudaStreams: 'stream'
  /** The CUstream. */
  readonly handle: bigint
  /** The driver's own number for it, which no other stream ever has. */
  readonly id: bigint
}

/** What `event.share()` returns: for `Event.from()` in another thread. */
export interface SharedEvent extends SharedObject {
  /** It describes an event. */
  readonly cudaStreams: 'event'
  /** The CUevent. */
  readonly handle: bigint
  /** As it was made. */
  readonly timing: boolean
  /** As it was made. */
  readonly blockingSync: boolean
  /** As it was made. */
  readonly interprocess: boolean
}

/** What `buffer.share()` returns: for `DeviceBuffer.from()` in another thread. */
export interface SharedBuffer extends SharedObject {
  /** It describes device memory. */
  readonly cudaStreams: 'buffer'
  /** Where the shared part begins. */
  readonly pointer: bigint
  /** How far that is from the beginning of the whole buffer. */
  readonly byteOffset: number
  /** How long the shared part is. */
  readonly byteLength: number
  /** An event that is done once the memory is there; 0 where it is there already. */
  readonly ready: bigint
}

const KEYS = 2 ** 48 - 1

/** Both keep what is shared reachable until it is closed. */
const announcements = new Map<object, SharedObject>()
const owners = new Map<number, object>()

/** Describes something to other threads, and keeps it reachable until `withdraw`. */
export function announce<K extends Kind>(
  owner: object,
  kind: K,
  device: Device,
): SharedObject & { readonly cudaStreams: K } {
  let known = announcements.get(owner)
  if (known === undefined) {
    const key = randomInt(1, KEYS)
    const mark = driverOf(device).sharing.raiseMark(key)
    const { driver, ordinal } = device
    known = { cudaStreams: kind, driver, process: processName(), thread: threadId, key, mark, device: ordinal }
    announcements.set(owner, known)
    owners.set(key, owner)
  }
  return { ...known, cudaStreams: kind }
}

/** To be called when anything is closed that may have been shared. */
export function withdraw(owner: object, device: Device): void {
  if (announcements.size === 0) return
  const known = announcements.get(owner)
  if (known === undefined) return
  announcements.delete(owner)
  owners.delete(known.key)
  driverOf(device).sharing.lowerMark(known.mark)
}

/** Does it look like what `share()` returned? */
export function isShared(value: unknown): value is SharedObject {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'cudaStreams')
}

/**
 * What a shared object stands for in this thread: the object itself where this thread shared it, else the device on which
 * it is to be wrapped. Throws where it cannot be had here, or is closed.
 */
export function receive(shared: SharedObject, kind: Kind): { readonly owner: object } | { readonly device: Device } {
  if (!isShared(shared) || shared.cudaStreams !== kind) {
    throw invalidType('shared', `what the share() of ${article(kind)} returned`, shared)
  }
  checkNumbers(shared)
  if (shared.process !== processName()) throw otherProcess(kind)
  if (shared.thread === threadId) {
    const owner = owners.get(shared.key)
    if (owner === undefined) throw closedElsewhere(kind)
    return { owner }
  }
  if (shared.driver === 'sim') {
    const how = 'use the cuda driver, or share it within the thread'
    throw stateError(
      'ERR_UNSUPPORTED',
      `Each thread has a simulator of its own, which cannot share ${article(kind)}: ${how}`,
    )
  }
  const device = Device.get(shared.device)
  if (device.driver !== shared.driver) {
    const what = `The ${kind} was shared by the driver '${shared.driver}', and this thread uses '${device.driver}'`
    throw stateError('ERR_DEVICE_MISMATCH', `${what}: start both with the same CUDA_STREAMS_DRIVER`)
  }
  if (!driverOf(device).sharing.markStands(shared.mark, shared.key)) throw closedElsewhere(kind)
  return { device }
}

function checkNumbers(shared: SharedObject): void {
  for (const name of ['thread', 'key', 'mark', 'device'] as const) {
    const value = shared[name]
    if (Number.isSafeInteger(value) && value >= 0) continue
    throw invalidValue(`shared.${name} is ${describe(value)}: pass on what share() returned as it is`)
  }
}

const article = (kind: Kind): string => (kind === 'event' ? 'an event' : `a ${kind}`)

function otherProcess(kind: Kind): Error {
  const how =
    kind === 'stream' ? 'share an interprocess event by its ipcHandle() instead' : 'use ipcHandle() between processes'
  return stateError('ERR_INVALID_HANDLE', `The ${kind} belongs to another process: ${how}`)
}

const closedElsewhere = (kind: Kind): Error =>
  stateError('ERR_CLOSED', `The ${kind} has been closed by the thread that shared it`)
