/** Numbers as people read them. */

/** Nanoseconds, with three digits. */
export function durationInWords(nanoseconds: number): string {
  if (nanoseconds < 1000) return `${Math.round(nanoseconds)} ns`
  if (nanoseconds < 999_500) return `${(nanoseconds / 1e3).toPrecision(3)} µs`
  if (nanoseconds < 999_500_000) return `${(nanoseconds / 1e6).toPrecision(3)} ms`
  const seconds = nanoseconds / 1e9
  return `${seconds < 999.5 ? seconds.toPrecision(3) : Math.round(seconds)} s`
}

export const timesInWords = (count: number): string => (count === 1 ? 'once' : `${count} times`)
