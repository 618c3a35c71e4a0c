/** A recording as a run that can be played again with a change: the calls of the host in their order, and the work of the streams. */
import { IntervalMap } from '../../foundation/base/interval-map.js'
import { isDefaultStream, isNullStream } from '../../foundation/driver/handle-types.js'
import type { Awaited, InRun, Operation, RecordedRun, RecordedStream, Step } from '../prediction/run.js'
import { NO_ROW } from './event-records.js'
import { deviceInCause, EventKind, isHostOnly, isTimed } from './kinds.js'
import { PREDICTED_ROWS, type Trace } from './trace.js'
import { UNKNOWN_FACT } from './work-facts.js'

export interface TracedRun {
  readonly run: RecordedRun
  /** The number of the step of each row: the operation, the record, the wait or the beginning of the wait; NO_ROW for none. */
  readonly stepOf: Int32Array
  /** Whether all rows are in the run, and not only the first ones. */
  readonly isAll: boolean
}

/** The kinds of operations in a run. A stream that a value or a test holds is let go by the host, as far as a recording shows. */
const RUN_KINDS: Readonly<Partial<Record<number, Operation['kind']>>> = {
  [EventKind.KERNEL]: 'kernel',
  [EventKind.COPY]: 'copy',
  [EventKind.FILL]: 'fill',
  [EventKind.ALLOCATE]: 'allocate',
  [EventKind.FREE]: 'free',
  [EventKind.HOST_FUNCTION]: 'hostFunction',
  [EventKind.GRAPH]: 'graph',
  [EventKind.LATCH]: 'promise',
}

/** A step at its place: steps of one time are in the order of ranks, then of rows, then of phases. */
interface Placed {
  readonly time: number
  readonly rank: 0 | 1
  readonly row: number
  readonly phase: number
  readonly step: Step
  /** The row whose beginning of a wait this step ends; NO_ROW for other steps. */
  readonly begun: number
}

/** The run of a recording; undefined if it cannot be played again: the GPU faulted, or streams waited for values that no clock shows. */
export function runOf(trace: Trace): TracedRun | undefined {
  const { kind } = trace
  const length = Math.min(trace.length, PREDICTED_ROWS)
  for (let row = 0; row < length; row += 1) {
    if (kind[row] === EventKind.FAULT || (isValueWait(trace, row) && trace.clock === 'host')) return undefined
  }
  return new Builder(trace, length).build()
}

const isValueWait = ({ kind, name }: Trace, row: number): boolean =>
  kind[row] === EventKind.WAIT && name[row] !== 'wait'

class Builder {
  readonly #placed: Placed[] = []
  readonly #streams: readonly RecordedStream[]
  /** The operations that a wait waits for without a record. */
  readonly #recorded = new Set<number>()
  readonly #hostMemory = new IntervalMap<true>(() => true)

