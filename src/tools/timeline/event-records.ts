/**
 * The event records of a recording, in columns of numbers, so that writing one makes no object. A row is the place of an event
 * record in the columns; rows are in the order of the calls.
 */
import { upperBound } from '../../foundation/base/interval-map.js'
import type { StreamHandle } from '../../foundation/driver/driver.js'
import { EventKind } from './kinds.js'
import type { Described, StreamTrack } from './tracks.js'

/** The first length of the columns, which are made with each recording. */
const FIRST_CAPACITY = 1024
/** Stands for no row. */
export const NO_ROW = -1

export class EventRecords {
  length = 0
  /** The row from which on no event record is written. */
  limit = 0
  /** How many operations there was no room for. */
  dropped = 0
  /** The rows of operations that will never run, or whose times are lost, because the GPU faulted. */
  readonly lost = new Set<number>()
  /** Called with the row of each new event record, during the program's call. */
  whenAdded: readonly ((row: number) => void)[] = []
  #capacity = FIRST_CAPACITY
  kind: Uint8Array = new Uint8Array(FIRST_CAPACITY)
  /** The index of its track. */
  track: Uint32Array = new Uint32Array(FIRST_CAPACITY)
  /** The number of its name. */
  name: Uint32Array = new Uint32Array(FIRST_CAPACITY)
  bytes: Float64Array = new Float64Array(FIRST_CAPACITY)
  /**
   * When the call that queued it began and returned, in nanoseconds of the recording's clock. `returned` is NaN for a call
   * that waits until it has returned, or its promise has settled.
   */
  called: Float64Array = new Float64Array(FIRST_CAPACITY)
  returned: Float64Array = new Float64Array(FIRST_CAPACITY)
  /** When it began and ended on the device, or NaN while that is not known. */
  start: Float64Array = new Float64Array(FIRST_CAPACITY)
  end: Float64Array = new Float64Array(FIRST_CAPACITY)
  /**
   * For a wait, the row of the record that it waits for; for a launch of a graph, that of the last launch of the same
   * instance.
   */
  cause: Int32Array = new Int32Array(FIRST_CAPACITY)
  /** For a node of a graph, the row of the launch. */
  parent: Int32Array = new Int32Array(FIRST_CAPACITY)
  /** The number of its call site. */
  site: Int32Array = new Int32Array(FIRST_CAPACITY)
  /** 1 for an operation that other code queued. */
  foreign: Uint8Array = new Uint8Array(FIRST_CAPACITY)

  get isFull(): boolean {
    return this.length >= this.limit
  }

  /** Adds an event record and returns its row. */
  add(kind: number, track: number, name: number, bytes: number, called: number): number {
    const row = this.length
    if (row === this.#capacity) this.#grow()
    this.length = row + 1
    this.kind[row] = kind
    this.track[row] = track
    this.name[row] = name
    this.bytes[row] = bytes
    this.called[row] = called
    this.returned[row] = called
    this.start[row] = Number.NaN
    this.end[row] = Number.NaN
    this.cause[row] = NO_ROW
    this.parent[row] = NO_ROW
    this.site[row] = NO_ROW
    if (this.whenAdded.length > 0) for (const tell of this.whenAdded) tell(row)
    return row
  }

  /** Removes the event record of a call that queued nothing. Its row is used again if it is the last one. */
  remove(row: number): void {
    this.kind[row] = EventKind.NONE
    if (row === this.length - 1) this.length = row
  }

  /** Is there an event record at this row? */
  has(row: number): boolean {
    return row >= 0 && row < this.length && this.kind[row] !== EventKind.NONE
  }

  #grow(): void {
    this.#capacity *= 2
    const capacity = this.#capacity
    this.kind = grown(this.kind, new Uint8Array(capacity))
    this.track = grown(this.track, new Uint32Array(capacity))
    this.name = grown(this.name, new Uint32Array(capacity))
    this.bytes = grown(this.bytes, new Float64Array(capacity))
    this.called = grown(this.called, new Float64Array(capacity))
    this.returned = grown(this.returned, new Float64Array(capacity))
    this.start = grown(this.start, new Float64Array(capacity))
    this.end = grown(this.end, new Float64Array(capacity))
    this.cause = grown(this.cause, new Int32Array(capacity))
    this.parent = grown(this.parent, new Int32Array(capacity))
    this.site = grown(this.site, new Int32Array(capacity))
    this.foreign = grown(this.foreign, new Uint8Array(capacity))
  }
}

function grown<A extends { set(from: A): void }>(from: A, to: A): A {
  to.set(from)
  return to
}

/** Numbers texts, each once. */
export class Names {
  readonly #numbers = new Map<string, number>()
  readonly #names: string[] = []

  of(name: string): number {
    let number = this.#numbers.get(name)
    if (number === undefined) {
      number = this.#names.length
      this.#names.push(name)
      this.#numbers.set(name, number)
    }
    return number
  }

  at(number: number): string {
    return this.#names[number] ?? ''
  }

  all(): string[] {
    return [...this.#names]
  }
}

export function sortedRows(
  { length }: { readonly length: number },
  by: Float64Array,
  isMeant: (row: number) => boolean,
): Int32Array {
  const rows: number[] = []
  for (let row = 0; row < length; row += 1) if (isMeant(row) && !Number.isNaN(by[row] ?? 0)) rows.push(row)
  return Int32Array.from(rows).sort((a, b) => (by[a] ?? 0) - (by[b] ?? 0) || a - b)
}

/** How many of the rows, which are in the order of these times, have one that is at most `time`. */
export const firstAfter = (order: Int32Array, times: Float64Array, time: number): number =>
  upperBound(order.length, (at) => times[order[at] ?? 0] ?? 0, time)

export interface Meter {
  readonly clock: 'virtual' | 'host'
  /** Nanoseconds since the recording began. */
  now(): number
  /** Describes a stream that is used for the first time. Never throws. */
  describe(stream: StreamHandle): Described
  /** Does the stream capture? What is queued on it then becomes part of a graph, and is no operation. */
  captures(stream: StreamHandle): boolean
  /** To be called before an operation is queued. Returns false where it will not run, because its stream captures. */
  queuing(row: number, stream: StreamHandle, track: StreamTrack): boolean
  /** To be called for what has no event record: the begin of a capture, or an operation that there is no room for. */
  unseen(): void
  /** To be called when the operation is queued. */
  queued(row: number, stream: StreamHandle, track: StreamTrack): void
  /** To be called when the driver has refused it. */
  refused(row: number): void
  /** To be called around a driver call that queues something for the library itself. */
  hide(): void
  show(): void
  hostFunctionBegins(row: number): void
  hostFunctionEnds(row: number): void
  /** Fills in the times of all operations that are complete by now. */
  collect(): void
  /** Ends the recording of new operations; those that are recorded are still timed. */
  stop(): void
  /** Resolves when all operations that are recorded by now are complete. */
  finished(): Promise<void>
  /** Releases all resources. The times that are known stay. */
  close(): void
  /** How exact the times are, once it is closed. Empty where they are exact. */
  readonly calibrations: readonly Calibration[]
}

/** How a device's clock was compared with the host's. */
export interface Calibration {
  /** The device's ordinal. */
  readonly device: number
  /** Nanoseconds by which the two may be apart at the beginning of the recording, and at its end: NaN after a fault. */
  readonly uncertainty: readonly [begin: number, end: number]
  /** How much faster the device's clock ran, in parts of a million. 0 where the recording was shorter than a second. */
  readonly drift: number
  /** Nanoseconds of host time that it took. */
  readonly cost: number
}
