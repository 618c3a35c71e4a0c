/** The steps of a run, and which of them depend on each other: those whose order cannot be observed may be exchanged. */
import type { Choice } from '../driver/sim/machine/chosen-scheduler.js'
import { type Touch, touchesOverlap } from '../driver/sim/machine/work.js'

/** Stands for the host, where an operation is told by its number. */
export const HOST = 0

export interface Step {
  readonly kind: Choice['kind']
  /** The number of the operation, or HOST. */
  readonly process: number
  /** The process that is chosen without a reason to choose otherwise. */
  readonly usual: number
  /** The operation whose host function JavaScript was in; HOST where it was in none. */
  readonly inside: number
  /** In this step JavaScript runs. */
  readonly javascript: boolean
  /** JavaScript did not run before: the host waited, or the event loop had nothing to do. */
  readonly begins: boolean
  /** In how many blocking waits, one inside the other, the host was before. */
  readonly depth: number
  /** Operations whose host functions alone could have run instead, due or not; undefined where any could. */
  readonly runnable: ReadonlySet<number> | undefined
  /** Earlier steps without which this one could not be. */
  readonly causes: readonly number[]
  touches: readonly Touch[]
  /** Operations that the host asked about. */
  looks: ReadonlySet<number>
  /** Operations that it ended. */
  ended: ReadonlySet<number>
  /** It lost the devices. */
  faults: boolean
  /** Where JavaScript did this, if sites were asked for. */
  site: string | undefined
}

/** Why the order of two steps matters. */
export type Conflict = 'memory' | 'look' | 'javascript' | 'fault'

/** Undefined where it does not matter which of the two comes first. */
export function conflictOf(a: Step, b: Step): Conflict | undefined {
  if (touchesOverlap(a.touches, b.touches) !== undefined) return 'memory'
  if (meet(a.looks, b.ended) || meet(b.looks, a.ended)) return 'look'
  if (a.javascript && b.javascript) return 'javascript'
  return a.faults || b.faults ? 'fault' : undefined
}

function meet(looked: ReadonlySet<number>, ended: ReadonlySet<number>): boolean {
  for (const operation of looked) if (ended.has(operation)) return true
  return false
}
