/** The decisions of conditional nodes: which of their bodies runs, and how often. */
import { CUresult } from '../../foundation/driver/cuda-results.js'
import { ConditionalType } from '../../foundation/driver/driver-constants.js'
import type { Decide, Decision, SimCondition, SimNodeWork } from './machine-state.js'
import { LaunchFault } from './work.js'

export type ConditionalWork = Extract<SimNodeWork, { kind: 'conditional' }>

/** The virtual nanoseconds between what comes before a conditional node and its body, and between two turns of a loop. */
export const TIME_TO_DECIDE = 2500
/** The most turns of one loop that run. A GPU would go on. */
const MOST_TURNS = 100_000

/** The value of a condition of the launched instance. */
const valueIn = (conditions: readonly SimCondition[], handle: bigint): number =>
  conditions.find((each) => each.handle === handle)?.value ?? 0

/** The decisions of a node in one launch of an instance with these conditions. */
export function decisionsOf(work: ConditionalWork, conditions: readonly SimCondition[]): Decide {
  const { type, condition, bodies } = work
  const value = (): number => valueIn(conditions, condition)
  if (type !== ConditionalType.WHILE) {
    return () => {
      const body = type === ConditionalType.SWITCH ? value() : value() === 0 ? 1 : 0
      return once(bodies[body]?.nodes)
    }
  }
  let turns = 0
  return () => {
    if (value() === 0) return undefined
    turns += 1
    if (turns > MOST_TURNS) throw endless()
    return { nodes: bodies[0]?.nodes ?? [], again: true }
  }
}

const once = (nodes: Decision['nodes'] | undefined): Decision | undefined =>
  nodes === undefined ? undefined : { nodes, again: false }

/** The fault of a kernel that sets a condition which its launch does not have: to CUDA it is an address that is not mapped. */
export function strangeCondition(handle: bigint, isInGraph: boolean): LaunchFault {
  const why = isInGraph
    ? 'and the graph that it is launched from has no such condition'
    : 'and is launched by no graph that has conditions'
  return new LaunchFault(CUresult.ILLEGAL_ADDRESS, `A kernel sets the condition with the handle ${handle}, ${why}`)
}

function endless(): LaunchFault {
  const what = `A while node has played its body ${MOST_TURNS} times in one launch, and its condition is still not 0`
  return new LaunchFault(
    CUresult.LAUNCH_TIMEOUT,
    `${what}: on a GPU it would never end. Does a kernel of the body set it to 0, with the handle of this condition?`,
  )
}
