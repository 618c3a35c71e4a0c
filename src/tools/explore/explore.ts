/** Finds an order that changes what a program observes, or reports that none does. */

import { checkFaults, type Fault } from '../../core/simulation.js'
import { checkFunction, checkInteger, readOptions } from '../../foundation/base/arguments.js'
import { MOST_DEVICES } from '../../foundation/base/environment-variables.js'
import { describe, invalidValue } from '../../foundation/base/errors.js'
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { ProgressLine } from '../../foundation/base/standard-error.js'
import { Ranges } from '../../simulator/handles.js'
import { type Explained, type Exploration, explain, messageOf, type Order } from './exploration.js'
import { type Conditions, type ExploredProgram, type Run, runOnce, sameOutcome } from './run.js'
import { deviationsOf, parseSchedule, priorityOrder, Route, type Schedule, Search, uniformOrder } from './search.js'
import type { Picker } from './steps.js'

/** The way in which orders are picked; `ExploreOptions` describes each. */
export type Strategy = 'auto' | 'reduced' | 'every' | 'priority' | 'uniform'

/** The options of an exploration: the machine that a program is run on, how often, and in which orders. */
export interface ExploreOptions {
  /** The number of devices of the simulation, from 1 to 64. Default 1. */
  readonly devices?: number | undefined
  /**
   * The number of runs at most to find something, at least 1. Default 1000. Making the found order shorter takes up to about two hundred runs more,
   * which do not count.
   */
  readonly maxRuns?: number | undefined
  /**
   * No run of the search begins later than so many milliseconds from the call, an integer, and one that is under way
   * then is given up, the first one after a second at least: in the event loop, and by an error from the program's next
   * call to the library. A loop that makes no calls cannot be ended. Default: no limit.
   */
  readonly maxMilliseconds?: number | undefined
  /** The seed that picks the orders that are taken at random: an integer. Default 1. */
  readonly seed?: number | undefined
  /**
   * The strategy. 'reduced': every order that could matter, once; 'every': every order; 'priority' and 'uniform': at random, until the budget is
   * spent. Default 'auto': reduced and, if half of the budget is not enough for that, the two random ones in turn.
   */
  readonly strategy?: Strategy | undefined
  /** The faults of every run; the seed decides those that have a probability. Default: none. */
  readonly faults?: readonly Fault[] | undefined
  /**
   * Called after each run of the search; the exploration rejects with what it throws. Default: if standard error is a terminal, a line there that is
   * erased at the end.
   */
  readonly onProgress?: ((progress: ExploreProgress) => void) | undefined
}

/** The progress of an exploration. */
export interface ExploreProgress {
  /** The number of times that the program was run to find something. */
  readonly runs: number
  /** The number of times that the program will be run at most. */
  readonly maxRuns: number
}

/** The options of a replay, to be given as for the exploration that printed the schedule. */
export interface ReplayOptions {
  /** The number of devices, from 1 to 64. Default: as many as the exploration had. */
  readonly devices?: number | undefined
  /** The faults of the run. Default: none. */
  readonly faults?: readonly Fault[] | undefined
  /** The seed that decides which of the faults that have a probability come: an integer. Default 1. */
  readonly seed?: number | undefined
}

const OPTIONS = ['devices', 'maxRuns', 'maxMilliseconds', 'seed', 'strategy', 'faults', 'onProgress'] as const
const MAX_RUNS = 1000
const SEED = 1
const STRATEGIES: readonly Strategy[] = ['auto', 'reduced', 'every', 'priority', 'uniform']
/** The numbers of steps in a certain order that the random priorities look for. Most bugs need no more. */
const DEPTHS = [2, 3, 4]
/**
 * The most runs that are spent on making an order more like the default one, and the most milliseconds if those are limited.
 */
const SHRINKING_RUNS = 200
const SHRINKING_TIME = 5000

interface Settings extends Conditions {
  readonly maxRuns: number
  readonly strategy: Strategy
  readonly onProgress: ((progress: ExploreProgress) => void) | undefined
}

/**
 * Runs a program in the orders that CUDA's rules allow, on simulations of its own, and compares: its results or errors, the errors of its host functions, and which of these run. Orders that differ only in
 * operations that do not touch each other's memory count once. Stops at the first order that disagrees with the default
 * one. No time passes: how long operations take says nothing of their order.
 *
 * All that the program does must follow from that order: it makes its own streams and buffers, and awaits only the
 * simulation, turns of the event loop that it asks for, and what follows from these. How far the GPU is at such a turn is
 * part of the order. JavaScript that keeps a view of pinned memory, or has registered an array, is taken to use it when a
 * wait or a turn is over, and just after an operation that uses the memory was queued or allowed to go on; at other
 * times only `bytes` and `view()` tell that it looks.
 * @param program A function, sync or async, that gets the simulation.
 * @param options `devices` (default 1), `maxRuns` (default 1000), `strategy` (default 'auto'), and more: see
 * ExploreOptions
 * @throws {Error} (as a rejection) ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_OUT_OF_RANGE for wrong options;
 * ERR_INVALID_ARG_VALUE for a program that does something else in the same order. An error of the program is an
 * outcome.
 */
