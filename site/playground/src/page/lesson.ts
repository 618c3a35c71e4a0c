/** A lesson: a program with a bug, what to look at, and how it is known to be fixed. */
import type { KernelProfile } from 'cuda-streams/sim'
import { type Counts, together } from '../../../../src/tools/timeline/page/kernel-numbers.js'
import type { Explored, Ran } from '../run/messages.js'

export interface Lesson {
  /** In the address. */
  readonly slug: string
  readonly title: string
  /** Paragraphs; code between backticks. */
  readonly text: readonly string[]
  /** What to look at in the page. */
  readonly look: string
  readonly program: string
  readonly fixed: string
  /** What the fixed program exports, as text. */
  readonly expected: Readonly<Record<string, string>>
  /** Where the bug costs time: virtual nanoseconds that the fixed program takes at most. */
  readonly most?: number
  /** Where the bug is how a kernel uses the GPU: which of its numbers are as good as they can be once it is fixed. */
  readonly goal?: keyof typeof GOALS
}

/** What is asked of the numbers of all lines of a program's kernels together. */
const GOALS = {
  sectors: {
    text: 'each request touches as few sectors as can be',
    holds: ({ sectors, idealSectors }: Counts) => sectors === idealSectors,
  },
  bankConflicts: {
    text: 'there are no bank conflicts',
    holds: ({ bankConflicts }: Counts) => bankConflicts === 0,
  },
  divergence: {
    text: 'at most one branch in ten divides a warp',
    holds: ({ branches, divergentBranches }: Counts) => 10 * divergentBranches <= branches,
  },
}

export interface Check {
  readonly text: string
  /** Undefined: not known yet. */
  readonly holds: boolean | undefined
}

export function checksOf(
  { expected, most, goal }: Lesson,
  ran: Ran | undefined,
  explored: Explored | undefined,
  profiles: readonly KernelProfile[] | undefined,
): readonly Check[] {
  const known = <T>(what: T | undefined, test: (what: T) => boolean): boolean | undefined =>
    what === undefined ? undefined : test(what)
  const results = Object.entries(expected).map(([name, value]) => ({
    text: `\`${name}\` is \`${value}\``,
    holds: known(ran, ({ outcome }) => outcome.exports[name] === value),
  }))
  const time = {
    text: `it takes at most ${(most ?? 0) / 1000} µs of virtual time`,
    holds: known(ran, ({ duration }) => duration <= (most ?? 0)),
  }
  const numbers = (goal === undefined ? [] : [GOALS[goal]]).map(({ text, holds }) => ({
    text,
    holds: known(profiles, (all) => all.length > 0 && holds(together(all.flatMap(({ lines }) => lines)))),
  }))
  return [
    { text: 'the sanitizer finds nothing', holds: known(ran, ({ findings }) => findings.length === 0) },
    { text: 'it ends without an error', holds: known(ran, ({ outcome }) => outcome.errors.length === 0) },
    ...results,
    ...(most === undefined ? [] : [time]),
    ...numbers,
    { text: 'all orders agree', holds: known(explored, ({ verdict }) => verdict === 'agree') },
  ]
}
