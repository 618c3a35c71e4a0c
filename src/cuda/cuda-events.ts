/** Events on a real GPU. The driver reports each record and destruction to PendingHostFunctions, and lets Blocking and Promises wait. */

import type { OwnBytes } from '../foundation/base/bytes.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { EventFlag, type ExternalFlag, isRecordWork } from '../foundation/driver/driver-constants.js'
import type { Cancel, EventDriver, Settle } from '../foundation/driver/event-driver.js'
import { noEvent } from '../foundation/driver/handle-errors.js'
import { HandleMap } from '../foundation/driver/handle-tables.js'
import {
  type ContextHandle,
  DEFAULT_STREAM_LIMIT,
  type EventHandle,
  isNullStream,
  type StreamHandle,
} from '../foundation/driver/handle-types.js'
import type { CFunction } from '../foundation/native/c-functions.js'
import type { NativeMemory } from '../foundation/native/native-memory.js'
import type { CudaGraphs } from './cuda-graphs.js'
import { HANDLE_AT, IPC_HANDLE_BYTES } from './cuda-sharing.js'
import type { CudaStreams } from './cuda-streams.js'
import type { HandleCheck, HandlesInUse } from './handles/handle-check.js'
import type { Captures } from './host-functions/captures.js'
import { mayAnswerItself } from './host-functions/captures.js'
import type { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import type { ProcessRegistry } from './host-functions/process-registry.js'
import type { LibcudaParts, StreamCalls } from './libcuda/driver-calls.js'
import { type CheckedLibrary, checkCleanup, checkDestroyed, type Library } from './libcuda/libcuda.js'
import type { Blocking } from './waiting/blocking.js'
import { mustRunHostFunctions } from './waiting/blocking.js'
import { type EventPool, isPooled } from './waiting/event-pool.js'
import type { Promises } from './waiting/promises.js'
import type { ValueWaits } from './waiting/value-waits.js'

export interface CudaEventsParts extends LibcudaParts {
  readonly handles: HandleCheck
  readonly inUse: HandlesInUse
  readonly registry: ProcessRegistry
  readonly captures: Captures
  readonly hostFunctions: PendingHostFunctions
  readonly blocking: Blocking
  readonly promises: Promises
  readonly valueWaits: ValueWaits
  readonly pool: EventPool
  readonly driver: {
    readonly streams: Pick<CudaStreams, 'capturesNow'>
    readonly graphs: Pick<CudaGraphs, 'captureOf' | 'noteRecord'>
  }
}

export class CudaEvents implements EventDriver {
  readonly #library: Library
  readonly #must: CheckedLibrary
  /** The function is in a field, since the library has more functions than V8 finds without a hash table. */
  readonly #cuEventRecord: CFunction
  /** Takes the out parameters of calls. */
  readonly #out: NativeMemory
  readonly #calls: StreamCalls
  readonly #hostFunctions: PendingHostFunctions
  /** Events of which a record is work of its stream: all but plain ones without timing. Foreign events count as work. */
  readonly #workEvents = new HandleMap<EventHandle, true>()

  constructor(private readonly parts: CudaEventsParts) {
    this.#library = parts.library
    this.#must = parts.must
    this.#cuEventRecord = parts.library.cuEventRecord
    this.#out = parts.memory
    this.#calls = parts.calls
    this.#hostFunctions = parts.hostFunctions
  }

  create(context: ContextHandle, flags: number, recordedNext = false): EventHandle {
    const { pool, handles } = this.parts
    if (flags === EventFlag.DISABLE_TIMING) {
      if (recordedNext) return pool.takeForCaller(context, flags)
      const unused = pool.takeNew(context)
      if (unused !== undefined) return unused
    }
    const event = recordedNext && isPooled(flags) ? pool.takeForCaller(context, flags) : pool.create(context, flags)
    handles.eventCreated(event)
    // An event of another library may have been there, which was destroyed since.
    if (isRecordWork(flags)) this.#workEvents.set(event, true)
    else if (this.#workEvents.size > 0) this.#workEvents.delete(event)
    if ((flags & EventFlag.INTERPROCESS) !== 0) pool.interprocess.set(event, this.parts.contexts.deviceOf(context))
    return event
  }

  destroy(event: EventHandle): void {
    if (this.parts.inUse.postpones(event, () => this.destroy(event))) return
    this.#workEvents.delete(event)
    this.#forgetEvent(event)
    this.parts.pool.interprocess.delete(event)
    this.parts.handles.eventDestroyed(event)
    checkDestroyed('cuEventDestroy', this.#library.cuEventDestroy_v2(event))
  }

  recycle(
    context: ContextHandle,
    event: EventHandle,
    flags: number = EventFlag.DISABLE_TIMING,
    neverRecorded = false,
  ): void {
    if (this.parts.inUse.postpones(event, () => this.recycle(context, event, flags, neverRecorded))) return
    const { pool } = this.parts
    this.#workEvents.delete(event)
    if (neverRecorded && flags === EventFlag.DISABLE_TIMING && pool.giveBackNew(context, event)) return
    this.#forgetEvent(event)
    pool.interprocess.delete(event)
    if (isPooled(flags)) pool.giveBack(context, event, flags)
    else checkCleanup('cuEventDestroy', event, this.#library.cuEventDestroy_v2(event))
  }

  wrap(event: EventHandle): { readonly context: ContextHandle; readonly device: number } | undefined {
    const { handles, contexts } = this.parts
    const context = handles.checkEvent(event, contexts.known)
    this.#workEvents.set(event, true)
    if (context === undefined) return undefined
    const device = contexts.deviceOf(context)
    // The driver does not tell its flags.
    this.parts.pool.interprocess.set(event, device)
    return { context, device }
  }

  record(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void {
    if (stream < DEFAULT_STREAM_LIMIT || external !== 0 || this.#hostFunctions.tracksOrder) {
      this.#recordWith(event, stream, external)
      return
    }
    const result = this.#cuEventRecord(event, stream)
    if (result !== 0) throw cudaError('cuEventRecord', result)
  }

  recordInternal(event: EventHandle, stream: StreamHandle): void {
    this.record(event, stream, 0)
  }

  query(event: EventHandle, isDone = false): boolean {
    if (isDone && mayAnswerItself(this.parts)) return true
    const result = this.#library.cuEventQuery(event)
    if (result === 0) return true
    if (result === CUresult.NOT_READY) return false
    throw cudaError('cuEventQuery', result)
  }

  synchronize(event: EventHandle): void {
    if (mustRunHostFunctions(this.parts)) {
      this.parts.inUse.during(event, () => this.parts.blocking.forEvent(event, () => this.query(event)))
    } else this.#must.cuEventSynchronize(event)
  }

  blockedBy(event: EventHandle): string | undefined {
    return this.#hostFunctions.blockedBy((dependencies) => dependencies.eventComesAfter(event))
  }

  finished(event: EventHandle, settle: Settle): Cancel {
    return this.parts.promises.eventFinished(event, settle)
  }

  elapsedTime(start: EventHandle, end: EventHandle): number {
    // The call queries whether the events have completed, which invalidates captures unless it is relaxed.
    this.parts.relaxed.run(() => this.#must.cuEventElapsedTime(this.#out.address, start, end))
    return this.#out.float32[0] ?? 0
  }

  getIpcHandle(event: EventHandle): OwnBytes {
    this.#must.cuIpcGetEventHandle(this.#out.address, event)
    return this.#out.bytes.slice(0, IPC_HANDLE_BYTES)
  }

  openIpcHandle(context: ContextHandle, bytes: Uint8Array): EventHandle {
    const { address } = this.#out
    this.#out.bytes.set(bytes, HANDLE_AT)
    const result = this.parts.contexts.within(context, () =>
      this.#library.cuIpcOpenEventHandle(address, address + HANDLE_AT),
    )
    const event = this.#out.pointerAt(0) as EventHandle
    if (result !== 0) throw noEvent(cudaError('cuIpcOpenEventHandle', result))
    this.parts.kinds.event.add(event)
    this.parts.handles.eventCreated(event)
    this.#workEvents.set(event, true)
    this.parts.pool.interprocess.set(event, this.parts.contexts.deviceOf(context))
    return event
  }

  /** The event is about to be destroyed, or used for something else. */
  #forgetEvent(event: EventHandle): void {
    if (!this.#hostFunctions.tracksOrder) return
    this.parts.promises.keepRecord(event)
    this.#hostFunctions.forgetEvent(event)
  }

  /** CUDA refuses the external flags outside of a capture, where they mean nothing. */
  #recordWith(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void {
    if (this.#hostFunctions.tracksOrder) {
      if (this.#workEvents.has(event)) this.#hostFunctions.countEntries(stream, 1)
      this.parts.blocking.keepRecord(event)
      this.parts.promises.keepRecord(event)
    }
    if (external !== 0 && this.parts.driver.streams.capturesNow(stream)) {
      // Each launch of the graph will record the event, which stays as it is until then.
      this.#calls.onStream(stream, (raw) => this.#must.cuEventRecordWithFlags(event, raw, 1))
      this.parts.driver.graphs.noteRecord(stream, event)
      return
    }
    this.#calls.onStream(stream, (raw) => this.#must.cuEventRecord(event, raw))
    if (this.#hostFunctions.tracksOrder) this.#hostFunctions.recorded(event, stream, () => this.#captureOf(stream))
  }

  /** Returns a function that checks whether the capture that the stream is in is still under way; undefined when it is in none. */
  #captureOf(stream: StreamHandle): (() => boolean) | undefined {
    return isNullStream(stream) ? undefined : this.parts.driver.graphs.captureOf(stream)
  }
}
