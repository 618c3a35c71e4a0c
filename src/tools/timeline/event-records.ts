/**
 * The event records of a recording, in columns of numbers, so that writing one makes no object. A row is the index of an event record in the columns;
 * rows are in the order of the calls.
 */
import { upperBound } from '../../foundation/base/interval-map.js'
import type { StreamHandle } from '../../foundation/driver/handle-types.js'
import type { KernelProfile } from '../../foundation/driver/kernel-profile.js'
import { EventKind } from './kinds.js'
import type { Described, StreamTrack } from './tracks.js'
import type { WorkFact } from './work-facts.js'

/** The first length of the columns, which are made with each recording. */
const FIRST_CAPACITY = 1024
/** The value in place of a row if there is none. */
export const NO_ROW = -1

export class EventRecords {
  length = 0
  /** The row from which on no event record is written. */
  limit = 0
  /** The number of operations that there was no room for. */
  dropped = 0
  /** The rows of operations that will never run, or whose times are lost, because the GPU faulted. */
  readonly lost = new Set<number>()
  /** What the simulator has counted of kernels; keys are rows. */
  readonly profiles = new Map<number, KernelProfile>()
  /** The facts of operations by which changes are predicted; keys are rows. From `factsUntil` on no row has any. */
  readonly facts = new Map<number, WorkFact>()
  factsUntil = 0
  /** The functions that are called with the row of each new event record, during the program's call. */
  whenAdded: readonly ((row: number) => void)[] = []
  #capacity = FIRST_CAPACITY
  kind: Uint8Array = new Uint8Array(FIRST_CAPACITY)
  /** The index of the track. */
  track: Uint32Array = new Uint32Array(FIRST_CAPACITY)
  /** The number of the name. */
  name: Uint32Array = new Uint32Array(FIRST_CAPACITY)
  bytes: Float64Array = new Float64Array(FIRST_CAPACITY)
  /**
   * The time at which the call that queued the operation began; `returned` has that at which it returned. Both are nanoseconds of the recording's
   * clock. `returned` is NaN for a call that waits, until it has returned or its promise has settled.
   */
  called: Float64Array = new Float64Array(FIRST_CAPACITY)
  returned: Float64Array = new Float64Array(FIRST_CAPACITY)
  /** The time at which the operation began on the device; `end` has that at which it ended. Both are NaN while they are not known. */
  start: Float64Array = new Float64Array(FIRST_CAPACITY)
  end: Float64Array = new Float64Array(FIRST_CAPACITY)
  /** The row of the record that a wait waits for; for a launch of a graph, that of the last launch of the same instance. */
  cause: Int32Array = new Int32Array(FIRST_CAPACITY)
  /** The row of the launch, for a node of a graph. */
  parent: Int32Array = new Int32Array(FIRST_CAPACITY)
  /** The number of the call site. */
  site: Int32Array = new Int32Array(FIRST_CAPACITY)
  /** Operations that other code queued, as 1. */
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

  /** Whether there is an event record at this row. */
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

/** The numbers of texts, each of which gets one. */
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

/** The number of rows, in the order of these times, whose time is at most `time`. */
export const firstAfter = (order: Int32Array, times: Float64Array, time: number): number =>
  upperBound(order.length, (at) => times[order[at] ?? 0] ?? 0, time)

export interface Meter {
  readonly clock: 'virtual' | 'host'
  /** The nanoseconds since the recording began. */
  now(): number
  /** Describes a stream that is used for the first time. Never throws. */
  describe(stream: StreamHandle): Described
  /** Whether the stream captures. What is queued on it then becomes part of a graph, and is no operation. */
  captures(stream: StreamHandle): boolean
  /** Prepares for an operation that is about to be queued. Returns false if it will not run, because its stream captures. */
  queuing(row: number, stream: StreamHandle, track: StreamTrack): boolean
  /** Notes a call without an event record: the beginning of a capture, or an operation that there is no room for. */
  unseen(): void
  /** Notes that the operation is queued. */
  queued(row: number, stream: StreamHandle, track: StreamTrack): void
  /** Notes that the driver has refused the operation. */
  refused(row: number): void
  /** Called before a driver call that queues something for the library itself; `show()` is called after it. */
  hide(): void
  show(): void
  hostFunctionBegins(row: number): void
  hostFunctionEnds(row: number): void
  /** Counts what kernels do from now on. Undefined where nobody can: on a GPU, and of a recording that is over. */
  readonly countKernels?: () => void
  /** Fills in the times of all operations that are complete by now. */
  collect(): void
  /** Ends the recording of new operations; those that are recorded are still timed. */
  stop(): void
  /** Resolves when all operations that are recorded by now are complete. */
  finished(): Promise<void>
  /** Releases all resources. The times that are known stay. */
  close(): void
  /** The precision of the times, once the meter is closed. Empty if they are exact. */
  readonly calibrations: readonly Calibration[]
}

/** The result of comparing a device's clock with the host's. */
export interface Calibration {
  /** The ordinal of the device. */
  readonly device: number
  /** The nanoseconds by which the two may be apart at the beginning of the recording, and at its end: NaN after a fault. */
  readonly uncertainty: readonly [begin: number, end: number]
  /** The parts of a million by which the device's clock ran faster. 0 if the recording was shorter than a second. */
  readonly drift: number
  /** The nanoseconds of host time that the comparisons took. */
  readonly cost: number
}
