/** Medians and quartiles of samples. */

/** The value below which this part of the samples lies; undefined where there are none. */
export function quantile(values: readonly number[], part: number): number | undefined {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (sorted.length - 1) * part
  const [lower, upper] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]]
  return lower === undefined || upper === undefined ? undefined : lower + (upper - lower) * (at - Math.floor(at))
}

export const median = (values: readonly number[]): number | undefined => quantile(values, 0.5)

export interface Summary {
  readonly median: number
  /** The quarters of the samples that lie below and above. */
  readonly low: number
  readonly high: number
}

export function summaryOf(values: readonly number[]): Summary | undefined {
  const [low, middle, high] = [0.25, 0.5, 0.75].map((part) => quantile(values, part))
  return low === undefined || middle === undefined || high === undefined ? undefined : { median: middle, low, high }
}