export async function explore(program: ExploredProgram, options?: ExploreOptions): Promise<Exploration> {
  checkFunction(program, 'program')
  const settings = settingsOf(options)
  const line = new ProgressLine()
  const showRuns = ({ runs, maxRuns }: ExploreProgress): void =>
    line.show(() => `explore(): ${runs} runs of at most ${maxRuns}`)
  try {
    return await exploreWith(program, settings, settings.onProgress ?? showRuns)
  } finally {
    line.erase()
    settings.ranges.giveBack()
  }
}

/**
 * Runs a program in one order that `explore()` has printed. An error of the program is the outcome.
 * @param program The program that was explored.
 * @param schedule The text that `explore()` printed.
 * @param options `devices`, `faults` and `seed`, as the exploration had them
 * @throws {Error} (as a rejection) ERR_INVALID_ARG_VALUE for a text that is no schedule, or none of this program;
 * ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE
 */
export async function replay(program: ExploredProgram, schedule: Schedule, options?: ReplayOptions): Promise<Order> {
  checkFunction(program, 'program')
  const parsed = parseSchedule(schedule)
  const route = new Route(parsed.deviations)
  const given = readOptions(options, ['devices', 'seed', 'faults'])
  const conditions = { ...checkConditions(given, parsed.devices), deadline: Number.POSITIVE_INFINITY }
  let run: Run
  try {
    run = await runOnce(program, conditions, route.pick, true)
  } finally {
    conditions.ranges.giveBack()
  }
  if (route.fits) return orderOf(run, explain(run, run))
  const why = 'it belongs to another one, or the program has changed. Run explore() again'
  throw invalidValue(`The schedule '${schedule}' does not fit this program: ${why}`)
}

async function exploreWith(
  program: ExploredProgram,
  settings: Settings,
  onProgress: (progress: ExploreProgress) => void,
): Promise<Exploration> {
  const { maxRuns, deadline, strategy } = settings
  const search = new Search(strategy !== 'every')
  const searches = strategy === 'auto' || strategy === 'reduced' || strategy === 'every'
  const mostSearched = strategy === 'auto' ? Math.ceil(maxRuns / 2) : maxRuns
  const baseline = await runOnce(program, settings, searches ? search.pick : new Route([]).pick)
  if (baseline.outcome.kind === 'unfinished') return unfinished(settings, baseline)
  const differs = (run: Run): boolean => run.outcome.kind === 'deadlock' || !sameOutcome(run.outcome, baseline.outcome)
  let found = baseline.outcome.kind === 'deadlock' ? baseline : undefined
  let { gap } = baseline
  let runs = 0
  const count = (): void => {
    runs += 1
    onProgress({ runs, maxRuns })
  }
  count()
  const goesOn = (): boolean => found === undefined && runs < maxRuns && monotonicTime() < deadline
  let left = searches && search.next(baseline.steps)
  while (left && goesOn() && runs < mostSearched) {
    const run = await runOnce(program, settings, search.pick)
    if (run.outcome.kind === 'unfinished') break
    count()
    gap ??= run.gap
    // An event that cannot be held back arrives at a time of its own, so two runs of one order may differ.
    if (search.strayed !== undefined && gap === undefined) throw strayed(search.strayed)
    if (search.strayed !== undefined) break
    if (!search.redundant && differs(run)) found = run
    left = search.next(run.steps)
  }
  const samples = (!searches || left) && strategy !== 'reduced' && strategy !== 'every'
  for (let nth = 0; samples && goesOn(); nth += 1) {
    const run = await runOnce(program, settings, randomPicker(settings, nth, baseline.steps.length))
    if (run.outcome.kind === 'unfinished') break
    count()
    if (differs(run)) found = run
  }
  const spent = runs < maxRuns && monotonicTime() >= deadline ? 'maxMilliseconds' : 'maxRuns'
  const budget = searches && !left ? undefined : searches ? `${spent} was too little` : `strategy is '${strategy}'`
  return report(program, settings, baseline, found, { incomplete: gap ?? budget, runs })
}

function randomPicker({ seed, strategy }: Settings, nth: number, steps: number): Picker {
  const uniform = strategy === 'uniform' || (strategy === 'auto' && nth % 2 === 1)
  const seedOfRun = seed + nth
  return uniform ? uniformOrder(seedOfRun) : priorityOrder(seedOfRun, DEPTHS[nth % DEPTHS.length] ?? 2, steps)
}

