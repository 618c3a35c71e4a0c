/** What touches memory: queued work, or JavaScript itself. */
import type { KernelMemory } from '../driver/driver.js'
import type { Clock, StrandPoint } from './clocks.js'
import type { Scattered } from './rows.js'
import type { TakenStack } from './stacks.js'

export type CheckedOperationKind = 'work' | 'allocation' | 'free' | 'javascript'

/** What a report calls a stream. */
export interface StreamName {
  readonly label: string
  /** Where it was made, if that was seen. */
  readonly made: TakenStack | undefined
}

/** Memory that an operation touches. */
export type Touched = Pick<KernelMemory, 'pointer' | 'byteLength' | 'access' | 'rows'>

/** Are both nodes of one launch? Unordered, they can be of no two: launches of a stream come one after another. */
export function isSameLaunch(first: CheckedOperation, second: CheckedOperation): boolean {
  return first.captured !== undefined && second.captured !== undefined && first.stream === second.stream
}

/** One thing that touches memory, and where it stands in the order. In one shape for all: there are many of them. */
export class CheckedOperation implements StrandPoint {
  readonly slot: number
  readonly tick: number
  readonly clock: Clock

  constructor(
    at: StrandPoint,
    /** The order of the calls. */
    readonly sequence: number,
    /** 'copy', 'fill', "kernel 'axpy'" … */
    readonly what: string,
    readonly kind: CheckedOperationKind,
    /** Undefined for JavaScript outside of host functions. */
    readonly stream: StreamName | undefined,
    readonly stack: TakenStack | undefined,
    /** For a node of a graph: where, and on which stream, it was captured. */
    readonly captured: { readonly stream: StreamName; readonly stack: TakenStack | undefined } | undefined,
    readonly scattered: Scattered,
  ) {
    this.slot = at.slot
    this.tick = at.tick
    this.clock = at.clock
  }
}
