/**
 * Objects that threads share, and memory and events that processes share. Each thread has a machine of its own. It has a part of an object of another
 * thread, and words that all threads read say how far the others are.
 */

import type { OwnBytes } from '../foundation/base/bytes.js'
import { stateError } from '../foundation/base/errors.js'
import { isSharedMemory } from '../foundation/base/shared-memory.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { EventFlag } from '../foundation/driver/driver-constants.js'
import type { InternalEvent } from '../foundation/driver/event-driver.js'
import { memoryIsNoEvent, noEvent } from '../foundation/driver/handle-errors.js'
import {
  type ContextHandle,
  DEFAULT_STREAM_LIMIT,
  defaultStream,
  type EventHandle,
  type Pointer,
  type StreamHandle,
} from '../foundation/driver/handle-types.js'
import type {
  ExportedMemory,
  ImportedMemory,
  Registration,
  SharedLifetime,
  SharingDriver,
} from '../foundation/driver/sharing-driver.js'
import { Contents, MemoryFile } from '../foundation/native/memory-file.js'
import type { CaptureRules } from './capture-rules.js'
import type { Machine } from './machine/machine.js'
import { type SimDevice, type SimEvent, SimStream } from './machine/machine-state.js'
import { LaterEffect } from './memory-work.js'
import type { Registry } from './registry.js'
import { MOST_PLACES, RegistrationWords, WORK_BYTES, WorkWords } from './shared/object-words.js'
import { type SimMemory, sharedOtherwise } from './sim-memory.js'

/** The content of a token of a simulated object, beside numbers. */
interface SimulatedPart {
  /** The words with the progress of the threads' machines. */
  readonly machines: ArrayBufferLike
  readonly registration: ArrayBufferLike
  /** The words with the progress of an event's records, or of a stream's work. */
  readonly work: ArrayBufferLike | undefined
  /** The bytes of shared memory; undefined for other objects. */
  readonly bytes: ArrayBufferLike | undefined
}

/** An object of another thread. `forget` returns false if work of it is still queued. */
interface Received {
  readonly registration: RegistrationWords
  readonly forget: () => boolean
}

/** The numbers of the kinds of shared objects. */
const [STREAM, EVENT, BUFFER] = [0, 1, 2]
/** The number of words, without the key, that every driver's registrations have. */
const COMMON = 7

export class SimSharing implements SharingDriver {
  readonly #registered = new Map<number, RegistrationWords>()
  #next = 8
  /** The files with the records of events that processes share. */
  readonly #files = new Map<SimEvent, MemoryFile>()
  /** The objects that other threads have shared, until they close them; keys are those of the registrations. */
  readonly #received = new Map<number, Received>()
  /** The number of received objects at which those that were closed are removed. */
  #most = 64

  constructor(
    private readonly machine: Machine,
    private readonly registry: Registry,
    private readonly memory: SimMemory,
    private readonly captures: Pick<CaptureRules, 'shared'>,
  ) {}

  allocate(byteLength: number, context: ContextHandle): Pointer {
    return this.memory.allocateAtOnce(byteLength, context)
  }

  free(pointer: Pointer, after: readonly InternalEvent[]): void {
    this.memory.freeAfter(pointer, after)
  }

  exportMemory(pointer: Pointer): ExportedMemory {
    this.#joinProcesses()
    return this.memory.exportMemory(pointer)
  }

  importMemory(handle: Uint8Array, context: ContextHandle): ImportedMemory {
    this.#joinProcesses()
    return this.memory.importMemory(handle, context)
  }

  /** Moves the records of an event that processes share to a file. */
  exportEvent(handle: EventHandle): OwnBytes {
    const event = this.registry.event(handle, 'cuIpcGetEventHandle')
    let file = this.#files.get(event)
    if ((event.flags & EventFlag.INTERPROCESS) === 0 || file?.isOfOther === true) {
      throw cudaError('cuIpcGetEventHandle', CUresult.INVALID_HANDLE)
    }
    this.#joinProcesses()
    if (file === undefined) {
      if (event.shared !== undefined) throw sharedOtherwise('threads', 'processes')
      file = MemoryFile.make(WORK_BYTES, Contents.EVENT)
      this.#files.set(event, file)
      this.#shareRecords(handle, new WorkWords(file.buffer))
    }
    return file.handle.slice()
  }

