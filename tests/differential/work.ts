/** Pieces of work, as the rules see them: what they do with memory, and what comes before them. */
export interface Access {
  readonly cell: number
  readonly read: boolean
  readonly write: boolean
}

/** A host function, what touches memory, or work of which only matters whether it is done: latches, records and waits. */
export interface Work {
  /** Of a graph within a graph: what is in it. */
  readonly within?: readonly Node[]
  /**
   * What it is in a graph, where that is not what it does: a copy within the host is a host function there, and nobody has
   * measured what becomes of a copy of rows, of a value, or of another library's work, that is updated to be something else.
   */
  readonly node?: 'host' | 'rows' | 'value' | 'external' | undefined
  /** Of a host function: what it logs. */
  readonly label?: string
  readonly accesses?: readonly Access[]
  /** Its result is promised by nobody, as that of a kernel between places that overlap. */
  readonly undefinedResult?: boolean
  /** An event that each launch of the graph records here, or waits for. */
  readonly records?: number
  readonly waitsFor?: number
}

/** Captured work, and the places of the nodes that it comes after. */
export interface Node {
  readonly work: Work
  readonly after: ReadonlySet<number>
}

/** The work of all nodes, with that of graphs within them. */
export function worksOf(nodes: readonly Node[]): Work[] {
  return nodes.flatMap(({ work }) => (work.within === undefined ? [work] : worksOf(work.within)))
}

export interface Queued {
  readonly work: Work
  readonly stream: number
  /** All work that comes before it, and itself. */
  readonly upTo: bigint
}

/** The set that holds one piece of work. */
export const bit = (id: number): bigint => (id < 0 ? 0n : 1n << BigInt(id))

/** Does the order of these two matter? */
export function collide(a: Work, b: Work): boolean {
  return Boolean(
    a.accesses?.some((one) => b.accesses?.some((two) => one.cell === two.cell && (one.write || two.write))),
  )
}

/** What work does with so many cells, from one on. */
export function accessesOf(first: number, cells: number, how: Omit<Access, 'cell'>): Access[] {
  return Array.from({ length: cells }, (_, index) => ({ cell: first + index, ...how }))
}
