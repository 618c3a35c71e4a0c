/**
 * How a device's multiprocessors are split. CUDA splits them into groups that are all alike, and makes a context of one or
 * more of them; so the groups are as large as the parts that are wanted allow.
 */

export interface MultiprocessorGroups {
  /** The number of multiprocessors of each group. */
  readonly size: number
  /** The number of groups of each part. */
  readonly counts: readonly number[]
}

/** `least` and `step`: the smallest group that the device has, and that of which all are multiples. */
export function multiprocessorGroups(wanted: readonly number[], least: number, step: number): MultiprocessorGroups {
  const sizes = wanted.map((count) => Math.max(least, roundedUp(count, step)))
  const [first = least] = sizes
  if (sizes.every((size) => size === first)) return { size: first, counts: sizes.map(() => 1) }
  const whole = wanted.map((count) => roundedUp(count, roundedUp(least, step)))
  const size = whole.reduce(greatestDivisor)
  return { size, counts: whole.map((count) => count / size) }
}

const roundedUp = (count: number, step: number): number => Math.ceil(count / step) * step

const greatestDivisor = (a: number, b: number): number => (b === 0 ? a : greatestDivisor(b, a % b))
