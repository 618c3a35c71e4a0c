/** The times of the simulator. They are virtual and exact: the machine reports them as operations begin and end. */

import type { Driver } from '../../foundation/driver/driver.js'
import type { StreamHandle } from '../../foundation/driver/handle-types.js'
import type { KernelProfile } from '../../foundation/driver/kernel-profile.js'
import { backendOf } from '../../foundation/driver/wrappable-driver.js'
import type { Observer } from '../../simulator/machine/machine.js'
import type { SimOperation } from '../../simulator/machine/machine-state.js'
import { SimOperationKind } from '../../simulator/machine/work.js'
import type { SimDriver } from '../../simulator/sim-driver.js'
import { type EventRecords, type Meter, type Names, NO_ROW } from './event-records.js'
import { EventKind } from './kinds.js'
import type { Described, StreamTracks } from './tracks.js'

/** The value in place of a row for a driver call whose operations are not the program's. */
const HIDDEN = -2
/** The number of tags that a recording has. Operations of an earlier one may still run, so each recording has tags of its own. */
const TAGS = 2 ** 31
let nextTag = 0
const takeTags = (): number => {
  nextTag += TAGS
  return nextTag
}

/** The kinds and names of operations that no driver call queued. */
const KNOWN: Readonly<Record<number, readonly [kind: EventKind, name: string]>> = {
  [SimOperationKind.KERNEL]: [EventKind.KERNEL, 'busy'],
  [SimOperationKind.HOST]: [EventKind.HOST_FUNCTION, 'host function'],
  [SimOperationKind.LATCH]: [EventKind.LATCH, 'latch'],
  [SimOperationKind.FAULT]: [EventKind.FAULT, 'fault'],
  [SimOperationKind.COPY]: [EventKind.COPY, 'copy'],
}

export class VirtualMeter implements Meter, Observer {
  readonly clock = 'virtual'
  readonly calibrations = []
  readonly #sim: SimDriver
  readonly #origin: number
  readonly #tagBase = takeTags()
  /** The observer of an earlier recording, which goes on, or whose operations still run. */
  #earlier: Observer | undefined
  /** The rows of operations, if another recording goes on that tags them with its own. */
  readonly #rows: WeakMap<SimOperation, number> | undefined
  /** The latest operation of each track, unless that has ended. */
  readonly #latest = new Map<number, SimOperation>()
  /** The rows of the driver calls under way, the innermost last. A host function may run inside a call, and make others. */
  readonly #calls: number[] = []
  /** Whether each of these calls has queued its operation. */
  readonly #claimed: boolean[] = []
  #stopped = false
  /** The rows of the launches that conditional nodes belong to. */
  readonly #graphs = new WeakMap<SimOperation, number>()

  constructor(
    private readonly driver: Driver,
    private readonly table: EventRecords,
    private readonly names: Names,
    private readonly tracks: () => StreamTracks,
  ) {
    this.#sim = backendOf(driver) as SimDriver
    this.#origin = this.#sim.machine.scheduler.now
    this.#earlier = this.#sim.machine.observer
    if (this.#earlier instanceof VirtualMeter && this.#earlier.#isAnyRunning) this.#rows = new WeakMap()
    this.#sim.machine.observer = this
  }

  /** Whether this recording, or one before it, goes on. */
  get #isAnyRunning(): boolean {
    return !this.#stopped || (this.#earlier instanceof VirtualMeter && this.#earlier.#isAnyRunning)
  }

  now(): number {
    return this.#sim.machine.scheduler.now - this.#origin
  }

  describe(handle: StreamHandle): Described {
    const stream = this.#sim.peek(handle)
    if (stream === undefined) {
      const context = this.driver.devices.context(0)
      return { id: BigInt(handle), device: 0, context, nonBlocking: true, priority: 0, isProvisional: true }
    }
    const { id, device, nonBlocking, priority, partition } = stream
    const described = { id, device: device.ordinal, context: device.context, nonBlocking, priority }
    return { ...described, multiprocessors: partition?.multiprocessors, isProvisional: false }
  }

  captures(handle: StreamHandle): boolean {
    return this.#sim.peek(handle)?.capture !== undefined
  }

  queuing(row: number): boolean {
    this.#begin(row)
    return true
  }

  unseen(): void {}

