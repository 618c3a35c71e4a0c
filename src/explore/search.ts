/**
 * Every order that could matter, once: dynamic partial-order reduction with source sets and sleep sets (Abdulla, Aronis,
 * Jonsson and Sagonas, 2014). A run is analysed; where two steps could have come the other way round, with a difference that
 * could be observed, a later run takes that way. The program is run anew for each order.
 */
import type { Choice } from '../driver/sim/machine/chosen-scheduler.js'
import { Causality } from './causality.js'
import { type Picker, processOf, usualChoice } from './step-recorder.js'
import { conflictOf, type Step } from './steps.js'

/** A place of the run at which a process was chosen. */
interface Fork {
  chosen: number
  /** All that could have been chosen. */
  readonly options: readonly number[]
  /** Those that have to be chosen here in some run. */
  readonly wanted: Set<number>
  /** Those that have been chosen, with all orders behind them. */
  readonly done: Map<number, Step>
  /** Those that lead only to orders that were run elsewhere. */
  readonly asleep: ReadonlyMap<number, Step>
}

export class Search {
  #forks: Fork[] = [{ chosen: 0, options: [0], wanted: new Set(), done: new Map(), asleep: new Map() }]
  /** The place at which the run under way leaves those before it. */
  #from = 0
  /** The run under way has come to a place behind which all orders are known. */
  redundant = false
  /** The place where a run went another way than the one before it, though all choices were the same. */
  strayed: number | undefined

  /** `reduces` false: all orders, one by one. */
  constructor(private readonly reduces = true) {}

  readonly pick: Picker = (choices, place, steps) => {
    if (this.redundant) return usualChoice(choices)
    const fork = this.#forks[place] ?? this.#fork(choices, place, steps)
    if (fork === undefined) return usualChoice(choices)
    const chosen = choices.find((choice) => processOf(choice) === fork.chosen)
    if (chosen !== undefined) return chosen
    this.strayed ??= place
    this.redundant = true
    return usualChoice(choices)
  }

  /** Takes in the steps of the run that is over. False where no order is left. */
  next(steps: readonly Step[]): boolean {
    for (let place = this.#from; place < this.#forks.length; place += 1) {
      const fork = this.#forks[place] as Fork
      fork.done.set(fork.chosen, steps[place] as Step)
    }
    this.#want(steps)
    this.redundant = false
    for (let place = this.#forks.length - 1; place > 0; place -= 1) {
      const fork = this.#forks[place] as Fork
      const next = [...fork.wanted].find((process) => !fork.done.has(process) && !fork.asleep.has(process))
      if (next === undefined) continue
      fork.chosen = next
      this.#forks = this.#forks.slice(0, place + 1)
      this.#from = place
      return true
    }
    return false
  }

  #fork(choices: readonly Choice[], place: number, steps: readonly Step[]): Fork | undefined {
    const asleep = this.#asleepAt(place, steps)
    const awake = choices.filter((choice) => !asleep.has(processOf(choice)))
    if (awake.length === 0) {
      this.redundant = true
      return undefined
    }
    const chosen = processOf(usualChoice(awake))
    const options = choices.map(processOf)
    const fork = { chosen, options, wanted: new Set(this.reduces ? [chosen] : options), done: new Map(), asleep }
    this.#forks.push(fork)
    return fork
  }

  /** Processes that were done before the last step, and do not depend on it, are done here too. */
  #asleepAt(place: number, steps: readonly Step[]): ReadonlyMap<number, Step> {
    const asleep = new Map<number, Step>()
    const last = this.#forks[place - 1]
    const step = steps[place - 1]
    if (!this.reduces || last === undefined || step === undefined) return asleep
    for (const had of [last.asleep, last.done]) {
      for (const [process, its] of had) {
        if (process !== last.chosen && conflictOf(its, step) === undefined) asleep.set(process, its)
      }
    }
    return asleep
  }

  #want(steps: readonly Step[]): void {
    if (!this.reduces) return
    const seen = this.redundant ? steps.slice(0, this.#forks.length) : steps
    for (let place = Math.max(1, this.#from); place < this.#forks.length; place += 1) {
      // An operation that a fault drops has no step of its own that could be found to come earlier.
      const fork = this.#forks[place] as Fork
      if (steps[place]?.faults) for (const option of fork.options) fork.wanted.add(option)
    }
    const causality = new Causality(seen, this.#from)
    for (const race of causality.races) {
      const fork = this.#forks[race.first]
      if (fork === undefined || race.first === 0) continue
      const initials = causality.initials(race).filter((process) => fork.options.includes(process))
      if (initials.some((process) => fork.wanted.has(process))) continue
      const [wanted] = initials
      if (wanted !== undefined) fork.wanted.add(wanted)
      else for (const option of fork.options) fork.wanted.add(option)
    }
  }
}
