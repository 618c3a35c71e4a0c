/** Where two orders part, and which wait is missing. */
import { type Touch, touchesOverlap } from '../driver/sim/machine/work.js'
import { Causality, type Race } from './causality.js'
import type { Run } from './run.js'
import type { Known } from './step-recorder.js'
import { type Conflict, HOST, type Step } from './steps.js'

export interface Explained {
  /** The first step that differs. */
  readonly step: number
  readonly missing: string
  readonly usualListing: string
  /** Of the other order. */
  readonly listing: string
}

/** The kind that tells most about a mistake comes first. */
const CONFLICTS: readonly Conflict[] = ['memory', 'javascript', 'look', 'fault']

export function explain(usual: Run, other: Run): Explained {
  const step = firstDifference(usual, other)
  const places = new Map(keysOf(usual).map((key, place) => [key, place]))
  const usualPlaces = keysOf(other).map((key) => places.get(key))
  const race = raceBetween(other, usualPlaces)
  const pair = race === undefined ? [] : [race.first, race.second]
  return {
    step,
    missing:
      race === undefined ? 'The two differ in many places; no single wait tells them apart.' : adviceOn(other, race),
    usualListing: listingOf(
      usual,
      step,
      pair.flatMap((place) => usualPlaces[place] ?? []),
    ),
    listing: listingOf(other, step, pair),
  }
}

function firstDifference(usual: Run, other: Run): number {
  const at = other.steps.findIndex(({ process, kind }, place) => {
    const step = usual.steps[place]
    return step === undefined || step.process !== process || step.kind !== kind
  })
  return at < 0 ? other.steps.length - 1 : at
}

/** A race of the other order that the usual one has the other way round. */
function raceBetween(other: Run, usualPlaces: readonly (number | undefined)[]): Race | undefined {
  const turned = new Causality(other.steps).races.filter(({ first, second }) => {
    const [a, b] = [usualPlaces[first], usualPlaces[second]]
    return a !== undefined && b !== undefined && a > b
  })
  const rank = ({ conflict }: Race): number => CONFLICTS.indexOf(conflict)
  return turned.sort((a, b) => rank(a) - rank(b) || a.second - b.second)[0]
}

/** A name for each step that it has in other orders too. */
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
  // The program means the step that it asked for first to come first.
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
    const stream = inCode(before.stream)
    return `the program has to wait for ${before.stream}${instead}, by \`await ${stream}.finished()\` or \`${stream}.synchronize()\`${where}`
  }
  const where = `before its ${after.what}${at(after.site)}`
  if (before.stream === after.stream) return `a dependency inside the graph, ${where}`
  return `${after.stream} has to wait for ${before.stream}, by \`${inCode(after.stream)}.wait(${inCode(before.stream)})\` ${where}`
}

/** As a program could call it: 'stream 2' is no name there. */
function inCode(stream: string): string {
  if (stream.startsWith('the null stream')) return 'Stream.null'
  if (stream.startsWith('the per-thread stream')) return 'Stream.perThread'
  return stream.replace(/^stream (\d+).*/, 'stream$1')
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

/** One line a step; `>` where the orders part, `*` at the two steps that have no order. */
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
