/** The result of an exploration, as data and as text: where two orders part, and which wait is missing. */

import { streamInCode } from '../../core/stream-names.js'
import { beginning, printableLines } from '../../foundation/base/printable.js'
import { type Touch, touchesOverlap } from '../../simulator/machine/work.js'
import { Causality, type Race } from './causality.js'
import type { Outcome, Run } from './run.js'
import type { Schedule } from './search.js'
import { type Conflict, HOST, type Known, type Step } from './steps.js'

/** One order of a program, and its outcome. */
export interface Order {
  /** The order as text, for `replay()`. */
  readonly schedule: Schedule
  /** The outcome of the program in this order, to be compared with that of another. */
  readonly outcome: Outcome
  /**
   * The steps, one a line: operations with their streams and bytes, and where JavaScript goes on. A long listing is shown only in part in the
   * message.
   */
  readonly listing: string
}

/** Two orders of a program with different outcomes. */
export interface Disagreement {
  /** The order of the default schedule. */
  readonly first: Order
  /** The order with the different outcome. */
  readonly second: Order
  /** The index of the first step, counted from 0, at which they part. */
  readonly step: number
  /** The two steps that have no order, and the wait that would give them one. */
  readonly missing: string
}

/** The result of `explore()`. */
export interface Exploration {
  /**
   * The result in a word. 'agree': all orders that were run have the same outcome. 'disagree': two do not. 'deadlock': under some order the program
   * waits forever. 'unfinished': the program did not come to its end once before `maxMilliseconds` were over.
   */
  readonly verdict: 'agree' | 'disagree' | 'deadlock' | 'unfinished'
  /** Whether every order that could matter was run. If not, and the orders agree, an order that was not run may not. */
  readonly complete: boolean
  /** The reason why `complete` is false though all agree; undefined otherwise. */
  readonly incomplete: string | undefined
  /** The number of times that the program was run to find this. */
  readonly runs: number
  /** The seed by which random orders, and faults with a probability, were picked. */
  readonly seed: number
  /** The outcome of the program in the default schedule. */
  readonly outcome: Outcome
  /** The order in which the program waits forever; undefined unless that is the verdict. */
  readonly deadlock: Order | undefined
  /** The two orders; undefined if all agree, or if every order that was run waits forever. */
  readonly disagreement: Disagreement | undefined
  /** All of this as text, for the message of an assertion. */
  readonly message: string
}

/** The limits that keep a message to a page: lines of each order, lines around a marked one, names of one kind, and characters of a value. */
const MOST_LINES = 24
const BESIDE = 2
const MOST_LIKE = 5
const LONGEST_LINE = 200
/** The characters of what a deadlock is: the way out comes last in it. */
const LONGEST_REASON = 1000

