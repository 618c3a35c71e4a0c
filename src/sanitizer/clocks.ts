/**
 * What comes before what, in numbers: work that runs in order is a strand, its points are counted by ticks, and a clock
 * says how far each strand had come at the latest. What knows a point of a strand knows all that this point knew.
 */

/** For the slot of each strand, the tick up to which everything is before. */
export type Clock = readonly number[]

/** A place in the work of one strand. */
export interface StrandPoint {
  readonly slot: number
  readonly tick: number
  /** All that comes before it, but for its own strand, whose ticks up to this one do. */
  readonly clock: Clock
}

/** The slot of what no strand comes after: a look from outside. Small enough for V8 to keep slots as plain integers. */
export const NOWHERE = 2 ** 30

/** Is `earlier` before `later`, or the same? */
export function isBefore(earlier: StrandPoint, later: StrandPoint): boolean {
  return tickKnown(later, earlier.slot) >= earlier.tick
}

/** Up to which tick of a strand everything is before the point. */
export function tickKnown(point: StrandPoint, slot: number): number {
  if (slot === point.slot) return point.tick
  return slot < point.clock.length ? (point.clock[slot] as number) : 0
}

/** Work that runs in order: a stream, a branch of a graph, or the JavaScript thread. */
export class Strand implements StrandPoint {
  readonly slot: number
  tick: number
  clock: Clock
  /** Where it was when it was asked last: points are asked for again and again. */
  #last: readonly [StrandPoint] | undefined

  constructor({ slot, tick, clock }: StrandPoint) {
    this.slot = slot
    this.tick = tick
    this.clock = clock
  }

  /** All that comes later on this strand comes after the point. */
  join(point: StrandPoint): void {
    if (isBefore(point, this)) return
    const clock = merged(this.clock, point.clock, point.slot + 1)
    if ((clock[point.slot] as number) < point.tick) clock[point.slot] = point.tick
    this.clock = clock
    this.tick += 1
  }

  /** The same for all that a clock knows. False where that is nothing new. */
  joinClock(clock: Clock): boolean {
    if (clock.every((tick, slot) => tickKnown(this, slot) >= tick)) return false
    this.clock = merged(this.clock, clock)
    this.tick += 1
    return true
  }

  /** From here on it knows this, and no more. */
  turnTo(clock: Clock): void {
    if (clock === this.clock) return
    this.clock = clock
    this.tick += 1
  }

  /** It is given work: from now on it stands at the point of that. */
  advance(): this {
    this.tick += 1
    return this
  }

  /** A point of its own for work that the strand is given. */
  next(): StrandPoint {
    return this.advance().point()
  }

  /** Where it is now. */
  point(): StrandPoint {
    return this.points()[0]
  }

  /** The same, as what a record stands for. */
  points(): readonly [StrandPoint] {
    // What it knows changes with its tick.
    if (this.#last?.[0].tick === this.tick) return this.#last
    const { slot, tick, clock } = this
    this.#last = [{ slot, tick, clock }]
    return this.#last
  }
}

/** What either knows, with so many slots at least. */
export function merged(one: Clock, other: Clock, least = 0): number[] {
  const length = Math.max(one.length, other.length, least)
  const clock = new Array<number>(length)
  for (let slot = 0; slot < length; slot += 1) {
    const known = slot < one.length ? (one[slot] as number) : 0
    const more = slot < other.length ? (other[slot] as number) : 0
    clock[slot] = known > more ? known : more
  }
  return clock
}

/** What both know. */
export function common(one: Clock, other: Clock): number[] {
  const length = Math.min(one.length, other.length)
  return Array.from({ length }, (_, slot) => Math.min(one[slot] as number, other[slot] as number))
}

/** All that comes before the point, and the point itself. */
export function knownAt({ slot, tick, clock }: StrandPoint): Clock {
  const known = merged(clock, [], slot + 1)
  known[slot] = tick
  return known
}

/** So many strands that ended are tried: a slot is used again once all of its old strand is known to be done. */
const TRIED = 8
/** So many wait until it is known to the part of JavaScript that begins the next. */
const KEPT = 64

export class Strands {
  /** The JavaScript thread: what it knows to be done. All that it queues comes after that. */
  readonly host = new Strand({ slot: 0, tick: 1, clock: [] })
  /** What it has ever known, whichever part of it: what is to be forgotten goes by that. */
  readonly all: Strand
  #count = 1
  #ended: Strand[] = []

  /** `areCausal`: not all of JavaScript that runs knows the same. */
  constructor(areCausal: boolean) {
    this.all = areCausal ? new Strand({ slot: NOWHERE, tick: 1, clock: [] }) : this.host
  }

  /** Slots in use. */
  get count(): number {
    return this.#count - this.#ended.length
  }

  /** Where a new strand begins. */
  begin(): StrandPoint {
    const { clock } = this.host
    const free = this.#free()
    if (free !== undefined) return { slot: free.slot, tick: free.tick + 1, clock }
    this.#count += 1
    return { slot: this.#count - 1, tick: 1, clock }
  }

  end(strand: Strand): void {
    this.#ended.push(strand)
  }

  #free(): Strand | undefined {
    for (let tried = 0; tried < TRIED; tried += 1) {
      const strand = this.#ended.shift()
      if (strand === undefined) return undefined
      if (isBefore(strand, this.#ended.length < KEPT ? this.host : this.all)) return strand
      this.#ended.push(strand)
    }
    return undefined
  }
}
