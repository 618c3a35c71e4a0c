/**
 * Which combinations of the values of several axes are tried: such that any two values meet, or all of them; on a GPU alone, after
 * the simulator, such that each value has its turn.
 */
import { allPairs, product } from '../../helpers/all-pairs.js'
import { eachValue } from '../../helpers/each-value.js'
import { byEffort } from '../../helpers/effort.js'
import { isOnCudaAlone } from '../../helpers/workbench.js'

type Axes = readonly (readonly unknown[])[]
type Combinations = readonly (readonly number[])[]

/**
 * An index for each axis; the first combination has the first value of each. An axis without values gives none. `turn`, the number
 * of the row, says which values stand together where only each value has its turn.
 */
export function combinations(axes: Axes, turn: number): Combinations {
  const each = (sizes: readonly number[]): Combinations => eachValue(sizes, turn)
  const choose = isOnCudaAlone()
    ? byEffort({ quick: each, normal: each, nightly: allPairs })
    : byEffort({ quick: allPairs, normal: allPairs, nightly: product })
  return chooseBy(choose, axes)
}

/** The same of axes of which another table of the same calls has tried all pairs: each value has its turn. */
export function metElsewhere(axes: Axes, turn: number): Combinations {
  const each = (sizes: readonly number[]): Combinations => eachValue(sizes, turn)
  return chooseBy(byEffort({ quick: each, normal: each, nightly: product }), axes)
}

/** The values of these indices. */
export const chosen = <T>(axes: readonly (readonly T[])[], indices: readonly number[]): readonly T[] =>
  axes.flatMap((values, axis) => values.slice(indices[axis], (indices[axis] ?? 0) + 1))

function chooseBy(choose: (sizes: readonly number[]) => Combinations, axes: Axes): Combinations {
  return axes.some(({ length }) => length === 0) ? [] : choose(axes.map(({ length }) => length))
}