  constructor(
    private readonly trace: Trace,
    private readonly length: number,
  ) {
    this.#streams = trace.tracks.map(({ index, handle, device, nonBlocking, priority, name }) => {
      const isNull = isDefaultStream(handle) && isNullStream(handle)
      return { index, device, nonBlocking, isNull, priority, name }
    })
    const { kind, cause } = trace
    for (let row = 0; row < length; row += 1) {
      const by = cause[row] ?? NO_ROW
      const waits = kind[row] === EventKind.WAIT || isHostOnly(kind[row] ?? 0)
      if (waits && by >= 0 && kind[by] !== EventKind.RECORD) this.#recorded.add(by)
    }
  }

  build(): TracedRun {
    for (let row = 0; row < this.length; row += 1) if (this.trace.parent[row] === NO_ROW) this.#add(row)
    this.#placed.sort((a, b) => a.time - b.time || a.rank - b.rank || a.row - b.row || a.phase - b.phase)
    const stepOf = new Int32Array(this.trace.length).fill(NO_ROW)
    const steps = this.#placed.map(({ step, row, begun, phase }, index): Step => {
      if (phase === 0) stepOf[row] = index
      return step.what === 'go' ? { ...step, begun: stepOf[begun] ?? NO_ROW } : step
    })
    const run = { steps, streams: this.#streams, hostMemory: this.#hostMemory }
    return { run, stepOf, isAll: this.length === this.trace.length }
  }

  #add(row: number): void {
    const { kind, track, foreign } = this.trace
    const stream = this.#streams[track[row] ?? 0]
    const what = kind[row] ?? 0
    if (stream === undefined) return
    if (isHostOnly(what)) this.#hostWaits(row, stream)
    else if (what === EventKind.RECORD) this.#place(row, { what: 'record', stream, event: row, ...this.#inRun(row) })
    else if (what === EventKind.WAIT) this.#streamWaits(row, stream)
    else if (foreign[row] === 1 || RUN_KINDS[what] !== undefined) this.#operation(row, stream, RUN_KINDS[what])
  }

  #inRun(row: number): InRun {
    const { called, returned, site, name } = this.trace
    const [began, ended] = [called[row] ?? 0, returned[row] ?? 0]
    return { number: row, began, ended: Math.max(began, ended), own: 0, site: site[row] || (name[row] ?? '') }
  }

  /** The facts of a step of the host at one time. */
  #at(row: number, time: number): InRun {
    return { ...this.#inRun(row), began: time, ended: time }
  }

  #place(row: number, step: Step, time = step.began, rank: 0 | 1 = 1, phase = 0, begun = NO_ROW): void {
    this.#placed.push({ time, rank, row, phase, step, begun })
  }

  #operation(row: number, stream: RecordedStream, known: Operation['kind'] = 'kernel'): void {
    const { kind, start, end, name, facts, hostFunctionTimes, clock } = this.trace
    const { memory, engine, share, sharesWithHost, isPartlyKnown, instance } = facts.get(row) ?? UNKNOWN_FACT
    const [ran, over] = hostFunctionTimes.get(row) ?? [start[row] ?? Number.NaN, end[row] ?? Number.NaN]
    const isHeld = known === 'hostFunction' || known === 'promise'
    const times = isTimed(kind[row] ?? 0) ? { start: ran, end: over } : { start: Number.NaN, end: Number.NaN }
    const isUnknownShare = known === 'kernel' && clock === 'virtual' && memory === undefined
    const operation: Operation = {
      what: 'operation',
      stream,
      kind: isHeld && Number.isNaN(over) ? 'declared' : known,
      name: name[row] ?? '',
      memory,
      engine,
      share: isUnknownShare ? ONE_KERNEL : share,
      instance,
      isPartlyKnown,
      sharesWithHost,
      ...times,
      ...this.#inRun(row),
    }
    this.#place(row, operation)
    if (engine !== undefined && engine !== 'memory') this.#learn(operation)
    if (this.#recorded.has(row)) {
      const step: Step = { what: 'record', stream, event: row, ...this.#at(row, operation.ended) }
      this.#place(row, step, operation.began, 1, 1)
    }
    if (isHeld && !Number.isNaN(over)) this.#held(row, ran, over, known === 'hostFunction')
  }

  /** Places the host's part of a host function, or of a wait that the host ends. */
  #held(row: number, ran: number, over: number, isSeen: boolean): void {
    if (isSeen) {
      const step: Step = { what: 'seen', awaited: { of: 'reached', operation: row }, ...this.#at(row, ran) }
      this.#place(row, step, ran, 0, 2)
    }
    this.#place(row, { what: 'let', operation: row, ...this.#at(row, over) }, over, 0, 3)
  }

  /** Learns from a copy which memory is the host's. */
  #learn({ memory = [], engine }: Operation): void {
    const [to, from] = memory
    const ofHost = engine === 'toHost' ? to : from
    if (ofHost !== undefined) this.#hostMemory.update(ofHost.pointer, ofHost.pointer + ofHost.byteLength, () => true)
  }

  #streamWaits(row: number, stream: RecordedStream): void {
    const { cause, clock, start, end } = this.trace
    const by = cause[row] ?? NO_ROW
    const isOfValue = isValueWait(this.trace, row)
    if (!isOfValue && by >= 0) this.#place(row, { what: 'wait', stream, event: by, ...this.#inRun(row) })
    else if (clock === 'virtual' && (isOfValue || (end[row] ?? 0) > (start[row] ?? 0)))
      this.#operation(row, stream, 'promise')
    else this.#place(row, { what: 'host', ...this.#inRun(row) })
  }

  #hostWaits(row: number, stream: RecordedStream): void {
    const { kind, called, returned } = this.trace
    const [began, over] = [called[row] ?? 0, returned[row] ?? 0]
    // A promise that settles at once, or has not settled by the end, holds nothing up.
    if (kind[row] === EventKind.AWAIT && !(over > began)) return
    this.#place(row, { what: 'begin', awaited: this.#awaited(row, stream), ...this.#at(row, began) })
    const rank = over > began ? 0 : 1
    this.#place(row, { what: 'go', begun: NO_ROW, ...this.#at(row, over) }, over, rank, 1, row)
  }

  #awaited(row: number, stream: RecordedStream): Awaited {
    const { cause, name } = this.trace
    const by = cause[row] ?? NO_ROW
    const device = deviceInCause(by)
    if (name[row] === 'device.drainHostFunctions()') return { of: 'hostFunctions' }
    if (device !== undefined) return { of: 'device', device }
    return by >= 0 ? { of: 'event', event: by } : { of: 'stream', stream }
  }
}

/** The part of the simulator's device that a kernel takes, whatever its size. */
const ONE_KERNEL = 1 / 128
