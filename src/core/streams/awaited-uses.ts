/**
 * Uses of memory on other streams that the work of a stream comes after, since the program had it wait for them: pairs of the serial
 * number of a stream, and of the number that its latest such use has there. An array with them is never changed.
 */
export type AwaitedUses = readonly number[]

const NO_AWAITED: AwaitedUses = []

/** The uses of memory that later work of a stream comes after, as far as that is known, and so what comes after a record there does. Never changed. */
export class UsesBefore {
  constructor(
    /** The serial number of the stream. */
    readonly serial: number,
    /** How many uses were recorded on it: a use is before what is recorded or awaited there later. */
    readonly place: number,
    /** Uses on other streams that it has waited for. */
    readonly awaited: AwaitedUses,
    /** Whether other code has the stream and could let it capture: then a record may be none of its own work. */
    readonly mayBeCaptured: boolean,
  ) {}
}

export const NO_USES = new UsesBefore(0, 0, NO_AWAITED, false)

/** The most streams of which one knows what it has waited for: a wait that was forgotten costs a free that is put off. */
const MOST_STREAMS = 8

/** Is later work known to come after this use on this stream? */
export function comesAfterUse(awaited: AwaitedUses, serial: number, place: number): boolean {
  for (let at = 0; at < awaited.length; at += 2) if (awaited[at] === serial) return (awaited[at + 1] ?? 0) >= place
  return false
}

/** The same with those that something else comes after. */
export function withUses(awaited: AwaitedUses, { serial, place, awaited: others }: UsesBefore): AwaitedUses {
  let all = awaited
  for (let at = 0; at < others.length; at += 2) all = withUse(all, others[at] ?? 0, others[at + 1] ?? 0)
  return withUse(all, serial, place)
}

function withUse(awaited: AwaitedUses, serial: number, place: number): AwaitedUses {
  if (place === 0 || comesAfterUse(awaited, serial, place)) return awaited
  const all: number[] = []
  for (let at = awaited.length >= 2 * MOST_STREAMS ? 2 : 0; at < awaited.length; at += 2)
    if (awaited[at] !== serial) all.push(awaited[at] ?? 0, awaited[at + 1] ?? 0)
  all.push(serial, place)
  return all
}
