/**
 * Few combinations of several axes, such that any two values of two axes stand together in one of them. Most mistakes need two
 * things to meet; the full product tries the same pairs hundreds of times.
 */

/** Pairs of one axis with another, of which some were not tried yet. */
class Pairs {
  readonly #tried: Uint8Array
  left: number

  constructor(
    readonly first: number,
    readonly second: number,
    readonly width: number,
    height: number,
  ) {
    this.#tried = new Uint8Array(width * height)
    this.left = width * height
  }

  isTried(choice: readonly number[]): boolean {
    return this.#tried[this.#at(choice)] === 1
  }

  add(choice: readonly number[]): void {
    if (this.isTried(choice)) return
    this.#tried[this.#at(choice)] = 1
    this.left -= 1
  }

  #at(choice: readonly number[]): number {
    return (choice[this.second] ?? 0) * this.width + (choice[this.first] ?? 0)
  }
}

/**
 * Combinations of indices, one for each axis. `sizes` says how many values each axis has; none is 0. The first combination has
 * the first value of each axis. The same sizes give the same combinations.
 */
export function allPairs(sizes: readonly number[]): readonly (readonly number[])[] {
  const [first = 1] = sizes
  if (sizes.length < 2) return Array.from({ length: first }, (_, index) => [index])
  const pairs: Pairs[] = []
  for (const [a, width] of sizes.entries()) {
    for (const [b, height] of sizes.entries()) if (a < b) pairs.push(new Pairs(a, b, width, height))
  }
  const found: (readonly number[])[] = []
  const add = (choice: readonly number[]): void => {
    for (const pair of pairs) pair.add(choice)
    found.push(choice)
  }
  add(sizes.map(() => 0))
  while (pairs.some(({ left }) => left > 0)) add(next(sizes, pairs))
  return found
}

/** Begins with a pair that was not tried, and gives each other axis the value that adds most pairs. */
function next(sizes: readonly number[], pairs: readonly Pairs[]): readonly number[] {
  const open = pairs.reduce((most, pair) => (pair.left > most.left ? pair : most))
  const choice = sizes.map(() => 0)
  const decided = new Set([open.first, open.second])
  search: for (let b = 0; b < (sizes[open.second] ?? 0); b += 1) {
    for (let a = 0; a < (sizes[open.first] ?? 0); a += 1) {
      choice[open.first] = a
      choice[open.second] = b
      if (!open.isTried(choice)) break search
    }
  }
  for (const [axis, size] of sizes.entries()) {
    if (decided.has(axis)) continue
    decided.add(axis)
    const known = pairs.filter(({ first, second }) => decided.has(first) && decided.has(second))
    let [best, most] = [0, -1]
    for (let value = 0; value < size; value += 1) {
      choice[axis] = value
      const adds = known.filter((pair) => !pair.isTried(choice)).length
      if (adds > most) [best, most] = [value, adds]
    }
    choice[axis] = best
  }
  return choice
}

/** All combinations of indices. */
export function product(sizes: readonly number[]): readonly (readonly number[])[] {
  let found: readonly (readonly number[])[] = [[]]
  for (const size of sizes) {
    found = found.flatMap((indices) => Array.from({ length: size }, (_, index) => [...indices, index]))
  }
  return found
}
