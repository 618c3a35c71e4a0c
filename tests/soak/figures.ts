/** What the process has: memory, threads, files, handles that ended threads left, and what keeps its event loop alive. */
import { readdirSync, readFileSync } from 'node:fs'
import { own } from '../../src/foundation/native/c-functions.js'
import type { Machine } from './machine.js'
import { type Slope, slopeOf } from './slopes.js'

const MIB = 2 ** 20
const KIB = 2 ** 10

/** In MiB; undefined where there is none, or where the system does not say. */
interface Memory {
  /** That of the process which is in the machine's memory. */
  readonly process: number
  /** JavaScript's heap, and the array buffers outside of it. */
  readonly heap: number
  readonly outside: number
  /** What the process has taken of the device. */
  readonly device: number | undefined
  /** Page-locked memory: locked by the process, mapped by the NVIDIA driver, or kept by the library for the next request. */
  readonly locked: number | undefined
}

export interface Figures extends Memory {
  readonly threads: number | undefined
  readonly files: number | undefined
  /** Handles of threads that have ended, which are not given back yet. */
  readonly left: number | undefined
}

export type Figure = keyof Figures
export const FIGURES = ['process', 'heap', 'outside', 'device', 'locked', 'threads', 'files', 'left'] as const

/** What there may be more of at the end than there was after the warm-up, when all was in use, and the rise for 100 000 operations. */
export interface Bound {
  readonly more: number
  readonly rise: number
}

/**
 * The process has more or less memory by some hundred MiB as workers begin and end: malloc has an arena for each thread, and the young generation of
 * each grows with its work.
 */
export const BOUNDS: Readonly<Record<Figure, Bound>> = {
  process: { more: 300, rise: 300 },
  heap: { more: 16, rise: 16 },
  outside: { more: 64, rise: 64 },
  device: { more: 64, rise: 64 },
  locked: { more: 64, rise: 64 },
  threads: { more: 4, rise: 4 },
  files: { more: 8, rise: 8 },
  left: { more: 0, rise: 100 },
}

/** Collects garbage first. */
export function figuresOf(machine: Machine): Figures {
  // What is free on the device changes with each process that begins or ends.
  return figuresOfProcess(machine.isSimulated ? undefined : machine.device.memoryPool.reserved / MIB)
}

export function figuresOfProcess(device?: number): Figures {
  globalThis.gc?.()
  const { heapUsed, arrayBuffers, rss } = process.memoryUsage()
  return {
    process: rss / MIB,
    heap: heapUsed / MIB,
    outside: arrayBuffers / MIB,
    device,
    locked: lockedMemory(),
    threads: countIn('/proc/self/task'),
    files: countIn('/proc/self/fd'),
    left: handlesLeft(),
  }
}

/** Handles of threads that have ended; undefined where there is no native layer, which would give them back. */
export function handlesLeft(): number | undefined {
  return ofNativeLayer(() => own().countOwned(0))
}

function ofNativeLayer(ask: () => number): number | undefined {
  try {
    return ask()
  } catch {
    return undefined
  }
}

/** The NVIDIA driver maps page-locked memory as pages of /dev/zero; some systems count it as locked or pinned. */
function lockedMemory(): number | undefined {
  const [status, maps] = [textOf('/proc/self/status'), textOf('/proc/self/maps')]
  if (status === undefined || maps === undefined) return undefined
  let bytes = ofNativeLayer(() => own().bytesKept()) ?? 0
  for (const [, kibibytes] of status.matchAll(/^Vm(?:Lck|Pin):\s*(\d+) kB$/gm)) bytes += Number(kibibytes) * KIB
  for (const [, from = '', to = ''] of maps.matchAll(/^([\da-f]+)-([\da-f]+) .*\/dev\/zero \(deleted\)$/gm))
    bytes += Number.parseInt(to, 16) - Number.parseInt(from, 16)
  return bytes / MIB
}

/** What the figures were after so many operations. */
export interface Sample {
  readonly operations: number
  readonly figures: Figures
}

export interface Growth {
  readonly figure: Figure
  readonly from: number
  readonly to: number
  readonly slope: Slope | undefined
}

/** How each figure that the system tells of grew from the first sample, which is after the warm-up, to the end. */
export function growthOf(samples: readonly Sample[], end: Figures): Growth[] {
  return FIGURES.flatMap((figure) => {
    const points = samples.flatMap(({ operations, figures: { [figure]: value } }) =>
      value === undefined ? [] : [{ operations, value }],
    )
    const [from, to] = [points[0]?.value, end[figure]]
    return from === undefined || to === undefined ? [] : [{ figure, from, to, slope: slopeOf(points) }]
  })
}

/** A slope says something where it is of so many operations, and the samples lie along it. */
const LEAST_OPERATIONS = 100_000
export const LEAST_FIT = 0.5

/** What there is too much of at the end. */
export function failuresOf(growth: readonly Growth[]): string[] {
  return growth.flatMap(({ figure, from, to, slope }) => {
    const { more, rise } = BOUNDS[figure]
    if (to > from + more) return [`${figure} grew from ${short(from)} to ${short(to)}, by more than ${more}`]
    if (slope === undefined || slope.operations < LEAST_OPERATIONS || slope.fit < LEAST_FIT || slope.rise <= rise)
      return []
    return [`${figure} rises by ${short(slope.rise)} for 100 000 operations, by more than ${rise}`]
  })
}

/** For a person to read. */
export function toldFigures(figures: Figures): string {
  const known = FIGURES.flatMap((name) => (figures[name] === undefined ? [] : [`${name} ${short(figures[name])}`]))
  return `${known.join(', ')}, ${process.getActiveResourcesInfo().length} resources`
}

export function short(value: number): string {
  return Number.isInteger(value) ? `${value}` : value.toFixed(1)
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

function countIn(folder: string): number | undefined {
  try {
    return readdirSync(folder).length
  } catch {
    return undefined
  }
}
