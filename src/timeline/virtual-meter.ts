/** Times of the simulator: virtual, exact, and reported by the machine itself as operations begin and end. */

import type { Driver, StreamHandle } from '../driver/driver.js'
import type { Observer } from '../driver/sim/machine/machine.js'
import type { SimOperation } from '../driver/sim/machine/machine-state.js'
import { SimOperationKind } from '../driver/sim/machine/work.js'
import type { SimDriver } from '../driver/sim/sim-driver.js'
import { backendOf } from '../driver/wrappable-driver.js'
import { type EventRecords, type Meter, type Names, NO_ROW } from './event-records.js'
import { EventKind } from './kinds.js'
import type { Described, StreamTracks } from './tracks.js'

/** Stands for verbs whose operations are not the program's. */
const HIDDEN = -2
/** Operations of an earlier recording may still run: each recording has numbers of its own. */
const TAGS = 2 ** 31
let nextTag = 0
const takeTags = (): number => {
  nextTag += TAGS
  return nextTag
}

/** What the simulator's own operations are called here, where they have no name. */
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
  /** An earlier recording that is not over yet: operations of its own still run. */
  #earlier: Observer | undefined
  /** The latest operation of each track. */
  readonly #latest: SimOperation[] = []
  /** Rows whose verbs are under way, the innermost last; a host function may run inside a verb, and call others. */
  readonly #verbs: number[] = []
  /** Which of them got their operations. */
  readonly #claimed: boolean[] = []
  #stopped = false

  constructor(
    private readonly driver: Driver,
    private readonly table: EventRecords,
    private readonly names: Names,
    private readonly tracks: () => StreamTracks,
  ) {
    this.#sim = backendOf(driver) as SimDriver
    this.#origin = this.#sim.machine.scheduler.now
    this.#earlier = this.#sim.machine.observer
    this.#sim.machine.observer = this
  }

  now(): number {
    return this.#sim.machine.scheduler.now - this.#origin
  }

  describe(handle: StreamHandle): Described {
    const stream = this.#sim.peek(handle)
    if (stream === undefined) {
      const context = this.driver.deviceContext(0)
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
    if (typeof row === 'number') this.#verbEnds(row)
    else if (!this.#stopped) this.#observe(row)
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

  /** What the host function calls is not part of the verb inside which it happens to run. */
  hostFunctionBegins(): void {
    this.#begin(NO_ROW)
  }

  hostFunctionEnds(): void {
    this.#end()
  }

  started(operation: SimOperation, time: number): void {
    const row = operation.observed - this.#tagBase
    if (row < 0 || row >= TAGS) this.#earlier?.started(operation, time)
    else this.table.start[row] = time - this.#origin
  }

  ended(operation: SimOperation): void {
    const row = operation.observed - this.#tagBase
    if (row < 0 || row >= TAGS) {
      this.#earlier?.ended(operation)
      return
    }
    const { kind, start, end } = this.table
    const time = operation.time - this.#origin
    const hasBegun = !Number.isNaN(start[row] ?? 0)
    const begins = !hasBegun && operation.kind === SimOperationKind.INSTANT
    if (begins) start[row] = time
    if (!begins && !hasBegun) this.table.lost.add(row)
    // The first operation of a launch is its beginning.
    else if (!begins || kind[row] !== EventKind.GRAPH) end[row] = time
  }

  collect(): void {}

  stop(): void {
    this.#stopped = true
  }

  /** Asks no driver: that would invalidate a capture which is under way, and be refused. */
  finished(): Promise<void> {
    const { machine } = this.#sim
    const any = this.#latest.find((operation) => operation !== undefined)
    if (any === undefined) return Promise.resolve()
    return new Promise((resolve) => {
      machine.notify(machine.marker(any.stream, this.#latest), () => resolve())
    })
  }

  close(): void {
    const { machine } = this.#sim
    if (machine.observer === this) machine.observer = this.#earlier
    for (let one = machine.observer; one instanceof VirtualMeter; one = one.#earlier) {
      if (one.#earlier === this) one.#earlier = this.#earlier
    }
  }

  #begin(row: number): void {
    this.#verbs.push(row)
    this.#claimed.push(false)
  }

  #end(): boolean | undefined {
    this.#verbs.pop()
    return this.#claimed.pop()
  }

  /** A verb is over: what it has not queued was captured into a graph. */
  #verbEnds(row: number): void {
    if (!this.#end() && this.table.kind[row] !== EventKind.ALLOCATE) this.table.remove(row)
  }

  #observe(operation: SimOperation): void {
    const top = this.#verbs.length - 1
    const row = this.#verbAt(top)
    const record = this.#recordBelow(top)
    if (row === HIDDEN) {
      // There may have been room for a record, and none for the wait that comes behind it in the same verb.
      if (record !== NO_ROW && this.table.kind[record] === EventKind.RECORD) this.#claim(operation, top - 1)
    } else if (row === NO_ROW) this.#addTo(NO_ROW, operation)
    // To wait for a stream is one verb with two operations, and the record comes first.
    else if (record !== NO_ROW && this.table.cause[row] === record) this.#claim(operation, top - 1)
    else if (!this.#claimed[top]) this.#claim(operation, top)
    else if (this.table.kind[row] === EventKind.GRAPH) this.#observeNode(operation, row)
  }

  /** The row of the verb around this one, as long as that has no operation. */
  #recordBelow(top: number): number {
    const row = this.#verbAt(top - 1)
    return row >= 0 && !this.#claimed[top - 1] ? row : NO_ROW
  }

  /** To look in front of an array takes a tenth of a microsecond. */
  #verbAt(at: number): number {
    return at < 0 ? NO_ROW : (this.#verbs[at] ?? NO_ROW)
  }

  #claim(operation: SimOperation, at: number): void {
    this.#claimed[at] = true
    this.#tag(operation, this.#verbs[at] ?? NO_ROW)
  }

  /** The last operation of a launch is its end; those before are its nodes. */
  #observeNode(operation: SimOperation, graph: number): void {
    const isEnd = operation.kind === SimOperationKind.INSTANT && operation.inStream
    if (isEnd) this.#tag(operation, graph)
    else this.#addTo(graph, operation)
  }

  #tag(operation: SimOperation, row: number): void {
    operation.observed = this.#tagBase + row
    this.#latest[this.table.track[row] ?? 0] = operation
  }

  /** A row for an operation that no verb queued: from `cuda-streams/sim`, or a node of a graph. */
  #addTo(parent: number, operation: SimOperation): void {
    const { kind, stream, work } = operation
    const table = this.table
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
