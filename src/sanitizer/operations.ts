/** What touches memory: queued work, or JavaScript itself. */
import type { StreamHandle, TouchedMemory } from '../driver/driver.js'
import type { Clock, StrandPoint } from './clocks.js'
import type { TakenStack } from './stacks.js'

export type CheckedOperationKind = 'work' | 'allocation' | 'free' | 'javascript'

/** The stream of an operation. */
export interface OperationStream {
  readonly handle: StreamHandle
  readonly device: number
  /** What a report calls it. */
  readonly label: string
  /** Where it was made, if that was seen. */
  readonly made: TakenStack | undefined
  /** It was destroyed, and can be given nothing more. */
  readonly closed: boolean
  readonly isCapturing: boolean
}

/** Where a node of a graph was captured, or a graph was put into another. */
export interface CapturedPlace {
  readonly stream: OperationStream
  readonly stack: TakenStack | undefined
  /** The capture: a graph may come of several. */
  readonly capture: object
}

/** Of a node. */
export interface NodePlace extends CapturedPlace {
  /** Where its graph was put into another, and that into another: the outermost first. */
  readonly within: readonly CapturedPlace[]
}

/** A host function that touches memory, or queues work, when it runs. */
export interface HostFunctionOrigin {
  readonly stream: OperationStream
  /** The order of the calls: when it was queued. */
  readonly sequence: number
  /** Where it was queued, or its graph was launched. */
  readonly queued: TakenStack | undefined
  /** Its node, where a graph runs it. */
  readonly captured: NodePlace | undefined
}

/**
 * Of two nodes of one launch: the places that are to be ordered, which lie in one graph. Undefined for others. Where nothing
 * orders two nodes they can be of no two launches, since launches of a stream come one after another.
 */
export function placesInOneLaunch(
  { captured: one, stream }: CheckedOperation,
  { captured: other, stream: otherStream }: CheckedOperation,
): readonly [CapturedPlace, CapturedPlace] | undefined {
  if (one === undefined || other === undefined || stream !== otherStream) return undefined
  const depth = one.within.findIndex((place, level) => place !== other.within[level])
  const level = depth < 0 ? one.within.length : depth
  return [one.within[level] ?? one, other.within[level] ?? other]
}

/** Is one a host function that was queued, without a wait between, before JavaScript looked? Then it runs later. */
export function isInOneTurn(one: CheckedOperation, other: CheckedOperation): boolean {
  return isAfter(one, other.since) || isAfter(other, one.since)
}

const isAfter = ({ sequence }: CheckedOperation, since: number | undefined): boolean =>
  since !== undefined && sequence > since

/** One thing that touches memory, and where it stands in the order. In one shape for all: there are many of them. */
export class CheckedOperation implements StrandPoint {
  readonly slot: number
  readonly tick: number
  readonly clock: Clock
  /** Of JavaScript that looks: host functions that were queued after this call cannot have run, since it has not waited. */
  since: number | undefined

  constructor(
    at: StrandPoint,
    /** The order of the calls. */
    readonly sequence: number,
    /** 'copy', 'fill', "kernel 'axpy'" … */
    readonly what: string,
    readonly kind: CheckedOperationKind,
    /** Undefined for JavaScript outside of host functions. */
    readonly stream: OperationStream | undefined,
    /** It may be that of an earlier one of its kind until there is something to report. */
    public stack: TakenStack | undefined,
    readonly memory: readonly TouchedMemory[],
    readonly captured: NodePlace | undefined,
    /** The host function that it happens in. */
    readonly inside: HostFunctionOrigin | undefined,
  ) {
    this.slot = at.slot
    this.tick = at.tick
    this.clock = at.clock
  }

  /** Set where some of the memory is touched in rows with gaps between them. */
  get scattered(): readonly TouchedMemory[] | undefined {
    for (let index = 0; index < this.memory.length; index += 1) {
      if (this.memory[index]?.rows !== undefined) return this.memory
    }
    return undefined
  }
}
