/** Maps intervals of addresses to values: in the order of the addresses, without overlap. */

export interface Interval<V> {
  readonly start: number
  /** The first address behind the interval. */
  readonly end: number
  value: V
}

export class IntervalMap<V> {
  #intervals: Interval<V>[] = []

  /** Makes an empty map. If `isSame` is given, neighbours with the same value become one interval. */
  constructor(private readonly isSame?: (one: V, other: V) => boolean) {}

  /** The number of intervals. */
  get size(): number {
    return this.#intervals.length
  }

  /**
   * Gives each part of these addresses the value that `change` returns for its old value, which is undefined where
   * there was none.
   */
  update(start: number, end: number, change: (old: V | undefined, start: number, end: number) => V): void {
    if (start >= end) return
    const first = this.#firstAfter(start)
    const exact = this.#intervals[first]
    if (exact?.start === start && exact.end === end) {
      exact.value = change(exact.value, start, end)
      return
    }
    const pieces: Interval<V>[] = []
    const add = (from: number, to: number, value: V): void => {
      if (from < to) pieces.push({ start: from, end: to, value })
    }
    let at = start
    let index = first
    for (; index < this.#intervals.length; index += 1) {
      const old = this.#intervals[index] as Interval<V>
      if (old.start >= end) break
      const [from, to] = [Math.max(start, old.start), Math.min(end, old.end)]
      if (at < from) add(at, from, change(undefined, at, from))
      add(old.start, start, old.value)
      add(from, to, change(old.value, from, to))
      add(end, old.end, old.value)
      at = to
    }
    if (at < end) add(at, end, change(undefined, at, end))
    // A new array has the place that it needs, and most maps have one interval.
    if (this.#intervals.length === index - first) this.#intervals = this.#joined(pieces)
    else this.#intervals.splice(first, index - first, ...this.#joined(pieces))
  }

  /** The intervals that reach into these addresses. */
  *overlapping(start: number, end: number): Generator<Interval<V>> {
    if (start >= end) return
    for (let index = this.#firstAfter(start); index < this.#intervals.length; index += 1) {
      const interval = this.#intervals[index] as Interval<V>
      if (interval.start >= end) return
      yield interval
    }
  }

  /** Gives each interval another value; undefined removes it. */
  replaceAll(change: (value: V) => V | undefined): void {
    const left = this.#intervals.flatMap(({ start, end, value }) => {
      const changed = change(value)
      return changed === undefined ? [] : { start, end, value: changed }
    })
    this.#intervals = this.#joined(left)
  }

  /** Adds the intervals of another map, which must not overlap those of this one. */
  addAll(other: IntervalMap<V>): void {
    this.#intervals = [...this.#intervals, ...other.#intervals].sort((a, b) => a.start - b.start)
  }

  clear(): void {
    this.#intervals = []
  }

  #joined(intervals: Interval<V>[]): Interval<V>[] {
    const { isSame } = this
    if (isSame === undefined || intervals.length < 2) return intervals
    const result: Interval<V>[] = []
    for (const interval of intervals) {
      const last = result.at(-1)
      const joins = last !== undefined && last.end === interval.start && isSame(last.value, interval.value)
      if (joins) result[result.length - 1] = { ...last, end: interval.end }
      else result.push(interval)
    }
    return result
  }

  /** The place of the first interval that ends behind an address. */
  #firstAfter(address: number): number {
    return upperBound(this.#intervals.length, (at) => (this.#intervals[at] as Interval<V>).end, address)
  }
}

/** Returns how many of the first `count` numbers, which are in ascending order, are at most `limit`. */
export function upperBound(count: number, numberAt: (index: number) => number, limit: number): number {
  let low = 0
  let high = count
  while (low < high) {
    const middle = (low + high) >> 1
    if (numberAt(middle) <= limit) low = middle + 1
    else high = middle
  }
  return low
}