/** The report if not one order was run to its end. */
function unfinished({ seed }: Settings, { outcome }: Run): Exploration {
  const message = `The program did not come to its end once before maxMilliseconds were over (seed ${seed})`
  const nothing = { complete: false, incomplete: undefined, deadlock: undefined, disagreement: undefined }
  return { ...nothing, verdict: 'unfinished', runs: 1, seed, outcome, message }
}

async function report(
  program: ExploredProgram,
  settings: Settings,
  baseline: Run,
  found: Run | undefined,
  { incomplete, runs }: Pick<Exploration, 'incomplete' | 'runs'>,
): Promise<Exploration> {
  const { seed } = settings
  const complete = incomplete === undefined
  const about = { complete, incomplete, runs, seed, outcome: baseline.outcome }
  if (found === undefined) {
    const agreement = runs === 1 ? 'One order was run' : `All ${runs} orders that were run agree`
    const others = complete
      ? `: no other could matter (seed ${seed})`
      : `, and there may be more (seed ${seed}): ${incomplete}`
    const message = `${agreement}${others}`
    return { ...about, verdict: 'agree', deadlock: undefined, disagreement: undefined, message }
  }
  const shrunk = found === baseline ? baseline : await shrink(program, settings, baseline, found)
  // Runs both orders once more, to record the places in the program from which the library was called.
  const again = ({ steps }: Run): Promise<Run> => runOnce(program, settings, new Route(deviationsOf(steps)).pick, true)
  const [first, second] = [await again(baseline), await again(shrunk)]
  const explained = explain(first, second)
  const verdict = found.outcome.kind === 'deadlock' ? 'deadlock' : 'disagree'
  const deadlock = verdict === 'deadlock' ? orderOf(second, explained) : undefined
  const disagreement =
    sameOutcome(first.outcome, second.outcome) || first.outcome.kind === 'deadlock'
      ? undefined
      : {
          first: { ...orderOf(first, explained), listing: explained.defaultListing },
          second: orderOf(second, explained),
          step: explained.step,
          missing: explained.missing,
        }
  const exploration = { ...about, complete: false, incomplete: undefined, verdict, deadlock, disagreement } as const
  return { ...exploration, message: messageOf(exploration, settings.faults.length > 0) }
}

function strayed(place: number): Error {
  return invalidValue(
    `The program did something different at step ${place} than in the run before: all that it does must follow from the order that the simulator takes, and not from clocks, random numbers, files, or what an earlier run has left behind`,
  )
}

function orderOf({ schedule, outcome }: Run, { listing }: Explained): Order {
  return { schedule, outcome, listing }
}

/** Leaves out deviations that the difference does not need. */
async function shrink(program: ExploredProgram, conditions: Conditions, baseline: Run, found: Run): Promise<Run> {
  let best = found
  let deviations = deviationsOf(best.steps)
  let runs = 0
  const until = Math.max(conditions.deadline, monotonicTime() + SHRINKING_TIME)
  const differs = ({ outcome }: Run): boolean =>
    found.outcome.kind === 'deadlock'
      ? outcome.kind === 'deadlock'
      : outcome.kind !== 'unfinished' && !sameOutcome(outcome, baseline.outcome)
  for (let size = Math.ceil(deviations.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < deviations.length && runs < SHRINKING_RUNS && monotonicTime() < until; ) {
      const route = new Route([...deviations.slice(0, at), ...deviations.slice(at + size)])
      const run = await runOnce(program, conditions, route.pick)
      runs += 1
      const fewer = deviationsOf(run.steps)
      if (differs(run) && fewer.length < deviations.length) {
        best = run
        deviations = fewer
      } else at += size
    }
  }
  return best
}

function settingsOf(options: ExploreOptions | undefined): Settings {
  const given = readOptions(options, OPTIONS)
  const { maxRuns = MAX_RUNS, maxMilliseconds, strategy = 'auto', onProgress } = given
  if (onProgress !== undefined) checkFunction(onProgress, 'options.onProgress')
  if (!STRATEGIES.includes(strategy)) {
    throw invalidValue(`options.strategy must be one of ${STRATEGIES.join(', ')}, not ${describe(strategy)}`)
  }
  const limit = maxMilliseconds === undefined ? undefined : checkInteger(maxMilliseconds, 'options.maxMilliseconds', 0)
  return {
    ...checkConditions(given, 1),
    maxRuns: checkInteger(maxRuns, 'options.maxRuns', 1),
    deadline: monotonicTime() + (limit ?? Number.POSITIVE_INFINITY),
    strategy,
    onProgress,
  }
}

function checkConditions(options: ReplayOptions, defaultDevices: number): Omit<Conditions, 'deadline'> {
  const { devices = defaultDevices, seed = SEED, faults } = options
  return {
    devices: checkInteger(devices, 'options.devices', 1, MOST_DEVICES),
    seed: checkInteger(seed, 'options.seed'),
    faults: checkFaults(faults, 'options.faults'),
    ranges: new Ranges(),
  }
}
