/**
 * Handles that look like pointers. Each simulation has a range of its own that no allocator maps, so that a handle
 * given to the wrong driver is recognised. As in malloc, what was given back last is handed out first.
 */
type Kind = 'stream' | 'event' | 'context' | 'graph' | 'graphExec'

const RANGE = 2 ** 34
let nextRange = 0x1000_0000_0000

const OFFSETS: Readonly<Record<Kind, number>> = {
  context: 0,
  stream: 2 ** 20,
  graph: 2 ** 31,
  graphExec: 3 * 2 ** 30,
  event: 2 ** 32,
}
const SPACING = 32

/** Which simulation's range a handle lies in. */
export const rangeOf = (handle: number): number => Math.floor(handle / RANGE)

/** Ranges of simulations that are over. */
const givenBack: number[] = []

/**
 * Lets ranges be taken again, in the same order: nobody may use a handle or an address in them any more. A program that
 * is run anew gets the same addresses.
 */
export function giveBackRanges(ranges: readonly number[]): void {
  givenBack.push(...[...ranges].reverse())
}

/** Takes ranges that no other simulation has, enough for so many bytes. Returns where they begin, and which they are. */
export function takeRanges(byteLength: number): { readonly base: number; readonly ranges: readonly number[] } {
  const count = Math.ceil(byteLength / RANGE)
  const again = count === 1 ? givenBack.pop() : undefined
  const base = again === undefined ? nextRange : again * RANGE
  if (again !== undefined) return { base, ranges: [again] }
  nextRange += count * RANGE
  return { base, ranges: Array.from({ length: count }, (_, index) => rangeOf(base) + index) }
}

export class Handles {
  /** Where the range begins. */
  readonly base = takeRanges(RANGE).base
  readonly #next: Record<Kind, number> = { ...OFFSETS }
  readonly #free: Record<Kind, number[]> = { stream: [], event: [], context: [], graph: [], graphExec: [] }
  readonly #remembered: Record<Kind, Set<number>> = {
    stream: new Set(),
    event: new Set(),
    context: new Set(),
    graph: new Set(),
    graphExec: new Set(),
  }

  take(kind: Kind): number {
    const reused = this.#free[kind].pop()
    if (reused !== undefined) {
      this.#remembered[kind].delete(reused)
      return reused
    }
    this.#next[kind] += SPACING
    return this.base + this.#next[kind]
  }

  giveBack(kind: Kind, handle: number): void {
    this.#free[kind].push(handle)
  }

  /** Notes that it was this library that destroyed the object. */
  remember(kind: Kind, handle: number): void {
    this.#remembered[kind].add(handle)
  }

  /** Was it destroyed by this library, and not created again since? */
  remembers(kind: Kind, handle: number): boolean {
    return this.#remembered[kind].has(handle)
  }
}
