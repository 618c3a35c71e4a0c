/** Which combinations of the values of several axes are tried: such that any two values meet, or all of them. */
import { allPairs } from '../../helpers/all-pairs.js'
import { byEffort } from '../../helpers/effort.js'

/** An index for each axis; the first combination has the first value of each. An axis without values gives none. */
export function combinations(axes: readonly (readonly unknown[])[]): readonly (readonly number[])[] {
  if (axes.some(({ length }) => length === 0)) return []
  return byEffort({ quick: allPairs, normal: allPairs, nightly: product })(axes.map(({ length }) => length))
}

/** The values of these indices. */
export const chosen = <T>(axes: readonly (readonly T[])[], indices: readonly number[]): readonly T[] =>
  axes.flatMap((values, axis) => values.slice(indices[axis], (indices[axis] ?? 0) + 1))

function product(sizes: readonly number[]): readonly (readonly number[])[] {
  let found: readonly (readonly number[])[] = [[]]
  for (const size of sizes) {
    found = found.flatMap((indices) => Array.from({ length: size }, (_, index) => [...indices, index]))
  }
  return found
}
