/** What a child process says of its cells, a line of JSON each. */
export type Line =
  /** This cell begins: all before it are over. */
  | { readonly is: 'cell'; readonly row: string; readonly cell: number; readonly name: string }
  | { readonly is: 'failure'; readonly row: string; readonly cell: number; readonly what: string }
  /** It cannot be played here. */
  | { readonly is: 'skip'; readonly row: string; readonly cell: number; readonly why: string }
  /** The row is over; `lacks` says why none of it could be played. */
  | { readonly is: 'end'; readonly row: string; readonly lacks?: string }

/** With this code a child ends whose device is of no use to further cells. */
export const UNWELL = 3
