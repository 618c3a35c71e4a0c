/** Times of the simulator: virtual, exact, and told by the machine itself as operations begin and end. */

import type { Driver, StreamHandle } from '../driver/driver.js'
import { backendOf } from '../driver/front.js'
import { type Observer, type Operation, OperationKind } from '../driver/sim/objects.js'
import type { SimDriver } from '../driver/sim/sim-driver.js'
import { Kind } from './kinds.js'
import type { Described, Lanes } from './lanes.js'
import type { Meter } from './meter.js'
import { type Names, NO_ROW, type Table } from './table.js'

/** Stands for verbs whose operations are nobody's. */
const HIDDEN = -2
/** Operations of an earlier recording may still run: each recording has numbers of its own. */
const TAGS = 2 ** 31
let nextTag = 0
const takeTags = (): number => {
  nextTag += TAGS
  return nextTag
}

const KIND_OF: Readonly<Record<number, Kind>> = {
  [OperationKind.KERNEL]: Kind.KERNEL,
  [OperationKind.HOST]: Kind.HOST_FUNCTION,
  [OperationKind.LATCH]: Kind.LATCH,
  [OperationKind.FAULT]: Kind.FAULT,
  [OperationKind.COPY]: Kind.COPY,
}
const NAME_OF: Readonly<Record<number, string>> = {
  [OperationKind.KERNEL]: 'busy',
  [OperationKind.HOST]: 'host function',
  [OperationKind.LATCH]: 'latch',
  [OperationKind.FAULT]: 'fault',
  [OperationKind.COPY]: 'copy',
}

export class VirtualMeter implements Meter, Observer {
  readonly clock = 'virtual'
  readonly calibrations = []
  readonly #driver: Driver
  readonly #sim: SimDriver
  readonly #table: Table
  readonly #names: Names
  readonly #lanes: () => Lanes
  readonly #origin: number
  readonly #tagBase = takeTags()
  /** An earlier recording that is not over yet. */
  readonly #earlier: Observer | undefined
  /** Rows whose verbs are under way, the innermost last; a host function may run inside a verb, and call others. */
  readonly #verbs: number[] = []
  /** Which of them got their operations. */
  readonly #claimed: boolean[] = []

  constructor(driver: Driver, table: Table, names: Names, lanes: () => Lanes) {
    this.#driver = driver
    this.#sim = backendOf(driver) as SimDriver
    this.#table = table
    this.#names = names
    this.#lanes = lanes
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
      const context = this.#driver.deviceContext(0)
      return { id: BigInt(handle), device: 0, context, nonBlocking: true, priority: 0, isProvisional: true }
    }
    const { id, device, nonBlocking, priority } = stream
    return { id, device: device.ordinal, context: device.context, nonBlocking, priority }
  }

  queuing(row: number): boolean {
    this.#begin(row)
    return true
  }

  unseen(): void {}

  queued(row: number | Operation): void {
    if (typeof row === 'number') this.#verbEnds(row)
    else this.#observe(row)
  }

  refused(row: number): void {
    this.#verbEnds(row)
    this.#table.kind[row] = Kind.NONE
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

  started(operation: Operation, time: number): void {
    const row = operation.observed - this.#tagBase
    if (row < 0) this.#earlier?.started(operation, time)
    else this.#table.start[row] = time - this.#origin
  }

  ended(operation: Operation): void {
    const row = operation.observed - this.#tagBase
    if (row < 0) {
      this.#earlier?.ended(operation)
      return
    }
    const { start, end } = this.#table
    end[row] = operation.time - this.#origin
    if (Number.isNaN(start[row] ?? 0) && operation.kind === OperationKind.INSTANT) start[row] = end[row] ?? 0
  }

  collect(): void {}

  async finished(): Promise<void> {
    const devices = new Set(this.#lanes().all.map((lane) => lane.device))
    await Promise.all([...devices].map((device) => this.#deviceFinished(device)))
  }

  close(): void {
    if (this.#sim.machine.observer === this) this.#sim.machine.observer = undefined
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
    const { kind } = this.#table
    if (!this.#end() && kind[row] !== Kind.ALLOCATE) kind[row] = Kind.NONE
  }

  #observe(operation: Operation): void {
    const top = this.#verbs.length - 1
    const row = this.#verbs[top] ?? NO_ROW
    if (row === HIDDEN) return
    if (row === NO_ROW) this.#tag(operation, this.#add(operation, NO_ROW))
    else if (this.#isRecordOf(row, top - 1)) this.#claim(operation, top - 1)
    else if (!this.#claimed[top]) this.#claim(operation, top)
    else if (this.#table.kind[row] === Kind.GRAPH) this.#observeNode(operation, row)
  }

  /** To wait for a stream is one verb with two operations, and the record comes first. */
  #isRecordOf(wait: number, below: number): boolean {
    const record = this.#verbs[below] ?? NO_ROW
    return record >= 0 && !this.#claimed[below] && this.#table.cause[wait] === record
  }

  #claim(operation: Operation, at: number): void {
    this.#claimed[at] = true
    this.#tag(operation, this.#verbs[at] ?? NO_ROW)
  }

  /** The last operation of a launch is its end; those before are its nodes. */
  #observeNode(operation: Operation, graph: number): void {
    const isEnd = operation.kind === OperationKind.INSTANT && operation.inStream
    this.#tag(operation, isEnd ? graph : this.#add(operation, graph))
  }

  #deviceFinished(device: number): Promise<void> {
    return new Promise((resolve) => {
      try {
        this.#sim.workFinished(device, () => resolve())
      } catch {
        // The device is lost, and nothing of it is pending any more.
        resolve()
      }
    })
  }

  #tag(operation: Operation, row: number): void {
    operation.observed = this.#tagBase + row
  }

  /** A row for what came by another way than a verb: from the simulator's own door, or from a graph. */
  #add(operation: Operation, parent: number): number {
    const { kind, stream, work } = operation
    const table = this.#table
    const lane = this.#lanes().of(stream.handle)
    const isFill = work?.name === 'fill'
    const known = KIND_OF[kind] ?? (work === undefined ? Kind.NONE : Kind.FREE)
    const name = this.#names.of(work?.name ?? NAME_OF[kind] ?? 'free')
    const row = table.add(isFill ? Kind.FILL : known, lane.index, name, work?.byteLength ?? Number.NaN, this.now())
    table.parent[row] = parent
    return row
  }
}
