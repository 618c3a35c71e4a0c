/** Which steps of a run come before which in every order that looks the same, and which only happened to. */
import { type Conflict, conflictOf, type Step } from './steps.js'

/** Two steps, by their places, whose order matters and follows from nothing. */
export interface Race {
  readonly first: number
  readonly second: number
  readonly conflict: Conflict
}

/** A set of places of steps. */
class StepSet {
  readonly #words: Uint32Array
  constructor(length: number) {
    this.#words = new Uint32Array((length + 31) >>> 5)
  }
  has(place: number): boolean {
    return (((this.#words[place >>> 5] ?? 0) >>> (place & 31)) & 1) === 1
  }
  add(place: number): void {
    this.#words[place >>> 5] = (this.#words[place >>> 5] ?? 0) | (1 << (place & 31))
  }
  addAll(other: StepSet): void {
    for (let at = 0; at < this.#words.length; at += 1)
      this.#words[at] = (this.#words[at] ?? 0) | (other.#words[at] ?? 0)
  }
}

export class Causality {
  /** For each step: all that comes before it in every order that looks the same. */
  readonly #before: StepSet[] = []
  /** The same without those that only come before it because there is one JavaScript thread. */
  readonly #needed: StepSet[] = []
  readonly races: Race[] = []

  /** Finds the races of which the second step is not before `from`. */
  constructor(
    private readonly steps: readonly Step[],
    from = 0,
  ) {
    let lastJavascript: number | undefined
    for (const [place, step] of steps.entries()) {
      const needed = this.#join(step.causes)
      const before = this.#join(step.javascript && lastJavascript !== undefined ? [lastJavascript] : [], needed)
      this.#needed.push(needed)
      if (step.begins && place >= from) this.#raceOfJavascript(place, needed)
      for (let earlier = place - 1; earlier >= 0; earlier -= 1) {
        if (before.has(earlier)) continue
        const conflict = conflictOf(steps[earlier] as Step, step)
        if (conflict === undefined) continue
        if (place >= from) this.races.push({ first: earlier, second: place, conflict })
        this.#include(before, earlier)
      }
      this.#before.push(before)
      if (step.javascript) lastJavascript = place
    }
  }

  /** Processes that could go first if the second step of a race were to come before the first. */
  initials({ first, second }: Race): number[] {
    const moved: number[] = []
    for (let place = first + 1; place < second; place += 1) if (!this.#comesBefore(first, place)) moved.push(place)
    const initials = moved
      .filter((place, at) => !moved.slice(0, at).some((earlier) => this.#comesBefore(earlier, place)))
      .map((place) => this.#process(place))
    if (!moved.some((place) => this.#holdsUp(place, second))) initials.unshift(this.#process(second))
    return initials
  }

  /** Must it come before the other for another reason than that there is one JavaScript thread? */
  #holdsUp(earlier: number, later: number): boolean {
    if (this.#needed[later]?.has(earlier)) return true
    const conflict = conflictOf(this.steps[earlier] as Step, this.steps[later] as Step)
    return conflict !== undefined && conflict !== 'javascript'
  }

  #process(place: number): number {
    return (this.steps[place] as Step).process
  }

  #comesBefore(earlier: number, later: number): boolean {
    return (this.#before[later] as StepSet).has(earlier)
  }

  /** JavaScript could have done another thing first: it is one thread, and the simulator picked. */
  #raceOfJavascript(place: number, needed: StepSet): void {
    const step = this.steps[place] as Step
    for (let earlier = place - 1; earlier > 0; earlier -= 1) {
      const other = this.steps[earlier] as Step
      // A host function can run in any wait; the program goes on where it stopped.
      if (!other.begins || (step.kind !== 'run' && other.depth !== step.depth)) continue
      if (needed.has(earlier)) return
      // Where a host function waits, only what it needs could have run instead.
      if (step.kind === 'run' && other.runnable?.has(step.process) === false) continue
      this.races.push({ first: earlier, second: place, conflict: 'javascript' })
      return
    }
  }

  #join(places: readonly number[], start?: StepSet): StepSet {
    const joined = new StepSet(this.steps.length)
    if (start !== undefined) joined.addAll(start)
    for (const place of places) this.#include(joined, place)
    return joined
  }

  #include(places: StepSet, place: number): void {
    places.add(place)
    const before = this.#before[place]
    if (before !== undefined) places.addAll(before)
  }
}
