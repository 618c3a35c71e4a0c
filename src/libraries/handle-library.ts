/**
 * The kit for libraries of CUDA with a handle and a function that sets its stream, as cuBLAS has them: calling the library, its handles,
 * the public objects that own one, and queuing a call on a stream.
 */

import { contextOf, type Device, driverOf, elsewhere, resolveDevice } from '../core/device.js'
import type { DeviceBuffer } from '../core/memory/device-buffer.js'
import { queueWith } from '../core/memory/queue-with-memory.js'
import { isStream, type Stream } from '../core/stream.js'
import { recordOf } from '../core/streams/capture-record.js'
import { openStream, type StreamImpl } from '../core/streams/stream-impl.js'
import { isOptionsObject } from '../foundation/base/arguments.js'
import type { LibraryVariable } from '../foundation/base/environment-variables.js'
import { invalidReceiver, invalidType, invalidValue, LibraryError, stateError } from '../foundation/base/errors.js'
import { destroyWhenUnreachable, NativeResource } from '../foundation/base/finalization.js'
import { ClosableObject, implementation, nextSerial } from '../foundation/base/library-object.js'
import { memoize } from '../foundation/base/memoize.js'
import { LIBRARY_ENTRIES, MOST_LIBRARY_ENTRIES } from '../foundation/driver/driver-constants.js'
import type { HostImplementation } from '../foundation/driver/library-driver.js'
import type { CFunction } from '../foundation/native/c-functions.js'
import { loadLibrary } from '../foundation/native/shared-library.js'
import { ThreadMemory } from '../foundation/native/thread-memory.js'
import {
  declareFunctions,
  type GivenMemory,
  type MadeByLibrary,
  openGiven,
  type UsedMemory,
  wholeOf,
} from './library-call.js'

/** What there is to know of a library. */
export interface LibraryFacts<N extends string> {
  readonly variable: LibraryVariable
  /** The library's functions, as its header has them. */
  readonly signatures: Readonly<Record<N, string>>
  /** The names of what its functions return, where 0 is success. */
  readonly results: Readonly<Record<string, number>>
  /** What a program can know or do about some of them. */
  readonly explanations: Readonly<Record<number, string>>
  readonly made: MadeByLibrary
}

/** Memory of the host for the numbers that a call reads or writes by their addresses. */
const MEMORY_BYTES = 64

/** A library whose functions return 0 or the number of an error. The first call loads it. */
export class HandleLibrary<N extends string> {
  /** Handles that belong to no object any more. */
  readonly unused = memoize((_device: Device): number[] => [])
  #functions: Readonly<Record<N, CFunction>> | undefined
  #memory: ThreadMemory | undefined

  constructor(private readonly facts: LibraryFacts<N>) {}

  /** Memory of the host, to be used up by the next call. */
  get memory(): ThreadMemory {
    this.#memory ??= new ThreadMemory(MEMORY_BYTES)
    return this.#memory
  }

  /**
   * Calls a function, with its context current. The library is loaded by the first call.
   * @throws LibraryError for a result that is not success; ERR_UNSUPPORTED, with the places tried, if the library is not found
   */
  call(name: N, ...args: readonly number[]): void {
    const { variable, signatures, results, explanations, made } = this.facts
    this.#functions ??= declareFunctions(loadLibrary(variable), signatures, made)
    const number = this.#functions[name](...args)
    if (number === 0) return
    const code =
      Object.keys(results).find((key) => results[key] === number) ?? `${variable.library.title} result ${number}`
    throw new LibraryError(name.replace(/_v2$/, ''), number, code, explanations[number])
  }
}

/** How a handle is made and destroyed. */
export interface HandleLife {
  /** Throws where the library could not make one now, on the simulator too. */
  check?(): void
  /** Makes one. The context is current. */
  make(): number
  /** Destroys a handle. Undefined if handles have nothing of their objects, and the next object uses this one again. */
  readonly destroy: ((address: number) => void) | undefined
}

/** Takes the place of a handle on the simulator, which does not call the library. */
const SIMULATED = 0

/**
 * Destroying a handle waits for the whole device, in native code where no host function can run. So it is used again, or
 * destroyed when the next one is made, which waits in the same way after the host functions.
 */
