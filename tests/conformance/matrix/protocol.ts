/** What a child process says of its rows, a line of JSON each. */
export type Line =
  | { readonly is: 'failure'; readonly row: string; readonly cell: string; readonly what: string }
  /** The row is over; `lacks` says why none of it could be played. */
  | ({ readonly is: 'end'; readonly row: string; readonly lacks?: string } & Played)

export interface Played {
  readonly played: number
  /** How many cells could not be played there, by the reason. */
  readonly skipped: readonly (readonly [why: string, count: number])[]
}

/**
 * The cell that is being played stands at the beginning of a file, whose descriptor the child has: it is read only when the child
 * has hung or crashed, and to wake the parent for each cell would cost more than to play it.
 */
export const CELL_FILE = 3

export interface Cell extends Played {
  readonly row: string
  readonly index: number
  readonly name: string
}

/** With this code a child ends whose device is of no use to further cells. */
export const UNWELL = 3
