/**
 * What a simulated stream holds: operations, each waiting for those before it. An operation is blocked while a
 * predecessor is unfinished, then ready; a ready one starts when the machine lets it, and ends in virtual time.
 */
import type { HostFunction, Settle } from '../driver.js'
import type { SimStream } from './objects.js'

export const OperationKind = {
  /** Takes no time: a record, a wait, a marker. Ends as soon as it is ready. */
  INSTANT: 0,
  /** Takes its time on one of the device's kernel slots. */
  KERNEL: 1,
  /** Stands until JavaScript has run its host function. */
  HOST: 2,
  /** Stands until it is opened. */
  LATCH: 3,
  /** Breaks the device when it starts. */
  FAULT: 4,
} as const
export type OperationKind = (typeof OperationKind)[keyof typeof OperationKind]

const BLOCKED = 0
const READY = 1
const DONE = 2
const DROPPED = 3

export class Operation {
  #state: number = BLOCKED
  #blockers = 0
  #dependents: Operation[] | undefined
  /** Virtual nanoseconds: when it will end while it runs, when it ended once it is done. */
  time = 0
  /** Whom to tell when it is done or dropped. */
  settle: Settle | undefined
  host: HostFunction | undefined
  /** False for a marker, which stands beside the streams. */
  inStream = true
  readonly kind: OperationKind
  readonly stream: SimStream
  /** The order in which operations were queued. */
  readonly sequence: number
  /** Virtual nanoseconds for a kernel, the CUresult for a fault. */
  readonly amount: number

  constructor(kind: OperationKind, stream: SimStream, sequence: number, amount: number) {
    this.kind = kind
    this.stream = stream
    this.sequence = sequence
    this.amount = amount
  }

  /** Done, or dropped because its device broke: nothing waits for it any more. */
  get over(): boolean {
    return this.#state >= DONE
  }

  get dropped(): boolean {
    return this.#state === DROPPED
  }

  /** Does it take one of the places that a stream's hardware queue has? Records and waits do not. */
  get takesEntry(): boolean {
    return this.kind !== OperationKind.INSTANT
  }

  waitFor(predecessor: Operation | undefined): void {
    if (predecessor === undefined || predecessor.over) return
    this.#blockers += 1
    if (predecessor.#dependents === undefined) predecessor.#dependents = [this]
    else predecessor.#dependents.push(this)
  }

  /** Marks it ready if nothing blocks it. True once only. */
  becomeReady(): boolean {
    if (this.#blockers > 0 || this.#state !== BLOCKED) return false
    this.#state = READY
    return true
  }

  /** Ends it and takes one blocker from each operation that waits for it, which are returned. */
  end(dropped: boolean): readonly Operation[] {
    this.#state = dropped ? DROPPED : DONE
    const dependents = this.#dependents ?? NONE
    this.#dependents = undefined
    for (const dependent of dependents) dependent.#blockers -= 1
    return dependents
  }
}

const NONE: readonly Operation[] = []
