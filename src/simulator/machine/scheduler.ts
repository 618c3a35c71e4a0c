/**
 * The decisions that a machine leaves to its scheduler: when an operation that is not blocked ends, when a host function that is due runs, and when a
 * promise is settled. The machine decides which operation must come after which; a scheduler picks among the rest.
 */
import type { SimOperation, SimStream } from './machine-state.js'
import type { Slice } from './slice.js'
import type { Touch } from './work.js'

/** The methods by which a scheduler moves the machine. */
export interface Steps {
  /** Completes the waits of streams for values that memory has by now. Returns false if there are none. */
  passValues(): boolean
  /**
   * Computes what has to be there before another operation ends: `next`, if one is about to. Returns false if the slice was over before. Without a
   * slice all is computed at once.
   */
  computeBefore(next: SimOperation | undefined, slice?: Slice): boolean
  /**
   * Computes what JavaScript may see once the promise of the operation is settled, or its host function runs. Returns false if the slice was over
   * before.
   */
  computeResults(operation: SimOperation, slice?: Slice): boolean
  /** Ends an operation, or faults the devices if that is its end, and starts what waited for it. */
  end(operation: SimOperation): void
  /** Notes that an operation that is no host function begins, or will at `time`, which may be later than now. */
  started(operation: SimOperation, time: number): void
  /** Runs the host function of an operation and ends it. `status` is the CUresult of an earlier fault, or 0. */
  runHostFunction(operation: SimOperation, status: number): void
  /** Settles the promise of an operation that is over. */
  settle(operation: SimOperation): void
}

/** A query of the host: how far these operations are, or what memory contains. */
export interface HostLook {
  readonly operations: readonly (SimOperation | undefined)[] | undefined
  readonly memory: Touch | undefined
}

/** A wait in which the host blocks. */
export interface HostWait {
  isOver(): boolean
  /** Whether the wait comes after this host function, which is not over. */
  needs(host: SimOperation): boolean
  /** The operation that is waited for; undefined if the wait is for something else. */
  readonly last: SimOperation | undefined
  /** The stream in whose hardware queue the wait needs room, and the number of entries that may be left in it; undefined for another wait. */
  readonly room: { readonly stream: SimStream; readonly left: number } | undefined
}

/**
 * The host functions that may run while the host blocks: `any` that is due; inside another one only those that are `needed`, since that one cannot go
 * on before they have returned, and what they wait for may come after it (others run if nothing else happens any more); or `none`.
 */
export type Runs = 'any' | 'needed' | 'none'

export interface Scheduler {
  /** The virtual nanoseconds since the machine started: while an operation ends, its time; else that of the host. */
  readonly now: number
  /** Whether every operation keeps what it came after, and one that changes memory ends only when the scheduler says so. */
  readonly explores: boolean
  /** Whether the effects of operations on memory are put off for as long as CUDA allows (see `LateEffects`). */
  readonly putsOff: boolean
  /** Notes a new operation, before it can be ready. Called only if `explores`. */
  queued(operation: SimOperation): void
  /**
   * Returns true if the operation, which nothing blocks any more, must not begin yet, since the machine has not computed all that comes before its
   * time. The scheduler begins it then, by `begin`.
   */
  defers(operation: SimOperation, begin: (operation: SimOperation) => void): boolean
  /** Notes that nothing is left that the operation comes after. */
  ready(operation: SimOperation): void
  /** Notes that an operation is over, done or dropped. Called before what comes after it becomes ready. */
  over(operation: SimOperation): void
  /** Notes that the host has opened a latch, which the stream may not have come to yet. */
  opened(latch: SimOperation): void
  /** Removes and returns the operations that are ready and not over: the devices are lost, and they are about to be dropped. */
  drop(): Iterable<SimOperation>
  /** Queues a callback that is to be notified of a fault. */
  callBack(operation: SimOperation, status: number): void
  /** Queues the promise of an operation that is over, to be settled. */
  settleLater(operation: SimOperation): void
  /** Lets the time of one call to the driver pass. */
  tick(): void
  /** Prepares for a query that the host is about to make. */
  look(look: HostLook): void
  /** Notes that the host has just queued this operation, or opened this latch, and goes on. Called only if `explores`. */
  handedOver(operation: SimOperation): void
  /** Lets things happen until the wait is over; returns false if nothing can happen any more. */
  block(wait: HostWait, runs: Runs): boolean
  /** Lets one thing happen while another machine waits. Returns false if nothing can. */
  step(): boolean
  /** Lets things happen in a turn of the event loop, for as long as the slice takes. Returns false if nothing can. */
  turn(slice: Slice): boolean
}
