/** The timeline of a recording: the calls pass through the interceptor of timelines, and the times are those of the recording. */
import type { Driver } from '../../foundation/driver/driver.js'
import type { StreamHandle } from '../../foundation/driver/handle-types.js'
import type { LibraryCall } from '../../foundation/driver/library-driver.js'
import type { WorkDriver } from '../../foundation/driver/queued-work.js'
import type { TouchedMemory } from '../../foundation/driver/touched-memory.js'
import { type DeviceSize, shareOf } from '../prediction/run.js'
import { type EventRecords, type Meter, NO_ROW } from '../timeline/event-records.js'
import { EventKind } from '../timeline/kinds.js'
import { type Timeline, timelineOf } from '../timeline/timeline.js'
import { TimelineInterceptor } from '../timeline/timeline-interceptor.js'
import { PREDICTED_ROWS, type Trace, takeTrace } from '../timeline/trace.js'
import type { Described } from '../timeline/tracks.js'
import type { RecordedFacts, WorkFact } from '../timeline/work-facts.js'
import { Player } from './player.js'
import type { Reader, TimedCall } from './reader.js'
import { placeIn } from './recorded-run.js'
import type { RecordedOperation } from './work-table.js'

/** Gives the event records the times of the recording. */
class RecordedMeter implements Meter {
  readonly clock = 'host'
  readonly calibrations = []
  /** The row of each call; keys are the numbers of calls. */
  readonly #rows = new Map<number, number>()

  constructor(
    private readonly player: Player,
    private readonly table: EventRecords,
  ) {}

  now(): number {
    return this.player.now
  }

  describe(stream: StreamHandle): Described {
    const { answers } = this.player
    const { device = 0, context = 0, multiprocessors } = answers.facts.get(stream) ?? {}
    return {
      device,
      context: answers.streams.wrap(stream, device).context,
      id: answers.streams.getId(stream),
      nonBlocking: answers.streams.getFlags(stream) !== 0,
      priority: answers.streams.getPriority(stream),
      multiprocessors,
      isProvisional: context === 0,
    }
  }

  captures(stream: StreamHandle): boolean {
    return this.player.current.more.captured === true || this.player.answers.streams.isCapturing(stream)
  }

  queuing(row: number, stream: StreamHandle): boolean {
    if (this.captures(stream)) return false
    const { number } = this.player.current
    if (!this.#rows.has(number)) this.#rows.set(number, row)
    return true
  }

  queued(): void {
    this.player.now = this.player.current.ended
  }

  ran(call: number, start: number, end: number): void {
    const row = this.#rows.get(call)
    if (row === undefined) return
    this.table.start[row] = start
    this.table.end[row] = end
  }

  refused(row: number): void {
    this.table.remove(row)
  }

  hostFunctionBegins(row: number): void {
    if (row >= 0) this.table.start[row] = this.now()
  }

  hostFunctionEnds(row: number): void {
    if (row >= 0) this.table.end[row] = this.now()
  }

  unseen(): void {}
  hide(): void {}
  show(): void {}
  collect(): void {}
  stop(): void {}
  finished(): Promise<void> {
    return Promise.resolve()
  }
  close(): void {}
}

const KINDS = { kernel: EventKind.KERNEL, copy: EventKind.COPY, fill: EventKind.FILL } as const

/** The work of an interceptor, with what calls of other libraries are for the device, where the trace of a process has timed them. */
function workOf(
  interceptor: TimelineInterceptor,
  player: Player,
  next: Driver,
  deviceOf: DeviceOf,
): Partial<WorkDriver> {
  return {
    ...interceptor.work,
    queue(work) {
      const { call } = player.current
      const recorded = call.call === 'queue' && call.work.kind === 'library' ? call.work.operation : undefined
      const [made] = work.kind === 'library' ? work.calls : []
      if (recorded === undefined || made === undefined) {
        interceptor.work.queue?.(work)
        return
      }
      const { writer } = interceptor
      const { kind, name, byteLength } = recorded
      const row = writer.begin(KINDS[kind], made.stream, name, byteLength)
      writer.during(row, made.stream, () => next.work.queue(work))
      if (row !== NO_ROW && row < PREDICTED_ROWS)
        writer.table.facts.set(row, factOf(recorded, made, deviceOf(made.stream)))
    },
  }
}

/** The facts of work that the trace of a process has timed: of a kernel only the beginnings of what it touches are known. */
function factOf(
  { kind, possible, engine, grid = ONE, block = ONE, host: sharesWithHost }: RecordedOperation,
  { memory }: LibraryCall,
  device: DeviceSize | undefined,
): WorkFact {
  const isKernel = kind === 'kernel'
  return {
    memory: possible ? memory.map((each): TouchedMemory => ({ ...each, access: 'inout' })) : memory,
    engine: isKernel ? undefined : (engine ?? 'memory'),
    share: isKernel && device !== undefined ? shareOf({ grid, block }, device) : 0,
    sharesWithHost,
    isPartlyKnown: isKernel,
    instance: undefined,
  }
}

const ONE: readonly [number, number, number] = [1, 1, 1]

/** The device of a stream, as the recording says it. */
type DeviceOf = (stream: StreamHandle) => DeviceSize | undefined

/** The facts that the recording has of the work under way. */
function recordedFacts({ call }: TimedCall, deviceOf: DeviceOf): RecordedFacts {
  if (call.call !== 'queue') return {}
  const { work } = call
  if (work.kind === 'copy') return { engine: work.engine }
  if (work.kind !== 'kernel') return {}
  return { blocksAtOnce: work.blocksAtOnce, device: deviceOf(work.stream as StreamHandle) }
}

export const timelineOfRecording = async (reader: Reader): Promise<Timeline> =>
  timelineOf(await traceOfRecording(reader))

export async function traceOfRecording(reader: Reader): Promise<Trace> {
  let made: TimelineInterceptor | undefined
  const player = new Player(reader, (next, self) => {
    let meter: RecordedMeter | undefined
    const deviceOf: DeviceOf = (stream) => reader.header.devices[self.answers.facts.get(stream)?.device ?? 0]
    const makeMeter = (records: EventRecords): Meter => {
      meter = new RecordedMeter(self, records)
      return meter
    }
    const interceptor = new TimelineInterceptor(next, undefined, makeMeter, () => recordedFacts(self.current, deviceOf))
    if (meter === undefined) throw new RangeError('no meter was made')
    made = interceptor
    const { table, sites } = interceptor.writer
    table.limit = Number.POSITIVE_INFINITY
    table.factsUntil = PREDICTED_ROWS
    table.whenAdded = [
      (row) => {
        const place = placeIn(self.current.stack)
        if (place === undefined) return
        const { path, row: line, column } = place
        table.site[row] = sites.of(column === undefined ? `${path}:${line}` : `${path}:${line}:${column}`)
      },
    ]
    return {
      interceptor: { ...interceptor, work: workOf(interceptor, self, next, deviceOf) },
      ran: meter.ran.bind(meter),
    }
  })
  await player.play()
  if (made === undefined) throw new RangeError('no timeline was made')
  const { writer } = made
  const { length } = writer.table
  const window = {
    from: 0,
    to: length,
    limit: length,
    dropped: 0,
    begin: 0,
    end: reader.now,
    epoch: reader.header.epoch,
  }
  return takeTrace(writer, window)
}
