/** What the simulator has counted of a kernel, in words. */
import type { KernelProfile, LineProfile } from '../../../foundation/driver/kernel-profile.js'
import { formatCount, formatShare } from './data.js'

/** The numbers of some lines together. */
export type Counts = Omit<LineProfile, 'file' | 'line' | 'instructions' | 'activeThreads'>

/** One thing that numbers say. */
export interface Statement {
  readonly subject: string
  readonly text: string
  /** The same in a few words, beside a line of code. */
  readonly note: string
  /** What could be spared: sectors, passes over the banks, or divisions of warps. */
  readonly excess: number
}

export const together = (lines: readonly Counts[]): Counts => {
  const sum = (of: (line: Counts) => number): number => lines.reduce((all, line) => all + of(line), 0)
  return {
    branches: sum(({ branches }) => branches),
    divergentBranches: sum(({ divergentBranches }) => divergentBranches),
    globalRequests: sum(({ globalRequests }) => globalRequests),
    sectors: sum(({ sectors }) => sectors),
    idealSectors: sum(({ idealSectors }) => idealSectors),
    sharedRequests: sum(({ sharedRequests }) => sharedRequests),
    wavefronts: sum(({ wavefronts }) => wavefronts),
    bankConflicts: sum(({ bankConflicts }) => bankConflicts),
  }
}

/** The numbers of one line, of several launches together. */
export interface LineCounts {
  readonly file: string | undefined
  readonly line: number
  readonly counts: Counts
}

/** The lines of which there is something to say, each once, in their order. */
export function byLine(lines: readonly LineProfile[]): readonly LineCounts[] {
  const places = new Map<string, LineProfile[]>()
  for (const each of lines) {
    const key = `${each.file ?? ''}:${each.line}`
    const known = places.get(key)
    if (known === undefined) places.set(key, [each])
    else known.push(each)
  }
  return [...places.values()].flatMap((alike) => {
    const [first] = alike
    const counts = together(alike)
    return first === undefined || statementsOf(counts).length === 0 ? [] : [{ ...first, counts }]
  })
}

/** What the numbers say; nothing of what the lines do not do. */
export function statementsOf(counts: Counts): readonly Statement[] {
  return [memoryStatement(counts), sharedStatement(counts), branchStatement(counts)].filter((one) => one !== undefined)
}

function memoryStatement({ globalRequests, sectors, idealSectors }: Counts): Statement | undefined {
  if (globalRequests === 0) return undefined
  const [each, ideal] = [average(sectors, globalRequests), average(idealSectors, globalRequests)]
  const excess = sectors - idealSectors
  return {
    subject: 'global memory',
    text: `${counted(each, 'sector')} a request${excess === 0 ? ', as few as can be' : `; ${ideal} would do`}`,
    note: excess === 0 ? counted(each, 'sector') : `${counted(each, 'sector')}, ${ideal} would do`,
    excess,
  }
}

function sharedStatement({ sharedRequests, wavefronts, bankConflicts }: Counts): Statement | undefined {
  if (sharedRequests === 0) return undefined
  const subject = 'shared memory'
  if (bankConflicts === 0) return { subject, text: 'no bank conflicts', note: 'no bank conflicts', excess: 0 }
  const [each, ideal] = [average(wavefronts, sharedRequests), average(wavefronts - bankConflicts, sharedRequests)]
  const conflicts = counted(average(bankConflicts, sharedRequests), 'bank conflict')
  return {
    subject,
    text: `${conflicts} a request, which takes ${counted(each, 'pass')} where ${ideal} would do`,
    note: conflicts,
    excess: bankConflicts,
  }
}

function branchStatement({ branches, divergentBranches }: Counts): Statement | undefined {
  if (branches === 0) return undefined
  const [all, divided] = [formatCount(branches), formatCount(divergentBranches)]
  const isBest = divergentBranches === 0
  return {
    subject: 'branches',
    text: isBest ? `none of ${all} divides a warp` : `${divided} of ${all} divide a warp`,
    note: isBest ? 'no divergence' : `${divided} of ${all} diverge`,
    excess: divergentBranches,
  }
}

/** What a launch did, as terms and what is said of them: all its lines together, and of what could be better the line in which most could. */
export function launchFacts(profile: KernelProfile): [string, string][] {
  const lines = byLine(profile.lines)
  const facts = statementsOf(together(profile.lines)).map(({ subject, text, excess }): [string, string] => {
    if (excess === 0) return [subject, text]
    const [worst] = lines
      .flatMap((line) => statementsOf(line.counts).map((statement) => ({ ...line, ...statement })))
      .filter((each) => each.subject === subject)
      .sort((a, b) => b.excess - a.excess)
    return [subject, worst === undefined ? text : `${text}; worst in ${lineText(worst)}: ${worst.note}`]
  })
  return [['occupancy', occupancyText(profile)], ...facts]
}

export const lineText = ({ file, line }: Pick<LineProfile, 'file' | 'line'>): string =>
  file === undefined ? `line ${line} of the PTX` : `${file}:${line}`

/** How many blocks a multiprocessor has room for, and how full they make it. */
export function occupancyText({ block, activeBlocks, occupancy }: KernelProfile): string {
  const threads = counted(formatCount(block[0] * block[1] * block[2]), 'thread')
  const fit = `${counted(formatCount(activeBlocks), 'block')} of ${threads} ${activeBlocks === 1 ? 'fits' : 'fit'}`
  return `${formatShare(occupancy)}: ${fit} on a multiprocessor at the same time`
}

/** The quotient with one digit behind the point at most. */
const average = (all: number, count: number): string => formatCount(Math.round((10 * all) / count) / 10)

const counted = (count: string, what: string): string =>
  count === '1' ? `1 ${what}` : `${count} ${what}${what.endsWith('s') ? 'es' : 's'}`
