/** What touches memory: queued work, or JavaScript itself. */
import type { Access } from '../driver/kernel-driver.js'
import type { Pointer } from '../driver/memory-driver.js'
import type { Clock, Point } from './clocks.js'
import type { TakenStack } from './stacks.js'

/** One thing that touches memory, and where it stands in the order. */
export interface Operation extends Point {
  /** The order of the calls. */
  readonly sequence: number
  /** 'copy', 'fill', "kernel 'axpy'" … */
  readonly what: string
  readonly kind: OperationKind
  /** Undefined for JavaScript outside of host functions. */
  readonly stream: StreamName | undefined
  readonly stack: TakenStack | undefined
  /** For a node of a graph: where, and on which stream, it was captured. */
  readonly captured: { readonly stream: StreamName; readonly stack: TakenStack | undefined } | undefined
}

export type OperationKind = 'work' | 'allocation' | 'free' | 'javascript'

/** What a report calls a stream. */
export interface StreamName {
  readonly label: string
  /** Where it was made, if that was seen. */
  readonly made: TakenStack | undefined
}

/** Memory that an operation touches. */
export interface Touched {
  readonly pointer: Pointer
  readonly byteLength: number
  readonly access: Access
}

/** Are both nodes of one launch? Unordered, they can be of no two: launches of a stream come one after another. */
export function isSameLaunch(first: Operation, second: Operation): boolean {
  return first.captured !== undefined && second.captured !== undefined && first.stream === second.stream
}

/** In one shape for all: there are many of them. */
export class QueuedOperation implements Operation {
  readonly slot: number
  readonly tick: number
  readonly clock: Clock
  readonly sequence: number
  readonly what: string
  readonly kind: OperationKind
  readonly stream: StreamName | undefined
  readonly stack: TakenStack | undefined
  readonly captured: Operation['captured']

  constructor(at: Point, sequence: number, about: Omit<Operation, keyof Point | 'sequence'>) {
    this.slot = at.slot
    this.tick = at.tick
    this.clock = at.clock
    this.sequence = sequence
    this.what = about.what
    this.kind = about.kind
    this.stream = about.stream
    this.stack = about.stack
    this.captured = about.captured
  }
}
