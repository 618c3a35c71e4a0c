/**
 * Handles that look like pointers. Each simulation has a range of its own that no allocator maps, so that a handle
 * given to the wrong driver is recognised. As in malloc, what was given back last is handed out first.
 */
type Kind = 'stream' | 'event' | 'context' | 'graph' | 'graphExec'

/** Small enough for a process to have a hundred thousand simulations, one after the other. */
const RANGE = 2 ** 29
let nextRange = 0x1000_0000_0000

const OFFSETS: Readonly<Record<Kind, number>> = {
  context: 0,
  stream: 2 ** 20,
  graph: 2 ** 27,
  graphExec: 3 * 2 ** 26,
  event: 2 ** 28,
}
const SPACING = 32

/** Which simulation's range a handle lies in. */
export const rangeOf = (handle: number): number => Math.floor(handle / RANGE)

/** Takes ranges that no other simulation has, enough for so many bytes. Returns where they begin, and which they are. */
export function takeRanges(byteLength: number): { readonly base: number; readonly ranges: readonly number[] } {
  const base = nextRange
  const count = Math.ceil(byteLength / RANGE)
  nextRange += count * RANGE
  return { base, ranges: Array.from({ length: count }, (_, index) => rangeOf(base) + index) }
}

export class Handles {
  /** Where the range begins. */
  readonly base = nextRange
  readonly #next: Record<Kind, number> = { ...OFFSETS }
  readonly #free: Record<Kind, number[]> = { stream: [], event: [], context: [], graph: [], graphExec: [] }
  readonly #remembered: Record<Kind, Set<number>> = {
    stream: new Set(),
    event: new Set(),
    context: new Set(),
    graph: new Set(),
    graphExec: new Set(),
  }

  constructor() {
    nextRange += RANGE
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
