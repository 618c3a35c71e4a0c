/** A Driver that writes down every operation that passes, and passes all of them on. */
import type {
  AdoptedStream,
  Cancel,
  ContextHandle,
  Driver,
  EventHandle,
  ExternalFlag,
  HostFunction,
  Settle,
  StreamHandle,
} from '../driver/driver.js'
import { DriverWrapper } from '../driver/driver-wrapper.js'
import { untilOver } from '../driver/until-over.js'
import { RowKind } from './kinds.js'
import { RowWriter } from './row-writer.js'
import { NO_ROW } from './table.js'
import { TimelineGraphs } from './timeline-graphs.js'
import { TimelineKernels } from './timeline-kernels.js'
import { TimelineMemory } from './timeline-memory.js'

export class TimelineDriver extends DriverWrapper {
  readonly writer: RowWriter
  readonly #graphs: TimelineGraphs
  readonly #kernels: TimelineKernels
  readonly #memory: TimelineMemory

  /** `device` is one that will be used: what its clock needs is made now. */
  constructor(inner: Driver, device: number | undefined) {
    super(inner)
    this.writer = new RowWriter(inner, device)
    this.#graphs = new TimelineGraphs(this, this.writer)
    this.#kernels = new TimelineKernels(this, this.writer)
    this.#memory = new TimelineMemory(this, this.writer)
  }

  override get graphs(): TimelineGraphs {
    return this.#graphs
  }
  override get kernels(): TimelineKernels {
    return this.#kernels
  }
  override get memory(): TimelineMemory {
    return this.#memory
  }

  override deviceSynchronize(device: number): void {
    this.#blocked('device.synchronize()', undefined, device, () => super.deviceSynchronize(device))
  }

  override streamSynchronize(stream: StreamHandle): void {
    this.#blocked('stream.synchronize()', stream, 0, () => super.streamSynchronize(stream))
  }

  override drainHostFunctions(): void {
    this.#blocked('device.drainHostFunctions()', undefined, 0, () => super.drainHostFunctions())
  }

  override streamDestroy(stream: StreamHandle): void {
    super.streamDestroy(stream)
    this.writer.lanes.forget(stream)
  }

  /** A foreign stream may be gone, and its handle another's. */
  override streamAdopt(cudaHandle: number, near: number): AdoptedStream {
    const adopted = super.streamAdopt(cudaHandle, near)
    this.writer.lanes.forget(adopted.stream)
    return adopted
  }

  override streamFinished(stream: StreamHandle, context: ContextHandle, settle: Settle): Cancel {
    return this.writer.hidden(() =>
      this.#awaited('stream.finished()', stream, 0, settle, (told) => super.streamFinished(stream, context, told)),
    )
  }

  override deviceFinished(device: number, settle: Settle): Cancel {
    return this.#awaited('device.finished()', undefined, device, settle, (told) => super.deviceFinished(device, told))
  }

  override deviceRecordOwn(event: EventHandle, device: number): boolean {
    this.writer.eventRecorded(event)
    return super.deviceRecordOwn(event, device)
  }

  override streamWaitEvent(stream: StreamHandle, event: EventHandle, external: ExternalFlag): void {
    const { writer } = this
    const row = writer.begin(RowKind.WAIT, stream, writer.common.wait, Number.NaN, writer.recordOf(event))
    writer.during(row, stream, () => super.streamWaitEvent(stream, event, external))
  }

  override streamWaitStream(stream: StreamHandle, other: StreamHandle, otherContext: ContextHandle): void {
    const { writer } = this
    const record = writer.begin(RowKind.RECORD, other, writer.common.record)
    const wait = writer.begin(RowKind.WAIT, stream, writer.common.wait, Number.NaN, record)
    writer.during(record, other, () =>
      writer.during(wait, stream, () => super.streamWaitStream(stream, other, otherContext)),
    )
  }

  override streamLaunchHostFunction(stream: StreamHandle, context: ContextHandle, call: HostFunction): void {
    const { writer } = this
    const { callback, hostFunction, staging } = writer.common
    const name = call.own === true ? staging : call.runsAfterFault ? callback : hostFunction
    const row = writer.begin(RowKind.HOST_FUNCTION, stream, name)
    writer.during(row, stream, () => super.streamLaunchHostFunction(stream, context, this.#watched(call, row)))
  }

  override streamHold(stream: StreamHandle, context: ContextHandle): () => void {
    const { writer } = this
    const row = writer.begin(RowKind.WAIT, stream, writer.names.of('promise'))
    return writer.during(row, stream, () => super.streamHold(stream, context))
  }

  /** The library's own events are also destroyed without passing here, and the handle may be that of one of them. */
  override eventCreate(context: ContextHandle, flags: number, recordedNext?: boolean): EventHandle {
    const event = super.eventCreate(context, flags, recordedNext)
    if (recordedNext !== true) this.writer.eventRecorded(event)
    return event
  }

  override eventDestroy(event: EventHandle): void {
    super.eventDestroy(event)
    this.writer.eventRecorded(event)
  }

  override eventRecycle(context: ContextHandle, event: EventHandle, neverRecorded?: boolean): void {
    super.eventRecycle(context, event, neverRecorded)
    this.writer.eventRecorded(event)
  }

  override eventRecord(event: EventHandle, stream: StreamHandle, external: ExternalFlag): void {
    const { writer } = this
    const row = writer.begin(RowKind.RECORD, stream, writer.common.record)
    writer.during(row, stream, () => super.eventRecord(event, stream, external))
    writer.eventRecorded(event, row)
  }

  override eventRecordOwn(event: EventHandle, stream: StreamHandle): void {
    const { writer } = this
    writer.meter.hide()
    try {
      super.eventRecordOwn(event, stream)
    } finally {
      writer.meter.show()
    }
    writer.ownEventRecorded(event, stream)
  }

  override eventSynchronize(event: EventHandle): void {
    this.#blocked('event.synchronize()', this.#streamOf(event), 0, () => super.eventSynchronize(event))
  }

  override eventFinished(event: EventHandle, settle: Settle): Cancel {
    const stream = this.#streamOf(event)
    return this.#awaited('event.finished()', stream, 0, settle, (told) => super.eventFinished(event, told))
  }

  /** Where the event was recorded last. */
  #streamOf(event: EventHandle): StreamHandle | undefined {
    const { writer } = this
    const record = writer.recordOf(event)
    return record === NO_ROW ? undefined : writer.lanes.all[writer.table.lane[record] ?? 0]?.handle
  }

  #blocked(name: string, stream: StreamHandle | undefined, device: number, wait: () => void): void {
    const end = this.writer.call(RowKind.SYNCHRONIZE, name, stream, device)
    try {
      wait()
    } finally {
      end()
    }
  }

  /** A promise is over when it settles, when it is given up, or at once where the driver refuses it. */
  #awaited(
    name: string,
    stream: StreamHandle | undefined,
    device: number,
    settle: Settle,
    start: (settle: Settle) => Cancel,
  ): Cancel {
    return untilOver(start, settle, this.writer.call(RowKind.AWAIT, name, stream, device))
  }

  #watched(call: HostFunction, row: number): HostFunction {
    const { meter } = this.writer
    return {
      ...call,
      run(status) {
        meter.hostFunctionBegins(row)
        try {
          call.run(status)
        } finally {
          meter.hostFunctionEnds(row)
        }
      },
    }
  }
}