export class LibraryHandle extends NativeResource {
  readonly address: number
  readonly #unused: number[]

  /** Throws ERR_DEADLOCK where host functions cannot be run before. */
  constructor(
    library: HandleLibrary<never>,
    readonly device: Device,
    { check, make, destroy }: HandleLife,
  ) {
    super()
    const unused = library.unused(device)
    this.#unused = unused
    const { libraries } = driverOf(device)
    const begin = (): number => {
      check?.()
      const ended = unused.splice(0)
      if (device.driver === 'sim') return SIMULATED
      for (const address of ended) destroy?.(address)
      return make()
    }
    const again = destroy === undefined ? unused.pop() : undefined
    this.address = again ?? libraries.call(contextOf(device), begin)
  }

  get isSimulated(): boolean {
    return this.device.driver === 'sim'
  }

  override destroy(): void {
    this.#unused.push(this.address)
  }
}

/** The options that say where the work of such an object is queued. */
export interface WorkPlace {
  readonly stream?: Stream | undefined
  readonly device?: Device | number | undefined
}

/** The device of the work. Throws ERR_INVALID_ARG_TYPE, ERR_CLOSED, ERR_OUT_OF_RANGE or ERR_DEVICE_MISMATCH. */
export function deviceOfWork({ stream, device }: WorkPlace, name: string): Device {
  if (stream === undefined) return resolveDevice(device)
  if (!isStream(stream)) throw invalidType(name, 'a Stream', stream)
  openStream(stream)
  const given = device === undefined ? stream.device : resolveDevice(device)
  if (stream.device === given) return given
  const where = `not on ${elsewhere(given, stream.device)} as options.device says`
  throw stateError('ERR_DEVICE_MISMATCH', `${stream} is on ${stream.device}, ${where}`)
}

/** What work is queued for, and on which device. */
interface OnDevice {
  readonly device: Device
  toString(): string
}

/**
 * The stream that a call is given first, which must be of the object's device.
 * @throws ERR_INVALID_ARG_TYPE, with the way out; ERR_DEVICE_MISMATCH
 */
export function streamOfCall(owner: OnDevice, stream: unknown): Stream {
  if (!isStream(stream)) {
    throw invalidType(
      'stream',
      'a Stream',
      stream,
      'the stream comes first, and Stream.current() is the one that is current',
    )
  }
  if (stream.device === owner.device) return stream
  const where = elsewhere(owner.device, stream.device)
  throw stateError('ERR_DEVICE_MISMATCH', `${stream} is on ${stream.device}, and ${owner} on ${where}`)
}

/** Throws for a stream where options are, which no object is bound to. `call` is one that takes it. */
export function refuseStream(options: unknown, call: string): void {
  const way = `the stream goes to each call, as in ${call}`
  if (isStream(options)) throw invalidType('options', 'an object', options, way)
  if (!isOptionsObject(options) || !Object.hasOwn(options, 'stream')) return
  throw invalidValue(`unknown option 'stream' in options: ${way}`)
}

/** The base of the public classes whose objects own a handle. */
export abstract class HandleOwner extends ClosableObject {
  /** The device that the work runs on. */
  readonly device: Device
  /** The number of this object: no other object of this thread has it. */
  readonly serial: number = nextSerial()
  /** @internal */
  declare readonly [implementation]: LibraryHandle

  /** @internal */
  constructor(handle: LibraryHandle) {
    super()
    this.device = handle.device
    this[implementation] = handle
    destroyWhenUnreachable(this, handle)
  }

  /** Releases the handle of the library. Queued work still completes. Buffers remain the caller's to close. May be called twice. */
  close(): void {
    if (!isHandleOwner(this)) throw invalidReceiver('an object', this)
    this[implementation].dispose()
  }

  override toString(): string {
    if (!isHandleOwner(this)) return super.toString()
    return `${this[Symbol.toStringTag]}(${this.device}${this.closed ? ', closed' : ''})`
  }
}

const isHandleOwner = (value: unknown): value is HandleOwner =>
  value instanceof HandleOwner && value[implementation] !== undefined

/** What work is queued for. */
export interface WorkOwner {
  readonly device: Device
  readonly closed: boolean
  readonly [implementation]: NativeResource
}

