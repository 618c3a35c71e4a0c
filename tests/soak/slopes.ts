/** How a figure grows with the operations that were done: a straight line through what was measured. */

export interface Point {
  /** How many operations were done before. */
  readonly operations: number
  readonly value: number
}

export interface Slope {
  /** By how much the line rises for 100 000 operations. */
  readonly rise: number
  /** From 0, where the line says nothing of the points, to 1, where all lie on it. */
  readonly fit: number
  /** From the first point to the last. */
  readonly operations: number
}

const PER = 100_000
/** Of fewer operations noise looks like a slope. */
export const FEWEST = 5000

/** The line of least squares; undefined where fewer than three points say where it lies. */
export function slopeOf(points: readonly Point[]): Slope | undefined {
  if (points.length < 3) return undefined
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
  const [x, y] = [mean(points.map(({ operations }) => operations)), mean(points.map(({ value }) => value))]
  let [xx, xy, yy] = [0, 0, 0]
  for (const { operations, value } of points) {
    xx += (operations - x) ** 2
    xy += (operations - x) * (value - y)
    yy += (value - y) ** 2
  }
  if (xx === 0) return undefined
  // Points of one height lie on their line.
  const all = points.map(({ operations }) => operations)
  return {
    rise: (xy / xx) * PER,
    fit: yy === 0 ? 1 : xy ** 2 / (xx * yy),
    operations: Math.max(...all) - Math.min(...all),
  }
}

/** For a person to read. */
export function toldSlope(slope: Slope | undefined): string {
  if (slope === undefined || slope.operations < FEWEST) return 'too few operations for a slope'
  return `${slope.rise.toFixed(2)} for 100 000 operations (fit ${slope.fit.toFixed(2)})`
}
