/** The result of an exploration, as data and for people. */
import { beginning, printableLines } from '../base/printable.js'
import type { Outcome } from './outcome.js'
import type { Schedule } from './schedule.js'

/** One order of a program, and its outcome. */
export interface Order {
  /** For `replay()`. */
  readonly schedule: Schedule
  /** Compare it with that of another order. */
  readonly outcome: Outcome
  /**
   * Its steps, one a line: operations with their streams and bytes, and where JavaScript goes on. A long one is shown in
   * part only in the message.
   */
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

/** A message is a page at most: so many lines of each order, those beside a marked one, names of one kind, characters. */
const MOST_LINES = 24
const BESIDE = 2
const MOST_LIKE = 5
const LONGEST_LINE = 200

/** A report for people. */
export function messageOf(exploration: Omit<Exploration, 'message'>, hasFaults: boolean): string {
  // Values that the program returns and throws are text of its own.
  return printableLines(textOf(exploration, hasFaults))
}

function textOf(exploration: Omit<Exploration, 'message'>, hasFaults: boolean): string {
  const { seed, runs, deadlock, disagreement } = exploration
  const found = `found in ${runs} run(s), seed ${seed}`
  const replayIt = ({ schedule }: Order): string =>
    `replay(program, '${schedule}'${hasFaults ? `, { faults, seed: ${seed} }` : ''})`
  if (disagreement === undefined) {
    return deadlock === undefined
      ? found
      : `A wait can never end: ${cut(deadlock.outcome.value)} (${found})\n${replayIt(deadlock)}\n${excerpt(deadlock.listing, 'deadlock.listing')}`
  }
  const { first, second, step, missing } = disagreement
  const counts = differing(first.listing.split('\n'), second.listing.split('\n'))
  return [
    `Two orders disagree (${found})`,
    `  ${replayIt(first)}: ${brief(first.outcome)}`,
    `  ${replayIt(second)}: ${brief(second.outcome)}`,
    ...differencesOf(first.outcome, second.outcome),
    `They part at step ${step}. ${missing}`,
    '',
    `The first order${counts}:`,
    excerpt(first.listing, 'disagreement.first.listing'),
    '',
    `The second order${counts}:`,
    excerpt(second.listing, 'disagreement.second.listing'),
  ].join('\n')
}

function differencesOf(first: Outcome, second: Outcome): string[] {
  const only = (a: Outcome, b: Outcome, which: string): readonly string[] => {
    const others = new Set(b.ran)
    const names = a.ran.filter((name) => !others.has(name))
    return few(names.map((name) => `  ${name} runs in the ${which} order only`))
  }
  return [...only(first, second, 'first'), ...only(second, first, 'second')]
}

function brief({ kind, value, uncaught }: Outcome): string {
  return [`${kind} ${cut(value)}`, ...few(uncaught.map((error) => `uncaught ${cut(error)}`))].join('; ')
}

function cut(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ')
  return line.length > LONGEST_LINE ? `${beginning(line, LONGEST_LINE - 3)}...` : line
}

function few(lines: readonly string[]): readonly string[] {
  return lines.length > MOST_LIKE ? [...lines.slice(0, MOST_LIKE), `  and ${lines.length - MOST_LIKE} more`] : lines
}

/** How many steps the orders have that differ, where they are too many to be looked through. */
function differing(first: readonly string[], second: readonly string[]): string {
  if (Math.max(first.length, second.length) <= MOST_LINES) return ''
  const places = [...first.keys()].filter((place) => first[place]?.slice(2) !== second[place]?.slice(2))
  return ` (of ${first.length} steps ${places.length} differ, the last of them step ${places.at(-1) ?? 0})`
}

/** The lines that are marked, those beside them, and the last. `where` is the property that has all. */
function excerpt(listing: string, where: string): string {
  const lines = listing.split('\n')
  if (lines.length <= MOST_LINES) return listing
  const shown = new Set<number>()
  const show = (around: number): void => {
    for (let at = around - BESIDE; at <= around + BESIDE; at += 1) if (at >= 0 && at < lines.length) shown.add(at)
  }
  for (const [at, line] of lines.entries()) if (!line.startsWith('  ')) show(at)
  show(lines.length - 1)
  const result: string[] = []
  let next = 0
  for (const at of [...shown].sort((a, b) => a - b)) {
    if (at > next) result.push(`   ... ${at - next} step(s)`)
    result.push(lines[at] ?? '')
    next = at + 1
  }
  return [...result, `   all ${lines.length} steps: ${where}`].join('\n')
}