  /** Closes the file of an event once its latest record is done, and with it those before. */
  eventDestroyed(handle: EventHandle): void {
    const event = this.#files.size === 0 ? undefined : this.registry.peekEvent(handle)
    const file = event && this.#files.get(event)
    if (event === undefined || file === undefined) return
    this.#files.delete(event)
    event.shared = undefined
    this.machine.marker(event.device.nullStream, [event.record], new LaterEffect('close', () => file.close()))
  }

  importEvent(context: ContextHandle, handle: Uint8Array): EventHandle {
    const call = 'cuIpcOpenEventHandle'
    if (MemoryFile.contentsOf(handle) === Contents.MEMORY) throw memoryIsNoEvent()
    if (MemoryFile.isOwn(handle)) throw noEvent(cudaError(call, CUresult.INVALID_CONTEXT))
    const device = this.registry.liveContextDevice(context, call)
    this.#joinProcesses()
    const file = MemoryFile.open(handle, Contents.EVENT)
    if (file?.byteLength !== WORK_BYTES) {
      file?.close()
      throw noEvent(cudaError(call, CUresult.INVALID_HANDLE))
    }
    const event = this.registry.addEvent(device, EventFlag.INTERPROCESS | EventFlag.DISABLE_TIMING)
    event.shared = { words: new WorkWords(file.buffer), serial: 0 }
    this.#files.set(event, file)
    return event.handle
  }

  register(words: readonly [key: number, ...rest: number[]]): Registration {
    const registration = this.#next
    this.#next += 8
    const shared = this.#share(words)
    if (shared === undefined) return { registration }
    this.#registered.set(registration, shared.registration)
    return { registration, simulated: { ...shared, registration: shared.registration.memory } satisfies SimulatedPart }
  }

  unregister(registration: number): void {
    this.#registered.get(registration)?.close()
    this.#registered.delete(registration)
  }

  readRegistration(_registration: number, key: number, simulated: unknown): readonly number[] | undefined {
    const given = (simulated ?? {}) as Partial<SimulatedPart>
    const registration = RegistrationWords.in(given.registration)
    if (registration === undefined || registration.key !== key || key === 0) return undefined
    if (this.machine.join(given.machines) === undefined) return undefined
    const [kind, ordinal = 0, ...facts] = registration.rest
    if (this.#received.has(key)) return registration.rest.slice(0, COMMON)
    const device = this.registry.device(ordinal)
    const work = WorkWords.in(given.work)
    const [handle = 0, second = 0, ready = 0] = facts
    const receives = (forget: () => boolean): void => this.#receives(key, { registration, forget })
    if (kind === STREAM && work !== undefined) {
      this.#receiveStream(device, registration, work)
      receives(() => this.registry.forgetStream(handle as StreamHandle, work))
    }
    if (kind === EVENT && work !== undefined) {
      this.registry.receiveEvent(device, handle as EventHandle, second, work)
      receives(() => this.registry.forgetEvent(handle as EventHandle, work))
    }
    const { bytes } = given
    if (kind === BUFFER && isSharedMemory(bytes)) {
      const [begin = 0, isOfPool] = registration.rest.slice(COMMON)
      this.memory.receive(begin as Pointer, bytes, device, isOfPool === 1)
      if (work !== undefined) this.registry.receiveEvent(device, ready as EventHandle, 0, work)
      receives(() => {
        this.memory.forget(begin as Pointer, bytes)
        return work === undefined || this.registry.forgetEvent(ready as EventHandle, work)
      })
    }
    return registration.rest.slice(0, COMMON)
  }

  watchRegistration(_registration: number, key: number, simulated: unknown): SharedLifetime {
    const words = RegistrationWords.in((simulated as SimulatedPart).registration)
    return {
      get hasEnded(): boolean {
        return words?.key !== key
      },
      // Memory that threads share lives as long as one of them has it.
      join() {},
      leave() {},
    }
  }

  watchShared(): undefined {
    return undefined
  }

  watchReceived(): boolean {
    return false
  }

  /** Makes the words of a registration; undefined if nothing can be shared: in a page, and in an exploration, which has one thread. */
  #share(words: readonly number[]) {
    const [, kind, ordinal = 0, handle = 0, , ready = 0] = words
    const machines = this.machine.scheduler.explores ? undefined : this.machine.join()
    if (machines === undefined) return undefined
    const common = [...words, ...Array<number>(COMMON + 1 - words.length).fill(0)]
    if (kind === BUFFER) {
      const { begin, bytes, isOfPool } = this.memory.share(handle as Pointer)
      const work = ready === 0 ? undefined : this.#shareRecords(ready as EventHandle)
      return { machines, registration: RegistrationWords.make([...common, begin, isOfPool ? 1 : 0]), work, bytes }
    }
    if (kind === EVENT) {
      const work = this.#shareRecords(handle as EventHandle)
      return { machines, registration: RegistrationWords.make(common), work, bytes: undefined }
    }
    const isDefault = handle < DEFAULT_STREAM_LIMIT
    const known = isDefault ? defaultStream(ordinal, 0) : (handle as StreamHandle)
    const stream = this.registry.peekStream(known)
    if (stream === undefined) return undefined
    const { nonBlocking, priority, id, partition } = stream
    const own = [nonBlocking ? 1 : 0, priority, Number(id), partition?.multiprocessors ?? 0]
    const work = stream.shared?.words ?? new WorkWords()
    if (stream.shared === undefined) {
      this.machine.share(stream, work, takePlace(work))
      this.captures.shared(stream)
    }
    return { machines, registration: RegistrationWords.make([...common, ...own]), work: work.memory, bytes: undefined }
  }