  queued(row: number | SimOperation): void {
    if (typeof row === 'number') this.#callEnds(row)
    else {
      if (!this.#stopped) this.#observe(row)
      this.#earlier?.queued(row)
    }
  }

  refused(row: number): void {
    this.#end()
    this.table.remove(row)
  }

  hide(): void {
    this.#begin(HIDDEN)
  }

  show(): void {
    this.#end()
  }

  /** Notes that a host function begins, whose calls do not belong to the call inside which it happens to run. */
  hostFunctionBegins(): void {
    this.#begin(NO_ROW)
  }

  hostFunctionEnds(): void {
    this.#end()
  }

  started(operation: SimOperation, time: number): void {
    const row = this.#rowOf(operation)
    if (row === NO_ROW || this.#rows !== undefined) this.#earlier?.started(operation, time)
    if (row !== NO_ROW) this.table.start[row] = time - this.#origin
  }

  ended(operation: SimOperation): void {
    const row = this.#rowOf(operation)
    if (row === NO_ROW || this.#rows !== undefined) this.#earlier?.ended(operation)
    if (row === NO_ROW) return
    const { kind, start, end, track } = this.table
    if (this.#latest.get(track[row] ?? 0) === operation) this.#latest.delete(track[row] ?? 0)
    const time = operation.time - this.#origin
    const hasBegun = !Number.isNaN(start[row] ?? 0)
    const begins = !hasBegun && operation.kind === SimOperationKind.INSTANT
    if (begins) start[row] = time
    if (!begins && !hasBegun) this.table.lost.add(row)
    // The first operation of a launch of a graph is its beginning.
    else if (!begins || kind[row] !== EventKind.GRAPH) end[row] = time
  }

  added(operation: SimOperation, by: SimOperation): void {
    const graph = this.#graphs.get(by)
    if (graph === undefined) this.#earlier?.added(operation, by)
    else if (!this.#stopped) this.#addTo(graph, operation)
  }

  countKernels(): void {
    this.#sim.kernels.profilers.add(this.#counted)
  }

  /** Called inside the effect of a launch, which may come after the launch is over. */
  readonly #counted = (profile: KernelProfile): void => {
    const operation = this.#sim.machine.effectOf
    const row = operation === undefined ? NO_ROW : this.#rowOf(operation)
    if (row !== NO_ROW) this.table.profiles.set(row, profile)
  }

  collect(): void {}

  stop(): void {
    this.#stopped = true
  }

  /** Resolves when all recorded operations are complete. The driver is not asked: it would refuse, and invalidate a capture that is under way. */
  finished(): Promise<void> {
    const { machine } = this.#sim
    const [any] = this.#latest.values()
    if (any === undefined) return Promise.resolve()
    return new Promise((resolve) => {
      machine.notify(machine.marker(any.stream, [...this.#latest.values()]), () => resolve())
    })
  }

  close(): void {
    const { machine, kernels } = this.#sim
    kernels.profilers.delete(this.#counted)
    if (machine.observer === this) machine.observer = this.#earlier
    for (let one = machine.observer; one instanceof VirtualMeter; one = one.#earlier) {
      if (one.#earlier === this) one.#earlier = this.#earlier
    }
  }

  /** The row of an operation; NO_ROW if it is not of this recording. */
  #rowOf(operation: SimOperation): number {
    if (this.#rows !== undefined) return this.#rows.get(operation) ?? NO_ROW
    const row = operation.observed - this.#tagBase
    return row >= 0 && row < TAGS ? row : NO_ROW
  }

  #begin(row: number): void {
    this.#calls.push(row)
    this.#claimed.push(false)
  }

  #end(): boolean | undefined {
    this.#calls.pop()
    return this.#claimed.pop()
  }

  /** Ends a driver call. If it queued no operation, that was captured into a graph. */
  #callEnds(row: number): void {
    if (!this.#end() && this.table.kind[row] !== EventKind.ALLOCATE) this.table.remove(row)
  }

  #observe(operation: SimOperation): void {
    const top = this.#calls.length - 1
    const row = this.#callAt(top)
    const record = this.#recordBelow(top)
    if (row === HIDDEN) {
      // There may have been room for a record, but none for the wait behind it in the same call.
      if (record !== NO_ROW && this.table.kind[record] === EventKind.RECORD) this.#claim(operation, top - 1)
    } else if (row === NO_ROW) this.#addTo(NO_ROW, operation)
    // A wait for a stream is one call with two operations, and the record comes first.
    else if (record !== NO_ROW && this.table.cause[row] === record) this.#claim(operation, top - 1)
    else if (!this.#claimed[top]) this.#claim(operation, top)
    else if (this.table.kind[row] === EventKind.GRAPH) this.#observeNode(operation, row)
  }

  /** The row of the call around this one, if that has queued no operation yet. */
  #recordBelow(top: number): number {
    const row = this.#callAt(top - 1)
    return row >= 0 && !this.#claimed[top - 1] ? row : NO_ROW
  }

  /** The row of a call. Reading before the beginning of an array would take a tenth of a microsecond. */
  #callAt(at: number): number {
    return at < 0 ? NO_ROW : (this.#calls[at] ?? NO_ROW)
  }

  #claim(operation: SimOperation, at: number): void {
    this.#claimed[at] = true
    this.#tag(operation, this.#calls[at] ?? NO_ROW)
  }

  /** The last operation of a launch is its end, and those before are its nodes. */
  #observeNode(operation: SimOperation, graph: number): void {
    const isEnd = operation.kind === SimOperationKind.INSTANT && operation.inStream
    if (isEnd) this.#tag(operation, graph)
    else this.#addTo(graph, operation)
  }

  #tag(operation: SimOperation, row: number): void {
    if (this.#rows === undefined) operation.observed = this.#tagBase + row
    else this.#rows.set(operation, row)
    this.#latest.set(this.table.track[row] ?? 0, operation)
  }

  /** Adds an event record for an operation that no driver call queued: one of `cuda-streams/sim`, or a node of a graph. */
  #addTo(parent: number, operation: SimOperation): void {
    const { kind, stream, work } = operation
    const table = this.table
    if (kind === SimOperationKind.CONDITIONAL) this.#graphs.set(operation, parent)
    const [known, name] = KNOWN[kind] ?? [work === undefined ? EventKind.NONE : EventKind.FREE, 'free']
    if (known === EventKind.NONE) return
    if (table.isFull) {
      table.dropped += 1
      return
    }
    const track = this.tracks().of(stream.handle)
    const type = work?.name === 'fill' ? EventKind.FILL : known
    const row = table.add(
      type,
      track.index,
      this.names.of(work?.name ?? name),
      work?.byteLength ?? Number.NaN,
      this.now(),
    )
    table.parent[row] = parent
    this.#tag(operation, row)
  }
}
