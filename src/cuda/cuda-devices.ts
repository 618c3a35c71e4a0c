/** Devices and their contexts on a real GPU. */

import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import type { DeviceDriver, DeviceUsage, GreenContextPart } from '../foundation/driver/device-driver.js'
import type { Cancel, Settle } from '../foundation/driver/event-driver.js'
import { type ContextHandle, defaultStream, type EventHandle } from '../foundation/driver/handle-types.js'
import type { NativeMemory } from '../foundation/native/native-memory.js'
import type { CudaGraphs } from './cuda-graphs.js'
import type { CudaGreenContexts } from './cuda-green-contexts.js'
import type { CudaStreams } from './cuda-streams.js'
import type { HandleCheck } from './handles/handle-check.js'
import type { StreamRecords } from './handles/stream-records.js'
import type { Captures } from './host-functions/captures.js'
import type { PendingHostFunctions } from './host-functions/pending-host-functions.js'
import type { ProcessRegistry } from './host-functions/process-registry.js'
import type { LibcudaParts, StreamCalls } from './libcuda/driver-calls.js'
import type { CheckedLibrary } from './libcuda/libcuda.js'
import { Nvml } from './nvml.js'
import type { Blocking } from './waiting/blocking.js'
import { mustRunHostFunctions } from './waiting/blocking.js'
import type { EventPool } from './waiting/event-pool.js'
import type { Promises } from './waiting/promises.js'
import type { ValueWaits } from './waiting/value-waits.js'

const NAME_BYTES = 256

export interface CudaDevicesParts extends LibcudaParts {
  readonly registry: ProcessRegistry
  readonly captures: Captures
  readonly hostFunctions: PendingHostFunctions
  readonly handles: HandleCheck
  readonly blocking: Blocking
  readonly promises: Promises
  readonly valueWaits: ValueWaits
  readonly pool: EventPool
  readonly green: CudaGreenContexts
  readonly driver: {
    readonly streams: Pick<CudaStreams, 'noteNullStreamId'>
    readonly graphs: Pick<CudaGraphs, 'begun' | 'joined'>
  }
}

export class CudaDevices implements DeviceDriver {
  readonly #must: CheckedLibrary
  /** Takes the out parameters of calls. */
  readonly #out: NativeMemory
  readonly #calls: StreamCalls
  readonly #streams: StreamRecords
  readonly #hostFunctions: PendingHostFunctions
  #nvml: Nvml | undefined

  constructor(private readonly parts: CudaDevicesParts) {
    this.#must = parts.must
    this.#out = parts.memory
    this.#calls = parts.calls
    this.#streams = parts.streams
    this.#hostFunctions = parts.hostFunctions
  }

  count(): number {
    this.#must.cuDeviceGetCount(this.#out.address)
    return this.#out.int32[0] ?? 0
  }

  name(device: number): string {
    this.#must.cuDeviceGetName(this.#out.address, NAME_BYTES, this.parts.contexts.cudaDevice(device))
    return this.#text()
  }

  pciBusId(device: number): string {
    this.#must.cuDeviceGetPCIBusId(this.#out.address, NAME_BYTES, this.parts.contexts.cudaDevice(device))
    return this.#text().toLowerCase()
  }