/** The text of a report. */
export function messageOf(exploration: Omit<Exploration, 'message'>, hasFaults: boolean): string {
  // The values that the program returns or throws are its own text, of any length.
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
      : `A wait can never end: ${cut(deadlock.outcome.value, LONGEST_REASON)} (${found})\n${replayIt(deadlock)}\n${excerpt(deadlock.listing, 'deadlock.listing')}`
  }
  const { first, second, step, missing } = disagreement
  const counts = differing(first.listing.split('\n'), second.listing.split('\n'))
  return [
    `Two orders disagree (${found})`,
    `  ${replayIt(first)}: ${brief(first.outcome)}`,
    `  ${replayIt(second)}: ${brief(second.outcome)}`,
    ...differencesOf(first.outcome, second.outcome),
    `The orders differ from step ${step}. ${missing}`,
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

function cut(text: string, longest = LONGEST_LINE): string {
  const line = text.replaceAll(/\s+/g, ' ')
  return line.length > longest ? `${beginning(line, longest - 3)}...` : line
}

function few(lines: readonly string[]): readonly string[] {
  return lines.length > MOST_LIKE ? [...lines.slice(0, MOST_LIKE), `  and ${lines.length - MOST_LIKE} more`] : lines
}

/** The text of how many steps differ, if there are too many to compare. */
function differing(first: readonly string[], second: readonly string[]): string {
  if (Math.max(first.length, second.length) <= MOST_LINES) return ''
  const places = [...first.keys()].filter((place) => first[place]?.slice(2) !== second[place]?.slice(2))
  return ` (of ${first.length} steps ${places.length} differ, the last of them step ${places.at(-1) ?? 0})`
}

/** The lines that are marked, those beside them, and the last. `where` is the property that has all lines. */
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

export interface Explained {
  /** The index of the first step that differs. */
  readonly step: number
  readonly missing: string
  readonly defaultListing: string
  /** The steps of the other order. */
  readonly listing: string
}

/** The kinds of conflict; the one that shows most of a mistake comes first. */
const CONFLICTS: readonly Conflict[] = ['memory', 'javascript', 'look', 'fault']

export function explain(baseline: Run, other: Run): Explained {
  const step = firstDifference(baseline, other)
  const places = new Map(keysOf(baseline).map((key, place) => [key, place]))
  const defaultPlaces = keysOf(other).map((key) => places.get(key))
  const race = raceBetween(other, defaultPlaces)
  const pair = race === undefined ? [] : [race.first, race.second]
  return {
    step,
    missing:
      race === undefined
        ? 'The two differ in many places; no single missing wait explains them.'
        : adviceOn(other, race),
    defaultListing: listingOf(
      baseline,
      step,
      pair.flatMap((place) => defaultPlaces[place] ?? []),
    ),
    listing: listingOf(other, step, pair),
  }
}

function firstDifference(baseline: Run, other: Run): number {
  const at = other.steps.findIndex(({ process, kind }, place) => {
    const step = baseline.steps[place]
    return step === undefined || step.process !== process || step.kind !== kind
  })
  return at < 0 ? other.steps.length - 1 : at
}

/** A race of the other order that the default one has the other way round. */
function raceBetween(other: Run, defaultPlaces: readonly (number | undefined)[]): Race | undefined {
  const turned = new Causality(other.steps).races.filter(({ first, second }) => {
    const [a, b] = [defaultPlaces[first], defaultPlaces[second]]
    return a !== undefined && b !== undefined && a > b
  })
  const rank = ({ conflict }: Race): number => CONFLICTS.indexOf(conflict)
  return turned.sort((a, b) => rank(a) - rank(b) || a.second - b.second)[0]
}

/** A name for each step, which is the same in other orders. */
function keysOf({ steps, operations }: Run): string[] {
  let goesOn = 0
  return steps.map(({ kind, process }) => {
    if (process === HOST) {
      goesOn += 1
      return `host ${goesOn}`
    }
    const known = operations.get(process)
    return known === undefined ? `${process}` : `${kind} ${known.what} ${known.nth} ${known.stream}`
  })
}

function adviceOn(run: Run, { first, second, conflict }: Race): string {
  const pair = [run.steps[first] as Step, run.steps[second] as Step] as const
  // The program probably means the step that it asked for first to come first.
  const [earlier, later] = askedFor(run, pair[0]) <= askedFor(run, pair[1]) ? pair : [pair[1], pair[0]]
  const [a, b] = [describeStep(run, earlier), describeStep(run, later)]
  const why = `${a} and ${b} have no order: ${reasonOf(conflict, earlier, later)}.`
  return `${why}\nMissing: ${waitFor(run, earlier, later, conflict)}`
}

function askedFor({ steps, operations }: Run, step: Step): number {
  const known = operations.get(step.process) ?? operations.get(step.inside)
  return known === undefined ? steps.indexOf(step) : known.queuedAt + known.operation.sequence / 2 ** 40
}

function reasonOf(conflict: Conflict, a: Step, b: Step): string {
  if (conflict === 'memory') {
    return `both have to do with ${sharedBytes(a.touches, b.touches) ?? 'the same memory'}`
  }
  if (conflict === 'look') return 'the program asks how far it is, and does what follows from the answer'
  return conflict === 'fault' ? 'one of them loses the device' : 'both run JavaScript, which may share variables'
}

function waitFor(run: Run, earlier: Step, later: Step, conflict: Conflict): string {
  const before = run.operations.get(earlier.process) ?? run.operations.get(earlier.inside)
  if (before === undefined) return `an order between the program and ${describeStep(run, later)}`
  const after =
    later.kind === 'settle' ? undefined : run.operations.get(later.inside === HOST ? later.process : later.inside)
  if (after === undefined) {
    const instead = conflict === 'look' ? ' instead of asking' : ''
    const where = later.site === undefined ? '' : ` before ${later.site}`
    const stream = streamInCode(before.stream)
    return `the program has to wait for ${before.stream}${instead}, by \`await ${stream}.finished()\` or \`${stream}.synchronize()\`${where}`
  }
  const where = `before its ${after.what}${at(after.site)}`
  if (before.stream === after.stream) return `a dependency inside the graph, ${where}`
  return `${after.stream} has to wait for ${before.stream}, by \`${streamInCode(after.stream)}.wait(${streamInCode(before.stream)})\` ${where}`
}

const at = (site: string | undefined): string => (site === undefined ? '' : ` at ${site}`)

function sharedBytes(some: readonly Touch[], others: readonly Touch[]): string | undefined {
  const [a, b] = touchesOverlap(some, others) ?? []
  if (a === undefined || b === undefined) return undefined
  const pointer = Math.max(a.pointer, b.pointer)
  const end = Math.min(a.pointer + a.byteLength, b.pointer + b.byteLength)
  return pointer < end ? bytesOf({ pointer, byteLength: end - pointer }) : undefined
}

const bytesOf = ({ pointer, byteLength }: Omit<Touch, 'writes'>): string =>
  `${byteLength} byte(s) at 0x${pointer.toString(16)}`

function describeStep({ operations }: Run, step: Step): string {
  const known = operations.get(step.process) ?? operations.get(step.inside)
  if (known === undefined) return `the program${at(step.site)}`
  if (step.kind === 'settle') return `what awaits ${known.stream}${at(step.site ?? known.site)}`
  return `${describeKnown(known)}${at(known.site)}`
}

const describeKnown = ({ what, nth, stream }: Known): string => `${what}${nth > 1 ? ` (no. ${nth})` : ''} on ${stream}`

/** The listing with one line a step; `>` marks where the orders part, `*` the two steps that have no order. */
function listingOf(run: Run, parts: number, races: readonly number[]): string {
  const lines = run.steps.map((step, place) => {
    const mark = `${place === parts ? '>' : ' '}${races.includes(place) ? '*' : ' '}`
    return `${mark}${String(place).padStart(4)}  ${lineOf(run, step)}`
  })
  return lines.join('\n')
}

function lineOf(run: Run, step: Step): string {
  const known = run.operations.get(step.process)
  if (known === undefined) {
    const inside = run.operations.get(step.inside)
    return `${inside === undefined ? 'the program' : describeKnown(inside)} goes on${at(step.site)}`
  }
  const { touches, site } = known
  if (step.kind === 'settle') return `a promise is settled: ${known.stream} is done${at(site)}`
  const memory = touches.map((touch) => `${touch.writes ? 'writes' : 'reads'} ${bytesOf(touch)}`)
  return [`${describeKnown(known)}${at(site)}`, ...memory].join(', ')
}
