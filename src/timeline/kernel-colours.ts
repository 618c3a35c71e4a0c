/** Kernels of one name have one colour, the same on the page and in a picture. */
import { RowKind } from './kinds.js'

export const KERNEL_COLOURS = 6

/** Which of the colours each kernel has, by its name or that name's number: in the order in which they first come. */
export function kernelColours<N>(rows: {
  readonly length: number
  readonly kind: Uint8Array
  readonly name: ArrayLike<N>
}): ReadonlyMap<N, number> {
  const colours = new Map<N, number>()
  for (let row = 0; row < rows.length; row += 1) {
    const name = rows.name[row]
    if (rows.kind[row] !== RowKind.KERNEL || name === undefined || colours.has(name)) continue
    colours.set(name, colours.size % KERNEL_COLOURS)
  }
  return colours
}
