/** The search through the orders: every one that could matter, one that is given, or some at random. */

import { MOST_DEVICES } from '../../foundation/base/environment-variables.js'
import { invalidType, invalidValue } from '../../foundation/base/errors.js'
import type { Choice } from '../../simulator/machine/chosen-scheduler.js'
import type { SimStream } from '../../simulator/machine/machine-state.js'
import { Random } from '../../simulator/machine/random.js'
import { Causality } from './causality.js'
import { conflictOf, defaultChoice, type Picker, processOf, type Step } from './steps.js'

/** A step of the run at which a process was chosen. A process is the host or an operation. */
interface Fork {
  chosen: number
  /** All processes that could have been chosen. */
  readonly options: readonly number[]
  /** The processes that some run must choose here (the source set). */
  readonly wanted: Set<number>
  /** The processes whose orders have all been run. */
  readonly done: Map<number, Step>
  /** The processes that lead only to orders that were run elsewhere (the sleep set). */
  readonly asleep: ReadonlyMap<number, Step>
}

/**
 * The search through every order that could matter, once: dynamic partial-order reduction with source sets and sleep sets (Abdulla, Aronis, Jonsson
 * and Sagonas, 2014). A run is analysed; if two steps could have come the other way round, with a difference that could be observed, a later run
 * takes that way.
 */
export class Search {
  #forks: Fork[] = [{ chosen: 0, options: [0], wanted: new Set(), done: new Map(), asleep: new Map() }]
  /** The step at which the present run parts from the one before it. */
  #from = 0
  /** Whether the present run has come to a step behind which all orders are known. */
  redundant = false
  /** The step at which a run went another way than the one before it, though all choices were the same. */
  strayed: number | undefined

  /** @param reduces Whether orders that cannot differ are left out; if not, all orders are run, one by one */
  constructor(private readonly reduces = true) {}

  readonly pick: Picker = (choices, place, steps) => {
    if (this.redundant) return defaultChoice(choices)
    const fork = this.#forks[place] ?? this.#fork(choices, place, steps)
    if (fork === undefined) return defaultChoice(choices)
    const chosen = choices.find((choice) => processOf(choice) === fork.chosen)
    if (chosen !== undefined) return chosen
    this.strayed ??= place
    this.redundant = true
    return defaultChoice(choices)
  }

  /** Analyses the run that is over. Returns false if no order is left. */
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
    const chosen = processOf(defaultChoice(awake))
    const options = choices.map(processOf)
    const fork = { chosen, options, wanted: new Set(this.reduces ? [chosen] : options), done: new Map(), asleep }
    this.#forks.push(fork)
    return fork
  }

  /** The processes that were done before the last step, and do not depend on it, so that they are done here, too. */
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

/** An order as text, such as '2:5=7,9=0': on two devices, operation 7 at step 5 and the host at step 9. */
export type Schedule = string

export interface Deviation {
  readonly place: number
  readonly process: number
}

export function scheduleOf(devices: number, deviations: readonly Deviation[]): Schedule {
  return `${devices}:${deviations.map(({ place, process }) => `${place}=${process}`).join()}`
}

export function deviationsOf(steps: readonly Step[]): Deviation[] {
  return [...steps.entries()]
    .filter(([, { process, defaultProcess }]) => process !== defaultProcess)
    .map(([place, { process }]) => ({ place, process }))
}

export function parseSchedule(schedule: Schedule): {
  readonly devices: number
  readonly deviations: readonly Deviation[]
} {
  if (typeof schedule !== 'string') throw invalidType('schedule', 'the schedule of an exploration', schedule)
  const [, count, deviations] = /^(\d+):((?:\d+=\d+(?:,\d+=\d+)*)?)$/.exec(schedule) ?? []
  const devices = Number(count)
  if (deviations === undefined || devices < 1 || devices > MOST_DEVICES) {
    throw invalidValue(`schedule must be one that explore() printed, such as '2:5=7,9=0', not '${schedule}'`)
  }
  const pairs = deviations === '' ? [] : deviations.split(',')
  return {
    devices,
    deviations: pairs.map((pair) => {
      const [place, process] = pair.split('=').map(Number) as [number, number]
      return { place, process }
    }),
  }
}

/** Takes the given deviations, and the default choice at all other places. */
export class Route {
  readonly #deviations: ReadonlyMap<number, number>
  readonly #taken = new Set<number>()

  constructor(deviations: readonly Deviation[]) {
    this.#deviations = new Map(deviations.map(({ place, process }) => [place, process]))
  }

  readonly pick: Picker = (choices, place) => {
    const process = this.#deviations.get(place)
    const chosen = choices.find((choice) => processOf(choice) === process)
    if (process === undefined || chosen === undefined) return defaultChoice(choices)
    this.#taken.add(place)
    return chosen
  }

  /** Whether there was something to choose at each of the given steps. */
  get fits(): boolean {
    return this.#taken.size === this.#deviations.size
  }
}

/** A picker that makes each choice with the same probability. It seldom finds a bug that needs one stream to lag far behind. */
export function uniformOrder(seed: number): Picker {
  const random = new Random(seed)
  return (choices) => choices[Math.floor(random.next() * choices.length)] as Choice
}

/**
 * A picker for probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi and Nagarakatte, 2010): the host and each stream have a random
 * priority, which changes at `depth - 1` of about `steps` steps. A bug that needs so many steps in one order is found with a probability of 1 in
 * (streams × steps ^ (depth - 1)), at least.
 */
export function priorityOrder(seed: number, depth: number, steps: number): Picker {
  const random = new Random(seed)
  const priorities = new Map<SimStream | undefined, number>()
  const changes = new Set(Array.from({ length: depth - 1 }, () => 1 + Math.floor(random.next() * steps)))
  let lowest = 0
  const priorityOf = (stream: SimStream | undefined): number => {
    const known = priorities.get(stream)
    if (known !== undefined) return known
    const priority = 1 + random.next()
    priorities.set(stream, priority)
    return priority
  }
  return (choices, place) => {
    const first = choices.reduce((best, choice) =>
      priorityOf(choice.operation?.stream) > priorityOf(best.operation?.stream) ? choice : best,
    )
    if (changes.has(place)) {
      lowest -= 1
      priorities.set(first.operation?.stream, lowest)
    }
    return first
  }
}
