/**
 * Uses of memory on other streams that the work of a stream comes after, since the program had it wait for them: pairs of the serial
 * number of a stream, and of the number that its latest such use has there. An array with them is never changed.
 */
export type AwaitedUses = readonly number[]

export const NO_USES: AwaitedUses = []

/** The most streams of which one knows what it has waited for: a wait that was forgotten costs a free that is put off. */
const MOST_STREAMS = 8

/** Is it known to come after this use on this stream? */
export function comesAfterUse(awaited: AwaitedUses, serial: number, place: number): boolean {
  for (let at = 0; at < awaited.length; at += 2) if (awaited[at] === serial) return (awaited[at + 1] ?? 0) >= place
  return false
}

/** The same with one more. */
export function withUse(awaited: AwaitedUses, serial: number, place: number): AwaitedUses {
  if (place === 0 || comesAfterUse(awaited, serial, place)) return awaited
  const all: number[] = []
  for (let at = awaited.length >= 2 * MOST_STREAMS ? 2 : 0; at < awaited.length; at += 2)
    if (awaited[at] !== serial) all.push(awaited[at] ?? 0, awaited[at + 1] ?? 0)
  all.push(serial, place)
  return all
}
