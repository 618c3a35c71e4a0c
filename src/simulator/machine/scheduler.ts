/**
 * The decisions that a machine leaves to its scheduler: when an operation that nothing holds up ends, when a host function
 * that is due runs, and when a promise is settled. The machine knows which operation must come after which; a scheduler picks
 * among the rest.
 */
import type { SimOperation, SimStream } from './machine-state.js'
import type { Touch } from './work.js'

/** The machine, as far as a scheduler moves it. */
export interface Steps {
  /** Completes the waits of streams for values that memory has by now. False where there are none. */
  passValues(): boolean
  /** Ends an operation, or faults the devices if that is what it does, and lets go what waited for it. */
  end(operation: SimOperation): void
  /** An operation that is no host function begins, or will at this time, which may be later than now. */
  started(operation: SimOperation, time: number): void
  /** Runs the host function of an operation and ends it. `status` is 0, or the CUresult of the fault before it. */
  runHostFunction(operation: SimOperation, status: number): void
  /** Settles the promise of an operation that is over. */
  settle(operation: SimOperation): void
}

/** The host looks at how far these operations are, or at memory. */
export interface HostLook {
  readonly operations: readonly (SimOperation | undefined)[] | undefined
  readonly memory: Touch | undefined
}

/** A wait in which the host blocks. */
export interface HostWait {
  isOver(): boolean
  /** Does it come after this host function, which is not over? */
  needs(host: SimOperation): boolean
  /** The operation that is waited for, where it is one. */
  readonly last: SimOperation | undefined
  /** Where it is room in a hardware queue: the stream, and how many entries may be left. */
  readonly room: { readonly stream: SimStream; readonly left: number } | undefined
}

/**
 * Which host functions may run while the host blocks. `any` that is due; inside another one only what is `needed`, since
 * that one cannot go on before they have returned, and what they wait for may come after it: others run where nothing else
 * happens any more. Or `none`.
 */
export type Runs = 'any' | 'needed' | 'none'

export interface Scheduler {
  /** Virtual nanoseconds since the machine started. */
  readonly now: number
  /** True: every operation keeps what it came after, and one that changes memory ends only when the scheduler says so. */
  readonly explores: boolean
  /** True: what operations do to memory is put off for as long as CUDA allows, see `LateEffects`. */
  readonly putsOff: boolean
  /** A new operation, before it can be ready; told only to one that explores. */
  queued(operation: SimOperation): void
  /** Nothing that the operation comes after is left. */
  ready(operation: SimOperation): void
  /** It is over, done or dropped; called before what comes after it becomes ready. */
  over(operation: SimOperation): void
  /** The host has opened a latch, which the stream may not have come to yet. */
  opened(latch: SimOperation): void
  /** The operations that are ready and not over: the devices are lost, and they are about to be dropped. */
  drop(): Iterable<SimOperation>
  /** A callback that is to hear of a fault. */
  callBack(operation: SimOperation, status: number): void
  /** The promise of an operation that is over. */
  settleLater(operation: SimOperation): void
  /** The time of one call to the driver passes. */
  tick(): void
  /** The host is about to look. */
  look(look: HostLook): void
  /** The host has just queued this, or opened this latch, and goes on; told only to one that explores. */
  handedOver(operation: SimOperation): void
  /** Lets things happen until the wait is over; false where nothing can happen any more. */
  block(wait: HostWait, runs: Runs): boolean
  /** Lets one thing happen while another machine waits. False where nothing can. */
  step(): boolean
  /** Lets things happen in a turn of the event loop. False where nothing can. */
  turn(): boolean
}
