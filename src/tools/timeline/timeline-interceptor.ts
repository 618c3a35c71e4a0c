/** Intercepts the calls that queue work or wait for it, and writes an event record for each. */

import type { DeviceDriver } from '../../foundation/driver/device-driver.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { Cancel, EventDriver, Settle } from '../../foundation/driver/event-driver.js'
import type { GraphDriver } from '../../foundation/driver/graph-driver.js'
import type { EventHandle, GraphExecHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import type { HostFunction, QueuedWork, WorkDriver } from '../../foundation/driver/queued-work.js'
import type { StreamDriver } from '../../foundation/driver/stream-driver.js'
import type { Interceptor } from '../../foundation/driver/wrappable-driver.js'
import { NO_ROW } from './event-records.js'
import { EventWriter, type MakeMeter } from './event-writer.js'
import { EventKind, STAGING } from './kinds.js'

/** The values of the event record of queued work. */
interface Described {
  readonly kind: EventKind
  readonly name: string
  /** The bytes of the work; NaN if there are none. */
  readonly bytes: number
}

/** The event record of queued work; undefined for work that is not recorded: a child graph, an upload of a graph, and calls of other libraries. */
function describe(work: QueuedWork): Described | undefined {
  switch (work.kind) {
    case 'kernel':
      return { kind: EventKind.KERNEL, name: work.kernel.name, bytes: Number.NaN }
    case 'copy':
      return { kind: EventKind.COPY, name: work.name, bytes: work.byteLength }
    case 'copies':
      return {
        kind: EventKind.COPY,
        name: 'copy',
        bytes: work.copies.reduce((sum, { byteLength }) => sum + byteLength, 0),
      }
    case 'fill':
      return { kind: EventKind.FILL, name: 'fill', bytes: work.width * work.count }
    case 'writeValue':
      return { kind: EventKind.FILL, name: 'writeValue', bytes: work.word.bits / 8 }
    case 'allocate':
      return { kind: EventKind.ALLOCATE, name: 'allocate', bytes: work.byteLength }
    case 'free':
      return { kind: EventKind.FREE, name: 'free', bytes: Number.NaN }
    case 'waitValue':
    case 'promise':
      return { kind: EventKind.WAIT, name: work.kind, bytes: Number.NaN }
    case 'graph':
      return { kind: EventKind.GRAPH, name: 'graph', bytes: Number.NaN }
    case 'hostFunction':
      return { kind: EventKind.HOST_FUNCTION, name: nameOf(work.call), bytes: Number.NaN }
    case 'childGraph':
    case 'graphUpload':
    case 'library':
      return undefined
  }
}

const nameOf = ({ internal, runsAfterFault }: HostFunction): string =>
  internal === true ? STAGING : runsAfterFault ? 'callback' : 'host function'

export class TimelineInterceptor implements Interceptor {
  #writer: EventWriter
  /** The row of the latest launch of each instance of a graph. */
  readonly #launches = new Map<GraphExecHandle, number>()

  /**
   * @param device A device that will be used, so that its clock is prepared now
   * @param meter The times in place of the driver's own
   */
  constructor(
    private readonly next: Driver,
    device: number | undefined,
    meter?: MakeMeter,
  ) {
    this.#writer = new EventWriter(next, device, meter)
  }

  get writer(): EventWriter {
    return this.#writer
  }

  /** Begins a table of its own for what is queued from now on. The table before still gets the times of its rows. */
  restart(): void {
    this.#writer = new EventWriter(this.next, undefined)
    this.#launches.clear()
  }

  readonly work: Partial<WorkDriver> = {
    queue: (work) => {
      const described = describe(work)
      if (described === undefined || work.kind === 'library') {
        this.next.work.queue(work)
        return
      }
      const { writer, next } = this
      const { stream } = work
      const cause = work.kind === 'graph' ? this.#launches.get(work.exec) : undefined
      const row = writer.begin(described.kind, stream, described.name, described.bytes, cause)
      const queued = work.kind === 'hostFunction' ? { ...work, call: this.#watched(work.call, row) } : work
      writer.during(row, stream, () => next.work.queue(queued))
      if (work.kind !== 'graph') return
      if (writer.table.has(row)) this.#launches.set(work.exec, row)
      else this.#launches.delete(work.exec)
    },
    drainHostFunctions: () => {
      this.#blocked('device.drainHostFunctions()', undefined, 0, () => this.next.work.drainHostFunctions())
    },
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

  readonly graphs: Partial<GraphDriver> = {
    begin: (stream, mode) => {
      this.writer.meter.unseen()
      this.next.graphs.begin(stream, mode)
    },
    /** The instance is forgotten, as a new one may get the same handle. */
    destroyExec: (exec) => {
      this.next.graphs.destroyExec(exec)
      this.#launches.delete(exec)
    },
  }

  readonly devices: Partial<DeviceDriver> = {
    synchronize: (device) => {
      this.#blocked('device.synchronize()', undefined, device, () => this.next.devices.synchronize(device))
    },
    finished: (device, settle) =>
      this.#awaited('device.finished()', undefined, device, settle, (told) => this.next.devices.finished(device, told)),
    recordInternal: (event, device) => {
      this.writer.eventRecorded(event)
      return this.next.devices.recordInternal(event, device)
    },
  }

  readonly streams: Partial<StreamDriver> = {
    synchronize: (stream) => {
      this.#blocked('stream.synchronize()', stream, 0, () => this.next.streams.synchronize(stream))
    },
    destroy: (stream) => {
      this.next.streams.destroy(stream)
      this.writer.tracks.forget(stream)
    },
    /** A foreign stream may have been destroyed, and its handle may be another stream's now. */
    wrap: (cudaHandle, near) => {
      const wrapped = this.next.streams.wrap(cudaHandle, near)
      this.writer.tracks.forget(wrapped.stream)
      return wrapped
    },
    finished: (stream, context, settle) =>
      this.writer.hidden(() =>
        this.#awaited('stream.finished()', stream, 0, settle, (told) =>
          this.next.streams.finished(stream, context, told),
        ),
      ),
    waitEvent: (stream, event, external) => {
      const { writer } = this
      const row = writer.begin(EventKind.WAIT, stream, 'wait', Number.NaN, writer.recordOf(event))
      writer.during(row, stream, () => this.next.streams.waitEvent(stream, event, external))
    },
    waitStream: (stream, other, otherContext) => {
      const { writer } = this
      const record = writer.begin(EventKind.RECORD, other, 'record')
      const wait = writer.begin(EventKind.WAIT, stream, 'wait', Number.NaN, record)
      writer.during(record, other, () =>
        writer.during(wait, stream, () => this.next.streams.waitStream(stream, other, otherContext)),
      )
    },
  }

  readonly events: Partial<EventDriver> = {
    /** The library destroys its own events without this interceptor, so a new event may have the handle of one of them. */
    create: (context, flags, recordedNext) => {
      const event = this.next.events.create(context, flags, recordedNext)
      if (recordedNext !== true) this.writer.eventRecorded(event)
      return event
    },
    destroy: (event) => {
      this.next.events.destroy(event)
      this.writer.eventRecorded(event)
    },
    recycle: (context, event, flags, neverRecorded) => {
      this.next.events.recycle(context, event, flags, neverRecorded)
      this.writer.eventRecorded(event)
    },
    record: (event, stream, external) => {
      const { writer } = this
      const row = writer.begin(EventKind.RECORD, stream, 'record')
      writer.during(row, stream, () => this.next.events.record(event, stream, external))
      writer.eventRecorded(event, row)
    },
    recordInternal: (event, stream) => {
      this.writer.hidden(() => this.next.events.recordInternal(event, stream))
      this.writer.ownEventRecorded(event, stream)
    },
    synchronize: (event) => {
      this.#blocked('event.synchronize()', this.#streamOf(event), 0, () => this.next.events.synchronize(event))
    },
    finished: (event, settle) => {
      const stream = this.#streamOf(event)
      return this.#awaited('event.finished()', stream, 0, settle, (told) => this.next.events.finished(event, told))
    },
  }

  /** The stream on which the event was recorded last. */
  #streamOf(event: EventHandle): StreamHandle | undefined {
    const { writer } = this
    const record = writer.recordOf(event)
    return record === NO_ROW ? undefined : writer.tracks.all[writer.table.track[record] ?? 0]?.handle
  }

  #blocked(name: string, stream: StreamHandle | undefined, device: number, wait: () => void): void {
    const end = this.writer.call(EventKind.SYNCHRONIZE, name, stream, device)
    try {
      wait()
    } finally {
      end()
    }
  }

  /** Records a promise. The event record ends when the promise settles, when it is cancelled, or at once if the driver refuses it. */
  #awaited(
    name: string,
    stream: StreamHandle | undefined,
    device: number,
    settle: Settle,
    start: (settle: Settle) => Cancel,
  ): Cancel {
    return whenSettled(start, settle, this.writer.call(EventKind.AWAIT, name, stream, device))
  }
}

/**
 * Starts a wait. Calls `onEnd` when the wait settles, when it is cancelled, or at once if the start throws.
 */
function whenSettled(start: (settle: Settle) => Cancel, settle: Settle, onEnd: () => void): Cancel {
  try {
    const cancel = start((error) => {
      onEnd()
      settle(error)
    })
    return () => {
      cancel()
      onEnd()
    }
  } catch (error) {
    onEnd()
    throw error
  }
}
