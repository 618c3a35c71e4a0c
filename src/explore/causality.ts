/** Which steps of a run come before which in every order that looks the same, and which only happened to. */
import { Accesses } from './accesses.js'
import { type Conflict, conflictOf, type Step } from './steps.js'

/** Two steps, by their places, whose order matters and follows from nothing. */
export interface Race {
  readonly first: number
  readonly second: number
  readonly conflict: Conflict
  /** What comes before the second for another reason than that there is one JavaScript thread. */
  readonly needed: Clock
}

/**
 * A set of steps with all that come before them. The steps stand in chains, each step after the one before it in its chain:
 * for each chain the place of the last one that is in the set, or -1.
 */
type Clock = number[]

/** All steps in which JavaScript runs. */
const JAVASCRIPT = 0

export class Causality {
  readonly races: Race[] = []
  /** For each step its chain, and what comes before it or is it. */
  readonly #chainOf: number[] = []
  readonly #clocks: Clock[] = []
  /** The places of the steps of each chain. */
  readonly #chains: number[][] = [[]]
  /** Those with which JavaScript begins anew: all, and by how many blocking waits it is in. */
  readonly #begins: number[] = []
  readonly #beginsAt = new Map<number, number[]>()
  readonly #memory = new Accesses()
  /** Of operations, by their numbers: the steps that looked at them last, and that ended them. */
  readonly #lookedAt = new Map<number, number>()
  readonly #endedAt = new Map<number, number>()
  #lastFault: number | undefined

  /** Finds the races of which the second step is not before `from`. */
  constructor(
    private readonly steps: readonly Step[],
    from = 0,
  ) {
    for (const [place, step] of steps.entries()) {
      const clock: Clock = this.#chains.map(() => -1)
      for (const cause of step.causes) this.#include(clock, cause)
      const needed = [...clock]
      if (step.begins && place >= from) this.#raceOfJavascript(place, needed)
      const last = step.javascript ? this.#chains[JAVASCRIPT]?.at(-1) : undefined
      if (last !== undefined) this.#include(clock, last)
      for (const earlier of this.#conflicting(step)) {
        this.#include(needed, earlier)
        if (isIn(clock, this.#chain(earlier), earlier)) continue
        const conflict = conflictOf(steps[earlier] as Step, step)
        if (conflict === undefined) continue
        if (place >= from) this.races.push({ first: earlier, second: place, conflict, needed })
        this.#include(clock, earlier)
      }
      this.#append(place, step, clock)
    }
  }

  /** Processes that could go first if the second step of a race were to come before the first. */
  initials({ first, second, needed }: Race): number[] {
    // Of each chain those that come before the second, and not after the first: the foremost stands for all.
    const moved: number[] = []
    for (const chain of this.#chains) {
      const place = firstAfter(chain, first)
      if (place !== undefined && place < second && !this.#comesBefore(first, place)) moved.push(place)
    }
    const initials = moved
      .filter((place) => !moved.some((other) => other !== place && this.#comesBefore(other, place)))
      .sort((a, b) => a - b)
    if (!moved.some((place) => isIn(needed, this.#chain(place), place))) initials.unshift(second)
    return initials.map((place) => (this.steps[place] as Step).process)
  }

  #comesBefore(earlier: number, later: number): boolean {
    return isIn(this.#clocks[later] as Clock, this.#chain(earlier), earlier)
  }

  #chain(place: number): number {
    return this.#chainOf[place] ?? JAVASCRIPT
  }

  /** JavaScript could have done another thing first: it is one thread, and the simulator picked. */
  #raceOfJavascript(place: number, needed: Clock): void {
    const step = this.steps[place] as Step
    // A host function can run in any wait; the program goes on where it stopped.
    const others = step.kind === 'run' ? this.#begins : (this.#beginsAt.get(step.depth) ?? [])
    for (let at = others.length - 1; at >= 0; at -= 1) {
      const earlier = others[at] as number
      if (earlier === 0 || isIn(needed, JAVASCRIPT, earlier)) return
      // What comes after a wait comes after the waits before it.
      if (step.kind === 'host' && this.steps[earlier]?.kind === 'host') return
      // Where a host function waits, only what it needs could have run instead.
      if (step.kind === 'run' && this.steps[earlier]?.runnable?.has(step.process) === false) continue
      this.races.push({ first: earlier, second: place, conflict: 'javascript', needed })
      return
    }
  }

  /** The steps so far that are in conflict with this one, the last first, but those that another of them comes after. */
  #conflicting({ touches, looks, ended, faults }: Step): readonly number[] {
    const found = new Set<number | undefined>([this.#lastFault])
    for (const touch of touches) for (const place of this.#memory.conflicting(touch)) found.add(place)
    for (const operation of looks) found.add(this.#endedAt.get(operation))
    for (const operation of ended) found.add(this.#lookedAt.get(operation))
    if (faults) for (const chain of this.#chains) found.add(chain.at(-1))
    return [...found].filter((place) => place !== undefined).sort((a, b) => b - a)
  }

  #append(
    place: number,
    { javascript, begins, depth, causes, touches, looks, ended, faults }: Step,
    clock: Clock,
  ): void {
    const chain = javascript ? JAVASCRIPT : this.#chainAfter(causes, clock)
    for (const touch of touches) {
      this.#memory.add(touch, place, (earlier) => isIn(clock, this.#chain(earlier), earlier))
    }
    for (const operation of looks) this.#lookedAt.set(operation, place)
    for (const operation of ended) this.#endedAt.set(operation, place)
    if (faults) this.#lastFault = place
    if (begins) {
      this.#begins.push(place)
      const atDepth = this.#beginsAt.get(depth)
      if (atDepth === undefined) this.#beginsAt.set(depth, [place])
      else atDepth.push(place)
    }
    clock[chain] = place
    this.#chains[chain]?.push(place)
    this.#chainOf.push(chain)
    this.#clocks.push(clock)
  }

  /** A chain of which the last step comes before: that of a cause, or any; or a new one. */
  #chainAfter(causes: readonly number[], clock: Clock): number {
    const isOpen = (chain: number): boolean => chain !== JAVASCRIPT && clock[chain] === this.#chains[chain]?.at(-1)
    for (const cause of causes) if (isOpen(this.#chain(cause))) return this.#chain(cause)
    for (let chain = 1; chain < this.#chains.length; chain += 1) if (isOpen(chain)) return chain
    return this.#chains.push([]) - 1
  }

  /** Adds a step and all that comes before it. */
  #include(clock: Clock, place: number): void {
    const other = this.#clocks[place] as Clock
    for (let chain = 0; chain < other.length; chain += 1) {
      if ((other[chain] as number) > (clock[chain] ?? -1)) clock[chain] = other[chain] as number
    }
  }
}

function isIn(clock: Clock, chain: number, place: number): boolean {
  return (clock[chain] ?? -1) >= place
}

function firstAfter(places: readonly number[], place: number): number | undefined {
  let [low, high] = [0, places.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((places[middle] as number) <= place) low = middle + 1
    else high = middle
  }
  return places[low]
}
