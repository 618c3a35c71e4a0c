/** The result of an exploration, as data and for people. */
import type { Outcome } from './outcome.js'
import type { Schedule } from './schedule.js'

/** One order of a program, and its outcome. */
export interface Order {
  /** For `replay()`. */
  readonly schedule: Schedule
  /** Compare it with that of another order. */
  readonly outcome: Outcome
  /** Its steps, one a line: operations with their streams and bytes, and where JavaScript goes on. */
  readonly listing: string
}

/** Two orders of a program with different outcomes. */
export interface Disagreement {
  /** The usual one. */
  readonly first: Order
  /** The one that differs. */
  readonly second: Order
  /** The first step, counted from 0, at which they part. */
  readonly step: number
  /** Which two steps have no order, and which wait would give them one. */
  readonly missing: string
}

/** The result of `explore()`. */
export interface Exploration {
  /**
   * 'agree': all orders that were run come to the same. 'disagree': two do not. 'deadlock': under some order the program
   * waits forever. 'unfinished': it did not come to its end once before `maxMilliseconds` were over.
   */
  readonly verdict: 'agree' | 'disagree' | 'deadlock' | 'unfinished'
  /** Every order that could matter was run. Where it is false, and they agree, an order that was not run may not. */
  readonly complete: boolean
  /** Why `complete` is false where all agree; undefined otherwise. */
  readonly incomplete: string | undefined
  /** How often the program was run to find this. */
  readonly runs: number
  /** The one that random orders, and faults with a probability, were picked by. */
  readonly seed: number
  /** The outcome of the program in the usual order. */
  readonly outcome: Outcome
  /** The order that waits forever; undefined unless that is the verdict. */
  readonly deadlock: Order | undefined
  /** Undefined where all agree, or where every order that was run waits forever. */
  readonly disagreement: Disagreement | undefined
  /** All of this for people: for the message of an assertion. */
  readonly message: string
}

/** A report for people. */
export function messageOf(exploration: Omit<Exploration, 'message'>, hasFaults: boolean): string {
  const { seed, runs, deadlock, disagreement } = exploration
  const found = `found in ${runs} run(s), seed ${seed}`
  const replayIt = ({ schedule }: Order): string =>
    `replay(program, '${schedule}'${hasFaults ? `, { faults, seed: ${seed} }` : ''})`
  if (disagreement === undefined) {
    return deadlock === undefined
      ? found
      : `A wait can never end: ${deadlock.outcome.value} (${found})\n${replayIt(deadlock)}\n${deadlock.listing}`
  }
  const { first, second, step, missing } = disagreement
  return [
    `Two orders disagree (${found})`,
    `  ${replayIt(first)}: ${brief(first.outcome)}`,
    `  ${replayIt(second)}: ${brief(second.outcome)}`,
    ...differencesOf(first.outcome, second.outcome),
    `They part at step ${step}. ${missing}`,
    '',
    'The first order:',
    first.listing,
    '',
    'The second order:',
    second.listing,
  ].join('\n')
}

function differencesOf(first: Outcome, second: Outcome): string[] {
  const only = (a: Outcome, b: Outcome, which: string): string[] =>
    a.ran.filter((name) => !b.ran.includes(name)).map((name) => `  ${name} runs in the ${which} order only`)
  return [...only(first, second, 'first'), ...only(second, first, 'second')]
}

function brief({ kind, value, uncaught }: Outcome): string {
  const line = value.replaceAll(/\s+/g, ' ')
  const text = line.length > 200 ? `${line.slice(0, 197)}...` : line
  return [`${kind} ${text}`, ...uncaught.map((error) => `uncaught ${error}`)].join('; ')
}
