/** The happens-before order of the steps of a run, and the races: pairs of steps that could have come the other way round. */
import { IntervalMap, upperBound } from '../../foundation/base/interval-map.js'
import type { Touch } from '../../simulator/machine/work.js'
import { type Conflict, conflictOf, type Step } from './steps.js'

/** The latest time of each component that happens before a step. A run has few components, and each step differs from the one before. */
type Times = readonly number[]

interface Epoch {
  readonly component: number
  readonly time: number
  readonly clock: Times
}

/** Two steps, given by their places in the run, that are in conflict and that nothing else orders. */
export interface Race {
  readonly first: number
  readonly second: number
  readonly conflict: Conflict
  /** The past of the second step, without what precedes it only because there is one JavaScript thread. */
  readonly needed: Times
}

/** The component of all steps in which JavaScript runs. The time of a step is 1 more than its place in the run. */
const JAVASCRIPT = 0

export class Causality {
  readonly races: Race[] = []
  readonly #epochs: Epoch[] = []
  /** The indices of the steps of each component. Each step happens after the one before it there. */
  readonly #chains: number[][] = [[]]
  /** The steps with which JavaScript begins to run; `#beginsAt` has them by the number of blocking waits that JavaScript is in. */
  readonly #begins: number[] = []
  readonly #beginsAt = new Map<number, number[]>()
  readonly #memory = new Accesses()
  /** The steps that queried each operation last; `#endedAt` has the step that completed it. Keys are numbers of operations. */
  readonly #lookedAt = new Map<number, number>()
  readonly #endedAt = new Map<number, number>()
  #lastFault: number | undefined

  /** @param from The first step that may be the second one of a race */
  constructor(
    private readonly steps: readonly Step[],
    from = 0,
  ) {
    for (const [place, step] of steps.entries()) {
      const clock = this.#chains.map(() => 0)
      for (const cause of step.causes) this.#include(clock, cause)
      const needed = [...clock]
      if (step.begins && place >= from) this.#raceOfJavascript(place, needed)
      const last = step.javascript ? this.#chains[JAVASCRIPT]?.at(-1) : undefined
      if (last !== undefined) this.#include(clock, last)
      for (const earlier of this.#conflicting(step)) {
        this.#include(needed, earlier)
        if (this.#has(clock, earlier)) continue
        const conflict = conflictOf(steps[earlier] as Step, step)
        if (conflict === undefined) continue
        if (place >= from) this.races.push({ first: earlier, second: place, conflict, needed })
        this.#include(clock, earlier)
      }
      this.#append(place, step, clock)
    }
  }

  /** The processes that could go first if the second step of a race were to come before the first. */
  initials({ first, second, needed }: Race): number[] {
    // The first step of each component that is before the second and not after the first stands for those behind it.
    const moved: number[] = []
    for (const chain of this.#chains) {
      const place = chain[upperBound(chain.length, (at) => chain[at] as number, first)]
      if (place !== undefined && place < second && !this.#comesBefore(first, place)) moved.push(place)
    }
    const initials = moved
      .filter((place) => !moved.some((other) => other !== place && this.#comesBefore(other, place)))
      .sort((a, b) => a - b)
    if (!moved.some((place) => this.#has(needed, place))) initials.unshift(second)
    return initials.map((place) => (this.steps[place] as Step).process)
  }

  #comesBefore(earlier: number, later: number): boolean {
    const { component, time } = this.#epochs[earlier] as Epoch
    return timeBefore(this.#epochs[later] as Epoch, component) >= time
  }

  #has(clock: Times, place: number): boolean {
    const { component, time } = this.#epochs[place] as Epoch
    return (clock[component] ?? 0) >= time
  }

  /** Finds a race of JavaScript, which is one thread: the simulator chose what it does next, and could have chosen another thing first. */
  #raceOfJavascript(place: number, needed: Times): void {
    const step = this.steps[place] as Step
    // A host function can run in any wait; the program goes on where it stopped.
    const others = step.kind === 'run' ? this.#begins : (this.#beginsAt.get(step.depth) ?? [])
    for (let at = others.length - 1; at >= 0; at -= 1) {
      const earlier = others[at] as number
      if (earlier === 0 || this.#has(needed, earlier)) return
      // The end of a wait comes after the ends of the waits before it.
      if (step.kind === 'host' && this.steps[earlier]?.kind === 'host') return
      // A wait inside a host function lets only run what it needs.
      if (step.kind === 'run' && this.steps[earlier]?.runnable?.has(step.process) === false) continue
      this.races.push({ first: earlier, second: place, conflict: 'javascript', needed })
      return
    }
  }

  /** The earlier steps that are in conflict with this one, the last first, without those that another of them comes after. */
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
    clock: Times,
  ): void {
    const component = javascript ? JAVASCRIPT : this.#chainAfter(causes, clock)
    this.#epochs.push({ component, time: place + 1, clock })
    for (const touch of touches) {
      this.#memory.add(touch, place, (earlier) => earlier === place || this.#has(clock, earlier))
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
    this.#chains[component]?.push(place)
  }

  /** A component whose last step comes before this one, preferably that of a cause; or a new component. */
  #chainAfter(causes: readonly number[], clock: Times): number {
    const isOpen = (chain: number): boolean =>
      chain !== JAVASCRIPT && clock[chain] === (this.#chains[chain]?.at(-1) ?? -1) + 1
    for (const cause of causes) {
      const { component } = this.#epochs[cause] as Epoch
      if (isOpen(component)) return component
    }
    for (let chain = 1; chain < this.#chains.length; chain += 1) if (isOpen(chain)) return chain
    return this.#chains.push([]) - 1
  }

  /** Adds a step and all that comes before it. */
  #include(clock: number[], place: number): void {
    const epoch = this.#epochs[place] as Epoch
    const length = Math.max(epoch.clock.length, epoch.component + 1)
    for (let chain = 0; chain < length; chain += 1) {
      const time = timeBefore(epoch, chain)
      if (time > (clock[chain] ?? 0)) clock[chain] = time
    }
  }
}

function timeBefore({ component, time, clock }: Epoch, other: number): number {
  return other === component ? time : (clock[other] ?? 0)
}

/** The step that wrote some bytes last, and those that have read them since, without those that another comes after. */
interface LastAccesses {
  readonly write: number | undefined
  readonly reads: readonly number[]
}

class Accesses {
  readonly #memory = new IntervalMap<LastAccesses>()

  /** Notes that the step at `place` accesses memory. `isPast` says which earlier steps come before it, and need not be kept. */
  add({ pointer, byteLength, writes }: Touch, place: number, isPast: (earlier: number) => boolean): void {
    this.#memory.update(pointer, pointer + byteLength, (old) => {
      if (writes) return { write: place, reads: [] }
      const reads = (old?.reads ?? []).filter((read) => !isPast(read))
      return { write: old?.write, reads: [...reads, place] }
    })
  }

  /** The steps that an access is in conflict with, without those that another of them comes after. */
  *conflicting({ pointer, byteLength, writes }: Touch): Generator<number> {
    for (const { value } of this.#memory.overlapping(pointer, pointer + byteLength)) {
      if (value.write !== undefined) yield value.write
      if (writes) yield* value.reads
    }
  }
}
