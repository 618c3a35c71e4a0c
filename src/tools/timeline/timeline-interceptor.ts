/** Intercepts the calls that queue work or wait for it, and writes an event record for each. */

import type { DeviceDriver } from '../../foundation/driver/device-driver.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { Cancel, EventDriver, Settle } from '../../foundation/driver/event-driver.js'
import type { GraphDriver } from '../../foundation/driver/graph-driver.js'
import type { EventHandle, GraphExecHandle, GraphHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import type { MemoryDriver } from '../../foundation/driver/memory-driver.js'
import type { HostFunction, QueuedWork, WorkDriver } from '../../foundation/driver/queued-work.js'
import type { StreamDriver } from '../../foundation/driver/stream-driver.js'
import type { Interceptor } from '../../foundation/driver/wrappable-driver.js'
import { NO_ROW } from './event-records.js'
import { EventWriter, type MakeMeter } from './event-writer.js'
import { EventKind, STAGING } from './kinds.js'
import { type RecordedFacts, WorkFacts } from './work-facts.js'

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
  readonly #facts: WorkFacts

  /**
   * @param device A device that will be used, so that its clock is prepared now
   * @param meter The times in place of the driver's own
   * @param recorded The facts that a recording in a file has of the work under way
   */
  constructor(
    private readonly next: Driver,
    device: number | undefined,
    meter?: MakeMeter,
    private readonly recorded?: () => RecordedFacts,
  ) {
    this.#facts = new WorkFacts(next)
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
        if (this.#facts.isCapturing) this.#facts.captures(work)
        return
      }
      const { writer, next } = this
      const { stream } = work
      const cause = work.kind === 'graph' ? this.#launches.get(work.exec) : undefined
      const row = writer.begin(described.kind, stream, described.name, described.bytes, cause)
      const queued = work.kind === 'hostFunction' ? { ...work, call: this.#watched(work.call, row) } : work
      writer.during(row, stream, () => next.work.queue(queued))
      this.#noteFacts(work, row)
      if (work.kind !== 'graph') return
      if (writer.table.has(row)) this.#launches.set(work.exec, row)
      else this.#launches.delete(work.exec)
    },
    drainHostFunctions: () => {
      this.#blocked('device.drainHostFunctions()', undefined, 0, () => this.next.work.drainHostFunctions())
    },
  }

  /** Notes the facts of work that was queued, or captured, for the first rows of a recording. */
  #noteFacts(work: QueuedWork & { readonly stream: StreamHandle }, row: number): void {
    const { table, tracks } = this.writer
    if (work.kind === 'free') this.#facts.freed()
    if (table.has(row)) {
      if (row >= table.factsUntil) return
      table.facts.set(row, this.#facts.of(work, tracks.of(work.stream).device, this.recorded?.()))
    } else if (this.#facts.isCapturing) this.#facts.captures(work)
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
      this.#facts.captureBegins(true)
    },
    beginInto: (stream, mode, graph, after) => {
      this.next.graphs.beginInto(stream, mode, graph, after)
      this.#facts.captureBegins(false)
    },
    end: (stream) => {
      let graph: GraphHandle | undefined
      try {
        graph = this.next.graphs.end(stream)
        return graph
      } finally {
        this.#facts.captureEnds(graph)
      }
    },
    abandon: (stream) => {
      this.next.graphs.abandon(stream)
      this.#facts.captureEnds()
    },
    addToBody: (body, graph) => {
      this.#facts.changed(body)
      return this.next.graphs.addToBody(body, graph)
    },
    addConditional: (place, node) => {
      if ('stream' in place) this.#facts.captureIsUnknown()
      else this.#facts.changed(place.body)
      return this.next.graphs.addConditional(place, node)
    },
    instantiate: (graph, context) => {
      const exec = this.next.graphs.instantiate(graph, context)
      this.#facts.instantiated(exec, graph)
      return exec
    },
    update: (exec, graph) => {
      this.next.graphs.update(exec, graph)
      this.#facts.instantiated(exec, graph)
    },
    updateNode: (exec, node, context, work) => {
      this.next.graphs.updateNode(exec, node, context, work)
      this.#facts.nodeUpdated(exec, work)
    },
    /** The instance is forgotten, as a new one may get the same handle. */
    destroyExec: (exec) => {
      this.next.graphs.destroyExec(exec)
      this.#launches.delete(exec)
      this.#facts.destroyed(exec)
    },
  }

  readonly memory: Partial<MemoryDriver> = {
    closePinned: (pointer, bytes, after) => {
      this.next.memory.closePinned(pointer, bytes, after)
      this.#facts.freed()
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
      const wait = (): void => this.next.events.synchronize(event)
      this.#blocked('event.synchronize()', this.#streamOf(event), 0, wait, this.writer.recordOf(event))
    },
    finished: (event, settle) => {
      const start = (told: Settle): Cancel => this.next.events.finished(event, told)
      return this.#awaited('event.finished()', this.#streamOf(event), 0, settle, start, this.writer.recordOf(event))
    },
  }

  /** The stream on which the event was recorded last. */
  #streamOf(event: EventHandle): StreamHandle | undefined {
    const { writer } = this
    const record = writer.recordOf(event)
    return record === NO_ROW ? undefined : writer.tracks.all[writer.table.track[record] ?? 0]?.handle
  }

  #blocked(
    name: string,
    stream: StreamHandle | undefined,
    device: number,
    wait: () => void,
    record: number = NO_ROW,
  ): void {
    const end = this.writer.call(EventKind.SYNCHRONIZE, name, stream, device, record)
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
    record: number = NO_ROW,
  ): Cancel {
    return whenSettled(start, settle, this.writer.call(EventKind.AWAIT, name, stream, device, record))
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
