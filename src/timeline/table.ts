/** The rows of a recording, in columns of numbers: to write one makes no object. Rows are in the order of the calls. */

import { RowKind } from './kinds.js'

/** Columns this long are memory that is not there before it is written, and most recordings never grow them. */
export const FIRST_CAPACITY = 131_072
/** No row. */
export const NO_ROW = -1

export class RowTable {
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
  /** Which lane it is on. */
  lane: Uint32Array = new Uint32Array(FIRST_CAPACITY)
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
  add(kind: number, lane: number, name: number, bytes: number, called: number): number {
    const row = this.length
    if (row === this.#capacity) this.#grow()
    this.length = row + 1
    this.kind[row] = kind
    this.lane[row] = lane
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
    this.kind[row] = RowKind.NONE
    if (row === this.length - 1) this.length = row
  }

  /** Is it one that stands for something? */
  has(row: number): boolean {
    return row >= 0 && row < this.length && this.kind[row] !== RowKind.NONE
  }

  #grow(): void {
    this.#capacity *= 2
    const capacity = this.#capacity
    this.kind = grown(this.kind, new Uint8Array(capacity))
    this.lane = grown(this.lane, new Uint32Array(capacity))
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