  /** What a function has written as a C string. */
  #text(): string {
    const { bytes } = this.#out
    return Buffer.from(bytes.subarray(0, bytes.indexOf(0))).toString('utf8')
  }

  uuid(device: number): string {
    this.#must.cuDeviceGetUuid_v2(this.#out.address, this.parts.contexts.cudaDevice(device))
    const digits = Buffer.from(this.#out.bytes.subarray(0, 16)).toString('hex')
    return `GPU-${digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')}`
  }

  attribute(device: number, attribute: number): number {
    this.#must.cuDeviceGetAttribute(this.#out.address, attribute, this.parts.contexts.cudaDevice(device))
    return this.#out.int32[0] ?? 0
  }

  context(device: number): ContextHandle {
    const context = this.parts.contexts.primary(device)
    this.parts.driver.streams.noteNullStreamId(device)
    return context
  }

  usage(device: number): DeviceUsage {
    this.#nvml ??= new Nvml()
    return this.#nvml.usage(this.pciBusId(device))
  }

  profile(device: number, isOn: boolean): void {
    const { contexts, relaxed } = this.parts
    const call = isOn ? 'cuProfilerStart' : 'cuProfilerStop'
    contexts.within(contexts.primary(device), () => relaxed.run(() => this.#must[call]()))
  }

  streamPriorityRange(device: number): { readonly least: number; readonly greatest: number } {
    const { contexts } = this.parts
    const { address, int32 } = this.#out
    contexts.within(contexts.primary(device), () => this.#must.cuCtxGetStreamPriorityRange(address, address + 4))
    return { least: int32[0] ?? 0, greatest: int32[1] ?? 0 }
  }

  synchronize(device: number): void {
    const { contexts, registry, blocking } = this.parts
    const context = contexts.primary(device)
    // The driver's own wait is refused while another thread captures, and invalidates the capture.
    if (mustRunHostFunctions(this.parts) || registry.hasOthers) {
      if (this.#anyCaptures(device, context)) this.#refuseWait(context)
      blocking.forContext(context, device)
    } else contexts.within(context, () => this.#must.cuCtxSynchronize())
  }

  /** CUDA refuses to wait for a context while a stream of it captures, and invalidates the capture, before it waits for anything. */
  #refuseWait(context: ContextHandle): void {
    const { pool, captures } = this.parts
    const event = pool.take(context)
    try {
      const outcome = captures.recordDevice(event, context, undefined, 'cuCtxSynchronize')
      if (outcome === 'others') throw cudaError('cuCtxSynchronize', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    } finally {
      pool.giveBack(context, event)
    }
  }

  finished(device: number, settle: Settle): Cancel {
    const context = this.parts.contexts.primary(device)
    const known = (): boolean => this.#anyCaptures(device, context)
    if (known()) throw cudaError('cuCtxRecordEvent', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    return this.parts.promises.contextFinished(context, { known, unknown: () => this.#anyUnknown(device) }, settle)
  }

  recordInternal(event: EventHandle, device: number): boolean {
    const context = this.parts.contexts.primary(device)
    if (this.#anyCaptures(device, context)) return false
    const isRecorded = this.parts.captures.recordDevice(event, context, () => this.#anyUnknown(device)) === 'recorded'
    if (isRecorded) this.#hostFunctions.recordedDevice(event, context, device)
    return isRecorded
  }

  contextCheck(context: ContextHandle): void {
    const { pool, relaxed } = this.parts
    const unrecorded = pool.unrecorded(context)
    relaxed.run(() => this.#must.cuEventQuery(unrecorded))
  }

  contextFault(): undefined {
    return undefined
  }

  relaxed<R>(calls: () => R): R {
    return this.parts.relaxed.run(calls)
  }

  split(device: number, multiprocessors: readonly number[]): readonly GreenContextPart[] {
    return this.parts.green.split(device, multiprocessors)
  }

  greenContextDestroy(context: ContextHandle): void {
    this.parts.green.destroy(context)
  }

  /**
   * Does a stream of the context capture? CUDA answers that for one stream at a time: for those that began a capture here, those of this library that
   * may be in one, and those of other libraries that are wrapped. Captures on other streams of other libraries are not known, apart from those of
   * blocking streams (`#anyUnknown`).
   */
  #anyCaptures(device: number, context: ContextHandle): boolean {
    const { begun, joined } = this.parts.driver.graphs
    const wrapped = this.#streams.wrapped((stream, id) => this.parts.handles.isStill(stream, id))
    const own = [...this.#streams.own()].filter(({ hasEscaped }) => hasEscaped || begun.length > 0)
    // Calls for a primary context leave captures in its green contexts alone. Another library's stream may have joined one there.
    for (const stream of [...begun, ...joined, ...own, ...wrapped])
      if (stream.context === context && stream.green === undefined && this.#calls.captures(stream.handle)) return true
    return this.#calls.captures(defaultStream(device, 2))
  }

  /** Does a blocking stream capture, of whichever thread? The answer for the null stream shows that. */
  #anyUnknown(device: number): boolean {
    return this.#calls.captures(defaultStream(device, 0))
  }
}