/** Throws ERR_CLOSED. */
export function checkHandleOpen(owner: WorkOwner): void {
  if (owner.closed) throw stateError('ERR_CLOSED', `${owner} cannot be used any more`)
}

/** Throws ERR_UNSUPPORTED while the stream captures: `what` is the work that cannot be captured. The capture goes on. */
export function refuseCapture(stream: Stream, what: string, wayOut: string): void {
  const { driver, handle } = openStream(stream)
  if (!driver.streams.isCapturing(handle)) return
  throw stateError('ERR_UNSUPPORTED', `${stream} captures, and ${what} cannot be captured: ${wayOut}`)
}

/** A call that queues work. Its arguments are checked. */
export interface HandleCall {
  /** The C function. */
  readonly name: string
  readonly memory: readonly GivenMemory[]
  /** Memory that the library works in, made when nothing is refused any more. It comes behind the other memory. */
  area?(use: StreamImpl): DeviceBuffer | undefined
  /** Queues what comes before the call. Called when nothing is refused any more. */
  begin?(): void
  /** Checks where the memory lies. */
  check?(memory: readonly UsedMemory[]): void
  /**
   * The properties by which the library may choose its code, beside the function: for a kind that is new on the device it may
   * load code, and loading may wait for the whole device. Without a kind, each call may wait.
   */
  kind?(memory: readonly UsedMemory[]): string
  /** The most entries of a hardware queue that the call takes. Default: LIBRARY_ENTRIES. */
  readonly entries?: number
  /** Makes the call, with CUDA's own handle of the stream. */
  call(memory: readonly UsedMemory[], stream: number): void
  readonly host: HostImplementation
}

const MOST_KINDS = 4096
const loadedOn = memoize((_device: Device) => new Set<string>())

/**
 * Queues a call on a stream of the object's device. The first of a kind runs pending host functions before, on a GPU, and so
 * does one that may always wait, and one that a hardware queue may have no room for: CUDA would block JavaScript until the stream has gone on.
 * @throws ERR_CLOSED, ERR_DEVICE_MISMATCH; ERR_DEADLOCK for the first of a kind where host functions cannot run; LibraryError
 */
export function queueCall(owner: WorkOwner, stream: Stream, work: HandleCall): void {
  const { name, host, entries: wanted = LIBRARY_ENTRIES } = work
  const entries = Math.min(wanted, MOST_LIBRARY_ENTRIES)
  const open = (more: readonly GivenMemory[] = []) => {
    checkHandleOpen(owner)
    const use = openStream(stream)
    return { use, memory: openGiven([...work.memory, ...more], use) }
  }
  const before = open()
  work.check?.(before.memory)
  const kind = work.kind && `${name} ${work.kind(before.memory)}`
  const loaded = loadedOn(owner.device)
  const isNew = kind === undefined || !loaded.has(kind)
  // Runs pending host functions, which may close what is used here. Inside one it throws.
  if (isNew || wanted > entries) before.use.driver.libraries.call(before.use.context, () => {})
  openStream(stream).reserve(entries)
  checkHandleOpen(owner)
  const area = work.area?.(openStream(stream))
  work.begin?.()
  const { use, memory } = open(area === undefined ? [] : [wholeOf(area, 'inout')])
  const { driver, handle, context } = use
  const call = (raw: number): void => work.call(memory, raw)
  driver.streams.escaped(handle)
  recordOf(use)?.retained.add(owner[implementation])
  const queue = (): void =>
    driver.work.queue({ kind: 'library', calls: [{ name, stream: handle, context, memory, entries, call, host }] })
  queueWith(use, memory, queue)
  // Captured work is not computed yet.
  if (kind === undefined || !isNew || driver.streams.isCapturing(handle)) return
  if (loaded.size >= MOST_KINDS) loaded.clear()
  loaded.add(kind)
}

/** CUDA's libraries distinguish no larger alignments of addresses. */
const LARGEST_ALIGNMENT = 256

/** The largest power of two that divides the address, up to 256, which stands for 0. */
export function alignmentOf(memory: UsedMemory | undefined): number {
  const remainder = (memory?.pointer ?? 0) % LARGEST_ALIGNMENT
  return remainder & -remainder
}
