/** What the simulator has counted of a kernel, in words. */
import type { KernelProfile, LineProfile } from '../../../foundation/driver/kernel-profile.js'
import { formatCount, formatShare } from './data.js'

/** The numbers of some lines together. */
export type Counts = Omit<LineProfile, 'file' | 'line' | 'instructions' | 'activeThreads'>

/** One thing that numbers say, as a sentence and as a note beside a line of code, and whether it could not be better. */
export interface Statement {
  readonly text: string
  readonly note: string
  readonly isBest: boolean
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
  const isBest = sectors === idealSectors
  return {
    text: `global memory: ${counted(each, 'sector')} a request${isBest ? ', as few as can be' : `; ${ideal} would do`}`,
    note: isBest ? counted(each, 'sector') : `${counted(each, 'sector')}, ${ideal} would do`,
    isBest,
  }
}

function sharedStatement({ sharedRequests, wavefronts, bankConflicts }: Counts): Statement | undefined {
  if (sharedRequests === 0) return undefined
  if (bankConflicts === 0) return { text: 'shared memory: no bank conflicts', note: 'no bank conflicts', isBest: true }
  const [each, ideal] = [average(wavefronts, sharedRequests), average(wavefronts - bankConflicts, sharedRequests)]
  const conflicts = counted(average(bankConflicts, sharedRequests), 'bank conflict')
  return {
    text: `shared memory: ${conflicts} a request, which takes ${counted(each, 'pass')} where ${ideal} would do`,
    note: conflicts,
    isBest: false,
  }
}

function branchStatement({ branches, divergentBranches }: Counts): Statement | undefined {
  if (branches === 0) return undefined
  const [all, divided] = [formatCount(branches), formatCount(divergentBranches)]
  const isBest = divergentBranches === 0
  return {
    text: isBest ? `branches: none of ${all} divides a warp` : `branches: ${divided} of ${all} divide a warp`,
    note: isBest ? 'no divergence' : `${divided} of ${all} diverge`,
    isBest,
  }
}

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
