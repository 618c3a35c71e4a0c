/**
 * The event records of a recording, in columns of numbers, so that writing one makes no object. A row is the place of an event
 * record in the columns; rows are in the order of the calls.
 */
import type { StreamHandle } from '../driver/driver.js'
import { EventKind } from './kinds.js'
import type { Described, StreamTrack } from './tracks.js'

/** Columns this long are memory that is not there before it is written, and most recordings never grow them. */
export const FIRST_CAPACITY = 131_072
/** No row. */
export const NO_ROW = -1

export class EventRecords {
  length = 0
  /** Rows beyond this are not written. */
  limit = 0
  /** Operations that there was no room for. */
  dropped = 0
  /** Rows that will never run, or whose times are lost: the GPU faulted. */
  readonly lost = new Set<number>()
  /** Called with each row that is added, while the call that it stands for is made. */
  whenAdded: readonly ((row: number) => void)[] = []
  #capacity = FIRST_CAPACITY
  kind: Uint8Array = new Uint8Array(FIRST_CAPACITY)
  /** Which track it is on. */
  track: Uint32Array = new Uint32Array(FIRST_CAPACITY)
  /** Which of the names. */
  name: Uint32Array = new Uint32Array(FIRST_CAPACITY)
  bytes: Float64Array = new Float64Array(FIRST_CAPACITY)
  /**
   * When the call that queued it began and returned, in nanoseconds of the recording's clock. A call that waits has NaN
   * until it has returned, or its promise settled.
   */
  called: Float64Array = new Float64Array(FIRST_CAPACITY)
  returned: Float64Array = new Float64Array(FIRST_CAPACITY)
  /** When it ran. NaN while that is not known. */
  start: Float64Array = new Float64Array(FIRST_CAPACITY)
  end: Float64Array = new Float64Array(FIRST_CAPACITY)
  /** The record that a wait refers to; of a launch of a graph, the launch before it of the same instance. */
  cause: Int32Array = new Int32Array(FIRST_CAPACITY)
  /** The launch of the graph that it belongs to. */
  parent: Int32Array = new Int32Array(FIRST_CAPACITY)
  /** Which of the call sites. */
  site: Int32Array = new Int32Array(FIRST_CAPACITY)
  /** 1 for what other code queued. */
  foreign: Uint8Array = new Uint8Array(FIRST_CAPACITY)

  get isFull(): boolean {
    return this.length >= this.limit
  }

  /** Adds a row and returns its number. */
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

  /** Takes a row back that stands for nothing: it counts no more, unless others were added meanwhile. */
  remove(row: number): void {
    this.kind[row] = EventKind.NONE
    if (row === this.length - 1) this.length = row
  }

  /** Is it one that stands for something? */
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

/** Texts by number. */
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

/** How many rows, in this order, have a time that is not after this one. */
export function firstAfter(order: Int32Array, times: Float64Array, time: number): number {
  let low = 0
  let high = order.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((times[order[middle] ?? 0] ?? 0) <= time) low = middle + 1
    else high = middle
  }
  return low
}

export interface Meter {
  readonly clock: 'virtual' | 'host'
  /** Nanoseconds since the recording began. */
  now(): number
  /** Describes a stream that is seen for the first time. Never throws. */
  describe(stream: StreamHandle): Described
  /** Does what is queued on the stream become part of a graph, and no operation? */
  captures(stream: StreamHandle): boolean
  /** An operation is about to be queued. False where it will not run: its stream captures. */
  queuing(row: number, stream: StreamHandle, track: StreamTrack): boolean
  /** Something passes that is not written down: a capture that begins, an operation that there is no room for. */
  unseen(): void
  /** It was queued. */
  queued(row: number, stream: StreamHandle, track: StreamTrack): void
  /** The driver refused it. */
  refused(row: number): void
  /** A verb of the driver that queues something which is no operation of the program begins, or ends. */
  hide(): void
  show(): void
  hostFunctionBegins(row: number): void
  hostFunctionEnds(row: number): void
  /** Writes down the times of all operations that are done by now. */
  collect(): void
  /** Nothing more is written down; the rows that were are still timed. */
  stop(): void
  /** Resolves when all that is recorded by now is done. */
  finished(): Promise<void>
  /** Lets go of everything; the times that are known stay. */
  close(): void
  /** How far off its times may be, once it is closed. None where they are exact. */
  readonly calibrations: readonly Calibration[]
}

/** How a device's clock was held against the host's. */
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
