/**
 * As few combinations of several axes as have each value of each axis once: for what was tried in all pairs elsewhere, and where a
 * combination takes long.
 */

/**
 * Combinations of indices, one for each axis. `sizes` says how many values each axis has; none is 0. The first combination has
 * the first value of each axis. Other numbers as `turn` let other values stand together.
 */
export function eachValue(sizes: readonly number[], turn: number): readonly (readonly number[])[] {
  const plain = sizes.map(() => 0)
  const steps = sizes.map(stepFor)
  const others = Array.from({ length: Math.max(1, ...sizes) }, (_, nth) =>
    sizes.map((size, axis) => (nth * (steps[axis] ?? 1) + axis * turn) % size),
  )
  return [plain, ...others.filter((combination) => combination.some((index) => index !== 0))]
}

/** Axes of the same size go at a pace of their own, each through all of its values. */
function stepFor(size: number, axis: number): number {
  let step = axis + 1
  while (divisor(step, size) !== 1) step += 1
  return step
}

const divisor = (a: number, b: number): number => (b === 0 ? a : divisor(b, a % b))