  /** Moves the records of an event to words that others read: those made until now, and those to come. */
  #shareRecords(handle: EventHandle, words = new WorkWords()): ArrayBufferLike | undefined {
    const event = this.registry.peekEvent(handle)
    if (event === undefined) return undefined
    const known = event.shared?.words.memory
    if (known !== undefined && !isSharedMemory(known)) throw sharedOtherwise('processes', 'threads')
    if (known !== undefined) return known
    event.shared = { words, serial: 0 }
    const { record, captured } = event
    if (record !== undefined && captured === undefined) this.machine.recorded(event, record)
    return words.memory
  }

  #receiveStream(device: SimDevice, registration: RegistrationWords, work: WorkWords): void {
    const [handle = 0] = registration.rest.slice(2)
    if (handle < DEFAULT_STREAM_LIMIT) {
      if (device.nullStream.shared === undefined) this.machine.share(device.nullStream, work, takePlace(work))
      return
    }
    const [nonBlocking, priority = 0, id = 0, multiprocessors = 0] = registration.rest.slice(COMMON)
    const make = (): SimStream => {
      const partition = multiprocessors === 0 ? undefined : this.registry.addPartition(device, multiprocessors)
      const stream = new SimStream(device, handle as StreamHandle, BigInt(id), nonBlocking === 1, priority, partition)
      this.machine.share(stream, work, takePlace(work))
      return stream
    }
    this.registry.receiveStream(handle as StreamHandle, work, make)
  }

  #receives(key: number, received: Received): void {
    this.#received.set(key, received)
    if (this.#received.size < this.#most) return
    for (const [each, { registration, forget }] of this.#received) {
      if (registration.key !== each && forget()) this.#received.delete(each)
    }
    this.#most = Math.max(64, 2 * this.#received.size)
  }

  #joinProcesses(): void {
    if (this.machine.scheduler.explores) throw stateError('ERR_UNSUPPORTED', 'An exploration has no other processes')
    this.machine.joinProcesses()
  }
}

function takePlace(words: WorkWords): number {
  const place = words.takePlace()
  if (place !== undefined) return place
  throw stateError(
    'ERR_UNSUPPORTED',
    `On the simulator at most ${MOST_PLACES} threads can use one stream at a time: end some, or let them use streams of their own`,
  )
}
