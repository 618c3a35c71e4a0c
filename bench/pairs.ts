/**
 * Ours and C in one process, in turns. Two processes differ by tens of per cent, by where their memory and threads happen to lie; and so
 * does one process from one moment to the next. Two slices that are neighbours have all of that in common, so their ratio is compared.
 */

/** Nanoseconds of so many calls. It leaves nothing queued. */
export type Burst = (calls: number) => number | Promise<number>

/** What one turn found. */
export interface Pairs {
  /** Nanoseconds of a call, over all slices. */
  readonly ours: number
  readonly c: number
  /** Of each slice of ours and its neighbour of C. */
  readonly ratios: readonly number[]
}

export interface PairOptions {
  /** The most calls between two waits: a hardware queue has 1024 entries, and a call blocks where it is full. */
  readonly mostCalls: number
  /** V8 compiles a row only after many calls; a server has made them long ago. */
  readonly warmUpMs: number
  readonly pairs: number
  /** No pair starts after so many milliseconds, but the first ones. */
  readonly limitMs: number
}

/** Of the calls of a slice. */
const SLICE_NS = 100_000
/** Where few calls fill the queue, a slice is several bursts of them. */
const MOST_BURSTS = 16
const FIRST_PAIRS = 3

/** A slice of one side: calls that take as long as those of the other. */
class Side {
  readonly #burst: Burst
  readonly #mostCalls: number
  #least = Number.POSITIVE_INFINITY
  #calls = 1
  #bursts = 1

  constructor(burst: Burst, mostCalls: number) {
    this.#burst = burst
    this.#mostCalls = mostCalls
  }

  /** Nanoseconds a call. */
  async slice(): Promise<number> {
    let ns = 0
    for (let nth = 0; nth < this.#bursts; nth += 1) ns += await this.#burst(this.#calls)
    return ns / (this.#bursts * this.#calls)
  }

  /** The length of the slices that follow, by one more. */
  async fit(): Promise<void> {
    this.#least = Math.max(1, Math.min(this.#least, await this.slice()))
    const calls = Math.ceil(SLICE_NS / this.#least)
    this.#calls = Math.min(this.#mostCalls, calls)
    this.#bursts = Math.min(MOST_BURSTS, Math.ceil(calls / this.#calls))
  }
}

export async function playPairs(ourBurst: Burst, cBurst: Burst, options: PairOptions): Promise<Pairs> {
  const { mostCalls, warmUpMs, pairs, limitMs } = options
  const [ours, c] = [new Side(ourBurst, mostCalls), new Side(cBurst, mostCalls)]
  const warm = performance.now() + warmUpMs
  do {
    await ours.fit()
    await c.fit()
  } while (performance.now() < warm)
  const found: { ours: number; c: number }[] = []
  const end = performance.now() + limitMs
  while (found.length < pairs && (found.length < FIRST_PAIRS || performance.now() < end)) {
    // Who goes first goes second the next time.
    if (found.length % 2 === 0) found.push({ ours: await ours.slice(), c: await c.slice() })
    else {
      const first = await c.slice()
      found.push({ ours: await ours.slice(), c: first })
    }
  }
  const mean = (side: 'ours' | 'c'): number => found.reduce((sum, pair) => sum + pair[side], 0) / found.length
  return { ours: mean('ours'), c: mean('c'), ratios: found.map((pair) => pair.ours / pair.c) }
}
